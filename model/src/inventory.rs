//! Core: what a machine is made of, as its management controller or a ramdisk on it tells.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::mac::MacAddress;

/// Most cards of a machine that are kept.
pub const CARDS_MAX: usize = 64;
/// Most disks of a machine that are kept.
pub const DISKS_MAX: usize = 1_024;
/// Longest text of an inventory: a name of hardware is never that long.
pub const TEXT_MAX: usize = 255;

/// What a machine is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Inventory {
    /// The maker of the machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,
    /// Its product name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub product: String,
    /// Its serial number, as its firmware tells it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Its system UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// The version of its firmware.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    /// The version of its management controller's firmware.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bmc_firmware: String,
    /// Its processors.
    pub processors: Processors,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// Its disks, by name.
    pub disks: Vec<Disk>,
    /// Its network cards, by name.
    pub cards: Vec<Card>,
}

/// The processors of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Processors {
    /// Their model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Their architecture, such as `x86_64`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// Sockets.
    pub sockets: u32,
    /// Logical processors, which the operating system sees.
    pub threads: u32,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// Its model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Its serial number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Its World Wide Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it turns, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Its name: that of the interface, or the controller's id of it.
    pub name: String,
    /// Its permanent Ethernet address.
    pub mac: MacAddress,
    /// Its speed in Mbit/s, where it has a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<u32>,
    /// Whether it has a link, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<bool>,
    /// The port of a switch at its other end, as LLDP told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<Neighbour>,
}

/// The other end of a card's cable, as LLDP (IEEE 802.1AB) told it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Neighbour {
    /// The identity of the switch.
    pub chassis: String,
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// The identity of the port.
    pub port: String,
    /// What the switch calls the port; some tell its name only here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub port_description: String,
}

/// A text of hardware, fit to be kept and shown: without control characters, and not endless.
#[must_use]
pub fn text(told: &str) -> String {
    let told = told.trim().chars().filter(|character| !character.is_control());
    told.take(TEXT_MAX).collect()
}

impl Inventory {
    /// The same with texts fit to be shown, in a steady order, and within its limits: controllers tell
    /// the same parts in any order.
    #[must_use]
    pub fn tidy(mut self) -> Self {
        for told in [
            &mut self.manufacturer,
            &mut self.product,
            &mut self.serial,
            &mut self.firmware,
            &mut self.bmc_firmware,
            &mut self.processors.model,
            &mut self.processors.architecture,
        ] {
            *told = text(told);
        }
        for disk in &mut self.disks {
            for told in [&mut disk.name, &mut disk.model, &mut disk.serial, &mut disk.wwn] {
                *told = text(told);
            }
        }
        for card in &mut self.cards {
            card.name = text(&card.name);
            if let Some(neighbour) = &mut card.neighbour {
                for told in [
                    &mut neighbour.chassis,
                    &mut neighbour.system,
                    &mut neighbour.port,
                    &mut neighbour.port_description,
                ] {
                    *told = text(told);
                }
            }
        }
        self.disks.sort_by(|a, b| (&a.name, &a.serial).cmp(&(&b.name, &b.serial)));
        self.cards.sort_by(|a, b| (&a.name, a.mac).cmp(&(&b.name, b.mac)));
        self.disks.truncate(DISKS_MAX);
        self.cards.truncate(CARDS_MAX);
        self
    }

    /// What differs in the hardware between this and a later one, a line each. Links, speeds, neighbours
    /// and firmware change without a screwdriver and are left out.
    #[must_use]
    pub fn changes(&self, later: &Self) -> Vec<String> {
        let mut told = Vec::new();
        let mut line = |what: &str, before: String, after: String| {
            if before != after && !after.is_empty() && !before.is_empty() {
                told.push(format!("{what}: {before}, now {after}"));
            }
        };
        line("product", self.product.clone(), later.product.clone());
        line("serial", self.serial.clone(), later.serial.clone());
        let count = |count: u32| if count == 0 { String::new() } else { count.to_string() };
        line("processors", count(self.processors.threads), count(later.processors.threads));
        line("processor", self.processors.model.clone(), later.processors.model.clone());
        let memory = |mib: u64| if mib == 0 { String::new() } else { format!("{mib} MiB") };
        line("memory", memory(self.memory_mib), memory(later.memory_mib));
        parts(&mut told, "disk", &disks(self), &disks(later));
        parts(&mut told, "card", &cards(self), &cards(later));
        told
    }
}

/// Disks by what tells them apart for ever.
fn disks(inventory: &Inventory) -> Vec<String> {
    let disks = inventory.disks.iter().map(|disk| {
        let id = [&disk.serial, &disk.wwn, &disk.name].into_iter().find(|id| !id.is_empty());
        let id = id.map_or("", String::as_str);
        format!("{} {id} of {} bytes", disk.model, disk.bytes).trim_start().to_owned()
    });
    disks.collect()
}

fn cards(inventory: &Inventory) -> Vec<String> {
    inventory.cards.iter().map(|card| card.mac.to_string()).collect()
}

fn parts(told: &mut Vec<String>, what: &str, before: &[String], after: &[String]) {
    let gone = before.iter().filter(|part| !after.contains(part));
    told.extend(gone.map(|part| format!("{what} {part} is gone")));
    let fresh = after.iter().filter(|part| !before.contains(part));
    told.extend(fresh.map(|part| format!("{what} {part} is new")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, mac: &str) -> Card {
        Card {
            name: name.to_owned(),
            mac: mac.parse().unwrap(),
            speed: None,
            link: None,
            neighbour: None,
        }
    }

    fn disk(name: &str, serial: &str) -> Disk {
        Disk { name: name.to_owned(), serial: serial.to_owned(), bytes: 10, ..Disk::default() }
    }

    #[test]
    fn the_same_parts_in_another_order_are_no_change() {
        let one = Inventory {
            memory_mib: 1024,
            disks: vec![disk("sda", "A"), disk("sdb", "B")],
            cards: vec![card("e1", "52:54:00:00:00:01"), card("e0", "52:54:00:00:00:02")],
            ..Inventory::default()
        };
        let mut other = one.clone();
        other.disks.reverse();
        other.cards.reverse();
        assert_eq!(one.clone().tidy(), other.clone().tidy());
        assert_eq!(one.changes(&other), [""; 0]);
        other.disks = vec![disk("sda", "A"), disk("sdb", "C")];
        other.memory_mib = 512;
        other.cards.remove(0);
        assert_eq!(
            one.changes(&other),
            [
                "memory: 1024 MiB, now 512 MiB",
                "disk B of 10 bytes is gone",
                "disk C of 10 bytes is new",
                "card 52:54:00:00:00:02 is gone",
            ]
        );
    }

    #[test]
    fn what_one_source_does_not_tell_is_no_change() {
        let full = Inventory { memory_mib: 1024, product: "R630".into(), ..Inventory::default() };
        assert_eq!(full.changes(&Inventory::default()), [""; 0]);
    }

    #[test]
    fn texts_and_lists_are_bounded() {
        let wild = Inventory {
            product: format!("R\u{1b}[31m\n{}", "x".repeat(1000)),
            cards: (0..1000).map(|n| card(&format!("e{n}"), "52:54:00:00:00:01")).collect(),
            ..Inventory::default()
        };
        let tidy = wild.tidy();
        assert!(tidy.product.chars().count() <= TEXT_MAX && !tidy.product.contains('\u{1b}'));
        assert_eq!(tidy.cards.len(), CARDS_MAX);
    }
}
