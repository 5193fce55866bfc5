//! A service with fixed answers, on a socket of its own.

use std::future::pending;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use luxi::method::{
    ArchiveJob, JobChange, QueryConfigValues, QueryJobs, Submission, SubmitJob, SubmitManyJobs,
    WaitForJobChange,
};
use luxi::query::{Cell, CellStatus, FieldDefinition, FieldKind, Table, select};
use luxi::{Caller, Limits, Request, Response, Service, answer, serve};
use model::error::{ErrorCode, ExceptionKind};
use model::job::{LogEntry, LogType, RequestDigest};
use model::{Exception, JobId, Timestamp};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

/// `ArchiveJob` of this job panics.
pub(crate) const PANICS: JobId = JobId(13);
/// `WaitForJobChange` of this job never ends.
pub(crate) const HANGS: JobId = JobId(99);
/// `WaitForJobChange` of other jobs with this id and more says that there is none.
pub(crate) const LOST: JobId = JobId(1_000);

const JOB_FIELDS: [FieldDefinition; 2] = [
    FieldDefinition::new("id", "ID", FieldKind::Number, "Job ID"),
    FieldDefinition::new("status", "Status", FieldKind::Text, "Job status"),
];

pub(crate) struct Toy {
    submitted: AtomicU64,
    /// Told when a call that hangs begins and when it is dropped.
    pub(crate) hanging: mpsc::Sender<&'static str>,
}

struct Dropped(mpsc::Sender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.try_send("dropped").unwrap();
    }
}

impl Toy {
    fn submit(&self, call: SubmitJob) -> Result<JobId, Exception> {
        if call.ops.is_empty() {
            return Err(Exception::prereq("A job needs an opcode", ErrorCode::WrongInput));
        }
        Ok(JobId(self.submitted.fetch_add(1, Ordering::Relaxed) + 1))
    }

    fn submit_many(&self, call: SubmitManyJobs) -> Result<Vec<Submission>, Exception> {
        let mut ids = Vec::new();
        for ops in call.jobs {
            ids.push(match self.submit(SubmitJob { ops }) {
                Ok(id) => Submission::Accepted(id),
                Err(exception) => Submission::Refused(exception.to_string()),
            });
        }
        Ok(ids)
    }

    /// A job is running when first asked about, and has ended afterwards.
    async fn wait(&self, call: WaitForJobChange) -> Result<JobChange, Exception> {
        if call.job_id >= LOST {
            return Err(Exception::new(ExceptionKind::JobLost, "No such job"));
        }
        if call.job_id == HANGS {
            self.hanging.send("hangs").await.unwrap();
            let _dropped = Dropped(self.hanging.clone());
            pending::<()>().await;
        }
        let entry = |serial, text: &str| {
            let at = Timestamp::from_micros(1_700_000_000_000_000);
            Arc::new(LogEntry(serial, at, LogType::Message, Value::from(text)))
        };
        let (status, result, log) = match call.previous {
            None => ("running", Value::Null, vec![entry(1, "begins")]),
            Some(_) if call.previous_log != Some(1) => return Ok(JobChange::Unchanged),
            Some(_) => ("success", json!(true), vec![entry(2, "ends")]),
        };
        let value = |field: &String| match field.as_str() {
            "status" => json!(status),
            "opstatus" => json!([status]),
            "opresult" => json!([result]),
            _ => Value::Null,
        };
        Ok(JobChange::Changed(call.fields.iter().map(value).collect(), log))
    }

    fn jobs(&self) -> Vec<[Value; 2]> {
        vec![[json!(1), json!("success")], [json!(2), json!("running")]]
    }

    fn query(&self, call: luxi::method::Query) -> Result<Table, Exception> {
        let rows = self.jobs().into_iter().filter(|[id, status]| {
            let value_of = |field: &str| match field {
                "id" => Some(id.clone()),
                "status" => Some(status.clone()),
                _ => None,
            };
            call.filter.as_ref().is_none_or(|filter| filter.holds(value_of))
        });
        let cell = |[id, status]: &[Value; 2], field: &String| match field.as_str() {
            "id" => Cell::normal(id.clone()),
            "status" => Cell::normal(status.clone()),
            _ => Cell::without(CellStatus::Unknown),
        };
        let data = rows.map(|row| call.fields.iter().map(|f| cell(&row, f)).collect()).collect();
        Ok(Table { fields: select(&call.fields, &JOB_FIELDS), data })
    }

    fn query_jobs(&self, call: QueryJobs) -> Result<Vec<Option<Vec<Value>>>, Exception> {
        let ids = call.job_ids.unwrap_or_default();
        let known = |id: &JobId| (id.0 < 3).then(|| vec![json!(id)]);
        Ok(ids.iter().map(known).collect())
    }

    fn config(&self, call: QueryConfigValues) -> Result<Vec<Value>, Exception> {
        let value = |name: &String| match name.as_str() {
            "cluster_name" => json!("toy.example.com"),
            "drain_flag" => json!(false),
            _ => Value::Null,
        };
        Ok(call.names.iter().map(value).collect())
    }
}

impl Service for Toy {
    async fn call(
        &self,
        request: Request,
        caller: Caller,
        _digest: Option<RequestDigest>,
    ) -> Response {
        match request {
            Request::SubmitJob(call) => answer(call, async |call| self.submit(call)).await,
            Request::SubmitManyJobs(call) => {
                answer(call, async |call| self.submit_many(call)).await
            }
            Request::WaitForJobChange(call) => answer(call, |call| self.wait(call)).await,
            Request::Query(call) => answer(call, async |call| self.query(call)).await,
            Request::QueryJobs(call) => answer(call, async |call| self.query_jobs(call)).await,
            Request::QueryConfigValues(call) => answer(call, async |call| self.config(call)).await,
            Request::ArchiveJob(ArchiveJob { job_id: PANICS }) => panic!("as the test wishes"),
            Request::ArchiveJob(call) => answer(call, async |_| Ok(true)).await,
            Request::CancelJob(call) => {
                answer(call, async |call| Ok((call.kill, format!("job {}", call.job_id)))).await
            }
            Request::QueryClusterInfo(call) => {
                answer(call, async |_| Ok(json!({"uid": caller.uid, "pid": caller.pid}))).await
            }
            // As many bytes as the kind has: an answer of any length.
            Request::QueryTags(call) => {
                answer(call, async |call| Ok(vec!["x".repeat(call.kind.parse().unwrap())])).await
            }
            other => {
                Response::failure(&Exception::exec(format!("the toy has no {}", other.name())))
            }
        }
    }
}

/// A running server; it stops when dropped.
pub(crate) struct Server {
    pub(crate) path: PathBuf,
    pub(crate) hanging: mpsc::Receiver<&'static str>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) runtime: Runtime,
    pub(crate) done: Option<tokio::task::JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

pub(crate) fn start(limits: Limits) -> Server {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("luxi.sock");
    let runtime = Runtime::new().unwrap();
    let (hanging_sender, hanging) = mpsc::channel(64);
    let (stop, stopped) = watch::channel(false);
    let listener = runtime.block_on(async { UnixListener::bind(&path).unwrap() });
    let toy = Toy { submitted: AtomicU64::new(0), hanging: hanging_sender };
    let done = Some(runtime.spawn(serve(listener, Arc::new(toy), limits, stopped)));
    Server { path, hanging, stop, runtime, done, _directory: directory }
}

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    /// A raw connection.
    pub(crate) fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Whether the server answers somebody else.
    pub(crate) fn assert_others_are_served(&self) {
        let answer = ask(&mut self.raw(), r#"{"method":"ArchiveJob","args":[1]}"#);
        assert_eq!(answer, r#"{"success":true,"result":true}"#);
    }
}

/// Sends one request and reads one answer.
pub(crate) fn ask(stream: &mut UnixStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(b"\x03").unwrap();
    receive(stream)
}

/// Reads one answer.
pub(crate) fn receive(stream: &mut UnixStream) -> String {
    let mut answer = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).unwrap() == 1 && byte != [3] {
        answer.push(byte[0]);
    }
    assert_eq!(byte, [3], "the stream ended within {answer:?}");
    String::from_utf8(answer).unwrap()
}

/// Reads to the end.
pub(crate) fn drain(stream: &mut UnixStream) -> String {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    String::from_utf8(rest).unwrap()
}
