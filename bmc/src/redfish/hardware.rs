//! A controller's knowledge of the hardware: parts and sensors. A part that could not be read is named,
//! and does not count as absent.

use std::collections::BTreeMap;

use model::MacAddress;
use model::bmc::Sensor;
use model::inventory::{Card, Disk, Inventory, Parts, Processors, text};
use serde_json::Value;

use super::{Members, PARTS_MAX, Redfish, SYSTEMS_MAX};
use crate::blank::is_blank;
use crate::error::BmcError;

impl Redfish<'_> {
    /// The parts of the machine.
    pub(super) async fn hardware(&mut self, system: &Value) -> Inventory {
        let word = |name: &str| system[name].as_str().map(text).unwrap_or_default();
        let summary = &system["ProcessorSummary"];
        let number =
            |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let mut processors = Processors {
            model: summary["Model"].as_str().map(text).unwrap_or_default(),
            architecture: String::new(),
            sockets: number(&summary["Count"]),
            threads: number(&summary["LogicalProcessorCount"]),
        };
        let first = self.members_of(system, "Processors").await.all.into_iter().next();
        if let Some(first) = first {
            let set = first["InstructionSet"].as_str().map(text).unwrap_or_default();
            processors.architecture = match set.as_str() {
                "x86-64" => "x86_64".to_owned(),
                "ARM-A64" => "aarch64".to_owned(),
                _ => set,
            };
        }
        let memory = system["MemorySummary"]["TotalSystemMemoryGiB"].as_f64().unwrap_or(0.0);
        // The smallest step that any controller tells is an eighth of a gibibyte.
        let eighths = (memory * 8.0).round().clamp(0.0, f64::from(u32::MAX));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it lies within the range of u32"
        )]
        let memory_mib = eighths as u64 * 128;
        let word_of = |names: &[&str]| {
            let words = names.iter().map(|name| word(name));
            words.into_iter().find(|word| !is_blank(word)).unwrap_or_default()
        };
        let (disks, cards) = (self.disks(system).await, self.cards(system).await);
        let whys = [(Parts::Disks, disks.unread), (Parts::Cards, cards.unread)];
        let whys = whys.into_iter().filter_map(|(parts, why)| Some((parts, why?)));
        Inventory {
            manufacturer: word("Manufacturer"),
            product: word_of(&["Model", "PartNumber", "SubModel"]),
            serial: word("SerialNumber"),
            uuid: system["UUID"].as_str().and_then(|uuid| uuid.parse().ok()),
            firmware: word("BiosVersion"),
            bmc_firmware: self.manager_firmware(system).await,
            processors,
            memory_mib,
            disks: disks.all,
            cards: cards.all,
            unread: whys.collect::<BTreeMap<_, _>>(),
        }
    }

    async fn manager_firmware(&mut self, system: &Value) -> String {
        let Some(path) = system["Links"]["ManagedBy"][0]["@odata.id"].as_str() else {
            return String::new();
        };
        let manager = self.get(path).await.unwrap_or_default();
        manager["FirmwareVersion"].as_str().map(text).unwrap_or_default()
    }

    async fn disks(&mut self, system: &Value) -> Read<Disk> {
        let storages = self.members_of(system, "Storage").await;
        let mut read = Read::new(Vec::new(), storages.unread.as_ref());
        for storage in &storages.all {
            let Some(links) = storage["Drives"].as_array() else {
                read.unread = Some("a storage does not tell its drives".to_owned());
                continue;
            };
            let drives = self.objects("the drives", links, PARTS_MAX).await;
            read.add(drives.all.iter().map(disk), drives.unread.as_ref());
        }
        if read.all.is_empty() {
            // Older controllers have them here alone.
            let simple = self.members_of(system, "SimpleStorage").await;
            let devices = simple.all.iter().filter_map(|storage| storage["Devices"].as_array());
            let devices: Vec<Disk> =
                devices.flat_map(|all| all.iter().take(PARTS_MAX)).map(disk).collect();
            if !devices.is_empty() {
                read = Read::new(devices, simple.unread.as_ref());
            }
        }
        read.believed(is_on(system))
    }

    async fn cards(&mut self, system: &Value) -> Read<Card> {
        let Members { all, unread } = self.members_of(system, "EthernetInterfaces").await;
        let cards: Vec<Told> = all.iter().map(card).collect();
        let untold = cards.iter().any(|card| matches!(card, Told::Nothing));
        let usable = |card| if let Told::Card(card) = card { Some(card) } else { None };
        let mut read = Read::new(cards.into_iter().filter_map(usable).collect(), unread.as_ref());
        if untold && read.unread.is_none() {
            read.unread = Some("a card tells no Ethernet address".to_owned());
        }
        read.believed(is_on(system))
    }

    /// Temperatures, fans and power supplies of the chassis around the machine, and why there may be more.
    pub(super) async fn sensors(&mut self, system: &Value) -> (Vec<Sensor>, Vec<String>) {
        let (mut all, mut unread) = (Vec::new(), Vec::new());
        let links = system["Links"]["Chassis"].as_array().map(Vec::as_slice).unwrap_or_default();
        let chassis = self.objects("the chassis", links, SYSTEMS_MAX).await;
        unread.extend(chassis.unread.map(|error| error.to_string()));
        for chassis in &chassis.all {
            for (object, kinds) in [
                ("Thermal", [("Temperatures", "ReadingCelsius", "°C"), ("Fans", "Reading", "")]),
                (
                    "Power",
                    [
                        ("PowerSupplies", "LastPowerOutputWatts", "W"),
                        ("Voltages", "ReadingVolts", "V"),
                    ],
                ),
            ] {
                let Some(path) = chassis[object]["@odata.id"].as_str() else { continue };
                let told = match self.get(path).await {
                    Ok(told) => told,
                    Err(error) => {
                        unread.push(error.to_string());
                        continue;
                    }
                };
                for (list, reading, unit) in kinds {
                    let list = told[list].as_array();
                    let list = list.into_iter().flatten().take(PARTS_MAX);
                    all.extend(list.filter_map(|one| sensor(one, reading, unit)));
                }
            }
        }
        (all, unread)
    }
}

/// A controller's word on a card.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// It has an Ethernet address of its own.
    Card(Card),
    /// It has addresses that are no card's, or of another kind of network.
    Other,
    /// It tells no address this time.
    Nothing,
}

fn card(card: &Value) -> Told {
    // Some leave the first one blank, or write zeroes until the machine has run.
    let addresses = ["PermanentMACAddress", "MACAddress"].map(|name| address(&card[name]));
    let Some(mac) = addresses.into_iter().flatten().find_map(usable) else {
        return if addresses == [None, None] { Told::Nothing } else { Told::Other };
    };
    let link = card["LinkStatus"].as_str().map(|link| link == "LinkUp");
    let speed = card["SpeedMbps"].as_u64().and_then(|speed| u32::try_from(speed).ok());
    let name = card["Id"].as_str().map(text).unwrap_or_default();
    Told::Card(Card { name, mac, speed: speed.filter(|speed| *speed > 0), link, neighbour: None })
}

/// An address of a card as it is told, unless that says nothing.
fn address(told: &Value) -> Option<&str> {
    let told = told.as_str()?.trim();
    let is_zero = told.chars().all(|character| "0:-.".contains(character));
    (!is_zero && !is_blank(told)).then_some(told)
}

fn usable(told: &str) -> Option<MacAddress> {
    told.parse().ok().filter(|mac: &MacAddress| mac.unusable().is_none())
}

/// Parts of one kind, and why there may be more.
struct Read<T> {
    all: Vec<T>,
    unread: Option<String>,
}

impl<T> Read<T> {
    fn new(all: Vec<T>, unread: Option<&BmcError>) -> Self {
        Self { all, unread: unread.map(ToString::to_string) }
    }

    fn add(&mut self, more: impl Iterator<Item = T>, unread: Option<&BmcError>) {
        self.all.extend(more);
        self.unread = self.unread.take().or_else(|| unread.map(ToString::to_string));
    }

    /// The controller of a machine that is off may know nothing of its parts, and say so by an empty list.
    fn believed(mut self, is_on: bool) -> Self {
        if self.all.is_empty() && !is_on && self.unread.is_none() {
            self.unread = Some("the machine is off, and its controller tells of none".to_owned());
        }
        self
    }
}

fn is_on(system: &Value) -> bool {
    system["PowerState"].as_str() == Some("On")
}

fn sensor(told: &Value, reading: &str, unit: &str) -> Option<Sensor> {
    // An absent part has no health (DSP8010, Resource.State).
    let is_absent = told["Status"]["State"].as_str() == Some("Absent");
    let name = told["Name"].as_str().or_else(|| told["FanName"].as_str()).map(text)?;
    let unit = told["ReadingUnits"].as_str().map_or_else(|| unit.to_owned(), text);
    let value =
        told[reading].as_number().map(|value| format!("{value} {unit}").trim_end().to_owned());
    let health = told["Status"]["Health"].as_str().map_or_else(|| "unknown".to_owned(), text);
    (!is_absent).then_some(Sensor { name, reading: value, health })
}

fn disk(drive: &Value) -> Disk {
    let word = |name: &str| drive[name].as_str().map(text).unwrap_or_default();
    let wwn = drive["Identifiers"][0]["DurableName"].as_str().map(text).unwrap_or_default();
    Disk {
        name: drive["Name"].as_str().or_else(|| drive["Id"].as_str()).map(text).unwrap_or_default(),
        model: word("Model"),
        serial: word("SerialNumber"),
        wwn,
        bytes: drive["CapacityBytes"].as_u64().unwrap_or(0),
        rotational: drive["MediaType"].as_str().map(|media| media == "HDD"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_usable_address_of_a_card_counts() {
        let usable = "52:54:00:aa:bb:01";
        for (permanent, now, mac) in [
            (json!(usable), json!("02:00:00:00:00:01"), Some(usable)),
            (json!(""), json!(usable), Some(usable)),
            (json!(" "), json!(usable), Some(usable)),
            (Value::Null, json!("52-54-00-AA-BB-01"), Some(usable)),
            (json!(7), json!(usable), Some(usable)),
            (json!("N/A"), json!(usable), Some(usable)),
            (json!("00:00:00:00:00:00"), json!(usable), Some(usable)),
            (json!("ff:ff:ff:ff:ff:ff"), json!(usable), Some(usable)),
            (json!("01:00:5e:00:00:01"), json!(usable), Some(usable)),
            (json!(usable), json!(""), Some(usable)),
            (json!("00:00:00:00:00:00"), json!("00:00:00:00:00:00"), None),
            (Value::Null, json!("000000000000"), None),
            (json!(""), Value::Null, None),
        ] {
            let told = card(&json!({"PermanentMACAddress": permanent, "MACAddress": now}));
            match (told, mac) {
                (Told::Card(card), Some(mac)) => assert_eq!(card.mac.to_string(), mac),
                (Told::Nothing, None) => {}
                (told, _) => panic!("{permanent} {now}: {told:?}"),
            }
        }
        // An InfiniBand card has addresses of its own kind.
        let other =
            json!({"MACAddress": "a0:00:02:20:fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01"});
        assert_eq!(card(&other), Told::Other);
    }
}
