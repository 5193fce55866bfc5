use std::collections::BTreeSet;

use model::cluster_status::{MasterStatus, QueueStatus};
use model::rack_fault::RackCause;

use super::*;
use crate::health::alarm::Subject;
use crate::testing::NOW;

const DOCS: &str = include_str!("../../../../../docs/failover.md");

fn candidate(node: &str, state: CandidateState) -> CandidateStatus {
    CandidateStatus {
        node: node.to_owned(),
        state,
        master: node == "n1.example",
        behind: Some(0),
        heard_ms: Some(100),
        unreachable: false,
        since: None,
        disk_full: false,
        forgot: None,
        older_copy: false,
        not_listening: None,
    }
}

/// A master with two further voters, about which nothing is to be said.
fn well() -> ClusterStatus {
    let voters = ["n1.example", "n2.example", "n3.example"];
    let year = |years: i64| NOW.plus_seconds(years * 365 * SECONDS_PER_DAY);
    let node = CertificateOwner::Node("n1.example".parse().unwrap());
    ClusterStatus {
        cluster: Some("c1.example".parse().unwrap()),
        node: "n1.example".parse().unwrap(),
        state: ProcessState::Master,
        now: NOW,
        master: Some(MasterStatus {
            node: "n1.example".parse().unwrap(),
            epoch: "2.1".to_owned(),
            since: NOW,
        }),
        auto_failover: None,
        quorum: Some(QuorumStatus {
            voters: voters.map(str::to_owned).to_vec(),
            needed: 2,
            heard: Some(3),
            majority: Some(true),
            heard_ms: Some(100),
            refusing: None,
        }),
        candidates: voters.map(|node| candidate(node, CandidateState::Voter)).to_vec(),
        standby: None,
        store_missing: None,
        queue: Some(QueueStatus {
            running: 1,
            waiting: 1,
            queued: 1,
            oldest: None,
            drained: false,
        }),
        store: Some(StoreStatus {
            health: StoreHealth::Good,
            position: "2.1/9".to_owned(),
            disk_free_mib: Some(500),
            disk_mib: Some(1_000),
            journal_used_bytes: 80,
            journal_bytes: 100,
            files_lag_keys: 7,
            files_lag_bytes: FILES_LAG_BYTES_MAX,
        }),
        agents: None,
        certificates: vec![
            CertificateStatus { owner: node, ends: year(10) },
            CertificateStatus { owner: CertificateOwner::Authority, ends: year(30) },
        ],
        watcher_paused_until: None,
        overridden: None,
        alarms: Vec::new(),
    }
}

/// A process that follows.
fn following(state: ProcessState, heard_ms: Option<u64>) -> ClusterStatus {
    let standby = StandbyStatus {
        leader: None,
        heard_ms,
        last: "2.1/9".to_owned(),
        applied: "2.1/9".to_owned(),
        why: "the master is n1.example".to_owned(),
        forgot: None,
        offline: false,
        attempt: None,
    };
    ClusterStatus { state, standby: Some(standby), queue: None, ..well() }
}

fn kinds(seen: &ClusterStatus) -> Vec<String> {
    alarms(seen, &[]).into_iter().map(|alarm| alarm.kind).collect()
}

fn after(change: impl FnOnce(&mut ClusterStatus)) -> Vec<String> {
    let mut seen = well();
    change(&mut seen);
    kinds(&seen)
}

#[test]
fn nothing_is_said_where_all_is_well() {
    assert_eq!(kinds(&well()), [""; 0]);
    assert_eq!(kinds(&following(ProcessState::Standby, Some(HEARD_WITHIN_MS))), [""; 0]);
    // One voter is all of them: a cluster of one or two nodes.
    let lone = |seen: &mut ClusterStatus| {
        let quorum = seen.quorum.as_mut().unwrap();
        (quorum.voters, quorum.needed, quorum.heard) = (vec!["n1.example".to_owned()], 1, Some(1));
    };
    assert_eq!(after(lone), [""; 0]);
}

#[test]
fn who_hears_no_master_is_told_what_helps_there() {
    let told = |offline, state| {
        let mut seen = following(ProcessState::Standby, Some(HEARD_WITHIN_MS + 1));
        seen.candidates = vec![candidate(seen.node.as_str(), state)];
        seen.standby.as_mut().unwrap().offline = offline;
        let [alarm] = &alarms(&seen, &[])[..] else { panic!("one alarm") };
        assert_eq!(alarm.kind, "leader-silent");
        format!("{}: {}", alarm.text, alarm.todo)
    };
    let candidate = told(false, CandidateState::Voter);
    assert!(candidate.contains("makes this node the master"), "{candidate}");
    let witness = told(false, CandidateState::Witness);
    assert!(witness.contains("master-failover` on a candidate"), "{witness}");
    let offline = told(true, CandidateState::Voter);
    assert!(offline.contains("n1.example is marked offline"), "{offline}");
    assert!(
        offline.contains("-O no n1.example") && !offline.contains("start masterd"),
        "{offline}"
    );
}

#[test]
fn a_node_without_the_store_that_it_should_have() {
    let missing = |was_master, headless: Option<&str>, others: Option<&str>| {
        let (headless, others) = (headless.map(str::to_owned), others.map(str::to_owned));
        let missing = StoreMissing { was_master, headless, others };
        let (state, standby, store) = (ProcessState::Outside, None, None);
        let seen = ClusterStatus { state, standby, store, store_missing: Some(missing), ..well() };
        let [alarm] = &alarms(&seen, &[])[..] else { panic!("one alarm") };
        assert_eq!((&*alarm.kind, &*alarm.what), ("store-missing", "store of n1.example"));
        format!("{}: {}", alarm.text, alarm.todo)
    };
    let n2 = Some("n2.example");
    let master = missing(true, None, n2);
    let lost = "n1.example was the master, as its agent knows, and has no store: if a disk is only";
    assert!(master.starts_with(lost), "{master}");
    assert!(
        master.contains("master-failover` there") && master.contains("(n2.example)"),
        "{master}"
    );
    let headless = missing(true, Some("/data"), n2);
    assert!(headless.contains("`store.json` (in /data)"), "{headless}");
    assert!(
        headless.contains("put `store.json` back") && !headless.contains("mount"),
        "{headless}"
    );
    let candidate = missing(false, Some("/data"), n2);
    assert!(
        candidate.starts_with("n1.example is a candidate, and has a store without"),
        "{candidate}"
    );
    let waiting = missing(false, None, None);
    assert!(waiting.contains("no master invites it: if a disk"), "{waiting}");
    // There may be no other copy.
    let lone = missing(true, Some("/data"), None);
    assert!(lone.contains("restore a backup") && !lone.contains("aside"), "{lone}");
}

#[test]
fn voters_that_are_away() {
    for (voters, heard, majority, kind) in [
        (1, 1, true, None),
        // One vote was lost, and the third candidate is getting its copy.
        (2, 2, true, Some("majority-thin")),
        (3, 3, true, None),
        (3, 2, true, Some("majority-thin")),
        (3, 1, false, Some("majority-lost")),
        (4, 4, true, None),
        (4, 3, true, Some("majority-thin")),
        (5, 4, true, None),
        (5, 3, true, Some("majority-thin")),
        (5, 2, false, Some("majority-lost")),
    ] {
        let found = after(|seen| {
            let quorum = seen.quorum.as_mut().unwrap();
            quorum.voters = vec!["n".to_owned(); voters];
            quorum.needed = voters / 2 + 1;
            (quorum.heard, quorum.majority) = (Some(heard), Some(majority));
        });
        assert_eq!(found, Vec::from_iter(kind), "{heard} of {voters}");
    }
}

#[test]
fn a_lost_majority_tells_since_when() {
    let mut seen = well();
    let quorum = seen.quorum.as_mut().unwrap();
    (quorum.heard, quorum.majority, quorum.heard_ms) = (Some(1), Some(false), Some(7_000));
    let alarm = alarms(&seen, &[]).remove(0);
    assert_eq!(alarm.since, Some(NOW.plus_seconds(-7)));
    assert!(alarm.text.contains("1 of 3 voters") && alarm.text.contains("2 are needed"));
}

#[test]
fn candidates_that_want_a_look() {
    let with = |change: fn(&mut CandidateStatus)| after(|seen| change(&mut seen.candidates[1]));
    assert_eq!(with(|one| one.unreachable = true), ["candidate-unreachable"]);
    assert_eq!(with(|one| one.disk_full = true), ["candidate-full"]);
    let elsewhere = |one: &mut CandidateStatus| one.not_listening = Some("at 1818".to_owned());
    assert_eq!(with(elsewhere), ["candidate-unreachable"]);
    for (older_copy, todo) in [(true, "put the store of n2.example aside"), (false, "mount it")] {
        let mut seen = well();
        let one = &mut seen.candidates[1];
        (one.forgot, one.older_copy) = (Some("another store".to_owned()), older_copy);
        // A refusal is no word of the engine's.
        one.unreachable = true;
        let alarm = alarms(&seen, &[]).remove(0);
        assert_eq!(alarm.kind, "candidate-forgot");
        assert!(alarm.todo.contains(todo), "{}", alarm.todo);
    }
    assert_eq!(with(|one| one.behind = Some(BEHIND_MAX)), [""; 0]);
    assert_eq!(with(|one| one.behind = Some(BEHIND_MAX + 1)), ["candidate-behind"]);
    // Of who does not answer it is not known.
    let away = |one: &mut CandidateStatus| (one.behind, one.unreachable) = (Some(99_999), true);
    assert_eq!(with(away), ["candidate-unreachable"]);
    for (majority, offline) in [(Some(true), true), (Some(false), false)] {
        let mut seen = well();
        seen.candidates[1].unreachable = true;
        seen.quorum.as_mut().unwrap().majority = majority;
        let found = alarms(&seen, &[]);
        let one = found.iter().find(|one| one.kind == "candidate-unreachable").unwrap();
        assert_eq!(one.todo.contains("--offline yes"), offline, "{}", one.todo);
    }
    let invited = |ago: i64| {
        after(|seen| {
            seen.candidates[1].state = CandidateState::NotYet;
            seen.candidates[1].since = Some(NOW.plus_seconds(-ago));
        })
    };
    assert_eq!(invited(NOT_YET_SECONDS - 1), [""; 0]);
    assert_eq!(invited(NOT_YET_SECONDS), ["candidate-missing"]);
}

#[test]
fn standbys() {
    let silent = HEARD_WITHIN_MS + 1;
    assert_eq!(kinds(&following(ProcessState::Standby, Some(silent))), ["leader-silent"]);
    assert_eq!(kinds(&following(ProcessState::Standby, None)), ["leader-silent"]);
    // A member with the older store is not sent to the master, whether that one is heard or not.
    for heard_ms in [None, Some(0)] {
        let mut forgot = following(ProcessState::Standby, heard_ms);
        forgot.standby.as_mut().unwrap().forgot = Some("it ends too early".to_owned());
        assert_eq!(kinds(&forgot), ["candidate-forgot"]);
    }
    assert_eq!(kinds(&following(ProcessState::Starting, None)), ["not-confirmed"]);
    // Its memory of the others is none of its business.
    let mut seen = following(ProcessState::Standby, Some(0));
    seen.candidates[1].unreachable = true;
    assert_eq!(kinds(&seen), [""; 0]);
}

#[test]
fn stores() {
    let with = |change: fn(&mut StoreStatus)| after(|seen| change(seen.store.as_mut().unwrap()));
    let full = |store: &mut StoreStatus| {
        let reason = "no space".to_owned();
        store.health = StoreHealth::DiskFull { since: NOW, reason };
        store.disk_free_mib = Some(0);
    };
    assert_eq!(with(full), ["disk-full"], "and not low as well");
    let failed = |store: &mut StoreStatus| {
        store.health = StoreHealth::Failed { reason: "torn".to_owned() };
    };
    assert_eq!(with(failed), ["store-failed"]);
    assert_eq!(with(|store| store.disk_free_mib = Some(50)), [""; 0]);
    assert_eq!(with(|store| store.disk_free_mib = Some(49)), ["disk-low"]);
    let huge = |store: &mut StoreStatus| {
        (store.disk_mib, store.disk_free_mib) = (Some(1 << 20), Some(4096));
    };
    assert_eq!(with(huge), [""; 0], "enough, though 0.4 %");
    assert_eq!(with(|store| store.disk_free_mib = None), [""; 0]);
    assert_eq!(with(|store| store.journal_used_bytes = 81), ["journal"]);
    assert_eq!(with(|store| store.files_lag_bytes += 1), ["files"]);
    // Without a journal there is nothing to fill.
    let none = |store: &mut StoreStatus| (store.journal_used_bytes, store.journal_bytes) = (0, 0);
    assert_eq!(with(none), [""; 0]);
}

#[test]
fn certificates_end() {
    let (day, limit) = (SECONDS_PER_DAY, CERTIFICATE_DAYS.1 * SECONDS_PER_DAY);
    for (left, text) in [
        (limit, None),
        (limit - 1, Some("it ends in 29 days")),
        (day - 1, Some("it ends in 0 days")),
        (-1, Some("it ended")),
    ] {
        let mut seen = well();
        seen.certificates[0].ends = NOW.plus_seconds(left);
        let found = alarms(&seen, &[]);
        let told = found.first().map(|alarm| alarm.text.clone()).unwrap_or_default();
        assert_eq!(found.len(), usize::from(text.is_some()), "{left}");
        assert!(told.starts_with(text.unwrap_or_default()), "{told}");
    }
    let of = |at: usize| {
        let mut seen = well();
        seen.certificates[at].ends = NOW;
        alarms(&seen, &[]).remove(0).what
    };
    assert_eq!(
        (of(0).as_str(), of(1).as_str()),
        ("certificate of n1.example", "certificate of the authority")
    );
}

#[test]
fn what_operators_set_is_told_until_they_undo_it() {
    assert_eq!(after(|seen| seen.queue.as_mut().unwrap().drained = true), ["drained"]);
    assert_eq!(after(|seen| seen.watcher_paused_until = Some(NOW)), ["watcher-paused"]);
    let cut = vec!["what n1.example may hold is cut".to_owned()];
    let overridden = Overridden { at: NOW, node: "n3.example".parse().unwrap(), cut };
    let mut seen = well();
    seen.overridden = Some(overridden);
    let found = alarms(&seen, &[]).remove(0);
    assert_eq!((found.kind.as_str(), found.since), ("override-cut", Some(NOW)));
    assert!(found.text.contains("n3.example") && found.text.contains("n1.example"), "{found:?}");
    assert!(found.todo.contains("--override-seen"), "{found:?}");
}

#[test]
fn the_worst_comes_first_and_those_of_the_watcher_are_among_them() {
    let raised = |what| Alarm { what, since: NOW, text: "x".into(), todo: "y".into() };
    let node = || "n2.example".parse().unwrap();
    let watched = [Subject::Document(node()), Subject::Agent(node()), Subject::Pool].map(raised);
    let mut seen = well();
    seen.queue.as_mut().unwrap().drained = true;
    seen.candidates[1].unreachable = true;
    let found = alarms(&seen, &watched);
    let kinds: Vec<&str> = found.iter().map(|alarm| alarm.kind.as_str()).collect();
    assert_eq!(kinds, ["candidate-unreachable", "pool", "agent", "document", "drained"]);
    assert_eq!(found[2].what, "agent of n2.example");
    assert_eq!(found[2].since, Some(NOW));
    let causes = [Subject::Rack(3), Subject::Serving(3, node(), RackCause::OtherServer)];
    let found = alarms(&well(), &causes.map(raised));
    let told: Vec<_> = found.iter().map(|alarm| (alarm.what.as_str(), alarm.severity)).collect();
    let other = ("rack 3 at n2.example (other-server)", AlarmSeverity::Warning);
    assert_eq!(told, [("rack 3", AlarmSeverity::Critical), other]);
}

#[test]
fn every_kind_has_a_word_of_its_own_and_its_row_in_the_documents() {
    let words: BTreeSet<&str> = AlarmKind::ALL.iter().map(|kind| kind.code().word()).collect();
    assert_eq!(words.len(), AlarmKind::ALL.len());
    assert!(AlarmKind::ALL.is_sorted());
    for word in words {
        assert!(
            DOCS.contains(&format!("\n| `{word}` | ")),
            "docs/failover.md has no row of {word}"
        );
    }
}
