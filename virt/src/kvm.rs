//! The hypervisor `kvm`: guests of QEMU.
//!
//! [`plan`] makes the command line of a launch, with `words`, `desktop`, `devices` and their `parts`;
//! `firmware` is found by its descriptors. The shell `spawn` starts it with open descriptors, as one of the
//! `users` who may open nothing; `nics` makes its cards, and `tpm` runs beside it. A `guest` is one that
//! lives: it is followed by its monitor and its process, and outlives the agent. `screen` lets viewers in,
//! `size` gives it orders and `plug` other devices meanwhile, and `snapshot` copies its disks; `mirror` looks
//! after their copies on other nodes. `agent` is its own word.

mod agent;
mod desktop;
mod devices;
mod firmware;
mod guest;
pub(crate) mod mirror;
pub(crate) mod nics;
mod parts;
pub mod plan;
mod plug;
mod screen;
pub(crate) mod size;
mod snapshot;
mod spawn;
mod tpm;
mod users;
mod words;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;

use model::instance::launch::{Launch, ReplicaKey};
use model::instance::parameters::Parameters;
use model::instance::state::Seen;
use model::{InstanceName, Secret, Uuid};
use serde_json::json;
use stdx::Tasks;
use stdx::process::Process;

use crate::keys::Keys;
use crate::qmp::Qmp;
use crate::records::io as failed;
use crate::{Paths, Storage, VirtError};
pub(crate) use agent::GuestAgent;
pub(crate) use guest::{Guest, Standing, kill};
pub(crate) use nics::Nics;
use plan::{Host, PlanError};
pub(crate) use plug::after;
pub use plug::{Change, NotPlugged};
use tpm::Tpm;
pub(crate) use users::shared as shared_user;
pub(crate) use words::Filled;

/// The words that end a QEMU.
const DISMISSED: &[u8] = b"{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"quit\"}\n";
/// The errors of a socket at whose other end nobody is.
const DEAD: [io::ErrorKind; 4] = [
    io::ErrorKind::NotFound,
    io::ErrorKind::ConnectionRefused,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::BrokenPipe,
];
/// The device by which a processor runs guests.
const DEVICE: &str = "/dev/kvm";
/// The device of the kernel's end of cards.
const VHOST_NET: &str = "/dev/vhost-net";
/// How much of QEMU's own words an error repeats: its last ones, which tell why it ended.
const TOLD_BYTES_MAX: u64 = 600;

/// A file that belongs to a run, beside its record.
#[derive(Debug, Clone, Copy)]
enum RunFile {
    Monitor,
    Console,
    GuestAgent,
    ConsoleLog,
    Seed,
    Variables,
    SecureVariables,
    Log,
    /// A directory.
    Tpm,
}

impl RunFile {
    const ALL: [Self; 9] = [
        Self::Monitor,
        Self::Console,
        Self::GuestAgent,
        Self::ConsoleLog,
        Self::Seed,
        Self::Variables,
        Self::SecureVariables,
        Self::Log,
        Self::Tpm,
    ];

    const fn ending(self) -> &'static str {
        match self {
            Self::Monitor => "qmp",
            Self::Console => "console",
            Self::GuestAgent => "agent",
            Self::ConsoleLog => "console.log",
            Self::Seed => "seed",
            Self::Variables => "vars",
            Self::SecureVariables => "secure-vars",
            Self::Log => "qemu.log",
            Self::Tpm => "tpm",
        }
    }
}

/// The hypervisor; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Kvm {
    pub(crate) storage: Storage,
    /// The directory of the records. A path of a socket has less than 108 bytes, so sockets are reached
    /// through this handle.
    directory: Arc<File>,
    pub(crate) nics: Nics,
    /// The directories with descriptors of firmware; a name in the first hides it in others.
    firmware: Arc<[PathBuf]>,
    users: users::Users,
    /// The program that confines others.
    agent_program: PathBuf,
    pub(crate) keys: Keys,
    tasks: Tasks,
}

impl Kvm {
    /// One with its files at these paths.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub(crate) fn open(paths: &Paths, storage: Storage, tasks: Tasks) -> Result<Self, VirtError> {
        let directory = &paths.records;
        let opened = File::open(directory).map_err(failed("open the directory", directory))?;
        let (nics, firmware) = (Nics::new(paths.nic_hook.clone()), paths.firmware.clone().into());
        let (directory, users) = (Arc::new(opened), users::Users::default());
        let (agent_program, keys) = (paths.agent.clone(), Keys::new(paths.keys.clone()));
        keys.clean(mirror::JOINS);
        Ok(Self { storage, directory, nics, firmware, users, agent_program, keys, tasks })
    }

    fn path(&self, uuid: Uuid, file: RunFile) -> PathBuf {
        let (directory, ending) = (self.directory.as_raw_fd(), file.ending());
        PathBuf::from(format!("/proc/self/fd/{directory}/{uuid}.{ending}"))
    }

    /// The log of an instance's console.
    pub(crate) fn console_log(&self, uuid: Uuid) -> PathBuf {
        self.path(uuid, RunFile::ConsoleLog)
    }

    /// The logs of an instance that its programs write, and of which only the end is kept.
    pub(crate) fn logs(&self, uuid: Uuid) -> [PathBuf; 2] {
        [RunFile::ConsoleLog, RunFile::Log].map(|file| self.path(uuid, file))
    }

    /// The socket of its input.
    pub(crate) fn console_socket(&self, uuid: Uuid) -> PathBuf {
        self.path(uuid, RunFile::Console)
    }

    /// The agent in the guest of a launch, if it is to have one.
    pub(crate) fn agent(&self, launch: &Launch) -> Option<GuestAgent> {
        let is_wanted = Filled(&launch.hvparams).flag("use_guest_agent");
        is_wanted.then(|| GuestAgent::new(self.path(launch.uuid, RunFile::GuestAgent)))
    }

    /// Starts a guest: it runs, or stands still where the launch says so.
    ///
    /// `began` is told the process before the guest runs its first instruction.
    ///
    /// # Errors
    /// It does not start; nothing of it is left then but what [`Nics::disconnect`] removes.
    pub(crate) async fn start(
        &self,
        launch: &Launch,
        key: Option<&ReplicaKey>,
        began: impl FnOnce(Process) -> Result<(), VirtError>,
    ) -> Result<Guest, VirtError> {
        let refused =
            |why: String| VirtError::Refused { what: "start", name: launch.name.clone(), why };
        let firmware = firmware::wanted(Filled(&launch.hvparams), &self.firmware);
        let planned = tpm::check(Filled(&launch.hvparams)).and(firmware);
        let planned = planned.and_then(|firmware| plan::plan(launch, host(), firmware.as_ref()));
        let plan = planned.map_err(|error| refused(error.to_string()))?;
        // A start fails where the place of the screen is taken, as somebody asked for it and hears why. Viewers
        // would tell the password to the program that listens there instead.
        let listener = screen::listen(launch).map_err(&refused)?;
        let password = screen::password(launch).map_err(&refused)?;
        let mut cards = self.nics.connect(launch).await?;
        let mut tpm = Tpm::of(&plan, launch.uuid)?;
        let other_end = tpm.as_mut().and_then(Tpm::other_end);
        let prepared = spawn::Prepared { cards: &mut cards, tpm: other_end };
        let spawned = stdx::aside(|| spawn::spawn(self, launch, &plan, prepared));
        let mut child = spawned?;
        drop(cards);
        let Some(process) = Process::of(child.id()) else {
            return Err(refused(self.last_words(launch.uuid, child)));
        };
        let ready = began(process).and_then(|()| tpm.map(|tpm| tpm.start(self)).transpose());
        let tpm = match ready {
            Ok(tpm) => tpm,
            Err(error) => {
                // The caller looks whether it has ended. Nobody follows it, so that it is reaped here.
                if kill(process).await.is_ok() {
                    drop(stdx::aside(|| child.wait()));
                }
                return Err(error);
            }
        };
        let (kvm, uuid) = (self.clone(), launch.uuid);
        let reap = async move {
            if let Some(tpm) = tpm {
                tpm.end().await;
            }
            kvm.last_words(uuid, child)
        };
        let qmp = self.monitor(uuid, process);
        let screen = screen::serve(qmp.clone(), listener);
        let (guest, follow) = Guest::new(qmp, process, Seen::Starting, screen, reap);
        self.tasks.spawn("guest", follow);
        let begun = begin(&guest, password, launch.paused, || {
            mirror::join_first(&guest, &self.keys, launch, key)
        });
        match begun.await {
            Ok(()) => Ok(guest),
            Err(not) => {
                guest
                    .end()
                    .await
                    .map_err(|error| refused(format!("{not}; and it does not end: {error}")))?;
                Err(match not {
                    NotBegun::Refused(why) => refused(why),
                    NotBegun::Copy(why) => VirtError::Copy { name: launch.name.clone(), why },
                })
            }
        }
    }

    /// The guest of a process that an earlier life of the agent started; none where it has ended.
    pub(crate) fn adopt(&self, launch: &Launch, process: Process, seen: Seen) -> Option<Guest> {
        let ended = "its process ended while the agent was away, or as a stranger to it".to_owned();
        process.is_alive().then(|| {
            self.users.adopt(process);
            let qmp = self.monitor(launch.uuid, process);
            let screen = screen::resume(qmp.clone(), launch.clone());
            let reap = std::future::ready(ended);
            let (guest, follow) = Guest::new(qmp, process, seen, screen, reap);
            self.tasks.spawn("guest", follow);
            guest
        })
    }

    /// Ends a guest of which the agent knows no process, as it ended before it could note one.
    ///
    /// # Errors
    /// It does not end.
    pub(crate) fn dismiss(&self, uuid: Uuid) -> Result<(), VirtError> {
        let path = self.path(uuid, RunFile::Monitor);
        let mut monitor = match UnixStream::connect(&path) {
            Ok(monitor) => monitor,
            Err(error) if DEAD.contains(&error.kind()) => return Ok(()),
            Err(error) => return Err(failed("reach the monitor", &path)(error)),
        };
        let quit = || {
            monitor.set_read_timeout(Some(guest::QUIT))?;
            monitor.write_all(DISMISSED)?;
            io::copy(&mut monitor, &mut io::sink())
        };
        match { quit }() {
            Err(error) if !DEAD.contains(&error.kind()) => {
                Err(failed("end the guest at", &path)(error))
            }
            _ => Ok(()),
        }
    }

    fn monitor(&self, uuid: Uuid, process: Process) -> Qmp {
        let (qmp, talk) = Qmp::new(self.path(uuid, RunFile::Monitor), process);
        self.tasks.spawn("monitor of a guest", talk);
        qmp
    }

    /// Removes what is left of a run whose process is gone, outside its own files.
    pub(crate) async fn clear(&self, launch: &Launch) {
        screen::clean(launch);
        self.nics.disconnect(&launch.name, &launch.nics).await;
    }

    /// How a process ended that has: its exit status, and the end of its words.
    fn last_words(&self, uuid: Uuid, mut child: Child) -> String {
        let status = match child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => format!("its exit status is not known: {error}"),
        };
        let words = end_of(&self.path(uuid, RunFile::Log)).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        match words.trim() {
            "" => format!("QEMU ended: {status}"),
            words => format!("QEMU ended: {status}: {words}"),
        }
    }

    /// Copies disks of a guest that runs into files, all as of one moment. An agent in it has it write what
    /// it has in memory first.
    ///
    /// # Errors
    /// There is no whole copy.
    pub(crate) async fn snapshot(
        guest: &Guest,
        agent: Option<GuestAgent>,
        name: &InstanceName,
        disks: Vec<(Uuid, File)>,
    ) -> Result<(), VirtError> {
        let refused = |error: snapshot::SnapshotError| VirtError::Refused {
            what: "copy the disks of",
            name: name.clone(),
            why: stdx::daemon::chain(&error),
        };
        snapshot::snapshot(guest, agent, disks).await.map_err(refused)
    }

    /// The directories with descriptors of firmware.
    pub(crate) fn firmware(&self) -> &[PathBuf] {
        &self.firmware
    }

    /// Removes the files of an instance that the node forgets.
    pub(crate) fn forget(&self, uuid: Uuid) {
        for file in RunFile::ALL {
            let path = self.path(uuid, file);
            let removed = match file {
                RunFile::Tpm => std::fs::remove_dir_all(&path),
                _ => std::fs::remove_file(&path),
            };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%uuid, ?file, %error, "a file of an instance stays");
                }
                _ => {}
            }
        }
    }
}

/// The end of a file, of which nobody knows how long a program has made it.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let begin = file.metadata()?.len().saturating_sub(TOLD_BYTES_MAX);
    let mut end = vec![0; usize::try_from(TOLD_BYTES_MAX).unwrap_or_default()];
    let count = file.read_at(&mut end, begin)?;
    end.truncate(count);
    Ok(end)
}

/// Has a guest that stands still get what it needs, and run or go on standing still.
///
/// # Errors
/// It refuses, or it has ended; the text says so.
async fn begin(
    guest: &Guest,
    password: Option<Secret<String>>,
    paused: bool,
    join: impl AsyncFnOnce() -> Result<(), String>,
) -> Result<(), NotBegun> {
    let gone = async {
        let mut standing = guest.standing();
        let ended = standing.wait_for(|now| matches!(now, Standing::Ended(_))).await;
        match ended.as_deref() {
            Ok(Standing::Ended(why)) => why.clone(),
            _ => "it is not followed any more".to_owned(),
        }
    };
    let told = async {
        if let Some(password) = &password {
            let set = guest.ask("set_password", screen::with_password(password)).await;
            set.map_err(|error| NotBegun::Refused(error.to_string()))?;
        }
        join().await.map_err(NotBegun::Copy)?;
        let begin = if paused { "query-status" } else { "cont" };
        let begun = guest.ask(begin, json!({})).await;
        begun.map(drop).map_err(|error| NotBegun::Refused(error.to_string()))
    };
    tokio::select! {
        answer = told => answer,
        why = gone => Err(NotBegun::Refused(why)),
    }
}

/// Why a guest did not begin.
#[derive(Debug, thiserror::Error)]
enum NotBegun {
    /// It refuses, or it has ended.
    #[error("{0}")]
    Refused(String),
    /// A copy of one of its disks cannot be joined.
    #[error("{0}")]
    Copy(String),
}

/// Finds out how this node can help its guests.
fn host() -> Host {
    let opens = |path: &str| File::options().read(true).write(true).open(path).is_ok();
    // The device alone says little: a kernel may have it where the processor cannot run a whole guest.
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = flags.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has_extension = flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm");
    Host { kvm: has_extension && opens(DEVICE), vhost_net: opens(VHOST_NET) }
}

/// Looks whether guests with these parameters start here, with firmware that is described in `directories`.
///
/// # Errors
/// A parameter has a value with which none does.
pub(crate) fn check(parameters: &Parameters, directories: &[PathBuf]) -> Result<(), PlanError> {
    let parameters = Filled(parameters);
    plan::known(parameters)?;
    firmware::wanted(parameters, directories)?;
    for name in [
        "kvm_path",
        "kernel_path",
        "initrd_path",
        "cdrom_image_path",
        "cdrom2_image_path",
        "floppy_image_path",
        "vnc_password_file",
    ] {
        let path = parameters.text(name);
        if !path.is_empty() && !Path::new(path).is_file() {
            let none = if name == "kvm_path" { "" } else { "; `none` is no file" };
            return Err(PlanError::new(
                name,
                format!("there is no file {path} on this node{none}"),
            ));
        }
    }
    tpm::check(parameters)
}
