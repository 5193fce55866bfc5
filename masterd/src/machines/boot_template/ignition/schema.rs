//! Core: reads a configuration by the tables of Ignition's specification: its keys, their types, what each
//! value must be, and what must hold between them. It reads as Ignition does: null is the same as absent, and
//! the case of a key does not count. A key that the version does not have is passed over, and told.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

/// A version of the specification: its first two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spec(pub(super) u8, pub(super) u8);

/// The check of a text by the rules of a version. It is called with an empty one where a text that is
/// needed is absent.
pub(super) type Check = fn(&str, Spec) -> Result<(), String>;
/// A rule for the keys of an object, which has the right keys and types by then.
pub(super) type Rule = fn(&Json, &mut Look<'_>) -> Result<(), String>;

/// A kind of object.
pub(super) struct Object {
    pub(super) keys: &'static [&'static [Key]],
    pub(super) rules: &'static [Rule],
}

/// A key of an object, from a version on.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) since: Spec,
    pub(super) takes: Takes,
}

/// The values that a key takes.
#[derive(Clone, Copy)]
pub(super) enum Takes {
    Truth,
    /// A whole number.
    Whole,
    /// The mode of a file.
    Mode,
    Text(Check),
    /// A text that must be there.
    Needed(Check),
    /// A list of texts.
    Texts(Check),
    /// A list in which no text is twice.
    TextsOnce(Check),
    Object(&'static Object),
    List(&'static Object),
    /// A list in which no two objects have the same value of this key.
    ListOnce(&'static Object, &'static str),
}

/// The highest mode of a file.
const MODE_MAX: i64 = 0o7777;
/// Keys of Butane's language, which a translation replaces.
const BUTANE: &[&str] = &["inline", "local", "contents_local", "trees", "variant", "boot_device"];

/// The place where a rule looks, and the warnings about it.
pub(super) struct Look<'a> {
    pub(super) spec: Spec,
    path: &'a str,
    warnings: &'a mut Vec<String>,
}

impl Look<'_> {
    /// Tells of something that Ignition takes and that is hardly meant.
    pub(super) fn warn(&mut self, why: &str) {
        self.warnings.push(format!("{} {why}", place(self.path)));
    }
}

/// Reads a configuration; gives what is to be told of one that Ignition takes.
///
/// # Errors
/// Ignition refuses it.
pub(super) fn read(
    document: &Json,
    root: &'static Object,
    spec: Spec,
) -> Result<Vec<String>, String> {
    let mut reading = Reading { spec, warnings: Vec::new() };
    reading.object(document, root, "")?;
    Ok(reading.warnings)
}

struct Reading {
    spec: Spec,
    warnings: Vec<String>,
}

impl Reading {
    /// An object with the keys that its version has, as the table spells them, and without null.
    fn object(&mut self, given: &Json, of: &Object, path: &str) -> Result<Json, String> {
        let none = Map::new();
        let map = match given {
            Json::Object(map) => map,
            Json::Null => &none,
            other => return Err(mismatch(path, "an object", other)),
        };
        let spec = self.spec;
        let known = || of.keys.iter().copied().flatten().filter(move |key| key.since <= spec);
        let mut read = Map::new();
        for (name, value) in map {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let Some(key) = known().find(|key| key.name.eq_ignore_ascii_case(name)) else {
                let known = known().map(|key| key.name).collect::<Vec<_>>().join(", ");
                self.warnings.push(unknown(&below, name, &known));
                continue;
            };
            if key.name != name {
                if map.contains_key(key.name) || read.contains_key(key.name) {
                    let why = format!("is the same key as `{}` to Ignition; write one", key.name);
                    return Err(format!("`{below}` {why}"));
                }
                self.warnings.push(format!("`{below}` is read as `{}`; write it so", key.name));
            }
            if !value.is_null() {
                let value = self.value(value, key.takes, &below)?;
                read.insert(key.name.to_owned(), value);
            }
        }
        for key in known().filter(|key| !read.contains_key(key.name)) {
            if let Takes::Needed(check) = key.takes {
                let at = if path.is_empty() { String::new() } else { format!("{path}.") };
                check("", spec).map_err(|_none| format!("`{at}{}` is missing", key.name))?;
            }
        }
        let read = Json::Object(read);
        let mut look = Look { spec, path, warnings: &mut self.warnings };
        let rules = of.rules.iter();
        for rule in rules {
            rule(&read, &mut look).map_err(|why| format!("{} {why}", place(path)))?;
        }
        Ok(read)
    }

    fn value(&mut self, given: &Json, takes: Takes, path: &str) -> Result<Json, String> {
        let at = |why: String| format!("`{path}` {why}");
        let wanted = match (takes, given) {
            (Takes::Truth, Json::Bool(_)) => return Ok(given.clone()),
            (Takes::Truth, _) => "true or false",
            (Takes::Whole | Takes::Mode, Json::Number(number)) => match number.as_i64() {
                Some(mode) if matches!(takes, Takes::Mode) && !(0..=MODE_MAX).contains(&mode) => {
                    return Err(at(format!(
                        "is {mode}, and not 0 to {MODE_MAX}, which is 7777 in octal"
                    )));
                }
                Some(_) => return Ok(given.clone()),
                None => "a whole number",
            },
            (Takes::Mode, _) => "a whole number in decimal, as 420 for 0644",
            (Takes::Whole, _) => "a whole number",
            (Takes::Text(check) | Takes::Needed(check), Json::String(text)) => {
                check(text, self.spec).map_err(at)?;
                return Ok(given.clone());
            }
            (Takes::Text(_) | Takes::Needed(_), _) => "a text",
            (Takes::Texts(check), Json::Array(list)) => {
                return self.texts(list, check, path, false);
            }
            (Takes::TextsOnce(check), Json::Array(list)) => {
                return self.texts(list, check, path, true);
            }
            (Takes::Texts(_) | Takes::TextsOnce(_), _) => "a list of texts",
            (Takes::Object(of), _) => return self.object(given, of, path),
            (Takes::List(of), Json::Array(list)) => return self.list(list, of, path),
            (Takes::ListOnce(of, key), Json::Array(list)) => {
                let read = self.list(list, of, path)?;
                let entries = read.as_array().into_iter().flatten();
                once(entries.map(|entry| entry[key].as_str().unwrap_or_default()))
                    .map_err(|twice| at(format!("has {key} {twice:?} twice")))?;
                return Ok(read);
            }
            (Takes::List(_) | Takes::ListOnce(..), _) => "a list",
        };
        Err(mismatch(path, wanted, given))
    }

    fn list(&mut self, list: &[Json], of: &Object, path: &str) -> Result<Json, String> {
        let mut read = Vec::with_capacity(list.len());
        for (at, entry) in list.iter().enumerate() {
            read.push(self.object(entry, of, &format!("{path}[{at}]"))?);
        }
        Ok(Json::Array(read))
    }

    fn texts(
        &mut self,
        list: &[Json],
        check: Check,
        path: &str,
        is_once: bool,
    ) -> Result<Json, String> {
        let mut read = Vec::with_capacity(list.len());
        for (at, entry) in list.iter().enumerate() {
            let path = format!("{path}[{at}]");
            let text = match entry {
                Json::String(text) => text.as_str(),
                Json::Null => "",
                other => return Err(mismatch(&path, "a text", other)),
            };
            check(text, self.spec).map_err(|why| format!("`{path}` {why}"))?;
            read.push(text);
        }
        if is_once {
            once(read.iter().copied()).map_err(|twice| format!("`{path}` has {twice:?} twice"))?;
        }
        Ok(Json::from(read))
    }
}

/// The first text that is there twice.
pub(super) fn once<'a>(texts: impl Iterator<Item = &'a str>) -> Result<(), &'a str> {
    let mut seen = BTreeSet::new();
    for text in texts {
        if !seen.insert(text) {
            return Err(text);
        }
    }
    Ok(())
}

fn place(path: &str) -> String {
    if path.is_empty() { "the configuration".to_owned() } else { format!("`{path}`") }
}

fn mismatch(path: &str, wanted: &str, given: &Json) -> String {
    let given = match given {
        Json::Null => "null".to_owned(),
        Json::Bool(_) => "a truth value".to_owned(),
        Json::Number(number) => format!("the number {number}"),
        Json::String(_) => "a text".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
    };
    format!("{} is {given}; Ignition takes {wanted} there", place(path))
}

fn unknown(path: &str, name: &str, known: &str) -> String {
    let mut why = format!("`{path}` is no key of this version of Ignition, which passes over it");
    if BUTANE.contains(&name) || name.contains('_') {
        why.push_str("; it is Butane's, whose files `butane` translates");
    } else {
        why.push_str(&format!("; it knows {known}"));
    }
    why
}

impl Key {
    /// A key of every version of its table.
    pub(super) const fn new(name: &'static str, takes: Takes) -> Self {
        Self { name, since: Spec(0, 0), takes }
    }

    /// A key from a version on.
    pub(super) const fn since(since: Spec, name: &'static str, takes: Takes) -> Self {
        Self { name, since, takes }
    }
}
