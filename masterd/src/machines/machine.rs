//! Opcodes on the inventory of machines.

mod awaits;
pub mod fields;
mod modify;
mod ports;
mod provision;
pub(super) mod register;
pub(super) mod state;

use std::collections::BTreeSet;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::machine::Machine;
use model::network::Owner;
use model::opcode::{MachineAdd, MachineRemove, MachineSetParams};
use model::{Exception, Serial, Timestamp, Uuid};

use super::image::distribute;
use super::network::released_by;
use super::rack;
use crate::config::queue::Decision;
use crate::config::{Config, ConfigChange};
use crate::machines::boot_template::units::fits_templates;
use crate::machines::network_template::units::{assigned_to_new, with_new_role};
use crate::machines::rack::document::image_of;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

use modify::changed;
pub use register::register;
use state::{removable, without_disk_keys};

/// Machines that a registration's log names one by one: two racks full.
const MACHINES_TOLD_MAX: usize = 64;

impl LogicalUnit for MachineAdd {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Machine {
            return Ok(Vec::new());
        }
        let serials: BTreeSet<&Serial> = self.machines.iter().map(|spec| &spec.serial).collect();
        let lock = |serial: &Serial| LockName::member(Level::Machine, serial.as_str());
        Ok(serials.into_iter().map(|serial| (lock(serial), Mode::Exclusive)).collect())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        register(&context.config(), &self.machines, now)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Vec<Machine>, Failure> {
        let now = context.now();
        let seed = Uuid::new_v4().as_u128();
        let specs = self.machines;
        let racks: BTreeSet<u32> = specs.iter().map(|spec| spec.rack).collect();
        let machines = context
            .transact(move |config| {
                let machines = register(config, &specs, now)?;
                let mut changes: Vec<_> =
                    machines.iter().cloned().map(ConfigChange::Machine).collect();
                if !config.network_templates.is_empty() || !config.boot_templates.is_empty() {
                    let mut after = config.clone();
                    after.apply(changes.clone());
                    changes.extend(assigned_to_new(&mut after, &machines, (now, seed))?);
                    machines.iter().try_for_each(|machine| fits_templates(&after, machine))?;
                }
                Ok((changes, machines))
            })
            .await?;
        for machine in machines.iter().take(MACHINES_TOLD_MAX) {
            let address = machine.network.values().flat_map(|a| &a.ipv4).next();
            let address = address.map_or_else(|| "-".to_owned(), ToString::to_string);
            let (serial, rack, index) = (&machine.serial, machine.rack, machine.index_in_rack);
            context.say(format!("{serial}: rack {rack}, index {index}, {address}")).await;
        }
        if let Some(more) = machines.len().checked_sub(MACHINES_TOLD_MAX).filter(|&more| more > 0) {
            context.say(format!("and {more} more machines; the result has all of them")).await;
        }
        rack::push(context, &racks).await?;
        Ok(machines)
    }
}

/// The lock of one machine.
pub(super) fn lock_of(serial: &str, level: Level, config: &Config) -> Result<Wanted, Exception> {
    if level != Level::Machine {
        return Ok(Vec::new());
    }
    let machine = config.machine(serial)?;
    let lock = LockName::member(Level::Machine, machine.serial.as_str());
    Ok(vec![(lock, Mode::Exclusive)])
}

impl LogicalUnit for MachineSetParams {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        set(self, &context.config(), (context.now(), 0))?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Machine, Failure> {
        let config = context.config();
        let (_, after) = changed(&self, &config)?;
        let before = config.machine(&self.serial)?;
        let boots_anew =
            (&before.boot, &before.kernel_parameters) != (&after.boot, &after.kernel_parameters);
        let image = image_of(&config, &after.boot).filter(|_| boots_anew);
        if let Some(image) = image {
            // The agents have its files before their document names them.
            let agents: Vec<_> = config.agents_of(after.rack).cloned().collect();
            let blobs: Vec<_> = image.files.blobs().collect();
            distribute(context, &agents, &blobs, None).await?;
        }
        let of_rack = |machine: &Machine| (machine.role.clone(), machine.mac.clone(), machine.uuid);
        // Its documents for booting may name anything of it.
        let is_shown =
            boots_anew || of_rack(before) != of_rack(&after) || !config.boot_templates.is_empty();
        let moment = (context.now(), Uuid::new_v4().as_u128());
        let machine = context.transact(move |config| set(&self, config, moment)).await?;
        if is_shown {
            rack::push(context, &BTreeSet::from([machine.rack])).await?;
        }
        Ok(machine)
    }
}

/// As [`changed`], with the network template of a role that is new to the machine.
fn set(op: &MachineSetParams, config: &Config, moment: (Timestamp, u128)) -> Decision<Machine> {
    let (mut changes, machine) = changed(op, config)?;
    let before = config.machine(&op.serial)?;
    if before.role == machine.role || config.network_templates.is_empty() {
        return Ok((changes, machine));
    }
    let mut after = config.clone();
    after.apply(changes.clone());
    changes.extend(with_new_role(&mut after, before, moment)?);
    Ok((changes, after.machine(&op.serial)?.as_ref().clone()))
}

impl LogicalUnit for MachineRemove {
    type Plan = (Serial, u32);

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(Serial, u32), Failure> {
        let config = context.config();
        let machine = removable(&self.serial, self.only, &config)?;
        without_disk_keys(&machine.serial, &config, ErrorCode::WrongState)?;
        Ok((machine.serial.clone(), machine.rack))
    }

    async fn exec(
        self,
        (serial, rack): (Serial, u32),
        context: &mut Context,
    ) -> Result<(), Failure> {
        let seed = Uuid::new_v4().as_u128();
        context
            .transact(move |config| {
                let _machine = removable(serial.as_str(), self.only, config)?;
                without_disk_keys(&serial, config, ErrorCode::WrongState)?;
                let owner = Owner::Machine(serial.clone());
                let mut changes = released_by(config, &owner, seed);
                if config.bmcs.contains_key(&serial) {
                    changes.push(ConfigChange::BmcRemoved(serial.clone()));
                }
                if config.inspections.contains_key(&serial) {
                    changes.push(ConfigChange::InspectionRemoved(serial.clone()));
                }
                if config.power_cycles.contains_key(&serial) {
                    changes.push(ConfigChange::PowerCycleRemoved(serial.clone()));
                }
                changes.push(ConfigChange::MachineRemoved(serial));
                Ok((changes, ()))
            })
            .await?;
        rack::push(context, &BTreeSet::from([rack])).await
    }
}
