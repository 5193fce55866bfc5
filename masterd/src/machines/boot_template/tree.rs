//! Core: a document whose texts are templates. The document is read first and its texts are rendered then,
//! so that no value can end the text that it stands in.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gotmpl::Value;
use model::boot_template::RENDERED_BYTES_MAX;
use serde_json::{Map, Value as Json};

use super::engine::{Meter, Program, Wrong};
use super::{Place, Words};

/// The mark that begins a template's action.
const ACTION: &str = "{{";
/// The scheme of URLs that hold a file.
const DATA: &str = "data:";

/// A part of a document.
#[derive(Debug)]
pub(super) enum Tree {
    /// It is the same for every machine.
    Fixed(Json),
    /// A text with actions.
    Text(Text),
    /// A URL whose file has actions.
    Data(Text),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

/// A text with actions, and where it stands.
#[derive(Debug)]
pub(super) struct Text {
    path: String,
    text: String,
    program: Program,
}

/// Why a text gives nothing, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrongAt {
    /// Its place, such as `storage.files[0].path`.
    pub(super) path: String,
    /// The text as it was read.
    pub(super) text: String,
    pub(super) wrong: Wrong,
}

impl Tree {
    /// Reads a document.
    pub(super) fn new(
        document: &Json,
        path: &str,
        with: (&Words, &Arc<Meter>),
        labels: &mut BTreeSet<String>,
    ) -> Result<Self, WrongAt> {
        Ok(match document {
            Json::String(text) => Self::of_text(text, path, with, labels)?,
            Json::Array(list) => {
                let mut trees = Vec::with_capacity(list.len());
                for (at, part) in list.iter().enumerate() {
                    trees.push(Self::new(part, &format!("{path}[{at}]"), with, labels)?);
                }
                Self::List(trees)
            }
            Json::Object(map) => {
                let mut trees = Vec::with_capacity(map.len());
                for (name, part) in map {
                    let below =
                        if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    trees.push((name.clone(), Self::new(part, &below, with, labels)?));
                }
                Self::Map(trees)
            }
            other => Self::Fixed(other.clone()),
        })
    }

    fn of_text(
        text: &str,
        path: &str,
        with: (&Words, &Arc<Meter>),
        labels: &mut BTreeSet<String>,
    ) -> Result<Self, WrongAt> {
        let file = text.strip_prefix(DATA).and_then(file_of);
        let (template, is_file) = match &file {
            Some(file) if file.contains(ACTION) => (file.as_str(), true),
            None if text.contains(ACTION) => (text, false),
            _ => return Ok(Self::Fixed(Json::from(text))),
        };
        let program = Program::new(template, Place::Value, with, labels);
        let (path, text) = (path.to_owned(), text.to_owned());
        let text = match program {
            Ok(program) => Text { path, text, program },
            Err(wrong) => return Err(WrongAt { path, text, wrong }),
        };
        Ok(if is_file { Self::Data(text) } else { Self::Text(text) })
    }

    /// The document of one machine.
    pub(super) fn render(&self, machine: &Value) -> Result<Json, WrongAt> {
        let run = |Text { path, text, program }: &Text| {
            let at = |wrong| WrongAt { path: path.clone(), text: text.clone(), wrong };
            program.run(machine, RENDERED_BYTES_MAX).map_err(at)
        };
        Ok(match self {
            Self::Fixed(fixed) => fixed.clone(),
            Self::Text(text) => Json::from(run(text)?),
            Self::Data(text) => Json::from(url_of(&run(text)?)),
            Self::List(list) => {
                Json::Array(list.iter().map(|part| part.render(machine)).collect::<Result<_, _>>()?)
            }
            Self::Map(map) => {
                let mut rendered = Map::new();
                for (name, part) in map {
                    rendered.insert(name.clone(), part.render(machine)?);
                }
                Json::Object(rendered)
            }
        })
    }
}

/// Packs files anew whose `data:` URL has a character that no URL has, as values do that were inserted into
/// the text of a whole document.
pub(super) fn pack(document: &mut Json) {
    match document {
        Json::String(text) => {
            let is_of_url =
                |b: u8| b.is_ascii_alphanumeric() || b"-_.~:/?#[]@!$&'()*+,;=%".contains(&b);
            let file = text.strip_prefix(DATA).filter(|_| !text.bytes().all(is_of_url));
            if let Some(file) = file.and_then(file_of) {
                *text = url_of(&file);
            }
        }
        Json::Array(list) => list.iter_mut().for_each(pack),
        Json::Object(map) => map.values_mut().for_each(pack),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// The file in a `data:` URL, where it is a text; the media type before it is passed over.
fn file_of(rest: &str) -> Option<String> {
    let (kind, file) = rest.split_once(',')?;
    let bytes = unescaped(file);
    let bytes = match kind.ends_with(";base64") {
        true => STANDARD.decode(bytes).ok()?,
        false => bytes,
    };
    String::from_utf8(bytes).ok()
}

/// Without the escapes of a URL; what is none stays.
fn unescaped(text: &str) -> Vec<u8> {
    let digit = |at: usize| char::from(*text.as_bytes().get(at)?).to_digit(16);
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.as_bytes().get(at) {
        let escaped = (byte == b'%').then(|| Some(digit(at + 1)? * 16 + digit(at + 2)?)).flatten();
        let escaped = escaped.and_then(|code| u8::try_from(code).ok());
        bytes.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    bytes
}

fn url_of(file: &str) -> String {
    let mut url = format!("{DATA},");
    for byte in file.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                url.push(char::from(byte));
            }
            other => url.push_str(&format!("%{other:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_urls_read_as_they_were_written() {
        for file in ["", "plain", "100 % of\n\"a\" & {b}", "ä€"] {
            let url = url_of(file);
            assert_eq!(file_of(url.strip_prefix(DATA).unwrap()).as_deref(), Some(file));
            assert!(url.is_ascii() && !url.contains([' ', '"', '\n']), "{url}");
        }
        assert_eq!(file_of(";base64,YWJj").as_deref(), Some("abc"));
        assert_eq!(file_of("text/plain;charset=utf-8,a%2Cb%zz").as_deref(), Some("a,b%zz"));
        assert_eq!(file_of(",%ff"), None, "it is no text");
        assert_eq!(file_of("abc"), None);
    }
}
