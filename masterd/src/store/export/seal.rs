//! Core: secrets in an export: XChaCha20-Poly1305 with a key that Argon2id (RFC 9106) makes of a
//! passphrase and a salt. Each salt is used once, so each key seals one file, and its frames are
//! numbered.

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use model::Secret;
use uuid::Uuid;

use super::manifest::Derivation;

/// Memory of a derivation: what RFC 9106 section 4 has for machines with little of it.
const MEMORY_KIB: u32 = 64 << 10;
/// Passes, same place.
const PASSES: u32 = 3;
/// Lanes, same place.
const LANES: u32 = 4;
/// Most memory, passes and lanes that a file may ask for: it may be anybody's.
const MEMORY_KIB_MAX: u32 = 1 << 20;
const PASSES_MAX: u32 = 16;
const LANES_MAX: u32 = 16;
/// Fewest characters of a passphrase: who has the file may try for years.
pub const PASSPHRASE_CHARS_MIN: usize = 12;
/// Bytes of a key, and of a nonce.
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// Secrets that are not sealed, or not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The passphrase is too short.
    #[error("a passphrase must have {PASSPHRASE_CHARS_MIN} characters or more")]
    Short,
    /// The file asks for too much, or for what cannot be.
    #[error(
        "the key of the secrets cannot be derived as the file says ({memory_kib} KiB, {passes} \
         passes, {lanes} lanes); is it damaged?"
    )]
    Derivation { memory_kib: u32, passes: u32, lanes: u32 },
    /// Another key sealed it, or it was changed.
    #[error(
        "the passphrase is not the one that the secrets are sealed with, or the file is damaged"
    )]
    Wrong,
    /// There is too much of it.
    #[error("there is more to seal than one key may")]
    Much,
}

/// The derivation of a new key. `salt` comes from nowhere else.
pub fn derivation(salt: Uuid) -> Derivation {
    Derivation { memory_kib: MEMORY_KIB, passes: PASSES, lanes: LANES, salt }
}

/// Seals, or opens, the frames of one file in their order.
pub struct Sealer {
    cipher: XChaCha20Poly1305,
    /// The context to which the frames are bound.
    context: Vec<u8>,
    /// The number of the next frame.
    next: u64,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Sealer {
    /// The key of this passphrase, for frames that are bound to `context`. Takes a while.
    ///
    /// # Errors
    /// The passphrase is too short, or there is no such derivation.
    pub fn new(
        passphrase: &Secret<String>,
        how: &Derivation,
        context: Vec<u8>,
    ) -> Result<Self, SealError> {
        if passphrase.expose().chars().count() < PASSPHRASE_CHARS_MIN {
            return Err(SealError::Short);
        }
        let Derivation { memory_kib, passes, lanes, salt } = *how;
        let refused = SealError::Derivation { memory_kib, passes, lanes };
        if memory_kib > MEMORY_KIB_MAX || passes > PASSES_MAX || lanes > LANES_MAX {
            return Err(refused);
        }
        let Ok(params) = Params::new(memory_kib, passes, lanes, Some(KEY_BYTES)) else {
            return Err(refused);
        };
        let mut key = [0; KEY_BYTES];
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let passphrase = passphrase.expose().as_bytes();
        if argon.hash_password_into(passphrase, salt.as_bytes(), &mut key).is_err() {
            return Err(refused);
        }
        Ok(Self { cipher: XChaCha20Poly1305::new(&Key::from(key)), context, next: 0 })
    }

    /// The same key, for the same frames from the first one on: to open them once more.
    pub fn anew(&self) -> Self {
        Self { cipher: self.cipher.clone(), context: self.context.clone(), next: 0 }
    }

    fn nonce(&mut self) -> Result<XNonce, SealError> {
        let mut nonce = [0; NONCE_BYTES];
        let number = self.next.to_be_bytes();
        nonce[NONCE_BYTES - number.len()..].copy_from_slice(&number);
        self.next = self.next.checked_add(1).ok_or(SealError::Much)?;
        Ok(XNonce::from(nonce))
    }

    /// Seals the next frame.
    ///
    /// # Errors
    /// There is too much.
    pub fn seal(&mut self, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let nonce = self.nonce()?;
        let payload = Payload { msg: plain, aad: &self.context };
        self.cipher.encrypt(&nonce, payload).map_err(|_opaque| SealError::Much)
    }

    /// Opens the next frame.
    ///
    /// # Errors
    /// It is not what was sealed there with this key.
    pub fn open(&mut self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let nonce = self.nonce()?;
        let payload = Payload { msg: sealed, aad: &self.context };
        self.cipher.decrypt(&nonce, payload).map_err(|_opaque| SealError::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrase(text: &str) -> Secret<String> {
        Secret::new(text.to_owned())
    }

    fn small() -> Derivation {
        Derivation { memory_kib: 64, passes: 1, lanes: 1, salt: Uuid::from_u128(7) }
    }

    fn sealer(text: &str, context: &[u8]) -> Sealer {
        Sealer::new(&phrase(text), &small(), context.to_vec()).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_with_its_passphrase_in_its_place_alone() {
        let mut seals = sealer("correct horse", b"here");
        let sealed = [seals.seal(b"one").unwrap(), seals.seal(b"two").unwrap()];
        assert!(!sealed[0].windows(3).any(|window| window == b"one"));
        let mut opens = sealer("correct horse", b"here");
        assert_eq!(opens.open(&sealed[0]).unwrap(), b"one");
        assert_eq!(opens.open(&sealed[1]).unwrap(), b"two");
        for (text, context, place) in [
            ("correct hors3", &b"here"[..], 0),
            ("correct horse", b"there", 0),
            ("correct horse", b"here", 1),
        ] {
            assert_eq!(sealer(text, context).open(&sealed[place]), Err(SealError::Wrong));
        }
        let mut changed = sealed[0].clone();
        changed[0] ^= 1;
        assert_eq!(sealer("correct horse", b"here").open(&changed), Err(SealError::Wrong));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let short = Sealer::new(&phrase("elevenchars"), &small(), Vec::new());
        assert_eq!(short.unwrap_err(), SealError::Short);
        for how in [
            Derivation { memory_kib: u32::MAX, ..small() },
            Derivation { passes: 0, ..small() },
            Derivation { passes: 1_000, ..small() },
            Derivation { lanes: 0, ..small() },
        ] {
            let refused = Sealer::new(&phrase("correct horse"), &how, Vec::new()).unwrap_err();
            assert!(matches!(refused, SealError::Derivation { .. }), "{how:?}");
        }
        assert!(Sealer::new(&phrase("correct horse"), &derivation(Uuid::nil()), vec![]).is_ok());
    }
}
