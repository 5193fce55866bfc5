//! The front door of a cluster with ten thousand machines, over HTTPS with a password, beside the same
//! questions at the master's socket.

pub(in crate::bench) mod wrk;

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::time::Instant;

use super::client::Question;
use super::cluster::{Cluster, ClusterError, pause};
use super::queue::{BenchClient, count_as_number, percentiles};
use super::register::{MACHINES_PER_RACK, MODE, RACKS, register};
use super::report::{Report, Target};
use super::{BenchError, Setting};
use crate::needs;
use wrk::{CONNECTIONS, Found, Request};

/// Programs of others that the bench needs.
const PROGRAMS: [&str; 2] = ["wrk", "curl"];
/// The label that is changed.
pub const LABEL: &str = "bench";
/// A user whose password is a bcrypt hash of cost 10, as `htpasswd -B -C 10` makes it, and the same for an
/// operator of the loads.
const USERS: &str = "bench:$2b$10$abcdefghijklmnopqrstuuqflPDzB6gcMhKa1rZqKiun2YGL5sa2u write\n\
                     first:$2b$10$abcdefghijklmnopqrstuuqflPDzB6gcMhKa1rZqKiun2YGL5sa2u read\n";
/// The header of `bench` with that password, `secret`.
const AUTHORIZATION: &str = "Basic YmVuY2g6c2VjcmV0";
/// The file of the users: secrets are for their owner.
const USERS_MODE: u32 = 0o600;
/// The template that is rendered.
const TEMPLATE: &str = r#"{"ignition": {"version": "3.3.0"}, "storage": {"files": [
 {"path": "/etc/hostname", "contents": {"source": "data:,{{ .Spec.Serial }}"}},
 {"path": "/opt/url", "contents": {"source": "{{ MyURL }}/x"}}]}}"#;
/// Runs of `curl` whose median counts.
const RUNS: usize = 5;
/// Machines whose configurations are to be rendered within a second.
const RENDERED: f64 = 1_000.0;
/// MiB by which all machines at once may let the program grow: the answer itself has 6.
const MEMORY_MAX_MIB: f64 = 64.0;

/// The bench `front`.
///
/// # Errors
/// Something does not build, start or answer.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    if let Some(why) = PROGRAMS.iter().find_map(|program| needs::provide(program).err()) {
        report.tell(format!("skipped: the front door: {why}"));
        return Ok(());
    }
    let cluster = Cluster::start(setting)?;
    let [_, racks] = RACKS;
    register(&cluster, racks)?;
    let door = Door::open(&cluster)?;
    passwords(&door, report)?;
    let (seconds, machines) = (setting.time.as_secs().max(1), racks * MACHINES_PER_RACK);
    let one = |method, path, has_body| {
        wrk::run(&door, Request { method, path, has_body }, machines, seconds)
    };
    let path = "/api/v1/machines?serial=SN-%06d";
    let reads = one("GET", path, false)?;
    compare("front.reads", reads, door.asked(Question::One, machines, seconds)?, report);
    report.aim("front.reads", Target::ValueAbove(5_000.0));
    report.aim("front.reads.p99", Target::ValueBelow(20.0));
    let writes = one("PUT", "/api/v1/labels/SN-%06d/bench", true)?;
    compare("front.writes", writes, door.asked(Question::Label, machines, seconds)?, report);
    report.aim("front.writes", Target::ValueAbove(1_000.0));
    all_machines(&door, machines, seconds, report)?;
    let template = door.write("template.json", TEMPLATE.as_bytes())?;
    cluster.gnt(&["ignition-template", "upload", "worker", "1.0.0", &template])?;
    let rendered = one("GET", "/api/v1/boot/ignitions/SN-%06d/1.0.0", false)?;
    report.add("front.ignitions_of_1000_machines", RENDERED / rendered.per_second, "s");
    report.aim("front.ignitions_of_1000_machines", Target::ValueBelow(1.0));
    Ok(())
}

/// Requests beside the same questions at the master's socket.
fn compare(name: &str, found: Found, [rate, p50, p99]: [f64; 3], report: &mut Report) {
    report.add_compared(name, found.per_second, "1/s", rate);
    report.add_compared(format!("{name}.p50"), found.p50, "ms", p50 / 1e3);
    report.add_compared(format!("{name}.p99"), found.p99, "ms", p99 / 1e3);
}

/// The first request of a user, whose password is checked, and the next ones.
fn passwords(door: &Door<'_>, report: &mut Report) -> Result<(), ClusterError> {
    let path = "/2/features?first";
    let first = door.curl("first", path)?;
    let next = median((0..RUNS).map(|_| door.curl("first", path)))?;
    report.add_compared("front.first_request_of_a_user", first, "ms", next);
    report.aim("front.first_request_of_a_user", Target::ValueBelow(100.0));
    Ok(())
}

/// The list of all machines, and what it costs in memory.
fn all_machines(
    door: &Door<'_>,
    machines: u32,
    seconds: u64,
    report: &mut Report,
) -> Result<(), ClusterError> {
    let path = "/api/v1/machines";
    let before = door.reset_peak()?;
    let took = median((0..RUNS).map(|_| door.curl("bench", path)))?;
    let grown = door.memory_mib("VmHWM:")? - before;
    let [rate, _, _] = door.asked(Question::All, machines, seconds)?;
    report.add_compared("front.all_machines", took, "ms", 1e3 / rate);
    report.aim("front.all_machines", Target::ValueBelow(200.0));
    report.add_compared("front.all_machines.memory", grown, "MiB", before);
    report.aim("front.all_machines.memory", Target::ValueBelow(MEMORY_MAX_MIB));
    Ok(())
}

/// The median of several runs.
fn median(runs: impl Iterator<Item = Result<f64, ClusterError>>) -> Result<f64, ClusterError> {
    let mut found = runs.collect::<Result<Vec<_>, _>>()?;
    found.sort_by(f64::total_cmp);
    Ok(found.get(found.len() / 2).copied().unwrap_or_default())
}

/// A front door on the cluster's node.
struct Door<'c> {
    cluster: &'c Cluster,
    port: u16,
}

impl<'c> Door<'c> {
    fn open(cluster: &'c Cluster) -> Result<Self, ClusterError> {
        // A free one: it is another program's only if that takes it this very moment.
        let port = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let door = Self { cluster, port };
        let users = door.path("users");
        let written = stdx::atomic::write(&users, USERS.as_bytes(), USERS_MODE);
        written.map_err(io::Error::other)?;
        let (users, port_text) = (users.display().to_string(), port.to_string());
        cluster.start_beside(
            "rapi",
            &["--address", "127.0.0.1", "--port", &port_text, "--users", &users],
        )?;
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if begun.elapsed() > super::cluster::SOON {
                return Err(ClusterError::Client("the front door does not listen".to_owned()));
            }
            pause();
        }
        Ok(door)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.cluster.data().with_file_name(name)
    }

    /// Writes a file beside the store; gives its path.
    fn write(&self, name: &str, content: &[u8]) -> Result<String, ClusterError> {
        let path = self.path(name);
        stdx::atomic::write(&path, content, MODE).map_err(io::Error::other)?;
        Ok(path.display().to_string())
    }

    fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// One request over a connection of its own; gives its milliseconds without those of the connection.
    fn curl(&self, user: &str, path: &str) -> Result<f64, ClusterError> {
        let mut curl = needs::command("curl");
        curl.args(["--silent", "--show-error", "--fail", "--insecure", "--output", "/dev/null"]);
        curl.args(["--user", &format!("{user}:secret")]);
        curl.args(["--write-out", "%{time_appconnect} %{time_total}", &self.url(path)]);
        let ended = curl.output()?;
        let text = String::from_utf8_lossy(&ended.stdout);
        let seconds = || {
            let (connected, total) = text.split_once(' ')?;
            Some(total.parse::<f64>().ok()? - connected.parse::<f64>().ok()?)
        };
        let said = || String::from_utf8_lossy(&ended.stderr).into_owned();
        let failed = || ClusterError::Client(format!("curl {path}: {text}: {}", said()));
        if ended.status.success() { seconds().ok_or_else(failed) } else { Err(failed()) }
            .map(|seconds| seconds * 1e3)
    }

    /// The same question at the master's socket: answers in a second, and microseconds of the 50th and the
    /// 99th of 100.
    fn asked(
        &self,
        question: Question,
        machines: u32,
        seconds: u64,
    ) -> Result<[f64; 3], ClusterError> {
        let connections = if question == Question::All { 1 } else { CONNECTIONS };
        let mut client =
            BenchClient::ask(self.cluster, question, [machines, connections], seconds * 1_000)?;
        client.go()?;
        let begun = Instant::now();
        let tally = client.tally()?;
        let rate = count_as_number(tally.jobs) / begun.elapsed().as_secs_f64();
        let [p50, p99] = percentiles(&tally.finish_us);
        Ok([rate, p50, p99])
    }

    fn proc(&self, file: &str) -> io::Result<String> {
        let pid = self.cluster.pid_of("rapi")?;
        Ok(format!("/proc/{pid}/{file}"))
    }

    /// A row of the program's status.
    fn memory_mib(&self, row: &str) -> io::Result<f64> {
        let status = std::fs::read_to_string(self.proc("status")?)?;
        let line = status.lines().find_map(|line| line.strip_prefix(row));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u32>().ok());
        Ok(f64::from(kib.ok_or(io::ErrorKind::InvalidData)?) / 1_024.0)
    }

    /// Begins anew to look for the most memory; gives what the program has now.
    #[expect(clippy::disallowed_methods, reason = "a file of the kernel is not replaced")]
    fn reset_peak(&self) -> io::Result<f64> {
        std::fs::write(self.proc("clear_refs")?, "5")?;
        self.memory_mib("VmRSS:")
    }
}
