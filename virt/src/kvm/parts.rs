//! Core: single devices as QEMU is told of them, on its command line and by its monitor alike.

use model::Uuid;
use model::instance::disk::DiskMode;
use model::instance::disk::DiskPlace;
use model::instance::launch::{DiskLaunch, NicLaunch};
use serde_json::{Map, Value, json};

use super::plan::PlanError;
use super::words::Filled;

/// A device, before it is put anywhere.
pub(super) type Device = Map<String, Value>;

/// The place that a disk wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A port of its own.
    Port,
    Scsi,
    Ide,
}

/// The identity of a disk among QEMU's devices.
pub(super) fn disk_id(disk: Uuid) -> String {
    format!("disk-{disk}")
}

/// The identity of a card among QEMU's devices.
pub(super) fn card_id(nic: Uuid) -> String {
    format!("nic-{nic}")
}

/// The name of the host's end of a card.
pub(super) fn net_id(nic: Uuid) -> String {
    format!("net-{nic}")
}

/// The name by which QEMU knows the content of a disk: it takes no more than 31 characters.
pub(super) fn node_name(disk: Uuid) -> String {
    let digits: String =
        disk.to_string().chars().filter(char::is_ascii_hexdigit).take(20).collect();
    format!("d{digits}")
}

/// The name of the file below the content `name`.
pub(super) fn file_name(name: &str) -> String {
    format!("{name}f")
}

/// The name of the node that writes both copies of a disk.
pub(super) fn quorum_name(disk: Uuid) -> String {
    format!("{}q", node_name(disk))
}

/// The name of the content of the own copy.
pub(super) fn local_name(disk: Uuid) -> String {
    format!("{}l", node_name(disk))
}

/// The name of the stub for another copy that is not there.
pub(super) fn stub_name(disk: Uuid) -> String {
    format!("{}s", node_name(disk))
}

/// The begin of the names of other copies.
pub(super) fn replicas_begin(disk: Uuid) -> String {
    format!("{}r", node_name(disk))
}

/// The content of a drive under a name, as the nodes that are to be made in this order. Disks have
/// parameters for their caches; other drives have none.
pub(super) fn content(
    name: &str,
    file: &str,
    is_read_only: bool,
    caches: Option<Filled<'_>>,
) -> [Value; 2] {
    let mut node = json!({"driver": "file", "node-name": file_name(name), "filename": file,
        "read-only": is_read_only});
    let mut raw = json!({"driver": "raw", "node-name": name, "file": file_name(name),
        "read-only": is_read_only});
    if let Some(p) = caches {
        let unmaps = if p.text("disk_discard") == "unmap" { "unmap" } else { "ignore" };
        let is_direct = p.text("disk_cache") == "none" || p.text("disk_aio") == "native";
        node["cache"] = json!({"direct": is_direct, "no-flush": false});
        node["aio"] = p.text("disk_aio").into();
        node["discard"] = unmaps.into();
        raw["discard"] = unmaps.into();
    }
    [node, raw]
}

/// Whether a disk has another copy, which its guest writes together with this one.
pub(super) fn is_mirrored(disk: &DiskLaunch) -> bool {
    matches!(disk.place, DiskPlace::Mirror { .. })
}

/// The content of a disk.
pub(super) fn disk_content(p: Filled<'_>, disk: &DiskLaunch, file: &str) -> Vec<Value> {
    let nodes = content(&node_name(disk.uuid), file, disk.mode == DiskMode::ReadOnly, Some(p));
    if is_mirrored(disk) { mirrored(disk.uuid, disk.size << 20, nodes) } else { nodes.into() }
}

/// The nodes of a mirrored disk whose other copy is not there, in the order in which they are made. It has
/// this many bytes, and the nodes of a disk with one copy.
fn mirrored(disk: Uuid, bytes: u64, [file, raw]: [Value; 2]) -> Vec<Value> {
    let mut local = raw.clone();
    local["node-name"] = local_name(disk).into();
    // The file may have grown meanwhile: both children have the same size until the next start.
    local["size"] = bytes.into();
    let quorum = json!({"driver": "quorum", "node-name": quorum_name(disk), "vote-threshold": 2,
        "read-pattern": "fifo", "children": [local_name(disk), stub_name(disk)]});
    let mut top = raw;
    top["file"] = quorum_name(disk).into();
    vec![file, local, stub(disk, bytes), quorum, top]
}

/// The names that the nodes of a content may have, from the top down, which QEMU deletes in this order.
pub(super) fn named(name: &str, nodes: &Value) -> Vec<String> {
    let all = nodes.as_array().into_iter().flatten().filter_map(|node| node["node-name"].as_str());
    let begin = format!("{name}r");
    let replicas = all.filter(|node| node.starts_with(&begin)).map(str::to_owned);
    let own = ["", "q", "s", "l"].map(|end| format!("{name}{end}"));
    own.into_iter().chain(replicas).chain([file_name(name)]).collect()
}

/// The stub for the other copy of a disk: it swallows writes, and fails reads.
pub(super) fn stub(disk: Uuid, bytes: u64) -> Value {
    let nothing = json!({"driver": "null-co", "size": bytes, "read-zeroes": true});
    json!({"driver": "blkdebug", "node-name": stub_name(disk), "image": nothing,
        "inject-error": [{"event": "none", "iotype": "read", "errno": 5}]})
}

/// The device that shows a disk to its guest.
///
/// # Errors
/// Files are no disks of the kind that the instance has.
pub(super) fn disk(p: Filled<'_>, disk: &DiskLaunch) -> Result<(Device, Place), PlanError> {
    let (driver, place) = match p.text("disk_type") {
        "paravirtual" => ("virtio-blk-pci", Place::Port),
        "scsi" | "scsi-hd" => ("scsi-hd", Place::Scsi),
        "ide" => ("ide-hd", Place::Ide),
        other => {
            let why =
                format!("`{other}` is no kind of disk for a file; use paravirtual, scsi or ide");
            return Err(PlanError::new("disk_type", why));
        }
    };
    if is_mirrored(disk) && disk.mode == DiskMode::ReadOnly {
        let why = "a disk with another copy is writable in this version";
        return Err(PlanError::new("mode", why));
    }
    let name = node_name(disk.uuid);
    let mut device = Device::new();
    device.insert("driver".to_owned(), driver.into());
    device.insert("id".to_owned(), disk_id(disk.uuid).into());
    device.insert("drive".to_owned(), name.as_str().into());
    device.insert("serial".to_owned(), name[1..].into());
    // With `writethrough` the guest is told that nothing waits in a cache, and each write is flushed.
    let writes_through = p.text("disk_cache") == "writethrough";
    device.insert("write-cache".to_owned(), if writes_through { "off" } else { "on" }.into());
    if is_mirrored(disk) {
        // The guest waits with a write that not both copies have, and repeats it later.
        device.insert("werror".to_owned(), "stop".into());
        device.insert("rerror".to_owned(), "stop".into());
    }
    Ok((device, place))
}

/// The device that shows a card to its guest.
///
/// # Errors
/// There are no such cards.
pub(super) fn card(p: Filled<'_>, nic: &NicLaunch) -> Result<Device, PlanError> {
    let driver = match p.text("nic_type") {
        "paravirtual" => "virtio-net-pci",
        "ne2k_isa" => {
            let why = "this version makes no ISA cards; use paravirtual, e1000 or rtl8139";
            return Err(PlanError::new("nic_type", why));
        }
        other => other,
    };
    let queues = queues(p);
    let mut device = Device::new();
    device.insert("driver".to_owned(), driver.into());
    device.insert("id".to_owned(), card_id(nic.uuid).into());
    device.insert("netdev".to_owned(), net_id(nic.uuid).into());
    device.insert("mac".to_owned(), nic.mac.to_string().into());
    if queues > 1 {
        device.insert("mq".to_owned(), true.into());
        device.insert("vectors".to_owned(), (2 * queues + 2).into());
    }
    Ok(device)
}

/// Queues of each card.
pub(super) fn queues(p: Filled<'_>) -> usize {
    let is_virtio = p.text("nic_type") == "paravirtual";
    let wanted = usize::try_from(p.number("virtio_net_queues")).unwrap_or(1);
    if is_virtio { wanted.max(1) } else { 1 }
}

/// Whether the kernel has an end of its own for these cards, where the host offers one.
pub(super) fn has_kernel_end(p: Filled<'_>) -> bool {
    p.text("nic_type") == "paravirtual" && p.flag("vhost_net")
}
