//! How things stand, as a running master tells or the files of a stopped one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use luxi::method::{Query, QueryConfigValues, QueryJobs, What};
use luxi::query::CellStatus;
use luxi::{Client, ClientError};
use model::layout::Layout;
use model::{Job, JobId, JobStatus, document};
use queue_format::store::{AtRest, HeaderError};
use serde_json::Value;

use super::{Agent, Found, Queue};

/// How the names of jobs' files begin, and where they are.
const JOBS: (&str, &str) = ("queue", "job-");

/// How long a master is awaited: other nodes know a moment later that the role has moved.
const AWAY_MAX: Duration = Duration::from_secs(5);
/// Between two questions.
const AWAY_PAUSE: Duration = Duration::from_millis(200);

/// It cannot be found out.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// A master runs and does not tell.
    #[error("the master on `{socket}` runs, but cannot be asked whether its queue is drained")]
    Silent {
        /// Where it listens.
        socket: PathBuf,
        /// What came instead.
        #[source]
        error: ClientError,
    },
    /// A master runs and told something else.
    #[error("the master told something else than its jobs and nodes; is it of another version?")]
    Strange,
    /// The store of a stopped master is none for this version.
    #[error("no master runs, and its store cannot be looked at")]
    Header(#[from] HeaderError),
    /// A file of the stopped master does not open.
    #[error("no master runs, and `{path}` cannot be read; ask as root")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A job's file is damaged.
    #[error("job file `{path}` does not read; restore it from a copy, or move it away")]
    Job {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        #[source]
        error: serde_json::Error,
    },
}

/// Asks the master that listens below this root. If no master listens, reads its files and changes
/// nothing: neither the store's lock nor its journal is touched.
///
/// # Errors
/// See [`LookError`].
pub fn look(layout: &Layout) -> Result<Found, LookError> {
    let begun = Instant::now();
    loop {
        match look_once(layout) {
            Err(LookError::Silent { error, .. })
                if error.is_away()
                    && error.certainly_not_done()
                    && !matches!(error, ClientError::Permission { .. })
                    && begun.elapsed() < AWAY_MAX =>
            {
                pause();
            }
            found => return found,
        }
    }
}

fn look_once(layout: &Layout) -> Result<Found, LookError> {
    let socket = layout.luxi_socket();
    match std::os::unix::net::UnixStream::connect(&socket) {
        Err(error) if nobody_listens(&error) => at_rest(&layout.data()),
        // Another failure is told by the client.
        Err(_) | Ok(_) => ask(&socket),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this part of the program has no runtime to sleep on"
)]
fn pause() {
    std::thread::sleep(AWAY_PAUSE);
}

fn nobody_listens(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn ask(socket: &Path) -> Result<Found, LookError> {
    let silent = |error| LookError::Silent { socket: socket.to_owned(), error };
    let mut client = Client::connect(socket).map_err(silent)?;
    let names = ["drain_flag"].into_iter().collect();
    let flags = client.call(&QueryConfigValues { names }).map_err(silent)?;
    let fields = ["id", "status"].into_iter().collect();
    let rows = client.call(&QueryJobs { job_ids: None, fields }).map_err(silent)?;
    let jobs: Option<Vec<_>> = rows.iter().flatten().map(|row| job(row)).collect();
    let fields = ["name", "agent"].into_iter().collect();
    let nodes = Query { what: What::Node, fields, filter: None };
    let nodes = client.call(&nodes).map_err(silent)?;
    let agents: Option<BTreeMap<_, _>> = nodes.data.iter().map(|row| agent(row)).collect();
    let drained = flags.first() == Some(&Value::Bool(true));
    Ok(Found::Running {
        queue: queue(drained, jobs.ok_or(LookError::Strange)?),
        agents: agents.ok_or(LookError::Strange)?.into_iter().collect(),
    })
}

fn job(row: &[Value]) -> Option<(JobId, JobStatus)> {
    let [id, status] = row else { return None };
    Some((JobId(id.as_u64()?), status.as_str()?.parse().ok()?))
}

fn agent(row: &[luxi::query::Cell]) -> Option<(String, Agent)> {
    let [name, agent] = row else { return None };
    let name = name.value()?.as_str()?.to_owned();
    let agent = match (agent.status(), agent.value().and_then(Value::as_str)) {
        (CellStatus::Normal, Some("reached")) => Agent::Reached,
        (CellStatus::Normal, Some(why)) => Agent::Away(why.to_owned()),
        (CellStatus::Offline, _) => Agent::Offline,
        _ => Agent::NotTried,
    };
    Some((name, agent))
}

fn queue(drained: bool, mut jobs: Vec<(JobId, JobStatus)>) -> Queue {
    jobs.retain(|(_, status)| !status.is_final());
    jobs.sort_unstable_by_key(|(id, _)| *id);
    Queue { drained, unfinished: jobs }
}

/// Reads the files of a store that nobody has open.
fn at_rest(data: &Path) -> Result<Found, LookError> {
    let header = AtRest::read(data).map_err(|error| match error {
        HeaderError::Read { path, error } => LookError::Read { path, error },
        other => other.into(),
    })?;
    let Some(AtRest { format, clean, .. }) = header else { return Ok(Found::NoStore) };
    if !clean {
        return Ok(Found::NotClosed { format });
    }
    let drain = data.join(document::QUEUE_DRAIN);
    let drained = drain.try_exists().map_err(|error| LookError::Read { path: drain, error })?;
    let (directory, prefix) = (data.join(JOBS.0), JOBS.1);
    let failed = |error| LookError::Read { path: directory.clone(), error };
    let mut jobs = Vec::new();
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let path = entry.path();
            let read = fs::read(&path);
            let bytes = read.map_err(|error| LookError::Read { path: path.clone(), error })?;
            let job: Job = serde_json::from_slice(&bytes)
                .map_err(|error| LookError::Job { path: path.clone(), error })?;
            jobs.push((job.id, job.status()));
        }
    }
    Ok(Found::Stopped { format, queue: queue(drained, jobs) })
}

#[cfg(test)]
mod tests {
    use queue_format::store::FORMAT;

    use super::*;

    fn stopped(files: &[(&str, &str)]) -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        for (name, text) in files {
            let path = layout.data().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            stdx::atomic::write(&path, text.as_bytes(), 0o640).unwrap();
        }
        (dir, layout)
    }

    fn header(format: u32, clean: bool) -> String {
        let incarnation = "6ad2d2b5-5b27-4b37-a3f5-6f1f4f6f4f6f";
        format!(
            r#"{{"format":{format},"incarnation":"{incarnation}","clean":{clean},"lsn":0,"position":{{"epoch":{{"term":0,"node":0}},"index":0}}}}"#
        )
    }

    #[test]
    fn where_nobody_listens_the_files_are_read() {
        let (_dir, layout) = stopped(&[]);
        assert_eq!(look(&layout).unwrap(), Found::NoStore);
        let job = include_str!("../../../../tests/golden/format-1/clean/queue/job-2");
        let waiting = job.replacen("\"success\"", "\"queued\"", 1);
        let files = [("queue/job-2", job), ("queue/job-3", &waiting), ("queue/drain", "")];
        let header = header(FORMAT, true);
        let files: Vec<_> = files.into_iter().chain([("store.json", header.as_str())]).collect();
        let (_dir, layout) = stopped(&files);
        // A socket that a crash left behind has no listener.
        fs::create_dir_all(layout.luxi_socket().parent().unwrap()).unwrap();
        drop(std::os::unix::net::UnixListener::bind(layout.luxi_socket()).unwrap());
        let Found::Stopped { format: FORMAT, queue } = look(&layout).unwrap() else { panic!() };
        assert!(queue.drained);
        assert_eq!(queue.unfinished, [(JobId(2), JobStatus::Queued)]);
    }

    #[test]
    fn a_store_that_was_not_closed_or_does_not_read_is_told() {
        let (_dir, layout) = stopped(&[("store.json", &header(FORMAT, false))]);
        assert_eq!(look(&layout).unwrap(), Found::NotClosed { format: FORMAT });
        let (_dir, layout) = stopped(&[("store.json", &header(FORMAT + 1, true))]);
        let told = stdx::daemon::chain(&look(&layout).unwrap_err());
        assert!(told.contains("knows formats up to"), "{told}");
        let (_dir, layout) =
            stopped(&[("store.json", &header(FORMAT, true)), ("queue/job-7", "{")]);
        let told = look(&layout).unwrap_err().to_string();
        assert!(told.contains("job-7` does not read"), "{told}");
    }
}
