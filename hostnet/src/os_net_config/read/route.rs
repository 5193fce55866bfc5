//! Core: routes and rules of os-net-config, which it hands to `ip` as text.

use std::collections::BTreeMap;

use model::json::Malformed;

use crate::model::address::{self, ip, network};
use crate::model::written::{number, read_rule, whole_prefix, wrong};
use crate::os_net_config::entry::{Route, Table};

/// The tables that `ip` knows by name.
const TABLES: &[(&str, i64)] = &[("main", 254), ("default", 253), ("local", 255)];

pub(super) fn route(
    place: &str,
    route: Route,
    tables: &BTreeMap<String, i64>,
) -> Result<address::Route, Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    let via = ip(&route.next_hop).map_err(|why| wrong(&at("next_hop"), why))?;
    let to = match (&route.ip_netmask, route.default) {
        (Some(text), _) => network(text).map_err(|why| wrong(&at("ip_netmask"), why))?,
        (None, true) => whole_prefix(via),
        (None, false) => return Err(wrong(place, "a route has `ip_netmask` or `default: true`")),
    };
    if route.default && to.prefix_len() != 0 {
        return Err(wrong(&at("ip_netmask"), format!("{to} is not the default")));
    }
    let (mut metric, mut table, mut on_link) = (route.metric, None, false);
    if let Some(named) = &route.table {
        table = Some(number_of(&at("table"), named, tables)?);
    }
    let place = at("route_options");
    let options = route.route_options.unwrap_or_default();
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "onlink" => on_link = true,
            "metric" => metric = Some(value(&place, word, words.next())?),
            "table" => {
                let named = Table::Name(words.next().unwrap_or_default().to_owned());
                table = Some(number_of(&place, &named, tables)?);
            }
            _ => return Err(wrong(&place, format!("`{word}` has no counterpart here"))),
        }
    }
    let number = |field: &str, value: Option<i64>, from| {
        value.map(|value| number(&at(field), value, from..=0xFFFF_FFFF)).transpose()
    };
    let (metric, table) = (number("metric", metric, 0)?, number("table", table, 1)?);
    Ok(address::Route { to, via: Some(via), metric, table, on_link })
}

/// Reads `from 192.0.2.0/24 table 200`.
pub(super) fn rule(
    place: &str,
    text: &str,
    tables: &BTreeMap<String, i64>,
) -> Result<address::Rule, Malformed> {
    let (mut from, mut to, mut table, mut priority) = (None, None, None, None);
    let mut words = text.split_whitespace().skip_while(|word| *word == "add");
    while let Some(word) = words.next() {
        match word {
            "from" => from = words.next().filter(|net| *net != "all"),
            "to" => to = words.next().filter(|net| *net != "all"),
            "table" | "lookup" => {
                let named = Table::Name(words.next().unwrap_or_default().to_owned());
                table = Some(number_of(place, &named, tables)?);
            }
            "priority" | "pref" | "prio" => priority = Some(value(place, word, words.next())?),
            _ => return Err(wrong(place, format!("`{word}` has no counterpart here"))),
        }
    }
    let table = table.ok_or_else(|| wrong(place, "a rule names its table"))?;
    read_rule(place, (from, to), table, priority)
}

fn value(place: &str, word: &str, text: Option<&str>) -> Result<i64, Malformed> {
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| wrong(place, format!("`{word}` is followed by a number")))
}

fn number_of(place: &str, table: &Table, tables: &BTreeMap<String, i64>) -> Result<i64, Malformed> {
    let name = match table {
        Table::Number(number) => return Ok(*number),
        Table::Name(name) => name,
    };
    let known = TABLES.iter().find(|(known, _)| known == name).map(|(_, number)| *number);
    let found = tables.get(name).copied().or(known).or_else(|| name.parse().ok());
    found.ok_or_else(|| wrong(place, format!("there is no table `{name}`")))
}
