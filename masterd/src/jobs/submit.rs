//! Core: what a submission must be to be taken.

use model::error::{ErrorCode, Exception, ExceptionKind};
use model::opcode::OpInput;
use model::opcode::common::{DependsOn, ReasonEntry, SUBMIT_PRIORITIES};
use model::{JobId, Timestamp};

use super::{JOBS_PER_SUBMISSION_MAX, OPS_PER_JOB_MAX, SUBMISSION_BYTES_MAX};

/// Checks what must hold for the whole submission; one wrong opcode refuses all of it.
///
/// # Errors
/// No jobs, too many of them, a job without opcodes or with too many, or a priority that a
/// submission may not carry.
pub fn check(jobs: &[Vec<OpInput>]) -> Result<(), Exception> {
    let refuse = |message: String| Err(Exception::prereq(message, ErrorCode::WrongInput));
    if jobs.len() > JOBS_PER_SUBMISSION_MAX {
        return refuse(format!(
            "{} jobs in one submission; at most {JOBS_PER_SUBMISSION_MAX} are taken",
            jobs.len()
        ));
    }
    for ops in jobs {
        if ops.is_empty() {
            return refuse("a job needs at least one opcode".to_owned());
        }
        if ops.len() > OPS_PER_JOB_MAX {
            return refuse(format!(
                "{} opcodes in one job; at most {OPS_PER_JOB_MAX} are taken",
                ops.len()
            ));
        }
        for op in ops {
            if !SUBMIT_PRIORITIES.contains(&op.common.priority) {
                return refuse(format!(
                    "priority {} of {}; a submission may carry -10, 0 or 10",
                    op.common.priority,
                    op.op.id()
                ));
            }
        }
    }
    let bytes = stored_bytes(jobs);
    if bytes > SUBMISSION_BYTES_MAX {
        return refuse(format!(
            "{bytes} bytes of opcodes in one submission; at most {SUBMISSION_BYTES_MAX} are taken"
        ));
    }
    Ok(())
}

/// Bytes that the opcodes take as they are stored. Few opcodes are small enough by the length of
/// the request that they came in, so that the usual submission is not written twice.
fn stored_bytes(jobs: &[Vec<OpInput>]) -> usize {
    const SURELY_SMALL: usize = 64;
    let ops = || jobs.iter().flatten();
    if ops().count() <= SURELY_SMALL {
        return 0;
    }
    let mut counted = Counter(0);
    for op in ops() {
        serde_json::to_writer(&mut counted, op).expect("an opcode has plain keys");
        counted.0 += OP_OVERHEAD;
    }
    counted.0
}

/// What a job's file holds of an opcode besides its parameters.
const OP_OVERHEAD: usize = 256;

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

/// Turns relative dependencies into job ids. `batch` holds the id of each earlier job of the
/// submission, or none where that one was refused.
///
/// # Errors
/// A dependency that leaves the submission, or that names a job not submitted before this one.
pub fn resolve_dependencies(
    ops: &mut [OpInput],
    batch: &[Option<JobId>],
    last: u64,
) -> Result<(), Exception> {
    let refuse = |message: String| Err(Exception::new(ExceptionKind::JobQueueError, message));
    for op in ops {
        for dependency in op.common.depends.iter_mut().flatten() {
            match dependency.0 {
                DependsOn::Job(id) if id.0 > last => {
                    return refuse(format!("cannot depend on job {id}: there is no such job yet"));
                }
                DependsOn::Job(_) => {}
                DependsOn::Back(n) => {
                    let place = usize::try_from(n).ok().and_then(|n| batch.len().checked_sub(n));
                    match place.and_then(|place| batch.get(place)) {
                        Some(Some(id)) => dependency.0 = DependsOn::Job(*id),
                        Some(None) => {
                            return refuse(format!("depends on job -{n}, which was refused"));
                        }
                        None => {
                            return refuse(format!(
                                "relative job id -{n} leaves the submission; only jobs submitted \
                                 together can be named so"
                            ));
                        }
                    }
                }
            }
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

    fn op(extra: &str) -> OpInput {
        let text = format!(r#"{{"OP_ID":"OP_TEST_DELAY","duration":0{extra}}}"#);
        OpInput::parse(&text).unwrap()
    }

    #[test]
    fn priorities_are_three() {
        assert!(check(&[vec![op(r#","priority":-10"#)]]).is_ok());
        for bad in [-20, -1, 5, 19] {
            let jobs = [vec![op("")], vec![op(&format!(r#","priority":{bad}"#))]];
            assert!(check(&jobs).is_err(), "{bad}");
        }
        assert!(check(&[vec![]]).is_err());
    }

    #[test]
    fn relative_ids_stay_in_the_batch() {
        let batch = [Some(JobId(7)), None, Some(JobId(8))];
        let mut ops = [op(r#","depends":[[-1,["success"]],[-3,[]],[2,[]]]"#)];
        resolve_dependencies(&mut ops, &batch, 8).unwrap();
        let ids: Vec<_> = ops[0].common.depends.iter().flatten().map(|d| d.0).collect();
        assert_eq!(ids, [8, 7, 2].map(|id| DependsOn::Job(JobId(id))));
        for bad in ["-2", "-4", "9", "-9000000000"] {
            let mut ops = [op(&format!(r#","depends":[[{bad},[]]]"#))];
            assert!(resolve_dependencies(&mut ops, &batch, 8).is_err(), "{bad}");
        }
        assert!(resolve_dependencies(&mut [op(r#","depends":[[-1,[]]]"#)], &[], 8).is_err());
    }
}
