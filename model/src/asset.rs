//! Core: files that machines fetch by name, as sabakan has them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::blob::Blob;
use crate::name::Word;
use crate::time::Timestamp;

/// Longest asset in bytes, as with sabakan: what is larger is an image of an operating system.
pub const ASSET_BYTES_MAX: u64 = 2 << 30;
/// Most assets: the document of each rack names all of them, with up to 4 KiB of options.
pub const ASSETS_MAX: usize = 512;
/// Most options of one asset.
pub const OPTIONS_MAX: usize = 16;
/// Longest name or value of an option, in bytes: each is a header of an answer.
pub const OPTION_BYTES_MAX: usize = 128;
/// Longest type of content, in bytes; RFC 6838 allows 127 for each of its two parts.
pub const CONTENT_TYPE_BYTES_MAX: usize = 255;

/// Characters of a wrong text that an error repeats.
const TOLD_MAX: usize = 80;

/// A file that machines fetch by name: the document `assets/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asset {
    pub name: Word,
    /// The number of this upload: a later one of any asset has a higher number.
    pub id: u64,
    /// Its type of content, as the header of HTTP has it.
    pub content_type: ContentType,
    /// What it holds.
    pub blob: Blob,
    /// Further options of it, by names in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<OptionName, OptionValue>,
    /// When it was uploaded.
    pub ctime: Timestamp,
}

/// The number of the last upload: the document `config/assets`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AssetSerial {
    /// The number.
    pub last: u64,
}

/// A text that is no part of an asset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {kind}: expected {wanted}")]
pub struct AssetError {
    text: String,
    kind: &'static str,
    wanted: &'static str,
}

/// Texts that become headers of HTTP.
macro_rules! header_text {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $wanted:literal, $good:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = AssetError;

            fn from_str(text: &str) -> Result<Self, AssetError> {
                let good: fn(&str) -> bool = $good;
                let told = || text.chars().take(TOLD_MAX).collect();
                let wrong = || AssetError { text: told(), kind: $kind, wanted: $wanted };
                good(text).then(|| Self(text.to_owned())).ok_or_else(wrong)
            }
        }

        $crate::text_form!($name);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

/// Printable ASCII, which needs no care in a header.
fn is_printable(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte)
}

header_text!(
    /// A type of content, such as `application/gzip`.
    ContentType,
    "type of content",
    "TYPE/SUBTYPE of at most 255 printable ASCII characters",
    |text| {
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
        let of = |part: &str| !part.is_empty() && part.bytes().all(is_token);
        let kind = text.split(';').next().unwrap_or_default().trim_end();
        text.len() <= CONTENT_TYPE_BYTES_MAX
            && text.bytes().all(is_printable)
            && kind.split_once('/').is_some_and(|(kind, sub)| of(kind) && of(sub))
    }
);

header_text!(
    /// The name of an option: a part of a header's name, in lower case.
    OptionName,
    "name of an option",
    "1 to 128 lower-case letters, digits, `-`, `_` or `.`",
    |text| {
        let is_good =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
        (1..=OPTION_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_good)
    }
);

header_text!(OptionValue, "value of an option", "at most 128 printable ASCII characters", |text| {
    text.len() <= OPTION_BYTES_MAX && text.bytes().all(is_printable)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_a_header_is_plain() {
        for good in ["text/plain", "application/vnd.a+gzip; charset=utf-8"] {
            assert_eq!(good.parse::<ContentType>().unwrap().as_str(), good);
        }
        let long = format!("a/{}", "x".repeat(CONTENT_TYPE_BYTES_MAX));
        for wrong in ["", "text", "/", "a/", "a b/c", "a/b\r\nX: y", "a/ä", &long] {
            assert!(wrong.parse::<ContentType>().is_err(), "{wrong}");
        }
        assert!("os-version".parse::<OptionName>().is_ok());
        for wrong in ["", "Os", "a:b", "a b", "a\n", &"x".repeat(OPTION_BYTES_MAX + 1)] {
            assert!(wrong.parse::<OptionName>().is_err(), "{wrong}");
        }
        assert!("".parse::<OptionValue>().is_ok() && "1.0 \"b\"".parse::<OptionValue>().is_ok());
        for wrong in ["a\r\n", "ä", &"x".repeat(OPTION_BYTES_MAX + 1)] {
            assert!(wrong.parse::<OptionValue>().is_err(), "{wrong}");
        }
    }
}
