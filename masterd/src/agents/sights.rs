//! What agents see of instances, as they told last.
//!
//! An agent is the authority on what lives on its node, and tells all of it to a master that is new. So
//! nothing of it is stored, and a master knows what there is with its first exchanges.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::instance::launch::{Sight, Sights, SightsKnown};
use model::{NodeName, Uuid};
use parking_lot::RwLock;
use tokio::sync::Notify;

/// The words of all agents.
#[derive(Debug, Default)]
pub struct InstanceSights {
    known: RwLock<NodesTold>,
    /// Rings when something changed.
    news: Notify,
}

#[derive(Debug, Default)]
struct NodesTold {
    nodes: HashMap<NodeName, OfNode>,
    /// The number of each word, and the word, by node.
    instances: HashMap<Uuid, BTreeMap<NodeName, (u64, Sight)>>,
}

#[derive(Debug)]
struct OfNode {
    known: SightsKnown,
    /// Whether it has told all in this life. If not, nothing is known of instances without a word.
    whole: bool,
    /// The life before: an answer of it may come late.
    former: Option<Uuid>,
    instances: BTreeSet<Uuid>,
}

impl NodesTold {
    fn put(&mut self, node: &NodeName, number: u64, sight: Sight) {
        let uuid = sight.uuid;
        let of = self.instances.entry(uuid).or_default();
        if of.get(node).is_some_and(|(known, _)| *known >= number) {
            return;
        }
        of.insert(node.clone(), (number, sight));
        if let Some(node) = self.nodes.get_mut(node) {
            node.instances.insert(uuid);
        }
    }

    fn remove(&mut self, node: &NodeName, uuid: Uuid) {
        if let Some(of) = self.instances.get_mut(&uuid) {
            of.remove(node);
            if of.is_empty() {
                self.instances.remove(&uuid);
            }
        }
    }

    fn forget(&mut self, node: &NodeName) {
        let Some(of) = self.nodes.remove(node) else { return };
        for uuid in of.instances {
            self.remove(node, uuid);
        }
    }

    /// Begins another life of a node's agent, of which nothing was told yet.
    fn begin_life(&mut self, node: &NodeName, life: Uuid) {
        let former = self.nodes.get(node).map(|of| of.known.life);
        self.forget(node);
        let known = SightsKnown { life, number: 0 };
        let of = OfNode { known, whole: false, former, instances: BTreeSet::new() };
        self.nodes.insert(node.clone(), of);
    }
}

impl InstanceSights {
    /// The place that an agent's next words follow.
    pub(crate) fn known(&self, node: &NodeName) -> Option<SightsKnown> {
        self.known.read().nodes.get(node).filter(|of| of.whole).map(|of| of.known)
    }

    /// Notes the words of an exchange.
    pub(crate) fn take(&self, node: &NodeName, told: Sights) {
        let Sights { known: at, all, instances } = told;
        let mut known = self.known.write();
        let known = &mut *known;
        let same_life = known.nodes.get(node).is_some_and(|node| node.known.life == at.life);
        if !same_life {
            known.begin_life(node, at.life);
        }
        let Some(of) = known.nodes.get_mut(node) else { return };
        of.whole |= all;
        // Answers to calls may be newer than an exchange that was answered before them.
        of.known.number = of.known.number.max(at.number);
        if all && same_life {
            let told: BTreeSet<Uuid> = instances.iter().map(|sight| sight.uuid).collect();
            let lost: Vec<Uuid> = of.instances.difference(&told).copied().collect();
            for uuid in lost {
                let word = known.instances.get(&uuid).and_then(|of| of.get(node));
                if word.is_none_or(|(number, _)| *number <= at.number) {
                    known.remove(node, uuid);
                    if let Some(of) = known.nodes.get_mut(node) {
                        of.instances.remove(&uuid);
                    }
                }
            }
        }
        if all || !instances.is_empty() {
            for sight in instances {
                known.put(node, at.number, sight);
            }
        }
    }

    /// Notes the word that came with an answer to a call.
    pub(crate) fn note(&self, node: &NodeName, at: SightsKnown, sight: Sight) {
        let mut known = self.known.write();
        let Some(of) = known.nodes.get(node) else { return };
        if of.former == Some(at.life) {
            return;
        }
        if of.known.life != at.life {
            // Its agent has begun anew, and whatever the one before said is void.
            known.begin_life(node, at.life);
        }
        known.put(node, at.number, sight);
    }

    /// Forgets what a node said: it is asked no more.
    pub(crate) fn forget(&self, node: &NodeName) {
        self.known.write().forget(node);
    }

    /// A node's word on an instance; the outer `None` where it has not told all that lives there.
    pub fn of(&self, node: &NodeName, uuid: Uuid) -> Option<Option<Sight>> {
        let known = self.known.read();
        let of = known.nodes.get(node)?;
        let word = known.instances.get(&uuid).and_then(|words| words.get(node));
        let word = word.map(|(_, sight)| sight.clone());
        (of.whole || word.is_some()).then_some(word)
    }

    /// The nodes that see an instance alive.
    pub fn alive_on(&self, uuid: Uuid) -> Vec<NodeName> {
        let known = self.known.read();
        let of = known.instances.get(&uuid).into_iter().flatten();
        of.filter(|(_, (_, sight))| sight.seen.is_alive()).map(|(node, _)| node.clone()).collect()
    }

    /// Waits until an agent told something new.
    pub(crate) async fn changed(&self) {
        self.news.notified().await;
    }

    /// All that a node sees alive.
    pub(crate) fn alive_at(&self, node: &NodeName) -> Vec<Sight> {
        let known = self.known.read();
        let uuids = known.nodes.get(node).into_iter().flat_map(|of| &of.instances);
        let sights = uuids.filter_map(|uuid| known.instances.get(uuid)?.get(node));
        sights.filter(|(_, sight)| sight.seen.is_alive()).map(|(_, sight)| sight.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use model::instance::state::Seen;

    use super::*;

    fn sight(number: u128, seen: Seen) -> Sight {
        Sight {
            uuid: Uuid::from_u128(number),
            name: format!("i{number}").parse().unwrap(),
            run: 1,
            seen,
            since: Timestamp::from_micros(0),
            memory: 0,
            vcpus: 0,
            exit: None,
            guest: None,
            copies: Vec::new(),
        }
    }

    fn at(life: u128, number: u64) -> SightsKnown {
        SightsKnown { life: Uuid::from_u128(life), number }
    }

    #[test]
    fn the_newest_word_counts_whichever_way_it_came() {
        let sights = InstanceSights::default();
        let node: NodeName = "n1".parse().unwrap();
        let uuid = Uuid::from_u128(1);
        let told = |known, all, instances| Sights { known, all, instances };
        let state = || sights.of(&node, uuid).flatten().map(|sight| sight.seen);
        assert_eq!(sights.of(&node, uuid), None, "it has said nothing");
        sights.note(&node, at(1, 5), sight(1, Seen::Running));
        assert_eq!(sights.of(&node, uuid), None, "nor is it known in which life that was said");
        sights.take(&node, told(at(1, 4), true, vec![]));
        assert_eq!(state(), None);
        sights.note(&node, at(1, 6), sight(1, Seen::Running));
        sights.take(&node, told(at(1, 5), true, vec![sight(1, Seen::Starting)]));
        assert_eq!(state(), Some(Seen::Running), "the answer was newer");
        sights.take(&node, told(at(1, 5), true, vec![]));
        assert_eq!(state(), Some(Seen::Running), "and is newer than a list without it");
        assert_eq!(sights.known(&node), Some(at(1, 5)), "words in between are yet to come");
        sights.take(&node, told(at(1, 7), false, vec![sight(1, Seen::Crashed)]));
        assert_eq!(state(), Some(Seen::Crashed));
        assert!(sights.alive_on(uuid).is_empty() && sights.alive_at(&node).is_empty());
        sights.take(&node, told(at(2, 1), true, vec![sight(2, Seen::Running)]));
        assert_eq!(state(), None, "another life of the agent");
        assert_eq!(sights.alive_at(&node).len(), 1);
        // A third life: its answer comes before its first list, and one of the second comes late.
        sights.note(&node, at(3, 1), sight(1, Seen::Running));
        sights.note(&node, at(2, 9), sight(2, Seen::Running));
        assert_eq!(state(), Some(Seen::Running));
        assert_eq!(sights.of(&node, Uuid::from_u128(2)), None, "of others it has not told");
        assert_eq!(sights.known(&node), None, "so that it is asked for all");
        sights.take(&node, told(at(3, 1), true, vec![sight(1, Seen::Running)]));
        assert_eq!(sights.of(&node, Uuid::from_u128(2)), Some(None));
        sights.forget(&node);
        assert_eq!(sights.known(&node), None);
    }
}
