//! Keeps the files in which Ganeti's tools look for what they must know without a master: who it
//! is, and which nodes there are. A client that finds none takes a master that restarts for none,
//! and does not try again. [`nodes`] is what of it all nodes get.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::node::{Node, NodeRole};
use model::ssconf::Ssconf;
use rpc::calls::SsconfPush;
use tokio_util::sync::CancellationToken;

use crate::agents::{Agents, Behalf};
use crate::config::Config;
use crate::config::queue::{Published, Snapshot};

pub mod nodes;

/// Mode of the files, as Ganeti's.
const MODE: u32 = 0o444;

/// The files' names and contents, for a cluster that has nothing of what is not in here.
pub fn files(config: &Config) -> BTreeMap<&'static str, String> {
    let nodes = |is: &dyn Fn(&Node) -> bool, line: &dyn Fn(&Node) -> String| -> String {
        let lines = config.nodes.values().filter(|node| is(node)).map(|node| line(node));
        lines.collect::<Vec<_>>().join("\n")
    };
    let any = |_: &Node| true;
    let name = |node: &Node| node.name.to_string();
    let candidate =
        |node: &Node| node.role == NodeRole::Candidate || config.role.master == node.name;
    let offline = |node: &Node| node.role == NodeRole::Offline;
    let cluster = &config.cluster;
    let groups = config.groups.values().map(|group| format!("{} {}", group.uuid, group.name));
    let groups: Vec<String> = groups.collect();
    let of_node = || config.nodes.get(&config.role.master).map(|node| node.primary_ip);
    let master = cluster.master_ip.or_else(of_node);
    BTreeMap::from([
        ("cluster_name", cluster.cluster_name.to_string()),
        ("cluster_tags", cluster.tags.join("\n")),
        ("instance_list", String::new()),
        ("master_candidates", nodes(&candidate, &name)),
        ("master_candidates_ips", nodes(&candidate, &|node| node.primary_ip.to_string())),
        ("master_ip", master.map(|address| address.to_string()).unwrap_or_default()),
        ("master_netdev", cluster.master_netdev.clone().unwrap_or_default()),
        ("master_netmask", cluster.master_netmask.map(|bits| bits.to_string()).unwrap_or_default()),
        ("master_node", config.role.master.to_string()),
        ("node_list", nodes(&any, &name)),
        ("node_primary_ips", nodes(&any, &|node| format!("{} {}", node.name, node.primary_ip))),
        ("node_secondary_ips", nodes(&any, &|node| format!("{} {}", node.name, node.secondary_ip))),
        (
            "node_vm_capable",
            nodes(&any, &|node| {
                format!("{}={}", node.uuid, if node.vm_capable { "True" } else { "False" })
            }),
        ),
        ("nodegroups", groups.join("\n")),
        ("offline_nodes", nodes(&offline, &name)),
        ("online_nodes", nodes(&|node| !offline(node), &name)),
        (
            "primary_ip_family",
            if master.is_some_and(|ip| ip.is_ipv6()) { "10" } else { "2" }.into(),
        ),
        ("release_version", env!("CARGO_PKG_VERSION").to_owned()),
    ])
}

/// Keeps the files in `directory` until the leadership is `over`. Failures to write go to the log.
pub async fn run(directory: PathBuf, published: Arc<Published>, over: CancellationToken) {
    let mut news = published.subscribe();
    let mut written = BTreeMap::new();
    loop {
        let snapshot: Snapshot = news.borrow_and_update().clone();
        let wanted = files(&snapshot.config);
        if let Err(error) = stdx::aside(|| update(&directory, &wanted, &mut written)) {
            let path = directory.display();
            tracing::warn!(%path, %error, "the files for Ganeti's tools cannot be written");
        }
        tokio::select! {
            () = over.cancelled() => return,
            changed = news.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// Writes what differs from what was `written`.
fn update(
    directory: &Path,
    wanted: &BTreeMap<&'static str, String>,
    written: &mut BTreeMap<&'static str, String>,
) -> io::Result<()> {
    for (&name, content) in wanted {
        if written.get(name) != Some(content) {
            let path = directory.join(format!("ssconf_{name}"));
            stdx::atomic::write(&path, format!("{content}\n").as_bytes(), MODE)?;
            written.insert(name, content.clone());
        }
    }
    Ok(())
}

/// Sends the files to a node.
///
/// # Errors
/// Why its agent does not have them afterwards.
pub(crate) async fn push_one(
    agents: &Agents,
    node: &Node,
    ssconf: &Ssconf,
    behalf: Option<Behalf>,
) -> Result<(), String> {
    match agents.call(node, SsconfPush { ssconf: ssconf.clone() }, behalf).await {
        Ok(held) if held.digest == ssconf.digest() => Ok(()),
        Ok(held) => {
            Err(format!("it has those of version {} and takes no older ones", held.version))
        }
        Err(error) => Err(stdx::daemon::chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config, node};

    #[test]
    fn the_files_name_master_and_nodes() {
        let config = config(&[
            node("n2.example", NodeRole::Offline),
            node("n3.example", NodeRole::Candidate),
        ]);
        let files = files(&config);
        let master = config.role.master.as_str();
        assert_eq!(files["master_node"], master);
        assert_eq!(files["node_list"], format!("{master}\nn2.example\nn3.example"));
        assert_eq!(files["master_candidates"], format!("{master}\nn3.example"));
        assert_eq!(files["offline_nodes"], "n2.example");
        assert_eq!(files["online_nodes"], format!("{master}\nn3.example"));
        assert_eq!(files["node_vm_capable"].lines().count(), 3);
    }

    #[test]
    fn only_what_differs_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ssconf_master_node");
        let mut written = BTreeMap::new();
        let wanted = |name: &str| BTreeMap::from([("master_node", name.to_owned())]);
        update(directory.path(), &wanted("n1"), &mut written).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "n1\n");
        std::fs::remove_file(&path).unwrap();
        update(directory.path(), &wanted("n1"), &mut written).unwrap();
        assert!(!path.exists());
        update(directory.path(), &wanted("n2"), &mut written).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "n2\n");
        assert!(update(&directory.path().join("none"), &wanted("n3"), &mut written).is_err());
    }
}
