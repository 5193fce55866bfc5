//! Core: fields of switches, their ports, and configurations of ports.

use std::sync::Arc;

use model::switch::{PortConfiguration, PortKey, Switch, SwitchPort};

use super::desired::Desired;
use super::watch::{Look, SwitchLooks};
use crate::config::Config;
use crate::units::list::{Cell, Field, fields, json};

/// A switch, and what was seen of it.
#[derive(Debug, Clone)]
pub struct SwitchRow {
    pub switch: Arc<Switch>,
    pub look: Option<Look>,
    pub config: Arc<Config>,
}

impl SwitchRow {
    /// How many of its ports are in each state, as `3 active, 1 error`.
    fn ports_by_state(&self) -> String {
        let ports = self.config.switch_ports.by.switch.of(self.switch.name.clone());
        let mut counts = std::collections::BTreeMap::new();
        ports.for_each(|port| *counts.entry(port.state).or_insert(0_u32) += 1);
        let counts: Vec<_> = counts.iter().map(|(state, n)| format!("{n} {state}")).collect();
        counts.join(", ")
    }
}

/// How a switch stands, by the last look at it.
pub fn state(switch: &Switch, look: Option<&Look>) -> &'static str {
    match look {
        _ if switch.leaving => "leaving",
        None => "unknown",
        Some(Look { ports: Ok(_), .. }) => "reached",
        Some(Look { ports: Err(_), .. }) => "unreached",
    }
}

/// A row of each switch.
pub fn switch_rows(config: &Arc<Config>, seen: &SwitchLooks) -> Vec<SwitchRow> {
    let row = |switch: &Arc<Switch>| SwitchRow {
        switch: Arc::clone(switch),
        look: seen.of(switch.name.as_str()),
        config: Arc::clone(config),
    };
    config.switches.values().map(row).collect()
}

fn text_or_none(text: Option<impl ToString>) -> Cell {
    json(&text.map(|text| text.to_string()))
}

/// The table of switches.
pub const SWITCHES: &[Field<SwitchRow>] = fields! {
    "name", "Name", Text, "Its name", |r| Cell::normal(r.switch.name.as_str());
    "provider", "Provider", Text, "What it speaks", |r| Cell::normal(r.switch.url.provider());
    "url", "URL", Text, "How it is reached", |r| Cell::normal(r.switch.url.to_string());
    "state", "State", Text, "`reached`, `unreached`, `unknown` or `leaving`",
        |r| Cell::normal(state(&r.switch, r.look.as_ref()));
    "since", "Since", Timestamp, "Since when what was seen last is so",
        |r| json(&r.look.as_ref().map(|look| look.since));
    "why", "Why", Text, "Why it is not reached",
        |r| text_or_none(r.look.as_ref().and_then(|look| look.ports.as_ref().err()));
    "ports", "Ports", Number, "How many ports Gantry sets", |r| json(&r.switch.ports.len());
    "port_states", "PortStates", Text, "How many of them are in which state",
        |r| Cell::normal(r.ports_by_state());
    "rack", "Rack", Number, "The rack whose agents reach it", |r| json(&r.switch.rack);
    "agents", "Agents", Other, "The nodes whose agents reach it", |r| json(&r.switch.agents);
    "options", "Options", Other, "Further words for its program", |r| json(&r.switch.options);
    "mac", "MAC", Text, "The Ethernet address by which LLDP names it",
        |r| text_or_none(r.switch.mac);
    "vlans", "VLANs", Text, "The VLANs that its ports may be in",
        |r| Cell::normal(r.switch.vlans.to_string());
    "serial_no", "SerialNo", Number, "How often it was changed", |r| json(&r.switch.serial_no);
    "ctime", "CTime", Timestamp, "When it was made", |r| json(&r.switch.ctime);
    "mtime", "MTime", Timestamp, "When it was changed last", |r| json(&r.switch.mtime);
    "uuid", "UUID", Text, "Its identity", |r| Cell::normal(r.switch.uuid.to_string());
};

/// A port, and what was seen of it.
#[derive(Debug, Clone)]
pub struct PortRow {
    pub port: Arc<SwitchPort>,
    pub key: PortKey,
    pub look: Option<Look>,
    pub config: Arc<Config>,
}

impl PortRow {
    fn real_name(&self) -> Option<&str> {
        let switch = self.config.switches.get(&self.key.switch)?;
        switch.ports.get(&self.key.port).map(|spec| spec.name.as_str())
    }

    fn actual(&self) -> Option<String> {
        let ports = self.look.as_ref()?.ports.as_ref().ok()?;
        ports.get(self.real_name()?).map(ToString::to_string)
    }

    fn desired(&self) -> (Option<String>, Option<String>) {
        match self.config.desired(&self.port) {
            Desired::Left => (None, None),
            Desired::Set(target) => {
                (Some(target.configuration.to_string()), Some(target.settings.to_string()))
            }
            Desired::Refused { configuration, why } => (Some(configuration.to_string()), Some(why)),
        }
    }
}

/// A row of each port.
pub fn port_rows(config: &Arc<Config>, seen: &SwitchLooks) -> Vec<PortRow> {
    let row = |port: &Arc<SwitchPort>| PortRow {
        port: Arc::clone(port),
        key: port.key(),
        look: seen.of(port.switch.as_str()),
        config: Arc::clone(config),
    };
    config.switch_ports.values().map(row).collect()
}

/// The table of ports.
pub const PORTS: &[Field<PortRow>] = fields! {
    "name", "Name", Text, "Switch and port", |r| Cell::normal(r.key.to_string());
    "switch", "Switch", Text, "Its switch", |r| Cell::normal(r.key.switch.as_str());
    "real_name", "RealName", Text, "Its name on the switch", |r| text_or_none(r.real_name());
    "state", "State", Text, "Its state", |r| Cell::normal(r.port.state.as_str());
    "since", "Since", Timestamp, "When it came to its state", |r| json(&r.port.since);
    "machine", "Machine", Text, "The machine behind it",
        |r| text_or_none(r.config.behind(&r.key).served().map(|served| served.serial.clone()));
    "mac", "MAC", Text, "The card behind it",
        |r| text_or_none(r.config.behind(&r.key).served().map(|served| served.mac));
    "tenant", "Tenant", Text, "The tenant whose machine is behind it",
        |r| text_or_none(r.config.tenant_of_port(&r.key).map(|tenant| tenant.name.clone()));
    "told", "Told", Other, "Machine and card by the operator's word", |r| json(&r.port.serves);
    "heard", "Heard", Other, "Machines and cards by LLDP",
        |r| json(&r.config.behind(&r.key).heard);
    "contradiction", "Contradiction", Text, "Where two say different things",
        |r| text_or_none(r.config.behind(&r.key).contradiction());
    "configuration", "Configuration", Text, "The configuration that it is to have",
        |r| text_or_none(r.desired().0);
    "wanted", "Wanted", Text, "What that means", |r| text_or_none(r.desired().1);
    "applied", "Applied", Text, "The configuration that it got last",
        |r| text_or_none(r.port.applied.as_ref().map(|applied| applied.configuration.clone()));
    "actual", "Actual", Text, "What it has on the switch", |r| text_or_none(r.actual());
    "set", "Set", Text, "The configuration that it has whatever its machine does",
        |r| text_or_none(r.port.set.clone());
    "phases", "Phases", Other, "Its own configurations by phase", |r| json(&r.port.phases);
    "tries", "Tries", Number, "How often in a row its switch did not take it",
        |r| json(&r.port.tries);
    "repairs", "Repairs", Number, "How often in a row others changed it",
        |r| json(&r.port.repairs);
    "error", "Error", Text, "Why it is in error", |r| text_or_none(r.port.error.clone());
};

/// The table of configurations.
pub const CONFIGURATIONS: &[Field<ConfigurationRow>] = fields! {
    "name", "Name", Text, "Its name", |r| Cell::normal(r.configuration.name.as_str());
    "tenant", "Tenant", Text, "The tenant that it belongs to", |r| {
        let owner = r.config.tenant_of_configuration(&r.configuration.name);
        text_or_none(owner.map(|tenant| tenant.name.clone()))
    };
    "untagged", "Untagged", Text, "The VLAN of packets without a tag, or its network",
        |r| text_or_none(r.configuration.wanted.untagged.clone());
    "tagged", "Tagged", Text, "VLANs of packets with a tag",
        |r| Cell::normal(r.configuration.wanted.tagged.to_string());
    "tagged_networks", "TaggedNetworks", Other, "Networks whose VLANs are tagged, too",
        |r| json(&r.configuration.wanted.tagged_networks);
    "acl", "ACL", Other, "Rules for packets that come in", |r| json(&r.configuration.wanted.acl);
    "mtu", "MTU", Number, "Largest packet in bytes", |r| json(&r.configuration.wanted.mtu);
    "disabled", "Disabled", Bool, "Whether the port carries nothing",
        |r| json(&r.configuration.wanted.disabled);
    "users", "Users", Other, "What names it",
        |r| json(&r.config.users_of_configuration(&r.configuration.name));
    "ctime", "CTime", Timestamp, "When it was made", |r| json(&r.configuration.ctime);
};

/// A configuration, and who uses it.
#[derive(Debug, Clone)]
pub struct ConfigurationRow {
    pub configuration: Arc<PortConfiguration>,
    pub config: Arc<Config>,
}

/// A row of each configuration.
pub fn configuration_rows(config: &Arc<Config>) -> Vec<ConfigurationRow> {
    let row = |configuration: &Arc<PortConfiguration>| ConfigurationRow {
        configuration: Arc::clone(configuration),
        config: Arc::clone(config),
    };
    config.port_configurations.values().map(row).collect()
}
