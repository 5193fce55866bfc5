//! Decides on every request before it is answered or passed on, keeps what was refused and changed, and
//! answers with the audit log. Serves the path of a job, between the sockets and `luxi_router`.

use std::sync::Arc;

use bytes::Bytes;
use luxi::method::{GantryLog, GantryNoteRefusals};
use luxi::{Caller, Request, Response, Service, answer, request};
use model::audit::{self, Asker, AuditEntry, AuditFilter, ENTRIES_MAX, Outcome};
use model::error::ErrorCode;
use model::job::RequestDigest;
use model::{Exception, Job, JobId, NodeName};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::config::queue::Archive;
use crate::door::access::{Refused, decide};
use crate::door::audit_log::AuditLog;
use crate::door::router::LuxiRouter;
use crate::door::service::changed_by;
use crate::door::users;
use crate::health::status::MasterView;

/// Refused requests that another daemon tells of at a time: what it keeps for a few seconds.
pub(crate) const NOTES_MAX: usize = 64;
/// Logs that are read at the same time: one may read a hundred thousand jobs.
const LOGS_MAX: usize = 1;
/// Longest answer that is looked at for what came of a change.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Answers LUXI requests of those who may have them answered; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    router: LuxiRouter,
    audit_log: AuditLog,
    me: NodeName,
    logs: Arc<Semaphore>,
}

impl Guard {
    /// Stands before `router` on the node `me`.
    pub(crate) fn new(router: LuxiRouter, audit_log: AuditLog, me: NodeName) -> Self {
        Self { router, audit_log, me, logs: Arc::new(Semaphore::new(LOGS_MAX)) }
    }

    /// The caller with its name, and the node where it asked.
    fn known(&self, mut caller: Caller) -> (Caller, Arc<Asker>) {
        let asker = match caller.asker.take() {
            Some(asker) if asker.host.is_some() => asker,
            Some(asker) => {
                Arc::new(Asker { host: Some(self.me.clone()), ..asker.as_ref().clone() })
            }
            None => Arc::new(Asker {
                user: users::name(caller.uid),
                interface: caller.interface,
                host: Some(self.me.clone()),
                address: None,
                tenant: None,
            }),
        };
        caller.asker = Some(Arc::clone(&asker));
        (caller, asker)
    }

    /// The answer to a client that may not have another one. A refusal is logged here, and at the
    /// master.
    async fn refusal(
        &self,
        request: &Request,
        (caller, asker): (&Caller, &Asker),
    ) -> Option<Response> {
        let Refused { exception, action, object } = decide(request, caller, &asker.user).err()?;
        let now = self.audit_log.now();
        let entry = AuditEntry::new(now, asker.clone(), action, &object, Outcome::Refused);
        let code = exception.code.map(model::Code::word);
        let entry = entry.because(code, exception.message());
        let (user, role) = (asker.user.as_ref(), caller.role);
        tracing::info!(action, object, user, ?role, "request is refused");
        let kept = self.audit_log.refused(vec![entry]).await;
        if !kept.is_empty() && self.router.master().is_none() {
            self.tell_master(kept).await;
        }
        Some(Response::failure(&exception))
    }

    /// The request of somebody who may have it answered by others; else the answer.
    async fn admitted(
        &self,
        request: Request,
        caller: Caller,
    ) -> Result<(Request, Caller, Arc<Asker>), Response> {
        let (caller, asker) = self.known(caller);
        if let Some(refusal) = self.refusal(&request, (&caller, &asker)).await {
            return Err(refusal);
        }
        match self.of_log(request, &asker).await {
            Ok(answer) => Err(answer),
            Err(request) => Ok((request, caller, asker)),
        }
    }

    /// Tells the master what was refused here, as far as it is known.
    async fn tell_master(&self, entries: Vec<AuditEntry>) {
        let call = GantryNoteRefusals { entries };
        let mut message = Vec::new();
        if request::write(&call, &mut message).is_err() {
            return;
        }
        message.pop();
        let request = Request::GantryNoteRefusals(call);
        let told = self.router.answer_client(message.into(), request, Caller::root(), None).await;
        if !told.is_success() {
            tracing::info!("the master does not know of a refused request");
        }
    }

    /// Has the request answered here if this is the master and the answer is the log's.
    async fn of_log(&self, request: Request, asker: &Asker) -> Result<Response, Request> {
        let Some(master) = self.router.master() else { return Err(request) };
        match request {
            Request::GantryLog(call) => Ok(answer(call, |call| self.log(&master, call)).await),
            Request::GantryNoteRefusals(call) => {
                Ok(answer(call, |call| self.note(&master, call, asker)).await)
            }
            other => Err(other),
        }
    }

    /// Keeps what another daemon refused, `asker`.
    async fn note(
        &self,
        master: &MasterView,
        call: GantryNoteRefusals,
        asker: &Asker,
    ) -> Result<(), Exception> {
        if call.entries.len() > NOTES_MAX {
            let text = format!("at most {NOTES_MAX} refused requests are noted at a time");
            return Err(Exception::prereq(text, ErrorCode::WrongInput));
        }
        let mut entries = call.entries;
        for entry in &mut entries {
            // The front door does not know on which node it runs.
            let host = entry.asker.host.take();
            entry.asker.host = host.or_else(|| asker.host.clone());
        }
        master.alarms.note_refused(&entries);
        self.audit_log.refused(entries).await;
        Ok(())
    }

    async fn log(
        &self,
        master: &MasterView,
        call: GantryLog,
    ) -> Result<Vec<AuditEntry>, Exception> {
        let GantryLog { filter, limit } = call;
        let _turn = self.logs.acquire().await.expect("the semaphore is never closed");
        let jobs = jobs(master, &filter, limit).await?;
        let audit_log = self.audit_log.clone();
        let collect = move || {
            let mut found = audit_log.entries(&filter);
            for job in jobs {
                found.extend(audit::of_job(&job, users::name).filter(|entry| filter.takes(entry)));
            }
            found.sort_by_key(|entry| (entry.time, entry.job));
            let surplus = found.len().saturating_sub(limit.min(ENTRIES_MAX) as usize);
            found.split_off(surplus)
        };
        let collected = stdx::apart(collect).await;
        collected.map_err(|error| Exception::exec(format!("reading the log failed: {error}")))
    }

    /// Keeps a change that is no job.
    async fn keep(&self, change: Option<(&'static str, String)>, asker: &Asker, answer: &Response) {
        let Some((method, object)) = change else { return };
        let (result, code, reason) = outcome(answer);
        let now = self.audit_log.now();
        let entry = AuditEntry::new(now, asker.clone(), method, &object, result);
        let entry = match reason {
            Some(reason) => entry.because(code.as_deref(), &reason),
            None => entry,
        };
        self.audit_log.changed(entry).await;
    }
}

/// The jobs that a log may be about: those of the archive, too, as far as they are wanted.
async fn jobs(
    master: &MasterView,
    filter: &AuditFilter,
    limit: u32,
) -> Result<Vec<Arc<Job>>, Exception> {
    let live = &master.published.jobs;
    let archive = Archive::new(Arc::clone(&master.commits));
    if filter.refused {
        return Ok(Vec::new());
    }
    if let Some(id) = filter.job {
        let found = match live.get(id) {
            Some(job) => Some(job),
            None => archive.job(id).await?,
        };
        return Ok(found.into_iter().collect());
    }
    // Each has an entry, so that no more are needed where all entries are wanted.
    let AuditFilter { since, until: None, user: None, job: None, object: None, refused: _ } =
        filter
    else {
        return all(live.all(), archive.all().await?.jobs, |_job| true);
    };
    let newest = archive.newest(limit.min(ENTRIES_MAX) as usize).await?.jobs;
    all(live.all(), newest, |job: &Job| {
        since.is_none_or(|since| job.received_timestamp.is_none_or(|time| time >= since))
    })
}

/// Both together: a job that was archived meanwhile is in both.
fn all(
    live: Vec<Arc<Job>>,
    archived: Vec<Arc<Job>>,
    wanted: impl Fn(&Job) -> bool,
) -> Result<Vec<Arc<Job>>, Exception> {
    let mut jobs: Vec<Arc<Job>> =
        live.into_iter().chain(archived).filter(|job| wanted(job)).collect();
    jobs.sort_by_key(|job| job.id);
    jobs.dedup_by_key(|job: &mut Arc<Job>| -> JobId { job.id });
    Ok(jobs)
}

/// The outcome of a change by its answer, with code and reason where it was not made.
fn outcome(answer: &Response) -> (Outcome, Option<String>, Option<String>) {
    #[derive(Deserialize)]
    struct Read {
        success: bool,
        result: Value,
        code: Option<String>,
    }
    let bytes = answer.as_bytes();
    let read = (bytes.len() <= ANSWER_BYTES_MAX)
        .then(|| bytes.strip_suffix(&[3]))
        .flatten()
        .and_then(|bytes| serde_json::from_slice::<Read>(bytes).ok());
    let Some(Read { success, result, code }) = read else {
        let result = if answer.is_success() { Outcome::Success } else { Outcome::Error };
        return (result, None, None);
    };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    if !success {
        let reason = text(result.pointer("/1/0")).or_else(|| text(Some(&result)));
        return (Outcome::Error, code, reason);
    }
    // Of a job that could not be canceled, and of a role that was not moved.
    if result.get(0) == Some(&Value::Bool(false)) {
        return (Outcome::Error, None, text(result.get(1)));
    }
    if result.get("done") == Some(&Value::Bool(false)) {
        return (Outcome::Error, None, text(result.get("message")));
    }
    (Outcome::Success, None, None)
}

/// The change of a request that is no job, for the log.
fn change(request: &Request) -> Option<(&'static str, String)> {
    let is_note = matches!(request, Request::GantryNoteRefusals(_));
    changed_by(request).filter(|_of| !is_note).map(|of| (request.name(), of))
}

impl Service for Guard {
    async fn call(
        &self,
        request: Request,
        caller: Caller,
        digest: Option<RequestDigest>,
    ) -> Response {
        let (request, caller, asker) = match self.admitted(request, caller).await {
            Ok(admitted) => admitted,
            Err(answer) => return answer,
        };
        let change = change(&request);
        let answer = self.router.call(request, caller, digest).await;
        self.keep(change, &asker, &answer).await;
        answer
    }

    async fn answer_client(
        &self,
        message: Bytes,
        request: Request,
        caller: Caller,
        digest: Option<RequestDigest>,
    ) -> Response {
        let (request, caller, asker) = match self.admitted(request, caller).await {
            Ok(admitted) => admitted,
            Err(answer) => return answer,
        };
        let everywhere = LuxiRouter::answers_everywhere(&request);
        let change = change(&request);
        let answer = self.router.answer_client(message, request, caller, digest).await;
        // The master keeps what it was asked for by another node.
        let change = change.filter(|_change| everywhere || self.router.master().is_some());
        self.keep(change, &asker, &answer).await;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_what_came_of_a_change() {
        let done = (Outcome::Success, None, None);
        assert_eq!(outcome(&Response::success(&true)), done);
        assert_eq!(outcome(&Response::success(&(true, "canceled"))), done);
        let not = outcome(&Response::success(&(false, "it has ended")));
        assert_eq!(not, (Outcome::Error, None, Some("it has ended".to_owned())));
        let failed = Exception::exec("no disk").coded(model::Code::DiskFull);
        let (result, code, reason) = outcome(&Response::failure(&failed));
        assert_eq!((result, code.as_deref()), (Outcome::Error, Some("disk-full")));
        assert_eq!(reason.as_deref(), Some("no disk"));
    }
}
