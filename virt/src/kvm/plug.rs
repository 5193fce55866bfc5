//! Plugs disks and cards into a guest that lives, and takes them out. `steps` decides what is to be done.
//!
//! QEMU's own list of devices counts: so a call that was cut short is done by its repetition.

mod steps;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use model::Uuid;
use model::instance::disk::DiskMode;
use model::instance::launch::{DiskLaunch, Launch, NicLaunch};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::guest::Guest;
use super::nics::Card;
use super::parts::{self, Place, card_id, disk_id, file_name, net_id, node_name};
use super::words::Filled;
use super::{Kvm, VHOST_NET};
use crate::VirtError;
use crate::qmp::QmpError;
use crate::records::io as failed;
pub use steps::Change;
pub(crate) use steps::after;
use steps::{Step, descriptors, devices, free_port, steps};

/// How long guests may take to let go of devices: Linux presses the button of a port for 5 s.
pub(super) const UNPLUG: Duration = Duration::from_secs(30);
/// The longest pause between two looks at what a guest has.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// A device that was not plugged in or out, and why.
pub type NotPlugged = (Uuid, String);

impl Kvm {
    /// Changes the devices of a guest; gives those with which that failed.
    ///
    /// # Errors
    /// QEMU does not tell what there is.
    pub(crate) async fn plug(
        &self,
        guest: &Guest,
        had: &Launch,
        change: &Change,
    ) -> Result<Vec<NotPlugged>, VirtError> {
        let mut not = Vec::new();
        let there = present(guest).await?;
        let all = steps(&there, had, change);
        let (leaving, coming): (Vec<Step<'_>>, Vec<_>) = all
            .into_iter()
            .partition(|step| matches!(step, Step::UnplugDisk(_) | Step::UnplugCard(_)));
        unplug(guest, &there, &leaving, &mut not).await?;
        let is_gone = |nic: &&NicLaunch| {
            let left = leaving.contains(&Step::UnplugCard(nic.uuid));
            left && !not.iter().any(|(uuid, _)| *uuid == nic.uuid)
        };
        let gone: Vec<NicLaunch> = had.nics.iter().filter(is_gone).cloned().collect();
        self.nics.disconnect(&had.name, &gone).await;
        for step in coming {
            let (uuid, done) = match step {
                Step::PlugDisk(disk) => (disk.uuid, self.plug_disk(guest, had, disk).await),
                Step::PlugCard(nic) => (nic.uuid, self.plug_card(guest, had, nic).await),
                Step::Resize(disk) => (disk.uuid, resize(guest, had, disk).await),
                Step::UnplugDisk(_) | Step::UnplugCard(_) => continue,
            };
            if let Err(error) = done {
                not.push((uuid, stdx::daemon::chain(&error)));
            }
        }
        Ok(not)
    }

    async fn plug_disk(
        &self,
        guest: &Guest,
        had: &Launch,
        disk: &DiskLaunch,
    ) -> Result<(), VirtError> {
        let p = Filled(&had.hvparams);
        let refused = refused("plug a disk into", had);
        let (mut device, place) =
            parts::disk(p, disk).map_err(|error| refused(error.to_string()))?;
        match place {
            Place::Port => at_free_port(guest, &mut device).await?.map_err(&refused)?,
            Place::Scsi => drop(device.insert("bus".to_owned(), "scsi.0".into())),
            Place::Ide => {
                let why = "disks of kind ide come with the next start; others can be plugged in";
                return Err(refused(why.to_owned()));
            }
        }
        let (storage, opened) = (self.storage.clone(), disk.clone());
        let writes = disk.mode == DiskMode::ReadWrite;
        let file: OwnedFd = stdx::aside(|| storage.open(&opened, writes))?.into();
        let given = guest.give("add-fd", json!({}), file).await?;
        let set = given["fdset-id"].as_u64().unwrap_or_default();
        let name = node_name(disk.uuid);
        let add = async {
            for node in parts::disk_content(p, disk, &format!("/dev/fdset/{set}")) {
                guest.ask("blockdev-add", node).await?;
            }
            guest.ask("device_add", Value::Object(device)).await
        };
        let added = add.await;
        if added.is_err() {
            release(guest, &name, Some(set)).await;
        }
        Ok(added.map(drop)?)
    }

    async fn plug_card(
        &self,
        guest: &Guest,
        had: &Launch,
        nic: &NicLaunch,
    ) -> Result<(), VirtError> {
        let p = Filled(&had.hvparams);
        let refused = refused("plug a card into", had);
        let mut device = parts::card(p, nic).map_err(|error| refused(error.to_string()))?;
        at_free_port(guest, &mut device).await?.map_err(&refused)?;
        device.insert("romfile".to_owned(), "".into());
        let mut card = self.nics.card(had, nic).await?;
        let net = net_id(nic.uuid);
        let mut named = Vec::new();
        let netdev = netdev(guest, &net, p, &mut card, &mut named).await;
        drop(card);
        let add = async {
            guest.ask("netdev_add", netdev?).await?;
            guest.ask("device_add", Value::Object(device)).await?;
            Ok(())
        };
        let added: Result<(), VirtError> = add.await;
        if added.is_err() {
            // The interface goes with its last descriptor; some of these may not be there.
            drop(guest.ask("netdev_del", json!({"id": net})).await);
            for name in named {
                drop(guest.ask("closefd", json!({"fdname": name})).await);
            }
            self.nics.disconnect(&had.name, std::slice::from_ref(nic)).await;
        }
        added
    }
}

fn refused(what: &'static str, had: &Launch) -> impl Fn(String) -> VirtError {
    let name = had.name.clone();
    move |why| VirtError::Refused { what, name: name.clone(), why }
}

/// Hands the descriptors of a card over, whose names are noted; gives what QEMU is to make of them.
async fn netdev(
    guest: &Guest,
    net: &str,
    p: Filled<'_>,
    card: &mut Card,
    named: &mut Vec<String>,
) -> Result<Value, VirtError> {
    while let Some(queue) = card.queue() {
        given(guest, format!("{net}-{}", named.len()), queue, named).await?;
    }
    let queues = named.len();
    if super::host().vhost_net && parts::has_kernel_end(p) {
        let path = Path::new(VHOST_NET);
        for number in 0..queues {
            let end = OpenOptions::new().read(true).write(true).open(path);
            let end = end.map_err(failed("open", path))?.into();
            given(guest, format!("{net}-vhost{number}"), end, named).await?;
        }
    }
    let (own, vhost) = named.split_at(queues);
    let plural = if queues > 1 { "s" } else { "" };
    let mut netdev = json!({"type": "tap", "id": net});
    netdev[format!("fd{plural}")] = own.join(":").into();
    if !vhost.is_empty() {
        netdev["vhost"] = true.into();
        netdev[format!("vhostfd{plural}")] = vhost.join(":").into();
    }
    Ok(netdev)
}

/// The identities of all devices of a guest that have one.
///
/// # Errors
/// QEMU does not tell them: a device that is not named is taken for gone, and its file may be removed then.
async fn present(guest: &Guest) -> Result<BTreeSet<String>, QmpError> {
    let command = "qom-list";
    let told = guest.ask(command, json!({"path": "/machine/peripheral"})).await?;
    let odd = || QmpError::Refused { command: command.to_owned(), why: format!("it says {told}") };
    devices(&told).ok_or_else(odd)
}

/// Puts a device into the first free port; gives why there is none.
async fn at_free_port(
    guest: &Guest,
    device: &mut parts::Device,
) -> Result<Result<(), String>, QmpError> {
    let port = free_port(&guest.ask("query-pci", json!({})).await?);
    Ok(port.map(|port| {
        if let Some(port) = port {
            device.insert("bus".to_owned(), port.into());
        }
    }))
}

/// Has a guest let go of devices, all at the same time.
async fn unplug(
    guest: &Guest,
    there: &BTreeSet<String>,
    leaving: &[Step<'_>],
    not: &mut Vec<NotPlugged>,
) -> Result<(), QmpError> {
    let mut asked = Vec::new();
    for step in leaving {
        let (uuid, id) = match step {
            Step::UnplugDisk(uuid) => (*uuid, disk_id(*uuid)),
            Step::UnplugCard(uuid) => (*uuid, card_id(*uuid)),
            _ => continue,
        };
        // The guest of an older agent has another name for the host's end of a card.
        let net = match step {
            Step::UnplugCard(_) if !there.contains(&id) => Some(net_id(uuid)),
            Step::UnplugCard(_) => {
                let path = format!("/machine/peripheral/{id}");
                let told =
                    guest.ask("qom-get", json!({"path": path, "property": "netdev"})).await?;
                Some(told.as_str().map_or_else(|| net_id(uuid), str::to_owned))
            }
            _ => None,
        };
        if !there.contains(&id) {
            asked.push((uuid, id, net));
            continue;
        }
        match guest.ask("device_del", json!({"id": id})).await {
            Ok(_) => asked.push((uuid, id, net)),
            // It was asked before, and the guest has not answered yet.
            Err(QmpError::Refused { why, .. }) if why.contains("already in the process") => {
                asked.push((uuid, id, net));
            }
            Err(error) => not.push((uuid, error.to_string())),
        }
    }
    let (mut changes, end) = (guest.changes(), Instant::now() + UNPLUG);
    while !asked.is_empty() {
        changes.mark_unchanged();
        let present = present(guest).await?;
        let mut waiting = Vec::new();
        for (uuid, id, net) in asked {
            match net {
                _ if present.contains(&id) => waiting.push((uuid, id, net)),
                Some(net) => {
                    if let Err(error) = guest.ask("netdev_del", json!({"id": net})).await {
                        tracing::info!(net, %error, "the host's end of a card is not closed");
                    }
                }
                None => release(guest, &node_name(uuid), None).await,
            }
        }
        asked = waiting;
        if asked.is_empty() || Instant::now() >= end {
            break;
        }
        // Each way out means another look.
        drop(timeout(AGAIN, changes.changed()).await);
    }
    not.extend(asked.into_iter().map(|(uuid, id, _)| {
        let within = UNPLUG.as_secs();
        (uuid, format!("the guest did not let go of {id} within {within} s; it may still do so"))
    }));
    Ok(())
}

/// Closes the content of a disk that no device shows any more.
pub(super) async fn release(guest: &Guest, name: &str, set: Option<u64>) {
    let file = file_name(name);
    let nodes = guest.ask("query-named-block-nodes", json!({"flat": true})).await;
    let nodes = nodes.unwrap_or_default();
    let set = set.or_else(|| descriptors(&nodes, &file));
    for node in present_of(name, &nodes) {
        if let Err(error) = guest.ask("blockdev-del", json!({"node-name": node})).await {
            tracing::info!(node, %error, "a part of a disk is not closed");
        }
    }
    if let Some(set) = set
        && let Err(error) = guest.ask("remove-fd", json!({"fdset-id": set})).await
    {
        tracing::info!(set, %error, "a descriptor of a disk is not closed");
    }
}

/// The nodes of a content that are there, from the top down: it, what a mirrored disk has below it, and its
/// file. A QEMU that tells none is asked to delete the usual ones.
fn present_of(name: &str, nodes: &Value) -> Vec<String> {
    let is_there = |wanted: &String| {
        let mut all = nodes.as_array().into_iter().flatten();
        all.any(|node| node["node-name"] == wanted.as_str())
    };
    match nodes.is_array() {
        true => parts::named(name, nodes).into_iter().filter(is_there).collect(),
        false => vec![name.to_owned(), file_name(name)],
    }
}

async fn resize(guest: &Guest, had: &Launch, disk: &DiskLaunch) -> Result<(), VirtError> {
    if parts::is_mirrored(disk) {
        let why = "QEMU keeps the size of a disk with two copies; its guest sees the new one from its next start on";
        return Err(refused("enlarge a disk of", had)(why.to_owned()));
    }
    let size = json!({"node-name": node_name(disk.uuid), "size": disk.size << 20});
    Ok(guest.ask("block_resize", size).await.map(drop)?)
}

/// Hands a descriptor over under a name, which is noted.
async fn given(
    guest: &Guest,
    name: String,
    descriptor: OwnedFd,
    named: &mut Vec<String>,
) -> Result<(), QmpError> {
    guest.give("getfd", json!({"fdname": name}), descriptor).await?;
    named.push(name);
    Ok(())
}
