//! Core: which agent of a rack leases which of its dynamic addresses.
//!
//! Agents answer without the master and without each other, so each dynamic address belongs to one of
//! them. A share moves when its agent took a document without it, or has left the rack. The longest
//! lease that it can have given must have passed, too.

use serde::{Deserialize, Serialize};

use crate::name::NodeName;
use crate::time::Timestamp;

/// Seconds that a lease lasts.
pub const LEASE_SECONDS: u32 = 3_600;
/// The same for a card that is in no inventory, in a rack with machines whose cards are known. An
/// unknown machine is registered within that time, or asks again, and an unused address is soon free for
/// others.
pub const GUEST_LEASE_SECONDS: u32 = 600;
/// Parts of the lease range of each rack: the most agents that lease in one rack.
pub const PARTS: usize = 4;

/// The parts of the lease range of one rack. Address number N of the range is in part N modulo
/// [`PARTS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RackShares {
    pub rack: u32,
    pub parts: [Part; PARTS],
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Part {
    /// The agent that leases its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<NodeName>,
    /// The agent that has to take a document without this part first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<NodeName>,
    /// From when its owner leases: no lease of an earlier owner lives then.
    pub from: Timestamp,
}

impl RackShares {
    /// The parts of a rack that nobody has served.
    pub fn new(rack: u32) -> Self {
        Self { rack, parts: Default::default() }
    }

    /// The shares as they should be among these `agents`, in this order. Those in `without` took a
    /// document that has the shares as they are.
    pub fn settled(&self, agents: &[NodeName], without: &[NodeName], now: Timestamp) -> Self {
        let mut parts = self.parts.clone();
        let safe = now.plus_seconds(LEASE_SECONDS.into());
        for part in &mut parts {
            if part.owner.take_if(|owner| !agents.contains(owner)).is_some() {
                part.from = part.from.max(safe);
            }
            let left = |old: &mut NodeName| !agents.contains(old) || without.contains(old);
            if part.leaving.take_if(left).is_some() {
                part.from = part.from.max(safe);
            }
        }
        let mut counts: Vec<usize> = agents.iter().map(|agent| owned(&parts, agent)).collect();
        for part in &mut parts {
            let Some(poorest) = (0..agents.len()).min_by_key(|&at| counts[at]) else { break };
            if part.owner.is_some() {
                continue;
            }
            // A part that is on its way counts for the agent that will get it.
            counts[poorest] += 1;
            if part.leaving.is_none() {
                part.owner = Some(agents[poorest].clone());
            }
        }
        while let Some((poorest, richest)) = uneven(&counts) {
            let part = parts.iter_mut().rfind(|part| part.owner.as_ref() == Some(&agents[richest]));
            let Some(part) = part else { break };
            part.leaving = part.owner.take();
            counts[richest] -= 1;
            counts[poorest] += 1;
        }
        Self { rack: self.rack, parts }
    }

    /// The parts that an agent leases, each with the time from which on.
    pub fn of<'a>(&'a self, agent: &'a NodeName) -> impl Iterator<Item = (usize, Timestamp)> + 'a {
        let owned = move |part: &Part| part.owner.as_ref() == Some(agent);
        let parts = self.parts.iter().enumerate().filter(move |(_, part)| owned(part));
        parts.map(|(number, part)| (number, part.from))
    }
}

fn owned(parts: &[Part], agent: &NodeName) -> usize {
    parts.iter().filter(|part| part.owner.as_ref() == Some(agent)).count()
}

/// The agents with the fewest and the most parts, if they differ by more than one part.
fn uneven(counts: &[usize]) -> Option<(usize, usize)> {
    let poorest = (0..counts.len()).min_by_key(|&at| counts[at])?;
    let richest = (0..counts.len()).rev().max_by_key(|&at| counts[at])?;
    (counts[richest] > counts[poorest] + 1).then_some((poorest, richest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = LEASE_SECONDS as i64;

    fn name(number: usize) -> NodeName {
        format!("n{number}.example").parse().unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(0).plus_seconds(seconds)
    }

    fn owners(shares: &RackShares) -> Vec<String> {
        let short = |part: &Part| match (&part.owner, &part.leaving) {
            (Some(owner), _) => owner.as_str()[..2].to_owned(),
            (None, Some(old)) => format!("{}-", &old.as_str()[..2]),
            (None, None) => String::new(),
        };
        shares.parts.iter().map(short).collect()
    }

    #[test]
    fn the_first_agent_leases_everything_at_once() {
        let shares = RackShares::new(0).settled(&[name(1)], &[], at(50));
        assert_eq!(owners(&shares), ["n1", "n1", "n1", "n1"]);
        assert!(shares.parts.iter().all(|part| part.from <= at(50)));
    }

    #[test]
    fn a_second_agent_gets_half_when_the_first_took_its_document_and_an_hour_passed() {
        let both = [name(1), name(2)];
        let shares = RackShares::new(0).settled(&both[..1], &[], at(0));
        let shares = shares.settled(&both, &[], at(50));
        assert_eq!(owners(&shares), ["n1", "n1", "n1-", "n1-"]);
        assert_eq!(shares.settled(&both, &[name(2)], at(60)), shares, "n1 may lease them still");
        let shares = shares.settled(&both, &[name(1)], at(70));
        assert_eq!(owners(&shares), ["n1", "n1", "n2", "n2"]);
        assert_eq!(shares.parts[3].from, at(70 + HOUR));
        assert_eq!(shares.settled(&both, &both, at(80)), shares, "settled");
    }

    #[test]
    fn the_share_of_an_agent_that_is_gone_is_taken_over_an_hour_later() {
        let both = [name(1), name(2)];
        let shares = RackShares::new(0).settled(&both, &[], at(0));
        assert_eq!(owners(&shares), ["n1", "n2", "n1", "n2"]);
        let shares = shares.settled(&both[1..], &[], at(100));
        assert_eq!(owners(&shares), ["n2", "n2", "n2", "n2"]);
        assert_eq!(shares.parts[0].from, at(100 + HOUR));
        assert!(shares.parts[1].from <= at(0), "its own go on");
        let nobody = shares.settled(&[], &[], at(200));
        assert_eq!(owners(&nobody), ["", "", "", ""]);
        assert_eq!(nobody.settled(&both[..1], &[], at(300)).parts[1].from, at(200 + HOUR));
    }

    proptest! {
        /// Two agents never lease one address at the same time, however they come, go and answer. An
        /// agent leases by the last document that it took; one that is gone gives no further lease.
        #[test]
        fn no_address_is_leased_twice(
            steps in proptest::collection::vec((0_u8..8, 0_u8..8, 1_i64..3_000), 1..60),
        ) {
            let mut shares = RackShares::new(0);
            let mut taken: Vec<(NodeName, RackShares)> = Vec::new();
            let mut leased: Vec<(usize, NodeName, Timestamp)> = Vec::new();
            let mut now = at(0);
            for (present, answers, seconds) in steps {
                now = now.plus_seconds(seconds);
                let chosen = |bits: u8| (0..3).filter(move |n| bits & (1 << n) != 0).map(name);
                let agents: Vec<NodeName> = chosen(present).collect();
                taken.retain(|(agent, _)| agents.contains(agent));
                shares = shares.settled(&agents, &[], now);
                let without: Vec<NodeName> = chosen(answers & present).collect();
                for agent in &without {
                    taken.retain(|(known, _)| known != agent);
                    taken.push((agent.clone(), shares.clone()));
                }
                shares = shares.settled(&agents, &without, now);
                for (agent, document) in &taken {
                    for (part, from) in document.of(agent).filter(|(_, from)| *from <= now) {
                        let other = |(p, a, until): &(usize, NodeName, Timestamp)| {
                            *p == part && a != agent && *until > now
                        };
                        prop_assert!(!leased.iter().any(other), "part {} from {:?}", part, from);
                        let until = now.plus_seconds(HOUR);
                        leased.push((part, agent.clone(), until));
                    }
                }
            }
        }
    }
}
