//! `gnt network info`.

use luxi::method::What;
use luxi::query::Cell;
use model::network::Subnet;

use crate::all_fields;
use crate::details::{self, Detail, Entry};
use crate::error::CliError;
use crate::list::as_json;
use crate::output::{say_json, say_lines};
use crate::selection::Selection;
use crate::session::Session;

/// Addresses of a map that are shown at once.
const MAP_WIDTH: usize = 64;

/// Shows networks by their names, or all.
pub(super) fn run(networks: &[String], json: bool, session: &Session) -> Result<(), CliError> {
    let chosen = Selection::named("name", networks);
    let table = all_fields::ask(What::Network, &chosen, &[], session)?;
    if json {
        return say_json(&as_json(&table));
    }
    let networks = all_fields::entries(What::Network, &table, session, |field, cell| match field {
        "subnets" => subnets(cell),
        "map" => map(cell),
        _ => None,
    });
    say_lines(&details::lines(networks))
}

/// Each subnet with what it has.
fn subnets(cell: &Cell) -> Option<Detail> {
    let subnets: Vec<Subnet> = serde_json::from_value(cell.value()?.clone()).ok()?;
    let of = |subnet: Subnet| {
        let texts = |all: Vec<String>| if all.is_empty() { "-".to_owned() } else { all.join(", ") };
        let ranges = |ranges: &[model::network::IpRange]| {
            texts(ranges.iter().map(ToString::to_string).collect())
        };
        let kept =
            subnet.pre_allocated.iter().map(|(address, owner)| format!("{address} for {owner}"));
        let gateway = subnet.gateway.map_or_else(|| "-".to_owned(), |gateway| gateway.to_string());
        Entry::new(
            subnet.prefix.to_string(),
            Detail::Map(vec![
                Entry::new("gateway", gateway),
                Entry::new("pools", ranges(&subnet.pools)),
                Entry::new("reserved", ranges(&subnet.reserved)),
                Entry::new("kept", texts(kept.collect())),
            ]),
        )
    };
    Some(Detail::Map(subnets.into_iter().map(of).collect()))
}

/// A line for each [`MAP_WIDTH`] addresses, by the number of the first.
fn map(cell: &Cell) -> Option<Detail> {
    let map: Vec<char> = cell.value()?.as_str()?.chars().collect();
    let lines = (0..).step_by(MAP_WIDTH).zip(map.chunks(MAP_WIDTH));
    let line = |(at, chunk): (usize, &[char])| {
        Entry::new(at.to_string(), chunk.iter().collect::<String>())
    };
    Some(Detail::Map(lines.map(line).collect()))
}
