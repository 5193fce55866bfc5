//! Core: parameters with their defaults, in the form of Ganeti's `info` commands.

use serde_json::{Map, Value};

use crate::details::{Detail, Entry};
use crate::python;

/// The bounds of instances, in the order in which they are shown.
const BOUNDS: [&str; 2] = ["min", "max"];
/// Numbers of a policy, in the order in which they are shown.
const RATIOS: [&str; 2] = ["vcpu-ratio", "spindle-ratio"];
/// The key of the bounds in a policy.
const MINMAX: &str = "minmax";
/// The key of the usual sizes in a policy.
const STANDARD: &str = "std";
/// The key of the allowed disk templates in a policy.
const TEMPLATES: &str = "disk-templates";

/// All parameters with the values that hold: those of `own`, else the defaults, which say so.
pub(crate) fn merged(own: &Value, actual: &Value) -> Detail {
    let nothing = Map::new();
    let own = own.as_object().unwrap_or(&nothing);
    let entry = |(key, value): (&String, &Value)| {
        let given = own.get(key);
        match value {
            Value::Object(map) if !map.is_empty() => {
                Entry::new(key, merged(given.unwrap_or(&Value::Null), value))
            }
            _ => {
                let default = || format!("default ({})", python::text(value));
                Entry::new(key, given.map_or_else(default, python::text))
            }
        }
    };
    Detail::Map(actual.as_object().unwrap_or(&nothing).iter().map(entry).collect())
}

/// Maps of parameters with values as they are.
pub(crate) fn grouped(params: &Value) -> Detail {
    match params {
        Value::Object(map) => {
            Detail::Map(map.iter().map(|(key, value)| Entry::new(key, grouped(value))).collect())
        }
        other => python::text(other).into(),
    }
}

/// The limits of instances of a group: those of its own, else those of the cluster.
pub(crate) fn policy(own: &Value, effective: &Value) -> Detail {
    let mut entries = vec![Entry::new(
        "bounds specs",
        match own.get(MINMAX) {
            Some(bounds) if python::is_true(bounds) => self::bounds(bounds, true),
            _ => self::bounds(effective.get(MINMAX).unwrap_or(&Value::Null), false),
        },
    )];
    entries.extend(rules(own, effective));
    Detail::Map(entries)
}

/// The limits of instances of the cluster.
pub(crate) fn cluster_policy(policy: &Value) -> Detail {
    let get = |key: &str| policy.get(key).unwrap_or(&Value::Null);
    let mut entries = vec![Entry::new("bounds specs", bounds(get(MINMAX), true))];
    entries.push(Entry::new(STANDARD, merged(get(STANDARD), get(STANDARD))));
    entries.extend(rules(policy, policy));
    Detail::Map(entries)
}

fn bounds(list: &Value, are_own: bool) -> Detail {
    let one = |(at, bounds): (usize, &Value)| {
        let entry = |key: &&str| {
            let values = bounds.get(*key).unwrap_or(&Value::Null);
            let own = if are_own { values } else { &Value::Null };
            Entry::new(format!("{key}/{at}"), merged(own, values))
        };
        Detail::Map(BOUNDS.iter().map(entry).collect())
    };
    Detail::List(list.as_array().into_iter().flatten().enumerate().map(one).collect())
}

/// The options of a command that makes these limits, as far as they are about sizes; each begins
/// with a blank.
pub(crate) fn specs_options(policy: &Value, of_cluster: bool) -> String {
    let specs = |value: &Value| {
        let entry = |(key, value): (&String, &Value)| format!("{key}={}", python::text(value));
        let map = value.as_object();
        map.map(|map| map.iter().map(entry).collect::<Vec<_>>().join(",")).unwrap_or_default()
    };
    let mut options = String::new();
    let standard = policy.get(STANDARD).filter(|standard| of_cluster && python::is_true(standard));
    if let Some(standard) = standard {
        options.push_str(&format!(" --ipolicy-std-specs {}", specs(standard)));
    }
    let bounds = policy.get(MINMAX).and_then(Value::as_array).into_iter().flatten();
    let bounds = bounds.filter_map(|bounds| {
        let get = |key: &str| bounds.get(key).filter(|value| python::is_true(value));
        let (min, max) = (get("min")?, get("max")?);
        Some(format!("min:{}/max:{}", specs(min), specs(max)))
    });
    let bounds: Vec<String> = bounds.collect();
    if !bounds.is_empty() {
        options.push_str(&format!(" --ipolicy-bounds-specs {}", bounds.join("//")));
    }
    options
}

fn rules(own: &Value, effective: &Value) -> Vec<Entry> {
    let list = |value: &Value| {
        let parts: Vec<String> = value.as_array().into_iter().flatten().map(python::text).collect();
        parts.join(", ")
    };
    let get = |key: &str| effective.get(key).unwrap_or(&Value::Null);
    let default = |text: String| format!("default ({text})");
    let templates = own.get(TEMPLATES).filter(|templates| !templates.is_null());
    let templates = templates.map_or_else(|| default(list(get(TEMPLATES))), list);
    let mut entries = vec![Entry::new("allowed disk templates", templates)];
    entries.extend(RATIOS.iter().map(|key| {
        let value = own.get(*key).map(python::text);
        Entry::new(*key, value.unwrap_or_else(|| default(python::text(get(key)))))
    }));
    entries
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::details::render;

    #[test]
    fn own_and_default_parameters() {
        let actual = json!({"a": 1, "b": {"c": true, "d": {}}, "e": ""});
        let own = json!({"a": 2, "b": {"c": false}});
        let expected = "a: 2\nb: \n  c: False\n  d: default ({})\ne: default ()";
        assert_eq!(render(&merged(&own, &actual)), expected);
        assert_eq!(render(&grouped(&json!({"a": {"b": null}}))), "a: \n  b: None");
    }

    #[test]
    fn policies() {
        let sizes = |memory: u64| json!({"memory-size": memory});
        let all = json!({
            "minmax": [{"min": sizes(128), "max": sizes(512)}],
            "std": sizes(256), "disk-templates": ["file", "plain"],
            "vcpu-ratio": 4.0, "spindle-ratio": 32.0,
        });
        let group = "bounds specs: \n  - min/0: \n      memory-size: default (128)\n    \
                     max/0: \n      memory-size: default (512)\n\
                     allowed disk templates: default (file, plain)\n\
                     vcpu-ratio: 2.0\nspindle-ratio: default (32.0)";
        assert_eq!(render(&policy(&json!({"vcpu-ratio": 2.0}), &all)), group);
        assert_eq!(
            specs_options(&all, true),
            " --ipolicy-std-specs memory-size=256 \
             --ipolicy-bounds-specs min:memory-size=128/max:memory-size=512"
        );
        assert_eq!(specs_options(&json!({"vcpu-ratio": 2.0}), false), "");
        let cluster = "bounds specs: \n  - min/0: \n      memory-size: 128\n    \
                       max/0: \n      memory-size: 512\nstd: \n  memory-size: 256\n\
                       allowed disk templates: file, plain\nvcpu-ratio: 4.0\nspindle-ratio: 32.0";
        assert_eq!(render(&cluster_policy(&all)), cluster);
    }
}
