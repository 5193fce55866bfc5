//! Whether this moment is a good one to replace the master's programs.

use std::io;
use std::path::Path;

use luxi::Client;
use luxi::method::{QueryConfigValues, QueryJobs};
use model::{JobId, JobStatus};
use serde_json::Value;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum Blocked {
    /// New jobs would begin meanwhile.
    #[error(
        "the queue takes jobs, and those that run would fail: `gnt cluster queue drain`, then wait \
         until none is left (`gnt job list --running`)"
    )]
    NotDrained,
    /// Jobs would fail.
    #[error(
        "the queue is drained, but {count} jobs are not finished, the first of them job {first} \
         ({status}): wait for them (`gnt job watch {first}`) or cancel them"
    )]
    Unfinished {
        /// How many.
        count: usize,
        /// The one with the lowest id.
        first: JobId,
        /// How it stands.
        status: JobStatus,
    },
    /// A master runs and does not tell.
    #[error("the master on `{socket}` runs, but cannot be asked whether its queue is drained")]
    Silent {
        /// Where it listens.
        socket: String,
        /// What came instead.
        #[source]
        error: luxi::ClientError,
    },
    /// A master runs and told something else.
    #[error("the master told something else than the status of its jobs")]
    Strange,
}

/// Asks the master that listens on `socket`. Where none does, nothing is in the way: the files and
/// the journal of this version are read by the next one.
///
/// # Errors
/// Why the programs should not be replaced yet, and what to do.
pub fn check(socket: &Path) -> Result<(), Blocked> {
    match std::os::unix::net::UnixStream::connect(socket) {
        Err(error) if nobody_listens(&error) => return Ok(()),
        // Another failure is told by the client.
        Err(_) | Ok(_) => {}
    }
    let silent = |error| Blocked::Silent { socket: socket.display().to_string(), error };
    let mut client = Client::connect(socket).map_err(silent)?;
    let names = ["drain_flag"].into_iter().collect();
    let flags = client.call(&QueryConfigValues { names }).map_err(silent)?;
    let fields = ["id", "status"].into_iter().collect();
    let rows = client.call(&QueryJobs { job_ids: None, fields }).map_err(silent)?;
    let unfinished: Option<Vec<(JobId, JobStatus)>> = rows.iter().flatten().map(job).collect();
    judge(flags.first() == Some(&Value::Bool(true)), &unfinished.ok_or(Blocked::Strange)?)
}

fn nobody_listens(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn job(row: &Vec<Value>) -> Option<(JobId, JobStatus)> {
    let [id, status] = row.as_slice() else { return None };
    Some((JobId(id.as_u64()?), status.as_str()?.parse().ok()?))
}

fn judge(drained: bool, jobs: &[(JobId, JobStatus)]) -> Result<(), Blocked> {
    if !drained {
        return Err(Blocked::NotDrained);
    }
    let unfinished = || jobs.iter().filter(|(_, status)| !status.is_final());
    match unfinished().min_by_key(|(id, _)| *id) {
        Some(&(first, status)) => {
            Err(Blocked::Unfinished { count: unfinished().count(), first, status })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_drained_and_empty_queue_is_left() {
        let jobs = [
            (JobId(9), JobStatus::Queued),
            (JobId(3), JobStatus::Running),
            (JobId(1), JobStatus::Success),
        ];
        let told = |drained, jobs| judge(drained, jobs).unwrap_err().to_string();
        assert!(told(false, &jobs).contains("gnt cluster queue drain"));
        assert!(told(false, &[]).contains("gnt cluster queue drain"));
        let text = told(true, &jobs);
        assert!(text.contains("2 jobs") && text.contains("job 3 (running)"), "{text}");
        judge(true, &jobs[2..]).unwrap();
    }

    #[test]
    fn where_nobody_listens_nothing_is_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("luxi.sock");
        check(&socket).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        check(&socket).unwrap();
    }
}
