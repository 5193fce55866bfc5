//! The other copies of disks: how runs of this node stand to theirs, and the copies that this node serves.
//!
//! A guest that waits for the last part of a copy is held by the agent, which is on record before: the next
//! agent lets it go.

use std::collections::HashMap;
use std::time::Duration;

use model::Uuid;
use model::instance::launch::{CopySight, CopyState, DiskLaunch, Launch, Replica, ReplicaKey};
use model::instance::state::Seen;
use tokio::time::{Instant, sleep, timeout};

use super::{Instances, Told, refused};
use crate::VirtError;
use crate::kvm::mirror::{self, Filling, MirrorError, Other};
use crate::kvm::{Guest, Standing};
use crate::replicas::Copies;
use crate::runs::Record;

/// The pause before QEMU is asked again that did not tell how disks stand.
const AGAIN: Duration = Duration::from_secs(1);
/// How long it may take until it is seen that a guest runs again: a question takes a millisecond.
const RUNS: Duration = Duration::from_secs(2);

/// A copy that is being filled, or was tried to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fill {
    /// So many per cent are there.
    Runs(u8),
    Failed(String),
}

/// The copies that are being filled, by instance and disk.
pub(super) type Fills = parking_lot::Mutex<HashMap<(Uuid, Uuid), Fill>>;

/// An order to fill the other copy of a disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    pub disk: Uuid,
    pub replica: Replica,
    pub key: ReplicaKey,
    /// Whether that node's copy is another one than it was when it was in step: all of it is filled then.
    pub is_new: bool,
}

/// The answer to an order to fill a copy.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    pub told: Told,
    /// How much of the copy is filled, in per cent.
    pub percent: u8,
    /// Why the last try ended, where it failed.
    pub failed: Option<String>,
}

/// The copies of a fake instance, which has them where its launch says so.
pub(super) fn faked(launch: &Launch) -> Vec<CopySight> {
    let state = |disk: &DiskLaunch| match disk.replica {
        Some(_) => CopyState::InStep,
        None => CopyState::Alone,
    };
    let all = mirror::mirrored(launch);
    all.map(|disk| CopySight { disk: disk.uuid, state: state(disk) }).collect()
}

/// The copies of a run whose disks have changed: those that came are written alone until they are joined.
pub(super) fn plugged(record: &Record) -> Vec<CopySight> {
    let known = |disk: Uuid| record.copies.iter().find(|copy| copy.disk == disk).cloned();
    let alone = |disk| CopySight { disk, state: CopyState::Alone };
    let all = record.launch.iter().flat_map(mirror::mirrored).map(|disk| disk.uuid);
    all.map(|disk| known(disk).unwrap_or_else(|| alone(disk))).collect()
}

/// A launch in which a disk has this other copy.
fn with_replica(mut launch: Launch, disk: Uuid, replica: Option<Replica>) -> Launch {
    if let Some(disk) = launch.disks.iter_mut().find(|one| one.uuid == disk) {
        disk.replica = replica;
    }
    launch
}

impl Instances {
    /// Serves the copies of an instance's disks to a run that lives elsewhere; gives the port.
    ///
    /// # Errors
    /// A run lives here, a newer one was seen, or the copies cannot be served.
    pub async fn serve(&self, order: Copies) -> Result<u16, VirtError> {
        let instances = self.clone();
        self.to_its_end("serving of copies", async move {
            let _turn = instances.turn(order.uuid).await;
            let (name, run) = (order.name.clone(), order.run);
            match instances.get(order.uuid) {
                Some(record) if run < record.highest => {
                    return Err(VirtError::Over { name, run, highest: record.highest });
                }
                Some(record) if record.is_alive() => {
                    return Err(VirtError::Lives { name, alive: record.run(), run });
                }
                _ => {}
            }
            instances.0.replicas.serve(order).await
        })
        .await
    }

    /// Serves the copies of an instance's disks no more to runs up to this one.
    ///
    /// # Errors
    /// The process that serves them does not end.
    pub async fn serve_no_more(&self, uuid: Uuid, run: u64) -> Result<(), VirtError> {
        let instances = self.clone();
        self.to_its_end("end of serving copies", async move {
            let _turn = instances.turn(uuid).await;
            instances.0.replicas.drop_up_to(uuid, run).await
        })
        .await
    }

    /// Has a run fill the other copy of a disk, and write both then. It answers at once, and is asked again
    /// until the copy is in step.
    ///
    /// # Errors
    /// The run does not live here, or has no such disk.
    pub async fn join(&self, uuid: Uuid, run: u64, order: Join) -> Result<Joined, VirtError> {
        let Join { disk, replica, key, is_new } = order;
        let turn = self.turn(uuid).await;
        let record = self.0.runs.lock().alive(uuid, run)?.clone();
        let (launch, state) = mirrored_disk(&record, disk)?;
        let in_step = |told| Ok(Joined { told, percent: 100, failed: None });
        match state {
            CopyState::InStep if launch.replica.as_ref() == Some(&replica) => {
                return in_step(self.word(uuid)?);
            }
            CopyState::InStep | CopyState::Lost(_) => {
                let why = "its other copy is written, or fails: that one is detached first";
                return Err(refused("fill another copy of a disk of", &record, why.to_owned()));
            }
            CopyState::Alone | CopyState::Filling => {}
        }
        let Some(guest) = self.real_guest(&record)? else {
            let launch = record.launch.clone().map(|had| with_replica(had, disk, Some(replica)));
            let copies = launch.as_ref().map(faked).unwrap_or_default();
            return in_step(self.put(Record { launch, copies, ..record })?);
        };
        let known = self.0.fills.lock().get(&(uuid, disk)).cloned();
        let (percent, failed) = match known {
            Some(Fill::Runs(percent)) => (percent, None),
            // It is told once. The next question has it tried again.
            Some(Fill::Failed(why)) => {
                self.0.fills.lock().remove(&(uuid, disk));
                (0, Some(why))
            }
            None => {
                self.0.fills.lock().insert((uuid, disk), Fill::Runs(0));
                let other = Other { disk, replica, key };
                let fill = self.clone().fill(record, guest.clone(), other, is_new);
                self.0.tasks.spawn("filling of a copy", fill);
                (0, None)
            }
        };
        self.see_copies(uuid, &guest).await?;
        let told = self.word(uuid)?;
        drop(turn);
        let is_done = |copy: &CopySight| copy.disk == disk && copy.state == CopyState::InStep;
        let percent = if told.1.copies.iter().any(is_done) { 100 } else { percent };
        Ok(Joined { told, percent, failed })
    }

    /// The guest of QEMU that a run is; none where it is a fake one.
    fn real_guest(&self, record: &Record) -> Result<Option<Guest>, VirtError> {
        match self.guest_of(record.uuid) {
            None if record.hypervisor() == Some("fake") => Ok(None),
            None => {
                let state = "it has no guest of QEMU".to_owned();
                Err(VirtError::NotAlive { run: record.run(), state })
            }
            guest => Ok(guest),
        }
    }

    /// Fills a copy, and notes how that ended.
    async fn fill(self, record: Record, guest: Guest, other: Other, is_new: bool) {
        let (uuid, disk) = (record.uuid, other.disk);
        let tell = |percent| {
            self.0.fills.lock().insert((uuid, disk), Fill::Runs(percent));
        };
        let keys = &self.0.kvm.keys;
        let filled = Filling::begin(&guest, keys, &other, is_new, tell).await;
        let ended = match filled {
            Ok(filling) => self.finish(&record, &guest, &other, &filling).await,
            Err(error) => Err(stdx::daemon::chain(&error)),
        };
        // A write of the guest may have waited for the copy, and failed with it.
        self.go_on(uuid, &guest).await;
        {
            let mut fills = self.0.fills.lock();
            match ended {
                Err(why) if self.of(uuid, &guest).is_some() => {
                    tracing::warn!(instance = %record.name, %disk, why, "a copy was not filled");
                    fills.insert((uuid, disk), Fill::Failed(why));
                }
                Ok(()) | Err(_) => drop(fills.remove(&(uuid, disk))),
            }
        }
        // The guest must not stay held, whatever failed.
        while self.of(uuid, &guest).is_some_and(|record| record.held) {
            sleep(AGAIN).await;
            if let Err(error) = self.settle(uuid, &guest).await {
                tracing::warn!(%uuid, %error, "a guest is held, and should go on");
            }
        }
        let _turn = self.turn(uuid).await;
        if let Err(error) = self.see_copies(uuid, &guest).await {
            tracing::warn!(%uuid, %error, "how copies stand was not recorded");
        }
    }

    /// Has a guest stand still while the last part of a copy is written, and write both then.
    async fn finish(
        &self,
        had: &Record,
        guest: &Guest,
        other: &Other,
        filling: &Filling<'_>,
    ) -> Result<(), String> {
        // Nobody else has the guest stop or go meanwhile.
        let _turn = self.turn(had.uuid).await;
        let text = |error: VirtError| stdx::daemon::chain(&error);
        let record = self.0.runs.lock().alive(had.uuid, had.run()).cloned();
        let record = match record.map_err(text) {
            Ok(record) => record,
            Err(why) => {
                filling.abandon().await;
                return Err(why);
            }
        };
        let runs = mirror::runs(guest).await.unwrap_or(true);
        let last = async {
            if runs {
                self.put(Record { held: true, ..record.clone() }).map_err(text)?;
                let stopped = guest.ask("stop", serde_json::json!({})).await;
                stopped.map_err(|error| error.to_string())?;
            }
            let finished = filling.finish().await;
            finished.map_err(|error: MirrorError| stdx::daemon::chain(&error))
        };
        let since = Instant::now();
        let done = last.await;
        if done.is_err() {
            filling.abandon().await;
        }
        let released = if runs { self.let_go(guest).await } else { Ok(()) };
        tracing::info!(instance = %had.name, disk = %other.disk, held = ?since.elapsed(),
            "a guest was held for the last part of a copy");
        let record = self.get(had.uuid).ok_or("the instance is gone")?;
        let replica = Some(other.replica.clone());
        let launch = match &done {
            Ok(()) => record.launch.map(|launch| with_replica(launch, other.disk, replica)),
            Err(_) => record.launch,
        };
        self.put(Record { launch, held: released.is_err(), ..record }).map_err(text)?;
        released.map_err(text).and(done)
    }

    /// Has a guest run again that the agent held, and waits until that is seen.
    async fn let_go(&self, guest: &Guest) -> Result<(), VirtError> {
        guest.ask("cont", serde_json::json!({})).await?;
        let mut standing = guest.standing();
        // A later look sees it otherwise.
        drop(timeout(RUNS, standing.wait_for(|now| *now != Standing::Alive(Seen::Paused))).await);
        Ok(())
    }

    /// Has a guest go on that stands still as a write failed.
    async fn go_on(&self, uuid: Uuid, guest: &Guest) {
        let _turn = self.turn(uuid).await;
        let go_on = async {
            if mirror::is_stopped_by_error(guest).await? {
                guest.ask("cont", serde_json::json!({})).await?;
            }
            Ok::<(), crate::qmp::QmpError>(())
        };
        if let Err(error) = go_on.await {
            tracing::warn!(%uuid, %error, "a guest whose copy failed may stand still");
        }
    }

    /// Has a run go on without the other copies of these disks.
    ///
    /// # Errors
    /// It does not live here, has no such disk, or QEMU says no.
    pub async fn detach(&self, uuid: Uuid, run: u64, disks: Vec<Uuid>) -> Result<Told, VirtError> {
        let instances = self.clone();
        self.to_its_end("end of copies of a guest's disks", async move {
            let _turn = instances.turn(uuid).await;
            let record = instances.0.runs.lock().alive(uuid, run)?.clone();
            let mut lost = Vec::new();
            for disk in disks {
                let (launch, _) = mirrored_disk(&record, disk)?;
                lost.push((disk, launch.replica.as_ref().map(|replica| replica.node.clone())));
            }
            let guest = instances.real_guest(&record)?;
            if let Some(guest) = &guest {
                let detached = mirror::detach(guest, &lost).await;
                let why = |error: MirrorError| stdx::daemon::chain(&error);
                detached.map_err(|error| refused("detach copies of", &record, why(error)))?;
            }
            let mut launch = record.launch.clone();
            for (disk, _) in &lost {
                launch = launch.map(|launch| with_replica(launch, *disk, None));
            }
            let copies = launch.as_ref().map(faked).unwrap_or_default();
            match guest {
                // The guest goes on: it is not asked for more before that is told.
                Some(guest) => {
                    let copies = record.copies.clone();
                    instances.put(Record { launch, copies, ..record })?;
                    instances.see_copies(uuid, &guest).await?;
                    instances.word(uuid)
                }
                None => instances.put(Record { launch, copies, ..record }),
            }
        })
        .await
    }

    /// Records how a guest stands to its other copies, in the instance's turn.
    async fn see_copies(&self, uuid: Uuid, guest: &Guest) -> Result<(), VirtError> {
        let Some(record) = self.of(uuid, guest) else { return Ok(()) };
        let Some(sights) = self.copies_of(&record, guest).await else { return Ok(()) };
        if sights != record.copies {
            self.put(Record { copies: sights, ..record })?;
        }
        Ok(())
    }

    fn of(&self, uuid: Uuid, guest: &Guest) -> Option<Record> {
        let record = self.get(uuid).filter(Record::is_alive);
        record.filter(|record| record.process == Some(guest.process()))
    }

    async fn copies_of(&self, record: &Record, guest: &Guest) -> Option<Vec<CopySight>> {
        let launch = record.launch.as_ref()?;
        let is_filling =
            |disk| matches!(self.0.fills.lock().get(&(record.uuid, disk)), Some(Fill::Runs(_)));
        mirror::sights(guest, launch, &record.copies, is_filling).await.ok()
    }

    /// Records how a guest stands to its other copies, until it has ended.
    pub(super) async fn follow_copies(self, uuid: Uuid, guest: Guest) {
        let mut standing = guest.standing();
        let ended = standing.wait_for(|now| matches!(now, Standing::Ended(_)));
        let follow = async {
            let mut was_told = false;
            while let Err(error) = self.settle(uuid, &guest).await {
                if !std::mem::replace(&mut was_told, true) {
                    tracing::warn!(%uuid, %error, "an earlier agent's work on a copy is not ended");
                }
                sleep(AGAIN).await;
            }
            self.watch_copies(uuid, &guest).await;
        };
        tokio::select! {
            _ = ended => {}
            () = follow => {}
        }
        self.0.fills.lock().retain(|(instance, _), _| *instance != uuid);
    }

    async fn watch_copies(&self, uuid: Uuid, guest: &Guest) {
        let mut changes = guest.changes();
        let mut asked_again = false;
        while let Some(record) = self.of(uuid, guest) {
            changes.mark_unchanged();
            let sights = self.copies_of(&record, guest).await;
            let news = sights.as_ref().is_some_and(|sights| *sights != record.copies);
            if news {
                // It is looked at again by whoever has the turn.
                let _turn = self.turn(uuid).await;
                if let Err(error) = self.see_copies(uuid, guest).await {
                    tracing::warn!(%uuid, %error, "how copies stand was not recorded");
                }
            }
            match self.look_at_errors(&record, guest, &mut asked_again).await {
                Ok(()) if sights.is_some() => {
                    if changes.changed().await.is_err() {
                        return;
                    }
                }
                _ => sleep(AGAIN).await,
            }
        }
    }

    /// Finds out why a guest with mirrored disks stands still. QEMU told of it when it happened: where nobody
    /// heard that, the guest's writes are repeated, once in the agent's life, and it tells again.
    async fn look_at_errors(
        &self,
        record: &Record,
        guest: &Guest,
        asked_again: &mut bool,
    ) -> Result<(), VirtError> {
        let Some(launch) = record.launch.as_ref() else { return Ok(()) };
        if mirror::mirrored(launch).next().is_none() {
            return Ok(());
        }
        if !mirror::is_stopped_by_error(guest).await? {
            if record.exit.is_some() {
                mirror::forgive_own(guest, launch);
                let _turn = self.turn(record.uuid).await;
                let now = self.of(record.uuid, guest);
                return now.map_or(Ok(()), |now| self.put(Record { exit: None, ..now }).map(drop));
            }
            return Ok(());
        }
        if let Some((disk, why)) = mirror::own_complaint(guest, launch) {
            let _turn = self.turn(record.uuid).await;
            let why =
                Some(format!("the guest stands still: disk {disk} on this node fails: {why}"));
            let now = self.of(record.uuid, guest).filter(|now| now.exit != why);
            return now.map_or(Ok(()), |now| self.put(Record { exit: why, ..now }).map(drop));
        }
        let is_told = record.copies.iter().any(|copy| matches!(copy.state, CopyState::Lost(_)));
        let is_known = self.get(record.uuid).is_some_and(|now| now.copies != record.copies);
        if !is_told && !is_known && !std::mem::replace(asked_again, true) {
            self.go_on(record.uuid, guest).await;
        }
        Ok(())
    }

    /// Ends what an earlier agent left that ended while it filled a copy.
    async fn settle(&self, uuid: Uuid, guest: &Guest) -> Result<(), VirtError> {
        let _turn = self.turn(uuid).await;
        let Some(record) = self.of(uuid, guest) else { return Ok(()) };
        let Some(launch) = record.launch.as_ref() else { return Ok(()) };
        let is_filling =
            |(of, _): &(Uuid, Uuid), fill: &Fill| *of == uuid && matches!(fill, Fill::Runs(_));
        if self.0.fills.lock().iter().any(|(of, fill)| is_filling(of, fill)) {
            return Ok(());
        }
        let settled = mirror::settle(guest, launch).await;
        let why = |error: MirrorError| stdx::daemon::chain(&error);
        settled.map_err(|error| refused("look after copies of", &record, why(error)))?;
        if record.held {
            self.let_go(guest).await?;
            self.put(Record { held: false, ..record })?;
        }
        self.see_copies(uuid, guest).await
    }
}

/// A mirrored disk of a run, and how its other copy stands.
fn mirrored_disk(record: &Record, disk: Uuid) -> Result<(&DiskLaunch, CopyState), VirtError> {
    let found = record.launch.iter().flat_map(mirror::mirrored).find(|one| one.uuid == disk);
    let found = found.ok_or_else(|| VirtError::NotMirrored {
        name: record.name.clone(),
        run: record.run(),
        disk,
    })?;
    let sight = record.copies.iter().find(|copy| copy.disk == disk);
    Ok((found, sight.map_or(CopyState::Alone, |copy| copy.state.clone())))
}
