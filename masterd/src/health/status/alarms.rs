//! Core: what somebody should do something about, by how the cluster stands. docs/failover.md has
//! the same list.

use model::Timestamp;
use model::cluster::Overridden;
use model::cluster_status::{
    AlarmSeverity, AlarmStatus, CandidateState, CandidateStatus, CertificateOwner,
    CertificateStatus, ClusterStatus, HEARD_WITHIN_MS, ProcessState, QuorumStatus, StandbyStatus,
    StoreHealth, StoreMissing, StoreStatus,
};

use queue_format::store::ASIDE;

use crate::cluster::verify::configuration::CERTIFICATE_DAYS;
use crate::cluster::verify::node::disk_is_low;
use crate::health::alarm::{Alarm, AlarmKind};
use crate::role::standing::before;

/// Entries that a candidate may lack for a while: what is decided in a moment.
pub const BEHIND_MAX: u64 = 1_000;
/// Seconds that a new candidate may take to get its copy: the master invites it within a second,
/// and tries again every five.
pub const NOT_YET_SECONDS: i64 = 60;
/// Percent of the journal that may be in use. Above it, the file writer or a member that is far behind
/// keeps the journal from being written anew.
pub const JOURNAL_MAX_PERCENT: u64 = 80;
/// Bytes of files that may wait to be written: half of what holds up new work.
pub const FILES_LAG_BYTES_MAX: u64 = 32 << 20;

const SECONDS_PER_DAY: i64 = 86_400;

/// An alarm that was found, before it is put in order.
type Found = (AlarmKind, AlarmStatus);

fn alarm(
    kind: AlarmKind,
    what: impl Into<String>,
    since: Option<Timestamp>,
    text: impl Into<String>,
    todo: impl Into<String>,
) -> Found {
    let kind_word = kind.code().to_string();
    let (what, text, todo) = (what.into(), text.into(), todo.into());
    (kind, AlarmStatus { severity: kind.severity(), kind: kind_word, what, since, text, todo })
}

/// All alarms, the worst first; `watched` are those that the watcher raised.
pub fn alarms(seen: &ClusterStatus, watched: &[Alarm]) -> Vec<AlarmStatus> {
    let is_master = seen.state == ProcessState::Master;
    let mut found = Vec::new();
    found.extend(
        seen.quorum.iter().filter(|_| is_master).flat_map(|quorum| of_quorum(quorum, seen)),
    );
    found.extend(seen.standby.iter().filter_map(|standby| of_standby(standby, seen)));
    found.extend(seen.store_missing.iter().map(|missing| of_missing(missing, seen)));
    found.extend(seen.store.iter().flat_map(|store| of_store(store, seen)));
    found.extend(seen.overridden.iter().map(of_override));
    let candidates = seen.candidates.iter().filter(|_| is_master);
    found.extend(candidates.filter_map(|candidate| of_candidate(candidate, seen)));
    found.extend(watched.iter().map(of_watcher));
    found.extend(seen.certificates.iter().filter_map(|held| of_certificate(held, seen.now)));
    if seen.queue.as_ref().is_some_and(|queue| queue.drained) {
        let todo = "`gnt cluster queue undrain` opens it again";
        found.push(alarm(
            AlarmKind::Drained,
            "queue",
            None,
            "it is drained: no new jobs are taken",
            todo,
        ));
    }
    if let Some(until) = seen.watcher_paused_until {
        let text = format!("it is paused until {until}: nothing is mended by itself");
        let todo = "`gnt cluster watcher continue` lets it go on";
        found.push(alarm(AlarmKind::WatcherPaused, "watcher", None, text, todo));
    }
    found.sort_by_key(|(kind, _)| *kind);
    found.into_iter().map(|(_, alarm)| alarm).collect()
}

fn of_quorum(quorum: &QuorumStatus, seen: &ClusterStatus) -> Option<Found> {
    let (heard, voters, needed) = (quorum.heard?, quorum.voters.len(), quorum.needed);
    if quorum.majority == Some(false) {
        let since = quorum.heard_ms.map(|ms| before(seen.now, ms));
        let text = format!(
            "no majority answers: {heard} of {voters} voters were heard, {needed} are needed; changes \
             are refused, and what is shown may be old"
        );
        let todo = "start masterd on the voters that are unreachable, or mend their network; it goes \
                    on by itself. Only where their disks are lost: \"The majority is gone for good\" in \
                    the runbook";
        return Some(alarm(AlarmKind::MajorityLost, "quorum", since, text, todo));
    }
    // All heard is as good as it gets, but for two, of whom neither may go.
    let thin = (heard < voters || voters == 2) && heard <= needed;
    let text = format!(
        "{heard} of {voters} voters were heard, and {needed} are needed: one more that goes stops \
         the cluster"
    );
    let todo = if heard == voters {
        "wait until the third candidate has its copy, and votes; where none is on its way, start masterd \
         on another candidate, or promote one: `gnt node modify -C yes NODE`"
    } else {
        "bring the voters back that are unreachable; for one that is away for long, `gnt node modify \
         --offline yes --auto-promote NODE`, and another takes its place"
    };
    thin.then(|| alarm(AlarmKind::MajorityThin, "quorum", None, text, todo))
}

fn of_standby(standby: &StandbyStatus, seen: &ClusterStatus) -> Option<Found> {
    if let Some(forgot) = &standby.forgot {
        let todo = "put the store aside; until there is a new one this node does not vote: \"A candidate \
                    gets a new store\" in the runbook";
        let what = format!("store of {}", seen.node);
        return Some(alarm(AlarmKind::CandidateForgot, what, None, forgot, todo));
    }
    let since = standby.heard_ms.map(|ms| before(seen.now, ms));
    if seen.state == ProcessState::Starting {
        let text = format!("{} was the master last, and may not start yet", seen.node);
        let todo = "see below what every node said and what to do; it goes on by itself when enough \
                    answer";
        return Some(alarm(AlarmKind::NotConfirmed, "master", since, text, todo));
    }
    if standby.heard_ms.is_some_and(|ms| ms <= HEARD_WITHIN_MS) {
        return None;
    }
    let me = &seen.node;
    if standby.offline {
        let text = format!(
            "{me} is marked offline, as the last that its log says of it, and hears no master"
        );
        let todo = format!(
            "on the master, `gnt node modify -O no {me}` takes it back; where certificates were renewed \
             meanwhile, `noded enroll --again` here and `gnt node add --readd {me} --secret -` there. If there is \
             no master any more, `gnt cluster master-failover` on another candidate"
        );
        return Some(alarm(AlarmKind::LeaderSilent, "master", since, text, todo));
    }
    let text = match &seen.master {
        Some(master) => format!("the master, {}, is not heard here", master.node),
        None => "no master is heard here".to_owned(),
    };
    let is_own = |one: &&CandidateStatus| one.node == me.as_str();
    let own = seen.candidates.iter().find(is_own).map(|one| one.state);
    let taker = match own {
        Some(CandidateState::Witness) => "on a candidate asks everyone, and makes that one",
        _ => "here asks everyone, and makes this node",
    };
    let todo = format!(
        "look at its node, and start masterd there or mend the network; if it is gone, or has no store any \
         more, `gnt cluster master-failover` {taker} the master or says what stands against it"
    );
    Some(alarm(AlarmKind::LeaderSilent, "master", since, text, todo))
}

fn of_missing(missing: &StoreMissing, seen: &ClusterStatus) -> Found {
    let StoreMissing { was_master, headless, others } = missing;
    let me = &seen.node;
    let is = match was_master {
        true => format!("{me} was the master, as its agent knows"),
        false => format!("{me} is a candidate"),
    };
    let text = match headless {
        Some(path) => format!(
            "{is}, and has a store without its `store.json` (in {path}), which is not opened"
        ),
        None if *was_master => format!("{is}, and has no store"),
        None => format!("{is}, and has no store, and no master invites it"),
    };
    let back = match headless {
        Some(_) => "put `store.json` back if it is somewhere else on this machine; else ",
        None => "if a disk is only not mounted, mount it; else ",
    };
    let todo = match others {
        // The store here may be the last one.
        None if *was_master => format!(
            "{back}no other candidate is known here: restore a backup of the whole data directory, or \
             the cluster from an export (docs/install.md, \"Export, and restore from one\")"
        ),
        None => format!("{back}see who is master by `gnt cluster status` on another candidate"),
        Some(others) => format!(
            "{back}see who is master by `gnt cluster status` on the other candidates ({others}); where nobody is, \
             `gnt cluster master-failover` there asks everyone. A master gives this node a new store by itself, \
             once what is left of this one is put aside (\"A candidate gets a new store\" in the runbook), and \
             says why where it cannot; if this node was removed: `noded enroll --again` here and `gnt node add \
             --readd {me}` there"
        ),
    };
    alarm(AlarmKind::StoreMissing, format!("store of {me}"), None, text, todo)
}

fn of_store(store: &StoreStatus, seen: &ClusterStatus) -> Vec<Found> {
    let (what, mut found) = (format!("store of {}", seen.node), Vec::new());
    match &store.health {
        StoreHealth::Good => found.extend(disk_low(store, &what)),
        StoreHealth::DiskFull { since, reason } => {
            let text = format!("the disk takes no files, and new work is refused: {reason}");
            let todo = "make room, or make it writable; it goes on by itself";
            found.push(alarm(AlarmKind::DiskFull, &what, Some(*since), text, todo));
        }
        StoreHealth::Failed { reason } => {
            let text = format!("nothing is committed here any more: {reason}");
            let todo = "look at the disk and at the log of masterd, then start masterd anew";
            found.push(alarm(AlarmKind::StoreFailed, &what, None, text, todo));
        }
    }
    let StoreStatus { journal_used_bytes: used, journal_bytes: all, .. } = *store;
    if used.saturating_mul(100) > all.saturating_mul(JOURNAL_MAX_PERCENT) {
        let percent = used.saturating_mul(100).checked_div(all).unwrap_or(100);
        let text = format!("{percent} % of the journal cannot be written anew yet");
        let todo = "the disk does not keep up with what is written: see what else uses it; if this \
                    lasts, a larger journal bears longer loads";
        found.push(alarm(AlarmKind::Journal, &what, None, text, todo));
    }
    if store.files_lag_bytes > FILES_LAG_BYTES_MAX {
        let (keys, mib) = (store.files_lag_keys, store.files_lag_bytes >> 20);
        let text = format!("{keys} committed documents ({mib} MiB) wait to be written as files");
        let todo = "nothing is lost, the journal has them; see what else uses the disk";
        found.push(alarm(AlarmKind::Files, &what, None, text, todo));
    }
    found
}

fn disk_low(store: &StoreStatus, what: &str) -> Option<Found> {
    let (free, all) = store.disk_free_mib.zip(store.disk_mib)?;
    let text = format!("{free} of {all} MiB are free");
    let todo = "make room: `gnt job autoarchive` and removing archived jobs help, as does a larger \
                disk";
    disk_is_low(free, all).then(|| alarm(AlarmKind::DiskLow, what, None, text, todo))
}

fn of_override(overridden: &Overridden) -> Found {
    let Overridden { at, node, cut } = overridden;
    let text = format!("{node} became master without any vote: {}", cut.join("; "));
    let todo = format!(
        "what those nodes held is kept aside on them when they are back, below `{ASIDE}` in their data \
         directory: look at what of it is to be done again, then `gnt cluster modify --override-seen`"
    );
    alarm(AlarmKind::OverrideCut, "override", Some(*at), text, todo)
}

fn of_candidate(candidate: &CandidateStatus, seen: &ClusterStatus) -> Option<Found> {
    let now = seen.now;
    let CandidateStatus { node, state, since, .. } = candidate;
    let what = format!("candidate {node}");
    if *state == CandidateState::NotYet {
        let patience = now.plus_seconds(-NOT_YET_SECONDS);
        let late = since.is_none_or(|since| since <= patience);
        let todo = format!(
            "start masterd on {node} with `--peers` if it does not run; if it does, the log of the master \
             says why it could not be invited, and `gnt cluster status` there what it lacks: for a damaged store, \"A candidate gets a new store\" in \
             the runbook; or `gnt node modify -C no --auto-promote {node}`"
        );
        let text = "it has no copy of the store, and could not be the master";
        return late.then(|| alarm(AlarmKind::CandidateMissing, what, *since, text, todo));
    }
    if let Some(forgot) = &candidate.forgot {
        let todo = match candidate.older_copy {
            true => format!(
                "put the store of {node} aside; until it has a new one it does not vote: \"A candidate \
                 gets a new store\" in the runbook"
            ),
            false => format!(
                "if a disk of {node} is only not mounted, mount it; else wait: within a minute the \
                 master makes it another member, which fetches everything"
            ),
        };
        return Some(alarm(AlarmKind::CandidateForgot, what, *since, forgot, todo));
    }
    if let Some(why) = &candidate.not_listening {
        let todo = format!(
            "mend that on {node}: masterd is started with `--peers ADDRESS`; or correct the node: `gnt node \
             modify --peer-port PORT {node}`"
        );
        return Some(alarm(AlarmKind::CandidateUnreachable, what, *since, why, todo));
    }
    if candidate.unreachable {
        let changes = seen.quorum.as_ref().is_none_or(|quorum| quorum.majority != Some(false));
        let back = format!("start masterd on {node}, or mend its network");
        let todo = match changes {
            true => format!(
                "{back}; if the machine is away for long, `gnt node modify --offline yes --auto-promote \
                 {node}`"
            ),
            // To set it offline would be refused as well.
            false => back,
        };
        let text = "its masterd does not answer";
        return Some(alarm(AlarmKind::CandidateUnreachable, what, *since, text, todo));
    }
    if candidate.disk_full {
        let todo = format!("make room on {node}, or make its disk writable; it goes on by itself");
        let text = "its disk takes no files: it follows as long as its journal has room, and counts as \
                    no voter when the role is to move";
        return Some(alarm(AlarmKind::CandidateFull, what, None, text, todo));
    }
    let behind = candidate.behind.filter(|behind| *behind > BEHIND_MAX)?;
    let text = format!("it lacks {behind} entries of the log");
    let todo = format!(
        "wait, if the number falls; else look at disk and network of {node}, and at the log of its \
         masterd"
    );
    Some(alarm(AlarmKind::CandidateBehind, what, None, text, todo))
}

fn of_watcher(raised: &Alarm) -> Found {
    let Alarm { what, since, text, todo } = raised;
    let (kind, found) = alarm(what.kind(), what.to_string(), Some(*since), text, todo);
    (kind, AlarmStatus { severity: what.severity(), ..found })
}

fn of_certificate(held: &CertificateStatus, now: Timestamp) -> Option<Found> {
    let left = held.ends.seconds() - now.seconds();
    let days = left.div_euclid(SECONDS_PER_DAY);
    let text = match left {
        ..0 => format!("it ended at {}: nobody accepts it any more", held.ends),
        _ => format!("it ends in {days} days, at {}", held.ends),
    };
    let (what, todo) = match &held.owner {
        CertificateOwner::Authority => (
            "certificate of the authority".to_owned(),
            "all others end with it; this version cannot renew it: plan a new cluster before then"
                .to_owned(),
        ),
        CertificateOwner::Node(node) => (
            format!("certificate of {node}"),
            match left {
                ..0 => format!(
                    "move the role away from {node} if it is the master, then `noded enroll --again` there \
                     and `gnt node add --readd {node} --secret -` here give it a new one"
                ),
                _ => format!("`gnt cluster renew-crypto --node {node}` gives it a new one"),
            },
        ),
    };
    let (kind, mut found) = alarm(AlarmKind::Certificate, what, None, text, todo);
    if left < 0 {
        found.severity = AlarmSeverity::Critical;
    }
    (days < CERTIFICATE_DAYS.1).then_some((kind, found))
}

#[cfg(test)]
mod tests;
