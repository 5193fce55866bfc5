//! Core: arguments and results that have a shape of their own on the wire.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use model::job::LogEntry;
use model::{JobId, Secret};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use super::Row;
use crate::limits::FIELDS_MAX;

model::words! {
    /// The kinds of objects that can be listed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    What {
        /// Hosts of the cluster.
        Node = "node",
        /// Virtual machines.
        Instance = "instance",
        /// Node groups.
        Group = "group",
        /// Jobs of the queue.
        Job = "job",
        /// Locks that are held or waited for.
        Lock = "lock",
        Network = "network",
        /// Exports of instances.
        Export = "export",
        /// Filter rules of the queue.
        Filter = "filter",
        /// Bare-metal servers of the inventory.
        Machine = "machine",
        /// Operating systems that machines boot.
        Image = "image",
        /// Files that machines fetch by name.
        Asset = "asset",
        /// Racks, how they stand.
        Rack = "rack",
        Lease = "lease",
        /// Machines that were seen in a rack and are not registered.
        Unregistered = "unregistered",
        /// Claims on addresses of networks.
        Claim = "claim",
        /// Templates of hosts' networks.
        #[serde(rename = "network-template")]
        NetworkTemplate = "network-template",
        /// Templates of what machines boot with.
        #[serde(rename = "boot-template")]
        BootTemplate = "boot-template",
        /// Switches.
        Switch = "switch",
        /// Ports of switches.
        Port = "port",
        /// Configurations of ports.
        #[serde(rename = "port-configuration")]
        PortConfiguration = "port-configuration",
        /// Tenants.
        Tenant = "tenant",
        /// Tokens of the front door.
        Token = "token",
    }
}

impl What {
    /// Whether Ganeti's own clients list such objects.
    pub const fn is_ganetis(self) -> bool {
        use What::{Export, Filter, Group, Instance, Job, Lock, Network, Node};
        matches!(self, Node | Instance | Group | Job | Lock | Network | Export | Filter)
    }
}

/// Names of fields, at most [`FIELDS_MAX`]: each costs a value in every row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Fields(Vec<String>);

impl Deref for Fields {
    type Target = [String];
    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl<T: Into<String>> FromIterator<T> for Fields {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<String>, const N: usize> From<[T; N]> for Fields {
    fn from(names: [T; N]) -> Self {
        names.into_iter().collect()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of field names")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Fields, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    if names.len() == FIELDS_MAX {
                        let told = format_args!("more than {FIELDS_MAX} fields");
                        return Err(de::Error::custom(told));
                    }
                    names.push(name);
                }
                Ok(Fields(names))
            }
        }
        deserializer.deserialize_seq(Names)
    }
}

/// A piece of what a console said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct ConsolePiece {
    /// The place of its first byte among all that the console ever said.
    pub offset: u64,
    /// Its bytes, in Base64 (RFC 4648); none where nothing was said.
    pub data: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct ExportPiece {
    /// Its bytes, in Base64 (RFC 4648).
    pub data: String,
    /// Whether it has to be asked for the next piece. The last one has no bytes.
    pub more: bool,
}

/// The outcome of one job of a `SubmitManyJobs`; on the wire `[true, id]` or `[false, message]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    /// It is queued.
    Accepted(JobId),
    /// It is not, and why.
    Refused(String),
}

impl Serialize for Submission {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Accepted(id) => (true, id).serialize(serializer),
            Self::Refused(why) => (false, why).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Submission {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (accepted, rest) = <(bool, serde_json::Value)>::deserialize(deserializer)?;
        if accepted {
            return JobId::deserialize(rest).map(Self::Accepted).map_err(de::Error::custom);
        }
        String::deserialize(rest).map(Self::Refused).map_err(de::Error::custom)
    }
}

/// The result of `WaitForJobChange`; on the wire `[[values], [log entries]]` or `"nochange"`.
#[derive(Debug, Clone, PartialEq)]
pub enum JobChange {
    /// Nothing, until the time was over.
    Unchanged,
    /// The observed fields as they are now, and the log entries that are new.
    Changed(Row, Vec<Arc<LogEntry>>),
}

/// Ganeti's word for [`JobChange::Unchanged`].
const NO_CHANGE: &str = "nochange";

impl Serialize for JobChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unchanged => NO_CHANGE.serialize(serializer),
            Self::Changed(values, log) => (values, log).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for JobChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Change;
        impl<'de> Visitor<'de> for Change {
            type Value = JobChange;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "`{NO_CHANGE}`, or field values and log entries")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<JobChange, E> {
                if text == NO_CHANGE {
                    Ok(JobChange::Unchanged)
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(text), &self))
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<JobChange, A::Error> {
                let short = |n| de::Error::invalid_length(n, &"field values and log entries");
                let values = pair.next_element()?.ok_or_else(|| short(0))?;
                let log = pair.next_element()?.ok_or_else(|| short(1))?;
                Ok(JobChange::Changed(values, log))
            }
        }
        deserializer.deserialize_any(Change)
    }
}

/// A secret on its way through the socket, the only way that it travels. It never prints.
#[derive(Clone, PartialEq, Eq)]
pub struct StagedSecret(pub Secret<String>);

impl fmt::Debug for StagedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for StagedSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.expose().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StagedSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = StagedSecret;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<StagedSecret, E> {
                Ok(StagedSecret(Secret::new(text.to_owned())))
            }
        }
        // The usual message of a wrong type repeats the value; a number is no secret, though.
        deserializer.deserialize_str(Text)
    }
}
