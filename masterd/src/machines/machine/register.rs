//! Core: what a registration makes of the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use model::error::ErrorCode;
use model::image::BootTarget;
use model::ipam::{IpamConfig, IpamError};
use model::machine::check::{self, Fault, Problem};
use model::machine::life::Life;
use model::machine::{Addresses, BOOT_ROLE, Bmc, Machine, MachineSpec};
use model::{Exception, MacAddress, Serial, Timestamp, Uuid};

use crate::config::Config;

/// Machines of one registration: a large hall, and one commit.
const MACHINES_MAX: usize = 10_000;

/// Every machine with its index and addresses, or all that is wrong with them.
///
/// # Errors
/// A machine that cannot be registered.
pub fn register(
    config: &Config,
    specs: &[MachineSpec],
    now: Timestamp,
) -> Result<Vec<Machine>, Exception> {
    let ipam = config.ipam()?;
    let wrong = |text: String| Exception::prereq(text, ErrorCode::WrongInput);
    if specs.is_empty() {
        return Err(wrong("the list of machines is empty; give at least one machine".to_owned()));
    }
    if specs.len() > MACHINES_MAX {
        return Err(wrong(format!(
            "one job registers at most {MACHINES_MAX} machines, and the list has {}; submit it in parts",
            specs.len()
        )));
    }
    let mut faults = check::faults(specs);
    let mut taken: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut machines = Vec::with_capacity(specs.len());
    for spec in specs {
        let of = |problem| Fault { serial: spec.serial.clone(), problem };
        faults.extend(conflicts(config, spec).into_iter().map(of));
        let taken = taken.entry(spec.rack).or_insert_with(|| config.indices_in(spec.rack));
        match place(ipam, spec, taken, now) {
            Ok(machine) => {
                taken.insert(machine.index_in_rack);
                faults.extend(wrong_bmc(config, &machine).map(of));
                machines.push(machine);
            }
            // The fault is there, with the name of the other machine.
            Err(IpamError::BootTaken { .. }) if faults.iter().any(|f| is_boot_of(f, spec)) => {}
            Err(error) => faults.push(of(error.into())),
        }
    }
    refuse(&faults)?;
    Ok(machines)
}

fn is_boot_of(fault: &Fault, spec: &MachineSpec) -> bool {
    fault.serial == spec.serial && matches!(fault.problem, Problem::Boot { .. })
}

/// # Errors
/// All faults at once, if there are any.
pub(super) fn refuse(faults: &[Fault]) -> Result<(), Exception> {
    let Some(first) = faults.first() else { return Ok(()) };
    let code = first.problem.code();
    let is_one = faults.iter().all(|fault| fault.problem.code() == code);
    let code = if is_one { code } else { ErrorCode::WrongInput };
    Err(Exception::prereq(check::told(faults), code))
}

/// The values of a new machine that another one of the inventory has.
fn conflicts(config: &Config, spec: &MachineSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    if config.machines.contains_key(&spec.serial) {
        problems.push(Problem::Registered);
    }
    problems.extend(spec.mac.iter().filter_map(|mac| taken_mac(config, &spec.serial, *mac)));
    problems.extend(spec.uuid.and_then(|uuid| taken_uuid(config, &spec.serial, uuid)));
    if spec.role == BOOT_ROLE {
        let mut there = config.machines_in(spec.rack);
        if let Some(other) = there.find(|machine| machine.role == BOOT_ROLE) {
            problems.push(Problem::Boot { rack: spec.rack, other: other.serial.clone() });
        }
    }
    problems
}

/// Whether another machine has this Ethernet address.
pub(super) fn taken_mac(config: &Config, serial: &Serial, mac: MacAddress) -> Option<Problem> {
    let other = config.machines.by.mac.of(mac).find(|machine| machine.serial != *serial)?;
    Some(Problem::Taken { what: format!("MAC address {mac}"), other: other.serial.clone() })
}

/// Whether another machine has this UUID.
pub(super) fn taken_uuid(config: &Config, serial: &Serial, uuid: Uuid) -> Option<Problem> {
    let other = config.machines.by.uuid.of(uuid).find(|machine| machine.serial != *serial)?;
    Some(Problem::Taken { what: format!("UUID {uuid}"), other: other.serial.clone() })
}

/// The fault of the address of a machine's controller, if it is not that of the rules.
pub(super) fn wrong_bmc(config: &Config, machine: &Machine) -> Option<Problem> {
    let ipam = config.ipam.as_ref()?;
    let [address] = machine.bmc.ipv4.as_slice() else { return None };
    if ipam.bmc_address(machine.rack, machine.index_in_rack).as_ref() == Ok(address) {
        return None;
    }
    let wrong =
        |wanted| Some(Problem::Text { field: "bmc ipv4", value: address.to_string(), wanted });
    if [ipam.node_ipv4_pool, ipam.bmc_ipv4_pool].iter().any(|pool| pool.contains(address)) {
        return wrong("outside the pools, whose addresses the rules give");
    }
    if !is_of_a_host(*address) {
        return wrong("the address of a host");
    }
    if config.claimed((*address).into()).is_some() {
        return wrong("one that nobody claims; see `gnt network list-claims`");
    }
    let mut there = config.machines.by.bmc.of(*address);
    let other = there.find(|other| other.serial != machine.serial)?.serial.clone();
    Some(Problem::Taken { what: format!("BMC address {address}"), other })
}

fn is_of_a_host(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    (1..224).contains(&first) && first != 127
}

fn place(
    ipam: &IpamConfig,
    spec: &MachineSpec,
    taken: &BTreeSet<u32>,
    now: Timestamp,
) -> Result<Machine, IpamError> {
    let index = ipam.assign_index(spec.rack, &spec.role, taken)?;
    let by_rules = ipam.bmc_address(spec.rack, index);
    let bmc_ipv6 = spec.bmc.ipv6.or(ipam.bmc_ipv6(spec.rack, index)?);
    Ok(Machine {
        serial: spec.serial.clone(),
        product: spec.product.clone(),
        datacenter: spec.datacenter.clone(),
        rack: spec.rack,
        index_in_rack: index,
        role: spec.role.clone(),
        network: network(ipam, spec.rack, index)?,
        bmc: Bmc {
            kind: spec.bmc.kind.clone(),
            ipv4: vec![spec.bmc.ipv4.map_or(by_rules, Ok)?],
            ipv6: bmc_ipv6.map(|address| vec![address]),
        },
        uuid: spec.uuid,
        mac: spec.mac.clone(),
        mac_told: !spec.mac.is_empty(),
        labels: spec.labels.clone(),
        boot: BootTarget::Local,
        kernel_parameters: Vec::new(),
        interfaces: spec.interfaces.clone(),
        network_template: None,
        register_date: now,
        retire_date: spec.retire_date,
        deployed_by: None,
        life: Life::default(),
        maintenance: None,
    })
}

/// The addresses that the rules give to the interfaces of a machine.
///
/// # Errors
/// The rules have none for this place.
pub(crate) fn network(
    ipam: &IpamConfig,
    rack: u32,
    index: u32,
) -> Result<BTreeMap<String, Addresses>, IpamError> {
    let mut ipv6 = ipam.node_ipv6(rack, index)?.into_iter();
    let ipv4 = ipam.node_addresses(rack, index)?.into_iter();
    let of = |address| Addresses { ipv6: ipv6.next().map(|a| vec![a]), ..Addresses::of(address) };
    Ok(ipv4.map(of).enumerate().map(|(i, a)| (format!("node{i}"), a)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigChange;
    use crate::testing::{NOW, config, spec};

    fn refusal(config: &Config, specs: &[MachineSpec]) -> String {
        register(config, specs, NOW).unwrap_err().to_string()
    }

    fn add(config: &mut Config, specs: &[MachineSpec]) {
        let machines = register(config, specs, NOW).unwrap();
        config.apply(machines.into_iter().map(ConfigChange::Machine));
    }

    #[test]
    fn indices_and_addresses_follow_the_rules() {
        let specs = [spec("b", 1, "boot"), spec("w1", 1, "worker"), spec("w2", 1, "worker")];
        let machines = register(&config(&[]), &specs, NOW).unwrap();
        let indices: Vec<u32> = machines.iter().map(|m| m.index_in_rack).collect();
        assert_eq!(indices, [3, 4, 5]);
        let addresses: Vec<String> =
            machines[2].network.iter().map(|(name, a)| format!("{name} {}", a.ipv4[0])).collect();
        assert_eq!(addresses, ["node0 10.69.0.197", "node1 10.69.1.5", "node2 10.69.1.69"]);
        assert_eq!(machines[2].bmc.ipv4, ["10.72.16.37".parse::<Ipv4Addr>().unwrap()]);
    }

    #[test]
    fn one_wrong_machine_refuses_all() {
        let mut present = config(&[]);
        let mut first = spec("a", 0, "boot");
        first.mac = vec!["52:54:00:00:00:01".parse().unwrap()];
        first.uuid = Some(Uuid::from_u128(5));
        add(&mut present, std::slice::from_ref(&first));
        let taken = MachineSpec { mac: first.mac, ..spec("c", 0, "worker") };
        let same = MachineSpec { uuid: first.uuid, ..spec("c", 0, "worker") };
        let bmc = |address: &str| {
            let mut spec = spec("c", 0, "worker");
            spec.bmc.ipv4 = Some(address.parse().unwrap());
            spec
        };
        for (told, specs) in [
            ("list of machines is empty", vec![]),
            ("'a': it is already registered", vec![spec("b", 0, "worker"), spec("a", 0, "worker")]),
            ("'b': it is given twice", vec![spec("b", 0, "worker"), spec("b", 0, "worker")]),
            ("the boot machine of rack 0 is already registered: 'a'", vec![spec("b", 0, "boot")]),
            ("52:54:00:00:00:01 belongs to 'a'", vec![taken]),
            ("UUID 00000000-0000-0000-0000-000000000005 belongs to 'a'", vec![same]),
            ("rack 341 is beyond", vec![spec("b", 341, "worker")]),
            ("role", vec![spec("b", 0, "-")]),
            ("its serial number is what vendors", vec![spec("Default string", 0, "worker")]),
            ("bmc ipv4 `10.72.16.9` must be outside the pools", vec![bmc("10.72.16.9")]),
            ("bmc ipv4 `224.0.0.1` must be the address of a host", vec![bmc("224.0.0.1")]),
        ] {
            let message = refusal(&present, &specs);
            assert!(message.contains(told), "{told}: {message}");
            assert!(!message.contains("faults"), "{told}: {message}");
        }
        let many: Vec<MachineSpec> = (0..29).map(|n| spec(&format!("w{n}"), 0, "worker")).collect();
        assert!(refusal(&present, &many).contains("rack 0 is full"));
        present.ipam = None;
        assert!(refusal(&present, &[spec("b", 0, "worker")]).contains("gnt ipam set"));
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let mut present = config(&[]);
        add(&mut present, &[spec("a", 0, "boot"), spec("w", 0, "worker")]);
        let specs = [
            spec("a", 0, "Worker"),
            spec("N/A", 0, "worker"),
            spec("b", 0, "boot"),
            spec("b", 341, "worker"),
            spec("c", 1, "boot"),
            spec("d", 1, "boot"),
            spec("fine", 1, "worker"),
        ];
        let told = refusal(&present, &specs);
        let (count, faults) = told.split_once("changed: ").unwrap();
        let mut wanted = [
            "machine 'a': role `Worker` must be in lower case",
            "'N/A': its serial number is what vendors",
            "'b': it is given twice",
            "'d': the boot machine of rack 1 is already registered: 'c'",
            "'a': it is already registered",
            "'b': the boot machine of rack 0 is already registered: 'a'",
            "'b': rack 341 is beyond",
        ]
        .iter();
        assert!(count.contains("7 faults, and nothing was "), "{told}");
        let is_next = |fault: &str| wanted.next().is_some_and(|next| fault.starts_with(next));
        assert!(faults.split("; machine ").all(is_next), "{told}");
        assert_eq!(wanted.next(), None);
        let many: Vec<_> = (0..40).map(|n| spec(&format!("m{n}"), 999, "worker")).collect();
        assert!(refusal(&present, &many).ends_with("; and 20 more"));
    }

    #[test]
    fn a_controller_has_the_address_that_it_is_given() {
        let mut present = config(&[]);
        let given = |serial: &str| {
            let bmc = serde_json::from_str(r#"{"type": "iDRAC-9", "ipv4": "192.0.2.7"}"#).unwrap();
            MachineSpec { bmc, ..spec(serial, 0, "worker") }
        };
        add(&mut present, &[given("a")]);
        let bmc = serde_json::to_value(&present.machines["a"].bmc).unwrap();
        let wanted = serde_json::json!({"type": "iDRAC-9", "ipv4": ["192.0.2.7"], "ipv6": null});
        assert_eq!(bmc, wanted);
        assert!(refusal(&present, &[given("b")]).contains("BMC address 192.0.2.7 belongs to 'a'"));
        let both = refusal(&config(&[]), &[given("b"), given("c")]);
        assert!(both.contains("machine 'c': BMC address 192.0.2.7 belongs to 'b'"), "{both}");
    }

    #[test]
    fn serials_as_vendors_print_them_have_documents_of_their_own() {
        let mut present = config(&[]);
        let serials = ["SN-0001", "SN-0001#ABU", "SN-0001?x", "/5Q4Q7Y1/CN72/", "..CN7204", "a b"];
        let specs = serials.map(|serial| spec(serial, 0, "worker"));
        let machines = register(&present, &specs, NOW).unwrap();
        let changed = present.apply(machines.into_iter().map(ConfigChange::Machine));
        let mut keys: Vec<&str> = changed.documents.keys().map(String::as_str).collect();
        keys.retain(|key| key.starts_with("machines/"));
        let mut wanted = [
            "machines/SN-0001",
            "machines/SN-0001%23ABU",
            "machines/SN-0001%3Fx",
            "machines/%2F5Q4Q7Y1%2FCN72%2F",
            "machines/%2E.CN7204",
            "machines/a%20b",
        ];
        wanted.sort_unstable();
        assert_eq!(keys, wanted);
        for key in keys {
            queue_format::Key::parse(key).unwrap();
        }
    }

    #[test]
    fn a_removed_machines_index_is_given_again() {
        let mut present = config(&[]);
        add(&mut present, &[spec("w1", 0, "worker"), spec("w2", 0, "worker")]);
        let changed = present.apply([ConfigChange::MachineRemoved("w1".parse().unwrap())]);
        let keys: Vec<&str> = changed.documents.keys().map(String::as_str).collect();
        assert_eq!(keys, ["machines/w1", "node-indices/0"]);
        let next = register(&present, &[spec("w3", 0, "worker")], NOW).unwrap();
        assert_eq!(next[0].index_in_rack, 4);
    }
}
