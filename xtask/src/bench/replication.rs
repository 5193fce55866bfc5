//! The cost of replication, and the time in which the master's role moves. A cluster of three voters on
//! loopback addresses runs beside a master that is alone, in one run and on the same disk. It also shows
//! whether further nodes matter to a job.

mod bare;
mod crowd;
mod moves;
mod own_disk;

pub use bare::BareError;

use std::time::Duration;

use super::cluster::{Alone, Cluster, ClusterError, Nodes, Which};
use super::queue::{Found, Load, Until, measure, percentiles};
use super::report::{Report, Target};
use super::{BenchError, Setting, disk};

/// Nodes of the cluster that is compared with one that is alone.
const VOTERS: u8 = 3;
/// Turns of both clusters: on a shared machine a ratio means something only between neighbours in
/// time.
const TURNS: u32 = 4;

/// The bench `replication`: the disk, the least that this machine needs for a commit, commits, failover,
/// and a candidate that catches up. Commits are measured with a disk for each member, too.
///
/// # Errors
/// The programs do not build, or something did not serve.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    disk::bench(setting, report)?;
    bare::bench(setting, report)?;
    // No files are removed before the last figure: ext4 is slow to make files where many were removed.
    let _ended = own_disk::bench(setting, report)?;
    let (alone, counts) = Cluster::start_measured(setting)?;
    let nodes = Nodes::start(setting, Which::One, VOTERS)?;
    for load in [(1, 1), (16, 1), (16, 50)] {
        let load = Load { clients: load.0, jobs: load.1 };
        let name = format!("replication.{}x{}", load.clients, load.jobs);
        let (one, three) = turns((&alone, counts), &nodes, load, setting.time)?;
        compare(&name, &one, &three, report);
    }
    report.aim("replication.1x1.commit", Target::RatioBelow(2.0));
    report.aim("replication.1x1.submit.p50", Target::RatioBelow(2.0));
    report.aim("replication.16x1.jobs", Target::RatioAtLeast(0.5));
    report.aim("replication.16x50.jobs", Target::RatioAtLeast(0.5));
    alone.abandon();
    moves::bench(&nodes, setting, report)?;
    moves::catch_up(&nodes, setting, report)?;
    nodes.end();
    crowd::bench(setting, report)
}

/// A load on a master that is alone and on several nodes, in turns.
fn turns(
    (alone, counts): (&Cluster, Alone),
    nodes: &Nodes,
    load: Load,
    time: Duration,
) -> Result<(Measured, Measured), ClusterError> {
    let (mut one, mut several) = (Measured::default(), Measured::default());
    let standbys = nodes.standbys();
    for _ in 0..TURNS {
        let until = Until::Time(time / TURNS);
        one.turn(|| counts.commits(), || measure(alone, &[], load, until))?;
        several.turn(|| nodes.commits(0), || measure(nodes.node(0), &standbys, load, until))?;
    }
    Ok((one, several))
}

/// The outcome of the turns of one cluster.
#[derive(Default)]
struct Measured {
    found: Option<Found>,
    /// Seconds of all commits, and their number.
    commits: (f64, f64),
}

impl Measured {
    fn turn(
        &mut self,
        commits: impl Fn() -> Result<(f64, f64), ClusterError>,
        turn: impl FnOnce() -> Result<Found, ClusterError>,
    ) -> Result<(), ClusterError> {
        let before = commits()?;
        let found = turn()?;
        let after = commits()?;
        self.commits.0 += after.0 - before.0;
        self.commits.1 += after.1 - before.1;
        match &mut self.found {
            Some(all) => all.extend(found),
            None => self.found = Some(found),
        }
        Ok(())
    }

    /// Mean time of a commit, in microseconds.
    fn commit_us(&self) -> f64 {
        self.commits.0 * 1e6 / self.commits.1.max(1.0)
    }
}

/// The figures of three voters, each beside that of the master that is alone.
fn compare(name: &str, one: &Measured, three: &Measured, report: &mut Report) {
    let (Some(alone), Some(voters)) = (&one.found, &three.found) else { return };
    report.add_compared(format!("{name}.commit"), three.commit_us(), "us", one.commit_us());
    let [found, baseline] = [voters, alone].map(|found| percentiles(&found.submit_us));
    for (what, at) in [("p50", 0), ("p99", 1)] {
        report.add_compared(format!("{name}.submit.{what}"), found[at], "us", baseline[at]);
    }
    for (what, rate) in [
        ("jobs", Found::per_second as fn(&Found) -> f64),
        ("jobs_with_files", Found::per_second_with_files),
    ] {
        report.add_compared(format!("{name}.{what}"), rate(voters), "1/s", rate(alone));
    }
}

/// Milliseconds.
fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
