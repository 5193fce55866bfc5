//! Core: tokens, by which programs log in at the front door. The cluster keeps a token's SHA-256 alone.
//!
//! A token is 256 random bits, so that nobody finds it by trying, however fast the hash is. A slow hash,
//! which passwords of people need, would cost each request and protect nothing.

use std::borrow::Cow;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::blob::BlobDigest;
use crate::name::Word;
use crate::role::Role;
use crate::secret::Secret;
use crate::time::Timestamp;

/// The prefix of every token: programs that look for secrets in published code find it by that.
pub const PREFIX: &str = "gtk_";
/// The text that replaces the rest of one in logs.
const MASK: &str = "...";
/// Random bytes of a token.
pub const RANDOM_BYTES: usize = 32;
/// Tokens of a cluster: a person reads the list to see which are still needed.
pub const TOKENS_MAX: usize = 1_000;
/// Life of a token in days where nothing else is said: a quarter, so that a forgotten one ends.
pub const DAYS_DEFAULT: u16 = 90;
/// Longest life in days: ten years; who wants more says `never`.
pub const DAYS_MAX: u16 = 3_650;
/// Days for which a token that has ended stays in the list: who still uses it is told of in the log by name.
pub const KEPT_DAYS: u16 = 30;
/// Names that the log uses for others than users.
pub const RESERVED: [&str; 3] = ["nobody", "local", "cluster"];
/// Seconds of a day.
pub const SECONDS_PER_DAY: i64 = 86_400;

/// The text of a token: [`PREFIX`] and 64 lower-case hexadecimal digits. It never prints.
#[derive(Debug, Clone)]
pub struct TokenText(Secret<String>);

impl TokenText {
    /// The token of these random bytes.
    pub fn of_random(bytes: [u8; RANDOM_BYTES]) -> Self {
        Self(Secret::new(format!("{PREFIX}{}", BlobDigest::from_bytes(bytes))))
    }

    /// The text itself; the caller answers for where it goes.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The digest by which the cluster knows it.
    pub fn digest(&self) -> TokenDigest {
        let bytes: [u8; RANDOM_BYTES] = Sha256::digest(self.expose().as_bytes()).into();
        TokenDigest(BlobDigest::from_bytes(bytes))
    }
}

/// A text that is no token. It repeats nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token is `gtk_` and 64 lower-case hexadecimal digits")]
pub struct NoToken;

impl FromStr for TokenText {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let digits = text.strip_prefix(PREFIX).ok_or(NoToken)?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 2 * RANDOM_BYTES || !digits.bytes().all(is_digit) {
            return Err(NoToken);
        }
        Ok(Self(Secret::new(text.to_owned())))
    }
}

/// A text from outside without the tokens in it, also where their characters are escaped as in a URL.
/// Tokens open the door until they end, and more people read logs.
pub fn masked(text: &str) -> Cow<'_, str> {
    if text.contains(PREFIX) {
        return Cow::Owned(without_tokens(text));
    }
    if !text.contains('%') {
        return text.into();
    }
    let unescaped = unescaped(text);
    if unescaped.contains(PREFIX) { Cow::Owned(without_tokens(&unescaped)) } else { text.into() }
}

fn without_tokens(text: &str) -> String {
    let mut parts = text.split(PREFIX);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push_str(PREFIX);
        masked.push_str(MASK);
        masked.push_str(part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '%'));
    }
    masked
}

/// A text in which `%` and two hexadecimal digits are the character that they stand for.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let digits = more.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { more.get(2..).unwrap_or_default() } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// SHA-256 of a token's text; written as 64 lower-case hexadecimal digits. It lets nobody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenDigest(BlobDigest);

/// The document `config/tokens/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Its name, which is that of the user that logs in by it.
    pub name: Word,
    /// The digest by which it is known.
    pub sha256: TokenDigest,
    /// The role that it gives.
    pub role: Role,
    /// When it ends by itself; null means never.
    pub expires: Option<Timestamp>,
    /// When somebody ended it.
    #[serde(default)]
    pub revoked: Option<Timestamp>,
    /// When it was made.
    pub ctime: Timestamp,
}

impl Token {
    /// The part of it that the front door gets.
    pub fn grant(&self) -> TokenGrant {
        let Self { name, role, expires, revoked, .. } = self.clone();
        TokenGrant { name, role, expires, revoked }
    }

    /// When it ended, if it has.
    pub fn ended(&self, now: Timestamp) -> Option<Timestamp> {
        let expired = self.expires.filter(|end| *end <= now);
        self.revoked.into_iter().chain(expired).min()
    }

    /// Whether it ended so long ago that it is forgotten.
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        let kept = i64::from(KEPT_DAYS) * SECONDS_PER_DAY;
        self.ended(now).is_some_and(|end| end.plus_seconds(kept) <= now)
    }
}

/// The rights that a token gives its holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenGrant {
    pub name: Word,
    /// The role that it gives.
    pub role: Role,
    /// When it ends by itself; null means never.
    pub expires: Option<Timestamp>,
    /// When somebody ended it.
    pub revoked: Option<Timestamp>,
}

impl TokenGrant {
    /// How it stands.
    pub fn state(&self, now: Timestamp) -> TokenState {
        match (self.revoked, self.expires) {
            (Some(_), _) => TokenState::Revoked,
            (None, Some(end)) if end <= now => TokenState::Expired,
            (None, _) => TokenState::Active,
        }
    }
}

crate::words! {
    /// How a token stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    TokenState {
        /// It lets in.
        Active = "active",
        /// It has ended by itself.
        Expired = "expired",
        /// Somebody ended it.
        Revoked = "revoked",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_stays_in_a_text_for_a_log() {
        let token = TokenText::of_random([0xa5; RANDOM_BYTES]);
        let text = token.expose();
        let escaped: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for (given, wanted) in [
            (format!("/2/nodes?token={text}"), "/2/nodes?token=gtk_..."),
            (format!("/2/nodes?a={text}&b={text}&c=1"), "/2/nodes?a=gtk_...&b=gtk_...&c=1"),
            (format!("/2/nodes/{text}/role"), "/2/nodes/gtk_.../role"),
            (text.replace('_', "%5f"), "gtk_..."),
            (text.replace("gtk_a", "gtk_%61"), "gtk_..."),
            (format!("/2?t={escaped}"), "/2?t=gtk_..."),
            (text.get(..40).unwrap().to_owned(), "gtk_..."),
            ("/2/tags?tag=a%20b&tag=50%".to_owned(), "/2/tags?tag=a%20b&tag=50%"),
        ] {
            assert_eq!(masked(&given), wanted, "{given}");
        }
    }

    fn token(expires: Option<i64>, revoked: Option<i64>) -> Token {
        let at = |seconds: Option<i64>| seconds.map(|s| Timestamp::default().plus_seconds(s));
        Token {
            name: "ci".parse().unwrap(),
            sha256: TokenText::of_random([7; RANDOM_BYTES]).digest(),
            role: Role::Read,
            expires: at(expires),
            revoked: at(revoked),
            ctime: Timestamp::default(),
        }
    }

    #[test]
    fn a_token_reads_as_it_was_made_and_never_prints() {
        let made = TokenText::of_random([0xab; RANDOM_BYTES]);
        assert_eq!(made.expose(), format!("gtk_{}", "ab".repeat(32)));
        let read: TokenText = made.expose().parse().unwrap();
        assert_eq!(read.digest(), made.digest());
        assert!(!format!("{made:?}").contains("abab"));
        // By `printf gtk_abab… | sha256sum`.
        let written = serde_json::to_string(&made.digest()).unwrap();
        assert_eq!(written, "\"79f0a9c7e938d98d13249762eb075b9f97b1fa014ea2f3d9ab9649732d730446\"");
        let digits = "ab".repeat(32);
        for wrong in [
            String::new(),
            "gtk_".to_owned(),
            digits.clone(),
            format!("gtk_{}", digits.to_uppercase()),
            format!("gtk_{digits}a"),
            format!("gtk_{digits}\n"),
            format!("GTK_{digits}"),
            format!("gtk_{}g", &digits[1..]),
        ] {
            assert!(wrong.parse::<TokenText>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_stands_by_the_clock() {
        let days = |days: u16| i64::from(days) * SECONDS_PER_DAY;
        for (expires, revoked, now, state, forgotten) in [
            (None, None, days(10_000), TokenState::Active, false),
            (Some(10), None, 9, TokenState::Active, false),
            (Some(10), None, 10, TokenState::Expired, false),
            (Some(10), Some(5), 20, TokenState::Revoked, false),
            (None, Some(5), 5, TokenState::Revoked, false),
            (Some(10), None, 10 + days(KEPT_DAYS), TokenState::Expired, true),
            (Some(10), Some(5), 5 + days(KEPT_DAYS), TokenState::Revoked, true),
            (Some(10), Some(5), 4 + days(KEPT_DAYS), TokenState::Revoked, false),
        ] {
            let (token, now) = (token(expires, revoked), Timestamp::default().plus_seconds(now));
            assert_eq!(token.grant().state(now), state, "{token:?} at {now}");
            assert_eq!(token.is_forgotten(now), forgotten, "{token:?} at {now}");
        }
    }
}
