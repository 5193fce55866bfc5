//! The process that serves copies: QEMU's storage daemon, confined as guests are. It opens each file anew by
//! its descriptor, so that its user has a right to the file as long as it serves it.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use command_fds::{CommandFdExt as _, FdMapping};
use model::Uuid;
use model::instance::launch::DiskLaunch;
use serde_json::{Value, json};
use socket2::{SockRef, TcpKeepalive};
use stdx::process::Process;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::rules::is_connected;
use crate::confine::{Confinement, DIRECTORY};
use crate::keys::{Placed, Rights, share};
use crate::records::io as failed;
use crate::{Storage, VirtError};

/// The first descriptor that it is given.
const FIRST_DESCRIPTOR: i32 = 3;
/// Connections that it has at the same time: one for each disk, and those that were refused and not closed yet.
const CONNECTIONS_MAX: usize = 100;
/// A connection on which nothing was said for so long is tried.
const IDLE: Duration = Duration::from_secs(60);
/// How long it may take to open its files and to listen: a machine that is busy takes a second.
const READY: Duration = Duration::from_secs(20);
/// Longest greeting of its monitor.
const GREETING_BYTES_MAX: u64 = 4096;
/// How much of its own words an error repeats.
const TOLD_BYTES_MAX: usize = 600;
/// Mode of its log.
const LOG_MODE: u32 = 0o640;

/// All that it needs.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) program: &'a Path,
    /// The program that confines it.
    pub(super) agent: &'a Path,
    pub(super) storage: &'a Storage,
    pub(super) uuid: Uuid,
    pub(super) disks: &'a [DiskLaunch],
    pub(super) key: &'a Placed,
    pub(super) log: PathBuf,
    /// Its user and group.
    pub(super) user: (u32, u32),
    /// The port at which it is to listen, if that is free.
    pub(super) port: Option<u16>,
}

/// A process that runs, and may not be ready.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) port: u16,
    /// The agent's end of its monitor.
    monitor: StdStream,
    log: PathBuf,
}

/// The name of its monitor, by which a process is known that nobody noted.
fn mark(uuid: Uuid) -> String {
    format!("copies-{uuid}")
}

/// The words of its command line; the descriptors are a listener, a monitor, a directory and the disks.
fn words(uuid: Uuid, disks: &[DiskLaunch]) -> Vec<String> {
    let [listener, monitor] = [FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + 1];
    let mark = mark(uuid);
    let mut words = vec![
        "--chardev".to_owned(),
        format!("socket,id={mark},fd={monitor}"),
        "--monitor".to_owned(),
        format!("chardev={mark}"),
        "--object".to_owned(),
        format!("tls-creds-psk,id=key,endpoint=server,dir={DIRECTORY},verify-peer=on"),
        "--nbd-server".to_owned(),
        format!("addr.type=fd,addr.str={listener},tls-creds=key,max-connections={CONNECTIONS_MAX}"),
    ];
    let mut option = |name: &str, value: Value| words.extend([name.to_owned(), value.to_string()]);
    for (number, (disk, descriptor)) in disks.iter().zip(FIRST_DESCRIPTOR + 3..).enumerate() {
        let (file, node) = (format!("file{number}"), format!("disk{number}"));
        option(
            "--blockdev",
            json!({"driver": "file", "node-name": file, "discard": "unmap",
                "filename": format!("/proc/self/fd/{descriptor}")}),
        );
        option(
            "--blockdev",
            json!({"driver": "raw", "node-name": node, "file": file, "size": disk.size << 20,
                "discard": "unmap", "detect-zeroes": "unmap"}),
        );
        option(
            "--export",
            json!({"type": "nbd", "id": format!("export{number}"), "node-name": node,
                "name": disk.uuid.to_string(), "writable": true}),
        );
    }
    words
}

/// A socket that listens where all nodes may reach it, at this port if it is free, or one that the kernel
/// chooses.
fn listen(port: Option<u16>) -> io::Result<TcpListener> {
    let at = |port: u16| {
        // A node without IPv6 has no such addresses.
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_no_ipv6| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
    };
    let listener = match port.map(at) {
        Some(Ok(listener)) => listener,
        _ => at(0)?,
    };
    // Connections have it from their listener: those of nodes that are gone end.
    SockRef::from(&listener).set_tcp_keepalive(&TcpKeepalive::new().with_time(IDLE))?;
    Ok(listener)
}

/// Starts it.
///
/// # Errors
/// Something that it needs cannot be had, or it does not start.
pub(super) fn start(wanted: &Wanted<'_>) -> Result<Started, VirtError> {
    let program = wanted.program;
    if !program.is_file() {
        return Err(VirtError::NoStorageDaemon(program.to_owned()));
    }
    let (user, group) = wanted.user;
    let listener = listen(wanted.port).map_err(failed("listen for", program))?;
    let port = listener.local_addr().map_err(failed("listen for", program))?.port();
    let pair = StdStream::pair().map_err(failed("make a connection to", program));
    let (monitor, other_end) = pair?;
    let mut given: Vec<OwnedFd> = vec![listener.into(), other_end.into(), wanted.key.open()?];
    for disk in wanted.disks {
        given.push(lent(wanted.storage, disk, Some(user))?.into());
    }
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(LOG_MODE);
    // Its log is cut while it writes.
    let log = options.custom_flags(nix::libc::O_APPEND).open(&wanted.log);
    let log = log.map_err(failed("open", &wanted.log))?;
    let directory = Some(FIRST_DESCRIPTOR + 2);
    let confinement = Confinement { user, group, groups: Vec::new(), directory };
    let mut command = confinement.command(wanted.agent, program);
    command.args(words(wanted.uuid, wanted.disks)).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let given = given.into_iter().zip(FIRST_DESCRIPTOR..);
    let given = given.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
    let with = command.fd_mappings(given.collect());
    with.map_err(|error| failed("give descriptors to", program)(io::Error::other(error)))?;
    let child = command.spawn().map_err(failed("start", program))?;
    Ok(Started { child, port, monitor, log: wanted.log.clone() })
}

/// Whether a run is connected to a port.
pub(super) fn is_used(port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let reads = tables.iter().any(Result::is_ok);
    // It is taken for used where nobody tells.
    !reads || tables.iter().flatten().any(|table| is_connected(table, port))
}

/// Opens a disk, to which one user has rights then, or nobody but the agent.
pub(super) fn lent(
    storage: &Storage,
    disk: &DiskLaunch,
    user: Option<u32>,
) -> Result<File, VirtError> {
    let file = storage.open(disk, true)?;
    let rights = user.map(|user| (user, Rights::ReadWrite));
    share(&file, Path::new(disk.place.path()), rights)?;
    Ok(file)
}

impl Started {
    /// Waits until it serves its files: its monitor greets when it has opened all of them.
    ///
    /// # Errors
    /// It has ended, or is not ready in time; the text has its words.
    pub(super) async fn is_ready(&mut self) -> Result<(), String> {
        let greeted = async {
            let monitor = self.monitor.try_clone()?;
            monitor.set_nonblocking(true)?;
            let mut line = String::new();
            let monitor = UnixStream::from_std(monitor)?.take(GREETING_BYTES_MAX);
            BufReader::new(monitor).read_line(&mut line).await?;
            Ok::<bool, io::Error>(line.contains("QMP"))
        };
        let why = match timeout(READY, greeted).await {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => "it ended".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_elapsed) => format!("it is not ready within {} s", READY.as_secs()),
        };
        let words = std::fs::read(&self.log).unwrap_or_default();
        let words = &words[words.len().saturating_sub(TOLD_BYTES_MAX)..];
        Err(match String::from_utf8_lossy(words).trim() {
            "" => why,
            words => format!("{why}: {words}"),
        })
    }
}

/// Kills what an agent started that ended before it could note it; gives these processes.
///
/// # Errors
/// The system does not let us.
pub(super) fn kill_unnoted(uuid: Uuid) -> io::Result<Vec<Process>> {
    let mut killed = Vec::new();
    let mark = format!("chardev={}", mark(uuid));
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(process) = pid.and_then(Process::of) else { continue };
        // A process that has ended meanwhile has no words.
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()) {
            tracing::warn!(%uuid, pid, "a process that serves copies and was not noted is ended");
            process.kill()?;
            killed.push(process);
        }
    }
    Ok(killed)
}
