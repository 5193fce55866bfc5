//! Core: fields of machines.

use std::sync::Arc;

use luxi::query::Filter;
use luxi::query::filter::Operand;
use model::bmc::{BmcAccess, Inspection};
use model::image::Parameter;
use model::machine::{Boot, Machine};
use model::rack::{Lease, LeaseKey, LeaseState};
use model::switch::PortKey;
use model::{MacAddress, Timestamp};

use crate::config::Config;
use crate::machines::rack::document::{image_of, parameters};
use crate::units::list::{Cell, Field, by_key, fields, json};

/// A machine with all that is known of it.
#[derive(Debug, Clone)]
pub struct MachineRow {
    pub machine: Arc<Machine>,
    /// Everything else.
    pub config: Arc<Config>,
    /// The time of the question: a lease ends by itself.
    pub now: Timestamp,
}

/// The machines to which a filter is limited by serial, Ethernet address or rack, in the order of
/// their serials; `None` if every machine has to be looked at.
pub fn limited<'a>(config: &'a Config, filter: Option<&Filter>) -> Option<Vec<&'a Arc<Machine>>> {
    let filter = filter?;
    let mut machines: Vec<_> = if let Some(machines) = by_key(&config.machines, filter, "serial") {
        machines
    } else if let Some(macs) = filter.limits("mac") {
        let macs = macs.into_iter().filter_map(|mac| mac.as_text()?.parse().ok());
        macs.flat_map(|mac| config.machines.by.mac.of(mac)).collect()
    } else {
        let racks = filter.limits("rack")?.into_iter().map(Operand::as_u32);
        let racks: Vec<u32> = racks.collect::<Option<_>>()?;
        racks.into_iter().flat_map(|rack| config.machines_in(rack)).collect()
    };
    machines.sort_by(|a, b| a.serial.cmp(&b.serial));
    machines.dedup_by(|a, b| a.serial == b.serial);
    Some(machines)
}

impl MachineRow {
    fn lease(&self) -> Option<&Arc<Lease>> {
        let rack = self.machine.rack;
        let of = |mac: &MacAddress| self.config.leases.get(&LeaseKey { rack, mac: *mac });
        let live = |l: &&Arc<Lease>| l.state == LeaseState::Bound && l.until > self.now;
        self.machine.mac.iter().filter_map(of).filter(live).max_by_key(|lease| lease.until)
    }

    /// A line for each port of a switch that serves it.
    fn ports(&self) -> Vec<String> {
        let line = |key: PortKey| {
            let port = self.config.switch_ports.get(&key)?;
            let card = self.config.behind(&key).served()?.mac;
            let has = port.applied.as_ref().map(|has| format!(" {}", has.configuration));
            Some(format!("{key} {card} {}{}", port.state, has.unwrap_or_default()))
        };
        self.config.ports_of(&self.machine.serial).into_iter().filter_map(line).collect()
    }

    fn access(&self) -> Option<&Arc<BmcAccess>> {
        self.config.bmcs.get(&self.machine.serial)
    }

    fn inspection(&self) -> Option<&Arc<Inspection>> {
        self.config.inspections.get(&self.machine.serial)
    }

    fn boot(&self) -> Option<&Boot> {
        self.config.boots.get(&self.machine.serial).map(|last| &last.boot)
    }
}

/// The table.
pub const FIELDS: &[Field<MachineRow>] = fields! {
    "serial", "Serial", Text, "Serial number", |r| Cell::normal(r.machine.serial.as_str());
    "rack", "Rack", Number, "Logical rack number", |r| Cell::normal(r.machine.rack);
    "index", "Index", Number, "Number within the rack", |r| Cell::normal(r.machine.index_in_rack);
    "role", "Role", Text, "What it is for", |r| Cell::normal(r.machine.role.as_str());
    "product", "Product", Text, "Product name", |r| Cell::normal(r.machine.product.as_str());
    "datacenter", "Datacenter", Text, "Where it stands",
        |r| Cell::normal(r.machine.datacenter.as_str());
    "ipv4", "IPv4", Other, "Addresses of its operating system",
        |r| json(&r.machine.network.values().flat_map(|a| &a.ipv4).collect::<Vec<_>>());
    "ipv6", "IPv6", Other, "IPv6 addresses of its operating system", |r| {
        json(&r.machine.network.values().flat_map(|a| a.ipv6.iter().flatten()).collect::<Vec<_>>())
    };
    "bmc", "BMC", Text, "Address of its management controller",
        |r| Cell::optional(r.machine.bmc.ipv4.first().map(ToString::to_string));
    "bmc_type", "BMCType", Text, "Type of its management controller",
        |r| Cell::optional(r.machine.bmc.kind.as_deref());
    "bmc_ipv6", "BMCIPv6", Text, "IPv6 address of its management controller", |r| {
        let address = r.machine.bmc.ipv6.iter().flatten().next();
        Cell::optional(address.map(ToString::to_string))
    };
    "uuid", "UUID", Text, "System UUID",
        |r| Cell::optional(r.machine.uuid.map(|uuid| uuid.to_string()));
    "mac", "MAC", Other, "Ethernet addresses, told or learnt", |r| json(&r.machine.mac);
    "labels", "Labels", Other, "Labels, each as NAME=VALUE", |r| {
        let labels = r.machine.labels.iter();
        json(&labels.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>())
    };
    "interfaces", "Interfaces", Other, "Cards that the operator named, each as NAME=ADDRESS", |r| {
        let cards = r.machine.interfaces.iter();
        json(&cards.map(|(name, mac)| format!("{name}={mac}")).collect::<Vec<_>>())
    };
    "network_template", "NetworkTemplate", Text, "Its network template, as ROLE/VERSION", |r| {
        let version = r.machine.network_template;
        Cell::optional(version.map(|version| format!("{}/{version}", r.machine.role)))
    };
    "bmc_url", "BMCURL", Text, "How its management controller is reached",
        |r| Cell::optional(r.access().map(|access| access.url.to_string()));
    "bmc_user", "BMCUser", Text, "The user by which that controller knows us",
        |r| Cell::optional(r.access().map(|access| access.user.as_str()));
    "memory", "Memory", Unit, "Memory in MiB, as found at its last inspection",
        |r| Cell::optional(r.inspection().map(|found| found.inventory.memory_mib));
    "processors", "Processors", Number, "Logical processors, as found there",
        |r| Cell::optional(r.inspection().map(|found| found.inventory.processors.threads));
    "hardware", "Hardware", Other, "All that was found at its last inspection", |r| {
        r.inspection().map_or_else(|| Cell::optional(None::<bool>), |found| json(&found.inventory))
    };
    "sign_every", "SignEvery", Number, "Seconds between two signs of life, if it repeats them",
        |r| {
            let boot = r.config.boots.get(&r.machine.serial);
            Cell::optional(boot.and_then(|last| last.boot.every))
        };
    "inspected", "Inspected", Timestamp, "When that was",
        |r| r.inspection().map_or_else(|| Cell::optional(None::<bool>), |found| json(&found.at));
    "hardware_changes", "HardwareChanges", Other, "What changed when it last changed",
        |r| json(&r.inspection().map_or(&[][..], |found| found.changes.as_slice()));
    "disk_keys", "DiskKeys", Other, "Disks whose keys are kept, sealed", |r| {
        let keys = r.config.disk_keys.by.serial.of(r.machine.serial.clone());
        json(&keys.map(|key| key.disk.clone()).collect::<Vec<_>>())
    };
    "boot", "Boot", Text, "What it is to boot: an image, or `local` for its disk",
        |r| Cell::normal(r.machine.boot.to_string());
    "kernel_parameters", "KernelParameters", Other, "Kernel parameters behind those of its image",
        |r| json(&r.machine.kernel_parameters);
    "command_line", "CommandLine", Text,
        "All kernel parameters that it boots with: of its image, all machines, its role, and its own",
        |r| {
            Cell::optional(image_of(&r.config, &r.machine.boot).map(|image| {
                let words = parameters(&r.config, &r.machine, image).map(Parameter::as_str);
                words.collect::<Vec<_>>().join(" ")
            }))
        };
    "lease", "Lease", Text, "Address that it has a lease of",
        |r| Cell::optional(r.lease().map(|lease| lease.address.to_string()));
    "stage", "Stage", Text, "How far its last boot came",
        |r| Cell::optional(r.boot().map(|boot| boot.stage.as_str()));
    "stages", "Stages", Other, "Stages of its boot, each with time and agent",
        |r| json(&r.boot().map_or(&[][..], |boot| boot.stages.as_slice()));
    "last_boot", "LastBoot", Other, "The same of the boot before",
        |r| json(&r.boot().map_or(&[][..], |boot| boot.before.as_slice()));
    "seen", "Seen", Timestamp, "When it was last seen booting",
        |r| r.boot().map_or_else(|| Cell::optional(None::<bool>), |boot| json(&boot.seen));
    "agent", "Agent", Text, "Agent that last saw it booting",
        |r| Cell::optional(r.boot().map(|boot| boot.agent.as_str()));
    "status", "Status", Text, "How it stands with it, in sabakan's words",
        |r| Cell::normal(r.machine.life.state.status().as_str());
    "provision_state", "ProvisionState", Text, "The same in Ironic's words",
        |r| Cell::normal(r.machine.life.state.provision_state());
    "state", "State", Text, "The same, one word for each pair of these",
        |r| Cell::normal(r.machine.life.state.as_str());
    "state_since", "StateSince", Timestamp, "Since when it is in that state",
        |r| json(&r.machine.state_since());
    "state_reason", "StateReason", Text, "Why it is, where it failed or was set",
        |r| Cell::optional(r.machine.life.reason.as_deref());
    "intent", "Intent", Text, "What a job is at work for, or was last",
        |r| Cell::optional(r.machine.life.carried.map(|carried| carried.intent.as_str()));
    "intent_job", "IntentJob", Number, "That job",
        |r| Cell::optional(r.machine.life.carried.map(|carried| carried.job.0));
    "node", "Node", Text, "The node of this cluster that it is", |r| {
        let node = r.config.node_on(&r.machine.serial);
        Cell::optional(node.map(|node| node.name.as_str()))
    };
    "ports", "Ports", Other, "Ports of switches at it, with card, state and configuration",
        |r| json(&r.ports());
    "tenant", "Tenant", Text, "The tenant that it was given to", |r| {
        let tenant = r.config.tenant_of_machine(&r.machine.serial);
        Cell::optional(tenant.map(|tenant| tenant.name.as_str()))
    };
    "maintenance", "Maintenance", Text, "Why somebody works on it",
        |r| Cell::optional(r.machine.maintenance.as_deref());
    "registered", "Registered", Timestamp, "When it was registered",
        |r| json(&r.machine.register_date);
    "document", "Document", Other, "All of it, as it is stored", |r| json(&*r.machine);
    "retire_date", "RetireDate", Timestamp, "When it is to be taken out of use",
        |r| r.machine.retire_date.map_or_else(|| Cell::optional(None::<bool>), |date| json(&date));
};

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::ConfigChange;
    use crate::machines::machine::register;
    use crate::testing::{NOW, config, spec};

    #[test]
    fn a_filter_limits_what_is_looked_at() {
        let mut config = config(&[]);
        let mut specs = [spec("s3", 1, "boot"), spec("s1", 1, "worker"), spec("s2", 2, "worker")];
        specs[2].mac = vec!["52:54:00:00:00:02".parse().unwrap()];
        let machines = register(&config, &specs, NOW).unwrap();
        config.apply(machines.into_iter().map(ConfigChange::Machine));
        let found = |filter: &Value| -> Option<Vec<&str>> {
            let filter = serde_json::from_value(filter.clone()).unwrap();
            let found = limited(&config, Some(&filter))?;
            Some(found.iter().map(|machine| machine.serial.as_str()).collect())
        };
        let (s1, s2) = (json!(["=", "serial", "s1"]), json!(["=", "serial", "s2"]));
        for (filter, limit) in [
            (s1.clone(), Some(vec!["s1"])),
            (json!(["|", s2, s1, s1, ["=", "serial", "s4"]]), Some(vec!["s1", "s2"])),
            (json!(["&", ["=", "role", "worker"], ["=", "rack", "1"]]), Some(vec!["s1", "s3"])),
            (json!(["=[]", "mac", "52:54:00:00:00:02"]), Some(vec!["s2"])),
            (json!(["=[]", "mac", "52:54"]), Some(vec![])),
            (json!(["=", "rack", 1.0]), None),
            (json!(["=", "role", "worker"]), None),
        ] {
            assert_eq!(found(&filter), limit, "{filter}");
        }
        assert!(limited(&config, None).is_none());
    }
}
