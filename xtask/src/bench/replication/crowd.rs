//! Whether the number of nodes matters to a job: ten candidates among ever more agents.

use std::time::{Duration, Instant};

use super::{Measured, TURNS};
use crate::bench::cluster::{Cluster, ClusterError, Nodes, pause};
use crate::bench::queue::{Load, Until};
use crate::bench::report::{Report, Target};
use crate::bench::{BenchError, Setting};

/// The usual size of the pool.
const CANDIDATES: u8 = 10;
/// How many agents there are in all, one size after the other.
const AGENTS: &[u32] = &[10, 100, 1_000];
/// The same with `--quick`.
const AGENTS_QUICK: &[u32] = &[10, 100];
/// Clients, and jobs of a submission.
const LOAD: Load = Load { clients: 16, jobs: 1 };

/// How long the master is looked at in each turn until it rests.
const REST_TURN: Duration = Duration::from_secs(3);
/// Turns after which it is taken as it is.
const REST_TURNS_MAX: u32 = 40;
/// What two turns may differ by, as a part of a processor, where it rests.
const REST_WITHIN: f64 = 0.01;

/// What the master takes of a processor while nobody wants anything of it, once it has told all agents what
/// is new since the last of them came.
fn at_rest(master: &Cluster) -> Result<f64, ClusterError> {
    let mut last = f64::INFINITY;
    for _ in 0..REST_TURNS_MAX {
        let (begun, before) = (Instant::now(), master.cpu_seconds()?);
        while begun.elapsed() < REST_TURN {
            pause();
        }
        let taken = (master.cpu_seconds()? - before) / begun.elapsed().as_secs_f64();
        if (last - taken).abs() < REST_WITHIN {
            return Ok(taken);
        }
        last = taken;
    }
    Ok(last)
}

/// The rate of jobs at each size. A master that is alone has its turns beside: what it lost or won
/// since the first size is the machine's doing.
pub(super) fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let (alone, counts) = Cluster::start_measured(setting)?;
    let nodes = Nodes::start(setting, CANDIDATES)?;
    let mut there = u32::from(CANDIDATES);
    let mut smallest = None;
    for &agents in if setting.quick { AGENTS_QUICK } else { AGENTS } {
        let name = format!("replication.agents_{agents}");
        if agents > there {
            let added = nodes.add_crowd(there, agents - there)?;
            let each = added.as_secs_f64() / f64::from(agents - there);
            report.add(format!("{name}.add_node"), each * 1e3, "ms");
            there = agents;
        }
        report.add(format!("{name}.at_rest"), at_rest(nodes.node(0))? * 100.0, "%");
        let [mut one, mut ten] = [Measured::default(), Measured::default()];
        for _ in 0..TURNS {
            let until = Until::Time(setting.time / TURNS);
            one.turn(&alone, LOAD, until, || counts.commits())?;
            ten.turn(nodes.node(0), LOAD, until, || nodes.commits(0))?;
        }
        let (beside, rate) = (one.per_second(), ten.per_second());
        let (first_beside, first_rate) = *smallest.get_or_insert((beside, rate));
        report.add_compared(format!("{name}.beside_alone"), rate, "1/s", beside);
        let expected = first_rate * beside / first_beside;
        report.add_compared(format!("{name}.jobs"), rate, "1/s", expected);
        report.aim(&format!("{name}.jobs"), Target::RatioAtLeast(0.9));
    }
    Ok(())
}
