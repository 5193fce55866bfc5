//! Core: which versions of Ignition's specification there are, and the outline of a configuration. A
//! system that meets a version that it does not know stops in an emergency shell, and tells no reason.

mod values;

use serde_json::Value;

/// Versions, each with the sections that it has.
const SPECS: &[(&str, &[&str])] = &[
    ("2.2.0", OLD),
    ("2.3.0", OLD),
    ("3.0.0", NEW),
    ("3.1.0", NEW),
    ("3.2.0", NEW),
    ("3.3.0", NEWEST),
    ("3.4.0", NEWEST),
    ("3.5.0", NEWEST),
    ("3.6.0", NEWEST),
];
const OLD: &[&str] = &["ignition", "networkd", "passwd", "storage", "systemd"];
const NEW: &[&str] = &["ignition", "passwd", "storage", "systemd"];
const NEWEST: &[&str] = &["ignition", "kernelArguments", "passwd", "storage", "systemd"];

/// Lists that a configuration may hold, each with what every entry of it must have.
const LISTS: &[(&str, &str, &str)] = &[
    ("storage", "files", "path"),
    ("storage", "directories", "path"),
    ("storage", "links", "path"),
    ("storage", "disks", "device"),
    ("systemd", "units", "name"),
    ("networkd", "units", "name"),
    ("passwd", "users", "name"),
    ("passwd", "groups", "name"),
];

/// The version in full, of one as sabakan writes it: `2.3`.
pub(super) fn in_full(version: &str) -> Result<&'static str, String> {
    let known = SPECS.iter().map(|(spec, _)| *spec);
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

/// Looks at the outline of a configuration; gives the version that it declares.
pub(super) fn check(document: &Value) -> Result<&'static str, String> {
    let Some(sections) = document.as_object() else {
        return Err("a configuration is a JSON object".to_owned());
    };
    let version = document.pointer("/ignition/version").and_then(Value::as_str);
    let version = version.ok_or("it has no `ignition.version`, such as \"3.3.0\"")?;
    let spec = in_full(version)?;
    if spec != version {
        return Err(format!("`ignition.version` is \"{version}\"; write \"{spec}\""));
    }
    let known =
        SPECS.iter().find(|(known, _)| *known == spec).map_or(OLD, |(_, sections)| sections);
    for (name, section) in sections {
        if !known.contains(&name.as_str()) {
            let known = known.join(", ");
            return Err(format!("Ignition {spec} has no section `{name}`, only {known}"));
        }
        if !section.is_object() {
            return Err(format!("section `{name}` is no JSON object"));
        }
    }
    LISTS.iter().try_for_each(|list| entries(document, *list))?;
    values::check(document, known == OLD)?;
    Ok(spec)
}

fn entries(document: &Value, (section, list, wanted): (&str, &str, &str)) -> Result<(), String> {
    let Some(found) = document.get(section).and_then(|section| section.get(list)) else {
        return Ok(());
    };
    let wrong = |why: &str| format!("`{section}.{list}` {why}");
    if found.is_null() {
        return Ok(());
    }
    let found = found.as_array().ok_or_else(|| wrong("is no JSON list"))?;
    for (at, entry) in found.iter().enumerate() {
        let value = entry.get(wanted).and_then(Value::as_str).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| wrong(&format!("entry {at} has no `{wanted}`")))?;
        if matches!(wanted, "path" | "device") && !value.starts_with('/') {
            return Err(wrong(&format!("entry {at}: `{value}` does not begin with /")));
        }
        if wanted == "name" && value.contains(['/', '\n']) {
            return Err(wrong(&format!("entry {at}: {value:?} is no name")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn outlines() {
        for (document, spec) in [
            (json!({"ignition": {"version": "2.3.0"}, "networkd": {}}), "2.3.0"),
            (json!({"ignition": {"version": "3.3.0"}, "kernelArguments": {}}), "3.3.0"),
            (
                json!({"ignition": {"version": "3.0.0"}, "storage": {"files": [{"path": "/a"}]}}),
                "3.0.0",
            ),
            (json!({"ignition": {"version": "2.2.0"}, "systemd": {"units": null}}), "2.2.0"),
        ] {
            assert_eq!(check(&document), Ok(spec));
        }
        for (document, words) in [
            (json!([]), "a JSON object"),
            (json!({}), "no `ignition.version`"),
            (json!({"ignition": {"version": 3}}), "no `ignition.version`"),
            (json!({"ignition": {"version": "2.1.0"}}), "emergency shell; write one of 2.2.0"),
            (json!({"ignition": {"version": "3.9.0"}}), "3.9.0"),
            (json!({"ignition": {"version": "3.3"}}), "write \"3.3.0\""),
            (json!({"ignition": {"version": "3.3.0"}, "networkd": {}}), "no section `networkd`"),
            (json!({"ignition": {"version": "3.2.0"}, "kernelArguments": {}}), "no section"),
            (json!({"ignition": {"version": "3.2.0"}, "storage": []}), "`storage` is no"),
            (json!({"ignition": {"version": "3.2.0"}, "storage": {"files": {}}}), "no JSON list"),
            (
                json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [{}]}}),
                "entry 0 has no",
            ),
            (
                json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [{"path": "a"}]}}),
                "does not begin with /",
            ),
            (
                json!({"ignition": {"version": "3.2.0"}, "systemd": {"units": [{"name": "a/b"}]}}),
                "is no name",
            ),
        ] {
            let why = check(&document).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
