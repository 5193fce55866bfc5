//! Core: the query of sabakan's search for machines, as a filter of the master.
//!
//! Values of one field have commas between them and one of them is enough; of labels all must be there.
//! Every field has a twin `without-…`.

use super::Filter;
use super::filter::Operand;

/// How a field is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    /// A whole number.
    Number,
    /// A list that holds the value.
    List,
    /// A list that holds all values.
    Labels,
}

/// The fields, with the master's names.
const FIELDS: [(&str, &str, Shape); 11] = [
    ("serial", "serial", Shape::Text),
    ("datacenter", "datacenter", Shape::Text),
    ("rack", "rack", Shape::Number),
    ("role", "role", Shape::Text),
    ("index-in-rack", "index", Shape::Number),
    ("product", "product", Shape::Text),
    ("ipv4", "ipv4", Shape::List),
    ("ipv6", "ipv6", Shape::List),
    ("bmc-type", "bmc_type", Shape::Text),
    ("state", "status", Shape::Text),
    ("labels", "labels", Shape::Labels),
];
/// The prefix to the name of a field that must not have the value.
const WITHOUT: &str = "without-";

/// The names of all parameters.
pub fn parameters() -> impl Iterator<Item = String> {
    FIELDS.iter().flat_map(|(name, ..)| [(*name).to_owned(), format!("{WITHOUT}{name}")])
}

/// Reads the parameters of a search; `None` selects all machines.
///
/// # Errors
/// What is wrong with them.
pub fn filter(query: &[(String, String)]) -> Result<Option<Filter>, String> {
    let mut all = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (key, value) in query {
        let (wanted, name) = match key.strip_prefix(WITHOUT) {
            Some(name) => (false, name),
            None => (true, key.as_str()),
        };
        let field = FIELDS.iter().find(|(known, ..)| *known == name);
        let (name, field, shape) = field.ok_or_else(|| unknown(key))?;
        // sabakan's client names every field, most of them without a value.
        if value.is_empty() {
            continue;
        }
        if seen.contains(name) {
            return Err(format!("`{name}` is given twice, or together with `{WITHOUT}{name}`"));
        }
        seen.push(name);
        let one = condition(name, field, *shape, value)?;
        all.push(if wanted { one } else { Filter::Not(Box::new(one)) });
    }
    Ok((!all.is_empty()).then_some(Filter::And(all)))
}

fn unknown(key: &str) -> String {
    let key: String = key.chars().take(80).collect();
    let names: Vec<&str> = FIELDS.iter().map(|(name, ..)| *name).collect();
    format!(
        "`{key}` is no field; there are {}, each also with `{WITHOUT}` before it",
        names.join(", ")
    )
}

fn condition(name: &str, field: &str, shape: Shape, value: &str) -> Result<Filter, String> {
    let values = value.split(',').map(str::trim).filter(|value| !value.is_empty());
    let contains = |value: &str| Filter::Contains(field.to_owned(), Operand::from(value));
    Ok(match shape {
        Shape::Text => Filter::any_of(field, values),
        Shape::Number => {
            let number = |value: &str| value.parse::<u64>().map_err(|_error| value.to_owned());
            let numbers = values.map(number).collect::<Result<Vec<_>, _>>();
            let wrong = |value| format!("`{name}` is `{value}`, and must be a whole number");
            Filter::any_of(field, numbers.map_err(wrong)?)
        }
        Shape::List => Filter::Or(values.map(contains).collect()),
        Shape::Labels => {
            let wrong = |value: &str| format!("a label is written NAME=VALUE, not `{value}`");
            let labels: Vec<&str> = values.collect();
            if let Some(label) = labels.iter().find(|label| !label.contains('=')) {
                return Err(wrong(label));
            }
            Filter::And(labels.into_iter().map(contains).collect())
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn finds(query: &[(&str, &str)]) -> Result<bool, String> {
        let machine = json!({
            "serial": "1234abcd", "datacenter": "ty3", "rack": 1, "role": "boot", "index": 3,
            "product": "R630", "ipv4": ["10.69.0.195", "10.69.1.3"], "ipv6": [],
            "bmc_type": "iDRAC-9", "status": "healthy", "labels": ["a=1", "b=2"],
        });
        let query: Vec<(String, String)> =
            query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let value_of = |name: &str| machine.get(name).cloned();
        Ok(filter(&query)?
            .is_none_or(|filter| filter.holds(|name| value_of(name).filter(|v| *v != Value::Null))))
    }

    #[test]
    fn one_value_of_a_field_is_enough_and_all_labels_are_needed() {
        for (query, found) in [
            (&[][..], true),
            (&[("serial", "1234abcd")], true),
            (&[("serial", "x,1234abcd")], true),
            (&[("serial", "x")], false),
            (&[("rack", "0,1"), ("role", "boot")], true),
            (&[("rack", "0"), ("role", "boot")], false),
            (&[("ipv4", "10.69.1.3")], true),
            (&[("ipv4", "10.69.1")], false),
            (&[("ipv6", "fd00::1")], false),
            (&[("index-in-rack", "3"), ("bmc-type", "iDRAC-9")], true),
            (&[("state", "healthy,updating")], true),
            (&[("without-state", "healthy")], false),
            (&[("labels", "a=1,b=2")], true),
            (&[("labels", "a=1,b=3")], false),
            (&[("without-serial", "1234abcd")], false),
            (&[("without-rack", "2,3")], true),
            (&[("without-labels", "a=1,b=3")], true),
            (&[("without-labels", "a=1")], false),
            (&[("serial", "")], true),
            (&[("rack", "1"), ("without-rack", ""), ("without-role", ""), ("role", "")], true),
        ] {
            assert_eq!(finds(query), Ok(found), "{query:?}");
        }
    }

    #[test]
    fn what_does_not_read() {
        for (query, told) in [
            (&[("rack", "x")][..], "`rack` is `x`"),
            (&[("rack", "1"), ("without-rack", "2")], "together"),
            (&[("rack", "1"), ("rack", "2")], "twice"),
            (&[("labels", "a")], "NAME=VALUE"),
            (&[("serials", "a")], "`serials` is no field"),
            (&[("state", "healthy"), ("without-state", "retired")], "together"),
        ] {
            let error = finds(query).unwrap_err();
            assert!(error.contains(told), "{query:?}: {error}");
        }
    }
}
