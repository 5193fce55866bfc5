//! Core: a job as the queue keeps it, in the JSON of Ganeti's job files.
//!
//! [`wait`] says why one does not go on, [`request`] which request brought it.

pub mod request;
pub mod wait;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use request::{RequestDigest, RequestId};
pub use wait::Wait;

use crate::Word;
use crate::asker::Asker;
use crate::code::{self, Code};
use crate::job_id::JobId;
use crate::opcode::Input;
use crate::status::{JobStatus, OpStatus};
use crate::time::Timestamp;

/// A job: a list of opcodes which run one after the other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Its opcodes. A job without any has ended well.
    pub ops: Vec<Op>,
    /// When it was accepted.
    pub received_timestamp: Option<Timestamp>,
    /// When its first opcode was begun.
    pub start_timestamp: Option<Timestamp>,
    /// When its last opcode ended.
    pub end_timestamp: Option<Timestamp>,
    /// The user (uid) who submitted it; none if the master did, or a version before this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitter: Option<u32>,
    /// The name and the origin of the submitter; none as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asker: Option<Arc<Asker>>,
    /// The id by which a request that is sent again is known; none if it could not be told from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
}

/// One opcode of a job, with what became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Op {
    /// The opcode and its parameters.
    pub input: Arc<Input>,
    /// Its state.
    pub status: OpStatus,
    /// Its result, or an encoded [`crate::Exception`]; null before its end.
    #[serde(default)]
    pub result: Value,
    /// The code of its failure, if an operator must act on that. Ganeti's clients see the result alone.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "code::known")]
    pub code: Option<Code>,
    /// Its messages on the way; serials count through the whole job.
    #[serde(default)]
    pub log: Vec<Arc<LogEntry>>,
    /// −20 (first) to 19 (last).
    #[serde(default)]
    pub priority: i32,
    /// When it began to wait for its locks.
    pub start_timestamp: Option<Timestamp>,
    /// When it had its locks.
    pub exec_timestamp: Option<Timestamp>,
    /// When it ended.
    pub end_timestamp: Option<Timestamp>,
}

/// One message of a running opcode; on the wire `[serial, [sec, usec], type, message]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogEntry(
    /// From 1, growing through the whole job.
    pub u64,
    /// When it was said.
    pub Timestamp,
    /// The type of the message.
    pub LogType,
    /// The message: text, or what its type asks for.
    pub Value,
);

/// The type of a log message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogType {
    /// Text for the operator.
    Message,
    /// Several lines of text.
    MessageList,
    /// Parameters of an import.
    RemoteImport,
    /// A hand-shake of `OP_TEST_JQUEUE`.
    JqueueTest,
    /// A hand-shake of `OP_TEST_DELAY`.
    DelayTest,
}

impl Job {
    /// The tenant as which it was submitted.
    pub fn tenant(&self) -> Option<&Word> {
        self.asker.as_ref()?.tenant.as_ref()
    }

    /// A job that was just accepted.
    pub fn new(id: JobId, inputs: impl IntoIterator<Item = Arc<Input>>, now: Timestamp) -> Self {
        let ops = inputs.into_iter().map(Op::new).collect();
        Self {
            id,
            ops,
            received_timestamp: Some(now),
            start_timestamp: None,
            end_timestamp: None,
            submitter: None,
            asker: None,
            request: None,
        }
    }

    /// Its status, derived from its opcodes.
    pub fn status(&self) -> JobStatus {
        JobStatus::of(self.ops.iter().map(|op| op.status))
    }

    /// Its priority: the most urgent of its unfinished opcodes; zero when all have ended.
    pub fn priority(&self) -> i32 {
        let unfinished = self.ops.iter().filter(|op| !op.status.is_final());
        unfinished.map(|op| op.priority).min().unwrap_or(0)
    }

    /// The opcode to run next, or running; `None` when all have ended.
    pub fn current(&self) -> Option<usize> {
        self.ops.iter().position(|op| !op.status.is_final())
    }

    /// Serial of the newest log entry, zero when there is none.
    pub fn log_serial(&self) -> u64 {
        self.ops.iter().filter_map(|op| op.log.last()).map(|entry| entry.0).max().unwrap_or(0)
    }
}

impl Op {
    fn new(input: Arc<Input>) -> Self {
        Self {
            priority: input.priority(),
            input,
            status: OpStatus::Queued,
            result: Value::Null,
            code: None,
            log: Vec::new(),
            start_timestamp: None,
            exec_timestamp: None,
            end_timestamp: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_file_of_ganeti_reads() {
        let text = r#"{"id": 7, "ops": [{"input": {"OP_ID": "OP_TEST_DELAY", "duration": 1.5,
            "on_master": true, "on_nodes": [], "on_node_uuids": null, "repeat": 0,
            "interruptible": false, "no_locks": true, "debug_level": 0, "priority": 0,
            "dry_run": false, "reason": [["gnt:client", "", 1700000000000000000]],
            "depends": null, "comment": null},
            "status": "success", "result": null, "log": [[1, [1700000001, 5], "message", "hi"]],
            "priority": 0, "start_timestamp": [1700000000, 0], "exec_timestamp": [1700000000, 1],
            "end_timestamp": [1700000002, 0]}],
            "received_timestamp": [1700000000, 0], "start_timestamp": [1700000000, 0],
            "end_timestamp": [1700000002, 0], "livelock": "/var/lib/ganeti/livelocks/x", "process_id": 5}"#;
        let job: Job = serde_json::from_str(text).unwrap();
        assert_eq!(job.status(), JobStatus::Success);
        assert_eq!(job.ops[0].input.summary(), "TEST_DELAY(1.5)");
        assert_eq!(job.log_serial(), 1);
        let again: Job = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(&job).unwrap());
    }

    #[test]
    fn an_unknown_opcode_stays_readable() {
        let text = r#"{"id":1,"ops":[{"input":{"OP_ID":"OP_FROM_THE_FUTURE","x":[1,2]},
            "status":"success","result":null,"log":[],"priority":0,"start_timestamp":null,
            "exec_timestamp":null,"end_timestamp":null}],"received_timestamp":null,
            "start_timestamp":null,"end_timestamp":null}"#;
        let job: Job = serde_json::from_str(text).unwrap();
        assert_eq!(job.ops[0].input.summary(), "INVALID_OP");
        assert!(
            serde_json::to_string(&job)
                .unwrap()
                .contains(r#"{"OP_ID":"OP_FROM_THE_FUTURE","x":[1,2]}"#)
        );
    }
}
