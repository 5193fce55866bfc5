//! The network of the agent's own host: changes that go back by themselves unless the master still reaches
//! the agent. `files` keeps what was committed.

mod files;

use std::sync::Arc;
use std::time::Duration;

use files::Files;
use hostnet::{Host, HostError};
use model::Uuid;
use model::host::HostNetwork;
use model::layout::Layout;
use rpc::calls::{NETWORK_SECONDS_MAX, NetworkApplied, NetworkApply, NetworkCommit, NetworkEnded};
use rpc::wire::{Failure, FailureKind};
use stdx::daemon::chain;
use stdx::{Clock, Tasks};
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;

/// How often the host is compared with what was committed.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Pause before a change is undone again, where the kernel refused a step.
const GO_BACK_AGAIN: Duration = Duration::from_secs(5);

/// The host's network, one change at a time.
#[derive(Debug)]
pub struct HostNetworks {
    open: Mutex<Open>,
    /// The files that keep this over a restart.
    files: Files,
    /// Steps that would bring the host back to what was committed, as it was seen last.
    drift: parking_lot::Mutex<Vec<String>>,
    tasks: Tasks,
}

#[derive(Debug)]
struct Open {
    /// Why it cannot be changed here, or the way to it.
    host: Result<Host, String>,
    /// The network that waits for its commit, with the name of its change.
    applied: Option<(Uuid, HostNetwork)>,
    /// The change that was kept last, and what its commit was told: the answer may have been lost.
    kept: Option<(Uuid, NetworkEnded)>,
    /// The network that was committed last; the links that it made go when the next one does not name
    /// them.
    committed: Option<HostNetwork>,
}

/// The networks that a call asks for.
struct Wish {
    /// The network that the kernel should have. It says nothing of cards that the call does not name.
    network: HostNetwork,
    /// The network that is kept once that is carried out, with those cards too.
    whole: HostNetwork,
}

impl HostNetworks {
    /// Opens the network here, and undoes a change that was not committed when the agent ended. Nothing that
    /// can fail comes before: only by the way back may the agent's own addresses be there.
    pub async fn open(layout: &Layout, clock: Clock) -> Arc<Self> {
        let (tasks, directory) = (Tasks::new(), layout.host_network());
        let host = Host::open(&tasks, &directory, clock).map_err(|error| chain(&error));
        if let Err(why) = &host {
            tracing::warn!(%why, "the network of this host is not changed by this agent");
        }
        let files = Files { directory, root: layout.root().to_owned() };
        let committed = stdx::aside(|| files.committed());
        let open = Open { host, applied: None, kept: None, committed };
        let this = Arc::new(Self {
            open: Mutex::new(open),
            files,
            drift: parking_lot::Mutex::default(),
            tasks,
        });
        if !this.go_back(None).await {
            this.go_back_later(None, GO_BACK_AGAIN);
        }
        this
    }

    /// Undoes what waits for a commit that cannot come any more. To be called when the agent ends.
    pub async fn end(&self) {
        self.open.lock().await.applied = None;
        if !self.go_back(None).await {
            tracing::error!("the next start of the agent undoes the change");
        }
        self.tasks.shutdown().await;
    }

    /// Plans a change, or makes it and has it wait for its commit.
    ///
    /// # Errors
    /// It does not fit this host, or another one waits; nothing is touched then.
    pub async fn apply(self: &Arc<Self>, call: &NetworkApply) -> Result<NetworkApplied, Failure> {
        if call.seconds == 0 || call.seconds > NETWORK_SECONDS_MAX {
            let why = format!("a change waits 1 to {NETWORK_SECONDS_MAX} s");
            return Err(Failure::new(FailureKind::Malformed, why));
        }
        let mut open = self.open.lock().await;
        let Open { host, applied, committed, .. } = &mut *open;
        let host = host.as_mut().map_err(|why| Failure::failed(why.clone()))?;
        let reading = host.read().await.map_err(|error| failed(&error))?;
        let Wish { network, whole } = wish(&reading.network, call, committed.as_ref())?;
        if call.plan_only {
            let plan = host.plan(&reading, &network).await.map_err(|error| failed(&error))?;
            return Ok(self.told(&plan, &whole));
        }
        let wait = Duration::from_secs(call.seconds.into());
        let made = host.apply(reading, &network, wait).await;
        let is_over = host.pending().is_ok_and(|pending| pending.is_none());
        if !matches!(made, Err(HostError::Pending { .. })) {
            *applied = None;
        }
        let plan = match made {
            Ok(plan) => plan,
            Err(error) => {
                // No commit keeps what was made, or undone, in part.
                if !is_over && applied.is_none() {
                    self.go_back_later(None, GO_BACK_AGAIN);
                }
                return Err(failed(&error));
            }
        };
        tracing::info!(
            steps = plan.steps.len(),
            seconds = call.seconds,
            "network changed, not committed"
        );
        let told = self.told(&plan, &whole);
        *applied = Some((call.change, whole));
        self.go_back_later(Some(call.change), wait);
        Ok(told)
    }

    fn told(&self, plan: &hostnet::Plan, whole: &HostNetwork) -> NetworkApplied {
        let (files_differ, unkept) =
            stdx::aside(|| (self.files.differ(whole), self.files.unkept(whole)));
        NetworkApplied { steps: plan.lines().collect(), files_differ, unkept }
    }

    /// Undoes a change after some time, and tries until that is done.
    fn go_back_later(self: &Arc<Self>, change: Option<Uuid>, wait: Duration) {
        let this = Arc::clone(self);
        self.tasks.spawn("network deadline", async move {
            tokio::time::sleep(wait).await;
            while !this.go_back(change).await {
                tokio::time::sleep(GO_BACK_AGAIN).await;
            }
        });
    }

    /// Undoes the change that waits for its commit, if it is this one; without a name, one that no commit can
    /// keep any more. Says whether that is over.
    async fn go_back(&self, change: Option<Uuid>) -> bool {
        let mut open = self.open.lock().await;
        let Open { host: Ok(host), applied, .. } = &mut *open else { return true };
        if applied.as_ref().map(|(waiting, _)| *waiting) != change {
            return true;
        }
        match host.recover().await {
            Ok(waited) => {
                if waited {
                    let deadline = change.is_some();
                    tracing::warn!(deadline, "network went back: its change was not committed");
                }
                *applied = None;
                self.drift.lock().clear();
                true
            }
            Err(error) => {
                let why = format!("cannot undo a change that was not committed: {}", chain(&error));
                tracing::error!(why, "network goes not back yet; tried again");
                *self.drift.lock() = vec![why];
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
            let drift = match drift(host, committed).await {
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

/// The networks that a call asks for on a host that is so, together with what was committed before.
fn wish(
    actual: &HostNetwork,
    call: &NetworkApply,
    committed: Option<&HostNetwork>,
) -> Result<Wish, Failure> {
    let nothing = HostNetwork::default();
    let before = committed.unwrap_or(&nothing);
    let network = match &call.network {
        Some(network) => network.clone().replacing(before),
        None if committed.is_some() => before.clone(),
        None => return Err(Failure::failed("no network was applied on this host yet")),
    };
    let mut whole = network.clone().carried_out(before, actual);
    if network.check().is_ok() {
        whole.check().map_err(|why| {
            let text = "with the cards of earlier changes, which this one does not name";
            Failure::new(FailureKind::Malformed, format!("{text}: {why}"))
        })?;
    }
    if whole.means(before) && committed.is_some() {
        // In its order, so that the files are the same too.
        whole.clone_from(before);
    }
    Ok(Wish { network, whole })
}

/// The plan to bring a host back to what was committed.
async fn drift(host: &Host, committed: &HostNetwork) -> Result<hostnet::Plan, HostError> {
    host.plan(&host.read().await?, committed).await
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

    #[tokio::test]
    async fn a_damaged_checkpoint_stops_no_later_change() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        std::fs::create_dir_all(layout.host_network()).unwrap();
        let checkpoint = layout.host_network().join("checkpoint");
        stdx::atomic::write(&checkpoint, b"{", 0o600).unwrap();
        let networks = HostNetworks::open(&layout, Clock::system()).await;
        // Names no link, so that nothing is touched.
        let network = Some(HostNetwork::default());
        let change = Uuid::from_u128(1);
        let call = NetworkApply { change, network, plan_only: true, seconds: 60 };
        assert_eq!(networks.apply(&call).await.unwrap().steps, [""; 0]);
    }

    #[tokio::test]
    async fn a_commit_keeps_its_own_change_alone_and_is_answered_alike_again() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("etc/netplan")).unwrap();
        let networks = HostNetworks::open(&Layout::new(directory.path()), Clock::system()).await;
        let commit = async |change| networks.commit(&NetworkCommit { change }).await.unwrap();
        let [held_up, change] = [Uuid::from_u128(1), Uuid::from_u128(2)];
        let network = Some(HostNetwork::default());
        let call = NetworkApply { change, network, plan_only: false, seconds: 60 };
        assert_eq!(networks.apply(&call).await.unwrap().steps, [""; 0]);
        assert!(!commit(held_up).await.waited);
        let kept = commit(change).await;
        assert!(kept.waited, "{kept:?}");
        assert_eq!(commit(change).await, kept);
        assert!(!commit(held_up).await.waited);
    }
}
