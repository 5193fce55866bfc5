//! Guests of QEMU: the cluster's share of a start, how soon a death is seen, what the agent needs for each run,
//! a hundred on one host, and a copy of a disk while it is written. As root.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use luxi::client::Client;
use luxi::method::{Fields, Query, What};
use model::layout::Layout;
use serde_json::Value;
use stdx::process::Process;

use super::boot::median;
use super::cluster::{Cluster, ClusterError, Nodes, SOON, Which, pause};
use super::report::{Report, Target};
use super::{BenchError, Setting, bed};
use crate::guest::parts::Parts;
use crate::needs;

/// Programs that the bench needs.
const PROGRAMS: [&str; 2] = [QEMU, "qemu-img"];
const QEMU: &str = "qemu-system-x86_64";
/// Starts, deaths and copies of which the median counts.
const TIMES: usize = 5;
/// Guests that stand still on one host, and with `--quick`.
const STILL: usize = 100;
const STILL_QUICK: usize = 10;
/// Guests beside which the memory of the first ones is measured.
const SETTLED: usize = 5;
/// MiB of a disk that is copied, and with `--quick`.
const COPIED: usize = 1_024;
const COPIED_QUICK: usize = 128;
/// The output of a guest's first program.
const RUNS: &str = "GUEST runs";
/// The name that its agent has on the stage.
const AGENT: &str = "n1.example";
const MIB: usize = 1 << 20;
/// Kernel parameters of all guests.
const PARAMETERS: &str = "gantry.stays";
const FILE_MODE: u32 = 0o644;

/// The bench `guests`.
///
/// # Errors
/// Something did not start, or was refused.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let parts = match bed::missing(&PROGRAMS) {
        Some(why) => Err(why),
        None => Parts::provide().map_err(|error| crate::chain(&error)),
    };
    let parts = match parts {
        Ok(parts) => parts,
        Err(why) => {
            report.tell(format!("skipped: guests of QEMU: {why}"));
            return Ok(());
        }
    };
    let nodes = Nodes::start(setting, Which::One, 1)?;
    let scene = Scene::new(nodes.node(0), &parts)?;
    scene.starts(setting, report)?;
    scene.deaths(setting, report)?;
    scene.copies(setting, report)?;
    scene.still(setting, report)?;
    Ok(())
}

struct Scene<'c> {
    master: &'c Cluster,
    parts: &'c Parts,
    disks: PathBuf,
}

impl<'c> Scene<'c> {
    fn new(master: &'c Cluster, parts: &'c Parts) -> Result<Self, ClusterError> {
        let layout = Layout::new(master.root());
        let disks = master.root().join("disks");
        std::fs::create_dir_all(&disks)?;
        let list = format!("{}\n", disks.display());
        stdx::atomic::write(&layout.file_storage_paths(), list.as_bytes(), FILE_MODE)
            .map_err(io::Error::other)?;
        let scene = Self { master, parts, disks };
        let qemu = needs::find(QEMU).unwrap_or_else(|| QEMU.into());
        let parameters = format!(
            "kvm:kvm_path={},kernel_path={},initrd_path={},root_path=none,kernel_args={PARAMETERS}",
            qemu.display(),
            parts.kernel.display(),
            parts.initrd.display(),
        );
        let directory = scene.disks.join("file").display().to_string();
        let modify = ["cluster", "modify", "--enabled-hypervisors", "kvm", "-H", &parameters];
        let storage =
            ["--enabled-disk-templates", "file,diskless", "--file-storage-dir", &directory];
        let ratios = ["--ipolicy-vcpu-ratio", "1000", "--ipolicy-spindle-ratio", "1000"];
        scene.until("its node's facts", || Ok(scene.fact("mtotal")?.is_number()))?;
        master.gnt(&[&modify[..], &storage, &ratios].concat())?;
        Ok(scene)
    }

    /// Waits until something is so; gives the time.
    fn until(
        &self,
        what: &str,
        mut is_so: impl FnMut() -> Result<bool, ClusterError>,
    ) -> Result<Duration, ClusterError> {
        let begun = Instant::now();
        while !is_so()? {
            if begun.elapsed() > SOON {
                return Err(ClusterError::Client(format!(
                    "{what}: not within {} s",
                    SOON.as_secs()
                )));
            }
            pause();
        }
        Ok(begun.elapsed())
    }

    fn fact(&self, field: &str) -> Result<Value, ClusterError> {
        let fields = Fields::from([field]);
        let asked = Query { what: What::Node, fields, filter: None };
        first(&mut self.master.connect()?, &asked, None)
    }

    /// Adds an instance; further words say what it has.
    fn add(&self, name: &str, more: &[&str]) -> Result<Duration, ClusterError> {
        let add = ["instance", "add", "--ignore-ipolicy", "--no-name-check", "--no-ip-check"];
        let bare = ["-o", "noop", "--no-install", "--no-nics", "-n", AGENT];
        self.master.gnt(&[&add[..], &bare, more, &[name]].concat())
    }

    fn remove(&self, name: &str) -> Result<Duration, ClusterError> {
        self.master.gnt(&["instance", "remove", "-f", "--shutdown-timeout", "0", name])
    }

    /// A file of an instance beside its record.
    fn file(&self, name: &str, ending: &str) -> Result<PathBuf, ClusterError> {
        let uuid = field(&mut self.master.connect()?, name, "uuid")?;
        let uuid = uuid.as_str().unwrap_or_default();
        Ok(Layout::new(self.master.root()).instances().join(format!("{uuid}.{ending}")))
    }

    fn process(&self, name: &str) -> Result<Option<Process>, ClusterError> {
        let record = std::fs::read(self.file(name, "json")?)?;
        let record: Value = serde_json::from_slice(&record).map_err(io::Error::other)?;
        let pid = record["process"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        Ok(pid.and_then(Process::of))
    }

    /// From the command until the guest's first program, beside QEMU alone with the same words, in turns.
    fn starts(&self, setting: &Setting, report: &mut Report) -> Result<(), ClusterError> {
        let (mut own, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..times(setting) {
            let begun = Instant::now();
            self.add("vm1.example", &["-t", "file", "--disk", "0:size=1G", "-B", "memory=256M"])?;
            let log = self.file("vm1.example", "console.log")?;
            self.until(RUNS, || Ok(says(&log, RUNS)))?;
            own.push(begun.elapsed().as_secs_f64() * 1e3);
            self.remove("vm1.example")?;
            alone.push(self.alone()?.as_secs_f64() * 1e3);
        }
        println!("  cluster {own:.0?} ms, QEMU alone {alone:.0?} ms");
        let (own, alone) = (median(own), median(alone));
        report.add_compared("guests.create_to_userspace.p50", own, "ms", alone);
        report.add("guests.control_plane.p50", own - alone, "ms");
        report.aim("guests.control_plane.p50", Target::ValueBelow(300.0));
        Ok(())
    }

    /// The same guest without a cluster.
    fn alone(&self) -> Result<Duration, ClusterError> {
        let [disk, log] = ["alone.raw", "alone.log"].map(|name| self.disks.join(name));
        drop(std::fs::remove_file(&log));
        let begun = Instant::now();
        File::create(&disk)?.set_len(1 << 30)?;
        let mut qemu = needs::command(QEMU);
        qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-M", "q35", "-m", "256"]);
        qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max"]);
        qemu.arg("-kernel").arg(&self.parts.kernel).arg("-initrd").arg(&self.parts.initrd);
        qemu.args(["-append", &format!("{PARAMETERS} console=ttyS0,38400")]);
        qemu.arg("-drive").arg(format!("file={},format=raw,if=virtio", disk.display()));
        qemu.arg("-serial").arg(format!("file:{}", log.display()));
        let _ends = Ends(qemu.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
        self.until(RUNS, || Ok(says(&log, RUNS)))?;
        Ok(begun.elapsed())
    }

    /// A guest's process is killed: until its status says so, and until the next one lives.
    fn deaths(&self, setting: &Setting, report: &mut Report) -> Result<(), ClusterError> {
        self.add("vm1.example", &["-t", "diskless", "-B", "memory=256M"])?;
        let mut client = self.master.connect()?;
        let (mut seen, mut lives) = (Vec::new(), Vec::new());
        // The first restart follows at once, the second one after a pause that is meant.
        for round in 0..times(setting) {
            let name = "vm1.example";
            if round > 0 {
                self.master.gnt(&["instance", "shutdown", "--timeout", "0", name])?;
                self.master.gnt(&["instance", "startup", name])?;
            }
            let process = self.process(name)?.ok_or_else(missing)?;
            let begun = Instant::now();
            process.kill()?;
            self.until("another status", || Ok(field(&mut client, name, "status")? != "running"))?;
            seen.push(begun.elapsed().as_secs_f64() * 1e3);
            self.until("another process", || {
                Ok(field(&mut client, name, "status")? == "running"
                    && self.process(name)?.is_some_and(|now| now != process))
            })?;
            lives.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        println!("  seen {seen:.1?} ms, lives again {lives:.0?} ms");
        report.add("guests.death_seen.p50", median(seen), "ms");
        report.aim("guests.death_seen.p50", Target::ValueBelow(100.0));
        report.add("guests.death_to_next_process.p50", median(lives), "ms");
        report.aim("guests.death_to_next_process.p50", Target::ValueBelow(1_000.0));
        self.remove("vm1.example")?;
        Ok(())
    }

    /// A full disk of a guest that runs is exported, beside `qemu-img convert` of the same file, in turns.
    fn copies(&self, setting: &Setting, report: &mut Report) -> Result<(), ClusterError> {
        let size = if setting.quick { COPIED_QUICK } else { COPIED };
        let disk = format!("0:size={size}M");
        self.add("vm1.example", &["-t", "file", "--disk", &disk, "-B", "memory=256M"])?;
        let directory = self.disks.join("file/vm1.example");
        let entry = std::fs::read_dir(&directory)?.next().transpose()?;
        let from = entry.map(|entry| entry.path()).ok_or_else(missing)?;
        fill(&from, size)?;
        let to = self.disks.join("copy.raw");
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..times(setting).min(3) {
            let export = ["backup", "export", "-n", AGENT, "--noshutdown", "vm1.example"];
            own.push(self.master.gnt(&export)?.as_secs_f64());
            let begun = Instant::now();
            let mut convert = needs::command("qemu-img");
            convert.args(["convert", "-U", "-O", "raw"]).arg(&from).arg(&to);
            let converted = convert.output()?;
            if !converted.status.success() {
                let told = String::from_utf8_lossy(&converted.stderr).into_owned();
                return Err(ClusterError::Client(told));
            }
            // An export is on the disk when it is told, so this copy is to be, too.
            File::open(&to)?.sync_all()?;
            theirs.push(begun.elapsed().as_secs_f64());
        }
        println!("  export {own:.2?} s, qemu-img {theirs:.2?} s");
        report.add_compared("guests.export_of_running.p50", median(own), "s", median(theirs));
        report.aim("guests.export_of_running.p50", Target::RatioBelow(1.25));
        std::fs::remove_file(&to)?;
        self.remove("vm1.example")?;
        Ok(())
    }

    /// Guests that stand still, and what their agent needs for each.
    fn still(&self, setting: &Setting, report: &mut Report) -> Result<(), ClusterError> {
        let count = if setting.quick { STILL_QUICK } else { STILL };
        let name = |number: usize| format!("s{number}.example");
        let (begun, mut before) = (Instant::now(), 0);
        for number in 0..count {
            if number == SETTLED {
                before = self.master.memory_kib_of(AGENT)?;
            }
            let small = ["-t", "diskless", "-B", "memory=32M", "--no-start"];
            self.add(&name(number), &small)?;
            self.master.gnt(&["instance", "startup", "--paused", &name(number)])?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let after = self.master.memory_kib_of(AGENT)?;
        let mut alive = 0;
        for number in 0..count {
            alive += usize::from(self.process(&name(number))?.is_some());
        }
        println!("  {alive} of {count} live; the agent has {before} and then {after} KiB");
        if alive < count {
            report.fail(format!("{alive} of {count} guests live"));
        }
        report.add("guests.start_of_one_that_stands_still", seconds / real(count), "s");
        let grown = real(usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX));
        report.add("guests.agent_memory_for_each", grown / real(count - SETTLED), "KiB");
        report.aim("guests.agent_memory_for_each", Target::ValueBelow(200.0));
        (0..count).try_for_each(|number| self.remove(&name(number)).map(drop))
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

/// A process that ends with the value.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn times(setting: &Setting) -> usize {
    if setting.quick { 2 } else { TIMES }
}

/// Whether a guest wrote a text to its console.
fn says(log: &Path, text: &str) -> bool {
    std::fs::read(log).is_ok_and(|log| String::from_utf8_lossy(&log).contains(text))
}

/// A field of an instance.
fn field(client: &mut Client, name: &str, field: &str) -> Result<Value, ClusterError> {
    let fields = Fields::from(["name", field]);
    first(client, &Query { what: What::Instance, fields, filter: None }, Some(name))
}

/// The last cell of the first row, or of the row whose first cell is `name`.
fn first(client: &mut Client, asked: &Query, name: Option<&str>) -> Result<Value, ClusterError> {
    let table = client.call(asked)?;
    let mut rows = table.data.iter();
    let is_it = |row: &&Vec<_>| match (name, row.first()) {
        (None, _) => true,
        (Some(name), Some(cell)) => {
            let cell: &luxi::query::Cell = cell;
            cell.value().is_some_and(|value| value == name)
        }
        _ => false,
    };
    let cell = rows.find(is_it).and_then(|row| row.last());
    Ok(cell.and_then(luxi::query::Cell::value).cloned().unwrap_or_default())
}

/// Fills a file with what is no hole and does not compress.
fn fill(path: &Path, mib: usize) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    let mut random = File::open("/dev/urandom")?;
    let mut piece = vec![0; MIB];
    for _ in 0..mib {
        random.read_exact(&mut piece)?;
        file.write_all(&piece)?;
    }
    file.sync_all()
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn real(count: usize) -> f64 {
    count as f64
}
