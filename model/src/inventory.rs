//! Core: what a machine is made of, as its management controller or a ramdisk on it tells.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::mac::MacAddress;

/// Most cards of a machine that are kept.
pub const CARDS_MAX: usize = 64;
/// Most disks of a machine that are kept.
pub const DISKS_MAX: usize = 1_024;
/// Longest text of an inventory: a name of hardware is never that long.
pub const TEXT_MAX: usize = 255;

/// The hardware of a machine.
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
    pub processors: Processors,
    pub memory_mib: u64,
    /// Its disks, by name.
    pub disks: Vec<Disk>,
    /// Its network cards, by name.
    pub cards: Vec<Card>,
    /// Parts that were not read whole, and why: a part that is missing there may well be in the machine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<Parts, String>,
}

crate::words! {
    /// A kind of parts of which a machine has several.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Parts {
        Disks = "disks",
        /// Network cards.
        Cards = "cards",
    }
}

/// The processors of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Processors {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Their architecture, such as `x86_64`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    pub sockets: u32,
    /// Logical processors, which the operating system sees.
    pub threads: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    pub name: String,
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
    /// The description of the port on the switch; some switches tell its name only here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub port_description: String,
}

/// A text of hardware, fit to be kept and shown: without control characters, and not endless.
pub fn text(told: &str) -> String {
    let told = told.trim().chars().filter(|character| !character.is_control());
    told.take(TEXT_MAX).collect()
}

impl Inventory {
    /// The same with texts fit to be shown, in a steady order, and within its limits: controllers tell
    /// the same parts in any order. Of cards with one address the first counts: the others lie on it.
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
        self.unread.values_mut().for_each(|why| *why = text(why));
        let mut addresses = BTreeSet::new();
        self.cards.retain(|card| addresses.insert(card.mac));
        self.disks.sort_by(|a, b| (&a.name, &a.serial).cmp(&(&b.name, &b.serial)));
        self.cards.sort_by(|a, b| (&a.name, a.mac).cmp(&(&b.name, b.mac)));
        self.disks.truncate(DISKS_MAX);
        self.cards.truncate(CARDS_MAX);
        self
    }

    /// The same with what this source told before and does not tell now. A controller that does not answer a
    /// question, or answers it with nothing, does not say that the part is gone.
    pub fn completed(mut self, before: &Self) -> Self {
        let keep = |told: &mut String, before: &String| {
            if told.is_empty() {
                told.clone_from(before);
            }
        };
        keep(&mut self.manufacturer, &before.manufacturer);
        keep(&mut self.product, &before.product);
        keep(&mut self.serial, &before.serial);
        keep(&mut self.firmware, &before.firmware);
        keep(&mut self.bmc_firmware, &before.bmc_firmware);
        let (processors, known) = (&mut self.processors, &before.processors);
        keep(&mut processors.model, &known.model);
        keep(&mut processors.architecture, &known.architecture);
        let or = |told: u32, before: u32| if told == 0 { before } else { told };
        processors.sockets = or(processors.sockets, known.sockets);
        processors.threads = or(processors.threads, known.threads);
        self.uuid = self.uuid.or(before.uuid);
        if self.memory_mib == 0 {
            self.memory_mib = before.memory_mib;
        }
        if self.unread.contains_key(&Parts::Disks) {
            let told: BTreeSet<String> = self.disks.iter().map(disk_id).collect();
            let known = before.disks.iter().filter(|disk| !told.contains(&disk_id(disk)));
            self.disks.extend(known.cloned());
        }
        if self.unread.contains_key(&Parts::Cards) {
            // Cards that were read come first, so that the newer word about a card counts.
            self.cards.extend(before.cards.iter().cloned());
        }
        self.tidy()
    }

    /// The differences in hardware between this and a later inventory, a line each. Links, speeds,
    /// neighbours and firmware change without a screwdriver and are left out.
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

/// A disk by what tells it apart for ever.
fn disk_id(disk: &Disk) -> String {
    let id = [&disk.serial, &disk.wwn, &disk.name].into_iter().find(|id| !id.is_empty());
    let id = id.map_or("", String::as_str);
    format!("{} {id} of {} bytes", disk.model, disk.bytes).trim_start().to_owned()
}

fn disks(inventory: &Inventory) -> Vec<String> {
    inventory.disks.iter().map(disk_id).collect()
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
    fn what_could_not_be_read_is_not_gone() {
        let full = Inventory {
            memory_mib: 1024,
            product: "R630".into(),
            serial: "S1".into(),
            processors: Processors { sockets: 2, threads: 16, ..Processors::default() },
            disks: vec![disk("sda", "A"), disk("sdb", "B")],
            cards: vec![card("e0", "52:54:00:00:00:01"), card("e1", "52:54:00:00:00:02")],
            ..Inventory::default()
        };
        let unread = |parts: &[Parts]| -> BTreeMap<Parts, String> {
            parts.iter().map(|parts| (*parts, "500".to_owned())).collect()
        };
        let nothing = Inventory { unread: unread(&Parts::ALL), ..Inventory::default() };
        let kept = nothing.clone().completed(&full);
        assert_eq!(full.changes(&kept), [""; 0]);
        assert_eq!(Inventory { unread: BTreeMap::new(), ..kept }, full);
        // Parts that were read count, and only a part that was read whole tells what is gone.
        let half = Inventory {
            disks: vec![disk("sdb", "B")],
            cards: vec![card("renamed", "52:54:00:00:00:02"), card("e2", "52:54:00:00:00:03")],
            unread: unread(&[Parts::Cards]),
            ..Inventory::default()
        };
        let kept = half.completed(&full);
        assert_eq!(
            full.changes(&kept),
            ["disk A of 10 bytes is gone", "card 52:54:00:00:00:03 is new"]
        );
        let names: Vec<&str> = kept.cards.iter().map(|card| card.name.as_str()).collect();
        assert_eq!(names, ["e0", "e2", "renamed"]);
    }

    #[test]
    fn of_cards_with_one_address_the_first_counts() {
        let cards = ["eth0", "bond0"].map(|name| card(name, "52:54:00:00:00:01"));
        let tidy = Inventory { cards: cards.to_vec(), ..Inventory::default() }.tidy();
        assert_eq!(tidy.cards, [card("eth0", "52:54:00:00:00:01")]);
    }

    #[test]
    fn texts_and_lists_are_bounded() {
        let wild = Inventory {
            product: format!("R\u{1b}[31m\n{}", "x".repeat(1000)),
            cards: (0..1000)
                .map(|n| card(&format!("e{n}"), &format!("5254.0000.{n:04x}")))
                .collect(),
            ..Inventory::default()
        };
        let tidy = wild.tidy();
        assert!(tidy.product.chars().count() <= TEXT_MAX && !tidy.product.contains('\u{1b}'));
        assert_eq!(tidy.cards.len(), CARDS_MAX);
    }
}
