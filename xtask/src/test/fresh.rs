//! The demonstration on a machine that has nothing: a developer has most of what it uses, and does
//! not see what its set-up forgets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Outcome, Round, skips};
use crate::guest::wires::Switch;
use crate::programs::{self, Profile, Programs};
use crate::{debian, root, target_dir};

/// How long it may take, in seconds: five times what it does on two idle cores.
const PATIENCE: &str = "900";
/// The command of the README.
const DEMO: &str = "cargo xtask demo";
/// The set-up of the other one, which takes minutes.
const INSTALL: &str = "cargo xtask test install";

/// The step. Programs that are built here run there: only what the commands use of a machine is made
/// anew.
pub(super) fn demonstrate(round: &mut Round) -> Outcome {
    if std::env::consts::ARCH != "x86_64" {
        return Outcome::Skipped("the demonstration's guest is x86_64".to_owned());
    }
    let bare = match debian::bare() {
        Ok(bare) => bare,
        Err(why) => return Outcome::Skipped(why),
    };
    if let Err(error) = Switch::new(1, &[]) {
        return Outcome::Skipped(crate::chain(&error));
    }
    if let Err(error) = Programs::build(Profile::Debug, programs::NODE) {
        return Outcome::Failed(crate::chain(&error));
    }
    let script = if round.long { format!("{DEMO} && {INSTALL}") } else { DEMO.to_owned() };
    let mut found = skips::InOutput::default();
    let ended = tempfile::tempdir_in(target_dir()).and_then(|place| {
        let mut command = in_fresh(&debian::copy(&bare, place.path())?, place.path(), &script)?;
        skips::run_watched(&mut command, io::stdout(), io::stderr(), &mut found)
    });
    let skipped: Vec<String> = found.skips().into_iter().map(|skip| skip.why).collect();
    match ended {
        Ok(status) if !status.success() => Outcome::Failed(format!("{script}: {status}")),
        Ok(_) if !skipped.is_empty() => {
            Outcome::Failed(format!("left out: {}", skipped.join("; ")))
        }
        Ok(_) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("no machine to try it on: {error}")),
    }
}

/// A script in the Debian in `machine`, at this workspace. It sees the compiler and what was built, and nothing
/// else of what lies below the directory that cargo builds into: `place` has its own.
fn in_fresh(machine: &Path, place: &Path, script: &str) -> io::Result<Command> {
    let told = Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()).output()?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&told.stdout).trim());
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home =
        std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let target = place.join("target");
    fs::create_dir(&target)?;
    let same = |path: PathBuf| (path.clone(), path);
    let visible = [
        same(sysroot.clone()),
        same(cargo_home.clone()),
        same(root()),
        (target, target_dir()),
        same(target_dir().join("debug")),
    ];
    let mut within = debian::within(machine, &visible, Some(&sysroot.join("bin")));
    within.args(["sh", "-c", &format!("cd \"$0\" && {script}")]).arg(root());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", PATIENCE]).arg(within.get_program()).args(within.get_args());
    command.envs(within.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("CARGO_HOME", cargo_home).env_remove("LD_LIBRARY_PATH");
    Ok(command)
}
