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
        "tags": ["a", 5], "status": "running", "load": 1.5, "nothing": null, "empty": ""});
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
        (json!(["=~", "tags", "a"]), false),
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
    ] {
        assert_eq!(holds(filter.clone(), &object), expected, "{filter}");
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

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        "[a-c]{0,2}".prop_map(Operand::Text),
        (0_u64..4).prop_map(Operand::from),
        (-2_i64..2).prop_map(|n| Operand::Number(n.into())),
    ]
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let field = || "[a-d]";
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

proptest! {
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
