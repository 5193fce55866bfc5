//! `gnt image info`.

use luxi::method::What;
use model::blob::Blob;
use model::image::ImageFiles;
use serde_json::Value;

use crate::all_fields;
use crate::details::{self, Detail, Entry};
use crate::error::CliError;
use crate::list::as_json;
use crate::output::{say_json, say_lines};
use crate::selection::Selection;
use crate::session::Session;

/// Shows images by their names, or by names and versions.
pub(super) fn run(images: &[String], json: bool, session: &Session) -> Result<(), CliError> {
    let (versions, names): (Vec<String>, Vec<String>) =
        images.iter().cloned().partition(|image| image.contains('/'));
    let chosen = [("image", versions), ("name", names)].into_iter();
    let chosen = chosen.filter(|(_, names)| !names.is_empty());
    let (mut objects, mut shown, mut missing) = (Vec::new(), Vec::new(), Ok(()));
    for (key, names) in chosen {
        let chosen = Selection::named(key, &names);
        let table = all_fields::ask(What::Image, &chosen, &[], session)?;
        objects.extend(as_json(&table));
        shown.extend(all_fields::entries(What::Image, &table, session, |field, cell| {
            if field == "files" { told(cell.value()?) } else { None }
        }));
        missing = missing.and(chosen.all_in(What::Image, &table));
    }
    if json {
        say_json(&objects)?;
    } else if !shown.is_empty() {
        say_lines(&details::lines(shown))?;
    }
    missing
}

/// Each file with its digest and its length.
fn told(value: &Value) -> Option<Detail> {
    let line = |name: String, blob: Blob| {
        Entry::new(name, format!("{}, {} bytes", blob.sha256, blob.size))
    };
    Some(Detail::Map(match serde_json::from_value(value.clone()).ok()? {
        ImageFiles::Uki(uki) => vec![line("uki".to_owned(), uki)],
        ImageFiles::Disk(disk) => vec![line("disk".to_owned(), disk)],
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
