//! Whether the number of nodes matters to a job: ten candidates among ever more agents.

use std::time::{Duration, Instant};

use crate::bench::cluster::{Cluster, ClusterError, Nodes, Which, pause};
use crate::bench::queue::{Load, Until, measure};
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

/// Turns of each cluster, shorter than usual: what is to be seen is small beside what the machine's moods
/// make of two turns that are further from each other.
const CROWD_TURNS: u32 = 32;
/// What the time of a load is parted by for one of them.
const CROWD_PARTS: u32 = 16;

/// How long the master is looked at in each turn until it rests.
const REST_TURN: Duration = Duration::from_secs(3);
/// Turns after which it is taken as it is.
const REST_TURNS_MAX: usize = 40;
/// Turns in a row that are alike where it rests: what agents are told of new nodes ends slowly.
const REST_TURNS: usize = 5;
/// What these may differ by, as a part of a processor.
const REST_WITHIN: f64 = 0.01;

/// What the master takes of a processor while nobody wants anything of it, once it has told all agents what
/// is new since the last of them came.
fn at_rest(master: &Cluster) -> Result<f64, ClusterError> {
    let mut turns = Vec::new();
    loop {
        let (begun, before) = (Instant::now(), master.cpu_seconds()?);
        while begun.elapsed() < REST_TURN {
            pause();
        }
        turns.push((master.cpu_seconds()? - before) / begun.elapsed().as_secs_f64());
        let last = turns.iter().rev().take(REST_TURNS).copied();
        let (least, most) = (last.clone().fold(f64::MAX, f64::min), last.fold(0.0, f64::max));
        let rests = turns.len() >= REST_TURNS && most - least < REST_WITHIN;
        if rests || turns.len() == REST_TURNS_MAX {
            return Ok(most);
        }
    }
}

/// The rate of jobs at each size. Another ten candidates that stay among ten agents have their turns
/// beside: they tell the machine's moods, which move the rate by more than any number of agents.
pub(super) fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let few = Nodes::start(setting, Which::Other, CANDIDATES)?;
    let many = Nodes::start(setting, Which::One, CANDIDATES)?;
    let mut there = u32::from(CANDIDATES);
    let mut like_beside_like = None;
    for &agents in if setting.quick { AGENTS_QUICK } else { AGENTS } {
        let name = format!("replication.agents_{agents}");
        if agents > there {
            let added = many.add_crowd(there, agents - there)?;
            let each = added.as_secs_f64() / f64::from(agents - there);
            report.add(format!("{name}.add_node"), each * 1e3, "ms");
            there = agents;
        }
        report.add(format!("{name}.at_rest"), at_rest(many.node(0))? * 100.0, "%");
        let [mut beside, mut found] = [Vec::new(), Vec::new()];
        for turn in 0..CROWD_TURNS {
            let mut one = || rate(&few, setting).map(|rate| beside.push(rate));
            let mut other = || rate(&many, setting).map(|rate| found.push(rate));
            // Neither always has the other's files written back in its turn.
            if turn % 2 == 0 {
                one()?;
                other()?;
            } else {
                other()?;
                one()?;
            }
        }
        let name = format!("{name}.jobs");
        let (found, beside) = (median(found), median(beside));
        report.add_compared(name.clone(), found, "1/s", beside);
        // Two clusters with ten agents each differ, too: that is none of the agents' doing.
        let with_few = *like_beside_like.get_or_insert(found / beside);
        if agents > u32::from(CANDIDATES) {
            let name = format!("{name}.as_with_few");
            report.add_compared(name.clone(), found / beside, "times", with_few);
            report.aim(&name, Target::RatioAtLeast(0.9));
        }
    }
    Ok(())
}

/// Jobs a second in one turn.
fn rate(nodes: &Nodes, setting: &Setting) -> Result<f64, ClusterError> {
    let until = Until::Time(setting.time / CROWD_PARTS);
    Ok(measure(nodes.node(0), &nodes.standbys(), LOAD, until)?.per_second())
}

/// Turns in which the machine writes back files say nothing of agents.
fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
