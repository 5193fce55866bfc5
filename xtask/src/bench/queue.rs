//! The job queue of a real `masterd`, asked by clients that are processes of their own.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::client::Tally;
use super::report::Report;
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

/// The bench `queue`: the disk first, then one client, then sixteen.
///
/// # Errors
/// The programs do not build, or something did not serve.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    disk::bench(setting, report)?;
    let baseline = report.value("disk.append_fdatasync");
    let baseline_us = report.value("disk.append_fdatasync.p50");
    let cluster = Cluster::start(setting).map_err(BenchError::Queue)?;
    for load in [
        Load { clients: 1, jobs: 1 },
        Load { clients: 16, jobs: 1 },
        Load { clients: 16, jobs: 50 },
    ] {
        let found = cluster.measure(load, setting.time).map_err(BenchError::Queue)?;
        let name = load.name();
        report.add_compared(format!("{name}.jobs"), found.rate, "1/s", baseline);
        report.add_compared(
            format!("{name}.jobs_with_files"),
            found.rate_with_files,
            "1/s",
            baseline,
        );
        report.add_compared(format!("{name}.submit.p50"), found.submit_us[0], "us", baseline_us);
        report.add_compared(format!("{name}.submit.p99"), found.submit_us[1], "us", baseline_us);
        report.add_compared(format!("{name}.finish.p50"), found.finish_us[0], "us", baseline_us);
        report.add_compared(format!("{name}.finish.p99"), found.finish_us[1], "us", baseline_us);
        report.add(format!("{name}.masterd_cpu_per_job"), found.cpu_us, "us");
    }
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

struct Found {
    rate: f64,
    rate_with_files: f64,
    submit_us: [f64; 2],
    finish_us: [f64; 2],
    cpu_us: f64,
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
        let elapsed = begun.elapsed().as_secs_f64();
        let jobs: u64 = tallies.iter().map(|tally| tally.jobs).sum();
        let wanted = files_before + jobs;
        self.stage.wait_until("every job's file", SOON, || {
            count_jobs(&self.data).is_ok_and(|files| files >= wanted)
        })?;
        let elapsed_with_files = begun.elapsed().as_secs_f64();
        let cpu = cpu_seconds(pid)? - cpu_before;
        let jobs = count_as_number(jobs);
        Ok(Found {
            rate: jobs / elapsed,
            rate_with_files: jobs / elapsed_with_files,
            submit_us: percentiles(tallies.iter().flat_map(|t| &t.submit_us)),
            finish_us: percentiles(tallies.iter().flat_map(|t| &t.finish_us)),
            cpu_us: cpu * 1e6 / jobs.max(1.0),
        })
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
fn percentiles<'a>(latencies: impl Iterator<Item = &'a u32>) -> [f64; 2] {
    let mut sorted: Vec<u32> = latencies.copied().collect();
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
