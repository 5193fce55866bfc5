//! Instances by the fake hypervisor: one from its creation until it runs, many at once, the choice of nodes,
//! and lists of ten thousand.

use std::time::Instant;

use luxi::client::Client;
use luxi::method::{Fields, Query, Submission, SubmitJob, SubmitManyJobs, What};
use model::opcode::instance::CreateParameters;
use model::opcode::{InstanceStartup, OpCode};
use model::{JobId, OpInput};
use serde_json::{Map, json};

use super::cluster::{Cluster, ClusterError, Nodes, SOON, Which, pause};
use super::queue::percentiles;
use super::register::MODE;
use super::report::{Report, Target};
use super::{BenchError, Setting, client};
use crate::needs;

/// Agents beside the master's own, in one process.
const AGENTS: u32 = 200;
/// Instances that are made one after the other, and whose median counts.
const ONE_BY_ONE: usize = 200;
/// Instances that start at once, on ten nodes.
const STARTED: usize = 1_000;
/// Nodes on which they do.
const STARTED_ON: usize = 10;
/// Instances beside which nodes are chosen, and those that are chosen for at once.
const PLACED: usize = 4_000;
const CHOSEN: usize = 50;
/// Instances of a long list, and how often it is asked for.
const LISTED: usize = 10_000;
const LISTS: usize = 20;
/// Divisor of all these with `--quick`.
const QUICK: usize = 10;
/// Jobs of one submission.
const AT_ONCE: usize = 500;
/// The columns of `gnt-instance list`.
const USUAL: [&str; 6] = ["name", "hypervisor", "os", "pnode", "status", "oper_ram"];

/// The bench `instances`.
///
/// # Errors
/// Something did not serve, or was refused.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let part = |count: usize| if setting.quick { count.div_ceil(QUICK) } else { count };
    let nodes = Nodes::start(setting, Which::One, 1)?;
    let agents = if setting.quick { AGENTS / 10 } else { AGENTS };
    nodes.add_crowd(1, agents)?;
    let master = nodes.node(0);
    let kinds = ["--enabled-hypervisors", "fake", "--enabled-disk-templates", "diskless"];
    let ratios = ["--ipolicy-vcpu-ratio", "1000", "--ipolicy-spindle-ratio", "1000"];
    master.gnt(&[&["cluster", "modify"], &kinds[..], &ratios].concat())?;
    let mut scene = Scene { master, client: master.connect()?, made: 0, agents };

    scene.wait_for_facts()?;
    let mut trivial = Vec::new();
    for _ in 0..part(ONE_BY_ONE) {
        let asked = Instant::now();
        for id in client::submit(&mut scene.client, 1, 0.0).map_err(ClusterError::from)? {
            client::succeed(&mut scene.client, id).map_err(ClusterError::from)?;
        }
        trivial.push(micros(asked));
    }
    let [trivial, _] = percentiles(&trivial);
    let [alone, _] = percentiles(&scene.one_by_one(part(ONE_BY_ONE))?);
    report.add_compared("instances.create.p50", alone, "us", trivial);
    report.aim("instances.create.p50", Target::ValueBelow(15_000.0));

    let seconds = scene.started(part(STARTED))?;
    report.add("instances.starts", number(part(STARTED)) / seconds, "1/s");
    report.aim("instances.starts", Target::ValueAbove(1_000.0));

    scene.fill_to(part(PLACED))?;
    let named = scene.planned(part(CHOSEN), true)?;
    let chosen = scene.planned(part(CHOSEN), false)?;
    report.add_compared("instances.plan_with_choice", chosen, "us", named);
    report.aim("instances.plan_with_choice", Target::ValueBelow(5_000.0));
    scene.hail(report)?;

    scene.fill_to(part(LISTED))?;
    let [beside, _] = percentiles(&scene.one_by_one(part(ONE_BY_ONE))?);
    report.add_compared("instances.create_beside_many.p50", beside, "us", alone);
    report.aim("instances.create_beside_many.p50", Target::RatioBelow(1.1));
    let mut lists = Vec::new();
    for _ in 0..LISTS {
        let asked = Instant::now();
        let fields = Fields::from(USUAL);
        let table = scene.client.call(&Query { what: What::Instance, fields, filter: None });
        let table = table.map_err(ClusterError::from)?;
        lists.push(micros(asked));
        if table.data.len() < part(LISTED) {
            return Err(ClusterError::Client(format!("{} rows", table.data.len())).into());
        }
    }
    let [query, _] = percentiles(&lists);
    report.add("instances.query.p50", query, "us");
    report.aim("instances.query.p50", Target::ValueBelow(60_000.0));
    let mut lists = Vec::new();
    for _ in 0..LISTS {
        let took = master.gnt(&["instance", "list"])?;
        lists.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }
    let [list, _] = percentiles(&lists);
    report.add_compared("instances.gnt_list.p50", list, "us", query);
    report.aim("instances.gnt_list.p50", Target::ValueBelow(150_000.0));
    Ok(())
}

struct Scene<'c> {
    master: &'c Cluster,
    client: Client,
    /// Instances so far.
    made: usize,
    agents: u32,
}

impl Scene<'_> {
    fn create(&mut self) -> CreateParameters {
        self.made += 1;
        CreateParameters {
            nics: vec![Map::new()],
            os_type: Some("noop".to_owned()),
            no_install: Some(true),
            name_check: false,
            ip_check: false,
            ..CreateParameters::named(format!("i{}.example", self.made))
        }
    }

    /// The name of a node of the crowd; instances follow each other around it.
    fn node(&self, of: u32) -> String {
        let number = u32::try_from(self.made).unwrap_or_default() % of + 1;
        format!("a{number}.example")
    }

    fn submit(&mut self, jobs: Vec<OpCode>) -> Result<Vec<JobId>, ClusterError> {
        let mut ids = Vec::new();
        let mut jobs = jobs.into_iter().map(|op| vec![OpInput::new(op)]).peekable();
        while jobs.peek().is_some() {
            let some = jobs.by_ref().take(AT_ONCE).collect();
            for answer in self.client.call(&SubmitManyJobs { jobs: some })? {
                match answer {
                    Submission::Accepted(id) => ids.push(id),
                    Submission::Refused(why) => return Err(ClusterError::Client(why)),
                }
            }
        }
        Ok(ids)
    }

    fn wait(&mut self, ids: Vec<JobId>) -> Result<(), ClusterError> {
        Ok(ids.into_iter().try_for_each(|id| client::succeed(&mut self.client, id))?)
    }

    /// Waits until each agent has told what its node has.
    fn wait_for_facts(&mut self) -> Result<(), ClusterError> {
        let begun = Instant::now();
        while begun.elapsed() < SOON {
            let fields = Fields::from(["mtotal"]);
            let table = self.client.call(&Query { what: What::Node, fields, filter: None })?;
            let cells = table.data.iter().flatten();
            if cells.into_iter().all(|cell| cell.value().is_some_and(serde_json::Value::is_number))
            {
                return Ok(());
            }
            pause();
        }
        Err(ClusterError::Client("an agent does not tell what its node has".to_owned()))
    }

    /// Makes instances one after the other; gives the microseconds from each submission until it runs.
    fn one_by_one(&mut self, count: usize) -> Result<Vec<u32>, ClusterError> {
        let mut taken = Vec::new();
        for _ in 0..count {
            let mut op = self.create();
            op.pnode = Some(self.node(self.agents));
            let asked = Instant::now();
            let ops = vec![OpInput::new(OpCode::InstanceCreate(Box::new(op)))];
            let id = self.client.call(&SubmitJob { ops })?;
            client::succeed(&mut self.client, id)?;
            taken.push(micros(asked));
        }
        Ok(taken)
    }

    /// Starts many at once, each by a job; gives the seconds until all run.
    fn started(&mut self, count: usize) -> Result<f64, ClusterError> {
        let (mut creations, mut starts) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut op = self.create();
            op.pnode = Some(self.node(u32::try_from(STARTED_ON).unwrap_or(1)));
            op.start = false;
            starts.push(startup(op.instance_name.clone()));
            creations.push(OpCode::InstanceCreate(Box::new(op)));
        }
        let made = self.submit(creations)?;
        self.wait(made)?;
        let begun = Instant::now();
        let started = self.submit(starts)?;
        self.wait(started)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Plans instances until there are so many.
    fn fill_to(&mut self, count: usize) -> Result<(), ClusterError> {
        let mut ops = Vec::new();
        while self.made < count {
            ops.push(self.plan(true));
        }
        let ids = self.submit(ops)?;
        self.wait(ids)
    }

    fn plan(&mut self, is_named: bool) -> OpCode {
        let mut op = self.create();
        op.pnode = is_named.then(|| self.node(self.agents));
        op.forthcoming = true;
        OpCode::InstanceCreate(Box::new(op))
    }

    /// Plans instances at once, on named nodes or where the allocator puts them; gives the microseconds for
    /// each.
    fn planned(&mut self, count: usize, is_named: bool) -> Result<f64, ClusterError> {
        let ops = (0..count).map(|_| self.plan(is_named)).collect();
        let begun = Instant::now();
        let ids = self.submit(ops)?;
        self.wait(ids)?;
        Ok(begun.elapsed().as_secs_f64() * 1e6 / number(count))
    }

    /// The same choice by Ganeti's program.
    fn hail(&mut self, report: &mut Report) -> Result<(), ClusterError> {
        if let Err(why) = needs::provide("hbal") {
            report.tell(format!("skipped: the choice of hail: {why}"));
            return Ok(());
        }
        let script = needs::script_beside("hbal", "/usr/lib/ganeti/iallocators/hail");
        let directory = model::layout::Layout::new(self.master.root()).allocators();
        std::fs::create_dir_all(&directory)?;
        let put = stdx::atomic::write(&directory.join("hail"), script.as_bytes(), MODE | 0o111);
        put.map_err(std::io::Error::other)?;
        let ask = |master: &Cluster, with: &[&str]| {
            let words = ["debug", "iallocator", "-m", "allocate", "-t", "diskless"];
            master.gnt(&[&words[..], with, &["new.example"]].concat())
        };
        let question = ask(self.master, &["--dir", "in"])?.as_secs_f64();
        let theirs = ask(self.master, &["--dir", "out", "-I", "hail"])?.as_secs_f64() - question;
        report.add_compared(
            "instances.choice_against_hail",
            report.value("instances.plan_with_choice"),
            "us",
            theirs * 1e6,
        );
        Ok(())
    }
}

fn startup(instance_name: String) -> OpCode {
    let op = json!({"instance_name": instance_name});
    let op: InstanceStartup = serde_json::from_value(op).expect("its name is enough");
    OpCode::InstanceStartup(op)
}

fn micros(since: Instant) -> u32 {
    u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn number(count: usize) -> f64 {
    count as f64
}
