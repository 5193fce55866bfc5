//! Core: all that tests, benches and the demonstration use and do not bring.

/// Something that is used, and the one way to know whether it is there: it is asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// The name by which it is found.
    pub(crate) program: &'static str,
    /// A shell script that succeeds where the program does what is wanted of it; `$0` is its file.
    pub(crate) ask: &'static str,
    pub(crate) source: Source,
    pub(crate) purpose: &'static str,
}

/// How it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// apt installs this package, if that removes and downgrades nothing; otherwise it is unpacked.
    Installed(&'static str),
    /// These Debian packages are unpacked together: an installation would start a daemon or a timer, theirs
    /// or of what they depend on.
    Unpacked(&'static [&'static str]),
    /// pip installs it. No Debian package has it. The version is fixed, so that a test looks for the
    /// same faults everywhere.
    Pip(&'static str),
}

use Source::{Installed, Pip, Unpacked};

const VERSION: &str = r#""$0" --version"#;
const HELP: &str = r#""$0" --help"#;
const SHORT: &str = r#""$0" -V"#;
/// It has no other way to say that it is there, and fails with it.
const WRK: &str = r#""$0" -v | grep -q wrk"#;
/// Gantry has programs of these names, too.
const GANETI: &str = r#""$0" --version | grep -q '(ganeti'"#;
/// It says so only where it finds the tools of Open vSwitch.
const NETPLAN: &str = r#"dir=$(mktemp -d) && mkdir -p "$dir/etc/netplan" && umask 077 &&
    echo '{network: {bridges: {b0: {openvswitch: {}}}}}' >"$dir/etc/netplan/b.yaml" &&
    "$0" generate --root-dir "$dir"; code=$?; rm -rf "$dir"; exit $code"#;

/// Its programs, and the definitions of operating systems that Debian has for it.
const GANETI_PACKAGES: Source =
    Unpacked(&["ganeti", "ganeti-instance-debootstrap", "ganeti-os-noop"]);
const OPEN_VSWITCH: Source = Unpacked(&["openvswitch-switch", "openvswitch-common"]);

/// All of it.
pub(crate) const NEEDS: &[Need] = &[
    need("ignition-validate", VERSION, Installed("ignition"), "Ignition's own judgement"),
    need("ignition", VERSION, Installed("ignition"), "applying configurations"),
    need("udhcpc", HELP, Installed("udhcpc"), "a real DHCP client"),
    need("dhclient", VERSION, Installed("isc-dhcp-client"), "another DHCP client"),
    need("dhcpcd", VERSION, Installed("dhcpcd-base"), "a third DHCP client"),
    need("systemd-networkd", VERSION, Installed("systemd"), "a fourth DHCP client"),
    need("networkctl", VERSION, Installed("systemd"), "what it is asked by"),
    need("systemd-analyze", VERSION, Installed("systemd"), "checking the units"),
    need("dbus-daemon", VERSION, Installed("dbus-daemon"), "how a client is asked"),
    need("tcpdump", VERSION, Installed("tcpdump"), "seeing what clients send"),
    need("perfdhcp", r#""$0" -v"#, Installed("kea-admin"), "many DHCP clients at once"),
    need("wrk", WRK, Installed("wrk"), "many HTTP clients at once"),
    need("dnsmasq", VERSION, Installed("dnsmasq-base"), "another boot server"),
    need("curl", VERSION, Installed("curl"), "a real HTTP client"),
    need("ip", SHORT, Installed("iproute2"), "network namespaces"),
    need("nft", VERSION, Installed("nftables"), "filters of guests' cards"),
    need("openssl", r#""$0" version"#, Installed("openssl"), "an agent that answers nonsense"),
    need("nsenter", VERSION, Installed("util-linux"), "nodes in namespaces"),
    need("unshare", VERSION, Installed("util-linux"), "interfaces that nobody else sees"),
    need("ps", VERSION, Installed("procps"), "looking at daemons"),
    need("mkfs.ext4", SHORT, Installed("e2fsprogs"), "power cuts on ext4"),
    need("mkfs.xfs", SHORT, Installed("xfsprogs"), "power cuts on XFS"),
    need("jq", VERSION, Installed("jq"), "reading answers in scripts"),
    need("udevadm", VERSION, Installed("udev"), "what definitions of Ganeti wait for"),
    need("debootstrap", VERSION, Installed("debootstrap"), "a Debian to install on"),
    need("systemd-nspawn", VERSION, Installed("systemd-container"), "starting it"),
    need("valgrind", VERSION, Installed("valgrind"), "counting instructions"),
    need("zsh", VERSION, Installed("zsh"), "its completions"),
    need("qemu-system-x86_64", VERSION, Installed("qemu-system-x86"), "machines that boot"),
    need("qemu-img", VERSION, Installed("qemu-utils"), "images of other formats"),
    need("qemu-storage-daemon", VERSION, Installed("qemu-utils"), "copies of disks on other nodes"),
    need("swtpm", VERSION, Installed("swtpm"), "TPMs of guests"),
    need("objcopy", VERSION, Installed("binutils"), "unified kernel images"),
    need("xz", VERSION, Installed("xz-utils"), "modules of a kernel"),
    need("script", VERSION, Installed("bsdutils"), "a terminal"),
    need(
        "python3",
        r#""$0" -c 'import ensurepip, venv'"#,
        Installed("python3-venv"),
        "programs that come by pip",
    ),
    need("ipmitool", SHORT, Unpacked(&["ipmitool"]), "management controllers by IPMI"),
    need("ipmi_sim", HELP, Unpacked(&["openipmi"]), "a simulated controller"),
    need("gnt-job", GANETI, GANETI_PACKAGES, "real Ganeti clients"),
    need("hbal", GANETI, GANETI_PACKAGES, "clients of its remote API"),
    need("fish", VERSION, Unpacked(&["fish"]), "its completions"),
    need("man", VERSION, Unpacked(&["man-db"]), "setting manual pages"),
    need("chromium", VERSION, Unpacked(&["chromium"]), "a browser at the front door"),
    need("dhcrelay", VERSION, Unpacked(&["isc-dhcp-relay"]), "a real DHCP relay"),
    need("kea-dhcp4", r#""$0" -v"#, Unpacked(&["kea-dhcp4-server"]), "another DHCP server"),
    need("nginx", r#""$0" -v"#, Unpacked(&["nginx"]), "another HTTP server"),
    need("ovs-vswitchd", VERSION, OPEN_VSWITCH, "a real switch"),
    need("ovsdb-server", VERSION, OPEN_VSWITCH, "the database of it"),
    need("ovs-vsctl", VERSION, OPEN_VSWITCH, "another program that sets its ports"),
    need("nmcli", VERSION, Unpacked(&["network-manager"]), "reading keyfiles"),
    need(
        "netplan",
        NETPLAN,
        Unpacked(&["netplan.io", "openvswitch-switch"]),
        "reading what is rendered for it",
    ),
    need(
        "schemathesis",
        VERSION,
        Pip("schemathesis==4.32.5"),
        "requests made of the front door's own description",
    ),
    need(
        "sushy-emulator",
        HELP,
        Pip("sushy-tools==2.2.0"),
        "a simulated controller that speaks Redfish",
    ),
    need(
        "ironic-python-agent",
        HELP,
        Pip("ironic-python-agent==13.0.0"),
        "a real agent in a ramdisk",
    ),
];

const fn need(
    program: &'static str,
    ask: &'static str,
    source: Source,
    purpose: &'static str,
) -> Need {
    Need { program, ask, source, purpose }
}

impl Need {
    /// The command by which a person gets it.
    pub(crate) fn remedy(&self) -> String {
        match self.source {
            Installed(package) => format!("as root: apt-get install {package}"),
            Unpacked(_) => "as root: cargo xtask test install".to_owned(),
            Pip(_) => "run `cargo xtask test install`, which asks pip for it".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_program_has_one_row_and_is_asked() {
        let names: BTreeSet<&str> = NEEDS.iter().map(|need| need.program).collect();
        assert_eq!(names.len(), NEEDS.len());
        for need in NEEDS {
            assert!(need.ask.contains(r#""$0""#), "{}: its script asks another", need.program);
            assert!(!matches!(need.source, Unpacked([])), "{}", need.program);
        }
    }
}
