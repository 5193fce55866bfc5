//! Processes that outlive whoever started them: known again by their number and their start.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Place of the start among the words of `/proc/PID/stat` behind the name of the program (`proc(5)`).
const START: usize = 19;

/// A process. Numbers are used again, so the moment of its start belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// In ticks of the kernel since the machine booted.
    pub started: u64,
}

impl Process {
    /// The process that has this number now; none where nobody has it, or it has ended and is not reaped.
    pub fn of(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name of the program is in parentheses, and may hold any character.
        let words: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
        if matches!(words.first(), None | Some(&("Z" | "X"))) {
            return None;
        }
        Some(Self { pid, started: words.get(START)?.parse().ok()? })
    }

    /// Whether it lives.
    pub fn is_alive(self) -> bool {
        u32::try_from(self.pid).is_ok_and(|pid| Self::of(pid) == Some(self))
    }

    /// A handle to it; none where it has ended.
    fn handle(self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        let handle = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The handle is of whoever has the number now: it is looked at after the handle was had.
        Ok(self.is_alive().then_some(handle))
    }

    /// Kills it; nothing where it has ended.
    ///
    /// # Errors
    /// The system does not let us.
    pub fn kill(self) -> io::Result<()> {
        let Some(handle) = self.handle()? else { return Ok(()) };
        match pidfd_send_signal(&handle, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until it has ended, within a tokio runtime.
    ///
    /// # Errors
    /// The system does not tell.
    pub async fn ended(self) -> io::Result<()> {
        let Some(handle) = self.handle()? else { return Ok(()) };
        #[expect(unsafe_code, reason = "tokio asks its caller for the life of the descriptor")]
        // SAFETY: `OwnedFd` owns an open descriptor, and nobody takes it out of the `AsyncFd`.
        let handle = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) }?;
        handle.readable().await?.retain_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn a_process_is_known_until_its_end() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.is_alive());
        let other = Process { started: process.started + 1, ..process };
        assert!(!other.is_alive(), "another one had its number");
        other.kill().unwrap();
        other.ended().await.unwrap();
        assert!(process.is_alive());
        process.kill().unwrap();
        process.ended().await.unwrap();
        assert!(!process.is_alive());
        child.wait().unwrap();
        assert_eq!(Process::of(child.id()), None);
    }
}
