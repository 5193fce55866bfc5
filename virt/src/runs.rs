//! Core: the runs of a node's instances: which may begin, which must end, and what is told of them.

use std::collections::BTreeMap;

use model::instance::launch::{
    CopySight, GuestFacts, Launch, OwnedRun, Sight, Sights, SightsKnown,
};
use model::instance::state::Seen;
use model::{InstanceName, Timestamp, Uuid};
use serde::{Deserialize, Serialize};
use stdx::process::Process;

use crate::VirtError;

/// Most instances of one node: ten times what a large host runs, and what one exchange tells.
pub const INSTANCES_MAX: usize = 1_000;
/// Instances that are gone and whose end is told one by one; who knows less is told all.
const GONE_MAX: usize = 1_000;

/// An order to a run that lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Pause,
    Resume,
    /// Restarts the guest within its process.
    Reset,
    /// Gives the guest this much memory, in MiB.
    Memory(u64),
    /// Gives it so many processors.
    Processors(u32),
}

/// The record of an instance: a document of its own on the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub uuid: Uuid,
    pub name: InstanceName,
    /// The highest run that was seen.
    pub highest: u64,
    /// The boot of the node in which it was written.
    pub boot_id: String,
    /// The run that lives, or lived last.
    #[serde(default)]
    pub launch: Option<Launch>,
    pub seen: Seen,
    pub since: Timestamp,
    /// Whether it waits for a run that lives on another node.
    #[serde(default)]
    pub incoming: bool,
    /// MiB that its guest has by now.
    #[serde(default)]
    pub memory: u64,
    /// Why its process ended.
    #[serde(default)]
    pub exit: Option<String>,
    /// Its process, where its hypervisor gives it one.
    #[serde(default)]
    pub process: Option<Process>,
    /// The words of its guest on itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestFacts>,
    /// Its disks that have copies on other nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopySight>,
    /// Whether the agent itself has its guest stand still, for the last part of a copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}

impl Record {
    /// One of an instance of which nothing lives.
    pub fn absent(uuid: Uuid, name: InstanceName, boot_id: &str, now: Timestamp) -> Self {
        Self {
            uuid,
            name,
            highest: 0,
            boot_id: boot_id.to_owned(),
            launch: None,
            seen: Seen::Absent,
            since: now,
            incoming: false,
            memory: 0,
            exit: None,
            process: None,
            guest: None,
            copies: Vec::new(),
            held: false,
        }
    }

    /// The run that it is about.
    pub fn run(&self) -> u64 {
        self.launch.as_ref().map_or(self.highest, |launch| launch.run)
    }

    /// The hypervisor of the run that it is about.
    pub fn hypervisor(&self) -> Option<&str> {
        self.launch.as_ref().map(|launch| launch.hypervisor.as_str())
    }

    /// Whether something of it lives.
    pub const fn is_alive(&self) -> bool {
        self.seen.is_alive()
    }

    /// The same in another state.
    #[must_use]
    pub fn becomes(&self, seen: Seen, now: Timestamp) -> Self {
        Self { seen, since: now, ..self.clone() }
    }

    /// The same with so many processors.
    #[must_use]
    pub fn with_processors(mut self, count: u32) -> Self {
        if let Some(launch) = &mut self.launch {
            launch.beparams.insert("vcpus".to_owned(), count.into());
        }
        self
    }

    /// The same after its end.
    #[must_use]
    pub fn ended(&self, seen: Seen, exit: Option<String>, now: Timestamp) -> Self {
        let ended = Self { incoming: false, memory: 0, exit, process: None, ..self.clone() };
        Self { seen, since: now, guest: None, copies: Vec::new(), held: false, ..ended }
    }

    fn sight(&self) -> Sight {
        let vcpus = self.launch.as_ref().map_or(0, Launch::vcpus);
        let is_alive = self.is_alive();
        Sight {
            uuid: self.uuid,
            name: self.name.clone(),
            run: self.run(),
            seen: self.seen,
            since: self.since,
            memory: if is_alive { self.memory } else { 0 },
            vcpus: if is_alive { vcpus } else { 0 },
            exit: self.exit.clone(),
            guest: self.guest.clone(),
            copies: self.copies.clone(),
        }
    }
}

/// All records of a node, each with the number of its last change.
#[derive(Debug)]
pub struct Runs {
    life: Uuid,
    number: u64,
    records: BTreeMap<Uuid, (u64, Record)>,
    /// The last words on instances that are gone.
    gone: BTreeMap<u64, Sight>,
    /// Up to this number, what is gone is not told one by one.
    forgotten: u64,
}

impl Runs {
    /// The records that were written before, in a life of the agent that begins now.
    pub fn new(life: Uuid, records: impl IntoIterator<Item = Record>) -> Self {
        let mut runs =
            Self { life, number: 0, records: BTreeMap::new(), gone: BTreeMap::new(), forgotten: 0 };
        for record in records {
            runs.put(record);
        }
        runs
    }

    pub fn get(&self, uuid: Uuid) -> Option<&Record> {
        self.records.get(&uuid).map(|(_, record)| record)
    }

    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.values().map(|(_, record)| record)
    }

    /// The number of the last change.
    pub fn known(&self) -> SightsKnown {
        SightsKnown { life: self.life, number: self.number }
    }

    /// Notes a record; gives what it tells.
    pub fn put(&mut self, record: Record) -> Sight {
        self.number += 1;
        let sight = record.sight();
        self.records.insert(record.uuid, (self.number, record));
        sight
    }

    /// Forgets an instance, of which nothing lives.
    pub fn forget(&mut self, uuid: Uuid, now: Timestamp) {
        let Some((_, record)) = self.records.remove(&uuid) else { return };
        self.number += 1;
        self.gone.insert(self.number, record.ended(Seen::Absent, None, now).sight());
        while self.gone.len() > GONE_MAX {
            let Some((number, _)) = self.gone.pop_first() else { break };
            self.forgotten = number;
        }
    }

    /// The words that are new to whoever knows this: only the newest one on each instance.
    pub fn since(&self, known: Option<SightsKnown>) -> Sights {
        let known = known.filter(|known| known.life == self.life && known.number >= self.forgotten);
        let all = known.is_none();
        let from = known.map_or(0, |known| known.number);
        let newer = self.records.values().filter(|(number, _)| *number > from);
        let mut instances: Vec<Sight> = newer.map(|(_, record)| record.sight()).collect();
        if !all {
            let is_gone = |sight: &&Sight| !self.records.contains_key(&sight.uuid);
            let gone = self.gone.range(from + 1..).map(|(_, sight)| sight).filter(is_gone);
            instances.extend(gone.cloned());
        }
        Sights { known: self.known(), all, instances }
    }

    /// Looks whether a run may begin: the record to write first, or none where it began before.
    ///
    /// # Errors
    /// A newer one was seen, an older one lives, or the node is full.
    pub fn begin(
        &self,
        launch: &Launch,
        boot_id: &str,
        now: Timestamp,
    ) -> Result<Option<Record>, VirtError> {
        let (uuid, name, run) = (launch.uuid, launch.name.clone(), launch.run);
        let record = match self.get(uuid) {
            Some(record) => record.clone(),
            None if self.records.len() >= INSTANCES_MAX => {
                return Err(VirtError::Full(INSTANCES_MAX));
            }
            None => Record::absent(uuid, name.clone(), boot_id, now),
        };
        if run < record.highest {
            return Err(VirtError::Over { name, run, highest: record.highest });
        }
        if run == record.highest && record.launch.as_ref().is_some_and(|last| last.run == run) {
            return Ok(None);
        }
        if run == record.highest {
            return Err(VirtError::Over { name, run, highest: record.highest });
        }
        if record.is_alive() {
            return Err(VirtError::Lives { name, alive: record.run(), run });
        }
        Ok(Some(Record {
            name,
            highest: run,
            boot_id: boot_id.to_owned(),
            memory: launch.memory(),
            launch: Some(launch.clone()),
            seen: Seen::Starting,
            since: now,
            incoming: false,
            exit: None,
            process: None,
            guest: None,
            copies: Vec::new(),
            held: false,
            uuid,
        }))
    }

    /// The record of a run that lives.
    ///
    /// # Errors
    /// It does not, or another one does.
    pub fn alive(&self, uuid: Uuid, run: u64) -> Result<&Record, VirtError> {
        let record = self.get(uuid);
        match record {
            Some(record) if record.is_alive() && record.run() == run => Ok(record),
            Some(record) if run < record.highest => {
                Err(VirtError::Over { name: record.name.clone(), run, highest: record.highest })
            }
            Some(record) => {
                let state = format!("run {} is {}", record.run(), record.seen);
                Err(VirtError::NotAlive { run, state })
            }
            None => {
                Err(VirtError::NotAlive { run, state: "the node knows nothing of it".to_owned() })
            }
        }
    }

    /// The instances that are to end as the node's owner says so: each with the highest run that was given, and whether
    /// its record goes, too.
    ///
    /// A run above the highest that was given is newer than the list, and is left alone.
    pub fn unowned(&self, owned: &[OwnedRun]) -> Vec<(Uuid, u64, bool)> {
        let owned: BTreeMap<Uuid, &OwnedRun> = owned.iter().map(|run| (run.uuid, run)).collect();
        let ends = |record: &Record| match owned.get(&record.uuid) {
            None => Some((record.uuid, record.highest, true)),
            Some(own) if record.highest > own.highest || !record.is_alive() => None,
            Some(own) if own.run == Some(record.run()) => None,
            Some(own) => Some((record.uuid, own.highest, false)),
        };
        self.all().filter_map(ends).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_assert, prop_oneof, proptest};

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1);

    fn launch(number: u128, run: u64) -> Launch {
        Launch {
            uuid: Uuid::from_u128(number),
            name: format!("i{number}").parse().unwrap(),
            run,
            hypervisor: "fake".to_owned(),
            hvparams: model::instance::Parameters::new(),
            beparams: model::instance::Parameters::new(),
            nics: Vec::new(),
            disks: Vec::new(),
            paused: false,
            seed: None,
            users: Vec::new(),
            network_port: None,
        }
    }

    fn runs() -> Runs {
        Runs::new(Uuid::from_u128(9), [])
    }

    fn start(runs: &mut Runs, number: u128, run: u64) -> Result<bool, VirtError> {
        match runs.begin(&launch(number, run), "boot", NOW)? {
            None => Ok(false),
            Some(record) => {
                runs.put(record.becomes(Seen::Running, NOW));
                Ok(true)
            }
        }
    }

    fn stop(runs: &mut Runs, number: u128) {
        let record = runs.get(Uuid::from_u128(number)).unwrap().ended(Seen::Absent, None, NOW);
        runs.put(record);
    }

    #[test]
    fn an_old_run_never_begins_and_one_never_begins_twice() {
        let mut runs = runs();
        assert!(start(&mut runs, 1, 3).unwrap());
        assert!(!start(&mut runs, 1, 3).unwrap(), "the same call again");
        assert!(matches!(start(&mut runs, 1, 2), Err(VirtError::Over { highest: 3, .. })));
        assert!(matches!(start(&mut runs, 1, 4), Err(VirtError::Lives { alive: 3, .. })));
        stop(&mut runs, 1);
        assert!(!start(&mut runs, 1, 3).unwrap(), "it has lived");
        assert!(start(&mut runs, 1, 4).unwrap());
    }

    #[test]
    fn what_is_not_owned_ends_and_what_is_newer_than_the_list_stays() {
        let mut runs = runs();
        for (number, run) in [(1, 1), (2, 5), (3, 2), (4, 7)] {
            start(&mut runs, number, run).unwrap();
        }
        let own = |number, run, highest| OwnedRun { uuid: Uuid::from_u128(number), run, highest };
        let owned = [own(1, Some(1), 1), own(2, Some(6), 6), own(4, None, 6)];
        let ends = runs.unowned(&owned);
        assert_eq!(ends, [(Uuid::from_u128(2), 6, false), (Uuid::from_u128(3), 2, true)]);
    }

    /// Something that happens on a node, or a question of the master.
    #[derive(Debug, Clone)]
    enum Step {
        Start(u128, u64),
        End(u128),
        Forget(u128),
        Ask,
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..4_u128, 1..6_u64).prop_map(|(number, run)| Step::Start(number, run)),
            (0..4_u128).prop_map(Step::End),
            (0..4_u128).prop_map(Step::Forget),
            any::<bool>().prop_map(|_| Step::Ask),
        ]
    }

    proptest! {
        #[test]
        fn whoever_asks_again_and_again_knows_what_there_is(
            history in prop::collection::vec(steps(), 1..80)
        ) {
            let mut runs = runs();
            let (mut known, mut believed) = (None, BTreeMap::<Uuid, Sight>::new());
            let mut highest = BTreeMap::<u128, u64>::new();
            for step in history.into_iter().chain([Step::Ask]) {
                match step {
                    Step::Start(number, run) => {
                        if start(&mut runs, number, run).is_ok_and(|began| began) {
                            let before = highest.insert(number, run);
                            prop_assert!(before.is_none_or(|before| before < run));
                        }
                    }
                    Step::End(number) if runs.get(Uuid::from_u128(number)).is_some() => {
                        stop(&mut runs, number);
                    }
                    Step::Forget(number) => {
                        runs.forget(Uuid::from_u128(number), NOW);
                        highest.remove(&number);
                    }
                    Step::End(_) => {}
                    Step::Ask => {
                        let told = runs.since(known);
                        if told.all {
                            believed.clear();
                        }
                        known = Some(told.known);
                        for sight in told.instances {
                            believed.insert(sight.uuid, sight);
                        }
                        for record in runs.all() {
                            prop_assert!(believed.get(&record.uuid) == Some(&record.sight()));
                        }
                        let alive = believed.values().filter(|sight| sight.seen.is_alive());
                        for sight in alive {
                            prop_assert!(runs.get(sight.uuid).is_some_and(Record::is_alive));
                        }
                    }
                }
            }
        }
    }
}
