//! `wrk` on several hosts at once: an agent gives one address no more than 32 connections.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::super::bed::Bed;
use super::Source;
use crate::guest::GuestError;
use crate::guest::wires::within;
use crate::needs;
use crate::stage;

/// Hosts, and connections of each: 64 in all.
const HOSTS: u8 = 4;
const CONNECTIONS: &str = "16";
/// Last number of the first host's address.
const FIRST: u8 = 10;
/// The report of each at its end: bytes, microseconds, and failures.
const REPORT: &str = "done = function(s)
  local e = s.errors
  print('found', s.bytes, s.duration, e.connect + e.read + e.write + e.status + e.timeout)
end
";

/// The hosts.
pub(super) struct Load {
    hosts: Vec<String>,
    script: String,
}

impl Load {
    pub(super) fn new(bed: &mut Bed) -> Result<Self, GuestError> {
        let script = bed.write("report.lua", REPORT)?;
        let hosts = (0..HOSTS).map(|at| bed.add_host(&format!("load{at}"), FIRST + at));
        Ok(Self { hosts: hosts.collect::<Result<_, _>>()?, script })
    }

    /// Bytes in a second that all of them got together. Meanwhile it watches something.
    pub(super) fn run(
        &self,
        source: &Source,
        time: Duration,
        watch: &mut dyn FnMut() -> Result<(), GuestError>,
    ) -> Result<f64, GuestError> {
        let url = format!("http://{}{}", source.address, source.path);
        let program = needs::provide("wrk").map_err(GuestError::Impossible)?;
        let seconds = format!("{}s", time.as_secs().max(1));
        let mut command = Command::new(program);
        command.args(["-t", "1", "-c", CONNECTIONS, "-d", &seconds, "--timeout", "60s"]);
        command.args(["-s", &self.script, &url]);
        let start = |host: &String| {
            let mut inside = within(host, &command);
            inside
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| GuestError::Start { command: format!("{command:?}"), error })
        };
        let mut running = self.hosts.iter().map(start).collect::<Result<Vec<Child>, _>>()?;
        while running.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
            watch()?;
            stage::pause();
        }
        let found = running.into_iter().map(|child| bytes_per_second(child, &url));
        let total = found.sum::<Result<f64, _>>()?;
        println!("  {url}: {:.0} KiB/s", total / 1_024.0);
        Ok(total)
    }
}

fn bytes_per_second(child: Child, url: &str) -> Result<f64, GuestError> {
    let failed = |said: String| GuestError::Failed { command: format!("wrk {url}"), said };
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    read(&text).ok_or_else(|| failed(text.clone().into_owned()))
}

/// Nothing where a download failed.
fn read(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("found"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<f64>);
    let mut next = || numbers.next()?.ok();
    let (bytes, micros, failures) = (next()?, next()?, next()?);
    (failures < 1.0 && micros > 0.0).then(|| bytes / micros * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_no_figure() {
        assert_eq!(read("Running\nfound\t3000\t1000000\t0\n"), Some(3_000.0));
        assert_eq!(read("found\t3000\t1000000\t1\n"), None);
        assert_eq!(read("found\t3000"), None);
    }
}
