//! Core: lists of objects: for each kind one table of fields, and what selects rows of it.
//!
//! A table has Ganeti's fields first, in the order in which its clients list them; ours follow.
//! A test compares names, titles and kinds with Ganeti's own.

pub mod cluster;
pub mod cluster_info;
pub mod filter;
pub mod group;
pub mod job;
pub mod lock;
pub mod machine;
pub mod natural;
pub mod node;
pub mod params;
pub mod without_rows;

use luxi::query::{Cell, CellStatus, Definitions, FieldDefinition, Filter, Table, select};
use model::Exception;
use model::error::{ErrorCode, ExceptionKind};
use serde_json::Value;

/// A field of rows of type `T`.
#[derive(Debug)]
pub struct Field<T> {
    /// What clients are told of it.
    pub definition: FieldDefinition,
    /// Whether its text is a host name, which filters also find without its domain.
    pub is_host_name: bool,
    /// Its value in a row.
    pub value: Getter<T>,
}

/// Gives the value of a field in a row.
pub type Getter<T> = fn(&T) -> Cell;

/// Shorthand of the tables; `host` stands before a field whose text is a host name.
macro_rules! field {
    (host $name:literal, $title:literal, $doc:literal, $value:expr) => {
        $crate::query::field!(@ true, $name, $title, Text, $doc, $value)
    };
    (@ $host:literal, $name:literal, $title:literal, $kind:ident, $doc:literal, $value:expr) => {
        $crate::query::Field {
            definition: luxi::query::FieldDefinition::new(
                $name,
                $title,
                luxi::query::FieldKind::$kind,
                $doc,
            ),
            is_host_name: $host,
            value: $value,
        }
    };
    ($name:literal, $title:literal, $kind:ident, $doc:literal, $value:expr) => {
        $crate::query::field!(@ false, $name, $title, $kind, $doc, $value)
    };
}
pub(crate) use field;

/// The definitions of the `wanted` fields, or of all; none wanted stands for all, too.
#[must_use]
pub fn definitions<T>(fields: &[Field<T>], wanted: Option<&[String]>) -> Definitions {
    let known: Vec<FieldDefinition> = fields.iter().map(|f| f.definition.clone()).collect();
    Definitions {
        fields: match wanted {
            Some(wanted) if !wanted.is_empty() => select(wanted, &known),
            _ => known,
        },
    }
}

/// Rows between two looks at the time: a filter may have thousands of conditions.
const ROWS_UNWATCHED: usize = 16;

/// The rows that `filter` lets through, with the `wanted` fields. An unknown field gives a column
/// without data.
///
/// # Errors
/// The filter names a field that does not exist, or compares what cannot be compared; or `goes_on`
/// said no on the way.
pub fn table<T>(
    fields: &[Field<T>],
    rows: impl IntoIterator<Item = T>,
    wanted: &[String],
    filter: Option<&Filter>,
    goes_on: impl Fn() -> bool,
) -> Result<Table, Exception> {
    let columns: Vec<Option<Getter<T>>> =
        wanted.iter().map(|name| find(fields, name).map(|f| f.value)).collect();
    knows_all(filter, |name| find(fields, name).is_some())?;
    let is_host_name = |name: &str| find(fields, name).is_some_and(|field| field.is_host_name);
    let mut data = Vec::new();
    for (number, row) in rows.into_iter().enumerate() {
        if number % ROWS_UNWATCHED == 0 && !goes_on() {
            return Err(Exception::new(
                ExceptionKind::GenericError,
                "The list takes too long; ask for fewer objects, or with a simpler filter",
            ));
        }
        let value = |name: &str| (find(fields, name)?.value)(&row).value().cloned();
        if filter.is_some_and(|filter| !filter.holds_where(value, is_host_name)) {
            continue;
        }
        let unknown = || Cell::without(CellStatus::Unknown);
        data.push(columns.iter().map(|get| get.map_or_else(unknown, |get| get(&row))).collect());
    }
    let known: Vec<FieldDefinition> = fields.iter().map(|f| f.definition.clone()).collect();
    Ok(Table { fields: select(wanted, &known), data })
}

/// Not a `QueryFilterParseError`: Ganeti's clients expect that from their own parser only, with
/// more than a message.
///
/// # Errors
/// The filter names a field that does not exist.
fn knows_all(filter: Option<&Filter>, is_known: impl Fn(&str) -> bool) -> Result<(), Exception> {
    match filter.into_iter().flat_map(Filter::fields).find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(Exception::new(
            ExceptionKind::ParameterError,
            format!("the filter names the field `{name}`, which does not exist"),
        )),
    }
}

/// Bare values of the `wanted` fields.
///
/// # Errors
/// A field does not exist.
pub fn bare<T>(
    fields: &[Field<T>],
    rows: impl IntoIterator<Item = T>,
    wanted: &[String],
) -> Result<Vec<Vec<Value>>, Exception> {
    exist(wanted, |name| find(fields, name).is_some())?;
    let columns: Vec<Getter<T>> =
        wanted.iter().filter_map(|name| find(fields, name)).map(|field| field.value).collect();
    let values = |row: T| columns.iter().map(|get| get(&row).into_value()).collect();
    Ok(rows.into_iter().map(values).collect())
}

/// # Errors
/// Some of the `wanted` fields do not exist; they are named.
fn exist(wanted: &[String], is_known: impl Fn(&str) -> bool) -> Result<(), Exception> {
    let unknown: Vec<&str> =
        wanted.iter().map(String::as_str).filter(|name| !is_known(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let text = format!("Unknown output fields selected: {}", unknown.join(", "));
    Err(Exception::prereq(text, ErrorCode::WrongInput))
}

fn find<'a, T>(fields: &'a [Field<T>], name: &str) -> Option<&'a Field<T>> {
    fields.iter().find(|field| field.definition.name == name)
}

/// A value for a cell.
fn json(value: &impl serde::Serialize) -> Cell {
    match serde_json::to_value(value) {
        Ok(value) => Cell::normal(value),
        Err(_) => Cell::without(CellStatus::Unavailable),
    }
}

#[cfg(test)]
mod ganeti_tests;

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: &[Field<u32>] = &[field!("n", "N", Number, "A number", |n| Cell::normal(*n))];

    #[test]
    fn a_list_that_takes_too_long_is_given_up() {
        let wanted = ["n".to_owned()];
        let rows = || 0..100;
        let looked = std::cell::Cell::new(0);
        let goes_on = || {
            looked.set(looked.get() + 1);
            looked.get() < 3
        };
        let told = table(NUMBER, rows(), &wanted, None, goes_on).unwrap_err();
        assert!(told.to_string().contains("takes too long"), "{told}");
        assert_eq!(table(NUMBER, rows(), &wanted, None, || true).unwrap().data.len(), 100);
    }
}
