//! Core: which card a port serves, and which configuration it is to have.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::machine::Machine;
use model::switch::{
    PortConfiguration, PortKey, PortPhase, PortSettings, Served, Switch, SwitchPort, VlanOf,
};
use model::{MacAddress, Serial, Word};

use crate::config::Config;

/// The configuration that a port is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Desired {
    /// Nobody said anything about it: it stays as it is.
    Left,
    Set(Target),
    /// A configuration that it must not have, or that cannot be told.
    Refused {
        configuration: Word,
        why: String,
    },
}

/// A configuration, and what it means now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub configuration: Word,
    pub settings: PortSettings,
    /// Whether the port rests with it.
    pub is_idle: bool,
}

/// The cards that are said to be behind a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Behind {
    /// By the operator.
    pub told: Option<Served>,
    /// By LLDP, as inspections of machines have it.
    pub heard: BTreeSet<Served>,
}

impl Behind {
    /// The card that counts: by the operator's word, or as only one machine says.
    pub fn served(&self) -> Option<&Served> {
        let only = || self.heard.first().filter(|_| self.heard.len() == 1);
        self.told.as_ref().or_else(only)
    }

    /// Whether two say different things.
    pub fn contradiction(&self) -> Option<String> {
        let heard = || {
            let all: Vec<_> =
                self.heard.iter().map(|card| format!("{} of {}", card.mac, card.serial)).collect();
            all.join(" and ")
        };
        match &self.told {
            Some(told) if !self.heard.is_empty() && !self.heard.contains(told) => {
                Some(format!("the operator says {} of {}, LLDP {}", told.mac, told.serial, heard()))
            }
            None if self.heard.len() > 1 => Some(format!("LLDP says {}", heard())),
            _ => None,
        }
    }
}

impl Config {
    /// The cards behind a port.
    pub fn behind(&self, key: &PortKey) -> Behind {
        let told = self.switch_ports.get(key).and_then(|port| port.serves.clone());
        let mut heard = BTreeSet::new();
        if let Some(switch) = self.switches.get(&key.switch)
            && let (Some(mac), Some(spec)) = (switch.mac, switch.ports.get(&key.port))
        {
            let chassis = mac.to_string();
            let end = (chassis.clone(), spec.name.clone());
            for inspection in self.inspections.by.neighbour.of(end) {
                // A tenant's system may tell anything; `give` made an operator's word of what was heard.
                if self.tenant_of_machine(&inspection.serial).is_some() {
                    continue;
                }
                let is_here = |end: &&model::inventory::Neighbour| {
                    end.chassis.eq_ignore_ascii_case(&chassis)
                        && (end.port == spec.name || end.port_description == spec.name)
                };
                let cards = &inspection.inventory.cards;
                let cards = cards.iter().filter(|c| c.neighbour.as_ref().filter(is_here).is_some());
                heard.extend(cards.map(|card| {
                    let serial = inspection.serial.clone();
                    Served { serial, mac: card.mac }
                }));
            }
        }
        Behind { told, heard }
    }

    /// The ports that serve a machine.
    pub fn ports_of(&self, serial: &Serial) -> BTreeSet<PortKey> {
        let told = self.switch_ports.by.machine.of(serial.clone()).map(|port| port.key());
        let mut found: BTreeSet<PortKey> = told.collect();
        let cards = self.inspections.get(serial).map(|i| i.inventory.cards.as_slice());
        for end in cards.unwrap_or_default().iter().filter_map(|card| card.neighbour.as_ref()) {
            let Ok(mac) = end.chassis.parse::<MacAddress>() else { continue };
            for switch in self.switches.by.mac.of(mac) {
                let port = switch.port_named(&end.port);
                let port = port.or_else(|| switch.port_named(&end.port_description));
                found.extend(
                    port.map(|port| PortKey { switch: switch.name.clone(), port: port.clone() }),
                );
            }
        }
        found
            .retain(|key| self.behind(key).served().is_some_and(|served| served.serial == *serial));
        found
    }

    /// The configuration that a port is to have.
    pub fn desired(&self, port: &SwitchPort) -> Desired {
        let Some(switch) = self.switches.get(&port.switch) else { return Desired::Left };
        let policy = self.port_policy.clone().unwrap_or_default();
        let behind = self.behind(&port.key());
        let machine = behind.served().and_then(|served| self.machines.get(&served.serial));
        let (mut name, mut phase) = self.wanted(port, switch, machine, &policy);
        let of_tenant = port.applied.as_ref().map(|has| &has.configuration);
        let of_tenant = of_tenant.filter(|name| self.tenant_of_configuration(name).is_some());
        if let (None, Some(has)) = (&name, of_tenant) {
            // A tenant's VLAN does not stay where nobody wants it any more.
            let role = machine.map(|machine| machine.role.as_str());
            phase = PortPhase::Idle;
            name = policy.configuration(&port.phases, role, phase).cloned();
            if name.is_none() {
                let why = format!(
                    "{has} is wanted no more, and nothing says what the port has instead; `gnt port policy \
                     --idle NAME`"
                );
                return Desired::Refused { configuration: has.clone(), why };
            }
        }
        let Some(name) = name else { return Desired::Left };
        let refused = |why: String| Desired::Refused { configuration: name.clone(), why };
        let Some(configuration) = self.port_configurations.get(&name) else {
            return refused(format!("port configuration {name} is not known"));
        };
        let machine = machine.map(Arc::as_ref);
        let settings = self.settings(configuration).and_then(|settings| {
            self.is_for(&name, machine)?;
            self.within_limits(&name, &settings)?;
            Ok(settings)
        });
        match settings {
            Err(why) => refused(why),
            Ok(settings) => match switch.refusal(&port.port, &settings) {
                Some(why) => refused(why),
                None => {
                    let is_idle = phase == PortPhase::Idle;
                    Desired::Set(Target { configuration: name, settings, is_idle })
                }
            },
        }
    }

    /// The name of the configuration that is wanted, and the phase that it is for.
    fn wanted(
        &self,
        port: &SwitchPort,
        switch: &Switch,
        machine: Option<&Arc<Machine>>,
        policy: &model::switch::PortPolicy,
    ) -> (Option<Word>, PortPhase) {
        let phase = match machine {
            Some(machine) if !switch.leaving => PortPhase::of(machine.life.state),
            _ => PortPhase::Idle,
        };
        if let Some(set) = port.set.as_ref().filter(|_| !switch.leaving) {
            return (Some(set.clone()), PortPhase::User);
        }
        let role = machine.map(|machine| machine.role.as_str());
        (policy.configuration(&port.phases, role, phase).cloned(), phase)
    }

    /// The meaning of a configuration now.
    ///
    /// # Errors
    /// It names a network that has no VLAN.
    pub fn settings(&self, configuration: &PortConfiguration) -> Result<PortSettings, String> {
        let wanted = &configuration.wanted;
        let vlan_of = |name: &Word| {
            let network = self.networks.get(name);
            let network = network.ok_or_else(|| format!("network {name} is not known"))?;
            let vlan = network.vlan.and_then(|number| number.try_into().ok());
            vlan.ok_or_else(|| {
                format!("network {name} has no VLAN; `gnt network modify --vlan NUMBER {name}`")
            })
        };
        let untagged = match &wanted.untagged {
            None => None,
            Some(VlanOf::Number(vlan)) => Some(*vlan),
            Some(VlanOf::Network(name)) => Some(vlan_of(name)?),
        };
        let networks: Vec<_> =
            wanted.tagged_networks.iter().map(vlan_of).collect::<Result<_, _>>()?;
        let tagged = wanted.tagged.iter().chain(networks);
        Ok(PortSettings {
            disabled: wanted.disabled,
            untagged,
            tagged: tagged.filter(|vlan| Some(*vlan) != untagged).collect(),
            acl: wanted.acl.clone(),
            mtu: wanted.mtu,
        })
    }

    /// The users of a configuration of ports, in words.
    pub fn users_of_configuration(&self, name: &Word) -> Vec<String> {
        let policy = self.port_policy.as_deref();
        let of_policy = policy.into_iter().flat_map(model::switch::PortPolicy::names);
        let of_policy =
            of_policy.filter(|its| *its == name).map(|_| "the policy of ports".to_owned());
        let ports = self.switch_ports.by.configuration.of(name.clone());
        of_policy.take(1).chain(ports.map(|port| format!("port {}", port.key()))).collect()
    }
}
