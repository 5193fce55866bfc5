//! Core: the trust between a new node and the master before they share a cluster. It needs the
//! fingerprint of a certificate, a one-time secret, and the token that carries both.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::secret::Secret;

pub(crate) mod base32;

/// Bytes of a SHA-256 digest.
const FINGERPRINT_BYTES: usize = 32;
/// Bytes of the one-time secret: 128 bits cannot be guessed in the five tries that there are.
pub const SECRET_BYTES: usize = 16;
/// Bytes of the checksum that tells a typing error from a wrong token.
const CHECKSUM_BYTES: usize = 4;
/// Bytes behind the address.
const CODE_BYTES: usize = FINGERPRINT_BYTES + SECRET_BYTES + CHECKSUM_BYTES;
/// Longest text that is looked at: a host name of 253 characters, a port, the code with breaks.
const TOKEN_TEXT_MAX: usize = 512;

/// SHA-256 of a certificate in DER form: the pin by which callers and agents know each other.
///
/// Written as 64 lower-case hex digits; read with capitals and colons too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

/// A text that is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no fingerprint; it must be 64 hex digits")]
pub struct FingerprintError {
    text: String,
}

impl Fingerprint {
    /// The fingerprint of a certificate in DER form.
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }

    /// From the digest itself.
    pub const fn from_bytes(bytes: [u8; FINGERPRINT_BYTES]) -> Self {
        Self(bytes)
    }

    /// The digest itself.
    pub const fn as_bytes(&self) -> &[u8; FINGERPRINT_BYTES] {
        &self.0
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let wrong = || FingerprintError { text: text.chars().take(80).collect() };
        let mut bytes = [0; FINGERPRINT_BYTES];
        hex::decode_to_slice(text.replace(':', ""), &mut bytes).map_err(|_error| wrong())?;
        Ok(Self(bytes))
    }
}

crate::text_form!(Fingerprint);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// The one-time secret of an enrolment.
pub type EnrolSecret = Secret<[u8; SECRET_BYTES]>;

/// The secret as text: 26 characters out of `0-9 A-Z`.
pub fn secret_text(secret: &EnrolSecret) -> Secret<String> {
    Secret::new(base32::encode(secret.expose()))
}

/// Reads a secret as [`secret_text`] writes it.
///
/// # Errors
/// The text is no secret; it is not repeated in the error.
pub fn parse_secret(text: &str) -> Result<EnrolSecret, TokenError> {
    let bytes = base32::decode(text, SECRET_BYTES).ok_or(TokenError::Secret)?;
    Ok(Secret::new(bytes.try_into().map_err(|_length| TokenError::Secret)?))
}

/// Everything that the master needs to reach and to trust a node that wants to join.
///
/// As text `HOST:PORT/CODE`. The code is the fingerprint, the secret and a checksum over all of it in
/// Crockford's base 32. No letter can be mistaken for another, case does not matter, and dashes or
/// blanks may be put in anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Host name or address where the enrolment is served.
    pub host: String,
    pub port: u16,
    /// Fingerprint of the enrolment certificate.
    pub fingerprint: Fingerprint,
    /// Proves to the node that who calls was shown the token.
    pub secret: EnrolSecret,
}

/// A text that is no token. The text is not repeated: it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No `HOST:PORT/CODE`.
    #[error(
        "an enrolment token looks like HOST:PORT/CODE; copy the whole line that `noded enroll` shows"
    )]
    Shape,
    /// The code has a character that cannot be there, or is too short or too long.
    #[error(
        "the code of the enrolment token is incomplete or has a character that is none of its alphabet"
    )]
    Code,
    /// Every character is possible, but they do not belong together.
    #[error("the enrolment token has a typing error: its checksum does not fit")]
    Checksum,
    /// The text is no secret.
    #[error("the one-time secret must be 26 letters and digits")]
    Secret,
    /// The text is no token of a machine.
    #[error("the token of a machine must be 52 letters and digits, as its configuration tells it")]
    Machine,
}

impl Token {
    /// The text to show to the operator.
    pub fn to_text(&self) -> Secret<String> {
        let address = self.address();
        let mut code = Vec::with_capacity(CODE_BYTES);
        code.extend_from_slice(self.fingerprint.as_bytes());
        code.extend_from_slice(self.secret.expose());
        let checksum = checksum(&address, &code);
        code.extend_from_slice(&checksum);
        Secret::new(format!("{address}/{}", base32::encode(&code)))
    }

    /// `HOST:PORT`, with brackets around an IPv6 address.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        // `noded enroll` shows it on a line of its own, which may have been copied whole.
        let text = text.trim();
        let text = text.strip_prefix("token:").unwrap_or(text).trim();
        if text.len() > TOKEN_TEXT_MAX {
            return Err(TokenError::Shape);
        }
        let (address, code) = text.split_once('/').ok_or(TokenError::Shape)?;
        let (host, port) = split_address(address).ok_or(TokenError::Shape)?;
        let bytes = base32::decode(code, CODE_BYTES).ok_or(TokenError::Code)?;
        let (fingerprint, rest) =
            bytes.split_first_chunk::<FINGERPRINT_BYTES>().ok_or(TokenError::Code)?;
        let (secret, sum) = rest.split_first_chunk::<SECRET_BYTES>().ok_or(TokenError::Code)?;
        let token = Self {
            host: host.to_ascii_lowercase(),
            port,
            fingerprint: Fingerprint(*fingerprint),
            secret: Secret::new(*secret),
        };
        let covered = bytes.get(..FINGERPRINT_BYTES + SECRET_BYTES).ok_or(TokenError::Code)?;
        if sum == checksum(&token.address(), covered) {
            Ok(token)
        } else {
            Err(TokenError::Checksum)
        }
    }
}

fn split_address(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let known = |b: u8| b.is_ascii_alphanumeric() || b"-.:%".contains(&b);
    (!host.is_empty() && host.bytes().all(known)).then_some(())?;
    Some((host, port.parse().ok().filter(|port| *port != 0)?))
}

/// CRC-32 (ISO 3309) over the address in lower case and the code.
fn checksum(address: &str, code: &[u8]) -> [u8; CHECKSUM_BYTES] {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    let address = address.to_ascii_lowercase();
    let sum = address.bytes().chain(code.iter().copied()).fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _bit| {
            sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 }
        })
    });
    (!sum).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(host: &str) -> Token {
        Token {
            host: host.to_owned(),
            port: 1811,
            fingerprint: Fingerprint::from_bytes([0xA7; 32]),
            secret: Secret::new([0x5C; SECRET_BYTES]),
        }
    }

    #[test]
    fn reads_what_it_wrote_in_any_dress() {
        for host in ["192.0.2.4", "n4.example.com", "2001:db8::4"] {
            let text = token(host).to_text();
            let text = text.expose();
            assert!(text.len() < 130, "{text}");
            assert_eq!(text.parse(), Ok(token(host)));
            assert_eq!(format!(" {}\n", text.to_ascii_lowercase()).parse(), Ok(token(host)));
        }
    }

    #[test]
    fn every_single_typing_error_is_told() {
        let text = token("n4.example.com").to_text();
        let text = text.expose();
        for (at, old) in text.char_indices() {
            for new in ['0', 'Q', '/', ':', 'é'] {
                let same = old.eq_ignore_ascii_case(&new) || (old == 'O' && new == '0');
                let typo: String =
                    text.char_indices().map(|(i, c)| if i == at { new } else { c }).collect();
                assert!(same || typo.parse::<Token>().is_err(), "{typo}");
            }
            assert!(text[..at].parse::<Token>().is_err());
        }
    }

    #[test]
    fn errors_and_debug_never_repeat_the_secret() {
        let text = token("n4").to_text();
        let shown = format!("{:?} {:?}", token("n4"), text);
        assert!(!shown.contains("5C") && !shown.contains("92") && shown.contains("Secret(…)"));
    }

    #[test]
    fn fingerprints() {
        let plain = "ab".repeat(32);
        let fingerprint: Fingerprint = plain.parse().unwrap();
        assert_eq!(fingerprint.to_string(), plain);
        assert_eq!(vec!["AB"; 32].join(":").parse(), Ok(fingerprint));
        for bad in ["", "ab", &"ab".repeat(33), &"+b".repeat(32), &format!("{plain}a")] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets() {
        let secret: EnrolSecret = Secret::new([9; SECRET_BYTES]);
        assert_eq!(parse_secret(secret_text(&secret).expose()), Ok(secret));
        assert_eq!(parse_secret("hunter2"), Err(TokenError::Secret));
    }
}
