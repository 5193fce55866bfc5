//! Copies the disks of a guest that runs, as they are at one moment: QEMU saves the old content of what the
//! guest writes meanwhile.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::time::Duration;

use model::Uuid;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::agent::GuestAgent;
use super::guest::Guest;
use super::parts::{content, node_name};
use super::plug::release;
use crate::qmp::QmpError;

/// How long it may take: below the limit of the call.
const SNAPSHOT: Duration = Duration::from_secs(55 * 60);
/// How long QEMU may take to give up a copy.
const CANCEL: Duration = Duration::from_secs(60);
/// The longest pause between two looks at how far it is.
const AGAIN: Duration = Duration::from_secs(1);

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    #[error(transparent)]
    Monitor(#[from] QmpError),
    #[error("QEMU copies no disk {0}: it has none of that name")]
    NoDisk(Uuid),
    #[error("the copy of a disk failed: {0}")]
    Failed(String),
    #[error("the copy is not whole within {} min", SNAPSHOT.as_secs() / 60)]
    Late,
    #[error("cannot write the copy")]
    File(#[from] io::Error),
}

fn job(disk: Uuid) -> String {
    format!("copy-{disk}")
}

/// The name of a copy's content: that of the disk, with another letter in front.
fn copy_name(disk: Uuid) -> String {
    node_name(disk).replacen('d', "c", 1)
}

/// Copies disks into files, all as of one moment.
///
/// # Errors
/// There is no whole copy; nothing of it is left in QEMU then.
pub(super) async fn snapshot(
    guest: &Guest,
    agent: Option<GuestAgent>,
    disks: Vec<(Uuid, File)>,
) -> Result<(), SnapshotError> {
    let all: Vec<Uuid> = disks.iter().map(|(disk, _)| *disk).collect();
    // An agent that ended may have left a copy behind.
    clear(guest, &all).await;
    let copied = copied(guest, agent, disks).await;
    clear(guest, &all).await;
    copied
}

async fn copied(
    guest: &Guest,
    agent: Option<GuestAgent>,
    disks: Vec<(Uuid, File)>,
) -> Result<(), SnapshotError> {
    let nodes = guest.ask("query-named-block-nodes", json!({"flat": true})).await?;
    let mut actions = Vec::new();
    let mut files = Vec::new();
    for (disk, file) in disks {
        let size = size(&nodes, &node_name(disk)).ok_or(SnapshotError::NoDisk(disk))?;
        file.set_len(size)?;
        let given = guest.give("add-fd", json!({}), file.try_clone()?.into()).await?;
        let set = given["fdset-id"].as_u64().unwrap_or_default();
        files.push(file);
        let name = copy_name(disk);
        let [mut node, mut raw] = content(&name, &format!("/dev/fdset/{set}"), false, None);
        node["discard"] = "unmap".into();
        raw["discard"] = "unmap".into();
        // Zeros of the disk are holes in its copy.
        raw["detect-zeroes"] = "unmap".into();
        for node in [node, raw] {
            guest.ask("blockdev-add", node).await?;
        }
        let backup = json!({"job-id": job(disk), "device": node_name(disk), "target": name,
            "sync": "full", "auto-dismiss": false});
        actions.push(json!({"type": "blockdev-backup", "data": backup}));
    }
    let jobs = actions.len();
    let together = json!({"completion-mode": "grouped"});
    let begin = guest.ask("transaction", json!({"actions": actions, "properties": together}));
    match agent {
        Some(agent) => stilled(guest, &agent, begin).await?,
        None => begin.await?,
    };
    let end = Instant::now() + SNAPSHOT;
    let mut changes = guest.changes();
    loop {
        changes.mark_unchanged();
        let told = ours(&guest.ask("query-jobs", json!({})).await?);
        if let Some(why) = told.values().find_map(|job| job.error.clone()) {
            return Err(SnapshotError::Failed(why));
        }
        if told.len() == jobs && told.values().all(|job| job.is_over) {
            break;
        }
        if Instant::now() >= end {
            return Err(SnapshotError::Late);
        }
        // Each way out means another look.
        drop(timeout(AGAIN, changes.changed()).await);
    }
    // A copy that is told as whole is to outlive the power.
    let finish = |file: &File| -> io::Result<()> {
        dig(file)?;
        file.sync_all()
    };
    stdx::aside(|| files.iter().try_for_each(finish))?;
    Ok(())
}

/// Does something while the guest writes nothing. A guest that cannot be stilled is copied as it is; one that
/// does not hear that it may write again is told so by whoever follows it.
async fn stilled<T>(guest: &Guest, agent: &GuestAgent, work: impl Future<Output = T>) -> T {
    let _turn = guest.still().lock().await;
    if let Err(error) = agent.freeze().await {
        let error = stdx::daemon::chain(&error);
        tracing::warn!(error, "the guest's file systems are copied while it writes them");
    }
    let done = work.await;
    if let Err(error) = agent.thaw().await {
        let error = stdx::daemon::chain(&error);
        tracing::warn!(error, "the guest was not told that it may write again");
    }
    done
}

/// Gives the room back that a file takes for zeros: QEMU reserves it where a disk has a hole.
fn dig(file: &File) -> io::Result<()> {
    let size = file.metadata()?.len();
    let mut from = 0;
    while from < size {
        let hole = seek(file, SeekFrom::Hole(from))?;
        let data = match seek(file, SeekFrom::Data(hole)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => size,
            Err(error) => return Err(error.into()),
        };
        if data > hole {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(file, flags, hole, data - hole)?;
        }
        from = data;
    }
    Ok(())
}

/// Bytes of a disk, by the answer to `query-named-block-nodes`.
fn size(nodes: &Value, name: &str) -> Option<u64> {
    let node = nodes.as_array()?.iter().find(|node| node["node-name"] == name)?;
    node["image"]["virtual-size"].as_u64()
}

/// A copy that QEMU knows.
#[derive(Debug, PartialEq, Eq)]
struct Copy {
    is_over: bool,
    error: Option<String>,
}

/// The copies that QEMU knows, by the answer to `query-jobs`.
fn ours(jobs: &Value) -> BTreeMap<String, Copy> {
    let all = jobs.as_array().into_iter().flatten();
    let copies = all.filter_map(|job| {
        let id = job["id"].as_str().filter(|id| id.starts_with("copy-"))?;
        let is_over = job["status"] == "concluded";
        Some((id.to_owned(), Copy { is_over, error: job["error"].as_str().map(str::to_owned) }))
    });
    copies.collect()
}

/// Removes from QEMU what a copy left, whole or not.
async fn clear(guest: &Guest, disks: &[Uuid]) {
    let (mut changes, end) = (guest.changes(), Instant::now() + CANCEL);
    while let Ok(jobs) = guest.ask("query-jobs", json!({})).await {
        changes.mark_unchanged();
        let left = ours(&jobs);
        if left.is_empty() || Instant::now() >= end {
            break;
        }
        for (id, copy) in left {
            let command = if copy.is_over { "job-dismiss" } else { "job-cancel" };
            if let Err(error) = guest.ask(command, json!({"id": id})).await {
                tracing::debug!(id, command, %error, "a copy of a disk is not over yet");
            }
        }
        // Each way out means another look.
        drop(timeout(AGAIN, changes.changed()).await);
    }
    let nodes = guest.ask("query-named-block-nodes", json!({"flat": true})).await;
    let nodes = nodes.unwrap_or_default();
    let is_there = |name: &str| size(&nodes, name).is_some();
    for name in disks.iter().map(|disk| copy_name(*disk)).filter(|name| is_there(name)) {
        release(guest, &name, None).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_told_from_other_jobs() {
        let jobs = json!([
            {"id": "mirror-1", "status": "running", "type": "mirror"},
            {"id": "copy-1", "status": "running", "type": "backup"},
            {"id": "copy-2", "status": "concluded", "error": "No space left on device"},
        ]);
        let told = ours(&jobs);
        let copy = |is_over, error: Option<&str>| Copy { is_over, error: error.map(str::to_owned) };
        assert_eq!(told.len(), 2);
        assert_eq!(told["copy-1"], copy(false, None));
        assert_eq!(told["copy-2"], copy(true, Some("No space left on device")));
    }

    #[test]
    fn room_for_zeros_is_given_back() {
        let file = tempfile::tempfile().unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, 8 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"data", 4 << 20).unwrap();
        dig(&file).unwrap();
        let is = file.metadata().unwrap();
        assert_eq!(is.len(), 8 << 20);
        assert!(std::os::unix::fs::MetadataExt::blocks(&is) * 512 < 1 << 20);
    }

    #[test]
    fn names_fit_qemu() {
        let disk = Uuid::from_u128(u128::MAX);
        assert!(copy_name(disk).len() < 31 && copy_name(disk) != node_name(disk));
        let nodes = json!([{"node-name": copy_name(disk), "image": {"virtual-size": 5}}]);
        assert_eq!((size(&nodes, &copy_name(disk)), size(&nodes, "x")), (Some(5), None));
    }
}
