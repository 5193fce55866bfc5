//! `gnt ipam`.

use std::path::PathBuf;

use clap::Subcommand;
use luxi::method::GantryIpam;
use model::OpCode;
use model::ipam::IpamConfig;
use model::opcode::IpamSet;

use crate::error::CliError;
use crate::output::say_json;
use crate::session::{Session, read_input, read_json};
use crate::submit::JobArguments;

/// What can be done with the rules of addresses.
#[derive(Debug, Subcommand)]
pub(crate) enum Ipam {
    /// Set the rules; refused while machines are registered, unless they stay as they are.
    Set {
        /// JSON file with the rules; `-` reads standard input.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Print the rules as JSON.
    #[command(visible_aliases = ["show", "info", "list"])]
    Get,
}

/// Carries out one verb.
pub(crate) fn run(verb: Ipam, session: &Session) -> Result<(), CliError> {
    match verb {
        Ipam::Set { file, job } => {
            let text = read_input(&file)?;
            let config: IpamConfig = read_json(&file, &text, "a set of address rules")?;
            config.validate().map_err(|error| CliError::Failed(error.to_string()))?;
            job.run(OpCode::IpamSet(IpamSet { config }), session).map(drop)
        }
        Ipam::Get => match session.ask(&GantryIpam {})? {
            Some(config) => say_json(&config),
            None => Err(CliError::Failed(
                "no address rules are set; `gnt ipam set -f FILE` sets them".to_owned(),
            )),
        },
    }
}
