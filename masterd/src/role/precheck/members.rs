//! Core: who has which seat, by what the node that asks knows.

use std::collections::BTreeSet;

use model::NodeName;
use model::node::{Node, NodeRole};
use queue_format::Position;
use rpc::peer::control::PeerPosition;

use crate::config::Config;
use membership::acknowledged::recorded;
use membership::amnesia::Expected;
use membership::confirm::{Member, Voting};
use membership::pool::VOTERS_MIN;

/// Who votes.
#[derive(Debug, Clone)]
pub struct Seats {
    voters: BTreeSet<u64>,
    /// The node of a master that was always alone, and its member.
    lone: Option<(NodeName, Member)>,
}

impl Seats {
    /// The seats by the list in the log of this node, `me`, whose position is `own`. Without a list, as
    /// with a damaged store, the rule of the pool decides: three candidates or more all vote; of fewer
    /// the master does.
    pub fn of(config: &Config, me: &NodeName, own: &PeerPosition) -> Self {
        let members = || config.nodes.values().filter_map(|node| Some((node, node.member?)));
        let by_rule = || {
            let candidates = || members().filter(|(node, _)| node.role == NodeRole::Candidate);
            let all = candidates().count() >= VOTERS_MIN;
            let votes = candidates().filter(|(node, _)| all || config.is_master(node));
            votes.map(|(_, member)| member.id).collect()
        };
        let voters: BTreeSet<u64> = own.voters.iter().copied().collect();
        let voters = if voters.is_empty() { by_rule() } else { voters };
        Self { voters, lone: members().next().is_none().then(|| lone(config, me, own)).flatten() }
    }

    /// A node's place among the members, if it has one. A node that was invited and has not made its
    /// store yet has none.
    pub fn member(&self, node: &Node) -> Option<Member> {
        if let Some((name, member)) = &self.lone {
            return (*name == node.name).then_some(*member);
        }
        let member = node.member?;
        let expected = Expected {
            member: member.id,
            incarnation: member.incarnation?,
            acknowledged: recorded(&member),
        };
        let seat = if self.voters.contains(&member.id) { Voting::Voter } else { Voting::Learner };
        // A node that can never be master holds a copy only as a witness.
        Some(Member { seat, witness: !node.may_be_master(), expected })
    }
}

/// The sets of voters of a log, of each of which a majority is needed; none where there is no log.
pub fn sets(own: &PeerPosition) -> Vec<BTreeSet<u64>> {
    let set = |ids: &Vec<u64>| ids.iter().copied().collect();
    let both: Vec<_> = own.changing.iter().map(set).collect();
    match both.is_empty() {
        true => {
            Some(&own.voters).filter(|voters| !voters.is_empty()).map(set).into_iter().collect()
        }
        false => both,
    }
}

/// The only member of a cluster that was never replicated; its configuration has no members. The one
/// store, on the node that has the role, is taken at its word.
fn lone(config: &Config, me: &NodeName, own: &PeerPosition) -> Option<(NodeName, Member)> {
    let node = config.nodes.get(me).filter(|node| config.is_master(node))?;
    let expected = Expected {
        member: own.member.unwrap_or(node.id),
        incarnation: own.incarnation?,
        acknowledged: Position::default(),
    };
    Some((me.clone(), Member { seat: Voting::Voter, witness: false, expected }))
}

#[cfg(test)]
mod tests {
    use model::node;
    use rpc::peer::control::PeerState;
    use uuid::Uuid;

    use super::*;
    use crate::testing;

    fn incarnation(member: u64) -> Uuid {
        Uuid::from_u128(member.into())
    }

    /// A candidate nX whose member is X + 10, unless that is none yet.
    fn candidate(number: u64, member: Option<Option<Uuid>>) -> Node {
        let mut node = testing::node(&format!("n{number}.example"), NodeRole::Candidate);
        node.member = member.map(|incarnation| node::Member {
            id: number + 10,
            incarnation,
            acknowledged: None,
        });
        node
    }

    fn member(number: u64) -> Node {
        candidate(number, Some(Some(incarnation(number + 10))))
    }

    fn own(member: Option<u64>, voters: &[u64]) -> PeerPosition {
        PeerPosition {
            member,
            incarnation: member.map(incarnation),
            node: "n1.example".parse().unwrap(),
            last: Position::default(),
            committed: Position::default(),
            epoch: Default::default(),
            leader: None,
            voters: voters.to_vec(),
            changing: Vec::new(),
            learners: Vec::new(),
            role: None,
            leads: false,
            disk_full: false,
            state: PeerState::Standby,
            disk_free_mib: 1,
            last_job: None,
        }
    }

    fn members(config: &Config, me: &str, own: &PeerPosition) -> Vec<Option<Member>> {
        let seats = Seats::of(config, &me.parse().unwrap(), own);
        config.nodes.values().map(|node| seats.member(node)).collect()
    }

    fn seats(config: &Config, me: &str, own: &PeerPosition) -> Vec<Option<(Voting, u64)>> {
        let members = members(config, me, own).into_iter();
        members.map(|member| member.map(|m| (m.seat, m.expected.member))).collect()
    }

    #[test]
    fn seats_are_those_of_the_log() {
        let mut witness = member(3);
        witness.witness = true;
        let nodes = [member(1), member(2), witness, candidate(4, Some(None)), candidate(5, None)];
        let config = testing::config(&nodes);
        let (voter, learner) = (Some((Voting::Voter, 11)), Some((Voting::Learner, 12)));
        let witness = Some((Voting::Voter, 13));
        let both = own(Some(11), &[11, 13]);
        assert_eq!(seats(&config, "n1.example", &both), [voter, learner, witness, None, None]);
        // A witness is one whether it votes or not.
        for own in [both, own(Some(11), &[11])] {
            let members = members(&config, "n1.example", &own);
            let witnesses: Vec<_> = members.iter().flatten().map(|member| member.witness).collect();
            assert_eq!(witnesses, [false, false, true]);
        }
    }

    #[test]
    fn without_a_log_the_rule_of_the_pool_tells() {
        let own = own(None, &[]);
        let config = testing::config(&[member(1), member(2)]);
        let (voter, learner) = (Some((Voting::Voter, 11)), Some((Voting::Learner, 12)));
        assert_eq!(seats(&config, "n2.example", &own), [voter, learner]);
        let config = testing::config(&[member(1), member(2), member(3)]);
        let all = seats(&config, "n2.example", &own);
        assert!(all.iter().all(|seat| seat.is_some_and(|(seat, _)| seat == Voting::Voter)));
    }

    #[test]
    fn who_was_always_alone_is_the_only_voter() {
        let config = testing::config(&[candidate(2, None)]);
        let alone = own(Some(1), &[1]);
        assert_eq!(seats(&config, "n1.example", &alone), [Some((Voting::Voter, 1)), None]);
        // Another node has nothing, whatever it says.
        assert_eq!(seats(&config, "n2.example", &own(Some(2), &[2])), [None, None]);
        assert_eq!(seats(&config, "n1.example", &own(None, &[])), [None, None]);
    }
}
