//! Core: entity tags (RFC 9110 section 8.8) of objects, and what clients ask by them.

use axum::http::{HeaderMap, HeaderValue, header};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Bytes of a digest that a tag shows: two objects meet by chance once in 2^64.
const DIGEST_BYTES: usize = 16;

/// The tag of an object: a digest of it, without the fields that agents measure anew for each answer.
pub fn of(object: &Value, measured: &[&str]) -> String {
    let mut digest = Digest::default();
    match object {
        Value::Object(fields) => {
            for (name, value) in
                fields.iter().filter(|(name, _)| !measured.contains(&name.as_str()))
            {
                digest.0.update(name);
                digest.0.update([0]);
                digest.0.update(value.to_string());
            }
        }
        other => digest.0.update(other.to_string()),
    }
    digest.finish()
}

/// The tag of what is looked at one after the other.
#[derive(Debug, Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Takes the next value in.
    ///
    /// # Errors
    /// It has no JSON form.
    pub fn add(&mut self, value: &impl Serialize) -> Result<(), serde_json::Error> {
        serde_json::to_writer(&mut self.0, value)
    }

    /// The tag of all of them.
    pub fn finish(self) -> String {
        let digest = self.0.finalize();
        format!("\"{}\"", hex::encode(&digest[..DIGEST_BYTES]))
    }
}

/// Whether the client has the object already: its `If-None-Match` names the tag.
pub fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    names(headers, &header::IF_NONE_MATCH, tag, true).unwrap_or(false)
}

/// Whether a change may be made: there is no `If-Match`, or it names the tag.
pub fn may_change(headers: &HeaderMap, tag: &str) -> bool {
    names(headers, &header::IF_MATCH, tag, false).unwrap_or(true)
}

/// Whether a change depends on what the object is.
pub fn is_conditional(headers: &HeaderMap) -> bool {
    headers.contains_key(header::IF_MATCH)
}

fn names(headers: &HeaderMap, name: &header::HeaderName, tag: &str, weak: bool) -> Option<bool> {
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    let is_it = |listed: &str| {
        let listed = listed.trim();
        // Only a weak comparison passes over the mark, section 8.8.3.2.
        let listed = if weak { listed.strip_prefix("W/").unwrap_or(listed) } else { listed };
        listed == "*" || listed == tag
    };
    let in_value =
        |value: &HeaderValue| value.to_str().is_ok_and(|list| list.split(',').any(is_it));
    Some(values.any(in_value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn what_is_measured_does_not_count() {
        let tag = |object: Value| of(&object, &["mfree"]);
        let one = tag(json!({"name": "n1", "mfree": 1}));
        assert_eq!(one, tag(json!({"mfree": 2, "name": "n1"})));
        assert_ne!(one, tag(json!({"name": "n2", "mfree": 1})));
        assert_eq!(one.len(), 2 * DIGEST_BYTES + 2);
    }

    #[test]
    fn conditions() {
        let tag = "\"ab\"";
        for (list, known) in [
            ("\"ab\"", true),
            ("W/\"ab\"", true),
            ("\"x\", \"ab\"", true),
            ("*", true),
            ("\"x\"", false),
        ] {
            assert_eq!(is_known(&headers(header::IF_NONE_MATCH, list), tag), known, "{list}");
        }
        assert!(!is_known(&HeaderMap::new(), tag) && may_change(&HeaderMap::new(), tag));
        assert!(may_change(&headers(header::IF_MATCH, "\"ab\""), tag));
        assert!(!may_change(&headers(header::IF_MATCH, "W/\"ab\""), tag));
        assert!(!may_change(&headers(header::IF_MATCH, "\"x\""), tag));
    }
}
