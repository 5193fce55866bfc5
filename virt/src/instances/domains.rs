//! The instances that are domains of Xen: their life in the records.
//!
//! Nobody tells of a domain's end, so its list is looked at again and again. A look only raises a question:
//! what is done follows from another look, which is taken in the instance's turn.

use std::time::Duration;

use model::Uuid;
use model::instance::launch::Launch;
use model::instance::state::Seen;

use super::{AGENT_ENDED, Instances, Told, refused};
use crate::runs::Record;
use crate::xen::list::{Domain, Life, Reason};
use crate::xen::{XlError, is_xen};
use crate::{Change, NotPlugged, VirtError};

/// How often the list of domains is looked at: so long a guest that restarts itself stands still, and a look
/// takes some 10 ms of the host's processor.
const LOOKS: Duration = Duration::from_secs(2);
/// Why a run has ended whose domain is gone.
const DOMAIN_GONE: &str = "its domain is gone, and the agent did not end it";

impl Record {
    /// Whether it is about a domain of Xen that lives.
    pub(super) fn is_domain(&self) -> bool {
        self.is_alive() && self.hypervisor().is_some_and(is_xen)
    }
}

impl Instances {
    /// Looks after the domains of Xen.
    pub(super) async fn watch_domains(self) {
        let mut was_odd = false;
        loop {
            tokio::time::sleep(LOOKS).await;
            let all: Vec<Record> = {
                let runs = self.0.runs.lock();
                runs.all().filter(|record| record.is_domain()).cloned().collect()
            };
            if all.is_empty() {
                continue;
            }
            let list = match self.0.xen.list().await {
                Ok(list) => list,
                Err(error) => {
                    if !std::mem::replace(&mut was_odd, true) {
                        tracing::warn!(%error, "nobody tells how domains of Xen stand");
                    }
                    continue;
                }
            };
            was_odd = false;
            let is_news = |record: &&Record| stands(&list.of(record.uuid)) != Some(record.seen);
            for record in all.iter().filter(is_news) {
                let uuid = record.uuid;
                // Somebody who has the turn works on it already.
                let Some(turn) = self.try_turn(uuid) else { continue };
                let instances = self.clone();
                self.0.tasks.spawn("end of a domain", async move {
                    let _turn = turn;
                    if let Err(error) = instances.look_at_domain(uuid).await {
                        tracing::warn!(%uuid, %error, "what became of a domain is not known");
                    }
                });
            }
        }
    }

    /// Does what the state of a domain asks for, in the instance's turn.
    async fn look_at_domain(&self, uuid: Uuid) -> Result<(), VirtError> {
        let Some(record) = self.get(uuid).filter(Record::is_domain) else { return Ok(()) };
        let failed = |error: XlError| refused("look at", &record, error.to_string());
        if record.seen == Seen::Starting {
            // Nobody works on its start any more: it may be half made.
            return self.dismiss(&record).await;
        }
        let xen = &self.0.xen;
        let found = xen.list().await.map_err(failed)?.of(uuid);
        let Some(domain) = found.first() else {
            return match xen.is_gone(uuid, &record.name).await.map_err(failed)? {
                true => self.over(&record, Seen::Crashed, Some(DOMAIN_GONE.to_owned())).await,
                false => Ok(()),
            };
        };
        match domain.life {
            Life::Running | Life::Paused | Life::Dying | Life::Ended(Reason::Suspend) => {
                let seen = stands(&found).filter(|seen| *seen != record.seen);
                let Some(seen) = seen else { return Ok(()) };
                self.put(record.becomes(seen, self.now())).map(drop)
            }
            Life::Ended(Reason::PowerOff) => self.over(&record, Seen::Stopped, None).await,
            Life::Ended(Reason::Reboot) if restarts(&record) => self.again(&record).await.map(drop),
            Life::Ended(Reason::Reboot) => self.over(&record, Seen::Stopped, None).await,
            Life::Ended(reason) => {
                let why = format!("its guest ended by {reason:?}, as Xen says").to_lowercase();
                self.over(&record, Seen::Crashed, Some(why)).await
            }
        }
    }

    /// Starts a domain for a run whose record is durable.
    pub(super) async fn domain(&self, launch: &Launch, record: &Record) -> Result<Told, VirtError> {
        self.0.xen.start(launch).await?;
        self.put(record.becomes(super::begun(launch), self.now()))
    }

    /// Ends what a start left of a domain; gives whether that is certain.
    pub(super) async fn domain_is_gone(&self, record: &Record) -> bool {
        let destroyed = self.0.xen.destroy(record.uuid, &record.name).await;
        if let Err(error) = &destroyed {
            tracing::warn!(instance = %record.name, %error, "a domain stays, and is looked at again");
        }
        destroyed.is_ok()
    }

    /// Ends what an agent left that ended while a domain began.
    async fn dismiss(&self, record: &Record) -> Result<(), VirtError> {
        let failed = |error: std::io::Error| refused("end", record, error.to_string());
        stdx::aside(|| self.0.xen.end_creators(record.uuid)).map_err(failed)?;
        self.over(record, Seen::Crashed, Some(AGENT_ENDED.to_owned())).await
    }

    /// Removes the domain of a guest that has ended, and records its end.
    async fn over(
        &self,
        record: &Record,
        seen: Seen,
        why: Option<String>,
    ) -> Result<(), VirtError> {
        self.end_domain(record, Duration::ZERO).await?;
        self.disconnect(record).await;
        self.put(record.ended(seen, why, self.now())).map(drop)
    }

    /// Ends a domain, after its guest had time to shut down.
    pub(super) async fn end_domain(
        &self,
        record: &Record,
        within: Duration,
    ) -> Result<(), VirtError> {
        self.0.xen.shut_down(record.uuid, within).await;
        let destroyed = self.0.xen.destroy(record.uuid, &record.name).await;
        destroyed.map_err(|error| refused("end", record, error.to_string()))
    }

    /// Starts a run's domain anew, as a machine that restarts is the same run.
    pub(super) async fn again(&self, record: &Record) -> Result<Told, VirtError> {
        let Some(launch) = &record.launch else { return self.word(record.uuid) };
        let launch = Launch { paused: false, ..launch.clone() };
        let starting =
            Record { memory: launch.memory(), ..record.becomes(Seen::Starting, self.now()) };
        self.put(starting.clone())?;
        self.end_domain(&starting, Duration::ZERO).await?;
        match self.domain(&launch, &starting).await {
            Ok(told) => Ok(told),
            Err(error) => {
                self.over(&starting, Seen::Crashed, Some(error.to_string())).await?;
                Err(error)
            }
        }
    }

    /// Takes one's turn with an instance where nobody has it.
    fn try_turn(&self, uuid: Uuid) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        self.turn_of(uuid).try_lock_owned().ok()
    }
}

/// How an instance stands by its domains; none where that takes a closer look.
fn stands(domains: &[Domain]) -> Option<Seen> {
    match domains.first()?.life {
        Life::Running => Some(Seen::Running),
        // Somebody saves it, or moves it.
        Life::Paused | Life::Ended(Reason::Suspend) => Some(Seen::Paused),
        Life::Ended(_) | Life::Dying => None,
    }
}

/// The answer to a change of devices: each of them counts from the next start on.
pub(super) fn not_plugged(change: &Change) -> Vec<NotPlugged> {
    let disks = change.disks.iter().map(|disk| disk.uuid);
    let all = disks.chain(change.nics.iter().map(|nic| nic.uuid));
    let all = all.chain(change.without.iter().copied());
    all.map(|uuid| (uuid, "devices of Xen's guests are not plugged in this version".to_owned()))
        .collect()
}

/// Whether a guest that restarts itself runs on.
fn restarts(record: &Record) -> bool {
    let behavior = record.launch.as_ref().and_then(|launch| launch.hvparams.get("reboot_behavior"));
    behavior.and_then(serde_json::Value::as_str) != Some("exit")
}

#[cfg(test)]
mod tests;
