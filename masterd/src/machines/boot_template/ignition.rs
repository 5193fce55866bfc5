//! Core: what Ignition takes. A system that meets an unknown version of its specification, or a value
//! that it refuses, stops in an emergency shell. It tells that on its console alone. So its rules are
//! here, as its own validator has them, with the few more whose breach it finds out while it works.
//!
//! In reading order: [`v3`] and [`v2`] are the tables of the versions, and [`schema`] reads a configuration by
//! one. Then [`values`] are the checks of single values, with [`url`] and [`unit`]; [`rules`] are what
//! must hold between values. Last, [`foreign`] knows files that are something else.

mod foreign;
mod rules;
mod schema;
mod unit;
mod url;
mod v2;
mod v3;
mod values;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(super) use foreign::what_it_is;
use schema::{Object, Spec};

/// Versions, each with its place among them and its table.
const SPECS: &[(&str, Spec, &Object)] = &[
    ("2.2.0", Spec(2, 2), &v2::CONFIG),
    ("2.3.0", v2::V2_3, &v2::CONFIG),
    ("3.0.0", Spec(3, 0), &v3::CONFIG),
    ("3.1.0", v3::V3_1, &v3::CONFIG),
    ("3.2.0", v3::V3_2, &v3::CONFIG),
    ("3.3.0", v3::V3_3, &v3::CONFIG),
    ("3.4.0", v3::V3_4, &v3::CONFIG),
    ("3.5.0", v3::V3_5, &v3::CONFIG),
    ("3.6.0", v3::V3_6, &v3::CONFIG),
];

/// A configuration that Ignition takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    /// The version that it declares.
    pub(super) spec: &'static str,
    /// The warnings that Ignition would give: keys that it passes over, and more.
    pub(super) warnings: Vec<String>,
}

/// The version in full, of one as sabakan writes it: `2.3`.
pub(super) fn in_full(version: &str) -> Result<&'static str, String> {
    let known = SPECS.iter().map(|(spec, ..)| *spec);
    let found = known.clone().find(|spec| *spec == version || *spec == format!("{version}.0"));
    found.ok_or_else(|| {
        let all: Vec<&str> = known.collect();
        format!(
            "it declares version {version} of Ignition's specification, and a system that does not know \
             that stops in an emergency shell; write one of {}",
            all.join(", ")
        )
    })
}

/// Looks at a configuration.
///
/// # Errors
/// Ignition would refuse it.
pub(super) fn check(document: &Value) -> Result<Taken, String> {
    if !document.is_object() {
        return Err("a configuration is a JSON object".to_owned());
    }
    let version = document.pointer("/ignition/version").and_then(Value::as_str);
    let version = version.ok_or_else(|| {
        foreign::what_document(document)
            .unwrap_or("it has no `ignition.version`, such as \"3.3.0\"")
    })?;
    let in_full = in_full(version)?;
    let known = SPECS.iter().find(|(spec, ..)| *spec == version);
    let Some((spec, number, table)) = known else {
        return Err(format!("`ignition.version` is \"{version}\"; write \"{in_full}\""));
    };
    let warnings = schema::read(document, table, *number)?;
    Ok(Taken { spec, warnings })
}
