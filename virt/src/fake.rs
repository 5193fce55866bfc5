//! The hypervisor `fake`: instances of which there is nothing but their records, with faults on demand.
//!
//! A file `NAME.json` in its directory says what goes wrong with an instance: [`Script`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::InstanceName;
use model::instance::state::Seen;
use serde::Deserialize;
use tokio::time::sleep;

use crate::VirtError;

/// Longest delay that a script may ask for, in milliseconds: longer than any call.
const DELAY_MS_MAX: u64 = 3_600_000;

/// The faults of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Script {
    /// Why it cannot start.
    start_fails: Option<String>,
    start_delay_ms: u64,
    /// Whether its guest takes no notice of a shutdown.
    ignores_shutdown: bool,
    /// Why it cannot be received.
    receive_fails: Option<String>,
    /// Why it cannot be sent.
    send_fails: Option<String>,
    send_delay_ms: u64,
    /// The end of its guest by itself, if it has one.
    ends: Option<End>,
}

/// The end of a guest by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    /// How long it has run by then.
    pub(crate) after_ms: u64,
    /// Whether its process broke down, where its guest did not shut down.
    #[serde(default)]
    pub(crate) crashes: bool,
}

impl End {
    pub(crate) fn after(&self) -> Duration {
        Duration::from_millis(self.after_ms.min(DELAY_MS_MAX))
    }

    pub(crate) fn seen(&self) -> (Seen, Option<String>) {
        match self.crashes {
            true => (Seen::Crashed, Some("its process broke down, as its script says".to_owned())),
            false => (Seen::Stopped, None),
        }
    }
}

/// The hypervisor.
#[derive(Debug, Clone)]
pub(crate) struct Fake {
    scripts: PathBuf,
}

impl Fake {
    /// One with its scripts in `directory`, which need not be there.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { scripts: directory }
    }

    /// The script of an instance; none is an empty one.
    fn script(&self, name: &InstanceName) -> Script {
        read(&self.scripts.join(format!("{name}.json"))).unwrap_or_default()
    }

    /// Starts an instance; gives when it ends by itself, if it does.
    pub(crate) async fn start(&self, name: &InstanceName) -> Result<Option<End>, VirtError> {
        let script = self.script(name);
        sleep(Duration::from_millis(script.start_delay_ms.min(DELAY_MS_MAX))).await;
        refused("start", name, script.start_fails)?;
        Ok(script.ends)
    }

    /// Waits until a guest has shut down, or its time is over.
    pub(crate) async fn shut_down(&self, name: &InstanceName, within: Duration) {
        if self.script(name).ignores_shutdown {
            sleep(within).await;
        }
    }

    /// Makes ready to receive an instance.
    pub(crate) fn receive(&self, name: &InstanceName) -> Result<(), VirtError> {
        refused("receive", name, self.script(name).receive_fails)
    }

    /// Sends an instance.
    pub(crate) async fn send(&self, name: &InstanceName) -> Result<(), VirtError> {
        let script = self.script(name);
        sleep(Duration::from_millis(script.send_delay_ms.min(DELAY_MS_MAX))).await;
        refused("send", name, script.send_fails)
    }
}

fn refused(what: &'static str, name: &InstanceName, why: Option<String>) -> Result<(), VirtError> {
    match why {
        None => Ok(()),
        Some(why) => Err(VirtError::Refused { what, name: name.clone(), why }),
    }
}

fn read(path: &Path) -> Option<Script> {
    let text = std::fs::read(path).ok()?;
    match serde_json::from_slice(&text) {
        Ok(script) => Some(script),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a script of the fake hypervisor does not read");
            None
        }
    }
}
