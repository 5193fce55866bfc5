//! Core: the parameters that every opcode has.

use serde::{Deserialize, Deserializer, Serialize};

use crate::job_id::JobId;
use crate::status::JobStatus;

/// Urgent, usual and patient: the only priorities that a submission may carry.
pub const SUBMIT_PRIORITIES: [i32; 3] = [-10, 0, 10];

/// The parameters that every opcode has.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Common {
    /// Check only, change nothing.
    pub dry_run: bool,
    /// Unused; clients send it; 0 to 1,000.
    pub debug_level: i64,
    /// −10, 0 or 10 at submission.
    pub priority: i32,
    /// Jobs that must end first.
    pub depends: Option<Vec<Dependency>>,
    /// Free text of the submitter.
    pub comment: Option<String>,
    /// The requesters and their reasons, oldest first.
    pub reason: Vec<ReasonEntry>,
    /// Documents that must be what somebody saw when the change is made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<Unchanged>,
}

/// Documents of one opcode that must not have changed: a change is about one object, or a few.
pub const UNCHANGED_MAX: usize = 16;
/// The message about a changed document, by which clients know it.
pub const CHANGED_MEANWHILE: &str =
    "was changed since you looked at it; look at it again, and decide anew";

/// A document of the configuration and its digest; null where there was none. On the wire a list of two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unchanged(
    /// Its key, such as `machines/SERIAL`.
    pub String,
    /// Its digest, as the method `GantryDigest` tells it.
    pub Option<String>,
);

impl Common {
    /// Whether a reason of the submitter tells this opcode from every other of its kind: an entry
    /// with the nanosecond at which it was asked for.
    pub fn is_stamped(&self) -> bool {
        self.reason.iter().any(|entry| entry.2 > 0)
    }
}

/// Source, text and nanoseconds since the epoch; on the wire a list of three.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonEntry(
    /// The program that wrote the entry, as `gnt:client`.
    pub String,
    /// What it says.
    pub String,
    /// Nanoseconds since the epoch.
    pub i64,
);

/// A job that must end first; on the wire `[job id, [statuses]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency(
    /// Which job.
    pub DependsOn,
    /// The final statuses that are good enough; none means any.
    #[serde(deserialize_with = "ends")]
    pub Vec<JobStatus>,
);

/// Reads statuses; an error names only those with which jobs end.
fn ends<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<JobStatus>, D::Error> {
    struct End(JobStatus);
    impl<'de> Deserialize<'de> for End {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let wanted = "expected `success`, `error` or `canceled`";
            JobStatus::deserialize(deserializer)
                .map(Self)
                .map_err(|_error| serde::de::Error::custom(wanted))
        }
    }
    let ends = Vec::<End>::deserialize(deserializer)?;
    Ok(ends.into_iter().map(|End(status)| status).collect())
}

/// The job of a [`Dependency`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependsOn {
    /// A job of the queue.
    Job(JobId),
    /// Counted back from this job within the same submission: 1 is the one before.
    Back(u64),
}

impl Serialize for DependsOn {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Job(id) => id.serialize(serializer),
            Self::Back(n) => (-i128::from(*n)).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for DependsOn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a job id: a whole number from 1, or a negative one counted back"
        )]
        enum Form {
            Number(i64),
            Id(JobId),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(n) if n < 0 => Ok(Self::Back(n.unsigned_abs())),
            Form::Number(0) => Err(serde::de::Error::custom("a job cannot depend on job 0")),
            Form::Number(n) => Ok(Self::Job(JobId(n.unsigned_abs()))),
            Form::Id(id) => Ok(Self::Job(id)),
        }
    }
}

/// How a parameter shows in a job's summary.
pub(super) trait Summary {
    fn text(&self) -> String;
}

/// Characters of a parameter that a summary shows: one line of a list.
const SUMMARY_CHARS_MAX: usize = 128;

pub(super) fn summary(value: &impl Summary) -> String {
    let text = value.text();
    match text.char_indices().nth(SUMMARY_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

impl Summary for String {
    fn text(&self) -> String {
        self.clone()
    }
}

impl Summary for Option<String> {
    fn text(&self) -> String {
        self.clone().unwrap_or_else(|| "None".to_owned())
    }
}

impl Summary for f64 {
    /// As Ganeti shows it: `1.0`, and `1e308` instead of 300 digits.
    fn text(&self) -> String {
        format!("{self:?}")
    }
}

impl Summary for Vec<u32> {
    fn text(&self) -> String {
        let words: Vec<String> = self.iter().map(u32::to_string).collect();
        if words.is_empty() { "all".to_owned() } else { words.join(",") }
    }
}

impl Summary for Vec<crate::switch::PortKey> {
    fn text(&self) -> String {
        match self.as_slice() {
            [one] => one.to_string(),
            many => format!("{} ports", many.len()),
        }
    }
}

impl Summary for Vec<crate::machine::MachineSpec> {
    fn text(&self) -> String {
        match self.as_slice() {
            [one] => one.serial.to_string(),
            many => format!("{} machines", many.len()),
        }
    }
}
