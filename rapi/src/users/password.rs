//! Core: what a password is compared with, in the forms that Ganeti and Apache's `htpasswd` write.

mod apr1;

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use sha_crypt::{PasswordHash, PasswordVerifier as _, ShaCrypt};
use sha1::Sha1;
use subtle::ConstantTimeEq as _;

use model::Secret;

/// The realm that clients see, and that is hashed with a password in `{HA1}`: Ganeti's.
pub const REALM: &str = "Ganeti Remote API";
/// Most expensive bcrypt that is checked: 1 s on a slow processor. Each step doubles it.
const BCRYPT_COST_MAX: u32 = 14;
/// Most rounds of a sha-crypt that is checked: as long.
const SHA_CRYPT_ROUNDS_MAX: u32 = 1_000_000;

/// The stored form of a password. It never prints.
pub struct Password(Form);

enum Form {
    /// No password: its user shows a certificate.
    Certificate,
    Plain(Secret<String>),
    Ha1([u8; 16]),
    Sha([u8; 20]),
    Apr1 {
        salt: String,
        hash: String,
    },
    Bcrypt(String),
    ShaCrypt(PasswordHash),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

impl FromStr for Password {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = if let Some(rest) = text.strip_prefix('{') {
            let (scheme, rest) = rest.split_once('}').ok_or("its scheme has no end `}`")?;
            match scheme.to_ascii_uppercase().as_str() {
                "CERTIFICATE" if rest.is_empty() => Form::Certificate,
                "CLEARTEXT" => Form::Plain(Secret::new(rest.to_owned())),
                "HA1" => Form::Ha1(hex(rest).ok_or("{HA1} takes 32 hexadecimal digits")?),
                "SHA" => {
                    let bytes = STANDARD.decode(rest).ok().and_then(|bytes| bytes.try_into().ok());
                    Form::Sha(bytes.ok_or("{SHA} takes 28 characters of Base64")?)
                }
                _ => return Err("its scheme is none of {CERTIFICATE}, {CLEARTEXT}, {HA1}, {SHA}"),
            }
        } else if let Some(rest) = text.strip_prefix("$apr1$") {
            let (salt, hash) = rest.split_once('$').ok_or("its apr1 hash is cut")?;
            Form::Apr1 { salt: salt.to_owned(), hash: hash.to_owned() }
        } else if ["$2a$", "$2b$", "$2x$", "$2y$"].iter().any(|known| text.starts_with(known)) {
            bcrypt(text)?
        } else if text.starts_with("$5$") || text.starts_with("$6$") {
            sha_crypt(text)?
        } else {
            Form::Plain(Secret::new(text.to_owned()))
        };
        Ok(Self(form))
    }
}

fn bcrypt(text: &str) -> Result<Form, &'static str> {
    let parts: bcrypt::HashParts =
        text.parse().map_err(|_error| "its bcrypt hash does not read")?;
    if parts.get_cost() > BCRYPT_COST_MAX {
        return Err("its bcrypt hash costs more than 14, which takes too long for each check");
    }
    Ok(Form::Bcrypt(text.to_owned()))
}

fn sha_crypt(text: &str) -> Result<Form, &'static str> {
    let rounds = text.split('$').find_map(|part| part.strip_prefix("rounds="));
    let rounds = rounds.map(str::parse::<u32>);
    if rounds.is_some_and(|rounds| !rounds.is_ok_and(|rounds| rounds <= SHA_CRYPT_ROUNDS_MAX)) {
        return Err("its hash has more than 1,000,000 rounds, which takes too long for each check");
    }
    PasswordHash::new(text).map(Form::ShaCrypt).map_err(|_error| "its sha-crypt hash does not read")
}

fn hex(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    hex::decode_to_slice(text, &mut bytes).ok().map(|()| bytes)
}

impl Password {
    /// Whether a check takes long enough to be worth remembering and limiting.
    pub fn is_slow(&self) -> bool {
        matches!(self.0, Form::Apr1 { .. } | Form::Bcrypt(_) | Form::ShaCrypt(_))
    }

    /// Whether the file has the password itself.
    pub fn is_plain(&self) -> bool {
        matches!(self.0, Form::Plain(_))
    }

    /// Whether the password of the user `name` is `given`. May take a second.
    pub fn is(&self, name: &str, given: &str) -> bool {
        match &self.0 {
            Form::Certificate => false,
            Form::Plain(password) => same(password.expose().as_bytes(), given.as_bytes()),
            Form::Ha1(digest) => {
                same(digest, &Md5::digest(format!("{name}:{REALM}:{given}").as_bytes()))
            }
            Form::Sha(digest) => same(digest, &Sha1::digest(given.as_bytes())),
            Form::Apr1 { salt, hash } => {
                same(hash.as_bytes(), apr1::hash(given.as_bytes(), salt.as_bytes()).as_bytes())
            }
            Form::Bcrypt(hash) => bcrypt::verify(given, hash).unwrap_or(false),
            Form::ShaCrypt(hash) => {
                ShaCrypt::default().verify_password(given.as_bytes(), hash).is_ok()
            }
        }
    }
}

fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_knows_its_password_and_no_other() {
        // Made by `htpasswd -nbB`, `openssl passwd` and Python's hashlib, of `hunter2`.
        for text in [
            "hunter2",
            "{cleartext}hunter2",
            "{HA1}70dd49766c1747f00408d69803f98afb",
            "{SHA}87u9ZqY9S/F0eUBXjsPQEDUw4h0=",
            "$apr1$Zr6TpWaC$wJSbfYsEpVDbkPUdE3yeO1",
            "$2b$04$yl3fPXh5/ckCMXy1S1i1M.83zC1Mem3ZBEEhVUTOpzlWdsOPqIZte",
            "$5$saltstring$9JBjAeLRHX/Lm/1Njo98nbLiUsNRFEuARumLKkxJMm7",
            "$6$saltstring$q2.778Y7vt0Ij2OIl01VlxEE6SEh8ZCtgFbyJX8fYkl5S7gx32QO24FVg.rs4DkoAs9t6R19x4z8g69teXFxA0",
        ] {
            let password: Password = text.parse().unwrap();
            assert!(password.is("bob", "hunter2"), "{text}");
            for wrong in ["", "hunter", "hunter22", "Hunter2"] {
                assert!(!password.is("bob", wrong), "{text} takes {wrong:?}");
            }
            assert_eq!(format!("{password:?}"), "Password(…)");
        }
        let ha1: Password = "{HA1}70dd49766c1747f00408d69803f98afb".parse().unwrap();
        assert!(!ha1.is("eve", "hunter2"), "it is that of another user");
        let none: Password = "{CERTIFICATE}".parse().unwrap();
        assert!(["", "{CERTIFICATE}"].iter().all(|given| !none.is("bob", given)));
    }

    #[test]
    fn what_would_take_too_long_is_refused() {
        for text in [
            "$2y$20$GhvMmNVjRW29ulnudl.LbuAnUtN/LRfe1JsBm1Xu6LE3059z5Tr8m",
            "$6$rounds=999999999$saltsalt$abc",
            "$6$rounds=x$saltsalt$abc",
            "$2y$12$short",
            "{MD5}abc",
            "{HA1",
            "{CERTIFICATE}x",
        ] {
            assert!(text.parse::<Password>().is_err(), "{text}");
        }
    }
}
