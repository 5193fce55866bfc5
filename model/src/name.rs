//! Core: the names of things, checked once where they enter.

/// The role whose machine gets the rack's first index.
pub const BOOT_ROLE: &str = "boot";
/// The role of switches, which boot by ONIE.
pub const SWITCH_ROLE: &str = "switch";

/// Longest host name: RFC 1035 section 2.3.4 has 253, but it is a part of keys, which have 200.
const HOST_NAME_MAX: usize = 200;
/// Longest label of a host name, same place.
const HOST_LABEL_MAX: usize = 63;

/// Longest word, as with Kubernetes' labels.
const WORD_MAX: usize = 63;

/// Text that is no name of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {kind}: {why}")]
pub struct NameError {
    text: String,
    kind: &'static str,
    why: &'static str,
}

impl NameError {
    pub(crate) fn new(text: &str, kind: &'static str, why: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), kind, why }
    }
}

macro_rules! text_name {
    ($(#[$doc:meta])* $name:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::name::NameError;
            fn from_str(text: &str) -> Result<Self, $crate::name::NameError> {
                $check(text).map(|text| Self(std::sync::Arc::from(text.as_ref())))
            }
        }

        $crate::text_form!($name);

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}
pub(crate) use text_name;

text_name!(
    /// A node's host name: lower-case labels of letters, digits and hyphens, joined by dots.
    NodeName,
    host_name
);

text_name!(
    /// The name of an instance, a host name.
    InstanceName,
    host_name
);

text_name!(
    /// A word: 1 to 63 letters, digits, `-`, `_` or `.`, beginning and ending with a letter or digit.
    /// It needs no quotes in paths, URLs and kernel parameters.
    Word,
    word
);

fn word(text: &str) -> Result<&str, NameError> {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let good = bytes.len() <= WORD_MAX
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b));
    let why = "it must have 1 to 63 letters, digits, `-`, `_` or `.`, the first and last a letter or digit";
    good.then_some(text).ok_or_else(|| NameError::new(text, "word", why))
}

fn host_name(text: &str) -> Result<String, NameError> {
    let wrong = |why| Err(NameError::new(text, "host name", why));
    if text.is_empty() || text.len() > HOST_NAME_MAX {
        return wrong("it must have 1 to 200 characters");
    }
    for label in text.split('.') {
        if label.is_empty() || label.len() > HOST_LABEL_MAX {
            return wrong("each part between dots must have 1 to 63 characters");
        }
        if label.starts_with('-') || label.ends_with('-') {
            return wrong("a part must not begin or end with a hyphen");
        }
        if !label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return wrong("only letters, digits, hyphens and dots are allowed");
        }
    }
    Ok(text.to_ascii_lowercase())
}

impl NodeName {
    /// The one of `all` that is meant by this one: itself, or the only one of which it is the first
    /// part, up to a dot.
    ///
    /// # Errors
    /// None is, or several are.
    pub fn meant<'a>(&self, all: impl IntoIterator<Item = &'a Self>) -> Result<&'a Self, NotMeant> {
        let mut longer = Vec::new();
        for name in all {
            match name.as_str().strip_prefix(self.as_str()) {
                Some("") => return Ok(name),
                Some(rest) if rest.starts_with('.') => longer.push(name),
                Some(_) | None => {}
            }
        }
        match longer.as_slice() {
            [name] => Ok(name),
            [] => Err(NotMeant::Unknown),
            _ => Err(NotMeant::Several),
        }
    }
}

/// A name that does not tell which of some nodes is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotMeant {
    /// None has it.
    Unknown,
    /// More than one begins with it.
    Several,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        for good in ["n1", "N1.Example.com", "a-b.c", "1.2.3"] {
            assert_eq!(good.parse::<NodeName>().unwrap().as_str(), good.to_ascii_lowercase());
        }
        for bad in
            ["", ".", "a..b", "-a", "a-", "a_b", "a/b", "é", &"a".repeat(64), &"a.".repeat(130)]
        {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_first_part_of_a_name_is_enough_where_it_is_clear() {
        let name = |text: &str| text.parse::<NodeName>().unwrap();
        let all = ["n1.example", "n2.example", "n2.other", "n2", "n3.a.example", "n3.b.example"];
        let all = all.map(name);
        let meant = |text: &str| name(text).meant(&all).map(NodeName::as_str);
        assert_eq!(meant("n1"), Ok("n1.example"));
        assert_eq!(meant("n1.example"), Ok("n1.example"));
        assert_eq!(meant("N2"), Ok("n2"), "the name itself comes first");
        assert_eq!(meant("n3"), Err(NotMeant::Several));
        assert_eq!(meant("n3.b"), Ok("n3.b.example"));
        assert_eq!(meant("n"), Err(NotMeant::Unknown));
    }
}
