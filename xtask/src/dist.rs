//! Makes the Debian packages.
//!
//! In reading order: [`contents`] names the files of each package and their places. Manual pages and
//! completions come from [`pages`]. Programs are parted from what only a debugger reads by [`symbols`].
//! Texts that the dependencies want told are collected by [`licences`]. Files for dpkg come from
//! [`control`]. All of it is written by [`tree`] into a directory, which `dpkg-deb` packs.
//!
//! Two runs on the same source with the same compiler give the same bytes: times come from
//! `SOURCE_DATE_EPOCH`, or else from the last commit, and owners are root.

pub mod contents;
pub mod control;
pub mod licences;
pub mod pages;
pub mod symbols;
pub mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::programs::{self, BuildError, Profile, Programs};
use crate::{root, target_dir};
use contents::Package;
use tree::Tree;

/// Debian's own part of the version: counts packages that are made anew of the same source.
const REVISION: u32 = 1;
/// How `dpkg-deb` compresses what is released; every dpkg since 2009 reads it.
const SMALL: &[&str] = &["-Zxz"];
/// And what is only tested: a tenth of the time.
const QUICK: &[&str] = &["-Zgzip", "-z1"];

/// How packages are made.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Pack the programs of this profile: dist, or dev for tests
    #[arg(long, value_name = "PROFILE", default_value = "dist", value_parser = profile)]
    pub profile: Profile,
    /// Directory for the packages [default: target/dist]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

fn profile(word: &str) -> Result<Profile, String> {
    match word {
        "dist" => Ok(Profile::Dist),
        "dev" => Ok(Profile::Debug),
        other => Err(format!("`{other}` is neither `dist` nor `dev`")),
    }
}

/// Packages that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DistError {
    /// The programs do not build.
    #[error("cannot build the programs")]
    Build(#[from] BuildError),
    /// A file cannot be read or written.
    #[error("cannot {action} `{path}`")]
    File {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A program of the system does not start.
    #[error("cannot run `{program}`; on Debian it is in the package `{package}`")]
    Start {
        /// The program.
        program: &'static str,
        /// The package that it comes from.
        package: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A program of the system failed.
    #[error("`{program}` failed: {why}")]
    Failed {
        /// The program.
        program: &'static str,
        /// Its own words.
        why: String,
    },
    /// Something that was read makes no sense.
    #[error("cannot make sense of {what}")]
    Sense {
        /// What was read.
        what: String,
    },
}

impl DistError {
    pub(crate) fn file(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::File { action, path: path.to_owned(), error }
    }
}

/// Makes all packages and gives their paths.
///
/// # Errors
/// See [`DistError`].
pub fn make(arguments: &Arguments) -> Result<Vec<PathBuf>, DistError> {
    let programs = Programs::build(arguments.profile, programs::NODE)?;
    let output = arguments.output.clone().unwrap_or_else(|| target_dir().join("dist"));
    std::fs::create_dir_all(&output)
        .map_err(|error| DistError::file("make the directory", &output, error))?;
    let release = Release::now()?;
    let split = tempfile::tempdir_in(&output)
        .map_err(|error| DistError::file("make a directory in", &output, error))?;
    let architecture = said(Command::new("dpkg").arg("--print-architecture"), ("dpkg", "dpkg"))?;
    let mut made = Vec::new();
    for package in contents::packages(&programs, architecture.trim(), &release, split.path())? {
        let compression = if arguments.profile == Profile::Dist { SMALL } else { QUICK };
        made.push(pack(&package, &release, (compression, &output))?);
    }
    Ok(made)
}

/// The command of the tool.
///
/// # Errors
/// See [`DistError`].
pub fn run(arguments: &Arguments) -> Result<(), DistError> {
    for path in make(arguments)? {
        let bytes = path.metadata().map_or(0, |found| found.len());
        println!("{} ({:.1} MiB)", path.display(), mib(bytes));
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The common properties of all packages of one run.
#[derive(Debug, Clone)]
pub struct Release {
    /// Version of the packages.
    pub version: String,
    /// The maintainer: `DEBFULLNAME` and `DEBEMAIL`, as with Debian's own tools.
    pub maintainer: String,
    /// Seconds since the epoch that all files get.
    pub source_date: u64,
    /// The same as changelogs have it.
    pub source_date_words: String,
}

impl Release {
    fn now() -> Result<Self, DistError> {
        let source_date = source_date()?;
        let mut date = Command::new("date");
        date.env("LC_ALL", "C")
            .args(["--utc", "--rfc-email"])
            .arg(format!("--date=@{source_date}"));
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Ok(Self {
            version: format!("{}-{REVISION}", env!("CARGO_PKG_VERSION")),
            maintainer: control::maintainer(set("DEBFULLNAME"), set("DEBEMAIL")),
            source_date,
            source_date_words: said(&mut date, ("date", "coreutils"))?.trim().to_owned(),
        })
    }
}

fn pack(
    package: &Package,
    release: &Release,
    (compression, output): (&[&str], &Path),
) -> Result<PathBuf, DistError> {
    let staged = tempfile::tempdir_in(output)
        .map_err(|error| DistError::file("make a directory in", output, error))?;
    // A temporary directory is closed to others, and it becomes the root of the package.
    let staged = staged.path().join(package.name);
    package.tree.write(&staged)?;
    let control = control::files(package, release, &staged)?;
    let mut tree = Tree::default();
    for (name, mode, text) in control {
        tree.text(&format!("DEBIAN/{name}"), mode, text);
    }
    tree.write(&staged)?;
    let name = format!("{}_{}_{}.deb", package.name, release.version, package.architecture);
    let path = output.join(name);
    let mut command = Command::new("dpkg-deb");
    command.env("SOURCE_DATE_EPOCH", release.source_date.to_string());
    command.arg("--root-owner-group").args(compression).arg("--build").arg(&staged).arg(&path);
    said(&mut command, ("dpkg-deb", "dpkg"))?;
    Ok(path)
}

/// Seconds since the epoch that all files get.
fn source_date() -> Result<u64, DistError> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_unset) => {
            let mut git = Command::new("git");
            said(git.current_dir(root()).args(["log", "-1", "--format=%ct"]), ("git", "git"))?
        }
    };
    let seconds = text.trim().parse();
    seconds.map_err(|_no_number| DistError::Sense {
        what: format!("the time of the source, `{}`: give SOURCE_DATE_EPOCH", text.trim()),
    })
}

/// The output of a program of the system.
pub(crate) fn said(
    command: &mut Command,
    (program, package): (&'static str, &'static str),
) -> Result<String, DistError> {
    let output = command.output().map_err(|error| DistError::Start { program, package, error })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(DistError::Failed { program, why })
}
