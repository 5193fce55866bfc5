//! The instances that are guests of QEMU: their life in the records, their devices, copies of their disks, and
//! their consoles.

use std::collections::HashMap;
use std::fs::File;
use std::time::Duration;

use model::Uuid;
use model::instance::launch::{Launch, NicLaunch, ReplicaKey};
use model::instance::state::Seen;

use super::{Instances, Told, begun, copies, domains, refused};
use crate::VirtError;
use crate::console::{self, Output};
use crate::kvm::{self, Change, Guest, Kvm, NotPlugged, Standing};
use crate::records::io;
use crate::runs::Record;
use crate::xen::is_xen;

/// How often logs of consoles are looked at: a guest that floods its own writes some MB meanwhile.
const CUT_LOGS: Duration = Duration::from_secs(5);
/// The pause before what became of a guest is recorded again, where that failed: the disk may be full.
const NOTE_AGAIN: Duration = Duration::from_secs(1);
/// How often a guest's agent is asked that did not answer: it may be starting.
const HEAR: Duration = Duration::from_secs(10);
/// How often one is asked that did: addresses change seldom.
const HEAR_AGAIN: Duration = Duration::from_secs(60);
/// Why a run has ended whose process is gone.
const PROCESS_ENDED: &str = "its process ended while the agent was away";

impl Instances {
    /// Starts a guest of QEMU, whose process is on record before it runs.
    pub(super) async fn guest(
        &self,
        launch: &Launch,
        key: Option<&ReplicaKey>,
        record: &Record,
    ) -> Result<Told, VirtError> {
        let mut with_process = record.clone();
        let began = |process| {
            with_process.process = Some(process);
            self.put(with_process.clone()).map(drop)
        };
        let guest = self.0.kvm.start(launch, key, began).await?;
        // A start with copies that are not in step fails.
        let with_copies = Record { copies: copies::faked(launch), ..with_process };
        let told = match self.put(with_copies.becomes(begun(launch), self.now())) {
            Ok(told) => told,
            Err(error) => {
                // The job is told of a failure: nothing may run then. The caller looks whether it has ended.
                if let Err(error) = guest.end().await {
                    tracing::warn!(instance = %launch.name, %error, "a guest does not end");
                }
                return Err(error);
            }
        };
        self.0.guests.lock().insert(launch.uuid, guest.clone());
        self.follow(launch.uuid, guest);
        Ok(told)
    }

    /// Records what becomes of a guest of QEMU, until its process has ended.
    pub(super) fn follow(&self, uuid: Uuid, guest: Guest) {
        self.0.tasks.spawn("words of a guest", self.clone().hear(uuid, guest.clone()));
        let copies = self.clone().follow_copies(uuid, guest.clone());
        self.0.tasks.spawn("copies of a guest", copies);
        let instances = self.clone();
        self.0.tasks.spawn("record of a guest", async move {
            let mut standing = guest.standing();
            loop {
                let now = standing.borrow_and_update().clone();
                match instances.note(uuid, &guest, now).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        tracing::warn!(%uuid, %error, "what became of a guest was not recorded");
                        // Without another try, the record would take a dead guest for a living one for ever.
                        tokio::time::sleep(NOTE_AGAIN).await;
                        continue;
                    }
                }
                if standing.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Records what the agent in a guest says of it, where it is to have one, until it has ended.
    async fn hear(self, uuid: Uuid, guest: Guest) {
        let record = || self.get(uuid).filter(|record| record.process == Some(guest.process()));
        let launch = record().and_then(|record| record.launch);
        let Some(agent) = launch.and_then(|launch| self.0.kvm.agent(&launch)) else { return };
        // An agent of the node that ended may have left it stilled.
        if let Err(error) = agent.thaw().await {
            tracing::debug!(%uuid, %error, "no agent in a guest yet");
        }
        while record().is_some() {
            let pause = match agent.facts().await {
                Ok(facts) => {
                    let _turn = self.turn(uuid).await;
                    let changed = record().filter(|record| record.guest.as_ref() != Some(&facts));
                    let noted =
                        changed.map(|record| self.put(Record { guest: Some(facts), ..record }));
                    if let Some(Err(error)) = noted {
                        tracing::warn!(%uuid, %error, "the words of a guest were not recorded");
                    }
                    HEAR_AGAIN
                }
                Err(error) => {
                    tracing::debug!(%uuid, %error, "the agent in a guest tells nothing");
                    // One that came to be stilled when nobody waited any more refuses whatever it is asked.
                    if let (true, Ok(_turn)) = (error.is_refusal(), guest.still().try_lock())
                        && let Err(error) = agent.thaw().await
                    {
                        tracing::warn!(%uuid, %error, "a guest may be kept from writing");
                    }
                    HEAR
                }
            };
            let mut standing = guest.standing();
            let ended = standing.wait_for(|now| matches!(now, Standing::Ended(_)));
            if tokio::time::timeout(pause, ended).await.is_ok() {
                return;
            }
        }
    }

    /// Records how a guest stands; gives whether it lives.
    pub(super) async fn note(
        &self,
        uuid: Uuid,
        guest: &Guest,
        now: Standing,
    ) -> Result<bool, VirtError> {
        let _turn = self.turn(uuid).await;
        let record = self.get(uuid).filter(|record| record.process == Some(guest.process()));
        let Some(record) = record.filter(Record::is_alive) else { return Ok(false) };
        let now = match now {
            // The guest may have been stopped and let go meanwhile.
            Standing::Alive(_) => guest.standing().borrow().clone(),
            ended => ended,
        };
        let ended = match now {
            Standing::Alive(seen) => {
                if record.seen != seen && seen != Seen::Starting {
                    self.put(record.becomes(seen, self.now()))?;
                }
                return Ok(true);
            }
            Standing::Off => {
                guest.end().await.map_err(|error| refused("end", &record, error.to_string()))?;
                record.ended(Seen::Stopped, None, self.now())
            }
            Standing::Ended(why) => record.ended(Seen::Crashed, Some(why), self.now()),
        };
        self.0.guests.lock().remove(&uuid);
        self.disconnect(&record).await;
        self.put(ended)?;
        Ok(false)
    }

    /// The guest of QEMU that an instance is, if it is one that lives.
    pub(super) fn guest_of(&self, uuid: Uuid) -> Option<Guest> {
        self.0.guests.lock().get(&uuid).cloned()
    }

    /// Ends what lives of an instance, after its guest had time to shut down.
    pub(super) async fn end_alive(
        &self,
        record: &Record,
        within: Duration,
    ) -> Result<(), VirtError> {
        match (self.guest_of(record.uuid), record.process) {
            (Some(guest), _) => {
                guest.shut_down(within).await;
                guest.end().await.map_err(|error| refused("end", record, error.to_string()))?;
                self.0.guests.lock().remove(&record.uuid);
            }
            (None, Some(process)) => {
                let killed = kvm::kill(process).await;
                killed.map_err(|error| refused("end", record, error.to_string()))?;
            }
            (None, None) if record.is_domain() => self.end_domain(record, within).await?,
            (None, None) if record.hypervisor() == Some("fake") => {
                self.0.fake.shut_down(&record.name, within).await;
            }
            (None, None) => {}
        }
        self.disconnect(record).await;
        Ok(())
    }

    /// Removes what is left of the cards and the screen of a run whose process is gone.
    ///
    /// It comes before the end is recorded: an agent that is cut off between them does it again.
    pub(super) async fn disconnect(&self, record: &Record) {
        match &record.launch {
            Some(launch) if launch.hypervisor == "kvm" => self.0.kvm.clear(launch).await,
            Some(launch) if is_xen(&launch.hypervisor) => self.0.xen.unguard(launch).await,
            _ => {}
        }
    }

    /// Sees to the cards of runs that lived when an earlier life of the agent ended.
    pub(super) async fn look_after_cards(self, of: Vec<Uuid>) {
        for uuid in of {
            let _turn = self.turn(uuid).await;
            let Some(record) = self.get(uuid) else { continue };
            match &record.launch {
                Some(launch) if record.is_domain() => {
                    if let Err(error) = self.0.xen.guard(launch).await {
                        tracing::warn!(%uuid, error, "the filter of a card is not renewed");
                    }
                }
                Some(launch) if record.is_alive() && launch.hypervisor == "kvm" => {
                    self.0.kvm.nics.renew(&launch.name, &launch.nics).await;
                }
                _ => self.disconnect(&record).await,
            }
        }
    }

    /// Changes the devices of a run; gives those with which that failed.
    ///
    /// # Errors
    /// It does not live, or does not tell what it has.
    pub async fn plug(
        &self,
        uuid: Uuid,
        run: u64,
        change: Change,
    ) -> Result<(Told, Vec<NotPlugged>), VirtError> {
        let _turn = self.turn(uuid).await;
        let mut record = self.0.runs.lock().alive(uuid, run)?.clone();
        let Some(had) = record.launch.clone() else { return Ok((self.word(uuid)?, Vec::new())) };
        if record.is_domain() {
            return Ok((self.word(uuid)?, domains::not_plugged(&change)));
        }
        // Cards that come are on record first, so that what is made for them is removed with the run.
        let known = |nic: &&NicLaunch| !had.nics.iter().any(|one| one.uuid == nic.uuid);
        let new: Vec<NicLaunch> = change.nics.iter().filter(known).cloned().collect();
        if !new.is_empty() {
            let with = [had.nics.as_slice(), &new].concat();
            record.launch = Some(Launch { nics: with, ..had.clone() });
            self.put(record.clone())?;
        }
        let not = match self.guest_of(uuid) {
            Some(guest) => self.0.kvm.plug(&guest, &had, &change).await?,
            None => Vec::new(),
        };
        let failed = |uuid: Uuid| not.iter().any(|(device, _)| *device == uuid);
        record.launch = Some(kvm::after(had, change, failed));
        record.copies = copies::plugged(&record);
        Ok((self.put(record)?, not))
    }

    /// Copies disks of a run into files, all as of one moment, while it goes on.
    ///
    /// # Errors
    /// It does not live, or there is no whole copy.
    pub async fn snapshot(
        &self,
        uuid: Uuid,
        run: u64,
        disks: Vec<(Uuid, File)>,
    ) -> Result<Told, VirtError> {
        let instances = self.clone();
        self.to_its_end("copy of an instance's disks", async move {
            // The instance may be ended meanwhile: so its turn is not held.
            let record = instances.0.runs.lock().alive(uuid, run)?.clone();
            let what = "copy disks while they are written";
            let hypervisor = record.hypervisor().unwrap_or_default().to_owned();
            let guest = instances.guest_of(uuid).ok_or(VirtError::NotYet { hypervisor, what })?;
            let agent = record.launch.as_ref().and_then(|launch| instances.0.kvm.agent(launch));
            Kvm::snapshot(&guest, agent, &record.name, disks).await?;
            instances.word(uuid)
        })
        .await
    }

    /// Reads the console of an instance from a place on; if it said nothing new, it waits.
    ///
    /// # Errors
    /// The instance has no console here.
    pub async fn console_output(
        &self,
        uuid: Uuid,
        from: Option<u64>,
        within: Duration,
    ) -> Result<Output, VirtError> {
        let log = self.0.kvm.console_log(uuid);
        let output = console::read(&log, from, within).await;
        output.map_err(io("read the console", &log))
    }

    /// Types on the console of a run.
    ///
    /// # Errors
    /// It does not live, has no console, or reads nothing.
    pub async fn console_input(&self, uuid: Uuid, input: Vec<u8>) -> Result<(), VirtError> {
        let state = || "nobody reads what is typed".to_owned();
        if self.guest_of(uuid).is_none() {
            return Err(VirtError::NotAlive { run: 0, state: state() });
        }
        let socket = self.0.kvm.console_socket(uuid);
        let sent = self.0.consoles.send(uuid, &socket, input, &self.0.tasks).await;
        sent.map_err(io("type on the console", &socket))
    }

    /// Gives back, from time to time, what logs of consoles have beyond what is kept.
    pub(super) async fn cut_logs(self) {
        loop {
            tokio::time::sleep(CUT_LOGS).await;
            let guests: Vec<Uuid> = self.0.guests.lock().keys().copied().collect();
            stdx::aside(|| self.0.replicas.cut_logs());
            for uuid in guests {
                for log in self.0.kvm.logs(uuid) {
                    if let Err(error) = stdx::aside(|| console::cut(&log)) {
                        tracing::warn!(%uuid, %error, log = %log.display(), "a log is not cut");
                    }
                }
            }
        }
    }
}

/// Takes a guest of QEMU over from an earlier life of the agent.
///
/// # Errors
/// It has ended; the text says so.
pub(super) fn taken_over(
    kvm: &Kvm,
    record: &Record,
    guests: &mut HashMap<Uuid, Guest>,
) -> Result<(), &'static str> {
    if !record.is_alive() || record.hypervisor() != Some("kvm") {
        return Ok(());
    }
    let (process, launch) = (record.process.ok_or(PROCESS_ENDED)?, record.launch.as_ref());
    let adopted = launch.and_then(|launch| kvm.adopt(launch, process, record.seen));
    let guest = adopted.ok_or(PROCESS_ENDED)?;
    guests.insert(record.uuid, guest);
    Ok(())
}

/// Refuses mirrored disks where the hypervisor would write one copy alone.
pub(super) fn mirrors(launch: &Launch) -> Result<(), VirtError> {
    match is_xen(&launch.hypervisor) && kvm::mirror::mirrored(launch).next().is_some() {
        false => Ok(()),
        true => {
            let (hypervisor, what) = (launch.hypervisor.clone(), "write two copies of a disk");
            Err(VirtError::NotYet { hypervisor, what })
        }
    }
}

/// Refuses to move a guest whose hypervisor cannot in this version.
pub(super) fn moves(hypervisor: &str) -> Result<(), VirtError> {
    match hypervisor {
        "fake" => Ok(()),
        other => {
            let what = "move instances while they live";
            Err(VirtError::NotYet { hypervisor: other.to_owned(), what })
        }
    }
}
