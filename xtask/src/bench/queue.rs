//! The job queue of a real `masterd`, asked by clients that are processes of their own.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::client::Tally;
use super::disk::Sample;
use super::report::{Report, Target};
use super::{BenchError, Setting, disk};
use crate::programs::{BuildError, Profile, Programs, client_program};
use crate::stage::{Stage, StageError};

/// How long the daemon may take to serve, and its files to follow.
const SOON: Duration = Duration::from_secs(60);
/// Kernel clock ticks of a second, as `/proc/PID/stat` counts them on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A bench of the queue that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The programs do not build.
    #[error("cannot build the programs")]
    Build(#[from] BuildError),
    /// The daemon does not serve.
    #[error("the daemon does not serve")]
    Stage(#[from] StageError),
    /// No cluster could be begun.
    #[error("`masterd init` failed: {0}")]
    Init(String),
    /// A client did not do what it should.
    #[error("a client of the bench failed: {0}")]
    Client(String),
    /// A process could not be talked with.
    #[error("cannot talk with a process of the bench")]
    Pipe(#[from] io::Error),
}

/// Parts of a measurement, before each of which the disk is measured again: on a shared machine a
/// ratio means something only between neighbours in time.
const SLICES: u32 = 4;

/// The bench `queue`: the disk first, then one client, then sixteen.
///
/// # Errors
/// The programs do not build, or something did not serve.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    disk::bench(setting, report)?;
    let mut appender = disk::Appender::prepare(&setting.dir)?;
    let cluster = Cluster::start(setting).map_err(BenchError::Queue)?;
    for load in [
        Load { clients: 1, jobs: 1 },
        Load { clients: 16, jobs: 1 },
        Load { clients: 16, jobs: 50 },
    ] {
        let time = setting.time / SLICES;
        let mut disk = appender.measure(time / 2)?;
        let mut found = cluster.measure(load, time).map_err(BenchError::Queue)?;
        for _ in 1..SLICES {
            disk.extend(appender.measure(time / 2)?);
            found.extend(cluster.measure(load, time).map_err(BenchError::Queue)?);
        }
        found.report(&load.name(), &disk, report);
    }
    report.aim("queue.1x1.jobs", Target::RatioAtLeast(0.3));
    report.aim("queue.1x1.submit.p50", Target::RatioBelow(2.0));
    report.aim("queue.16x1.jobs", Target::ValueAbove(10_000.0));
    Ok(())
}

#[derive(Debug, Clone, Copy)]
struct Load {
    clients: usize,
    jobs: usize,
}

impl Load {
    fn name(self) -> String {
        format!("queue.{}x{}", self.clients, self.jobs)
    }
}

/// What a load came to.
struct Found {
    jobs: u64,
    elapsed: Duration,
    elapsed_with_files: Duration,
    submit_us: Vec<u32>,
    finish_us: Vec<u32>,
    /// Seconds of the master's processor time.
    cpu: f64,
}

impl Found {
    /// Adds what was measured at another time.
    fn extend(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.elapsed += other.elapsed;
        self.elapsed_with_files += other.elapsed_with_files;
        self.submit_us.extend(other.submit_us);
        self.finish_us.extend(other.finish_us);
        self.cpu += other.cpu;
    }

    fn report(&self, name: &str, disk: &Sample, report: &mut Report) {
        let jobs = count_as_number(self.jobs);
        let rate = |elapsed: Duration| jobs / elapsed.as_secs_f64();
        let baseline = disk.per_second();
        report.add_compared(format!("{name}.jobs"), rate(self.elapsed), "1/s", baseline);
        let with_files = rate(self.elapsed_with_files);
        report.add_compared(format!("{name}.jobs_with_files"), with_files, "1/s", baseline);
        let baseline = disk.percentile_us(50);
        for (what, latencies) in [("submit", &self.submit_us), ("finish", &self.finish_us)] {
            let [p50, p99] = percentiles(latencies);
            report.add_compared(format!("{name}.{what}.p50"), p50, "us", baseline);
            report.add_compared(format!("{name}.{what}.p99"), p99, "us", baseline);
        }
        let cpu = self.cpu * 1e6 / jobs.max(1.0);
        report.add(format!("{name}.masterd_cpu_per_job"), cpu, "us");
    }
}

/// A cluster of one master below a root of its own.
struct Cluster {
    stage: Stage,
    client: PathBuf,
    socket: PathBuf,
    data: PathBuf,
}

impl Cluster {
    fn start(setting: &Setting) -> Result<Self, QueueError> {
        let programs = Programs::build(Profile::Release, &["masterd"])?;
        let client = client_program()?;
        let stage = Stage::new(&setting.dir)?;
        let root = stage.root();
        let init = programs
            .command("masterd")
            .arg("--root")
            .arg(&root)
            .args(["init", "bench.example", "--node-name", "n1.example"])
            .output()?;
        if !init.status.success() {
            return Err(QueueError::Init(String::from_utf8_lossy(&init.stderr).into_owned()));
        }
        let mut masterd = programs.command("masterd");
        masterd.arg("--root").arg(&root);
        stage.start("masterd", masterd)?;
        let socket = root.join("run/gantry/luxi.sock");
        stage.wait_until("the master's socket", SOON, || socket.exists())?;
        Ok(Self { stage, client, socket, data: root.join("var/lib/gantry") })
    }

    fn measure(&self, load: Load, time: Duration) -> Result<Found, QueueError> {
        let files_before = count_jobs(&self.data)?;
        let mut clients = Vec::with_capacity(load.clients);
        for _ in 0..load.clients {
            clients.push(BenchClient::start(self, load, time)?);
        }
        let pid =
            self.stage.pid("masterd").ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let cpu_before = cpu_seconds(pid)?;
        let begun = Instant::now();
        for client in &mut clients {
            client.go()?;
        }
        let tallies = clients.into_iter().map(BenchClient::tally).collect::<Result<Vec<_>, _>>()?;
        let elapsed = begun.elapsed();
        let jobs: u64 = tallies.iter().map(|tally| tally.jobs).sum();
        let wanted = files_before + jobs;
        self.stage.wait_until("every job's file", SOON, || {
            count_jobs(&self.data).is_ok_and(|files| files >= wanted)
        })?;
        let elapsed_with_files = begun.elapsed();
        let cpu = cpu_seconds(pid)? - cpu_before;
        let submit_us = tallies.iter().flat_map(|tally| &tally.submit_us).copied().collect();
        let finish_us = tallies.iter().flat_map(|tally| &tally.finish_us).copied().collect();
        Ok(Found { jobs, elapsed, elapsed_with_files, submit_us, finish_us, cpu })
    }
}

struct BenchClient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl BenchClient {
    /// Starts a client and waits until it is connected.
    fn start(cluster: &Cluster, load: Load, time: Duration) -> Result<Self, QueueError> {
        let mut child = Command::new(&cluster.client)
            .arg("bench-client")
            .arg("--socket")
            .arg(&cluster.socket)
            .args(["--time-ms", &time.as_millis().to_string()])
            .args(["--jobs", &load.jobs.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = child.stdin.take().ok_or_else(broken)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(broken)?);
        let mut client = Self { child, input, output };
        match client.line()?.trim() {
            "ready" => Ok(client),
            other => Err(QueueError::Client(format!("it said `{other}`"))),
        }
    }

    fn go(&mut self) -> io::Result<()> {
        self.input.write_all(b"go\n")?;
        self.input.flush()
    }

    fn tally(mut self) -> Result<Tally, QueueError> {
        let line = self.line()?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(QueueError::Client(status.to_string()));
        }
        serde_json::from_str(&line).map_err(|error| QueueError::Client(error.to_string()))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }
}

/// Job files that are there.
fn count_jobs(data: &Path) -> io::Result<u64> {
    let mut count = 0;
    for entry in std::fs::read_dir(data.join("queue"))? {
        count += u64::from(entry?.file_name().to_string_lossy().starts_with("job-"));
    }
    Ok(count)
}

/// Processor time that a process has used, in user and kernel mode.
fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold anything; the numbers begin behind it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) / TICKS_PER_SECOND)
}

/// The 50th and the 99th.
fn percentiles(latencies: &[u32]) -> [f64; 2] {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let at = |percent: usize| {
        let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(place).copied().map_or(0.0, f64::from)
    };
    [at(50), at(99)]
}

#[expect(clippy::cast_precision_loss, reason = "a bench runs far fewer than 2^52 jobs")]
fn count_as_number(count: u64) -> f64 {
    count as f64
}
