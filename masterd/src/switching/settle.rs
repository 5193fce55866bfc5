//! Brings ports to what they are to have.
//!
//! First it is committed what the ports are becoming, then their switches are told, and what came of that
//! is committed. So whoever comes after a master that died in between knows which ports to look
//! at. A change says what the port had by our records; where a switch has something else, somebody changed
//! it, and the policy says whether that is overwritten.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use model::switch::policy::REPAIRS_MAX;
use model::switch::{
    Actual, Applied, OnDeadSwitch, OnDrift, PortChange, PortEvent, PortKey, PortOutcome, PortState,
    SwitchPort,
};
use model::{Code, Exception, Timestamp, Word};
use tokio::time::sleep;

use super::desired::{Desired, Target};
use super::reach::{NoAnswer, Reached};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure};

/// How often ports are told anew that were found otherwise, or are to have something else by now.
const ROUNDS_MAX: u32 = 4;
/// Before a switch that is not reached is asked again, where the job waits for it.
const HOLD: Duration = Duration::from_secs(10);
/// How often it is asked: as long as a machine may take for its boot.
const HOLDS_MAX: u32 = 180;
/// Seconds after which a change by somebody else is not a fight over the port any more.
const PEACE: i64 = 3_600;

/// The further wishes of whoever asks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct How {
    /// Ports that have what they are to have by our records are looked at, too.
    pub(crate) look: bool,
    /// Ports in error begin anew.
    pub(crate) reset: bool,
    /// A switch that is not reached is waited for, if the policy says so.
    pub(crate) may_hold: bool,
}

/// A port on its way.
#[derive(Debug, Clone)]
struct Step {
    key: PortKey,
    target: Target,
    change: PortChange,
    /// Whether it has what it is to have by our records, so that it is only looked at.
    is_there: bool,
}

/// The steps of one round, and why others are none.
#[derive(Debug, Default)]
struct Plan {
    steps: BTreeMap<Word, Vec<Step>>,
    refused: BTreeMap<PortKey, String>,
}

/// Brings these ports to what they are to have.
///
/// # Errors
/// A port did not come there; the others did.
pub(crate) async fn settle(
    context: &mut Context,
    keys: &BTreeSet<PortKey>,
    how: How,
) -> Result<Vec<SwitchPort>, Failure> {
    let mut failed: BTreeMap<PortKey, NoAnswer> = BTreeMap::new();
    let mut open = keys.clone();
    let mut how_now = how;
    let (mut rounds, mut holds) = (0, 0);
    while !open.is_empty() && rounds < ROUNDS_MAX {
        let plan = begin(context, open.clone(), how_now).await?;
        how_now.reset = false;
        let refused = plan.refused.into_iter();
        failed.extend(refused.map(|(key, why)| (key, NoAnswer::lasting(why))));
        if plan.steps.is_empty() {
            open.clear();
            break;
        }
        let found = tell(context, &plan.steps).await?;
        let again = end(context, plan.steps, found, &mut failed).await?;
        open = again;
        let waiting: BTreeMap<PortKey, NoAnswer> = match how.may_hold && is_held(context) {
            true => failed.extract_if(.., |_, no| no.passing).collect(),
            false => BTreeMap::new(),
        };
        if let Some(first) = waiting.values().next()
            && holds < HOLDS_MAX
        {
            holds += 1;
            if holds == 1 {
                let why = &first.why;
                context.say(format!("{why}; waiting for the switch, as the policy says")).await;
            }
            open.extend(waiting.into_keys());
            sleep(HOLD).await;
            if context.cancel().is_cancelled() {
                return Err(Failure::Canceled);
            }
            continue;
        }
        failed.extend(waiting);
        rounds += 1;
    }
    for key in open {
        let why = "it was changed again and again meanwhile".to_owned();
        failed.entry(key).or_insert(NoAnswer { why, passing: true });
    }
    if let Some((key, NoAnswer { why, .. })) = failed.iter().next() {
        let more = match failed.len() {
            1 => String::new(),
            number => format!(", and {} more", number - 1),
        };
        let text = format!("Port {key}: {why}{more}; `gnt port reset {key}` tries again");
        return Err(Exception::exec(text).coded(Code::PortFailed).into());
    }
    let config = context.config();
    Ok(keys
        .iter()
        .filter_map(|key| config.switch_ports.get(key))
        .map(|p| p.as_ref().clone())
        .collect())
}

fn is_held(context: &Context) -> bool {
    let config = context.config();
    let policy = config.port_policy.as_deref();
    policy.is_some_and(|policy| policy.on_dead_switch == OnDeadSwitch::Hold)
}

/// Commits what ports are becoming.
async fn begin(context: &mut Context, keys: BTreeSet<PortKey>, how: How) -> Result<Plan, Failure> {
    let now = context.now();
    context
        .transact(move |config| {
            let mut plan = Plan::default();
            let mut changes = Vec::new();
            for key in keys {
                let Some(port) = config.switch_ports.get(&key) else { continue };
                changes.extend(planned(config, port, how, now, &mut plan)?);
            }
            Ok((changes, plan))
        })
        .await
}

/// The next state of one port.
fn planned(
    config: &Config,
    port: &SwitchPort,
    how: How,
    now: Timestamp,
    plan: &mut Plan,
) -> Result<Option<ConfigChange>, Exception> {
    let key = port.key();
    let mut next = port.clone();
    if port.state == PortState::Deleting {
        return Ok(None);
    }
    if how.reset {
        (next.tries, next.repairs) = (0, 0);
    }
    let target = match config.desired(port) {
        Desired::Left => return gone(config, next, now),
        Desired::Refused { why, .. } => {
            plan.refused.insert(key, why.clone());
            if port.state == PortState::Error && port.error.as_ref() == Some(&why) {
                return Ok(None);
            }
            next = stepped(next, PortEvent::Wanted, now)?;
            next = stepped(next, PortEvent::Failed, now)?;
            next.refused = true;
            next.error = Some(why);
            return Ok(Some(ConfigChange::SwitchPort(next)));
        }
        Desired::Set(target) => target,
    };
    let Some(switch) = config.switches.get(&key.switch) else { return Ok(None) };
    let Some(spec) = switch.ports.get(&key.port) else { return Ok(None) };
    let has = port.applied.as_ref();
    let is_there = port.state.is_steady()
        && has.is_some_and(|has| {
            has.configuration == target.configuration && has.settings == target.settings
        });
    if is_there && !how.look {
        return gone(config, next, now);
    }
    // A change that is under way elsewhere may have come about or not: then nothing is expected.
    let expected = has.filter(|_| port.state.is_steady());
    if !is_there {
        next.revision = next.revision.max(now.micros().unsigned_abs()).saturating_add(1);
    }
    let change = PortChange {
        port: spec.name.clone(),
        revision: next.revision,
        wanted: target.settings.clone(),
        if_current: expected.map(|has| Actual::Set(has.settings.clone())),
    };
    plan.steps.entry(key.switch.clone()).or_default().push(Step {
        key,
        target: target.clone(),
        change,
        is_there,
    });
    if is_there {
        return Ok(None);
    }
    next = match target.is_idle {
        true => stepped(next, PortEvent::Released, now)?,
        false => {
            let allowed = stepped(next, PortEvent::Wanted, now)?;
            stepped(allowed, PortEvent::Allowed, now)?
        }
    };
    Ok((next != *port).then_some(ConfigChange::SwitchPort(next)))
}

/// A port that rests is about to be forgotten, if its switch is.
fn gone(
    config: &Config,
    port: SwitchPort,
    now: Timestamp,
) -> Result<Option<ConfigChange>, Exception> {
    let is_leaving = config.switches.get(&port.switch).is_some_and(|switch| switch.leaving);
    let may_go = matches!(port.state, PortState::None | PortState::Idle);
    match is_leaving && may_go {
        true => stepped(port, PortEvent::Removed, now).map(ConfigChange::SwitchPort).map(Some),
        false => Ok(None),
    }
}

fn stepped(port: SwitchPort, event: PortEvent, now: Timestamp) -> Result<SwitchPort, Exception> {
    let key = port.key();
    port.after(event, now).map_err(|illegal| Exception::exec(format!("Port {key}: {illegal}")))
}

/// The answers of switches to their steps.
type Told = BTreeMap<Word, Result<Vec<PortOutcome>, NoAnswer>>;

/// Tells all switches at the same time: one that hangs delays no other.
async fn tell(context: &mut Context, steps: &BTreeMap<Word, Vec<Step>>) -> Result<Told, Failure> {
    context.reach_out().await?;
    let (config, behalf) = (context.config(), context.behalf());
    let agents = context.agents().await?.clone();
    let asked = steps.iter().map(|(name, steps)| {
        let (config, agents) = (&config, &agents);
        async move {
            let changes: Vec<PortChange> = steps.iter().map(|step| step.change.clone()).collect();
            let told = async {
                let lasting = |error: Exception| NoAnswer::lasting(error.message().to_owned());
                let switch = config.switch(name.as_str()).map_err(lasting)?;
                let reached = Reached::of(config, switch).map_err(lasting)?;
                reached.apply(agents, behalf, &changes).await
            };
            (name.clone(), told.await)
        }
    });
    Ok(join_all(asked).await.into_iter().collect())
}

/// Commits what came of the steps; gives the ports that are to be told again.
async fn end(
    context: &mut Context,
    steps: BTreeMap<Word, Vec<Step>>,
    told: Told,
    failed: &mut BTreeMap<PortKey, NoAnswer>,
) -> Result<BTreeSet<PortKey>, Failure> {
    let now = context.now();
    let (again, not_done, said) = context
        .transact(move |config| {
            let (mut again, mut not_done) = (BTreeSet::new(), BTreeMap::new());
            let (mut changes, mut said) = (Vec::new(), Vec::new());
            for (switch, steps) in steps {
                let outcomes = told.get(&switch);
                for (place, step) in steps.iter().enumerate() {
                    let Some(port) = config.switch_ports.get(&step.key) else { continue };
                    let outcome = match outcomes {
                        Some(Ok(outcomes)) => outcomes.get(place).cloned().map(Ok),
                        Some(Err(why)) => Some(Err(why.clone())),
                        None => None,
                    };
                    let Some(outcome) = outcome else { continue };
                    let mut came = came(config, port, step, outcome, now)?;
                    changes.extend(came.port.take().map(ConfigChange::SwitchPort));
                    said.extend(came.said);
                    not_done.extend(came.failed.map(|why| (step.key.clone(), why)));
                    if came.again {
                        again.insert(step.key.clone());
                    }
                }
            }
            Ok((changes, (again, not_done, said)))
        })
        .await?;
    failed.extend(not_done);
    for text in said {
        context.say(text).await;
    }
    Ok(again)
}

/// The outcome of one step.
#[derive(Debug, Default)]
struct Came {
    port: Option<SwitchPort>,
    failed: Option<NoAnswer>,
    again: bool,
    said: Option<String>,
}

fn came(
    config: &Config,
    port: &SwitchPort,
    step: &Step,
    outcome: Result<PortOutcome, NoAnswer>,
    now: Timestamp,
) -> Result<Came, Exception> {
    let Step { key, target, .. } = step;
    // Something else may be wanted by now, and told by somebody else.
    let is_wanted = matches!(config.desired(port), Desired::Set(wanted) if wanted == *target);
    let is_under_way = matches!(port.state, PortState::Configuring | PortState::Cleaning);
    let applied =
        Applied { configuration: target.configuration.clone(), settings: target.settings.clone() };
    match outcome {
        Ok(PortOutcome::Applied) => {
            let mut next = match (is_under_way && is_wanted, port.state) {
                (true, _) => stepped(port.clone(), PortEvent::Applied, now)?,
                (false, _) => port.clone(),
            };
            next.applied = Some(applied);
            next.tries = 0;
            let said = (next != *port)
                .then(|| format!("{key}: {} ({})", target.configuration, target.settings));
            // What its switch leaves behind is looked at once more, and is forgotten then.
            let is_leaving = config.switches.get(&port.switch).is_some_and(|switch| switch.leaving);
            let rests_now = next.state == PortState::Idle && port.state != PortState::Idle;
            let again = !is_wanted || is_leaving && rests_now;
            let port = (next != *port).then_some(next);
            Ok(Came { port, again, said, ..Came::default() })
        }
        Ok(PortOutcome::Differs(actual)) if step.change.if_current.is_none() => {
            let why = format!("its switch was told {}, and has {actual}", step.change.wanted);
            failed(port, NoAnswer::lasting(why), now)
        }
        Ok(PortOutcome::Differs(actual)) => drifted(config, port, step, &actual, now),
        // A later job told the switch what it wants: it is looked at what that came to.
        Ok(PortOutcome::Superseded) => Ok(Came { again: true, ..Came::default() }),
        Ok(PortOutcome::Refused(why)) => failed(port, NoAnswer::lasting(why), now),
        // Nothing is known of the port that was not before.
        Err(no) if step.is_there => Ok(Came { failed: Some(no), ..Came::default() }),
        Err(no) => failed(port, no, now),
    }
}

/// Somebody else changed the port.
fn drifted(
    config: &Config,
    port: &SwitchPort,
    step: &Step,
    actual: &Actual,
    now: Timestamp,
) -> Result<Came, Exception> {
    let policy = config.port_policy.as_deref().map(|policy| policy.on_drift).unwrap_or_default();
    let mut next = port.clone();
    let is_new = now.micros() - port.since.micros() > PEACE * 1_000_000;
    next.repairs = if is_new { 1 } else { port.repairs + 1 };
    let key = &step.key;
    let told = format!("somebody else changed it to {actual}");
    if policy == OnDrift::Tell || next.repairs > REPAIRS_MAX {
        let why = match policy {
            OnDrift::Tell => format!("{told}, and the policy is to tell that"),
            OnDrift::Repair => format!("{told}, for the {}th time", next.repairs),
        };
        next.tries = model::switch::port::TRIES_MAX;
        let mut came = failed(&next, NoAnswer::lasting(why), now)?;
        if let Some(port) = &mut came.port {
            port.tries = model::switch::port::TRIES_MAX;
        }
        return Ok(came);
    }
    if port.state.is_steady() && port.state != PortState::None {
        next = stepped(next, PortEvent::Drifted, now)?;
        if next.state == PortState::Validating {
            next = stepped(next, PortEvent::Allowed, now)?;
        }
    }
    // The next round takes whatever the port has now.
    next.applied = None;
    let said = Some(format!("{key}: {told}; setting it again"));
    Ok(Came { port: Some(next), again: true, said, ..Came::default() })
}

fn failed(port: &SwitchPort, no: NoAnswer, now: Timestamp) -> Result<Came, Exception> {
    let mut next = port.clone();
    if port.state.is_steady() || port.state == PortState::Error {
        next = stepped(next, PortEvent::Wanted, now)?;
    }
    next = stepped(next, PortEvent::Failed, now)?;
    next.since = now;
    next.tries = port.tries.saturating_add(1);
    next.error = Some(no.why.clone());
    Ok(Came { port: Some(next), failed: Some(no), ..Came::default() })
}
