use model::switch::{Actual, PortSettings, Vlan};

use super::*;
use crate::simulated::{Fault, Simulated};

/// A session with a simulated switch, and the ways to it.
struct Bed {
    switch: Simulated,
    asks: mpsc::Sender<Ask>,
    seen: watch::Receiver<Seen>,
    _tasks: Tasks,
}

impl Bed {
    fn new(ports: &[&str], faults: &[Fault]) -> Self {
        let switch = Simulated::with_ports(ports);
        switch.state.lock().faults = faults.to_vec();
        let (asks, taken) = mpsc::channel(ASKS_MAX);
        let (told, seen) = watch::channel(None);
        let tasks = Tasks::new();
        tasks.spawn("switch", run(switch.clone(), taken, told));
        Self { switch, asks, seen, _tasks: tasks }
    }

    async fn apply(&self, changes: Vec<PortChange>) -> Result<Vec<PortOutcome>, SwitchError> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(Ask::Apply(changes, reply)).await.unwrap_or_else(|_| panic!("it runs"));
        answer.await.unwrap()
    }

    fn vlan(&self, port: &str) -> String {
        self.switch.state.lock().ports[port].to_string()
    }
}

fn change(port: &str, vlan: u16) -> PortChange {
    let wanted = PortSettings::untagged(Vlan::try_from(vlan).unwrap());
    PortChange { port: port.to_owned(), revision: 0, wanted, if_current: None }
}

#[tokio::test(start_paused = true)]
async fn changes_that_wait_for_another_one_are_one_batch() {
    let names: Vec<String> = (0..40).map(|number| format!("p{number}")).collect();
    let bed = Bed::new(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let gate = Arc::new(tokio::sync::Notify::new());
    *bed.switch.gate.lock() = Some(Arc::clone(&gate));
    let asked = names.iter().map(|name| bed.apply(vec![change(name, 7)]));
    let opened = async {
        // All of them wait by now: a paused clock goes on only where nothing else does.
        sleep(Duration::from_secs(1)).await;
        *bed.switch.gate.lock() = None;
        gate.notify_one();
    };
    let (outcomes, ()) = tokio::join!(joined(asked), opened);
    assert!(outcomes.iter().all(|outcome| *outcome == Ok(vec![PortOutcome::Applied])));
    let batches = bed.switch.state.lock().batches.clone();
    assert!(batches.len() <= 2 && batches.iter().sum::<usize>() == 40, "{batches:?}");
}

async fn joined<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in &mut all {
            if output.is_none()
                && let std::task::Poll::Ready(done) = future.as_mut().poll(context)
            {
                *output = Some(done);
            }
        }
        match all.iter().all(|(_, output)| output.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    all.into_iter().filter_map(|(_, output)| output).collect()
}

#[tokio::test(start_paused = true)]
async fn one_port_twice_is_two_batches_in_their_order() {
    let bed = Bed::new(&["p1"], &[]);
    let (first, second) =
        tokio::join!(bed.apply(vec![change("p1", 5)]), bed.apply(vec![change("p1", 6)]));
    assert_eq!((first, second), (Ok(vec![PortOutcome::Applied]), Ok(vec![PortOutcome::Applied])));
    assert_eq!(bed.vlan("p1"), "6");
    let twice = bed.apply(vec![change("p1", 7), change("p1", 8)]).await.unwrap();
    assert!(twice.iter().all(|outcome| matches!(outcome, PortOutcome::Refused(_))));
    assert_eq!(bed.vlan("p1"), "6");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_comes_behind_a_later_one_is_not_made() {
    let bed = Bed::new(&["p1", "p2"], &[]);
    let revised = |port, vlan, revision| PortChange { revision, ..change(port, vlan) };
    assert_eq!(bed.apply(vec![revised("p1", 5, 9)]).await, Ok(vec![PortOutcome::Applied]));
    let late = bed.apply(vec![revised("p1", 6, 8), revised("p2", 6, 8)]).await;
    assert_eq!(late, Ok(vec![PortOutcome::Superseded, PortOutcome::Applied]));
    assert_eq!((bed.vlan("p1"), bed.vlan("p2")), ("5".to_owned(), "6".to_owned()));
    // The same change once more is no other one.
    assert_eq!(bed.apply(vec![revised("p1", 5, 9)]).await, Ok(vec![PortOutcome::Applied]));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_in_a_change_is_made_again_and_the_change_once() {
    for fault in [Fault::LostAfter, Fault::LostBefore] {
        let bed = Bed::new(&["p1"], &[fault]);
        assert_eq!(bed.apply(vec![change("p1", 5)]).await, Ok(vec![PortOutcome::Applied]));
        assert_eq!(bed.vlan("p1"), "5", "{fault:?}");
        assert_eq!(bed.switch.state.lock().connections, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_lies_is_found_out_by_reading_back() {
    let bed = Bed::new(&["p1"], &[Fault::Lies]);
    let outcomes = bed.apply(vec![change("p1", 5)]).await.unwrap();
    assert!(matches!(&outcomes[..], [PortOutcome::Differs(Actual::Other(_))]), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_expects_something_else_is_not_made() {
    let bed = Bed::new(&["p1"], &[]);
    let expected = Some(Actual::Set(PortSettings::disabled()));
    let outcomes = bed.apply(vec![PortChange { if_current: expected, ..change("p1", 5) }]).await;
    assert!(matches!(&outcomes.unwrap()[..], [PortOutcome::Differs(_)]));
    assert_eq!(bed.vlan("p1"), "trunk of all VLANs");
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_is_away_refuses_at_once_and_comes_back() {
    let bed = Bed::new(&["p1"], &[Fault::Away, Fault::Away]);
    let mut seen = bed.seen.clone();
    assert!(seen.wait_for(|seen| matches!(seen, Some(Err(_)))).await.is_ok());
    assert!(bed.apply(vec![change("p1", 5)]).await.is_err_and(|error| error.is_passing()));
    assert_eq!(bed.apply(vec![change("p1", 5)]).await, Ok(vec![PortOutcome::Applied]));
}

#[tokio::test(start_paused = true)]
async fn who_watches_is_told_what_others_change() {
    let bed = Bed::new(&["p1"], &[]);
    let mut seen = bed.seen.clone();
    assert!(seen.wait_for(|seen| matches!(seen, Some(Ok(_)))).await.is_ok());
    bed.switch.set("p1", PortSettings::untagged(Vlan::MAX));
    let is_set = |seen: &Seen| match seen {
        Some(Ok(ports)) => ports["p1"].to_string() == "4094",
        _ => false,
    };
    assert!(seen.wait_for(is_set).await.is_ok());
}
