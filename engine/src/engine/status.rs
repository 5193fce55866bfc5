//! How a member stands, for those who decide and those who look.

use std::collections::BTreeMap;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::type_config::TypeConfigExt;
use queue_format::{Epoch, Position};

use super::{Engine, Members};
use crate::types::{TypeConfig, position};

/// How long an engine may take to answer whether it works: it is asked again soon.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// How a member stands at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineStatus {
    /// The epoch in which it leads, if it does.
    pub leads: Option<Epoch>,
    /// The highest epoch that it has voted for or obeyed.
    pub vote: Epoch,
    /// Whether a majority gave its votes to that epoch, as far as this member knows.
    pub elected: bool,
    /// The last entry in its log; it may not be durable yet, and never be committed.
    pub last: Position,
    /// The last entry that it knows to be committed and has applied.
    pub applied: Position,
    /// Milliseconds since a majority answered its leader, where it leads; a lone voter is its own
    /// majority. Since it heard a leader, where it follows; none where it never did.
    pub heard_ms: Option<u64>,
    /// The members, as this one knows them.
    pub members: Members,
    /// The state of the others, where it leads.
    pub followers: BTreeMap<u64, Follower>,
    /// Entries of the log that are kept in memory, for those who lack some.
    pub log_kept: usize,
    /// Bytes that these take.
    pub log_kept_bytes: usize,
    /// Why the engine stopped, if it did.
    pub stopped: Option<String>,
}

impl EngineStatus {
    /// The epoch in which this member takes proposals: it leads, and a majority has said so within
    /// a lease.
    pub fn takes_proposals(&self) -> Option<Epoch> {
        self.leads.filter(|_| self.heard_ms.is_some_and(|ms| ms <= super::LEASE_MS))
    }
}

/// How a member follows its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Follower {
    /// Milliseconds since it answered; none if it never did.
    pub heard_ms: Option<u64>,
    /// Entries that it lacks, as far as is known.
    pub behind: u64,
    /// Whether it has the entry that says who is a member today, and so all that went before.
    pub knows_members: bool,
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Engine {
    /// How this member stands.
    pub fn status(&self) -> EngineStatus {
        let leads = self.leads();
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.vote.leader_id();
        let last = self.last();
        let (log_kept, log_kept_bytes) = self.log.kept();
        let now = TypeConfig::now();
        let told = metrics.membership_config.log_id();
        let follower = |(&member, matching): (&u64, &Option<crate::types::LogId>)| {
            let heard = metrics.heartbeat.as_ref().and_then(|heard| heard.get(&member)?.as_ref());
            let knows_members = matching.is_some() && matching >= told;
            let matching = matching.as_ref().map(position).unwrap_or_default();
            let follower = Follower {
                heard_ms: heard.map(|then| ms(now - **then)),
                behind: last.index.saturating_sub(matching.index),
                knows_members,
            };
            (member, follower)
        };
        let members = Members::of(metrics.membership_config.membership());
        let followers = metrics.replication.iter().flatten().filter(|(id, _)| **id != self.member);
        EngineStatus {
            leads,
            vote: Epoch { term: leader.term, node: leader.node_id },
            elected: metrics.vote.is_committed(),
            last,
            applied: self.position(),
            heard_ms: match leads {
                // A majority by itself hears nobody else.
                Some(_) if members.voters == [self.member].into() => Some(0),
                Some(_) => metrics.last_quorum_acked.as_ref().map(|then| ms(now - **then)),
                None => self.heard.lock().map(|then| ms(then.elapsed())),
            },
            members,
            followers: followers.map(follower).collect(),
            log_kept,
            log_kept_bytes,
            stopped: metrics.running_state.as_ref().err().map(ToString::to_string),
        }
    }

    /// Why the engine works no more, if it does not. Of one that broke off, [`EngineStatus::stopped`] says
    /// nothing: it did not come to that. An engine that does not answer for a moment is busy.
    pub async fn stopped(&self) -> Option<String> {
        let asked = self.raft.with_raft_state(|_state| ());
        let answer = tokio::time::timeout(ANSWERS_WITHIN, asked).await.ok()?;
        answer.err().map(|fatal| fatal.to_string())
    }

    /// Waits until `enough` holds of this member's standing, at most `deadline`; gives the last one
    /// seen.
    pub async fn wait_for(
        &self,
        deadline: Duration,
        enough: impl Fn(&EngineStatus) -> bool,
    ) -> (bool, EngineStatus) {
        let mut metrics = self.raft.metrics();
        let reached = async {
            loop {
                let status = self.status();
                if enough(&status) {
                    return Some(status);
                }
                metrics.changed().await.ok()?;
            }
        };
        // A status that was enough is given as it was: time alone makes it less a moment later.
        if let Ok(Some(status)) = tokio::time::timeout(deadline, reached).await {
            return (true, status);
        }
        let status = self.status();
        (enough(&status), status)
    }
}
