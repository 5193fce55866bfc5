//! `wrk` at the front door: connections that are kept, with a password, each request for another machine.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use super::{AUTHORIZATION, Door};
use crate::bench::cluster::ClusterError;
use crate::needs;

/// Connections: as many as kept ones at the master's socket.
pub(super) const CONNECTIONS: u32 = 32;

/// The end of a script: prints what [`measured`] reads.
pub(in crate::bench) const DONE: &str = "function done(s, latency)
  local e = s.errors
  print('found', s.requests, s.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout)
end
";

#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) method: &'static str,
    /// The path, as Lua formats it with the number of a machine.
    pub(super) path: &'static str,
    /// Whether its body is another number each time.
    pub(super) has_body: bool,
}

/// The outcome of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::bench) struct Found {
    pub(in crate::bench) per_second: f64,
    /// Milliseconds that half of the answers took at most, and 99 of 100.
    pub(in crate::bench) p50: f64,
    pub(in crate::bench) p99: f64,
}

/// Asks for `seconds`.
pub(super) fn run(
    door: &Door<'_>,
    request: Request,
    machines: u32,
    seconds: u64,
) -> Result<Found, ClusterError> {
    let script = door.write("load.lua", script(request, machines).as_bytes())?;
    measured(&script, &door.url("/"), (CONNECTIONS, seconds))
}

/// The outcome of a script, which ends with [`DONE`].
pub(in crate::bench) fn measured(
    script: &str,
    url: &str,
    (connections, seconds): (u32, u64),
) -> Result<Found, ClusterError> {
    let program = needs::provide("wrk").map_err(ClusterError::Client)?;
    let mut command = Command::new(program);
    command.args(["-t", "1", "-c", &connections.to_string(), "-d", &format!("{seconds}s")]);
    command.args(["--timeout", "60s", "-s", script, url]).stdin(Stdio::null());
    let ended = command.output()?;
    let text = String::from_utf8_lossy(&ended.stdout);
    let failed = || ClusterError::Client(format!("wrk with {script}: {text}"));
    read(&text).ok_or_else(failed)
}

fn script(request: Request, machines: u32) -> String {
    let Request { method, path, has_body } = request;
    let body = if has_body { "tostring(count)" } else { "nil" };
    let mut script = String::new();
    // A prime: neighbours are not asked for after each other.
    let written = write!(
        script,
        "wrk.headers['Authorization'] = '{AUTHORIZATION}'
local number, count = 0, 0
function request()
  number, count = (number + 7919) % {machines}, count + 1
  return wrk.format('{method}', string.format('{path}', number), nil, {body})
end
{DONE}"
    );
    written.expect("a string takes everything");
    script
}

/// Nothing where a request failed.
fn read(text: &str) -> Option<Found> {
    let line = text.lines().find_map(|line| line.strip_prefix("found"))?;
    let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>().ok()?;
    let [requests, micros, p50, p99, failures] = numbers.try_into().ok()?;
    let is_whole = failures < 1.0 && micros > 0.0 && requests > 0.0;
    let per_second = requests / micros * 1e6;
    is_whole.then_some(Found { per_second, p50: p50 / 1e3, p99: p99 / 1e3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_no_figure() {
        let found = Found { per_second: 300.0, p50: 2.0, p99: 9.5 };
        assert_eq!(read("Running\nfound\t3000\t10000000\t2000\t9500\t0\n"), Some(found));
        assert_eq!(read("found\t3000\t10000000\t2000\t9500\t1\n"), None);
        assert_eq!(read("found\t0\t10000000\t0\t0\t0\n"), None);
        assert_eq!(read("found\t3000"), None);
    }
}
