//! The messages of a test job, and the sockets by which it waits for its listener.

use std::os::unix::net::UnixStream;

use luxi::client::Observer;
use luxi::method::QueryJobs;
use model::JobId;
use model::job::{LogEntry, LogType};
use serde_json::Value;

use crate::follow::told;
use crate::output::say;
use crate::session::Session;

/// How messages begin that the job was told to say.
const PREFIX: &str = "TESTMSG=";

/// Listens to one job.
pub(super) struct Talk<'a> {
    id: JobId,
    session: &'a Session,
    /// The number of messages of this opcode; none before it announced how many there will be.
    of_opcode: Option<usize>,
    heard: Vec<String>,
    /// The first promise that was not kept.
    fault: Option<String>,
}

impl<'a> Talk<'a> {
    pub(super) const fn new(id: JobId, session: &'a Session) -> Self {
        Self { id, session, of_opcode: None, heard: Vec::new(), fault: None }
    }

    /// The messages of the job.
    ///
    /// # Errors
    /// The first promise that was not kept.
    pub(super) fn heard(self) -> Result<Vec<String>, String> {
        self.fault.map_or(Ok(self.heard), Err)
    }

    fn message(&mut self, text: &str) -> Result<(), String> {
        let Some(said) = &mut self.of_opcode else {
            return Err("Received test message without a preceding start message".to_owned());
        };
        *said += 1;
        self.heard.push(text.to_owned());
        Ok(())
    }

    /// The job waits for a connection to a socket, and goes on when that is closed.
    fn stop(&mut self, message: &Value) -> Result<(), String> {
        let text = |at: usize| message.get(at).and_then(Value::as_str).unwrap_or_default();
        let (path, test) = (text(0), text(1));
        let connected = UnixStream::connect(path);
        let _open = connected.map_err(|error| format!("Cannot connect to {path}: {error}"))?;
        let expected = match test {
            "expandnames" => Some("waiting"),
            "exec" | "logmsg" => Some("running"),
            "startmsg" => None,
            other => return Err(format!("Received invalid test message {other}")),
        };
        if let Some(expected) = expected {
            let status = self.job_status()?;
            if status != expected {
                return Err(format!("Job status at {test} is '{status}', not '{expected}'"));
            }
        }
        match (test, message.get(2).and_then(Value::as_u64)) {
            ("startmsg", _count) => self.of_opcode = Some(0),
            ("logmsg", Some(count)) => {
                let said = self.of_opcode.unwrap_or_default();
                if u64::try_from(said) != Ok(count) {
                    return Err(format!("Received {said} test messages when {count} are expected"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn job_status(&self) -> Result<String, String> {
        let question = QueryJobs { job_ids: Some(vec![self.id]), fields: ["status"].into() };
        let rows = self.session.ask(&question).map_err(|error| error.to_string())?;
        let status = rows.into_iter().next().flatten().unwrap_or_default();
        let status = status.first().and_then(Value::as_str).map(str::to_owned);
        status.ok_or_else(|| format!("Can't find job {}", self.id))
    }
}

impl Observer for Talk<'_> {
    fn log(&mut self, entry: &LogEntry) {
        let told = match (&entry.2, entry.3.as_str().and_then(|text| text.strip_prefix(PREFIX))) {
            (LogType::JqueueTest, _) => self.stop(&entry.3),
            (LogType::Message, Some(text)) => self.message(text),
            _ => say(told(entry, self.session.times())).map_err(|error| error.to_string()),
        };
        if let (Err(fault), None) = (told, &self.fault) {
            self.fault = Some(fault);
        }
    }
}
