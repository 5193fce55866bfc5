//! `gnt lease`.

use std::net::Ipv4Addr;

use clap::Subcommand;
use luxi::method::What;
use model::OpCode;
use model::opcode::LeaseRelease;
use serde_json::Value;

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::output::say;
use crate::session::Session;
use crate::submit::JobArguments;

/// The fields that `list` shows by default.
const USUAL: [&str; 7] = ["rack", "ipv4", "mac", "serial", "state", "until", "agent"];

/// The verbs of `gnt lease`.
#[derive(Debug, Subcommand)]
pub(crate) enum Lease {
    /// List the addresses that agents leased, as far as the master knows.
    List {
        /// Only these addresses.
        addresses: Vec<String>,
        /// Only those in this rack; may be given several times.
        #[arg(long = "rack", value_name = "NUMBER")]
        racks: Vec<u32>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// End the lease of an address; its host asks for another one when it renews.
    #[command(
        after_help = "Make sure that no host uses the address any more: another one may get it."
    )]
    Release {
        /// The address.
        address: Ipv4Addr,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
}

/// Carries out one verb.
pub(crate) fn run(verb: Lease, session: &Session) -> Result<(), CliError> {
    match verb {
        Lease::List { addresses, racks, list } => {
            let racks = racks.into_iter().map(|rack| u64::from(rack).into()).collect();
            let chosen = list.chosen(&addresses, Named::By("ipv4"))?.with("rack", racks);
            list.print(What::Lease, list.fields(&USUAL), &chosen, session)
        }
        Lease::Release { address, job } => {
            let done = job.run(OpCode::LeaseRelease(LeaseRelease { address }), session)?;
            match done.as_ref().and_then(Value::as_str) {
                Some(client) => say(format!("{client} had {address}.")),
                None => Ok(()),
            }
        }
        Lease::ListFields(arguments) => arguments.print(What::Lease, session),
    }
}
