//! Core: values as Ganeti's clients print them, which are programs in Python: scripts read
//! `None`, `True` and `['a', 1]`.

use serde_json::{Number, Value};
use stdx::text;

/// The value as text: text as it is, everything else as [`repr`] has it.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| repr(value), str::to_owned)
}

/// The value as Python writes it in a program.
pub(crate) fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => self::number(number),
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            format!("[{}]", list.iter().map(repr).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let entry =
                |(key, value): (&String, &Value)| format!("{}: {}", quoted(key), repr(value));
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Whether Python takes the value for true.
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// Whole numbers as they are; others with the fewest digits that tell them, and with an exponent
/// below 10⁻⁴ and from 10¹⁶ on.
fn number(number: &Number) -> String {
    let Some(value) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn quoted(text: &str) -> String {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(mark);
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str("\\\\"),
            c if c == mark => {
                quoted.push('\\');
                quoted.push(c);
            }
            c => text::push(&mut quoted, c),
        }
    }
    quoted.push(mark);
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are those that Python 3 prints.
    #[test]
    fn values() {
        for (json, printed) in [
            ("null", "None"),
            ("true", "True"),
            ("5", "5"),
            ("-7", "-7"),
            ("0.0", "0.0"),
            ("1.5", "1.5"),
            ("-0.0", "-0.0"),
            ("1e22", "1e+22"),
            ("1e16", "1e+16"),
            ("123456789012345.0", "123456789012345.0"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1.25e-7", "1.25e-07"),
            (r#""it""#, "'it'"),
            (r#""it's""#, r#""it's""#),
            (r#""it's \"x\"""#, r#"'it\'s "x"'"#),
            (r#""a\\b\n\u0001ä""#, r"'a\\b\n\x01ä'"),
            (r#"[1, "a", [], {"k": null, "j": [true]}]"#, "[1, 'a', [], {'j': [True], 'k': None}]"),
        ] {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(repr(&value), printed, "{json}");
        }
        assert_eq!(text(&Value::from("it's")), "it's");
    }

    #[test]
    fn truth() {
        for (json, truth) in [
            ("null", false),
            ("0", false),
            ("0.5", true),
            ("\"\"", false),
            ("[0]", true),
            ("{}", false),
        ] {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(is_true(&value), truth, "{json}");
        }
    }
}
