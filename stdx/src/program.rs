//! Programs that run to their end, within limits of time and output.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{
    CapabilitySet, capability_is_in_ambient_set, clear_ambient_capability_set,
    configure_capability_in_ambient_set,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

/// The search path of programs that get no environment.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The limits of a program.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until its end.
    pub time: Duration,
    /// Bytes of its standard output that are kept.
    pub told: u64,
    /// Bytes of its standard error that are kept.
    pub complained: u64,
}

/// The words of a program until its end.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub told: Vec<u8>,
    /// Text of a log, for people.
    pub complained: String,
}

/// A program that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It does not start, or its pipes fail.
    #[error("it does not run: {0}")]
    Run(#[from] io::Error),
    /// It was killed, with all that it had started.
    #[error("it did not end within {} s", .0.as_secs())]
    Late(Duration),
}

/// Runs a program, which gets `question` on its standard input. It has none of this process's
/// capabilities, and is killed with its children when its time is up or nobody waits any more.
///
/// # Errors
/// It does not start or does not end in time.
pub async fn run(command: Command, question: &[u8], limits: Limits) -> Result<Ended, ProgramError> {
    run_with(command, question, limits, CapabilitySet::empty()).await
}

/// Runs a program that changes the network: it keeps `CAP_NET_ADMIN` where this process has it for its
/// children, and is as [`run`] otherwise.
///
/// # Errors
/// As [`run`].
pub async fn run_for_network(
    command: Command,
    question: &[u8],
    limits: Limits,
) -> Result<Ended, ProgramError> {
    run_with(command, question, limits, CapabilitySet::NET_ADMIN).await
}

async fn run_with(
    mut command: Command,
    question: &[u8],
    limits: Limits,
    kept: CapabilitySet,
) -> Result<Ended, ProgramError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    let mut child = start(command, kept)?;
    let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read its question says by its answer what it thinks of it.
            drop(stdin.write_all(question).await);
        }
        Ok(())
    };
    let talk = async {
        let ((), told, complained) =
            tokio::try_join!(write, read(out, limits.told), read(err, limits.complained))?;
        let status = child.wait().await?;
        let complained = String::from_utf8_lossy(&complained).into_owned();
        Ok::<_, io::Error>(Ended { status, told, complained })
    };
    let ended = tokio::time::timeout(limits.time, talk)
        .await
        .map_err(|_elapsed| ProgramError::Late(limits.time))??;
    // Whatever of its group goes on behind its back is killed here, too.
    drop(group);
    Ok(ended)
}

/// Starts a program on a thread of its own: capabilities that children inherit are of a thread.
fn start(mut command: Command, kept: CapabilitySet) -> io::Result<Child> {
    let runtime = tokio::runtime::Handle::current();
    let start = move || {
        // A right that is not inherited anyway cannot be kept either.
        let keeps = !kept.is_empty() && capability_is_in_ambient_set(kept)?;
        clear_ambient_capability_set()?;
        if keeps {
            configure_capability_in_ambient_set(kept, true)?;
        }
        let _entered = runtime.enter();
        command.spawn()
    };
    let started = std::thread::spawn(start).join();
    started.unwrap_or_else(|ended| std::panic::resume_unwind(ended))
}

/// The program and its children, who are killed with the value.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An error says that nobody of it lives any more.
            let _none_left = kill_process_group(group, Signal::KILL);
        }
    }
}

/// The first `max` bytes; the rest is read and dropped, so that the program does not wait for us.
async fn read(from: Option<impl AsyncRead + Unpin>, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        (&mut from).take(max).read_to_end(&mut bytes).await?;
        tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { time: Duration::from_secs(60), told: 8, complained: 8 };

    async fn sh(script: &str, limits: Limits) -> Result<Ended, ProgramError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, b"question", limits).await
    }

    #[tokio::test]
    async fn a_program_is_asked_and_heard_up_to_its_limits() {
        let ended = sh("cat; echo; echo no longer than this; echo complaints >&2; exit 3", LIMITS);
        let ended = ended.await.unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(
            (ended.told.as_slice(), ended.complained.as_str()),
            (&b"question"[..], "complain")
        );
        let unread = sh("exit 0", LIMITS).await.unwrap();
        assert!(unread.status.success());
    }

    #[tokio::test]
    async fn a_program_that_does_not_end_is_killed_with_its_children() {
        let directory = std::env::temp_dir().join(format!("program-{}", std::process::id()));
        let limits = Limits { time: Duration::from_millis(500), ..LIMITS };
        let script = format!("sleep 1000 & echo $! > {}; wait", directory.display());
        let late = sh(&script, limits).await;
        assert!(matches!(late, Err(ProgramError::Late(_))), "{late:?}");
        let child = std::fs::read_to_string(&directory).unwrap();
        std::fs::remove_file(&directory).unwrap();
        let status = format!("/proc/{}/stat", child.trim());
        // A killed process is there until it is reaped.
        let lives = || std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z "));
        while lives() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_program_keeps_a_right_if_it_is_for_the_network() {
        use rustix::thread::{capabilities, set_capabilities};
        let rights = [CapabilitySet::NET_ADMIN, CapabilitySet::NET_RAW];
        let mut sets = capabilities(None).unwrap();
        sets.inheritable |= rights[0] | rights[1];
        if !sets.permitted.contains(sets.inheritable) {
            println!("skipped: only root has these rights");
            return;
        }
        set_capabilities(None, sets).unwrap();
        for right in rights {
            configure_capability_in_ambient_set(right, true).unwrap();
        }
        let limits = Limits { told: 100, ..LIMITS };
        let command = || {
            let mut command = Command::new("grep");
            command.args(["CapAmb", "/proc/self/status"]);
            command
        };
        let told = |ended: Ended| {
            let told = String::from_utf8(ended.told).unwrap();
            let number = told.split_whitespace().last().map(str::to_owned);
            CapabilitySet::from_bits_retain(u64::from_str_radix(&number.unwrap(), 16).unwrap())
        };
        let kept = told(run_for_network(command(), b"", limits).await.unwrap());
        assert_eq!(kept, CapabilitySet::NET_ADMIN);
        assert_eq!(told(run(command(), b"", limits).await.unwrap()), CapabilitySet::empty());
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_an_error() {
        let missing = run(Command::new("/nowhere/program"), b"", LIMITS).await;
        assert!(matches!(missing, Err(ProgramError::Run(_))), "{missing:?}");
    }
}
