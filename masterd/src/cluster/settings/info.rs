//! Core: what `QueryClusterInfo` and `OP_CLUSTER_QUERY` tell, with every key that Ganeti's clients
//! look for.

use serde_json::{Map, Value, json};

use crate::cluster::params;
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
    if let (Value::Object(info), Value::Object(known)) = (&mut info, known) {
        info.extend(known);
    }
    info
}

/// The values for instances, in the shape that clients expect while there are no instances.
fn unused() -> Value {
    json!({
        "default_hypervisor": "kvm",
        "enabled_hypervisors": ["kvm"],
        "hvparams": params::hypervisors(),
        "os_hvp": {},
        "beparams": {"default": params::sources()},
        "osparams": {},
        "ipolicy": params::instance_policy(),
        "nicparams": {"default": {"mode": "bridged", "link": "xen-br0", "vlan": ""}},
        "ndparams": params::node(),
        "diskparams": params::disks(),
        "use_external_mip_script": false,
        "volume_group_name": null,
        "drbd_usermode_helper": null,
        "file_storage_dir": "",
        "shared_file_storage_dir": "",
        "gluster_storage_dir": "",
        "maintain_node_health": false,
        "uid_pool": [],
        "default_iallocator": "",
        "default_iallocator_params": {},
        "reserved_lvs": [],
        "primary_ip_version": 4,
        "prealloc_wipe_disks": false,
        "hidden_os": [],
        "blacklisted_os": [],
        "enabled_disk_templates": ["file"],
        "install_image": "",
        "instance_communication_network": "",
        "zeroing_image": "",
        "compression_tools": ["gzip", "gzip-fast", "gzip-slow"],
        "enabled_user_shutdown": false,
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
