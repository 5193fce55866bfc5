//! `gnt instance modify`, and the verbs on disks.

use clap::Args;
use model::opcode::instance::disks::RecreatedDisk;
use model::opcode::instance::{DeviceChange, DeviceVerb, DiskIndex, Mib, StartOrder, Told};
use model::opcode::{InstanceGrowDisk, InstanceRecreateDisks, InstanceSetParams, OpCode};
use serde_json::Value;

use crate::error::CliError;
use crate::node::{YesNo, truth};
use crate::output::say;
use crate::parameters::{Named, keys, named, system_keys};
use crate::python;
use crate::session::Session;
use crate::submit::{JobArguments, nothing_given};

/// Arguments of `modify`.
#[derive(Debug, Args)]
pub(crate) struct ModifyArguments {
    /// The instance.
    name: String,
    /// Parameters of its hypervisor; `-NAME` has the default again.
    #[arg(short = 'H', long, value_name = "NAME=VALUE,...", value_parser = keys)]
    hypervisor_parameters: Option<Told>,
    /// Backend parameters, as `memory=1G,vcpus=2`.
    #[arg(short = 'B', long, value_name = "NAME=VALUE,...", value_parser = keys)]
    backend_parameters: Option<Told>,
    /// Parameters of its operating system; a value `@FILE` is read from a file.
    #[arg(short = 'O', long, value_name = "NAME=VALUE,...", value_parser = system_keys)]
    os_parameters: Option<Told>,
    /// Another operating system, of which nothing is installed.
    #[arg(short = 'o', long, value_name = "NAME")]
    os_type: Option<String>,
    /// Take a variant that the operating system does not list.
    #[arg(long)]
    force_variant: bool,
    /// A disk: `add:size=4G`, `N:add,size=4G`, `N:mode=ro`, `NAME:remove`; may be given several times.
    #[arg(long = "disk", value_name = "WHICH:WHAT,...", value_parser = named)]
    disks: Vec<Named>,
    /// A network interface: `add:link=br0`, `N:ip=none`, `N:remove`; may be given several times.
    #[arg(long = "net", value_name = "WHICH:WHAT,...", value_parser = named)]
    nics: Vec<Named>,
    /// Memory that its running guest has from now on.
    #[arg(short = 'm', long, value_name = "SIZE", value_parser = size)]
    runtime_memory: Option<Mib>,
    /// Mark it offline: it takes no memory of its node.
    #[arg(long, group = "mark")]
    offline: bool,
    /// Mark it as down, where it is offline.
    #[arg(long, group = "mark")]
    online: bool,
    /// Another node, where its record is wrong.
    #[arg(long, value_name = "NODE")]
    new_primary: Option<String>,
    /// Refuse its removal, or allow it.
    #[arg(long, value_name = "yes|no", hide_possible_values = true)]
    protected: Option<YesNo>,
    /// Its place among those that a node starts after its boot; the least is first.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    start_order: Option<i32>,
    /// Another template for its disks.
    #[arg(short = 't', long, value_name = "TEMPLATE")]
    disk_template: Option<String>,
    /// Take addresses that are of networks which its interfaces are not in.
    #[arg(long)]
    no_conflicts_check: bool,
    /// Let it break the limits of its group.
    #[arg(long)]
    ignore_ipolicy: bool,
    /// Do not look whether its node takes the parameters, and has room.
    #[arg(short, long)]
    force: bool,
    /// Refuse the change unless disks and NICs can be plugged into the running instance, and out of it.
    #[arg(long)]
    hotplug: bool,
    /// Plug whatever changes if it runs. Without this, only what comes and NICs that leave are plugged.
    #[arg(long)]
    hotplug_if_possible: bool,
    /// Let disks and NICs change with its next start alone.
    #[arg(long, conflicts_with_all = ["hotplug", "hotplug_if_possible"])]
    no_hotplug: bool,
    /// Do not wait until its disks are in step.
    #[arg(long)]
    no_wait_for_sync: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// A size as Ganeti's command line takes it.
pub(crate) fn size(text: &str) -> Result<Mib, String> {
    let mib = model::instance::parameters::mib(text).and_then(|mib| u64::try_from(mib).ok());
    mib.map(Mib).ok_or_else(|| "write a number of MiB, or one such as 4G".to_owned())
}

/// Changes of devices, in Ganeti's forms.
fn changes(devices: Vec<Named>) -> Result<Vec<DeviceChange>, CliError> {
    const VERBS: [(&str, DeviceVerb); 5] = [
        ("add", DeviceVerb::Add),
        ("attach", DeviceVerb::Attach),
        ("modify", DeviceVerb::Modify),
        ("detach", DeviceVerb::Detach),
        ("remove", DeviceVerb::Remove),
    ];
    let mut changes = Vec::new();
    for (which, mut told) in devices {
        let last = Value::from(-1);
        if let Some((_, verb)) = VERBS.iter().find(|(word, _)| *word == which) {
            changes.push(DeviceChange(*verb, last, told));
            continue;
        }
        let named: Vec<DeviceVerb> = VERBS
            .iter()
            .filter(|(word, _)| told.remove(*word).is_some())
            .map(|(_, verb)| *verb)
            .collect();
        let verb = match named.as_slice() {
            [] => DeviceVerb::Modify,
            [verb] => *verb,
            _ => {
                let text = format!("{which}: say one of add, attach, modify, detach and remove");
                return Err(CliError::Usage(text));
            }
        };
        let which = which.parse::<i64>().map_or_else(|_name| Value::from(which), Value::from);
        changes.push(DeviceChange(verb, which, told));
    }
    Ok(changes)
}

impl ModifyArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), CliError> {
        let job = self.job.clone();
        let name = self.name.clone();
        let Some(op) = self.op()? else {
            return Err(nothing_given::<Self>(session)?);
        };
        let told = job.run(OpCode::InstanceSetParams(op), session)?;
        let Some(changes) = told.as_ref().and_then(Value::as_array) else { return Ok(()) };
        if changes.is_empty() {
            return Ok(());
        }
        say(format_args!("Modified instance {name}"))?;
        for change in changes {
            let of = |at: usize| python::text(change.get(at).unwrap_or(&Value::Null));
            say(format_args!(" - {:<5} -> {}", of(0), of(1)))?;
        }
        Ok(())
    }

    /// The opcode; none where nothing is changed.
    fn op(self) -> Result<Option<InstanceSetParams>, CliError> {
        let given = [
            self.hypervisor_parameters.is_some(),
            self.backend_parameters.is_some(),
            self.os_parameters.is_some(),
            self.os_type.is_some(),
            !self.disks.is_empty(),
            !self.nics.is_empty(),
            self.runtime_memory.is_some(),
            self.offline,
            self.online,
            self.new_primary.is_some(),
            self.protected.is_some(),
            self.start_order.is_some(),
            self.disk_template.is_some(),
        ];
        if !given.contains(&true) {
            return Ok(None);
        }
        let offline = match (self.offline, self.online) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        };
        let (nics, disks) = (changes(self.nics)?, changes(self.disks)?);
        // A NIC that changes is gone for a moment, and a disk that leaves takes its data along.
        let is_delicate = nics.iter().any(|change| change.0 == DeviceVerb::Modify)
            || disks
                .iter()
                .any(|change| matches!(change.0, DeviceVerb::Remove | DeviceVerb::Detach));
        let hotplug_if_possible =
            self.hotplug_if_possible || !(self.no_hotplug || self.hotplug || is_delicate);
        Ok(Some(InstanceSetParams {
            instance_name: self.name,
            instance_uuid: None,
            force: self.force,
            force_variant: self.force_variant,
            ignore_ipolicy: self.ignore_ipolicy,
            nics,
            disks,
            beparams: self.backend_parameters.unwrap_or_default(),
            runtime_mem: self.runtime_memory,
            hvparams: self.hypervisor_parameters.unwrap_or_default(),
            disk_template: self.disk_template,
            ext_params: Told::new(),
            file_driver: None,
            file_storage_dir: None,
            pnode: self.new_primary,
            pnode_uuid: None,
            remote_node: None,
            remote_node_uuid: None,
            iallocator: None,
            os_name: self.os_type,
            osparams: self.os_parameters.unwrap_or_default(),
            osparams_private: model::opcode::instance::Withheld,
            wait_for_sync: !self.no_wait_for_sync,
            offline,
            conflicts_check: !self.no_conflicts_check,
            hotplug: self.hotplug,
            hotplug_if_possible,
            instance_communication: None,
            protected: truth(self.protected),
            start_order: self.start_order.map(StartOrder),
        }))
    }
}

/// Arguments of `grow-disk`.
#[derive(Debug, Args)]
pub(crate) struct GrowArguments {
    /// The instance.
    name: String,
    /// The number of its disk.
    disk: usize,
    /// How much larger it becomes, as `4G`.
    #[arg(value_parser = size)]
    size: Mib,
    /// The size is the new one.
    #[arg(long)]
    absolute: bool,
    /// Let it break the limits of its group.
    #[arg(long)]
    ignore_ipolicy: bool,
    /// Do not wait until its copies are in step.
    #[arg(long)]
    no_wait_for_sync: bool,
    #[command(flatten)]
    job: JobArguments,
}

impl GrowArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), CliError> {
        let op = InstanceGrowDisk {
            instance_name: self.name,
            instance_uuid: None,
            disk: DiskIndex(self.disk),
            amount: self.size,
            absolute: self.absolute,
            wait_for_sync: !self.no_wait_for_sync,
            ignore_ipolicy: self.ignore_ipolicy,
        };
        self.job.run(OpCode::InstanceGrowDisk(op), session).map(drop)
    }
}

/// Arguments of `recreate-disks`.
#[derive(Debug, Args)]
pub(crate) struct RecreateArguments {
    /// The instance.
    name: String,
    /// The number of a disk; may be given several times. All of them without it.
    #[arg(long = "disk", value_name = "N")]
    disks: Vec<usize>,
    #[command(flatten)]
    job: JobArguments,
}

impl RecreateArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), CliError> {
        let disk = |number| RecreatedDisk::Index(DiskIndex(number));
        let op = InstanceRecreateDisks {
            instance_name: self.name,
            instance_uuid: None,
            disks: self.disks.into_iter().map(disk).collect(),
            nodes: Vec::new(),
            node_uuids: None,
            iallocator: None,
        };
        self.job.run(OpCode::InstanceRecreateDisks(op), session).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_devices_are_read_as_ganeti_reads_them() {
        let read = |text: &str| {
            let changes = changes(vec![named(text).unwrap()]);
            changes.map(|changes| serde_json::to_string(&changes[0]).unwrap()).ok()
        };
        for (text, wanted) in [
            ("add:size=4G", r#"["add",-1,{"size":"4G"}]"#),
            ("2:add,size=4G", r#"["add",2,{"size":"4G"}]"#),
            ("0:mode=ro", r#"["modify",0,{"mode":"ro"}]"#),
            ("data:remove", r#"["remove","data",{}]"#),
            ("remove", r#"["remove",-1,{}]"#),
        ] {
            assert_eq!(read(text), Some(wanted.to_owned()), "{text}");
        }
        assert_eq!(read("0:add,remove"), None);
    }
}
