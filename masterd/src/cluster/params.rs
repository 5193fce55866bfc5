//! Core: parameters that no opcode can set yet, with Ganeti's defaults. They are those of nodes, disks
//! and instances, which Ganeti's clients read of the cluster, of groups and of nodes.

use std::sync::LazyLock;

use luxi::query::Cell;
use serde_json::{Value, json};

/// Node parameters.
static NODE: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "cpu_speed": 1, "exclusive_storage": false, "oob_program": "", "ovs": false,
        "ovs_link": "", "ovs_name": "switch1", "spindle_count": 1, "ssh_port": 22,
    })
});

/// Parameters of KVM.
static KVM: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("kvm-parameters.json")).expect("the file is tested")
});

/// Parameters of nodes, merged.
pub(super) fn node() -> &'static Value {
    &NODE
}

/// One of them, for the fields that begin with `ndp/`.
pub(super) fn node_cell(name: &str) -> Cell {
    Cell::optional(NODE.get(name).cloned())
}

/// Parameters of hypervisors, by their names.
pub(super) fn hypervisors() -> Value {
    json!({ "kvm": *KVM })
}

/// Parameters of instances.
pub(super) fn sources() -> Value {
    json!({
        "maxmem": 128, "minmem": 128, "vcpus": 1, "auto_balance": true, "always_failover": false,
        "spindle_use": 1,
    })
}

/// Parameters of disks, by template.
pub(super) fn disks() -> Value {
    json!({
        "blockdev": {},
        "diskless": {},
        "drbd": {
            "c-delay-target": 1, "c-fill-target": 0, "c-max-rate": 61_440, "c-min-rate": 4_096,
            "c-plan-ahead": 20, "data-stripes": 1, "disk-barriers": "n", "disk-custom": "",
            "dynamic-resync": false, "meta-barriers": false, "meta-stripes": 1, "metavg": "xenvg",
            "net-custom": "", "protocol": "C", "resync-rate": 61_440,
        },
        "ext": {"access": "kernelspace"},
        "file": {},
        "gluster": {
            "access": "kernelspace", "host": "127.0.0.1", "port": 24_007, "volume": "gv0",
        },
        "plain": {"stripes": 1},
        "rbd": {"access": "kernelspace", "pool": "rbd"},
        "sharedfile": {},
    })
}

/// The limits for instances.
pub(super) fn instance_policy() -> Value {
    let least = json!({
        "memory-size": 128, "disk-size": 1_024, "cpu-count": 1, "disk-count": 1, "nic-count": 1,
        "spindle-use": 1,
    });
    let most = json!({
        "memory-size": 32_768, "disk-size": 1_048_576, "cpu-count": 8, "disk-count": 16,
        "nic-count": 8, "spindle-use": 12,
    });
    json!({
        "minmax": [{"min": least, "max": most}],
        "std": least,
        "disk-templates": ["blockdev", "diskless", "drbd", "ext", "file", "gluster", "plain",
                           "rbd", "sharedfile"],
        "vcpu-ratio": 4.0,
        "spindle-ratio": 32.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_has_a_plain_value() {
        for parameters in [node(), &*KVM] {
            let parameters = parameters.as_object().unwrap();
            assert!(!parameters.is_empty());
            assert!(parameters.values().all(|v| v.is_string() || v.is_number() || v.is_boolean()));
        }
        assert_eq!(node_cell("ssh_port"), Cell::normal(22));
    }
}
