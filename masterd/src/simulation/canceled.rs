//! Every opcode, canceled at many moments: what is said of it is what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpListener};

use jobs::locks::{Level, LockName};
use luxi::method::{CancelJob, QueryJobs, SubmitJob};
use model::asset::Asset;
use model::blob::Blob;
use model::boot_template::{BootTemplate, TemplateKind};
use model::instance::InstanceSettings;
use model::instance::disk::Disk;
use model::instance::launch::{Sights, SightsKnown};
use model::instance::state::AdminState;
use model::network::{Connection, NetworkTemplate, NicMode};
use model::node::{Node, NodeRole};
use model::opcode::OpCode;
use model::switch::SwitchPort;
use model::{JobId, Uuid};
use serde_json::{Value, json};

use super::endless::{STEP, Scene, play};
use super::*;
use crate::agents::contacts::Contacts;
use crate::config::vault;
use crate::config::{Config, ConfigChange};

/// For each opcode parameters with which it does its work in the cluster of [`prepare`]; `#` stands for
/// a number that no other submission has.
const SAMPLES: &[(&str, &str)] = &[
    ("OP_CLUSTER_POST_INIT", ""),
    ("OP_CLUSTER_CONFIG_QUERY", r#""output_fields": ["cluster_name"]"#),
    ("OP_CLUSTER_QUERY", ""),
    ("OP_CLUSTER_SET_PARAMS", r#""max_running_jobs": 7"#),
    ("OP_CLUSTER_ACTIVATE_MASTER_IP", ""),
    ("OP_CLUSTER_DEACTIVATE_MASTER_IP", ""),
    ("OP_CLUSTER_REDIST_CONF", ""),
    ("OP_CLUSTER_RENEW_CRYPTO", r#""nodes": ["n2"]"#),
    ("OP_CLUSTER_VERIFY", ""),
    ("OP_CLUSTER_VERIFY_CONFIG", ""),
    ("OP_CLUSTER_VERIFY_GROUP", r#""group_name": "default""#),
    ("OP_CLUSTER_VERIFY_DISKS", ""),
    ("OP_GROUP_VERIFY_DISKS", r#""group_name": "default""#),
    ("OP_GROUP_ADD", r#""group_name": "g#""#),
    ("OP_GROUP_REMOVE", r#""group_name": "unused""#),
    ("OP_GROUP_RENAME", r#""group_name": "other", "new_name": "renamed#""#),
    ("OP_GROUP_SET_PARAMS", r#""group_name": "default", "alloc_policy": "last_resort""#),
    ("OP_GROUP_ASSIGN_NODES", r#""group_name": "other", "nodes": ["n2"]"#),
    ("OP_NODE_ADD", r#""node_name": "n3.example""#),
    ("OP_NODE_REMOVE", r#""node_name": "n2""#),
    ("OP_NODE_SET_PARAMS", r#""node_name": "n2", "rack": 1"#),
    ("OP_NODE_POWERCYCLE", r#""node_name": "n2""#),
    ("OP_NODE_NETWORK_APPLY", r#""node_name": "n2", "text": "links: []""#),
    ("OP_NODE_NETWORK_ROLLBACK", r#""node_name": "n2""#),
    ("OP_IPAM_SET", ""),
    ("OP_DHCP_SET", r#""config": {"observe-racks": [#]}"#),
    ("OP_MACHINE_ADD", r#""machines": [{"serial": "M#", "rack": 0, "role": "worker"}]"#),
    ("OP_MACHINE_SET_PARAMS", r#""serial": "S1", "labels": {"zone": "a#"}"#),
    ("OP_MACHINE_REMOVE", r#""serial": "S1""#),
    ("OP_MACHINE_SET_STATE", r#""serial": "S1", "state": "healthy""#),
    ("OP_MACHINE_EXPIRE", r#""serial": "S1", "state": "deploying", "since": [1, 0]"#),
    ("OP_IMAGE_ADD", r#""image": "debian/#", "files": {"uki": {"sha256": "DIGEST", "size": 1}}"#),
    ("OP_IMAGE_REMOVE", r#""image": "debian/0""#),
    (
        "OP_ASSET_SET",
        r#""name": "a#", "content_type": "text/plain", "blob": {"sha256": "DIGEST", "size": 1}"#,
    ),
    ("OP_ASSET_REMOVE", r#""name": "unused""#),
    ("OP_KERNEL_SET", r#""parameters": ["quiet"]"#),
    ("OP_NETWORK_ADD", r#""network_name": "n#", "network6": "2001:db8:#::/64""#),
    ("OP_NETWORK_REMOVE", r#""network_name": "net1", "force": true"#),
    ("OP_NETWORK_SET_PARAMS", r#""network_name": "net0", "mtu": 9000"#),
    (
        "OP_NETWORK_CONNECT",
        r#""network_name": "net1", "group_name": "default", "network_mode": "bridged", "network_link": "br0""#,
    ),
    ("OP_NETWORK_DISCONNECT", r#""network_name": "net0", "group_name": "default""#),
    ("OP_NETWORK_CLAIM", r#""claims": [{"network": "net0", "owner": "o#"}]"#),
    ("OP_NETWORK_RELEASE", r#""network_name": "net0", "owner": "a""#),
    ("OP_NETWORK_TEMPLATE_ADD", r#""template_name": "worker", "text": "links: []""#),
    ("OP_NETWORK_TEMPLATE_REMOVE", r#""template_name": "unused""#),
    ("OP_MACHINE_REAPPLY", r#""serial": "S1""#),
    ("OP_MACHINE_DISK_KEY_ADD", r#""serial": "S1", "disk": "d#", "sealed": "SEALED""#),
    ("OP_MACHINE_DISK_KEYS_REMOVE", r#""serial": "S1""#),
    (
        "OP_MACHINE_BMC_SET",
        r#""serial": "S1", "url": "http://127.0.0.1:9", "user": "a#", "sealed": "SEALED", "unchecked": true"#,
    ),
    ("OP_MACHINE_BMC_REMOVE", r#""serial": "S1""#),
    ("OP_MACHINE_POWER", r#""serial": "S1", "action": "on""#),
    ("OP_MACHINE_HEALTH", r#""serial": "S1""#),
    ("OP_MACHINE_INSPECT", r#""serial": "S1""#),
    ("OP_MACHINE_PROVISION", r#""serial": "S1", "target": "abort""#),
    ("OP_MACHINE_AWAIT", r#""serial": "S1""#),
    (
        "OP_BOOT_TEMPLATE_ADD",
        r#""kind": "ignition", "role": "worker", "id": "1.0.#", "text": "{\"ignition\":{\"version\":\"3.3.0\"}}""#,
    ),
    ("OP_BOOT_TEMPLATE_REMOVE", r#""kind": "cloud-init", "role": "unused""#),
    ("OP_TOKEN_ADD", r#""token_name": "t#", "sha256": "TOKEN", "role": "read", "expires": null"#),
    ("OP_TOKEN_REMOVE", r#""token_name": "old""#),
    ("OP_LEASE_RELEASE", r#""address": "10.69.0.40""#),
    ("OP_RACK_PUSH", ""),
    ("OP_SWITCH_ADD", r#""switch_name": "w#", "url": "command:p#", "unchecked": true"#),
    ("OP_SWITCH_SET_PARAMS", r#""switch_name": "sw0", "vlans": "1-#""#),
    ("OP_SWITCH_REMOVE", r#""switch_name": "sw1", "force": true"#),
    ("OP_SWITCH_VERIFY", r#""switch_name": "sw0""#),
    ("OP_SWITCH_SETTLE", r#""switch_name": "sw0""#),
    ("OP_PORT_SET_PARAMS", r#""ports": ["sw0/p1"], "configuration": "c0""#),
    ("OP_PORT_POLICY_SET", r#""phases": {"idle": "c0"}"#),
    ("OP_PORT_CONFIGURATION_ADD", r#""configuration_name": "c#", "wanted": {"untagged": 5}"#),
    ("OP_PORT_CONFIGURATION_REMOVE", r#""configuration_name": "c1""#),
    ("OP_TENANT_ADD", r#""tenant_name": "t#""#),
    ("OP_TENANT_SET_PARAMS", r#""tenant_name": "t0", "limits": {"vlans": "1-#"}"#),
    ("OP_TENANT_REMOVE", r#""tenant_name": "t1""#),
    ("OP_TENANT_GIVE", r#""tenant_name": "t0", "machines": ["S1"]"#),
    ("OP_TENANT_TAKE", r#""tenant_name": "t0", "machines": ["S2"], "force": true"#),
    (
        "OP_INSTANCE_CREATE",
        r#""instance_name": "i#", "mode": "create", "disks": [], "nics": [{}], "pnode": "n4",
           "hypervisor": "fake", "disk_template": "diskless", "os_type": "noop", "no_install": true,
           "name_check": false, "ip_check": false"#,
    ),
    ("OP_INSTANCE_REMOVE", r#""instance_name": "i0""#),
    ("OP_INSTANCE_STARTUP", r#""instance_name": "i0""#),
    ("OP_INSTANCE_SHUTDOWN", r#""instance_name": "i0""#),
    ("OP_INSTANCE_REBOOT", r#""instance_name": "i0", "reboot_type": "hard""#),
    ("OP_INSTANCE_SET_PARAMS", r#""instance_name": "i1", "disks": [["add", {"size": 1024}]]"#),
    ("OP_INSTANCE_REINSTALL", r#""instance_name": "i1", "os_type": "image+debian""#),
    (
        "OP_INSTANCE_RENAME",
        r#""instance_name": "i1", "new_name": "i#", "name_check": false, "ip_check": false"#,
    ),
    ("OP_INSTANCE_GROW_DISK", r#""instance_name": "i1", "disk": 0, "amount": 1024"#),
    ("OP_INSTANCE_RECREATE_DISKS", r#""instance_name": "i1""#),
    ("OP_INSTANCE_ACTIVATE_DISKS", r#""instance_name": "i1""#),
    ("OP_INSTANCE_DEACTIVATE_DISKS", r#""instance_name": "i1""#),
    ("OP_INSTANCE_DETACH_COPIES", r#""instance_name": "i1""#),
    ("OP_INSTANCE_RESYNC", r#""instance_name": "i1""#),
    ("OP_INSTANCE_CONSOLE", r#""instance_name": "i0""#),
    (
        "OP_INSTANCE_MIGRATE",
        r#""instance_name": "i0", "target_node": "n2", "allow_failover": true"#,
    ),
    ("OP_INSTANCE_FAILOVER", r#""instance_name": "i0", "target_node": "n2""#),
    ("OP_INSTANCE_MOVE", r#""instance_name": "i1", "target_node": "n2""#),
    ("OP_INSTANCE_REPLACE_DISKS", r#""instance_name": "i1", "mode": "replace_auto""#),
    (
        "OP_INSTANCE_MULTI_ALLOC",
        r#""instances": [{"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "i#", "mode": "create",
           "disks": [], "nics": [], "disk_template": "diskless", "no_install": true}]"#,
    ),
    ("OP_INSTANCE_CHANGE_GROUP", r#""instance_name": "i0", "target_groups": ["other"]"#),
    ("OP_NODE_EVACUATE", r#""node_name": "n4", "mode": "all""#),
    ("OP_NODE_MIGRATE", r#""node_name": "n4""#),
    ("OP_GROUP_EVACUATE", r#""group_name": "default", "target_groups": ["other"]"#),
    ("OP_INSTANCE_QUERY_DATA", ""),
    ("OP_BACKUP_PREPARE", r#""instance_name": "i1", "mode": "local""#),
    ("OP_BACKUP_EXPORT", r#""instance_name": "i1", "target_node": "n2""#),
    ("OP_BACKUP_REMOVE", r#""instance_name": "i1""#),
    ("OP_NODE_QUERY_STORAGE", r#""output_fields": ["name"], "nodes": ["n2"]"#),
    ("OP_NODE_QUERYVOLS", r#""output_fields": ["name"]"#),
    ("OP_NODE_MODIFY_STORAGE", r#""node_name": "n2", "storage_type": "file", "changes": {}"#),
    ("OP_REPAIR_NODE_STORAGE", r#""node_name": "n2", "storage_type": "file""#),
    ("OP_CLUSTER_REPAIR_DISK_SIZES", ""),
    ("OP_OS_DIAGNOSE", r#""output_fields": ["name"]"#),
    ("OP_EXT_STORAGE_DIAGNOSE", r#""output_fields": ["name"]"#),
    ("OP_QUERY", r#""what": "cluster", "fields": ["name"]"#),
    ("OP_QUERY_FIELDS", r#""what": "cluster""#),
    ("OP_TAGS_GET", r#""kind": "cluster""#),
    ("OP_TAGS_SEARCH", r#""pattern": ".""#),
    ("OP_TAGS_SET", r#""kind": "cluster", "tags": ["t#"]"#),
    ("OP_TAGS_DEL", r#""kind": "cluster", "tags": ["t"]"#),
    ("OP_TEST_DELAY", r#""duration": 15, "on_nodes": ["n2"]"#),
    (
        "OP_TEST_ALLOCATOR",
        r#""direction": "out", "mode": "allocate", "name": "i9", "memory": 128, "vcpus": 1, "disks": [], "disk_template": "diskless""#,
    ),
    ("OP_TEST_JQUEUE", r#""notify_exec": true"#),
];

/// Opcodes that change something and then wait for an agent: at some moment they must be found past the
/// point of no return. Others end as soon as their change is durable.
const CHANGING: &[&str] = &[
    "OP_CLUSTER_ACTIVATE_MASTER_IP",
    "OP_CLUSTER_DEACTIVATE_MASTER_IP",
    "OP_NODE_REMOVE",
    "OP_NODE_POWERCYCLE",
    "OP_IPAM_SET",
    "OP_DHCP_SET",
    "OP_MACHINE_ADD",
    "OP_MACHINE_REMOVE",
    "OP_KERNEL_SET",
    "OP_BOOT_TEMPLATE_ADD",
    "OP_INSTANCE_REMOVE",
    "OP_INSTANCE_SHUTDOWN",
];

/// When a job is canceled, after it was sent.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// When others went on so often.
    Turns(usize),
    /// When the store took its steps so often, and the time of calls has gone on.
    Steps(u32),
}

const MOMENTS: [Moment; 12] = [
    Moment::Turns(0),
    Moment::Turns(1),
    Moment::Turns(2),
    Moment::Turns(3),
    Moment::Turns(4),
    Moment::Turns(6),
    Moment::Turns(9),
    Moment::Turns(14),
    Moment::Turns(20),
    Moment::Steps(1),
    Moment::Steps(2),
    Moment::Steps(3),
];

/// Two switches with a port each, two configurations, and two tenants, of whom one has a machine.
fn switches_and_tenants() -> Vec<ConfigChange> {
    let mut changes = Vec::new();
    for name in ["sw0", "sw1"] {
        let switch = crate::testing::switch(name, &["p1"]);
        let port = |key| ConfigChange::SwitchPort(SwitchPort::new(key, crate::testing::NOW));
        changes.extend(switch.keys().into_iter().map(port));
        changes.push(ConfigChange::Switch(switch));
    }
    let configuration = |name| crate::testing::port_configuration(name, 5);
    changes.extend(["c0", "c1"].map(configuration).map(ConfigChange::PortConfiguration));
    for (name, machines) in [("t0", &["S2"][..]), ("t1", &[])] {
        changes.push(ConfigChange::Tenant(crate::testing::tenant(name, machines)));
    }
    changes
}

/// Instances by the fake hypervisor on n4: i0 runs, and i1, which has a disk, does not.
fn instances() -> Vec<ConfigChange> {
    let settings = InstanceSettings {
        enabled_hypervisors: vec!["fake".to_owned()],
        enabled_disk_templates: vec!["diskless".to_owned(), "file".to_owned()],
        ..InstanceSettings::default()
    };
    let running = crate::testing::instance("i0", "n4.example");
    let mut stopped = crate::testing::instance("i1", "n4.example");
    let disk: Disk = serde_json::from_value(json!({
        "uuid": Uuid::from_u128(1), "instance": stopped.uuid, "serial_no": 1,
        "ctime": crate::testing::NOW, "mtime": crate::testing::NOW, "size": 1024,
        "place": {"file": {"path": "/srv/gantry/file/i1/disk"}}, "nodes": ["n4.example"],
    }))
    .unwrap();
    stopped.disk_template = "file".to_owned();
    stopped.disks = vec![disk.uuid];
    (stopped.admin_state, stopped.run) = (AdminState::Down, None);
    let instances = [running, stopped].map(ConfigChange::Instance);
    instances
        .into_iter()
        .chain([ConfigChange::InstanceSettings(settings), ConfigChange::Disk(disk)])
        .collect()
}

/// The last words of agents: of their machines, and of that instance.
fn told(contacts: &Contacts) {
    for node in ["n1.example", "n2.example", "n4.example"] {
        contacts.set_facts(&node.parse().unwrap(), crate::testing::facts());
    }
    let sight = crate::testing::sight(&crate::testing::instance("i0", "n4.example"));
    let known = SightsKnown { life: model::Uuid::nil(), number: 1 };
    let sights = Sights { known, all: true, instances: vec![sight] };
    contacts.instances.take(&"n4.example".parse().unwrap(), sights);
}

/// Nodes n2 and n4, whose agents are at `silent`, and a cluster with an address.
fn nodes(config: &Config, silent: u16) -> Vec<ConfigChange> {
    let mut node = crate::testing::node("n2.example", NodeRole::Regular);
    (node.primary_ip, node.rpc_port) = (Ipv4Addr::LOCALHOST.into(), silent);
    (node.rack, node.id) = (Some(0), 7);
    let name = "n4.example".parse().unwrap();
    let of_instance = Node { id: 8, rack: None, name, ..node.clone() };
    let mut cluster = config.cluster.as_ref().clone();
    cluster.tags = vec!["t".parse().unwrap()];
    cluster.max_running_jobs = 20;
    (cluster.master_ip, cluster.master_netdev) =
        (Some([10, 9, 9, 9].into()), Some("eth9".to_owned()));
    let nodes = [node, of_instance].map(ConfigChange::Node);
    nodes.into_iter().chain([ConfigChange::Cluster(cluster)]).collect()
}

/// Makes the cluster as it was: n2 serves rack 0, n4 has an instance, and their agent at `silent` takes
/// connections and never answers.
async fn prepare(scene: &Scene, silent: u16) {
    let decide = move |config: &Config| {
        let mut with_ipam = config.clone();
        let mut changes = nodes(config, silent);
        changes.push(ConfigChange::Ipam(crate::testing::ipam()));
        with_ipam.apply(changes.clone());
        changes.push(ConfigChange::Image(crate::testing::image("debian/0")));
        let mut connected = crate::testing::network("net0", 0);
        let connection = Connection {
            mode: NicMode::Bridged,
            link: "br0".parse().unwrap(),
            vlan: String::new(),
        };
        connected.groups.insert(config.group("default").unwrap().uuid.clone(), connection);
        changes.push(ConfigChange::Network(connected));
        changes.push(ConfigChange::Network(crate::testing::network("net1", 1)));
        changes.push(ConfigChange::Claim(crate::testing::claim("net0", "a", [172, 16, 0, 9])));
        for name in ["unused", "worker"] {
            changes.push(ConfigChange::NetworkTemplate(NetworkTemplate {
                name: name.parse().unwrap(),
                version: 1,
                text: "links: []".to_owned(),
                networks: Vec::new(),
                ctime: crate::testing::NOW,
            }));
        }
        changes.push(ConfigChange::Asset(Asset {
            name: "unused".parse().unwrap(),
            id: 1,
            content_type: "text/plain".parse().unwrap(),
            blob: Blob { sha256: "dd".repeat(32).parse().unwrap(), size: 1 },
            options: BTreeMap::new(),
            ctime: crate::testing::NOW,
        }));
        changes.extend(switches_and_tenants());
        changes.extend(instances());
        let removed = config.disk_keys.keys().cloned().map(ConfigChange::DiskKeyRemoved);
        changes.extend(removed);
        changes.push(ConfigChange::BootTemplate(BootTemplate {
            kind: TemplateKind::CloudInit,
            role: "unused".parse().unwrap(),
            id: "1.0.0".parse().unwrap(),
            text: "#cloud-config\n{}".to_owned(),
            spec: String::new(),
            ctime: crate::testing::NOW,
        }));
        changes.push(ConfigChange::Token(crate::testing::token("old", 1)));
        changes.extend([("unused", 1), ("other", 2)].map(|named| group(config, named)));
        if !config.machines.contains_key("S1") {
            let spec = crate::testing::spec("S1", 0, "worker");
            let added =
                crate::machines::machine::register(&with_ipam, &[spec], crate::testing::NOW)?;
            changes.extend(added.into_iter().map(ConfigChange::Machine));
        }
        Ok((changes, ()))
    };
    // It was removed with its node, if that was.
    let lock = LockName::member(Level::Node, "n2.example");
    scene.parts.locks.add(&lock);
    told(&scene.parts.contacts);
    scene.parts.writer.transact(None, decide).await.unwrap();
}

/// A node group without nodes.
fn group(config: &Config, (name, number): (&str, u8)) -> ConfigChange {
    let mut group = config.group("default").unwrap().as_ref().clone();
    group.name = name.to_owned();
    group.uuid = uuid::Builder::from_random_bytes([number; 16]).into_uuid().to_string();
    ConfigChange::Group(group)
}

/// The key of a disk of S1, sealed.
fn sealed(scene: &Scene, number: i32) -> String {
    let config = scene.parts.published.snapshot().config;
    let key = model::Secret::new(b"a key".to_vec());
    vault::seal(&config, &format!("disk-key/S1/d{number}"), &key).unwrap().to_string()
}

/// The end of a job that was canceled.
struct Seen {
    status: String,
    ran: bool,
    log: String,
    changed: bool,
    answer: (bool, String),
}

async fn cancel_at(scene: &Scene, op: &str, id: JobId, moment: Moment) -> Seen {
    let before = scene.parts.published.latest();
    let submitted =
        scene.client.ask(SubmitJob { ops: serde_json::from_str(&format!("[{op}]")).unwrap() });
    let canceled = async {
        match moment {
            Moment::Turns(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            }
            Moment::Steps(steps) => tokio::time::sleep(steps * STEP).await,
        }
        scene.client.ask(CancelJob { job_id: id, kill: false }).await.unwrap()
    };
    let (submitted, answer) = tokio::join!(submitted, canceled);
    assert_eq!(submitted, Ok(id), "{op}");
    loop {
        let fields = ["status", "opexec", "oplog"].into();
        let call = QueryJobs { job_ids: Some(vec![id]), fields };
        let row = scene.client.ask(call).await.unwrap().remove(0).unwrap();
        let status = row[0].as_str().unwrap().to_owned();
        if ["success", "error", "canceled"].contains(&status.as_str()) {
            let changed = !Arc::ptr_eq(&before, &scene.parts.published.latest());
            let (ran, log) = (row[1][0] != Value::Null, row[2][0].to_string());
            return Seen { status, ran, log, changed, answer };
        }
        tokio::time::sleep(STEP).await;
    }
}

#[test]
fn whatever_is_canceled_is_told_the_truth() {
    let sampled: Vec<&str> = SAMPLES.iter().map(|(id, _)| *id).collect();
    let table: Vec<&str> = OpCode::TABLE.iter().map(|(id, _)| *id).collect();
    assert_eq!(sampled, table, "every opcode has its sample");
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    play(async |scene| {
        std::fs::create_dir_all(scene.layout.run()).unwrap();
        let (mut refused, mut canceled) = (BTreeSet::new(), BTreeSet::new());
        let mut number = 0;
        for &(op_id, parameters) in SAMPLES {
            for moment in MOMENTS {
                number += 1;
                prepare(scene, port).await;
                let parameters = match op_id {
                    "OP_IPAM_SET" => format!(
                        r#""config": {}"#,
                        serde_json::to_string(&crate::testing::ipam()).unwrap()
                    ),
                    _ => parameters
                        .replace("DIGEST", &"ee".repeat(32))
                        .replace("TOKEN", &format!("{number:064x}"))
                        .replace("SEALED", &sealed(scene, number))
                        .replace('#', &number.to_string()),
                };
                let comma = if parameters.is_empty() { "" } else { ", " };
                let op = format!(r#"{{"OP_ID": "{op_id}"{comma}{parameters}}}"#);
                let newest = scene.parts.published.jobs.all().iter().map(|job| job.id.0).max();
                let id = JobId(newest.unwrap_or_default() + 1);
                let Seen { status, ran, log, changed, answer } =
                    cancel_at(scene, &op, id, moment).await;
                let (done, text) = answer;
                let told = format!("{op_id} at {moment:?}: {status}, {done}, {text}, {log}");
                if text.contains("not found") {
                    continue;
                }
                assert_eq!(done, status == "canceled", "{told}");
                if done && op_id != "OP_CLUSTER_RENEW_CRYPTO" {
                    assert!(!changed, "{told}");
                }
                if done && ran {
                    assert!(log.contains("Canceled"), "{told}");
                    canceled.insert(op_id);
                }
                if text.contains("can no longer be canceled") {
                    refused.insert(op_id);
                }
            }
        }
        let missing: Vec<_> = CHANGING.iter().filter(|id| !refused.contains(*id)).collect();
        assert!(missing.is_empty(), "never refused: {missing:?}; {refused:?}");
        for op_id in
            ["OP_CLUSTER_REDIST_CONF", "OP_RACK_PUSH", "OP_CLUSTER_VERIFY_GROUP", "OP_TEST_DELAY"]
        {
            assert!(canceled.contains(op_id), "never canceled: {op_id}; {canceled:?}");
        }
    });
    drop(silent);
}
