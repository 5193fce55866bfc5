//! Leading, and ceasing to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};
use openraft::metrics::RaftServerMetrics;
use openraft::type_config::TypeConfigExt as _;
use openraft::{BasicNode, ChangeMembers, ServerState};
use queue_format::Epoch;
use tokio::time::Instant;

use super::{Engine, EngineStatus, Members, MembersError};
use crate::error::{HandOverError, TakeOverError};
use crate::types::TypeConfig;

/// Time between two attempts to be elected: the engine does not say that it refused one.
const ELECT_AGAIN: Duration = Duration::from_millis(100);

/// Time between two offers of the lead: enough for an election, a fraction of what who hands over
/// waits for.
const OFFER_AGAIN: Duration = Duration::from_secs(1);

/// Least time that a new voter is given to take two entries: its disk was slow if less is left.
const VOTE_MIN: Duration = Duration::from_secs(3);

/// The epoch in which the member of these figures leads, if it does.
fn leading(metrics: &RaftServerMetrics<TypeConfig>) -> Option<Epoch> {
    // After a restart the stored vote may still name this member: only the state tells.
    let leader = metrics.vote.leader_id();
    let leads = metrics.state == ServerState::Leader && metrics.vote.is_committed();
    leads.then_some(Epoch { term: leader.term, node: leader.node_id })
}

impl Engine {
    /// Asks to lead, until it is elected and acknowledged by a majority that has all of this member's
    /// log. It ends, too, when another member is elected, the earlier leader is heard again, or
    /// `deadline` has passed. In a store that knows no members yet, this one becomes the only voter
    /// first.
    ///
    /// # Errors
    /// Not elected in time, it leads already, or the engine has stopped.
    pub async fn take_over(&self, deadline: Duration) -> Result<Epoch, TakeOverError> {
        self.take_over_since(self.status().vote, deadline).await
    }

    /// The same, for a caller that decided on it when `known` was the newest epoch. A leader in a later
    /// one was elected meanwhile, though this member may have heard of it before this call.
    ///
    /// # Errors
    /// As [`Engine::take_over`].
    pub async fn take_over_since(
        &self,
        known: Epoch,
        deadline: Duration,
    ) -> Result<Epoch, TakeOverError> {
        let stopped = |reason: String| TakeOverError::Stopped { reason };
        if let Some(epoch) = self.leads() {
            return Err(TakeOverError::Leads { epoch });
        }
        let me = BTreeMap::from([(self.member, BasicNode { addr: self.node.clone() })]);
        // A new store's first election comes with its members.
        let mut asked = match self.raft.initialize(me).await {
            Ok(()) => true,
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => false,
            Err(error) => return Err(stopped(error.to_string())),
        };
        let began = Instant::now();
        let other = |status: &EngineStatus, within: u64| {
            let is_heard = status.heard_ms.is_some_and(|ms| ms <= within);
            let is_other = status.elected && status.vote.node != self.member;
            (is_heard && is_other).then_some(status.vote)
        };
        let another =
            |status: &EngineStatus| other(status, super::LEASE_MS).filter(|epoch| *epoch > known);
        // Heard since this call began.
        let back = |status: &EngineStatus| {
            let since = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            other(status, since.saturating_sub(1))
        };
        if let Some(epoch) = another(&self.status()) {
            return Err(TakeOverError::Another { epoch });
        }
        if let Some(until) = self.obeys_until {
            tokio::time::sleep_until(until.min(began + deadline)).await;
        }
        while began.elapsed() < deadline {
            if !std::mem::take(&mut asked) {
                // With the question first: against a healthy leader it then does no harm.
                self.raft
                    .trigger()
                    .elect(true)
                    .await
                    .map_err(|error| stopped(error.to_string()))?;
            }
            // Elected is not enough: before a majority has answered it, nothing can be appended.
            // And what its predecessors left is committed with its first entry.
            let ready = |status: &EngineStatus| {
                let epoch = status.takes_proposals();
                epoch.filter(|epoch| status.applied.epoch == *epoch)
            };
            let (_, status) = self.wait_for(ELECT_AGAIN, |seen| ready(seen).is_some()).await;
            if let Some(epoch) = ready(&status) {
                return Ok(epoch);
            }
            if let Some(epoch) = another(&status) {
                return Err(TakeOverError::Another { epoch });
            }
            // It would be asked for until that one hands over to somebody else.
            if let Some(epoch) = back(&status) {
                return Err(TakeOverError::Back { epoch });
            }
            if let Some(reason) = status.stopped {
                return Err(stopped(reason));
            }
            // Not elected: ask again, for a refusal is silent.
        }
        Err(TakeOverError::Deadline { waited: deadline })
    }

    /// The epoch in which this member leads, if it does.
    pub fn leads(&self) -> Option<Epoch> {
        let leads = leading(&self.raft.server_metrics().borrow_watched());
        // A panic of the engine leaves its last words standing.
        leads.filter(|_| self.raft.metrics().borrow_watched().running_state.is_ok())
    }

    /// Waits until this member leads in another epoch than `known`, or no longer: an engine that has
    /// ended does not.
    pub async fn leads_otherwise(&self, known: Option<Epoch>) -> Option<Epoch> {
        // These change with members and leaders alone, the others several times with every commit.
        let mut metrics = self.raft.server_metrics();
        loop {
            let leads = leading(&metrics.borrow_watched());
            if leads != known {
                return leads;
            }
            if metrics.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Hands leadership to the member `to`: nothing must be proposed meanwhile. The demands on `to` are
    /// checked first, for the engine itself would be stuck with a member that cannot lead.
    ///
    /// A lone voter gives a learner a vote first; both then vote until the next leader changes that, and
    /// neither leads without the other meanwhile.
    ///
    /// # Errors
    /// Refused, and nothing happened; or not done in time: then this engine takes no proposals any
    /// more, whoever leads, and has to be closed and opened again.
    pub async fn hand_over(&self, to: u64, deadline: Duration) -> Result<(), HandOverError> {
        let _alone = self.proposing.lock().await;
        let begun = TypeConfig::now();
        let left = || deadline.saturating_sub(TypeConfig::now() - begun);
        // Nothing is added meanwhile, so the follower soon has all of it. A disk that is slow for a
        // moment is no reason to have given up a leadership for nothing.
        let soon = |status: &EngineStatus| {
            let can = self.can_lead(to, status);
            matches!(can, Err(HandOverError::Behind { .. } | HandOverError::Silent { .. }))
        };
        let (_, status) = self.wait_for(left(), |status| !soon(status)).await;
        self.can_lead(to, &status)?;
        self.answers_anew(to, left()).await?;
        let stuck = |reason: String| HandOverError::Stuck { to, reason };
        if !status.members.voters.contains(&to) {
            // Two voters that do not come to be two in time are nobody's master, each by itself.
            if left() < VOTE_MIN {
                return Err(HandOverError::Slow { to });
            }
            self.give_vote(to, status.members.voters, left()).await?;
            let able = |status: &EngineStatus| self.can_lead(to, status).is_ok();
            let (_, status) = self.wait_for(left(), able).await;
            self.can_lead(to, &status).map_err(|error| stuck(error.to_string()))?;
        }
        let offering = async {
            loop {
                let offered = self.raft.trigger().transfer_leader(to).await;
                offered.map_err(|error| stuck(error.to_string()))?;
                // It may have been lost with a connection.
                if let Ok(led) = tokio::time::timeout(OFFER_AGAIN, self.led_by_another()).await {
                    return led.ok_or_else(|| stuck("the engine has stopped".to_owned()));
                }
            }
        };
        let handed = tokio::time::timeout(left(), offering).await;
        handed.unwrap_or_else(|_| Err(stuck(format!("nobody else leads after {deadline:?}"))))
    }

    /// Waits until `to` has answered what it was sent from now on. A member that was started anew can
    /// follow an offer only once it heard the leader, which says nothing else while it offers.
    async fn answers_anew(&self, to: u64, deadline: Duration) -> Result<(), HandOverError> {
        let begun = TypeConfig::now();
        let beaten = self.raft.trigger().heartbeat().await;
        beaten.map_err(|error| HandOverError::Stuck { to, reason: error.to_string() })?;
        let mut metrics = self.raft.metrics();
        let answered = async {
            loop {
                let heard = {
                    let seen = metrics.borrow_watched();
                    seen.heartbeat.as_ref().and_then(|heard| Some(**heard.get(&to)?.as_ref()?))
                };
                if heard.is_some_and(|then| then >= begun) {
                    return Some(());
                }
                metrics.changed().await.ok()?;
            }
        };
        let answered = tokio::time::timeout(deadline, answered).await;
        answered.ok().flatten().ok_or(HandOverError::Silent { to })
    }

    /// Waits until another member leads; none where the engine has stopped.
    async fn led_by_another(&self) -> Option<()> {
        let mut metrics = self.raft.metrics();
        loop {
            let leader = {
                let seen = metrics.borrow_watched();
                seen.vote.is_committed().then(|| seen.vote.leader_id().node_id)
            };
            if leader.is_some_and(|leader| leader != self.member) {
                return Some(());
            }
            metrics.changed().await.ok()?;
        }
    }

    /// Has `to` vote beside `voters`.
    async fn give_vote(
        &self,
        to: u64,
        mut voters: BTreeSet<u64>,
        deadline: Duration,
    ) -> Result<(), HandOverError> {
        voters.insert(to);
        let changed = self.change(ChangeMembers::ReplaceAllVoters(voters));
        match tokio::time::timeout(deadline, changed).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(MembersError::Unknown { reason })) => Err(HandOverError::Stuck { to, reason }),
            Ok(Err(error)) => Err(HandOverError::NoVote { to, error }),
            Err(_elapsed) => {
                let reason = format!("it does not vote after {deadline:?}");
                Err(HandOverError::Stuck { to, reason })
            }
        }
    }

    /// Whether the lead could be handed to the member `to`, once it has what it still lacks. A member
    /// that does not answer is awaited, at most for `patience`: it may just have been started.
    ///
    /// # Errors
    /// Why not.
    pub async fn could_lead(&self, to: u64, patience: Duration) -> Result<(), HandOverError> {
        let answers = |status: &EngineStatus| {
            !matches!(self.can_lead(to, status), Err(HandOverError::Silent { .. }))
        };
        let (_, status) = self.wait_for(patience, answers).await;
        match self.can_lead(to, &status) {
            Err(HandOverError::Behind { .. }) => Ok(()),
            can => can,
        }
    }

    /// Whether `to` could lead at once: it votes, or could as the second one, was heard within a
    /// lease, and has everything.
    fn can_lead(&self, to: u64, status: &EngineStatus) -> Result<(), HandOverError> {
        if status.leads.is_none() {
            return Err(HandOverError::NotLeading);
        }
        let Members { voters, nodes, .. } = &status.members;
        let could_vote = voters.len() == 1 && nodes.contains_key(&to);
        if to == self.member || !(voters.contains(&to) || could_vote) {
            return Err(HandOverError::NoVoter { to });
        }
        let follower = status.followers.get(&to);
        let heard = follower.and_then(|follower| follower.heard_ms);
        if heard.is_none_or(|ms| ms > super::LEASE_MS) {
            return Err(HandOverError::Silent { to });
        }
        let behind = follower.map_or(u64::MAX, |follower| follower.behind);
        if behind > 0 {
            return Err(HandOverError::Behind { to, entries: behind });
        }
        Ok(())
    }
}
