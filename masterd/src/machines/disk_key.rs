//! Opcodes on the keys of machines' disks. They carry what the vault sealed, so that no job holds a key.

use jobs::locks::Level;
use model::disk_key::{DISK_KEYS_MAX, DiskKey, DiskKeyId, DiskName};
use model::error::ErrorCode;
use model::machine::life::Status;
use model::opcode::{MachineDiskKeyAdd, MachineDiskKeysRemove};
use model::{Exception, Serial, Timestamp};

use super::machine::lock_of;
use crate::config::vault;
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for MachineDiskKeyAdd {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        added(self, &context.config(), context.now())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        context.transact(move |config| Ok((added(&self, config, now)?, ()))).await
    }
}

/// The change that keeps a key; none where it is kept already.
pub(super) fn added(
    op: &MachineDiskKeyAdd,
    config: &Config,
    now: Timestamp,
) -> Result<Vec<ConfigChange>, Exception> {
    let machine = config.machine(&op.serial)?;
    let (serial, status) = (machine.serial.clone(), machine.life.state.status());
    if !status.takes_disk_keys() {
        let text = format!("Machine {serial} is {status}; keys of its disks are kept no more");
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    let id = DiskKeyId { serial: serial.clone(), disk: op.disk.clone() };
    let unreadable = |error: vault::VaultError| {
        let text = format!("The key of disk {id} cannot be opened: {error}");
        Exception::prereq(text, ErrorCode::WrongInput)
    };
    let key = vault::open(config, &id.purpose(), &op.sealed).map_err(unreadable)?;
    match vault::disk_key(config, &id) {
        Some(held) if held.as_ref() == Ok(&key) => return Ok(Vec::new()),
        Some(_) => {
            let text = format!(
                "Disk {id} has another key already; remove the keys of the machine if its disks are \
                 to be formatted anew"
            );
            return Err(Exception::prereq(text, ErrorCode::AlreadyExists));
        }
        None => {}
    }
    if config.disk_keys.by.serial.of(serial.clone()).count() >= DISK_KEYS_MAX {
        let text = format!("Machine {serial} has the keys of {DISK_KEYS_MAX} disks already");
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    let DiskKeyId { serial, disk } = id;
    let disk_key = DiskKey { serial, disk, sealed: op.sealed.clone(), ctime: now };
    Ok(vec![ConfigChange::DiskKey(disk_key)])
}

impl LogicalUnit for MachineDiskKeysRemove {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        forgettable(self, &context.config())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Vec<DiskName>, Failure> {
        let removed = move |config: &Config| {
            let serial = forgettable(&self, config)?;
            let held = config.disk_keys.by.serial.of(serial);
            let ids: Vec<DiskKeyId> = held.map(|disk| disk.key()).collect();
            let disks = ids.iter().map(|id| id.disk.clone()).collect();
            Ok((ids.into_iter().map(ConfigChange::DiskKeyRemoved).collect(), disks))
        };
        context.transact(removed).await
    }
}

/// The machine, if its keys may be forgotten.
fn forgettable(op: &MachineDiskKeysRemove, config: &Config) -> Result<Serial, Exception> {
    let machine = config.machine(&op.serial)?;
    let (serial, status) = (machine.serial.clone(), machine.life.state.status());
    if op.only_retiring && status != Status::Retiring {
        let text =
            format!("Machine {serial} is {status}; its keys are forgotten when it is retiring");
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    Ok(serial)
}
