//! A cluster of ours as Ganeti's clients see it.

use std::path::PathBuf;

use tests::cluster::{Cluster, MASTER};
use tests::ganeti::Ganeti;
use tests::run::{Ended, run};

/// Words of a client that does not know what to make of an answer.
const BEWILDERED: [&str; 3] = ["Traceback", "Queried for unknown fields", "Unhandled"];

/// A cluster, and a root directory in which Ganeti's clients find its socket where they look.
pub(super) struct Clients {
    pub(super) cluster: Cluster,
    pub(super) ganeti: Ganeti,
    root: PathBuf,
}

impl Clients {
    /// Starts a master and its agent; `None` where Ganeti is not installed, which is said.
    pub(super) fn begin(what: &str) -> Option<Self> {
        let ganeti = Ganeti::find(what)?;
        let cluster = Cluster::begin_with_agent();
        // The clients take a root for a test's only if its last part is the host's name.
        let root = cluster.dir().join("ganeti").join(MASTER);
        for directory in ["var/run/ganeti/socket", "var/log/ganeti", "var/lib/ganeti"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        let socket = root.join("var/run/ganeti/socket/ganeti-query");
        std::os::unix::fs::symlink(cluster.master.layout().luxi_socket(), socket).unwrap();
        Some(Self { cluster, ganeti, root })
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
        let mut command = self.ganeti.command(program);
        command.args(arguments);
        command.env("GANETI_ROOTDIR", &self.root).env("GANETI_HOSTNAME", MASTER);
        run(command)
    }

    /// Runs one of the clients with the words of a line.
    pub(super) fn line(&self, line: &str) -> Ended {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.run(words[0], &words[1..])
    }

    /// The output of a client that ends well.
    pub(super) fn ok(&self, line: &str) -> String {
        self.line(line).ok().to_owned()
    }
}
