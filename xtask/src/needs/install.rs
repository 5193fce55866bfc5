//! Brings what is missing: by apt, by pip, or unpacked beside what this machine has.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::table::{Need, Source};
use super::{find, lacking};
use crate::target_dir;

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
/// Lays packages and what they depend on below a directory.
const UNPACK: &str = include_str!("unpack.sh");
/// How a program that lies there runs.
const RUN: &str = include_str!("run.sh");

/// Below it lie packages that are not installed.
pub(super) fn unpacked() -> PathBuf {
    target_dir().join("unpacked")
}

/// The directory of Python programs.
pub(super) fn python() -> PathBuf {
    target_dir().join("python")
}

/// Installs or unpacks all that is allowed; what does not succeed is said, and still missing.
pub(super) fn bring(missing: &[&'static Need]) {
    if may_use_apt() {
        bring_packages(missing);
    }
    for need in missing {
        if let Source::Pip(package) = need.source {
            pip(package);
        }
    }
}

fn may_use_apt() -> bool {
    nix::unistd::geteuid().is_root() && find("apt-get").is_some()
}

fn bring_packages(missing: &[&'static Need]) {
    let mut packages: Vec<&str> = missing.iter().filter_map(|need| installed(need)).collect();
    packages.sort_unstable();
    packages.dedup();
    let is_by_pip = |need: &&Need| matches!(need.source, Source::Pip(_));
    if !missing.iter().all(&is_by_pip) {
        update();
    }
    // A package that apt refuses must not keep the others away.
    if !packages.is_empty() && !apt(&[INSTALL, &packages].concat()) && packages.len() > 1 {
        for package in packages {
            apt(&[INSTALL, &[package]].concat());
        }
    }
    let debian: Vec<&Need> = missing.iter().copied().filter(|need| !is_by_pip(need)).collect();
    for need in debian {
        // An earlier one may have brought it, too.
        if lacking(&[need]).is_empty() {
            continue;
        }
        match need.source {
            Source::Installed(package) => unpack(need.program, &[package]),
            Source::Unpacked(packages) => unpack(need.program, packages),
            Source::Pip(_) => {}
        }
    }
}

fn installed(need: &Need) -> Option<&'static str> {
    match need.source {
        Source::Installed(package) => Some(package),
        Source::Unpacked(_) | Source::Pip(_) => None,
    }
}

/// Reads the lists of packages, of which a fresh machine has none. If that fails, the installation says
/// more.
pub(crate) fn update() {
    apt(&["update", "-o", "DPkg::Lock::Timeout=600"]);
}

fn apt(arguments: &[&str]) -> bool {
    println!("$ apt-get {}", arguments.join(" "));
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    succeeds("apt-get", command)
}

fn unpack(program: &str, packages: &[&str]) {
    println!("unpacking {}, with what it depends on", packages.join(" and "));
    let mut command = Command::new("sh");
    command.args(["-c", UNPACK, "unpack"]).arg(unpacked()).args([program, RUN]).args(packages);
    succeeds("the unpacking", command);
}

fn pip(package: &str) {
    println!("$ python3 -m venv; pip install {package}");
    let script = "\"$2\" -m venv \"$0\" &&
        \"$0/bin/pip\" install --quiet --disable-pip-version-check \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(python()).arg(package);
    command.arg(find("python3").unwrap_or_else(|| "python3".into()));
    succeeds("pip", command);
}

fn succeeds(name: &str, mut command: Command) -> bool {
    match command.status() {
        Ok(status) if status.success() => return true,
        Ok(status) => println!("{name} failed ({status})"),
        Err(error) => println!("{name} does not start: {error}"),
    }
    false
}
