//! Core: the record of a new instance, from what a client asks for.

use std::collections::BTreeMap;

use model::error::ErrorCode;
use model::instance::disk::{Disk, DiskPlace};
use model::instance::parameters::{BACKEND, Parameters, hypervisor, read};
use model::instance::record::{DISKS_MAX, INSTANCES_MAX, Instance, NICS_MAX, Phase};
use model::instance::settings::{memory_fits, with_memory};
use model::instance::state::{AdminState, AdminStateSource};
use model::instance::{InstanceSettings, Nic};
use model::node::Node;
use model::opcode::InstanceCreate;
use model::opcode::instance::CreateMode;
use model::{Exception, InstanceName, JobId, MacAddress, NodeName, Timestamp, Uuid};

use super::capacity::{AllFacts, Extent, Share, broken, fits, may_host};
use super::copies::rules::MIRROR;
use super::devices::{self, Around, WantedDisk};
use super::os;
use crate::config::{Config, ConfigChange};
use crate::machines::network::claim;
use crate::units::wrong;

/// Ports of consoles (Ganeti's range).
const CONSOLE_PORTS: std::ops::RangeInclusive<u16> = 11_000..=14_999;
/// Hypervisors whose instances have one.
const WITH_CONSOLE_PORT: [&str; 2] = ["kvm", "xen-hvm"];
/// Disk templates that this version makes.
const TEMPLATES: [&str; 4] = ["diskless", "file", "sharedfile", MIRROR];

/// The surroundings in which a record is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Making<'m> {
    pub(super) facts: &'m AllFacts,
    pub(super) job: JobId,
    pub(super) now: Timestamp,
    /// A number that nobody foresees; UUIDs and Ethernet addresses follow from it.
    pub(super) seed: u128,
}

impl Making<'_> {
    fn uuid(&self, turn: u128) -> Uuid {
        let mixed = self.seed.wrapping_add(turn).wrapping_mul(0x2545_F491_4F6C_DD1D_9E37_79B9);
        uuid::Builder::from_random_bytes((mixed ^ (mixed >> 61)).to_le_bytes()).into_uuid()
    }
}

/// A new instance with its disks, before it has a node.
#[derive(Debug, Clone)]
pub(super) struct Blueprint {
    pub(super) instance: Instance,
    pub(super) disks: Vec<WantedDisk>,
}

/// The wish of a client, as far as no node decides on it.
///
/// # Errors
/// It cannot be.
pub(super) fn asked(
    op: &InstanceCreate,
    config: &Config,
    settings: &InstanceSettings,
    making: Making<'_>,
) -> Result<Blueprint, Exception> {
    supported(op)?;
    model::tag::check(&op.tags)?;
    let name: InstanceName = op.instance_name.parse().map_err(|error| wrong(format!("{error}")))?;
    let kind = chosen_hypervisor(op, settings)?;
    let template = disk_template(op, settings)?;
    let table = hypervisor(&kind).unwrap_or_default();
    let hvparams = read(table, &op.hvparams, false).map_err(|error| wrong(error.to_string()))?;
    let beparams = read(BACKEND, &with_memory(&op.beparams), false);
    let beparams = beparams.map_err(|error| wrong(error.to_string()))?;
    if op.nics.len() > NICS_MAX {
        return Err(wrong(format!("{} NICs; an instance has at most {NICS_MAX}", op.nics.len())));
    }
    let instance = Instance {
        name,
        uuid: making.uuid(0),
        serial_no: 1,
        ctime: making.now,
        mtime: making.now,
        tags: model::tag::with(&[], &op.tags)?,
        primary_node: config.role.master.clone(),
        os: op.os_type.clone().unwrap_or_default(),
        hypervisor: kind.clone(),
        disk_template: template.clone(),
        hvparams: hvparams.over(&Parameters::new()),
        beparams: beparams.over(&Parameters::new()),
        osparams: op.osparams.clone().into_iter().collect(),
        admin_state: AdminState::Down,
        admin_state_source: AdminStateSource::Admin,
        nics: Vec::new(),
        disks: Vec::new(),
        disks_active: false,
        network_port: None,
        forthcoming: op.forthcoming,
        phase: Phase::Creating { job: making.job },
        run: None,
        runs: 0,
        protected: false,
        start_order: 0,
        renaming: None,
    };
    memory_fits(&settings.backend_of(&instance)).map_err(|error| wrong(error.to_string()))?;
    let disks = match template.as_str() {
        "diskless" if !op.disks.is_empty() => {
            return Err(wrong("Disks given for a diskless instance"));
        }
        "diskless" => Vec::new(),
        _ if op.disks.is_empty() => return Err(wrong("No disk specified")),
        _ if op.disks.len() > DISKS_MAX => {
            let text = format!("{} disks; an instance has at most {DISKS_MAX}", op.disks.len());
            return Err(wrong(text));
        }
        template => {
            let usual = settings.ipolicy.std.disk_size;
            let read = |told| devices::disk(told, template, usual);
            op.disks.iter().map(read).collect::<Result<_, _>>()?
        }
    };
    if installs(op) {
        os::known(config, making.facts, &instance.os)?;
    }
    Ok(Blueprint { instance, disks })
}

/// Whether an operating system is to be written: not where there is nothing to write it on.
pub(super) fn installs(op: &InstanceCreate) -> bool {
    op.no_install != Some(true) && op.disk_template.as_deref() != Some("diskless")
}

/// Refuses what this version cannot do, by its name.
fn supported(op: &InstanceCreate) -> Result<(), Exception> {
    match op.mode {
        CreateMode::Create => {}
        CreateMode::Import | CreateMode::RemoteImport => {
            return Err(wrong("this version takes no instance from another cluster"));
        }
    }
    if op.instance_communication {
        return Err(wrong("this version has no network for communication with instances"));
    }
    if op.commit {
        return Err(wrong("this version makes no planned instance a real one; remove it first"));
    }
    let is_below = |directory: &str| directory.split('/').all(|part| part != ".." && part != ".");
    if op.file_storage_dir.as_deref().is_some_and(|directory| !is_below(directory)) {
        return Err(wrong("file_storage_dir: it is a directory below the cluster's, without `..`"));
    }
    let has_system = op.os_type.as_ref().is_some_and(|os| !os.is_empty());
    if !has_system && op.no_install != Some(true) {
        return Err(wrong("No guest OS specified"));
    }
    Ok(())
}

fn chosen_hypervisor(
    op: &InstanceCreate,
    settings: &InstanceSettings,
) -> Result<String, Exception> {
    let enabled = &settings.enabled_hypervisors;
    let usual = enabled.first().cloned().unwrap_or_default();
    let wanted = op.hypervisor.clone().unwrap_or(usual);
    if !enabled.contains(&wanted) {
        let text = format!(
            "Selected hypervisor ({wanted}) not enabled in the cluster ({})",
            enabled.join(",")
        );
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    Ok(wanted)
}

fn disk_template(op: &InstanceCreate, settings: &InstanceSettings) -> Result<String, Exception> {
    let enabled = &settings.enabled_disk_templates;
    let usual = enabled.first().cloned().unwrap_or_default();
    let wanted = op.disk_template.clone().unwrap_or(usual);
    if !enabled.contains(&wanted) {
        let text = format!(
            "Disk template {wanted} is not enabled in cluster. Enabled disk templates are: {}",
            enabled.join(",")
        );
        return Err(wrong(text));
    }
    if !TEMPLATES.contains(&wanted.as_str()) {
        return Err(wrong(format!(
            "this version makes no disks of template {wanted}; it makes {}",
            TEMPLATES.join(", ")
        )));
    }
    Ok(wanted)
}

impl Blueprint {
    /// Its share of its node.
    pub(super) fn share(&self, settings: &InstanceSettings) -> Share {
        let is_local = ["file", MIRROR].contains(&self.instance.disk_template.as_str());
        let disk = self.disks.iter().map(|disk| disk.size).sum::<u64>();
        Share::of(&self.instance, settings, if is_local { disk } else { 0 })
    }

    /// The same with what policies limit, unless the client lets it break these.
    pub(super) fn wanted(
        &self,
        settings: &InstanceSettings,
        op: &InstanceCreate,
    ) -> (Share, Option<Extent>) {
        let size = |disk: &WantedDisk| i64::try_from(disk.size).unwrap_or(i64::MAX);
        let sizes: Vec<i64> = self.disks.iter().map(size).collect();
        let mut extent = Extent::of(&self.instance, settings, &sizes);
        // It gets its cards with its node.
        extent.measures.nic_count = i64::try_from(op.nics.len()).unwrap_or(i64::MAX);
        (self.share(settings), Some(extent).filter(|_| !op.ignore_ipolicy))
    }

    /// Whether its disks have copies on a second node.
    pub(super) fn has_copies(&self) -> bool {
        self.instance.disk_template == MIRROR
    }

    /// Its share of the node that has copies of its disks.
    pub(super) fn share_of_copies(&self) -> Share {
        let disk = self.disks.iter().map(|disk| disk.size).sum::<u64>();
        Share { disk, ..Share::default() }
    }

    /// The changes that reserve everything that it takes, on these nodes; and the instance.
    ///
    /// # Errors
    /// A node may not have it, or has no room; or a rule forbids it.
    pub(super) fn on(
        &self,
        Nodes { primary: node, secondary }: Nodes<'_>,
        op: &InstanceCreate,
        config: &Config,
        making: Making<'_>,
    ) -> Result<(Vec<ConfigChange>, Instance), Exception> {
        let mut instance = Instance { primary_node: node.name.clone(), ..self.instance.clone() };
        new_name(config, &instance.name)?;
        may_host(node, "primary")?;
        let (group, settings) = (config.group_of(node), config.settings_on(node));
        let facts = making.facts.get(&node.name).map(AsRef::as_ref);
        fits(config, node, facts, self.share(&settings), None)?;
        if let Some(secondary) = secondary {
            may_host(secondary, "secondary")?;
            let facts = making.facts.get(&secondary.name).map(AsRef::as_ref);
            fits(config, secondary, facts, self.share_of_copies(), None)?;
        }
        let mut claims = Vec::new();
        let mut given: Vec<MacAddress> = Vec::new();
        for (turn, told) in (1_u128..).zip(&op.nics) {
            let mut told = told.clone();
            told.entry("mac").or_insert_with(|| "auto".into());
            let around = Around {
                config,
                group,
                settings: &settings,
                conflicts_check: op.conflicts_check,
                seed: making.seed.wrapping_add(turn << 32),
                given: &given,
            };
            let wanted = devices::nic(&told, devices::new_nic(making.uuid(turn)), around)?;
            given.push(wanted.nic.mac);
            claims.extend(wanted.claim);
            instance.nics.push(wanted.nic);
        }
        let directory = directory(&instance, op.file_storage_dir.as_deref(), &settings);
        let nodes: Vec<NodeName> =
            [Some(node), secondary].into_iter().flatten().map(|node| node.name.clone()).collect();
        let disks: Vec<Disk> = (100_u128..)
            .zip(&self.disks)
            .map(|(turn, wanted)| {
                let place = Placed { directory: &directory, nodes: &nodes };
                made(wanted, &instance, place, (making.uuid(turn), making.now))
            })
            .collect();
        instance.disks = disks.iter().map(|disk| disk.uuid).collect();
        let sizes: Vec<i64> =
            disks.iter().map(|disk| i64::try_from(disk.size).unwrap_or(i64::MAX)).collect();
        let broken = broken(&instance, &settings, &sizes);
        if !broken.is_empty() && !op.ignore_ipolicy {
            let text = format!(
                "Instance allocation to group {} ({}) violates policy: {}",
                group.uuid,
                group.name,
                broken.join(", ")
            );
            return Err(wrong(text));
        }
        if WITH_CONSOLE_PORT.contains(&instance.hypervisor.as_str()) {
            instance.network_port = Some(free_port(config)?);
        }
        if instance.forthcoming {
            instance.phase = Phase::Ready;
        }
        let (mut changes, bound) = claim::made(config, &claims, making.now, making.seed)?;
        take_addresses(&mut instance.nics, &bound)?;
        changes.extend(disks.into_iter().map(ConfigChange::Disk));
        changes.push(ConfigChange::Instance(instance.clone()));
        Ok((changes, instance))
    }
}

/// Refuses a name that is taken, or one instance too many.
pub(super) fn new_name(config: &Config, name: &InstanceName) -> Result<(), Exception> {
    if config.instances.contains_key(name) {
        let text = format!("Instance '{name}' is already in the cluster");
        return Err(Exception::prereq(text, ErrorCode::AlreadyExists));
    }
    if let Some(other) = config.instances.by.renaming.of(name.clone()).next() {
        let text = format!("Instance {} is being given the name '{name}'", other.name);
        return Err(Exception::prereq(text, ErrorCode::AlreadyExists));
    }
    if config.nodes.keys().any(|node| node.as_str() == name.as_str()) {
        let text = format!("'{name}' is the name of a node");
        return Err(Exception::prereq(text, ErrorCode::ResourceNotUnique));
    }
    if config.instances.len() >= INSTANCES_MAX {
        let text = format!("there are {INSTANCES_MAX} instances, which is the limit");
        return Err(Exception::prereq(text, ErrorCode::InsufficientResources));
    }
    Ok(())
}

/// Gives NICs the addresses that they claimed; one that waits for its address is refused.
pub(super) fn take_addresses(
    nics: &mut [Nic],
    bound: &[model::network::Claim],
) -> Result<(), Exception> {
    for claim in bound {
        let Some(address) = claim.addresses().first() else {
            let text = format!("There are no more free IPs in network '{}'", claim.network);
            return Err(Exception::prereq(text, ErrorCode::InsufficientResources));
        };
        let owner = &claim.owner;
        let nic = nics.iter_mut().find(|nic| *owner == model::network::Owner::Nic(nic.uuid));
        if let Some(nic) = nic {
            nic.ip = Some(*address);
        }
    }
    Ok(())
}

fn free_port(config: &Config) -> Result<u16, Exception> {
    CONSOLE_PORTS
        .into_iter()
        .find(|port| config.instances.by.port.of(*port).next().is_none())
        .ok_or_else(|| {
            let text = "no port of consoles is free";
            Exception::prereq(text, ErrorCode::InsufficientResources)
        })
}

/// The directory of an instance's files.
pub(super) fn directory(
    instance: &Instance,
    below: Option<&str>,
    settings: &InstanceSettings,
) -> String {
    let base = match instance.disk_template.as_str() {
        "sharedfile" => &settings.shared_file_storage_dir,
        _ => &settings.file_storage_dir,
    };
    let below = below.map(|dir| format!("/{}", dir.trim_matches('/')));
    format!("{base}{}/{}", below.unwrap_or_default(), instance.name)
}

/// The nodes of a new instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nodes<'n> {
    pub(super) primary: &'n Node,
    /// The one that has copies of its disks, where they have any.
    pub(super) secondary: Option<&'n Node>,
}

/// The place of new disks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'p> {
    pub(super) directory: &'p str,
    /// The instance's own node comes first. They count where not every node reaches the directory.
    pub(super) nodes: &'p [NodeName],
}

/// A disk at its place.
pub(super) fn made(
    wanted: &WantedDisk,
    instance: &Instance,
    Placed { directory, nodes }: Placed<'_>,
    (uuid, now): (Uuid, Timestamp),
) -> Disk {
    let path = format!("{directory}/{uuid}");
    let (place, nodes) = match instance.disk_template.as_str() {
        "sharedfile" => (DiskPlace::SharedFile { path }, Vec::new()),
        MIRROR => (DiskPlace::Mirror { path }, nodes.to_vec()),
        _ => (DiskPlace::File { path }, vec![instance.primary_node.clone()]),
    };
    Disk {
        uuid,
        instance: Some(instance.uuid),
        name: wanted.name.clone(),
        serial_no: 1,
        ctime: now,
        mtime: now,
        size: wanted.size,
        mode: wanted.mode,
        place,
        nodes,
        stale: BTreeMap::new(),
        spindles: wanted.spindles,
        params: Parameters::new(),
    }
}
