//! How long the role takes to move, and a candidate to catch up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use luxi::client::Client;

use super::ms;
use crate::bench::cluster::{Cluster, ClusterError, Nodes, pause};
use crate::bench::queue::{Load, Until, measure};
use crate::bench::report::{Report, Target};
use crate::bench::{Setting, client};

/// How often the role moves; the median counts, and the worst is reported.
const MOVES: usize = 10;
/// The same with `--quick`.
const MOVES_QUICK: usize = 4;
/// Batches that a candidate misses.
const BEHIND: u64 = 100_000;
/// The same with `--quick`.
const BEHIND_QUICK: u64 = 10_000;
/// Live jobs of the long queue: as many as a master is to bear.
const LIVE: u64 = 100_000;
/// Longest wait for what should take moments.
const SOON: Duration = Duration::from_secs(120);

fn moves(setting: &Setting) -> usize {
    if setting.quick { MOVES_QUICK } else { MOVES }
}

/// The names under which times with many live jobs are reported.
const LONG_QUEUE: &str = "replication.long_queue";
/// The same with few.
const SHORT_QUEUE: &str = "replication";

/// The role moved in every way: with few live jobs, and with many.
pub(super) fn bench(
    nodes: &Nodes,
    setting: &Setting,
    report: &mut Report,
) -> Result<(), ClusterError> {
    nodes.node(0).gnt(&["job", "autoarchive", "all"])?;
    // Each archived job is a file that is written: new work waits for those, whoever is master.
    nodes.wait_for_files()?;
    each_way(nodes, SHORT_QUEUE, setting, report)?;
    nodes.node(0).run_jobs(LIVE)?;
    nodes.wait_for_files()?;
    report.add(format!("{LONG_QUEUE}.live_jobs"), number(LIVE), "jobs");
    each_way(nodes, LONG_QUEUE, setting, report)?;
    for queue in [LONG_QUEUE, SHORT_QUEUE] {
        // The last safe point comes behind the command: the master works on while the other one reads jobs.
        for (way, limit_ms) in
            [("planned.gap", 1_000.0), ("killed", 2_000.0), ("automatic", 3_000.0)]
        {
            report.aim(&format!("{queue}.failover_{way}"), Target::ValueBelow(limit_ms));
        }
    }
    report.aim(&format!("{SHORT_QUEUE}.failover_planned"), Target::ValueBelow(1_000.0));
    Ok(())
}

/// The first node is master before and after.
fn each_way(
    nodes: &Nodes,
    queue: &str,
    setting: &Setting,
    report: &mut Report,
) -> Result<(), ClusterError> {
    let (times, gaps) = planned(nodes, setting)?;
    tell(&format!("{queue}.failover_planned"), times, report);
    tell(&format!("{queue}.failover_planned.gap"), gaps, report);
    tell(&format!("{queue}.failover_killed"), after_kill(nodes, setting)?, report);
    tell(&format!("{queue}.failover_automatic"), automatic(nodes, setting)?, report);
    Ok(())
}

/// The role to and fro between two nodes while no opcode runs: from the command until the first submission
/// that the new master takes. And the longest times of a client without a submission that is taken: from
/// the last safe point on.
fn planned(
    nodes: &Nodes,
    setting: &Setting,
) -> Result<(Vec<Duration>, Vec<Duration>), ClusterError> {
    let mut times = Vec::new();
    for to in [1, 0].into_iter().cycle().take(moves(setting)) {
        nodes.wait_for_voters(to)?;
        times.push(fail_over(nodes, to)?);
    }
    let mut gaps = Vec::new();
    for to in [1, 0].into_iter().cycle().take(moves(setting)) {
        nodes.wait_for_voters(to)?;
        gaps.push(gap(nodes.node(2), || nodes.fail_over_to(to))?);
    }
    Ok((times, gaps))
}

/// The longest time in which no submission is taken while `moved` happens. One client submits one job
/// after the other on a node that has them passed on to the present master.
fn gap(
    node: &Cluster,
    moved: impl FnOnce() -> Result<(), ClusterError>,
) -> Result<Duration, ClusterError> {
    let over = AtomicBool::new(false);
    let submit_all = || {
        let (mut client, mut last, mut longest) = (None, Instant::now(), Duration::ZERO);
        while !over.load(Ordering::Relaxed) {
            let connected = client.take().map_or_else(|| Client::connect(&node.socket()), Ok);
            client = connected.ok();
            let taken = client.as_mut().map(|client| client::submit(client, 1, 0.0));
            if matches!(taken, Some(Ok(_))) {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            } else {
                client = None;
                pause();
            }
        }
        longest.max(last.elapsed())
    };
    std::thread::scope(|scope| {
        let submits = scope.spawn(submit_all);
        let moved = moved();
        over.store(true, Ordering::Relaxed);
        let panicked = |_panic| ClusterError::Failover("the one who submits panicked".to_owned());
        let longest = submits.join().map_err(panicked)?;
        moved.map(|()| longest)
    })
}

/// The master killed, again and again; from the command on another node until the first submission
/// that it takes.
fn after_kill(nodes: &Nodes, setting: &Setting) -> Result<Vec<Duration>, ClusterError> {
    let mut times = Vec::new();
    for (from, to) in [(0, 1), (1, 0)].into_iter().cycle().take(moves(setting)) {
        nodes.wait_for_voters(2)?;
        nodes.node(from).run_jobs(1)?;
        nodes.node(from).abandon();
        times.push(fail_over(nodes, to)?);
        nodes.node(from).launch()?;
    }
    Ok(times)
}

/// The master killed, again and again, and nobody who says anything; until another takes the first
/// submission.
fn automatic(nodes: &Nodes, setting: &Setting) -> Result<Vec<Duration>, ClusterError> {
    let mut times = Vec::new();
    let mut master = 0;
    nodes.node(master).gnt(&["cluster", "modify", "--auto-failover", "yes"])?;
    for _ in 0..moves(setting) {
        let others: Vec<usize> = (0..nodes.count()).filter(|at| *at != master).collect();
        nodes.wait_for_voters(others[0])?;
        nodes.node(master).run_jobs(1)?;
        let begun = Instant::now();
        nodes.node(master).abandon();
        let next = loop {
            if let Some(next) = others.iter().find(|at| submits(nodes.node(**at))) {
                break *next;
            }
            if begun.elapsed() > SOON {
                return Err(ClusterError::Failover("nobody takes the role".to_owned()));
            }
            pause();
        };
        times.push(begun.elapsed());
        nodes.node(master).launch()?;
        master = next;
    }
    nodes.node(master).gnt(&["cluster", "modify", "--auto-failover", "no"])?;
    if master != 0 {
        nodes.wait_for_voters(0)?;
        nodes.fail_over_to(0)?;
    }
    Ok(times)
}

/// Has a node take the role; the time until it took a submission.
fn fail_over(nodes: &Nodes, to: usize) -> Result<Duration, ClusterError> {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| nodes.fail_over_to(to));
        let taken = loop {
            if submits(nodes.node(to)) {
                break begun.elapsed();
            }
            // Refused, as its answer says; or it took the role and no job.
            let is_refused = asked.is_finished() && nodes.node(to).connect().is_err();
            if is_refused || begun.elapsed() > SOON {
                break begun.elapsed();
            }
            pause();
        };
        let panicked = || ClusterError::Failover("the one who asked panicked".to_owned());
        asked.join().map_err(|_panic| panicked())?.map(|()| taken)
    })
}

fn submits(cluster: &Cluster) -> bool {
    let Ok(mut client) = cluster.connect() else { return false };
    client::submit(&mut client, 1, 0.0).is_ok()
}

/// A candidate is away while the master commits many batches, and then comes back. Its batches a second,
/// from its start on, are compared with those that the master made.
pub(super) fn catch_up(
    nodes: &Nodes,
    setting: &Setting,
    report: &mut Report,
) -> Result<(), ClusterError> {
    let behind = if setting.quick { BEHIND_QUICK } else { BEHIND };
    // The last failover left the role with the first node, whatever their number.
    let (master, standby, late) = (nodes.node(0), 1, 2);
    nodes.wait_for_voters(standby)?;
    nodes.node(late).abandon();
    let before = position(nodes, standby, 0)?;
    let begun = Instant::now();
    // Each job of a lone client is a batch.
    measure(master, &[], Load { clients: 1, jobs: 1 }, Until::Jobs(behind))?;
    let made_in = begun.elapsed();
    let last = position(nodes, standby, 0)?;
    let made = last.saturating_sub(before);
    let begun = Instant::now();
    nodes.node(late).launch()?;
    while nodes.positions(standby)?[late].is_none_or(|position| position < last) {
        if begun.elapsed() > SOON {
            return Err(ClusterError::Failover("the candidate does not catch up".to_owned()));
        }
        pause();
    }
    let rate = |time: Duration| number(made) / time.as_secs_f64();
    let caught = begun.elapsed();
    report.add("replication.catch_up.batches", number(made), "batches");
    report.add("replication.catch_up.time", ms(caught), "ms");
    report.add_compared("replication.catch_up", rate(caught), "1/s", rate(made_in));
    report.aim("replication.catch_up", Target::RatioAtLeast(1.0));
    Ok(())
}

/// The number of the last entry in a node's log.
fn position(nodes: &Nodes, standby: usize, of: usize) -> Result<u64, ClusterError> {
    let told = nodes.positions(standby)?.get(of).copied().flatten();
    told.ok_or_else(|| ClusterError::Failover("a node does not tell its position".to_owned()))
}

/// Median and worst of some times.
fn tell(name: &str, mut times: Vec<Duration>, report: &mut Report) {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    report.add(name, ms(median), "ms");
    report.add(format!("{name}.worst"), ms(times.pop().unwrap_or_default()), "ms");
}

#[expect(clippy::cast_precision_loss, reason = "a bench makes far fewer than 2^52 batches")]
fn number(count: u64) -> f64 {
    count as f64
}
