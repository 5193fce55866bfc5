//! Core: files that are named by what they hold.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bytes of a SHA-256 digest.
const DIGEST_BYTES: usize = 32;
/// Characters of a wrong digest that an error repeats.
const TOLD_MAX: usize = 80;

/// SHA-256 of a file; written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobDigest([u8; DIGEST_BYTES]);

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no SHA-256 digest: expected 64 lower-case hexadecimal digits")]
pub struct BlobDigestError {
    text: String,
}

impl BlobDigest {
    /// The digest with these bytes.
    pub const fn from_bytes(bytes: [u8; DIGEST_BYTES]) -> Self {
        Self(bytes)
    }
}

impl FromStr for BlobDigest {
    type Err = BlobDigestError;

    fn from_str(text: &str) -> Result<Self, BlobDigestError> {
        let wrong = || BlobDigestError { text: text.chars().take(TOLD_MAX).collect() };
        let mut bytes = [0; DIGEST_BYTES];
        let read = hex::decode_to_slice(text, &mut bytes);
        if read.is_err() || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(wrong());
        }
        Ok(Self(bytes))
    }
}

crate::text_form!(BlobDigest);

impl fmt::Display for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A file by its digest and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blob {
    /// What it holds.
    pub sha256: BlobDigest,
    /// Its length in bytes.
    pub size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_as_it_was_written() {
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(text.parse::<BlobDigest>().unwrap().to_string(), text);
        let capitals = text.to_uppercase();
        for wrong in
            ["", "e3", &text[1..], &capitals, &format!("{text}00"), &text.replace('e', "g")]
        {
            assert!(wrong.parse::<BlobDigest>().is_err(), "{wrong}");
        }
    }
}
