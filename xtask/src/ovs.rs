//! An Open vSwitch that moves no packets, so that it needs no rights: for a scene of the demonstration and
//! for a bench. Tests prove by packets.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::needs;
use crate::stage::{Stage, StageError};

/// Programs that it needs.
pub const PROGRAMS: &[&str] = &["ovs-vswitchd", "ovsdb-server", "ovs-vsctl"];
/// How long it may take to serve.
const SOON: Duration = Duration::from_secs(30);
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Its bridge.
const BRIDGE: &str = "br0";
/// Characters of a command line that an error repeats.
const LINE_TOLD_MAX: usize = 200;
/// Ports that one command adds.
const ADDED_AT_ONCE: usize = 100;

/// A switch that does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum OvsError {
    /// A file cannot be made.
    #[error("cannot make `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A program does not start.
    #[error("cannot start `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A program fails.
    #[error("`{command}` failed ({status}): {told}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        told: String,
    },
    /// A daemon does not serve.
    #[error("the switch does not serve")]
    Stage(#[from] StageError),
}

/// An Open vSwitch that runs on a stage.
#[derive(Debug)]
pub struct Ovs {
    directory: PathBuf,
}

impl Ovs {
    /// Starts one with these ports in `directory`, as daemons of `stage`.
    ///
    /// # Errors
    /// It does not serve.
    pub fn start(stage: &Stage, directory: &Path, ports: &[String]) -> Result<Self, OvsError> {
        let made = std::fs::create_dir_all(directory);
        made.map_err(|error| OvsError::Write { path: directory.to_owned(), error })?;
        let switch = Self { directory: directory.to_owned() };
        let mut create = switch.command("ovsdb-tool");
        create.args(["create", "conf.db", SCHEMA]);
        done(create)?;
        let mut database = switch.command("ovsdb-server");
        database.args(["conf.db", "--unixctl=database.ctl"]);
        database.arg(format!("--remote=punix:{}", switch.socket().display()));
        stage.start("ovsdb-server", database)?;
        stage.wait_until("the socket of the switch", SOON, || switch.socket().exists())?;
        switch.vsctl(&["--no-wait", "init"])?;
        let mut daemon = switch.command("ovs-vswitchd");
        daemon.args([&switch.database(), "--enable-dummy", "--unixctl=switch.ctl"]);
        stage.start("ovs-vswitchd", daemon)?;
        switch.vsctl(&["add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=dummy"])?;
        for ports in ports.chunks(ADDED_AT_ONCE) {
            let add = |port: &String| {
                ["--", "add-port", BRIDGE, port, "--", "set", "interface", port, "type=dummy"]
                    .map(str::to_owned)
            };
            let words: Vec<String> = ports.iter().flat_map(add).skip(1).collect();
            switch.vsctl(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        Ok(switch)
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("db.sock")
    }

    fn database(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// How Gantry reaches it.
    pub fn url(&self) -> String {
        format!("ovsdb+unix://{}#{BRIDGE}", self.socket().display())
    }

    /// Runs `ovs-vsctl`; gives its output.
    ///
    /// # Errors
    /// It fails.
    pub fn vsctl(&self, words: &[&str]) -> Result<String, OvsError> {
        let mut vsctl = self.command("ovs-vsctl");
        vsctl.arg(format!("--db={}", self.database())).arg("--timeout=60").args(words);
        done(vsctl)
    }

    /// A command of the switch, in its directory.
    fn command(&self, program: &str) -> Command {
        let mut command = needs::beside("ovs-vswitchd", program);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, &self.directory);
        }
        command.current_dir(&self.directory).stdin(Stdio::null());
        command
    }
}

fn done(mut command: Command) -> Result<String, OvsError> {
    let line: String = format!("{command:?}").chars().take(LINE_TOLD_MAX).collect();
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Err(OvsError::Start { command: line, error }),
    };
    let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(told(&output.stdout)),
        false => Err(OvsError::Failed {
            command: line,
            status: output.status,
            told: told(&output.stderr),
        }),
    }
}
