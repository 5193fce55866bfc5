//! Faults that keep the agent from serving its racks. Each part notes those that it meets, and the
//! master is told of a change at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::rack_fault::{RackCause, RackFault};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Racks;
use super::look::loader_fault;

/// How long a full lease range, or a refused machine, is told of. The engine says it again each minute
/// while a client asks in vain, and firmware begins again.
const TOLD_AGAIN: Duration = Duration::from_secs(180);
/// How long two holders of one address are told of: by then the one that does not have it was refused.
const TWO_HOLDERS_TOLD: Duration = Duration::from_secs(3_600);

/// The faults that were met, and those of them that the master was told.
#[derive(Debug)]
pub(super) struct Health {
    noted: Mutex<Noted>,
    told: watch::Sender<Vec<RackFault>>,
}

impl Default for Health {
    fn default() -> Self {
        Self { noted: Mutex::default(), told: watch::channel(Vec::new()).0 }
    }
}

/// Faults by the part of the agent that met them.
#[derive(Debug, Default)]
struct Noted {
    /// The mount point of the disk with the leases.
    disk: String,
    /// Addresses of the agent's own that the machine does not have, each in a line.
    addresses: Vec<String>,
    /// Why DHCP is not served.
    dhcp: Option<RackFault>,
    /// Why no keys of disks are served.
    keys: Option<String>,
    /// Troubles of clients, and the time when each was noted last.
    passing: BTreeMap<Passing, (String, Instant)>,
    /// Servers that are no agents, by interface.
    others: BTreeMap<String, BTreeSet<Ipv4Addr>>,
    /// Loaders that machines asked for and that were not there.
    loaders: BTreeSet<PathBuf>,
    /// Faults that the last look at the disk found.
    looked: Vec<RackFault>,
}

/// A trouble of clients, which is over when nobody noted it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Passing {
    /// Leases cannot be kept, and so none is acknowledged.
    Store,
    /// A lease range is full.
    Full,
    /// A machine told what is not of one machine.
    Identity,
    /// A client found its address in use by another host.
    Declined,
    /// A machine wants to boot in a way that is not served.
    Stranded,
    /// Cards outside of the inventory have all addresses that they may have.
    Crowded,
    /// Two clients hold one address.
    TwoHolders,
}

impl Passing {
    /// How long it is told of.
    const fn lasts(self) -> Duration {
        match self {
            Self::TwoHolders => TWO_HOLDERS_TOLD,
            Self::Store
            | Self::Full
            | Self::Identity
            | Self::Declined
            | Self::Stranded
            | Self::Crowded => TOLD_AGAIN,
        }
    }

    const fn cause(self) -> RackCause {
        match self {
            Self::Store => RackCause::DiskFull,
            Self::Full => RackCause::RangeFull,
            Self::Identity => RackCause::MachineAmbiguous,
            Self::Declined => RackCause::AddressInUse,
            Self::Stranded => RackCause::BootRefused,
            Self::Crowded => RackCause::GuestsFull,
            Self::TwoHolders => RackCause::TwoHolders,
        }
    }
}

impl Noted {
    fn faults(&mut self) -> Vec<RackFault> {
        self.loaders.retain(|path| loader_fault(path).is_some());
        self.passing.retain(|what, (_, at)| at.elapsed() < what.lasts());
        let is_looked_at = |cause| self.looked.iter().any(|fault| fault.cause == cause);
        // The look says more of the disk than the lease that met it.
        let passing = self.passing.iter().filter(|(what, _)| !is_looked_at(what.cause()));
        let passing = passing
            .map(|(what, (why, _))| what.cause().fault(why.as_str(), &[("MOUNT", &self.disk)]));
        let keys = self.keys.iter().map(|why| RackCause::KeysFailed.fault(why.as_str(), &[]));
        let loaders = self.loaders.iter().filter_map(|path| loader_fault(path));
        let others = self.others.iter().filter(|(_, servers)| !servers.is_empty());
        let others = others.map(|(interface, servers)| other_servers(interface, servers));
        let addresses =
            self.addresses.iter().map(|why| RackCause::OwnAddress.fault(why.as_str(), &[]));
        let noted = self.dhcp.iter().chain(&self.looked).cloned().chain(addresses);
        let mut faults: Vec<RackFault> =
            noted.chain(keys).chain(passing).chain(loaders).chain(others).collect();
        faults.sort();
        faults.dedup();
        faults
    }
}

fn other_servers(interface: &str, servers: &BTreeSet<Ipv4Addr>) -> RackFault {
    let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
    let servers = servers.join(", ");
    let text = format!("another DHCP server answers on {interface}: {servers}");
    RackCause::OtherServer.fault(text, &[("SERVER", &servers)])
}

impl Racks {
    /// The faults that keep the agent from serving its racks, the worst first. A fault that has passed
    /// meanwhile is over for those who wait for a change, too.
    pub fn faults(&self) -> Vec<RackFault> {
        self.note(|_noted| {});
        self.health.told.borrow().clone()
    }

    /// Changes with [`Self::faults`].
    pub fn watch_faults(&self) -> watch::Receiver<Vec<RackFault>> {
        self.health.told.subscribe()
    }

    /// Notes something, and lets those know who wait for a change.
    fn note(&self, what: impl FnOnce(&mut Noted)) {
        let mut noted = self.health.noted.lock();
        what(&mut noted);
        let faults = noted.faults();
        self.health.told.send_if_modified(|told| {
            let differs = *told != faults;
            *told = faults;
            differs
        });
    }

    /// Notes why DHCP is not served; none where it is.
    pub fn set_dhcp_fault(&self, fault: Option<RackFault>) {
        self.note(|noted| noted.dhcp = fault);
    }

    /// Notes which addresses of the agent's own the machine does not have, each in a line.
    pub fn set_missing_addresses(&self, missing: Vec<String>) {
        self.note(|noted| noted.addresses = missing);
    }

    /// Notes why no keys of disks are served.
    pub fn set_keys_trouble(&self, why: String) {
        self.note(|noted| noted.keys = Some(why));
    }

    /// Notes a trouble of a client.
    pub fn set_passing(&self, what: Passing, why: String) {
        self.note(|noted| drop(noted.passing.insert(what, (why, Instant::now()))));
    }

    /// Notes that it is over; each commit of leases does.
    pub fn end_passing(&self, what: Passing) {
        if self.health.noted.lock().passing.contains_key(&what) {
            self.note(|noted| drop(noted.passing.remove(&what)));
        }
    }

    /// Notes that all such things are over, or to be met anew, since the documents changed.
    pub(super) fn end_outdated_passing(&self) {
        self.note(|noted| noted.passing.retain(|what, _| *what == Passing::TwoHolders));
    }

    /// Notes which DHCP servers that are no agents answer on an interface.
    pub fn set_other_servers(&self, interface: &str, servers: &BTreeSet<Ipv4Addr>) {
        let mut before = None;
        self.note(|noted| before = noted.others.insert(interface.to_owned(), servers.clone()));
        if before.unwrap_or_default() != *servers {
            tracing::warn!(interface, ?servers, "other DHCP servers on the link");
            self.tell();
        }
    }

    /// Forgets the servers of interfaces that are not served.
    pub fn keep_other_servers(&self, is_served: impl Fn(&str) -> bool) {
        self.note(|noted| noted.others.retain(|name, _servers| is_served(name)));
    }

    /// The servers that are no agents and answer on an interface.
    pub fn other_servers(&self, interface: &str) -> BTreeSet<Ipv4Addr> {
        self.health.noted.lock().others.get(interface).cloned().unwrap_or_default()
    }

    /// Notes that a machine asked for a loader that is not there.
    pub fn miss_loader(&self, path: PathBuf) {
        self.note(|noted| noted.loaders.extend([path]));
    }

    /// Notes where the disk of the leases is mounted, which no fault is without.
    pub(super) fn set_disk(&self, mount: &Path) {
        self.note(|noted| noted.disk = mount.display().to_string());
    }

    /// Notes the faults that a look at the disk found.
    pub(super) fn set_looked(&self, faults: Vec<RackFault>) {
        self.note(|noted| noted.looked = faults);
    }

    /// The words of all faults.
    #[cfg(test)]
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.faults().into_iter().map(|fault| fault.text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_told_of_changes_alone_and_what_passes_is_over() {
        let racks = Racks::new(Vec::new());
        let mut told = racks.watch_faults();
        racks.set_dhcp_fault(None);
        assert!(!told.has_changed().unwrap(), "nothing was and is wrong");
        let full = || racks.set_passing(Passing::Full, "no address is left".to_owned());
        full();
        assert!(told.has_changed().unwrap());
        let causes = |faults: &[RackFault]| faults.iter().map(|f| f.cause).collect::<Vec<_>>();
        assert_eq!(causes(&told.borrow_and_update()), [RackCause::RangeFull]);
        full();
        assert!(!told.has_changed().unwrap(), "it is known");
        tokio::time::advance(TOLD_AGAIN).await;
        assert_eq!(racks.faults(), []);
        assert_eq!(causes(&told.borrow_and_update()), []);
    }

    #[test]
    fn what_the_look_found_is_told_once() {
        let racks = Racks::new(Vec::new());
        racks.set_passing(Passing::Store, "leases cannot be kept".to_owned());
        assert_eq!(racks.troubles(), ["leases cannot be kept"]);
        let full = RackCause::DiskFull.fault("the disk is full", &[("MOUNT", "/srv")]);
        racks.set_looked(vec![full]);
        assert_eq!(racks.troubles(), ["the disk is full"]);
        let none = PathBuf::from("/nowhere/snponly-arm64.efi");
        racks.miss_loader(none);
        let faults = racks.faults();
        assert_eq!(faults[1].cause, RackCause::LoaderMisplaced);
        assert!(faults[1].remedy.contains("/nowhere/snponly-arm64.efi"), "{faults:?}");
    }
}
