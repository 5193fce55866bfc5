//! `gnt dhcp`.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use luxi::method::GantryDhcp;
use model::OpCode;
use model::dhcp::DhcpConfig;
use model::opcode::DhcpSet;

use crate::error::CliError;
use crate::output::say_json;
use crate::session::{Session, read_input, read_object};
use crate::submit::JobArguments;

/// The verbs of `gnt dhcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum Dhcp {
    /// Set how agents serve DHCP; what the file leaves out gets its default.
    Set {
        /// JSON file with the settings; `-` reads standard input.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Print the settings as JSON, with those that have their defaults.
    #[command(visible_aliases = ["show", "info", "list"])]
    Get,
}

/// Carries out one verb.
pub(crate) fn run(verb: Dhcp, session: &Session) -> Result<(), CliError> {
    match verb {
        Dhcp::Set { file, job } => job.run(set(&file)?, session).map(drop),
        Dhcp::Get => say_json(&session.ask(&GantryDhcp {})?),
    }
}

/// The opcode that sets the settings in a file.
pub(crate) fn set(file: &Path) -> Result<OpCode, CliError> {
    Ok(OpCode::DhcpSet(DhcpSet { config: settings(file)? }))
}

/// The settings in a file, if they can work.
fn settings(file: &Path) -> Result<DhcpConfig, CliError> {
    let text = read_input(file)?;
    let config: DhcpConfig = read_object(file, &text, "settings of DHCP")?;
    config.check().map_err(|error| CliError::Failed(error.to_string()))?;
    Ok(config)
}
