//! A small Debian with its own systemd, to be started in a container.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::needs;
use crate::target_dir;

/// The Debian that is made; the one that the units were made for.
const SUITE: &str = "bookworm";
/// What it has besides the least. The resolver of `debootstrap` does not see that the cryptography of
/// Python wants `python3-cffi-backend`.
const INCLUDED: &str =
    "--include=systemd,systemd-sysv,dbus,logrotate,curl,cloud-init,python3-cffi-backend";
/// Programs that make and run it.
const PROGRAMS: &[&str] = &["debootstrap", "systemd-nspawn", "script", "dpkg-deb", "timeout"];
/// Ends the search of cloud-init for a configuration, which would take minutes without a network.
pub const NO_CLOUD_INIT: &str = "cloud-init=disabled";

/// A Debian that nothing was done to: made once, and copied for each use.
///
/// # Errors
/// Why it cannot be made here, or started.
pub fn fresh() -> Result<PathBuf, String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("only root may make a machine to install on".to_owned());
    }
    let missing: Vec<&str> =
        PROGRAMS.iter().copied().filter(|program| needs::find(program).is_none()).collect();
    if !missing.is_empty() {
        return Err(format!("{} missing", missing.join(", ")));
    }
    let made = target_dir().join(format!("debian-{SUITE}-cloud"));
    if made.exists() {
        return Ok(made);
    }
    // Under another name until it is whole. Tests may make it at the same time.
    let making = target_dir().join(format!("debian-{SUITE}.{}", std::process::id()));
    println!("$ debootstrap {SUITE}, which takes two minutes, once");
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", INCLUDED, SUITE]).arg(&making);
    let output = command.output().map_err(|error| format!("debootstrap: {error}"))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = told.lines().last().unwrap_or_default();
        return Err(format!("no Debian to start, debootstrap says: {last}"));
    }
    match stdx::atomic::rename(&making, &made) {
        Err(_) if made.exists() => drop(std::fs::remove_dir_all(&making)),
        renamed => renamed.map_err(|error| format!("{}: {error}", made.display()))?,
    }
    Ok(made)
}

/// A copy of `fresh` below `place`.
///
/// # Errors
/// It cannot be copied.
pub fn copy(fresh: &Path, place: &Path) -> io::Result<PathBuf> {
    let machine = place.join("root");
    let copied = Command::new("cp").arg("-a").arg(fresh).arg(&machine).status()?;
    if !copied.success() {
        return Err(io::Error::other("cp failed"));
    }
    Ok(machine)
}

/// The command that starts the Debian in `machine` as a container, for so many seconds at most. The
/// words of `options` are for systemd-nspawn, those of `parameters` what a kernel would be given. Its network
/// is that of a namespace, or of this process.
#[must_use]
pub fn boot(
    machine: &Path,
    seconds: u32,
    namespace: Option<&str>,
    options: &str,
    parameters: &str,
) -> Command {
    let name = machine.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = name.trim_start_matches('.');
    // From outside: what systemd-nspawn joins by itself shows the interfaces of this machine below `/sys`.
    let enter = namespace.map(|name| format!("nsenter --net=/run/netns/{name} "));
    let enter = enter.unwrap_or_default();
    let boot = format!(
        "{enter}systemd-nspawn --quiet --boot --directory='{}' --register=no --keep-unit \
         --machine=gantry-{name} {options} {parameters}",
        machine.display()
    );
    // It needs a terminal, and hangs without its own control groups.
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &seconds.to_string(), "script", "-qec", &boot, "/dev/null"]);
    command.env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1").stdin(std::process::Stdio::null());
    command
}
