//! Opcodes on the inventory of machines.

use std::collections::{BTreeMap, BTreeSet};

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::image::{BootTarget, PARAMETERS_MAX};
use model::ipam::{IpamConfig, IpamError};
use model::machine::{Addresses, Machine, MachineSpec, check_labels};
use model::opcode::{MachineAdd, MachineRemove, MachineSetParams};
use model::{Exception, MacAddress, Serial, Timestamp};

use super::image::distribute;
use super::{Context, Failure, LogicalUnit, Wanted, rack};
use crate::config::{Config, ConfigChange};
use crate::queue::Decision;
use crate::rack_document::image_of;

/// Machines of one registration: a large hall, and one commit.
const MACHINES_MAX: usize = 10_000;

/// Machines that a registration's log names one by one: two racks full.
const MACHINES_TOLD_MAX: usize = 64;

impl LogicalUnit for MachineAdd {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Machine {
            return Ok(Vec::new());
        }
        let serials: BTreeSet<&Serial> = self.machines.iter().map(|spec| &spec.serial).collect();
        let lock = |serial: &Serial| LockName::member(Level::Machine, serial.as_str());
        Ok(serials.into_iter().map(|serial| (lock(serial), Mode::Exclusive)).collect())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        register(&context.config(), &self.machines, now)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Vec<Machine>, Failure> {
        let now = context.now();
        let specs = self.machines;
        let racks: BTreeSet<u32> = specs.iter().map(|spec| spec.rack).collect();
        let machines = context
            .transact(move |config| {
                let machines = register(config, &specs, now)?;
                let changes = machines.iter().cloned().map(ConfigChange::Machine).collect();
                Ok((changes, machines))
            })
            .await?;
        for machine in machines.iter().take(MACHINES_TOLD_MAX) {
            let address = machine.network.values().flat_map(|a| &a.ipv4).next();
            let address = address.map_or_else(|| "-".to_owned(), ToString::to_string);
            let (serial, rack, index) = (&machine.serial, machine.rack, machine.index_in_rack);
            context.say(format!("{serial}: rack {rack}, index {index}, {address}")).await;
        }
        if let Some(more) = machines.len().checked_sub(MACHINES_TOLD_MAX).filter(|&more| more > 0) {
            context.say(format!("and {more} more machines; the result has all of them")).await;
        }
        rack::push(context, &racks).await?;
        Ok(machines)
    }
}

/// What a registration makes of the configuration: every machine with its index and addresses, or
/// the first reason against it.
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
    let mut serials = BTreeSet::new();
    let mut macs: BTreeMap<MacAddress, &Serial> = BTreeMap::new();
    let mut taken: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut machines = Vec::with_capacity(specs.len());
    for spec in specs {
        spec.validate().map_err(|error| wrong(error.to_string()))?;
        let exists = |text: String| Exception::prereq(text, ErrorCode::AlreadyExists);
        if config.machines.contains_key(&spec.serial) {
            return Err(exists(format!("Machine '{}' is already registered", spec.serial)));
        }
        if !serials.insert(&spec.serial) {
            return Err(exists(format!("Machine '{}' is given twice", spec.serial)));
        }
        for mac in &spec.mac {
            let there = config.machine_of(*mac).map(|machine| &machine.serial);
            if let Some(other) = macs.insert(*mac, &spec.serial).or(there) {
                let serial = &spec.serial;
                return Err(exists(format!("{mac} of machine '{serial}' belongs to '{other}'")));
            }
        }
        let taken = taken.entry(spec.rack).or_insert_with(|| config.indices_in(spec.rack));
        let machine =
            place(ipam, spec, taken, now).map_err(|error| ipam_failure(&spec.serial, &error))?;
        taken.insert(machine.index_in_rack);
        machines.push(machine);
    }
    Ok(machines)
}

fn place(
    ipam: &IpamConfig,
    spec: &MachineSpec,
    taken: &BTreeSet<u32>,
    now: Timestamp,
) -> Result<Machine, IpamError> {
    let index = ipam.assign_index(spec.rack, &spec.role, taken)?;
    let addresses = ipam.node_addresses(spec.rack, index)?;
    let network = addresses.into_iter().enumerate();
    Ok(Machine {
        serial: spec.serial.clone(),
        product: spec.product.clone(),
        datacenter: spec.datacenter.clone(),
        rack: spec.rack,
        index_in_rack: index,
        role: spec.role.clone(),
        network: network.map(|(i, a)| (format!("node{i}"), Addresses::of(a))).collect(),
        bmc: Addresses::of(ipam.bmc_address(spec.rack, index)?),
        mac: spec.mac.clone(),
        labels: spec.labels.clone(),
        boot: BootTarget::Local,
        kernel_parameters: Vec::new(),
        register_date: now,
    })
}

fn ipam_failure(serial: &Serial, error: &IpamError) -> Exception {
    let code = match error {
        IpamError::BootTaken { .. } => ErrorCode::AlreadyExists,
        IpamError::RackFull { .. } => ErrorCode::InsufficientResources,
        _ => ErrorCode::WrongInput,
    };
    Exception::prereq(format!("machine '{serial}': {error}"), code)
}

/// The lock of one machine.
fn lock_of(serial: &str, level: Level, config: &Config) -> Result<Wanted, Exception> {
    if level != Level::Machine {
        return Ok(Vec::new());
    }
    let machine = config.machine(serial)?;
    let lock = LockName::member(Level::Machine, machine.serial.as_str());
    Ok(vec![(lock, Mode::Exclusive)])
}

impl LogicalUnit for MachineSetParams {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        changed(self, &context.config())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Machine, Failure> {
        let config = context.config();
        let (_, after) = changed(&self, &config)?;
        let before = config.machine(&self.serial)?;
        let boots_anew =
            (&before.boot, &before.kernel_parameters) != (&after.boot, &after.kernel_parameters);
        let image = image_of(&config, &after.boot).filter(|_| boots_anew);
        if let Some(image) = image {
            // The agents have its files before their document names them.
            let agents: Vec<_> = config.agents_of(after.rack).cloned().collect();
            let blobs: Vec<_> = image.files.blobs().collect();
            distribute(context, &agents, &blobs, None).await?;
        }
        let machine = context.transact(move |config| changed(&self, config)).await?;
        if boots_anew {
            rack::push(context, &BTreeSet::from([machine.rack])).await?;
        }
        Ok(machine)
    }
}

/// The machine as the opcode makes it, and the change, unless it is so already.
fn changed(op: &MachineSetParams, config: &Config) -> Decision<Machine> {
    let before = config.machine(&op.serial)?;
    let mut machine = before.as_ref().clone();
    for (name, value) in &op.labels {
        if let Some(value) = value {
            machine.labels.insert(name.clone(), value.clone());
        } else if machine.labels.remove(name).is_none() {
            let text = format!("Machine '{}' has no label '{name}'", op.serial);
            return Err(Exception::prereq(text, ErrorCode::UnknownEntity));
        }
    }
    check_labels(&machine.serial, &machine.labels)
        .map_err(|error| Exception::prereq(error.to_string(), ErrorCode::WrongInput))?;
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
    let change = (machine != **before).then(|| ConfigChange::Machine(machine.clone()));
    Ok((change.into_iter().collect(), machine))
}

impl LogicalUnit for MachineRemove {
    type Plan = (Serial, u32);

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(Serial, u32), Failure> {
        let config = context.config();
        let machine = config.machine(&self.serial)?;
        Ok((machine.serial.clone(), machine.rack))
    }

    async fn exec(
        self,
        (serial, rack): (Serial, u32),
        context: &mut Context,
    ) -> Result<(), Failure> {
        context
            .transact(move |config| {
                config.machine(serial.as_str())?;
                Ok((vec![ConfigChange::MachineRemoved(serial)], ()))
            })
            .await?;
        rack::push(context, &BTreeSet::from([rack])).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, config, spec};

    fn refusal(config: &Config, specs: &[MachineSpec]) -> String {
        register(config, specs, NOW).unwrap_err().to_string()
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
        assert_eq!(machines[2].bmc.ipv4, ["10.72.16.37".parse::<std::net::Ipv4Addr>().unwrap()]);
    }

    #[test]
    fn one_wrong_machine_refuses_all() {
        let mut present = config(&[]);
        let mut first = spec("a", 0, "boot");
        first.mac = vec!["52:54:00:00:00:01".parse().unwrap()];
        let machines = register(&present, std::slice::from_ref(&first), NOW).unwrap();
        present.apply(machines.into_iter().map(ConfigChange::Machine));
        let mut taken = spec("c", 0, "worker");
        taken.mac = first.mac.clone();
        for (told, specs) in [
            ("list of machines is empty", vec![]),
            ("'a' is already registered", vec![spec("b", 0, "worker"), spec("a", 0, "worker")]),
            ("'b' is given twice", vec![spec("b", 0, "worker"), spec("b", 0, "worker")]),
            ("boot machine of rack 0", vec![spec("b", 0, "boot")]),
            ("belongs to 'a'", vec![taken]),
            ("rack 341 is beyond", vec![spec("b", 341, "worker")]),
            ("role", vec![spec("b", 0, "-")]),
        ] {
            let message = refusal(&present, &specs);
            assert!(message.contains(told), "{told}: {message}");
        }
        let many: Vec<MachineSpec> = (0..29).map(|n| spec(&format!("w{n}"), 0, "worker")).collect();
        assert!(refusal(&present, &many).contains("rack 0 is full"));
        present.ipam = None;
        assert!(refusal(&present, &[spec("b", 0, "worker")]).contains("gnt ipam set"));
    }

    #[test]
    fn a_removed_machines_index_is_given_again() {
        let mut present = config(&[]);
        let specs = [spec("w1", 0, "worker"), spec("w2", 0, "worker")];
        let machines = register(&present, &specs, NOW).unwrap();
        present.apply(machines.into_iter().map(ConfigChange::Machine));
        let changed = present.apply([ConfigChange::MachineRemoved("w1".parse().unwrap())]);
        let keys: Vec<&str> = changed.documents.keys().map(String::as_str).collect();
        assert_eq!(keys, ["machines/w1", "node-indices/0"]);
        let next = register(&present, &[spec("w3", 0, "worker")], NOW).unwrap();
        assert_eq!(next[0].index_in_rack, 4);
    }

    #[test]
    fn labels_are_set_and_removed() {
        let mut present = config(&[]);
        let mut machine = spec("w1", 0, "worker");
        machine.labels = [("zone".to_owned(), "a".to_owned())].into();
        let machines = register(&present, &[machine], NOW).unwrap();
        present.apply(machines.into_iter().map(ConfigChange::Machine));
        let mut set = |labels: &str| {
            let op = format!(r#"{{"serial": "w1", "labels": {labels}}}"#);
            let (changes, machine) = changed(&serde_json::from_str(&op).unwrap(), &present)?;
            let documents = present.apply(changes).documents.len();
            assert_eq!(**present.machine("w1")?, machine);
            Ok::<_, Exception>((documents, machine.labels))
        };
        let (_, labels) = set(r#"{"gpu": "", "zone": "b"}"#).unwrap();
        assert_eq!(labels.into_iter().collect::<Vec<_>>(), [("gpu", ""), ("zone", "b")].map(pair));
        assert_eq!(set(r#"{"zone": "b"}"#).unwrap().0, 0, "nothing is new");
        assert_eq!(set(r#"{"zone": null}"#).unwrap().1.len(), 1);
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
}
