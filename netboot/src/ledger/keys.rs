//! Core: under which key the agent keeps each document.

use std::net::Ipv4Addr;

use model::Serial;
use queue_format::Key;

/// Directory of rack documents.
pub(super) const RACKS: &str = "racks/";
/// Directory of leases.
pub(super) const LEASES: &str = "leases/";
/// Directory of what was heard of ramdisks.
pub(super) const RAMDISKS: &str = "ramdisks/";
/// Directory of events.
pub(super) const EVENTS: &str = "outbox/event-";

/// The node that the state belongs to.
pub(super) fn owner() -> Key {
    key("owner")
}

/// The epoch that is obeyed, and its master.
pub(super) fn epoch() -> Key {
    key("epoch")
}

/// The allowed callers.
pub(super) fn allow_list() -> Key {
    key("allow-list")
}

/// By which enrolment the list of those who may call came.
pub(super) fn enrolled() -> Key {
    key("enrolled")
}

/// The numbers of the outbox.
pub(super) fn numbers() -> Key {
    key("outbox/numbers")
}

/// One event; names sort as numbers do.
pub(super) fn event(number: u64) -> Key {
    key(&format!("{EVENTS}{number:020}"))
}

/// One rack document.
pub(super) fn rack(rack: u32) -> Key {
    key(&format!("{RACKS}{rack}"))
}

pub(super) fn lease(address: Ipv4Addr) -> Key {
    key(&format!("{LEASES}{address}"))
}

/// The record of one machine's ramdisk.
pub(super) fn ramdisk(rack: u32, serial: &Serial) -> Key {
    key(&format!("{RAMDISKS}{rack}/{}", serial.escaped()))
}

fn key(text: &str) -> Key {
    Key::parse(text)
        .expect("numbers, addresses, escaped serial numbers and the words above make keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_one() {
        for key in
            [owner(), epoch(), allow_list(), enrolled(), numbers(), event(u64::MAX), rack(u32::MAX)]
        {
            assert!(Key::parse(key.as_str()).is_ok());
        }
        assert_eq!(lease(Ipv4Addr::BROADCAST).as_str(), "leases/255.255.255.255");
        assert!(event(9) < event(10));
        let serial = "./a ".parse().unwrap();
        assert_eq!(ramdisk(5, &serial).as_str(), "ramdisks/5/%2E%2Fa");
    }
}
