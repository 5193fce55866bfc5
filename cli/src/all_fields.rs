//! All there is to know about objects: every field of their kind.

use luxi::method::{Query, QueryFields, What};
use luxi::query::{Cell, Table};

use crate::cells::{self, Look, Units};
use crate::details::{Detail, Entry};
use crate::error::CliError;
use crate::selection::Selection;
use crate::session::Session;

/// Asks for every field but those that are `left_out`.
pub(crate) fn ask(
    what: What,
    chosen: &Selection,
    left_out: &[&str],
    session: &Session,
) -> Result<Table, CliError> {
    let mut client = session.connect()?;
    let known = session.call(&mut client, &QueryFields { what, fields: None })?;
    let fields = known.fields.iter().map(|field| field.name.as_ref());
    let fields = fields.filter(|name| !left_out.contains(name)).collect();
    Ok(client.call(&Query { what, fields, filter: chosen.filter() })?)
}

/// The details of each object; `other` gives those of fields that are more than a text.
pub(crate) fn entries(
    what: What,
    table: &Table,
    session: &Session,
    other: impl Fn(&str, &Cell) -> Option<Detail>,
) -> Vec<Vec<Entry>> {
    let look = Look { what, units: Units::H, verbose: true, times: session.times(), own: true };
    let of_row = |row: &Vec<Cell>| {
        let cells = row.iter().zip(&table.fields);
        let entry = cells.map(|(cell, field)| {
            let text = || Detail::from(cells::text(cell, field, look));
            Entry::new(field.title.as_ref(), other(&field.name, cell).unwrap_or_else(text))
        });
        entry.collect()
    };
    table.data.iter().map(of_row).collect()
}
