//! The TPM of a guest: a `swtpm` beside its QEMU, which talks with it by a socket and ends with it.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use command_fds::{CommandFdExt as _, FdMapping};
use model::Uuid;
use stdx::process::Process;
use tokio::time::timeout;

use super::plan::{Plan, PlanError};
use super::spawn::LOG_MODE;
use super::users::shared;
use super::words::{FIRST_DESCRIPTOR, Filled, Given};
use super::{Kvm, RunFile};
use crate::confine::{Confinement, DIRECTORY};
use crate::records::io as failed;
use crate::{VirtError, keys};

const PROGRAM: &str = "/usr/bin/swtpm";
/// How long it may take to end after its QEMU: it writes each change at once, and needs a millisecond.
const ENDS: Duration = Duration::from_secs(2);
/// Mode of the directory of its state, beside the list of who else may enter it.
const DIRECTORY_MODE: u32 = 0o700;

/// Looks whether a guest with these parameters can have its TPM here.
///
/// # Errors
/// It has one, and its program is not here.
pub(super) fn check(parameters: Filled<'_>) -> Result<(), PlanError> {
    if parameters.flag("tpm") && !Path::new(PROGRAM).is_file() {
        let why = format!("there is no {PROGRAM} on this node; it is in the package swtpm");
        return Err(PlanError::new("tpm", why));
    }
    Ok(())
}

/// A TPM before it runs.
#[derive(Debug)]
pub(super) struct Tpm {
    uuid: Uuid,
    /// Its own end of the connection.
    own: OwnedFd,
    /// QEMU's end, until it is taken.
    other: Option<OwnedFd>,
}

impl Tpm {
    /// The TPM of a plan, if it has one.
    ///
    /// # Errors
    /// There is no connection.
    pub(super) fn of(plan: &Plan, uuid: Uuid) -> Result<Option<Self>, VirtError> {
        if !plan.given.contains(&Given::Tpm) {
            return Ok(None);
        }
        let pair = UnixStream::pair().map_err(failed("make a connection to", Path::new(PROGRAM)));
        let (own, other) = pair?;
        Ok(Some(Self { uuid, own: own.into(), other: Some(other.into()) }))
    }

    /// QEMU's end.
    pub(super) fn other_end(&mut self) -> Option<OwnedFd> {
        self.other.take()
    }

    /// Starts it, after its QEMU: one whose other end closes before they talked would not end by itself. It is
    /// the user that all guests share: its state outlives the user of a run.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start(self, kvm: &Kvm) -> Result<Running, VirtError> {
        let (user, group) = shared()?;
        let path = kvm.path(self.uuid, RunFile::Tpm);
        let directory = state(&path, user)?;
        let log = kvm.path(self.uuid, RunFile::Log);
        let words = OpenOptions::new().create(true).append(true).mode(LOG_MODE).open(&log);
        let words = words.map_err(failed("open", &log))?;
        let (control, state) = (FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + 1);
        let confinement = Confinement { user, group, groups: Vec::new(), directory: Some(state) };
        let mut command = confinement.command(&kvm.agent_program, Path::new(PROGRAM));
        command.args(["socket", "--tpm2", "--terminate", "--ctrl"]);
        command.arg(format!("type=unixio,clientfd={control}"));
        command.args(["--tpmstate", &format!("dir={DIRECTORY},mode=0600")]).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words);
        let program = Path::new(PROGRAM);
        let given = [(self.own, control), (directory, state)];
        let given = given.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
        let with = command.fd_mappings(given.into());
        with.map_err(|error| failed("give descriptors to", program)(io::Error::other(error)))?;
        Ok(Running(command.spawn().map_err(failed("start", program))?))
    }
}

/// A TPM that runs.
#[derive(Debug)]
pub(super) struct Running(Child);

impl Running {
    /// Waits for its end after that of its QEMU, so that the next one finds its state free.
    pub(super) async fn end(mut self) {
        if let Some(process) = Process::of(self.0.id())
            && timeout(ENDS, process.ended()).await.is_err()
            && let Err(error) = process.kill()
        {
            tracing::warn!(%error, "the TPM of a guest that has ended goes on");
            return;
        }
        if let Err(error) = stdx::aside(|| self.0.wait()) {
            tracing::warn!(%error, "nobody tells how the TPM of a guest ended");
        }
    }
}

/// Opens the directory of a TPM's state, which the guest's user may enter.
///
/// It is the agent's own, so that it can remove it: an agent may give nothing away, and needs no right for a
/// list of access.
fn state(path: &Path, user: u32) -> Result<OwnedFd, VirtError> {
    match std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("make the directory", path)(error));
        }
        _ => {}
    }
    let directory = std::fs::File::open(path).map_err(failed("open", path))?;
    keys::share(&directory, path, Some((user, keys::Rights::All)))?;
    Ok(directory.into())
}
