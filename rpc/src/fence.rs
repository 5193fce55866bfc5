//! Keeps calls of two masters apart (docs/failover.md).
//!
//! A call that changes the node enters under its epoch. A lower epoch is refused. A higher one is
//! made durable first, then interrupts what still runs under older ones, and waits for its end: so
//! calls of two epochs never run together.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use model::NodeName;
use queue_format::Epoch;

use crate::wire::{Failure, FailureKind};

mod table;

pub use table::{Entry, Obeyed, Table};

/// Why a running call should end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// A master of a higher epoch has called.
    Superseded(Epoch),
    /// The caller gave up, or its connection broke.
    CallerGone,
    /// The agent is ending.
    Stopping,
}

impl Interruption {
    /// The answer to the call, if anyone still listens.
    pub fn failure(self) -> Failure {
        Failure::new(
            FailureKind::Interrupted,
            match self {
                Self::Superseded(epoch) => format!("ended early: the node now obeys epoch {epoch}"),
                Self::CallerGone => "ended early: the caller gave up".to_owned(),
                Self::Stopping => "ended early: the agent is stopping".to_owned(),
            },
        )
    }
}

/// One side of a call's interruption: whoever holds it can end the call.
#[derive(Debug, Clone)]
pub struct Signal(watch::Sender<Option<Interruption>>);

/// The other side: the call waits on it beside its own work.
#[derive(Debug, Clone)]
pub struct Interrupt(watch::Receiver<Option<Interruption>>);

impl Signal {
    /// A pair for one call.
    pub fn new() -> (Self, Interrupt) {
        let (sender, receiver) = watch::channel(None);
        (Self(sender), Interrupt(receiver))
    }

    /// Asks the call to end; the first reason stays.
    pub fn raise(&self, why: Interruption) {
        self.0.send_if_modified(|slot| {
            let first = slot.is_none();
            slot.get_or_insert(why);
            first
        });
    }
}

impl Interrupt {
    /// Waits until the call should end. Never ends where nothing interrupts it.
    pub async fn wait(&mut self) -> Interruption {
        match self.0.wait_for(Option::is_some).await.map(|why| *why) {
            Ok(Some(why)) => why,
            // Nobody is left who could interrupt.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

/// The reason why an epoch could not be made durable.
pub type HoldError = Box<dyn std::error::Error + Send + Sync>;

/// The durable store of the epoch and the master that the node obeys.
pub trait EpochStore: Send + Sync + 'static {
    /// Makes the epoch and its master durable, both or none; the agent obeys only after that.
    fn hold(&self, obeyed: &Obeyed) -> impl Future<Output = Result<(), HoldError>> + Send;
}

/// The gate that every changing call passes.
#[derive(Debug)]
pub struct Fence<S> {
    store: S,
    shared: Arc<Shared>,
    /// Held while a higher epoch is being made durable: one at a time.
    rising: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Shared {
    table: Mutex<Table<Signal>>,
    ended: Notify,
}

/// Leave to run, under one epoch. The call ends when it is dropped.
#[derive(Debug)]
pub struct Permit {
    shared: Arc<Shared>,
    ticket: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.table.lock().leave(self.ticket);
        self.shared.ended.notify_waiters();
    }
}

impl<S: EpochStore> Fence<S> {
    /// A gate of a node that obeys `held`, as `store` kept it.
    pub fn new(store: S, held: Obeyed) -> Self {
        let shared = Shared { table: Mutex::new(Table::new(held)), ended: Notify::new() };
        Self { store, shared: Arc::new(shared), rising: tokio::sync::Mutex::new(()) }
    }

    /// The epoch that is obeyed.
    pub fn held(&self) -> Epoch {
        self.shared.table.lock().held()
    }

    /// Calls that have leave to run.
    pub fn running(&self) -> usize {
        self.shared.table.lock().running()
    }

    /// Waits for leave to run a call of `caller` under `epoch`; `signal` interrupts it.
    ///
    /// # Errors
    /// A higher epoch is obeyed, the agent is stopping, or the epoch could not be made durable.
    pub async fn enter(
        &self,
        epoch: Epoch,
        caller: &NodeName,
        signal: &Signal,
    ) -> Result<Permit, Failure> {
        loop {
            let ended = self.shared.ended.notified();
            tokio::pin!(ended);
            // Registered before the look at the table, so that no end between them is missed.
            ended.as_mut().enable();
            let entry = self.shared.table.lock().enter(epoch, signal);
            match entry {
                Entry::Granted { ticket } => {
                    return Ok(Permit { shared: Arc::clone(&self.shared), ticket });
                }
                Entry::Refused { held } => return Err(Failure::epoch(epoch, held)),
                Entry::Stopping => return Err(Interruption::Stopping.failure()),
                Entry::Rise => self.rise(epoch, caller).await?,
                Entry::Wait => ended.await,
            }
        }
    }

    async fn rise(&self, epoch: Epoch, caller: &NodeName) -> Result<(), Failure> {
        let _turn = self.rising.lock().await;
        if !self.shared.table.lock().is_news(epoch) {
            return Ok(());
        }
        let obeyed = Obeyed { epoch, master: Some(caller.clone()) };
        self.store.hold(&obeyed).await.map_err(|error| {
            tracing::error!(%epoch, %error, "epoch was not made durable");
            Failure::failed(format!("cannot make epoch {epoch} durable: {error}"))
        })?;
        tracing::info!(%epoch, master = %caller, "obeying");
        for signal in self.shared.table.lock().rise(obeyed) {
            signal.raise(Interruption::Superseded(epoch));
        }
        self.shared.ended.notify_waiters();
        Ok(())
    }

    /// Grants nothing more, and interrupts what runs.
    pub fn stop(&self) {
        for signal in self.shared.table.lock().stop() {
            signal.raise(Interruption::Stopping);
        }
        self.shared.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
