//! Core: what a submission must be to be taken.

use std::sync::Arc;

use model::audit::Asker;
use model::error::{ErrorCode, Exception, ExceptionKind};
use model::job::RequestId;
use model::opcode::OpInput;
use model::opcode::common::{DependsOn, ReasonEntry, SUBMIT_PRIORITIES};
use model::{Job, JobId, Timestamp};

use crate::limits::{JOBS_PER_SUBMISSION_MAX, JobBytes, OPS_PER_JOB_MAX};

/// The opcodes of one job that keep every limit; see [`check`].
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    pub(crate) ops: Vec<OpInput>,
    pub(crate) bytes: usize,
    pub(crate) submitter: Option<u32>,
    pub(crate) asker: Option<Arc<Asker>>,
    pub(crate) request: Option<RequestId>,
}

impl Submission {
    /// The job as one of a client's: the user, and what its request is known by if it is sent
    /// again.
    pub fn sent_by(
        mut self,
        (uid, asker): (u32, Option<Arc<Asker>>),
        request: Option<RequestId>,
    ) -> Self {
        self.submitter = Some(uid);
        self.asker = asker;
        self.request = request;
        self
    }
}

/// Checks what must hold for the whole submission; one wrong opcode refuses all of it.
///
/// # Errors
/// There are too many jobs, a job has too many or too large opcodes, or a number is outside its range.
/// Or a priority is not allowed in a submission, or a dependency names a status with which no job ends.
pub fn check(jobs: Vec<Vec<OpInput>>, limits: JobBytes) -> Result<Vec<Submission>, Exception> {
    if jobs.len() > JOBS_PER_SUBMISSION_MAX {
        return Err(refused(format!(
            "{} jobs in one submission; at most {JOBS_PER_SUBMISSION_MAX} are taken",
            jobs.len()
        )));
    }
    jobs.into_iter().map(|ops| check_job(ops, limits)).collect()
}

fn check_job(ops: Vec<OpInput>, limits: JobBytes) -> Result<Submission, Exception> {
    if ops.len() > OPS_PER_JOB_MAX {
        return Err(refused(format!(
            "{} opcodes in one job; at most {OPS_PER_JOB_MAX} are taken",
            ops.len()
        )));
    }
    for op in &ops {
        let statuses = op.common.depends.iter().flatten().flat_map(|dependency| &dependency.1);
        if let Some(status) = statuses.into_iter().find(|status| !status.is_final()) {
            return Err(refused(format!(
                "depends: no job ends as {status}; use success, error or canceled"
            )));
        }
        if !SUBMIT_PRIORITIES.contains(&op.common.priority) {
            return Err(refused(format!(
                "priority {} of {}; a submission may carry -10, 0 or 10",
                op.common.priority,
                op.op.id()
            )));
        }
        op.check_ranges().map_err(|wrong| refused(format!("{}: {wrong}", op.op.id())))?;
    }
    let bytes = JOB_BYTES + ops.iter().map(|op| json_bytes(op) + OP_BYTES).sum::<usize>();
    if bytes > limits.accepted {
        return Err(refused(format!(
            "a job of {bytes} bytes, as it is stored; at most {} are taken",
            limits.accepted
        )));
    }
    Ok(Submission { ops, bytes, submitter: None, asker: None, request: None })
}

fn refused(message: String) -> Exception {
    Exception::prereq(message, ErrorCode::WrongInput)
}

/// The bytes of a job's file besides its opcodes: id, times, submitter with name and place, request, and
/// the reason why one opcode failed.
const JOB_BYTES: usize = 1_536;
/// The bytes of an opcode in a job's file, besides its parameters, its log and its result. They cover
/// status, times, the queue's entry in the reason trail, what follows from another opcode's failure, and
/// the last entry of its log.
const OP_BYTES: usize = 448;

/// Bytes of a job's file, once it has ended; rather too many.
pub(super) fn stored_bytes(job: &Job) -> usize {
    json_bytes(job) + JOB_BYTES + job.ops.len() * OP_BYTES
}

pub(super) fn json_bytes(value: &impl serde::Serialize) -> usize {
    let mut counted = Counter(0);
    serde_json::to_writer(&mut counted, value).expect("it has plain keys and no failing parts");
    counted.0
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Turns relative dependencies into job ids. `batch` holds the id of each earlier job of the submission,
/// or none where that one was refused. A dependency that leaves the submission stays as it is: the job
/// fails when it would begin, as in Ganeti.
///
/// # Errors
/// A dependency on a job that was refused.
pub fn resolve_dependencies(ops: &mut [OpInput], batch: &[Option<JobId>]) -> Result<(), Exception> {
    for dependency in ops.iter_mut().flat_map(|op| op.common.depends.iter_mut().flatten()) {
        let DependsOn::Back(n) = dependency.0 else { continue };
        let place = usize::try_from(n).ok().and_then(|n| batch.len().checked_sub(n));
        match place.and_then(|place| batch.get(place)) {
            Some(Some(id)) => dependency.0 = DependsOn::Job(*id),
            Some(None) => {
                let why = format!("depends on job -{n}, which was refused");
                return Err(Exception::new(ExceptionKind::JobQueueError, why));
            }
            None => {}
        }
    }
    Ok(())
}

/// Adds the queue's own entry to the reason trail of each opcode, as Ganeti does.
pub fn add_reason(ops: &mut [OpInput], id: JobId, now: Timestamp) {
    for (index, op) in ops.iter_mut().enumerate() {
        let verb = op.op.id().trim_start_matches("OP_").to_ascii_lowercase();
        op.common.reason.push(ReasonEntry(
            format!("gnt:opcode:{verb}"),
            format!("job={id};index={index}"),
            now.micros().saturating_mul(1_000),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: JobBytes = JobBytes { accepted: 1 << 20, logged: 2 << 20, ended: 3 << 20 };

    fn op(extra: &str) -> OpInput {
        let text = format!(r#"{{"OP_ID":"OP_TEST_DELAY","duration":0{extra}}}"#);
        OpInput::parse(&text).unwrap()
    }

    #[test]
    fn priorities_are_three() {
        assert!(check(vec![vec![op(r#","priority":-10"#)]], LIMITS).is_ok());
        for bad in [-20, -1, 5, 19] {
            let jobs = vec![vec![op("")], vec![op(&format!(r#","priority":{bad}"#))]];
            assert!(check(jobs, LIMITS).is_err(), "{bad}");
        }
        assert!(check(vec![vec![]], LIMITS).is_ok());
    }

    #[test]
    fn a_number_that_cannot_be_meant_is_refused_with_its_range() {
        let op = |text: &str| OpInput::parse(text).unwrap();
        let jobs = |text| vec![vec![self::op("")], vec![self::op(""), op(text)]];
        for (text, why) in [
            (
                r#"{"OP_ID": "OP_CLUSTER_SET_PARAMS", "candidate_pool_size": 1000000}"#,
                "OP_CLUSTER_SET_PARAMS: candidate_pool_size is 1000000; it must be 1 to 64",
            ),
            (
                r#"{"OP_ID": "OP_TEST_DELAY", "duration": 1e308}"#,
                "OP_TEST_DELAY: duration is 1e308; it must be 0 to 86,400",
            ),
        ] {
            assert_eq!(check(jobs(text), LIMITS).unwrap_err().message(), why);
        }
    }

    #[test]
    fn a_job_is_accepted_up_to_half_of_a_commit() {
        let limits = JobBytes::within(10_000);
        let with = |bytes: usize| vec![vec![op(&format!(r#","comment":"{}""#, "x".repeat(bytes)))]];
        assert!(check(with(2_500), limits).is_ok());
        let refusal = check(with(4_500), limits).unwrap_err().to_string();
        assert!(refusal.contains(&limits.accepted.to_string()), "{refusal}");
    }

    #[test]
    fn relative_ids_stay_in_the_batch() {
        let batch = [Some(JobId(7)), None, Some(JobId(8))];
        let mut ops = [op(r#","depends":[[-1,["success"]],[-3,[]],[2,[]]]"#)];
        resolve_dependencies(&mut ops, &batch).unwrap();
        let ids: Vec<_> = ops[0].common.depends.iter().flatten().map(|d| d.0).collect();
        assert_eq!(ids, [8, 7, 2].map(|id| DependsOn::Job(JobId(id))));
        assert!(resolve_dependencies(&mut [op(r#","depends":[[-2,[]]]"#)], &batch).is_err());
        for stays in ["-4", "9", "-9000000000"] {
            let before = [op(&format!(r#","depends":[[{stays},[]]]"#))];
            let mut ops = before.clone();
            resolve_dependencies(&mut ops, &batch).unwrap();
            assert_eq!(ops, before);
        }
    }

    #[test]
    fn a_status_with_which_no_job_ends_is_refused() {
        for (status, taken) in [("success", true), ("running", false), ("canceling", false)] {
            let jobs = vec![vec![op(&format!(r#","depends":[[1,["error","{status}"]]]"#))]];
            assert_eq!(check(jobs, LIMITS).is_ok(), taken, "{status}");
        }
    }
}
