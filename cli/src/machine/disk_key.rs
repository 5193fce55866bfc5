//! `gnt machine disk-key`.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use luxi::method::{GantryDiskKey, GantrySeal, StagedSecret};
use model::disk_key::{DiskKeyId, DiskName};
use model::opcode::{MachineDiskKeyAdd, MachineDiskKeysRemove};
use model::{OpCode, Secret, Serial};

use crate::error::CliError;
use crate::session::{Session, confirm, read_bytes};
use crate::submit::JobArguments;

/// The verbs of `gnt machine disk-key`.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskKeys {
    /// Keep the key of a disk. The same key again is the same success; another one is refused.
    Add {
        /// Its machine.
        serial: Serial,
        /// The disk, by a name that stays.
        disk: DiskName,
        /// File with the key, 1 to 4,096 bytes; `-` reads standard input.
        file: PathBuf,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Write the key of a disk to standard output; for root.
    Get {
        /// Its machine.
        serial: Serial,
        /// The disk.
        disk: DiskName,
    },
    /// Forget the keys of all disks of a machine: what is on them cannot be read any more.
    Remove {
        /// The machine.
        serial: Serial,
        /// Do not ask.
        #[arg(short = 'f', long, visible_alias = "force")]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// Carries out one verb.
pub(super) fn run(verb: DiskKeys, session: &Session) -> Result<(), CliError> {
    match verb {
        DiskKeys::Add { serial, disk, file, job } => {
            let key = STANDARD.encode(read_bytes(&file)?);
            let purpose = DiskKeyId { serial: serial.clone(), disk: disk.clone() }.purpose();
            let secret = StagedSecret(Secret::new(key));
            let sealed = session.ask(&GantrySeal { purpose, secret })?;
            let op = MachineDiskKeyAdd { serial: serial.to_string(), disk, sealed };
            job.run(OpCode::MachineDiskKeyAdd(op), session).map(drop)
        }
        DiskKeys::Get { serial, disk } => get(&serial, &disk, session),
        DiskKeys::Remove { serial, yes, job } => {
            let question = format!("Forget all keys of the disks of {serial}?");
            confirm(&question, yes || job.dry_run)?;
            let op = MachineDiskKeysRemove { serial: serial.to_string(), only_retiring: false };
            job.run(OpCode::MachineDiskKeysRemove(op), session).map(drop)
        }
    }
}

/// Writes a key as it is, without a newline.
fn get(serial: &Serial, disk: &DiskName, session: &Session) -> Result<(), CliError> {
    let call = GantryDiskKey { serial: serial.to_string(), disk: disk.to_string() };
    let missing = || CliError::Failed(format!("no key of disk {disk} of machine {serial} is kept"));
    let StagedSecret(key) = session.ask(&call)?.ok_or_else(missing)?;
    let bytes = STANDARD.decode(key.expose());
    let bytes = bytes.map_err(|error| CliError::Failed(format!("the master's answer: {error}")))?;
    let mut output = std::io::stdout().lock();
    let written = output.write_all(&bytes).and_then(|()| match output.is_terminal() {
        true => output.write_all(b"\n"),
        false => output.flush(),
    });
    written.map_err(|error| CliError::Read { path: Path::new("standard output").into(), error })
}
