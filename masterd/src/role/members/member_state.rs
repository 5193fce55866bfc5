//! Core: how the nodes stand as members, for the policy of `membership::pool`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::{EngineStatus, Follower, LEASE_MS, Members};
use model::NodeName;
use model::node::{Acknowledged, Node, NodeRole};
use queue_format::Position;

use crate::config::Config;
use membership::acknowledged::to_record;
use membership::loss::{self, Stops};
use membership::pool::{Pool, PoolNode, Voting};

/// Silence after which a follower is not counted on, in milliseconds: several heartbeats, and the
/// pause before a lost connection is made anew.
const REACHED_WITHIN_MS: u64 = 5_000;

/// How long a learner may be getting its copy until it is waited for no longer: a store of tens of
/// gigabytes takes less.
const COPY_MAX: Duration = Duration::from_mins(10);

/// Entries that a learner may lack when it is made a voter: what is decided in a moment.
const CURRENT_WITHIN: u64 = 1_000;

/// Since when nodes are awaited, in time of the leadership.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    now: Duration,
    /// Members of whom nothing was heard yet.
    unheard: BTreeMap<u64, Duration>,
    /// Learners that were heard and lack much.
    coming: BTreeMap<u64, Duration>,
    /// Nodes that have no member.
    absent: BTreeMap<u64, Duration>,
}

impl Awaited {
    /// Takes in how everything stands at the time `now`.
    pub(crate) fn look(&mut self, config: &Config, status: &EngineStatus, now: Duration) {
        self.now = now;
        let ids = |is: &dyn Fn(u64, &Follower) -> bool| -> BTreeSet<u64> {
            let followers = status.followers.iter();
            followers.filter(|(id, follower)| is(**id, follower)).map(|(id, _)| *id).collect()
        };
        let unheard = ids(&|_, follower| follower.heard_ms.is_none());
        note(&mut self.unheard, &unheard, &unheard, now);
        let comes =
            |id, follower: &Follower| !status.members.voters.contains(&id) && !is_current(follower);
        // A member that installs its copy says nothing until it is done. A member that is silent for
        // long has gone, and comes anew.
        let within = u64::try_from(COPY_MAX.as_millis()).unwrap_or(u64::MAX);
        let stays = |follower: &Follower| follower.heard_ms.is_some_and(|ms| ms <= within);
        let coming = ids(&|id, follower| comes(id, follower) && stays(follower));
        let begin = ids(&|id, follower| comes(id, follower) && is_heard(follower));
        note(&mut self.coming, &coming, &begin, now);
        let has_none = |node: &&Arc<Node>| {
            let member = node.member.as_ref();
            member.is_none_or(|member| !status.members.nodes.contains_key(&member.id))
        };
        let absent = config.nodes.values().filter(has_none).map(|node| node.id).collect();
        note(&mut self.absent, &absent, &absent, now);
    }

    fn is_new(&self, member: u64) -> bool {
        let within = Duration::from_millis(REACHED_WITHIN_MS);
        self.unheard.get(&member).is_some_and(|since| self.now.saturating_sub(*since) <= within)
    }

    fn is_late(&self, since: Option<&Duration>) -> bool {
        since.is_some_and(|since| self.now.saturating_sub(*since) > COPY_MAX)
    }
}

/// Forgets who is not `there` any more, and notes `now` for those who `begin`.
fn note(
    since: &mut BTreeMap<u64, Duration>,
    there: &BTreeSet<u64>,
    begin: &BTreeSet<u64>,
    now: Duration,
) {
    since.retain(|id, _| there.contains(id));
    for id in begin {
        since.entry(*id).or_insert(now);
    }
}

fn is_current(follower: &Follower) -> bool {
    // Of a young cluster, one that has nothing at all lacks few entries.
    is_heard(follower) && follower.knows_members && follower.behind <= CURRENT_WITHIN
}

pub(super) fn pool_node(
    node: &Node,
    is_master: bool,
    (status, awaited): (Option<&EngineStatus>, &Awaited),
    reached: bool,
) -> PoolNode {
    let id = node.member.as_ref().map(|member| member.id);
    let seat = id.zip(status).and_then(|(id, status)| {
        let members = &status.members;
        let follower = status.followers.get(&id);
        // A new member, or a follower of a new leadership, has had no time to answer; nor has a member
        // that installs its copy.
        let coming = awaited.coming.get(&id);
        let is_coming = coming.is_some() && !awaited.is_late(coming);
        let answers = follower.is_some_and(is_heard) || awaited.is_new(id) || is_coming;
        let current = follower.is_some_and(is_current);
        match (members.voters.contains(&id), members.nodes.contains_key(&id)) {
            (true, _) => Some((Voting::Voter, is_master || answers)),
            (false, true) => Some((Voting::Learner { current }, answers)),
            (false, false) => None,
        }
    });
    PoolNode {
        id: node.id,
        role: if is_master { NodeRole::Candidate } else { node.role },
        master_capable: node.master_capable,
        witness: node.witness,
        rack: node.rack,
        reachable: is_master || seat.map_or(reached, |(_, answers)| answers),
        late: awaited.is_late(match seat {
            Some(_) => id.and_then(|id| awaited.coming.get(&id)),
            None => awaited.absent.get(&node.id),
        }),
        // A master that is alone votes for itself.
        seat: seat.map(|(seat, _)| seat).or_else(|| is_master.then_some(Voting::Voter)),
    }
}

/// Members that answer the one that leads, and itself.
pub(crate) fn heard(me: u64, status: &EngineStatus) -> BTreeSet<u64> {
    heard_within(REACHED_WITHIN_MS, me, status)
}

/// The same, by what was heard within a lease.
pub(crate) fn heard_lately(me: u64, status: &EngineStatus) -> BTreeSet<u64> {
    heard_within(LEASE_MS, me, status)
}

/// The same, by answers of the last `limit_ms`.
fn heard_within(limit_ms: u64, me: u64, status: &EngineStatus) -> BTreeSet<u64> {
    let is_heard = |follower: &Follower| follower.heard_ms.is_some_and(|ms| ms <= limit_ms);
    let followers = status.followers.iter().filter(|(_, follower)| is_heard(follower));
    followers.map(|(id, _)| *id).chain([me]).collect()
}

/// Whether the voters can become these `to`, by the answers within a lease. A begun change needs
/// majorities of the old and of the new voters; nothing else is committed until it has both.
///
/// # Errors
/// A majority of either does not answer.
pub(super) fn can_become(me: u64, status: &EngineStatus, to: &BTreeSet<u64>) -> Result<(), Stops> {
    let heard = heard_lately(me, status);
    let before = status.members.sets();
    before.iter().chain([to]).try_for_each(|voters| loss::goes_on(voters, &heard))
}

fn is_heard(follower: &Follower) -> bool {
    follower.heard_ms.is_some_and(|ms| ms <= REACHED_WITHIN_MS)
}

/// Nodes whose member has fallen silent, and what is to be recorded of it; `known` is up to where a
/// member is known to hold the log.
pub(super) fn silent(
    config: &Config,
    status: &EngineStatus,
    known: impl Fn(u64) -> Position,
) -> Vec<(NodeName, Acknowledged)> {
    let silent = |node: &Node| {
        let member = node.member.as_ref()?;
        let follower = status.followers.get(&member.id)?;
        let at = to_record(member, known(member.id)).filter(|_| !is_heard(follower))?;
        Some((node.name.clone(), at))
    };
    config.nodes.values().filter_map(|node| silent(node)).collect()
}

/// A member whose node is gone.
pub(super) fn without_node(config: &Config, members: &Members) -> Option<u64> {
    members.nodes.keys().copied().find(|id| config.nodes.by.member.of(*id).next().is_none())
}

/// A node whose member `lost` its store for good, and which is to have another one. A node that failed a
/// moment ago has to wait; a node that is to be no member is wiped in its turn.
pub(super) fn to_be_replaced<'a>(
    config: &'a Config,
    pool: &Pool,
    lost: &BTreeSet<u64>,
    waiting: &BTreeSet<u64>,
) -> Option<&'a Arc<Node>> {
    let belongs = |id| pool.nodes.iter().any(|node| node.id == id && node.belongs());
    config.nodes.values().find(|node| {
        let is_lost = node.member.as_ref().is_some_and(|member| lost.contains(&member.id));
        is_lost && belongs(node.id) && !waiting.contains(&node.id)
    })
}

/// Nodes that are to be members and are none, and whose agents do not answer.
pub(super) fn unreached(pool: &Pool) -> BTreeSet<u64> {
    let absent = |node: &&PoolNode| node.belongs() && node.seat.is_none() && !node.reachable;
    pool.nodes.iter().filter(absent).map(|node| node.id).collect()
}

/// Whether a node holds what it should not any more: it is no candidate, and its member is none.
pub(super) fn is_to_be_wiped(node: &Node, members: &Members) -> bool {
    let gone = |id| !members.nodes.contains_key(&id);
    let is_witness = node.witness && node.role == NodeRole::Regular;
    // An offline node is not asked; it is wiped when it is back.
    matches!(node.role, NodeRole::Regular | NodeRole::Drained)
        && !is_witness
        && node.member.as_ref().is_some_and(|member| gone(member.id))
}

#[cfg(test)]
mod tests {
    use model::node::Member;
    use queue_format::Epoch;

    use super::*;
    use crate::testing;

    /// How a learner stands that is so far `behind` and was heard so long ago.
    fn learner(behind: u64, heard_ms: Option<u64>) -> EngineStatus {
        let knows_members = heard_ms.is_some();
        let nodes = [(1, "n1.example".to_owned()), (5, "n2.example".to_owned())].into();
        let members = Members { voters: [1].into(), nodes, ..Members::default() };
        let follower = Follower { behind, heard_ms, knows_members };
        EngineStatus {
            leads: Some(Epoch { term: 1, node: 1 }),
            vote: Epoch { term: 1, node: 1 },
            elected: true,
            last: Position::default(),
            applied: Position::default(),
            heard_ms: Some(0),
            members,
            followers: [(5, follower)].into(),
            log_kept: 0,
            log_kept_bytes: 0,
            stopped: None,
        }
    }

    #[test]
    fn who_comes_is_waited_for_and_not_without_end() {
        let mut node = testing::node("n2.example", NodeRole::Candidate);
        node.member = Some(Member { id: 5, incarnation: None, acknowledged: None });
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        let far = CURRENT_WITHIN + 1;
        let config = testing::config(std::slice::from_ref(&node));
        let mut awaited = Awaited::default();
        let (silent, gone) = (REACHED_WITHIN_MS + 1, 10 * 60_000 + 1);
        for (at, behind, heard_ms, reachable, late, current) in [
            // The engine has had no time to reach it.
            (second, far, None, true, false, false),
            (6 * second, far, None, true, false, false),
            (7 * second, far, None, false, false, false),
            (8 * second, far, Some(10), true, false, false),
            // It installs its copy.
            (minute, far, Some(silent), true, false, false),
            (10 * minute, far, Some(10), true, false, false),
            (10 * minute + 9 * second, far, Some(10), true, true, false),
            (10 * minute + 9 * second, far, Some(silent), false, true, false),
            (11 * minute, CURRENT_WITHIN, Some(10), true, false, true),
            // It fell behind again, and is off.
            (12 * minute, far, Some(10), true, false, false),
            (22 * minute, far, Some(gone), false, false, false),
            (23 * minute, far, Some(10), true, false, false),
        ] {
            let status = learner(behind, heard_ms);
            awaited.look(&config, &status, at);
            let seen = pool_node(&node, false, (Some(&status), &awaited), false);
            let is_current = seen.seat == Some(Voting::Learner { current: true });
            assert_eq!(
                (seen.reachable, seen.late, is_current),
                (reachable, late, current),
                "{at:?}"
            );
        }
    }

    #[test]
    fn who_has_nothing_of_a_young_store_does_not_vote_yet() {
        let mut node = testing::node("n2.example", NodeRole::Candidate);
        node.member = Some(Member { id: 5, incarnation: None, acknowledged: None });
        let config = testing::config(std::slice::from_ref(&node));
        let mut awaited = Awaited::default();
        let mut status = learner(CURRENT_WITHIN, Some(10));
        for knows_members in [false, true] {
            status.followers.get_mut(&5).unwrap().knows_members = knows_members;
            awaited.look(&config, &status, Duration::from_secs(1));
            let seen = pool_node(&node, false, (Some(&status), &awaited), true);
            assert_eq!(seen.seat, Some(Voting::Learner { current: knows_members }));
            assert!(seen.reachable);
        }
    }

    #[test]
    fn who_is_to_be_invited_is_waited_for_and_not_without_end() {
        let node = testing::node("n2.example", NodeRole::Candidate);
        let config = testing::config(std::slice::from_ref(&node));
        let mut awaited = Awaited::default();
        for (at, late) in [(1, false), (601, false), (602, true)] {
            let mut status = learner(0, None);
            status.members.nodes.remove(&5);
            awaited.look(&config, &status, Duration::from_secs(at));
            let seen = pool_node(&node, false, (Some(&status), &awaited), false);
            assert_eq!((seen.seat, seen.late), (None, late), "{at}");
        }
    }

    #[test]
    fn who_becomes_another_member() {
        use NodeRole::{Candidate, Drained, Offline, Regular};
        let members = |id| Member { id, incarnation: None, acknowledged: None };
        for (role, witness, lost, waits, replaced) in [
            (Candidate, false, 5, false, true),
            (Candidate, false, 6, false, false),
            (Candidate, false, 5, true, false),
            // The stores of these are wiped, not given anew.
            (Regular, false, 5, false, false),
            (Drained, false, 5, false, false),
            // Nobody calls it; it is looked at when it is back.
            (Offline, false, 5, false, false),
            (Regular, true, 5, false, true),
            (Drained, true, 5, false, false),
        ] {
            let mut node = testing::node("n2.example", role);
            (node.id, node.witness, node.member) = (2, witness, Some(members(5)));
            let config = testing::config(std::slice::from_ref(&node));
            let nodes = vec![pool_node(&node, false, (None, &Awaited::default()), true)];
            let pool = Pool { nodes, master: 1, size: 3 };
            let waiting = waits.then_some(2).into_iter().collect();
            let found = to_be_replaced(&config, &pool, &BTreeSet::from([lost]), &waiting);
            let told = format!("{role:?}, witness {witness}, lost {lost}, waits {waits}");
            assert_eq!(found.map(|node| node.id), replaced.then_some(2), "{told}");
        }
    }

    #[test]
    fn who_holds_what_it_should_not() {
        use NodeRole::{Candidate, Drained, Offline, Regular};
        let members =
            Members { nodes: [(7, "n9.example".to_owned())].into(), ..Members::default() };
        for (role, witness, member, wiped) in [
            (Regular, false, Some(5), true),
            (Regular, false, Some(7), false),
            (Regular, false, None, false),
            // It was invited, and is about to be one.
            (Candidate, false, Some(5), false),
            (Regular, true, Some(5), false),
            (Drained, true, Some(5), true),
            (Offline, true, Some(5), false),
        ] {
            let mut node = testing::node("n2.example", role);
            node.witness = witness;
            node.member = member.map(|id| Member { id, incarnation: None, acknowledged: None });
            let found = is_to_be_wiped(&node, &members);
            assert_eq!(found, wiped, "{role:?}, witness {witness}, {member:?}");
        }
    }
}
