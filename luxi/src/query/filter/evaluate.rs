//! Core: whether a condition holds for an object.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::{Comparison, Filter, Operand, Pattern};

/// Gives the value of a field.
type ValueOf<'a> = &'a mut dyn FnMut(&str) -> Option<Value>;

pub(super) fn holds(
    filter: &Filter,
    value_of: ValueOf<'_>,
    is_host_name: &dyn Fn(&str) -> bool,
) -> bool {
    match filter {
        Filter::And(parts) => parts.iter().all(|part| holds(part, value_of, is_host_name)),
        Filter::Or(parts) => parts.iter().any(|part| holds(part, value_of, is_host_name)),
        Filter::Not(inner) => !holds(inner, value_of, is_host_name),
        Filter::True(field) => value_of(field).is_some_and(|value| is_true(&value)),
        Filter::Compare(how, field, operand) => value_of(field)
            .is_some_and(|value| compares(*how, &value, operand, is_host_name(field))),
        Filter::Matches(field, pattern) => match value_of(field) {
            Some(Value::Array(list)) => list.iter().any(|value| matches(pattern, value)),
            value => value.is_some_and(|value| matches(pattern, &value)),
        },
        Filter::Contains(field, operand) => match value_of(field) {
            Some(Value::Array(list)) => {
                list.iter().any(|value| order(value, operand) == Some(Ordering::Equal))
            }
            _ => false,
        },
    }
}

fn matches(pattern: &Pattern, value: &Value) -> bool {
    match value {
        Value::String(text) => pattern.is_match(text),
        Value::Number(number) => pattern.is_match(&number.to_string()),
        _ => false,
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

fn compares(how: Comparison, value: &Value, operand: &Operand, is_host_name: bool) -> bool {
    let order = order(value, operand);
    let equal = || order == Some(Ordering::Equal) || (is_host_name && is_host_of(value, operand));
    match how {
        Comparison::Equal => equal(),
        Comparison::Different => !equal(),
        Comparison::Less => order.is_some_and(Ordering::is_lt),
        Comparison::AtMost => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order.is_some_and(Ordering::is_gt),
        Comparison::AtLeast => order.is_some_and(Ordering::is_ge),
    }
}

/// Whether `operand` is the host name, or what stands before one of its dots, in any case.
fn is_host_of(value: &Value, operand: &Operand) -> bool {
    let (Value::String(name), Operand::Text(part)) = (value, operand) else { return false };
    let (Some(head), Some(rest)) = (name.get(..part.len()), name.get(part.len()..)) else {
        return false;
    };
    !part.is_empty()
        && head.eq_ignore_ascii_case(part)
        && (rest.is_empty() || rest.starts_with('.'))
}

/// How they compare; `None` for values of kinds that do not.
fn order(value: &Value, operand: &Operand) -> Option<Ordering> {
    match (value, operand) {
        (Value::String(value), Operand::Text(text)) => Some(value.as_str().cmp(text)),
        (Value::Number(value), Operand::Number(number)) => numbers(value, number),
        (Value::Number(value), Operand::Text(text)) => {
            numbers(value, &serde_json::from_str(text).ok()?)
        }
        (Value::Array(pair), Operand::Number(number)) => {
            moment(pair)?.partial_cmp(&number.as_f64()?)
        }
        _ => None,
    }
}

/// A time as seconds and microseconds, in seconds.
fn moment(pair: &[Value]) -> Option<f64> {
    let [seconds, micros] = pair else { return None };
    Some(seconds.as_f64()? + micros.as_f64()? / 1e6)
}

/// Whole numbers compare exactly, others as floating point.
fn numbers(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}
