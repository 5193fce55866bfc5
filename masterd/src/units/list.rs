//! Core: lists of objects: for each kind one table of fields, and what selects rows of it.
//!
//! A table has Ganeti's fields first, in the order in which its clients list them; ours follow.
//! A test compares names, titles and kinds with Ganeti's own.

pub mod natural;

use std::sync::Arc;

pub(crate) use luxi::query::{
    Cell, CellStatus, Definitions, FieldDefinition, Filter, Table, select,
};
use model::Exception;
use model::error::{ErrorCode, ExceptionKind};
use serde_json::Value;

use crate::config::objects::{Object, Objects};

/// A field of rows of type `T`.
#[derive(Debug)]
pub struct Field<T> {
    /// The field's definition for clients.
    pub definition: FieldDefinition,
    /// Whether its text is a host name, which filters also find without its domain.
    pub is_host_name: bool,
    /// Its value in a row.
    pub value: Getter<T>,
}

/// Gives the value of a field in a row.
#[derive(Debug)]
pub enum Getter<T> {
    Plain(fn(&T) -> Cell),
    /// That of one of several alike, by its number.
    Numbered(fn(&T, usize) -> Cell, usize),
    /// That of one of several alike, by its name.
    Named(fn(&T, &'static str) -> Cell, &'static str),
}

impl<T> Clone for Getter<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Getter<T> {}

impl<T> Getter<T> {
    /// The value in a row.
    pub fn of(self, row: &T) -> Cell {
        match self {
            Self::Plain(get) => get(row),
            Self::Numbered(get, number) => get(row, number),
            Self::Named(get, name) => get(row, name),
        }
    }
}

impl<T> Field<T> {
    /// The same field once more.
    pub(crate) fn copied(&self) -> Self {
        let (definition, is_host_name, value) =
            (self.definition.clone(), self.is_host_name, self.value);
        Self { definition, is_host_name, value }
    }
}

/// A table: name, title, kind, description and value of each field. `host` stands before a field whose
/// text is a host name.
macro_rules! fields {
    (@) => { false };
    (@ host) => { true };
    ($($($host:ident)? $name:literal, $title:literal, $kind:ident, $doc:literal, $value:expr;)+) => {
        &[$($crate::units::list::Field {
            definition: luxi::query::FieldDefinition::new(
                $name,
                $title,
                luxi::query::FieldKind::$kind,
                $doc,
            ),
            is_host_name: $crate::units::list::fields!(@ $($host)?),
            value: $crate::units::list::Getter::Plain($value),
        },)+]
    };
}
pub(crate) use fields;

/// The definitions of the `wanted` fields, or of all; none wanted stands for all, too.
pub fn definitions<T>(fields: &[Field<T>], wanted: Option<&[String]>) -> Definitions {
    let known: Vec<FieldDefinition> = fields.iter().map(|f| f.definition.clone()).collect();
    Definitions {
        fields: match wanted {
            Some(wanted) if !wanted.is_empty() => select(wanted, &known),
            _ => known,
        },
    }
}

/// A list in the making: the rows that a filter lets through, with the fields that are wanted. An
/// unknown field gives a column without data.
#[derive(Debug)]
pub struct Listing<'a, T> {
    fields: &'a [Field<T>],
    wanted: &'a [String],
    columns: Vec<Option<Getter<T>>>,
    filter: Option<&'a Filter>,
    data: Vec<Vec<Cell>>,
}

impl<'a, T> Listing<'a, T> {
    /// A list without rows.
    ///
    /// # Errors
    /// The filter names a field that does not exist.
    pub fn new(
        fields: &'a [Field<T>],
        wanted: &'a [String],
        filter: Option<&'a Filter>,
    ) -> Result<Self, Exception> {
        knows_all(filter, |name| find(fields, name).is_some())?;
        let columns = wanted.iter().map(|name| find(fields, name).map(|f| f.value)).collect();
        Ok(Self { fields, wanted, columns, filter, data: Vec::new() })
    }

    /// Adds a row, if the filter lets it through.
    pub fn add(&mut self, row: &T) {
        let fields = self.fields;
        let is_host_name = |name: &str| find(fields, name).is_some_and(|field| field.is_host_name);
        let value = |name: &str| find(fields, name)?.value.of(row).value().cloned();
        if self.filter.is_none_or(|filter| filter.holds_where(value, is_host_name)) {
            let unknown = || Cell::without(CellStatus::Unknown);
            let cell = |get: &Option<Getter<T>>| get.map_or_else(unknown, |get| get.of(row));
            self.data.push(self.columns.iter().map(cell).collect());
        }
    }

    /// The list.
    pub fn table(self) -> Table {
        let known: Vec<FieldDefinition> =
            self.fields.iter().map(|f| f.definition.clone()).collect();
        Table { fields: select(self.wanted, &known), data: self.data }
    }
}

/// Not a `QueryFilterParseError`: Ganeti's clients expect that from their own parser only, with
/// more than a message.
///
/// # Errors
/// The filter names a field that does not exist.
pub(crate) fn knows_all(
    filter: Option<&Filter>,
    is_known: impl Fn(&str) -> bool,
) -> Result<(), Exception> {
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
    let values = |row: T| columns.iter().map(|get| get.of(&row).into_value()).collect();
    Ok(rows.into_iter().map(values).collect())
}

/// # Errors
/// Some of the `wanted` fields do not exist; they are named.
pub(crate) fn exist(wanted: &[String], is_known: impl Fn(&str) -> bool) -> Result<(), Exception> {
    let unknown: Vec<&str> =
        wanted.iter().map(String::as_str).filter(|name| !is_known(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let text = format!("Unknown output fields selected: {}", unknown.join(", "));
    Err(Exception::prereq(text, ErrorCode::WrongInput))
}

/// The objects to which a filter is limited by `field`, which has their keys; `None` if every object
/// has to be looked at.
pub(crate) fn by_key<'a, T: Object>(
    objects: &'a Objects<T>,
    filter: &Filter,
    field: &str,
) -> Option<Vec<&'a Arc<T>>> {
    let keys = filter.limits(field)?.into_iter().filter_map(|key| key.as_text()?.parse().ok());
    Some(keys.filter_map(|key: T::Key| objects.get(&key)).collect())
}

fn find<'a, T>(fields: &'a [Field<T>], name: &str) -> Option<&'a Field<T>> {
    fields.iter().find(|field| field.definition.name == name)
}

/// A value for a cell.
pub(crate) fn json(value: &impl serde::Serialize) -> Cell {
    match serde_json::to_value(value) {
        Ok(value) => Cell::normal(value),
        Err(_) => Cell::without(CellStatus::Unavailable),
    }
}

/// Ganeti's form of an object's times: seconds as a fraction.
pub(crate) fn seconds(time: model::Timestamp) -> f64 {
    let micros = u32::try_from(time.micros().rem_euclid(1_000_000)).unwrap_or(0);
    let whole = u32::try_from(time.seconds()).unwrap_or(u32::MAX);
    f64::from(whole) + f64::from(micros) / 1e6
}
