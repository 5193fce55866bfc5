//! Core: the life of a machine, from the box to the scrap heap: one state, with sabakan's name for it and
//! Ironic's.
//!
//! This has the states; `next` has what leads from one to another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::image::BootTarget;
use crate::job_id::JobId;
use crate::time::Timestamp;

mod next;
#[cfg(test)]
mod tests;

pub use next::{Event, Intent, Observed, Refusal};

/// Characters of a reason that is kept: a few lines of a program's last words.
const REASON_CHARS_MAX: usize = 1_000;

/// Seconds for power and for preparing a boot, and for what then boots: Ironic waits as long for its agents,
/// and the firmware of a large server takes ten minutes.
const BOOT: i64 = 1_800;
/// Seconds for wiping disks: a large one without a secure erase takes hours.
const WIPE: i64 = 6 * 3_600;
/// Seconds for an update by another program: some restarts.
const UPDATE: i64 = 2 * 3_600;
/// Seconds for taking a machine out of service: somebody is to notice within a day.
const RETIREMENT: i64 = 86_400;

crate::words! {
    /// sabakan's states.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Status {
        /// It has no system that is ready.
        Uninitialized = "uninitialized",
        /// It works.
        Healthy = "healthy",
        /// Something of it does not work.
        Unhealthy = "unhealthy",
        /// It does not answer.
        Unreachable = "unreachable",
        /// A program is at work on it.
        Updating = "updating",
        /// It goes out of service.
        Retiring = "retiring",
        /// It is out of service.
        Retired = "retired",
    }
}

impl Status {
    /// To which of them an external controller may move a machine: sabakan's own table. Another one than
    /// itself, which is always a success.
    pub const fn may_become(self) -> &'static [Self] {
        match self {
            Self::Uninitialized => &[Self::Healthy, Self::Retiring],
            Self::Healthy => &[Self::Unhealthy, Self::Unreachable, Self::Updating, Self::Retiring],
            Self::Unhealthy => &[Self::Healthy, Self::Unreachable, Self::Updating, Self::Retiring],
            Self::Unreachable => &[Self::Healthy, Self::Unhealthy, Self::Updating, Self::Retiring],
            Self::Updating | Self::Retired => &[Self::Uninitialized],
            Self::Retiring => &[Self::Retired],
        }
    }

    /// Whether the machine works for somebody, or is to work again soon.
    pub const fn is_in_service(self) -> bool {
        matches!(self, Self::Healthy | Self::Unhealthy | Self::Unreachable | Self::Updating)
    }

    /// Whether keys of its disks are kept: they would keep it from being retired.
    pub const fn takes_disk_keys(self) -> bool {
        !matches!(self, Self::Retiring | Self::Retired)
    }
}

/// A word that is none of sabakan's states.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no state; states are uninitialized, healthy, unhealthy, unreachable, updating, retiring and retired"
)]
pub struct NoStatus(String);

impl FromStr for Status {
    type Err = NoStatus;

    fn from_str(text: &str) -> Result<Self, NoStatus> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| NoStatus(text.chars().take(40).collect()))
    }
}

/// The effect of an intent that comes while another one is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// It cancels that one, if it may begin where that one fails.
    Cancels,
    /// It is refused until that one has ended: what is half wiped is good for nothing.
    Waits,
}

/// The meaning of a state for a client that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It may last.
    Settled,
    /// It lasts until somebody does something about it.
    Failed,
    /// An intent is carried out.
    Runs {
        /// Which.
        intent: Intent,
        /// The effect of other intents until then.
        meanwhile: Meanwhile,
        /// The state that it comes to where it fails, is canceled, or takes longer than its deadline.
        fails: State,
    },
}

macro_rules! states {
    ($($(#[doc = $doc:literal])+ $state:ident $word:literal $status:ident $provision:literal
        $deadline:expr, $phase:expr;)+) => {
        /// The state of a machine in its life.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum State {
            #[default]
            $($(#[doc = $doc])+ $state,)+
        }

        impl State {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$state,)+];

            /// The word in documents and lists.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$state => $word,)+ }
            }

            /// sabakan's state.
            pub const fn status(self) -> Status {
                match self { $(Self::$state => Status::$status,)+ }
            }

            /// Ironic's provision state.
            pub const fn provision_state(self) -> &'static str {
                match self { $(Self::$state => $provision,)+ }
            }

            /// Seconds for which a machine may be in it, where that has an end.
            pub const fn deadline(self) -> Option<i64> {
                match self { $(Self::$state => $deadline,)+ }
            }

            /// Its meaning for a client that waits.
            pub const fn phase(self) -> Phase {
                match self { $(Self::$state => $phase,)+ }
            }

            /// Its meaning, in a line.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$state => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

/// A state in which an intent is carried out that others cancel.
const fn runs(intent: Intent, fails: State) -> Phase {
    Phase::Runs { intent, meanwhile: Meanwhile::Cancels, fails }
}

/// A state in which disks are wiped.
const fn wipes(fails: State) -> Phase {
    Phase::Runs { intent: Intent::Clean, meanwhile: Meanwhile::Waits, fails }
}

// A state with a deadline that fails to nothing belongs to other programs: it is reported, and left to
// them.
states! {
    /// It is registered, and nothing else is known of it.
    Enrolled "enrolled" Uninitialized "enroll" None, Phase::Settled;
    /// It is being prepared for its inspection, or what it told is looked at.
    Inspecting "inspecting" Uninitialized "inspecting"
        Some(BOOT), runs(Intent::Inspect, State::InspectFailed);
    /// Its ramdisk is to tell what the machine is made of.
    InspectWait "inspect-wait" Uninitialized "inspect wait"
        Some(BOOT), runs(Intent::Inspect, State::InspectFailed);
    /// Its inspection failed.
    InspectFailed "inspect-failed" Uninitialized "inspect failed" None, Phase::Failed;
    /// It is known what it is made of.
    Manageable "manageable" Uninitialized "manageable" None, Phase::Settled;
    /// It is being cleaned for its first system or the next one.
    Cleaning "cleaning" Uninitialized "cleaning" Some(BOOT), wipes(State::CleanFailed);
    /// Its ramdisk cleans it.
    CleanWait "clean-wait" Uninitialized "clean wait" Some(WIPE), wipes(State::CleanFailed);
    /// Its cleaning failed.
    CleanFailed "clean-failed" Uninitialized "clean failed" None, Phase::Failed;
    /// It is clean and may be deployed.
    Available "available" Uninitialized "available" None, Phase::Settled;
    /// It is being prepared for its system, or a ramdisk installs that.
    Deploying "deploying" Updating "deploying"
        Some(BOOT), runs(Intent::Deploy, State::DeployFailed);
    /// Its ramdisk or its new system is to call.
    DeployWait "deploy-wait" Updating "wait call-back"
        Some(BOOT), runs(Intent::Deploy, State::DeployFailed);
    /// Its deployment failed.
    DeployFailed "deploy-failed" Unhealthy "deploy failed" None, Phase::Failed;
    /// Its system works.
    Healthy "healthy" Healthy "active" None, Phase::Settled;
    /// Something of it does not work.
    Unhealthy "unhealthy" Unhealthy "active" None, Phase::Settled;
    /// Its system does not answer.
    Unreachable "unreachable" Unreachable "active" None, Phase::Settled;
    /// Another program is at work on it.
    Updating "updating" Updating "active" Some(UPDATE), Phase::Settled;
    /// It restarts, and its system is to call.
    Rebooting "rebooting" Updating "active" Some(BOOT), runs(Intent::Reboot, State::Unhealthy);
    /// It is being prepared for its rescue system.
    Rescuing "rescuing" Updating "rescuing" Some(BOOT), runs(Intent::Rescue, State::RescueFailed);
    /// Its rescue system is to call.
    RescueWait "rescue-wait" Updating "rescue wait"
        Some(BOOT), runs(Intent::Rescue, State::RescueFailed);
    /// Its rescue system runs.
    Rescued "rescued" Updating "rescue" None, Phase::Settled;
    /// Its rescue system did not come up.
    RescueFailed "rescue-failed" Unhealthy "rescue failed" None, Phase::Failed;
    /// It goes back to its own system, which is to call.
    Unrescuing "unrescuing" Updating "unrescuing"
        Some(BOOT), runs(Intent::Unrescue, State::UnrescueFailed);
    /// Its own system did not come back.
    UnrescueFailed "unrescue-failed" Unhealthy "unrescue failed" None, Phase::Failed;
    /// It goes out of service.
    Retiring "retiring" Retiring "deleting" Some(RETIREMENT), Phase::Settled;
    /// It is being prepared for the wiping of its disks, on its way out of service.
    Erasing "erasing" Retiring "cleaning" Some(BOOT), wipes(State::EraseFailed);
    /// Its ramdisk wipes its disks, on its way out of service.
    EraseWait "erase-wait" Retiring "clean wait" Some(WIPE), wipes(State::EraseFailed);
    /// Its disks were not wiped.
    EraseFailed "erase-failed" Retiring "clean failed" None, Phase::Failed;
    /// It is out of service, and no keys of its disks are kept.
    Retired "retired" Retired "manageable" None, Phase::Settled;
}

impl State {
    /// Whether a ramdisk of it may look itself up: those in which Ironic expects one.
    pub const fn expects_ramdisk(self) -> bool {
        matches!(
            self,
            Self::Inspecting
                | Self::InspectWait
                | Self::Cleaning
                | Self::CleanWait
                | Self::Deploying
                | Self::DeployWait
                | Self::Rescuing
                | Self::RescueWait
                | Self::Erasing
                | Self::EraseWait
        )
    }

    /// Whether it lasts until somebody does something about it.
    pub fn is_failed(self) -> bool {
        self.phase() == Phase::Failed
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The state of a machine, since when and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Life {
    /// The state.
    #[serde(default)]
    pub state: State,
    /// When it came there; never where it has not moved since its registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Why, where it failed or somebody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The intent of the job that is at work, or was last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Carried>,
    /// The target that it boots instead of its own, as long as a ramdisk is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootTarget>,
    /// When it gave its last sign of life, where its silence made it unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_since: Option<Timestamp>,
}

/// An intent and the job that carries it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// What for.
    pub intent: Intent,
    /// Which job.
    pub job: JobId,
    /// Whether the job did its part, so that what the machine says counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits: bool,
}

impl Life {
    /// Whether it has not begun.
    pub fn is_new(&self) -> bool {
        *self == Self::default()
    }

    /// After an event. All else stays if the state stays.
    ///
    /// # Errors
    /// The event cannot happen here.
    pub fn after(
        &self,
        event: Event,
        reason: Option<&str>,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        let state = self.state.next(event)?;
        let runs = matches!(state.phase(), Phase::Runs { .. });
        if runs && matches!(event, Event::Observed(Observed::Awaited)) {
            let carried = self.carried.map(|carried| Carried { awaits: true, ..carried });
            let since = if state == self.state { self.since } else { Some(now) };
            return Ok(Self { state, since, carried, ..self.clone() });
        }
        // A deployment that begins anew has its whole time.
        let begins = matches!(event, Event::Intent(intent) if intent != Intent::Retire);
        if state == self.state && !begins {
            return Ok(self.clone());
        }
        let reason = reason.map(|reason| reason.chars().take(REASON_CHARS_MAX).collect());
        // A state that somebody set and a new intent are no part of a job's earlier work.
        let is_of_job =
            matches!(event, Event::Observed(_) | Event::Intent(Intent::Abort | Intent::Retire));
        let keeps_ramdisk = state.expects_ramdisk() || state == State::Rescued;
        let carried = self.carried.filter(|_| is_of_job);
        let boot = self.boot.clone().filter(|_| is_of_job && keeps_ramdisk);
        Ok(Self { state, since: Some(now), reason, carried, boot, silent_since: None })
    }

    /// Whether this job is at work on it.
    pub fn is_carried_by(&self, job: JobId) -> bool {
        let runs = matches!(self.state.phase(), Phase::Runs { .. });
        runs && self.carried.is_some_and(|carried| carried.job == job)
    }

    /// The job without which nothing goes on here: it prepares the machine, which does nothing for it yet.
    pub fn preparing(&self) -> Option<JobId> {
        let runs = matches!(self.state.phase(), Phase::Runs { .. });
        self.carried.filter(|carried| runs && !carried.awaits).map(|carried| carried.job)
    }
}

/// A machine that is longer in a state than it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// The state.
    pub state: State,
    /// When it came there.
    pub since: Timestamp,
    /// For how many seconds it might have been there.
    pub deadline: i64,
    /// The state that it comes to; none where another program is to move it.
    pub fails: Option<State>,
}

impl super::Machine {
    /// When it came to the state in which it is.
    pub fn state_since(&self) -> Timestamp {
        self.life.since.unwrap_or(self.register_date)
    }

    /// The overdue state, if it is overdue. Nothing is overdue during maintenance.
    pub fn overdue(&self, now: Timestamp) -> Option<Overdue> {
        let state = self.life.state;
        let deadline = state.deadline().filter(|_| self.maintenance.is_none())?;
        let since = self.state_since();
        let fails = match state.phase() {
            Phase::Runs { fails, .. } => Some(fails),
            Phase::Settled | Phase::Failed => None,
        };
        let overdue = Overdue { state, since, deadline, fails };
        (now >= since.plus_seconds(deadline)).then_some(overdue)
    }
}
