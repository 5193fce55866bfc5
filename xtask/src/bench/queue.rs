//! The job queue of a real `masterd`, asked by clients that are processes of their own.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum as _;

use super::client::{Question, Tally};
use super::cluster::{Cluster, ClusterError, count_jobs};
use super::disk::Sample;
use super::floor::Floor;
use super::report::{Report, Target};
use super::{BenchError, Setting, disk, readers};

/// Parts of a measurement, before each of which the disk is measured again: on a shared machine a
/// ratio means something only between neighbours in time.
const SLICES: u32 = 4;
/// Jobs of the load that lasts: so many that nothing is left behind to be done later.
const SUSTAINED_JOBS: u64 = 200_000;
/// The same with `--quick`.
const SUSTAINED_JOBS_QUICK: u64 = 50_000;
/// Jobs that run beside a lone client.
const COMPANY: usize = 1_000;
/// How long they run: longer than what is measured beside them.
const COMPANY_SECONDS: f64 = 3_600.0;

/// The bench `queue`: the disk first, then one client, then sixteen.
///
/// # Errors
/// The programs do not build, or something did not serve.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    disk::bench(setting, report)?;
    let mut machine = Machine::prepare(setting)?;
    let cluster = Cluster::start(setting)?;
    let one = Load { clients: 1, jobs: 1 };
    for load in [one, Load { clients: 16, jobs: 1 }, Load { clients: 16, jobs: 50 }] {
        let name = format!("queue.{}x{}", load.clients, load.jobs);
        in_slices(&cluster, load, setting, &mut machine)?.report(&name, report);
    }
    report.aim("queue.1x1.jobs", Target::RatioAtLeast(0.3));
    report.aim("queue.1x1.submit.p50", Target::RatioBelow(2.0));
    report.aim("queue.16x1.jobs", Target::ValueAbove(15_000.0));
    report.aim("queue.16x1.masterd_cpu_per_job", Target::ValueBelow(60.0));
    sustained(&cluster, setting, &mut machine, report)?;
    cluster.start_jobs(COMPANY, COMPANY_SECONDS)?;
    let beside = in_slices(&cluster, one, setting, &mut machine)?;
    beside.report("queue.1x1_beside_1000", report);
    report.aim("queue.1x1_beside_1000.finish.p99", Target::ValueBelow(10_000.0));
    cluster.abandon();
    readers::bench(setting, report)
}

/// The disk and the processor that loads are compared with.
struct Machine {
    appender: disk::Appender,
    floor: Floor,
}

impl Machine {
    fn prepare(setting: &Setting) -> Result<Self, BenchError> {
        let appender = disk::Appender::prepare(&setting.dir)?;
        let floor = Floor::prepare(&setting.dir).map_err(BenchError::Floor)?;
        Ok(Self { appender, floor })
    }

    /// Looks at disk and processor, a while.
    fn look(&mut self, time: Duration) -> Result<Baseline, BenchError> {
        let disk = self.appender.measure(time)?;
        let floor = self.floor.measure().map_err(BenchError::Floor)?;
        Ok(Baseline { disk, floors: vec![floor] })
    }
}

/// The times of disk and processor by themselves.
struct Baseline {
    disk: Sample,
    /// See [`Floor::measure`].
    floors: Vec<f64>,
}

impl Baseline {
    /// Adds what was seen at another time.
    fn extend(&mut self, other: Self) {
        self.disk.extend(other.disk);
        self.floors.extend(other.floors);
    }

    /// Microseconds of processor time that a job costs at least.
    fn floor_us(&self) -> f64 {
        self.floors.iter().sum::<f64>() / count_as_number(count(self.floors.len()))
    }
}

/// Measures a load, with a look at the machine before each part of it.
fn in_slices(
    cluster: &Cluster,
    load: Load,
    setting: &Setting,
    machine: &mut Machine,
) -> Result<Compared, BenchError> {
    let time = setting.time / SLICES;
    let mut baseline = machine.look(time / 2)?;
    let mut found = measure(cluster, &[], load, Until::Time(time))?;
    for _ in 1..SLICES {
        baseline.extend(machine.look(time / 2)?);
        found.extend(measure(cluster, &[], load, Until::Time(time))?);
    }
    Ok(Compared { found, baseline })
}

/// A load of many jobs without a pause, with all of their files.
fn sustained(
    cluster: &Cluster,
    setting: &Setting,
    machine: &mut Machine,
    report: &mut Report,
) -> Result<(), BenchError> {
    let load = Load { clients: 16, jobs: 50 };
    let jobs = if setting.quick { SUSTAINED_JOBS_QUICK } else { SUSTAINED_JOBS };
    let baseline = machine.look(setting.time / SLICES)?;
    let each = jobs / count(load.clients);
    let found = measure(cluster, &[], load, Until::Jobs(each))?;
    Compared { found, baseline }.report("queue.sustained", report);
    report.aim("queue.sustained.jobs_with_files", Target::ValueAbove(20_000.0));
    Ok(())
}

/// Clients that are busy at the same time.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How many.
    pub clients: usize,
    /// Jobs of one submission.
    pub jobs: usize,
}

/// When a client has done enough.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// After a while.
    Time(Duration),
    /// After so many jobs.
    Jobs(u64),
}

/// The outcome of a load.
#[derive(Debug)]
pub struct Found {
    /// Jobs that succeeded.
    pub jobs: u64,
    /// How long that took.
    pub elapsed: Duration,
    elapsed_with_files: Duration,
    /// How long each submission took until its answer, in microseconds.
    pub submit_us: Vec<u32>,
    finish_us: Vec<u32>,
    /// Seconds of the master's processor time.
    cpu: f64,
}

impl Found {
    /// How many jobs.
    pub fn count(&self) -> f64 {
        count_as_number(self.jobs)
    }

    /// Jobs in a second.
    pub fn per_second(&self) -> f64 {
        count_as_number(self.jobs) / self.elapsed.as_secs_f64()
    }

    /// The same, where a job counts when its file is written.
    pub fn per_second_with_files(&self) -> f64 {
        count_as_number(self.jobs) / self.elapsed_with_files.as_secs_f64()
    }

    /// Adds what was measured at another time.
    pub fn extend(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.elapsed += other.elapsed;
        self.elapsed_with_files += other.elapsed_with_files;
        self.submit_us.extend(other.submit_us);
        self.finish_us.extend(other.finish_us);
        self.cpu += other.cpu;
    }
}

/// The outcome of a load, and the machine at the same time.
struct Compared {
    found: Found,
    baseline: Baseline,
}

impl Compared {
    fn report(&self, name: &str, report: &mut Report) {
        let Self { found, baseline: Baseline { disk, .. } } = self;
        let jobs = count_as_number(found.jobs);
        let baseline = disk.per_second();
        report.add_compared(format!("{name}.jobs"), found.per_second(), "1/s", baseline);
        let with_files = found.per_second_with_files();
        report.add_compared(format!("{name}.jobs_with_files"), with_files, "1/s", baseline);
        let baseline = disk.percentile_us(50);
        for (what, latencies) in [("submit", &found.submit_us), ("finish", &found.finish_us)] {
            let [p50, p99] = percentiles(latencies);
            report.add_compared(format!("{name}.{what}.p50"), p50, "us", baseline);
            report.add_compared(format!("{name}.{what}.p99"), p99, "us", baseline);
        }
        let cpu = found.cpu * 1e6 / jobs.max(1.0);
        let floor = self.baseline.floor_us();
        report.add_compared(format!("{name}.masterd_cpu_per_job"), cpu, "us", floor);
    }
}

/// Has clients work with a master; `standbys` are waited for, too, until they have every file.
///
/// # Errors
/// A job did not succeed, or a client not begin.
pub fn measure(
    cluster: &Cluster,
    standbys: &[&Cluster],
    load: Load,
    until: Until,
) -> Result<Found, ClusterError> {
    let files_before = count_jobs(&cluster.data())?;
    let mut clients = Vec::with_capacity(load.clients);
    for _ in 0..load.clients {
        clients.push(BenchClient::start(cluster, load.jobs, until)?);
    }
    let cpu_before = cluster.cpu_seconds()?;
    let begun = Instant::now();
    for client in &mut clients {
        client.go()?;
    }
    let tallies = clients.into_iter().map(BenchClient::tally).collect::<Result<Vec<_>, _>>()?;
    let elapsed = begun.elapsed();
    let jobs: u64 = tallies.iter().map(|tally| tally.jobs).sum();
    cluster.wait_for_files(files_before + jobs)?;
    let cpu = cluster.cpu_seconds()? - cpu_before;
    standbys.iter().try_for_each(|standby| standby.wait_for_files(files_before + jobs))?;
    let elapsed_with_files = begun.elapsed();
    let submit_us = tallies.iter().flat_map(|tally| &tally.submit_us).copied().collect();
    let finish_us = tallies.iter().flat_map(|tally| &tally.finish_us).copied().collect();
    Ok(Found { jobs, elapsed, elapsed_with_files, submit_us, finish_us, cpu })
}

/// A process that is a client, or many.
#[derive(Debug)]
pub struct BenchClient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl BenchClient {
    /// Starts a client and waits until it is connected.
    fn start(cluster: &Cluster, jobs: usize, until: Until) -> Result<Self, ClusterError> {
        let until = match until {
            Until::Time(time) => ["--time-ms".to_owned(), time.as_millis().to_string()],
            Until::Jobs(jobs) => ["--total".to_owned(), jobs.to_string()],
        };
        let arguments = [&until[..], &["--jobs".to_owned(), jobs.to_string()]].concat();
        Self::spawn(cluster, &arguments)
    }

    /// Starts `connections` that read all jobs, once they are told to go.
    ///
    /// # Errors
    /// They do not start.
    pub fn read(cluster: &Cluster, connections: usize) -> Result<Self, ClusterError> {
        Self::spawn(cluster, &["--readers".to_owned(), connections.to_string()])
    }

    /// Starts `connections` that ask for one of so many machines after the other, once they are told to go.
    ///
    /// # Errors
    /// They do not start.
    pub fn ask(
        cluster: &Cluster,
        question: Question,
        [machines, connections]: [u32; 2],
        time_ms: u64,
    ) -> Result<Self, ClusterError> {
        let question = question.to_possible_value().map(|value| value.get_name().to_owned());
        let numbers = [
            ("--question", question.unwrap_or_default()),
            ("--machines", machines.to_string()),
            ("--connections", connections.to_string()),
            ("--time-ms", time_ms.to_string()),
        ];
        let arguments = numbers.map(|(name, value)| format!("{name}={value}"));
        Self::spawn(cluster, &arguments)
    }

    fn spawn(cluster: &Cluster, arguments: &[String]) -> Result<Self, ClusterError> {
        let mut child = cluster
            .client_command()?
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = child.stdin.take().ok_or_else(broken)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(broken)?);
        let mut client = Self { child, input, output };
        match client.line()?.trim() {
            "ready" => Ok(client),
            other => Err(ClusterError::Client(format!("it said `{other}`"))),
        }
    }

    /// Has it begin; or end, if it reads.
    ///
    /// # Errors
    /// It is gone.
    pub fn go(&mut self) -> io::Result<()> {
        self.input.write_all(b"go\n")?;
        self.input.flush()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Something did not go well.
    pub fn tally(mut self) -> Result<Tally, ClusterError> {
        let line = self.line()?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(ClusterError::Client(status.to_string()));
        }
        serde_json::from_str(&line).map_err(|error| ClusterError::Client(error.to_string()))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }
}

/// The 50th and the 99th.
pub fn percentiles(latencies: &[u32]) -> [f64; 2] {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let at = |percent: usize| {
        let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(place).copied().map_or(0.0, f64::from)
    };
    [at(50), at(99)]
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// As a number to reckon with.
#[expect(clippy::cast_precision_loss, reason = "a bench runs far fewer than 2^52 jobs")]
pub fn count_as_number(count: u64) -> f64 {
    count as f64
}
