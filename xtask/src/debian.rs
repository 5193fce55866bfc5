//! Small Debians of this machine's release: a bare one, and one with its own systemd that is started in a
//! container.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::needs;
use crate::target_dir;

/// The release where this machine is no Debian; the one that the units were made for.
const USUAL: &str = "bookworm";
/// The file that names the release of this machine.
const RELEASE: &str = "/etc/os-release";
/// Packages of a Debian with systemd besides the least.
const INCLUDED: &str = "systemd systemd-sysv dbus udev logrotate curl cloud-init qemu-guest-agent";
/// Programs that make and run it.
const PROGRAMS: &[&str] = &["debootstrap", "systemd-nspawn", "script", "unshare"];
/// Ends the search of cloud-init for a configuration, which would take minutes without a network.
pub const NO_CLOUD_INIT: &str = "cloud-init=disabled";
/// Runs a command in a Debian that has the devices, processes and network of this machine: `$0` is where it lies.
/// Directories of this machine are visible there as told, in pairs that end at `--`. Nothing of that stays.
const WITHIN: &str = r#"set -e
mount --bind "$0" "$0"
for dir in dev proc sys; do mount --rbind "/$dir" "$0/$dir"; done
mount -t tmpfs none "$0/run"
while [ "$1" != -- ]; do mkdir -p "$0$2"; mount --bind "$1" "$0$2"; shift 2; done; shift
exec chroot "$0" "$@""#;
/// The search path in a Debian.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Installs packages where no service starts.
const INSTALL: &str = r#"set -e
echo 'exit 101' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $0
apt-get clean; rm /usr/sbin/policy-rc.d"#;

/// A Debian with systemd that nothing was done to: made once, and copied for each use.
///
/// # Errors
/// Why it cannot be made here, or started.
pub fn fresh() -> Result<PathBuf, String> {
    made("cloud-agent", |making| {
        let bare = bare()?;
        copy_to(&bare, making).map_err(|error| format!("{}: {error}", making.display()))?;
        let mut install = within(making, &[], None);
        install.args(["sh", "-c", INSTALL, INCLUDED]);
        succeed(install, "apt-get in a fresh Debian")
    })
}

/// The least Debian: what is on every one, and a network as this machine has it.
///
/// # Errors
/// Why it cannot be made here.
pub fn bare() -> Result<PathBuf, String> {
    made("bare", |making| {
        let suite = suite();
        println!("$ debootstrap {suite}, which takes a minute, once");
        let mut command = needs::command("debootstrap");
        command.args(["--variant=minbase", &suite]).arg(making);
        succeed(command, "debootstrap")?;
        // Packages come by the same way as here.
        let script = "cp -L /etc/resolv.conf \"$0/etc\"
            cp -a /etc/apt/apt.conf.d/. \"$0/etc/apt/apt.conf.d\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(making);
        succeed(command, "cp")
    })
}

/// A Debian of this name, made now if it was not before.
fn made(name: &str, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("only root may make a machine to install on".to_owned());
    }
    if let Some(why) = needs::missing(PROGRAMS) {
        return Err(why);
    }
    let name = format!("debian-{}-{name}", suite());
    let made = target_dir().join(&name);
    if made.exists() {
        return Ok(made);
    }
    // Under another name until it is whole. Tests may make it at the same time.
    let making = target_dir().join(format!("{name}.{}", std::process::id()));
    make(&making)?;
    match stdx::atomic::rename(&making, &made) {
        Err(_) if made.exists() => drop(std::fs::remove_dir_all(&making)),
        renamed => renamed.map_err(|error| format!("{}: {error}", made.display()))?,
    }
    Ok(made)
}

/// The release of this machine: programs that are built here run there.
fn suite() -> String {
    let release = std::fs::read_to_string(RELEASE).unwrap_or_default();
    suite_of(&release).unwrap_or(USUAL).to_owned()
}

fn suite_of(release: &str) -> Option<&str> {
    let field = |name: &str| {
        let mut lines = release.lines().filter_map(|line| line.split_once('='));
        lines.find(|(field, _)| *field == name).map(|(_, value)| value.trim_matches('"'))
    };
    field("VERSION_CODENAME").filter(|_| field("ID") == Some("debian"))
}

fn succeed(mut command: Command, name: &str) -> Result<(), String> {
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| format!("{name}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let said = [stdout, stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.trim_end().lines().last().unwrap_or_default();
    Err(format!("no Debian to start, {name} says: {}", stdx::text::line(last)))
}

/// A command in the Debian that lies in `root`; its words are still to be added. Each pair is a directory of
/// this machine, and where it is visible there. Further programs lie in `first`.
pub fn within(root: &Path, visible: &[(PathBuf, PathBuf)], first: Option<&Path>) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", WITHIN]).arg(root);
    command.args(visible.iter().flat_map(|(here, there)| [here, there]));
    let first = first.map(|first| format!("{}:", first.display()));
    command.arg("--").env("PATH", format!("{}{PATH}", first.unwrap_or_default()));
    command
}

/// A copy of `fresh` below `place`.
///
/// # Errors
/// It cannot be copied.
pub fn copy(fresh: &Path, place: &Path) -> io::Result<PathBuf> {
    let machine = place.join("root");
    copy_to(fresh, &machine)?;
    Ok(machine)
}

fn copy_to(fresh: &Path, to: &Path) -> io::Result<()> {
    let copied = Command::new("cp").arg("-a").arg(fresh).arg(to).status()?;
    if copied.success() { Ok(()) } else { Err(io::Error::other("cp failed")) }
}

/// The command that starts the Debian in `machine` as a container, for so many seconds at most. The
/// words of `options` are for systemd-nspawn, those of `parameters` what a kernel would be given. Its network
/// is that of a namespace, or of this process.
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
    command.env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1").env("PATH", needs::path());
    command.stdin(std::process::Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debian_is_of_this_machines_release() {
        let debian = "PRETTY_NAME=\"Debian\"\nVERSION_CODENAME=trixie\nID=debian\n";
        assert_eq!(suite_of(debian), Some("trixie"));
        assert_eq!(suite_of("ID=\"debian\"\nVERSION_CODENAME=\"sid\"\n"), Some("sid"));
        assert_eq!(suite_of("ID=ubuntu\nVERSION_CODENAME=noble\nID_LIKE=debian\n"), None);
        assert_eq!(suite_of("ID=debian\n"), None);
        assert_eq!(suite_of(""), None);
    }
}
