//! The instances of this node: one thing at a time for each of them, each change durable before it is told.
//! Guests of QEMU are in `guests`, and domains of Xen in `domains`; `copies` looks after copies of disks on
//! other nodes.

mod copies;
mod domains;
mod guests;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use model::instance::launch::{Launch, OwnedRun, ReplicaKey, Sight, Sights, SightsKnown};
use model::instance::parameters::Parameters;
use model::instance::state::Seen;
use model::{InstanceName, Timestamp, Uuid};
use parking_lot::Mutex;
use stdx::process::Process;
use stdx::{Clock, Tasks};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, oneshot, watch};

use crate::console::Consoles;
use crate::fake::{End, Fake};
use crate::hypervisor::{CheckError, check, is_here};
use crate::kvm::{self, Guest, Kvm};
use crate::records::{Records, io};
use crate::replicas::Replicas;
use crate::runs::{Order, Record, Runs};
use crate::xen::{Xen, Xl, is_xen};
use crate::{Paths, Storage, VirtError};
pub use copies::{Join, Joined};
use guests::{mirrors, moves, taken_over};

/// Why a run of an earlier boot has ended.
const NODE_RESTARTED: &str = "the node restarted";
/// Why a run has ended that was not whole when the agent ended.
const AGENT_ENDED: &str = "the agent ended while it began";

/// The instances of a node; clones share them.
#[derive(Debug, Clone)]
pub struct Instances(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    records: Records,
    runs: Mutex<Runs>,
    /// The turns of operations on each instance.
    turns: Mutex<HashMap<Uuid, Weak<Turn<()>>>>,
    /// The number of the last change.
    news: watch::Sender<u64>,
    fake: Fake,
    kvm: Kvm,
    xen: Xen,
    /// The guests of QEMU that live.
    guests: Mutex<HashMap<Uuid, Guest>>,
    consoles: Consoles,
    replicas: Replicas,
    fills: copies::Fills,
    boot_id: String,
    clock: Clock,
    tasks: Tasks,
}

/// A word of a node on one instance, with its place among its words.
pub(crate) type Told = (SightsKnown, Sight);

impl Instances {
    /// Those with records at these paths, in the boot `boot_id` of the node: what lived in another boot has
    /// ended. Guests that live are taken over from an earlier life of the agent.
    ///
    /// # Errors
    /// A record does not read, or a guest that was left half begun cannot be ended.
    pub fn open(
        paths: Paths,
        boot_id: String,
        storage: Storage,
        clock: Clock,
    ) -> Result<Self, VirtError> {
        let directory = paths.records.clone();
        let fake = Fake::new(directory.join("fake"));
        let records = Records::open(directory.clone())?;
        let tasks = Tasks::new();
        let kvm = Kvm::open(&paths, storage.clone(), tasks.clone())?;
        let replicas = Replicas::open(&paths, boot_id.clone(), storage.clone(), tasks.clone())?;
        let xl = Xl::new(paths.xl.clone());
        let xen = Xen::new(xl, directory.clone(), storage, kvm.nics.clone());
        let now = Timestamp::from_micros(clock.now_micros());
        let (mut known, mut guests) = (records.all()?, HashMap::new());
        let mut with_cards = Vec::new();
        for record in &mut known {
            if record.is_domain() || record.is_alive() && record.hypervisor() == Some("kvm") {
                with_cards.push(record.uuid);
            }
            let ended = match record.boot_id == boot_id {
                // Xen's list is looked at for what became of it.
                true if record.is_domain() => None,
                true if record.incoming || record.seen == Seen::Starting => Some(AGENT_ENDED),
                true => taken_over(&kvm, record, &mut guests).err(),
                false => Some(NODE_RESTARTED),
            };
            if let Some(why) = ended.filter(|_| record.is_alive()) {
                match record.process {
                    _ if record.boot_id != boot_id => {}
                    Some(process) => {
                        process.kill().map_err(io("end the process of", &directory))?;
                    }
                    None if record.hypervisor() == Some("kvm") => kvm.dismiss(record.uuid)?,
                    None => {}
                }
                *record = record.ended(Seen::Crashed, Some(why.to_owned()), now);
                records.write(record)?;
            }
        }
        let runs = Mutex::new(Runs::new(Uuid::new_v4(), known));
        let (news, _) = watch::channel(runs.lock().known().number);
        let (turns, taken) = (Mutex::default(), guests.clone());
        let guests = Mutex::new(guests);
        let instances = Self(Arc::new(Inner {
            records,
            runs,
            turns,
            news,
            fake,
            kvm,
            xen,
            guests,
            consoles: Consoles::default(),
            replicas,
            fills: copies::Fills::default(),
            boot_id,
            clock,
            tasks,
        }));
        instances.0.tasks.spawn("logs of consoles", instances.clone().cut_logs());
        instances.0.tasks.spawn("cards of guests", instances.clone().look_after_cards(with_cards));
        instances.0.tasks.spawn("domains of Xen", instances.clone().watch_domains());
        for (uuid, guest) in taken {
            instances.follow(uuid, guest);
        }
        Ok(instances)
    }

    /// The disks of this node.
    pub fn storage(&self) -> &Storage {
        &self.0.kvm.storage
    }

    /// Looks whether a hypervisor is here, and takes these parameters.
    ///
    /// # Errors
    /// It is not here; or the reason why it takes them not.
    pub fn check(&self, hypervisor: &str, parameters: &Parameters) -> Result<(), CheckError> {
        check(hypervisor, parameters, self.0.kvm.firmware(), self.0.xen.xl().path())
    }

    /// Tells of changes.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.news.subscribe()
    }

    /// Which life of the agent this is: numbers of words begin anew with each.
    pub fn life(&self) -> Uuid {
        self.0.runs.lock().known().life
    }

    /// The words that are new to whoever knows this.
    pub fn since(&self, known: Option<SightsKnown>) -> Sights {
        self.0.runs.lock().since(known)
    }

    /// Begins a run.
    ///
    /// # Errors
    /// It is not above the highest that was seen, another one lives, or the hypervisor says no.
    pub async fn start(&self, launch: Launch) -> Result<Told, VirtError> {
        self.start_with(launch, None).await
    }

    /// Begins a run whose disks have other copies, with the key to them.
    ///
    /// # Errors
    /// As [`Self::start`]; or a copy cannot be joined.
    pub async fn start_with(
        &self,
        launch: Launch,
        key: Option<ReplicaKey>,
    ) -> Result<Told, VirtError> {
        is_here(&launch.hypervisor, self.0.xen.xl().path())?;
        mirrors(&launch)?;
        let instances = self.clone();
        let begin = async move { instances.begin(launch, key.as_ref()).await };
        self.to_its_end("start of an instance", begin).await
    }

    async fn begin(&self, launch: Launch, key: Option<&ReplicaKey>) -> Result<Told, VirtError> {
        let _turn = self.turn(launch.uuid).await;
        let uuid = launch.uuid;
        let begin = self.0.runs.lock().begin(&launch, &self.0.boot_id, self.now())?;
        let Some(record) = begin else { return self.word(uuid) };
        self.0.replicas.give_way(uuid, launch.run).await?;
        self.put(record.clone())?;
        let started = match launch.hypervisor.as_str() {
            "kvm" => self.guest(&launch, key, &record).await,
            xen if is_xen(xen) => self.domain(&launch, &record).await,
            _ => self.faked(&launch, &record).await,
        };
        match started {
            Ok(told) => Ok(told),
            Err(error) => {
                // A process that does not go is on record until it has: another run must not begin beside it.
                let process = self.get(uuid).and_then(|record| record.process);
                let is_gone = !process.is_some_and(Process::is_alive)
                    && (!record.is_domain() || self.domain_is_gone(&record).await);
                if is_gone {
                    self.disconnect(&record).await;
                    let why = error.to_string();
                    self.put(record.ended(Seen::Crashed, Some(why), self.now()))?;
                }
                Err(error)
            }
        }
    }

    async fn faked(&self, launch: &Launch, record: &Record) -> Result<Told, VirtError> {
        let end = self.0.fake.start(&launch.name).await?;
        let record = Record { copies: copies::faked(launch), ..record.clone() };
        let told = self.put(record.becomes(begun(launch), self.now()))?;
        self.end_by_itself(launch, end);
        Ok(told)
    }

    /// Has an instance end by itself, as its script says.
    fn end_by_itself(&self, launch: &Launch, end: Option<End>) {
        let Some(end) = end else { return };
        let (instances, uuid, run) = (self.clone(), launch.uuid, launch.run);
        self.0.tasks.spawn("end of a fake instance", async move {
            tokio::time::sleep(end.after()).await;
            let _turn = instances.turn(uuid).await;
            let record = instances.0.runs.lock().alive(uuid, run).cloned();
            let Ok(record) = record else { return };
            let (seen, exit) = end.seen();
            let ended = record.ended(seen, exit, instances.now());
            if let Err(error) = instances.put(ended) {
                tracing::warn!(%uuid, %error, "the end of an instance was not recorded");
            }
        });
    }

    /// Ends what lives of an instance, and remembers that runs up to `run` are over, or forgets it.
    ///
    /// # Errors
    /// A newer run was seen.
    pub async fn stop(
        &self,
        uuid: Uuid,
        run: u64,
        within: Duration,
        forget: bool,
    ) -> Result<Told, VirtError> {
        let _turn = self.turn(uuid).await;
        let Some(record) = self.get(uuid) else {
            return Ok(self.nothing_of(uuid, run));
        };
        if run < record.highest {
            let name = record.name;
            return Err(VirtError::Over { name, run, highest: record.highest });
        }
        if record.is_alive() {
            self.end_alive(&record, within).await?;
        }
        self.end(record, run, forget)
    }

    /// The word on an instance that the node does not know.
    fn nothing_of(&self, uuid: Uuid, run: u64) -> Told {
        let known = self.0.runs.lock().known();
        let sight = Sight {
            uuid,
            name: unknown(),
            run,
            seen: Seen::Absent,
            since: self.now(),
            memory: 0,
            vcpus: 0,
            exit: None,
            guest: None,
            copies: Vec::new(),
        };
        (known, sight)
    }

    /// Records the end of what lives of an instance.
    fn end(&self, record: Record, run: u64, forget: bool) -> Result<Told, VirtError> {
        let mut ended = record.ended(Seen::Absent, None, self.now());
        ended.highest = ended.highest.max(run);
        let told = self.put(ended)?;
        if forget {
            stdx::aside(|| self.0.records.remove(record.uuid))?;
            self.0.kvm.forget(record.uuid);
            self.0.xen.forget(record.uuid);
            self.0.runs.lock().forget(record.uuid, self.now());
            self.tell();
        }
        Ok(told)
    }

    /// Tells a run something.
    ///
    /// # Errors
    /// It does not live, or its hypervisor says no.
    pub async fn order(&self, uuid: Uuid, run: u64, order: Order) -> Result<Told, VirtError> {
        let _turn = self.turn(uuid).await;
        let record = self.0.runs.lock().alive(uuid, run)?.clone();
        if record.is_domain() {
            let done = self.0.xen.order(uuid, order).await;
            done.map_err(|error| refused("change", &record, error.to_string()))?;
            if order == Order::Reset {
                return self.again(&record).await;
            }
        }
        let mut seen = match order {
            Order::Pause => Seen::Paused,
            _ => Seen::Running,
        };
        if let (Some(guest), Some(launch)) = (self.guest_of(uuid), &record.launch) {
            kvm::size::order(&guest, launch, order).await?;
            // A guest that is told to go on may stand still again at once.
            seen = guest.seen().await?.unwrap_or(record.seen);
        }
        let now = self.now();
        self.put(match order {
            Order::Pause | Order::Resume | Order::Reset => record.becomes(seen, now),
            Order::Memory(memory) => Record { memory, ..record },
            Order::Processors(count) => record.with_processors(count),
        })
    }

    /// Makes ready to take a run that lives elsewhere; gives where it is awaited.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn receive(&self, launch: Launch) -> Result<String, VirtError> {
        is_here(&launch.hypervisor, self.0.xen.xl().path())?;
        moves(&launch.hypervisor)?;
        let _turn = self.turn(launch.uuid).await;
        self.0.replicas.give_way(launch.uuid, launch.run).await?;
        let place = format!("fake:{}", launch.uuid);
        self.0.fake.receive(&launch.name)?;
        let begin = self.0.runs.lock().begin(&launch, &self.0.boot_id, self.now())?;
        if let Some(record) = begin {
            self.put(Record { incoming: true, ..record })?;
        }
        Ok(place)
    }

    /// Sends a run, which stands still then.
    ///
    /// # Errors
    /// It does not live, or its hypervisor says no: then it goes on.
    pub async fn send(&self, uuid: Uuid, run: u64) -> Result<Told, VirtError> {
        let instances = self.clone();
        self.to_its_end("sending an instance", async move {
            let _turn = instances.turn(uuid).await;
            let record = instances.0.runs.lock().alive(uuid, run)?.clone();
            moves(record.hypervisor().unwrap_or_default())?;
            instances.0.fake.send(&record.name).await?;
            instances.put(record.becomes(Seen::Paused, instances.now()))
        })
        .await
    }

    /// Does something to its end, whether or not the caller waits for it: a run must not stay half begun.
    async fn to_its_end<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, VirtError>> + Send + 'static,
    ) -> Result<T, VirtError> {
        let (reply, done) = oneshot::channel();
        self.0.tasks.spawn(name, async move {
            // Nobody may wait for it any more.
            drop(reply.send(work.await));
        });
        done.await.unwrap_or(Err(VirtError::Ends))
    }

    /// Lets a side of a migration run.
    ///
    /// # Errors
    /// Nothing of it lives here.
    pub async fn go(&self, uuid: Uuid, run: u64) -> Result<Told, VirtError> {
        let _turn = self.turn(uuid).await;
        let record = self.0.runs.lock().alive(uuid, run)?.clone();
        self.put(Record { incoming: false, ..record.becomes(Seen::Running, self.now()) })
    }

    /// Ends all that its owner does not name; gives the names of what lived.
    ///
    /// # Errors
    /// A record cannot be written.
    pub async fn set(&self, owned: &[OwnedRun]) -> Result<Vec<String>, VirtError> {
        let unowned = self.0.runs.lock().unowned(owned);
        let mut ended = Vec::new();
        for (uuid, highest, forget) in unowned {
            let _turn = self.turn(uuid).await;
            // Something newer may have begun meanwhile.
            let record = self.get(uuid).filter(|record| record.highest <= highest);
            let Some(record) = record else { continue };
            if record.is_alive() {
                tracing::warn!(instance = %record.name, run = record.run(), "ended: it is not to be here");
                ended.push(record.name.to_string());
                self.end_alive(&record, Duration::ZERO).await?;
            }
            self.end(record, highest, forget)?;
        }
        Ok(ended)
    }

    /// Ends what is done in the background.
    pub async fn shutdown(&self) {
        self.0.tasks.shutdown().await;
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.clock.now_micros())
    }

    fn get(&self, uuid: Uuid) -> Option<Record> {
        self.0.runs.lock().get(uuid).cloned()
    }

    fn word(&self, uuid: Uuid) -> Result<Told, VirtError> {
        let runs = self.0.runs.lock();
        let known = runs.known();
        let sights = runs.since(None).instances;
        let sight = sights.into_iter().find(|sight| sight.uuid == uuid);
        let state = || VirtError::NotAlive { run: 0, state: "it was forgotten".to_owned() };
        sight.map(|sight| (known, sight)).ok_or_else(state)
    }

    /// Waits for one's turn with an instance.
    async fn turn(&self, uuid: Uuid) -> OwnedMutexGuard<()> {
        let turn = self.turn_of(uuid);
        turn.lock_owned().await
    }

    fn turn_of(&self, uuid: Uuid) -> Arc<Turn<()>> {
        let mut turns = self.0.turns.lock();
        let known = turns.get(&uuid).and_then(Weak::upgrade);
        let turn = known.unwrap_or_default();
        turns.retain(|_, turn| turn.strong_count() > 0);
        turns.insert(uuid, Arc::downgrade(&turn));
        turn
    }

    /// Makes a record durable, then visible.
    ///
    /// It waits for nothing else, so that no caller who gives up leaves a write behind.
    fn put(&self, record: Record) -> Result<Told, VirtError> {
        stdx::aside(|| self.0.records.write(&record))?;
        let told = {
            let mut runs = self.0.runs.lock();
            let sight = runs.put(record);
            (runs.known(), sight)
        };
        self.tell();
        Ok(told)
    }

    fn tell(&self) {
        let number = self.0.runs.lock().known().number;
        self.0.news.send_if_modified(|news| std::mem::replace(news, number) != number);
    }
}

/// How a run stands when it has begun.
const fn begun(launch: &Launch) -> Seen {
    if launch.paused { Seen::Paused } else { Seen::Running }
}

fn refused(what: &'static str, record: &Record, why: String) -> VirtError {
    VirtError::Refused { what, name: record.name.clone(), why }
}

/// The name of an instance of which the node knows no name.
fn unknown() -> InstanceName {
    "unknown".parse().expect("it is a host name")
}

#[cfg(test)]
mod tests;
