//! Files of an agent beside those of nginx, in turns, in 64 parallel downloads by `wrk`.

mod wrk;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;

use super::bed::{self, Bed};
use super::report::{Report, Target};
use super::{BenchError, Setting, nginx};
use crate::guest::rack::SOON;
use crate::guest::{GuestError, run};
use crate::images;
use wrk::Load;

/// Programs of others that the bench needs.
const PROGRAMS: [&str; 2] = ["wrk", "nginx"];
/// Times that each of both is measured, in turns.
const TURNS: u32 = 3;
/// Bytes of a kernel or an image, and of a script or a configuration.
const LARGE: usize = 64 << 20;
const SMALL: usize = 4 << 10;
/// Last number of nginx's address.
const NGINX: u8 = 5;
/// The port of an agent's boot side.
const BOOT_PORT: u16 = 10_080;
/// Serial number of the machine that loads them.
const SERIAL: &str = "SN-1";
/// Serial number of nobody.
const STRANGER: &str = "SN-2";
/// MiB of a byte.
const MIB: f64 = 1.0 / 1_048_576.0;
/// MiB of memory that 64 downloads may take, 512 KiB each.
const MEMORY_MAX_MIB: f64 = 32.0;

struct Source {
    address: SocketAddrV4,
    path: String,
}

/// The bench `http`.
///
/// # Errors
/// Something does not build, start or answer.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    if let Some(why) = bed::missing(&PROGRAMS) {
        report.tell(format!("skipped: files beside nginx: {why}"));
        return Ok(());
    }
    let mut bed = Bed::new(setting)?;
    bed.wait_for_service()?;
    let load = Load::new(&mut bed)?;
    let files = [("large", "kernel"), ("small", "initrd")];
    let large = file(&bed, "large", &images::kernel("files"), LARGE)?;
    let small = file(&bed, "small", &images::initrd("files"), SMALL)?;
    bed.rack.gnt(&["image", "upload", "files/1", "--kernel", &large, "--initrd", &small])?;
    let add = ["machine", "add", "--serial", SERIAL, "--rack", "0", "--role", "worker"];
    bed.rack.gnt(&add)?;
    bed.rack.gnt(&["machine", "set-boot", "files/1", SERIAL])?;
    let nginx = start_nginx(&mut bed)?;

    let memory_before = memory_mib(&bed)?;
    let mut memory = memory_before;
    for (name, kind) in files {
        let digest = digest(&bed, name)?;
        let of = |serial: &str| Source {
            address: SocketAddrV4::new(bed::agent(), BOOT_PORT),
            path: format!("/api/v1/boot/machines/{serial}/{kind}/{digest}"),
        };
        let theirs = Source { address: nginx, path: format!("/{name}") };
        let (mut own, mut stranger, mut other) = (0.0, 0.0, 0.0);
        for _ in 0..TURNS {
            let mut watch = || {
                memory = memory.max(memory_mib(&bed)?);
                Ok(())
            };
            own += load.run(&of(SERIAL), setting.time, &mut watch)?;
            stranger += load.run(&of(STRANGER), setting.time, &mut watch)?;
            other += load.run(&theirs, setting.time, &mut watch)?;
        }
        let turns = f64::from(TURNS);
        let (scale, unit) = if name == "large" { (MIB, "MiB/s") } else { (1.0 / 4096.0, "1/s") };
        let [own, stranger, other] = [own, stranger, other].map(|bytes| bytes * scale / turns);
        report.add_compared(format!("http.{name}"), own, unit, other);
        report.add_compared(format!("http.{name}_unregistered"), stranger, unit, other);
    }
    report.aim("http.large", Target::RatioAtLeast(0.9));
    report.aim("http.small", Target::RatioAtLeast(0.6));
    report.add_compared("http.memory", memory - memory_before, "MiB", memory_before);
    report.aim("http.memory", Target::ValueBelow(MEMORY_MAX_MIB));
    Ok(())
}

/// Starts nginx on a host of its own, on the files below the bed's root.
fn start_nginx(bed: &mut Bed) -> Result<SocketAddrV4, GuestError> {
    let namespace = bed.add_host("nginx", NGINX)?;
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 69, 0, NGINX), 80);
    let root = bed.rack.stage.root();
    bed.start("nginx", &namespace, &nginx::command(&root, address)?)?;
    let pid = root.join(nginx::PID);
    bed.rack.stage.wait_until("nginx", SOON, || pid.exists())?;
    Ok(address)
}

/// A file that begins with `head` and goes on with so many random bytes.
fn file(bed: &Bed, name: &str, head: &str, bytes: usize) -> Result<String, GuestError> {
    let path = bed.rack.stage.root().join(name).display().to_string();
    let mut fill = Command::new("sh");
    let script = r#"{ printf %s "$2"; head -c "$1" /dev/urandom; } > "$0""#;
    fill.args(["-c", script, &path, &bytes.to_string(), head]);
    run(&mut fill)?;
    Ok(path)
}

fn digest(bed: &Bed, name: &str) -> Result<String, GuestError> {
    let said = run(Command::new("sha256sum").arg(bed.rack.stage.root().join(name)))?;
    Ok(said.split_whitespace().next().unwrap_or_default().to_owned())
}

/// Memory of the agent that is its own; pages of files are the page cache's.
fn memory_mib(bed: &Bed) -> Result<f64, GuestError> {
    let pid = bed.rack.stage.pid("noded1").unwrap_or_default();
    let path = format!("/proc/{pid}/status");
    let status =
        std::fs::read_to_string(&path).map_err(|error| GuestError::File { path, error })?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: u32 = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    Ok(f64::from(kib) / 1_024.0)
}
