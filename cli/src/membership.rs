//! The membership of this machine, without asking a master.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;

use model::layout::Layout;
use model::node::Node;
use model::{NodeName, document};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The membership of this machine, by the file that it has since it was enrolled.
#[derive(Debug, Deserialize)]
pub(crate) struct Membership {
    pub(crate) cluster_name: NodeName,
    pub(crate) node: NodeName,
    pub(crate) allow: Allowed,
}

/// The nodes that could call this one when it was enrolled: the master candidates.
#[derive(Debug, Deserialize)]
pub(crate) struct Allowed {
    callers: Vec<Caller>,
}

#[derive(Debug, Deserialize)]
struct Caller {
    name: NodeName,
}

impl Membership {
    /// The membership of this machine; `None` if it was never enrolled.
    pub(crate) fn on(layout: &Layout) -> io::Result<Option<Self>> {
        read_if_there(&layout.membership())
    }

    /// The other nodes that could call this one when it was enrolled.
    pub(crate) fn others(&self) -> impl Iterator<Item = &NodeName> {
        self.allow.callers.iter().map(|caller| &caller.name).filter(|name| **name != self.node)
    }
}

/// Whether the machine is the master node: by its enrolled name, or, if that cannot be read, by its host
/// name or the node's address.
pub(crate) fn is_master(layout: &Layout, master: &NodeName) -> bool {
    if let Ok(Some(member)) = Membership::on(layout) {
        return member.node == *master;
    }
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    if host.is_some_and(|host| is_same_host(&host, master.as_str())) {
        return true;
    }
    let node = std::fs::read(layout.data().join(document::node(master))).ok();
    let node: Option<Node> = node.and_then(|text| serde_json::from_slice(&text).ok());
    node.is_some_and(|node| is_own(node.primary_ip))
}

/// Whether a host name and a node's name are the same but for their domains.
fn is_same_host(host: &str, node: &str) -> bool {
    let shorter = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let host = host.to_ascii_lowercase();
    !host.is_empty() && (shorter(&host, node) || shorter(node, &host))
}

/// Whether the address is one of this machine's: only those can be bound.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Reads a JSON file; none where there is no such file.
pub(crate) fn read_if_there<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        for (host, node, same) in [
            ("n1", "n1.example.com", true),
            ("N1.example.com", "n1", true),
            ("n1.example.com", "n1.example.com", true),
            ("n1", "n10.example.com", false),
            ("n10", "n1", false),
            ("", "n1", false),
        ] {
            assert_eq!(is_same_host(host, node), same, "{host} {node}");
        }
    }
}
