//! A process with mounts, processes and a network of its own, all of which end with it. Nothing else on
//! the machine sees its changes. Nothing of it is left, even after SIGKILL.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use nix::unistd::Pid;

use crate::is_root;

/// Tells the process inside that it is.
const INSIDE: &str = "GANTRY_SEALED";
/// Programs that make a sealed process.
const PROGRAMS: [&str; 8] =
    ["unshare", "nsenter", "mount", "umount", "fsfreeze", "ip", "losetup", "mkfs.ext4"];
/// Directories with contents of their own: the names of network namespaces, and images and logs.
const PRIVATE: [&str; 2] = ["/run/netns", MEMORY];
/// The directory for files of sealed processes that vanish with them.
pub const MEMORY: &str = "/dev/shm";

/// A sealed process that runs, and the pipe by whose end it learns that it should end.
#[derive(Debug)]
pub struct Sealed {
    child: Child,
    held: Option<ChildStdin>,
}

/// Why there can be no sealed process here.
pub fn missing() -> Option<String> {
    if !is_root() {
        return Some("namespaces and mounts need root".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).exists());
    if let Some(program) = PROGRAMS.into_iter().find(|program| !has(program)) {
        return Some(format!("it needs the program {program}"));
    }
    // A link and a mount, as they are made in earnest.
    let probe = "mount -t tmpfs none /dev/shm && ip link add probe type bridge";
    let tried = command(OsStr::new("sh"), &["-c".into(), probe.into()]).output().unwrap();
    (!tried.status.success()).then(|| {
        let said = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
        format!("this system does not allow namespaces, mounts or bridges: {said}")
    })
}

fn command(program: &OsStr, arguments: &[OsString]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.arg(program).args(arguments).env(INSIDE, "1");
    command
}

impl Sealed {
    /// Starts a program sealed; it should call [`settle_in`] first of all.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(program: &Path, arguments: &[OsString]) -> Self {
        let mut command = command(program.as_os_str(), arguments);
        // Signals of a terminal to its group must not reach the daemons inside.
        command.process_group(0).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let held = child.stdin.take();
        Self { child, held }
    }

    /// The pipe: to drop it asks the process to end.
    pub fn leash(&mut self) -> Option<ChildStdin> {
        self.held.take()
    }

    /// The process: if it is killed, so is all inside.
    pub fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("process ids are below 2^22"))
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn wait(mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        drop(self.held);
        status
    }
}

/// Whether this process was started sealed: it is the first of its processes.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some() && std::process::id() == 1
}

/// Makes the sealed place habitable; `orphaned` is called when whoever started it is gone, or asks
/// for the end.
///
/// # Panics
/// If this process is not sealed, or the system refuses.
pub fn settle_in(orphaned: impl FnOnce() + Send + 'static) {
    assert!(is_inside(), "mounts of the machine itself are nobody's to change");
    std::fs::create_dir_all(PRIVATE[0]).unwrap();
    for place in PRIVATE {
        must(Command::new("mount").args(["-t", "tmpfs", "-o", "size=75%", "gantry", place]));
    }
    must(Command::new("ip").args(["link", "set", "lo", "up"]));
    let watch = move || {
        let mut bytes = Vec::new();
        // Nobody writes: this returns when the other end is gone.
        drop(std::io::stdin().read_to_end(&mut bytes));
        orphaned();
    };
    drop(std::thread::spawn(watch));
}

fn must(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}
