//! Core: fields of instances. Parameters, and what belongs to one disk or NIC, are families.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use luxi::query::{FieldDefinition, FieldKind, Filter};
use model::group::Group;
use model::instance::launch::{GuestFacts, Sight};
use model::instance::parameters::{self, Change, Parameters};
use model::instance::state::{AdminState, NodeState, Seen};
use model::instance::{Disk, Instance, InstanceSettings, Nic, Phase};
use model::{NodeName, Timestamp};
use serde_json::Value;

use super::console::console;
use super::copies;
use super::standing::{Stands, node_state};
use crate::agents::contacts::Contacts;
use crate::config::Config;
use crate::units::list::{Cell, CellStatus, Field, Getter, by_key, fields, json, natural, seconds};

/// Disks of an instance that have fields of their own.
const DISKS: usize = 16;
/// NICs of an instance that have fields of their own.
const NICS: usize = 8;

/// An instance, with what is known of it.
#[derive(Debug, Clone)]
pub struct InstanceRow {
    pub instance: Arc<Instance>,
    pub config: Arc<Config>,
    /// The settings that count on its node.
    pub settings: Arc<InstanceSettings>,
    pub stands: Stands,
}

/// Rows of instances, of which those of one node or group share what is known of that.
#[derive(Debug)]
pub struct Rows<'c> {
    config: Arc<Config>,
    contacts: &'c Contacts,
    now: Timestamp,
    nodes: HashMap<NodeName, (NodeState, Arc<InstanceSettings>)>,
}

impl<'c> Rows<'c> {
    pub(crate) fn new(config: &Arc<Config>, contacts: &'c Contacts, now: Timestamp) -> Self {
        Self { config: Arc::clone(config), contacts, now, nodes: HashMap::new() }
    }

    /// The row of an instance.
    pub fn row(&mut self, instance: &Arc<Instance>) -> InstanceRow {
        let (config, contacts, now) = (&self.config, self.contacts, self.now);
        let of_node = self.nodes.entry(instance.primary_node.clone()).or_insert_with(|| {
            let state = node_state(config, &instance.primary_node, contacts, now);
            (state, Arc::new(config.settings_of(instance)))
        });
        InstanceRow {
            instance: Arc::clone(instance),
            config: Arc::clone(config),
            settings: Arc::clone(&of_node.1),
            stands: Stands::on(of_node.0, config, instance, contacts),
        }
    }
}

/// The instances to which a filter is limited by name; `None` if every one has to be looked at.
pub(crate) fn limited<'c>(
    config: &'c Config,
    filter: Option<&Filter>,
) -> Option<Vec<&'c Arc<Instance>>> {
    by_key(&config.instances, filter?, "name")
}

impl InstanceRow {
    fn backend(&self, name: &'static str) -> Cell {
        Cell::optional(self.settings.backend_of(&self.instance).remove(name))
    }

    /// Parameters of its hypervisor; those that are the cluster's alone are not shown.
    fn hvparams(&self) -> Parameters {
        let mut all = self.settings.hypervisor_of(&self.instance);
        let table = parameters::hypervisor(&self.instance.hypervisor).unwrap_or_default();
        for parameter in table.iter().filter(|one| one.change == Change::Cluster) {
            all.remove(parameter.name);
        }
        all
    }

    fn hypervisor(&self, name: &'static str) -> Cell {
        Cell::optional(self.hvparams().remove(name))
    }

    fn nic(&self, place: usize, value: fn(&Self, &Nic) -> Cell) -> Cell {
        let unavailable = || Cell::without(CellStatus::Unavailable);
        self.instance.nics.get(place).map_or_else(unavailable, |nic| value(self, nic))
    }

    /// A value of each NIC; null where one has none.
    fn nics(&self, of_one: fn(&Self, &Nic) -> Cell) -> Cell {
        let one = |nic| of_one(self, nic).value().cloned().unwrap_or_default();
        Cell::normal(self.instance.nics.iter().map(one).collect::<Vec<Value>>())
    }

    fn nic_parameter(&self, nic: &Nic, name: &str) -> Cell {
        Cell::optional(self.settings.nic_of(nic).remove(name))
    }

    /// The link of a NIC that is in a bridge.
    fn bridge(&self, nic: &Nic) -> Cell {
        let mut parameters = self.settings.nic_of(nic);
        let is_bridged = parameters.get("mode").is_some_and(|mode| mode == "bridged");
        Cell::optional(parameters.remove("link").filter(|_| is_bridged))
    }

    /// The UUID of a NIC's network.
    fn network(&self, nic: &Nic) -> Cell {
        let network = nic.network.as_ref().and_then(|name| self.config.networks.get(name));
        Cell::optional(network.map(|network| network.uuid.to_string()))
    }

    fn disk(&self, place: usize, of_one: fn(&Disk) -> Cell) -> Cell {
        let disk = self.config.disks_of(&self.instance).nth(place);
        disk.map_or_else(|| Cell::without(CellStatus::Unavailable), |disk| of_one(disk))
    }

    fn disks(&self, of_one: fn(&Disk) -> Cell) -> Cell {
        let one = |disk: &Arc<Disk>| of_one(disk).value().cloned().unwrap_or_default();
        Cell::normal(self.config.disks_of(&self.instance).map(one).collect::<Vec<Value>>())
    }

    fn disk_sum(&self) -> u64 {
        self.config.disks_of(&self.instance).map(|disk| disk.size).sum()
    }

    fn group(&self, of_group: fn(&Group) -> String) -> Cell {
        let node = self.config.nodes.get(&self.instance.primary_node);
        Cell::optional(node.map(|node| of_group(self.config.group_of(node))))
    }

    fn status(&self) -> Cell {
        match self.stands.status() {
            Some(status) => Cell::normal(status.as_str()),
            None => Cell::without(CellStatus::NoData),
        }
    }

    fn oper_state(&self) -> Cell {
        match (self.stands.node, self.stands.is_alive()) {
            (NodeState::Offline, _) => Cell::without(CellStatus::Offline),
            (_, Some(alive)) => Cell::normal(alive),
            (_, None) => Cell::without(CellStatus::NoData),
        }
    }

    /// The word of its guest on itself, if it has an agent that answered.
    fn guest(&self, word: fn(&GuestFacts) -> Cell) -> Cell {
        let guest = self.stands.sight.as_ref().and_then(|sight| sight.guest.as_ref());
        guest.map_or_else(|| Cell::without(CellStatus::Unavailable), word)
    }

    /// A figure of what lives.
    fn live(&self, figure: fn(&Sight) -> Cell) -> Cell {
        match (self.stands.node, self.stands.is_alive(), &self.stands.sight) {
            (NodeState::Offline, ..) => Cell::without(CellStatus::Offline),
            (_, None, _) => Cell::without(CellStatus::NoData),
            (_, Some(true), Some(sight)) => figure(sight),
            (_, Some(_), _) => Cell::without(CellStatus::Unavailable),
        }
    }

    /// The state that its node sees, where that is not plain from its status.
    fn detail(&self) -> Cell {
        let seen = self.stands.sight.as_ref().map(|sight| sight.seen);
        let told = |seen| !matches!(seen, Seen::Running | Seen::Absent);
        // A half made or half removed instance looks like one that rests.
        let phase = Some(&self.instance.phase).filter(|phase| **phase != Phase::Ready);
        let seen = seen.filter(|seen| told(*seen)).map(Seen::as_str);
        Cell::optional(phase.map(Phase::as_str).or(seen))
    }

    pub(super) fn console(&self) -> Cell {
        if self.stands.is_alive() != Some(true) {
            return Cell::without(CellStatus::Unavailable);
        }
        json(&console(&self.instance, &self.settings.hypervisor_of(&self.instance)))
    }
}

/// Fields with names of their own.
const SIMPLE: &[Field<InstanceRow>] = fields! {
    "admin_state", "InstanceState", Text, "Wanted state",
        |r| Cell::normal(r.instance.admin_state.as_str());
    "admin_state_source", "InstanceStateSource", Text, "Who last changed the wanted state",
        |r| Cell::normal(r.instance.admin_state_source.as_str());
    "admin_up", "Autostart", Bool, "Whether it is to run",
        |r| Cell::normal(r.instance.admin_state == AdminState::Up);
    "be/memory", "ConfigMaxMem", Unit, "Another name of be/maxmem",
        |r| r.backend("maxmem");
    "beparams", "BackendParameters", Other, "Merged backend parameters",
        |r| json(&r.settings.backend_of(&r.instance));
    "bridge", "NicBridge/0", Text, "Bridge of the first interface",
        |r| r.nic(0, InstanceRow::bridge);
    "console", "Console", Other, "How its console is reached",
        InstanceRow::console;
    "ctime", "CTime", Timestamp, "When it was made",
        |r| json(&seconds(r.instance.ctime));
    "custom_beparams", "CustomBackendParameters", Other, "Backend parameters of its own",
        |r| json(&r.instance.beparams);
    "custom_hvparams", "CustomHypervisorParameters", Other, "Hypervisor parameters of its own",
        |r| json(&r.instance.hvparams);
    "custom_nicparams", "CustomNicParameters", Other, "Interface parameters of its own",
        |r| r.nics(|_, nic| json(&nic.nicparams));
    "custom_osparams", "CustomOpSysParameters", Other, "Operating system parameters of its own",
        |r| json(&r.instance.osparams);
    "disk.count", "Disks", Number, "Number of disks",
        |r| json(&r.instance.disks.len());
    "disk.names", "Disk_names", Other, "Names of its disks",
        |r| r.disks(|disk| json(&disk.name));
    "disk.sizes", "Disk_sizes", Other, "Sizes of its disks",
        |r| r.disks(|disk| json(&disk.size));
    "disk.spindles", "Disk_spindles", Other, "Spindles of its disks",
        |r| r.disks(|disk| json(&disk.spindles));
    "disk.uuids", "Disk_UUIDs", Other, "UUIDs of its disks",
        |r| r.disks(|disk| json(&disk.uuid));
    "disk_template", "Disk_template", Text, "How its disks are stored",
        |r| Cell::normal(r.instance.disk_template.as_str());
    "disk_usage", "DiskUsage", Unit, "Space that its disks take on each of its nodes",
        |r| json(&r.disk_sum());
    "disks_active", "DisksActive", Bool, "Whether its disks are to be active",
        |r| Cell::normal(r.instance.disks_active);
    "forthcoming", "Forthcoming", Bool, "Whether it is only planned",
        |r| Cell::normal(r.instance.forthcoming);
    "hvparams", "HypervisorParameters", Other, "Merged hypervisor parameters",
        |r| json(&r.hvparams());
    "hypervisor", "Hypervisor", Text, "Hypervisor",
        |r| Cell::normal(r.instance.hypervisor.as_str());
    "ip", "NicIP/0", Text, "IP address of the first interface",
        |r| r.nic(0, |_, nic| Cell::optional(nic.ip.map(|ip| ip.to_string())));
    "mac", "NicMAC/0", Text, "Ethernet address of the first interface",
        |r| r.nic(0, |_, nic| json(&nic.mac));
    "mtime", "MTime", Timestamp, "When it last changed",
        |r| json(&seconds(r.instance.mtime));
    host "name", "Instance", Text, "Instance name",
        |r| Cell::normal(r.instance.name.as_str());
    "network_port", "Network_port", Other, "Port of its console",
        |r| Cell::optional(r.instance.network_port);
    "nic.bridges", "NIC_bridges", Other, "Bridges of its interfaces",
        |r| r.nics(InstanceRow::bridge);
    "nic.count", "NICs", Number, "Number of interfaces",
        |r| json(&r.instance.nics.len());
    "nic.ips", "NIC_IPs", Other, "IP addresses of its interfaces",
        |r| r.nics(|_, nic| json(&nic.ip));
    "nic.links", "NIC_links", Other, "Links of its interfaces",
        |r| r.nics(|r, nic| r.nic_parameter(nic, "link"));
    "nic.macs", "NIC_MACs", Other, "Ethernet addresses of its interfaces",
        |r| r.nics(|_, nic| json(&nic.mac));
    "nic.modes", "NIC_modes", Other, "Modes of its interfaces",
        |r| r.nics(|r, nic| r.nic_parameter(nic, "mode"));
    "nic.names", "NIC_Names", Other, "Names of its interfaces",
        |r| r.nics(|_, nic| json(&nic.name));
    "nic.networks", "NIC_networks", Other, "Networks of its interfaces",
        |r| r.nics(InstanceRow::network);
    "nic.networks.names", "NIC_networks_names", Other, "Names of the networks of its interfaces",
        |r| r.nics(|_, nic| json(&nic.network));
    "nic.uuids", "NIC_UUIDs", Other, "UUIDs of its interfaces",
        |r| r.nics(|_, nic| json(&nic.uuid));
    "nic.vlans", "NIC_VLANs", Other, "VLANs of its interfaces",
        |r| r.nics(|r, nic| r.nic_parameter(nic, "vlan"));
    "nic_link", "NicLink/0", Text, "Link of the first interface",
        |r| r.nic(0, |r, nic| r.nic_parameter(nic, "link"));
    "nic_mode", "NicMode/0", Text, "Mode of the first interface",
        |r| r.nic(0, |r, nic| r.nic_parameter(nic, "mode"));
    "nic_network", "NicNetwork/0", Text, "Network of the first interface",
        |r| r.nic(0, InstanceRow::network);
    "oper_ram", "Memory", Unit, "Memory that it uses",
        |r| r.live(|sight| json(&sight.memory));
    "oper_state", "Running", Bool, "Whether it runs",
        InstanceRow::oper_state;
    "oper_vcpus", "VCPUs", Number, "Processors that it uses",
        |r| r.live(|sight| json(&sight.vcpus));
    "os", "OS", Text, "Operating system",
        |r| Cell::normal(r.instance.os.as_str());
    "osparams", "OpSysParameters", Other, "Merged operating system parameters",
        |r| json(&r.settings.system_of(&r.instance));
    host "pnode", "Primary_node", Text, "Primary node",
        |r| Cell::normal(r.instance.primary_node.as_str());
    "pnode.group", "PrimaryNodeGroup", Text, "Group of the primary node",
        |r| r.group(|group| group.name.clone());
    "pnode.group.uuid", "PrimaryNodeGroupUUID", Text, "UUID of the group of the primary node",
        |r| r.group(|group| group.uuid.clone());
    "sda_size", "Disk/0", Unit, "Size of the first disk",
        |r| r.disk(0, |disk| json(&disk.size));
    "sdb_size", "Disk/1", Unit, "Size of the second disk",
        |r| r.disk(1, |disk| json(&disk.size));
    "serial_no", "SerialNo", Number, "Number of changes of the instance object",
        |r| Cell::normal(r.instance.serial_no);
    "snodes", "Secondary_Nodes", Other, "Secondary nodes",
        |r| json(&copies::others(&r.config, &r.instance));
    "snodes.group", "SecondaryNodesGroups", Other, "Groups of the secondary nodes",
        |r| json(&copies::groups(&r.config, &r.instance, |group| &group.name));
    "snodes.group.uuid", "SecondaryNodesGroupsUUID", Other, "UUIDs of the groups of the secondary nodes",
        |r| json(&copies::groups(&r.config, &r.instance, |group| &group.uuid));
    "status", "Status", Text, "Wanted and actual state in one word",
        InstanceRow::status;
    "tags", "Tags", Other, "Tags",
        |r| json(&r.instance.tags);
    "uuid", "UUID", Text, "Instance UUID",
        |r| json(&r.instance.uuid);
    "vcpus", "ConfigVCPUs", Number, "Number of processors",
        |r| r.backend("vcpus");
};

/// Ours.
const OWN: &[Field<InstanceRow>] = fields! {
    "phase", "Phase", Text, "Whether its record is whole, or what is being done to it",
        |r| Cell::normal(r.instance.phase.as_str());
    "run", "Run", Number, "The number of the run that may live",
        |r| Cell::optional(r.instance.run.as_ref().map(|run| run.number));
    "run_since", "RunSince", Timestamp, "Since when",
        |r| Cell::optional(r.instance.run.as_ref().map(|run| seconds(run.since)));
    "detail", "Detail", Text, "What its node sees, where that is not plain from its status",
        InstanceRow::detail;
    "last_exit", "LastExit", Text, "Why it ended last",
        |r| Cell::optional(r.stands.sight.as_ref().and_then(|sight| sight.exit.clone()));
    "stale_copies", "StaleCopies", Other, "Copies of its disks that lack writes, each with its node",
        |r| json(&copies::stale_ones(&r.config, &r.instance));
    "guest_hostname", "GuestName", Text, "What its guest calls itself, by the agent in it",
        |r| r.guest(|guest| Cell::optional(guest.hostname.clone()));
    "guest_ips", "GuestIPs", Other, "Addresses that its guest has, by the agent in it",
        |r| r.guest(|guest| json(&guest.addresses));
    "guest_kernel", "GuestKernel", Text, "The kernel of its guest, by the agent in it",
        |r| r.guest(|guest| Cell::optional(guest.kernel.clone()));
    "guest_os", "GuestOS", Text, "The operating system of its guest, by the agent in it",
        |r| r.guest(|guest| Cell::optional(guest.system.clone()));
    "protected", "Protected", Bool, "Whether removal is refused",
        |r| Cell::normal(r.instance.protected);
    "start_order", "StartOrder", Number, "Its place among those that a node starts after its boot",
        |r| Cell::normal(r.instance.start_order);
};

/// The fields of each disk: name, title, kind, description and value.
type OfDisks =
    (&'static str, &'static str, FieldKind, &'static str, fn(&InstanceRow, usize) -> Cell);

const OF_DISKS: &[OfDisks] = &[
    ("disk.name", "DiskName", FieldKind::Text, "Name", |r, n| {
        r.disk(n, |disk| Cell::optional(disk.name.clone()))
    }),
    ("disk.size", "Disk", FieldKind::Unit, "Size", |r, n| r.disk(n, |disk| json(&disk.size))),
    ("disk.spindles", "DiskSpindles", FieldKind::Number, "Spindles", |r, n| {
        r.disk(n, |disk| Cell::optional(disk.spindles))
    }),
    ("disk.uuid", "DiskUUID", FieldKind::Text, "UUID", |r, n| r.disk(n, |disk| json(&disk.uuid))),
];

/// The fields of each NIC; all of them are text.
type OfNics = (&'static str, &'static str, &'static str, fn(&InstanceRow, usize) -> Cell);

const OF_NICS: &[OfNics] = &[
    ("nic.bridge", "NicBridge", "Bridge", |r, n| r.nic(n, InstanceRow::bridge)),
    ("nic.ip", "NicIP", "IP address", |r, n| {
        r.nic(n, |_, nic| Cell::optional(nic.ip.map(|ip| ip.to_string())))
    }),
    ("nic.link", "NicLink", "Link", |r, n| r.nic(n, |r, nic| r.nic_parameter(nic, "link"))),
    ("nic.mac", "NicMAC", "Ethernet address", |r, n| r.nic(n, |_, nic| json(&nic.mac))),
    ("nic.mode", "NicMode", "Mode", |r, n| r.nic(n, |r, nic| r.nic_parameter(nic, "mode"))),
    ("nic.name", "NicName", "Name", |r, n| r.nic(n, |_, nic| Cell::optional(nic.name.clone()))),
    ("nic.network", "NicNetwork", "Network", |r, n| r.nic(n, InstanceRow::network)),
    ("nic.network.name", "NicNetworkName", "Name of the network", |r, n| {
        r.nic(n, |_, nic| Cell::optional(nic.network.as_ref().map(ToString::to_string)))
    }),
    ("nic.uuid", "NicUUID", "UUID", |r, n| r.nic(n, |_, nic| json(&nic.uuid))),
    ("nic.vlan", "NicVLAN", "VLAN", |r, n| r.nic(n, |r, nic| r.nic_parameter(nic, "vlan"))),
];

/// Backend parameters with their titles, where these are not the names of the fields.
const BACKEND: &[(&str, Option<&str>, FieldKind)] = &[
    ("always_failover", None, FieldKind::Bool),
    ("auto_balance", Some("Auto_balance"), FieldKind::Bool),
    ("maxmem", Some("ConfigMaxMem"), FieldKind::Unit),
    ("minmem", Some("ConfigMinMem"), FieldKind::Unit),
    ("spindle_use", None, FieldKind::Number),
    ("vcpus", Some("ConfigVCPUs"), FieldKind::Number),
];

/// Hypervisor parameters with titles of their own, or that are not of the kind `other`.
const HYPERVISOR: &[(&str, Option<&str>, FieldKind)] = &[
    ("acpi", Some("ACPI"), FieldKind::Bool),
    ("boot_order", Some("Boot_order"), FieldKind::Other),
    ("cdrom_image_path", Some("CDROM_image_path"), FieldKind::Other),
    ("cpu_cap", None, FieldKind::Number),
    ("cpu_cores", None, FieldKind::Number),
    ("cpu_sockets", None, FieldKind::Number),
    ("cpu_threads", None, FieldKind::Number),
    ("cpu_type", Some("cpu_type"), FieldKind::Other),
    ("cpu_weight", None, FieldKind::Number),
    ("disk_type", Some("Disk_type"), FieldKind::Other),
    ("initrd_path", Some("Initrd_path"), FieldKind::Other),
    ("kernel_path", Some("Kernel_path"), FieldKind::Other),
    ("kvm_pci_reservations", None, FieldKind::Number),
    ("migration_downtime", None, FieldKind::Number),
    ("nic_type", Some("NIC_type"), FieldKind::Other),
    ("num_ttys", None, FieldKind::Number),
    ("pae", Some("PAE"), FieldKind::Bool),
    ("pci_pass", Some("pci_pass"), FieldKind::Other),
    ("serial_console", None, FieldKind::Bool),
    ("serial_speed", None, FieldKind::Number),
    ("spice_ip_version", None, FieldKind::Number),
    ("spice_playback_compression", None, FieldKind::Bool),
    ("spice_use_tls", None, FieldKind::Bool),
    ("spice_use_vdagent", None, FieldKind::Bool),
    ("startup_timeout", None, FieldKind::Number),
    ("use_bootloader", None, FieldKind::Bool),
    ("use_chroot", None, FieldKind::Bool),
    ("use_guest_agent", None, FieldKind::Bool),
    ("use_localtime", None, FieldKind::Bool),
    ("user_shutdown", None, FieldKind::Bool),
    ("vhost_net", None, FieldKind::Bool),
    ("viridian", None, FieldKind::Bool),
    ("virtio_net_queues", None, FieldKind::Number),
    ("vnc_bind_address", Some("VNC_bind_address"), FieldKind::Other),
    ("vnc_tls", None, FieldKind::Bool),
    ("vnc_x509_verify", None, FieldKind::Bool),
    ("vnet_hdr", None, FieldKind::Bool),
];

/// All other hypervisor parameters.
const PLAIN_HYPERVISOR: &str = "\
    blockdev_prefix bootloader_args bootloader_path cdrom2_image_path cdrom_disk_type cpu_mask \
    cpuid device_model devices disk_aio disk_cache disk_discard drop_capabilities extra_cgroups \
    extra_config floppy_image_path init_script kernel_args keymap kvm_extra kvm_flag kvm_path \
    machine_version mem_path migration_caps reboot_behavior root_path scsi_controller_type \
    security_domain security_model soundhw spice_bind spice_image_compression \
    spice_jpeg_wan_compression spice_password_file spice_streaming_video spice_tls_ciphers \
    spice_zlib_glz_wan_compression usb_devices usb_mouse vga vif_script vif_type \
    vnc_password_file vnc_x509_path";

/// All fields: Ganeti's in the order in which its clients list them, then ours.
pub fn all() -> &'static [Field<InstanceRow>] {
    static ALL: LazyLock<Vec<Field<InstanceRow>>> = LazyLock::new(|| {
        let mut all: Vec<Field<InstanceRow>> = SIMPLE.iter().map(Field::copied).collect();
        for &(name, title, kind, doc, get) in OF_DISKS {
            let of = |number| numbered((name, title, kind), format!("{doc} of disk"), number, get);
            all.extend((0..DISKS).map(of));
        }
        for &(name, title, doc, get) in OF_NICS {
            let field = (name, title, FieldKind::Text);
            let of = |number| numbered(field, format!("{doc} of interface"), number, get);
            all.extend((0..NICS).map(of));
        }
        let plain = PLAIN_HYPERVISOR.split_whitespace().map(|name| (name, None, FieldKind::Other));
        let hypervisor = HYPERVISOR.iter().copied().chain(plain);
        all.extend(BACKEND.iter().map(|&row| parameter("be", row, InstanceRow::backend)));
        all.extend(hypervisor.map(|row| parameter("hv", row, InstanceRow::hypervisor)));
        all.sort_by(|one, other| natural::compare(&one.definition.name, &other.definition.name));
        all.extend(OWN.iter().map(Field::copied));
        all
    });
    &ALL
}

fn numbered(
    field: (&str, &str, FieldKind),
    doc: String,
    number: usize,
    get: fn(&InstanceRow, usize) -> Cell,
) -> Field<InstanceRow> {
    let (name, title, kind) = field;
    let definition = FieldDefinition {
        name: Cow::Owned(format!("{name}/{number}")),
        title: Cow::Owned(format!("{title}/{number}")),
        kind,
        doc: Cow::Owned(format!("{doc} {number}")),
    };
    Field { definition, is_host_name: false, value: Getter::Numbered(get, number) }
}

fn parameter(
    family: &str,
    (name, title, kind): (&'static str, Option<&'static str>, FieldKind),
    get: fn(&InstanceRow, &'static str) -> Cell,
) -> Field<InstanceRow> {
    let field = format!("{family}/{name}");
    let of = if family == "be" { "instance" } else { "hypervisor" };
    let definition = FieldDefinition {
        title: title.map_or_else(|| field.clone(), str::to_owned).into(),
        name: field.into(),
        kind,
        doc: format!("The parameter {name} of the {of}").into(),
    };
    Field { definition, is_host_name: false, value: Getter::Named(get, name) }
}
