//! Core: reads YAML into types, and says where it does not fit.

use model::json::Malformed;
use serde::de::DeserializeOwned;
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
