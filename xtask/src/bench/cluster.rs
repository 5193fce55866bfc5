//! A cluster of one master, for benches: its process, its files, and the `gnt` of its operator.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use luxi::client::{Client, ClientError};
use luxi::method::GantryClusterStatus;
use model::cluster_status::ProcessState;

mod crowd;
mod nodes;

pub use nodes::{Alone, Nodes, Which};

use super::Setting;
use super::client::{self, ClientFailure};
use crate::programs::{self, BuildError, Profile, Programs, client_program};
use crate::stage::{Stage, StageError};

/// How long the daemon may take to serve.
pub const SOON: Duration = Duration::from_secs(60);
/// Longest wait for files that follow: hundreds of thousands.
const FILES_MAX: Duration = Duration::from_secs(600);
/// How often a socket that is to answer is tried: a start that is measured takes milliseconds.
const TRY_EVERY: Duration = Duration::from_millis(1);
/// Kernel clock ticks of a second, as `/proc/PID/stat` counts them on Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// Jobs of one submission where many are to be there soon.
const JOBS_AT_ONCE: u64 = 500;

/// A cluster that does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The programs do not build.
    #[error("cannot build the programs")]
    Build(#[from] BuildError),
    /// The daemon does not serve.
    #[error("the daemon does not serve")]
    Stage(#[from] StageError),
    /// No cluster could be begun.
    #[error("`masterd init` failed: {0}")]
    Init(String),
    /// A client did not do what it should.
    #[error("a client of the bench failed: {0}")]
    Client(String),
    /// Jobs could not be submitted.
    #[error("the bench's own client failed")]
    Jobs(#[from] ClientFailure),
    /// The master did not answer.
    #[error("the master does not answer")]
    Luxi(#[from] ClientError),
    /// `gnt` failed.
    #[error("`gnt {arguments}` failed: {told}")]
    Gnt {
        /// Its command line.
        arguments: String,
        /// Its output.
        told: String,
    },
    /// The process of many agents ended.
    #[error("the bench's agents ended: {why}; what was seen of it: {seen}")]
    Crowd {
        /// Its output.
        why: String,
        /// The failure that was seen since then.
        seen: Box<ClusterError>,
    },
    /// The role did not move, or a node did not follow.
    #[error("the nodes of the bench: {0}")]
    Failover(String),
    /// A process could not be talked with.
    #[error("cannot talk with a process of the bench")]
    Pipe(#[from] io::Error),
}

/// A cluster of one master below a root of its own; or one of several nodes that can be master.
#[derive(Debug)]
pub struct Cluster {
    stage: Stage,
    programs: Programs,
    /// The name of the daemon on the stage.
    daemon: String,
    /// All its paths are below it.
    root: PathBuf,
    /// Further options of the daemon.
    options: Vec<String>,
}

impl Cluster {
    /// Builds the programs, begins a cluster and starts its master.
    ///
    /// # Errors
    /// Any of it failed.
    pub fn start(setting: &Setting) -> Result<Self, ClusterError> {
        let programs =
            Programs::build(Profile::Release, programs::NODE)?.with_disk(setting.own_disk.clone());
        let stage = Stage::new(&setting.dir)?;
        let init = programs
            .command("masterd")
            .arg("--root")
            .arg(stage.root())
            .args(["init", "bench.example", "--node-name", "n1.example"])
            .output()?;
        if !init.status.success() {
            return Err(ClusterError::Init(String::from_utf8_lossy(&init.stderr).into_owned()));
        }
        let (daemon, root) = ("masterd".to_owned(), stage.root());
        let cluster = Self { stage, programs, daemon, root, options: Vec::new() };
        cluster.serve()?;
        Ok(cluster)
    }

    /// Starts the daemon, whatever it will be.
    ///
    /// # Errors
    /// The program does not start.
    pub fn launch(&self) -> Result<(), ClusterError> {
        let mut masterd = self.programs.command("masterd");
        masterd.arg("--root").arg(&self.root).args(&self.options);
        Ok(self.stage.start(&self.daemon, masterd)?)
    }

    /// Starts the master; gives the time until it answered.
    ///
    /// # Errors
    /// It does not.
    pub fn serve(&self) -> Result<Duration, ClusterError> {
        let begun = Instant::now();
        self.launch()?;
        while self.connect().is_err() {
            if begun.elapsed() > SOON {
                return Err(ClusterError::Client("the master does not listen".to_owned()));
            }
            pause();
        }
        Ok(begun.elapsed())
    }

    /// Ends the master as its service manager would and starts it again; gives the time that the
    /// start took, until a request was answered.
    ///
    /// # Errors
    /// It does not serve again.
    pub fn restart(&self) -> Result<Duration, ClusterError> {
        self.stage.stop(&self.daemon);
        self.serve()
    }

    /// Ends the daemon without waiting for jobs that run for long, as a crash would.
    pub fn abandon(&self) {
        self.stage.kill(&self.daemon);
    }

    /// A connection to the master, and not to a standby that would pass on to one.
    ///
    /// # Errors
    /// It is none, or is not there.
    pub fn connect(&self) -> Result<Client, ClusterError> {
        let mut client = Client::connect(&self.socket())?;
        match client.call(&GantryClusterStatus {})?.state {
            ProcessState::Master => Ok(client),
            other => Err(ClusterError::Client(format!("masterd is no master but {other:?}"))),
        }
    }

    /// Whether `masterd` follows the master `of`.
    pub fn follows(&self, of: &str) -> bool {
        let status = || Client::connect(&self.socket())?.call(&GantryClusterStatus {});
        status().is_ok_and(|status| {
            let master = status.master.is_some_and(|master| master.node.as_str() == of);
            status.state == ProcessState::Standby && master
        })
    }

    /// The master's socket.
    pub fn socket(&self) -> PathBuf {
        self.root.join("run/gantry/luxi.sock")
    }

    /// The directory below which all its paths are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The store's directory.
    pub fn data(&self) -> PathBuf {
        self.root.join("var/lib/gantry")
    }

    /// A command that runs a client of the bench, which is built first.
    ///
    /// # Errors
    /// It does not build.
    pub fn client_command(&self) -> Result<Command, BuildError> {
        let mut command = Command::new(client_program()?);
        command.arg("bench-client").arg("--socket").arg(self.socket());
        Ok(command)
    }

    /// The epoch in which it is master; empty where it is not.
    ///
    /// # Errors
    /// It does not answer.
    pub fn epoch(&self) -> Result<String, ClusterError> {
        let status = self.connect()?.call(&GantryClusterStatus {})?;
        Ok(status.master.map(|master| master.epoch).unwrap_or_default())
    }

    /// Submits `count` trivial jobs and sees them succeed.
    ///
    /// # Errors
    /// One did not.
    pub fn run_jobs(&self, count: u64) -> Result<(), ClusterError> {
        let mut client = self.connect()?;
        let mut left = count;
        while left > 0 {
            let some = left.min(JOBS_AT_ONCE);
            let ids =
                client::submit(&mut client, usize::try_from(some).unwrap_or(usize::MAX), 0.0)?;
            for &id in ids.iter().rev() {
                client::succeed(&mut client, id)?;
            }
            left -= some;
        }
        Ok(())
    }

    /// Starts `count` jobs that run for `seconds`.
    ///
    /// # Errors
    /// They are refused.
    pub fn start_jobs(&self, count: usize, seconds: f64) -> Result<(), ClusterError> {
        client::submit(&mut self.connect()?, count, seconds)?;
        Ok(())
    }

    /// Waits until what it has committed is in files, and there are `count` files of jobs or more.
    ///
    /// # Errors
    /// They do not come.
    pub fn wait_for_files(&self, count: u64) -> Result<(), ClusterError> {
        let data = self.data();
        // Counted only when it says so: that keeps files from being made.
        let written =
            || self.files_lag() == Some(0) && count_jobs(&data).is_ok_and(|files| files >= count);
        Ok(self.stage.wait_until("every job's file", FILES_MAX, written)?)
    }

    /// Committed documents whose file it has not written yet; none where it does not say.
    fn files_lag(&self) -> Option<u64> {
        let mut client = Client::connect(&self.socket()).ok()?;
        let status = client.call(&GantryClusterStatus {}).ok()?;
        Some(status.store?.files_lag_keys)
    }

    /// Runs `gnt`; gives the time from its start to its exit.
    ///
    /// # Errors
    /// It fails.
    pub fn gnt(&self, arguments: &[&str]) -> Result<Duration, ClusterError> {
        let mut gnt = self.programs.command("gnt");
        gnt.arg("--root").arg(&self.root).args(arguments).stdin(Stdio::null());
        let begun = Instant::now();
        let done = gnt.output()?;
        let elapsed = begun.elapsed();
        if !done.status.success() {
            let told = String::from_utf8_lossy(&done.stderr).into_owned();
            return Err(ClusterError::Gnt { arguments: arguments.join(" "), told });
        }
        Ok(elapsed)
    }

    /// Starts another program of the node.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_beside(&self, name: &str, arguments: &[&str]) -> Result<(), ClusterError> {
        let mut command = self.programs.command(name);
        command.arg("--root").arg(&self.root).args(arguments);
        Ok(self.stage.start(name, command)?)
    }

    /// The process of a program that was started.
    ///
    /// # Errors
    /// It was not.
    pub fn pid_of(&self, name: &str) -> io::Result<u32> {
        self.stage.pid(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Processor time that the master has used, in user and kernel mode.
    ///
    /// # Errors
    /// It does not run.
    pub fn cpu_seconds(&self) -> io::Result<f64> {
        self.cpu_seconds_of(&self.daemon)
    }

    /// The same of another program of the node.
    ///
    /// # Errors
    /// It does not run.
    pub fn cpu_seconds_of(&self, name: &str) -> io::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid_of(name)?))?;
        // The name in parentheses may hold anything; the numbers begin behind it.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks =
            |place: usize| fields.get(place).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
        Ok((ticks(11) + ticks(12)) / TICKS_PER_SECOND)
    }

    /// Memory of the master that is its own, in KiB. Pages of files, as those of its program, are
    /// the page cache's.
    ///
    /// # Errors
    /// It does not run.
    pub fn memory_kib(&self) -> io::Result<u64> {
        self.memory_kib_of(&self.daemon)
    }

    /// The same of another program of the node.
    ///
    /// # Errors
    /// It does not run.
    pub fn memory_kib_of(&self, name: &str) -> io::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid_of(name)?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        kib.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Job files that are there.
///
/// # Errors
/// The directory cannot be read.
pub fn count_jobs(data: &Path) -> io::Result<u64> {
    let mut count = 0;
    for entry in std::fs::read_dir(data.join("queue"))? {
        count += u64::from(entry?.file_name().to_string_lossy().starts_with("job-"));
    }
    Ok(count)
}

/// A moment between two looks.
#[expect(clippy::disallowed_methods, reason = "a tool without a runtime looks again after a while")]
pub fn pause() {
    std::thread::sleep(TRY_EVERY);
}
