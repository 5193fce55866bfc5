//! Daemons that end badly and are started again; what each says over all its lives is in one file.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use parking_lot::Mutex;

use crate::run::pass;

/// How long a daemon may take to end when it is asked to.
const END_WAIT: Duration = Duration::from_secs(60);
/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Daemons by name; gone with this value.
#[derive(Debug)]
pub struct Daemons {
    dir: PathBuf,
    running: Mutex<BTreeMap<String, Child>>,
}

impl Daemons {
    /// None yet; their words go to files in `dir`.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), running: Mutex::default() }
    }

    /// The file with a daemon's output.
    pub fn said(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// Starts one that does not run.
    ///
    /// # Panics
    /// If it runs, or does not start.
    pub fn start(&self, name: &str, mut command: Command) {
        let open = File::options().create(true).append(true).open(self.said(name));
        let said = open.unwrap();
        command.env_remove("GANTRY_ROOT").env_remove("GANTRY_SEALED");
        command.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said);
        let child = command.spawn().unwrap();
        let before = self.running.lock().insert(name.to_owned(), child);
        assert!(before.is_none(), "{name} runs already");
    }

    /// Sends a signal to one that runs; nothing to one that does not.
    pub fn signal(&self, name: &str, signal: Signal) {
        if let Some(child) = self.running.lock().get(name) {
            send(child, signal);
        }
    }

    /// Ends one as a crash would.
    pub fn kill(&self, name: &str) {
        if let Some(mut child) = self.running.lock().remove(name) {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Ends one as its service manager would.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stop(&self, name: &str) {
        let Some(mut child) = self.running.lock().remove(name) else { return };
        send(&child, Signal::SIGTERM);
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > END_WAIT {
                drop(child.kill());
                drop(child.wait());
                panic!("{name} did not end within {END_WAIT:?} when it was asked to");
            }
            pass(LOOK_EVERY);
        }
    }

    /// Whether one runs.
    pub fn is_running(&self, name: &str) -> bool {
        let mut running = self.running.lock();
        running.get_mut(name).is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// Forgets one that has ended by itself; tells how it ended.
    pub fn take_ended(&self, name: &str) -> Option<ExitStatus> {
        let mut running = self.running.lock();
        let status = running.get_mut(name)?.try_wait().unwrap()?;
        drop(running.remove(name));
        Some(status)
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in self.running.lock().values_mut() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// How something ended, in words.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("with status {code}"),
        (None, signal) => format!("by signal {}", signal.unwrap_or_default()),
    }
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("process ids are below 2^22"));
    // A child that ended was not waited for yet, so its id is still its own.
    let _sent_or_gone = nix::sys::signal::kill(pid, signal);
}
