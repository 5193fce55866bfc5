//! `gnt ipam`.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use luxi::method::GantryIpam;
use model::OpCode;
use model::ipam::{IpamConfig, IpamError};
use model::opcode::IpamSet;

use crate::error::CliError;
use crate::output::{say, say_json, say_lines};
use crate::session::{Session, read_input, read_object};
use crate::submit::JobArguments;
use crate::table::{self, Column};

/// The verbs of `gnt ipam`.
#[derive(Debug, Subcommand)]
pub(crate) enum Ipam {
    /// Set the rules; refused if addresses of registered machines would change.
    Set {
        /// JSON file with the rules; `-` reads standard input.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Check rules without setting them, and show some of the addresses that they give.
    Check {
        /// JSON file with the rules; `-` reads standard input.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Print the rules as JSON.
    #[command(visible_aliases = ["show", "info", "list"])]
    Get,
}

/// Carries out one verb.
pub(crate) fn run(verb: Ipam, session: &Session) -> Result<(), CliError> {
    match verb {
        Ipam::Set { file, job } => job.run(set(&file)?, session).map(drop),
        Ipam::Check { file } => {
            let config = rules(&file)?;
            say_lines(&sample(&config).join("\n"))?;
            say("The rules can be set, unless they change addresses of registered machines")
        }
        Ipam::Get => match session.ask(&GantryIpam {})? {
            Some(config) => say_json(&config),
            None => Err(CliError::Failed(
                "no address rules are set; `gnt ipam set -f FILE` sets them".to_owned(),
            )),
        },
    }
}

/// The opcode that sets the rules in a file.
pub(crate) fn set(file: &Path) -> Result<OpCode, CliError> {
    Ok(OpCode::IpamSet(IpamSet { config: rules(file)? }))
}

/// The rules in a file, if they can work.
fn rules(file: &Path) -> Result<IpamConfig, CliError> {
    let text = read_input(file)?;
    let config: IpamConfig = read_object(file, &text, "a set of address rules")?;
    let faults = config.faults();
    if faults.is_empty() { Ok(config) } else { Err(CliError::Failed(told(&faults))) }
}

/// Addresses of the first two racks and the last one: of the boot machine, the first and the last
/// other machine; and what of the ranges is leased.
fn sample(config: &IpamConfig) -> Vec<String> {
    let last = config.racks().saturating_sub(1);
    let racks: BTreeSet<u32> = [0, 1.min(last), last].into();
    let first = config.node_index_offset;
    let indices: BTreeSet<u32> = [first, first + 1, config.last_index()].into();
    let mut rows = Vec::new();
    for rack in racks {
        for &index in &indices {
            let machine = config.node_addresses(rack, index).and_then(|ipv4| {
                let ipv4 = ipv4.into_iter().map(IpAddr::from);
                let ipv6 = config.node_ipv6(rack, index)?.into_iter().map(IpAddr::from);
                Ok(words(&ipv4.chain(ipv6).collect::<Vec<_>>()))
            });
            let machine = machine.unwrap_or_else(|error| error.to_string());
            let bmc = config.bmc_address(rack, index).and_then(|ipv4| {
                let ipv6 = config.bmc_ipv6(rack, index)?.map(IpAddr::from);
                Ok(words(&[IpAddr::from(ipv4)].into_iter().chain(ipv6).collect::<Vec<_>>()))
            });
            let bmc = bmc.unwrap_or_else(|_broadcast| "none".to_owned());
            rows.push(vec![rack.to_string(), index.to_string(), machine, bmc]);
        }
        let ranges = config.lease_ranges(rack).unwrap_or_default();
        let leased = ranges.iter().map(|range| format!("{}-{}", range.first, range.last));
        let leased: Vec<_> = leased.collect();
        let gateways: Vec<_> = ranges.iter().map(|range| range.gateway).collect();
        rows.push(vec![rack.to_string(), "leases".to_owned(), words(&leased), String::new()]);
        rows.push(vec![rack.to_string(), "gateway".to_owned(), words(&gateways), String::new()]);
    }
    let column = |title: &str| Column { title: title.to_owned(), right: false };
    let columns = ["Rack", "Index", "Addresses", "BMC"].map(column);
    let mut lines = table::lines(&columns, &rows, true, None);
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines.push(format!("Racks that have room: 0 to {last}"));
    lines
}

/// All faults in one line.
fn told(faults: &[IpamError]) -> String {
    if let [one] = faults {
        return one.to_string();
    }
    let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
    format!("{} rules cannot work: {}", faults.len(), all.join("; "))
}

fn words(all: &[impl Display]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_the_documents_rules() {
        let config = serde_json::from_str(
            r#"{"max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/16", "node-ipv4-range-size": 6,
                "node-ipv4-range-mask": 26, "node-ip-per-node": 3, "node-index-offset": 3,
                "bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-range-size": 5,
                "bmc-ipv4-range-mask": 20, "bmc-ipv4-offset": "0.0.1.0"}"#,
        );
        insta::assert_snapshot!(sample(&config.unwrap()).join("\n"));
    }
}
