//! Core: the files that every node gets: those that Ganeti's tools know, and what of this cluster
//! must be known without a master.

use std::sync::Arc;

use model::node::{Node, NodeRole};
use model::rack::DocumentVersion;
use model::ssconf::{CLUSTER_UUID, EPOCH, PEERS, Peer, Ssconf};

use super::files;
use crate::config::Config;
use crate::config::queue::Snapshot;

/// The files of a committed configuration. A later one's are newer, and so is any of a later master.
pub fn compile(snapshot: &Snapshot) -> Ssconf {
    let config = &snapshot.config;
    let role = &config.role;
    let version = DocumentVersion { term: role.term, position: snapshot.position() };
    let known = files(config).into_iter();
    let files = known.chain([
        (CLUSTER_UUID, config.cluster.uuid.clone()),
        (EPOCH, format!("{}.{}", role.term, role.node)),
        (PEERS, peers(config)),
    ]);
    let files = files.map(|(name, content)| (name.to_owned(), content)).collect();
    Ssconf { version, files }
}

/// The names, addresses and fingerprints of the candidates, in the order of their names.
fn peers(config: &Config) -> String {
    let candidate = |node: &&Arc<Node>| node.role == NodeRole::Candidate || config.is_master(node);
    let line = |node: &Arc<Node>| {
        let address = node.peer_address();
        Peer { name: node.name.clone(), address, fingerprint: node.fingerprint }.to_string()
    };
    config.nodes.values().filter(candidate).map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::queue::Published;
    use crate::testing::{config, node};
    use jobs::view::View;

    fn compiled(config: Config, position: u64) -> Ssconf {
        let view = Arc::new(View::default());
        compile(&Published::new(view, Arc::new(config), false, position).snapshot())
    }

    #[test]
    fn every_node_knows_master_epoch_and_candidates() {
        let mut config = config(&[
            node("n2.example", NodeRole::Regular),
            node("n3.example", NodeRole::Candidate),
        ]);
        let ssconf = compiled(config.clone(), 17);
        assert_eq!(ssconf.check(), Ok(()));
        assert_eq!(ssconf.version, DocumentVersion { term: 2, position: 17 });
        let says = |name: &str| ssconf.files[name].as_str();
        assert_eq!(
            [says("master_node"), says("epoch"), says("master_ip"), says("cluster_uuid")],
            ["n1.example", "2.1", "10.0.0.1", "c-1"]
        );
        let peers: Vec<Peer> = says("peers").lines().map(|line| line.parse().unwrap()).collect();
        let names: Vec<String> = peers.iter().map(|peer| peer.address.to_string()).collect();
        assert_eq!(names, ["10.0.0.1:1817", "10.0.0.3:1817"]);

        let mut cluster = config.cluster.as_ref().clone();
        cluster.master_ip = Some([10, 0, 0, 99].into());
        config.cluster = Arc::new(cluster);
        assert_eq!(compiled(config, 18).files["master_ip"], "10.0.0.99");
    }
}
