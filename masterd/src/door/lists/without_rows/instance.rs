//! Core: fields of instances. Parameters, and what belongs to one disk or interface, are families.

use std::borrow::Cow;

use luxi::query::{FieldDefinition, FieldKind};

use crate::units::list::natural;

/// Disks of an instance that have fields of their own.
const DISKS: usize = 16;
/// Interfaces of an instance that have fields of their own.
const INTERFACES: usize = 8;

/// Fields with names of their own.
const SIMPLE: &[FieldDefinition] = definitions! {
    "admin_state", "InstanceState", Text, "Wanted state";
    "admin_state_source", "InstanceStateSource", Text, "Who last changed the wanted state";
    "admin_up", "Autostart", Bool, "Whether it is to run";
    "be/memory", "ConfigMaxMem", Unit, "Another name of be/maxmem";
    "beparams", "BackendParameters", Other, "Merged backend parameters";
    "bridge", "NicBridge/0", Text, "Bridge of the first interface";
    "console", "Console", Other, "How its console is reached";
    "ctime", "CTime", Timestamp, "When it was made";
    "custom_beparams", "CustomBackendParameters", Other, "Backend parameters of its own";
    "custom_hvparams", "CustomHypervisorParameters", Other, "Hypervisor parameters of its own";
    "custom_nicparams", "CustomNicParameters", Other, "Interface parameters of its own";
    "custom_osparams", "CustomOpSysParameters", Other, "Operating system parameters of its own";
    "disk.count", "Disks", Number, "Number of disks";
    "disk.names", "Disk_names", Other, "Names of its disks";
    "disk.sizes", "Disk_sizes", Other, "Sizes of its disks";
    "disk.spindles", "Disk_spindles", Other, "Spindles of its disks";
    "disk.uuids", "Disk_UUIDs", Other, "UUIDs of its disks";
    "disk_template", "Disk_template", Text, "How its disks are stored";
    "disk_usage", "DiskUsage", Unit, "Space that its disks take on each of its nodes";
    "disks_active", "DisksActive", Bool, "Whether its disks are to be active";
    "forthcoming", "Forthcoming", Bool, "Whether it is only planned";
    "hvparams", "HypervisorParameters", Other, "Merged hypervisor parameters";
    "hypervisor", "Hypervisor", Text, "Hypervisor";
    "ip", "NicIP/0", Text, "IP address of the first interface";
    "mac", "NicMAC/0", Text, "Ethernet address of the first interface";
    "mtime", "MTime", Timestamp, "When it last changed";
    "name", "Instance", Text, "Instance name";
    "network_port", "Network_port", Other, "Port of its console";
    "nic.bridges", "NIC_bridges", Other, "Bridges of its interfaces";
    "nic.count", "NICs", Number, "Number of interfaces";
    "nic.ips", "NIC_IPs", Other, "IP addresses of its interfaces";
    "nic.links", "NIC_links", Other, "Links of its interfaces";
    "nic.macs", "NIC_MACs", Other, "Ethernet addresses of its interfaces";
    "nic.modes", "NIC_modes", Other, "Modes of its interfaces";
    "nic.names", "NIC_Names", Other, "Names of its interfaces";
    "nic.networks", "NIC_networks", Other, "Networks of its interfaces";
    "nic.networks.names", "NIC_networks_names", Other, "Names of the networks of its interfaces";
    "nic.uuids", "NIC_UUIDs", Other, "UUIDs of its interfaces";
    "nic.vlans", "NIC_VLANs", Other, "VLANs of its interfaces";
    "nic_link", "NicLink/0", Text, "Link of the first interface";
    "nic_mode", "NicMode/0", Text, "Mode of the first interface";
    "nic_network", "NicNetwork/0", Text, "Network of the first interface";
    "oper_ram", "Memory", Unit, "Memory that it uses";
    "oper_state", "Running", Bool, "Whether it runs";
    "oper_vcpus", "VCPUs", Number, "Processors that it uses";
    "os", "OS", Text, "Operating system";
    "osparams", "OpSysParameters", Other, "Merged operating system parameters";
    "pnode", "Primary_node", Text, "Primary node";
    "pnode.group", "PrimaryNodeGroup", Text, "Group of the primary node";
    "pnode.group.uuid", "PrimaryNodeGroupUUID", Text, "UUID of the group of the primary node";
    "sda_size", "Disk/0", Unit, "Size of the first disk";
    "sdb_size", "Disk/1", Unit, "Size of the second disk";
    "serial_no", "SerialNo", Number, "Number of changes of the instance object";
    "snodes", "Secondary_Nodes", Other, "Secondary nodes";
    "snodes.group", "SecondaryNodesGroups", Other, "Groups of the secondary nodes";
    "snodes.group.uuid", "SecondaryNodesGroupsUUID", Other, "UUIDs of the groups of the secondary nodes";
    "status", "Status", Text, "Wanted and actual state in one word";
    "tags", "Tags", Other, "Tags";
    "uuid", "UUID", Text, "Instance UUID";
    "vcpus", "ConfigVCPUs", Number, "Number of processors";
};

/// The fields of each disk: name, title, kind and description.
const OF_DISKS: &[(&str, &str, FieldKind, &str)] = &[
    ("disk.name", "DiskName", FieldKind::Text, "Name"),
    ("disk.size", "Disk", FieldKind::Unit, "Size"),
    ("disk.spindles", "DiskSpindles", FieldKind::Number, "Spindles"),
    ("disk.uuid", "DiskUUID", FieldKind::Text, "UUID"),
];

/// The fields of each interface; all of them are text.
const OF_INTERFACES: &[(&str, &str, &str)] = &[
    ("nic.bridge", "NicBridge", "Bridge"),
    ("nic.ip", "NicIP", "IP address"),
    ("nic.link", "NicLink", "Link"),
    ("nic.mac", "NicMAC", "Ethernet address"),
    ("nic.mode", "NicMode", "Mode"),
    ("nic.name", "NicName", "Name"),
    ("nic.network", "NicNetwork", "Network"),
    ("nic.network.name", "NicNetworkName", "Name of the network"),
    ("nic.uuid", "NicUUID", "UUID"),
    ("nic.vlan", "NicVLAN", "VLAN"),
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

/// All fields, in the order in which Ganeti's clients list them.
pub(super) fn definitions() -> Vec<FieldDefinition> {
    let mut all = SIMPLE.to_vec();
    for &(name, title, kind, doc) in OF_DISKS {
        let one = |number| numbered((name, title, kind), &format!("{doc} of disk"), number);
        all.extend((0..DISKS).map(one));
    }
    for &(name, title, doc) in OF_INTERFACES {
        let field = (name, title, FieldKind::Text);
        let one = |number| numbered(field, &format!("{doc} of interface"), number);
        all.extend((0..INTERFACES).map(one));
    }
    let sources = BACKEND.iter().map(|&(name, title, kind)| parameter("be", name, title, kind));
    let plain = PLAIN_HYPERVISOR.split_whitespace().map(|name| (name, None, FieldKind::Other));
    let hypervisor = HYPERVISOR.iter().copied().chain(plain);
    all.extend(sources);
    all.extend(hypervisor.map(|(name, title, kind)| parameter("hv", name, title, kind)));
    all.sort_by(|one, other| natural::compare(&one.name, &other.name));
    all
}

fn numbered(field: (&str, &str, FieldKind), doc: &str, number: usize) -> FieldDefinition {
    let (name, title, kind) = field;
    FieldDefinition {
        name: Cow::Owned(format!("{name}/{number}")),
        title: Cow::Owned(format!("{title}/{number}")),
        kind,
        doc: Cow::Owned(format!("{doc} {number}")),
    }
}

fn parameter(family: &str, name: &str, title: Option<&str>, kind: FieldKind) -> FieldDefinition {
    let field = format!("{family}/{name}");
    let doc = format!(
        "The parameter {name} of the {}",
        match family {
            "be" => "instance",
            _ => "hypervisor",
        }
    );
    FieldDefinition {
        title: title.map_or_else(|| field.clone(), str::to_owned).into(),
        name: field.into(),
        kind,
        doc: doc.into(),
    }
}
