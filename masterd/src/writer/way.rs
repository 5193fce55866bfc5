//! The way to the writer: what clients' connections, workers and the life of the daemon hold of it.

use luxi::response::{ENDED, ENDING};
use model::error::ExceptionKind;
use model::{Exception, JobId};
use tokio::sync::{mpsc, oneshot};

use super::{COMMANDS_PENDING_MAX, Command, Decide, DecideAt, Reply, WAITS_ASKED_MAX, Waits};
use crate::commits::OpenEngine;
use crate::jobs::{Answer, Event};

/// The way to the writer; clones share it.
#[derive(Debug, Clone)]
pub struct Writer {
    commands: mpsc::Sender<Command>,
}

impl Writer {
    /// The way to a writer that is yet to run, and what it will run on.
    #[must_use]
    pub fn channel() -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(COMMANDS_PENDING_MAX);
        (Self { commands }, receiver)
    }

    /// Tells the queue of something, without waiting for more than room in the channel.
    ///
    /// # Errors
    /// The master is ending, and nothing has happened.
    pub async fn tell(&self, event: Event<Reply>) -> Result<(), Exception> {
        self.commands.send(Command::Queue(event)).await.map_err(|_closed| refused())
    }

    /// Asks the queue for something; `make` gets the place for the answer. The answer comes when
    /// all that it says is durable.
    ///
    /// # Errors
    /// The master is ending: nothing has happened, or that is not known.
    pub async fn ask(&self, make: impl FnOnce(Reply) -> Event<Reply>) -> Result<Answer, Exception> {
        let (reply, answer) = oneshot::channel();
        self.tell(make(reply)).await?;
        answer.await.map_err(|_dropped| unknown())
    }

    /// Changes the configuration; returns when the change is durable.
    ///
    /// # Errors
    /// What `decide` says; or the master is ending, and nothing has happened or that is not known.
    pub async fn transact(&self, decide: Decide) -> Result<(), Exception> {
        self.transact_by(None, decide).await
    }

    /// The same for the opcode of a job; [`ExceptionKind::JobCanceled`] if it was canceled before.
    ///
    /// # Errors
    /// As there.
    pub async fn transact_for(&self, job: JobId, decide: Decide) -> Result<(), Exception> {
        self.transact_by(Some(job), decide).await
    }

    async fn transact_by(&self, by: Option<JobId>, decide: Decide) -> Result<(), Exception> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Transact { decide, by, reply };
        self.commands.send(command).await.map_err(|_closed| refused())?;
        answer.await.map_err(|_dropped| unknown())?
    }

    /// Changes the configuration as [`Writer::transact`] does, with the last job id that was given
    /// out.
    ///
    /// # Errors
    /// As there.
    pub async fn transact_at(&self, decide: DecideAt) -> Result<(), Exception> {
        let (reply, answer) = oneshot::channel();
        let command = Command::TransactAt { decide, reply };
        self.commands.send(command).await.map_err(|_closed| refused())?;
        answer.await.map_err(|_dropped| unknown())?
    }

    /// Has everything replicated from here on, by the engine that `open` opens; what is under way
    /// is committed before.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn go_over(&self, open: OpenEngine) -> Result<(), Exception> {
        let (reply, done) = oneshot::channel();
        self.commands.send(Command::GoOver { open, reply }).await.map_err(|_closed| refused())?;
        done.await.map_err(|_dropped| unknown())
    }

    /// Returns when no opcode runs, and everything that they did is decided. The gate must be shut.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn quiet(&self) -> Result<(), Exception> {
        let (reply, is_quiet) = oneshot::channel();
        self.commands.send(Command::Quiet { reply }).await.map_err(|_closed| refused())?;
        is_quiet.await.map_err(|_dropped| refused())
    }

    /// Why jobs wait, as far as the queue knows; at most [`WAITS_ASKED_MAX`] are answered for.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn explain(&self, mut jobs: Vec<JobId>) -> Result<Waits, Exception> {
        jobs.truncate(WAITS_ASKED_MAX);
        let (reply, answer) = oneshot::channel();
        let command = Command::Explain { jobs, reply };
        self.commands.send(command).await.map_err(|_closed| refused())?;
        answer.await.map_err(|_dropped| refused())
    }
}

fn refused() -> Exception {
    Exception::new(
        ExceptionKind::GenericError,
        format!("{ENDING}, and nothing was done; try again when it is back"),
    )
}

fn unknown() -> Exception {
    Exception::new(
        ExceptionKind::GenericError,
        format!("{ENDED}; look whether it was done before you try again"),
    )
}
