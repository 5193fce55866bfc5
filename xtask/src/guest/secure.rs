//! Firmware that boots what is signed, with keys that Debian publishes for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::parts::{Parts, alone, unpack_packages};
use super::{GuestError, run};
use crate::target_dir;

/// Of the keys that Debian publishes with its firmware.
const PASSPHRASE: &str = "pass:snakeoil";

/// The parts of a guest with Secure Boot beside the usual ones.
#[derive(Debug, Clone)]
pub struct Secure {
    /// The usual unified kernel image, signed.
    pub signed: PathBuf,
    /// Firmware that keeps its variables from the operating system.
    pub firmware: PathBuf,
    /// Its variables at first: they hold the test's keys and no others, and Secure Boot is on.
    pub variables: PathBuf,
}

impl Secure {
    /// Downloads what signs, and signs.
    ///
    /// # Errors
    /// Why that is impossible here.
    pub fn provide(parts: &Parts) -> Result<Self, GuestError> {
        let place = target_dir().join("guest");
        let _alone = alone(&place)?;
        let unpacked = |path: &str| place.join("unpacked").join(path);
        let secure = Self {
            signed: place.join("uki-signed.efi"),
            firmware: unpacked("usr/share/OVMF/OVMF_CODE_4M.secboot.fd"),
            variables: unpacked("usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd"),
        };
        let sbsign = unpacked("usr/bin/sbsign");
        if !sbsign.is_file() {
            unpack_packages(&place, &["sbsigntool"])?;
        }
        if !secure.signed.is_file() {
            let keys = [".key", ".pem"]
                .map(|end| unpacked(&format!("usr/share/ovmf/PkKek-1-snakeoil{end}")));
            sign(&sbsign, &parts.uki, &keys, &secure.signed)?;
        }
        Ok(secure)
    }
}

fn sign(sbsign: &Path, program: &Path, keys: &[PathBuf; 2], to: &Path) -> Result<(), GuestError> {
    let [key, certificate] = keys;
    let open = to.with_extension("key");
    let mut opened = Command::new("openssl");
    opened.args(["pkey", "-passin", PASSPHRASE, "-in"]).arg(key).arg("-out").arg(&open);
    run(&mut opened)?;
    let mut signed = Command::new(sbsign);
    signed.arg("--key").arg(&open).arg("--cert").arg(certificate);
    run(signed.arg("--output").arg(to).arg(program)).map(drop)
}
