//! A cluster of ours as Ganeti's clients see it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::cluster::{Cluster, MASTER};
use tests::run::{Ended, run};

/// Where Debian's package has the scripts that are run as commands.
const SCRIPTS: &str = "/usr/sbin";
/// Where it has the modules of the version that these tests know.
pub(super) const MODULES: &str = "/usr/share/ganeti/3.0";
/// What a client says that does not know what to make of an answer.
const BEWILDERED: [&str; 3] = ["Traceback", "Queried for unknown fields", "Unhandled"];

/// A cluster, and a root directory in which Ganeti's clients find its socket where they look.
pub(super) struct Clients {
    pub(super) cluster: Cluster,
    root: PathBuf,
}

impl Clients {
    /// Starts a master and its agent; `None` where Ganeti is not installed, which is said.
    pub(super) fn begin(what: &str) -> Option<Self> {
        if !are_installed(what) {
            return None;
        }
        let cluster = Cluster::begin_with_agent();
        // The clients take a root for a test's only if its last part is the host's name.
        let root = cluster.dir().join("ganeti").join(MASTER);
        for directory in ["var/run/ganeti/socket", "var/log/ganeti", "var/lib/ganeti"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        let socket = root.join("var/run/ganeti/socket/ganeti-query");
        std::os::unix::fs::symlink(cluster.master.layout().luxi_socket(), socket).unwrap();
        Some(Self { cluster, root })
    }

    /// Runs one of the clients with these arguments; it must know what to make of every answer.
    pub(super) fn run(&self, program: &str, arguments: &[&str]) -> Ended {
        let ended = self.run_anyhow(program, arguments);
        for word in BEWILDERED {
            let said = ended.stdout.contains(word) || ended.stderr.contains(word);
            assert!(!said, "{word}: {ended:#?}");
        }
        ended
    }

    /// Runs one of the clients with these arguments.
    pub(super) fn run_anyhow(&self, program: &str, arguments: &[&str]) -> Ended {
        let mut command = Command::new(Path::new(SCRIPTS).join(program));
        command.args(arguments);
        command.env("GANETI_ROOTDIR", &self.root).env("GANETI_HOSTNAME", MASTER);
        run(command)
    }

    /// Runs one of the clients with the words of a line.
    pub(super) fn line(&self, line: &str) -> Ended {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.run(words[0], &words[1..])
    }

    /// What a client prints that ends well.
    pub(super) fn ok(&self, line: &str) -> String {
        self.line(line).ok().to_owned()
    }
}

/// Whether the clients are there; says so if not.
pub(super) fn are_installed(what: &str) -> bool {
    let there = Path::new(SCRIPTS).join("gnt-job").exists() && Path::new(MODULES).exists();
    if !there {
        tests::skip(what, "Ganeti 3.0 is not installed; as root: apt-get install ganeti");
    }
    there
}
