//! Shows a cluster at work: builds the programs, sets a stage and plays scenes on it.
//!
//! Nothing here needs root: all daemons live below one temporary root, in a network namespace of
//! their own, where the rack's network is on the loopback interface. The scenes are in [`scenes`].

pub mod guest;
mod instance;
pub mod machine;
pub mod scenes;
mod switch;
mod virtual_machine;

use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use clap::Args;
use parking_lot::Mutex;

use crate::guest::GuestError;
use crate::needs;
use crate::programs::{self, BuildError, Profile, Programs};
use crate::stage::{Stage, StageError};

/// The arguments of the demonstration.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory that the temporary root is made in
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Leave the root and its files behind, to look at them; the daemons end all the same
    #[arg(long)]
    pub keep: bool,
}

/// A demonstration that ended early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The demonstration lacks something that it cannot do without.
    #[error("{0}")]
    Missing(String),
    /// The programs do not build.
    #[error("cannot build the programs")]
    Build(#[from] BuildError),
    /// The stage cannot be set, or something did not happen on it.
    #[error("the cluster of the demonstration failed")]
    Stage(#[from] StageError),
    /// The switch does not do what it should.
    #[error("the switch of the demonstration failed")]
    Switch(#[from] crate::ovs::OvsError),
    /// A program does not start.
    #[error("cannot start `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A file of the demonstration cannot be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A simulated machine did not boot.
    #[error("machine {serial} did not boot")]
    Machine {
        /// Which.
        serial: String,
        /// What it met.
        #[source]
        error: io::Error,
    },
    /// A guest did not boot.
    #[error("the guest did not boot")]
    Guest(#[from] GuestError),
    /// A program succeeded that should fail.
    #[error("`{command}` should have failed")]
    Succeeded {
        /// The command line.
        command: String,
    },
    /// A program failed that should not.
    #[error("`{command}` failed ({status})")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
}

/// Programs that the demonstration calls, besides those of [`guest`].
const PROGRAMS: &[&str] = &["unshare", "ip", "curl"];
/// Without these there is no stage.
const INDISPENSABLE: &[&str] = &["unshare", "ip"];
/// Stands in for iPXE: simulated machines ask for the loader and do not run it.
const LOADER: &[u8] = b"MZ";
/// Tells the program that it is in the namespace already.
const INSIDE: &str = "GANTRY_DEMO_INSIDE";

/// Has come what the scenes use, as long as there is a network. Gives why no guest can boot.
fn prepare() -> Result<Option<String>, DemoError> {
    drop(needs::prepare(&needs::of(&[PROGRAMS, switch::PROGRAMS].concat())));
    match needs::missing(INDISPENSABLE) {
        Some(why) => Err(DemoError::Missing(why)),
        None => Ok(guest::prepare().err()),
    }
}

/// Runs this program again in a network namespace, with the network of rack 0 on its loopback
/// interface: rules of addresses refuse 127.0.0.0/8.
fn run_inside(no_guest: Option<String>) -> Result<(), DemoError> {
    let failed = |command: &str| {
        let command = command.to_owned();
        move |error| DemoError::Start { command, error }
    };
    let program = std::env::current_exe().map_err(failed("xtask"))?;
    let script = "ip link set lo up && ip addr add 10.79.0.1/16 dev lo && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "sh", "-c", script]).arg(program).args(std::env::args_os().skip(1));
    command.envs(no_guest.map(|why| (guest::IMPOSSIBLE, why)));
    command.env("PATH", needs::path()).env(INSIDE, "yes");
    let status = command.status().map_err(failed("unshare"))?;
    if status.success() {
        return Ok(());
    }
    Err(DemoError::Failed { command: "xtask demo, in a network namespace".to_owned(), status })
}

/// The programs and the stage that a scene plays with.
#[derive(Debug)]
pub struct Play {
    /// The built programs.
    pub programs: Programs,
    /// The root and its daemons.
    pub stage: Stage,
    /// Whether the root's files stay.
    pub keeps: bool,
    /// Why the present scene leaves something out.
    skipped: Mutex<Vec<String>>,
}

/// A part of the demonstration.
#[derive(Debug)]
pub struct Scene {
    /// The title that the audience reads above it.
    pub title: &'static str,
    /// Plays it.
    pub play: fn(&Play) -> Result<(), DemoError>,
}

/// Builds, plays every scene in order, and clears away.
///
/// # Errors
/// The first thing that went wrong; the stage is cleared all the same.
pub fn run(arguments: &Arguments) -> Result<(), DemoError> {
    println!("building the programs; the first time takes some minutes");
    let programs = Programs::build(Profile::Debug, programs::NODE)?;
    if std::env::var_os(INSIDE).is_none() {
        return run_inside(prepare()?);
    }
    let stage = Stage::new(&arguments.dir)?;
    println!("everything below lives in {}", stage.root().display());
    let keeps = arguments.keep;
    if keeps {
        stage.keep();
    }
    let play = Play { programs, stage, keeps, skipped: Mutex::default() };
    let mut skipped = String::new();
    for (number, scene) in (1..).zip(scenes::SCENES) {
        println!("\n{number}. {}", scene.title);
        (scene.play)(&play)?;
        for why in play.skipped.lock().drain(..) {
            skipped.push_str(&format!("  {number}. {}: {why}\n", scene.title));
        }
    }
    let root = play.stage.root().to_owned();
    play.stage.clear();
    if keeps {
        println!("\nThe daemons have ended; the files are kept in {}", root.display());
    }
    if !skipped.is_empty() {
        print!("\nNot shown here:\n{skipped}");
    }
    Ok(())
}

impl Play {
    /// Says why the present scene leaves something out, now and again at the end.
    fn skip(&self, why: &str) {
        println!("  skipped: {why}");
        self.skipped.lock().push(why.to_owned());
    }

    /// The root of a node.
    pub fn root(&self, node: u8) -> PathBuf {
        self.stage.root().join(format!("n{node}"))
    }

    /// Address of a node: on loopback, and another one for each demonstration, so that several can
    /// run on one machine.
    pub fn address(&self, node: u8) -> Ipv4Addr {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        Ipv4Addr::new(127, high | 0x80, low, node)
    }

    /// An address of rack 0, on loopback too.
    pub fn rack_address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 79, 0, host)
    }

    /// Starts the agent of a node.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_agent(&self, node: u8, further: &[&str]) -> Result<(), DemoError> {
        let mut noded = self.programs.command("noded");
        noded.arg("--root").arg(self.root(node));
        noded.arg("--ipxe").arg(self.loader()?);
        noded.args(["--rpc-address", &self.address(node).to_string()]);
        if !further.contains(&"--boot-address") {
            noded.args(["--boot-address", &self.address(node).to_string()]);
        }
        noded.args(further);
        Ok(self.stage.start(&format!("noded{node}"), noded)?)
    }

    /// A boot loader for agents.
    fn loader(&self) -> Result<PathBuf, DemoError> {
        let path = self.stage.root().join("snponly.efi");
        match stdx::atomic::write(&path, LOADER, FILE_MODE) {
            Ok(()) => Ok(path),
            Err(error) => Err(DemoError::Write { path, error }),
        }
    }

    /// Runs `gnt` in the foreground, its command line shown above what it says.
    ///
    /// # Errors
    /// It does not start, or fails.
    pub fn gnt(&self, arguments: &[&str]) -> Result<(), DemoError> {
        self.gnt_with(arguments, None)
    }

    /// The same on another node.
    ///
    /// # Errors
    /// It does not start, or fails.
    pub fn gnt_on(&self, node: u8, arguments: &[&str]) -> Result<(), DemoError> {
        must_succeed(self.run_gnt(node, arguments, None)?)
    }

    /// The same, with text on its standard input.
    ///
    /// # Errors
    /// It does not start, or fails.
    pub fn gnt_with(&self, arguments: &[&str], input: Option<&str>) -> Result<(), DemoError> {
        must_succeed(self.run_gnt(1, arguments, input)?)
    }

    /// Runs `gnt` where it has to fail.
    ///
    /// # Errors
    /// It does not start, or succeeds.
    pub fn gnt_fails(&self, arguments: &[&str]) -> Result<(), DemoError> {
        match self.run_gnt(1, arguments, None)? {
            (command, status) if status.success() => Err(DemoError::Succeeded { command }),
            (_, status) => {
                println!("  (exit status {})", status.code().unwrap_or(-1));
                Ok(())
            }
        }
    }

    fn run_gnt(
        &self,
        node: u8,
        arguments: &[&str],
        input: Option<&str>,
    ) -> Result<(String, ExitStatus), DemoError> {
        let command = format!("gnt {}", arguments.join(" "));
        match node {
            1 => println!("$ {command}"),
            other => println!("n{other}$ {command}"),
        }
        let mut gnt = self.programs.command("gnt");
        gnt.env("GANTRY_ROOT", self.root(node)).args(arguments);
        if input.is_some() {
            gnt.stdin(Stdio::piped());
        }
        let mut run = || {
            let mut child = gnt.spawn()?;
            if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
                writeln!(stdin, "{text}")?;
            }
            child.wait()
        };
        match run() {
            Ok(status) => Ok((command, status)),
            Err(error) => Err(DemoError::Start { command, error }),
        }
    }

    /// The output of `gnt`, if it succeeds.
    fn quiet(&self, arguments: &[&str]) -> Option<String> {
        self.quiet_on(1, arguments)
    }

    fn quiet_on(&self, node: u8, arguments: &[&str]) -> Option<String> {
        let mut gnt = self.programs.command("gnt");
        let output = gnt.env("GANTRY_ROOT", self.root(node)).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Id of a job, counted back from the newest, which is 1.
    fn last_job(&self, back: usize) -> String {
        self.last_job_on(1, back)
    }

    fn last_job_on(&self, node: u8, back: usize) -> String {
        let list = ["job", "list", "--no-headers", "-o", "id"];
        let list = self.quiet_on(node, &list).unwrap_or_default();
        list.lines().rev().nth(back - 1).unwrap_or("0").trim().to_owned()
    }

    /// Writes a file for the audience to look at, and shows it; gives its path.
    fn write(&self, name: &str, text: &str) -> Result<String, DemoError> {
        let path = self.stage.root().join(name);
        stdx::atomic::write(&path, text.as_bytes(), FILE_MODE)
            .map_err(|error| DemoError::Write { path: path.clone(), error })?;
        println!("  {name}:");
        for line in text.lines() {
            println!("    {line}");
        }
        Ok(path.display().to_string())
    }
}

fn must_succeed((command, status): (String, ExitStatus)) -> Result<(), DemoError> {
    if status.success() { Ok(()) } else { Err(DemoError::Failed { command, status }) }
}

/// Mode of the demonstration's files.
const FILE_MODE: u32 = 0o644;
