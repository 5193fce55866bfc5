//! The master, as this machine knows it without asking: by its copy of the configuration, and by the
//! files that its agent keeps.

use std::net::IpAddr;
use std::path::PathBuf;
use std::{fmt, io};

use model::cluster::Role;
use model::layout::Layout;
use model::ssconf::MasterHint;
use model::{NodeName, document};

use crate::membership::{Membership, is_master, read_if_there};

/// One leadership, as it was known here last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// The master node.
    pub(crate) master: NodeName,
    /// Its address, if that is known.
    pub(crate) address: Option<IpAddr>,
    /// Term and node: the higher one is the newer one.
    pub(crate) epoch: (u64, u64),
    /// Name of the cluster, if that is known.
    pub(crate) cluster: Option<String>,
    /// The candidates besides the master and this node, as far as the files name some.
    pub(crate) others: Option<String>,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { master, address, epoch: (term, node), cluster: _, others: _ } = self;
        write!(f, "{master}")?;
        if let Some(address) = address {
            write!(f, " ({address})")?;
        }
        write!(f, ", as of epoch {term}.{node}")
    }
}

impl From<Role> for Known {
    fn from(role: Role) -> Self {
        let Role { master, term, node, since: _ } = role;
        Self { master, address: None, epoch: (term, node), cluster: None, others: None }
    }
}

impl Known {
    /// The newest leadership that this machine knows of, by its copy of the configuration or by the
    /// files of its agent; `None` if it has neither.
    ///
    /// # Errors
    /// The copy is all that there could be, and cannot be read.
    pub(crate) fn on(layout: &Layout) -> io::Result<Option<Self>> {
        let ours = Membership::on(layout).ok().flatten();
        let is_ours =
            |known: &Self| ours.as_ref().is_none_or(|ours| known.is_of(&ours.cluster_name));
        let me = ours.as_ref().map(|ours| &ours.node);
        let files = by_files(layout, me).filter(is_ours);
        match read_if_there(&role_path(layout)) {
            Ok(role) => Ok(Self::newest(role, files)),
            Err(error) if files.is_none() => Err(error),
            Err(_unreadable) => Ok(files),
        }
    }

    /// The newer one of what the configuration and the files say; the files where they are as new,
    /// as they have the address.
    fn newest(role: Option<Role>, files: Option<Self>) -> Option<Self> {
        match (role.map(Self::from), files) {
            (Some(role), Some(files)) if role.epoch > files.epoch => Some(role),
            (role, files) => files.or(role),
        }
    }

    /// Whether it is of the cluster with this name, as far as is known.
    fn is_of(&self, cluster: &NodeName) -> bool {
        self.cluster.as_deref().is_none_or(|name| name == cluster.as_str())
    }
}

/// The machine's copy of who is master.
pub(crate) fn role_path(layout: &Layout) -> PathBuf {
    layout.data().join(document::ROLE)
}

/// Whether the master runs on the machine, if it runs.
pub(crate) fn is_masters_place(layout: &Layout) -> bool {
    let known = Known::on(layout).ok().flatten();
    known.is_some_and(|known| is_master(layout, &known.master))
}

/// The leadership that the files of the agent of `me` tell; none where they are missing or cannot be
/// read.
fn by_files(layout: &Layout, me: Option<&NodeName>) -> Option<Known> {
    // Followed once: the link may be replaced meanwhile, and files of two versions do not go
    // together.
    let directory = std::fs::canonicalize(layout.ssconf()).ok()?;
    let told = MasterHint::of(|name| std::fs::read_to_string(directory.join(name)).ok())?;
    let others = told.others(me);
    let MasterHint { cluster, master, address, epoch, candidates: _ } = told;
    Some(Known { master, address, epoch: epoch?, cluster, others })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use model::{Timestamp, ssconf};

    use super::*;

    fn role(master: &str, term: u64) -> Role {
        let master = master.parse().unwrap();
        Role { master, term, node: 1, since: Timestamp::from_micros(0) }
    }

    fn files(master: &str, epoch: &str) -> (tempfile::TempDir, Layout) {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let directory = layout.ssconf().with_file_name(".ssconf-3.7");
        std::fs::create_dir_all(&directory).unwrap();
        symlink(".ssconf-3.7", layout.ssconf()).unwrap();
        for (name, content) in [
            (ssconf::MASTER_NODE, master),
            (ssconf::EPOCH, epoch),
            (ssconf::MASTER_IP, "10.0.0.9"),
            (ssconf::CLUSTER_NAME, "c1.example"),
            (ssconf::PEERS, &format!("n3.example 10.0.0.3:1817 {}", "0".repeat(64))),
        ] {
            let content = format!("{content}\n");
            stdx::atomic::write(&directory.join(name), content.as_bytes(), 0o644).unwrap();
        }
        (root, layout)
    }

    #[test]
    fn the_files_name_the_master() {
        let (_root, layout) = files("n2.example", "3.2");
        let known = by_files(&layout, None).unwrap();
        assert_eq!(known.to_string(), "n2.example (10.0.0.9), as of epoch 3.2");
        assert_eq!(known.others.as_deref(), Some("n3.example (10.0.0.3)"));
        let me = "n3.example".parse().unwrap();
        assert_eq!(by_files(&layout, Some(&me)).unwrap().others, None);
        assert!(known.is_of(&"c1.example".parse().unwrap()));
        assert!(!known.is_of(&"c2.example".parse().unwrap()));
        for broken in ["", "3", "x.2"] {
            assert_eq!(by_files(&files("n2.example", broken).1, None), None, "{broken}");
        }
        assert_eq!(by_files(&Layout::new("/nowhere"), None), None);
    }

    #[test]
    fn the_higher_epoch_counts() {
        let (_root, layout) = files("n2.example", "3.2");
        let files = || by_files(&layout, None);
        let master = |role, files| Known::newest(role, files).map(|known| known.master.to_string());
        let is = |name: &str| Some(name.to_owned());
        assert_eq!(master(Some(role("n1.example", 2)), files()), is("n2.example"));
        assert_eq!(master(Some(role("n1.example", 4)), files()), is("n1.example"));
        assert_eq!(master(Some(role("n1.example", 4)), None), is("n1.example"));
        assert_eq!(master(None, files()), is("n2.example"));
        assert_eq!(master(None, None), None);
    }
}
