//! Core: what must hold between the keys of a configuration. The objects that rules get were read by their
//! tables: each key has its type, and none is null.
//!
//! [`units`] are of systemd, [`storage`] of files and file systems, [`partitions`] of disks; [`between`] are
//! those of smaller objects.

pub(super) mod between;
pub(super) mod partitions;
pub(super) mod storage;
pub(super) mod units;

use serde_json::Value as Json;

/// Objects of a list; none where there is no list.
fn list<'a>(object: &'a Json, key: &str) -> &'a [Json] {
    object[key].as_array().map_or(&[], Vec::as_slice)
}

/// A text; empty where it is absent.
fn text<'a>(object: &'a Json, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

/// Whether a key is true.
fn truth(object: &Json, key: &str) -> bool {
    object[key].as_bool().unwrap_or_default()
}

/// Whether there is a key, be its value empty.
fn has(object: &Json, key: &str) -> bool {
    object.get(key).is_some()
}
