//! Core: tags, the free words that operators hang on objects.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, Exception, ExceptionKind};

/// Longest tag in characters (Ganeti's).
pub const TAG_LENGTH_MAX: usize = 128;
/// Most tags of one object (Ganeti's).
pub const TAGS_MAX: usize = 4_096;

/// Most missing tags that an error names; nobody reads more.
const NAMED_MAX: usize = 64;

crate::words! {
    /// The kinds of objects that have tags.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    TagKind {
        Cluster = "cluster",
        Node = "node",
        NodeGroup = "nodegroup",
        Instance = "instance",
        Network = "network",
    }
}

/// Checks that each of `tags` may be one: 1 to [`TAG_LENGTH_MAX`] letters, digits and `_.+*/:@-`.
///
/// # Errors
/// A `TagError` in Ganeti's words.
pub fn check(tags: &[String]) -> Result<(), Exception> {
    let wrong = |text: String| Err(Exception::new(ExceptionKind::TagError, text));
    for tag in tags {
        if tag.chars().count() > TAG_LENGTH_MAX {
            return wrong(format!("Tag too long (>{TAG_LENGTH_MAX} characters)"));
        }
        if tag.is_empty() {
            return wrong("Tags cannot be empty".to_owned());
        }
        if !tag.chars().all(|c| c.is_alphanumeric() || "_.+*/:@-".contains(c)) {
            return wrong("Tag contains invalid characters".to_owned());
        }
    }
    Ok(())
}

/// `present` with `more`, sorted and each once.
///
/// # Errors
/// They would be more than [`TAGS_MAX`].
pub fn with(present: &[String], more: &[String]) -> Result<Vec<String>, Exception> {
    let mut tags = [present, more].concat();
    tags.sort_unstable();
    tags.dedup();
    if tags.len() > TAGS_MAX && tags.len() > present.len() {
        return Err(Exception::exec("Error while setting tag: Too many tags"));
    }
    Ok(tags)
}

/// `present` without `unwanted`.
///
/// # Errors
/// Some of these are not there; they are named.
pub fn without(present: &[String], unwanted: &[String]) -> Result<Vec<String>, Exception> {
    let there: BTreeSet<&String> = present.iter().collect();
    let unwanted: BTreeSet<&String> = unwanted.iter().collect();
    let missing: Vec<String> =
        unwanted.difference(&there).take(NAMED_MAX).map(|tag| format!("'{tag}'")).collect();
    if missing.is_empty() {
        return Ok(there.difference(&unwanted).map(|&tag| tag.clone()).collect());
    }
    let text = format!("Tag(s) {} not found", missing.join(", "));
    Err(Exception::prereq(text, ErrorCode::UnknownEntity))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn what_may_be_a_tag() {
        for good in ["a", "owner:bob", "x_y.z+*/:@-", "größe", &"é".repeat(128)] {
            assert!(check(&tags(&[good])).is_ok(), "{good}");
        }
        for (bad, told) in [
            ("", "Tags cannot be empty"),
            ("a b", "Tag contains invalid characters"),
            ("a\n", "Tag contains invalid characters"),
            ("a,b", "Tag contains invalid characters"),
            (&"é".repeat(129), "Tag too long (>128 characters)"),
        ] {
            let refused = check(&tags(&["good", bad])).unwrap_err();
            assert_eq!((refused.kind, refused.message()), (ExceptionKind::TagError, told));
        }
    }

    #[test]
    fn tags_are_a_set() {
        assert_eq!(with(&tags(&["b"]), &tags(&["c", "a", "c", "b"])), Ok(tags(&["a", "b", "c"])));
        assert_eq!(without(&tags(&["a", "b", "c"]), &tags(&["c", "a"])), Ok(tags(&["b"])));
        let refused = without(&tags(&["b"]), &tags(&["c", "a", "c", "b"])).unwrap_err();
        assert_eq!(refused.message(), "Tag(s) 'a', 'c' not found");
    }

    #[test]
    fn an_object_has_so_many_tags_and_no_more() {
        let full: Vec<String> = (0..TAGS_MAX).map(|n| format!("t{n:04}")).collect();
        assert_eq!(with(&[], &full).unwrap().len(), TAGS_MAX);
        assert_eq!(with(&full, &tags(&["t0000"])), Ok(full.clone()), "what is there is no more");
        assert!(with(&full, &tags(&["new"])).unwrap_err().message().contains("Too many tags"));
    }

    #[test]
    fn kinds_on_the_wire() {
        for kind in TagKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
