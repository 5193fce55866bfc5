//! The network of the agent's own host: changes that go back by themselves unless the master still reaches
//! the agent. `files` keeps what was committed.

mod files;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use files::Files;
use hostnet::{Host, HostError};
use model::Uuid;
use model::host::HostNetwork;
use rpc::calls::{NETWORK_SECONDS_MAX, NetworkApplied, NetworkApply, NetworkCommit, NetworkEnded};
use rpc::wire::{Failure, FailureKind};
use stdx::daemon::chain;
use stdx::{Clock, Tasks};
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;

/// How often the host is compared with what was committed.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Pause before a change is undone again, where the kernel refused a step.
const GO_BACK_AGAIN: Duration = Duration::from_secs(10);

/// The host's network, one change at a time.
#[derive(Debug)]
pub struct HostNetworks {
    open: Mutex<Open>,
    /// What keeps this over a restart.
    files: Files,
    /// Steps that would bring the host back to what was committed, as it was seen last.
    drift: parking_lot::Mutex<Vec<String>>,
    tasks: Tasks,
}

#[derive(Debug)]
struct Open {
    /// Why it cannot be changed here, or the way to it.
    host: Result<Host, String>,
    /// What waits for its commit, by the name of its change.
    applied: Option<(Uuid, HostNetwork)>,
    /// The change that was kept last, and what its commit was told: the answer may have been lost.
    kept: Option<(Uuid, NetworkEnded)>,
    /// What was committed last; the links that it made go when the next one does not name them.
    committed: Option<HostNetwork>,
}

/// What a call asks for.
struct Wish {
    /// What the kernel should have. It says nothing of cards that the call does not name.
    network: HostNetwork,
    /// What is kept once that is carried out, those cards too.
    whole: HostNetwork,
}

impl HostNetworks {
    /// Opens the network here, and undoes a change that was not committed when the agent ended. `directory`
    /// keeps what survives a restart, `root` is the root of the host's files.
    pub async fn open(directory: &Path, root: PathBuf, clock: Clock) -> Arc<Self> {
        let tasks = Tasks::new();
        let host = opened(&tasks, directory, clock).await;
        if let Err(why) = &host {
            tracing::info!(%why, "the network of this host is not changed by this agent");
        }
        let files = Files { directory: directory.to_owned(), root };
        let committed = stdx::aside(|| files.committed());
        let open = Open {
            host: host.map_err(|error| chain(&error)),
            applied: None,
            kept: None,
            committed,
        };
        Arc::new(Self {
            open: Mutex::new(open),
            files,
            drift: parking_lot::Mutex::default(),
            tasks,
        })
    }

    /// Plans a change, or makes it and has it wait for its commit.
    ///
    /// # Errors
    /// It does not fit this host, or another one waits; nothing is touched then.
    pub async fn apply(self: &Arc<Self>, call: &NetworkApply) -> Result<NetworkApplied, Failure> {
        let malformed = |why: String| Failure::new(FailureKind::Malformed, why);
        if call.seconds == 0 || call.seconds > NETWORK_SECONDS_MAX {
            return Err(malformed(format!("a change waits 1 to {NETWORK_SECONDS_MAX} s")));
        }
        let mut open = self.open.lock().await;
        let Open { host, applied, committed, .. } = &mut *open;
        let host = host.as_mut().map_err(|why| Failure::failed(why.clone()))?;
        let Wish { network, whole } = wish(host, call, committed.as_ref()).await?;
        if call.plan_only {
            let plan = host.plan(&network).await.map_err(|error| failed(&error))?;
            return Ok(self.told(&plan, &whole));
        }
        let wait = Duration::from_secs(call.seconds.into());
        let made = host.apply(&network, wait).await;
        if host.pending().is_ok_and(|pending| pending.is_none()) {
            *applied = None;
        }
        let plan = made.map_err(|error| failed(&error))?;
        tracing::info!(
            steps = plan.steps.len(),
            seconds = call.seconds,
            "network changed, not committed"
        );
        let told = self.told(&plan, &whole);
        *applied = Some((call.change, whole));
        let (this, change) = (Arc::clone(self), call.change);
        self.tasks.spawn("network deadline", async move {
            tokio::time::sleep(wait).await;
            while !this.go_back(change).await {
                tokio::time::sleep(GO_BACK_AGAIN).await;
            }
        });
        Ok(told)
    }

    fn told(&self, plan: &hostnet::Plan, whole: &HostNetwork) -> NetworkApplied {
        let (files_differ, unkept) =
            stdx::aside(|| (self.files.differ(whole), self.files.unkept(whole)));
        NetworkApplied { steps: plan.lines().collect(), files_differ, unkept }
    }

    /// Undoes a change whose deadline has come. Says whether that is over.
    async fn go_back(&self, change: Uuid) -> bool {
        let mut open = self.open.lock().await;
        let Open { host: Ok(host), applied, .. } = &mut *open else { return true };
        if !names(applied.as_ref(), change) {
            return true;
        }
        match host.roll_back().await {
            Ok(waited) => {
                if waited {
                    tracing::warn!(
                        "network went back: the master did not commit the change in time"
                    );
                }
                *applied = None;
                true
            }
            Err(error) => {
                tracing::error!(error = chain(&error), "network cannot go back");
                false
            }
        }
    }

    /// Keeps a change, unless it went back.
    ///
    /// # Errors
    /// The checkpoint cannot be removed.
    pub async fn commit(&self, call: &NetworkCommit) -> Result<NetworkEnded, Failure> {
        let mut open = self.open.lock().await;
        let Open { host, applied, kept, committed } = &mut *open;
        let host = host.as_mut().map_err(|why| Failure::failed(why.clone()))?;
        if let Some((change, ended)) = kept
            && *change == call.change
        {
            return Ok(ended.clone());
        }
        if !names(applied.as_ref(), call.change) {
            return Ok(NetworkEnded::default());
        }
        host.commit().map_err(|error| failed(&error))?;
        let Some((change, network)) = applied.take() else { return Ok(NetworkEnded::default()) };
        let written = stdx::aside(|| self.files.write(&network));
        *committed = Some(network);
        self.drift.lock().clear();
        let (files, unkept) = match written {
            Ok(files) => (files, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        if let Some(why) = &unkept {
            tracing::warn!(why, "network is not kept over a restart of this host");
        }
        let ended = NetworkEnded { waited: true, files, unkept };
        *kept = Some((change, ended.clone()));
        Ok(ended)
    }

    /// Undoes the change that waits.
    ///
    /// # Errors
    /// The kernel refuses a step back.
    pub async fn roll_back(&self) -> Result<NetworkEnded, Failure> {
        let mut open = self.open.lock().await;
        let host = open.host.as_mut().map_err(|why| Failure::failed(why.clone()))?;
        let waited = host.roll_back().await.map_err(|error| failed(&error))?;
        open.applied = None;
        Ok(NetworkEnded { waited, ..NetworkEnded::default() })
    }

    /// Compares the host with what was committed, for ever.
    pub async fn look_for_drift(&self) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let open = self.open.lock().await;
            let (Ok(host), Some(committed), None) = (&open.host, &open.committed, &open.applied)
            else {
                continue;
            };
            let drift = match host.plan(committed).await {
                Ok(plan) => plan.lines().collect(),
                Err(why) => vec![chain(&why)],
            };
            if *self.drift.lock() != drift {
                tracing::warn!(steps = ?drift, "network of this host differs from what was applied");
            }
            *self.drift.lock() = drift;
        }
    }

    /// Steps that would bring the host back to what was committed; none where it is so.
    pub fn drift(&self) -> Vec<String> {
        self.drift.lock().clone()
    }
}

/// What a call asks for, together with what was committed before.
async fn wish(
    host: &Host,
    call: &NetworkApply,
    committed: Option<&HostNetwork>,
) -> Result<Wish, Failure> {
    let malformed = |why: String| Failure::new(FailureKind::Malformed, why);
    let nothing = HostNetwork::default();
    let before = committed.unwrap_or(&nothing);
    let network = match &call.network {
        Some(text) => {
            let network: HostNetwork =
                serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
            network.replacing(before)
        }
        None if committed.is_some() => before.clone(),
        None => return Err(Failure::failed("no network was applied on this host yet")),
    };
    let actual = host.read().await.map_err(|error| failed(&error))?;
    let mut whole = network.clone().carried_out(before, &actual);
    if network.check().is_ok() {
        whole.check().map_err(|why| {
            malformed(format!(
                "with the cards of earlier changes, which this one does not name: {why}"
            ))
        })?;
    }
    if whole.means(before) && committed.is_some() {
        // In its order, so that the files are the same too.
        whole.clone_from(before);
    }
    Ok(Wish { network, whole })
}

async fn opened(tasks: &Tasks, directory: &Path, clock: Clock) -> Result<Host, HostError> {
    let mut host = Host::open(tasks, directory, clock)?;
    if host.recover().await? {
        tracing::warn!("network went back: the agent ended before its change was committed");
    }
    Ok(host)
}

fn names(waits: Option<&(Uuid, HostNetwork)>, change: Uuid) -> bool {
    waits.is_some_and(|(waiting, _)| *waiting == change)
}

fn failed(error: &HostError) -> Failure {
    Failure::failed(chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names no link, so that nothing is touched.
    const NOTHING: &str = r#"{"links": []}"#;

    #[tokio::test]
    async fn a_damaged_checkpoint_stops_no_later_change() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        std::fs::create_dir_all(&state).unwrap();
        stdx::atomic::write(&state.join("checkpoint"), b"{", 0o600).unwrap();
        let networks =
            HostNetworks::open(&state, directory.path().to_owned(), Clock::system()).await;
        let network = Some(NOTHING.to_owned());
        let change = Uuid::from_u128(1);
        let call = NetworkApply { change, network, plan_only: true, seconds: 60 };
        assert_eq!(networks.apply(&call).await.unwrap().steps, [""; 0]);
    }

    #[tokio::test]
    async fn a_commit_keeps_its_own_change_alone_and_is_answered_alike_again() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("etc/netplan")).unwrap();
        let state = directory.path().join("state");
        let networks = HostNetworks::open(&state, root, Clock::system()).await;
        let commit = async |change| networks.commit(&NetworkCommit { change }).await.unwrap();
        let [held_up, change] = [Uuid::from_u128(1), Uuid::from_u128(2)];
        let network = Some(NOTHING.to_owned());
        let call = NetworkApply { change, network, plan_only: false, seconds: 60 };
        assert_eq!(networks.apply(&call).await.unwrap().steps, [""; 0]);
        assert!(!commit(held_up).await.waited);
        let kept = commit(change).await;
        assert!(kept.waited, "{kept:?}");
        assert_eq!(commit(change).await, kept);
        assert!(!commit(held_up).await.waited);
    }
}
