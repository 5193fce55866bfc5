//! Opcodes that reach the management controller of a machine. They hold the machine's lock, so that a
//! controller has one question at a time, and one that is not reached holds up no other machine.

use std::collections::BTreeSet;
use std::time::Duration;

pub(in crate::lu) use bmc::Controller as Bmc;
use bmc::{BmcError, Controller, Expected, Login, Times};
use jobs::locks::Level;
use model::bmc::{
    BmcAccess, BmcProtocol, BmcTrust, Health, Inspection, PowerAction, PowerState, Source,
};
use model::error::ErrorCode;
use model::machine::Machine;
use model::machine::life::{Event, Intent, Observed};
use model::opcode::{MachineBmcRemove, MachineBmcSet, MachineHealth, MachineInspect, MachinePower};
use model::vault::Sealed;
use model::{Code, Exception, JobId, Secret, Serial, Timestamp};

use super::machine::lock_of;
use super::machine::state::{begun, moved};
use super::{Context, Failure, LogicalUnit, Wanted, rack};
use crate::config::{Config, ConfigChange};
use crate::queue::Decision;
use crate::{power_cycle, vault};

/// How often a controller is asked that is not reached, or does not do what it took: it may be starting.
const TRIES: u32 = 3;
/// Before it is asked again.
const AGAIN: Duration = Duration::from_secs(10);
/// Longest name of a user: IPMI has 16, Redfish sets no bound.
const USER_MAX: usize = 64;

/// The way to the controller of a machine.
fn controller(
    config: &Config,
    machine: &Machine,
    access: &BmcAccess,
) -> Result<Controller, Exception> {
    let opened = vault::open(config, &BmcAccess::purpose(&access.serial), &access.sealed);
    let unreadable = |why: String| {
        let text = format!(
            "The password for the management controller of {} cannot be opened: {why}; set it anew \
             with `gnt machine bmc set {}`",
            access.serial, access.serial
        );
        Exception::prereq(text, ErrorCode::WrongState)
    };
    let password = opened.map_err(|error| unreadable(error.to_string()))?;
    let password = String::from_utf8(password.expose().clone());
    let password = password.map_err(|_bytes| unreadable("it is no text".to_owned()))?;
    Ok(Controller {
        url: access.url.clone(),
        trust: access.trust,
        login: Login { user: access.user.clone(), password: Secret::new(password) },
        expected: Expected { serial: Some(machine.serial.to_string()), uuid: machine.uuid },
        times: Times::default(),
    })
}

/// The controller of the machine with this serial number.
pub(in crate::lu) fn known(
    config: &Config,
    serial: &str,
) -> Result<(Serial, Controller), Exception> {
    let machine = config.machine(serial)?;
    let access = config.bmcs.get(&machine.serial).ok_or_else(|| {
        let text = format!(
            "Machine {serial} has no known management controller; set it with `gnt machine bmc set \
             {serial}`; jobs that start machines do without one by `--manual-power`"
        );
        Exception::prereq(text, ErrorCode::WrongState)
    })?;
    Ok((machine.serial.clone(), controller(config, machine, access)?))
}

/// Asks a controller, again where that may help.
pub(in crate::lu) async fn asked<T, A: Future<Output = Result<T, BmcError>>>(
    context: &Context,
    question: impl Fn() -> A,
) -> Result<T, Failure> {
    let mut tries = 1;
    loop {
        match question().await {
            Ok(told) => return Ok(told),
            Err(error) if error.is_passing() && tries < TRIES => {
                let seconds = AGAIN.as_secs();
                context.say(format!("{error}; trying again in {seconds} s")).await;
                tokio::time::sleep(AGAIN).await;
                tries += 1;
            }
            Err(error) => {
                let text = error.to_string();
                return Err(Exception::exec(text).coded(Code::BmcFailed).into());
            }
        }
    }
}

impl LogicalUnit for MachineBmcSet {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let machine = config.machine(&self.serial)?;
        let is_good = |b: u8| b.is_ascii_graphic();
        if self.user.is_empty() || self.user.len() > USER_MAX || !self.user.bytes().all(is_good) {
            let text =
                format!("A user of a controller has 1 to {USER_MAX} visible ASCII characters");
            return Err(Exception::prereq(text, ErrorCode::WrongInput).into());
        }
        if self.unchecked && self.trust.is_none() && self.url.protocol == BmcProtocol::RedfishHttps
        {
            let text = "The controller is not asked, so that its certificate is not seen: give it by --certificate";
            return Err(Exception::prereq(text, ErrorCode::WrongInput).into());
        }
        controller(&config, machine, &access(self, &machine.serial, context))?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let machine = config.machine(&self.serial)?;
        let mut access = access(&self, &machine.serial, context);
        if !self.unchecked {
            context.reach_out().await?;
            let mut controller = controller(&config, machine, &access)?;
            if self.trust.is_none()
                && let Some(seen) = asked(context, || controller.certificate()).await?
            {
                access.trust = BmcTrust::Certificate(seen);
                controller.trust = access.trust;
                context.say(format!("from now on it must show the certificate {seen}")).await;
            }
            let power = asked(context, || controller.power_state()).await?;
            context.say(format!("{} answers: the machine is {power}", access.url)).await;
        }
        let set = move |config: &Config| {
            config.machine(access.serial.as_str())?;
            Ok((vec![ConfigChange::Bmc(access)], ()))
        };
        context.transact(set).await
    }
}

fn access(op: &MachineBmcSet, serial: &Serial, context: &Context) -> BmcAccess {
    BmcAccess {
        serial: serial.clone(),
        url: op.url.clone(),
        trust: op.trust.unwrap_or_default(),
        user: op.user.clone(),
        sealed: op.sealed.clone(),
        ctime: context.now(),
    }
}

impl LogicalUnit for MachineBmcRemove {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        context.config().machine(&self.serial)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let removed = move |config: &Config| {
            let serial = config.machine(&self.serial)?.serial.clone();
            let is_known = config.bmcs.contains_key(&serial);
            Ok((is_known.then_some(ConfigChange::BmcRemoved(serial)).into_iter().collect(), ()))
        };
        context.transact(removed).await
    }
}

impl LogicalUnit for MachinePower {
    type Plan = Controller;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<Controller, Failure> {
        Ok(known(&context.config(), &self.serial)?.1)
    }

    async fn exec(
        self,
        controller: Controller,
        context: &mut Context,
    ) -> Result<PowerState, Failure> {
        context.reach_out().await?;
        if let Some(from) = self.boot_once {
            asked(context, || controller.boot_once(from)).await?;
            context.say(format!("its next boot is from {}", from.as_str())).await;
        }
        let before = asked(context, || controller.power_state()).await?;
        let Some(action) = self.action else { return Ok(before) };
        // What is so already is no event: the ramdisk that runs there keeps its token.
        let (is_off, ends_in) = (before == PowerState::Off, action.ends_in());
        if before == ends_in && action != PowerAction::Cycle {
            switches_on(&self.serial, None, context).await?;
            return Ok(ends_in);
        }
        let job = (ends_in == PowerState::On).then(|| context.job());
        if !is_off {
            switches_on(&self.serial, job, context).await?;
            let off = if action == PowerAction::SoftOff { action } else { PowerAction::Off };
            asked(context, || controller.power(off)).await?;
        }
        next_cycle(&self.serial, job, context).await?;
        if ends_in == PowerState::On {
            asked(context, || controller.power(PowerAction::On)).await?;
            switches_on(&self.serial, None, context).await?;
        }
        Ok(ends_in)
    }
}

/// Notes that a job is to switch a machine on, or is done with that.
pub(in crate::lu) async fn switches_on(
    serial: &str,
    job: Option<JobId>,
    context: &mut Context,
) -> Result<(), Failure> {
    let (config, now) = (context.config(), context.now());
    let serial = config.machine(serial)?.serial.clone();
    if config.power_cycles.get(&serial).and_then(|cycle| cycle.switches_on) == job {
        return Ok(());
    }
    let sealed = new_token(&config, &serial)?;
    let noted = move |config: &Config| {
        let change = power_cycle::switches_on(config, &serial, &sealed, (job, now))?;
        Ok((change.into_iter().collect(), ()))
    };
    context.transact(noted).await
}

pub(in crate::lu) fn new_token(config: &Config, serial: &Serial) -> Result<Sealed, Exception> {
    power_cycle::new_token(config, serial).map_err(|error| {
        Exception::prereq(format!("no token for a ramdisk: {error}"), ErrorCode::WrongState)
    })
}

/// Begins the next power cycle of a machine that is off, which the job is to switch on, and tells the agents
/// of its rack.
async fn next_cycle(
    serial: &str,
    job: Option<JobId>,
    context: &mut Context,
) -> Result<(), Failure> {
    let (config, now) = (context.config(), context.now());
    let machine = config.machine(serial)?;
    let sealed = new_token(&config, &machine.serial)?;
    let (serial, rack) = (machine.serial.clone(), machine.rack);
    let next = move |config: &Config| {
        // A machine that another job did not come to switch on boots what that prepared.
        let before = config.power_cycles.get(&serial);
        let left = before.filter(|cycle| cycle.switches_on.is_some_and(|by| Some(by) != job));
        let enrolment = left.and_then(|cycle| cycle.enrolment);
        let mut cycle = power_cycle::next(config, &serial, sealed, (enrolment, now))?;
        cycle.switches_on = job;
        Ok((vec![ConfigChange::PowerCycle(cycle)], ()))
    };
    context.transact(next).await?;
    rack::push(context, &BTreeSet::from([rack])).await
}

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
        asked(context, || controller.health()).await
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
        let told = asked(context, || controller.inventory()).await;
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
        if inspection.changed == Some(now) {
            for change in &inspection.changes {
                context.say(format!("its hardware changed: {change}")).await;
            }
        }
        Ok(inspection)
    }
}
