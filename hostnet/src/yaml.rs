//! Core: reads YAML into types, and says where it does not fit.

use model::json::Malformed;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path, Segment};

/// The longest file, in bytes: 500 interfaces with ten addresses each are a tenth of it.
const BYTES_MAX: usize = 1 << 20;

/// Reads a value; an error names the field, and the line if nothing better is known.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Malformed> {
    if text.len() > BYTES_MAX {
        let why = format!("the file has {} bytes; it may have {BYTES_MAX}", text.len());
        return Err(Malformed { place: String::new(), why });
    }
    let mut at = String::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |reader| {
        serde_path_to_error::deserialize(reader).map_err(|error| {
            at = place(error.path());
            error.into_inner()
        })
    });
    read.map_err(|error| {
        let why = error.without_snippet().to_string();
        let why = why.lines().next().unwrap_or_default().to_owned();
        Malformed { place: at, why }
    })
}

/// Reads another program's form: what we do not have is named, without a list of what we have.
pub(crate) fn read_foreign<T: DeserializeOwned>(text: &str) -> Result<T, Malformed> {
    read(text).map_err(|Malformed { place, why }| {
        let word = |before: &str| Some(why.split_once(before)?.1.split_once('`')?.0.to_owned());
        let word = word("unknown field `").or_else(|| word("unknown variant `"));
        let why = word.map(|word| format!("`{word}` has no counterpart here")).unwrap_or(why);
        Malformed { place, why }
    })
}

fn place(path: &Path) -> String {
    let mut place = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => place.push_str(&format!("[{index}]")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                let dot = if place.is_empty() { "" } else { "." };
                place.push_str(&format!("{dot}{key}"));
            }
            Segment::Unknown => {}
        }
    }
    place
}

/// Programs take flags and numbers in quotes, and further words for flags.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "this is neither a number nor a flag")]
enum Quoted<T> {
    Plain(T),
    Text(String),
}

pub(crate) fn number<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<i64>, D::Error> {
    let wrong =
        |text: &str| serde::de::Error::custom(format!("`{}` is no number", text.escape_debug()));
    Ok(match Option::<Quoted<i64>>::deserialize(reader)? {
        Some(Quoted::Plain(number)) => Some(number),
        Some(Quoted::Text(text)) => Some(text.parse().map_err(|_e| wrong(&text))?),
        None => None,
    })
}

pub(crate) fn some_flag<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<bool>, D::Error> {
    let text = match Option::<Quoted<bool>>::deserialize(reader)? {
        Some(Quoted::Plain(flag)) => return Ok(Some(flag)),
        Some(Quoted::Text(text)) => text,
        None => return Ok(None),
    };
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Ok(Some(true)),
        "false" | "no" | "off" => Ok(Some(false)),
        _ => {
            let why = format!("`{}` is neither true nor false", text.escape_debug());
            Err(serde::de::Error::custom(why))
        }
    }
}

pub(crate) fn flag<'de, D: Deserializer<'de>>(reader: D) -> Result<bool, D::Error> {
    some_flag(reader).map(Option::unwrap_or_default)
}
