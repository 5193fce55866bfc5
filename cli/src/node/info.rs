//! `gnt node info`: what Ganeti's shows, then what is ours.

use luxi::method::{Query, What};
use luxi::query::{Cell, FieldKind};
use serde_json::Value;

use crate::cells::{self, Look, Units};
use crate::details::{self, Detail, Entry};
use crate::error::CliError;
use crate::list::as_json;
use crate::output::{say_json, say_lines};
use crate::selection::Selection;
use crate::session::Session;
use crate::{natural, params, python};

/// What Ganeti's shows.
const GANETIS: [&str; 13] = [
    "name",
    "pip",
    "sip",
    "pinst_list",
    "sinst_list",
    "master_candidate",
    "drained",
    "offline",
    "master_capable",
    "vm_capable",
    "powered",
    "ndparams",
    "custom_ndparams",
];
/// Further fields, shown under their own names.
const OURS: [&str; 19] = [
    "uuid",
    "role",
    "rpc_port",
    "peer_port",
    "rack",
    "machine",
    "group",
    "tags",
    "agent",
    "agent_since",
    "bootid",
    "ctotal",
    "mtotal",
    "mfree",
    "dtotal",
    "dfree",
    "fingerprint",
    "mtime",
    "witness",
];

/// Prints all about the nodes.
pub(super) fn run(names: &[String], json: bool, session: &Session) -> Result<(), CliError> {
    let what = What::Node;
    let chosen = Selection::named("name", names);
    let fields = GANETIS.into_iter().chain(OURS).collect();
    let table = session.ask(&Query { what, fields, filter: chosen.filter() })?;
    if json {
        say_json(&as_json(&table))?;
        return chosen.all_in(what, &table);
    }
    let look = Look { what, units: Units::H, verbose: true, times: session.times(), own: false };
    let nodes = table.data.iter().map(|row| {
        let mut entries = ganetis(row);
        for (cell, field) in row.iter().zip(&table.fields).skip(GANETIS.len()) {
            let text = match (cell.value(), field.name.as_ref()) {
                (Some(Value::String(letter)), "role") => cells::role(letter).to_owned(),
                // Nothing at all would read as if something were missing.
                (Some(Value::Null), _) => "-".to_owned(),
                _ => cells::text(cell, field, look),
            };
            if field.kind != FieldKind::Unknown {
                entries.push(Entry::new(field.name.as_ref(), text));
            }
        }
        entries
    });
    if !table.data.is_empty() {
        say_lines(&details::lines(nodes.collect()))?;
    }
    chosen.all_in(what, &table)
}

fn ganetis(row: &[Cell]) -> Vec<Entry> {
    let get = |field: &str| {
        let at = GANETIS.iter().position(|name| *name == field);
        at.and_then(|at| row.get(at)?.value()).unwrap_or(&Value::Null)
    };
    let names = |field: &str| {
        let mut names: Vec<String> =
            get(field).as_array().into_iter().flatten().map(python::text).collect();
        natural::sort(&mut names);
        Detail::List(names.into_iter().map(Detail::from).collect())
    };
    let mut entries = vec![
        Entry::new("Node name", get("name")),
        Entry::new("primary ip", get("pip")),
        Entry::new("secondary ip", get("sip")),
        Entry::new("master candidate", get("master_candidate")),
        Entry::new("drained", get("drained")),
        Entry::new("offline", get("offline")),
    ];
    if !get("powered").is_null() {
        entries.push(Entry::new("powered", get("powered")));
    }
    entries.push(Entry::new("master_capable", get("master_capable")));
    entries.push(Entry::new("vm_capable", get("vm_capable")));
    if python::is_true(get("vm_capable")) {
        entries.push(Entry::new("primary for instances", names("pinst_list")));
        entries.push(Entry::new("secondary for instances", names("sinst_list")));
    }
    let parameters = params::merged(get("custom_ndparams"), get("ndparams"));
    entries.push(Entry::new("node parameters", parameters));
    entries
}
