//! Core: whether a condition holds for an object.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::{Comparison, Filter, HOST_NAME_FIELD, Operand};

pub(super) fn holds(filter: &Filter, value_of: &mut dyn FnMut(&str) -> Option<Value>) -> bool {
    match filter {
        Filter::And(parts) => parts.iter().all(|part| holds(part, value_of)),
        Filter::Or(parts) => parts.iter().any(|part| holds(part, value_of)),
        Filter::Not(inner) => !holds(inner, value_of),
        Filter::True(field) => value_of(field).is_some_and(|value| is_true(&value)),
        Filter::Compare(how, field, operand) => {
            value_of(field).is_some_and(|value| compares(*how, field, &value, operand))
        }
        Filter::Matches(field, pattern) => match value_of(field) {
            Some(Value::String(text)) => pattern.0.is_match(&text),
            Some(Value::Number(number)) => pattern.0.is_match(&number.to_string()),
            _ => false,
        },
        Filter::Contains(field, operand) => match value_of(field) {
            Some(Value::Array(list)) => {
                list.iter().any(|value| order(value, operand) == Some(Ordering::Equal))
            }
            _ => false,
        },
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

fn compares(how: Comparison, field: &str, value: &Value, operand: &Operand) -> bool {
    let order = order(value, operand);
    let equal = || {
        order == Some(Ordering::Equal) || (field == HOST_NAME_FIELD && is_host_of(value, operand))
    };
    match how {
        Comparison::Equal => equal(),
        Comparison::Different => !equal(),
        Comparison::Less => order.is_some_and(Ordering::is_lt),
        Comparison::AtMost => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order.is_some_and(Ordering::is_gt),
        Comparison::AtLeast => order.is_some_and(Ordering::is_ge),
    }
}

/// Whether `operand` is what stands before one of the dots of the host name.
fn is_host_of(value: &Value, operand: &Operand) -> bool {
    let (Value::String(name), Operand::Text(part)) = (value, operand) else { return false };
    let rest = name.get(..part.len()).filter(|head| head.eq_ignore_ascii_case(part));
    rest.is_some() && !part.is_empty() && name.get(part.len()..).is_some_and(|r| r.starts_with('.'))
}

/// How they compare; `None` for values of kinds that do not.
fn order(value: &Value, operand: &Operand) -> Option<Ordering> {
    match (value, operand) {
        (Value::String(value), Operand::Text(text)) => Some(value.as_str().cmp(text)),
        (Value::Number(value), Operand::Number(number)) => numbers(value, number),
        (Value::Number(value), Operand::Text(text)) => {
            numbers(value, &serde_json::from_str(text).ok()?)
        }
        _ => None,
    }
}

/// Whole numbers compare exactly, others as floating point.
fn numbers(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}
