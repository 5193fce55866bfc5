//! Settings for instances, as `gnt cluster modify` takes them: Ganeti's options and their forms.

use clap::Args;
use model::instance::settings::Told;
use model::opcode::ClusterSetParams;

use crate::node::{YesNo, truth};
use crate::parameters::{Named, PolicyArguments, by_name, keys, named};

/// Options about instances.
#[derive(Debug, Args)]
pub(crate) struct InstanceArguments {
    /// Hypervisors that instances may have, the usual one first: kvm, xen-pvm, xen-hvm, fake.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = INSTANCES)]
    enabled_hypervisors: Vec<String>,
    /// Parameters of a hypervisor, as `kvm:acpi=yes,kernel_args=ro`; `-NAME` gives one its default again.
    #[arg(short = 'H', long, value_name = "HYPERVISOR:NAME=VALUE,...", value_parser = named, help_heading = INSTANCES)]
    hypervisor_parameters: Vec<Named>,
    /// Backend parameters, as `memory=1G,vcpus=2`.
    #[arg(short = 'B', long, value_name = "NAME=VALUE,...", value_parser = keys, help_heading = INSTANCES)]
    backend_parameters: Option<Told>,
    /// Parameters of NICs, as `mode=bridged,link=br0`.
    #[arg(short = 'N', long, value_name = "NAME=VALUE,...", value_parser = keys, help_heading = INSTANCES)]
    nic_parameters: Option<Told>,
    /// Parameters of nodes, as `ssh_port=22`.
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = keys, help_heading = INSTANCES)]
    node_parameters: Option<Told>,
    /// Parameters of disks, as `drbd:resync-rate=61440`.
    #[arg(short = 'D', long, value_name = "TEMPLATE:NAME=VALUE,...", value_parser = named, help_heading = INSTANCES)]
    disk_parameters: Vec<Named>,
    /// Disk templates that instances may have.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = INSTANCES)]
    enabled_disk_templates: Vec<String>,
    /// The volume group of LVM; nothing for none.
    #[arg(long, value_name = "NAME", help_heading = INSTANCES)]
    vg_name: Option<String>,
    /// The program that DRBD's module calls; nothing for none.
    #[arg(long, value_name = "FILE", help_heading = INSTANCES)]
    drbd_usermode_helper: Option<String>,
    /// The directory of disks that are files.
    #[arg(long, value_name = "DIR", help_heading = INSTANCES)]
    file_storage_dir: Option<String>,
    /// The same on storage that all nodes share.
    #[arg(long, value_name = "DIR", help_heading = INSTANCES)]
    shared_file_storage_dir: Option<String>,
    /// The program that places instances; nothing for the built-in one.
    #[arg(short = 'I', long, value_name = "NAME", help_heading = INSTANCES)]
    default_iallocator: Option<String>,
    /// Users for processes of instances, as `2000-2999,5000`.
    #[arg(long, value_name = "RANGES", value_parser = ranges, help_heading = INSTANCES)]
    uid_pool: Option<Ranges>,
    /// Further ranges of such users.
    #[arg(long, value_name = "RANGES", value_parser = ranges, help_heading = INSTANCES)]
    add_uids: Option<Ranges>,
    /// Ranges that are such no more.
    #[arg(long, value_name = "RANGES", value_parser = ranges, help_heading = INSTANCES)]
    remove_uids: Option<Ranges>,
    /// Volumes that are nobody's business, as regular expressions; nothing for none.
    #[arg(long, value_name = "PATTERN,...", help_heading = INSTANCES)]
    reserved_lvs: Option<String>,
    /// Whether new disks are wiped.
    #[arg(long, value_name = "yes|no", hide_possible_values = true, help_heading = INSTANCES)]
    prealloc_wipe_disks: Option<YesNo>,
    /// Whether an instance that its own user shuts down stays so.
    #[arg(long, value_name = "yes|no", hide_possible_values = true, help_heading = INSTANCES)]
    user_shutdown: Option<YesNo>,
    #[command(flatten)]
    policy: PolicyArguments,
}

const INSTANCES: &str = "Instances";

impl InstanceArguments {
    /// Puts what was given into an opcode.
    pub(super) fn told(self, op: &mut ClusterSetParams) {
        let some = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
        op.enabled_hypervisors = some(self.enabled_hypervisors).map(Box::new);
        op.hvparams = by_name(self.hypervisor_parameters).map(Box::new);
        op.beparams = self.backend_parameters.map(Box::new);
        op.nicparams = self.nic_parameters.map(Box::new);
        op.ndparams = self.node_parameters.map(Box::new);
        op.diskparams = by_name(self.disk_parameters).map(Box::new);
        op.enabled_disk_templates = some(self.enabled_disk_templates).map(Box::new);
        op.vg_name = self.vg_name.map(Box::new);
        op.drbd_helper = self.drbd_usermode_helper.map(Box::new);
        op.file_storage_dir = self.file_storage_dir.map(Box::new);
        op.shared_file_storage_dir = self.shared_file_storage_dir.map(Box::new);
        op.default_iallocator = self.default_iallocator.map(Box::new);
        op.uid_pool = self.uid_pool.map(|Ranges(all)| all).map(Box::new);
        op.add_uids = self.add_uids.map(|Ranges(all)| all).map(Box::new);
        op.remove_uids = self.remove_uids.map(|Ranges(all)| all).map(Box::new);
        op.reserved_lvs = self
            .reserved_lvs
            .map(|text| {
                text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
            })
            .map(Box::new);
        op.prealloc_wipe_disks = truth(self.prealloc_wipe_disks);
        op.enabled_user_shutdown = truth(self.user_shutdown);
        op.ipolicy = self.policy.told().map(Box::new);
    }
}

/// Ranges of users.
#[derive(Debug, Clone)]
pub(crate) struct Ranges(Vec<(u32, u32)>);

fn ranges(text: &str) -> Result<Ranges, String> {
    let one = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let number = |text: &str| {
            text.trim().parse::<u32>().map_err(|_none| format!("`{word}` is no range of users"))
        };
        Ok((number(first)?, number(last)?))
    };
    let words = text.split(',').filter(|word| !word.is_empty());
    words.map(one).collect::<Result<_, String>>().map(Ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_users() {
        assert_eq!(ranges("5-9,12").unwrap().0, [(5, 9), (12, 12)]);
        assert!(ranges("a-b").is_err());
    }
}
