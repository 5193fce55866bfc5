//! Clients that read all jobs without end, beside those that submit: what the latter notice of it, and
//! whether the master keeps its role.

use super::cluster::{ClusterError, Nodes, Which};
use super::queue::{BenchClient, Load, Until, count_as_number, measure, percentiles};
use super::report::{Report, Target};
use super::{BenchError, Setting};

/// Connections that read.
const READERS: usize = 1_000;
/// Processes that hold them: one for each ten of a hundred threads.
const PROCESSES: usize = 10;
/// Jobs that there are to read: answers of about half a megabyte.
const JOBS: u64 = 1_000;
/// Candidates of the cluster: with three, a majority can be lost.
const VOTERS: u8 = 3;

/// Sixteen clients that submit, alone and beside readers, at the master of three candidates.
///
/// # Errors
/// The programs do not build, or something did not serve.
pub(super) fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let nodes = Nodes::start(setting, Which::One, VOTERS)?;
    let master = nodes.node(0);
    master.run_jobs(JOBS)?;
    let load = Load { clients: 16, jobs: 1 };
    let epoch = master.epoch()?;
    let alone = measure(master, &[], load, Until::Time(setting.time))?;
    let readers = start(&nodes)?;
    let beside = measure(master, &[], load, Until::Time(setting.time))?;
    let mut answers = 0;
    for reader in readers {
        answers += stop(reader)?;
    }
    let name = format!("queue.16x1_beside_{READERS}_readers");
    let [[p50, p99], [alone_p50, alone_p99]] =
        [&beside, &alone].map(|found| percentiles(&found.submit_us));
    report.add_compared(format!("{name}.submit.p50"), p50, "us", alone_p50);
    report.add_compared(format!("{name}.submit.p99"), p99, "us", alone_p99);
    report.aim(&format!("{name}.submit.p99"), Target::ValueBelow(50_000.0));
    report.add_compared(format!("{name}.jobs"), beside.per_second(), "1/s", alone.per_second());
    let seconds = setting.time.as_secs_f64();
    report.add(format!("{name}.answers"), count_as_number(answers) / seconds, "1/s");
    if master.epoch()? != epoch {
        return Err(
            ClusterError::Client("the master lost its lead beside readers".to_owned()).into()
        );
    }
    nodes.end();
    Ok(())
}

fn stop(mut reader: BenchClient) -> Result<u64, ClusterError> {
    reader.go()?;
    Ok(reader.tally()?.jobs)
}

fn start(nodes: &Nodes) -> Result<Vec<BenchClient>, ClusterError> {
    let mut readers = Vec::with_capacity(PROCESSES);
    for _ in 0..PROCESSES {
        let each = READERS / PROCESSES;
        let mut reader = BenchClient::read(nodes.node(0), each)?;
        reader.go()?;
        readers.push(reader);
    }
    Ok(readers)
}
