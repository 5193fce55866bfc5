//! `gnt network render` and `diff`.

use clap::Args;
use luxi::method::GantryNetworkFiles;
use model::network::template::NetworkFile;
use similar::TextDiff;

use crate::error::CliError;
use crate::output::{print, say_json};
use crate::session::Session;

/// Arguments of `render`.
#[derive(Debug, Args)]
pub(crate) struct RenderArguments {
    /// The machine's serial number.
    serial: String,
    /// netplan, networkd, network-manager, os-net-config, network-data or nmstate.
    #[arg(long, value_name = "WORD", default_value = "netplan")]
    format: String,
    /// A version of the template of its role, instead of the one that it has.
    #[arg(long, value_name = "NUMBER")]
    version: Option<u32>,
    /// Print a JSON list with an object for each file.
    #[arg(long)]
    json: bool,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 nothing would change, 1 something would.")]
pub(crate) struct DiffArguments {
    /// The machine's serial number.
    serial: String,
    /// The version to compare with the one that it has.
    #[arg(long, value_name = "NUMBER")]
    version: u32,
    /// The form in which both are written.
    #[arg(long, value_name = "WORD", default_value = "netplan")]
    format: String,
}

fn files(
    serial: &str,
    version: Option<u32>,
    format: &str,
    session: &Session,
) -> Result<Vec<NetworkFile>, CliError> {
    let (serial, format) = (serial.to_owned(), format.to_owned());
    session.ask(&GantryNetworkFiles { serial, version, format })
}

/// Prints the files of a machine's network, each below its path.
pub(super) fn render(arguments: &RenderArguments, session: &Session) -> Result<(), CliError> {
    let RenderArguments { serial, format, version, json } = arguments;
    let files = files(serial, *version, format, session)?;
    if *json {
        return say_json(&files);
    }
    print(text(&files).trim_end())
}

/// The files as one text; a single one has no heading.
fn text(files: &[NetworkFile]) -> String {
    match files {
        [file] => file.content.clone(),
        files => files.iter().map(|file| format!("# /{}\n{}\n", file.path, file.content)).collect(),
    }
}

/// Prints what another version would change.
pub(super) fn diff(arguments: &DiffArguments, session: &Session) -> Result<(), CliError> {
    let DiffArguments { serial, version, format } = arguments;
    let before = text(&files(serial, None, format, session)?);
    let after = text(&files(serial, Some(*version), format, session)?);
    if before == after {
        return Ok(());
    }
    let diff = TextDiff::from_lines(&before, &after);
    let diff =
        diff.unified_diff().header(serial, &format!("{serial} with version {version}")).to_string();
    print(diff.trim_end())?;
    Err(CliError::Told)
}
