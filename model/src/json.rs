//! Core: reads JSON that people write. An error names the parameter, what it must be and what it is. For
//! JSON that programs write, [`lossy`] keeps as much as can be read.

mod lossy;

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Path, Segment, Track};

pub use lossy::lossy;

/// JSON that does not mean what it should: where, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The parameter, as `machines[3].serial`; empty for the whole.
    pub place: String,
    /// The fault of the parameter.
    pub why: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => f.write_str(&self.why),
            place => write!(f, "{place}: {}", self.why),
        }
    }
}

impl std::error::Error for Malformed {}

/// Reads a value from text.
///
/// # Errors
/// [`Malformed`].
pub fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Malformed> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = traced(&mut reader, |reader| T::deserialize(reader))?;
    reader.end().map_err(|error| Malformed { place: String::new(), why: told(&error) })?;
    Ok(value)
}

/// Reads by `read`, which gets a reader that remembers where it is.
///
/// # Errors
/// [`Malformed`].
pub fn traced<'de, T, D: Deserializer<'de, Error = serde_json::Error>>(
    reader: D,
    read: impl FnOnce(serde_path_to_error::Deserializer<'_, '_, D>) -> Result<T, serde_json::Error>,
) -> Result<T, Malformed> {
    let mut track = Track::new();
    let value = read(serde_path_to_error::Deserializer::new(reader, &mut track));
    value.map_err(|error| {
        let (path, why) = (track.path(), told(&error));
        // The reader is at a field that there is not, and its name is told anyway. A reader within
        // a reader may tell of it from further outside.
        let is_unknown = matches!(
            path.iter().next_back(),
            Some(Segment::Map { key }) if why.starts_with(&format!("unknown field `{key}`"))
        );
        let steps = path.iter().count().saturating_sub(usize::from(is_unknown));
        Malformed { place: place(&path, steps), why }
    })
}

/// Steps of a place that are told: deeper ones are counted by nobody.
const STEPS_TOLD_MAX: usize = 8;

fn place(path: &Path, steps: usize) -> String {
    let mut place = String::new();
    for segment in path.iter().take(steps.min(STEPS_TOLD_MAX)) {
        match segment {
            Segment::Seq { index } => place.push_str(&format!("[{index}]")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                if !place.is_empty() {
                    place.push('.');
                }
                place.push_str(key);
            }
            Segment::Unknown => {}
        }
    }
    place
}

/// The message of an error without its position, in words of JSON instead of the code's.
pub fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&position).unwrap_or(&text);
    let mismatch = ["invalid type: ", "invalid value: ", "invalid length "];
    let found = mismatch.iter().find_map(|begin| text.strip_prefix(begin));
    match found.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, wanted)) if text.starts_with("invalid length") => {
            format!("expected {}, found {found} values", expected(wanted))
        }
        Some((found, wanted)) => format!("expected {}, found {}", expected(wanted), kind(found)),
        None if text.starts_with("data did not match any variant") => {
            "none of the forms that are known here".to_owned()
        }
        None => text.to_owned(),
    }
}

/// The value that a reader wanted, in words of JSON.
fn expected(wanted: &str) -> String {
    let range = |low: &str, high: &str| format!("a whole number from {low} to {high}");
    match wanted {
        "f64" | "f32" => "a number".to_owned(),
        "u8" => range("0", "255"),
        "u16" => range("0", "65535"),
        "u32" => range("0", "4294967295"),
        "i32" => range("-2147483648", "2147483647"),
        "u64" | "u128" | "usize" => "a whole number from 0".to_owned(),
        "i8" | "i16" | "i64" | "i128" | "isize" => "a whole number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "a borrowed string" | "a character" | "string or map" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "unit" => "null".to_owned(),
        "any valid JSON value" => "a value".to_owned(),
        _ => expected_by_name(wanted),
    }
}

/// The same where the reader named a type of the code; otherwise its own words.
fn expected_by_name(wanted: &str) -> String {
    let begins = |words: &[&str]| words.iter().any(|word| wanted.starts_with(word));
    if begins(&["tuple ", "a tuple "]) {
        let number = wanted.split_whitespace().find(|word| word.parse::<usize>().is_ok());
        return number
            .map_or_else(|| "a list".to_owned(), |number| format!("a list of {number} values"));
    }
    if begins(&["struct ", "internally tagged enum ", "adjacently tagged enum "]) {
        return "an object".to_owned();
    }
    if begins(&["enum ", "variant identifier", "field identifier"]) {
        return "a word".to_owned();
    }
    if begins(&["newtype struct ", "option"]) {
        return "another value".to_owned();
    }
    wanted.to_owned()
}

/// The value that was there instead. A text is not repeated: it may be long, or secret.
fn kind(found: &str) -> String {
    let number = |begin| found.strip_prefix(begin).map(|rest: &str| rest.replace('`', ""));
    let plain = number("integer ").or_else(|| number("floating point "));
    match plain.or_else(|| number("boolean ")) {
        Some(plain) => plain,
        None if found.starts_with("string ") => "a text".to_owned(),
        None if found == "sequence" => "a list".to_owned(),
        None if found == "map" => "an object".to_owned(),
        None if found == "unit value" => "null".to_owned(),
        None => found.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Pair(
        #[expect(dead_code, reason = "it is only read")] String,
        #[expect(dead_code, reason = "as well")] i64,
    );

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Plain {
        #[expect(dead_code, reason = "it is only read")]
        number: f64,
        #[expect(dead_code, reason = "as well")]
        #[serde(default)]
        more: BTreeMap<String, Vec<Option<u16>>>,
        #[expect(dead_code, reason = "as well")]
        #[serde(default)]
        pair: Option<Pair>,
    }

    #[test]
    fn an_error_names_the_parameter_and_nothing_of_the_code() {
        for (text, wanted) in [
            (r#"{"number": "1"}"#, "number: expected a number, found a text"),
            (r#"{"number": null}"#, "number: expected a number, found null"),
            (r#"{"number": [1]}"#, "number: expected a number, found a list"),
            (r#"{"number": {}}"#, "number: expected a number, found an object"),
            (
                r#"{"number": 1, "numbers": 2}"#,
                "unknown field `numbers`, expected one of `number`, `more`, `pair`",
            ),
            ("{}", "missing field `number`"),
            ("7", "expected an object, found 7"),
            (
                r#"{"number": 1, "more": {"a": [null, 70000]}}"#,
                "more.a[1]: expected a whole number from 0 to 65535, found 70000",
            ),
            (
                r#"{"number": 1, "more": {"a": [-1.5]}}"#,
                "more.a[0]: expected a whole number from 0 to 65535, found -1.5",
            ),
            (r#"{"number": 1, "pair": "x"}"#, "pair: expected a list, found a text"),
            (
                r#"{"number": 1, "pair": ["x"]}"#,
                "pair: expected a list of 2 values, found 1 values",
            ),
            (
                r#"{"number": 1, "pair": ["x", true]}"#,
                "pair[1]: expected a whole number, found true",
            ),
            (r#"{"number": 1"#, "EOF while parsing an object"),
            (r#"{"number": 1} x"#, "trailing characters"),
        ] {
            let told = read::<Plain>(text).unwrap_err().to_string();
            assert_eq!(told, wanted, "{text}");
        }
        assert!(read::<Plain>(r#"{"number": 1, "pair": ["x", 1]}"#).is_ok());
    }
}
