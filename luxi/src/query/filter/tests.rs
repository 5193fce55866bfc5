use std::cmp::Ordering;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::limits::{FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX, PATTERN_BYTES_MAX};

fn read(value: Value) -> Result<Filter, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn holds(filter: Value, object: &Value) -> bool {
    read(filter).unwrap().holds(|field| object.get(field).cloned())
}

#[test]
fn the_whole_language() {
    let object = json!({"id": 37, "name": "n1.example.com", "offline": false, "rack": 0,
        "tags": ["a", 5], "status": "running", "load": 1.5, "nothing": null, "empty": "",
        "host": "n2.example.com", "start": [1_700_000_000, 500_000]});
    for (filter, expected) in [
        (json!(["&"]), true),
        (json!(["|"]), false),
        (json!(["&", ["=", "id", 37], ["=", "status", "running"]]), true),
        (json!(["&", ["=", "id", 37], ["=", "status", "queued"]]), false),
        (json!(["|", ["=", "id", 38], ["=", "status", "running"]]), true),
        (json!(["!", ["?", "offline"]]), true),
        (json!(["?", "rack"]), false),
        (json!(["?", "tags"]), true),
        (json!(["?", "nothing"]), false),
        (json!(["?", "empty"]), false),
        (json!(["?", "absent"]), false),
        (json!(["==", "id", "37"]), true),
        (json!(["==", "id", "x"]), false),
        (json!(["!=", "id", 37]), false),
        (json!(["!=", "id", "x"]), true),
        (json!(["!=", "absent", 1]), false),
        (json!(["<", "id", 38]), true),
        (json!(["<", "id", 37]), false),
        (json!(["<=", "id", 37]), true),
        (json!([">", "id", 36.5]), true),
        (json!([">=", "load", 2]), false),
        (json!([">", "status", "queued"]), true),
        (json!(["<", "status", 5]), false),
        (json!(["=~", "status", "^run"]), true),
        (json!(["=~", "id", "^3"]), true),
        (json!(["=~", "tags", "^a$"]), true),
        (json!(["=~", "tags", "b"]), false),
        (json!(["=[]", "tags", "a"]), true),
        (json!(["=[]", "tags", 5]), true),
        (json!(["=[]", "tags", "b"]), false),
        (json!(["=[]", "status", "r"]), false),
        (json!(["=", "name", "n1"]), true),
        (json!(["=", "name", "N1.EXAMPLE"]), true),
        (json!(["=", "name", "n1.example.com"]), true),
        (json!(["=", "name", "n"]), false),
        (json!(["=", "name", ""]), false),
        (json!(["!=", "name", "n1"]), false),
        (json!(["=", "status", "run"]), false),
        (json!(["=", "host", "n2"]), false),
        (json!([">", "start", 1_700_000_000]), true),
        (json!([">=", "start", 1_700_000_001]), false),
        (json!(["=", "start", 1_700_000_000.5]), true),
        (json!(["=", "tags", 5]), false),
    ] {
        assert_eq!(holds(filter.clone(), &object), expected, "{filter}");
    }
}

#[test]
fn host_names_are_where_they_are_told() {
    let object = json!({"name": "n1.example.com", "host": "n2.example.com"});
    for (field, value, expected) in [
        ("host", "n2", true),
        ("host", "N2.Example", true),
        ("host", "N2.EXAMPLE.COM", true),
        ("host", "n2.", false),
        ("host", "n2.exam", false),
        ("host", "n2.example.com.org", false),
        ("host", "ñ2", false),
        ("name", "n1", false),
        ("name", "n1.example.com", true),
    ] {
        let filter = Filter::any_of(field, [value]);
        let value_of = |field: &str| object.get(field).cloned();
        let found = filter.holds_where(value_of, |field| field == "host");
        assert_eq!(found, expected, "{field} {value}");
    }
}

#[test]
fn what_is_no_filter_is_told() {
    for (filter, told) in [
        (json!({}), "a filter is a list"),
        (json!([]), "an empty list"),
        (json!([5]), "a filter is a list"),
        (json!(["~", "a", "b"]), "unknown filter operator `~`"),
        (json!(["!"]), "takes one filter"),
        (json!(["!", ["&"], ["&"]]), "takes one filter"),
        (json!(["?", 5]), "the name of a field"),
        (json!(["=", "a"]), "`==` takes the name of a field and a text"),
        (json!(["=", "a", null]), "a text or a number"),
        (json!(["=", "a", 1, 2]), "a text or a number"),
        (json!(["=~", "a", 1]), "a regular expression"),
        (json!(["=~", "a", "("]), "no usable regular expression"),
        (json!(["=~", "a", "(a{999}){999}"]), "no usable regular expression"),
        (json!(["=~", "a", "x".repeat(PATTERN_BYTES_MAX + 1)]), "at most 1024 bytes"),
        (json!(["&", ["|", ["^"]]]), "unknown filter operator `^`"),
    ] {
        let error = read(filter.clone()).unwrap_err();
        assert!(error.contains(told), "{filter}: {error}");
    }
}

#[test]
fn limits() {
    let mut deep = json!(["&"]);
    for _ in 0..FILTER_DEPTH_MAX {
        deep = json!(["!", deep]);
    }
    assert!(read(deep.clone()).is_ok());
    assert!(read(json!(["!", deep])).unwrap_err().contains("at most 32 levels"));
    let wide = |n| {
        let mut list = vec![json!("|")];
        list.resize(n, json!(["=", "id", 5]));
        Value::Array(list)
    };
    assert!(read(wide(FILTER_CONDITIONS_MAX)).is_ok());
    assert!(read(wide(FILTER_CONDITIONS_MAX + 1)).unwrap_err().contains("conditions"));
    let patterns = vec![json!(["=~", "a", "b"]); 65];
    let patterns = std::iter::once(json!("|")).chain(patterns).collect();
    assert!(read(Value::Array(patterns)).unwrap_err().contains("64 regular expressions"));
}

#[test]
fn lists_of_ids_are_seen() {
    let ids = |filter| read(filter).unwrap().only_job_ids();
    assert_eq!(
        ids(json!(["|", ["=", "id", 5], ["==", "id", "6"]])),
        Some(vec![JobId(5), JobId(6)])
    );
    assert_eq!(ids(json!(["=", "id", 5])), Some(vec![JobId(5)]));
    assert_eq!(ids(json!(["|", ["=", "id", 0], ["=", "id", "x"]])), Some(vec![]));
    assert_eq!(ids(json!(["|"])), Some(vec![]));
    for other in [
        json!(["&", ["=", "id", 5]]),
        json!(["|", ["=", "id", 5], ["=", "status", "error"]]),
        json!(["!=", "id", 5]),
        json!(["|", ["|", ["=", "id", 5]]]),
    ] {
        assert_eq!(ids(other.clone()), None, "{other}");
    }
    let filter = read(json!(["&", ["?", "a"], ["!", ["=~", "b", "c"]]])).unwrap();
    assert_eq!(filter.fields(), ["a", "b"]);
}

#[test]
fn limits_of_a_field_are_seen() {
    let limits = |filter| -> Option<Vec<String>> {
        let filter = read(filter).unwrap();
        let values = filter.limits("a")?;
        Some(values.into_iter().map(|value| value.as_text().unwrap().to_owned()).collect())
    };
    let some = |values: &[&str]| Some(values.iter().map(|&value| value.to_owned()).collect());
    let [x, y, other] = [json!(["=", "a", "x"]), json!(["=[]", "a", "y"]), json!(["=", "b", "z"])];
    for (filter, limited) in [
        (x.clone(), some(&["x"])),
        (json!(["&", other, x]), some(&["x"])),
        (json!(["|", x, y]), some(&["x", "y"])),
        (json!(["|", ["&", x, other], y]), some(&["x", "y"])),
        (json!(["|"]), some(&[])),
        (json!(["|", x, other]), None),
        (json!(["&"]), None),
        (json!(["!", x]), None),
        (json!(["!=", "a", "x"]), None),
    ] {
        assert_eq!(limits(filter.clone()), limited, "{filter}");
    }
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        "[a-c]{0,2}".prop_map(Operand::Text),
        (0_u64..4).prop_map(Operand::from),
        (-2_i64..2).prop_map(|n| Operand::Number(n.into())),
    ]
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let field = || "[a-d]|name";
    let how = prop_oneof![
        Just(Comparison::Equal),
        Just(Comparison::Different),
        Just(Comparison::Less),
        Just(Comparison::AtMost),
        Just(Comparison::Greater),
        Just(Comparison::AtLeast),
    ];
    let leaf = prop_oneof![
        field().prop_map(Filter::True),
        (how, field(), operand()).prop_map(|(h, f, o)| Filter::Compare(h, f, o)),
        (field(), "[a-c.]{1,2}").prop_map(|(f, p)| Filter::matching(&f, &p).unwrap()),
        (field(), operand()).prop_map(|(f, o)| Filter::Contains(f, o)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Filter::And),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Filter::Or),
            inner.prop_map(|f| Filter::Not(Box::new(f))),
        ]
    })
}

/// The meaning of a filter, from its text alone and without haste.
fn oracle(filter: &Value, object: &Value) -> bool {
    let (operator, rest) = filter.as_array().unwrap().split_first().unwrap();
    match (operator.as_str().unwrap(), rest) {
        ("&", parts) => !parts.iter().any(|part| !oracle(part, object)),
        ("|", parts) => parts.iter().any(|part| oracle(part, object)),
        ("!", [part]) => !oracle(part, object),
        ("?", [field]) => {
            let nothing = [json!(null), json!(false), json!(0), json!(""), json!([])];
            object.get(field.as_str().unwrap()).is_some_and(|value| !nothing.contains(value))
        }
        (operator, [field, wanted]) => {
            let field = field.as_str().unwrap();
            object.get(field).is_some_and(|value| relation(operator, field, value, wanted))
        }
        _ => panic!("no filter: {filter}"),
    }
}

fn relation(operator: &str, field: &str, value: &Value, wanted: &Value) -> bool {
    let order = ordering(value, wanted);
    let order_is = |wanted: &[Ordering]| order.is_some_and(|found| wanted.contains(&found));
    let is_short_name = match (value, wanted) {
        (Value::String(name), Value::String(part)) => {
            field == "name" && !part.is_empty() && name.starts_with(&format!("{part}."))
        }
        _ => false,
    };
    match operator {
        "==" => order_is(&[Ordering::Equal]) || is_short_name,
        "!=" => !(order_is(&[Ordering::Equal]) || is_short_name),
        "<" => order_is(&[Ordering::Less]),
        "<=" => order_is(&[Ordering::Less, Ordering::Equal]),
        ">" => order_is(&[Ordering::Greater]),
        ">=" => order_is(&[Ordering::Greater, Ordering::Equal]),
        "=~" => {
            let pattern = regex::Regex::new(wanted.as_str().unwrap()).unwrap();
            let is_match = |value: &Value| match value {
                Value::String(text) => pattern.is_match(text),
                Value::Number(number) => pattern.is_match(&number.to_string()),
                _ => false,
            };
            value.as_array().map_or_else(|| is_match(value), |list| list.iter().any(is_match))
        }
        "=[]" => value.as_array().is_some_and(|list| {
            list.iter().any(|element| ordering(element, wanted) == Some(Ordering::Equal))
        }),
        other => panic!("no operator {other}"),
    }
}

/// Text compares with text alone, a number also with the text of one, a time with seconds.
fn ordering(value: &Value, wanted: &Value) -> Option<Ordering> {
    match (value, wanted) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Value::Number(a), Value::String(b)) => a.as_f64()?.partial_cmp(&b.parse().ok()?),
        (Value::Array(time), Value::Number(b)) => match time.as_slice() {
            [seconds, micros] => {
                (seconds.as_f64()? + micros.as_f64()? / 1e6).partial_cmp(&b.as_f64()?)
            }
            _ => None,
        },
        _ => None,
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-2_i64..4).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
        "[ab][.][ab]".prop_map(Value::from),
        proptest::collection::vec(
            prop_oneof![(-2_i64..4).prop_map(Value::from), "[a-c]{0,2}".prop_map(Value::from)],
            0..3,
        )
        .prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn filters_mean_what_they_say(
        filter in any_filter(),
        object in proptest::collection::btree_map("[a-d]|name", any_value(), 0..5),
    ) {
        let text = serde_json::to_value(&filter).unwrap();
        let object = json!(object);
        let value_of = |field: &str| object.get(field).cloned();
        prop_assert_eq!(filter.holds(value_of), oracle(&text, &object), "{} of {}", text, object);
    }

    /// An object that none of the limits are about is not let through.
    #[test]
    fn limits_leave_nothing_out(
        filter in any_filter(),
        object in proptest::collection::btree_map("[a-d]|name", any_value(), 0..5),
    ) {
        let holds_one = |field: &str, operand: &Operand| {
            let is = |how: fn(String, Operand) -> Filter| {
                how(field.to_owned(), operand.clone()).holds(|field| object.get(field).cloned())
            };
            is(|f, o| Filter::Compare(Comparison::Equal, f, o)) || is(Filter::Contains)
        };
        for field in ["a", "name"] {
            let Some(values) = filter.limits(field) else { continue };
            let limited = values.iter().any(|operand| holds_one(field, operand));
            prop_assert!(limited || !filter.holds(|field| object.get(field).cloned()));
        }
    }

    #[test]
    fn written_filters_read_back(filter in any_filter()) {
        let text = serde_json::to_string(&filter).unwrap();
        prop_assert_eq!(serde_json::from_str::<Filter>(&text).unwrap(), filter);
    }

    #[test]
    fn not_and_or_obey_de_morgan(parts in proptest::collection::vec(any_filter(), 0..4), seed: u8) {
        let object = json!({"a": seed % 3, "b": "abc".get(..usize::from(seed % 4)),
            "c": [seed % 2, "a"], "d": seed & 8 == 0});
        let value_of = |field: &str| object.get(field).cloned();
        let not = |f: Filter| Filter::Not(Box::new(f));
        let left = not(Filter::And(parts.clone()));
        let right = Filter::Or(parts.into_iter().map(not).collect());
        prop_assert_eq!(left.holds(value_of), right.holds(value_of));
    }

    #[test]
    fn reading_never_panics(text in "[\\[\\]\"&|!=~?<>a0, ]{0,40}") {
        if let Ok(filter) = serde_json::from_str::<Filter>(&text) {
            prop_assert_eq!(read(serde_json::to_value(&filter).unwrap()), Ok(filter));
        }
    }
}
