//! A long queue: what unarchived and archived jobs cost the master at rest, at its start, and the
//! operator who lists a few of them.

use std::time::Duration;

use super::cluster::{Cluster, ClusterError};
use super::report::{Report, Target};
use super::{BenchError, Setting};

/// Unarchived jobs of the long queue.
const LIVE: u64 = 100_000;
/// Archived ones beside them.
const ARCHIVED: u64 = 1_000_000;
/// Jobs that are archived at once on the way there: fewer files lie about.
const ARCHIVED_AT_ONCE: u64 = 50_000;
/// Jobs of a list.
const LISTED: u64 = 50;
/// Runs of a command; the median counts.
const RUNS: usize = 21;
/// Starts of the master; the median counts.
const STARTS: usize = 3;

/// The bench `live`: an empty queue, then one of 100,000 jobs; and, unless it is quick, the same
/// with a million archived.
///
/// # Errors
/// The programs do not build, or something did not serve.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let cluster = Cluster::start(setting)?;
    cluster.run_jobs(LISTED)?;
    cluster.restart()?;
    let empty = cluster.memory_kib().map_err(ClusterError::Pipe)?;
    report.add("live.gnt_help", median(RUNS, || cluster.gnt(&["--version"]))?, "ms");
    report.add("live.50.job_list", median(RUNS, || cluster.gnt(&["job", "list"]))?, "ms");
    report.aim("live.50.job_list", Target::ValueBelow(10.0));
    let mut jobs = LISTED;
    cluster.run_jobs(LIVE - jobs)?;
    jobs += LIVE - jobs;
    look(&cluster, "live.100k", jobs, empty, report)?;
    if setting.quick {
        return Ok(());
    }
    let mut left = ARCHIVED;
    while left > 0 {
        let some = left.min(ARCHIVED_AT_ONCE);
        cluster.gnt(&["job", "autoarchive", "all"])?;
        cluster.run_jobs(some)?;
        jobs += some;
        left -= some;
    }
    cluster.gnt(&["job", "autoarchive", "all"])?;
    cluster.run_jobs(LIVE)?;
    jobs += LIVE;
    look(&cluster, "live.100k_beside_1m_archived", jobs, empty, report)
}

fn look(
    cluster: &Cluster,
    name: &str,
    last: u64,
    empty_kib: u64,
    report: &mut Report,
) -> Result<(), BenchError> {
    cluster.wait_for_files(LIVE)?;
    let json_kib = queue_kib(cluster).map_err(ClusterError::Pipe)?;
    let busy = cluster.memory_kib().map_err(ClusterError::Pipe)?;
    report.add(format!("{name}.start"), median(STARTS, || cluster.restart())?, "ms");
    let fresh = cluster.memory_kib().map_err(ClusterError::Pipe)?;
    for (what, kib) in [("memory_each", fresh), ("memory_each_after_work", busy)] {
        let beyond = number(kib.saturating_sub(empty_kib).saturating_sub(json_kib));
        report.add(format!("{name}.{what}"), beyond * 1024.0 / number(LIVE), "bytes");
    }
    report.add(format!("{name}.json_each"), number(json_kib) * 1024.0 / number(LIVE), "bytes");
    let ids: Vec<String> = (last - LISTED + 1..=last).map(|id| id.to_string()).collect();
    let by_id: Vec<&str> =
        ["job", "list"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    report.add(format!("{name}.list_50_by_id"), median(RUNS, || cluster.gnt(&by_id))?, "ms");
    let condition = format!("id > {}", last - LISTED);
    let by_filter = ["job", "list", "-F", condition.as_str()];
    let took = median(RUNS, || cluster.gnt(&by_filter))?;
    report.add(format!("{name}.list_50_by_filter"), took, "ms");
    report.aim(&format!("{name}.start"), Target::ValueBelow(2_000.0));
    report.aim(&format!("{name}.memory_each"), Target::ValueBelow(4_096.0));
    report.aim(&format!("{name}.list_50_by_id"), Target::ValueBelow(30.0));
    report.aim(&format!("{name}.list_50_by_filter"), Target::ValueBelow(30.0));
    Ok(())
}

/// Bytes of the unarchived jobs' files.
fn queue_kib(cluster: &Cluster) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(cluster.data().join("queue"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("job-") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes / 1024)
}

/// The median time of several runs, in milliseconds.
fn median(
    runs: usize,
    mut run: impl FnMut() -> Result<Duration, ClusterError>,
) -> Result<f64, ClusterError> {
    let mut times = (0..runs).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
    times.sort_unstable();
    Ok(times.get(runs / 2).copied().unwrap_or_default().as_secs_f64() * 1e3)
}

#[expect(clippy::cast_precision_loss, reason = "KiB and jobs are far below 2^52")]
fn number(count: u64) -> f64 {
    count as f64
}
