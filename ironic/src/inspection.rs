//! Core: a ramdisk says what the machine is made of.

use std::collections::BTreeMap;

use http::StatusCode;
use model::inventory::{Card, DISKS_MAX, Disk, Inventory, Processors};
use model::rack::Observation;
use model::{MacAddress, Serial, Uuid};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::body::Answer;
use crate::json::{list, number, text};
use crate::lookup::usable;
use crate::machines::{Machines, asked_by};
use crate::{Effect, Outcome, lldp};

/// Bytes of the texts of all disks of a machine: a thousand real ones have 70,000. So no inventory,
/// which agents keep and replicate, is larger than half a megabyte.
const DISK_TEXT_MAX: usize = 128 * 1024;
/// Characters that are kept of what failed in the ramdisk.
const ERROR_MAX: usize = 4_096;

/// How names of interfaces begin that lie on cards.
const STACKED: [&str; 9] =
    ["bond", "team", "br", "vlan", "vxlan", "macvlan", "macvtap", "ovs", "dummy"];

/// The findings of a ramdisk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The UUID of the machine, where the ramdisk knows it.
    pub uuid: Option<Uuid>,
    /// The hardware of the machine.
    pub inventory: Inventory,
    /// What failed there.
    pub error: Option<String>,
}

impl Found {
    pub(crate) fn read(uuid: Option<Uuid>, body: &[u8]) -> Result<Self, String> {
        let body = crate::json::parse(body)?;
        let told = body.get("inventory").filter(|told| told.is_object());
        let told = told.ok_or("The inventory is missing.")?;
        let error = Some(crate::cut(text(&body, "error"), ERROR_MAX));
        let error = error.filter(|error| !error.trim().is_empty());
        Ok(Self { uuid, inventory: inventory(told, body.get("lldp_raw")), error })
    }
}

fn inventory(told: &Value, raw: Option<&Value>) -> Inventory {
    let part = |name: &str| told.get(name).unwrap_or(&Value::Null);
    let vendor = part("system_vendor");
    let firmware = vendor.get("firmware").unwrap_or(&Value::Null);
    let cpu = part("cpu");
    let small = |name| number(cpu, name).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let memory = part("memory");
    let memory_mib = number(memory, "physical_mb").filter(|mib| *mib > 0);
    let mut interfaces: Vec<&Value> = list(told, "interfaces").iter().collect();
    // A bond, a bridge or a VLAN may have the address of its card, which then comes first and counts.
    interfaces.sort_by_key(|interface| is_stacked(interface));
    let cards = interfaces.into_iter().filter_map(|card| read_card(card, raw));
    let inventory = Inventory {
        manufacturer: text(vendor, "manufacturer").to_owned(),
        product: text(vendor, "product_name").to_owned(),
        serial: text(vendor, "serial_number").to_owned(),
        uuid: None,
        firmware: text(firmware, "version").to_owned(),
        bmc_firmware: String::new(),
        processors: Processors {
            model: text(cpu, "model_name").to_owned(),
            architecture: text(cpu, "architecture").to_owned(),
            sockets: small("socket_count"),
            threads: small("count"),
        },
        memory_mib: memory_mib.or_else(|| Some(number(memory, "total")? >> 20)).unwrap_or(0),
        disks: list(told, "disks").iter().take(DISKS_MAX).map(read_disk).collect(),
        cards: cards.collect(),
        unread: BTreeMap::new(),
    };
    let mut inventory = inventory.tidy();
    let mut bytes = 0;
    inventory.disks.retain(|disk| {
        let texts = [&disk.name, &disk.model, &disk.serial, &disk.wwn];
        bytes += texts.iter().map(|text| text.len()).sum::<usize>();
        bytes <= DISK_TEXT_MAX
    });
    inventory
}

fn read_disk(told: &Value) -> Disk {
    let name = text(told, "name");
    Disk {
        name: name.strip_prefix("/dev/").unwrap_or(name).to_owned(),
        model: text(told, "model").to_owned(),
        serial: text(told, "serial").to_owned(),
        wwn: text(told, "wwn").to_owned(),
        bytes: number(told, "size").unwrap_or(0),
        rotational: told.get("rotational").and_then(Value::as_bool),
    }
}

/// Whether an interface lies on others. Those of hardware tell what they are; where none does, names do.
fn is_stacked(told: &Value) -> (bool, bool) {
    let tells =
        ["pci_address", "vendor", "product"].iter().any(|name| !text(told, name).is_empty());
    let name = text(told, "name");
    let stacks = STACKED.iter().any(|begin| name.starts_with(begin));
    (!tells, stacks || name.contains(['.', '@', ':']))
}

/// A card with an Ethernet address that is its own.
fn read_card(told: &Value, raw: Option<&Value>) -> Option<Card> {
    let mac: MacAddress = text(told, "mac_address").parse().ok()?;
    let mac = usable(&[mac]).pop()?;
    let name = text(told, "name");
    let beside = raw.map_or(&[][..], |raw| list(raw, name));
    let values = if beside.is_empty() { list(told, "lldp") } else { beside };
    let speed = number(told, "speed_mbps").and_then(|speed| u32::try_from(speed).ok());
    Some(Card {
        name: name.to_owned(),
        mac,
        speed: speed.filter(|speed| *speed > 0),
        link: told.get("has_carrier").and_then(Value::as_bool),
        neighbour: lldp::neighbour(values),
    })
}

pub(crate) fn answer(found: &Found, machines: &impl Machines) -> Outcome {
    let nodes = match found.uuid {
        Some(uuid) => machines.by_uuid(uuid),
        None => of_inventory(&found.inventory, machines),
    };
    let cards: Vec<MacAddress> = found.inventory.cards.iter().map(|card| card.mac).collect();
    let node = match asked_by(nodes, machines, &cards) {
        Ok(node) => node,
        Err(missing) => return missing,
    };
    // A ramdisk inspects before it looks itself up. A request after that lookup has no token to show.
    if node.heard().token_told.is_some() {
        return Outcome::missing();
    }
    let answer = Answer::json(StatusCode::ACCEPTED, &json!({ "uuid": node.uuid }));
    let Found { inventory, error, .. } = found.clone();
    let observation = Box::new(Observation::Inspected {
        rack: node.rack,
        serial: node.serial,
        registered: node.registered,
        cycle: node.cycle,
        inventory: Box::new(inventory),
        error,
    });
    Outcome { answer, effect: Effect::Heard { observation, is_vital: true } }
}

/// By its cards; one whose cards nobody knows yet, by the serial number that its firmware tells.
fn of_inventory(found: &Inventory, machines: &impl Machines) -> Vec<crate::Node> {
    let macs: Vec<MacAddress> = found.cards.iter().map(|card| card.mac).collect();
    let nodes = machines.by_macs(&macs);
    if !nodes.is_empty() {
        return nodes;
    }
    let serial = found.serial.parse().ok().filter(|serial: &Serial| serial.placeholder().is_none());
    serial.map_or_else(Vec::new, |serial| machines.by_serial(&serial))
}

#[cfg(test)]
mod tests;
