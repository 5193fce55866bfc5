//! Measures, and prints every figure beside what the disk itself can do.
//!
//! Two need no disk: locks, and instructions, which are compared with what the tree holds.
//! A bench is one row of [`BENCHES`] and one module; [`report`] collects what it found.

pub mod bed;
pub mod boot;
pub mod client;
pub mod cluster;
pub mod dhcp;
pub mod disk;
pub mod floor;
pub mod front;
pub mod guests;
pub mod http;
pub mod instances;
pub mod instructions;
pub mod lifecycle;
pub mod live;
pub mod locks;
pub mod network;
mod nginx;
pub mod queue;
mod readers;
pub mod register;
pub mod replication;
pub mod report;
pub mod switches;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use disk::DiskError;
use report::{Report, ReportError};

use crate::guest::GuestError;
use crate::programs::{BuildError, OwnDisk};

/// How long one figure is measured.
const MEASURED_FOR: Duration = Duration::from_secs(10);
/// The same with `--quick`: all benches together stay below half a minute.
const MEASURED_FOR_QUICK: Duration = Duration::from_secs(2);

/// The arguments of the benches.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Benches to run; all of them when none is named
    #[arg(value_name = "BENCH")]
    pub names: Vec<String>,
    /// Measure each figure for two seconds only, and leave out what takes minutes
    #[arg(long)]
    pub quick: bool,
    /// Write the figures to FILE, as a list of {name, value, unit, baseline, ratio}
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Make the counted instructions those that later runs are compared with
    #[arg(long)]
    pub accept: bool,
    /// Directory on the disk that is measured; its files are removed afterwards
    #[arg(long, value_name = "DIR", default_value_os_t = crate::target_dir())]
    pub dir: PathBuf,
}

/// The conditions of a bench.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The directory for its files.
    pub dir: PathBuf,
    /// How long each figure is measured.
    pub time: Duration,
    /// Whether what takes minutes is left out.
    pub quick: bool,
    /// Whether instructions that are counted become those that are accepted.
    pub accept: bool,
    /// The disk that each daemon has for itself; else they share that of `dir`.
    pub own_disk: Option<OwnDisk>,
}

/// One bench.
#[derive(Debug)]
pub struct Bench {
    /// Its name on the command line.
    pub name: &'static str,
    /// The subject of its measurement, in one line.
    pub about: &'static str,
    /// Measures.
    pub run: fn(&Setting, &mut Report) -> Result<(), BenchError>,
}

/// All benches, in the order in which they run: the disk first, the others are compared with it.
pub const BENCHES: &[Bench] = &[
    Bench {
        name: "disk",
        about: "append + fdatasync, and write + fsync + rename + fsync of the directory",
        run: disk::bench,
    },
    Bench {
        name: "queue",
        about: "the disk, then trivial jobs through a real master, by clients in other processes",
        run: queue::bench,
    },
    Bench {
        name: "live",
        about: "a master with 100,000 unarchived jobs, and with a million archived ones",
        run: live::bench,
    },
    Bench {
        name: "replication",
        about: "a master with two further voters beside one that is alone; failover; catching up",
        run: replication::bench,
    },
    Bench {
        name: "locks",
        about: "locks on one core: uncontended, and handed on among many who wait",
        run: locks::bench,
    },
    Bench {
        name: "dhcp",
        about: "leases of an agent beside Debian's Kea, under perfdhcp; as root",
        run: dhcp::bench,
    },
    Bench {
        name: "http",
        about: "files of an agent beside nginx, in 64 downloads at once; as root",
        run: http::bench,
    },
    Bench {
        name: "boot",
        about: "power-on to userspace in QEMU, from an agent and from dnsmasq with nginx; as root",
        run: boot::bench,
    },
    Bench {
        name: "register",
        about: "10,000 machines in one job; one machine changed among 10 and 1,000 racks",
        run: register::bench,
    },
    Bench {
        name: "front",
        about: "10,000 machines over HTTPS with a password, beside the same questions by LUXI",
        run: front::bench,
    },
    Bench {
        name: "lifecycle",
        about: "signs of life and lookups of 10,000 machines, and 1,000 deployments",
        run: lifecycle::bench,
    },
    Bench {
        name: "network",
        about: "100,000 addresses claimed, files for 10,000 machines, steps of 500 interfaces",
        run: network::bench,
    },
    Bench {
        name: "switches",
        about: "1,000 ports of an Open vSwitch beside ovs-vsctl for each, and changes set back",
        run: switches::bench,
    },
    Bench {
        name: "instances",
        about: "instances of 200 agents: one, many at once, the choice of nodes, lists of 10,000",
        run: instances::bench,
    },
    Bench {
        name: "guests",
        about: "guests of QEMU: starts, deaths, memory, a hundred on one host, a copy; as root",
        run: guests::bench,
    },
    Bench {
        name: "instructions",
        about: "instructions of the steps of a job, compared with those that the tree holds",
        run: instructions::bench,
    },
];

/// A bench that ended early.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There is no such bench.
    #[error("there is no bench `{name}`; there are: {known}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The directory for the files cannot be made.
    #[error("cannot make a directory for the measurement in `{dir}`")]
    Directory {
        /// Where.
        dir: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The disk could not be measured.
    #[error("cannot measure the disk")]
    Disk(#[from] DiskError),
    /// The least that a job costs could not be measured.
    #[error("cannot measure what a job costs at least")]
    Floor(#[source] std::io::Error),
    /// The least that a commit costs could not be measured.
    #[error("cannot measure what a commit costs at least")]
    Bare(#[from] replication::BareError),
    /// The programs of the bench do not build.
    #[error("cannot build what the bench needs")]
    Build(#[from] BuildError),
    /// A cluster could not be measured.
    #[error("cannot measure a cluster")]
    Cluster(#[from] cluster::ClusterError),
    /// A rack could not be measured.
    #[error("cannot measure a rack")]
    Rack(#[from] GuestError),
    /// A switch could not be measured.
    #[error("cannot measure a switch")]
    Switch(#[from] crate::ovs::OvsError),
    /// Locks could not be measured.
    #[error("cannot measure locks")]
    Locks(#[from] locks::LocksError),
    /// Instructions could not be counted.
    #[error("cannot count instructions")]
    Instructions(#[from] instructions::InstructionsError),
    /// Something is worse than it may be.
    #[error("worse than accepted: {0}")]
    Worse(String),
    /// The figures could not be written.
    #[error("cannot hand over the figures")]
    Report(#[from] ReportError),
}

/// Runs the benches that are asked for and prints what they found.
///
/// # Errors
/// The first thing that went wrong.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let chosen = choose(&arguments.names)?;
    let at = |error| BenchError::Directory { dir: arguments.dir.clone(), error };
    std::fs::create_dir_all(&arguments.dir).map_err(at)?;
    let dir = tempfile::Builder::new().prefix("bench-").tempdir_in(&arguments.dir).map_err(at)?;
    spread(dir.path());
    let time = if arguments.quick { MEASURED_FOR_QUICK } else { MEASURED_FOR };
    let setting = Setting {
        dir: dir.path().to_owned(),
        time,
        quick: arguments.quick,
        accept: arguments.accept,
        own_disk: None,
    };
    let mut report = Report::default();
    let done = chosen.into_iter().try_for_each(|bench| {
        println!("{}: {}", bench.name, bench.about);
        (bench.run)(&setting, &mut report)
    });
    // The figures from before a failure took their time, too.
    print!("\n{report}");
    if let Some(file) = &arguments.json {
        report.write(file)?;
    }
    if done.is_err() {
        // The error names what lies in it.
        drop(dir.keep());
    }
    done?;
    match report.failures() {
        [] => Ok(()),
        whys => Err(BenchError::Worse(whys.join("; "))),
    }
}

/// Asks the file system to put the contents of `dir` in places of its own. Files are slow to make on
/// ext4 where many were removed a few minutes ago, as the tests and an earlier bench do.
fn spread(dir: &std::path::Path) {
    let asked = std::process::Command::new("chattr").arg("+T").arg(dir).output();
    if !asked.is_ok_and(|done| done.status.success()) {
        println!("(directories are not spread over the disk here; that may cost some)");
    }
}

fn choose(names: &[String]) -> Result<Vec<&'static Bench>, BenchError> {
    if names.is_empty() {
        return Ok(BENCHES.iter().collect());
    }
    let find = |name: &String| {
        let known = || BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ");
        BENCHES
            .iter()
            .find(|bench| bench.name == name)
            .ok_or_else(|| BenchError::Unknown { name: name.clone(), known: known() })
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_bench_is_told_which_there_are() {
        let error = choose(&["disk".to_owned(), "cpu".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`cpu`") && error.contains("there are: disk"), "{error}");
        assert_eq!(choose(&[]).unwrap().len(), BENCHES.len());
    }
}
