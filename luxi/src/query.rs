//! Core: lists of objects: field definitions, cells with a status, and [`filter`], the language
//! that selects objects.

pub mod filter;
pub mod sabakan;

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use filter::{Filter, FilterError, Pattern};

/// The text in the description of a field before what the list leaves out.
pub const LEFT_OUT: &str = "Left out: ";

/// The kind of values of a field, which decides how they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldKind {
    Text,
    /// True or false.
    Bool,
    /// A whole number.
    Number,
    /// A number.
    Float,
    /// A size in MiB.
    Unit,
    /// Seconds since the epoch, or a pair of seconds and microseconds.
    Timestamp,
    /// Anything else, as lists.
    Other,
    /// There is no such field.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDefinition {
    /// Its name in requests.
    pub name: Cow<'static, str>,
    /// Its title over a column; never empty.
    pub title: Cow<'static, str>,
    /// The kind of its values.
    pub kind: FieldKind,
    /// One line about it.
    pub doc: Cow<'static, str>,
}

impl FieldDefinition {
    /// A field of a table in the program.
    pub const fn new(
        name: &'static str,
        title: &'static str,
        kind: FieldKind,
        doc: &'static str,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            title: Cow::Borrowed(title),
            kind,
            doc: Cow::Borrowed(doc),
        }
    }

    /// The definition in place of a field that does not exist.
    pub fn unknown(name: &str) -> Self {
        Self {
            name: Cow::Owned(name.to_owned()),
            title: Cow::Owned(if name.is_empty() { "?" } else { name }.to_owned()),
            kind: FieldKind::Unknown,
            doc: Cow::Borrowed("Unknown field"),
        }
    }
}

/// The definitions of the `wanted` fields, in that order, out of those that are `known`.
pub fn select(wanted: &[String], known: &[FieldDefinition]) -> Vec<FieldDefinition> {
    let find = |name: &String| known.iter().find(|field| field.name == *name).cloned();
    wanted.iter().map(|name| find(name).unwrap_or_else(|| FieldDefinition::unknown(name))).collect()
}

/// Whether a cell has a value, or why not; on the wire its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellStatus {
    Normal,
    /// There is no such field.
    Unknown,
    /// The object was not asked.
    NoData,
    /// The object has no such value.
    Unavailable,
    /// The object is offline.
    Offline,
}

impl CellStatus {
    const ALL: [Self; 5] =
        [Self::Normal, Self::Unknown, Self::NoData, Self::Unavailable, Self::Offline];

    const fn number(self) -> u8 {
        match self {
            Self::Normal => 0,
            Self::Unknown => 1,
            Self::NoData => 2,
            Self::Unavailable => 3,
            Self::Offline => 4,
        }
    }
}

/// One value of a list; on the wire `[status, value]`, where the value is null unless the status
/// is normal.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell(Result<Value, CellStatus>);

impl Cell {
    pub fn normal(value: impl Into<Value>) -> Self {
        Self(Ok(value.into()))
    }

    /// No value, for the reason given.
    pub fn without(status: CellStatus) -> Self {
        match status {
            CellStatus::Normal => Self(Ok(Value::Null)),
            CellStatus::Unknown
            | CellStatus::NoData
            | CellStatus::Unavailable
            | CellStatus::Offline => Self(Err(status)),
        }
    }

    /// A value where there is one; else it is unavailable.
    pub fn optional(value: Option<impl Into<Value>>) -> Self {
        value.map_or(Self(Err(CellStatus::Unavailable)), Self::normal)
    }

    /// Whether it has a value, or why not.
    pub fn status(&self) -> CellStatus {
        self.0.as_ref().map_or_else(|status| *status, |_value| CellStatus::Normal)
    }

    /// The value, if there is one.
    pub fn value(&self) -> Option<&Value> {
        self.0.as_ref().ok()
    }

    /// The value, or null.
    pub fn into_value(self) -> Value {
        self.0.unwrap_or(Value::Null)
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.status().number(), self.value()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (number, value) = <(u8, Value)>::deserialize(deserializer)?;
        let status = CellStatus::ALL.into_iter().find(|status| status.number() == number);
        match status {
            Some(CellStatus::Normal) => Ok(Self(Ok(value))),
            Some(status) if value.is_null() => Ok(Self(Err(status))),
            Some(_) => Err(serde::de::Error::custom("a cell without data has a value")),
            None => Err(serde::de::Error::custom(format_args!("no cell status {number}"))),
        }
    }
}

/// Result of `Query`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The columns, as asked for.
    pub fields: Vec<FieldDefinition>,
    /// The rows.
    pub data: Vec<Vec<Cell>>,
}

/// Result of `QueryFields`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definitions {
    pub fields: Vec<FieldDefinition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_on_the_wire() {
        for (cell, text) in [
            (Cell::normal(5), "[0,5]"),
            (Cell::normal(Value::Null), "[0,null]"),
            (Cell::without(CellStatus::Unknown), "[1,null]"),
            (Cell::without(CellStatus::NoData), "[2,null]"),
            (Cell::optional(None::<u32>), "[3,null]"),
            (Cell::without(CellStatus::Offline), "[4,null]"),
        ] {
            assert_eq!(serde_json::to_string(&cell).unwrap(), text);
            assert_eq!(serde_json::from_str::<Cell>(text).unwrap(), cell);
        }
        for wrong in ["[1,5]", "[5,null]", "[0]", "5"] {
            assert!(serde_json::from_str::<Cell>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_fields_keep_their_place() {
        let known = [FieldDefinition::new("id", "ID", FieldKind::Number, "Job ID")];
        let fields = select(&["x".to_owned(), "id".to_owned(), String::new()], &known);
        let kinds: Vec<_> = fields.iter().map(|field| field.kind).collect();
        assert_eq!(kinds, [FieldKind::Unknown, FieldKind::Number, FieldKind::Unknown]);
        assert!(fields.iter().all(|field| !field.title.is_empty()));
    }
}
