//! The alarms that follow from a look, and their end.

use model::rack_fault::RackCause;

use super::*;
use crate::agents::clock_skew::ClockSkew;
use crate::health::alarm::{
    ADDRESS_DEADLINE, Alarm, CALLERS_DEADLINE, POOL_DEADLINE, REDUNDANCY_DEADLINE, Subject,
    UNREACHED_DEADLINE, UNSERVED_DEADLINE,
};

#[test]
fn a_silent_agent_is_an_alarm_until_it_is_back() {
    let mut watch = Watch::default();
    let mut look = seen(&[Candidate, Regular, Offline], 1);
    silence(&mut look, 2);
    silence(&mut look, 3);
    assert_eq!(watch.round(&look), Round::default());
    assert_eq!(watch.states.alarms(), []);
    look.agents[1].unreached = Some((NOW, "No route to host".to_owned()));
    let round = watch.round(&later(&look, UNREACHED_DEADLINE));
    let [Alarm { what, since, text, todo }] = &round.raised[..] else { panic!("{round:?}") };
    assert_eq!((what, *since), (&Subject::Agent(name(2)), NOW.plus_seconds(-3)));
    assert!(text.contains("No route to host"), "the newest reason: {text}");
    assert_eq!(todo, "`systemctl start gantry-noded` on n2.example");
    assert_eq!(what.to_string(), "agent of n2.example");
    let round = watch.round(&later(&look, UNREACHED_DEADLINE + 5));
    assert_eq!((round.raised, watch.states.alarms().len()), (vec![], 1), "told once");
    look.agents[1].unreached = None;
    let round = watch.round(&later(&look, UNREACHED_DEADLINE + 10));
    assert_eq!((round.cleared.len(), watch.states.alarms()), (1, vec![]));
    // It has its whole time again.
    silence(&mut look, 2);
    assert_eq!(watch.round(&later(&look, UNREACHED_DEADLINE + 15)), Round::default());
}

#[test]
fn a_pool_that_nobody_can_refill_is_an_alarm() {
    let mut watch = Watch::default();
    let mut look = seen(&[Candidate, Regular], 2);
    silence(&mut look, 2);
    assert_eq!(watch.round(&look), Round::default());
    let round = watch.round(&later(&look, POOL_DEADLINE));
    let told: Vec<&Subject> = round.raised.iter().map(|alarm| &alarm.what).collect();
    assert_eq!(told, [&Subject::Agent(name(2)), &Subject::Pool, &Subject::Redundancy]);
    assert!(round.raised[1].text.contains("1 master candidates where 2 are wanted"));
    // There is no place for a node that is away.
    look.agents[1].called = false;
    look.pool.nodes[1].role = Offline;
    assert_eq!(watch.round(&later(&look, POOL_DEADLINE + 5)).cleared.len(), 2);
}

#[test]
fn what_too_much_depends_on_is_an_alarm() {
    let learner = Some(Voting::Learner { current: true });
    let told = |look: &Seen| {
        let mut watch = Watch::default();
        assert!(watch.round(look).raised.is_empty(), "there is time to get some");
        let raised = watch.round(&later(look, REDUNDANCY_DEADLINE)).raised;
        let of = raised.into_iter().filter(|alarm| alarm.what == Subject::Redundancy);
        of.map(|alarm| format!("{} {}", alarm.text, alarm.todo)).collect::<String>()
    };
    let (copy, alone, auto) = (
        "no other node has a copy",
        "only n1.example votes",
        "auto_failover is on and cannot be: 1 vote",
    );
    for (roles, size, by_itself, wanted) in [
        (&[Candidate][..], 10, false, ""),
        (&[Candidate], 10, true, auto),
        (&[Candidate, Candidate, Candidate], 10, true, ""),
        (&[Candidate, Regular], 10, false, copy),
        (&[Candidate, Regular], 1, false, ""),
        // The second one of two does not vote.
        (&[Candidate, Candidate], 10, false, ""),
        (&[Candidate, Candidate], 10, true, auto),
        (&[Candidate, Candidate, Offline], 10, false, alone),
        (&[Candidate, Candidate, Regular], 10, false, alone),
        (&[Candidate, Candidate, Regular], 2, false, ""),
        (&[Candidate, Offline, Offline], 10, true, copy),
    ] {
        let mut look = seen(roles, size);
        look.auto_failover = by_itself;
        if roles.iter().filter(|role| **role == Candidate).count() == 2 {
            look.pool.nodes[1].seat = learner;
        }
        let found = told(&look);
        assert_eq!(found.is_empty(), wanted.is_empty(), "{roles:?}: {found}");
        assert!(found.starts_with(wanted), "{roles:?}: {found}");
        assert_eq!(
            found.contains("--auto-failover no"),
            by_itself && !wanted.is_empty(),
            "{found}"
        );
    }
    // Two and a witness are three that vote, and it is missed once it is offline.
    let mut look = seen(&[Candidate, Candidate, Regular], 10);
    (look.pool.nodes[2].witness, look.pool.nodes[2].seat) = (true, Some(Voting::Voter));
    assert_eq!(told(&look), "");
    look.pool.nodes[2].role = Offline;
    (look.pool.nodes[1].seat, look.pool.nodes[2].seat) = (learner, None);
    assert!(told(&look).starts_with(alone));
}

#[test]
fn what_agents_and_the_masters_node_lack_is_an_alarm_after_a_while() {
    type Lack = fn(&mut Seen);
    let cases: [(Lack, Subject, u64, &[&str]); 6] = [
        (
            |seen| seen.unserved = vec![(3, "no agent serves its 2 machines".to_owned())],
            Subject::Rack(3),
            UNSERVED_DEADLINE,
            &["no agent serves its 2 machines", "gnt node modify --rack 3"],
        ),
        (
            |seen| {
                seen.agents[1].rack = Some(3);
                let taken =
                    |by| RackCause::PortTaken.fault(format!("taken by {by}"), &[("PID", by)]);
                seen.agents[1].faults = vec![taken("7"), taken("8")];
            },
            Subject::Serving(3, name(2), RackCause::PortTaken),
            UNSERVED_DEADLINE,
            &["taken by 7; taken by 8", "`kill 7` on n2.example; `kill 8` on n2.example"],
        ),
        (
            |seen| seen.agents[1].clock = Some(ClockSkew::Seconds(-9_000)),
            Subject::WrongClock(name(2)),
            UNREACHED_DEADLINE,
            &["2 h behind that of n1.example", "`timedatectl set-ntp true` on n2.example"],
        ),
        (
            |seen| seen.agents[1].other_callers = Some("its disk is full".to_owned()),
            Subject::Callers(name(2)),
            CALLERS_DEADLINE,
            &["its disk is full", "redist-conf", "noded on n2.example"],
        ),
        (
            |seen| {
                let remedy = "`gnt cluster modify --master-netdev eth0`".to_owned();
                let missing = Missing { why: "no interface `eth9`".to_owned(), remedy };
                seen.address_missing = Some((NOW, missing));
            },
            Subject::MasterAddress,
            ADDRESS_DEADLINE,
            &["no interface `eth9`", "--master-netdev eth0", "n1.example"],
        ),
        (
            |seen| {
                let text = "n2.example: its copy differs".to_owned();
                seen.copies = Some(Differ { since: NOW, text });
            },
            Subject::Copies,
            0,
            &["n2.example: its copy differs", "cluster verify"],
        ),
    ];
    for (lack, subject, deadline, words) in cases {
        let mut watch = Watch::default();
        let well = seen(&[Candidate, Candidate], 2);
        let mut look = well.clone();
        lack(&mut look);
        if let Some(early) = deadline.checked_sub(5) {
            assert_eq!(watch.round(&look), Round::default());
            assert_eq!(watch.round(&later(&look, early)), Round::default());
        }
        let round = watch.round(&later(&look, deadline));
        let [alarm] = &round.raised[..] else { panic!("{round:?}") };
        assert_eq!(alarm.what, subject);
        let told = format!("{} {}", alarm.text, alarm.todo);
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
        assert_eq!(watch.round(&later(&well, deadline + 5)).cleared.len(), 1);
    }
}

#[test]
fn who_does_not_answer_is_an_alarm_for_that_and_an_offline_node_for_nothing() {
    let mut look = seen(&[Candidate, Offline], 1);
    look.agents[1].other_callers = Some("x".to_owned());
    let mut watch = Watch::default();
    for at in [0, CALLERS_DEADLINE] {
        assert_eq!(watch.round(&later(&look, at)).raised, []);
    }
}

#[test]
fn an_agent_that_does_not_know_the_master_has_a_remedy_of_its_own() {
    let mut watch = Watch::default();
    let mut look = seen(&[Candidate, Candidate, Candidate], 3);
    silence(&mut look, 2);
    look.agents[1].is_stranger = true;
    let _begun = watch.round(&look);
    let round = watch.round(&later(&look, UNREACHED_DEADLINE));
    let [Alarm { text, todo, .. }] = &round.raised[..] else { panic!("{round:?}") };
    assert!(text.contains("does not know n1.example as a candidate"), "{text}");
    assert!(todo.contains("master-failover --to") && todo.contains("--readd n2.example"), "{todo}");
}

#[test]
fn a_wrong_clock_is_told_of_the_node_that_has_it() {
    let told = |skews: [Option<i64>; 3], refuses: bool| {
        let mut look = seen(&[Candidate; 3], 3);
        for (agent, skew) in look.agents.iter_mut().zip(skews) {
            agent.clock = skew.map(ClockSkew::Seconds);
        }
        if refuses {
            silence(&mut look, 3);
            look.agents[2].clock = Some(ClockSkew::Unknown);
        }
        let mut watch = Watch::default();
        let _begun = watch.round(&look);
        let raised = watch.round(&later(&look, UNREACHED_DEADLINE)).raised;
        raised.iter().map(|alarm| format!("{}: {}", alarm.what, alarm.todo)).collect::<Vec<_>>()
    };
    let of = |id| format!("clock of {}: `timedatectl set-ntp true` on {0}", name(id));
    assert_eq!(told([None, None, None], false), [""; 0]);
    assert_eq!(told([None, Some(9_000), None], false), [of(2)]);
    assert_eq!(told([None, None, None], true), [of(3)], "and no word of noded");
    assert_eq!(told([None, Some(9_000), Some(9_001)], false), [of(1)], "they agree");
    assert_eq!(told([None, Some(9_000), Some(-9_001)], false), [of(2), of(3)]);
}
