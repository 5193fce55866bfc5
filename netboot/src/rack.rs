//! The rack documents that the agent serves from, and their meaning for DHCP ([`compile`]). Faults that
//! keep it from serving them are in `health`; [`look`] looks for them on the disk.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use model::machine::node_uuid;
use model::rack::{RackDocument, RackMachine};
use model::{MacAddress, NodeName, Serial, Uuid};
use rpc::calls::{BOOT_PLACES_MAX, LeaseRangeServed, RackHeld};

use crate::ledger::{Ledger, LedgerError};
use health::Health;
pub use health::Passing;

pub mod compile;
mod health;
pub mod look;

/// Racks that one agent serves: one as a rule, a few where a node stands between them.
pub const RACKS_MAX: usize = 16;

type Documents = BTreeMap<u32, Served>;

/// A document in force.
#[derive(Debug)]
struct Served {
    document: Arc<RackDocument>,
    /// Its machines by the UUID that ramdisks know them by: ten thousand tell it twice a minute.
    by_uuid: HashMap<Uuid, usize>,
    /// The same by serial number and by Ethernet address, for their signs of life.
    by_serial: HashMap<Serial, usize>,
    by_mac: HashMap<MacAddress, usize>,
}

impl Served {
    fn new(document: RackDocument) -> Self {
        let uuids = document.machines.iter().map(|m| node_uuid(m.uuid, &m.serial));
        let by_uuid = uuids.enumerate().map(|(at, uuid)| (uuid, at)).collect();
        let machines = || document.machines.iter().enumerate();
        let by_serial = machines().map(|(at, machine)| (machine.serial.clone(), at)).collect();
        let macs = |(at, machine): (usize, &RackMachine)| {
            machine.mac.iter().map(move |mac| (*mac, at)).collect::<Vec<_>>()
        };
        let by_mac = machines().flat_map(macs).collect();
        Self { document: Arc::new(document), by_uuid, by_serial, by_mac }
    }
}

/// A document that was not installed.
#[derive(Debug, thiserror::Error)]
pub enum RackError {
    /// The agent serves as many racks as it can.
    #[error("this node serves {RACKS_MAX} racks already")]
    TooMany,
    /// It could not be made durable.
    #[error("cannot keep the document of rack {rack}")]
    Keep {
        rack: u32,
        /// Why.
        #[source]
        error: LedgerError,
    },
}

/// The documents in force.
#[derive(Debug)]
pub struct Racks {
    documents: RwLock<Documents>,
    /// One change at a time, so that disk and memory agree.
    changing: tokio::sync::Mutex<()>,
    changed: watch::Sender<u64>,
    health: Health,
    served: Mutex<Vec<LeaseRangeServed>>,
    /// The addresses at which this agent serves machines.
    places: Mutex<BootPlaces>,
    /// The addresses at which other agents say that they do, by rack.
    of_others: Mutex<BTreeMap<(u32, NodeName), Vec<SocketAddr>>>,
}

/// Addresses at which machines are served by HTTP, by rack.
pub type BootPlaces = BTreeMap<u32, Vec<SocketAddr>>;

impl Racks {
    /// Serves `documents` from the start.
    pub fn new(documents: Vec<RackDocument>) -> Self {
        let documents = documents.into_iter().map(|d| (d.rack, Served::new(d))).collect();
        Self {
            documents: RwLock::new(documents),
            changing: tokio::sync::Mutex::new(()),
            changed: watch::channel(0).0,
            health: Health::default(),
            served: Mutex::default(),
            places: Mutex::default(),
            of_others: Mutex::default(),
        }
    }

    /// Notes where this agent serves machines; whether that is news.
    pub fn set_places(&self, places: &BootPlaces) -> bool {
        std::mem::replace(&mut *self.places.lock(), places.clone()) != *places
    }

    /// The addresses at which it serves the machines of a rack.
    pub fn places(&self, rack: u32) -> Vec<SocketAddr> {
        self.places.lock().get(&rack).cloned().unwrap_or_default()
    }

    /// Notes where another agent serves the machines of a rack.
    pub fn set_places_of(&self, rack: u32, agent: &NodeName, mut places: Vec<SocketAddr>) {
        places.truncate(BOOT_PLACES_MAX);
        self.of_others.lock().insert((rack, agent.clone()), places);
    }

    /// The addresses at which each of the other agents serves the rack's machines, as far as they told.
    pub fn places_of_others(&self, document: &RackDocument) -> Vec<Vec<SocketAddr>> {
        let all = self.of_others.lock();
        let agents = document.agents.iter();
        agents.filter_map(|agent| all.get(&(document.rack, agent.name.clone())).cloned()).collect()
    }

    /// Installs `document`, durably, if it is newer than the one held; says which one is held then.
    ///
    /// # Errors
    /// There are too many racks, or the document could not be made durable.
    pub async fn install(
        &self,
        ledger: &Ledger,
        document: RackDocument,
    ) -> Result<RackHeld, RackError> {
        let _turn = self.changing.lock().await;
        let rack = document.rack;
        let held = self.get(rack);
        if let Some(held) = held.as_ref().filter(|held| held.version >= document.version) {
            return Ok(RackHeld::from(held.as_ref()));
        }
        if held.is_none() && self.documents.read().len() >= RACKS_MAX {
            return Err(RackError::TooMany);
        }
        ledger.keep_rack(&document).await.map_err(|error| RackError::Keep { rack, error })?;
        let machines = document.machines.len();
        tracing::info!(rack, version = %document.version, machines, "rack document installed");
        let held = RackHeld::from(&document);
        // Ramdisks that are left when this fails go with the next document.
        ledger
            .forget_ramdisks(rack, Some(&document))
            .map_err(|error| RackError::Keep { rack, error })?;
        self.documents.write().insert(rack, Served::new(document));
        // Refusals and full ranges by the old document are looked at anew.
        self.end_outdated_passing();
        self.tell();
        Ok(held)
    }

    /// Serves `rack` no longer.
    ///
    /// # Errors
    /// That could not be made durable.
    pub async fn withdraw(&self, ledger: &Ledger, rack: u32) -> Result<(), RackError> {
        let _turn = self.changing.lock().await;
        if self.get(rack).is_none() {
            return Ok(());
        }
        ledger.forget_rack(rack).await.map_err(|error| RackError::Keep { rack, error })?;
        tracing::info!(rack, "rack document withdrawn");
        self.documents.write().remove(&rack);
        self.tell();
        ledger.forget_ramdisks(rack, None).map_err(|error| RackError::Keep { rack, error })
    }

    /// Serves nothing any more; the ledger is the caller's.
    pub fn clear(&self) {
        self.documents.write().clear();
        self.tell();
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// The document of `rack`.
    pub fn get(&self, rack: u32) -> Option<Arc<RackDocument>> {
        self.documents.read().get(&rack).map(|served| Arc::clone(&served.document))
    }

    pub fn all(&self) -> Vec<Arc<RackDocument>> {
        let documents = self.documents.read();
        documents.values().map(|served| Arc::clone(&served.document)).collect()
    }

    /// The machines that ramdisks know by this UUID: each by its document, and its place there.
    pub fn by_uuid(&self, uuid: Uuid) -> Vec<(Arc<RackDocument>, usize)> {
        let documents = self.documents.read();
        let place =
            |served: &Served| Some((Arc::clone(&served.document), *served.by_uuid.get(&uuid)?));
        documents.values().filter_map(place).collect()
    }

    /// The machines that have this serial number, or one of these Ethernet addresses.
    pub fn with(&self, serial: Option<&Serial>, macs: &[MacAddress]) -> Vec<(u32, RackMachine)> {
        let documents = self.documents.read();
        let of = |served: &Served| {
            let by_mac = macs.iter().filter_map(|mac| served.by_mac.get(mac));
            let by_serial = serial.and_then(|serial| served.by_serial.get(serial));
            let mut places: Vec<usize> = by_serial.into_iter().chain(by_mac).copied().collect();
            places.sort_unstable();
            places.dedup();
            let machines = places.into_iter().filter_map(|at| served.document.machines.get(at));
            machines.map(|machine| (served.document.rack, machine.clone())).collect::<Vec<_>>()
        };
        documents.values().flat_map(of).collect()
    }

    /// Which versions are held.
    pub fn held(&self) -> Vec<RackHeld> {
        let documents = self.documents.read();
        documents.values().map(|served| RackHeld::from(served.document.as_ref())).collect()
    }

    /// The rack whose lease ranges hold `address`.
    pub fn rack_of(&self, address: Ipv4Addr) -> Option<u32> {
        let documents = self.documents.read();
        let holds = |d: &Arc<RackDocument>| {
            d.ranges.iter().any(|range| (range.first..=range.last).contains(&address))
        };
        documents.values().map(|served| &served.document).find(|d| holds(d)).map(|d| d.rack)
    }

    /// Whether `address` lies in a network of a lease range.
    pub fn is_in_network(&self, address: Ipv4Addr) -> bool {
        let documents = self.documents.read();
        let mut ranges = documents.values().flat_map(|served| &served.document.ranges);
        ranges.any(|range| range.subnet.contains(&address))
    }

    /// The machine with this serial number, and its rack.
    pub fn machine(&self, serial: &Serial) -> Option<(u32, RackMachine)> {
        let documents = self.documents.read();
        documents.values().find_map(|Served { document, .. }| {
            let machine = document.machines.iter().find(|machine| machine.serial == *serial)?;
            Some((document.rack, machine.clone()))
        })
    }

    /// The machine with this Ethernet address, and its rack.
    pub fn machine_of(&self, mac: MacAddress) -> Option<(u32, RackMachine)> {
        let documents = self.documents.read();
        documents.values().find_map(|Served { document, .. }| {
            let machine = document.machines.iter().find(|machine| machine.mac.contains(&mac))?;
            Some((document.rack, machine.clone()))
        })
    }

    /// Notes which lease ranges are served.
    pub fn set_lease_ranges(&self, served: Vec<LeaseRangeServed>) {
        *self.served.lock() = served;
    }

    pub fn lease_ranges(&self) -> Vec<LeaseRangeServed> {
        self.served.lock().clone()
    }

    /// Changes with every change of the documents.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SMALL, membership, rack};

    #[tokio::test]
    async fn only_newer_documents_are_installed() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, _) = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap();
        let racks = Racks::new(Vec::new());
        let changed = racks.watch();
        let held = |version| RackHeld::from(&rack(0, version));
        assert_eq!(racks.install(&ledger, rack(0, 5)).await.unwrap(), held(5));
        assert_eq!(racks.install(&ledger, rack(0, 4)).await.unwrap(), held(5));
        assert_eq!(racks.install(&ledger, rack(0, 5)).await.unwrap(), held(5));
        assert_eq!(*changed.borrow(), 1);
        assert_eq!(racks.install(&ledger, rack(0, 6)).await.unwrap(), held(6));
        assert_eq!(racks.held(), [held(6)]);
        assert_eq!(racks.rack_of("10.69.0.40".parse().unwrap()), Some(0));
        assert_eq!(racks.rack_of("10.69.0.4".parse().unwrap()), None);
        assert_eq!(racks.machine(&"S1".parse().unwrap()).unwrap().0, 0);
        racks.withdraw(&ledger, 0).await.unwrap();
        racks.withdraw(&ledger, 0).await.unwrap();
        assert!(racks.held().is_empty());
        assert_eq!(*changed.borrow(), 3);
    }

    #[tokio::test]
    async fn racks_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let (ledger, _) = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap();
        let racks = Racks::new((0..16).map(|number| rack(number, 1)).collect());
        assert!(matches!(racks.install(&ledger, rack(16, 1)).await, Err(RackError::TooMany)));
        assert_eq!(racks.install(&ledger, rack(15, 2)).await.unwrap().version.position, 2);
    }
}
