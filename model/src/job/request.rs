//! Core: which request a job came from, so that one that is sent again is known again.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// Bytes that are kept of a digest: two of them meet by chance once in 2^64 requests.
const DIGEST_BYTES: usize = 16;

/// A digest of method, user and arguments, which tells one request of a user from every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestDigest([u8; DIGEST_BYTES]);

impl RequestDigest {
    /// The digest of a call by the user `uid`, with its arguments byte by byte as they were sent.
    pub fn of(method: &str, uid: u32, args: &[u8]) -> Self {
        // Neither a name nor a number has a zero byte or a changing length, so nothing can pass
        // from one part to the next.
        let hash = Sha256::new()
            .chain_update(method)
            .chain_update([0])
            .chain_update(uid.to_be_bytes())
            .chain_update(args)
            .finalize();
        let mut kept = [0; DIGEST_BYTES];
        kept.iter_mut().zip(hash).for_each(|(kept, byte)| *kept = byte);
        Self(kept)
    }

    /// The job at `index` of this request's submission.
    pub const fn at(self, index: u32) -> RequestId {
        RequestId { digest: self, index }
    }
}

/// One job of one request; in job files `DIGEST:INDEX`, the digest in hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    digest: RequestDigest,
    index: u32,
}

/// Text that names no job of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no job of a request: it must be 32 hexadecimal digits, a colon and an index")]
pub struct RequestIdError(String);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each job's file has one: digits by the number are much cheaper than byte by byte.
        write!(f, "{:032x}:{}", u128::from_be_bytes(self.digest.0), self.index)
    }
}

impl FromStr for RequestId {
    type Err = RequestIdError;

    fn from_str(text: &str) -> Result<Self, RequestIdError> {
        parse(text).ok_or_else(|| RequestIdError(text.chars().take(80).collect()))
    }
}

fn parse(text: &str) -> Option<RequestId> {
    let (digits, index) = text.split_once(':')?;
    let mut digest = [0; DIGEST_BYTES];
    hex::decode_to_slice(digits, &mut digest).ok()?;
    if !index.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(RequestDigest(digest).at(index.parse().ok()?))
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts() {
        let one = RequestDigest::of("SubmitJob", 7, b"[[]]");
        assert_eq!(one, RequestDigest::of("SubmitJob", 7, b"[[]]"));
        for other in [
            RequestDigest::of("SubmitJobToDrainedQueue", 7, b"[[]]"),
            RequestDigest::of("SubmitJob", 8, b"[[]]"),
            RequestDigest::of("SubmitJob", 7, b"[[] ]"),
            RequestDigest::of("SubmitJo", 7, b"b[[]]"),
        ] {
            assert_ne!(one, other);
        }
        assert_ne!(one.at(0), one.at(1));
    }

    #[test]
    fn text_is_read_back_and_other_text_is_not() {
        let id = RequestDigest::of("SubmitManyJobs", 0, b"[]").at(42);
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(text.len(), "\"\"".len() + 32 + ":42".len());
        assert_eq!(serde_json::from_str::<RequestId>(&text).unwrap(), id);
        let hex = "0123456789abcdef0123456789abcdef";
        assert_eq!(
            format!("{hex}:7").parse::<RequestId>().unwrap().to_string(),
            format!("{hex}:7")
        );
        for bad in ["", ":", "00:1", "xx:1", &format!("{hex}:"), &format!("{hex}:+1"), hex] {
            assert!(bad.parse::<RequestId>().is_err(), "{bad}");
        }
        assert!(format!("{}é:1", "0".repeat(30)).parse::<RequestId>().is_err());
        assert!(format!("{hex}:4294967296").parse::<RequestId>().is_err());
    }
}
