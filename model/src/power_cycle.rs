//! Core: the time since a machine's power was switched last. A report of a machine belongs to one power
//! cycle: reports from an earlier one say nothing about what runs on it now.

mod machine_token;

use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::enrol::base32;
use crate::job_id::JobId;
use crate::name::NodeName;
use crate::secret::Secret;
use crate::serial::Serial;
use crate::time::Timestamp;
use crate::vault::Sealed;
pub use machine_token::{MachineToken, Unusable};

/// The document `power-cycles/SERIAL`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerCycle {
    /// The machine.
    pub serial: Serial,
    /// Its rack, whose agents know of it.
    pub rack: u32,
    /// From 1, one more with each.
    pub number: u64,
    /// When a job switched the power, or prepared a boot that somebody else begins.
    pub began: Timestamp,
    /// The token of its ramdisk, for [`Self::purpose`].
    pub sealed: Sealed,
    /// The ramdisk that looked itself up since then.
    #[serde(default, skip_serializing_if = "Ramdisk::is_unheard")]
    pub ramdisk: Ramdisk,
    /// The job that is to switch the machine on and has not done so yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches_on: Option<JobId>,
    /// Since when it has been left off by a job that had ended; later jobs that fail to switch it on do not
    /// begin that anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_off: Option<Timestamp>,
    /// How its system becomes a node, where that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<CycleEnrolment>,
}

/// Seconds for which the token of a machine lets it become a node. Half an hour each is for preparing
/// the machine and for its boot, and as much again for jobs that wait.
pub const ENROLMENT_SECONDS: i64 = 2 * 3_600;

/// The enrolment that a power cycle is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CycleEnrolment {
    /// When the machine became a node by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Timestamp>,
}

impl PowerCycle {
    /// Whether its token can still make a node of the machine.
    ///
    /// # Errors
    /// It cannot, and why.
    pub fn may_enrol(&self, now: Timestamp) -> Result<(), Unusable> {
        let enrolment = self.enrolment.ok_or(Unusable::Unexpected)?;
        let age = now.seconds().saturating_sub(self.began.seconds());
        match enrolment.used {
            Some(_) => Err(Unusable::Used),
            None if age > ENROLMENT_SECONDS => Err(Unusable::Late),
            None => Ok(()),
        }
    }

    /// The purpose for which the token is sealed, so that it opens for no other machine.
    pub fn purpose(serial: &Serial) -> String {
        format!("ramdisk/{}", serial.escaped())
    }
}

/// The ramdisk of one power cycle, as far as it was heard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ramdisk {
    /// When the machine fetched its boot script last, by an order that no clock upsets: what was told before
    /// is of a ramdisk that runs no longer. Its token is made of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted: Option<Timestamp>,
    /// When its token was told, which happens once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_told: Option<Timestamp>,
    /// The agent of the rack that told it, where it had to ask others whether they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_by: Option<NodeName>,
    /// Its agent, once that sent a heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<RamdiskAgent>,
    /// The client that fetched the token by which the machine becomes a node: nobody else is told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolling: Option<Enrolling>,
}

/// The client that was told the token by which a machine becomes a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Enrolling {
    /// When first.
    pub told: Timestamp,
    /// The address that asked.
    pub to: IpAddr,
}

impl Ramdisk {
    /// Whether nothing came from it.
    pub fn is_unheard(&self) -> bool {
        *self == Self::default()
    }
}

/// An agent in a ramdisk, as its heartbeats tell (Ironic's API of ramdisk agents).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RamdiskAgent {
    /// The URL at which it takes commands; it stays for the power cycle.
    pub callback_url: String,
    /// Its version; empty where it told none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The certificate that it shows there, PEM; it stays, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_ca: Option<String>,
    /// The status that it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<AgentStatus>,
    /// Its message about that status.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status_message: String,
    /// When it was heard last, to within a few minutes.
    pub heard: Timestamp,
}

crate::words! {
    /// The status that an agent reports (Ironic's `agent_status`, version 1.72).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    AgentStatus {
        /// It began.
        Start = "start",
        /// It is done.
        End = "end",
        /// It failed.
        Error = "error",
    }
}

/// The prefix of the bytes that are digested into the token of a boot.
const BOOT: &[u8] = b"gantry: a ramdisk of one boot\0";

/// The token with which a ramdisk shows that it is the one that looked itself up first. Agents of the rack
/// need it as it is; nothing else shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RamdiskToken(Secret<String>);

impl RamdiskToken {
    /// A token of this text.
    pub const fn new(text: String) -> Self {
        Self(Secret::new(text))
    }

    /// The text; the caller answers for where it goes.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The token of one boot, made of the secret of its power cycle. Each boot has another one, which tells its
    /// ramdisk from one of an earlier boot. The token is the secret itself where nobody saw a boot.
    pub fn of_boot(&self, booted: Option<Timestamp>) -> Self {
        let Some(booted) = booted else { return self.clone() };
        let micros = booted.micros();
        let digest = Sha256::new().chain_update(BOOT).chain_update(micros.to_be_bytes());
        let digest: [u8; 32] = digest.chain_update(self.expose()).finalize().into();
        Self::new(format!("{micros}-{}", base32::encode(&digest)))
    }

    /// The boot that a token is of, by this secret. Nothing if the secret made no such token.
    pub fn boot_of(&self, text: &Self) -> Option<Option<Timestamp>> {
        let micros = text.expose().rsplit_once('-').and_then(|(micros, _)| micros.parse().ok());
        let booted = micros.map(Timestamp::from_micros);
        [None, booted].into_iter().find(|booted| {
            let wanted = self.of_boot(*booted);
            !wanted.expose().is_empty()
                && bool::from(wanted.expose().as_bytes().ct_eq(text.expose().as_bytes()))
        })
    }
}

impl Serialize for RamdiskToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.expose().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RamdiskToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// A ramdisk that is expected, as the agents of its rack need to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedRamdisk {
    /// The secret of the tokens that its boots are told, each once.
    pub token: RamdiskToken,
    /// Whether the machine boots a ramdisk; else a system, which need not call as one.
    #[serde(default)]
    pub boots: bool,
    /// The token that its system is told, where that is to become a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrols: Option<MachineToken>,
    /// Its ramdisk, as far as it was heard.
    #[serde(default, skip_serializing_if = "Ramdisk::is_unheard")]
    pub heard: Ramdisk,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_boot_has_a_token_of_its_own() {
        let secret = RamdiskToken::new("c2VjcmV0LW9m-a_cycle".to_owned());
        let other = RamdiskToken::new("b3RoZXI".to_owned());
        let boots = [None, Some(7), Some(-7), Some(1_700_000_000_000_000)];
        let boots = boots.map(|micros| micros.map(Timestamp::from_micros));
        for booted in boots {
            let token = secret.of_boot(booted);
            assert_eq!(secret.boot_of(&token), Some(booted));
            assert_eq!(other.boot_of(&token), None);
            let same = boots.iter().filter(|boot| secret.of_boot(**boot) == token);
            assert_eq!(same.count(), 1);
            let cut = RamdiskToken::new(token.expose().split_at(3).1.to_owned());
            assert_eq!(secret.boot_of(&cut), None);
        }
        let empty = RamdiskToken::new(String::new());
        assert_eq!((empty.boot_of(&empty), secret.boot_of(&empty)), (None, None));
        assert_eq!(secret.boot_of(&RamdiskToken::new("7-AAAA".to_owned())), None);
    }

    #[test]
    fn a_token_works_once_and_not_for_ever() {
        let began = Timestamp::from_micros(1_000_000_000);
        let mut cycle = PowerCycle {
            serial: "s1".parse().unwrap(),
            rack: 0,
            number: 1,
            began,
            sealed: serde_json::from_value("1:AQID".into()).unwrap(),
            ramdisk: Ramdisk::default(),
            switches_on: None,
            left_off: None,
            enrolment: None,
        };
        let last = began.plus_seconds(ENROLMENT_SECONDS);
        assert_eq!(cycle.may_enrol(began), Err(Unusable::Unexpected));
        cycle.enrolment = Some(CycleEnrolment::default());
        assert_eq!(cycle.may_enrol(last), Ok(()));
        assert_eq!(cycle.may_enrol(last.plus_seconds(1)), Err(Unusable::Late));
        cycle.enrolment = Some(CycleEnrolment { used: Some(began) });
        assert_eq!(cycle.may_enrol(began), Err(Unusable::Used));
    }
}
