//! Core: the audit log: who asked for which change, from where, and what came of it.
//!
//! It is a query over jobs, over changes that are no jobs, and over refused requests. [`flood`] bounds
//! the latter.

pub mod flood;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::asker::{Asker, Interface};
use crate::job::{Job, Op};
use crate::job_id::JobId;
use crate::status::OpStatus;
use crate::time::Timestamp;

/// Entries of one answer: some megabytes. Earlier ones are asked for by their time.
pub const ENTRIES_MAX: u32 = 10_000;
/// Bytes of a text in an entry. Names have fewer; a reason is one sentence.
pub const TEXT_BYTES_MAX: usize = 400;

crate::words! {
    /// The outcome of a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Outcome {
        /// It has not ended.
        Running = "running",
        /// It was done.
        Success = "success",
        /// It failed.
        Error = "error",
        Canceled = "canceled",
        /// The asker may not do it.
        Refused = "refused",
    }
}

impl From<OpStatus> for Outcome {
    fn from(status: OpStatus) -> Self {
        match status {
            OpStatus::Success => Self::Success,
            OpStatus::Error => Self::Error,
            OpStatus::Canceled => Self::Canceled,
            OpStatus::Queued | OpStatus::Waiting | OpStatus::Canceling | OpStatus::Running => {
                Self::Running
            }
        }
    }
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// When it was asked for.
    pub time: Timestamp,
    /// The asker, and the way by which it came.
    #[serde(flatten)]
    pub asker: Asker,
    /// The opcode, the method of LUXI, or the method of HTTP.
    pub action: String,
    /// The object of the request; empty where that is the cluster.
    #[serde(default)]
    pub object: String,
    pub result: Outcome,
    /// The job that carries it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The code of its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why it failed or was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How often the same was asked, of which this is the last time.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u64,
}

const fn once() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_once(times: &u64) -> bool {
    *times == 1
}

impl AuditEntry {
    /// A change that the cluster was asked for.
    pub fn new(time: Timestamp, asker: Asker, action: &str, object: &str, result: Outcome) -> Self {
        let (action, object) = (shortened(action), shortened(object));
        Self { time, asker, action, object, result, job: None, code: None, reason: None, times: 1 }
    }

    /// The same with the reason for its end.
    pub fn because(self, code: Option<&str>, reason: &str) -> Self {
        let code = code.map(shortened);
        Self { code, reason: Some(shortened(reason)), ..self }
    }
}

/// As much of a text as an entry has room for.
fn shortened(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// The entries of a job: one for each opcode. `name` gives the name of a user by its number, for jobs of
/// versions that did not keep it.
pub fn of_job<'a>(
    job: &'a Job,
    name: impl Fn(u32) -> Arc<str>,
) -> impl Iterator<Item = AuditEntry> + 'a {
    let asker = asker_of(job, name);
    let time = job.received_timestamp.unwrap_or_default();
    job.ops.iter().map(move |op| of_op(op, (time, job.id), asker.clone()))
}

fn asker_of(job: &Job, name: impl Fn(u32) -> Arc<str>) -> Asker {
    if let Some(asker) = &job.asker {
        return asker.as_ref().clone();
    }
    match job.submitter {
        Some(uid) => {
            let (user, interface) = (name(uid), Interface::Luxi);
            Asker { user, interface, host: None, address: None, tenant: None }
        }
        None => Asker::cluster(),
    }
}

fn of_op(op: &Op, (time, job): (Timestamp, JobId), asker: Asker) -> AuditEntry {
    let summary = op.input.summary();
    let object = summary.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
    let id = op.input.known().map_or("INVALID_OP", |input| input.op.id());
    let entry = AuditEntry::new(time, asker, id, object, op.status.into());
    let entry = AuditEntry { job: Some(job), ..entry };
    if entry.result != Outcome::Error {
        return entry;
    }
    let why = op.result.get(1).and_then(|arguments| arguments.get(0)?.as_str());
    entry.because(op.code.map(crate::Code::word), why.unwrap_or_default())
}

/// Which entries are wanted; what is none or false asks for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditFilter {
    /// Not before this moment.
    pub since: Option<Timestamp>,
    /// Before this one.
    pub until: Option<Timestamp>,
    pub user: Option<String>,
    pub job: Option<JobId>,
    /// On this object, or one whose name begins with this and a dot. Some entries name more beside it,
    /// such as what a machine was deployed for, or which key of its disks.
    pub object: Option<String>,
    /// Refused ones alone.
    pub refused: bool,
}

impl AuditFilter {
    /// Whether something of this moment may be wanted.
    pub fn is_within(&self, time: Timestamp) -> bool {
        self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time < until)
    }

    /// Whether an entry is wanted.
    pub fn takes(&self, entry: &AuditEntry) -> bool {
        let begins = |object: &str, wanted: &str| {
            let rest = object.strip_prefix(wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let is_named = |wanted: &str| {
            let mut words = entry.object.split([',', ';', ' ']);
            begins(&entry.object, wanted) || words.any(|word| begins(word, wanted))
        };
        self.is_within(entry.time)
            && self.user.as_ref().is_none_or(|user| **user == *entry.asker.user)
            && self.job.is_none_or(|job| entry.job == Some(job))
            && self.object.as_deref().is_none_or(is_named)
            && (!self.refused || entry.result == Outcome::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::{Input, OpInput};

    fn job(text: &str) -> Job {
        let input = Arc::new(Input::Known(Box::new(OpInput::parse(text).unwrap())));
        Job::new(JobId(7), [input], Timestamp::from_micros(5_000_000))
    }

    #[test]
    fn a_job_has_an_entry_for_each_opcode() {
        let mut job = job(r#"{"OP_ID": "OP_NODE_REMOVE", "node_name": "n2.example"}"#);
        job.ops[0].status = OpStatus::Error;
        job.ops[0].result = serde_json::json!(["OpPrereqError", ["no such node", "x"]]);
        job.ops[0].code = Some(crate::Code::Agent);
        let one = |job: &Job| of_job(job, |uid| format!("user{uid}").into()).next().unwrap();
        assert_eq!(one(&job).asker, Asker::cluster());
        job.submitter = Some(5);
        assert_eq!(one(&job).asker.user.as_ref(), "user5");
        let address = "192.0.2.7".parse().ok();
        let interface = Interface::Rest;
        let asker = Asker { user: "alice".into(), interface, host: None, address, tenant: None };
        job.asker = Some(Arc::new(asker.clone()));
        let entry = one(&job);
        assert_eq!((&entry.asker, entry.job), (&asker, Some(JobId(7))));
        assert_eq!(
            (entry.action.as_str(), entry.object.as_str()),
            ("OP_NODE_REMOVE", "n2.example")
        );
        assert_eq!((entry.result, entry.reason.as_deref()), (Outcome::Error, Some("no such node")));
        assert_eq!(entry.code.as_deref(), Some("agent"));
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<AuditEntry>(&text).unwrap(), entry);
        assert!(!text.contains("times"), "{text}");
    }

    #[test]
    fn a_filter_takes_what_fits_all_of_it() {
        let time = Timestamp::from_micros(5_000_000);
        let entry = |object| {
            AuditEntry::new(time, Asker::cluster(), "OP_NODE_REMOVE", object, Outcome::Success)
        };
        let one = entry("n2.example");
        let all = AuditFilter::default();
        assert!(all.takes(&one));
        let object = |name: &str| AuditFilter { object: Some(name.to_owned()), ..all.clone() };
        for (name, fits) in [("n2", true), ("n2.example", true), ("n", false), ("n2.exam", false)] {
            assert_eq!(object(name).takes(&one), fits, "{name}");
        }
        for (told, fits) in
            [("deploy,S7", true), ("nothing; key of disk d1 of S7", true), ("S70", false)]
        {
            assert_eq!(object("S7").takes(&entry(told)), fits, "{told}");
        }
        for (filter, fits) in [
            (AuditFilter { since: Some(time), ..all.clone() }, true),
            (AuditFilter { since: Some(time.plus_seconds(1)), ..all.clone() }, false),
            (AuditFilter { until: Some(time), ..all.clone() }, false),
            (AuditFilter { until: Some(time.plus_seconds(1)), ..all.clone() }, true),
            (AuditFilter { user: Some("cluster".to_owned()), ..all.clone() }, true),
            (AuditFilter { user: Some("clu".to_owned()), ..all.clone() }, false),
            (AuditFilter { job: Some(JobId(1)), ..all.clone() }, false),
            (AuditFilter { refused: true, ..all.clone() }, false),
        ] {
            assert_eq!(filter.takes(&one), fits, "{filter:?}");
        }
        let long = entry(&"é".repeat(TEXT_BYTES_MAX));
        assert_eq!(long.object.len(), TEXT_BYTES_MAX);
    }
}
