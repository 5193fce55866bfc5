//! Core: what `QueryClusterInfo` and `OP_CLUSTER_QUERY` tell, with every key that Ganeti's clients
//! look for.

use serde_json::{Value, json};

use super::node::seconds;
use crate::config::Config;

/// Version of Ganeti's configuration whose shape this is; its clients compare it.
const CONFIG_VERSION: u64 = 3_000_000;

/// The cluster as a dictionary.
#[must_use]
pub fn describe(config: &Config) -> Value {
    let cluster = &config.cluster;
    let mut info = unused();
    let known = json!({
        "software_version": env!("CARGO_PKG_VERSION"),
        "protocol_version": CONFIG_VERSION,
        "config_version": CONFIG_VERSION,
        "os_api_version": 20,
        "export_version": 0,
        "vcs_version": format!("gantry {}", env!("CARGO_PKG_VERSION")),
        "architecture": ["64bit", std::env::consts::ARCH],
        "name": cluster.cluster_name,
        "master": config.role.master,
        "candidate_pool_size": cluster.candidate_pool_size,
        "max_running_jobs": cluster.max_running_jobs,
        "max_tracked_jobs": cluster.max_tracked_jobs,
        "mac_prefix": cluster.mac_prefix,
        "master_netdev": cluster.master_netdev.as_deref().unwrap_or(""),
        "master_netmask": cluster.master_netmask.unwrap_or(32),
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

/// What belongs to instances, in the shape that clients expect while there are none.
fn unused() -> Value {
    json!({
        "default_hypervisor": "kvm",
        "enabled_hypervisors": ["kvm"],
        "hvparams": {"kvm": {}},
        "os_hvp": {},
        "beparams": {"default": {
            "maxmem": 128, "minmem": 128, "vcpus": 1, "auto_balance": true,
            "always_failover": false, "spindle_use": 1,
        }},
        "osparams": {},
        "ipolicy": {
            "minmax": [{
                "min": {"memory-size": 128, "disk-size": 1024, "cpu-count": 1, "disk-count": 1,
                        "nic-count": 1, "spindle-use": 1},
                "max": {"memory-size": 32_768, "disk-size": 1_048_576, "cpu-count": 8,
                        "disk-count": 16, "nic-count": 8, "spindle-use": 12},
            }],
            "std": {"memory-size": 128, "disk-size": 1024, "cpu-count": 1, "disk-count": 1,
                    "nic-count": 1, "spindle-use": 1},
            "disk-templates": ["file"],
            "vcpu-ratio": 4.0,
            "spindle-ratio": 32.0,
        },
        "nicparams": {"default": {"mode": "bridged", "link": "xen-br0", "vlan": ""}},
        "ndparams": {"ssh_port": 22, "oob_program": "", "spindle_count": 1,
                     "exclusive_storage": false, "cpu_speed": 1.0, "ovs": false,
                     "ovs_name": "switch1", "ovs_link": ""},
        "diskparams": {},
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
        "compression_tools": [],
        "enabled_user_shutdown": false,
        "enabled_data_collectors": {},
        "data_collector_interval": {},
        "modify_ssh_setup": false,
        "ssh_key_type": "ecdsa",
        "ssh_key_bits": 256,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn instances_keys_do_not_hide_the_known_ones() {
        let unused = super::unused();
        for known in ["name", "master", "software_version", "candidate_pool_size"] {
            assert!(unused.get(known).is_none(), "{known}");
        }
    }
}
