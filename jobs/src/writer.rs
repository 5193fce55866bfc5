//! The way to the writer: what clients' connections, workers and the daemon hold of it.

use luxi::response::{ENDED, ENDING};
use model::error::ExceptionKind;
use model::job::Wait;
use model::{Code, Exception, JobId};
use tokio::sync::{mpsc, oneshot};

use crate::commits::OpenEngine;
use crate::configuration::{Configuration, Decision};
use crate::event::{Channels, Event};
use crate::published::Done;

/// Commands that wait for the writer. Each comes from a client's connection or a worker that then
/// waits for the answer, so more would only hide a stall.
pub const COMMANDS_PENDING_MAX: usize = 4_096;
/// Decides on a change of the configuration, given how it stands and the last job id; or learns why
/// that is refused. None where its owner was told of a refusal.
pub type Decide<C> = Box<dyn FnOnce(Result<(&C, u64), Exception>) -> Option<Decided<C>> + Send>;

/// A transaction that is decided.
#[derive(Debug)]
pub struct Decided<C: Configuration> {
    pub(crate) changes: Vec<C::Change>,
    /// Tells its owner.
    pub(crate) done: Done,
}

/// Jobs of which one question asks why they wait, so that it does not hold up the queue.
pub const WAITS_ASKED_MAX: usize = 256;

/// Why jobs wait, each by itself.
pub type Waits = Vec<(JobId, Vec<Wait>)>;

/// A request to the writer.
pub enum Command<C: Configuration> {
    /// Something happened to the queue.
    Queue(Event<Channels>),
    /// The configuration is to change.
    Transact {
        decide: Decide<C>,
        /// The job of the opcode that changes it: from then on that is not canceled, and one that was
        /// canceled before changes nothing.
        job: Option<JobId>,
    },
    /// From here on a majority has to have what is committed.
    GoOver {
        open: OpenEngine<C>,
        /// Told when that is so.
        reply: oneshot::Sender<()>,
    },
    /// Somebody waits until no opcode runs. Opcodes are paused, so that none begins to.
    Quiet {
        /// Told when that is so, and what they did is decided.
        reply: oneshot::Sender<()>,
    },
    /// Somebody wants to know why jobs wait. Nothing is changed, so nothing is committed.
    Explain {
        /// Which, at most [`WAITS_ASKED_MAX`].
        jobs: Vec<JobId>,
        /// Gets the queue's reasons.
        reply: oneshot::Sender<Waits>,
    },
}

impl<C: Configuration> std::fmt::Debug for Command<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Queue(event) => f.debug_tuple("Queue").field(event).finish(),
            Self::Transact { .. } => f.write_str("Transact"),
            Self::GoOver { .. } => f.write_str("GoOver"),
            Self::Quiet { .. } => f.write_str("Quiet"),
            Self::Explain { jobs, .. } => f.debug_tuple("Explain").field(jobs).finish(),
        }
    }
}

/// The way to the writer; clones share it.
#[derive(Debug)]
pub struct Writer<C: Configuration> {
    commands: mpsc::Sender<Command<C>>,
}

impl<C: Configuration> Clone for Writer<C> {
    fn clone(&self) -> Self {
        Self { commands: self.commands.clone() }
    }
}

impl<C: Configuration> Writer<C> {
    /// The way to a writer that is yet to run, and what it will run on.
    pub fn channel() -> (Self, mpsc::Receiver<Command<C>>) {
        let (commands, receiver) = mpsc::channel(COMMANDS_PENDING_MAX);
        (Self { commands }, receiver)
    }

    /// Tells the queue of something, without waiting for more than room in the channel.
    ///
    /// # Errors
    /// The master is ending, and nothing has happened.
    pub async fn tell(&self, event: Event<Channels>) -> Result<(), Exception> {
        self.send(Command::Queue(event)).await
    }

    /// Asks the queue for something; `make` gets the place for the answer. The answer comes when
    /// all that it says is durable.
    ///
    /// # Errors
    /// The master is ending: nothing has happened, or that is not known.
    pub async fn ask<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<T>) -> Event<Channels>,
    ) -> Result<T, Exception> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Queue(make(reply))).await?;
        answer.await.map_err(|_dropped| unknown())
    }

    /// Changes the configuration; returns what `decide` gave beside the changes, when they are
    /// durable. `decide` gets the newest configuration.
    ///
    /// If `job` is given, its opcode cannot be canceled from then on.
    ///
    /// # Errors
    /// What `decide` says; [`ExceptionKind::JobCanceled`] if the job was canceled before; or the
    /// master is ending, and nothing has happened or that is not known.
    pub async fn transact<T: Send + 'static>(
        &self,
        job: Option<JobId>,
        decide: impl FnOnce(&C) -> Decision<C, T> + Send + 'static,
    ) -> Result<T, Exception> {
        self.transact_at(job, |config, _serial| decide(config)).await
    }

    /// The same with the last job id that was given out, too.
    ///
    /// # Errors
    /// As there.
    pub async fn transact_at<T: Send + 'static>(
        &self,
        job: Option<JobId>,
        decide: impl FnOnce(&C, u64) -> Decision<C, T> + Send + 'static,
    ) -> Result<T, Exception> {
        let (reply, answer) = oneshot::channel();
        let decide = move |at: Result<(&C, u64), Exception>| {
            // An owner that left does not need its answer.
            match at.and_then(|(config, serial)| decide(config, serial)) {
                Ok((changes, value)) => {
                    let tell = |done: Result<(), _>| drop(reply.send(done.map(|()| value)));
                    Some(Decided { changes, done: Done::new(tell) })
                }
                Err(refusal) => {
                    drop(reply.send(Err(refusal)));
                    None
                }
            }
        };
        self.send(Command::Transact { decide: Box::new(decide), job }).await?;
        answer.await.map_err(|_dropped| unknown())?
    }

    /// Has everything replicated from here on, by the engine that `open` opens; what is under way
    /// is committed before.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn go_over(&self, open: OpenEngine<C>) -> Result<(), Exception> {
        let (reply, done) = oneshot::channel();
        self.send(Command::GoOver { open, reply }).await?;
        done.await.map_err(|_dropped| unknown())
    }

    /// Returns when no opcode runs, and everything that they did is decided. Opcodes must be paused.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn quiet(&self) -> Result<(), Exception> {
        let (reply, is_quiet) = oneshot::channel();
        self.send(Command::Quiet { reply }).await?;
        is_quiet.await.map_err(|_dropped| refused())
    }

    /// Why jobs wait, as far as the queue knows; at most [`WAITS_ASKED_MAX`] are answered for.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn explain(&self, mut jobs: Vec<JobId>) -> Result<Waits, Exception> {
        jobs.truncate(WAITS_ASKED_MAX);
        let (reply, answer) = oneshot::channel();
        self.send(Command::Explain { jobs, reply }).await?;
        answer.await.map_err(|_dropped| refused())
    }

    async fn send(&self, command: Command<C>) -> Result<(), Exception> {
        self.commands.send(command).await.map_err(|_closed| refused())
    }
}

fn refused() -> Exception {
    Exception::new(
        ExceptionKind::GenericError,
        format!("{ENDING}, and nothing was done; try again when it is back"),
    )
    .coded(Code::MasterUnreached)
}

fn unknown() -> Exception {
    Exception::new(
        ExceptionKind::GenericError,
        format!("{ENDED}; look whether it was done before you try again"),
    )
    .coded(Code::OutcomeUnknown)
}
