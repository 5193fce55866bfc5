//! Core: the functions of templates: those of Go that make no more than they are given, and sabakan's.

use std::sync::{Arc, LazyLock};

use gotmpl::{FuncMap, Template, TemplateError, Value, html_escape, js_escape, url_encode};
use model::boot_template::{ENROL_TOKEN, MY_URL, MY_URL_HTTPS};

use super::engine::{INDEX, Meter, PUT, RANGED, RAW, refusal};
use super::{Place, Words, facts};

/// The functions that a template may call. Go's `call` is not among them: nothing here is a function.
pub(super) const NAMES: &[&str] = &[
    "MyURL",
    "MyURLHTTPS",
    "EnrolToken",
    "Metadata",
    "json",
    "add",
    "sub",
    "mul",
    "div",
    "and",
    "or",
    "not",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "index",
    "len",
    "slice",
    "print",
    "println",
    "printf",
    "html",
    "js",
    "urlquery",
];

/// The functions that make a constant of constants.
pub(super) const OF_CONSTANTS: &[&str] =
    &["add", "sub", "mul", "div", "print", "println", "printf", "html", "js", "urlquery"];

/// Longest width or precision of `printf`: a line of any file.
const WIDTH_MAX: usize = 1_000;

type Given<'a> = &'a [Value];
type Made = Result<Value, TemplateError>;

/// Go's own functions are there already; these come beside them, or in the place of those that would make
/// more than any limit.
pub(super) fn all(words: &Words, meter: &Arc<Meter>, place: Place) -> FuncMap {
    let mut functions = FuncMap::new();
    let mut with = |name: &str, function: fn(&Meter, Given<'_>) -> Made| {
        let meter = Arc::clone(meter);
        functions.insert(name.to_owned(), Arc::new(move |given| function(&meter, given)));
    };
    with("MyURL", |meter, _| Ok(meter.word(MY_URL)));
    with("MyURLHTTPS", |meter, _| Ok(meter.word(MY_URL_HTTPS)));
    with("EnrolToken", |meter, _| Ok(meter.word(ENROL_TOKEN)));
    with("json", |meter, given| meter.text(json(one(given, "json")?)?.to_string()));
    with("add", |_, given| arithmetic(given, i64::checked_add, |a, b| a + b));
    with("sub", |_, given| arithmetic(given, i64::checked_sub, |a, b| a - b));
    with("mul", |_, given| arithmetic(given, i64::checked_mul, |a, b| a * b));
    with("div", |_, given| arithmetic(given, i64::checked_div, |a, b| a / b));
    with("index", |meter, given| indexed(meter, given, false));
    with(INDEX, |meter, given| indexed(meter, given, true));
    with(RANGED, |_, given| no_structure(one(given, "range")?).cloned());
    with("len", |_, given| {
        let value = no_structure(one(given, "len")?)?;
        let none = || refusal(format!("a value of type {} has no length", value.type_name()));
        let length = value.len().and_then(|length| i64::try_from(length).ok());
        length.map(Value::Int).ok_or_else(none)
    });
    with("print", |meter, given| printed(meter, given, false));
    with("println", |meter, given| printed(meter, given, true));
    with("printf", printf);
    with("html", |meter, given| escaped(meter, given, html_escape));
    with("js", |meter, given| escaped(meter, given, js_escape));
    with("urlquery", |meter, given| escaped(meter, given, url_encode));
    let metadata = Arc::clone(&words.metadata);
    let of_key = move |given: Given<'_>| {
        let key = one(given, "Metadata")?.to_string();
        let missing = || refusal(format!("the template has no metadata `{key}`"));
        metadata.get(&key).cloned().ok_or_else(missing)
    };
    functions.insert("Metadata".to_owned(), Arc::new(of_key));
    for (name, place) in [(PUT, place), (RAW, Place::Value)] {
        let meter = Arc::clone(meter);
        let put = move |given: Given<'_>| meter.text(inserted(one(given, "action")?, place)?);
        functions.insert(name.to_owned(), Arc::new(put));
    }
    functions
}

/// The only argument.
fn one<'a>(given: Given<'a>, name: &str) -> Result<&'a Value, TemplateError> {
    match given {
        [value] => Ok(value),
        _ => Err(refusal(format!("{name} takes one argument, and got {}", given.len()))),
    }
}

/// A value that is no structure: Go does not count the fields of one.
fn no_structure(value: &Value) -> Result<&Value, TemplateError> {
    match facts::is_structure(value) {
        true => Err(refusal("a structure has named fields, and is no list or map".to_owned())),
        false => Ok(value),
    }
}

/// A value within others. To Go a label that is not there is an empty text, unless it `must_be` there.
fn indexed(meter: &Meter, given: Given<'_>, must_be: bool) -> Made {
    let [value, keys @ ..] = given else {
        return Err(refusal("index takes a list or map, and what is sought in it".to_owned()));
    };
    let mut value = value.clone();
    for key in keys {
        let found = no_structure(&value)?.index(key)?;
        value = match found {
            Value::Nil if must_be && meter.is_labels(&value) => {
                return Err(refusal(format!("there is no label `{key}` here")));
            }
            Value::Nil if meter.is_labels(&value) => Value::String("".into()),
            found => found,
        };
    }
    Ok(value)
}

/// A value as it is printed.
fn shown(value: &Value) -> Result<&Value, TemplateError> {
    match facts::printed(value) {
        Some(moment) => Ok(moment),
        None => no_structure(value),
    }
}

/// A value as the text that is inserted.
fn inserted(value: &Value, place: Place) -> Result<String, TemplateError> {
    let text = match facts::printed(value).unwrap_or(value) {
        Value::Nil => return Err(refusal("a value that is inserted is missing".to_owned())),
        Value::Map(_) | Value::List(_) | Value::Function(_) => {
            let why = "a map or list is no text: name one of its values, or write `| json`";
            return Err(refusal(why.to_owned()));
        }
        plain => plain.to_string(),
    };
    match place {
        Place::Value => Ok(text),
        Place::Json => {
            let quoted = serde_json::Value::from(text).to_string();
            Ok(quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned())
        }
        Place::Script => plain(text, "a shell", ""),
        Place::Yaml if text.starts_with(['-', ',', ':', '%', '@', '=', ' ']) => {
            Err(refusal(format!("`{text}` may be more than text to YAML; write `| json`")))
        }
        Place::Yaml if text.contains(": ") || text.ends_with([':', ' ']) => {
            Err(refusal(format!("`{text}` may be more than text to YAML; write `| json`")))
        }
        Place::Yaml => plain(text, "YAML", "; write `| json` for others"),
    }
}

/// A text that is nothing else to whoever reads it.
fn plain(text: String, reader: &str, remedy: &str) -> Result<String, TemplateError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/@+=% ".contains(c);
    match text.chars().find(|c| !is_plain(*c)) {
        None => Ok(text),
        Some(c) => Err(refusal(format!(
            "{c:?} of a value may be more than text to {reader}; only letters, digits, blanks and \
             `-_.,:/@+=%` are inserted, and what the template itself says, as {{{{ \"{c}\" }}}}{remedy}"
        ))),
    }
}

fn json(value: &Value) -> Result<serde_json::Value, TemplateError> {
    use serde_json::Value as Json;
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Int(value) => Json::from(*value),
        Value::Uint(value) => Json::from(*value),
        Value::Float(value) => Json::from(*value),
        Value::String(text) => Json::from(text.as_ref()),
        Value::List(list) => Json::Array(list.iter().map(json).collect::<Result<_, _>>()?),
        Value::Map(map) => {
            if let Some(moment) = facts::in_json(value) {
                return json(moment);
            }
            let name = |key: &str| match facts::is_structure(value) {
                true => facts::name_in_json(key).map(str::to_owned),
                false => Some(key.to_owned()),
            };
            let named = map.iter().filter_map(|(key, value)| Some((name(key)?, value)));
            let entry = |(key, value)| Ok((key, json(value)?));
            Json::Object(named.map(entry).collect::<Result<_, TemplateError>>()?)
        }
        Value::Function(_) => return Err(refusal("a function has no JSON".to_owned())),
    })
}

fn arithmetic(
    given: Given<'_>,
    whole: fn(i64, i64) -> Option<i64>,
    real: fn(f64, f64) -> f64,
) -> Made {
    let [a, b] = given else {
        return Err(refusal(format!("arithmetic takes two numbers, and got {}", given.len())));
    };
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        let none = || refusal(format!("the numbers {a} and {b} have no such result"));
        return whole(a, b).map(Value::Int).ok_or_else(none);
    }
    let (Some(a), Some(b)) = (float(a), float(b)) else {
        return Err(refusal(format!("`{a}` and `{b}` are not both numbers")));
    };
    let result = real(a, b);
    let none = || refusal(format!("the numbers {a} and {b} have no such result"));
    result.is_finite().then_some(Value::Float(result)).ok_or_else(none)
}

#[expect(clippy::cast_precision_loss, reason = "Go rounds so, too")]
fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        other => integer(other).map(|value| value as f64),
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(value) => Some(*value),
        Value::Uint(value) => i64::try_from(*value).ok(),
        _ => None,
    }
}

/// As Go does it: `print` has a blank between two values of which none is a text, `println` between all.
fn printed(meter: &Meter, given: Given<'_>, is_line: bool) -> Made {
    let mut text = String::new();
    let is_text = |value: &Value| matches!(value, Value::String(_));
    for (at, value) in given.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| given.get(before));
        if before.is_some_and(|before| is_line || (!is_text(before) && !is_text(value))) {
            text.push(' ');
        }
        text.push_str(&shown(value)?.to_string());
        meter.room(text.len())?;
    }
    if is_line {
        text.push('\n');
    }
    meter.text(text)
}

fn escaped(meter: &Meter, given: Given<'_>, escape: fn(&str) -> String) -> Made {
    let Value::String(text) = printed(meter, given, false)? else {
        return Err(refusal("no text to escape".to_owned()));
    };
    if [MY_URL, MY_URL_HTTPS, ENROL_TOKEN].iter().any(|word| text.contains(word)) {
        let why =
            "the URL of the agent, or the token of a node, is inserted as it is, and not escaped";
        return Err(refusal(why.to_owned()));
    }
    meter.text(escape(&text))
}

/// Formats one value, by the engine's own `printf`.
static ONE: LazyLock<Template> = LazyLock::new(|| {
    Template::new("").parse("{{printf .Format .Value}}").expect("it is a good template")
});

/// `printf` with a value for each verb, and numbers alone for width and precision.
fn printf(meter: &Meter, given: Given<'_>) -> Made {
    let [Value::String(format), values @ ..] = given else {
        return Err(refusal("printf takes a text and values".to_owned()));
    };
    let (mut text, mut rest, mut values) = (String::new(), format.as_ref(), values.iter());
    while let Some((plain, verb)) = rest.split_once('%') {
        text.push_str(plain);
        let end = verb.find(|c: char| !"-+# 0123456789.".contains(c));
        let Some(end) = end else {
            return Err(refusal(format!("printf: `%{verb}` has no verb")));
        };
        let length = verb[end..].chars().next().map_or(0, char::len_utf8);
        let (one, after) = verb.split_at(end + length);
        rest = after;
        if one == "%" {
            text.push('%');
            continue;
        }
        let numbers = one.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let is_wide = |digits: &str| digits.parse::<usize>().map_or(true, |n| n > WIDTH_MAX);
        if let Some(wide) = numbers.clone().find(|digits| is_wide(digits)) {
            return Err(refusal(format!("printf: {wide} is wider than {WIDTH_MAX}")));
        }
        let value = values.next();
        let value = value.ok_or_else(|| refusal(format!("printf: `%{one}` has no value")))?;
        let value = shown(value)?;
        meter.room(value.to_string().len())?;
        let words = [("Format", Value::String(format!("%{one}").into())), ("Value", value.clone())];
        let words = words.map(|(name, value)| (name.into(), value));
        let told = ONE.execute_to_string(&Value::Map(Arc::new(words.into())))?;
        if told.starts_with("%!") {
            return Err(refusal(format!("printf: `%{one}` does not fit `{value}`")));
        }
        text.push_str(&told);
        meter.room(text.len())?;
    }
    if values.next().is_some() {
        return Err(refusal("printf: there are more values than verbs".to_owned()));
    }
    text.push_str(rest);
    meter.text(text)
}
