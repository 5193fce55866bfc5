//! Core: the filter language: which objects a query is about.
//!
//! On the wire a filter is a list with its operator in front: `["&", f…]`, `["|", f…]`,
//! `["!", f]`, `["?", field]` (is it true, or not empty), `["==", field, value]` (also `"="`),
//! `"!="`, `"<"`, `"<="`, `">"`, `">="`, `["=~", field, regular expression]` and
//! `["=[]", field, value]` (does the list hold it). Values are text or numbers.

mod evaluate;
mod read;

use std::sync::Arc;

use model::JobId;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::{Serialize, Serializer};
use serde_json::{Number, Value};

/// The field whose text is a host name: it may be given without its domain.
const HOST_NAME_FIELD: &str = "name";

/// A condition on an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All of these hold; also when there are none.
    And(Vec<Filter>),
    /// One of these holds.
    Or(Vec<Filter>),
    /// This does not hold.
    Not(Box<Filter>),
    /// The field is true, not zero, not empty.
    True(String),
    /// The field compares so with the operand.
    Compare(Comparison, String, Operand),
    /// The pattern is found in the field's text, or in that of an element of the list.
    Matches(String, Pattern),
    /// The field is a list with this element.
    Contains(String, Operand),
}

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The same; of a host name also the part before a dot, in any case.
    Equal,
    /// Not [`Comparison::Equal`].
    Different,
    Less,
    /// Not greater.
    AtMost,
    Greater,
    /// Not less.
    AtLeast,
}

impl Comparison {
    const fn operator(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::Different => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }
}

/// The value with which a field is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// Text. Compared with a number, it counts as the number that it writes.
    Text(String),
    Number(Number),
}

impl From<&str> for Operand {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Operand {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

/// A regular expression, compiled, of bounded size.
#[derive(Debug, Clone)]
pub struct Pattern(Arc<regex::Regex>);

impl Pattern {
    /// Compiles a regular expression.
    ///
    /// # Errors
    /// [`FilterError::Pattern`] or [`FilterError::TooMuch`].
    pub fn new(text: &str) -> Result<Self, FilterError> {
        read::pattern(text)
    }

    /// Whether it is found in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// A value that is no filter.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// Not a list with an operator in front.
    #[error("a filter is a list that begins with an operator, not {found}")]
    Shape {
        /// The beginning of what was given.
        found: String,
    },
    /// An operator that does not exist.
    #[error("unknown filter operator `{operator}`")]
    Operator {
        /// The beginning of what was given.
        operator: String,
    },
    /// The operator has other operands than it takes.
    #[error("filter operator `{operator}` takes {wanted}")]
    Operands {
        operator: &'static str,
        /// What it takes.
        wanted: &'static str,
    },
    /// A regular expression that does not compile, or is too large when it does.
    #[error("`{pattern}` is no usable regular expression")]
    Pattern {
        /// The beginning of what was given.
        pattern: String,
        /// The fault in the pattern.
        #[source]
        error: Box<regex::Error>,
    },
    /// A limit of the language.
    #[error("a filter has at most {limit} {what}")]
    TooMuch {
        /// The objects that the limit counts.
        what: &'static str,
        limit: usize,
    },
}

impl Filter {
    /// One of the objects whose `field` is one of `values`.
    pub fn any_of<T: Into<Operand>>(field: &str, values: impl IntoIterator<Item = T>) -> Self {
        let equal = |value: T| Self::Compare(Comparison::Equal, field.to_owned(), value.into());
        Self::Or(values.into_iter().map(equal).collect())
    }

    /// Compiles a regular expression into a condition.
    ///
    /// # Errors
    /// [`FilterError::Pattern`] or [`FilterError::TooMuch`].
    pub fn matching(field: &str, pattern: &str) -> Result<Self, FilterError> {
        read::pattern(pattern).map(|pattern| Self::Matches(field.to_owned(), pattern))
    }

    /// Whether the condition holds for the object whose fields `value_of` tells; `None` where a
    /// field has no value, which makes every condition on it false. The field `name` is a host
    /// name.
    pub fn holds(&self, value_of: impl FnMut(&str) -> Option<Value>) -> bool {
        self.holds_where(value_of, |field| field == HOST_NAME_FIELD)
    }

    /// [`Self::holds`] for objects whose host names are told: these may be given without their
    /// domain.
    pub fn holds_where(
        &self,
        mut value_of: impl FnMut(&str) -> Option<Value>,
        is_host_name: impl Fn(&str) -> bool,
    ) -> bool {
        evaluate::holds(self, &mut value_of, &is_host_name)
    }

    /// The fields that the condition looks at, as often as they occur.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Self::And(all) | Self::Or(all) => all.iter().flat_map(Self::fields).collect(),
            Self::Not(inner) => inner.fields(),
            Self::True(field)
            | Self::Compare(_, field, _)
            | Self::Matches(field, _)
            | Self::Contains(field, _) => vec![field],
        }
    }

    /// The values of `field` if the filter is nothing but a list of them, so that these objects
    /// can be looked up instead of looking through all.
    pub fn only_values_of(&self, field: &str) -> Option<Vec<&Operand>> {
        let one = |filter: &'_ Self| match filter {
            Self::Compare(Comparison::Equal, name, _) => name == field,
            _ => false,
        };
        let list = match self {
            Self::Or(list) => list.as_slice(),
            single => std::slice::from_ref(single),
        };
        let values = list.iter().filter(|filter| one(filter)).filter_map(|filter| match filter {
            Self::Compare(_, _, value) => Some(value),
            _ => None,
        });
        list.iter().all(one).then(|| values.collect())
    }

    /// Values of which `field` must be or hold one wherever the condition is true, so that other
    /// objects need not be looked at. `None` if the condition does not limit the field.
    pub fn limits(&self, field: &str) -> Option<Vec<&Operand>> {
        match self {
            Self::Compare(Comparison::Equal, name, value) | Self::Contains(name, value) => {
                (name == field).then(|| vec![value])
            }
            Self::And(all) => all.iter().find_map(|part| part.limits(field)),
            Self::Or(all) => {
                let parts: Option<Vec<_>> = all.iter().map(|part| part.limits(field)).collect();
                parts.map(|parts| parts.concat())
            }
            Self::Not(_) | Self::True(_) | Self::Compare(..) | Self::Matches(..) => None,
        }
    }

    /// The job ids if the filter is nothing but a list of them. Ids that cannot exist are left
    /// out.
    pub fn only_job_ids(&self) -> Option<Vec<JobId>> {
        let values = self.only_values_of("id")?;
        Some(values.into_iter().filter_map(Operand::as_job_id).collect())
    }
}

impl Operand {
    fn as_job_id(&self) -> Option<JobId> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Number(number) => number.as_u64().filter(|&id| id > 0).map(JobId),
        }
    }

    /// The number, if it is or writes a small natural one.
    pub fn as_u32(&self) -> Option<u32> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Number(number) => u32::try_from(number.as_u64()?).ok(),
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) => None,
        }
    }
}

impl Serialize for Operand {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Number(number) => number.serialize(serializer),
        }
    }
}

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let list = |operator: &'static str, parts: &'_ [Self], serializer: S| {
            serializer.collect_seq(
                std::iter::once(Part::Operator(operator)).chain(parts.iter().map(Part::Filter)),
            )
        };
        match self {
            Self::And(parts) => list("&", parts, serializer),
            Self::Or(parts) => list("|", parts, serializer),
            Self::Not(inner) => ("!", inner).serialize(serializer),
            Self::True(field) => ("?", field).serialize(serializer),
            Self::Compare(how, field, value) => {
                (how.operator(), field, value).serialize(serializer)
            }
            Self::Matches(field, pattern) => {
                ("=~", field, pattern.0.as_str()).serialize(serializer)
            }
            Self::Contains(field, value) => ("=[]", field, value).serialize(serializer),
        }
    }
}

/// An element in the list of a filter.
#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Operator(&'static str),
    Filter(&'a Filter),
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        read::filter(value).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
