//! What tests want of the machine, and its installation where that is allowed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::target_dir;

/// A program that tests use, the Debian package that has it, and what for.
#[derive(Debug)]
pub(crate) struct Need {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    pub(crate) purpose: &'static str,
}

/// All that tests use.
pub(crate) const NEEDS: &[Need] = &[
    Need {
        program: "ignition-validate",
        package: "ignition",
        purpose: "Ignition's own judgement of configurations",
    },
    Need { program: "ignition", package: "ignition", purpose: "applying configurations" },
    Need { program: "udhcpc", package: "udhcpc", purpose: "a real DHCP client" },
    Need { program: "dhclient", package: "isc-dhcp-client", purpose: "another DHCP client" },
    Need { program: "dhcpcd", package: "dhcpcd-base", purpose: "a third DHCP client" },
    Need { program: "systemd-networkd", package: "systemd", purpose: "a fourth DHCP client" },
    Need { program: "networkctl", package: "systemd", purpose: "what it is asked by" },
    Need { program: "dbus-daemon", package: "dbus-daemon", purpose: "how it is asked" },
    Need { program: "tcpdump", package: "tcpdump", purpose: "seeing what clients send" },
    Need { program: "perfdhcp", package: "kea-admin", purpose: "many DHCP clients at once" },
    Need { program: "wrk", package: "wrk", purpose: "many HTTP clients at once" },
    Need { program: "dnsmasq", package: "dnsmasq-base", purpose: "another boot server" },
    Need { program: "faketime", package: "faketime", purpose: "a wrong clock" },
    Need { program: "curl", package: "curl", purpose: "a real HTTP client" },
    Need { program: "ip", package: "iproute2", purpose: "network namespaces" },
    Need { program: "openssl", package: "openssl", purpose: "an agent that answers nonsense" },
    Need { program: "nsenter", package: "util-linux", purpose: "nodes in namespaces" },
    Need { program: "ps", package: "procps", purpose: "looking at daemons" },
    Need { program: "mkfs.ext4", package: "e2fsprogs", purpose: "power cuts on ext4" },
    Need { program: "mkfs.xfs", package: "xfsprogs", purpose: "power cuts on XFS" },
    Need { program: "jq", package: "jq", purpose: "reading answers in scripts" },
    Need { program: "gnt-job", package: "ganeti", purpose: "real Ganeti clients" },
    Need { program: "hbal", package: "ganeti", purpose: "clients of its remote API" },
    Need { program: "systemd-analyze", package: "systemd", purpose: "checking the units" },
    Need { program: "debootstrap", package: "debootstrap", purpose: "a Debian to install on" },
    Need { program: "systemd-nspawn", package: "systemd-container", purpose: "starting it" },
    Need { program: "valgrind", package: "valgrind", purpose: "counting instructions" },
    Need { program: "zsh", package: "zsh", purpose: "its completions" },
    Need { program: "fish", package: "fish", purpose: "its completions" },
    Need {
        program: "qemu-system-x86_64",
        package: "qemu-system-x86",
        purpose: "machines that boot",
    },
    Need { program: "ipmitool", package: "ipmitool", purpose: "management controllers by IPMI" },
    Need { program: "ipmi_sim", package: "openipmi", purpose: "a simulated controller" },
    Need { program: "objcopy", package: "binutils", purpose: "unified kernel images" },
    Need { program: "netplan", package: "netplan.io", purpose: "reading what is rendered for it" },
    Need { program: "unshare", package: "util-linux", purpose: "interfaces that nobody else sees" },
    Need { program: "script", package: "bsdutils", purpose: "its terminal" },
    Need { program: "chromium", package: "chromium", purpose: "a browser at the front door" },
    Need { program: "python3", package: "python3-venv", purpose: "programs that come by pip" },
];

/// Daemons that an installation would start: their packages are unpacked below the directory that cargo
/// builds into. What they need of libraries comes with [`NEEDS`], or is on every Debian.
pub(crate) const UNPACKED: &[Need] = &[
    Need { program: "dhcrelay", package: "isc-dhcp-relay", purpose: "a real DHCP relay" },
    Need { program: "kea-dhcp4", package: "kea-dhcp4-server", purpose: "another DHCP server" },
    Need { program: "nginx", package: "nginx", purpose: "another HTTP server" },
    Need { program: "nmcli", package: "network-manager", purpose: "reading keyfiles" },
];

/// Programs of Python that no Debian package has: pip installs them below the directory that cargo builds
/// into, which needs no root. The version is fixed, so that a test looks for the same faults everywhere.
pub(crate) const BY_PIP: &[Need] = &[
    Need {
        program: "schemathesis",
        package: "schemathesis==4.32.5",
        purpose: "requests made of the front door's own description",
    },
    Need {
        program: "sushy-emulator",
        package: "sushy-tools==2.2.0",
        purpose: "a simulated controller that speaks Redfish",
    },
    Need {
        program: "ironic-python-agent",
        package: "ironic-python-agent==13.0.0",
        purpose: "a real agent in a ramdisk",
    },
];

/// Where programs are besides `PATH`, which lacks these for ordinary users.
const SYSTEM_DIRS: &[&str] = &[
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
    "/usr/lib/systemd",
    "/lib/systemd",
    "/usr/lib/dracut/modules.d/30ignition",
];
/// Where programs are below [`unpacked`].
const UNPACKED_DIRS: &[&str] = &["usr/sbin", "usr/bin", "sbin", "bin"];

/// Installs new packages only: no upgrade of what is there, no removal, and (as `apt-get` refuses
/// it unless told otherwise) no downgrade. Another installation that runs is waited for.
const INSTALL: &[&str] = &[
    "install",
    "--yes",
    "--no-install-recommends",
    "--no-upgrade",
    "--no-remove",
    "-o",
    "DPkg::Lock::Timeout=600",
];

/// The programs that are not there.
pub(crate) fn missing() -> Vec<&'static Need> {
    all().filter(|need| find(need.program).is_none()).collect()
}

/// All that tests use, installed or unpacked.
pub(crate) fn all() -> impl Iterator<Item = &'static Need> {
    NEEDS.iter().chain(UNPACKED).chain(BY_PIP)
}

/// Whether pip installs it.
fn comes_by_pip(need: &Need) -> bool {
    BY_PIP.iter().any(|one| one.package == need.package)
}

/// What a person does to have it.
pub(crate) fn remedy(need: &Need) -> String {
    if comes_by_pip(need) {
        return format!("run `cargo xtask test install`, which asks pip for {}", need.package);
    }
    format!("as root: apt-get install {}", need.package)
}

/// The file of one of these programs, which is installed if that is allowed.
///
/// # Errors
/// Why it is not there, and what to do.
pub fn provide(program: &str) -> Result<PathBuf, String> {
    if let Some(file) = find(program) {
        return Ok(file);
    }
    let need = all().find(|need| need.program == program);
    let need = need.ok_or_else(|| format!("`{program}` is missing"))?;
    let told = |why: &str| format!("`{program}`: {why}; {}", remedy(need));
    may_install(need).map_err(|why| told(&why))?;
    fetch(&[need]);
    find(program).ok_or_else(|| told("it could not be installed, see above"))
}

/// Installs or unpacks those packages, as far as that is allowed and succeeds.
pub(crate) fn fetch(missing: &[&Need]) {
    let allowed: Vec<&Need> =
        missing.iter().copied().filter(|need| may_install(need).is_ok()).collect();
    if allowed.iter().any(|need| !comes_by_pip(need)) {
        update();
    }
    for need in allowed {
        if comes_by_pip(need) {
            pip(need.package);
        } else if UNPACKED.iter().any(|one| one.package == need.package) {
            unpack(need.package);
        } else {
            apt(&[INSTALL, &[need.package]].concat());
        }
    }
}

/// Below it lie daemons that are not installed.
fn unpacked() -> PathBuf {
    target_dir().join("unpacked")
}

fn unpack(package: &str) {
    println!("$ apt-get download {package}; dpkg-deb -x");
    let script = "set -e; mkdir -p \"$0\"; cd \"$0\"; apt-get download \"$1\"
        for file in \"$1\"_*.deb; do dpkg-deb -x \"$file\" .; rm \"$file\"; done";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(unpacked()).arg(package);
    told("apt-get download", command);
}

/// Where programs of Python are installed.
fn python() -> PathBuf {
    target_dir().join("python")
}

fn pip(package: &str) {
    println!("$ python3 -m venv; pip install {package}");
    let script = "python3 -m venv \"$0\" &&
        \"$0/bin/pip\" install --quiet --disable-pip-version-check \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(python()).arg(package);
    told("pip", command);
}

/// Reads the lists of packages, of which a fresh machine has none. Where that fails, the installation
/// says more.
pub(crate) fn update() {
    apt(&["update", "-o", "DPkg::Lock::Timeout=600"]);
}

/// Whether it may be installed here, or why not.
pub(crate) fn may_install(need: &Need) -> Result<(), String> {
    if comes_by_pip(need) {
        return Ok(());
    }
    if !nix::unistd::geteuid().is_root() {
        return Err("it is not installed, and only root may install it".to_owned());
    }
    match find("apt-get") {
        Some(_) => Ok(()),
        None => Err("it is not installed, and there is no apt-get".to_owned()),
    }
}

fn apt(arguments: &[&str]) {
    println!("$ apt-get {}", arguments.join(" "));
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    told("apt-get", command);
}

fn told(name: &str, mut command: Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => println!("{name} failed ({status})"),
        Err(error) => println!("{name} does not start: {error}"),
    }
}

/// The file of a program.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = SYSTEM_DIRS.iter().map(PathBuf::from);
    let unpacked = UNPACKED_DIRS.iter().map(|dir| unpacked().join(dir));
    let unpacked = unpacked.chain([python().join("bin")]);
    find_in(program, std::env::split_paths(&path).chain(system).chain(unpacked))
}

fn find_in(program: &str, mut dirs: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    dirs.find_map(|dir| Some(dir.join(program)).filter(|file| is_program(file)))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Their programs, for a message.
pub(crate) fn names<'n>(needs: impl Iterator<Item = &'n Need>) -> String {
    needs.map(|need| need.program).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_mode() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = || [PathBuf::from("/nonexistent"), dir.path().to_owned()].into_iter();
        let tool = dir.path().join("tool");
        stdx::atomic::write(&tool, b"", 0o644).unwrap();
        assert_eq!(find_in("tool", dirs()), None, "a file that cannot be run is no program");
        stdx::atomic::write(&tool, b"", 0o755).unwrap();
        assert_eq!(find_in("tool", dirs()), Some(tool));
        assert!(find("sh").is_some());
    }
}
