//! The tables, a row each. Names and defaults are those of Ganeti 3.1, and those of `KVM`'s end ours.

use super::{Change, Parameter, ParameterKind, SIZE_MAX, Table, Usual};

const fn row(name: &'static str, kind: ParameterKind, usual: Usual) -> Parameter {
    Parameter { name, kind, usual, change: Change::Restart }
}

const fn flag(name: &'static str, usual: bool) -> Parameter {
    row(name, ParameterKind::Bool, Usual::Bool(usual))
}

const fn number(name: &'static str, [least, most]: [i64; 2], usual: i64) -> Parameter {
    row(name, ParameterKind::Int(least, most), Usual::Int(usual))
}

const fn word(
    name: &'static str,
    words: &'static [&'static str],
    usual: &'static str,
) -> Parameter {
    row(name, ParameterKind::Word(words), Usual::Text(usual))
}

const fn text(name: &'static str, usual: &'static str) -> Parameter {
    row(name, ParameterKind::Text, Usual::Text(usual))
}

const fn path(name: &'static str, usual: &'static str) -> Parameter {
    row(name, ParameterKind::Path, Usual::Text(usual))
}

impl Parameter {
    /// The same, which counts for a running instance at once.
    const fn live(self) -> Self {
        Self { change: Change::Live, ..self }
    }

    /// The same of the cluster alone.
    const fn cluster(self) -> Self {
        Self { change: Change::Cluster, ..self }
    }
}

/// Most processors of an instance: what q35 boots with.
const VCPUS_MAX: i64 = 1_024;
const PORTS: [i64; 2] = [1, 65_535];
/// MiB a second, and milliseconds, of a migration.
const ANY: [i64; 2] = [0, 1 << 31];

/// Backend parameters: what an instance takes of its node.
pub const BACKEND: Table = &[
    row("maxmem", ParameterKind::Size(1), Usual::Int(128)),
    row("minmem", ParameterKind::Size(1), Usual::Int(128)).live(),
    number("vcpus", [1, VCPUS_MAX], 1),
    number("spindle_use", [0, 1_024], 1).live(),
    flag("auto_balance", true).live(),
    flag("always_failover", false).live(),
];

/// Parameters of NICs.
pub const NIC: Table = &[
    word("mode", &["bridged", "routed", "openvswitch", "pool"], "bridged"),
    text("link", "xen-br0"),
    text("vlan", ""),
];

/// Parameters of nodes.
pub const NODE: Table = &[
    row("cpu_speed", ParameterKind::Int(1, 1_000), Usual::Int(1)),
    flag("exclusive_storage", false),
    text("oob_program", ""),
    flag("ovs", false),
    text("ovs_link", ""),
    text("ovs_name", "switch1"),
    number("spindle_count", [1, 10_000], 1),
    number("ssh_port", PORTS, 22),
];

const REBOOT: Parameter = word("reboot_behavior", &["reboot", "exit"], "reboot").live();
const CPU_MASK: Parameter = text("cpu_mask", "all").live();
const MODE_LIVE: Parameter = word("migration_mode", &["live", "non-live"], "live").cluster();
const DISKS: &[&str] =
    &["paravirtual", "ide", "scsi", "sd", "mtd", "pflash", "scsi-hd", "scsi-block", "scsi-generic"];
const CDROMS: &[&str] = &["", "paravirtual", "ide", "scsi", "sd", "mtd", "pflash", "scsi-cd"];
const NICS: &[&str] = &[
    "rtl8139",
    "ne2k_isa",
    "ne2k_pci",
    "i82551",
    "i82557b",
    "i82559er",
    "pcnet",
    "e1000",
    "paravirtual",
];

/// Parameters of KVM.
pub const KVM: Table = &[
    flag("acpi", true),
    Parameter {
        kind: ParameterKind::Words(&["floppy", "cdrom", "disk", "network"]),
        ..text("boot_order", "disk")
    },
    path("cdrom2_image_path", ""),
    word("cdrom_disk_type", CDROMS, ""),
    // Ganeti takes addresses of the web here, too.
    text("cdrom_image_path", ""),
    number("cpu_cores", [0, VCPUS_MAX], 0),
    CPU_MASK,
    number("cpu_sockets", [0, VCPUS_MAX], 0),
    number("cpu_threads", [0, VCPUS_MAX], 0),
    text("cpu_type", ""),
    word("disk_aio", &["threads", "native", "io_uring"], "threads"),
    word("disk_cache", &["default", "none", "writethrough", "writeback"], "default"),
    word("disk_discard", &["default", "ignore", "unmap"], "default"),
    word("disk_type", DISKS, "paravirtual"),
    path("floppy_image_path", ""),
    path("initrd_path", ""),
    text("kernel_args", "ro"),
    path("kernel_path", "/boot/vmlinuz-3-kvmU"),
    text("keymap", ""),
    row("kvm_extra", ParameterKind::Qemu, Usual::Text("")),
    word("kvm_flag", &["", "enabled", "disabled"], ""),
    path("kvm_path", "/usr/bin/kvm"),
    number("kvm_pci_reservations", [0, 31], 12),
    text("machine_version", ""),
    path("mem_path", ""),
    number("migration_bandwidth", ANY, 32).cluster(),
    text("migration_caps", "").live(),
    number("migration_downtime", ANY, 30).live(),
    MODE_LIVE,
    number("migration_port", PORTS, 8_102).cluster(),
    word("nic_type", NICS, "paravirtual"),
    REBOOT,
    text("root_path", "/dev/vda1"),
    word("scsi_controller_type", &["lsi", "virtio-scsi-pci", "megasas"], "lsi"),
    text("security_domain", ""),
    word("security_model", &["none", "user", "pool"], "none"),
    flag("serial_console", true),
    number("serial_speed", [1, 4_000_000], 38_400),
    text("soundhw", ""),
    text("spice_bind", ""),
    text("spice_image_compression", ""),
    number("spice_ip_version", [0, 6], 0),
    text("spice_jpeg_wan_compression", ""),
    path("spice_password_file", ""),
    flag("spice_playback_compression", true),
    text("spice_streaming_video", ""),
    text("spice_tls_ciphers", "HIGH:-DES:-3DES:-EXPORT:-DH"),
    flag("spice_use_tls", false),
    flag("spice_use_vdagent", true),
    text("spice_zlib_glz_wan_compression", ""),
    text("usb_devices", ""),
    word("usb_mouse", &["", "mouse", "tablet"], ""),
    flag("use_chroot", false),
    flag("use_guest_agent", false),
    flag("use_localtime", false),
    flag("user_shutdown", false),
    text("vga", ""),
    flag("vhost_net", true),
    number("virtio_net_queues", [1, 256], 1),
    text("vnc_bind_address", ""),
    path("vnc_password_file", ""),
    flag("vnc_tls", false),
    path("vnc_x509_path", ""),
    flag("vnc_x509_verify", false),
    flag("vnet_hdr", true),
    word("firmware", &["bios", "uefi", "uefi-secure"], "bios"),
    word("accelerator", &["auto", "kvm", "tcg"], "auto"),
    flag("tpm", false),
    text("cpu_baseline", ""),
    number("max_vcpus", [0, VCPUS_MAX], 0),
    row("max_memory", ParameterKind::Size(0), Usual::Int(0)),
    flag("balloon", true),
    word("seed", &["none", "nocloud"], "none"),
];

/// Parameters of Xen with paravirtual guests.
pub const XEN_PVM: Table = &[
    flag("use_bootloader", false),
    path("bootloader_path", ""),
    text("bootloader_args", ""),
    path("kernel_path", "/boot/vmlinuz-3-xenU"),
    path("initrd_path", ""),
    text("root_path", "/dev/xvda1"),
    text("kernel_args", "ro"),
    number("migration_port", PORTS, 8_002).cluster(),
    MODE_LIVE,
    text("blockdev_prefix", "sd"),
    REBOOT,
    CPU_MASK,
    number("cpu_cap", [0, 100 * VCPUS_MAX], 0).live(),
    number("cpu_weight", [1, 65_535], 256).live(),
    text("vif_script", ""),
    text("cpuid", ""),
    text("soundhw", ""),
];

/// Parameters of Xen with whole virtual machines.
pub const XEN_HVM: Table = &[
    text("boot_order", "cd"),
    text("cdrom_image_path", ""),
    word("nic_type", &["rtl8139", "ne2k_isa", "ne2k_pci", "e1000", "paravirtual"], "rtl8139"),
    word("disk_type", &["paravirtual", "ioemu"], "paravirtual"),
    text("vnc_bind_address", "0.0.0.0"),
    flag("acpi", true),
    flag("pae", true),
    path("kernel_path", "/usr/lib/xen/boot/hvmloader"),
    path("device_model", "/usr/lib/xen/bin/qemu-dm"),
    number("migration_port", PORTS, 8_002).cluster(),
    word("migration_mode", &["live", "non-live"], "non-live").cluster(),
    flag("use_localtime", false),
    text("blockdev_prefix", "hd"),
    text("pci_pass", ""),
    word("vif_type", &["ioemu", "vif"], "ioemu"),
    flag("viridian", false),
    REBOOT,
    CPU_MASK,
    number("cpu_cap", [0, 100 * VCPUS_MAX], 0).live(),
    number("cpu_weight", [1, 65_535], 256).live(),
    text("vif_script", ""),
    text("cpuid", ""),
    text("soundhw", ""),
];

/// Parameters of the hypervisor whose instances are files.
pub const FAKE: Table = &[MODE_LIVE];

/// Parameters of LXC, whose instances are refused.
pub const LXC: Table = &[
    CPU_MASK,
    text(
        "devices",
        "c 1:3 rw,c 1:5 rw,c 1:7 rw,c 1:8 rw,c 1:9 rw,c 1:10 rw,c 5:0 rw,c 5:1 rw,c 5:2 rw,c 136:* rw",
    ),
    text("drop_capabilities", "mac_override,sys_boot,sys_module,sys_time,sys_admin"),
    text("extra_cgroups", ""),
    text("extra_config", ""),
    number("num_ttys", [0, 64], 6),
    number("startup_timeout", [1, 3_600], 30),
];

/// Parameters of directories with a system, whose instances are refused.
pub const CHROOT: Table = &[path("init_script", "/ganeti-chroot")];

/// The table of a hypervisor, by its name; none where there is no such.
pub fn hypervisor(name: &str) -> Option<Table> {
    Some(match name {
        "kvm" => KVM,
        "xen-pvm" => XEN_PVM,
        "xen-hvm" => XEN_HVM,
        "fake" => FAKE,
        "lxc" => LXC,
        "chroot" => CHROOT,
        _ => return None,
    })
}

const ACCESS: Parameter = word("access", &["kernelspace", "userspace"], "kernelspace");
const RATES: [i64; 2] = [0, SIZE_MAX];
const STRIPES: [i64; 2] = [1, 128];

/// Parameters of disk templates.
pub const DISK_TEMPLATES: &[(&str, Table)] = &[
    ("blockdev", &[]),
    ("diskless", &[]),
    (
        "drbd",
        &[
            number("resync-rate", RATES, 61_440),
            number("data-stripes", STRIPES, 1),
            number("meta-stripes", STRIPES, 1),
            text("disk-barriers", "n"),
            flag("meta-barriers", false),
            text("metavg", "xenvg"),
            text("disk-custom", ""),
            text("net-custom", ""),
            word("protocol", &["A", "B", "C"], "C"),
            flag("dynamic-resync", false),
            number("c-plan-ahead", RATES, 20),
            number("c-fill-target", RATES, 0),
            number("c-delay-target", RATES, 1),
            number("c-max-rate", RATES, 61_440),
            number("c-min-rate", RATES, 4_096),
        ],
    ),
    ("ext", &[ACCESS]),
    ("file", &[]),
    (
        "gluster",
        &[ACCESS, text("host", "127.0.0.1"), number("port", PORTS, 24_007), text("volume", "gv0")],
    ),
    ("mirror", &[]),
    ("plain", &[number("stripes", STRIPES, 1)]),
    ("rbd", &[ACCESS, text("pool", "rbd")]),
    ("sharedfile", &[]),
];

/// The table of a disk template, by its name; none where there is no such.
pub fn template(name: &str) -> Option<Table> {
    DISK_TEMPLATES.iter().find(|(known, _)| *known == name).map(|(_, table)| *table)
}
