//! `gnt image info`.

use luxi::method::{Query, QueryFields, What};
use luxi::query::Table;
use model::blob::Blob;
use model::image::ImageFiles;
use serde_json::Value;

use crate::cells::{self, Look, Units};
use crate::details::{self, Detail, Entry};
use crate::error::CliError;
use crate::list::as_json;
use crate::output::{say_json, say_lines};
use crate::selection::Selection;
use crate::session::Session;

/// Shows images by their names, or by names and versions.
pub(super) fn run(images: &[String], json: bool, session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let known = session.call(&mut client, &QueryFields { what: What::Image, fields: None })?;
    let fields: Vec<String> = known.fields.iter().map(|field| field.name.to_string()).collect();
    let (versions, names): (Vec<String>, Vec<String>) =
        images.iter().cloned().partition(|image| image.contains('/'));
    let chosen = [("image", versions), ("name", names)].into_iter();
    let chosen = chosen.filter(|(_, names)| !names.is_empty());
    let (mut objects, mut shown, mut missing) = (Vec::new(), Vec::new(), Ok(()));
    for (key, names) in chosen {
        let chosen = Selection::named(key, &names);
        let fields = fields.iter().cloned().collect();
        let table = client.call(&Query { what: What::Image, fields, filter: chosen.filter() })?;
        objects.extend(as_json(&table));
        shown.extend(entries(&table, session));
        missing = missing.and(chosen.all_in(What::Image, &table));
    }
    if json {
        say_json(&objects)?;
    } else if !shown.is_empty() {
        say_lines(&details::lines(shown))?;
    }
    missing
}

fn entries(table: &Table, session: &Session) -> Vec<Vec<Entry>> {
    let look = Look {
        what: What::Image,
        units: Units::H,
        verbose: true,
        times: session.times(),
        own: true,
    };
    let of_row = |row: &Vec<_>| {
        let cells = row.iter().zip(&table.fields);
        let entry =
            cells.map(|(cell, field)| match files(cell).filter(|_| field.name == "files") {
                Some(files) => Entry::new(field.title.as_ref(), files),
                None => Entry::new(field.title.as_ref(), cells::text(cell, field, look)),
            });
        entry.collect()
    };
    table.data.iter().map(of_row).collect()
}

/// Each file with its digest and its length.
fn files(cell: &luxi::query::Cell) -> Option<Detail> {
    told(cell.value()?)
}

fn told(value: &Value) -> Option<Detail> {
    let line = |name: String, blob: Blob| {
        Entry::new(name, format!("{}, {} bytes", blob.sha256, blob.size))
    };
    Some(Detail::Map(match serde_json::from_value(value.clone()).ok()? {
        ImageFiles::Uki(uki) => vec![line("uki".to_owned(), uki)],
        ImageFiles::Linux { kernel, initrds } => {
            let initrds = (0..).zip(initrds);
            let initrds = initrds.map(|(at, blob): (u32, _)| line(format!("initrd {at}"), blob));
            std::iter::once(line("kernel".to_owned(), kernel)).chain(initrds).collect()
        }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_file_is_named() {
        let blob = |digit: &str| json!({"sha256": digit.repeat(64), "size": 7});
        let value = json!({"linux": {"kernel": blob("a"), "initrds": [blob("b"), blob("c")]}});
        let (a, c) = ("a".repeat(64), "c".repeat(64));
        let text = details::render(&told(&value).unwrap());
        assert!(text.contains(&format!("kernel: {a}, 7 bytes")), "{text}");
        assert!(text.contains(&format!("initrd 1: {c}, 7 bytes")), "{text}");
        assert_eq!(told(&json!({"other": 1})), None);
    }
}
