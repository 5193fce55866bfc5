//! Core: whether a job's file holds the job that it should. Files are read by whoever may write
//! them, so one may have been edited, copied or named by hand.

use model::{Job, JobId, OpStatus, document};

/// A file of a job that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    /// It is no job in JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It is the file of another job.
    #[error("it holds job {0}")]
    Id(JobId),
    /// It has ended and goes on.
    #[error("the job has ended, but its opcode {place} is `{status}`")]
    Contradiction {
        /// Which opcode, from 1.
        place: usize,
        status: OpStatus,
    },
}

/// Which job a key is that of, live or archived; none if it is no job's, as `queue/job-5.bak`.
pub fn job_of(key: &str) -> Option<JobId> {
    let (_directory, number) = key.rsplit_once("/job-")?;
    let id = number.parse().ok()?;
    (key == document::job(id) || key == document::archived_job(id)).then_some(id)
}

/// The job `id` from the content of its file.
///
/// # Errors
/// It is not that job, or one that cannot be.
pub fn read(id: JobId, content: &[u8]) -> Result<Job, JobFileError> {
    let job: Job = serde_json::from_slice(content)?;
    if job.id != id {
        return Err(JobFileError::Id(job.id));
    }
    let unfinished = job.ops.iter().enumerate().find(|(_place, op)| !op.status.is_final());
    match unfinished {
        Some((place, op)) if job.status().is_final() => {
            Err(JobFileError::Contradiction { place: place + 1, status: op.status })
        }
        _ => Ok(job),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(id: u64, statuses: &[&str]) -> Vec<u8> {
        let op = |status: &&str| {
            json!({"input": {"OP_ID": "OP_TEST_DELAY", "duration": 0}, "status": status,
                "result": null, "log": [], "priority": 0})
        };
        let ops: Vec<_> = statuses.iter().map(op).collect();
        json!({"id": id, "ops": ops}).to_string().into_bytes()
    }

    #[test]
    fn keys_of_jobs() {
        for (key, id) in [
            ("queue/job-5", Some(5)),
            ("queue/job-10001", Some(10_001)),
            ("queue/archive/0/job-5", Some(5)),
            ("queue/archive/1/job-10001", Some(10_001)),
            ("queue/archive/0/job-10001", None),
            ("queue/archive/job-5", None),
            ("queue/job-05", None),
            ("queue/job-0", None),
            ("queue/job-", None),
            ("queue/job-5.bak", None),
            ("queue/job-5+1", None),
            ("queue/job-99/x", None),
            ("queue/job-99/job-5", None),
            ("other/job-5", None),
            ("job-5", None),
        ] {
            assert_eq!(job_of(key), id.map(JobId), "{key}");
        }
    }

    #[test]
    fn only_what_can_be_is_read() {
        let statuses = OpStatus::ALL.map(OpStatus::as_str);
        for one in statuses {
            for other in statuses {
                let read = read(JobId(5), &file(5, &[one, other]));
                let ends = ["error", "canceled"];
                let goes_on = ["queued", "waiting", "canceling", "running"];
                let wrong = (ends.contains(&one) && goes_on.contains(&other))
                    // An opcode that was asked to end may stand before one that has ended.
                    || (ends.contains(&other) && goes_on.contains(&one) && one != "canceling");
                assert_eq!(read.is_err(), wrong, "{one} {other}");
            }
        }
        let told = |content: &[u8]| read(JobId(5), content).unwrap_err().to_string();
        assert_eq!(told(&file(6, &["queued"])), "it holds job 6");
        assert!(read(JobId(5), &file(5, &[])).is_ok(), "a job without opcodes has ended");
        assert_eq!(
            told(&file(5, &["success", "error", "queued"])),
            "the job has ended, but its opcode 3 is `queued`"
        );
        assert!(told(b"{\"id\": 5, \"ops\": [").contains("line 1"));
        assert!(told(&file(5, &["sucess"])).contains("`sucess`"));
    }
}
