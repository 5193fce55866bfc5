//! Core: what leads a machine from one state to another.

use serde::{Deserialize, Serialize};

use super::{Meanwhile, Phase, State, Status};

crate::words! {
    /// An intent for a machine.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Intent {
        /// Find out what it is made of.
        Inspect = "inspect",
        /// Wipe it.
        Clean = "clean",
        /// Give it a system.
        Deploy = "deploy",
        /// Restart it.
        Reboot = "reboot",
        /// Boot a rescue system.
        Rescue = "rescue",
        /// Go back to its own system.
        Unrescue = "unrescue",
        /// Take it out of service.
        Retire = "retire",
        /// Give up what is carried out.
        Abort = "abort",
    }
}

impl Intent {
    /// The states of a machine once the intent is carried out.
    pub const fn ends_in(self) -> &'static [State] {
        match self {
            Self::Inspect => &[State::Manageable],
            Self::Clean => &[State::Available, State::Retiring],
            Self::Deploy | Self::Reboot | Self::Unrescue => &[State::Healthy],
            Self::Rescue => &[State::Rescued],
            Self::Retire => &[State::Retiring, State::Retired],
            Self::Abort => &[],
        }
    }
}

crate::words! {
    /// An observation of a machine, or of the job that is at work on it. It is a fact: where it means
    /// nothing, the state stays.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    Observed {
        /// The job did its part and waits for the machine. A job says so before it restarts the machine.
        Awaited = "awaited",
        /// The agent in its ramdisk called, in this boot.
        AgentCalled = "agent called",
        /// The job did what it is for.
        Done = "done",
        /// Its own system called, in this boot.
        SystemCalled = "system called",
        /// Its system should have called and did not.
        Silent = "silent",
        /// Something went wrong, for a reason that is told.
        Failed = "failed",
        /// It was in its state for longer than its deadline.
        DeadlinePassed = "deadline passed",
    }
}

/// An event of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants something of it.
    Intent(Intent),
    /// Something was seen.
    Observed(Observed),
    /// An external controller sets sabakan's state.
    Set(Status),
}

impl Event {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let intents = Intent::ALL.into_iter().map(Self::Intent);
        let observed = Observed::ALL.into_iter().map(Self::Observed);
        intents.chain(observed).chain(Status::ALL.into_iter().map(Self::Set))
    }
}

/// Why an event cannot happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// An intent cannot begin in this state.
    #[error("a machine that is {state} cannot {}{}", intent.as_str(), instead(*state))]
    NotFrom { state: State, intent: Intent },
    /// An intent waits until another one has ended.
    #[error("it is {state}; wait until that has ended, or abort it, before you {} it", intent.as_str())]
    Busy { state: State, intent: Intent },
    /// sabakan's table has no such transition.
    #[error("a machine that is {from} cannot become {to}, but {}", told(*from))]
    NoTransition {
        /// sabakan's name of the state.
        from: Status,
        /// The one that was to be set.
        to: Status,
    },
}

/// The intents that are possible instead, in words.
fn instead(state: State) -> String {
    let can = Intent::ALL.into_iter().filter(|intent| state.next(Event::Intent(*intent)).is_ok());
    let names: Vec<&str> = can.map(Intent::as_str).collect();
    if names.is_empty() { String::new() } else { format!("; it can {}", names.join(", ")) }
}

/// The statuses that a machine can take instead, in words.
fn told(from: Status) -> String {
    let names: Vec<&str> = from.may_become().iter().map(|status| status.as_str()).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

impl State {
    /// The state after `event`.
    ///
    /// # Errors
    /// [`Refusal`] where somebody wants what cannot be. An observation is never refused.
    pub fn next(self, event: Event) -> Result<Self, Refusal> {
        match event {
            Event::Intent(intent) => self.wanted(intent),
            Event::Observed(seen) => Ok(self.seen(seen)),
            Event::Set(status) => self.set(status),
        }
    }

    fn wanted(self, intent: Intent) -> Result<Self, Refusal> {
        let refused = Refusal::NotFrom { state: self, intent };
        match (intent, self.phase()) {
            (Intent::Abort, Phase::Runs { fails, .. }) => Ok(fails),
            // A machine goes out of service from wherever it is, and whatever runs.
            (Intent::Retire, _) if self == Self::Retired => Err(refused),
            (Intent::Retire, _) if matches!(self, Self::Erasing | Self::EraseWait) => Ok(self),
            (Intent::Retire, _) => Ok(Self::Retiring),
            (_, Phase::Runs { meanwhile: Meanwhile::Waits, .. }) => {
                Err(Refusal::Busy { state: self, intent })
            }
            (_, Phase::Runs { meanwhile: Meanwhile::Cancels, fails, .. }) => {
                fails.begun(intent).ok_or(refused)
            }
            (_, Phase::Settled | Phase::Failed) => self.begun(intent).ok_or(refused),
        }
    }

    /// The state in which an intent begins, if it may begin here.
    pub const fn begun(self, intent: Intent) -> Option<Self> {
        use State as S;
        match (intent, self) {
            (
                Intent::Inspect,
                S::Enrolled | S::InspectFailed | S::Manageable | S::Available | S::DeployFailed,
            ) => Some(S::Inspecting),
            (
                Intent::Clean,
                S::Enrolled
                | S::InspectFailed
                | S::Manageable
                | S::CleanFailed
                | S::Available
                | S::DeployFailed,
            ) => Some(S::Cleaning),
            (Intent::Clean, S::Retiring | S::EraseFailed) => Some(S::Erasing),
            (
                Intent::Deploy,
                S::Enrolled
                | S::InspectFailed
                | S::Manageable
                | S::Available
                | S::DeployFailed
                | S::Healthy
                | S::Unhealthy
                | S::Unreachable
                | S::Updating
                | S::Rescued
                | S::RescueFailed
                | S::UnrescueFailed,
            ) => Some(S::Deploying),
            (Intent::Reboot, S::Healthy | S::Unhealthy | S::Unreachable | S::Updating) => {
                Some(S::Rebooting)
            }
            (
                Intent::Rescue,
                S::DeployFailed
                | S::Healthy
                | S::Unhealthy
                | S::Unreachable
                | S::Updating
                | S::Rescued
                | S::RescueFailed
                | S::UnrescueFailed,
            ) => Some(S::Rescuing),
            (Intent::Unrescue, S::Rescued | S::RescueFailed | S::UnrescueFailed) => {
                Some(S::Unrescuing)
            }
            _ => None,
        }
    }

    fn seen(self, seen: Observed) -> Self {
        use State as S;
        match (seen, self) {
            (Observed::Awaited, S::Inspecting) => S::InspectWait,
            (Observed::Awaited, S::Cleaning) => S::CleanWait,
            (Observed::Awaited, S::Deploying) => S::DeployWait,
            (Observed::Awaited, S::Rescuing) => S::RescueWait,
            (Observed::Awaited, S::Erasing) => S::EraseWait,
            (Observed::AgentCalled, S::InspectWait) => S::Inspecting,
            (Observed::AgentCalled, S::CleanWait) => S::Cleaning,
            (Observed::AgentCalled, S::DeployWait) => S::Deploying,
            (Observed::AgentCalled, S::RescueWait) => S::Rescuing,
            (Observed::AgentCalled, S::EraseWait) => S::Erasing,
            (Observed::Done, S::Inspecting | S::InspectWait) => S::Manageable,
            (Observed::Done, S::Cleaning | S::CleanWait) => S::Available,
            (Observed::Done, S::Rescuing | S::RescueWait) => S::Rescued,
            (Observed::Done, S::Erasing | S::EraseWait) => S::Retiring,
            // While it is being prepared, its old system may still call.
            (
                Observed::SystemCalled,
                S::DeployWait | S::Unreachable | S::Rebooting | S::Unrescuing,
            ) => S::Healthy,
            (Observed::Silent, S::Healthy | S::Unhealthy) => S::Unreachable,
            (Observed::Failed, S::Healthy) => S::Unhealthy,
            (Observed::Failed | Observed::DeadlinePassed, _) => match self.phase() {
                Phase::Runs { fails, .. } => fails,
                Phase::Settled | Phase::Failed => self,
            },
            _ => self,
        }
    }

    fn set(self, to: Status) -> Result<Self, Refusal> {
        let from = self.status();
        if from == to {
            return Ok(self);
        }
        if !from.may_become().contains(&to) {
            return Err(Refusal::NoTransition { from, to });
        }
        Ok(match to {
            Status::Uninitialized => Self::Enrolled,
            Status::Healthy => Self::Healthy,
            Status::Unhealthy => Self::Unhealthy,
            Status::Unreachable => Self::Unreachable,
            Status::Updating => Self::Updating,
            Status::Retiring => Self::Retiring,
            Status::Retired => Self::Retired,
        })
    }
}
