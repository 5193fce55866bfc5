//! `gnt cluster export`, and `import`, which is the daemon's.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use luxi::ClientError;
use luxi::method::{GantryExport, GantryExportPiece, StagedSecret};
use model::Secret;
use stdx::atomic::NewFile;

use super::become_masterd;
use crate::error::{CliError, Exit};
use crate::keys;
use crate::output::say;
use crate::session::{Session, read_input};

/// Mode bits of an export: it tells everything of a cluster.
const MODE: u32 = 0o600;

/// How an export treats the secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Secrets {
    /// They are left out.
    Purge,
    /// They are sealed with a passphrase.
    Seal,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The file; it must not be there.
    file: PathBuf,
    /// Leave secrets out, or seal them with a passphrase, which is for root.
    #[arg(long, value_name = "purge|seal", default_value = "purge", hide_possible_values = true)]
    secrets: Secrets,
    /// With `--secrets seal`: the passphrase is the first line of this file, `-` for standard input; it
    /// is asked for where no file is given.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The file that `gnt cluster export` wrote.
    #[arg(allow_hyphen_values = true)]
    file: OsString,
    /// --node-name NAME, --passphrase-file FILE; --help shows all.
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<OsString>,
}

/// Writes the whole store of the master that runs, or of this machine's that is stopped, to a file.
pub(super) fn export(arguments: ExportArguments, session: &Session) -> Result<(), CliError> {
    let ExportArguments { file, secrets, passphrase_file } = arguments;
    if secrets == Secrets::Purge && passphrase_file.is_some() {
        let what = "a passphrase seals secrets, and these are left out: add `--secrets seal`";
        return Err(CliError::Usage(what.to_owned()));
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => CliError::ExportExists(file.clone()),
        _ => CliError::Write { path: file.clone(), error },
    };
    let mut client = match session.reach() {
        Ok(client) => client,
        Err(ClientError::NoSocket { .. } | ClientError::Refused { .. })
            if session.layout().data().exists() && !session.has_own_socket() =>
        {
            let mut words = vec![file.into_os_string()];
            if secrets == Secrets::Seal {
                words.extend(["--secrets", "seal"].map(OsString::from));
            }
            if let Some(path) = passphrase_file {
                words.extend(["--passphrase-file".into(), path.into_os_string()]);
            }
            return Err(become_masterd("export", words, session));
        }
        Err(error) => return Err(error.into()),
    };
    let passphrase = match secrets {
        Secrets::Purge => None,
        Secrets::Seal => Some(StagedSecret(passphrase(passphrase_file.as_deref())?)),
    };
    let mut new = NewFile::begin(&file, MODE).map_err(failed)?;
    let id = client.call(&GantryExport { passphrase })?;
    let mut offset = 0;
    loop {
        let piece = client.call(&GantryExportPiece { id: id.clone(), offset })?;
        if !piece.more {
            break;
        }
        let bytes = STANDARD.decode(&piece.data);
        let bytes = bytes.map_err(|error| failed(io::Error::other(error)))?;
        offset += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        new.write_all(&bytes).map_err(failed)?;
    }
    new.finish().map_err(failed)?;
    let path = file.display();
    match secrets {
        Secrets::Purge => say(format_args!(
            "Exported {offset} bytes to {path}, without the secrets of the cluster: who imports it \
             makes a new authority."
        )),
        Secrets::Seal => say(format_args!(
            "Exported {offset} bytes to {path}; its secrets open with the passphrase alone."
        )),
    }
}

/// Makes the store of this machine of an export.
pub(super) fn import(arguments: ImportArguments, session: &Session) -> CliError {
    let ImportArguments { file, mut options } = arguments;
    options.insert(0, file);
    become_masterd("import", options, session)
}

fn passphrase(file: Option<&Path>) -> Result<Secret<String>, CliError> {
    if let Some(path) = file {
        let text = read_input(path)?;
        return Ok(Secret::new(text.lines().next().unwrap_or_default().to_owned()));
    }
    let ask = |prompt: &str| {
        let typed = match keys::secret(prompt) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Err(CliError::Ended(Exit::INTERRUPTED));
            }
            typed => typed?,
        };
        typed.ok_or_else(|| {
            CliError::Usage(
                "there is no terminal to ask for a passphrase: --passphrase-file".to_owned(),
            )
        })
    };
    let first = ask("Passphrase of the export: ")?;
    if ask("Once more: ")? != first {
        return Err(CliError::Usage("these are two different passphrases".to_owned()));
    }
    Ok(Secret::new(first))
}
