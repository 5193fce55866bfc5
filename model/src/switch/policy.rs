//! Core: which configuration a port has in which phase of its machine's life.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Word;
use crate::machine::life::State;

/// Most roles that have configurations of their own.
pub const ROLES_MAX: usize = 64;
/// How often a port is set again that others change, before that is left to people.
pub const REPAIRS_MAX: u32 = 5;

crate::words! {
    /// A phase in the life of a machine, as far as its ports care.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    PortPhase {
        /// Nobody uses the machine: the port rests.
        Idle = "idle",
        /// A ramdisk looks at the machine.
        Inspection = "inspection",
        /// The machine gets its system.
        Provisioning = "provisioning",
        /// Its disks are wiped.
        Cleaning = "cleaning",
        /// A rescue system runs.
        Rescue = "rescue",
        /// Its system works for its users.
        User = "user",
    }
}

impl PortPhase {
    /// The phase of a machine in this state.
    pub const fn of(state: State) -> Self {
        match state {
            State::Enrolled
            | State::InspectFailed
            | State::Manageable
            | State::CleanFailed
            | State::Available
            | State::DeployFailed
            | State::Retiring
            | State::EraseFailed
            | State::Retired => Self::Idle,
            State::Inspecting | State::InspectWait => Self::Inspection,
            State::Cleaning | State::CleanWait | State::Erasing | State::EraseWait => {
                Self::Cleaning
            }
            State::Deploying | State::DeployWait => Self::Provisioning,
            State::Rescuing | State::RescueWait | State::Rescued | State::RescueFailed => {
                Self::Rescue
            }
            State::Healthy
            | State::Unhealthy
            | State::Unreachable
            | State::Updating
            | State::Rebooting
            | State::Unrescuing
            | State::UnrescueFailed => Self::User,
        }
    }

    /// The phase whose configuration it has where it has none of its own.
    const fn instead(self) -> Option<Self> {
        match self {
            Self::Inspection | Self::Cleaning | Self::Rescue => Some(Self::Provisioning),
            Self::Provisioning => Some(Self::Idle),
            Self::Idle | Self::User => None,
        }
    }
}

/// Names of configurations by phase.
pub type Phases = BTreeMap<PortPhase, Word>;

crate::words! {
    /// The answer to a change of a port by somebody else.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    OnDrift {
        /// It is set again, at most [`REPAIRS_MAX`] times in a row; after that an alarm tells.
        #[default]
        Repair = "repair",
        /// An alarm tells.
        Tell = "tell",
    }
}

crate::words! {
    /// The effect of a switch that is not reached on what is wanted of a machine.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    OnDeadSwitch {
        /// The job fails, and the machine with it.
        #[default]
        Fail = "fail",
        /// The job waits for the switch, until the machine's deadline.
        Hold = "hold",
    }
}

/// The document `config/ports`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PortPolicy {
    /// Those of all ports.
    #[serde(default)]
    pub all: Phases,
    /// Those of machines with a role, before those of all.
    #[serde(default)]
    pub roles: BTreeMap<String, Phases>,
    #[serde(default)]
    pub on_drift: OnDrift,
    #[serde(default)]
    pub on_dead_switch: OnDeadSwitch,
}

impl PortPolicy {
    /// The name of the configuration of a phase: the port's own comes before that of its machine's role
    /// and that of all. A phase without one has that of the phase which takes its place.
    pub fn configuration<'a>(
        &'a self,
        port: &'a Phases,
        role: Option<&str>,
        phase: PortPhase,
    ) -> Option<&'a Word> {
        let of_role = role.and_then(|role| self.roles.get(role));
        let mut phase = Some(phase);
        while let Some(wanted) = phase {
            let found = [Some(port), of_role, Some(&self.all)].into_iter().flatten();
            if let Some(name) = found.filter_map(|phases| phases.get(&wanted)).next() {
                return Some(name);
            }
            phase = wanted.instead();
        }
        None
    }

    /// Every configuration that it names.
    pub fn names(&self) -> impl Iterator<Item = &Word> {
        self.roles.values().chain([&self.all]).flat_map(BTreeMap::values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(text: &str) -> Phases {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_nearest_rule_counts_and_a_phase_without_one_has_anothers() {
        let policy = PortPolicy {
            all: phases(r#"{"idle": "idle", "provisioning": "boot"}"#),
            roles: [("db".to_owned(), phases(r#"{"user": "db", "rescue": "help"}"#))].into(),
            ..PortPolicy::default()
        };
        let none = Phases::new();
        let own = phases(r#"{"user": "mine"}"#);
        let name = |port, role, phase| policy.configuration(port, role, phase).map(Word::as_str);
        assert_eq!(name(&none, Some("db"), PortPhase::User), Some("db"));
        assert_eq!(name(&own, Some("db"), PortPhase::User), Some("mine"));
        assert_eq!(name(&none, Some("web"), PortPhase::User), None, "nothing stands in for it");
        assert_eq!(name(&none, Some("db"), PortPhase::Rescue), Some("help"));
        assert_eq!(name(&none, None, PortPhase::Rescue), Some("boot"));
        assert_eq!(name(&none, None, PortPhase::Inspection), Some("boot"));
        let bare = PortPolicy { all: phases(r#"{"idle": "idle"}"#), ..PortPolicy::default() };
        let cleaning = bare.configuration(&none, None, PortPhase::Cleaning);
        assert_eq!(cleaning.map(Word::as_str), Some("idle"));
    }
}
