//! Waits until what was begun on a machine is done. It takes no lock: something else may be wanted meanwhile.

use jobs::locks::{Level, Mode};
use model::error::ErrorCode;
use model::machine::Machine;
use model::machine::life::{Life, Phase};
use model::opcode::MachineAwait;
use model::{Code, Exception, JobId, Serial};

use super::ports;
use crate::config::Config;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// How it stands with what a job began.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The machine is at work.
    Runs,
    /// It came to what was wanted.
    Done,
    /// It did not, or something else is wanted by now.
    Failed(String),
}

impl LogicalUnit for MachineAwait {
    type Plan = Serial;

    /// A job that needs the whole cluster does not wait for a machine.
    fn big_lock(&self) -> Option<Mode> {
        None
    }

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<Serial, Failure> {
        Ok(context.config().machine(&self.serial)?.serial.clone())
    }

    async fn exec(self, serial: Serial, context: &mut Context) -> Result<Machine, Failure> {
        let carried = context.config().machine(serial.as_str())?.life.carried;
        // The work of an earlier opcode of this job, or else whatever is carried out.
        let job = if context.op() > 0 { Some(context.job()) } else { carried.map(|c| c.job) };
        let mut committed = context.subscribe();
        let mut told = None;
        loop {
            let config = committed.borrow_and_update().config.clone();
            let machine = config.machine(serial.as_str())?;
            let seen = stage(&config, &serial).filter(|_| job.is_some());
            if seen != told {
                if let Some((_, stage)) = seen {
                    context.say(format!("{serial}: {stage}")).await;
                }
                told = seen;
            }
            match job.map_or(Outcome::Done, |job| outcome(&machine.life, job)) {
                Outcome::Done => {
                    let machine = machine.as_ref().clone();
                    ports::follow(context, &serial).await?;
                    return Ok(machine);
                }
                Outcome::Failed(why) => {
                    ports::follow_anyhow(context, &serial).await;
                    let text = format!("Machine {serial} {why}");
                    return Err(Exception::exec(text).coded(Code::MachineFailed).into());
                }
                Outcome::Runs => {}
            }
            if committed.changed().await.is_err() {
                let text = "The master ends; the machine goes on, and its state tells how";
                return Err(Exception::prereq(text, ErrorCode::TempInsufficientResources).into());
            }
        }
    }
}

/// How far it came in this power cycle.
fn stage(config: &Config, serial: &Serial) -> Option<(u64, &'static str)> {
    let cycle = config.power_cycles.get(serial)?.number;
    let stages = &config.boots.get(serial)?.boot.stages;
    let last = stages.iter().rfind(|seen| seen.cycle == cycle)?;
    Some((cycle, last.stage.as_str()))
}

fn outcome(life: &Life, job: JobId) -> Outcome {
    let Some(carried) = life.carried.filter(|carried| carried.job == job) else {
        let other = life.carried.map_or_else(
            || "something else".to_owned(),
            |other| format!("job {} ({})", other.job, other.intent.as_str()),
        );
        return Outcome::Failed(format!("was taken over by {other}: it is {}", life.state));
    };
    match life.state.phase() {
        Phase::Runs { .. } => Outcome::Runs,
        Phase::Settled if carried.intent.ends_in().contains(&life.state) => Outcome::Done,
        Phase::Settled | Phase::Failed => Outcome::Failed(match &life.reason {
            Some(reason) => format!("is {}: {reason}", life.state),
            None => format!("is {}", life.state),
        }),
    }
}
