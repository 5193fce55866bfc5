//! The other copies of a guest's disks, which it writes together with its own: joined before it begins or
//! while it runs, and taken out where they fail. `steps` decides what is to be done.
//!
//! QEMU has no network of its own. So the agent connects, and hands the connection over.

pub(super) mod steps;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use model::instance::launch::{CopySight, DiskLaunch, Launch, Replica, ReplicaKey};
use model::{NodeName, Uuid};
use serde_json::{Value, json};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::guest::Guest;
use super::parts::is_mirrored;
use super::users::user_of;
use crate::VirtError;
use crate::keys::{Keys, USERNAME};
use crate::qmp::QmpError;
use steps::{Command, Fill, View};

/// How long a node may take to accept a connection and to greet: more than a lost packet costs.
const CONNECT: Duration = Duration::from_secs(5);
/// The first bytes of a server of disks (NBD's protocol, "Newstyle negotiation").
const GREETING: [u8; 8] = *b"NBDMAGIC";
/// A connection on which nothing was said for so long is tried, so often, at this distance: the kernel then
/// finds out within 4 s that its other end is gone.
const IDLE: Duration = Duration::from_secs(1);
const TRIES: u32 = 3;
/// How long what was sent may stay unacknowledged: a guest's write waits so long for a node that is gone, and a
/// short trouble of the network is no loss.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// The longest pause between two looks at how far a pass is.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a pass may make no progress.
const STALLED: Duration = Duration::from_secs(60);
/// How long the last pass may take, as the guest stands still meanwhile.
const LAST_PASS: Duration = Duration::from_secs(5);
/// Bytes that the last pass may copy: a tenth of a second at 1 Gbit/s.
const LAST_PASS_BYTES_MAX: u64 = 8 << 20;
/// Passes until a guest is taken for one that writes more than can be copied.
const PASSES_MAX: u32 = 30;

/// The begin of the names of keys while QEMU reads them.
pub(super) const JOINS: &str = "join-";

/// Why the other copy of a disk was not joined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MirrorError {
    #[error(transparent)]
    Monitor(#[from] QmpError),
    #[error(transparent)]
    Key(#[from] VirtError),
    #[error("cannot reach it at {address}")]
    Connect {
        address: SocketAddr,
        #[source]
        error: std::io::Error,
    },
    #[error("QEMU tells nothing of disk {0}, or what is not understood")]
    Unknown(Uuid),
    #[error("this QEMU cannot mirror disks: it lacks {0}")]
    Lacks(String),
    #[error("{0}")]
    Unfit(String),
    #[error("writing it failed: {0}")]
    Failed(String),
    #[error("writing it makes no progress for {} s", .0.as_secs())]
    Stalled(Duration),
    #[error(
        "the guest writes more than can be copied: {0} bytes were left after {PASSES_MAX} passes"
    )]
    Late(u64),
}

/// The other copy of a disk, and the key to it.
#[derive(Debug, Clone)]
pub(crate) struct Other {
    pub(crate) disk: Uuid,
    pub(crate) replica: Replica,
    pub(crate) key: ReplicaKey,
}

/// The mirrored disks of a launch.
pub(crate) fn mirrored(launch: &Launch) -> impl Iterator<Item = &DiskLaunch> {
    launch.disks.iter().filter(|disk| is_mirrored(disk))
}

/// Looks how QEMU has a disk.
async fn look(guest: &Guest, disk: Uuid) -> Result<View, MirrorError> {
    let graph = guest.ask("x-debug-query-block-graph", json!({})).await?;
    let nodes = guest.ask("query-named-block-nodes", json!({"flat": true})).await?;
    steps::view(disk, &graph, &nodes).ok_or(MirrorError::Unknown(disk))
}

async fn all(guest: &Guest, commands: Vec<Command>) -> Result<(), QmpError> {
    for (command, arguments) in commands {
        guest.ask(command, arguments).await?;
    }
    Ok(())
}

/// The same where a failure does no harm.
async fn tried(guest: &Guest, commands: Vec<Command>) {
    for (command, arguments) in commands {
        if let Err(error) = guest.ask(command, arguments).await {
            tracing::info!(%error, "a part of the copy of a disk is not closed");
        }
    }
}

/// Has a guest that has not begun write to the other copies of its disks, which are the same as its own.
///
/// # Errors
/// One of them cannot be joined; the text says which, and why.
pub(super) async fn join_first(
    guest: &Guest,
    keys: &Keys,
    launch: &Launch,
    key: Option<&ReplicaKey>,
) -> Result<(), String> {
    if mirrored(launch).next().is_none() {
        return Ok(());
    }
    able(guest).await.map_err(|error| stdx::daemon::chain(&error))?;
    for (number, disk) in launch.disks.iter().enumerate() {
        let Some(replica) = disk.replica.clone().filter(|_| is_mirrored(disk)) else { continue };
        let node = replica.node.clone();
        let joined = async {
            let key = key.ok_or_else(|| MirrorError::Unfit("there is no key to it".to_owned()))?;
            let other = Other { disk: disk.uuid, replica, key: key.clone() };
            let name = attach(guest, keys, &other).await?;
            all(guest, look(guest, disk.uuid).await?.swap(&name)).await?;
            Ok::<(), MirrorError>(())
        };
        joined.await.map_err(|error| {
            let why = stdx::daemon::chain(&error);
            format!("the copy of disk {number} on node {node} cannot be joined: {why}")
        })?;
    }
    Ok(())
}

/// Looks whether this QEMU has what mirrored disks need.
async fn able(guest: &Guest) -> Result<(), MirrorError> {
    let told = guest.ask("query-commands", json!({})).await?;
    let lacks = steps::lacking(&told);
    let lacks = lacks.ok_or_else(|| MirrorError::Lacks("a list of its commands".to_owned()))?;
    if lacks.is_empty() { Ok(()) } else { Err(MirrorError::Lacks(lacks.join(", "))) }
}

/// A connection that fails soon after its other end is gone.
async fn connect(address: SocketAddr) -> Result<OwnedFd, MirrorError> {
    let failed = |error| MirrorError::Connect { address, error };
    let late = |_elapsed| std::io::Error::from(std::io::ErrorKind::TimedOut);
    // QEMU stands still while it waits for a greeting, and its guest with it: so it gets no connection before
    // that is there.
    let greeted = async {
        let stream = TcpStream::connect(address).await?;
        let mut begin = [0; GREETING.len()];
        let said = stream.peek(&mut begin).await?;
        if begin[..said] != GREETING {
            return Err(std::io::Error::other("whatever answers there serves no disks"));
        }
        Ok(stream)
    };
    let connected = timeout(CONNECT, greeted).await;
    let stream = connected.map_err(late).and_then(|connected| connected).map_err(failed)?;
    let set = || {
        let socket = SockRef::from(&stream);
        socket.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(IDLE);
        socket.set_tcp_keepalive(&keepalive.with_retries(TRIES))?;
        socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
        let std = stream.into_std()?;
        // QEMU sets it as it wants.
        std.set_nonblocking(false)?;
        Ok(std.into())
    };
    set().map_err(failed)
}

/// Has QEMU open another copy, which its guest does not write yet; gives its node.
async fn attach(guest: &Guest, keys: &Keys, other: &Other) -> Result<String, MirrorError> {
    let name = steps::replica_name(other.disk);
    let connection = connect(other.replica.address).await?;
    let user = user_of(guest.process()).unwrap_or_default();
    // QEMU reads the key once. It has no path to it, so that it is given the directory.
    let placed = stdx::aside(|| keys.put(&format!("{JOINS}{name}"), &other.key, user))?.for_now();
    let given = guest.give("add-fd", json!({}), placed.open()?).await?;
    let (set, number) = (&given["fdset-id"], &given["fd"]);
    let creds = format!("key-{name}");
    let key = json!({"qom-type": "tls-creds-psk", "id": creds, "endpoint": "client",
        "dir": format!("/proc/self/fd/{number}"), "username": USERNAME});
    let read = guest.ask("object-add", key).await;
    drop(placed);
    let closed = guest.ask("remove-fd", json!({"fdset-id": set})).await;
    read.and(closed)?;
    let add = async {
        guest.give("getfd", json!({"fdname": name}), connection).await?;
        let server = json!({"type": "fd", "str": name});
        let node = json!({"driver": "nbd", "node-name": name, "server": server,
            "export": other.disk.to_string(), "tls-creds": creds, "reconnect-delay": 0,
            "discard": "unmap"});
        let added = guest.ask("blockdev-add", node).await;
        if added.is_err() {
            // It is gone where QEMU took it.
            drop(guest.ask("closefd", json!({"fdname": name})).await);
        }
        added
    };
    let added = add.await;
    // The connection keeps what it needs of it.
    tried(guest, vec![("object-del", json!({"id": creds}))]).await;
    added?;
    let fits =
        look(guest, other.disk).await.and_then(|view| view.fits(&name).map_err(MirrorError::Unfit));
    if fits.is_err() {
        tried(guest, vec![("blockdev-del", json!({"node-name": name}))]).await;
    }
    fits.map(|()| name)
}

/// How the other copies of disks stand. A disk that QEMU does not know, or of which it tells something odd,
/// stands as was `known`.
///
/// # Errors
/// QEMU does not answer.
pub(crate) async fn sights(
    guest: &Guest,
    launch: &Launch,
    known: &[CopySight],
    is_filling: impl Fn(Uuid) -> bool,
) -> Result<Vec<CopySight>, QmpError> {
    let bad = guest.bad_nodes();
    let mut sights = Vec::new();
    for disk in mirrored(launch).map(|disk| disk.uuid) {
        let known = known.iter().find(|copy| copy.disk == disk);
        match look(guest, disk).await {
            Ok(view) => {
                let was = known.map(|copy| &copy.state);
                sights.push(CopySight { disk, state: view.state(&bad, was, is_filling(disk)) });
            }
            Err(MirrorError::Monitor(error)) => return Err(error),
            Err(_odd) => sights.extend(known.cloned()),
        }
    }
    Ok(sights)
}

/// The complaint of QEMU about an own copy of a guest's disks, where there is one.
pub(crate) fn own_complaint(guest: &Guest, launch: &Launch) -> Option<(Uuid, String)> {
    let bad = guest.bad_nodes();
    mirrored(launch).find_map(|disk| {
        let (_, why) = bad.iter().find(|(node, _)| steps::is_own(disk.uuid, node))?;
        Some((disk.uuid, why.clone()))
    })
}

/// Forgets complaints about own copies: the guest writes them again.
pub(crate) fn forgive_own(guest: &Guest, launch: &Launch) {
    let is_own = |node: &str| mirrored(launch).any(|disk| steps::is_own(disk.uuid, node));
    guest.forgive(is_own);
}

/// Whether a guest stands still as a write failed.
pub(crate) async fn is_stopped_by_error(guest: &Guest) -> Result<bool, QmpError> {
    Ok(status(guest).await? == "io-error")
}

/// Whether a guest runs.
pub(crate) async fn runs(guest: &Guest) -> Result<bool, QmpError> {
    Ok(status(guest).await? == "running")
}

async fn status(guest: &Guest) -> Result<Value, QmpError> {
    let told = guest.ask("query-status", json!({})).await?;
    Ok(told["status"].clone())
}

/// Has a guest go on without other copies of its disks, each with the node of that copy.
///
/// # Errors
/// QEMU says no.
pub(crate) async fn detach(
    guest: &Guest,
    disks: &[(Uuid, Option<NodeName>)],
) -> Result<(), MirrorError> {
    for (disk, of) in disks {
        let view = look(guest, *disk).await?;
        // Nothing may wait for a node that does not answer.
        tried(guest, view.yank()).await;
        all(guest, view.detach(of.as_ref())).await?;
    }
    if is_stopped_by_error(guest).await? {
        guest.ask("cont", json!({})).await?;
    }
    for (disk, _) in disks {
        tried(guest, look(guest, *disk).await?.close()).await;
    }
    Ok(())
}

/// Ends what an agent left that ended while it worked on a guest's disks.
///
/// # Errors
/// QEMU says no.
pub(crate) async fn settle(guest: &Guest, launch: &Launch) -> Result<(), MirrorError> {
    for disk in mirrored(launch) {
        give_up(guest, disk.uuid).await;
        let view = look(guest, disk.uuid).await?;
        if view.is_half_done() {
            let of = disk.replica.as_ref().map(|replica| &replica.node);
            tried(guest, view.yank()).await;
            all(guest, view.detach(of)).await?;
        }
        tried(guest, look(guest, disk.uuid).await?.close()).await;
    }
    Ok(())
}

/// Ends the pass of a disk, if there is one.
async fn give_up(guest: &Guest, disk: Uuid) {
    let (mut changes, end) = (guest.changes(), Instant::now() + LAST_PASS);
    while let Ok(jobs) = guest.ask("query-jobs", json!({})).await {
        changes.mark_unchanged();
        let Some(pass) = steps::pass(&jobs, disk) else { return };
        let id = json!({"id": steps::job(disk)});
        tried(guest, vec![(if pass.is_over { "job-dismiss" } else { "job-cancel" }, id)]).await;
        if Instant::now() >= end {
            return;
        }
        // Each way out means another look.
        drop(timeout(AGAIN, changes.changed()).await);
    }
}

/// A copy that is being filled.
#[derive(Debug)]
pub(crate) struct Filling<'a> {
    guest: &'a Guest,
    disk: Uuid,
    /// Its node.
    name: String,
    fill: Fill,
}

impl<'a> Filling<'a> {
    /// Opens a copy, and copies to it until little is left. `tell` hears how many per cent it has.
    ///
    /// # Errors
    /// It fails; nothing of it is left in QEMU then.
    pub(crate) async fn begin(
        guest: &'a Guest,
        keys: &Keys,
        other: &Other,
        is_new: bool,
        tell: impl Fn(u8),
    ) -> Result<Self, MirrorError> {
        able(guest).await?;
        give_up(guest, other.disk).await;
        tried(guest, look(guest, other.disk).await?.close()).await;
        let name = attach(guest, keys, other).await?;
        let fill = look(guest, other.disk).await?.fill(&other.replica.node, is_new);
        let mut filling = Self { guest, disk: other.disk, name, fill };
        match filling.most(tell).await {
            Ok(()) => Ok(filling),
            Err(error) => {
                filling.abandon().await;
                Err(error)
            }
        }
    }

    async fn most(&mut self, tell: impl Fn(u8)) -> Result<(), MirrorError> {
        all(self.guest, std::mem::take(&mut self.fill.first)).await?;
        if self.fill.is_whole {
            self.pass(None, STALLED, &tell).await?;
        }
        let mut left = self.left().await?;
        for _ in 0..PASSES_MAX {
            if left <= LAST_PASS_BYTES_MAX {
                return Ok(());
            }
            self.pass(Some(&self.fill.bitmap), STALLED, &tell).await?;
            left = self.left().await?;
        }
        Err(MirrorError::Late(left))
    }

    async fn left(&self) -> Result<u64, MirrorError> {
        let lacks = look(self.guest, self.disk).await?.lacks(&self.fill.bitmap);
        lacks.ok_or(MirrorError::Unknown(self.disk))
    }

    /// Copies what is left to a guest's copy while the guest stands still, and has it write to both.
    ///
    /// # Errors
    /// It fails; the copy is not written then.
    pub(crate) async fn finish(&self) -> Result<(), MirrorError> {
        self.pass(Some(&self.fill.bitmap), LAST_PASS, &|_| ()).await?;
        match self.left().await? {
            0 => {}
            left => return Err(MirrorError::Late(left)),
        }
        let view = look(self.guest, self.disk).await?;
        Ok(all(self.guest, view.swap(&self.name)).await?)
    }

    /// A pass, which may stand still for so long.
    async fn pass(
        &self,
        bitmap: Option<&str>,
        within: Duration,
        tell: &impl Fn(u8),
    ) -> Result<(), MirrorError> {
        let mut changes = self.guest.changes();
        let begin = look(self.guest, self.disk).await?.pass(&self.name, bitmap);
        all(self.guest, vec![begin]).await?;
        let (mut done, mut since) = (0, Instant::now());
        loop {
            changes.mark_unchanged();
            let jobs = self.guest.ask("query-jobs", json!({})).await?;
            let pass = steps::pass(&jobs, self.disk).ok_or(MirrorError::Unknown(self.disk))?;
            if pass.is_over {
                let id = json!({"id": steps::job(self.disk)});
                self.guest.ask("job-dismiss", id).await?;
                return pass.error.map_or(Ok(()), |why| Err(MirrorError::Failed(why)));
            }
            let percent = pass.done.saturating_mul(100).checked_div(pass.all).unwrap_or(0);
            // All of it is there when the guest writes it, and not before.
            tell(u8::try_from(percent).unwrap_or(99).min(99));
            if pass.done > done {
                (done, since) = (pass.done, Instant::now());
            } else if since.elapsed() >= within {
                return Err(MirrorError::Stalled(within));
            }
            // Each way out means another look.
            drop(timeout(AGAIN.min(within), changes.changed()).await);
        }
    }

    /// Gives it up: nothing of it is left in QEMU, as far as that answers.
    pub(crate) async fn abandon(&self) {
        let Ok(view) = look(self.guest, self.disk).await else { return };
        if view.other() != Some(&self.name) || view.is_half_done() {
            tried(self.guest, view.yank()).await;
        }
        give_up(self.guest, self.disk).await;
        if let Ok(view) = look(self.guest, self.disk).await {
            if view.is_half_done() {
                tried(self.guest, view.detach(None)).await;
            }
            let closed = look(self.guest, self.disk).await.map(|view| view.close());
            tried(self.guest, closed.unwrap_or_default()).await;
        }
    }
}
