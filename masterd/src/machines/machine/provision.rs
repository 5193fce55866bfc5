//! From what is wanted of a machine to its restart. `OP_MACHINE_AWAIT` waits for the rest.
//!
//! The machine is off before its next power cycle begins, and the agents of its rack know the new number
//! before it is switched on. So a message with that number is of the new boot. Until then the machine's
//! words do not count.

use bmc::{Controller, Session};
use jobs::locks::Level;
use model::bmc::{BootOnce, PowerAction, PowerState};
use model::error::ErrorCode;
use model::image::BootTarget;
use model::machine::Machine;
use model::machine::life::{Event, Intent, Observed};
use model::node::NodeRole;
use model::opcode::{MachineProvision, MachineReapply, MachineSetParams};
use model::power_cycle::{CycleEnrolment, PowerCycle};
use model::vault::Sealed;
use model::{Code, Exception, JobId, Serial, Timestamp, Uuid};

use super::ports;
use super::state::{begun, moved};
use super::{lock_of, set};
use crate::config::queue::Decision;
use crate::config::{Config, ConfigChange};
use crate::machines::bmc::{boot_once, known, new_token, power_state, switch_power, switches_on};
use crate::machines::boot_template::enrols;
use crate::machines::image::distribute;
use crate::machines::network_template::units::reapply;
use crate::machines::power_cycle;
use crate::machines::rack::document::image_of;
use crate::machines::rack::push_until_held;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// How a machine restarts.
pub(crate) struct Restart {
    serial: Serial,
    rack: u32,
    target: BootTarget,
    /// Its controller, unless somebody switches the power by hand.
    bmc: Option<Controller>,
}

/// How far a restart came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// The power is as it was.
    Nothing,
    /// The machine is off, or may be.
    Off,
    /// The machine's own words count from here on. If the job fails to switch it on, the watcher does.
    Awaited,
}

impl LogicalUnit for MachineProvision {
    /// None where nothing restarts.
    type Plan = Option<Restart>;

    /// Between two steps everything can be given up; within one the machine's power is not known.
    const BY_STEPS: bool = true;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock_of(&self.serial, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<Option<Restart>, Failure> {
        let (config, now) = (context.config(), context.now());
        let (_, machine) = begun(&config, &self.serial, self.target, context.job(), now)?;
        if !restarts(self.target) {
            return Ok(None);
        }
        let target = boots(self, &config)?;
        let mut after = config.as_ref().clone();
        let _changes = deployed(self, &mut after, (now, 0))?;
        as_node(self, &machine.serial, &after)?;
        ports::may_begin(&after, &machine.serial, self.target)?;
        let is_served = config.agents_of(machine.rack).any(|node| node.role != NodeRole::Offline);
        if !is_served {
            let rack = machine.rack;
            let text = format!(
                "No agent serves rack {rack}, so that nothing boots there; `gnt node modify --rack {rack} NODE`"
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        let bmc = (!self.manual_power).then(|| known(&config, &self.serial)).transpose();
        let bmc = bmc?;
        let (serial, rack) = (machine.serial.clone(), machine.rack);
        Ok(Some(Restart { serial, rack, target, bmc: bmc.map(|(_, controller)| controller) }))
    }

    async fn exec(self, plan: Option<Restart>, context: &mut Context) -> Result<Machine, Failure> {
        let (job, now, target) = (context.job(), context.now(), self.target);
        if let Some(restart) = &plan {
            // The agents have the files before their document names them.
            let config = context.config();
            let agents: Vec<_> = config.agents_of(restart.rack).cloned().collect();
            let image = image_of(&config, &restart.target);
            let blobs: Vec<_> = image.iter().flat_map(|image| image.files.blobs()).collect();
            distribute(context, &agents, &blobs, None).await?;
            may_go_on(context)?;
        }
        let serial = self.serial.clone();
        let machine =
            context.transact(move |config| begun(config, &serial, target, job, now)).await?;
        let Some(restart) = plan else {
            if self.target == Intent::Retire {
                let serial = &machine.serial;
                let text = format!(
                    "{serial} goes out of service, which switches nothing: its system runs until `gnt machine power \
                     off {serial}`, or somebody, switches it off"
                );
                context.say(text).await;
            }
            ports::follow(context, &machine.serial).await?;
            return Ok(machine);
        };
        let serial = self.serial.clone();
        let mut session = restart.bmc.as_ref().map(Controller::session);
        let mut reached = Reached::Nothing;
        let restarted = restarted(self, &restart, &mut session, &mut reached, context).await;
        if let Some(session) = session {
            session.close().await;
        }
        if let Err(failure) = &restarted
            && reached != Reached::Awaited
        {
            let mut why = match failure {
                Failure::Exception(exception) => exception.message().to_owned(),
                Failure::Canceled => format!("job {job} was canceled"),
                Failure::Withdrawn => return restarted,
            };
            if reached == Reached::Off {
                why.push_str("; the machine is off, or may be");
            }
            let now = context.now();
            context.transact(move |config| given_up(config, &serial, job, (&why, now))).await?;
            ports::follow_anyhow(context, &restart.serial).await;
        }
        restarted
    }
}

/// Whether a machine is switched off and on for this.
const fn restarts(target: Intent) -> bool {
    !matches!(target, Intent::Retire | Intent::Abort)
}

/// Whether a machine boots a ramdisk for this.
const fn takes_ramdisk(target: Intent) -> bool {
    matches!(target, Intent::Inspect | Intent::Clean | Intent::Rescue)
}

fn boots(op: &MachineProvision, config: &Config) -> Result<BootTarget, Exception> {
    let machine = config.machine(&op.serial)?;
    let wrong = |text: String| Exception::prereq(text, ErrorCode::WrongInput);
    let target = match op.target {
        Intent::Deploy => op.image.as_ref().unwrap_or(&machine.boot),
        Intent::Inspect | Intent::Clean | Intent::Rescue => {
            let ramdisk = op.image.as_ref().or(config.cluster.ramdisk_image.as_ref());
            ramdisk.ok_or_else(|| {
                let text = "Which ramdisk is meant? Name its image, or set one for all with `gnt cluster \
                            modify --ramdisk-image NAME`";
                wrong(text.to_owned())
            })?
        }
        Intent::Reboot | Intent::Unrescue | Intent::Retire | Intent::Abort => {
            if op.image.is_some() {
                let text =
                    format!("{} takes no image: the machine boots its own", op.target.as_str());
                return Err(wrong(text));
            }
            &machine.boot
        }
    };
    if target.is_local() {
        let text = format!(
            "Machine {} boots its disk, and nothing tells when its system runs; choose an image with `gnt \
             machine set-boot`, or switch its power with `gnt machine power`",
            machine.serial
        );
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    if image_of(config, target).is_none() {
        let text = format!("Image '{target}' is not known; `gnt image list` names all");
        return Err(Exception::prereq(text, ErrorCode::UnknownEntity));
    }
    Ok(target.clone())
}

/// The changes of a deployment beside the state: role, boot target, and the newest version of its
/// network template. It is applied to `after`.
fn deployed(
    op: &MachineProvision,
    after: &mut Config,
    moment: (Timestamp, u128),
) -> Result<Vec<ConfigChange>, Exception> {
    if op.target != Intent::Deploy {
        return match &op.role {
            None => Ok(Vec::new()),
            Some(_) => {
                let text = format!("{} gives no machine another role", op.target.as_str());
                Err(Exception::prereq(text, ErrorCode::WrongInput))
            }
        };
    }
    if let Some(role) = &op.role {
        has_template(role, after)?;
    }
    let params = MachineSetParams {
        serial: op.serial.clone(),
        boot: op.image.clone(),
        role: op.role.clone(),
        ..MachineSetParams::default()
    };
    let (mut changes, machine) = set(&params, after, moment)?;
    after.apply(changes.clone());
    if after.newest_template(&machine.role).is_some() {
        let op = MachineReapply { serial: op.serial.clone() };
        let (newest, _) = reapply(&op, after, moment.0, moment.1)?;
        after.apply(newest.clone());
        changes.extend(newest);
    }
    Ok(changes)
}

/// Whether what is wanted of a machine fits that it is a node, or is to become one.
fn as_node(op: &MachineProvision, serial: &Serial, after: &Config) -> Result<(), Exception> {
    let refuse = |text: String, code| Err(Exception::prereq(text, code));
    if let Some(node) = after.node_on(serial) {
        let name = &node.name;
        if after.is_master(node) {
            let text = format!(
                "Machine {serial} is {name}, the master; `gnt cluster master-failover` moves the role"
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState).coded(Code::NodeIsMaster));
        }
        if op.target == Intent::Clean || (op.target == Intent::Deploy && !op.enrol) {
            let text = format!(
                "Machine {serial} is node {name}, which would be lost; `gnt machine deploy --node {serial}` adds \
                 it again, `gnt node remove {name}` takes it out of the cluster"
            );
            return refuse(text, ErrorCode::WrongState);
        }
    }
    if let (true, Some(tenant)) = (op.enrol, after.tenant_of_machine(serial)) {
        let text = format!("machine {serial} is one of tenant {}, and no node", tenant.name);
        return refuse(text, ErrorCode::WrongState);
    }
    if op.target != Intent::Deploy {
        return match op.enrol {
            true => refuse(format!("{} makes no node", op.target.as_str()), ErrorCode::WrongInput),
            false => Ok(()),
        };
    }
    match (op.enrol, enrols(after, serial)) {
        (true, false) => {
            let text = format!(
                "No template of the role of machine {serial} tells it the token by which it becomes a node: \
                 its newest one of Ignition or cloud-init must have {{{{ EnrolToken }}}}"
            );
            refuse(text, ErrorCode::WrongState)
        }
        (false, true) => {
            let text = format!(
                "A template of the role of machine {serial} has {{{{ EnrolToken }}}}, which only a machine \
                 gets that is to become a node; give --node"
            );
            refuse(text, ErrorCode::WrongState)
        }
        (true, true) | (false, false) => Ok(()),
    }
}

/// Refuses a role of which nothing is known: as a rule it is a slip.
fn has_template(role: &str, config: &Config) -> Result<(), Exception> {
    let boots = config.boot_templates.values().any(|template| template.role.as_str() == role);
    if boots || config.newest_template(role).is_some() {
        return Ok(());
    }
    let text = format!(
        "Role '{role}' has no template, neither for booting nor of a network; see `gnt ignition-template \
         list`, `gnt cloud-init-template list` and `gnt network-template list`"
    );
    Err(Exception::prereq(text, ErrorCode::UnknownEntity))
}

fn token(context: &Context, serial: &str) -> Result<Sealed, Exception> {
    let config = context.config();
    let machine = config.machine(serial)?;
    new_token(&config, &machine.serial)
}

fn may_go_on(context: &Context) -> Result<(), Failure> {
    if context.cancel().is_cancelled() { Err(Failure::Canceled) } else { Ok(()) }
}

/// Switches the machine off, has its rack ready, and switches it on.
async fn restarted(
    op: MachineProvision,
    restart: &Restart,
    session: &mut Option<Session<'_>>,
    reached: &mut Reached,
    context: &mut Context,
) -> Result<Machine, Failure> {
    let Restart { serial, rack, target, .. } = restart;
    if let Some(session) = session {
        context.reach_out().await?;
        let before = power_state(context, session).await?;
        if before == PowerState::On && op.target == Intent::Reboot {
            // It is in service, and is to run again whatever fails behind the switch.
            switches_on(serial.as_str(), Some(context.job()), context).await?;
        }
        *reached = Reached::Off;
        switch_power(context, session, PowerAction::Off).await?;
        context.say(format!("{serial} is off")).await;
    }
    may_go_on(context)?;
    // Its system runs no more, and what it boots needs the network that it boots in.
    ports::follow(context, serial).await?;
    may_go_on(context)?;
    let (job, now, seed) = (context.job(), context.now(), Uuid::new_v4().as_u128());
    let sealed = token(context, serial.as_str())?;
    let (name, boots) = (serial.clone(), target.clone());
    context.transact(move |config| prepared(&op, boots, config, (job, sealed, now, seed))).await?;
    push_until_held(context, *rack).await?;
    may_go_on(context)?;
    if let Some(session) = session {
        boot_once(context, session, BootOnce::Network).await?;
    }
    may_go_on(context)?;
    let by_job = session.as_ref().map(|_| job);
    let machine =
        context.transact(move |config| awaited(config, &name, (job, by_job, now))).await?;
    *reached = Reached::Awaited;
    match session {
        Some(session) => {
            switch_power(context, session, PowerAction::On).await?;
            switches_on(serial.as_str(), None, context).await?;
            context.say(format!("{serial} starts, and boots {target} from the network")).await;
        }
        None => {
            let text = format!(
                "Switch the power of {serial} off and on now, and have it boot from the network: it is to boot {target}"
            );
            context.say(text).await;
        }
    }
    Ok(machine)
}

/// The machine is off: what it boots next, and the power cycle in which it does.
fn prepared(
    op: &MachineProvision,
    target: BootTarget,
    config: &Config,
    (job, sealed, now, seed): (JobId, Sealed, Timestamp, u128),
) -> Decision<()> {
    let serial = config.machine(&op.serial)?.serial.clone();
    still_carried(config, &serial, job)?;
    let mut after = config.clone();
    let mut changes = deployed(op, &mut after, (now, seed))?;
    let mut machine = after.machine(&op.serial)?.as_ref().clone();
    if op.target == Intent::Deploy {
        machine.deployed_by = Some(job);
        changes.push(ConfigChange::Machine(machine));
    } else if takes_ramdisk(op.target) {
        machine.life.boot = Some(target);
        changes.push(ConfigChange::Machine(machine));
    }
    let enrolment = op.enrol.then(CycleEnrolment::default);
    let mut cycle = power_cycle::next(config, &serial, sealed, (enrolment, now))?;
    let before = config.power_cycles.get(&serial);
    cycle.switches_on = before.and_then(|before| before.switches_on).filter(|by| *by == job);
    changes.push(ConfigChange::PowerCycle(cycle));
    Ok((changes, ()))
}

/// All is ready: from now on the machine's words count. If the master dies before the machine is on, the next
/// one switches it on.
fn awaited(
    config: &Config,
    serial: &Serial,
    (job, switches_on, now): (JobId, Option<JobId>, Timestamp),
) -> Decision<Machine> {
    still_carried(config, serial, job)?;
    let awaited = Event::Observed(Observed::Awaited);
    let (mut changes, machine) = moved(config, serial.as_str(), awaited, None, now)?;
    if let (Some(_), Some(cycle)) = (switches_on, config.power_cycles.get(serial)) {
        changes
            .push(ConfigChange::PowerCycle(PowerCycle { switches_on, ..cycle.as_ref().clone() }));
    }
    Ok((changes, machine))
}

fn still_carried(config: &Config, serial: &Serial, job: JobId) -> Result<(), Exception> {
    let machine = config.machine(serial.as_str())?;
    if machine.life.is_carried_by(job) {
        return Ok(());
    }
    let text = format!("{serial} was taken over meanwhile: it is {}", machine.life.state);
    Err(Exception::prereq(text, ErrorCode::WrongState))
}

/// The state of a machine of which a job could not carry out what is wanted.
fn given_up(
    config: &Config,
    serial: &str,
    job: JobId,
    (why, now): (&str, Timestamp),
) -> Decision<()> {
    if !config.machine(serial)?.life.is_carried_by(job) {
        return Ok((Vec::new(), ()));
    }
    let (changes, _) = moved(config, serial, Event::Observed(Observed::Failed), Some(why), now)?;
    Ok((changes, ()))
}

#[cfg(test)]
mod tests {
    use super::super::register;
    use super::*;
    use crate::testing::{NOW, config, spec};

    fn prepare(config: &mut Config, target: Intent, job: JobId) -> Option<JobId> {
        let (changes, _) = begun(config, "w1", target, job, NOW).unwrap();
        config.apply(changes);
        let op = MachineProvision {
            serial: "w1".to_owned(),
            target,
            image: None,
            role: None,
            manual_power: false,
            enrol: false,
        };
        let sealed = serde_json::from_value("1:AQID".into()).unwrap();
        let (changes, ()) =
            prepared(&op, BootTarget::Local, config, (job, sealed, NOW, 0)).unwrap();
        config.apply(changes);
        for seen in [Observed::Awaited, Observed::SystemCalled] {
            let (changes, _) = moved(config, "w1", Event::Observed(seen), None, NOW).unwrap();
            config.apply(changes);
        }
        config.machine("w1").unwrap().deployed_by
    }

    #[test]
    fn a_deployment_makes_another_instance_and_a_restart_does_not() {
        let mut config = config(&[]);
        let machines = register(&config, &[spec("w1", 0, "worker")], NOW).unwrap();
        config.apply(machines.into_iter().map(ConfigChange::Machine));
        for (target, job, deployed_by) in [
            (Intent::Deploy, 7, 7),
            (Intent::Reboot, 8, 7),
            (Intent::Deploy, 9, 9),
            (Intent::Rescue, 10, 9),
        ] {
            assert_eq!(prepare(&mut config, target, JobId(job)), Some(JobId(deployed_by)));
        }
    }
}
