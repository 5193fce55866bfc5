//! Copies of disks on second nodes. A node serves its copies to the run of their instance; a copy that the
//! run loses is recorded as stale, and filled again. `rules` decides, and `keep` submits the jobs.

pub(crate) mod rules;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::hmac;
use model::error::ErrorCode;
use model::group::Group;
use model::instance::launch::{DiskLaunch, Launch, Replica, ReplicaKey, Sight};
use model::instance::{Disk, Instance};
use model::{Code, Exception, NodeName, Timestamp, Uuid};
use rpc::calls::{InstanceStart, InstanceStop, ReplicaDrop, ReplicaServe};

use super::agent::{self, NotDone};
use super::{find, launch, warning};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure};
use rules::{all_stale, other, stale};

/// The purpose of the keys, by which they differ from all else that the vault's key could make.
const PURPOSE: &str = "replicas of a run";

/// The key of a run's copies. It follows from the vault's key, so that it is in no record and no job, and a
/// node that has another run's key writes no copy of this one.
///
/// # Errors
/// The cluster has no vault.
pub(super) fn key(config: &Config, instance: Uuid, run: u64) -> Result<ReplicaKey, Exception> {
    let none = || {
        Exception::exec("the cluster has no vault, whose key protects copies of disks")
            .coded(Code::Agent)
    };
    let keys = config.vault.as_deref().ok_or_else(none)?;
    let current = keys.keys.get(&keys.current).ok_or_else(none)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, current.expose());
    let text = format!("{PURPOSE}/{}/{instance}/{run}", config.cluster.uuid);
    let tag = hmac::sign(&key, text.as_bytes());
    let bytes = tag.as_ref().first_chunk().ok_or_else(none)?;
    Ok(ReplicaKey::new(bytes))
}

/// Has a node serve its copies of an instance's disks to the highest run.
pub(super) async fn served(
    context: &mut Context,
    (instance, run): (&Instance, u64),
    node: &NodeName,
) -> Result<Result<Replica, NotDone>, Failure> {
    let config = context.config();
    let disks = on_others(&config, instance).remove(node).unwrap_or_default();
    let key = key(&config, instance.uuid, run)?;
    let serve = ReplicaServe { uuid: instance.uuid, name: instance.name.clone(), run, disks, key };
    let address = config.node(node.as_str())?.secondary_ip;
    let served = agent::call(context, node, serve).await?;
    Ok(served.map(|served| Replica {
        node: node.clone(),
        address: SocketAddr::new(address, served.port),
    }))
}

/// Begins a run that is committed, on all fresh copies of its disks. A copy that its node does not serve is
/// recorded as stale before the guest can write without it.
///
/// # Errors
/// It did not begin, or ended at once.
pub(super) async fn start(context: &mut Context, launch: Launch) -> Result<(), Failure> {
    let config = context.config();
    let instance = config.instance(launch.name.as_str())?.as_ref().clone();
    let fresh = fresh_copies(&config, &instance);
    let (mut replicas, mut not_served) = (BTreeMap::new(), Vec::new());
    for (other, disks) in fresh {
        match served(context, (&instance, launch.run), &other).await? {
            Ok(replica) => replicas.extend(disks.into_iter().map(|disk| (disk, replica.clone()))),
            Err(not) => {
                let text = format!("its copy on {other} is stale from now on: {}", not.why);
                context.say(warning(&text)).await;
                not_served.extend(disks);
            }
        }
    }
    lose(context, &instance, not_served).await?;
    let mut launch = launch;
    for disk in &mut launch.disks {
        disk.replica = replicas.remove(&disk.uuid);
    }
    let first = begun(context, &instance, launch.clone()).await?;
    let Err(not) = first else { return Ok(()) };
    if !not.by_copy {
        return Err(not.exception(&format!("Could not start instance {}", instance.name)).into());
    }
    context.say(warning(&format!("copies of its disks are stale from now on: {}", not.why))).await;
    let with_copies = launch.disks.iter().filter(|disk| disk.replica.is_some());
    lose(context, &instance, with_copies.map(|disk| disk.uuid).collect()).await?;
    launch.disks.iter_mut().for_each(|disk| disk.replica = None);
    launch.run = next_run(context, instance.uuid).await?;
    let again = begun(context, &instance, launch).await?;
    again
        .map_err(|not| not.exception(&format!("Could not start instance {}", instance.name)).into())
}

/// Commits a further run of an instance on its node; gives its number.
async fn next_run(context: &mut Context, uuid: Uuid) -> Result<u64, Failure> {
    let now = context.now();
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?.clone();
            let node = instance.primary_node.clone();
            let after = instance.with_next_run(node, now);
            let run = after.runs;
            Ok((vec![ConfigChange::Instance(after)], run))
        })
        .await
}

/// Has the node of an instance begin a run.
async fn begun(
    context: &mut Context,
    instance: &Instance,
    launch: Launch,
) -> Result<Result<(), NotDone>, Failure> {
    let has_copies = launch.disks.iter().any(|disk| disk.replica.is_some());
    let key = match has_copies {
        true => Some(key(&context.config(), instance.uuid, launch.run)?),
        false => None,
    };
    let start = InstanceStart { launch, key };
    let sight = match agent::seen(context, &instance.primary_node, start).await? {
        Ok(sight) => sight,
        Err(not) => return Ok(Err(not)),
    };
    if sight.seen.is_alive() {
        return Ok(Ok(()));
    }
    let why = sight.exit.unwrap_or_else(|| format!("it is {}", sight.seen));
    Ok(Err(NotDone { why, said: true, by_copy: false }))
}

/// The disks of an instance whose other copies are fresh, by the nodes of these.
fn fresh_copies(config: &Config, instance: &Instance) -> BTreeMap<NodeName, Vec<Uuid>> {
    let mut fresh: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for disk in config.disks_of(instance).filter(|disk| disk.place.template() == rules::MIRROR) {
        if let Some(node) = other(disk, &instance.primary_node)
            && !disk.stale.contains_key(node)
        {
            fresh.entry(node.clone()).or_default().push(disk.uuid);
        }
    }
    fresh
}

/// Commits that the other copies of these disks are stale; gives whether the instance still has the same run.
/// Another one may live elsewhere on these copies by now, and nobody goes on without them then.
pub(super) async fn lose(
    context: &mut Context,
    instance: &Instance,
    disks: Vec<Uuid>,
) -> Result<bool, Failure> {
    if disks.is_empty() {
        return Ok(true);
    }
    let (uuid, run, now) = (instance.uuid, instance.run.clone(), context.now());
    context
        .transact(move |config| {
            let instance = find::present(config, uuid)?;
            if instance.run != run {
                return Ok((Vec::new(), false));
            }
            let lost = disks.iter().filter_map(|disk| config.disks.get(disk));
            Ok((stale(lost.map(AsRef::as_ref), &instance.primary_node, now), true))
        })
        .await
}

/// Ends what lives of an instance on a node, and has the nodes of copies serve them no more. A node that does
/// not answer serves nobody: the key of the next run is another one.
pub(super) async fn stop(
    context: &mut Context,
    node: &NodeName,
    instance: &Instance,
    (timeout_s, forget): (u32, bool),
) -> Result<Result<Sight, NotDone>, Failure> {
    let (uuid, run) = (instance.uuid, instance.runs);
    let stop = InstanceStop { uuid, run, timeout_s, forget };
    let stopped = agent::seen(context, node, stop).await?;
    if stopped.is_err() || instance.disk_template != rules::MIRROR {
        return Ok(stopped);
    }
    let nodes: Vec<NodeName> = others(&context.config(), instance).into_iter().cloned().collect();
    for node in nodes {
        let call = ReplicaDrop { uuid: instance.uuid, run: instance.runs };
        if let Err(not) = agent::call(context, &node, call).await? {
            let text = format!("node {node} may go on serving copies of its disks: {}", not.why);
            context.say(warning(&text)).await;
        }
    }
    Ok(stopped)
}

/// Makes disks on every node that is to have them.
pub(super) async fn make_disks(
    context: &mut Context,
    instance: &Instance,
    disks: &[Disk],
    wipe: bool,
) -> Result<Result<(), NotDone>, Failure> {
    for (node, disks) in by_node(&context.config(), instance, disks) {
        if let Err(not) = agent::make_disks(context, &node, disks, wipe).await? {
            return Ok(Err(not));
        }
    }
    Ok(Ok(()))
}

/// Removes disks on every node that has them.
pub(super) async fn remove_disks(
    context: &mut Context,
    instance: &Instance,
    disks: &[Disk],
) -> Result<Result<(), NotDone>, Failure> {
    for (node, disks) in by_node(&context.config(), instance, disks) {
        if let Err(not) = agent::remove_disks(context, &node, disks).await? {
            return Ok(Err(not));
        }
    }
    Ok(Ok(()))
}

/// Disks of an instance by the nodes that have them; its own has those that every node reaches.
pub(super) fn by_node(
    config: &Config,
    instance: &Instance,
    disks: &[Disk],
) -> BTreeMap<NodeName, Vec<DiskLaunch>> {
    let settings = config.settings_of(instance);
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for disk in disks {
        let own = std::slice::from_ref(&instance.primary_node);
        let nodes = if disk.nodes.is_empty() { own } else { &disk.nodes };
        for node in nodes {
            found.entry(node.clone()).or_default().push(launch::disk(disk, &settings));
        }
    }
    found
}

/// The disks that other nodes have beside an instance's own, by node.
pub(super) fn on_others(
    config: &Config,
    instance: &Instance,
) -> BTreeMap<NodeName, Vec<DiskLaunch>> {
    let settings = config.settings_of(instance);
    let mut copies: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for disk in config.disks_of(instance) {
        for node in disk.nodes.iter().filter(|node| **node != instance.primary_node) {
            copies.entry(node.clone()).or_default().push(launch::disk(disk, &settings));
        }
    }
    copies
}

/// The nodes that have copies of an instance's disks.
pub(super) fn others<'c>(config: &'c Config, instance: &'c Instance) -> Vec<&'c NodeName> {
    let of = |disk: &'c Arc<Disk>| disk.nodes.iter().filter(|node| **node != instance.primary_node);
    let mut others: Vec<&NodeName> = config.disks_of(instance).flat_map(of).collect();
    others.sort();
    others.dedup();
    others
}

/// A value of the groups of the nodes that have copies of an instance's disks.
pub(super) fn groups(
    config: &Config,
    instance: &Instance,
    of_group: fn(&Group) -> &String,
) -> Vec<String> {
    let nodes = others(config, instance).into_iter().filter_map(|node| config.nodes.get(node));
    nodes.map(|node| of_group(config.group_of(node)).clone()).collect()
}

/// Each copy of an instance's disks that lacks writes, as `disk/0@NODE`.
pub(super) fn stale_ones(config: &Config, instance: &Instance) -> Vec<String> {
    let of = |(place, disk): (usize, &Arc<Disk>)| {
        let nodes = disk.stale.keys();
        nodes.map(|node| format!("disk/{place}@{node}")).collect::<Vec<String>>()
    };
    config.disks_of(instance).enumerate().flat_map(of).collect()
}

/// The nodes of an instance: its own, and those that have copies of its disks.
pub(super) fn nodes(config: &Config, instance: &Instance) -> Vec<NodeName> {
    let others = others(config, instance).into_iter();
    std::iter::once(&instance.primary_node).chain(others).cloned().collect()
}

/// Commits that all other copies of an instance's disks are stale, as its own are about to be written alone.
pub(super) async fn written_alone(context: &mut Context, uuid: Uuid) -> Result<(), Failure> {
    let now = context.now();
    let alone = move |config: &Config| {
        let instance = find::present(config, uuid)?;
        Ok((all_stale(config, instance, now), ()))
    };
    context.transact(alone).await
}

/// The changes by which mirrored disks of an instance are those of the node that has copies of them. The one that
/// it leaves has a stale copy, where its run did not end well.
///
/// # Errors
/// A copy there has become stale since somebody looked: the run that left it wrote on alone.
pub(super) fn handed_over(
    config: &Config,
    instance: &Instance,
    (to, ended_well): (&NodeName, bool),
    now: Timestamp,
) -> Result<Vec<ConfigChange>, Exception> {
    let own = &instance.primary_node;
    let turned = |disk: &Disk| {
        if let Some(since) = disk.stale.get(to) {
            let text = format!("A copy of its disks on {to} lacks writes since {since}");
            return Err(Exception::prereq(text, ErrorCode::WrongState));
        }
        let mut after = disk.changed(now);
        after.nodes = vec![to.clone(), own.clone()];
        if !ended_well {
            after.stale.insert(own.clone(), now);
        }
        Ok(ConfigChange::Disk(after))
    };
    let mirrored = config.disks_of(instance).filter(|disk| disk.place.template() == rules::MIRROR);
    mirrored.map(|disk| turned(disk)).collect()
}
