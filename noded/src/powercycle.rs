//! Restarts the machine hard, at the master's request: a last resort, for a machine that no longer
//! does what it is told but still answers. Off unless the operator allowed it on this machine.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::layout::Layout;
use stdx::Tasks;

/// How long the machine waits, so that the answer still leaves it (Ganeti's).
pub const DELAY: Duration = Duration::from_secs(5);
/// The kernel's file for orders of this kind.
const TRIGGER: &str = "/proc/sysrq-trigger";
/// The order to restart at once, without flushing or unmounting anything.
const RESTART: &[u8] = b"b";
/// The namespace of processes that the machine itself has: the kernel's `PROC_PID_INIT_INO`. A
/// container has another one.
const MACHINE_NAMESPACE: &str = "pid:[4026531836]";

/// Why the machine is not restarted.
#[derive(Debug, thiserror::Error)]
pub enum PowercycleError {
    /// Nobody allowed it here.
    #[error(
        "this agent may not restart its machine: it was started without --allow-powercycle (OPTIONS \
         in /etc/default/gantry-noded)"
    )]
    NotAllowed,
    /// It is no machine of its own.
    #[error(
        "this agent does not run on a machine of its own, but {what}; it restarts none, whatever \
         --allow-powercycle says"
    )]
    NoMachine {
        /// The surroundings in which it runs.
        what: &'static str,
    },
    /// The kernel does not take the order.
    #[error(
        "cannot write `{path}`, which restarts the machine; docs/nodes.md tells what noded needs for that"
    )]
    Trigger {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

/// Restarts a machine.
pub trait Powercycle: Debug + Send + Sync {
    /// Has the machine restarted a short time from now, and gives that time.
    ///
    /// # Errors
    /// It will not be restarted.
    fn schedule(&self) -> Result<Duration, PowercycleError>;
}

/// The way to restart the machine that this agent runs on, by its options.
pub fn of_machine(allowed: bool, layout: &Layout) -> Arc<dyn Powercycle> {
    match hindrance(allowed, layout, Path::new("/")) {
        None => Arc::new(SysRq { trigger: TRIGGER.into(), delay: DELAY, tasks: Tasks::new() }),
        Some(why) => Arc::new(Refused(why)),
    }
}

/// Why a machine must not be restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hindrance {
    NotAllowed,
    NoMachine(&'static str),
}

/// The hindrance for an agent with this layout, which sees `root`.
fn hindrance(allowed: bool, layout: &Layout, root: &Path) -> Option<Hindrance> {
    if !allowed {
        return Some(Hindrance::NotAllowed);
    }
    if !layout.is_installed() {
        return Some(Hindrance::NoMachine("below a root of its own"));
    }
    let namespace = std::fs::read_link(root.join("proc/self/ns/pid"));
    let is_machine = namespace.is_ok_and(|found| found == Path::new(MACHINE_NAMESPACE));
    let marks = ["run/.containerenv", ".dockerenv", "run/systemd/container"];
    let is_marked = marks.iter().any(|mark| root.join(mark).exists());
    (!is_machine || is_marked).then_some(Hindrance::NoMachine("in a container"))
}

/// Restarts nothing.
#[derive(Debug)]
struct Refused(Hindrance);

impl Powercycle for Refused {
    fn schedule(&self) -> Result<Duration, PowercycleError> {
        Err(match self.0 {
            Hindrance::NotAllowed => PowercycleError::NotAllowed,
            Hindrance::NoMachine(what) => PowercycleError::NoMachine { what },
        })
    }
}

/// Restarts this machine by the kernel's own means.
#[derive(Debug)]
struct SysRq {
    trigger: PathBuf,
    delay: Duration,
    tasks: Tasks,
}

impl Powercycle for SysRq {
    /// Opens the door before the answer is given: who may not go through is told now.
    fn schedule(&self) -> Result<Duration, PowercycleError> {
        let opened = File::options().write(true).open(&self.trigger);
        let path = self.trigger.clone();
        let mut trigger = opened.map_err(|error| PowercycleError::Trigger { path, error })?;
        let delay = self.delay;
        tracing::error!(seconds = delay.as_secs(), "this machine restarts at the master's request");
        self.tasks.spawn("powercycle", async move {
            tokio::time::sleep(delay).await;
            if let Err(error) = trigger.write_all(RESTART) {
                tracing::error!(%error, "the kernel did not restart this machine");
            }
        });
        Ok(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system of its own: what is the machine's is never opened.
    fn root(namespace: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self/ns")).unwrap();
        std::fs::create_dir_all(dir.path().join("run")).unwrap();
        std::os::unix::fs::symlink(namespace, dir.path().join("proc/self/ns/pid")).unwrap();
        dir
    }

    #[test]
    fn only_an_installed_agent_that_may_restarts_a_real_machine() {
        let (installed, elsewhere) = (Layout::new("/"), Layout::new("/tmp/x"));
        let machine = root(MACHINE_NAMESPACE);
        let container = root("pid:[4026532211]");
        let found =
            |allowed, layout, root: &tempfile::TempDir| hindrance(allowed, layout, root.path());
        assert_eq!(found(true, &installed, &machine), None);
        assert_eq!(found(false, &installed, &machine), Some(Hindrance::NotAllowed));
        let other = Some(Hindrance::NoMachine("below a root of its own"));
        assert_eq!(found(true, &elsewhere, &machine), other);
        let inside = Some(Hindrance::NoMachine("in a container"));
        assert_eq!(found(true, &installed, &container), inside);
        std::fs::File::create(machine.path().join("run/.containerenv")).unwrap();
        assert_eq!(found(true, &installed, &machine), inside);
        let told = of_machine(false, &installed).schedule().unwrap_err().to_string();
        assert!(told.contains("--allow-powercycle"), "{told}");
    }

    #[tokio::test]
    async fn the_order_is_given_after_the_answer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trigger");
        let delay = Duration::from_millis(1);
        let sysrq = SysRq { trigger: path.clone(), delay, tasks: Tasks::new() };
        let missing = sysrq.schedule().unwrap_err();
        assert!(matches!(missing, PowercycleError::Trigger { .. }), "{missing:?}");
        std::fs::File::create(&path).unwrap();
        assert_eq!(sysrq.schedule().unwrap(), delay);
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        sysrq.tasks.join().await;
        assert_eq!(std::fs::read(&path).unwrap(), RESTART);
    }
}
