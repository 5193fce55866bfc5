//! Core: what `QueryClusterInfo` and `OP_CLUSTER_QUERY` tell, with every key that Ganeti's clients
//! look for.

use std::collections::BTreeMap;

use model::instance::parameters::DISK_TEMPLATES;
use model::instance::{InstanceSettings, Parameters};
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::units::list::seconds;

/// Version of Ganeti's configuration whose shape this is; its clients compare it.
pub(super) const CONFIG_VERSION: u64 = 3_000_000;
/// Version of the interface of scripts that install operating systems.
pub(super) const OS_API_VERSION: u32 = 20;
/// Version of exports.
pub(super) const EXPORT_VERSION: u32 = 0;
/// Ganeti's data collectors, none of which runs here.
const COLLECTORS: &[&str] =
    &["cpu-avg-load", "diskstats", "drbd", "inst-status-xen", "lv", "xen-cpu-avg-load"];
/// How often they would, in microseconds.
const COLLECTOR_INTERVAL_US: u32 = 5_000_000;

/// Version of this program in a form that cannot be taken for Ganeti's.
pub(super) fn vcs_version() -> String {
    format!("gantry {}", env!("CARGO_PKG_VERSION"))
}

/// Bits and processor of this machine, in the words of Ganeti's luxid.
pub(super) fn architecture() -> Value {
    json!(["64bits", std::env::consts::ARCH])
}

/// The cluster as a dictionary.
pub fn describe(config: &Config) -> Value {
    let cluster = &config.cluster;
    let mut info = unused();
    let known = json!({
        "software_version": env!("CARGO_PKG_VERSION"),
        "protocol_version": CONFIG_VERSION,
        "config_version": CONFIG_VERSION,
        "os_api_version": OS_API_VERSION,
        "export_version": EXPORT_VERSION,
        "vcs_version": vcs_version(),
        "architecture": architecture(),
        "name": cluster.cluster_name,
        "master": config.role.master,
        "candidate_pool_size": cluster.candidate_pool_size,
        "max_running_jobs": cluster.max_running_jobs,
        "max_tracked_jobs": cluster.max_tracked_jobs,
        "mac_prefix": cluster.mac_prefix,
        "master_ip": cluster.master_ip,
        "master_netdev": cluster.master_netdev.as_deref().unwrap_or(""),
        "master_netmask": cluster.master_netmask.unwrap_or(match cluster.master_ip {
            Some(address) if address.is_ipv6() => 128,
            Some(_) | None => 32,
        }),
        "auto_failover": cluster.auto_failover,
        "mend_network": cluster.mend_network,
        "silence_deadline": cluster.silence_deadline,
        "ramdisk_image": cluster.ramdisk_image.as_ref().map(ToString::to_string),
        "kernel_parameters": config.kernel.as_deref().cloned().unwrap_or_default(),
        "ctime": seconds(cluster.ctime),
        "mtime": seconds(cluster.mtime),
        "uuid": cluster.uuid,
        "tags": cluster.tags,
    });
    for further in [known, of_instances(&config.instance_settings())] {
        if let (Value::Object(info), Value::Object(further)) = (&mut info, further) {
            info.extend(further);
        }
    }
    info
}

/// Parameters of disks by template, filled.
pub(crate) fn templates(settings: &InstanceSettings) -> BTreeMap<&'static str, Parameters> {
    DISK_TEMPLATES.iter().map(|(name, _)| (*name, settings.template(name))).collect()
}

/// What is set for instances.
fn of_instances(settings: &InstanceSettings) -> Value {
    let by_name = |names: &[String], of: &dyn Fn(&str) -> Parameters| -> Map<String, Value> {
        names.iter().map(|name| (name.clone(), json!(of(name)))).collect()
    };
    let hypervisors = &settings.enabled_hypervisors;
    json!({
        "default_hypervisor": hypervisors.first(),
        "enabled_hypervisors": hypervisors,
        "hvparams": by_name(hypervisors, &|name| settings.hypervisor(name)),
        "os_hvp": settings.os_hvp,
        "beparams": {"default": settings.backend()},
        "osparams": settings.osparams,
        "ipolicy": settings.ipolicy,
        "nicparams": {"default": settings.nic()},
        "ndparams": settings.node(),
        "diskparams": templates(settings),
        "volume_group_name": settings.volume_group_name,
        "drbd_usermode_helper": settings.drbd_usermode_helper,
        "file_storage_dir": settings.file_storage_dir,
        "shared_file_storage_dir": settings.shared_file_storage_dir,
        "gluster_storage_dir": settings.gluster_storage_dir,
        "maintain_node_health": settings.maintain_node_health,
        "uid_pool": settings.uid_pool,
        "default_iallocator": settings.default_iallocator,
        "default_iallocator_params": settings.default_iallocator_params,
        "reserved_lvs": settings.reserved_lvs,
        "prealloc_wipe_disks": settings.prealloc_wipe_disks,
        "hidden_os": settings.hidden_os,
        "blacklisted_os": settings.blacklisted_os,
        "enabled_disk_templates": settings.enabled_disk_templates,
        "enabled_user_shutdown": settings.enabled_user_shutdown,
    })
}

/// The values that no opcode can set yet, in the shape that clients expect.
fn unused() -> Value {
    json!({
        "use_external_mip_script": false,
        "primary_ip_version": 4,
        "install_image": "",
        "instance_communication_network": "",
        "zeroing_image": "",
        "compression_tools": ["gzip", "gzip-fast", "gzip-slow"],
        "enabled_data_collectors": for_each_collector(&json!(false)),
        "data_collector_interval": for_each_collector(&json!(COLLECTOR_INTERVAL_US)),
        "modify_ssh_setup": false,
        "ssh_key_type": "ecdsa",
        "ssh_key_bits": 256,
    })
}

fn for_each_collector(value: &Value) -> Value {
    COLLECTORS.iter().map(|name| ((*name).to_owned(), value.clone())).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use crate::testing::config;

    /// Every key that Ganeti's clients may look at, `master_ip`, `auto_failover`, `mend_network`, `silence_deadline`, `ramdisk_image` and
    /// `kernel_parameters`.
    const KEYS: &str = "software_version protocol_version config_version os_api_version \
        export_version vcs_version architecture name master default_hypervisor \
        enabled_hypervisors hvparams os_hvp beparams osparams ipolicy nicparams ndparams \
        diskparams candidate_pool_size max_running_jobs max_tracked_jobs mac_prefix \
        master_ip auto_failover mend_network silence_deadline ramdisk_image kernel_parameters master_netdev master_netmask use_external_mip_script volume_group_name \
        drbd_usermode_helper file_storage_dir shared_file_storage_dir gluster_storage_dir \
        maintain_node_health ctime mtime uuid tags uid_pool default_iallocator \
        default_iallocator_params reserved_lvs primary_ip_version prealloc_wipe_disks hidden_os \
        blacklisted_os enabled_disk_templates install_image instance_communication_network \
        zeroing_image compression_tools enabled_user_shutdown enabled_data_collectors \
        data_collector_interval modify_ssh_setup ssh_key_type ssh_key_bits";

    #[test]
    fn every_key_is_there_and_no_other() {
        let info = super::describe(&config(&[]));
        let mut found: Vec<&str> = info.as_object().unwrap().keys().map(String::as_str).collect();
        let mut wanted: Vec<&str> = KEYS.split_whitespace().collect();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
        for hypervisor in info["enabled_hypervisors"].as_array().unwrap() {
            assert!(info["hvparams"][hypervisor.as_str().unwrap()].is_object(), "{hypervisor}");
        }
    }

    #[test]
    fn instances_keys_do_not_hide_the_known_ones() {
        let unused = super::unused();
        for known in ["name", "master", "software_version", "candidate_pool_size"] {
            assert!(unused.get(known).is_none(), "{known}");
        }
    }
}
