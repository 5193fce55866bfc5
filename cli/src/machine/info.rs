//! `gnt machine info`.

use luxi::method::{Query, QueryFields, What};
use luxi::query::{Cell, FieldDefinition};

use super::timeline;
use crate::cells::{self, Look, Units};
use crate::details::{self, Detail, Entry};
use crate::error::CliError;
use crate::list::as_json;
use crate::output::{say_json, say_lines};
use crate::selection::Selection;
use crate::session::Session;

/// Shows all there is to know about machines.
pub(super) fn info(serials: &[String], json: bool, session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let known = session.call(&mut client, &QueryFields { what: What::Machine, fields: None })?;
    // The document repeats what the other fields show.
    let others = known.fields.iter().map(|field| field.name.as_ref());
    let others = others.filter(|name| !["serial", "document"].contains(name));
    let fields = std::iter::once("serial").chain(others).collect();
    let chosen = Selection::named("serial", serials);
    let table = client.call(&Query { what: What::Machine, fields, filter: chosen.filter() })?;
    if json {
        say_json(&as_json(&table))?;
        return chosen.all_in(What::Machine, &table);
    }
    let look = Look {
        what: What::Machine,
        units: Units::H,
        verbose: true,
        times: session.times(),
        own: true,
    };
    let machines = table.data.iter().map(|row| {
        let titles = std::iter::once("Serial")
            .chain(table.fields.iter().skip(1).map(|field| field.title.as_ref()));
        let cells =
            row.iter().zip(&table.fields).map(|(cell, field)| cells::text(cell, field, look));
        let entry = |((title, text), (cell, field)): ((_, String), (&Cell, &FieldDefinition))| {
            let detail = match (&*field.name, cell.value()) {
                ("stages" | "last_boot", Some(stages)) => timeline::detail(stages, session.times()),
                ("hardware" | "hardware_changes", Some(parts)) => Detail::from(parts),
                _ => Detail::from(text),
            };
            Entry::new(title, detail)
        };
        titles.zip(cells).zip(row.iter().zip(&table.fields)).map(entry).collect()
    });
    if !table.data.is_empty() {
        say_lines(&details::lines(machines.collect()))?;
    }
    chosen.all_in(What::Machine, &table)
}
