//! The state of a machine in its life. Every change of that by an opcode goes through [`moved`]; what
//! machines say is folded by the exchange with the agents.
//!
//! The opcodes here take no lock of the machine, as each is one transaction. So a monitor that finds a
//! machine dead does not wait for the job that is at work on it.

use std::sync::Arc;

use jobs::locks::Level;
use model::error::ErrorCode;
use model::machine::Machine;
use model::machine::life::{Carried, Event, Intent, Observed, Status};
use model::opcode::{MachineExpire, MachineSetState, Removable};
use model::{Exception, JobId, Serial, Timestamp};

use crate::config::queue::Decision;
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// Characters of a reason that somebody gives: a few lines.
const WHY_CHARS_MAX: usize = 1_000;

/// The machine after an event, and the change, unless it stays as it is.
pub(crate) fn moved(
    config: &Config,
    serial: &str,
    event: Event,
    why: Option<&str>,
    now: Timestamp,
) -> Decision<Machine> {
    let before = config.machine(serial)?;
    let refused = |refusal: model::machine::life::Refusal| {
        let text = format!("Machine {}: {refusal}", before.serial);
        Exception::prereq(text, ErrorCode::WrongState)
    };
    let life = before.life.after(event, why, now).map_err(refused)?;
    if life == before.life {
        return Ok((Vec::new(), before.as_ref().clone()));
    }
    if matches!(life.state.status(), Status::Retiring | Status::Retired) {
        without_node(&before.serial, config)?;
    }
    if life.state.status() == Status::Retired {
        // sabakan calls it a bad request.
        without_disk_keys(&before.serial, config, ErrorCode::WrongInput)?;
    }
    let machine = Machine { life, ..before.as_ref().clone() };
    Ok((vec![ConfigChange::Machine(machine.clone())], machine))
}

/// As [`moved`] by what is wanted, for the job that carries it out.
pub(crate) fn begun(
    config: &Config,
    serial: &str,
    intent: Intent,
    job: JobId,
    now: Timestamp,
) -> Decision<Machine> {
    let why = (intent == Intent::Abort).then(|| format!("job {job} aborted it"));
    let (_, mut machine) = moved(config, serial, Event::Intent(intent), why.as_deref(), now)?;
    machine.life.carried = Some(Carried { intent, job, awaits: false });
    Ok((vec![ConfigChange::Machine(machine.clone())], machine))
}

/// Refuses what would leave keys of disks behind, or lose them unasked.
pub(super) fn without_disk_keys(
    serial: &Serial,
    config: &Config,
    code: ErrorCode,
) -> Result<(), Exception> {
    match config.disk_keys.by.serial.of(serial.clone()).count() {
        0 => Ok(()),
        number => {
            let text = format!(
                "Machine {serial} has the keys of {number} disk(s); remove them first: `gnt machine \
                 disk-key remove {serial}`"
            );
            Err(Exception::prereq(text, code))
        }
    }
}

/// Refuses to take a machine away on which a node runs.
pub(super) fn without_node(serial: &Serial, config: &Config) -> Result<(), Exception> {
    let Some(node) = config.node_on(serial) else { return Ok(()) };
    let name = &node.name;
    let text = format!("Machine {serial} is node {name}; first `gnt node remove {name}`");
    Err(Exception::prereq(text, ErrorCode::WrongState))
}

/// Refuses to remove a machine that works for somebody.
pub(super) fn removable(
    serial: &str,
    only: Removable,
    config: &Config,
) -> Result<Arc<Machine>, Exception> {
    let machine = config.machine(serial)?;
    without_node(&machine.serial, config)?;
    if let Some(tenant) = config.tenant_of_machine(&machine.serial) {
        let text = format!(
            "Machine {serial} is one of tenant {0}; take it first: `gnt tenant take {0} {serial}`",
            tenant.name
        );
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    let status = machine.life.state.status();
    let refuse = |text: &str| {
        let text = format!("Machine {serial} is {status}; {text}");
        Err(Exception::prereq(text, ErrorCode::WrongState))
    };
    match only {
        Removable::Retired if status != Status::Retired => refuse("it must be retired"),
        Removable::OutOfService if status.is_in_service() => {
            refuse("retire it first, or remove it all the same: `gnt machine remove --in-service`")
        }
        Removable::Retired | Removable::OutOfService | Removable::Any => Ok(Arc::clone(machine)),
    }
}

impl LogicalUnit for MachineSetState {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        set(self, &context.config(), context.now())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Machine, Failure> {
        let now = context.now();
        context.transact(move |config| set(&self, config, now)).await
    }
}

fn set(op: &MachineSetState, config: &Config, now: Timestamp) -> Decision<Machine> {
    let why = op.why.as_deref();
    if why.is_some_and(|why| why.chars().count() > WHY_CHARS_MAX) {
        let text = format!("the reason has more than {WHY_CHARS_MAX} characters");
        return Err(Exception::prereq(text, ErrorCode::WrongInput));
    }
    moved(config, &op.serial, Event::Set(op.state), why, now)
}

impl LogicalUnit for MachineExpire {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        context.config().machine(&self.serial)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Machine, Failure> {
        let now = context.now();
        let preparing = context.config().machine(&self.serial)?.life.preparing();
        let lost = preparing.filter(|job| context.has_ended(*job));
        context.transact(move |config| expired(&self, config, (lost, now))).await
    }
}

/// Ends the state of a machine that is late, or which the job that prepared it has left.
fn expired(
    op: &MachineExpire,
    config: &Config,
    (lost, now): (Option<JobId>, Timestamp),
) -> Decision<Machine> {
    let machine = config.machine(&op.serial)?;
    let is_same = (machine.life.state, machine.state_since()) == (op.state, op.since);
    if let Some(job) = lost.filter(|job| is_same && machine.life.preparing() == Some(*job)) {
        let why = format!("its job {job} ended before the machine was prepared");
        return moved(config, &op.serial, Event::Observed(Observed::Failed), Some(&why), now);
    }
    if let Some(last) = op.last_sign {
        return match is_same {
            true => heard(op, config, (last, now)),
            false => Ok((Vec::new(), machine.as_ref().clone())),
        };
    }
    // It may have moved, or somebody works on it, since that was seen.
    let overdue = machine.overdue(now).filter(|o| (o.state, o.since) == (op.state, op.since));
    let Some(overdue) = overdue else {
        return Ok((Vec::new(), machine.as_ref().clone()));
    };
    let why = format!("it was {} for longer than {} s", overdue.state, overdue.deadline);
    moved(config, &op.serial, Event::Observed(Observed::DeadlinePassed), Some(&why), now)
}

/// Moves a machine by its last sign of life: away where it fell silent, and back where it was that.
fn heard(
    op: &MachineExpire,
    config: &Config,
    (last, now): (Timestamp, Timestamp),
) -> Decision<Machine> {
    let machine = config.machine(&op.serial)?;
    if machine.life.silent_since.is_some() {
        return moved(config, &op.serial, Event::Observed(Observed::SystemCalled), None, now);
    }
    // Somebody switched its power, or works on it, since it was found silent.
    let cycle = config.power_cycles.get(&machine.serial);
    if machine.maintenance.is_some() || cycle.is_some_and(|cycle| cycle.began > last) {
        return Ok((Vec::new(), machine.as_ref().clone()));
    }
    let why = format!("no sign of life since {last}");
    let silent = Event::Observed(Observed::Silent);
    let (changes, mut machine) = moved(config, &op.serial, silent, Some(&why), now)?;
    if changes.is_empty() {
        return Ok((changes, machine));
    }
    machine.life.silent_since = Some(last);
    Ok((vec![ConfigChange::Machine(machine.clone())], machine))
}

#[cfg(test)]
mod tests {
    use model::machine::life::State;
    use model::opcode::MachineDiskKeyAdd;

    use super::super::register;
    use super::*;
    use crate::testing::{NOW, config, spec};

    fn present() -> Config {
        let mut present = config(&[]);
        let machines = register(&present, &[spec("w1", 0, "worker")], NOW).unwrap();
        present.apply(machines.into_iter().map(ConfigChange::Machine));
        present
    }

    /// Applies a decision; how many documents it wrote, and the state then.
    fn apply(present: &mut Config, decision: Decision<Machine>) -> Result<(usize, State), String> {
        let (changes, machine) = decision.map_err(|error| error.to_string())?;
        let documents = present.apply(changes).documents.len();
        assert_eq!(**present.machine("w1").unwrap(), machine);
        Ok((documents, machine.life.state))
    }

    fn state(present: &mut Config, state: Status) -> Result<(usize, State), String> {
        let op = MachineSetState { serial: "w1".to_owned(), state, why: None };
        let decision = set(&op, present, NOW);
        apply(present, decision)
    }

    fn with_key(present: &mut Config) {
        use model::disk_key::{DiskKey, DiskKeyId};
        let id: DiskKeyId = "w1/sda".parse().unwrap();
        let sealed = serde_json::from_value("1:AQID".into()).unwrap();
        let DiskKeyId { serial, disk } = id;
        present.apply([ConfigChange::DiskKey(DiskKey { serial, disk, sealed, ctime: NOW })]);
    }

    #[test]
    fn nobody_is_retired_with_keys_and_gets_keys_then() {
        let mut present = present();
        assert_eq!(state(&mut present, Status::Uninitialized), Ok((0, State::Enrolled)));
        assert_eq!(state(&mut present, Status::Healthy), Ok((1, State::Healthy)));
        assert!(state(&mut present, Status::Uninitialized).unwrap_err().contains("cannot become"));
        with_key(&mut present);
        assert_eq!(state(&mut present, Status::Retiring), Ok((1, State::Retiring)));
        assert!(state(&mut present, Status::Retired).unwrap_err().contains("keys of 1 disk"));
        let key = MachineDiskKeyAdd {
            serial: "w1".to_owned(),
            disk: "sdb".parse().unwrap(),
            sealed: serde_json::from_value("1:AQID".into()).unwrap(),
        };
        let refused = crate::machines::disk_key::added(&key, &present, NOW).unwrap_err();
        assert!(refused.to_string().contains("is retiring"), "{refused}");
        present.apply([ConfigChange::DiskKeyRemoved("w1/sda".parse().unwrap())]);
        assert_eq!(state(&mut present, Status::Retired), Ok((1, State::Retired)));
        let refused = crate::machines::disk_key::added(&key, &present, NOW).unwrap_err();
        assert!(refused.to_string().contains("is retired"), "{refused}");
    }

    #[test]
    fn who_may_be_removed() {
        let mut present = present();
        let may = |present: &Config, only| removable("w1", only, present).is_ok();
        use Removable::{Any, OutOfService, Retired};
        let which = |present: &Config| [OutOfService, Retired, Any].map(|only| may(present, only));
        assert_eq!(which(&present), [true, false, true]);
        for (status, removed) in [
            (Status::Healthy, [false, false, true]),
            (Status::Unreachable, [false, false, true]),
            (Status::Retiring, [true, false, true]),
            (Status::Retired, [true, true, true]),
        ] {
            let _ = state(&mut present, status).unwrap();
            assert_eq!(which(&present), removed, "{status}");
        }
    }

    #[test]
    fn only_what_is_still_overdue_expires() {
        let mut present = present();
        let begun = moved(&present, "w1", Event::Intent(Intent::Deploy), None, NOW);
        assert_eq!(apply(&mut present, begun), Ok((1, State::Deploying)));
        let op = MachineExpire {
            serial: "w1".to_owned(),
            state: State::Deploying,
            since: NOW,
            last_sign: None,
        };
        let late = NOW.plus_seconds(State::Deploying.deadline().unwrap());
        let early = expired(&op, &present, (None, late.plus_seconds(-1)));
        assert_eq!(apply(&mut present, early), Ok((0, State::Deploying)));
        let other = MachineExpire { since: NOW.plus_seconds(1), ..op.clone() };
        let other = expired(&other, &present, (None, late));
        assert_eq!(apply(&mut present, other), Ok((0, State::Deploying)));
        let now = expired(&op, &present, (None, late));
        assert_eq!(apply(&mut present, now), Ok((1, State::DeployFailed)));
        let life = &present.machine("w1").unwrap().life;
        assert_eq!(life.reason.as_deref(), Some("it was deploying for longer than 1800 s"));
        assert_eq!(life.since, Some(late));
    }

    #[test]
    fn who_falls_silent_is_unreachable_until_its_next_sign() {
        let mut present = present();
        let (last, late) = (NOW.plus_seconds(-300), NOW.plus_seconds(9));
        let told = |present: &mut Config, state, since| {
            let (serial, last_sign) = ("w1".to_owned(), Some(last));
            let op = MachineExpire { serial, state, since, last_sign };
            let decision = expired(&op, present, (None, late));
            apply(present, decision)
        };
        assert_eq!(told(&mut present, State::Enrolled, NOW), Ok((0, State::Enrolled)));
        assert_eq!(state(&mut present, Status::Healthy), Ok((1, State::Healthy)));
        assert_eq!(told(&mut present, State::Unhealthy, NOW), Ok((0, State::Healthy)), "it moved");
        assert_eq!(told(&mut present, State::Healthy, NOW), Ok((1, State::Unreachable)));
        let life = present.machine("w1").unwrap().life.clone();
        assert_eq!(life.reason, Some(format!("no sign of life since {last}")));
        assert_eq!(life.silent_since, Some(last));
        assert_eq!(told(&mut present, State::Unreachable, late), Ok((1, State::Healthy)));
        assert_eq!(present.machine("w1").unwrap().life.silent_since, None);
    }
}
