//! The consequences of looks: cases, and laws for any sequence of looks.

use model::node::NodeRole;
use proptest::prelude::*;

use super::*;
use crate::health::alarm::Subject;
use crate::testing::NOW;
use membership::pool::{PoolNode, Voting};

mod alarms;

fn name(id: u64) -> NodeName {
    format!("n{id}.example").parse().unwrap()
}

/// The nodes n1 (the master), n2, … with these roles, all of which answer.
fn seen(roles: &[NodeRole], size: usize) -> Seen {
    let ids = || (1_u64..).zip(roles);
    let node = |(id, role): (u64, &NodeRole)| PoolNode {
        id,
        role: *role,
        master_capable: true,
        witness: false,
        rack: None,
        reachable: true,
        late: false,
        seat: (*role == NodeRole::Candidate).then_some(Voting::Voter),
    };
    let agent = |(id, role): (u64, &NodeRole)| Agent {
        node: name(id),
        id,
        called: *role != NodeRole::Offline,
        rack: Some(u32::try_from(id).unwrap()),
        unreached: None,
        is_stranger: false,
        behind: false,
        clock: None,
        other_callers: None,
        faults: Vec::new(),
        network_drift: Vec::new(),
    };
    Seen {
        now: NOW,
        at: 0,
        paused_until: None,
        drained: false,
        pool: Pool { nodes: ids().map(node).collect(), master: 1, size },
        agents: ids().map(agent).collect(),
        master: name(1),
        address_missing: None,
        auto_failover: false,
        mend_network: false,
        copies: None,
        unserved: Vec::new(),
        machines: Machines::default(),
        silence: Silence::default(),
        objects: Vec::new(),
        guesses: None,
        ended: 0,
        live: BTreeSet::new(),
    }
}

/// As if time had passed: the time of day goes on by as much.
fn later(seen: &Seen, at: u64) -> Seen {
    let by = i64::try_from(at).unwrap() - i64::try_from(seen.at).unwrap();
    Seen { at, now: seen.now.plus_seconds(by), ..seen.clone() }
}

fn silence(seen: &mut Seen, id: u64) {
    seen.pool.nodes.iter_mut().filter(|node| node.id == id).for_each(|n| n.reachable = false);
    let since = seen.now.plus_seconds(-3);
    for agent in seen.agents.iter_mut().filter(|agent| agent.id == id) {
        agent.unreached = Some((since, "Connection refused".to_owned()));
    }
}

use NodeRole::{Candidate, Offline, Regular};

#[test]
fn a_short_pool_is_refilled_one_at_a_time() {
    let mut watch = Watch::default();
    let mut look = seen(&[Candidate, Regular, Regular], 3);
    assert_eq!(watch.round(&look).jobs, [], "an operator may be at work");
    look = later(&look, POOL_GRACE);
    assert_eq!(watch.round(&look).jobs, [Task::Promote(name(2))]);
    look.live.insert(Task::Promote(name(2)));
    assert_eq!(watch.round(&later(&look, 15)).jobs, [], "one job at a time");
    look.live.clear();
    look.pool.nodes[1].role = Candidate;
    assert_eq!(watch.round(&later(&look, 20)).jobs, [Task::Promote(name(3))]);
    look.pool.nodes[2].role = Candidate;
    assert_eq!(watch.round(&later(&look, 25)).jobs, []);
    // A surplus has its own grace.
    look.pool.size = 2;
    assert_eq!(watch.round(&later(&look, 30)).jobs, []);
    assert_eq!(watch.round(&later(&look, 40)).jobs, [Task::Demote(name(3))]);
}

#[test]
fn a_network_that_drifted_is_mended_where_the_cluster_says_so() {
    let mut watch = Watch::default();
    let mut look = seen(&[Candidate, Regular], 1);
    look.agents[1].network_drift = vec!["set MTU of eth0 to 1400".to_owned()];
    assert_eq!(watch.round(&look).jobs, []);
    look = later(&look, DRIFT_GRACE);
    assert_eq!(watch.round(&look).jobs, [], "the alarm alone");
    look.mend_network = true;
    let mend = Task::Mend(name(2));
    assert_eq!(watch.round(&look).jobs, std::slice::from_ref(&mend));
    assert_eq!(Task::of(&mend.opcode()), Some(mend.clone()));
    look = later(&look, DRIFT_GRACE + FIRST_PAUSE);
    look.live.insert(mend);
    assert_eq!(watch.round(&look).jobs, [], "one job at a time");
    look.live.clear();
    silence(&mut look, 2);
    assert_eq!(watch.round(&look).jobs, [], "it cannot be reached");
}

#[test]
fn silence_and_its_end_are_jobs_of_their_own() {
    let mut watch = Watch::default();
    let mut look = later(&seen(&[Candidate], 1), 300);
    let (serial, since) = (serial_of_left(), NOW.plus_seconds(-900));
    for state in [State::Healthy, State::Unreachable] {
        let heard = ((serial.clone(), state, since), NOW);
        look.silence.moves = vec![heard.clone()];
        let task = Task::Hear(heard.0, heard.1);
        assert_eq!(watch.round(&look).jobs, std::slice::from_ref(&task));
        assert_eq!(Task::of(&task.opcode()), Some(task.clone()));
        assert_eq!(watch.round(&look).jobs, [], "it was tried a moment ago");
        let is_back = task.why().contains(" gave a sign of life at ");
        assert_eq!(is_back, state == State::Unreachable, "{}", task.why());
    }
}

fn serial_of_left() -> model::Serial {
    "S2".parse().unwrap()
}

#[test]
fn what_a_machine_does_too_long_is_ended_and_told() {
    use model::machine::life::State;

    use crate::health::watcher::machines::Trouble;

    let mut watch = Watch::default();
    let mut look = seen(&[Candidate], 1);
    let serial: model::Serial = "S1".parse().unwrap();
    let stay = (serial.clone(), State::DeployWait, NOW);
    let since = NOW.plus_seconds(1_800);
    let (deadline, reason) = (Some(1_800), None);
    let trouble = Trouble { serial, state: State::DeployWait, since, deadline, reason };
    let left = (serial_of_left(), State::Deploying, NOW);
    let off = Task::SwitchOn("S3".parse().unwrap());
    assert_eq!(Task::of(&off.opcode()).as_ref(), Some(&off));
    look.machines = Machines {
        left: vec![left.clone()],
        off: vec!["S3".parse().unwrap()],
        ..Machines::default()
    };
    let jobs = [Task::Expire(left), off];
    assert_eq!(watch.round(&look).jobs, jobs, "nothing calls there");
    let (told, ended) = (vec![trouble], vec![stay.clone()]);
    look.machines = Machines { told, ended, ..Machines::default() };
    let first = watch.round(&look);
    assert_eq!((first.jobs, first.raised), (vec![], vec![]), "it may have called meanwhile");
    look = later(&look, OVERDUE_GRACE);
    let round = watch.round(&look);
    let task = Task::Expire(stay);
    assert_eq!(round.jobs, std::slice::from_ref(&task));
    assert_eq!(Task::of(&task.opcode()), Some(task));
    assert_eq!(
        (round.raised[0].what.kind().code().word(), round.raised[0].since),
        ("machine-overdue", since)
    );
    look = later(&look, OVERDUE_GRACE + 5);
    assert_eq!(watch.round(&look).jobs, [], "one job at a time");
    look.machines = Machines::default();
    assert_eq!(watch.round(&later(&look, 70)).cleared.len(), 1);
}

#[test]
fn who_cannot_be_promoted_does_not_hold_up_others() {
    let mut watch = Watch::default();
    let look = seen(&[Candidate, Regular, Regular], 2);
    let mut jobs = Vec::new();
    for at in (0..=300).step_by(5) {
        // Every job fails.
        jobs.extend(watch.round(&later(&look, at)).jobs.into_iter().map(|task| (at, task)));
    }
    let (second, third) = (|| Task::Promote(name(2)), || Task::Promote(name(3)));
    assert_eq!(
        jobs,
        [
            (10, second()),
            (15, third()),
            (70, second()),
            (75, third()),
            (190, second()),
            (195, third()),
        ]
    );
}

#[test]
fn nothing_is_submitted_while_it_is_paused_or_the_queue_is_drained() {
    let mut watch = Watch::default();
    let mut look = seen(&[Candidate, Regular], 2);
    look.ended = 3;
    look.paused_until = Some(NOW.plus_seconds(1_000));
    assert_eq!(watch.round(&look), Round::default());
    let Round { jobs, archive_before, .. } = watch.round(&later(&look, 900));
    assert_eq!((jobs, archive_before), (vec![], None));
    look.drained = true;
    assert_eq!(watch.round(&later(&look, 1_000)).jobs, []);
    look.drained = false;
    assert_eq!(watch.round(&later(&look, 1_001)).jobs, [Task::Promote(name(2))]);
}

#[test]
fn a_late_document_is_pushed_and_told() {
    let mut watch = Watch::default();
    let mut look = seen(&[Candidate, Regular], 1);
    look.agents[1].behind = true;
    assert_eq!(watch.round(&look), Round::default());
    assert_eq!(watch.round(&later(&look, BEHIND_DEADLINE - 1)), Round::default());
    let round = watch.round(&later(&look, BEHIND_DEADLINE));
    assert_eq!((round.jobs, round.raised), (vec![Task::Push(2)], Vec::new()));
    let round = watch.round(&later(&look, BEHIND_DEADLINE + 60));
    assert_eq!(round.raised[0].what, Subject::Document(name(2)));
    // An agent that does not answer is another matter.
    silence(&mut look, 2);
    let round = watch.round(&later(&look, BEHIND_DEADLINE + 500));
    assert_eq!((round.jobs, round.cleared.len()), (vec![], 1));
}

#[test]
fn old_jobs_are_archived_now_and_then() {
    let mut watch = Watch::default();
    let mut look = seen(&[Candidate], 1);
    look.ended = 1;
    let mut archived = Vec::new();
    for at in (7..1_000).step_by(5) {
        let look = later(&look, at);
        if let Some(before) = watch.round(&look).archive_before {
            assert_eq!(before, look.now.plus_seconds(-ARCHIVE_AGE));
            archived.push(at);
        }
    }
    assert_eq!(archived, [307, 607, 907]);
}

#[test]
fn tasks_are_known_by_their_opcodes() {
    for task in [Task::Promote(name(2)), Task::Demote(name(3)), Task::Push(7)] {
        assert_eq!(Task::of(&task.opcode()), Some(task.clone()));
        assert!(!task.why().is_empty());
    }
    let other = OpCode::NodeSetParams(NodeSetParams::unchanged("n2"));
    assert_eq!(Task::of(&other), None);
}

fn any_role() -> impl Strategy<Value = NodeRole> {
    prop::sample::select(vec![Candidate, Regular, NodeRole::Drained, Offline])
}

proptest! {
    /// Jobs are few. None repeats one that lives or that was tried a short time ago, and none touches
    /// the master. While the watcher is paused, all else is up to the operator.
    #[test]
    fn what_holds_of_any_sequence_of_looks(
        looks in prop::collection::vec(
            (
                prop::collection::vec((any_role(), any::<bool>(), any::<bool>()), 1..9),
                0_usize..9,
                0_u64..2_000,
                any::<[bool; 3]>(),
                prop::collection::btree_set(0_usize..6, 0..4),
            ),
            1..30,
        )
    ) {
        let (mut watch, mut at) = (Watch::default(), 0);
        let mut last: BTreeMap<Task, u64> = BTreeMap::new();
        for (nodes, size, wait, [paused, drained, ended], live) in looks {
            at += wait;
            let mut roles: Vec<NodeRole> = nodes.iter().map(|(role, ..)| *role).collect();
            roles[0] = Candidate;
            let mut look = later(&seen(&roles, size), at);
            for (id, (_, silent, behind)) in (1_u64..).zip(&nodes).skip(1) {
                if *silent {
                    silence(&mut look, id);
                }
                look.agents[usize::try_from(id).unwrap() - 1].behind = *behind;
            }
            look.paused_until = paused.then(|| look.now.plus_seconds(1));
            look.drained = drained;
            look.ended = u64::from(ended);
            let recent: Vec<Task> = last.keys().cloned().collect();
            look.live = live.iter().filter_map(|at| recent.get(*at).cloned()).collect();
            let round = watch.round(&look);
            prop_assert!(round.jobs.len() <= JOBS_PER_ROUND_MAX);
            prop_assert!(round.jobs.is_empty() || !paused && !drained);
            prop_assert!(round.archive_before.is_none() || !paused);
            prop_assert!(round.jobs.iter().filter(|task| task.is_of_pool()).count() <= 1);
            for task in round.jobs {
                prop_assert!(!look.live.contains(&task));
                prop_assert!(last.get(&task).is_none_or(|last| at >= last + FIRST_PAUSE));
                let of_master = [Task::Promote(name(1)), Task::Demote(name(1))];
                prop_assert!(!of_master.contains(&task));
                last.insert(task, at);
            }
            for raised in &round.raised {
                prop_assert!(watch.states.alarms().contains(raised));
            }
        }
    }
}
