//! Core: files that are taken for a configuration of Ignition by mistake.

use serde_json::Value;

const BUTANE: &str = "this is Butane's language, which no machine reads; translate it: \
                      `butane --strict FILE > config.ign`";
const CLOUD_INIT: &str =
    "this is user data of cloud-init; `gnt cloud-init-template upload` takes it";
const YAML: &str = "this is YAML and no configuration of Ignition, which is JSON; of a template of sabakan, \
                    `sabactl ignitions set` makes one";

/// The kind of a text that is no JSON, where that is known.
pub(in super::super) fn what_it_is(text: &str) -> Option<&'static str> {
    if text.starts_with("#cloud-config") || text.starts_with("#!") {
        return Some(CLOUD_INIT);
    }
    let keys = || text.lines().filter_map(key);
    if keys().any(|key| key == "variant") {
        return Some(BUTANE);
    }
    let is_yaml = ["version", "ignition", "storage", "systemd", "passwd"];
    keys().any(|key| is_yaml.contains(&key)).then_some(YAML)
}

/// The key of a line of YAML that stands at its begin, as none of JSON does.
fn key(line: &str) -> Option<&str> {
    let (key, value) = line.split_once(':')?;
    let is_key = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (is_key && (value.is_empty() || value.starts_with([' ', '\r']))).then_some(key)
}

/// The kind of a document that declares no version, where that is known: JSON is YAML, too.
pub(in super::super) fn what_document(document: &Value) -> Option<&'static str> {
    document.get("variant").is_some_and(Value::is_string).then_some(BUTANE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_files_are_known() {
        for (text, told) in [
            ("variant: fcos\nversion: 1.4.0\nstorage:\n  files: []\n", Some(BUTANE)),
            ("# mine\n\nvariant: flatcar\r\nversion: 1.0.0\r\n", Some(BUTANE)),
            ("version: \"2.3\"\nfiles:\n  - /etc/hostname\n", Some(YAML)),
            ("storage:\n  files: []\n", Some(YAML)),
            ("#cloud-config\nhostname: a\n", Some(CLOUD_INIT)),
            ("#!/bin/sh\n", Some(CLOUD_INIT)),
            ("{{ if true }}\n{\"version\": 1}{{ end }}", None),
            ("{\n\"variant\": \"fcos\"", None),
            ("", None),
        ] {
            assert_eq!(what_it_is(text), told, "{text}");
        }
        assert_eq!(what_document(&json!({"variant": "fcos", "version": "1.4.0"})), Some(BUTANE));
        assert_eq!(what_document(&json!({"ignition": {}})), None);
    }
}
