//! The needs of this repository's commands: whether the machine has them, and their installation where
//! that is allowed. A command gets all of them before it enters a namespace, where there is no network.
//!
//! In reading order: `table` lists all of it and how each is asked; `install` has apt and pip bring it,
//! or unpacks beside the machine's own what apt may not install.

mod install;
mod table;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) use install::update;
pub(crate) use table::{NEEDS, Need};

/// Directories of programs besides `PATH`, which lacks these for ordinary users.
const SYSTEM_DIRS: &[&str] = &[
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
    "/usr/lib/systemd",
    "/lib/systemd",
    "/usr/lib/dracut/modules.d/30ignition",
];
/// Seconds that a program may take to say that it is there: large ones of Python take some on a busy machine.
const ANSWER_MAX: &str = "60";

/// Something that is not there.
#[derive(Debug, Clone)]
pub(crate) struct Lack {
    pub(crate) need: &'static Need,
    /// The words of the system or the program.
    why: String,
}

impl Lack {
    pub(crate) fn not_installed(need: &'static Need) -> Self {
        Self { need, why: "it is not installed".to_owned() }
    }

    /// Why it is not there, and what to do.
    pub(crate) fn why(&self) -> String {
        format!("{}; {}", self.why, self.need.remedy())
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}`: {}", self.need.program, self.why())
    }
}

/// Has come what of these is missing, as far as that is allowed; gives what is still missing.
pub(crate) fn prepare(needs: &[&'static Need]) -> Vec<Lack> {
    let missing = lacking(needs);
    if missing.is_empty() {
        return missing;
    }
    println!("missing: {}", names(missing.iter().map(|lack| lack.need)));
    let needs: Vec<&Need> = missing.iter().map(|lack| lack.need).collect();
    install::bring(&needs);
    lacking(&needs)
}

/// The rows of these programs.
///
/// # Panics
/// If one has no row.
pub(crate) fn of(programs: &[&str]) -> Vec<&'static Need> {
    let row = |program: &&str| {
        let row = NEEDS.iter().find(|need| need.program == *program);
        row.unwrap_or_else(|| panic!("`{program}` has no row in the table of needs"))
    };
    programs.iter().map(row).collect()
}

/// The needs that are not there. All are asked at once.
pub(crate) fn lacking(needs: &[&'static Need]) -> Vec<Lack> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = needs.iter().map(|&need| scope.spawn(move || ask(need))).collect();
        let answers = asked.into_iter().filter_map(|asked| {
            asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).err()
        });
        answers.collect()
    })
}

/// Asks a program whether it does what is wanted of it.
fn ask(need: &'static Need) -> Result<(), Lack> {
    let file = find(need.program).ok_or_else(|| Lack::not_installed(need))?;
    let lack = |why| Lack { need, why };
    let mut command = Command::new("timeout");
    command.args([ANSWER_MAX, "sh", "-c", need.ask]).arg(file);
    command.env("PATH", path()).stdin(Stdio::null());
    let output = command.output().map_err(|error| lack(format!("cannot ask it: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    let last = said.lines().last().map(|line| stdx::text::line(line).into_owned());
    let last = last.unwrap_or_else(|| output.status.to_string());
    Err(lack(format!("it does not work ({last})")))
}

/// The file of one of these programs, which comes if that is allowed.
///
/// # Errors
/// Why it is not there, and what to do.
pub fn provide(program: &str) -> Result<PathBuf, String> {
    match prepare(&of(&[program])).first() {
        Some(lack) => Err(lack.to_string()),
        None => find(program).ok_or_else(|| format!("`{program}` went away")),
    }
}

/// Why one of these programs is not there, and what to do; none if all are.
pub fn missing(programs: &[&str]) -> Option<String> {
    lacking(&of(programs)).first().map(Lack::to_string)
}

/// A command by one of these programs.
pub fn command(program: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| program.into()))
}

/// The file of a program, the way it runs: one that is unpacked is there because no other works.
pub fn find(program: &str) -> Option<PathBuf> {
    dirs().into_iter().map(|dir| dir.join(program)).find(|file| is_program(file))
}

/// `PATH` with what is unpacked or installed below the directory that cargo builds into, for commands that
/// call programs by their names alone.
pub(crate) fn path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(dirs()).unwrap_or(path)
}

fn dirs() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut dirs = vec![install::unpacked().join("bin")];
    // A process that was started with this path finds all of it there.
    if path.first() == dirs.first() {
        return path;
    }
    dirs.extend(path);
    dirs.extend(SYSTEM_DIRS.iter().map(PathBuf::from));
    dirs.push(install::python().join("bin"));
    dirs
}

/// A command beside a program, as the installation that has it sees it: where it was unpacked, its files and
/// modules are visible to nobody else.
pub fn beside(program: &str, command: &str) -> Command {
    let Some(tree) = tree(program) else { return Command::new(command) };
    let mut run = Command::new(tree.join("run"));
    run.arg(command);
    run
}

/// A script that runs a command as [`beside`] does, for programs that start others by their path.
pub fn script_beside(program: &str, command: &str) -> String {
    let command = beside(program, command);
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" "))
}

/// Below it lie the files of a program that was unpacked, as they would below the root; none if it is installed.
pub(crate) fn tree(program: &str) -> Option<PathBuf> {
    let file = find(program)?;
    let run = file.starts_with(install::unpacked()).then(|| file.canonicalize().ok())??;
    run.parent().map(Path::to_owned)
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
    use super::table::Source;
    use super::*;

    const fn need(program: &'static str, ask: &'static str) -> Need {
        Need { program, ask, source: Source::Installed("dash"), purpose: "a test" }
    }

    static WORKS: Need = need("sh", r#""$0" -c true"#);
    static BROKEN: Need = need("sh", "echo begins; echo 'libnm.so.0 is missing' >&2; exit 127");
    static SILENT: Need = need("sh", "exit 3");
    static ABSENT: Need = need("no-such-program", "true");

    #[test]
    fn only_a_program_that_answers_is_there() {
        let missing = lacking(&[&WORKS, &BROKEN, &SILENT, &ABSENT]);
        let told: Vec<String> = missing.iter().map(Lack::to_string).collect();
        let expected = [
            "`sh`: it does not work (libnm.so.0 is missing); as root: apt-get install dash",
            "`sh`: it does not work (exit status: 3); as root: apt-get install dash",
            "`no-such-program`: it is not installed; as root: apt-get install dash",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_program_is_a_file_that_can_be_run() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("tool");
        stdx::atomic::write(&tool, b"", 0o644).unwrap();
        assert!(!is_program(&tool) && !is_program(dir.path()));
        stdx::atomic::write(&tool, b"", 0o755).unwrap();
        assert!(is_program(&tool));
    }

    #[test]
    fn what_is_unpacked_goes_before_what_does_not_work() {
        let unpacked = install::unpacked().join("bin");
        assert_eq!(dirs().first(), Some(&unpacked));
        let all = path();
        assert_eq!(std::env::split_paths(&all).next(), Some(unpacked));
    }
}
