//! Commands that run to their end, within a limit, and what they said.

use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

/// Longest that a command may take: above what any of them waits for on purpose.
pub const COMMAND_TIME: Duration = Duration::from_secs(180);
/// How often a state that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A command that runs; what it says is collected.
#[derive(Debug)]
pub struct Running {
    child: Child,
    command: String,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

/// A command that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The command, for messages.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Starts a command without standard input.
pub fn start(mut command: Command) -> Running {
    let text = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{text}: {error}"));
    let stdout = collect(child.stdout.take().unwrap());
    let stderr = collect(child.stderr.take().unwrap());
    Running { child, command: text, stdout, stderr }
}

pub fn run(command: Command) -> Ended {
    start(command).end()
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Running {
    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until this `gnt` is connected to follow a job: then it has blocked SIGINT, which only
    /// its own thread for that takes.
    pub fn wait_until_following(&self) {
        let status = format!("/proc/{}/status", self.id());
        wait_for("gnt to follow its job", COMMAND_TIME, || {
            let status = std::fs::read_to_string(&status).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
            let blocked = u64::from_str_radix(line.trim(), 16).ok()?;
            (blocked & (1 << (Signal::SIGINT as u32 - 1)) != 0).then_some(())
        });
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Waits for its end, which must come within [`COMMAND_TIME`].
    pub fn end(mut self) -> Ended {
        let begun = Instant::now();
        while self.is_running() {
            if begun.elapsed() > COMMAND_TIME {
                self.child.kill().unwrap();
                let said = (self.stdout.join().unwrap(), self.stderr.join().unwrap());
                panic!("{} did not end; it said {said:?}", self.command);
            }
            pause();
        }
        let status = self.child.wait().unwrap();
        let (stdout, stderr) = (self.stdout.join().unwrap(), self.stderr.join().unwrap());
        Ended { command: self.command, status, stdout, stderr }
    }
}

impl Ended {
    /// Its exit status as shells count it: a signal is 128 and its number.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or_default())
    }

    /// Standard output of a command that succeeded.
    pub fn ok(&self) -> &str {
        assert_eq!(self.code(), 0, "{self:#?}");
        &self.stdout
    }

    /// Standard error of a command that failed with this status.
    pub fn failed(&self, code: i32) -> &str {
        assert_eq!(self.code(), code, "{self:#?}");
        &self.stderr
    }

    /// Standard output of a command that succeeded, as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(self.ok()).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Waits until `look` gives something, at most for `limit`.
///
/// # Panics
/// If it gives nothing in time.
pub fn wait_for<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < limit, "{what} did not happen within {limit:?}");
        pause();
    }
}

/// A moment between two looks, never a way to be in time.
#[expect(clippy::disallowed_methods, reason = "a test without a runtime looks again after a while")]
fn pause() {
    std::thread::sleep(LOOK_EVERY);
}

/// Lets so much time pass: for the moment of a crash, not to wait for something.
#[expect(clippy::disallowed_methods, reason = "the moment of a crash is a matter of time")]
pub fn pass(time: Duration) {
    std::thread::sleep(time);
}
