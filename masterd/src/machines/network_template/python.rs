//! Core: methods of Python that templates written for Ansible call.
//!
//! The engine's own layer has them for texts and maps. Its lists never change, so a list that a variable is
//! set to becomes one that takes further values.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;
use parking_lot::Mutex;

/// Bytes that a list takes by `append`: all MTUs, names and addresses of the largest host.
const APPENDED_BYTES_MAX: usize = 1 << 16;
/// Bytes of a value beside its text.
const VALUE_BYTES: usize = 32;
/// The function around a list that takes further values.
const GROWING: &str = "growing_list";

pub(super) fn add_methods(environment: &mut Environment<'_>) {
    environment.add_function(GROWING, growing_list);
    environment.set_unknown_method_callback(|state, value, method, arguments| match method {
        // It makes a text of any width before it is paid for; the filter pays first.
        "format" => Err(wrong("`format` is a filter here: `'%s' | format(value)`")),
        _ => unknown_method_callback(state, value, method, arguments),
    });
}

/// The template with lists that take further values in place of those at `lists`, if it appends to any.
pub(super) fn with_growing_lists<'t>(
    text: &'t str,
    lists: &BTreeSet<(usize, usize)>,
) -> Cow<'t, str> {
    if !text.contains("append") {
        return Cow::Borrowed(text);
    }
    let mut grown = text.to_owned();
    // From the last one on, so that the places of the others stay.
    for (start, end) in lists.iter().rev() {
        if grown.get(*start..*end).is_some_and(|list| list.starts_with('[') && list.ends_with(']'))
        {
            grown.insert(*end, ')');
            grown.insert_str(*start, &format!("{GROWING}("));
        }
    }
    Cow::Owned(grown)
}

fn wrong(why: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

fn growing_list(list: &Value) -> Result<Value, Error> {
    let values = list.try_iter()?.collect();
    Ok(Value::from_object(GrowingList { values: Mutex::new(values), bytes: Mutex::new(0) }))
}

/// A list, and what was appended to it.
#[derive(Debug)]
struct GrowingList {
    values: Mutex<Vec<Value>>,
    bytes: Mutex<usize>,
}

impl Object for GrowingList {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.values.lock().get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.values.lock().len())
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        arguments: &[Value],
    ) -> Result<Value, Error> {
        if method != "append" {
            let value = Value::from_dyn_object(Arc::clone(self));
            return unknown_method_callback(state, &value, method, arguments);
        }
        let (value,): (Value,) = from_args(arguments)?;
        // A list in itself would have no end.
        if !matches!(value.kind(), ValueKind::String | ValueKind::Number | ValueKind::Bool) {
            return Err(wrong(format!("a list takes texts and numbers, and no {}", value.kind())));
        }
        let mut bytes = self.bytes.lock();
        let more = VALUE_BYTES + value.as_str().map_or(0, str::len);
        if *bytes + more > APPENDED_BYTES_MAX {
            return Err(wrong(format!("a list takes at most {APPENDED_BYTES_MAX} bytes")));
        }
        *bytes += more;
        self.values.lock().push(value);
        // Templates print what it gives, and want nothing to be seen.
        Ok(Value::from(""))
    }
}
