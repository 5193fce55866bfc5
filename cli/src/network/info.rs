//! `gnt network info`.

use luxi::method::{Query, QueryFields, What};
use luxi::query::{Cell, Table};
use model::network::Subnet;

use crate::cells::{self, Look, Units};
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
    let mut client = session.connect()?;
    let known = session.call(&mut client, &QueryFields { what: What::Network, fields: None })?;
    let fields = known.fields.iter().map(|field| field.name.to_string()).collect();
    let chosen = Selection::named("name", networks);
    let table = client.call(&Query { what: What::Network, fields, filter: chosen.filter() })?;
    if json {
        return say_json(&as_json(&table));
    }
    say_lines(&details::lines(entries(&table, session)))
}

fn entries(table: &Table, session: &Session) -> Vec<Vec<Entry>> {
    let look = Look {
        what: What::Network,
        units: Units::H,
        verbose: true,
        times: session.times(),
        own: true,
    };
    let of_row = |row: &Vec<Cell>| {
        let cells = row.iter().zip(&table.fields);
        let entry = cells.map(|(cell, field)| {
            let detail = match field.name.as_ref() {
                "subnets" => subnets(cell),
                "map" => map(cell),
                _ => None,
            };
            let title = field.title.as_ref();
            match detail {
                Some(detail) => Entry::new(title, detail),
                None => Entry::new(title, cells::text(cell, field, look)),
            }
        });
        entry.collect()
    };
    table.data.iter().map(of_row).collect()
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
