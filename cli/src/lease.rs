//! `gnt lease`.

use clap::Subcommand;
use luxi::method::What;

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::session::Session;

/// What `list` shows unless told otherwise.
const USUAL: [&str; 7] = ["rack", "ipv4", "mac", "serial", "state", "until", "agent"];

/// What can be done with leases.
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
        Lease::ListFields(arguments) => arguments.print(What::Lease, session),
    }
}
