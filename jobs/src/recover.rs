//! Core: the fate of the jobs that a master finds when it takes the role (Ganeti's 2.0 design, "Job and
//! opcode status"). Queued jobs run, jobs that waited are queued anew, and jobs that ran have failed.

use std::sync::Arc;

use model::status::{OpEvent, OpStatus};
use model::{Exception, Job, Timestamp};

use super::state::{PRECEDING_FAILED, end_op};

/// Why an opcode that ran has failed.
pub const MASTER_ENDED: &str =
    "The master ended while this opcode was running; what it had done by then stays done";

/// The job as it goes on under a new master; `None` if it stays as it is.
pub fn recover(job: &Job, now: Timestamp) -> Option<Arc<Job>> {
    let place = job.current()?;
    let status = job.ops.get(place)?.status;
    let mut next = job.clone();
    match status {
        OpStatus::Queued | OpStatus::Canceled | OpStatus::Success | OpStatus::Error => return None,
        OpStatus::Waiting => {
            let op = next.ops.get_mut(place)?;
            op.status = op.status.next(OpEvent::Requeue).ok()?;
            op.start_timestamp = None;
        }
        OpStatus::Running | OpStatus::Canceling => {
            for (index, op) in next.ops.iter_mut().enumerate().skip(place) {
                let why = if index == place { MASTER_ENDED } else { PRECEDING_FAILED };
                end_op(op, OpEvent::Fail, Exception::exec(why).to_value(), now);
            }
            next.end_timestamp = Some(now);
        }
    }
    Some(Arc::new(next))
}

/// Why a job that had not ended when it was exported has failed.
pub const RESTORED: &str = "The cluster was restored from an export in which this job had not ended; \
                            whether it went on after that is not known";

/// The job with everything failed that had not ended when it was exported; `None` if all had.
pub fn give_up(job: &Job, now: Timestamp) -> Option<Job> {
    let place = job.current()?;
    let mut next = job.clone();
    for (index, op) in next.ops.iter_mut().enumerate().skip(place) {
        let why = if index == place { RESTORED } else { PRECEDING_FAILED };
        end_op(op, OpEvent::Fail, Exception::exec(why).to_value(), now);
    }
    next.end_timestamp = Some(now);
    Some(next)
}

#[cfg(test)]
mod tests {
    use model::opcode::Input;
    use model::{JobId, JobStatus, OpInput};

    use super::*;

    fn job(statuses: &[OpStatus]) -> Job {
        let input = OpInput::parse(r#"{"OP_ID":"OP_TEST_DELAY","duration":0}"#).unwrap();
        let input = Arc::new(Input::Known(Box::new(input)));
        let inputs = statuses.iter().map(|_| Arc::clone(&input));
        let mut job = Job::new(JobId(1), inputs, Timestamp::from_micros(1));
        for (op, &status) in job.ops.iter_mut().zip(statuses) {
            op.status = status;
        }
        job
    }

    #[test]
    fn what_had_not_ended_in_an_export_does_not_run_again() {
        use OpStatus::{Error, Queued, Running, Success, Waiting};
        let now = Timestamp::from_micros(9);
        for (before, after) in [
            (vec![Success, Error], None),
            (vec![Queued], Some(vec![Error])),
            (vec![Success, Waiting, Queued], Some(vec![Success, Error, Error])),
            (vec![Running], Some(vec![Error])),
        ] {
            let found = give_up(&job(&before), now);
            assert!(found.as_ref().is_none_or(|job| job.end_timestamp == Some(now)));
            let found = found.map(|job| job.ops.iter().map(|op| op.status).collect());
            assert_eq!(found, after, "{before:?}");
        }
    }

    #[test]
    fn each_status() {
        use OpStatus::{Canceled, Canceling, Error, Queued, Running, Success, Waiting};
        let now = Timestamp::from_micros(9);
        for (before, after) in [
            (vec![Queued], None),
            (vec![Success, Queued], None),
            (vec![Success], None),
            (vec![Canceled], None),
            (vec![Waiting, Queued], Some(vec![Queued, Queued])),
            (vec![Running], Some(vec![Error])),
            (vec![Success, Running, Queued], Some(vec![Success, Error, Error])),
            (vec![Canceling, Queued], Some(vec![Error, Error])),
        ] {
            let job = job(&before);
            let found = recover(&job, now).map(|j| j.ops.iter().map(|o| o.status).collect());
            assert_eq!(found, after, "{before:?}");
        }
        let failed = recover(&job(&[Success, Running, Queued]), now).unwrap();
        assert_eq!(failed.status(), JobStatus::Error);
        assert_eq!(failed.end_timestamp, Some(now));
        assert!(
            Exception::from_value(&failed.ops[1].result)
                .unwrap()
                .message()
                .contains("master ended")
        );
        assert!(failed.ops[0].result.is_null());
    }
}
