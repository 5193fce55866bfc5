//! Core: what an override writes, beside who is a member: ids that were never given, the other
//! members under new ones, and the word on what is cut.

use std::collections::BTreeMap;

use jobs::rounds::round::document_change;
use model::cluster::{Cluster, Overridden};
use model::node::{Member, Node, NodeRole};
use model::{NodeName, Timestamp, document};
use queue_format::Batch;

use membership::confirm::{Question, Verdict};
use membership::forced_takeover::{Other, Override};

use crate::config::ConfigChange;

/// Sentences about what is cut that are kept, where overrides follow each other and nobody looks.
const CUT_TOLD_MAX: usize = 30;

/// The state before the override.
#[derive(Debug, Clone)]
pub(super) struct Before {
    /// The cluster's document.
    pub(super) cluster: Cluster,
    pub(super) nodes: BTreeMap<NodeName, Node>,
    /// The last job id.
    pub(super) serial: u64,
}

/// The nodes but `me`, with what they answered, as far as it is believed.
pub(super) fn others(
    nodes: &BTreeMap<NodeName, Node>,
    me: &NodeName,
    question: &Question,
    verdict: &Verdict,
) -> Vec<Other> {
    let other = |node: &Node| {
        let row = verdict.rows.iter().find(|row| row.node == node.name);
        let asked = question.nodes.iter().find(|asked| asked.name == node.name);
        let says = asked.and_then(|asked| asked.store.as_ref()?.as_ref().ok());
        Other {
            node: node.name.clone(),
            member: node.member.map(|member| member.id),
            last: row.and_then(|row| row.position),
            leads: says.is_some_and(|says| says.leads),
            newest: row.and_then(|row| row.newest),
        }
    };
    nodes.values().filter(|node| node.name != *me).map(other).collect()
}

/// The last batch of all that there was.
pub(super) fn changes(before: Before, taken: &Override, me: &NodeName, now: Timestamp) -> Batch {
    let Before { mut cluster, mut nodes, serial: _ } = before;
    cluster.next_node_id = taken.next_node_id;
    (cluster.serial_no, cluster.mtime) = (cluster.serial_no + 1, now);
    let mut cut: Vec<String> = taken.cut.iter().map(ToString::to_string).collect();
    let unseen = cluster.overridden.take().map(|overridden| overridden.cut);
    cut.splice(0..0, unseen.into_iter().flatten());
    cut.drain(..cut.len().saturating_sub(CUT_TOLD_MAX));
    cluster.overridden = Some(Overridden { at: now, node: me.clone(), cut });
    let mut documents = vec![ConfigChange::Cluster(cluster).document()];
    for again in &taken.rejoin {
        let Some(node) = nodes.get_mut(&again.node) else { continue };
        // Its store is another one: the master that admits it takes the old one out of the way.
        node.member = Some(Member { id: again.becomes, incarnation: None, acknowledged: None });
        (node.serial_no, node.mtime) = (node.serial_no + 1, now);
        documents.push(ConfigChange::Node(node.clone()).document());
    }
    if let Some(node) = nodes.get_mut(me).filter(|node| node.role != NodeRole::Candidate) {
        node.role = NodeRole::Candidate;
        (node.serial_no, node.mtime) = (node.serial_no + 1, now);
        documents.push(ConfigChange::Node(node.clone()).document());
    }
    let serial = format!("{}\n", taken.job_id);
    documents.push((document::QUEUE_SERIAL.to_owned(), Some(serial.into())));
    let changes = documents.iter().map(|(key, content)| document_change(key, content.as_ref()));
    Batch(changes.collect())
}

#[cfg(test)]
mod tests {
    use queue_format::{Change, Epoch, Position};

    use super::*;
    use crate::testing;
    use membership::forced_takeover::{Cut, JOB_IDS_UNSEEN, Rejoin, Taker};

    const NOW: Timestamp = Timestamp::from_micros(7_000_000);

    fn node(number: u64, member: Option<u64>) -> Node {
        let mut node = testing::node(&format!("n{number}.example"), NodeRole::Candidate);
        node.member = member.map(|id| Member {
            id,
            incarnation: Some(uuid::Uuid::from_u128(1)),
            acknowledged: None,
        });
        node
    }

    fn before() -> Before {
        let nodes = [node(1, Some(1)), node(2, Some(12)), node(3, Some(13)), node(4, None)];
        let config = testing::config(&nodes);
        let nodes = nodes.map(|node| (node.name.clone(), node)).into();
        Before { cluster: config.cluster.as_ref().clone(), nodes, serial: 41 }
    }

    fn written(batch: &Batch, key: &str) -> Option<serde_json::Value> {
        batch.0.iter().find_map(|change| match change {
            Change::Put { key: put, content } if put.as_str() == key => {
                Some(serde_json::from_slice(content).unwrap())
            }
            _ => None,
        })
    }

    fn overriding(before: &Before) -> Override {
        let epoch = Epoch { term: 3, node: 13 };
        let me: NodeName = "n3.example".parse().unwrap();
        let taker = Taker {
            node: me.clone(),
            member: 13,
            last: Position { epoch, index: 9 },
            vote: epoch,
            job_id: before.serial,
            next_node_id: before.cluster.next_node_id,
        };
        let nodes = before.nodes.values().filter(|node| node.name != me);
        let silent = |node: &Node| Other {
            node: node.name.clone(),
            member: node.member.map(|member| member.id),
            last: None,
            leads: false,
            newest: None,
        };
        let others: Vec<_> = nodes.map(silent).collect();
        Override::of(&taker, &others)
    }

    #[test]
    fn ids_move_ahead_and_the_others_begin_anew() {
        let before = before();
        let (next, me) = (before.cluster.next_node_id, "n3.example".parse().unwrap());
        let taken = overriding(&before);
        let batch = changes(before, &taken, &me, NOW);
        assert_eq!(written(&batch, "queue/serial").unwrap(), 41 + JOB_IDS_UNSEEN);
        let cluster = written(&batch, "config/cluster").unwrap();
        assert!(cluster["next_node_id"].as_u64().unwrap() > next + 1);
        assert_eq!(cluster["overridden"]["node"], "n3.example");
        assert_eq!(cluster["overridden"]["cut"].as_array().unwrap().len(), 2);
        let ids: Vec<u64> = ["n1", "n2"]
            .map(|name| {
                let node = written(&batch, &format!("config/nodes/{name}.example")).unwrap();
                assert!(node["member"]["incarnation"].is_null(), "it has no store yet");
                node["member"]["id"].as_u64().unwrap()
            })
            .to_vec();
        assert!(ids[0] != ids[1] && ids.iter().all(|id| *id > next), "{ids:?}");
        for name in ["n3", "n4"] {
            assert_eq!(written(&batch, &format!("config/nodes/{name}.example")), None);
        }
    }

    #[test]
    fn what_nobody_has_seen_to_stays_up_to_a_bound() {
        let mut before = before();
        let cut = (0..CUT_TOLD_MAX).map(|number| format!("old {number}")).collect();
        let me: NodeName = "n3.example".parse().unwrap();
        before.cluster.overridden =
            Some(Overridden { at: Timestamp::from_micros(0), node: me.clone(), cut });
        let taken = overriding(&before);
        let cluster = written(&changes(before.clone(), &taken, &me, NOW), "config/cluster");
        let told = cluster.unwrap()["overridden"].clone();
        let told: Overridden = serde_json::from_value(told).unwrap();
        assert_eq!((told.at, told.cut.len()), (NOW, CUT_TOLD_MAX));
        assert_eq!(told.cut[0], "old 2");
        assert!(told.cut[CUT_TOLD_MAX - 1].contains("n2.example"), "{told:?}");
        // An override that cuts nothing leaves the word on the one before.
        let taken = Override { cut: Vec::<Cut>::new(), rejoin: Vec::<Rejoin>::new(), ..taken };
        let cluster = written(&changes(before, &taken, &me, NOW), "config/cluster").unwrap();
        assert_eq!(cluster["overridden"]["cut"][0], "old 0");
    }
}
