//! Core: what a change makes of a machine.

use model::bmc::Inspection;
use model::error::ErrorCode;
use model::host::link::LinkName;
use model::image::PARAMETERS_MAX;
use model::machine::check::{self, Fault, Problem};
use model::machine::{BOOT_ROLE, Machine};
use model::opcode::{Clearable, MachineSetParams};
use model::{Exception, MacAddress};

use super::register::{refuse, taken_mac, taken_uuid, wrong_bmc};
use crate::config::queue::Decision;
use crate::config::{Config, ConfigChange};
use crate::machines::boot_template::units::fits_templates;
use crate::machines::rack::document::image_of;

/// Cards of a machine with names: a server has a few, and a switch in the inventory some dozens.
const INTERFACES_MAX: usize = 256;

/// The machine as the opcode makes it, and the change, unless it is so already.
pub(super) fn changed(op: &MachineSetParams, config: &Config) -> Decision<Machine> {
    let before = config.machine(&op.serial)?;
    let mut machine = before.as_ref().clone();
    set_labels(op, &mut machine)?;
    set_boot(op, config, &mut machine)?;
    set_macs(op, &mut machine)?;
    set_interfaces(op, &mut machine)?;
    set_inventory(op, config, &mut machine)?;
    let of = |problem| Fault { serial: machine.serial.clone(), problem };
    let problems = problems(config, before, &machine);
    refuse(&problems.into_iter().map(of).collect::<Vec<_>>())?;
    if machine != **before {
        fits_templates(config, &machine)?;
    }
    let change = (machine != **before).then(|| ConfigChange::Machine(machine.clone()));
    let accepted = accepted(op, config, &machine).map(ConfigChange::Inspection);
    Ok((change.into_iter().chain(accepted).collect(), machine))
}

/// The machine's inspection where what changed is accepted.
fn accepted(op: &MachineSetParams, config: &Config, machine: &Machine) -> Option<Inspection> {
    let inspection = config.inspections.get(&machine.serial)?;
    let accepts = op.clear.contains(&Clearable::HardwareChanges);
    (accepts && inspection.changed.is_some()).then(|| inspection.accepted())
}

fn set_labels(op: &MachineSetParams, machine: &mut Machine) -> Result<(), Exception> {
    for (name, value) in &op.labels {
        if let Some(value) = value {
            machine.labels.insert(name.clone(), value.clone());
        } else if machine.labels.remove(name).is_none() {
            let text = format!("Machine '{}' has no label '{name}'", op.serial);
            return Err(Exception::prereq(text, ErrorCode::UnknownEntity));
        }
    }
    Ok(())
}

fn set_interfaces(op: &MachineSetParams, machine: &mut Machine) -> Result<(), Exception> {
    for (name, mac) in &op.interfaces {
        if let Err(why) = LinkName::try_from(name.to_string()) {
            return Err(Exception::prereq(
                format!("interface {name}: {why}"),
                ErrorCode::WrongInput,
            ));
        }
        match mac {
            None => drop(machine.interfaces.remove(name)),
            Some(mac) => drop(machine.interfaces.insert(name.clone(), *mac)),
        }
    }
    let twice =
        |mac: &MacAddress| machine.interfaces.values().filter(|its| *its == mac).count() > 1;
    if let Some((name, mac)) = machine.interfaces.iter().find(|(_name, mac)| twice(mac)) {
        let text =
            format!("interface {name}: {mac} is of two interfaces of machine '{}'", op.serial);
        return Err(Exception::prereq(text, ErrorCode::WrongInput));
    }
    if machine.interfaces.len() > INTERFACES_MAX {
        let text = format!("machine '{}' has at most {INTERFACES_MAX} interfaces", op.serial);
        return Err(Exception::prereq(text, ErrorCode::WrongInput));
    }
    Ok(())
}

fn set_boot(
    op: &MachineSetParams,
    config: &Config,
    machine: &mut Machine,
) -> Result<(), Exception> {
    if let Some(boot) = &op.boot {
        if !boot.is_local() && image_of(config, boot).is_none() {
            let text = format!("Image '{boot}' is not known; `gnt image list` names all");
            return Err(Exception::prereq(text, ErrorCode::UnknownEntity));
        }
        machine.boot = boot.clone();
    }
    if let Some(parameters) = &op.kernel_parameters {
        if parameters.len() > PARAMETERS_MAX {
            let count = parameters.len();
            let text = format!("{count} kernel parameters; at most {PARAMETERS_MAX} are taken");
            return Err(Exception::prereq(text, ErrorCode::WrongInput));
        }
        machine.kernel_parameters = parameters.clone();
    }
    Ok(())
}

fn set_macs(op: &MachineSetParams, machine: &mut Machine) -> Result<(), Exception> {
    for mac in &op.remove_mac {
        let Some(at) = machine.mac.iter().position(|held| held == mac) else {
            let text = format!("Machine '{}' has no MAC address {mac}", op.serial);
            return Err(Exception::prereq(text, ErrorCode::UnknownEntity));
        };
        machine.mac.remove(at);
    }
    for mac in &op.add_mac {
        if !machine.mac.contains(mac) {
            machine.mac.push(*mac);
        }
    }
    if !(op.add_mac.is_empty() && op.remove_mac.is_empty()) {
        machine.mac_told = !machine.mac.is_empty();
    }
    Ok(())
}

fn set_inventory(
    op: &MachineSetParams,
    config: &Config,
    machine: &mut Machine,
) -> Result<(), Exception> {
    for what in &op.clear {
        match what {
            Clearable::Uuid => machine.uuid = None,
            Clearable::BmcType => machine.bmc.kind = None,
            Clearable::BmcIpv4 => {
                let by_rules = config.ipam()?.bmc_address(machine.rack, machine.index_in_rack);
                let wrong = |error: model::ipam::IpamError| {
                    Exception::prereq(error.to_string(), ErrorCode::WrongInput)
                };
                machine.bmc.ipv4 = vec![by_rules.map_err(wrong)?];
            }
            Clearable::BmcIpv6 => machine.bmc.ipv6 = None,
            Clearable::RetireDate => machine.retire_date = None,
            Clearable::Maintenance => machine.maintenance = None,
            // They are of the inspection, which is another document.
            Clearable::HardwareChanges => {}
        }
    }
    let given = |text: &Option<String>, held: &mut String| {
        if let Some(text) = text {
            held.clone_from(text);
        }
    };
    given(&op.role, &mut machine.role);
    given(&op.product, &mut machine.product);
    given(&op.datacenter, &mut machine.datacenter);
    machine.uuid = op.uuid.or(machine.uuid);
    machine.retire_date = op.retire_date.or(machine.retire_date);
    if op.maintenance.is_some() {
        machine.maintenance.clone_from(&op.maintenance);
    }
    if op.bmc_type.is_some() {
        machine.bmc.kind.clone_from(&op.bmc_type);
    }
    if let Some(address) = op.bmc_ipv4 {
        machine.bmc.ipv4 = vec![address];
    }
    if let Some(address) = op.bmc_ipv6 {
        machine.bmc.ipv6 = Some(vec![address]);
    }
    Ok(())
}

/// The faults of the new values of a machine. An unchanged value stays, whatever it is.
fn problems(config: &Config, before: &Machine, after: &Machine) -> Vec<Problem> {
    let mut problems = Vec::new();
    if after.labels != before.labels {
        problems.extend(check::labels(&after.labels));
    }
    if after.role != before.role {
        problems.extend(check::role(&after.role));
        if [&before.role, &after.role].into_iter().any(|role| role == BOOT_ROLE) {
            problems.push(Problem::BootRole);
        }
    }
    if after.product != before.product {
        problems.extend(check::text("product", &after.product));
    }
    if after.maintenance != before.maintenance {
        let note = after.maintenance.as_deref();
        problems.extend(note.and_then(|note| check::text("maintenance", note)));
    }
    if after.datacenter != before.datacenter {
        problems.extend(check::text("datacenter", &after.datacenter));
    }
    let told =
        after.interfaces.iter().filter(|&(name, mac)| before.interfaces.get(name) != Some(mac));
    let told: Vec<MacAddress> = told.map(|(_name, mac)| *mac).collect();
    problems.extend(check::macs(&told));
    problems.extend(told.iter().filter_map(|mac| taken_mac(config, &after.serial, *mac)));
    let added: Vec<_> = after.mac.iter().filter(|mac| !before.mac.contains(mac)).copied().collect();
    if !added.is_empty() {
        problems.extend(check::macs(&after.mac));
        problems.extend(added.iter().filter_map(|mac| taken_mac(config, &after.serial, *mac)));
    }
    if let Some(uuid) = after.uuid.filter(|_| after.uuid != before.uuid) {
        problems.extend(check::uuid(uuid));
        problems.extend(taken_uuid(config, &after.serial, uuid));
    }
    if after.bmc != before.bmc {
        problems.extend(after.bmc.kind.as_deref().and_then(check::bmc_type));
        problems.extend(wrong_bmc(config, after));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::register;
    use super::*;
    use crate::testing::{NOW, config, spec};

    fn with(specs: &[model::machine::MachineSpec]) -> Config {
        let mut present = config(&[]);
        let machines = register(&present, specs, NOW).unwrap();
        present.apply(machines.into_iter().map(ConfigChange::Machine));
        present
    }

    /// How many documents a change of `w1` writes, and the machine then.
    fn set(present: &mut Config, params: &str) -> Result<(usize, Machine), Exception> {
        let op = format!(r#"{{"serial": "w1", {params}}}"#);
        let (changes, machine) = changed(&serde_json::from_str(&op).unwrap(), present)?;
        let documents = present.apply(changes).documents.len();
        assert_eq!(**present.machine("w1")?, machine);
        Ok((documents, machine))
    }

    #[test]
    fn labels_are_set_and_removed() {
        let mut machine = spec("w1", 0, "worker");
        machine.labels = [("zone".to_owned(), "a".to_owned())].into();
        let mut present = with(&[machine]);
        let mut set = |labels: &str| set(&mut present, &format!(r#""labels": {labels}"#));
        let (_, machine) = set(r#"{"gpu": "", "zone": "b"}"#).unwrap();
        assert_eq!(
            machine.labels.into_iter().collect::<Vec<_>>(),
            [("gpu", ""), ("zone", "b")].map(pair)
        );
        assert_eq!(set(r#"{"zone": "b"}"#).unwrap().0, 0, "nothing is new");
        assert_eq!(set(r#"{"zone": null}"#).unwrap().1.labels.len(), 1);
        for (labels, told) in [
            (r#"{"zone": null}"#, "has no label 'zone'"),
            (r#"{"a b": ""}"#, "label `a b` must be"),
        ] {
            let refusal = set(labels).unwrap_err().to_string();
            assert!(refusal.contains(told), "{refusal}");
        }
    }

    fn pair((name, value): (&str, &str)) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn what_is_known_of_a_machine_is_changed() {
        let mut present = with(&[spec("w1", 0, "worker")]);
        let before = present.machine("w1").unwrap().as_ref().clone();
        let (written, after) = set(
            &mut present,
            r#""role": "storage", "product": "R640", "datacenter": "ty4",
               "add_mac": ["5254.0000.0001", "52:54:00:00:00:02"],
               "uuid": "4C4C4544-0042-3510-8052-B4C04F4E4D31", "bmc_type": "iDRAC-9",
               "bmc_ipv4": "192.0.2.1", "bmc_ipv6": "2001:db8::1", "retire_date": [5, 0]"#,
        )
        .unwrap();
        assert_eq!(written, 1);
        let wanted = serde_json::json!({"serial": "w1", "product": "R640", "datacenter": "ty4",
            "rack": 0, "index-in-rack": 4, "role": "storage", "network": before.network,
            "bmc": {"type": "iDRAC-9", "ipv4": ["192.0.2.1"], "ipv6": ["2001:db8::1"]},
            "uuid": "4c4c4544-0042-3510-8052-b4c04f4e4d31",
            "mac": ["52:54:00:00:00:01", "52:54:00:00:00:02"], "mac-told": true,
            "register-date": before.register_date, "retire-date": [5, 0]});
        assert_eq!(serde_json::to_value(&after).unwrap(), wanted);
        let (_, last) = set(
            &mut present,
            r#""remove_mac": ["52:54:00:00:00:01"], "role": "worker", "product": "", "datacenter": "",
               "clear": ["uuid", "bmc-type", "bmc-ipv4", "bmc-ipv6", "retire-date"]"#,
        )
        .unwrap();
        let mac = vec!["52:54:00:00:00:02".parse().unwrap()];
        assert_eq!(last, Machine { mac, mac_told: true, ..before });
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut other = spec("w2", 0, "worker");
        other.mac = vec!["52:54:00:00:00:02".parse().unwrap()];
        other.uuid = Some(model::Uuid::from_u128(7));
        other.bmc.ipv4 = Some("192.0.2.2".parse().unwrap());
        let mut present = with(&[spec("b", 0, "boot"), spec("w1", 0, "worker"), other]);
        for (params, told) in [
            (r#""role": "Boot""#, "write `boot`"),
            (r#""role": "boot""#, "another index"),
            (r#""product": "a\n""#, "product `a\n` must"),
            (r#""add_mac": ["52:54:00:00:00:02"]"#, "52:54:00:00:00:02 belongs to 'w2'"),
            (r#""add_mac": ["01:54:00:00:00:02"]"#, "is a multicast address"),
            (r#""remove_mac": ["52:54:00:00:00:02"]"#, "has no MAC address 52:54:00:00:00:02"),
            (r#""uuid": "00000000-0000-0000-0000-000000000007""#, "belongs to 'w2'"),
            (r#""uuid": "00000000-0000-0000-0000-000000000000""#, "leave it out"),
            (r#""bmc_ipv4": "192.0.2.2""#, "BMC address 192.0.2.2 belongs to 'w2'"),
            (r#""bmc_ipv4": "10.72.16.5""#, "must be outside the pools"),
            (r#""bmc_type": "-""#, "bmc type `-` must"),
            (
                r#""role": "A", "bmc_type": "-""#,
                "2 faults, and nothing was changed: machine 'w1': ",
            ),
        ] {
            let refusal = set(&mut present, params).unwrap_err().to_string();
            assert!(refusal.contains(told), "{told}: {refusal}");
        }
        let op = serde_json::from_str(r#"{"serial": "b", "role": "worker"}"#).unwrap();
        assert!(changed(&op, &present).unwrap_err().to_string().contains("another index"));
    }
}
