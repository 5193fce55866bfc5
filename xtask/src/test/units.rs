//! Has systemd check the service files, without installing them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Outcome, Round};
use crate::needs;
use crate::root;

/// Most exposure that a unit may have, in tenths, by `systemd-analyze security`: "OK" ends at 4.9,
/// ours are below 2.
const EXPOSURE_MAX_TENTHS: u32 = 20;
/// A program that stands in for ours, which are not installed.
const STAND_IN: &str = "/bin/true";
/// Mode of the copies that are checked.
const COPY_MODE: u32 = 0o644;

/// The step.
pub(super) fn verify(_round: &mut Round) -> Outcome {
    let Some(analyze) = needs::find("systemd-analyze") else {
        return Outcome::Skipped("systemd-analyze is not installed".to_owned());
    };
    match check(&analyze, &root().join("packaging")) {
        Ok(complaints) if complaints.is_empty() => Outcome::Passed,
        Ok(complaints) => {
            complaints.iter().for_each(|line| println!("{line}"));
            Outcome::Failed(format!("{} complaints about units", complaints.len()))
        }
        Err(error) => Outcome::Failed(format!("cannot check the units: {error}")),
    }
}

/// The complaints of systemd about the units in `packaging`.
fn check(analyze: &Path, packaging: &Path) -> io::Result<Vec<String>> {
    let copies = tempfile::tempdir()?;
    let mut units = Vec::new();
    for entry in fs::read_dir(packaging)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "service") {
            units.push(copy(&path, copies.path())?);
        }
    }
    let mut complaints = Vec::new();
    let mut verify = Command::new(analyze);
    complaints.extend(said(verify.args(["verify", "--man=no"]).args(&units))?);
    for unit in &units {
        let mut security = Command::new(analyze);
        security.arg("security").arg("--offline=true").arg("--no-pager");
        security.arg(format!("--threshold={EXPOSURE_MAX_TENTHS}")).arg(unit);
        let output = security.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let verdict = text.lines().filter(|line| line.contains("Overall exposure"));
        let verdict = verdict.collect::<String>();
        println!("{verdict}");
        if !output.status.success() {
            complaints.push(format!("too exposed: {verdict}"));
        }
    }
    Ok(complaints)
}

/// Copies a unit with a program that exists in place of ours.
fn copy(unit: &Path, to: &Path) -> io::Result<PathBuf> {
    let text = fs::read_to_string(unit)?;
    let lines = text.lines().map(|line| match line.split_once('=') {
        Some((key, _)) if key.starts_with("Exec") => format!("{key}={STAND_IN}\n"),
        _ => format!("{line}\n"),
    });
    let copy = to.join(unit.file_name().unwrap_or_default());
    stdx::atomic::write(&copy, lines.collect::<String>().as_bytes(), COPY_MODE)?;
    Ok(copy)
}

/// Everything that a command complains of: a success that is not silent is none.
fn said(command: &mut Command) -> io::Result<Vec<String>> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if !output.status.success() && lines.is_empty() {
        lines.push(format!("systemd-analyze failed ({})", output.status));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_with_a_mistake_is_found() {
        let Some(analyze) = needs::find("systemd-analyze") else {
            println!("skipped: systemd-analyze is not installed");
            return;
        };
        assert_eq!(check(&analyze, &root().join("packaging")).unwrap(), Vec::<String>::new());
        let dir = tempfile::tempdir().unwrap();
        let unit = dir.path().join("wrong.service");
        let text = "[Service]\nExecStart=/usr/sbin/ours\nNoNewPrivilege=yes\n";
        stdx::atomic::write(&unit, text.as_bytes(), 0o644).unwrap();
        let complaints = check(&analyze, dir.path()).unwrap().join("\n");
        assert!(complaints.contains("NoNewPrivilege"), "{complaints}");
        assert!(complaints.contains("too exposed"), "{complaints}");
        assert!(!complaints.contains("ours"), "{complaints}");
    }
}
