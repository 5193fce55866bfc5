//! Maps, indices and documents agree after any sequence of changes.

use std::collections::{BTreeMap, BTreeSet};

use jobs::Documents;
use jobs::filter::Rule;
use model::asset::{Asset, AssetSerial};
use model::blob::Blob;
use model::boot_template::{BootTemplate, TemplateKind};
use model::dhcp::DhcpConfig;
use model::image::RemovedImage;
use model::instance::{Instance, Phase};
use model::ipam::IpamConfig;
use model::machine::{Boot, BootStage, LastBoot};
use model::node::{Member, NodeRole};
use model::rack::{Lease, LeaseState};
use model::switch::{PortKey, Served, Switch, SwitchPort};
use model::token::Token;
use model::{JobId, MacAddress, Serial, Timestamp, Uuid, Word};
use proptest::prelude::*;

use super::load::Loader;
use super::objects::Object as _;
use super::*;
use crate::testing::{self, NOW};

/// An instance that moves from the first node to another one.
fn instance(number: u8, to: u8) -> Instance {
    let mut instance = testing::instance(&format!("i{number}"), "n1.example");
    let from = instance.run.clone().unwrap();
    let to = format!("n{to}.example").parse().unwrap();
    instance.phase = Phase::Moving { job: JobId(1), from, to };
    instance
}

/// A cluster of one node with its documents.
fn begun() -> (Config, Documents) {
    let mut config = testing::config(&[]);
    let again = vec![
        ConfigChange::Cluster(config.cluster.as_ref().clone()),
        ConfigChange::Role(config.role.as_ref().clone()),
        ConfigChange::Ipam(config.ipam.as_deref().cloned().unwrap()),
    ];
    let nodes = config.nodes.values().map(|node| ConfigChange::Node(node.as_ref().clone()));
    let all: Vec<_> = nodes.chain(again).collect();
    let documents = config.apply(all).documents;
    (config, documents)
}

fn loaded(documents: &Documents) -> Config {
    let mut loader = Loader::default();
    for (key, content) in documents {
        loader.add(key, content.as_ref().unwrap()).unwrap();
    }
    loader.finish().unwrap()
}

/// Everything that a configuration holds, with its indices.
fn told(config: &Config) -> String {
    format!("{config:#?}")
}

fn serial(number: u8) -> Serial {
    format!("S{number}").parse().unwrap()
}

fn mac(port: u8) -> MacAddress {
    MacAddress::new([2, 0, 0, 0, 0, port])
}

fn machine(number: u8, rack: u32, index: u32, ports: &BTreeSet<u8>) -> Machine {
    Machine {
        serial: serial(number),
        product: String::new(),
        datacenter: String::new(),
        rack,
        index_in_rack: index,
        role: "worker".to_owned(),
        network: BTreeMap::new(),
        bmc: model::machine::Bmc::default(),
        uuid: None,
        mac_told: false,
        mac: ports.iter().map(|port| mac(*port)).collect(),
        boot: Default::default(),
        kernel_parameters: Vec::new(),
        interfaces: std::collections::BTreeMap::new(),
        network_template: None,
        labels: BTreeMap::new(),
        register_date: NOW,
        retire_date: None,
        deployed_by: None,
        life: Default::default(),
        maintenance: None,
    }
}

fn node(number: u64, rack: Option<u32>, member: Option<u64>) -> Node {
    let mut node = testing::node(&format!("n{number}.example"), NodeRole::Regular);
    node.member = member.map(|id| Member { id, incarnation: None, acknowledged: None });
    Node { rack, ..node }
}

fn boot(number: u8, address: u8) -> LastBoot {
    let (stage, agent) = (BootStage::Script, "n1".to_owned());
    let address = [10, 0, 0, address].into();
    let (stages, before) = (Vec::new(), Vec::new());
    let boot = Boot { stage, address, mac: None, agent, seen: NOW, stages, before, every: None };
    LastBoot { serial: serial(number), boot }
}

fn lease(rack: u32, port: u8, address: u8, end: i64) -> Lease {
    let (address, until) = ([10, 0, 0, address].into(), Timestamp::from_micros(end));
    Lease { rack, mac: mac(port), address, state: LeaseState::Bound, until }
}

fn rule(number: u8, priority: u32) -> Rule {
    let rule = serde_json::json!({"uuid": format!("u-{number}"), "watermark": 1,
        "priority": priority, "predicates": [], "action": "PAUSE", "reason_trail": []});
    serde_json::from_value(rule).unwrap()
}

fn boot_template(role: u8, id: u8) -> BootTemplate {
    BootTemplate {
        kind: TemplateKind::Ignition,
        role: format!("role{role}").parse().unwrap(),
        id: format!("1.{id}.0").parse().unwrap(),
        text: String::new(),
        spec: "3.3.0".to_owned(),
        ctime: NOW,
    }
}

fn token(number: u8, byte: u8) -> Token {
    testing::token(&format!("t{number}"), byte)
}

fn asset(name: u8, id: u64) -> Asset {
    let blob = Blob { sha256: "ab".repeat(32).parse().unwrap(), size: 1 };
    Asset {
        name: format!("asset{name}").parse().unwrap(),
        id,
        content_type: "text/plain".parse().unwrap(),
        blob,
        options: BTreeMap::new(),
        ctime: NOW,
    }
}

fn removed(version: u8) -> RemovedImage {
    RemovedImage { id: format!("debian/{version}").parse().unwrap(), at: NOW }
}

fn ipam(most: u32) -> IpamConfig {
    IpamConfig { max_nodes_in_rack: most, ..testing::ipam() }
}

/// A change of one of a few objects, so that most changes meet an object that exists.
fn change() -> impl Strategy<Value = ConfigChange> {
    let (number, rack) = (|| 0_u8..4, || 0_u32..3);
    let ports = proptest::collection::btree_set(0_u8..6, 0..3);
    let node_name = |number| format!("n{number}.example").parse().unwrap();
    prop_oneof![
        4 => (number(), rack(), 0_u32..4, ports)
            .prop_map(|(n, rack, index, ports)| ConfigChange::Machine(machine(n, rack, index, &ports))),
        2 => number().prop_map(|n| ConfigChange::MachineRemoved(serial(n))),
        2 => (2_u64..5, proptest::option::of(rack()), proptest::option::of(0_u64..3))
            .prop_map(|(n, rack, member)| ConfigChange::Node(node(n, rack, member))),
        1 => (2_u64..5).prop_map(move |n| ConfigChange::NodeRemoved(node_name(n))),
        1 => (number(), 0_u8..3).prop_map(|(n, address)| ConfigChange::Boot(boot(n, address))),
        1 => number().prop_map(|n| ConfigChange::BootRemoved(serial(n))),
        2 => (rack(), 0_u8..3, 0_u8..3, 0_i64..3)
            .prop_map(|(rack, port, at, end)| ConfigChange::Lease(lease(rack, port, at, end))),
        1 => (rack(), 0_u8..3, 0_u8..3)
            .prop_map(|(rack, port, at)| ConfigChange::LeaseRemoved(lease(rack, port, at, 0).key())),
        1 => (number(), 0_u32..3).prop_map(|(n, first)| ConfigChange::Filter(rule(n, first))),
        1 => number().prop_map(|n| ConfigChange::FilterRemoved(format!("u-{n}"))),
        1 => (10_u32..13).prop_map(|most| ConfigChange::Ipam(ipam(most))),
        1 => (number(), 0_u8..3)
            .prop_map(|(role, id)| ConfigChange::BootTemplate(boot_template(role, id))),
        1 => (number(), 0_u8..3).prop_map(|(role, id)| {
            ConfigChange::BootTemplateRemoved(boot_template(role, id).key())
        }),
        1 => (number(), number()).prop_map(|(n, card)| ConfigChange::SwitchPort(port(n, card))),
        1 => number().prop_map(|n| ConfigChange::SwitchPortRemoved(port(n, 0).key())),
        1 => (number(), number()).prop_map(|(n, mac)| ConfigChange::Switch(switch(n, mac))),
        1 => number().prop_map(|n| ConfigChange::SwitchRemoved(switch(n, 0).key())),
        1 => (number(), number()).prop_map(|(n, to)| ConfigChange::Instance(instance(n, to))),
        1 => number().prop_map(|n| ConfigChange::InstanceRemoved(instance(n, 0).key())),
        1 => (number(), 0_u8..3).prop_map(|(n, byte)| ConfigChange::Token(token(n, byte))),
        1 => number().prop_map(|n| ConfigChange::TokenRemoved(token(n, 0).key())),
        1 => (number(), 0_u64..3).prop_map(|(name, id)| ConfigChange::Asset(asset(name, id))),
        1 => number().prop_map(|name| ConfigChange::AssetRemoved(asset(name, 0).key())),
        1 => (0_u64..3).prop_map(|last| ConfigChange::AssetSerial(AssetSerial { last })),
        1 => number().prop_map(|version| ConfigChange::RemovedImage(removed(version))),
        1 => number().prop_map(|version| {
            ConfigChange::RemovedImageForgotten(removed(version).key())
        }),
        1 => any::<bool>().prop_map(|trusted_circuits| ConfigChange::Dhcp(DhcpConfig {
            trusted_circuits,
            ..DhcpConfig::default()
        })),
    ]
}

fn transactions() -> impl Strategy<Value = Vec<Vec<ConfigChange>>> {
    proptest::collection::vec(proptest::collection::vec(change(), 1..4), 0..12)
}

/// The model: applies a change to documents alone.
fn naively(all: &mut Documents, change: &ConfigChange) {
    if let ConfigChange::MachineRemoved(serial) = change {
        all.remove(&format!("boots/{serial}"));
    }
    let (key, content) = change.document();
    all.insert(key, content);
    all.retain(|_key, content| content.is_some());
}

/// Adds the lists of indices in use.
fn with_indices(mut documents: Documents) -> Documents {
    let mut used: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (key, content) in &documents {
        if key.starts_with("machines/") {
            let machine: Machine = serde_json::from_slice(content.as_ref().unwrap()).unwrap();
            used.entry(machine.rack).or_default().insert(machine.index_in_rack);
        }
    }
    for (rack, used) in used {
        let content = serde_json::to_string(&used).unwrap() + "\n";
        documents.insert(format!("node-indices/{rack}"), Some(content.into()));
    }
    documents
}

/// The removal of the object that a change sets.
fn removal(change: &ConfigChange) -> Option<ConfigChange> {
    match change {
        ConfigChange::Machine(machine) => Some(ConfigChange::MachineRemoved(machine.key())),
        ConfigChange::Node(node) => Some(ConfigChange::NodeRemoved(node.key())),
        ConfigChange::Boot(last) => Some(ConfigChange::BootRemoved(last.key())),
        ConfigChange::Lease(lease) => Some(ConfigChange::LeaseRemoved(lease.key())),
        ConfigChange::Filter(rule) => Some(ConfigChange::FilterRemoved(rule.key())),
        ConfigChange::BootTemplate(template) => {
            Some(ConfigChange::BootTemplateRemoved(template.key()))
        }
        ConfigChange::SwitchPort(port) => Some(ConfigChange::SwitchPortRemoved(port.key())),
        ConfigChange::Instance(instance) => Some(ConfigChange::InstanceRemoved(instance.key())),
        ConfigChange::Switch(switch) => Some(ConfigChange::SwitchRemoved(switch.key())),
        ConfigChange::Token(token) => Some(ConfigChange::TokenRemoved(token.key())),
        ConfigChange::Asset(asset) => Some(ConfigChange::AssetRemoved(asset.key())),
        ConfigChange::RemovedImage(removed) => {
            Some(ConfigChange::RemovedImageForgotten(removed.key()))
        }
        _ => None,
    }
}

fn port(number: u8, card: u8) -> SwitchPort {
    let key = PortKey { switch: word(number % 2), port: word(number) };
    let serves = Some(Served { serial: serial(card), mac: mac(card) });
    SwitchPort { serves, set: Some(word(card)), ..SwitchPort::new(key, NOW) }
}

fn switch(number: u8, card: u8) -> Switch {
    let switch = serde_json::json!({"name": word(number), "uuid": Uuid::nil(), "serial_no": 1,
        "ctime": NOW, "mtime": NOW, "url": "command:x", "mac": mac(card)});
    serde_json::from_value(switch).unwrap()
}

fn word(number: u8) -> Word {
    format!("w{number}").parse().unwrap()
}

/// Compares each index with a scan of all objects.
fn check_indices(config: &Config) {
    for number in 0..4 {
        let with = |is_it: &dyn Fn(&SwitchPort) -> bool| -> Vec<_> {
            config.switch_ports.values().filter(|port| is_it(port)).cloned().collect()
        };
        let by = &config.switch_ports.by;
        let (machine, name) = (serial(number), word(number));
        let found: Vec<_> = by.machine.of(machine.clone()).cloned().collect();
        assert_eq!(found, with(&|port| port.serves.as_ref().unwrap().serial == machine));
        let found: Vec<_> = by.configuration.of(name.clone()).cloned().collect();
        assert_eq!(found, with(&|port| port.set.as_ref() == Some(&name)));
        let found: Vec<_> = by.switch.of(name.clone()).cloned().collect();
        assert_eq!(found, with(&|port| port.switch == name));
    }
    let machines = || config.machines.values();
    for port in 0..6 {
        let with: Vec<_> = machines().filter(|m| m.mac.contains(&mac(port))).collect();
        assert_eq!(config.machines.by.mac.of(mac(port)).collect::<Vec<_>>(), with);
    }
    for rack in 0..3 {
        let mut with: Vec<_> = machines().filter(|m| m.rack == rack).collect();
        with.sort_by_key(|m| (m.index_in_rack, m.serial.clone()));
        assert_eq!(config.machines_in(rack).collect::<Vec<_>>(), with);
        let with: Vec<_> = config.nodes.values().filter(|n| n.rack == Some(rack)).collect();
        assert_eq!(config.agents_of(rack).collect::<Vec<_>>(), with);
        for address in (0..3).map(|last| [10, 0, 0, last].into()) {
            let holds = |lease: &&Arc<Lease>| (lease.rack, lease.address) == (rack, address);
            let with: Vec<_> = config.leases.values().filter(holds).collect();
            let found = config.leases.by.address.of((rack, address));
            assert_eq!(found.collect::<Vec<_>>(), with);
        }
        let end = Timestamp::from_micros;
        let mut with: Vec<_> = config.leases.values().filter(|l| l.rack == rack).collect();
        with.retain(|lease| lease.until <= end(1));
        with.sort_by_key(|lease| (lease.until, lease.mac));
        let found = config.leases.by.end.within((rack, end(0))..=(rack, end(1)));
        assert_eq!(found.map(|(_end, lease)| lease).collect::<Vec<_>>(), with);
    }
    for byte in 0..3 {
        let sha256 = token(0, byte).sha256;
        let with: Vec<_> = config.tokens.values().filter(|t| t.sha256 == sha256).collect();
        assert_eq!(config.tokens.by.sha256.of(sha256).collect::<Vec<_>>(), with);
    }
    for id in 0..5 {
        let with: Vec<_> = config.nodes.values().filter(|n| n.id == id).collect();
        assert_eq!(config.nodes.by.id.of(id).collect::<Vec<_>>(), with);
        let holds = |node: &&Arc<Node>| node.member.is_some_and(|member| member.id == id);
        let with: Vec<_> = config.nodes.values().filter(holds).collect();
        assert_eq!(config.nodes.by.member.of(id).collect::<Vec<_>>(), with);
    }
}

proptest! {
    /// Documents are those of a naive model, indices what a scan finds, and the documents together
    /// make the same configuration again. A copy from before a change does not follow it.
    #[test]
    fn maps_indices_and_documents_agree(transactions in transactions()) {
        let (mut config, mut documents) = begun();
        let mut naive = documents.clone();
        for changes in transactions {
            changes.iter().for_each(|change| naively(&mut naive, change));
            let before = config.clone();
            let shown = told(&before);
            documents.extend(config.apply(changes).documents);
            documents.retain(|_key, content| content.as_ref().is_some_and(|content| content != "[]\n"));
            prop_assert_eq!(told(&before), shown);
            prop_assert_eq!(&documents, &with_indices(naive.clone()));
            check_indices(&config);
            prop_assert_eq!(told(&loaded(&documents)), told(&config));
        }
    }

    #[test]
    fn put_and_delete_leave_no_trace(transactions in transactions(), put in change()) {
        let (mut config, _documents) = begun();
        for changes in transactions {
            config.apply(changes);
        }
        let Some(delete) = removal(&put) else { return Ok(()) };
        config.apply([delete.clone()]);
        let before = told(&config);
        let changed = config.apply([put, delete]);
        prop_assert_eq!(told(&config), before);
        prop_assert!(changed.documents.values().all(Option::is_none));
    }
}
