//! Core: how a rack stands: its agents, its machines by the stage of their boot, what keeps them from
//! booting, and the use of its leases.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use model::image::{BootTarget, ImageFiles};
use model::ipam::LeaseRange;
use model::machine::{BootStage, Machine};
use model::node::{Node, NodeRole};
use model::rack::LeaseState;
use model::rack_fault::{RackCause, RackFault};
use model::switch::Switch;
use model::{Code, NodeName, Timestamp};
use serde::Serialize;

use crate::agents::clock_skew::{self, ClockSkew};
use crate::agents::contacts::Contact;
use crate::agents::master_address::Missing;
use crate::agents::unregistered::UnregisteredMachine;
use crate::config::Config;
use crate::machines::rack::document::image_of;
use crate::switching::fields::state;
use crate::switching::watch::SwitchLooks;

/// Seconds from a machine's lease, loader or script to the next stage: what is loaded is small, and
/// firmware tries again within them.
pub const SMALL_DEADLINE: i64 = 60;
/// Seconds from a machine's kernel or initial file system to the first word of its system: the files are
/// large, and so may be the machine.
pub const LARGE_DEADLINE: i64 = 300;
/// Seconds for which a machine that is not registered is told of after it was last seen.
pub const STRANGER_SECONDS: i64 = 3_600;
/// Seconds for which a machine counts as stuck. Then it was switched off, or its system tells nothing.
pub const STUCK_SECONDS: i64 = 3_600;
/// Lines of each kind: the rest is counted.
const LINES_MAX: usize = 20;

/// How a rack stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RackStatus {
    /// Its number.
    pub rack: u32,
    pub agents: Vec<AgentStatus>,
    pub machines: usize,
    /// The same by the last stage that they came to; `none` where nothing was seen.
    pub stages: BTreeMap<&'static str, usize>,
    /// Machines that should have come further, with the likely reason.
    pub stuck: Vec<String>,
    /// Machines that asked for a boot script and are not registered.
    pub unknown: Vec<String>,
    /// Leases in use, of the ranges that agents serve.
    pub leases: usize,
    /// Addresses of these ranges.
    pub range: u64,
    /// Its switches, each with its state.
    pub switches: Vec<(String, &'static str)>,
    /// The warnings that somebody should act on.
    pub warnings: Vec<String>,
}

/// An agent of a rack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentStatus {
    pub node: String,
    /// Whether it answers; none before it was asked.
    pub reached: Option<bool>,
    /// Whether it lacks the newest document of the rack.
    pub stale: bool,
    /// The faults that keep it from serving the rack, each with its remedy.
    pub faults: Vec<RackFault>,
}

/// The facts beside the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// How agents were found.
    pub contacts: &'a HashMap<NodeName, Contact>,
    /// Machines that are not registered.
    pub unregistered: &'a [UnregisteredMachine],
    /// Why the master's node lacks the master's address.
    pub address_missing: Option<&'a Missing>,
    /// The last looks at switches.
    pub switches: Option<&'a SwitchLooks>,
    /// The time of day.
    pub now: Timestamp,
}

/// The racks that have an agent or a machine.
pub fn racks(config: &Config) -> BTreeSet<u32> {
    let mut racks: BTreeSet<u32> = config.served().collect();
    racks.extend(with_machines(config));
    racks
}

/// The racks that have a machine.
pub fn with_machines(config: &Config) -> impl Iterator<Item = u32> {
    let next = |from: u32| {
        let mut after = config.machines.by.place.within((from, 0)..=(u32::MAX, u32::MAX));
        after.next().map(|(place, _)| place.0)
    };
    std::iter::successors(next(0), move |rack| next(rack.checked_add(1)?))
}

/// Why nobody serves a rack that has machines, if nobody does.
pub fn unserved(config: &Config, rack: u32) -> Option<String> {
    let has_agent = config.agents_of(rack).any(|node| node.role != NodeRole::Offline);
    let machines = config.machines_in(rack).count();
    (!has_agent && machines > 0).then(|| match machines {
        1 => "no agent serves its machine".to_owned(),
        _ => format!("no agent serves its {machines} machines"),
    })
}

/// How `rack` stands, with the unregistered that were seen in it.
pub fn status(config: &Config, rack: u32, known: Known<'_>) -> RackStatus {
    let Known { contacts, unregistered, address_missing, switches: looks, now } = known;
    let called = || config.agents_of(rack).filter(|node| node.role != NodeRole::Offline);
    let of_master = fault_of_master(config, contacts);
    let agent = |node: &Arc<Node>| {
        let clock_counts = of_master.is_none();
        agent_status(&node.name, contacts.get(&node.name), &config.role.master, clock_counts)
    };
    let agents: Vec<AgentStatus> = called().map(agent).collect();
    let (mut stages, mut stuck, mut machines) = (BTreeMap::new(), Vec::new(), 0);
    for machine in config.machines_in(rack) {
        machines += 1;
        let boot = config.boots.get(&machine.serial);
        let stage = boot.map_or("none", |last| last.boot.stage.as_str());
        *stages.entry(stage).or_default() += 1;
        stuck.extend(why_stuck(config, machine, now));
    }
    let recent = now.plus_seconds(-STRANGER_SECONDS);
    let asked = unregistered.iter().filter(|s| s.rack == rack && s.last >= recent);
    let unknown: Vec<String> = asked.filter_map(told_of).collect();
    let (leases, range) = use_of_ranges(config, rack, contacts, now);
    let (stuck, unknown) = (shortened(stuck), shortened(unknown));
    let at = |node: &str, fault: RackFault| line(node, &fault.at(node, rack));
    let master = config.role.master.as_str();
    let alone = unserved(config, rack).map(|why| RackCause::NoAgent.fault(why, &[]));
    let mut warnings: Vec<String> = alone.into_iter().map(|fault| at("", fault)).collect();
    warnings.extend(of_master.map(|fault| at(master, fault)));
    warnings.extend(agents.iter().flat_map(|agent| agent.warnings(rack)));
    let has_master = called().any(|node| node.name == config.role.master);
    if let Some(Missing { why, remedy }) = address_missing.filter(|_| has_master) {
        warnings.push(format!("{master} [{}]: {why}: {remedy}", Code::MasterAddress));
    }
    if config.dhcp.as_ref().is_some_and(|dhcp| dhcp.of_rack(rack).observe) {
        warnings
            .push("its agents only observe DHCP and answer nobody; see gnt dhcp get".to_owned());
    }
    warnings.extend(stuck.iter().chain(&unknown).cloned());
    if range > 0 && u64::try_from(leases).is_ok_and(|leases| leases >= range) {
        let text = format!("all {range} addresses of the lease range are in use");
        warnings.push(at("", RackCause::RangeFull.fault(text, &[])));
    }
    let switches = config.switches.values().filter(|switch| switch.rack == Some(rack));
    let state = |switch: &Arc<Switch>| {
        let look = looks.and_then(|looks| looks.of(switch.name.as_str()));
        (switch.name.to_string(), state(switch, look.as_ref()))
    };
    let switches = switches.map(state).collect();
    RackStatus { rack, agents, machines, stages, stuck, unknown, leases, range, switches, warnings }
}

/// The number of leased addresses of those that the agents serve, and the number of these. A rack has a
/// range in each of its networks, and agents serve those in which they have an address. Before any agent
/// told, all of them count.
fn use_of_ranges(
    config: &Config,
    rack: u32,
    contacts: &HashMap<NodeName, Contact>,
    now: Timestamp,
) -> (usize, u64) {
    let told = config.agents_of(rack).filter_map(|node| contacts.get(&node.name));
    let told =
        told.flat_map(|contact| &contact.held.lease_ranges).filter(|range| range.rack == rack);
    let addresses = |told: usize| u64::try_from(told).unwrap_or(u64::MAX);
    let mut served: BTreeMap<_, _> =
        told.map(|range| (range.first, (range.last, addresses(range.addresses)))).collect();
    if served.is_empty() {
        let ranges = config.ipam.as_ref().and_then(|ipam| ipam.lease_ranges(rack).ok());
        let size = |range: &LeaseRange| {
            u64::from(u32::from(range.last)).saturating_sub(u32::from(range.first).into()) + 1
        };
        let all = ranges.iter().flatten().map(|range| (range.first, (range.last, size(range))));
        served = all.collect();
    }
    let ends = (rack, now)..=(rack, Timestamp::from_micros(i64::MAX));
    let is_served = |address: Ipv4Addr| {
        let range = served.range(..=address).next_back();
        range.is_some_and(|(_, (last, _))| address <= *last)
    };
    let live = config.leases.by.end.within(ends).map(|(_, lease)| lease);
    let leases = live.filter(|lease| lease.state == LeaseState::Bound && is_served(lease.address));
    (leases.count(), served.values().map(|(_, addresses)| addresses).sum())
}

/// The fault of the master's node where its clock is the one that is wrong.
fn fault_of_master(config: &Config, contacts: &HashMap<NodeName, Contact>) -> Option<RackFault> {
    let others = config.nodes.keys().filter(|name| **name != config.role.master);
    let reached = others.filter_map(|name| contacts.get(name)).filter(|c| c.failure.is_none());
    clock_skew::fault_of_master(&reached.map(|contact| contact.clock).collect::<Vec<_>>())
}

fn agent_status(
    node: &NodeName,
    contact: Option<&Contact>,
    master: &NodeName,
    clock_counts: bool,
) -> AgentStatus {
    let reached = contact.map(|contact| contact.failure.is_none());
    let stale = contact.is_some_and(|contact| contact.held.behind);
    let mut faults = Vec::new();
    let skew = contact.and_then(|contact| contact.clock);
    let skew = skew.filter(|skew| clock_counts || *skew == ClockSkew::Unknown);
    faults.extend(skew.map(|skew| skew.fault(master.as_str())));
    match contact.and_then(|contact| contact.failure.as_ref()) {
        Some(why) if skew.is_none() => {
            faults.push(
                RackCause::AgentSilent.fault(format!("its agent does not answer: {why}"), &[]),
            );
        }
        // The faults that it told last may be over.
        Some(_) => {}
        None => faults.extend(contact.iter().flat_map(|contact| contact.held.faults())),
    }
    if stale {
        let text = "it lacks the newest document of the rack";
        faults.push(RackCause::DocumentOld.fault(text, &[]));
    }
    AgentStatus { node: node.to_string(), reached, stale, faults }
}

impl AgentStatus {
    fn warnings(&self, rack: u32) -> impl Iterator<Item = String> {
        let node = self.node.as_str();
        let unknown = self.reached.is_none();
        let unknown = unknown.then(|| format!("{node}: its agent was not asked yet"));
        let faults = self.faults.iter().map(move |fault| line(node, &fault.clone().at(node, rack)));
        unknown.into_iter().chain(faults)
    }
}

/// A fault as a warning; `node` is empty where it is of the whole rack.
fn line(node: &str, fault: &RackFault) -> String {
    let RackFault { cause, text, remedy } = fault;
    let node = if node.is_empty() { String::new() } else { format!("{node} ") };
    format!("{node}[{}]: {text}: {remedy}", cause.word())
}

/// Why a machine does not go on with its boot, if it should have.
fn why_stuck(config: &Config, machine: &Machine, now: Timestamp) -> Option<String> {
    let boot = &config.boots.get(&machine.serial)?.boot;
    let last = boot.stages.last()?;
    let seconds = now.seconds().saturating_sub(last.at.seconds());
    let image = image_of(config, machine.boots());
    let wants_image = matches!(machine.boots(), BootTarget::Image { .. });
    let (deadline, why) = match last.stage {
        BootStage::Lease => (SMALL_DEADLINE, "its firmware has a lease and loaded nothing"),
        BootStage::Loader => match image.map(|image| &image.files) {
            Some(ImageFiles::Uki(_)) => (
                SMALL_DEADLINE,
                "image fetched, the system did not report; Secure Boot may refuse it",
            ),
            _ => (SMALL_DEADLINE, "loader fetched, no boot script asked for"),
        },
        // It went on to its disk, and tells no more.
        BootStage::Script if !wants_image => return None,
        BootStage::Script if image.is_none() => (SMALL_DEADLINE, "no image for it: boots local"),
        BootStage::Script => (SMALL_DEADLINE, "boot script fetched, no kernel loaded"),
        BootStage::Kernel => match image.map(|image| &image.files) {
            Some(ImageFiles::Linux { initrds, .. }) if !initrds.is_empty() => {
                (LARGE_DEADLINE, "kernel loaded, no initrd loaded")
            }
            _ => (LARGE_DEADLINE, "kernel loaded, the system did not report"),
        },
        BootStage::Initrd => (LARGE_DEADLINE, "initrd loaded, the system did not report"),
        // A host that boots its disk need not tell that it runs.
        BootStage::Config if !wants_image => return None,
        BootStage::Config => (LARGE_DEADLINE, "configuration fetched, the system did not report"),
        BootStage::System => return None,
    };
    let (serial, stage) = (&machine.serial, last.stage.as_str());
    (deadline + 1..=deadline + STUCK_SECONDS)
        .contains(&seconds)
        .then(|| format!("{serial}: {stage} for {seconds} s: {why}"))
}

/// A machine that asked for its script; who only has a lease need be none.
fn told_of(stranger: &UnregisteredMachine) -> Option<String> {
    let serial = stranger.serial.as_ref()?;
    let mac = stranger.mac.map_or_else(|| "-".to_owned(), |mac| mac.to_string());
    Some(format!("not registered: MAC {mac}, serial {serial}"))
}

fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

#[cfg(test)]
mod tests {
    use model::MacAddress;
    use model::image::Image;
    use model::machine::{Boot, LastBoot, StageSeen};
    use model::rack::Lease;
    use rpc::calls::LeaseRangeServed;

    use super::*;
    use crate::agents::contacts::AgentHeld;
    use crate::config::ConfigChange;
    use crate::machines::machine::register;
    use crate::testing::{NOW, config, node, spec};

    fn rack(agents: &[&str]) -> Config {
        let nodes = agents.iter().map(|name| {
            let mut node = node(name, NodeRole::Candidate);
            node.rack = Some(1);
            node
        });
        let mut config = config(&nodes.collect::<Vec<_>>());
        let machines = register(&config, &[spec("s1", 1, "worker")], NOW).unwrap();
        config.apply(machines.into_iter().map(ConfigChange::Machine));
        config
    }

    fn booted(config: &mut Config, stage: BootStage) {
        let seen =
            StageSeen { stage, at: NOW, agent: "n2.example".to_owned(), fetched: None, cycle: 0 };
        let address = [10, 69, 0, 40].into();
        let (agent, stages) = ("n2.example".to_owned(), vec![seen]);
        let (before, every) = (Vec::new(), None);
        let boot = Boot { stage, address, mac: None, agent, seen: NOW, stages, before, every };
        config.apply([ConfigChange::Boot(LastBoot { serial: "s1".parse().unwrap(), boot })]);
    }

    fn known<'a>(
        contacts: &'a HashMap<NodeName, Contact>,
        unregistered: &'a [UnregisteredMachine],
        seconds: i64,
    ) -> Known<'a> {
        let now = NOW.plus_seconds(seconds);
        Known { contacts, unregistered, address_missing: None, switches: None, now }
    }

    fn warnings(config: &Config, seconds: i64) -> Vec<String> {
        let reached = config.nodes.keys().map(|name| (name.clone(), Contact::default())).collect();
        status(config, 1, known(&reached, &[], seconds)).warnings
    }

    #[test]
    fn a_stage_that_lasts_has_a_likely_reason() {
        let mut config = rack(&["n2.example"]);
        assert_eq!(racks(&config), BTreeSet::from([1]));
        booted(&mut config, BootStage::Script);
        assert_eq!(warnings(&config, 3_600), [""; 0], "it boots its disk");
        let mut machine = config.machine("s1").unwrap().as_ref().clone();
        machine.boot = "debian".parse().unwrap();
        config.apply([ConfigChange::Machine(machine)]);
        assert_eq!(warnings(&config, 60), [""; 0]);
        assert_eq!(warnings(&config, 61), ["s1: script for 61 s: no image for it: boots local"]);
        assert_eq!(warnings(&config, 3_661), [""; 0]);
        let image = serde_json::json!({
            "id": "debian/12",
            "files": {"uki": {"sha256": "0".repeat(64), "size": 1}},
            "parameters": [], "ctime": [1, 0],
        });
        let image: Image = serde_json::from_value(image).unwrap();
        config.apply([ConfigChange::Image(image)]);
        for (stage, deadline, why) in [
            (BootStage::Lease, 60, "loaded nothing"),
            (BootStage::Loader, 60, "Secure Boot may refuse it"),
            (BootStage::Script, 60, "no kernel"),
            (BootStage::Kernel, 300, "the system did not report"),
            (BootStage::Initrd, 300, "the system did not report"),
        ] {
            booted(&mut config, stage);
            assert_eq!(warnings(&config, deadline), [""; 0]);
            let told = warnings(&config, deadline + 1);
            assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
        }
        booted(&mut config, BootStage::System);
        assert_eq!(warnings(&config, 9_000), [""; 0]);
    }

    #[test]
    fn an_agent_that_cannot_serve_and_a_stranger_are_told_of() {
        let alone =
            "[no-agent]: no agent serves its machine: `gnt node modify --rack 1 NODE` gives it one";
        assert_eq!(warnings(&rack(&[]), 0), [alone]);
        let config = rack(&["n2.example"]);
        let taken = RackCause::PortTaken.fault("port 67 is taken by dnsmasq", &[("PID", "812")]);
        let held = AgentHeld { behind: true, faults: vec![taken], ..AgentHeld::default() };
        let contact = Contact { since: NOW, held, ..Contact::default() };
        let contacts = HashMap::from([("n2.example".parse().unwrap(), contact)]);
        let mut stranger = UnregisteredMachine {
            rack: 1,
            mac: Some("52:54:00:00:00:09".parse().unwrap()),
            serial: Some("s9".parse().unwrap()),
            address: [10, 69, 0, 41].into(),
            agent: None,
            first: NOW,
            last: NOW,
            count: 1,
        };
        let of = |stranger: &UnregisteredMachine| {
            status(&config, 1, known(&contacts, std::slice::from_ref(stranger), 0))
        };
        let found = of(&stranger);
        let told = [
            "n2.example [port-taken]: port 67 is taken by dnsmasq: `kill 812` on n2.example",
            "n2.example [document-old]: it lacks the newest document of the rack: `gnt cluster \
             redist-conf` sends it, and says why it is not taken",
            "not registered: MAC 52:54:00:00:00:09, serial s9",
        ];
        assert_eq!(found.warnings, told);
        assert_eq!((found.machines, found.leases, found.stages["none"]), (1, 0, 1));
        assert!(found.range > 0);
        stranger.serial = None;
        assert_eq!(of(&stranger).warnings, told[..2], "a lease alone is no wish to boot");
    }

    /// Both agents serve one of the rack's networks, and share its range.
    #[test]
    fn addresses_in_use_are_those_of_the_networks_that_are_served() {
        let mut config = rack(&["n2.example", "n3.example"]);
        let lease = |port, last, minutes: i64| Lease {
            rack: 1,
            mac: MacAddress::new([2, 0, 0, 0, 0, port]),
            address: [10, 69, 0, last].into(),
            state: LeaseState::Bound,
            until: NOW.plus_seconds(minutes * 60),
        };
        let leases = [lease(1, 97, 1), lease(2, 98, 1), lease(3, 99, -1), lease(4, 200, 1)];
        config.apply(leases.map(ConfigChange::Lease));
        let range = |own| LeaseRangeServed {
            rack: 1,
            first: [10, 69, 0, 96].into(),
            last: [10, 69, 0, 126].into(),
            addresses: 31,
            own,
        };
        let mut contacts = HashMap::new();
        let of = |contacts: &HashMap<_, _>| {
            let found = status(&config, 1, known(contacts, &[], 0));
            (found.leases, found.range)
        };
        assert!(of(&contacts).1 > 31, "no agent told which networks it serves");
        for (name, own) in [("n2.example", 16), ("n3.example", 15)] {
            let contact = Contact {
                held: AgentHeld { lease_ranges: vec![range(own)], ..AgentHeld::default() },
                ..Contact::default()
            };
            contacts.insert(name.parse().unwrap(), contact);
            assert_eq!(of(&contacts), (2, 31));
        }
    }

    #[test]
    fn an_agent_that_is_not_heard_is_a_warning_by_its_reason() {
        let config = rack(&["n2.example"]);
        let told = |contact: Option<Contact>| {
            let name = "n2.example".parse().unwrap();
            let contacts = contact.map(|contact| (name, contact)).into_iter().collect();
            let warnings = status(&config, 1, known(&contacts, &[], 0)).warnings;
            let [warning] = &warnings[..] else { panic!("{warnings:?}") };
            warning.clone()
        };
        assert_eq!(told(None), "n2.example: its agent was not asked yet");
        let failure = Some("connection refused".to_owned());
        let full = RackCause::DiskFull.fault("its disk is full", &[]);
        let held = AgentHeld { faults: vec![full], ..AgentHeld::default() };
        let silent = Contact { failure, held, ..Contact::default() };
        let warning = told(Some(silent.clone()));
        assert!(warning.contains("[agent-silent]") && warning.contains("refused"), "{warning}");
        assert!(warning.ends_with("`systemctl start gantry-noded` on n2.example"), "{warning}");
        let wrong = Contact { clock: Some(ClockSkew::Unknown), ..silent };
        let warning = told(Some(wrong));
        assert!(warning.ends_with("`timedatectl set-ntp true` on n2.example"), "{warning}");
    }

    #[test]
    fn the_rack_of_the_masters_agent_lacks_the_masters_address() {
        let config = rack(&["n1.example"]);
        let contacts = HashMap::from([(config.role.master.clone(), Contact::default())]);
        let missing = Missing {
            why: "no interface `eth9`".to_owned(),
            remedy: "`gnt cluster modify --master-netdev eth0`".to_owned(),
        };
        let known = Known { address_missing: Some(&missing), ..known(&contacts, &[], 0) };
        let told = status(&config, 1, known).warnings;
        let wanted =
            "[master-address]: no interface `eth9`: `gnt cluster modify --master-netdev eth0`";
        assert!(told.len() == 1 && told[0].ends_with(wanted), "{told:?}");
    }
}
