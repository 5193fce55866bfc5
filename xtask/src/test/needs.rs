//! What tests want of the machine, and its installation where that is allowed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::skips::Skip;
use super::{Outcome, Round};

/// A program that tests use, the Debian package that has it, and what for.
#[derive(Debug)]
struct Need {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "udhcpc", package: "udhcpc", purpose: "a real DHCP client" },
    Need { program: "dhclient", package: "isc-dhcp-client", purpose: "another DHCP client" },
    Need { program: "curl", package: "curl", purpose: "a real HTTP client" },
    Need { program: "ip", package: "iproute2", purpose: "network namespaces" },
    Need { program: "openssl", package: "openssl", purpose: "an agent that answers nonsense" },
    Need { program: "nsenter", package: "util-linux", purpose: "nodes in namespaces" },
    Need { program: "ps", package: "procps", purpose: "looking at daemons" },
    Need { program: "mkfs.ext4", package: "e2fsprogs", purpose: "power cuts on ext4" },
    Need { program: "mkfs.xfs", package: "xfsprogs", purpose: "power cuts on XFS" },
    Need { program: "jq", package: "jq", purpose: "reading answers in scripts" },
    Need { program: "gnt-job", package: "ganeti", purpose: "real Ganeti clients" },
    Need { program: "systemd-analyze", package: "systemd", purpose: "checking the units" },
    Need { program: "debootstrap", package: "debootstrap", purpose: "a Debian to install on" },
    Need { program: "systemd-nspawn", package: "systemd-container", purpose: "starting it" },
    Need { program: "valgrind", package: "valgrind", purpose: "counting instructions" },
    Need { program: "zsh", package: "zsh", purpose: "its completions" },
    Need { program: "fish", package: "fish", purpose: "its completions" },
    Need { program: "script", package: "bsdutils", purpose: "its terminal" },
];

/// Where programs are besides `PATH`, which lacks these for ordinary users.
const SYSTEM_DIRS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

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

/// The step: installs what is missing, or says what will not be tested. Never fails: what is still
/// missing afterwards shows as skipped tests.
pub(super) fn install(round: &mut Round) -> Outcome {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| find(need.program).is_none()).collect();
    if missing.is_empty() {
        println!("everything is there: {}", names(NEEDS.iter()));
        return Outcome::Passed;
    }
    println!("missing: {}", names(missing.iter().copied()));
    if let Err(why) = may_install() {
        return left_out(round, &missing, &why);
    }
    fetch(&missing);
    let still: Vec<&Need> =
        missing.into_iter().filter(|need| find(need.program).is_none()).collect();
    if still.is_empty() {
        Outcome::Passed
    } else {
        left_out(round, &still, "apt-get could not install it, see above")
    }
}

/// The file of one of these programs, which is installed if that is allowed.
///
/// # Errors
/// Why it is not there, and what to do.
pub(crate) fn provide(program: &str) -> Result<PathBuf, String> {
    if let Some(file) = find(program) {
        return Ok(file);
    }
    let need = NEEDS.iter().find(|need| need.program == program);
    let need = need.ok_or_else(|| format!("`{program}` is missing"))?;
    let told = |why: &str| format!("`{program}`: {why}; as root: apt-get install {}", need.package);
    may_install().map_err(|why| told(&why))?;
    fetch(&[need]);
    find(program).ok_or_else(|| told("apt-get could not install it, see above"))
}

fn fetch(missing: &[&Need]) {
    // Without it, a fresh machine knows no package. If it fails, the installation says more.
    apt(&["update", "-o", "DPkg::Lock::Timeout=600"]);
    for need in missing {
        apt(&[INSTALL, &[need.package]].concat());
    }
}

fn left_out(round: &mut Round, missing: &[&Need], why: &str) -> Outcome {
    for need in missing {
        let test = format!("what needs `{}` ({})", need.program, need.purpose);
        let why = format!("{why}; as root: apt-get install {}", need.package);
        round.skips.push(Skip { test, why });
    }
    Outcome::Skipped(format!("{} missing", names(missing.iter().copied())))
}

fn may_install() -> Result<(), String> {
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
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => println!("apt-get failed ({status})"),
        Err(error) => println!("apt-get does not start: {error}"),
    }
}

/// The file of a program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(SYSTEM_DIRS.iter().map(PathBuf::from));
    find_in(program, dirs)
}

fn find_in(program: &str, mut dirs: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    dirs.find_map(|dir| Some(dir.join(program)).filter(|file| is_program(file)))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn names<'n>(needs: impl Iterator<Item = &'n Need>) -> String {
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

    #[test]
    fn what_is_missing_is_told() {
        let mut round = Round::default();
        let outcome = left_out(&mut round, &[&NEEDS[0], &NEEDS[1]], "not root");
        assert_eq!(outcome, Outcome::Skipped("udhcpc, dhclient missing".to_owned()));
        assert_eq!(round.skips.len(), 2);
        assert_eq!(round.skips[0].why, "not root; as root: apt-get install udhcpc");
    }
}
