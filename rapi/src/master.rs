//! Asking the master through the socket of this machine, wherever it is, for as long as an HTTP client
//! may wait.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use luxi::client::AsyncClient;
use luxi::method::{Class, SubmitJob};
use luxi::request::Principal;
use luxi::response::Failure;
use luxi::{ClientError, Method};
use model::{JobId, OpInput};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// The time for which a question is repeated while there is no master, or none can be reached. Ganeti's
/// own clients wait as long; HTTP clients allow twice that as a rule.
pub const FOLLOW_TIME: Duration = Duration::from_secs(30);
/// Pause before each repetition, as of `gnt`.
pub const PAUSE: Duration = Duration::from_millis(500);
/// Connections that are kept for the next question: as many as ask at the same time in quiet hours. Others
/// are made anew, which takes some 50 µs.
const IDLE_MAX: usize = 32;
/// How long they are kept: less than the 300 s after which the master closes them.
const IDLE_TIME: Duration = Duration::from_secs(120);

/// The way to the master.
#[derive(Debug, Clone)]
pub struct Master {
    socket: PathBuf,
    follow: Duration,
    pause: Duration,
    idle: Arc<Mutex<Vec<(AsyncClient, Instant)>>>,
}

impl Master {
    /// The master behind the socket of this machine.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket, follow: FOLLOW_TIME, pause: PAUSE, idle: Arc::default() }
    }

    /// The same with other times, for tests.
    pub fn with_times(self, follow: Duration, pause: Duration) -> Self {
        Self { follow, pause, ..self }
    }

    /// Asks for somebody, or for this program. A question without an answer is repeated for
    /// [`FOLLOW_TIME`], over a new connection, if it certainly was not carried out or changes nothing.
    ///
    /// # Errors
    /// The last failure; [`crate::refusal::Refusal`] says it in HTTP.
    pub async fn ask<M: Method>(
        &self,
        principal: Option<&Principal>,
        call: &M,
    ) -> Result<M::Reply, ClientError> {
        self.ask_again(principal, call, M::CLASS != Class::Change).await
    }

    /// Submits a job. Every opcode must have a stamp of its own. By it the master knows a repeated
    /// submission, and answers with the job of the first.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn submit(
        &self,
        principal: Option<&Principal>,
        ops: Vec<OpInput>,
    ) -> Result<JobId, ClientError> {
        let is_known_again = ops.iter().all(|op| op.common.is_stamped());
        self.ask_again(principal, &SubmitJob { ops }, is_known_again).await
    }

    async fn ask_again<M: Method>(
        &self,
        principal: Option<&Principal>,
        call: &M,
        harmless: bool,
    ) -> Result<M::Reply, ClientError> {
        let begun = Instant::now();
        loop {
            let error = match self.ask_once(principal, call).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let repeats = harmless || error.certainly_not_done();
            if !error.is_away() || !repeats || begun.elapsed() >= self.follow {
                return Err(error);
            }
            self.idle.lock().clear();
            sleep(self.pause).await;
        }
    }

    async fn ask_once<M: Method>(
        &self,
        principal: Option<&Principal>,
        call: &M,
    ) -> Result<M::Reply, ClientError> {
        let mut client = match self.kept() {
            Some(client) => client,
            None => AsyncClient::connect(&self.socket).await?,
        };
        client.ask_for(principal.cloned());
        let reply = client.call(call).await;
        let is_answered = matches!(reply, Ok(_) | Err(ClientError::Failure(Failure::Exception(_))));
        if is_answered {
            let mut idle = self.idle.lock();
            if idle.len() < IDLE_MAX {
                idle.push((client, Instant::now()));
            }
        }
        reply
    }

    /// A connection that was kept and is open still.
    fn kept(&self) -> Option<AsyncClient> {
        let mut idle = self.idle.lock();
        while let Some((client, since)) = idle.pop() {
            if since.elapsed() < IDLE_TIME && client.is_open() {
                return Some(client);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    use luxi::method::{CancelJob, QueryClusterInfo};
    use luxi::response::{NotMaster, Unserved};
    use luxi::{Client, Response};
    use model::{Exception, JobId};
    use serde_json::json;
    use tokio::runtime::Builder;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn not_master(outcome: Unserved) -> Option<Response> {
        let about = NotMaster { outcome, master: None, address: None };
        Some(Response::not_master(&Exception::exec("no master"), &about))
    }

    /// A socket that gives each connection the next of these answers, or closes it without one; what
    /// came of a question, and how many of them were given.
    fn asked<M: Method>(
        answers: Vec<Option<Response>>,
        follow: Duration,
        call: &M,
    ) -> (Result<M::Reply, ClientError>, usize) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let master = Master::new(path).with_times(follow, Duration::ZERO);
        std::thread::scope(|scope| {
            let given = scope.spawn(move || {
                let mut given = 0;
                for answer in answers {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut byte = [0];
                    while byte != [3] && stream.read(&mut byte).unwrap() == 1 {}
                    if byte != [3] {
                        return given;
                    }
                    given += 1;
                    if let Some(answer) = answer {
                        stream.write_all(answer.as_bytes()).unwrap();
                    }
                }
                given
            });
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let told = runtime.block_on(master.ask(None, call));
            // The socket gets no question where it still waits for one.
            drop(Client::connect(&master.socket));
            (told, given.join().unwrap())
        })
    }

    #[test]
    fn what_was_not_done_is_asked_again() {
        let answers = vec![
            not_master(Unserved::Again),
            not_master(Unserved::Again),
            Some(Response::success(&json!([true, "done"]))),
        ];
        let cancel = CancelJob { job_id: JobId(5), kill: false };
        let (told, given) = asked(answers, LONG, &cancel);
        assert_eq!((told.unwrap(), given), ((true, "done".to_owned()), 3));
    }

    #[test]
    fn what_may_have_been_done_is_not() {
        let cancel = CancelJob { job_id: JobId(5), kill: false };
        for lost in [None, not_master(Unserved::Unknown), not_master(Unserved::Elsewhere)] {
            let (told, given) = asked(vec![lost, None], LONG, &cancel);
            assert!(told.is_err());
            assert_eq!(given, 1);
        }
        let answers =
            vec![None, not_master(Unserved::Unknown), Some(Response::success(&json!({})))];
        let (told, given) = asked(answers, LONG, &QueryClusterInfo {});
        assert_eq!((told.unwrap(), given), (json!({}), 3), "a question does no harm");
    }

    #[test]
    fn it_ends_with_the_last_word() {
        let (told, given) =
            asked(vec![not_master(Unserved::Again), None], Duration::ZERO, &QueryClusterInfo {});
        assert_eq!(told.unwrap_err().not_master().unwrap().outcome, Unserved::Again);
        assert_eq!(given, 1);
    }
}
