//! Core: a port of a switch, and its state.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::policy::Phases;
use super::settings::PortSettings;
use crate::mac::MacAddress;
use crate::name::NameError;
use crate::serial::Serial;
use crate::{Timestamp, Word};

/// How often a port is tried that its switch does not take, before that is left to people.
pub const TRIES_MAX: u32 = 8;
/// Seconds before the second try; each further one waits twice as long, up to [`AGAIN_MAX`].
pub const AGAIN: i64 = 10;
/// Longest wait between two tries, in seconds.
pub const AGAIN_MAX: i64 = 300;
/// Seconds for a switch to take a change: one that reads its whole configuration back needs a minute.
const CHANGE: i64 = 180;

/// A port: its switch, and its name there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortKey {
    pub switch: Word,
    pub port: Word,
}

crate::text_form!(PortKey);

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.switch, self.port)
    }
}

impl FromStr for PortKey {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError::new(text, "port of a switch", "it is SWITCH/PORT");
        let (switch, port) = text.split_once('/').ok_or_else(wrong)?;
        let word = |text: &str| text.parse::<Word>().map_err(|_none| wrong());
        Ok(Self { switch: word(switch)?, port: word(port)? })
    }
}

crate::words! {
    /// The state of a port.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
    )]
    #[serde(rename_all = "lowercase")]
    PortState {
        /// It is as it was when it became known: nobody asked for anything yet.
        #[default]
        None = "none",
        /// Whether its switch and its tenant allow what is wanted is looked at.
        Validating = "validating",
        /// Its switch is being told.
        Configuring = "configuring",
        /// It has what is wanted.
        Active = "active",
        /// Its switch is being told the idle configuration.
        Cleaning = "cleaning",
        /// It rests.
        Idle = "idle",
        /// The last wish did not come true.
        Error = "error",
        /// It is about to be forgotten.
        Deleting = "deleting",
    }
}

/// An event in the life of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortEvent {
    /// A configuration is wanted other than the one that it has.
    Wanted,
    /// The idle configuration is wanted, and it has another one.
    Released,
    /// Switch and tenant allow what is wanted.
    Allowed,
    /// Its switch has what it was told, and was read back.
    Applied,
    /// The wish is refused, or the switch did not take it.
    Failed,
    /// Its switch has something else than it was told.
    Drifted,
    /// Its switch is being removed.
    Removed,
}

impl PortEvent {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Wanted,
        Self::Released,
        Self::Allowed,
        Self::Applied,
        Self::Failed,
        Self::Drifted,
        Self::Removed,
    ];
}

/// An event that cannot happen in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a port that is {state} takes no {event:?}")]
pub struct Illegal {
    pub state: PortState,
    pub event: PortEvent,
}

impl PortState {
    /// The state after an event.
    ///
    /// # Errors
    /// The event cannot happen here.
    pub const fn next(self, event: PortEvent) -> Result<Self, Illegal> {
        use PortEvent as Event;
        Ok(match (self, event) {
            (Self::Deleting, _) => return Err(Illegal { state: self, event }),
            (_, Event::Wanted) => Self::Validating,
            (_, Event::Released) => Self::Cleaning,
            (Self::Validating, Event::Allowed) => Self::Configuring,
            (Self::Cleaning, Event::Allowed) => Self::Cleaning,
            (Self::Configuring, Event::Applied) => Self::Active,
            (Self::Cleaning, Event::Applied) => Self::Idle,
            (Self::Validating | Self::Configuring | Self::Cleaning, Event::Failed) => Self::Error,
            (Self::Active, Event::Drifted) => Self::Validating,
            (Self::Idle, Event::Drifted) => Self::Cleaning,
            (Self::None | Self::Idle, Event::Removed) => Self::Deleting,
            _ => return Err(Illegal { state: self, event }),
        })
    }

    /// Seconds for which a port may be in it, where that has an end.
    pub const fn deadline(self) -> Option<i64> {
        match self {
            Self::Validating | Self::Configuring | Self::Cleaning | Self::Deleting => Some(CHANGE),
            Self::None | Self::Active | Self::Idle | Self::Error => None,
        }
    }

    /// Whether nothing is under way.
    pub const fn is_steady(self) -> bool {
        matches!(self, Self::None | Self::Active | Self::Idle)
    }
}

/// The card of a machine that a port serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Served {
    pub serial: Serial,
    pub mac: MacAddress,
}

/// A configuration by name, and what it meant when it was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub configuration: Word,
    pub settings: PortSettings,
}

/// The document `switch-ports/SWITCH/PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchPort {
    pub switch: Word,
    /// Its name; that on the switch stands there.
    pub port: Word,
    /// The card that it serves by the operator's word, which counts more than LLDP's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<Served>,
    /// Its own configurations, before those of its machine's role.
    #[serde(default, skip_serializing_if = "Phases::is_empty")]
    pub phases: Phases,
    /// The configuration that it has whatever its machine does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Word>,
    #[serde(default)]
    pub state: PortState,
    /// When it came to its state.
    pub since: Timestamp,
    /// The last configuration that it was told and seen to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// Counts what its switch was told, in microseconds since 1970 at least, so that a port that is
    /// added anew goes on behind the one before.
    #[serde(default)]
    pub revision: u64,
    /// How often in a row its switch did not take what is wanted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// How often in a row it was set again after others had changed it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repairs: u32,
    /// Why it is in error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether that is because what is wanted is not allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// A port as it is to be, and as its switch has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortVerified {
    pub port: PortKey,
    /// The configuration that it is to have; none where it is left as it is.
    pub configuration: Option<Word>,
    /// How that is on the switch, in words.
    pub wanted: Option<String>,
    /// How it is on the switch, in words; none where the switch does not know it.
    pub actual: Option<String>,
    /// Whether it is as it is to be.
    pub good: bool,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl SwitchPort {
    /// A port that just became known.
    pub fn new(key: PortKey, now: Timestamp) -> Self {
        Self {
            switch: key.switch,
            port: key.port,
            serves: None,
            phases: Phases::new(),
            set: None,
            state: PortState::None,
            since: now,
            applied: None,
            revision: 0,
            tries: 0,
            repairs: 0,
            error: None,
            refused: false,
        }
    }

    pub fn key(&self) -> PortKey {
        PortKey { switch: self.switch.clone(), port: self.port.clone() }
    }

    /// The same after an event.
    ///
    /// # Errors
    /// The event cannot happen here.
    pub fn after(mut self, event: PortEvent, now: Timestamp) -> Result<Self, Illegal> {
        let state = self.state.next(event)?;
        if state != self.state {
            self.since = now;
        }
        self.state = state;
        if event != PortEvent::Failed {
            self.error = None;
            self.refused = false;
        }
        Ok(self)
    }

    /// When a port in error is tried again; never where that is left to people.
    pub fn again(&self) -> Option<Timestamp> {
        let may = self.state == PortState::Error && !self.refused && self.tries < TRIES_MAX;
        let wait = AGAIN.saturating_mul(1 << self.tries.saturating_sub(1).min(16)).min(AGAIN_MAX);
        may.then(|| self.since.plus_seconds(wait))
    }

    /// Every configuration that it names.
    pub fn names(&self) -> impl Iterator<Item = &Word> {
        let applied = self.applied.iter().map(|applied| &applied.configuration);
        self.phases.values().chain(&self.set).chain(applied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_states() {
        let mut table = String::new();
        for state in PortState::ALL {
            let next = |event: PortEvent| match state.next(event) {
                Ok(next) => format!("{event:?} {next}"),
                Err(_illegal) => format!("{event:?} -"),
            };
            let line = PortEvent::ALL.map(next).join(", ");
            table.push_str(&format!("{state}: {line}\n"));
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn every_state_can_be_left_and_what_is_under_way_has_an_end() {
        for state in PortState::ALL.into_iter().filter(|state| *state != PortState::Deleting) {
            let out = PortEvent::ALL.into_iter().filter_map(|event| state.next(event).ok());
            assert!(out.into_iter().any(|next| next != state), "{state}");
            let is_under_way = !state.is_steady() && state != PortState::Error;
            assert_eq!(state.deadline().is_some(), is_under_way, "{state}");
        }
    }

    #[test]
    fn a_port_in_error_is_tried_ever_more_slowly_and_then_no_more() {
        let key: PortKey = "tor-1/p7".parse().unwrap();
        assert_eq!(key.to_string(), "tor-1/p7");
        assert!("tor-1".parse::<PortKey>().is_err());
        let now = Timestamp::from_micros(0);
        let port = SwitchPort { state: PortState::Error, ..SwitchPort::new(key, now) };
        let after = |tries| SwitchPort { tries, ..port.clone() }.again().map(Timestamp::seconds);
        assert_eq!([1, 2, 3, 7].map(after), [10, 20, 40, 300].map(Some));
        assert_eq!(after(TRIES_MAX), None);
    }
}
