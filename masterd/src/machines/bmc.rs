//! Opcodes that reach the management controller of a machine. They hold the machine's lock, so that a
//! controller has one question at a time, and one that is not reached holds up no other machine.

mod inspect;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use bmc::{BmcError, Controller, Expected, Login, Session, Times};
use jobs::locks::Level;
use model::bmc::{BmcAccess, BmcProtocol, BmcTrust, BmcUrl, BootOnce, PowerAction, PowerState};
use model::enrol::Fingerprint;
use model::error::ErrorCode;
use model::machine::Machine;
use model::network::Owner;
use model::opcode::{MachineBmcRemove, MachineBmcSet, MachinePower};
use model::vault::Sealed;
use model::{Code, Exception, JobId, Secret, Serial};
use tokio::time::Instant;

use super::machine::lock_of;
use super::rack;
use crate::config::vault;
use crate::config::{Config, ConfigChange};
use crate::machines::power_cycle;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// How often a controller is asked that is not reached, or does not do what it took: it may be starting.
const TRIES: u32 = 3;
/// Before it is asked again.
const AGAIN: Duration = Duration::from_secs(10);
/// How long it is asked that says that it is not ready: controllers speak of a few minutes.
const READY_WITHIN: Duration = Duration::from_secs(300);
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
        privilege: access.privilege,
        expected: Expected { serial: Some(machine.serial.to_string()), uuid: machine.uuid },
        times: Times::default(),
    })
}

/// The controller of the machine with this serial number.
pub(crate) fn known(config: &Config, serial: &str) -> Result<(Serial, Controller), Exception> {
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

/// The answer to a question, as it is asked once.
type Answer<'s, T> = Pin<Box<dyn Future<Output = Result<T, BmcError>> + Send + 's>>;

/// Asks a controller, again where that may help.
async fn ask<'c, T>(
    context: &Context,
    session: &mut Session<'c>,
    question: impl for<'s> Fn(&'s mut Session<'c>) -> Answer<'s, T>,
) -> Result<T, Failure> {
    let mut again = Again::default();
    loop {
        match question(session).await {
            Ok(answer) => return Ok(answer),
            Err(error) => again.wait_or_fail(&error, context).await?,
        }
    }
}

/// How often a question was asked in vain.
#[derive(Debug)]
struct Again {
    tries: u32,
    begun: Instant,
    /// The text on it that the job's log has.
    logged: String,
}

impl Default for Again {
    fn default() -> Self {
        Self { tries: 0, begun: Instant::now(), logged: String::new() }
    }
}

impl Again {
    async fn wait_or_fail(&mut self, error: &BmcError, context: &Context) -> Result<(), Failure> {
        self.tries += 1;
        let text = error.to_string();
        if !may_help(error, self.tries, self.begun.elapsed()) {
            return Err(Exception::exec(text).coded(Code::BmcFailed).into());
        }
        if text != self.logged {
            context.say(format!("{text}; trying again every {} s", AGAIN.as_secs())).await;
            self.logged = text;
        }
        tokio::time::sleep(AGAIN).await;
        Ok(())
    }
}

/// Whether it may help to ask again, after so many tries in this time.
fn may_help(error: &BmcError, tries: u32, elapsed: Duration) -> bool {
    let becomes_ready = error.is_not_ready() && elapsed < READY_WITHIN;
    error.is_passing() && (tries < TRIES || becomes_ready)
}

/// The questions of several opcodes.
pub(crate) async fn power_state(
    context: &Context,
    session: &mut Session<'_>,
) -> Result<PowerState, Failure> {
    ask(context, session, |session| Box::pin(session.power_state())).await
}

pub(crate) async fn switch_power(
    context: &Context,
    session: &mut Session<'_>,
    action: PowerAction,
) -> Result<(), Failure> {
    ask(context, session, |session| Box::pin(session.power(action))).await
}

pub(crate) async fn boot_once(
    context: &Context,
    session: &mut Session<'_>,
    from: BootOnce,
) -> Result<(), Failure> {
    ask(context, session, |session| Box::pin(session.boot_once(from))).await
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
        if self.privilege.is_some() && self.url.protocol != BmcProtocol::Ipmi {
            let text =
                "Only IPMI asks for the level of a user: give --privilege with ipmi:// alone";
            return Err(Exception::prereq(text, ErrorCode::WrongInput).into());
        }
        controller(&config, machine, &access(self, &machine.serial, context))?;
        is_unclaimed(&config, &machine.serial, &self.url)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let machine = config.machine(&self.serial)?;
        let mut access = access(&self, &machine.serial, context);
        let mut pinned = None;
        if !self.unchecked {
            context.reach_out().await?;
            let mut controller = controller(&config, machine, &access)?;
            if self.trust.is_none() {
                pinned = certificate(&controller, context).await?;
                access.trust = pinned.map(BmcTrust::Certificate).unwrap_or_default();
                controller.trust = access.trust;
            }
            let mut session = controller.session();
            let power = power_state(context, &mut session).await;
            session.close().await;
            let power = power?;
            context.say(format!("{} answers: the machine is {power}", access.url)).await;
        }
        let set = move |config: &Config| {
            config.machine(access.serial.as_str())?;
            is_unclaimed(config, &access.serial, &access.url)?;
            Ok((vec![ConfigChange::Bmc(access)], ()))
        };
        context.transact(set).await?;
        if let Some(seen) = pinned {
            context.say(format!("from now on it must show the certificate {seen}")).await;
        }
        Ok(())
    }
}

/// The certificate that a controller shows now.
async fn certificate(
    controller: &Controller,
    context: &Context,
) -> Result<Option<Fingerprint>, Failure> {
    let mut again = Again::default();
    loop {
        match controller.certificate().await {
            Ok(shown) => return Ok(shown),
            Err(error) => again.wait_or_fail(&error, context).await?,
        }
    }
}

/// # Errors
/// Another owner than the machine has claimed the address of the controller.
pub(crate) fn is_unclaimed(
    config: &Config,
    serial: &Serial,
    url: &BmcUrl,
) -> Result<(), Exception> {
    let Some(address) = url.address() else { return Ok(()) };
    let own = Owner::Machine(serial.clone());
    let is_own = config.claimed(address).is_some_and(|claim| claim.owner == own);
    if is_own { Ok(()) } else { config.unclaimed("url", address) }
}

fn access(op: &MachineBmcSet, serial: &Serial, context: &Context) -> BmcAccess {
    BmcAccess {
        serial: serial.clone(),
        url: op.url.clone(),
        trust: op.trust.unwrap_or_default(),
        user: op.user.clone(),
        privilege: op.privilege,
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
        let mut session = controller.session();
        let done = powered(&self, &mut session, context).await;
        session.close().await;
        done
    }
}

async fn powered(
    op: &MachinePower,
    session: &mut Session<'_>,
    context: &mut Context,
) -> Result<PowerState, Failure> {
    if let Some(from) = op.boot_once {
        boot_once(context, session, from).await?;
        context.say(format!("its next boot is from {}", from.as_str())).await;
    }
    let before = power_state(context, session).await?;
    let Some(action) = op.action else { return Ok(before) };
    // A state that is there already is no event: the ramdisk that runs there keeps its token.
    let ends_in = action.ends_in();
    if before == ends_in && action != PowerAction::Cycle {
        switches_on(&op.serial, None, context).await?;
        return Ok(ends_in);
    }
    let job = (ends_in == PowerState::On).then(|| context.job());
    if before == PowerState::On {
        switches_on(&op.serial, job, context).await?;
        let off = if action == PowerAction::SoftOff { action } else { PowerAction::Off };
        match (switch_power(context, session, off).await, action) {
            (Err(Failure::Exception(failure)), PowerAction::Cycle) => {
                // The order may have been carried out all the same.
                if session.power_state().await.is_ok_and(|power| power == PowerState::On) {
                    switches_on(&op.serial, None, context).await?;
                    return Err(failure.into());
                }
                let text = failure.message();
                context.say(format!("{text}; it is switched on all the same")).await;
            }
            (switched, _) => switched?,
        }
    }
    next_cycle(&op.serial, job, context).await?;
    if ends_in == PowerState::On {
        switch_power(context, session, PowerAction::On).await?;
        switches_on(&op.serial, None, context).await?;
    }
    Ok(ends_in)
}

/// Notes that a job is to switch a machine on, or is done with that.
pub(crate) async fn switches_on(
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

pub(crate) fn new_token(config: &Config, serial: &Serial) -> Result<Sealed, Exception> {
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
        let since = before.and_then(|before| before.left_off).unwrap_or(now);
        cycle.left_off = (left.is_some() && job.is_some()).then_some(since);
        Ok((vec![ConfigChange::PowerCycle(cycle)], ()))
    };
    context.transact(next).await?;
    rack::push(context, &BTreeSet::from([rack])).await
}
