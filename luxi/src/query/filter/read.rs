//! Core: from JSON to a filter, within the limits of the language.

use std::sync::Arc;

use regex::RegexBuilder;
use serde_json::Value;

use super::{Comparison, Filter, FilterError, Operand, Pattern};
use crate::limits::{
    FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX, FILTER_PATTERNS_MAX, PATTERN_BYTES_MAX,
    PATTERN_COMPILED_BYTES_MAX,
};

/// Longest piece of a client's own text that an error repeats.
const QUOTED_MAX: usize = 64;

pub(super) fn filter(value: Value) -> Result<Filter, FilterError> {
    Reader { conditions: 0, patterns: 0 }.filter(value, 0)
}

struct Reader {
    conditions: usize,
    patterns: usize,
}

impl Reader {
    fn filter(&mut self, value: Value, depth: usize) -> Result<Filter, FilterError> {
        bounded("levels", depth, FILTER_DEPTH_MAX)?;
        self.conditions += 1;
        bounded("conditions", self.conditions, FILTER_CONDITIONS_MAX)?;
        let Value::Array(list) = value else {
            return Err(FilterError::Shape { found: quoted(&value.to_string()) });
        };
        let mut list = list.into_iter();
        let operator = match list.next() {
            Some(Value::String(operator)) => operator,
            Some(other) => return Err(FilterError::Shape { found: quoted(&other.to_string()) }),
            None => return Err(FilterError::Shape { found: "an empty list".to_owned() }),
        };
        match operator.as_str() {
            "&" => self.filters(list, depth).map(Filter::And),
            "|" => self.filters(list, depth).map(Filter::Or),
            "!" => match (list.next(), list.next()) {
                (Some(inner), None) => Ok(Filter::Not(Box::new(self.filter(inner, depth + 1)?))),
                _ => Err(FilterError::Operands { operator: "!", wanted: "one filter" }),
            },
            "?" => match (list.next(), list.next()) {
                (Some(Value::String(field)), None) => Ok(Filter::True(field)),
                _ => Err(FilterError::Operands { operator: "?", wanted: "the name of a field" }),
            },
            "=~" => match (list.next(), list.next(), list.next()) {
                (Some(Value::String(field)), Some(Value::String(text)), None) => {
                    self.patterns += 1;
                    bounded("regular expressions", self.patterns, FILTER_PATTERNS_MAX)?;
                    Ok(Filter::Matches(field, pattern(&text)?))
                }
                _ => Err(FilterError::Operands {
                    operator: "=~",
                    wanted: "the name of a field and a regular expression",
                }),
            },
            "=[]" => operands("=[]", list).map(|(field, value)| Filter::Contains(field, value)),
            other => {
                let how = comparison(other)?;
                let (field, value) = operands(how.operator(), list)?;
                Ok(Filter::Compare(how, field, value))
            }
        }
    }

    fn filters(
        &mut self,
        list: impl Iterator<Item = Value>,
        depth: usize,
    ) -> Result<Vec<Filter>, FilterError> {
        list.map(|value| self.filter(value, depth + 1)).collect()
    }
}

fn comparison(operator: &str) -> Result<Comparison, FilterError> {
    Ok(match operator {
        "==" | "=" => Comparison::Equal,
        "!=" => Comparison::Different,
        "<" => Comparison::Less,
        "<=" => Comparison::AtMost,
        ">" => Comparison::Greater,
        ">=" => Comparison::AtLeast,
        other => return Err(FilterError::Operator { operator: quoted(other) }),
    })
}

fn operands(
    operator: &'static str,
    mut list: impl Iterator<Item = Value>,
) -> Result<(String, Operand), FilterError> {
    let value = match (list.next(), list.next(), list.next()) {
        (Some(Value::String(field)), Some(Value::String(text)), None) => {
            Some((field, Operand::Text(text)))
        }
        (Some(Value::String(field)), Some(Value::Number(number)), None) => {
            Some((field, Operand::Number(number)))
        }
        _ => None,
    };
    value.ok_or(FilterError::Operands {
        operator,
        wanted: "the name of a field and a text or a number",
    })
}

pub(super) fn pattern(text: &str) -> Result<Pattern, FilterError> {
    bounded("bytes in a regular expression", text.len(), PATTERN_BYTES_MAX)?;
    RegexBuilder::new(text)
        .size_limit(PATTERN_COMPILED_BYTES_MAX)
        .dfa_size_limit(PATTERN_COMPILED_BYTES_MAX)
        .build()
        .map(|regex| Pattern(Arc::new(regex)))
        .map_err(|error| FilterError::Pattern { pattern: quoted(text), error: Box::new(error) })
}

fn bounded(what: &'static str, count: usize, limit: usize) -> Result<(), FilterError> {
    if count > limit { Err(FilterError::TooMuch { what, limit }) } else { Ok(()) }
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_MAX).collect()
}
