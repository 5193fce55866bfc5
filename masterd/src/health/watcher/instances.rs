//! Core: instances that do not stay alive.

use crate::health::alarm::{Alarm, Subject};
use crate::instances::keep::rules::{Attempts, TRIES_MAX};

/// Alarms about instances that were tried as often as they may be.
pub(crate) fn find(attempts: &Attempts) -> Vec<Alarm> {
    let given_up = attempts.given_up().into_iter();
    let alarm = |(name, since)| Alarm {
        text: format!("{TRIES_MAX} jobs for it within an hour did not help"),
        todo: format!(
            "`gnt instance info {name}` shows why; `gnt instance startup {name}` tries again"
        ),
        what: Subject::Instance(name),
        since,
    };
    given_up.map(alarm).collect()
}
