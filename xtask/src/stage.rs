//! A temporary root with daemons, which ends with its owner: also on Ctrl-C, also on an error.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::layout::Layout;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use stdx::process::Process;
use tempfile::TempDir;

/// Most daemons of one stage: a demonstration has a handful, more is a loop gone wrong.
pub const DAEMONS_MAX: usize = 64;
/// How long a daemon may take to end by itself: a checkpoint of a busy store, and some.
const END_WAIT: Duration = Duration::from_secs(90);
/// How often a state that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Exit status after Ctrl-C, as shells have it: 128 and the signal's number.
const INTERRUPTED: i32 = 130;

/// A temporary root and the daemons that run below it. Clones are the same stage.
#[derive(Debug, Clone)]
pub struct Stage(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    root: Option<TempDir>,
    path: PathBuf,
    daemons: Vec<(String, Child)>,
}

/// A stage that could not be set.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The root could not be made.
    #[error("cannot make a temporary root in `{dir}`")]
    Root {
        /// Where.
        dir: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The output of a daemon has no file.
    #[error("cannot make `{path}` for a daemon's output")]
    Output {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A daemon did not start.
    #[error("cannot start {name}")]
    Start {
        /// Which.
        name: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// There are too many daemons.
    #[error("a stage holds at most {DAEMONS_MAX} daemons")]
    TooMany,
    /// Something that was waited for did not come.
    #[error("{what} did not happen within {} s; what the daemons said lies in `{root}`", .limit.as_secs())]
    Late {
        /// The event that was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// The stage's root.
        root: PathBuf,
    },
    /// Ctrl-C could not be listened for.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
}

impl Stage {
    /// A new root in `dir`, and a watch that clears it away on Ctrl-C.
    ///
    /// # Errors
    /// The root cannot be made, or signals not be listened for.
    pub fn new(dir: &Path) -> Result<Self, StageError> {
        let made = tempfile::Builder::new().prefix("gantry-").tempdir_in(dir);
        let root = made.map_err(|error| StageError::Root { dir: dir.to_owned(), error })?;
        let path = root.path().to_owned();
        let inner = Inner { root: Some(root), path, daemons: Vec::new() };
        let stage = Self(Arc::new(Mutex::new(inner)));
        stage.end_on_signal()?;
        Ok(stage)
    }

    /// The root of everything here.
    pub fn root(&self) -> PathBuf {
        self.0.lock().path.clone()
    }

    /// Starts a daemon; what it prints goes to `NAME.out` below the root.
    ///
    /// # Errors
    /// The program does not start, or there are too many.
    pub fn start(&self, name: &str, mut command: Command) -> Result<(), StageError> {
        let mut inner = self.0.lock();
        if inner.daemons.len() == DAEMONS_MAX {
            return Err(StageError::TooMany);
        }
        let path = inner.path.join(format!("{name}.out"));
        let at = |error| StageError::Output { path: path.clone(), error };
        let output = File::create(&path).map_err(at)?;
        let errors = output.try_clone().map_err(at)?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child =
            command.spawn().map_err(|error| StageError::Start { name: name.to_owned(), error })?;
        inner.daemons.push((name.to_owned(), child));
        Ok(())
    }

    /// The process of a daemon.
    pub fn pid(&self, name: &str) -> Option<u32> {
        let inner = self.0.lock();
        inner.daemons.iter().find(|(known, _)| known == name).map(|(_, child)| child.id())
    }

    /// Whether a daemon has ended, or never ran.
    pub fn has_ended(&self, name: &str) -> bool {
        let mut inner = self.0.lock();
        let child = inner.daemons.iter_mut().find(|(known, _)| known == name);
        child.is_none_or(|(_, child)| !matches!(child.try_wait(), Ok(None)))
    }

    /// Ends one daemon as its service manager would, and waits for it. An unknown name is no
    /// error: the daemon is not running.
    pub fn stop(&self, name: &str) {
        let mut inner = self.0.lock();
        if let Some(at) = inner.daemons.iter().position(|(known, _)| known == name) {
            let (_, child) = inner.daemons.remove(at);
            drop(inner);
            end(vec![child]);
        }
    }

    /// Ends one daemon as a crash would, and waits until it is gone. An unknown name is no error.
    pub fn kill(&self, name: &str) {
        let mut inner = self.0.lock();
        if let Some(at) = inner.daemons.iter().position(|(known, _)| known == name) {
            let (_, mut child) = inner.daemons.remove(at);
            // It may have ended by itself; either way it is gone after the wait.
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Waits until `holds`, at most for `limit`.
    ///
    /// # Errors
    /// It did not hold in time.
    pub fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut() -> bool,
    ) -> Result<(), StageError> {
        let begun = Instant::now();
        while !holds() {
            if begun.elapsed() > limit {
                self.keep();
                let root = self.root();
                return Err(StageError::Late { what: what.to_owned(), limit, root });
            }
            pause();
        }
        Ok(())
    }

    /// Leaves the root's files where they are when the stage ends.
    pub fn keep(&self) {
        if let Some(root) = self.0.lock().root.take() {
            drop(root.keep());
        }
    }

    /// Ends every daemon, last started first; the files stay for as long as the stage.
    pub fn end_daemons(&self) {
        self.0.lock().end_daemons();
    }

    /// Ends every daemon, last started first, and removes the root. The end of the last clone does
    /// the same.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    fn end_on_signal(&self) -> Result<(), StageError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.map_err(StageError::Signals)?;
        // Only a stage that still stands is cleared: the watch must not keep it alive.
        let watched = Arc::downgrade(&self.0);
        let (tell, listening) = std::sync::mpsc::channel();
        let watch = move || {
            let asked = async {
                let mut asked = std::pin::pin!(stdx::daemon::asked_to_end());
                tokio::select! {
                    biased;
                    // It listens from its first look on.
                    asked = asked.as_mut() => asked,
                    _ = async { tell.send(()) } => asked.await,
                }
            };
            if runtime.block_on(asked).is_ok() {
                if let Some(inner) = watched.upgrade() {
                    inner.lock().clear();
                }
                end_process();
            }
        };
        let named = std::thread::Builder::new().name("signals".to_owned());
        named.spawn(watch).map_err(StageError::Signals)?;
        // A signal before that would end this process, and leave its daemons.
        let failed = |_ended| StageError::Signals(std::io::ErrorKind::BrokenPipe.into());
        listening.recv().map_err(failed)
    }
}

impl Inner {
    fn end_daemons(&mut self) {
        let daemons = std::mem::take(&mut self.daemons);
        end(daemons.into_iter().rev().map(|(_, child)| child).collect());
    }

    fn clear(&mut self) {
        self.end_daemons();
        end_guests(&self.path);
        if let Some(root) = self.root.take() {
            let path = root.path().to_owned();
            if let Err(error) = root.close() {
                eprintln!("xtask: cannot remove `{}`: {error}", path.display());
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Ends the guests of all nodes below a root, which outlive their agents.
fn end_guests(root: &Path) {
    let nodes = fs::read_dir(root).into_iter().flatten().flatten();
    let records = nodes.map(|node| Layout::new(node.path()).instances());
    let files = records.filter_map(|records| fs::read_dir(records).ok()).flatten().flatten();
    for file in files {
        let record = fs::read(file.path()).unwrap_or_default();
        let Ok(Guest { process: Some(process) }) = serde_json::from_slice(&record) else {
            continue;
        };
        if let Err(error) = process.kill() {
            eprintln!("xtask: a guest of {} stays: {error}", file.path().display());
        }
    }
}

/// The record of an instance, as far as it counts here.
#[derive(serde::Deserialize)]
struct Guest {
    process: Option<Process>,
}

/// Asks all to end, then waits; who does not end in time is killed.
fn end(mut children: Vec<Child>) {
    for child in &children {
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("process ids are below 2^22"));
        // A child that ended was not waited for yet, so its id is still its own.
        if let Err(error) = kill(pid, Signal::SIGTERM) {
            eprintln!("xtask: cannot ask process {pid} to end: {error}");
        }
    }
    let begun = Instant::now();
    children.retain_mut(|child| {
        loop {
            match child.try_wait() {
                Ok(None) if begun.elapsed() < END_WAIT => pause(),
                Ok(Some(_)) => return false,
                Ok(None) | Err(_) => return true,
            }
        }
    });
    for mut child in children {
        eprintln!("xtask: process {} did not end by itself and is killed", child.id());
        drop(child.kill());
        drop(child.wait());
    }
}

/// A moment between two looks.
#[expect(clippy::disallowed_methods, reason = "a tool without a runtime looks again after a while")]
pub fn pause() {
    std::thread::sleep(LOOK_EVERY);
}

#[expect(clippy::exit, reason = "everything is cleared away, and the main thread may be anywhere")]
fn end_process() {
    std::process::exit(INTERRUPTED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_its_daemons_and_removes_its_root() {
        let dir = tempfile::tempdir().unwrap();
        let stage = Stage::new(dir.path()).unwrap();
        let root = stage.root();
        let mut sleeper = Command::new("sleep");
        sleeper.arg("1000");
        stage.start("sleeper", sleeper).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo hello; exec sleep 1000"]);
        stage.start("shell", shell).unwrap();
        let said = root.join("shell.out");
        let hello = || std::fs::read_to_string(&said).is_ok_and(|text| text == "hello\n");
        stage.wait_until("a hello", Duration::from_secs(10), hello).unwrap();
        let pids: Vec<u32> = stage.0.lock().daemons.iter().map(|(_, child)| child.id()).collect();
        stage.stop("sleeper");
        drop(stage);
        assert!(!root.exists());
        for pid in pids {
            let gone = kill(Pid::from_raw(i32::try_from(pid).unwrap()), None).is_err();
            assert!(gone, "process {pid} is still there");
        }
    }

    #[test]
    fn what_does_not_come_is_named_and_its_traces_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let stage = Stage::new(dir.path()).unwrap();
        let error = stage.wait_until("rain", Duration::ZERO, || false).unwrap_err();
        assert!(error.to_string().starts_with("rain did not happen"), "{error}");
        let root = stage.root();
        drop(stage);
        assert!(root.exists());
    }
}
