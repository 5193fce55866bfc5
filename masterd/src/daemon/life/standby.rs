//! A process that follows, and that may come to be master.

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use model::cluster::Role;
use model::document;
use model::role_check::{RoleCheck, RoleRequest, RoleTaken};
use queue_format::Key;

use super::{Life, Next, STEP_MAX, State};
use crate::daemon::taker::Take;
use crate::house::{Errand, Outcome, Seat};
use crate::role::confirm::Attempt;

/// Pause between two attempts to begin a reign again that was this node's: long enough for others
/// to come up, short enough for who waits.
const START_AGAIN: Duration = Duration::from_secs(5);

/// How often is looked who is master by now: clients are sent there. An entry that comes from a
/// leader wakes nobody here.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Life {
    /// Follows, until something makes it something else.
    pub(super) async fn standby(&mut self, engine: Arc<Engine>) -> Next {
        self.sit(Seat::Standby(Arc::clone(&engine)));
        let mut pause = tokio::time::interval(START_AGAIN);
        loop {
            let role = newest_role(&engine);
            let master = role.as_ref().map(|role| role.master.clone());
            let mine = master.as_ref() == Some(self.me());
            self.door.point_to(master, "a standby");
            tokio::select! {
                errand = self.errands.recv() => match errand {
                    None => return self.close(&engine, Ok(())).await,
                    Some(errand) => if let Some(next) = self.run_errand(&engine, errand).await {
                        return next;
                    },
                },
                _ = pause.tick(), if mine => {
                    let outcome = None;
                    if let Some(next) = self.try_to_take(&engine, RoleRequest::default(), outcome).await {
                        return next;
                    }
                }
                (stopped, standing) = engine.wait_for(LOOK_AGAIN, |seen| seen.stopped.is_some()) => {
                    if stopped {
                        let reason = standing.stopped.unwrap_or_default();
                        let failed = Err(super::DaemonError::EngineStopped { reason });
                        return self.close(&engine, failed).await;
                    }
                }
                asked = self.ending.asked() => return self.close(&engine, asked).await,
            }
        }
    }

    /// Tries to take the role: as who was master last, or by an operator's will, who is told what came of
    /// it.
    async fn try_to_take(
        &self,
        engine: &Arc<Engine>,
        request: RoleRequest,
        outcome: Option<Outcome<RoleTaken>>,
    ) -> Option<Next> {
        let attempt = if outcome.is_some() { Attempt::Failover } else { Attempt::Start };
        let tell = |taken: Result<RoleTaken, String>| {
            if let Some(outcome) = outcome {
                // Who asked may have left; the log tells too.
                outcome.send(taken).unwrap_or(());
            }
        };
        match self.take(engine, attempt, &request).await {
            Ok(Take::Taken(reigning, taken)) => {
                tell(Ok(taken));
                Some(Next::Be(State::Master(reigning)))
            }
            Ok(Take::Reopened(engine, taken)) => {
                tracing::error!("{}", taken.message);
                tell(Ok(taken));
                Some(Next::Be(State::Standby(engine)))
            }
            Ok(Take::Left(taken)) => {
                let check = taken.check.iter().flat_map(RoleCheck::lines);
                let lines: Vec<_> = std::iter::once(taken.message.clone()).chain(check).collect();
                tracing::warn!("{}", lines.join("\n"));
                if attempt == Attempt::Start {
                    self.door.tell_attempt(&taken);
                }
                tell(Ok(taken));
                None
            }
            Err(fatal) => {
                tell(Err(stdx::daemon::chain(&fatal)));
                Some(self.close(engine, Err(fatal)).await)
            }
        }
    }

    /// Does an errand; what comes next, if it is something else.
    async fn run_errand(&mut self, engine: &Arc<Engine>, errand: Errand) -> Option<Next> {
        let here = engine.member();
        match errand {
            Errand::Join { member, outcome } if member == here => {
                outcome.send(Ok(engine.recovered().incarnation)).unwrap_or(());
            }
            Errand::Join { member, outcome } => {
                let why = format!("here is member {here}, not {member}; purge it first");
                outcome.send(Err(why)).unwrap_or(());
            }
            Errand::Purge { member, aside, outcome, .. } if member == here => {
                return Some(Next::Be(self.purge(engine, aside, outcome).await));
            }
            Errand::Purge { outcome, .. } => outcome.send(Ok(())).unwrap_or(()),
            Errand::HandOver { to, outcome, .. } => {
                let handed = lead_and_hand_over(engine, to).await;
                outcome.send(handed).unwrap_or(());
            }
            Errand::TakeOver { request, outcome } => {
                return self.try_to_take(engine, request, Some(outcome)).await;
            }
        }
        None
    }

    /// Opens an engine anew that is of no use any more.
    pub(super) async fn reopen(&self, engine: &Arc<Engine>) -> Next {
        let member = engine.member();
        match self.close(engine, Ok(())).await {
            Next::End(Ok(())) => match self.open_engine(member).await {
                Ok(engine) => Next::Be(State::Standby(engine)),
                Err(error) => Next::End(Err(error)),
            },
            failed => failed,
        }
    }

    /// Ends with an engine.
    pub(super) async fn close(
        &self,
        engine: &Arc<Engine>,
        outcome: Result<(), super::DaemonError>,
    ) -> Next {
        let closed = engine.close().await;
        self.followers.join().await;
        Next::End(outcome.and(closed.map_err(super::DaemonError::Close)))
    }
}

/// The newest role entry in the log, committed or not.
pub(in crate::daemon) fn newest_role(engine: &Engine) -> Option<Role> {
    let key = Key::parse(document::ROLE).expect("keys of documents are good keys");
    let found = stdx::aside(|| engine.newest(&key));
    let content =
        found.inspect_err(|error| tracing::error!(%error, "cannot read who is master")).ok()??;
    let read = serde_json::from_slice(&content);
    read.inspect_err(|error| tracing::error!(%error, "cannot read who is master")).ok()
}

/// Leads for as long as it takes to commit what is held, and hands over to `to`.
async fn lead_and_hand_over(engine: &Engine, to: u64) -> Result<(), String> {
    if engine.leads().is_none() {
        let taken = engine.take_over(STEP_MAX).await;
        taken.map_err(|error| format!("not elected: {error}"))?;
    }
    engine.hand_over(to, STEP_MAX).await.map_err(|error| error.to_string())
}
