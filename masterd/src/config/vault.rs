//! The vault: secrets are sealed before they are in any job, log or document, and opened where they are
//! needed alone (docs/secrets.md). The cipher is XChaCha20-Poly1305, whose nonces may be random.

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use model::Secret;
use model::bmc::BmcAccess;
use model::disk_key::{DiskKey, DiskKeyId};
use model::power_cycle::PowerCycle;
use model::switch::SwitchAccess;
use model::vault::{SECRET_BYTES_MAX, Sealed, VAULT_KEY_BYTES, VaultKey, VaultKeys};

use crate::config::{Config, ConfigChange};

/// Bytes of a nonce.
const NONCE_BYTES: usize = 24;
/// Secrets that one commit seals anew: each has up to 8 KiB, and a commit must fit a frame.
const RESEALED_AT_ONCE: usize = 256;

/// A secret that is not sealed, or not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// It is empty, or too long.
    #[error("a secret has 1 to {SECRET_BYTES_MAX} bytes, and not {0}")]
    Size(usize),
    /// The cluster has no key.
    #[error(
        "the vault has no key {0}: it was left out of an export, or renewed since this was sealed"
    )]
    NoKey(u32),
    /// Another cluster sealed it, or it was sealed for something else, or it was changed.
    #[error("this was not sealed here for {0}")]
    Foreign(String),
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

/// A key of random bytes.
///
/// # Errors
/// The system gives none.
pub fn new_key() -> Result<VaultKey, VaultError> {
    let mut bytes = [0; VAULT_KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|_none| VaultError::Random)?;
    Ok(VaultKey::new(bytes))
}

fn keys(config: &Config) -> Result<&VaultKeys, VaultError> {
    config.vault.as_deref().ok_or(VaultError::NoKey(0))
}

fn cipher(keys: &VaultKeys, number: u32) -> Result<XChaCha20Poly1305, VaultError> {
    let key = keys.keys.get(&number).ok_or(VaultError::NoKey(number))?;
    Ok(XChaCha20Poly1305::new(&Key::from(*key.expose())))
}

/// The associated data of a secret: the cluster and the purpose.
fn bound_to(config: &Config, purpose: &str) -> Vec<u8> {
    format!("{}/{purpose}", config.cluster.uuid).into_bytes()
}

/// Seals a secret for a purpose under the current key.
///
/// # Errors
/// It is empty or too long, or there is no key.
pub fn seal(
    config: &Config,
    purpose: &str,
    secret: &Secret<Vec<u8>>,
) -> Result<Sealed, VaultError> {
    seal_with(config, keys(config)?, purpose, secret)
}

fn seal_with(
    config: &Config,
    keys: &VaultKeys,
    purpose: &str,
    secret: &Secret<Vec<u8>>,
) -> Result<Sealed, VaultError> {
    let msg = secret.expose().as_slice();
    if msg.is_empty() || msg.len() > SECRET_BYTES_MAX {
        return Err(VaultError::Size(msg.len()));
    }
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|_none| VaultError::Random)?;
    let aad = bound_to(config, purpose);
    let sealed = cipher(keys, keys.current)?
        .encrypt(&XNonce::from(nonce), Payload { msg, aad: &aad })
        .map_err(|_opaque| VaultError::Size(msg.len()))?;
    Ok(Sealed { key: keys.current, bytes: [nonce.as_slice(), &sealed].concat() })
}

/// Opens what was sealed for a purpose.
///
/// # Errors
/// It was sealed elsewhere or for something else, or its key is gone.
pub fn open(
    config: &Config,
    purpose: &str,
    sealed: &Sealed,
) -> Result<Secret<Vec<u8>>, VaultError> {
    let foreign = || VaultError::Foreign(purpose.to_owned());
    let (nonce, msg) = sealed.bytes.split_first_chunk::<NONCE_BYTES>().ok_or_else(foreign)?;
    let aad = bound_to(config, purpose);
    cipher(keys(config)?, sealed.key)?
        .decrypt(&XNonce::from(*nonce), Payload { msg, aad: &aad })
        .map(Secret::new)
        .map_err(|_opaque| foreign())
}

/// The next step of a renewal that began with a new current key. It seals some secrets of earlier keys
/// anew, or forgets those keys where nothing is left. Nothing to do gives no change.
///
/// # Errors
/// Something cannot be opened; its key stays then.
pub fn renewal(config: &Config) -> Result<Vec<ConfigChange>, VaultError> {
    let keys = keys(config)?;
    let old = config.disk_keys.values().filter(|disk| disk.sealed.key != keys.current);
    let mut changes = Vec::new();
    for disk in old.take(RESEALED_AT_ONCE) {
        let purpose = disk.key().purpose();
        let sealed = seal_with(config, keys, &purpose, &open(config, &purpose, &disk.sealed)?)?;
        changes.push(ConfigChange::DiskKey(DiskKey { sealed, ..disk.as_ref().clone() }));
    }
    let old = config.bmcs.values().filter(|access| access.sealed.key != keys.current);
    for access in old.take(RESEALED_AT_ONCE.saturating_sub(changes.len())) {
        let purpose = BmcAccess::purpose(&access.serial);
        let sealed = seal_with(config, keys, &purpose, &open(config, &purpose, &access.sealed)?)?;
        changes.push(ConfigChange::Bmc(BmcAccess { sealed, ..access.as_ref().clone() }));
    }
    let old = config.power_cycles.values().filter(|cycle| cycle.sealed.key != keys.current);
    for cycle in old.take(RESEALED_AT_ONCE.saturating_sub(changes.len())) {
        let purpose = PowerCycle::purpose(&cycle.serial);
        let sealed = seal_with(config, keys, &purpose, &open(config, &purpose, &cycle.sealed)?)?;
        changes.push(ConfigChange::PowerCycle(PowerCycle { sealed, ..cycle.as_ref().clone() }));
    }
    let old = config.switch_access.values().filter(|access| access.sealed.key != keys.current);
    for access in old.take(RESEALED_AT_ONCE.saturating_sub(changes.len())) {
        let purpose = SwitchAccess::purpose(&access.switch);
        let sealed = seal_with(config, keys, &purpose, &open(config, &purpose, &access.sealed)?)?;
        changes
            .push(ConfigChange::SwitchAccess(SwitchAccess { sealed, ..access.as_ref().clone() }));
    }
    if changes.is_empty() && keys.keys.len() > 1 {
        changes.push(ConfigChange::Vault(keys.without_earlier()));
    }
    Ok(changes)
}

/// The key of a disk.
///
/// # Errors
/// There is none, or it cannot be opened.
pub fn disk_key(config: &Config, id: &DiskKeyId) -> Option<Result<Secret<Vec<u8>>, VaultError>> {
    let disk = config.disk_keys.get(id)?;
    Some(open(config, &id.purpose(), &disk.sealed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    fn secret(text: &str) -> Secret<Vec<u8>> {
        Secret::new(text.as_bytes().to_vec())
    }

    fn with_key() -> Config {
        let mut config = config(&[]);
        config.apply([ConfigChange::Vault(VaultKeys::first(new_key().unwrap()))]);
        config
    }

    #[test]
    fn what_is_sealed_opens_here_for_its_purpose_alone() {
        let config = with_key();
        let sealed = seal(&config, "disk-key/S1/sda", &secret("hunter2")).unwrap();
        assert!(!sealed.bytes.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(open(&config, "disk-key/S1/sda", &sealed), Ok(secret("hunter2")));
        let foreign = VaultError::Foreign("disk-key/S1/sdb".to_owned());
        assert_eq!(open(&config, "disk-key/S1/sdb", &sealed), Err(foreign));
        let elsewhere = open(&with_key(), "disk-key/S1/sda", &sealed);
        assert!(matches!(elsewhere, Err(VaultError::Foreign(_))), "{elsewhere:?}");
        for at in 0..sealed.bytes.len() {
            let mut changed = sealed.clone();
            changed.bytes[at] ^= 1;
            assert!(open(&config, "disk-key/S1/sda", &changed).is_err(), "byte {at}");
            changed.bytes.truncate(at);
            assert!(open(&config, "disk-key/S1/sda", &changed).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_secret_has_a_size_and_a_key() {
        let config = with_key();
        let sized = |bytes: usize| seal(&config, "x", &Secret::new(vec![7; bytes]));
        assert!(sized(1).is_ok() && sized(SECRET_BYTES_MAX).is_ok());
        assert_eq!(sized(0), Err(VaultError::Size(0)));
        assert_eq!(sized(SECRET_BYTES_MAX + 1), Err(VaultError::Size(SECRET_BYTES_MAX + 1)));
        let largest: Sealed = sized(SECRET_BYTES_MAX).unwrap().to_string().parse().unwrap();
        assert!(open(&config, "x", &largest).is_ok());
        let none = crate::testing::config(&[]);
        assert_eq!(seal(&none, "x", &secret("y")), Err(VaultError::NoKey(0)));
    }

    #[test]
    fn a_renewal_seals_all_anew_and_forgets_the_earlier_key() {
        let mut config = with_key();
        let number = RESEALED_AT_ONCE + 3;
        for disk in 0..number {
            let (serial, disk) = ("S1".parse().unwrap(), format!("d{disk}").parse().unwrap());
            let id = DiskKeyId { serial, disk };
            let sealed = seal(&config, &id.purpose(), &secret(id.disk.as_str())).unwrap();
            let ctime = crate::testing::NOW;
            let DiskKeyId { serial, disk } = id;
            config.apply([ConfigChange::DiskKey(DiskKey { serial, disk, sealed, ctime })]);
        }
        let renewed = keys(&config).unwrap().renewed(new_key().unwrap());
        config.apply([ConfigChange::Vault(renewed)]);
        let mut steps = Vec::new();
        loop {
            let changes = renewal(&config).unwrap();
            if changes.is_empty() {
                break;
            }
            steps.push(changes.len());
            config.apply(changes);
        }
        assert_eq!(steps, [RESEALED_AT_ONCE, 3, 1]);
        assert_eq!(keys(&config).unwrap().keys.keys().copied().collect::<Vec<_>>(), [2]);
        for disk in config.disk_keys.values() {
            let opened = disk_key(&config, &disk.key()).unwrap().unwrap();
            assert_eq!(opened, secret(disk.disk.as_str()));
        }
    }
}
