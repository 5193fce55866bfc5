//! Opcodes that look at a machine by its management controller.

use bmc::Controller;
use jobs::locks::Level;
use model::bmc::{Health, Inspection, Source};
use model::machine::life::{Event, Intent, Observed};
use model::opcode::{MachineHealth, MachineInspect};
use model::{Exception, JobId, Serial, Timestamp};

use super::{ask, known};
use crate::config::queue::Decision;
use crate::config::{Config, ConfigChange};
use crate::machines::machine::lock_of;
use crate::machines::machine::state::{begun, moved};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for MachineHealth {
    type Plan = Controller;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<Controller, Failure> {
        Ok(known(&context.config(), &self.serial)?.1)
    }

    async fn exec(self, controller: Controller, context: &mut Context) -> Result<Health, Failure> {
        context.reach_out().await?;
        let mut session = controller.session();
        let health = ask(context, &mut session, |session| Box::pin(session.health())).await;
        session.close().await;
        health
    }
}

/// Whether an inspection is a step in the life of a machine. One in service, or at which another job is at
/// work, stays as it is.
fn begins(config: &Config, serial: &Serial) -> bool {
    let machine = config.machines.get(serial);
    machine.is_some_and(|machine| machine.life.state.begun(Intent::Inspect).is_some())
}

/// A machine after its inspection by this job.
fn looked(
    config: &Config,
    serial: &Serial,
    job: JobId,
    ((seen, why), now): ((Observed, Option<String>), Timestamp),
) -> Decision<()> {
    if !config.machine(serial.as_str())?.life.is_carried_by(job) {
        return Ok((Vec::new(), ()));
    }
    let seen = Event::Observed(seen);
    let (changes, _) = moved(config, serial.as_str(), seen, why.as_deref(), now)?;
    Ok((changes, ()))
}

impl LogicalUnit for MachineInspect {
    type Plan = (Serial, Controller);

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(Serial, Controller), Failure> {
        Ok(known(&context.config(), &self.serial)?)
    }

    async fn exec(
        self,
        (serial, controller): (Serial, Controller),
        context: &mut Context,
    ) -> Result<Inspection, Failure> {
        context.reach_out().await?;
        let (job, now) = (context.job(), context.now());
        if begins(&context.config(), &serial) {
            let name = serial.clone();
            let begun = move |config: &Config| match begins(config, &name) {
                true => {
                    begun(config, name.as_str(), Intent::Inspect, job, now).map(|(c, _)| (c, ()))
                }
                false => Ok((Vec::new(), ())),
            };
            context.transact(begun).await?;
        }
        let mut session = controller.session();
        let told = ask(context, &mut session, |session| Box::pin(session.inventory())).await;
        session.close().await;
        let now = context.now();
        let told = match told {
            Ok(told) => told,
            Err(failure) => {
                let why = match &failure {
                    Failure::Exception(exception) => exception.message().to_owned(),
                    Failure::Canceled | Failure::Withdrawn => return Err(failure),
                };
                let ended = (Observed::Failed, Some(why));
                context.transact(move |config| looked(config, &serial, job, (ended, now))).await?;
                return Err(failure);
            }
        };
        let seen = move |config: &Config| {
            let (mut changes, ()) = looked(config, &serial, job, ((Observed::Done, None), now))?;
            let before = config.inspections.get(&serial).map(AsRef::as_ref);
            let after = Inspection::after(before, serial, now, (Source::Bmc, told));
            changes.push(ConfigChange::Inspection(after.clone()));
            Ok((changes, after))
        };
        let inspection = context.transact(seen).await?;
        for (parts, why) in &inspection.inventory.unread {
            let text =
                format!("its {parts} were not read whole, so that none counts as gone: {why}");
            context.say(text).await;
        }
        if inspection.changed == Some(now) {
            for change in &inspection.changes {
                context.say(format!("its hardware changed: {change}")).await;
            }
        }
        Ok(inspection)
    }
}
