//! The life of ten thousand machines: what their ramdisks and systems ask of one agent, and a thousand
//! deployments by simulated controllers.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::cluster::{Cluster, ClusterError, pause};
use super::front::wrk::{self, Found};
use super::queue::count_as_number;
use super::register::{MODE, serial};
use super::report::{Report, Target};
use super::{BenchError, Setting};
use crate::{images, needs, programs};

/// Machines that give signs of life.
const MACHINES: u32 = 10_000;
/// Requests a second where each gives one every 30 s.
const SIGNS_PER_SECOND: u32 = 333;
/// Lookups a second, of which each waits for its answer.
const LOOKUPS_PER_SECOND: u32 = 1_000;
/// Connections: half of what the agent gives one address, so that those of the load before are no matter.
const CONNECTIONS: u32 = 16;
/// Machines whose ramdisks are looked up.
const RAMDISKS: u32 = 10;
/// Machines that are deployed, those after which memory is looked at first, and how many at once.
const DEPLOYED: [u32; 2] = [200, 1_000];
/// The same with `--quick`.
const DEPLOYED_QUICK: [u32; 2] = [20, 60];
const AT_ONCE: &str = "50";
/// Share of memory by which 800 more deployments may let the master grow: jobs that are kept, and noise.
const GROWTH_MAX: f64 = 1.5;
/// Seconds for which processor time is counted: a few rounds of the watcher and of exchanges.
const COUNTED_FOR: u64 = 60;
/// Between the first two signs of each machine, which agents must tell apart.
const BETWEEN_SIGNS: Duration = Duration::from_secs(6);
/// How long something of the scene may take.
const SOON: Duration = Duration::from_secs(120);
/// The address at which the agent serves machines.
const SERVER: &str = "127.0.0.1:10080";
const AGENT: &str = "noded";
/// The login of simulated controllers.
const USER: &str = "admin";
const PASSWORD: &str = "calvin";
const NO_OUTPUT: &str = "the controllers have no output";
/// Rules with one rack for all machines: an agent serves one.
const IPAM: &str = r#"{"max-nodes-in-rack": 10500, "node-ipv4-pool": "10.64.0.0/12",
 "node-ipv4-range-size": 14, "node-ipv4-range-mask": 18, "node-ip-per-node": 1,
 "node-index-offset": 3, "bmc-ipv4-pool": "10.128.0.0/12", "bmc-ipv4-range-size": 14,
 "bmc-ipv4-range-mask": 12}"#;

/// The bench `lifecycle`.
///
/// # Errors
/// Something does not build, start or answer.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    if let Err(why) = needs::provide("wrk") {
        report.tell(format!("skipped: the life of machines: {why}"));
        return Ok(());
    }
    {
        let scene = Scene::start(setting, MACHINES)?;
        scene.signs(setting, report)?;
        scene.lookups(setting, report)?;
    }
    let deployed = if setting.quick { DEPLOYED_QUICK } else { DEPLOYED };
    Scene::start(setting, deployed[1])?.deployments(deployed, report)
}

/// A master with an agent that serves one rack.
struct Scene {
    cluster: Cluster,
}

impl Scene {
    fn start(setting: &Setting, machines: u32) -> Result<Self, BenchError> {
        let scene = Self { cluster: Cluster::start(setting)? };
        let own = ["--rpc-address", "127.0.0.1", "--boot-address", "127.0.0.1"];
        let ports =
            ["--boot-alias-port", "0", "--dhcp-address", "127.0.0.1", "--dhcp-port", "6767"];
        scene.cluster.start_beside(AGENT, &[&own[..], &ports].concat())?;
        scene.gnt(&["ipam", "set", "-f", &scene.write("ipam.json", IPAM)?])?;
        scene.gnt(&["node", "modify", "--rack", "0", "n1.example"])?;
        let all = (0..machines).map(|number| {
            json!({"serial": serial(number), "rack": 0, "role": "worker", "mac": [mac(number)]})
        });
        let list = scene.write("machines.json", &json!(all.collect::<Vec<_>>()).to_string())?;
        scene.gnt(&["machine", "add", "-f", &list])?;
        for image in ["ramdisk/1", "system/1"] {
            let kernel = scene.write("vmlinuz", &images::kernel(image))?;
            scene.gnt(&["image", "upload", image, "--kernel", &kernel])?;
        }
        Ok(scene)
    }

    fn gnt(&self, arguments: &[&str]) -> Result<(), ClusterError> {
        self.cluster.gnt(arguments).map(drop)
    }

    fn write(&self, name: &str, text: &str) -> Result<String, ClusterError> {
        let path = self.cluster.data().with_file_name(name);
        stdx::atomic::write(&path, text.as_bytes(), MODE).map_err(io::Error::other)?;
        Ok(path.display().to_string())
    }

    /// `wrk` at the agent, each request for another machine; as fast as it goes without a rate.
    fn load(&self, load: &Load<'_>, seconds: u64) -> Result<Found, ClusterError> {
        let script = self.write("load.lua", &load.script())?;
        wrk::measured(&script, &format!("http://{SERVER}/"), (CONNECTIONS, seconds))
    }

    /// Processor seconds of master and agent.
    fn spent(&self) -> Result<f64, ClusterError> {
        Ok(self.cluster.cpu_seconds()? + self.cluster.cpu_seconds_of(AGENT)?)
    }

    /// The cost of signs of life beside rest.
    fn signs(&self, setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
        let seconds = if setting.quick { 20 } else { COUNTED_FOR };
        let up = "/api/v1/boot/machines/SN-%06d/up";
        let mut load =
            Load { method: "POST", path: up, header: "", machines: MACHINES, per_second: None };
        // The first two of each machine go to the disk, and are none of those that come for ever.
        for _ in 0..2 {
            let begun = Instant::now();
            let warm = self.load(&load, 10)?;
            println!("  {:.0} signs/s as fast as they go", warm.per_second);
            rest(BETWEEN_SIGNS.saturating_sub(begun.elapsed()));
        }
        let idle = self.counted(|| {
            rest(Duration::from_secs(seconds));
            Ok(())
        })?;
        load.per_second = Some(SIGNS_PER_SECOND);
        let mut found = None;
        let busy = self.counted(|| {
            found = Some(self.load(&load, seconds)?);
            Ok(())
        })?;
        let Some(found) = found else { return Ok(()) };
        report.add("lifecycle.signs", found.per_second, "1/s");
        report.add("lifecycle.signs.p99", found.p99, "ms");
        report.add_compared("lifecycle.signs.processor", busy, "%", idle);
        report.aim("lifecycle.signs.processor", Target::ValueBelow(5.0));
        Ok(())
    }

    /// Percent of a processor that master and agent use meanwhile.
    fn counted(
        &self,
        meanwhile: impl FnOnce() -> Result<(), ClusterError>,
    ) -> Result<f64, ClusterError> {
        let (before, begun) = (self.spent()?, Instant::now());
        meanwhile()?;
        Ok(100.0 * (self.spent()? - before) / begun.elapsed().as_secs_f64())
    }

    /// How fast ramdisks are answered that look themselves up.
    fn lookups(&self, setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
        for number in 0..RAMDISKS {
            let serial = serial(number);
            let inspect = ["machine", "inspect", &serial, "--ramdisk", "--image", "ramdisk"];
            let how = ["--manual-power", "--yes", "--submit"];
            self.gnt(&[&inspect[..], &how].concat())?;
        }
        let load = Load {
            method: "GET",
            path: "/v1/lookup?addresses=52:54:00:00:00:%02x",
            header: "wrk.headers['X-OpenStack-Ironic-API-Version'] = '1.96'",
            machines: RAMDISKS,
            per_second: Some(LOOKUPS_PER_SECOND),
        };
        let begun = Instant::now();
        // Until all of them wait for their ramdisks, some are unknown.
        while self.load(&load, 1).is_err() {
            if begun.elapsed() > SOON {
                let why = "lookups are not answered".to_owned();
                return Err(ClusterError::Client(why).into());
            }
        }
        let found = self.load(&load, setting.time.as_secs().max(1))?;
        report.add("lifecycle.lookups", found.per_second, "1/s");
        report.add("lifecycle.lookups.p99", found.p99, "ms");
        report.aim("lifecycle.lookups.p99", Target::ValueBelow(2.0));
        Ok(())
    }

    /// Deploys all machines; what the master has in memory after the first of them, and at the end.
    fn deployments(&self, [first, all]: [u32; 2], report: &mut Report) -> Result<(), BenchError> {
        let controllers = Controllers::start(all)?;
        let password = self.write("bmc.password", &format!("{PASSWORD}\n"))?;
        for (number, url) in (0..).zip(&controllers.urls) {
            let serial = serial(number);
            let known = ["--user", USER, "--password-file", &password];
            self.gnt(&[&["machine", "bmc", "set", &serial, "--url", url][..], &known].concat())?;
        }
        self.gnt(&["cluster", "modify", "--max-running-jobs", "100"])?;
        let begun = Instant::now();
        let deploy = ["machine", "deploy", "--rack", "0", "--image", "system"];
        let arguments = [&deploy[..], &["--parallel", AT_ONCE, "--yes"]].concat();
        let early = std::thread::scope(|scope| {
            let deploys = scope.spawn(|| self.gnt(&arguments));
            while controllers.booted.load(Ordering::Relaxed) < first && !deploys.is_finished() {
                pause();
            }
            let early = self.memory();
            let panicked = |_panic| ClusterError::Client("deploying panicked".to_owned());
            deploys.join().map_err(panicked)??;
            early
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let late = self.memory()?;
        report.add("lifecycle.deployments", count_as_number(u64::from(all)) / seconds, "1/s");
        for (what, late, early) in [("master", late[0], early[0]), ("agent", late[1], early[1])] {
            let name = format!("lifecycle.deployments.memory_of_{what}");
            report.add_compared(&*name, late, "MiB", early);
            report.aim(&name, Target::RatioBelow(GROWTH_MAX));
        }
        Ok(())
    }

    /// MiB that master and agent have for themselves.
    fn memory(&self) -> Result<[f64; 2], ClusterError> {
        let mib = |kib: u64| count_as_number(kib) / 1_024.0;
        Ok([mib(self.cluster.memory_kib()?), mib(self.cluster.memory_kib_of(AGENT)?)])
    }
}

/// Nothing is asked meanwhile: what is measured is the time itself.
#[expect(clippy::disallowed_methods, reason = "nothing of this process goes on meanwhile")]
fn rest(time: Duration) {
    std::thread::sleep(time);
}

fn mac(number: u32) -> String {
    let [.., a, b, c] = number.to_be_bytes();
    format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
}

/// Machines whose power their controllers switch, in a process of their own.
struct Controllers {
    process: Child,
    urls: Vec<String>,
    booted: Arc<AtomicU32>,
}

impl Controllers {
    fn start(machines: u32) -> Result<Self, BenchError> {
        let program = programs::example("bmc", "controllers", &["simulation"])?;
        let mut command = Command::new(program);
        command.arg(SERVER).args((0..machines).map(serial));
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.map_err(ClusterError::Pipe)?;
        let stdout = process.stdout.take().ok_or_else(|| ClusterError::Client(NO_OUTPUT.into()))?;
        let mut lines = BufReader::new(stdout).lines();
        let urls: io::Result<Vec<String>> = lines.by_ref().take(machines as usize).collect();
        let (booted, urls) = (Arc::new(AtomicU32::new(0)), urls.map_err(ClusterError::Pipe)?);
        let counted = Arc::clone(&booted);
        std::thread::spawn(move || {
            for _boot in lines.map_while(Result::ok) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self { process, urls, booted })
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Requests of machines.
struct Load<'a> {
    method: &'a str,
    /// As Lua formats it with the number of a machine.
    path: &'a str,
    /// Lua that sets a header.
    header: &'a str,
    machines: u32,
    per_second: Option<u32>,
}

impl Load<'_> {
    fn script(&self) -> String {
        let Self { method, path, header, machines, per_second } = self;
        let pause = per_second.map_or(0, |rate| 1_000 * CONNECTIONS / rate.max(1));
        // A prime: neighbours are not asked for after each other.
        format!(
            "{header}
local number = 0
function delay() return {pause} end
function request()
  number = (number + 7919) % {machines}
  return wrk.format('{method}', string.format('{path}', number))
end
{}",
            wrk::DONE
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_pause_of_each_connection() {
        let load = |per_second| {
            let load = Load { method: "GET", path: "/%d", header: "", machines: 5, per_second };
            load.script()
        };
        assert!(load(Some(1_000)).contains("return 16 end") && load(None).contains("return 0 end"));
        assert_eq!(mac(10_000), "52:54:00:00:27:10");
    }
}
