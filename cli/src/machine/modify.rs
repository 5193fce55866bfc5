//! What `modify` changes.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use model::opcode::{Clearable, MachineSetParams};
use model::{MacAddress, Serial, Timestamp, Uuid, Word};

use super::label;
use crate::error::CliError;

/// The names of what can be forgotten.
const CLEARABLE: [&str; 7] = {
    let [(a, _), (b, _), (c, _), (d, _), (e, _), (f, _), (g, _)] = Clearable::ALL;
    [a, b, c, d, e, f, g]
};

/// Changes of one machine.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Changes {
    /// Set a label; may be given several times.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Remove a label; may be given several times.
    #[arg(long = "remove-label", value_name = "NAME")]
    removed: Vec<String>,
    /// Its role; a machine neither becomes nor ceases to be its rack's `boot` machine.
    #[arg(long, value_name = "WORD")]
    role: Option<String>,
    /// Its product name.
    #[arg(long, value_name = "TEXT")]
    product: Option<String>,
    /// Where it stands.
    #[arg(long, value_name = "TEXT")]
    datacenter: Option<String>,
    /// Add an Ethernet address; may be given several times.
    #[arg(long = "mac", visible_alias = "add-mac", value_name = "ADDRESS")]
    macs: Vec<MacAddress>,
    /// Remove an Ethernet address; may be given several times.
    #[arg(long = "remove-mac", value_name = "ADDRESS")]
    removed_macs: Vec<MacAddress>,
    /// Name a card as network templates call it; may be given several times.
    #[arg(long = "interface", value_name = "NAME=ADDRESS", value_parser = interface)]
    interfaces: Vec<(Word, MacAddress)>,
    /// Forget the name of a card; may be given several times.
    #[arg(long = "remove-interface", value_name = "NAME")]
    removed_interfaces: Vec<Word>,
    /// Its system UUID, as its firmware tells it.
    #[arg(long, value_name = "UUID")]
    uuid: Option<Uuid>,
    /// The type of its management controller, such as IPMI-2.0.
    #[arg(long, value_name = "WORD")]
    bmc_type: Option<String>,
    /// The address of its management controller, if it is not that of the rules.
    #[arg(long, value_name = "ADDRESS")]
    bmc_ipv4: Option<Ipv4Addr>,
    /// The IPv6 address of its management controller.
    #[arg(long, value_name = "ADDRESS")]
    bmc_ipv6: Option<Ipv6Addr>,
    /// When it is to be taken out of use, as 2027-03-31 (UTC).
    #[arg(long, value_name = "DATE", value_parser = Timestamp::of_date)]
    retire_date: Option<Timestamp>,
    /// Why you work on it: until `--clear maintenance` its deadlines do not count.
    #[arg(long, value_name = "TEXT")]
    maintenance: Option<String>,
    /// Forget a field; may be given several times.
    #[arg(long, value_name = "FIELD", value_parser = PossibleValuesParser::new(CLEARABLE).map(cleared))]
    clear: Vec<Clearable>,
}

#[expect(clippy::needless_pass_by_value, reason = "as a parser of arguments gives it")]
fn cleared(name: String) -> Clearable {
    let found = Clearable::ALL.into_iter().find(|(other, _)| *other == name);
    found.expect("the parser takes no other").1
}

fn interface(text: &str) -> Result<(Word, MacAddress), String> {
    let (name, mac) = text.split_once('=').ok_or("expected NAME=ADDRESS")?;
    let name = name.parse().map_err(|error| format!("{error}"))?;
    Ok((name, mac.parse().map_err(|error| format!("{error}"))?))
}

/// Names of cards of many machines, as a mapping of Metal3 has them.
///
/// # Errors
/// The file does not read.
pub(super) fn interfaces(path: &Path, text: &str) -> Result<Vec<MachineSetParams>, CliError> {
    let all: BTreeMap<Serial, BTreeMap<Word, MacAddress>> = serde_saphyr::from_str(text)
        .map_err(|error| CliError::Failed(format!("{}: {error}", path.display())))?;
    let op = |(serial, cards): (Serial, BTreeMap<Word, MacAddress>)| MachineSetParams {
        serial: serial.to_string(),
        interfaces: cards.into_iter().map(|(name, mac)| (name, Some(mac))).collect(),
        ..MachineSetParams::default()
    };
    Ok(all.into_iter().map(op).collect())
}

impl Changes {
    /// The opcode that makes them.
    pub(super) fn of(self, serial: &Serial) -> MachineSetParams {
        let set = self.labels.into_iter().map(|(name, value)| (name, Some(value)));
        MachineSetParams {
            serial: serial.to_string(),
            labels: self.removed.into_iter().map(|name| (name, None)).chain(set).collect(),
            role: self.role,
            product: self.product,
            datacenter: self.datacenter,
            add_mac: self.macs,
            remove_mac: self.removed_macs,
            interfaces: {
                let set = self.interfaces.into_iter().map(|(name, mac)| (name, Some(mac)));
                self.removed_interfaces.into_iter().map(|name| (name, None)).chain(set).collect()
            },
            uuid: self.uuid,
            bmc_type: self.bmc_type,
            bmc_ipv4: self.bmc_ipv4,
            bmc_ipv6: self.bmc_ipv6,
            retire_date: self.retire_date,
            maintenance: self.maintenance,
            clear: self.clear,
            ..MachineSetParams::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        changes: Changes,
    }

    #[test]
    fn changes() {
        let unchanged = serde_json::to_value(MachineSetParams::default()).unwrap();
        for (line, wanted) in [
            ("--role storage --product R640", json!({"role": "storage", "product": "R640"})),
            ("--label a=1 --remove-label b", json!({"labels": {"a": "1", "b": null}})),
            (
                "--mac 5254.0000.0001 --remove-mac 525400000002",
                json!({"add_mac": ["52:54:00:00:00:01"], "remove_mac": ["52:54:00:00:00:02"]}),
            ),
            ("--bmc-type IPMI-2.0", json!({"bmc_type": "IPMI-2.0"})),
            (
                "--bmc-ipv4 192.0.2.1 --bmc-ipv6 ::2",
                json!({"bmc_ipv4": "192.0.2.1", "bmc_ipv6": "::2"}),
            ),
            ("--retire-date 2026-11-20", json!({"retire_date": [1_795_132_800, 0]})),
            ("--maintenance fans", json!({"maintenance": "fans"})),
            ("--clear uuid --clear bmc-ipv4", json!({"clear": ["uuid", "bmc-ipv4"]})),
        ] {
            let arguments = ["modify"].into_iter().chain(line.split_whitespace());
            let op = Line::parse_from(arguments).changes.of(&"s/1".parse().unwrap());
            let mut wanted = wanted.as_object().unwrap().clone();
            wanted.insert("serial".to_owned(), "s/1".into());
            let Value::Object(mut op) = serde_json::to_value(op).unwrap() else { panic!() };
            op.retain(|name, value| unchanged[name.as_str()] != *value);
            assert_eq!(op, wanted, "{line}");
        }
        for wrong in ["", "--mac x", "--clear serial", "--retire-date soon", "--uuid 1"] {
            let arguments = ["modify"].into_iter().chain(wrong.split_whitespace());
            assert!(Line::try_parse_from(arguments).is_err(), "{wrong}");
        }
    }
}
