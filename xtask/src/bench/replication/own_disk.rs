//! The cost of a commit of three voters that have a disk each, as on machines of their own. On one disk
//! they wait for each other's flushes. The processors stay shared.

use std::time::Duration;

use super::turns;
use crate::bench::cluster::{Cluster, Nodes, Which};
use crate::bench::queue::Load;
use crate::bench::report::{Report, Target};
use crate::bench::{BenchError, Setting};
use crate::programs::OwnDisk;

/// Times of a flush: a disk with a cache that survives a power cut, and one without.
const FLUSHES: [(&str, Duration); 2] =
    [("0.2ms", Duration::from_micros(200)), ("1ms", Duration::from_millis(1))];
/// One client, which waits for one commit after the other.
const LOAD: Load = Load { clients: 1, jobs: 1 };

/// A commit with two further voters beside one of a master that is alone, for each time of a flush.
/// Gives the clusters, which have ended, for their files to stay.
pub(super) fn bench(
    setting: &Setting,
    report: &mut Report,
) -> Result<Vec<(Cluster, Nodes)>, BenchError> {
    let mut ended = Vec::new();
    for (named, flush) in FLUSHES {
        let disk = OwnDisk::of(flush)?;
        let setting = Setting { own_disk: Some(disk), ..setting.clone() };
        let (alone, counts) = Cluster::start_measured(&setting)?;
        let nodes = Nodes::start(&setting, Which::One, super::VOTERS)?;
        let (one, three) = turns((&alone, counts), &nodes, LOAD, setting.time)?;
        let name = format!("replication.own_disk_{named}");
        let commit = format!("{name}.commit");
        if one.commit_us() < flush.as_secs_f64() * 1e6 {
            report
                .fail(format!("{name}: a commit takes less than a flush, so none was waited for"));
        }
        report.add_compared(commit.as_str(), three.commit_us(), "us", one.commit_us());
        report.aim(&commit, Target::RatioBelow(2.0));
        alone.abandon();
        nodes.end();
        ended.push((alone, nodes));
    }
    Ok(ended)
}
