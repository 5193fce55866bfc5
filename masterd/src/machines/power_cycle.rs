//! Power cycles of machines: what begins one, whoever switches the power.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::power_cycle::{CycleEnrolment, PowerCycle, Ramdisk, RamdiskToken};
use model::vault::Sealed;
use model::{Exception, JobId, Secret, Serial, Timestamp};

use crate::config::vault::{self, VaultError};
use crate::config::{Config, ConfigChange};

/// Bytes of a ramdisk's token: 256 bits, which nobody guesses.
const TOKEN_BYTES: usize = 32;

/// A new token for the ramdisk of a machine, sealed.
///
/// # Errors
/// The system gives no random numbers, or the vault has no key.
pub fn new_token(config: &Config, serial: &Serial) -> Result<Sealed, VaultError> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|_none| VaultError::Random)?;
    let token = Secret::new(URL_SAFE_NO_PAD.encode(bytes).into_bytes());
    vault::seal(config, &PowerCycle::purpose(serial), &token)
}

/// Notes that a job switches a machine off to switch it on again, or that it is done with that. If its master
/// dies between, the next one goes on there.
///
/// # Errors
/// There is no such machine.
pub fn switches_on(
    config: &Config,
    serial: &Serial,
    sealed: &Sealed,
    (job, now): (Option<JobId>, Timestamp),
) -> Result<Option<ConfigChange>, Exception> {
    let mut cycle = match (config.power_cycles.get(serial), job) {
        (Some(cycle), _) if cycle.switches_on == job => return Ok(None),
        (Some(cycle), _) => cycle.as_ref().clone(),
        (None, None) => return Ok(None),
        // The one before the first.
        (None, Some(_)) => PowerCycle {
            serial: serial.clone(),
            rack: config.machine(serial.as_str())?.rack,
            number: 0,
            began: now,
            sealed: sealed.clone(),
            ramdisk: Ramdisk::default(),
            switches_on: None,
            left_off: None,
            enrolment: None,
        },
    };
    cycle.switches_on = job;
    cycle.left_off = cycle.left_off.filter(|_| job.is_some());
    Ok(Some(ConfigChange::PowerCycle(cycle)))
}

/// Opens the secret that a power cycle's tokens are made of.
///
/// # Errors
/// It cannot be opened.
pub fn secret(config: &Config, cycle: &PowerCycle) -> Result<RamdiskToken, VaultError> {
    let purpose = PowerCycle::purpose(&cycle.serial);
    let opened = vault::open(config, &purpose, &cycle.sealed)?;
    let text = String::from_utf8(opened.expose().clone());
    text.map(RamdiskToken::new).map_err(|_bytes| VaultError::Foreign(purpose))
}

/// The next power cycle of a machine, and whether that is to become a node in it. Messages of the cycle
/// before count no longer.
///
/// # Errors
/// There is no such machine.
pub fn next(
    config: &Config,
    serial: &Serial,
    sealed: Sealed,
    (enrolment, now): (Option<CycleEnrolment>, Timestamp),
) -> Result<PowerCycle, Exception> {
    let machine = config.machine(serial.as_str())?;
    let before = config.power_cycles.get(serial).map_or(0, |cycle| cycle.number);
    Ok(PowerCycle {
        serial: serial.clone(),
        rack: machine.rack,
        number: before + 1,
        began: now,
        sealed,
        ramdisk: Ramdisk::default(),
        switches_on: None,
        left_off: None,
        enrolment,
    })
}
