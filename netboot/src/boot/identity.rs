//! Core: which machine asks: its serial number, its system UUID and its Ethernet addresses must not
//! contradict each other (docs/netboot.md).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use model::machine::check;
use model::rack::{RackDocument, RackMachine};
use model::{MacAddress, Serial, Uuid};

/// The facts that are known of a machine that asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Told {
    /// The serial number that it told.
    pub(super) serial: Option<Serial>,
    /// The system UUID that it told.
    pub(super) uuid: Option<Uuid>,
    /// The Ethernet address that it told, and the one that holds the lease of its address.
    pub(super) macs: Vec<MacAddress>,
}

/// Why it is no machine of a rack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unidentified {
    /// Nothing of it is known here.
    Unknown,
    /// Its facts belong to several machines, or not to the one that has the rest.
    Contradiction(String),
}

impl Told {
    /// By the words of a script's URL: behind `?`, `uuid=` and `mac=`. A value that does not parse
    /// counts as absent.
    pub(super) fn new(
        serial: Option<Serial>,
        query: Option<&str>,
        holder: Option<MacAddress>,
    ) -> Self {
        let value = |name: &str| {
            let pairs = query.into_iter().flat_map(|query| query.split('&'));
            pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)
        };
        let uuid = value("uuid").and_then(|(_, uuid)| uuid.parse().ok());
        let mac = value("mac").and_then(|(_, mac)| mac.parse().ok());
        let mut macs: Vec<MacAddress> = holder.into_iter().chain(mac).collect();
        macs.dedup();
        Self { serial, uuid, macs }.without_placeholders()
    }

    /// Values that vendors leave in many machines identify none.
    fn without_placeholders(self) -> Self {
        let Self { serial, uuid, mut macs } = self;
        macs.retain(|mac| mac.unusable().is_none());
        Self {
            serial: serial.filter(|serial| serial.placeholder().is_none()),
            uuid: uuid.filter(|uuid| check::uuid(*uuid).is_none()),
            macs,
        }
    }

    /// The machine that this is, and its rack.
    pub(super) fn machine(
        &self,
        documents: &[Arc<RackDocument>],
    ) -> Result<(u32, RackMachine), Unidentified> {
        let machines = documents
            .iter()
            .flat_map(|document| document.machines.iter().map(|machine| (document.rack, machine)));
        self.among(machines)
    }

    /// The machine of these that this is, and its rack; they must be all that have anything of it.
    pub(super) fn among<'a>(
        &self,
        machines: impl Iterator<Item = (u32, &'a RackMachine)>,
    ) -> Result<(u32, RackMachine), Unidentified> {
        let mut found: BTreeMap<&Serial, (u32, &RackMachine)> = BTreeMap::new();
        let mut owners = Vec::new();
        for (rack, machine) in machines {
            let of = self.shared_with(machine);
            if !of.is_empty() {
                owners.push(format!("{} is of machine {}", of.join(" and "), machine.serial));
                found.insert(&machine.serial, (rack, machine));
            }
        }
        let contradiction = |text| Err(Unidentified::Contradiction(text));
        match (found.pop_first(), found.is_empty()) {
            (None, _) => Err(Unidentified::Unknown),
            (Some(_), false) => contradiction(owners.join(", but ")),
            (Some((_, (rack, machine))), true) => match self.other_than(machine) {
                Some(other) => contradiction(format!("{}, but {other}", owners.concat())),
                None => Ok((rack, machine.clone())),
            },
        }
    }

    /// The facts that it shares with a machine of the inventory.
    fn shared_with(&self, machine: &RackMachine) -> Vec<String> {
        let serial = self.serial.iter().filter(|serial| **serial == machine.serial);
        let serial = serial.map(|serial| format!("serial {serial}"));
        let uuid = self.uuid.filter(|uuid| machine.uuid.is_some_and(|its| is_same(*uuid, its)));
        let uuid = uuid.map(|uuid| format!("UUID {uuid}"));
        let macs = self.macs.iter().filter(|mac| machine.mac.contains(mac));
        let macs = macs.map(|mac| format!("MAC {mac}"));
        serial.chain(uuid).chain(macs).collect()
    }

    /// A fact that contradicts the machine, if any. Another card is no contradiction: it may be one of
    /// which nobody told yet.
    fn other_than(&self, machine: &RackMachine) -> Option<String> {
        if let Some(serial) = self.serial.as_ref().filter(|serial| **serial != machine.serial) {
            return Some(format!("it tells the serial {serial}"));
        }
        let (uuid, its) = (self.uuid?, machine.uuid?);
        (!is_same(uuid, its))
            .then(|| format!("it tells the UUID {uuid} and was registered with {its}"))
    }
}

/// Firmware and tools disagree on the order of bytes of a UUID's first three fields.
fn is_same(one: Uuid, other: Uuid) -> bool {
    one == other || Uuid::from_bytes_le(*one.as_bytes()) == other
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let macs = self.macs.iter().map(|mac| format!("MAC {mac}"));
        let serial = self.serial.iter().map(|serial| format!("serial {serial}"));
        let uuid = self.uuid.iter().map(|uuid| format!("UUID {uuid}"));
        let all: Vec<String> = macs.chain(serial).chain(uuid).collect();
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "11223344-5566-7788-99aa-bbccddeeff00";
    const SWAPPED: &str = "44332211-6655-8877-99aa-bbccddeeff00";
    const OTHER: &str = "51223344-5566-7788-99aa-bbccddeeff00";
    const CARD: &str = "02-00-00-00-00-01";
    const HOLDER: &str = "02:00:00:00:00:02";

    /// S1 has a UUID and a card; S2 a card, and no serial number that its firmware tells.
    fn rack() -> Arc<RackDocument> {
        let mut rack = crate::testing::rack(0, 1);
        let [s1] = rack.machines.as_mut_slice() else { panic!() };
        s1.uuid = Some(UUID.parse().unwrap());
        s1.mac = vec![CARD.parse().unwrap()];
        let s2 = RackMachine {
            serial: "S2".parse().unwrap(),
            uuid: None,
            mac: vec![HOLDER.parse().unwrap()],
            ..s1.clone()
        };
        rack.machines.push(s2);
        Arc::new(rack)
    }

    #[test]
    fn who_asks() {
        for (serial, query, holder, found) in [
            ("S1", "", None, Ok("S1")),
            (
                "S1",
                "uuid=11223344-5566-7788-99aa-bbccddeeff00&mac=02-00-00-00-00-01",
                None,
                Ok("S1"),
            ),
            // A byte order, a second card, and what nobody can read.
            ("S1", &format!("uuid={SWAPPED}"), None, Ok("S1")),
            ("S1", "mac=02-00-00-00-00-09", None, Ok("S1")),
            ("S1", "uuid=${uuid}&mac=&x", None, Ok("S1")),
            // Any of them is enough, where the others are missing or say nothing.
            ("", &format!("uuid={UUID}"), None, Ok("S1")),
            ("None", &format!("mac={CARD}"), None, Ok("S1")),
            ("0123456789", "uuid=00000000-0000-0000-0000-000000000000", Some(HOLDER), Ok("S2")),
            ("Default string", "", None, Err("")),
            ("S3", &format!("uuid={OTHER}&mac=00-00-00-00-00-00"), None, Err("")),
            // A client that tells facts of several machines, or of another one, is none of them.
            (
                "S1",
                "",
                Some(HOLDER),
                Err("serial S1 is of machine S1, but MAC 02:00:00:00:00:02 is of"),
            ),
            ("S2", &format!("uuid={UUID}"), None, Err("is of machine S1, but serial S2 is of")),
            ("S3", &format!("mac={CARD}"), None, Err("machine S1, but it tells the serial S3")),
            ("S1", &format!("uuid={OTHER}"), None, Err("S1, but it tells the UUID 51223344")),
        ] {
            let holder = holder.map(|mac| mac.parse().unwrap());
            let told = Told::new(serial.parse().ok(), Some(query), holder);
            let machine = told.machine(&[rack()]).map(|(_, machine)| machine.serial.to_string());
            match (machine, found) {
                (Ok(serial), Ok(found)) => assert_eq!(serial, found, "{told}"),
                (Err(Unidentified::Unknown), Err("")) => {}
                (Err(Unidentified::Contradiction(why)), Err(words)) if !words.is_empty() => {
                    assert!(why.contains(words), "{why}");
                }
                other => panic!("{serial} {query}: {other:?}"),
            }
        }
    }
}
