//! A stage ends with its daemons and its files when its process is asked to end.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use xtask::stage::Stage;

/// Set in the process that holds the stage: the directory for it.
const CHILD_DIR: &str = "XTASK_TEST_STAGE_DIR";
/// The file in which the daemon writes its process id when it runs.
const READY: &str = "ready";
/// Nothing here takes long; a machine may be busy.
const LIMIT: Duration = Duration::from_secs(30);

/// Holds a stage until it is ended. Does nothing when it is run as an ordinary test.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let dir = Path::new(&dir);
    let stage = Stage::new(dir).unwrap();
    let mut daemon = Command::new("sh");
    daemon.args(["-c", "echo $$ >pid && mv pid ready && exec sleep 1000"]).current_dir(dir);
    stage.start("daemon", daemon).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_stage_that_is_interrupted_leaves_nothing() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child"]).env(CHILD_DIR, dir.path());
        let mut holder = command.spawn().unwrap();
        let ready = dir.path().join(READY);
        wait_until(&mut holder, || ready.exists());
        let daemon = pid(std::fs::read_to_string(&ready).unwrap().trim().parse().unwrap());
        std::fs::remove_file(&ready).unwrap();
        kill(pid(holder.id()), signal).unwrap();
        assert_eq!(holder.wait().unwrap().code(), Some(130), "{signal}");
        assert!(kill(daemon, None).is_err(), "{signal}: the daemon is still there");
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert!(left.is_empty(), "{signal}: {left:?}");
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).expect("process ids are below 2^22"))
}

fn wait_until(holder: &mut Child, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        let ended = holder.try_wait().expect("the process is our child");
        assert_eq!(ended, None, "the process with the stage ended");
        assert!(begun.elapsed() < LIMIT, "the daemon did not start");
        std::thread::yield_now();
    }
}
