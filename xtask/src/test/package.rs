//! Installs the packages on a machine of its own: a fresh Debian with its own systemd, in a
//! container without a network.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::layout::{ADMIN_GROUP, DAEMON_GROUP, Layout, ROOT_USER};

use super::skips::Skip;
use super::{Outcome, Round};
use crate::debian;
use crate::dist::{self, Arguments, tree::RUNNABLE};
use crate::needs;
use crate::programs::Profile;
use crate::target_dir;

/// How long all may take inside, in seconds: ten times what it does on two busy cores.
const PATIENCE: u32 = 300;
/// What runs inside.
const TRIAL: &str = include_str!("package.sh");
/// The unit that runs it, and ends the machine.
const UNIT: &str = "\
[Unit]
Description=Trial of the packages
Wants=basic.target
After=basic.target
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
ExecStart=/bin/bash /root/trial
StandardOutput=file:/root/told
StandardError=file:/root/told
TimeoutStartSec=infinity
";
/// The last line of the script, if it succeeds.
const WELL: &str = "+ : all is well";
/// How much of what it said is shown where it failed.
const LINES_SHOWN: usize = 40;
/// One of Ganeti's own clients, by which it is known whether they are installed.
const GANETI_CLIENT: &str = "gnt-job";

/// The step.
pub(super) fn install(round: &mut Round) -> Outcome {
    let fresh = match debian::fresh() {
        Ok(fresh) => fresh,
        Err(why) => return Outcome::Skipped(why),
    };
    // Not where packages of a release lie.
    let output = Some(target_dir().join("dist-trial"));
    let packed = Arguments { profile: Profile::Debug, output };
    let packages = match dist::make(&packed) {
        Ok(packages) => packages,
        Err(error) => return Outcome::Failed(crate::chain(&error)),
    };
    if needs::find(GANETI_CLIENT).is_none() {
        let test = "Ganeti's own clients at an installed master".to_owned();
        round.skips.push(Skip { test, why: "they are not installed".to_owned() });
    }
    match try_out(&fresh, &packages) {
        Ok(told) if told.lines().any(|line| line == WELL) => Outcome::Passed,
        Ok(told) => {
            let lines: Vec<&str> = told.lines().collect();
            println!("{}", lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n"));
            Outcome::Failed("the packages do not do what they should, see above".to_owned())
        }
        Err(error) => Outcome::Failed(format!("cannot make the machine: {error}")),
    }
}

/// Starts a copy of `fresh` with the packages in it, and gives what the trial said.
fn try_out(fresh: &Path, packages: &[PathBuf]) -> io::Result<String> {
    let place = tempfile::tempdir_in(target_dir())?;
    let machine = debian::copy(fresh, place.path())?;
    let home = machine.join("root");
    for package in packages {
        fs::copy(package, home.join(package.file_name().unwrap_or_default()))?;
    }
    let golden = crate::root().join("tests/golden");
    let copied = Command::new("cp").arg("-a").arg(golden).arg(&home).status()?;
    if !copied.success() {
        return Err(io::Error::other("cp failed"));
    }
    stdx::atomic::write(&home.join("trial"), TRIAL.as_bytes(), RUNNABLE)?;
    stdx::atomic::write(&home.join("directories"), directories().as_bytes(), 0o644)?;
    let units = machine.join("etc/systemd/system");
    stdx::atomic::write(&units.join("trial.service"), UNIT.as_bytes(), 0o644)?;
    // Ganeti's own clients are used where they are installed, on the disk of this machine.
    let options = format!("{} --private-network", host());
    let parameters = format!("systemd.unit=trial.service {}", debian::NO_CLOUD_INIT);
    let mut command = debian::boot(&machine, PATIENCE, None, &options, &parameters);
    let output = command.output()?;
    let told = fs::read_to_string(home.join("told"));
    told.or_else(|_never_ran| Ok(String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Options that show the machine outside with Ganeti's clients, wherever they are; nothing if they are
/// not there.
fn host() -> String {
    if needs::find(GANETI_CLIENT).is_none() {
        return String::new();
    }
    let mut options = "--bind-ro=/:/host:norbind".to_owned();
    if let Some(tree) = needs::tree(GANETI_CLIENT) {
        for part in ["etc", "usr"] {
            let over = tree.join(part);
            options.push_str(&format!(" --overlay-ro=/{part}:{}:/host/{part}", over.display()));
        }
    }
    options
}

/// The directories of the layout with owner, group and mode, a line for each.
fn directories() -> String {
    let group = |path: &str, owner: &'static str| match path {
        "run/gantry" | "var/spool/gantry" => ADMIN_GROUP,
        // Daemons write logs, and change no settings.
        settings if owner == ROOT_USER && settings.starts_with("etc/") => owner,
        _ => DAEMON_GROUP,
    };
    // Files have a dot in their names.
    let is_directory = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        // The agent makes these when it first starts, and the last is a program of the operator's.
        let absent = ["ssconf", "blobs", "host-network", "instances", "nic-hook"];
        !name.contains('.') && !absent.contains(&name)
    };
    let rows = Layout::TABLE.iter().filter(|(path, ..)| is_directory(path));
    rows.map(|(path, owner, mode, _)| {
        format!("/{path} {owner} {} {}\n", group(path, owner), mode.trim_start_matches('0'))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_listed_without_the_files_in_them() {
        let lines = directories();
        assert!(lines.contains("/var/lib/gantry/node gantry-node gantry-daemons 751\n"), "{lines}");
        assert!(lines.contains("/etc/gantry root root 755\n"), "{lines}");
        assert!(lines.contains("/etc/gantry/switch-programs root root 755\n"), "{lines}");
        assert!(!lines.contains("nic-hook"), "{lines}");
        assert!(!lines.contains(".pem") && !lines.contains(".log"), "{lines}");
    }

    #[test]
    fn the_trial_says_at_the_end_that_all_is_well() {
        assert!(TRIAL.ends_with(&format!("\n{}\n", WELL.trim_start_matches("+ "))));
        assert!(TRIAL.contains("\nset -euxo pipefail\n"));
    }
}
