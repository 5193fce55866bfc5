//! A guest of QEMU that lives: what becomes of it, and what it is told.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use model::instance::state::Seen;
use serde_json::{Value, json};
use stdx::process::Process;
use tokio::sync::{Mutex, watch};
use tokio::time::{sleep, timeout};

use crate::qmp::{Qmp, QmpError};

/// How long a process may take to end after it was told so: it flushes what its disks have.
pub(super) const QUIT: Duration = Duration::from_secs(10);
/// How long a killed process may take to be gone: one that waits for a disk cannot go.
const KILLED: Duration = Duration::from_secs(20);
/// The pause before the status is asked for again where nobody told it.
const AGAIN: Duration = Duration::from_secs(1);

/// How a guest stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    Alive(Seen),
    /// Its guest switched it off; its process waits to be told to end.
    Off,
    /// Its process is gone; with its words on that, where there are any.
    Ended(String),
}

/// A guest; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Guest(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    qmp: Qmp,
    process: Process,
    standing: watch::Receiver<Standing>,
    /// Whoever has it may keep the guest from writing.
    still: Mutex<()>,
}

impl Guest {
    /// The guest of a process: gives it, and the work that follows it until its end, which `reap` explains.
    /// Its screen is served meanwhile, and is no more before its end is told.
    pub(crate) fn new(
        qmp: Qmp,
        process: Process,
        seen: Seen,
        screen: impl Future<Output = ()> + Send + 'static,
        reap: impl Future<Output = String> + Send + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (stands, standing) = watch::channel(Standing::Alive(seen));
        let follow = follow(qmp.clone(), process, stands, screen, reap);
        (Self(Arc::new(Inner { qmp, process, standing, still: Mutex::default() })), follow)
    }

    pub(crate) fn process(&self) -> Process {
        self.0.process
    }

    /// The turn of those that still the guest: who gets it knows that nobody does.
    pub(crate) fn still(&self) -> &Mutex<()> {
        &self.0.still
    }

    /// Tells how it stands.
    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.0.standing.clone()
    }

    /// Asks its monitor something.
    pub(crate) async fn ask(&self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        self.0.qmp.ask(command, arguments).await
    }

    /// Asks its monitor something, and hands a descriptor over.
    pub(crate) async fn give(
        &self,
        command: &str,
        arguments: Value,
        descriptor: OwnedFd,
    ) -> Result<Value, QmpError> {
        self.0.qmp.give(command, arguments, descriptor).await
    }

    /// The nodes of which QEMU complained, as [`Qmp::bad_nodes`].
    pub(crate) fn bad_nodes(&self) -> BTreeMap<String, String> {
        self.0.qmp.bad_nodes()
    }

    /// Forgets complaints about some nodes.
    pub(crate) fn forgive(&self, which: impl Fn(&str) -> bool) {
        self.0.qmp.forgive(which);
    }

    /// Tells of what may have changed, as [`Qmp::changes`].
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.qmp.changes()
    }

    /// Asks the guest to switch itself off, and waits until it has, or its time is over.
    pub(crate) async fn shut_down(&self, within: Duration) {
        if within.is_zero() {
            return;
        }
        // A guest that stands still hears nothing.
        for command in ["cont", "system_powerdown"] {
            if let Err(error) = self.ask(command, json!({})).await {
                tracing::info!(%error, "the guest cannot be asked to switch itself off");
                return;
            }
        }
        let mut standing = self.standing();
        let off = standing.wait_for(|standing| !matches!(standing, Standing::Alive(_)));
        // A guest that takes no notice is ended by its caller.
        drop(timeout(within, off).await);
    }

    /// Ends its process.
    ///
    /// # Errors
    /// It does not go.
    pub(crate) async fn end(&self) -> io::Result<()> {
        let process = self.process();
        let went = self.0.qmp.ask_within("quit", json!({}), QUIT).await.is_ok()
            && matches!(timeout(QUIT, process.ended()).await, Ok(Ok(())));
        // A process that does not answer, or does not go, is killed.
        if !went {
            kill(process).await?;
        }
        // The next run may begin then, and take the place of the screen.
        let mut standing = self.standing();
        drop(standing.wait_for(|now| matches!(now, Standing::Ended(_))).await);
        Ok(())
    }
}

/// Kills a process, and waits until it is gone.
///
/// # Errors
/// It does not go.
pub(crate) async fn kill(process: Process) -> io::Result<()> {
    process.kill()?;
    let late = |_elapsed| io::Error::from(io::ErrorKind::TimedOut);
    timeout(KILLED, process.ended()).await.map_err(late)?
}

/// Notes how the guest stands until its process has ended.
async fn follow(
    qmp: Qmp,
    process: Process,
    stands: watch::Sender<Standing>,
    screen: impl Future<Output = ()>,
    reap: impl Future<Output = String>,
) {
    let mut changes = qmp.changes();
    let ask = async {
        loop {
            let told = qmp.ask("query-status", json!({})).await;
            match told.as_ref().map(status) {
                Ok(Some(now)) => {
                    stands.send_if_modified(|was| std::mem::replace(was, now.clone()) != now);
                    if changes.changed().await.is_err() {
                        return;
                    }
                }
                Ok(None) => {
                    tracing::warn!(?told, "a guest has a status that is not known");
                    sleep(AGAIN).await;
                }
                Err(_) => sleep(AGAIN).await,
            }
            changes.mark_unchanged();
        }
    };
    let end = async {
        while let Err(error) = process.ended().await {
            tracing::warn!(%error, "nobody tells whether a guest has ended");
            sleep(AGAIN).await;
        }
    };
    tokio::select! {
        () = end => {}
        () = async { tokio::join!(ask, screen); std::future::pending().await } => {}
    }
    stands.send_replace(Standing::Ended(reap.await));
}

impl Guest {
    /// Asks QEMU how the guest stands; none where it has ended, or its word is not known.
    ///
    /// # Errors
    /// QEMU does not answer.
    pub(crate) async fn seen(&self) -> Result<Option<Seen>, QmpError> {
        Ok(match status(&self.ask("query-status", json!({})).await?) {
            Some(Standing::Alive(seen)) => Some(seen),
            Some(Standing::Off | Standing::Ended(_)) | None => None,
        })
    }
}

/// How a guest stands by QEMU's word (`RunState` of `qapi/run-state.json`).
fn status(told: &Value) -> Option<Standing> {
    let seen = match told.get("status")?.as_str()? {
        "running" => Seen::Running,
        "paused" | "suspended" | "debug" | "prelaunch" | "watchdog" | "save-vm" | "restore-vm"
        | "finish-migrate" | "postmigrate" | "inmigrate" | "colo" => Seen::Paused,
        "io-error" => Seen::IoError,
        "shutdown" => return Some(Standing::Off),
        // Its processor or its kernel gave up: it runs no further.
        "internal-error" | "guest-panicked" => Seen::Paused,
        _ => return None,
    };
    Some(Standing::Alive(seen))
}
