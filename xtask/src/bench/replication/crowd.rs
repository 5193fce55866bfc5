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

/// Turns of each cluster, shorter than usual. The difference is small beside the machine's moods between
/// two turns that are further from each other.
const CROWD_TURNS: usize = 32;
/// Turns before those that count: a cluster that was just begun is slower.
const WARM_UP_TURNS: usize = 8;
/// The divisor of a load's time for one of them.
const CROWD_PARTS: u32 = 16;

/// How long the master is looked at in each turn until it rests.
const REST_TURN: Duration = Duration::from_secs(3);
/// Turns after which it is taken as it is.
const REST_TURNS_MAX: usize = 40;
/// Turns in a row that are alike where it rests: what agents are told of new nodes ends slowly.
const REST_TURNS: usize = 5;
/// The most that these turns may differ by, as a part of a processor.
const REST_WITHIN: f64 = 0.01;

/// The master's part of a processor at rest. It rests once nobody wants anything of it, and all agents
/// know what is new since the last of them came.
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

/// The cost of a job at each size. Another ten candidates that stay among ten agents have their turns
/// beside: they tell the machine's moods, which move the rate by more than any number of agents.
pub(super) fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let few = Nodes::start(setting, Which::Other, CANDIDATES)?;
    let many = Nodes::start(setting, Which::One, CANDIDATES)?;
    turns([&few, &many], setting, WARM_UP_TURNS)?;
    let mut there = u32::from(CANDIDATES);
    let mut like_beside_like = Vec::new();
    for &agents in if setting.quick { AGENTS_QUICK } else { AGENTS } {
        let name = format!("replication.agents_{agents}");
        if agents > there {
            let added = many.add_crowd(there, agents - there)?;
            let each = added.as_secs_f64() / f64::from(agents - there);
            report.add(format!("{name}.add_node"), each * 1e3, "ms");
            there = agents;
        }
        report.add(format!("{name}.at_rest"), at_rest(many.node(0))? * 100.0, "%");
        let [beside, found] = turns([&few, &many], setting, CROWD_TURNS)?;
        let mut ratios = Vec::new();
        for (what, unit, of) in FIGURES {
            let [found, beside] = [&found, &beside].map(|turns| median(turns.iter().map(of)));
            report.add_compared(format!("{name}.{what}"), found, unit, beside);
            ratios.push(found / beside);
        }
        if agents == u32::from(CANDIDATES) {
            like_beside_like = ratios;
            continue;
        }
        // Two clusters with ten agents each differ, too: that is none of the agents' doing.
        for (((what, ..), ratio), like) in FIGURES.iter().zip(ratios).zip(&like_beside_like) {
            report.add_compared(format!("{name}.{what}.as_with_few"), ratio, "times", *like);
        }
        report.aim(&format!("{name}.jobs.as_with_few"), Target::RatioAtLeast(0.9));
        report.aim(&format!("{name}.cpu_per_job.as_with_few"), Target::RatioBelow(1.1));
    }
    Ok(())
}

/// The outcome of one turn.
struct Turn {
    /// Jobs that succeeded in a second.
    jobs: f64,
    /// The same, until every candidate had written their files.
    jobs_with_files: f64,
    /// Microseconds of processor time that all candidates together took for a job.
    cpu_per_job: f64,
}

/// A figure of turns: name, unit, and where it is.
type Told = (&'static str, &'static str, fn(&Turn) -> f64);

const FIGURES: [Told; 3] = [
    ("jobs", "1/s", |turn| turn.jobs),
    ("jobs_with_files", "1/s", |turn| turn.jobs_with_files),
    ("cpu_per_job", "us", |turn| turn.cpu_per_job),
];

/// Turns of two clusters. Neither always has the other's files written back in its own.
fn turns(
    nodes: [&Nodes; 2],
    setting: &Setting,
    count: usize,
) -> Result<[Vec<Turn>; 2], ClusterError> {
    let mut turns = [Vec::new(), Vec::new()];
    for turn in 0..count {
        for which in [turn % 2, (turn + 1) % 2] {
            turns[which].push(Turn::take(nodes[which], setting)?);
        }
    }
    Ok(turns)
}

impl Turn {
    fn take(nodes: &Nodes, setting: &Setting) -> Result<Self, ClusterError> {
        let until = Until::Time(setting.time / CROWD_PARTS);
        let before = nodes.cpu_seconds()?;
        let found = measure(nodes.node(0), &nodes.standbys(), LOAD, until)?;
        let cpu = nodes.cpu_seconds()? - before;
        Ok(Self {
            jobs: found.per_second(),
            jobs_with_files: found.per_second_with_files(),
            cpu_per_job: cpu * 1e6 / found.count(),
        })
    }
}

/// Turns in which the machine writes back files say nothing of agents.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
