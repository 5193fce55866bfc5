//! A process that follows, and that may come to be master.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, EngineStatus, LEASE_MS, TakeOverError};
use model::cluster::Role;
use model::document;
use model::role_check::{RoleCheck, RoleRequest, RoleTaken};
use queue_format::Epoch;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::leading::hand_over;
use super::{Lifecycle, Next, STEP_MAX, State};
use crate::process::takeover::{Take, newest_config};
use crate::role::elected;
use crate::role::local_member::{self, MemberState, Reply, RoleCommand};
use crate::role::prefetch::Prefetch;
use membership::automatic;
use membership::confirm::Attempt;

/// Pause between two attempts to begin a leadership again that was this node's: long enough for others
/// to come up, short enough for who waits.
const START_AGAIN: Duration = Duration::from_secs(5);

/// How often is looked who is master by now: clients are sent there. An entry that comes from a
/// leader wakes nobody here.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The role of this process, in words for clients.
const HERE: &str = "a standby";

/// How often is listened whether the leader is silent: a tenth of what counts as silence.
const LISTEN_AGAIN: Duration = Duration::from_millis(100);

/// Pause after the parameter said that a silent leader is not this node's business.
const ASK_PARAMETER_AGAIN: Duration = Duration::from_secs(1);

/// Pause after jobs were read for a try by itself, or would have been. A leader that is often silent for
/// a moment must not keep its standby reading.
const READ_AHEAD_AGAIN: Duration = Duration::from_secs(30);

/// How a standby follows.
struct Following {
    began: Instant,
    /// No try by itself before.
    pause_until: Instant,
    /// No reading for one before.
    read_again: Instant,
    /// The jobs, read while it is not sure yet that the leader is gone.
    ahead: Option<Prefetch>,
}

impl Lifecycle {
    /// Follows, until something makes it something else.
    pub(super) async fn standby(&mut self, engine: Arc<Engine>) -> Next {
        self.set_state(MemberState::Standby(Arc::clone(&engine)));
        let now = Instant::now();
        let mut following =
            Following { began: now, pause_until: now, read_again: now, ahead: None };
        let [mut look, mut again, mut listen] = [LOOK_AGAIN, START_AGAIN, LISTEN_AGAIN].map(every);
        let mut mine = false;
        loop {
            if let Some(epoch) = engine.leads() {
                // Calls to agents by that epoch's leadership may still run: the next one must fence
                // them.
                tracing::warn!(%epoch, "leads without a role entry: begins anew");
                return self.reopen(&engine).await;
            }
            let attempt = tokio::select! {
                // First who is master, then what follows from that.
                biased;
                asked = self.ending.asked() => return self.close(&engine, asked).await,
                command = self.commands.next() => match command {
                    None => return self.close(&engine, Ok(())).await,
                    Some(command) => match self.run_errand(&engine, command, &mut following.ahead).await {
                        Some(next) => return next,
                        None => continue,
                    },
                },
                _ = look.tick() => {
                    if let Some(reason) = engine.stopped().await {
                        let failed = Err(super::DaemonError::EngineStopped { reason });
                        return self.close(&engine, failed).await;
                    }
                    let master = newest_role(&engine).map(|role| role.master);
                    mine = master.as_ref() == Some(self.me());
                    self.router.point_to(master, HERE);
                    self.forget_later(&engine);
                    if engine.status().heard_ms.is_some_and(|ms| ms <= LEASE_MS) {
                        self.router.forget_attempt();
                    }
                    continue;
                }
                _ = again.tick(), if mine => (Attempt::Start, None),
                _ = listen.tick() => {
                    let status = engine.status();
                    if !self.is_due(&engine, &status, &mut following) {
                        continue;
                    }
                    (Attempt::Automatic, following.ahead.take())
                }
            };
            let request = RoleRequest::default();
            if let Some(next) = self.try_to_take(&engine, attempt, request, None).await {
                return next;
            }
        }
    }

    /// Whether this standby is to try by itself: the leader is silent, and the cluster's parameter
    /// says so. Begins to read the jobs soon before.
    fn is_due(&self, engine: &Engine, status: &EngineStatus, following: &mut Following) -> bool {
        let now = Instant::now();
        let ms = following.began.elapsed().as_millis();
        let standby = automatic::Standby {
            member: engine.member(),
            voters: &status.members.voters,
            led: status.vote.node,
            heard_ms: status.heard_ms,
            follows_ms: u64::try_from(ms).unwrap_or(u64::MAX),
        };
        if !standby.prepares() {
            following.ahead = None;
        } else if following.ahead.is_none() && following.read_again <= now {
            following.read_again = now + READ_AHEAD_AGAIN;
            following.ahead = self.may_by_itself(engine).then(|| Prefetch::begin(engine));
        }
        if !standby.tries() || now < following.pause_until {
            return false;
        }
        let is_wanted = self.may_by_itself(engine);
        let pause = if is_wanted { START_AGAIN } else { ASK_PARAMETER_AGAIN };
        following.pause_until = now + pause;
        is_wanted
    }

    /// Whether the cluster's parameter lets the role move by itself, and this node may have it.
    fn may_by_itself(&self, engine: &Engine) -> bool {
        let config = stdx::aside(|| newest_config(engine, self.me()));
        config.is_ok_and(|config| {
            let may_be = config.nodes.get(self.me()).is_some_and(|node| node.may_be_master());
            config.cluster.auto_failover && may_be
        })
    }

    /// Tries to take the role, with the jobs that were read `ahead`. The reason is an operator's will,
    /// who is told the outcome; that this node was master last; or the master's silence.
    async fn try_to_take(
        &self,
        engine: &Arc<Engine>,
        (attempt, ahead): (Attempt, Option<Prefetch>),
        request: RoleRequest,
        outcome: Option<Reply<RoleTaken>>,
    ) -> Option<Next> {
        let tell = |taken: Result<RoleTaken, String>| {
            if let Some(outcome) = outcome {
                // The caller may have left; the log tells too.
                outcome.send(taken).unwrap_or(());
            }
        };
        let taking = Box::pin(self.take(engine, (attempt, ahead), &request));
        match self.looking(engine, taking).await {
            Ok(Take::Taken(leading, taken)) => {
                tell(Ok(taken));
                Some(Next::Be(State::Master(leading)))
            }
            Ok(Take::Reopened(engine, taken)) => {
                tracing::error!("{}", taken.message);
                tell(Ok(taken));
                Some(Next::Be(State::Standby(engine)))
            }
            Ok(Take::Stuck(taken)) => {
                tracing::error!("{}", taken.message);
                if attempt != Attempt::Failover {
                    self.router.tell_attempt(&taken);
                }
                tell(Ok(taken));
                Some(self.reopen(engine).await)
            }
            Ok(Take::Left(taken)) => {
                tracing::warn!("{}", taken.message);
                let check = taken.check.iter().flat_map(RoleCheck::lines);
                check.for_each(|line| tracing::warn!("{line}"));
                if attempt != Attempt::Failover {
                    self.router.tell_attempt(&taken);
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

    /// Does a role command; what comes next, if it is something else.
    async fn run_errand(
        &mut self,
        engine: &Arc<Engine>,
        command: RoleCommand,
        ahead: &mut Option<Prefetch>,
    ) -> Option<Next> {
        let here = engine.member();
        match command {
            RoleCommand::Join { member, outcome, .. } if member == here => {
                outcome.send(Ok(engine.recovered().incarnation)).unwrap_or(());
            }
            RoleCommand::Join { member, outcome, .. } => {
                let why = format!(
                    "here is member {here}, not {member}: the master has it put away, and asks again"
                );
                outcome.send(Err(why)).unwrap_or(());
            }
            RoleCommand::Purge { member, disposal, outcome, .. } if member == here => {
                return Some(self.purge(engine, disposal, outcome).await);
            }
            RoleCommand::Purge { member, outcome, .. } => {
                let here = self.local.book.here();
                let why = format!("here is {here}, not member {member}: nothing was wiped");
                outcome.send(Err(why)).unwrap_or(());
            }
            // The caller has given up, and would not hear what comes of it now.
            RoleCommand::HandOver { outcome, .. } if outcome.is_closed() => {}
            RoleCommand::HandOver { to, epoch, outcome, .. } => {
                let handed = match elected::may_lead(&engine.status(), epoch) {
                    Ok(()) => self.looking(engine, Box::pin(lead_and_hand_over(engine, to))).await,
                    Err(leads) => Err(self.leads_by_now(leads)),
                };
                outcome.send(handed).unwrap_or(());
            }
            RoleCommand::TakeOver { outcome, .. } if outcome.is_closed() => {}
            RoleCommand::TakeOver { request, outcome } => {
                let attempt = (Attempt::Failover, ahead.take());
                return self.try_to_take(engine, attempt, request, Some(outcome)).await;
            }
        }
        None
    }

    /// Does `work`, which may take long, and sends clients to whoever is master meanwhile.
    async fn looking<T>(&self, engine: &Engine, mut work: impl Future<Output = T> + Unpin) -> T {
        let mut look = every(LOOK_AGAIN);
        loop {
            tokio::select! {
                // Nothing is looked at any more once a leadership has begun.
                biased;
                done = &mut work => return done,
                _ = look.tick() => if let Some(role) = newest_role(engine) {
                    self.router.point_to(Some(role.master), HERE);
                },
            }
        }
    }

    /// Why the role is moved no more that another member has by now, or is about to have, in `epoch`.
    pub(crate) fn leads_by_now(&self, epoch: Epoch) -> String {
        let place = self.local.book.place(epoch.node);
        match place {
            Some(place) => format!("{} was elected meanwhile, in epoch {epoch}", place.target.name),
            None => TakeOverError::Another { epoch }.to_string(),
        }
    }

    /// Opens an engine anew that is of no use any more.
    pub(super) async fn reopen(&self, engine: &Arc<Engine>) -> Next {
        let member = engine.member();
        match self.close(engine, Ok(())).await {
            #[cfg(test)]
            ended if self.stage == super::Stage::Simulation => ended,
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

/// Ticks now, and then so far apart: what was missed while a role command was done is not made up for.
fn every(pause: Duration) -> Interval {
    let mut interval = tokio::time::interval(pause);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The newest role entry in the log, committed or not.
pub(crate) fn newest_role(engine: &Engine) -> Option<Role> {
    let found = stdx::aside(|| local_member::newest(engine, document::ROLE));
    found.inspect_err(|error| tracing::error!(error, "cannot read who is master")).ok()?
}

/// Leads for as long as it takes to commit what is held, and hands over to `to`.
async fn lead_and_hand_over(engine: &Engine, to: u64) -> Result<(), String> {
    if engine.leads().is_none() {
        let taken = engine.take_over(STEP_MAX).await;
        taken.map_err(|error| format!("not elected: {error}"))?;
    }
    hand_over(engine, to).await.map_err(|(why, _)| why)
}
