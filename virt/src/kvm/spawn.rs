//! Starts QEMU: opens what it is given, becomes nobody, and lets go of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use command_fds::{CommandFdExt as _, FdMapping};
use model::instance::disk::DiskMode;
use model::instance::launch::Launch;
use rustix::fs::{Mode, OFlags};
use stdx::process::Process;

use super::firmware::Firmware;
use super::nics::Card;
use super::parts::queues;
use super::plan::Plan;
use super::words::{FIRST_DESCRIPTOR, Filled, Given};
use super::{Kvm, RunFile};
use crate::VirtError;
use crate::confine::Confinement;
use crate::records::io as failed;

/// The right of everybody to read a file.
const OTHERS_READ: u32 = 0o004;
/// Mode of files that a guest writes and its operator reads.
pub(super) const LOG_MODE: u32 = 0o640;
/// Most bytes of variables: a flash of 64 MiB is the largest of QEMU's machines.
const VARIABLES_BYTES_MAX: u64 = 64 << 20;
/// Mode of the seed and of variables: they may hold what nobody else is to know.
const SEED_MODE: u32 = 0o600;
/// Mode of memory in a file: it has no name, and QEMU opens it anew.
const MEMORY_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::ROTH).union(Mode::WOTH);

/// Parts of a guest that are there before it.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    pub(super) cards: &'a mut [Card],
    /// Its end of the connection to its TPM.
    pub(super) tpm: Option<OwnedFd>,
}

/// Starts QEMU by a plan. It stands still until its monitor says otherwise.
///
/// # Errors
/// Something that it needs cannot be had, or it does not start.
pub(super) fn spawn(
    kvm: &Kvm,
    launch: &Launch,
    plan: &Plan,
    mut prepared: Prepared<'_>,
) -> Result<Child, VirtError> {
    let taken = kvm.users.take(&plan.user)?;
    let (user, group) = (taken.user, taken.group);
    let mut descriptors = Vec::new();
    for (place, given) in plan.given.iter().enumerate() {
        let parent_fd = open(kvm, launch, given, &mut prepared)?;
        let child_fd = FIRST_DESCRIPTOR + i32::try_from(place).unwrap_or_default();
        descriptors.push(FdMapping { parent_fd, child_fd });
    }
    let log = kvm.path(launch.uuid, RunFile::Log);
    let mut words = OpenOptions::new();
    words.create(true).write(true).truncate(true).mode(LOG_MODE);
    // Its TPM writes here, too, each behind the other.
    let words = words.custom_flags(nix::libc::O_APPEND).open(&log);
    let words = words.map_err(failed("open", &log))?;
    let confinement = Confinement { user, group, groups: groups()?, directory: None };
    let mut command = confinement.command(&kvm.agent_program, &plan.program);
    command.args(&plan.words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words).process_group(0);
    command
        .fd_mappings(descriptors)
        .map_err(|error| failed("give descriptors to", &plan.program)(io::Error::other(error)))?;
    let child = command.spawn().map_err(failed("start", &plan.program))?;
    if let Some(process) = Process::of(child.id()) {
        taken.keep(process);
    }
    Ok(child)
}

/// The groups that QEMU gets beside its own: that of the device by which a processor runs guests.
fn groups() -> Result<Vec<u32>, VirtError> {
    let device = Path::new(super::DEVICE);
    match std::fs::metadata(device).map(|device| device.gid()) {
        Ok(0) => Ok(Vec::new()),
        Ok(group) => Ok(vec![group]),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed("look at", device)(error)),
    }
}

/// Opens a kernel or an image for a guest. It reads all of that, so only what everybody on the node may read
/// is one: no key, and no disk of another instance.
fn image(path: &Path) -> Result<File, VirtError> {
    let mut options = OpenOptions::new();
    // A pipe would wait for its other end.
    options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    let file = options.open(path).map_err(failed("open", path))?;
    let found = file.metadata().map_err(failed("look at", path))?;
    let refused = |why: &str| Err(failed("give a guest", path)(io::Error::other(why.to_owned())));
    if !found.is_file() {
        return refused("it is no file");
    }
    if found.mode() & OTHERS_READ == 0 {
        return refused(
            "a guest reads all of it, and not everybody on this node may; `chmod o+r` says that everybody may",
        );
    }
    Ok(file)
}

fn open(
    kvm: &Kvm,
    launch: &Launch,
    given: &Given,
    prepared: &mut Prepared<'_>,
) -> Result<OwnedFd, VirtError> {
    let uuid = launch.uuid;
    Ok(match given {
        Given::Monitor => listen(&kvm.path(uuid, RunFile::Monitor))?,
        Given::Console => listen(&kvm.path(uuid, RunFile::Console))?,
        Given::GuestAgent => listen(&kvm.path(uuid, RunFile::GuestAgent))?,
        Given::ConsoleLog => {
            let path = kvm.path(uuid, RunFile::ConsoleLog);
            let mut options = OpenOptions::new();
            options.create(true).append(true).mode(LOG_MODE);
            options.open(&path).map_err(failed("open", &path))?.into()
        }
        Given::Disk(disk) => kvm.storage.open(disk, disk.mode == DiskMode::ReadWrite)?.into(),
        Given::Image(path) => image(Path::new(path))?.into(),
        Given::Variables(firmware) => {
            let kind = match firmware.is_secure {
                true => RunFile::SecureVariables,
                false => RunFile::Variables,
            };
            variables(&kvm.path(uuid, kind), firmware)?.into()
        }
        Given::Seed => {
            let path = kvm.path(uuid, RunFile::Seed);
            let seed = launch.seed.as_ref().map(crate::seed::disk).transpose();
            let seed = seed.map_err(failed("make", &path))?.unwrap_or_default();
            stdx::atomic::write(&path, &seed, SEED_MODE).map_err(failed("write", &path))?;
            File::open(&path).map_err(failed("open", &path))?.into()
        }
        Given::Memory(directory) => {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            let file = rustix::fs::open(directory, flags, MEMORY_MODE);
            file.map_err(|error| failed("make memory in", directory)(error.into()))?
        }
        Given::Queue(card) => {
            let queue = prepared.cards.get_mut(*card).and_then(Card::queue);
            let count = queues(Filled(&launch.hvparams));
            queue.ok_or_else(|| {
                VirtError::User(format!("card {card} has fewer than {count} queues"))
            })?
        }
        Given::VhostNet => {
            let path = Path::new(super::VHOST_NET);
            let file = OpenOptions::new().read(true).write(true).open(path);
            file.map_err(failed("open", path))?.into()
        }
        Given::Tpm => prepared
            .tpm
            .take()
            .ok_or_else(|| VirtError::User("no TPM was made for it".to_owned()))?,
    })
}

/// The variables of a guest's firmware: those of its last run, or new ones.
fn variables(path: &Path, firmware: &Firmware) -> Result<File, VirtError> {
    let open = || OpenOptions::new().read(true).write(true).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.map_err(failed("open", path)),
    }
    let template = &firmware.template;
    let length = std::fs::metadata(template).map_err(failed("look at", template))?.len();
    if length > VARIABLES_BYTES_MAX {
        let error = io::Error::other(format!("{length} bytes are no variables of firmware"));
        return Err(failed("take", template)(error));
    }
    let new = std::fs::read(template).map_err(failed("read", template))?;
    stdx::atomic::write(path, &new, SEED_MODE).map_err(failed("write", path))?;
    open().map_err(failed("open", path))
}

/// A listening socket at a path, which need not be free.
fn listen(path: &Path) -> Result<OwnedFd, VirtError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", path)(error));
        }
        _ => {}
    }
    Ok(UnixListener::bind(path).map_err(failed("listen at", path))?.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_guest_gets_what_everybody_may_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        stdx::atomic::write(&path, b"content", 0o640).unwrap();
        let refused = image(&path).map(drop).unwrap_err();
        assert!(stdx::daemon::chain(&refused).contains("chmod o+r"), "{refused:?}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        image(&path).unwrap();
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
        assert!(image(&pipe).is_err(), "it is not waited for");
    }
}
