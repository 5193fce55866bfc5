//! A process that is master, and the ways in which that ends.

use std::sync::Arc;
use std::time::Duration;

use engine::{End, Engine, HandOverError};
use model::cluster_status::HEARD_WITHIN_MS;
use model::role_check::{RoleRequest, RoleTaken};
use queue_format::Epoch;
use rpc::peer::control::PeerPosition;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Lifecycle, Next, STEP_MAX, State};
use crate::config::queue::Commits;
use crate::process::leadership::Leadership;
use crate::process::stale_store::is_older_copy;
use crate::role::local_member::{Reply, RoleCommand};
use crate::role::precheck::table;
use membership::confirm::{Attempt, Decision};

/// Time for a member that is to lead to answer, before its silence is told. A member that was just
/// started is called again within this time.
const ANSWERS_WITHIN: Duration = Duration::from_millis(HEARD_WITHIN_MS);

/// A master at work, and what tells when its leadership is over.
pub(crate) struct Leading {
    pub(super) leadership: Leadership,
    pub(super) epoch: Epoch,
    pub(super) commits: Arc<Commits>,
    /// How its proposer ended.
    pub(super) end: watch::Receiver<Option<End>>,
    /// Clients and companions are told by it.
    pub(super) over: CancellationToken,
}

impl Leading {
    /// Waits until an engine leads no longer in this epoch; for ever where there is none.
    async fn deposed(&mut self) -> String {
        loop {
            let ended = self.end.wait_for(Option::is_some).await.map(|end| end.clone());
            if let Ok(Some(end)) = ended {
                return match end {
                    End::Stopped(reason) => reason,
                    End::Closed | End::Deposed => "another member leads".to_owned(),
                };
            }
            // Nobody will tell: the master is alone.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the engine leads no longer; for ever where there is none.
    async fn led(commits: &Commits, epoch: Epoch) {
        loop {
            match commits.engine() {
                Some(engine) => {
                    if engine.leads_otherwise(Some(epoch)).await != Some(epoch) {
                        return;
                    }
                }
                None => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }
}

/// Waits until a proposer that takes nothing more has no change left that is not committed; whether
/// that came to be.
async fn is_all_committed(end: &mut watch::Receiver<Option<End>>) -> bool {
    let ended = tokio::time::timeout(STEP_MAX, end.wait_for(Option::is_some)).await;
    matches!(ended, Ok(Ok(end)) if *end == Some(End::Closed))
}

fn standby(engine: Arc<Engine>) -> Next {
    Next::Be(State::Standby(engine))
}

/// Hands the lead over; why not, and whether the engine is of no use any more.
pub(super) async fn hand_over(engine: &Engine, to: u64) -> Result<(), (String, bool)> {
    let handed = engine.hand_over(to, STEP_MAX).await;
    handed.map_err(|error| {
        let is_stuck = matches!(error, HandOverError::Stuck { .. });
        (why_not(engine, to, &error), is_stuck)
    })
}

/// Why a member does not lead, for people: members have names.
fn why_not(engine: &Engine, to: u64, error: &HandOverError) -> String {
    let members = engine.status().members;
    let name = members.nodes.get(&to).map_or("no node", String::as_str);
    match error {
        HandOverError::Silent { .. } => format!(
            "{name} (member {to}) has not answered this master within a second: its disk, its \
             processor or the network is slow; look at its masterd's log, and try again"
        ),
        other => format!("{other} ({name})"),
    }
}

impl Lifecycle {
    /// Leads until that is over.
    pub(super) async fn leadership(&mut self, mut leading: Leading) -> Next {
        let (asker, local) = (self.asker(), self.local.clone());
        loop {
            let (commits, epoch) = (Arc::clone(&leading.commits), leading.epoch);
            let parts = leading.leadership.parts.clone();
            let is_alone = commits.engine().is_none();
            tokio::select! {
                biased;
                command = self.commands.next() => match command {
                    None => return self.end(leading, Ok(())).await,
                    Some(command) => match self.run_errand_as_master(leading, command).await {
                        Ok(same) => leading = same,
                        Err(next) => return next,
                    },
                },
                why = leading.deposed() => return self.depose(leading, &why).await,
                () = Leading::led(&commits, epoch) => {
                    return self.depose(leading, "it leads no longer").await;
                }
                asked = self.ending.asked() => return self.end(leading, asked).await,
                later = is_older_copy(&asker, &local, (&parts.contacts, &parts.published)), if is_alone => {
                    // It may have gone over to replication since: then nobody else had the store before.
                    if leading.commits.engine().is_none() {
                        return self.give_way(leading, later).await.0;
                    }
                }
            }
        }
    }

    /// The leadership goes on, or what comes next.
    async fn run_errand_as_master(
        &mut self,
        leading: Leading,
        command: RoleCommand,
    ) -> Result<Leading, Next> {
        match command {
            RoleCommand::Join { epoch, outcome, .. }
                if epoch > leading.epoch && leading.commits.engine().is_none() =>
            {
                let (next, kept) = self.give_way(leading, epoch).await;
                let again = "the store that was here is kept aside by now; ask again".to_owned();
                outcome.send(Err(kept.err().unwrap_or(again))).unwrap_or(());
                return Err(next);
            }
            RoleCommand::Join { outcome, .. } => {
                outcome.send(Err("this is the master".to_owned())).unwrap_or(());
            }
            RoleCommand::Purge { epoch, member, disposal, outcome } if epoch > leading.epoch => {
                return self.be_purged(leading, (member, epoch), disposal, outcome).await;
            }
            RoleCommand::Purge { outcome, .. } => {
                outcome.send(Err("this is the master".to_owned())).unwrap_or(());
            }
            RoleCommand::TakeOver { request, outcome } => {
                return self.take_over_again(leading, request, outcome).await;
            }
            RoleCommand::HandOver { epoch, outcome, .. } if epoch < leading.epoch => {
                outcome.send(Err(self.leads_by_now(leading.epoch))).unwrap_or(());
            }
            RoleCommand::HandOver { to, drain, outcome, .. } => {
                return self.hand_the_role_over(leading, (to, drain), outcome).await;
            }
        }
        Ok(leading)
    }

    /// Lets what runs come to its end, and has `to` be the master; the leadership goes on where that cannot
    /// be.
    async fn hand_the_role_over(
        &self,
        leading: Leading,
        (to, drain): (u64, Duration),
        outcome: Reply<()>,
    ) -> Result<Leading, Next> {
        let mut outcome = outcome;
        let Some(engine) = leading.commits.engine() else {
            outcome.send(Err("nobody else has the store".to_owned())).unwrap_or(());
            return Ok(leading);
        };
        if let Err(why) = engine.could_lead(to, ANSWERS_WITHIN).await {
            outcome.send(Err(why_not(&engine, to, &why))).unwrap_or(());
            return Ok(leading);
        }
        let (commits, epoch) = (Arc::clone(&leading.commits), leading.epoch);
        tracing::info!(to, "asked for the role: what runs may end, and nothing begins");
        let quiet = tokio::select! {
            biased;
            () = Leading::led(&commits, epoch) => {
                outcome.send(Err("another member leads by now".to_owned())).unwrap_or(());
                return Err(self.depose(leading, "it leads no longer").await);
            }
            // An opcode that waits for locks does not begin now: it is told to stay, where that ends the
            // leadership.
            _ = self.ending.asked() => {
                outcome.send(Err("masterd is ending on this node".to_owned())).unwrap_or(());
                return Ok(leading);
            }
            () = outcome.closed() => Err("who asked for it has left".to_owned()),
            quiet = self.be_quiet(&leading, (&engine, to), drain) => quiet,
        };
        if let Err(why) = quiet {
            tracing::warn!(why, to, "the role is not handed over");
            outcome.send(Err(why)).unwrap_or(());
            leading.leadership.resume();
            return Ok(leading);
        }
        tracing::info!(to, "no opcode runs: the role is handed over");
        drop(commits);
        let Leading { mut leadership, commits, over, mut end, .. } = leading;
        leadership.leave_address().await;
        over.cancel();
        let ended = leadership.end().await;
        drop(commits);
        let handed = match (ended, is_all_committed(&mut end).await) {
            (Ok(()), true) if outcome.is_closed() => {
                Err(("who asked for it has left".to_owned(), false))
            }
            (Ok(()), true) => hand_over(&engine, to).await,
            (Err(error), _) => Err((stdx::daemon::chain(&error), false)),
            (Ok(()), false) => Err(("what was decided is not committed yet".to_owned(), false)),
        };
        let is_stuck = matches!(handed, Err((_, true)));
        let handed = handed.map_err(|(why, _)| why);
        if let Err(why) = &handed {
            tracing::error!(why, to, "the role could not be handed over");
        }
        outcome.send(handed).unwrap_or(());
        Err(if is_stuck { self.reopen(&engine).await } else { standby(engine) })
    }

    /// Waits until no opcode runs, and `to` could lead at once; why that is not so.
    async fn be_quiet(
        &self,
        leading: &Leading,
        (engine, to): (&Engine, u64),
        drain: Duration,
    ) -> Result<(), String> {
        if !leading.leadership.pause(drain).await {
            let text =
                "opcodes still run; wait for them, or cancel them (`gnt job list --running`)";
            return Err(text.to_owned());
        }
        // The wait took a while: from here on there is no way back.
        engine.could_lead(to, ANSWERS_WITHIN).await.map_err(|why| why_not(engine, to, &why))
    }

    /// Answers a request to take the role that this node has already. A request to override voters that
    /// are gone ends this leadership: a standby does it then.
    async fn take_over_again(
        &mut self,
        leading: Leading,
        request: RoleRequest,
        mut outcome: Reply<RoleTaken>,
    ) -> Result<Leading, Next> {
        let is_heard = leading.commits.majority().contact().takes_changes();
        let already = match is_heard {
            true => format!("{} is the master already", self.me()),
            false => format!(
                "{} is the master already, and hears no majority of the voters: it goes on when they \
                 are back; if they are lost, --no-voting --yes-do-it goes on without them",
                self.me()
            ),
        };
        if !request.dry_run && (is_heard || !request.no_voting) {
            outcome.send(Ok(RoleTaken::refused(already))).unwrap_or(());
            return Ok(leading);
        }
        let stand = self.local.stand().await;
        let own = PeerPosition { leads: is_heard, ..stand };
        let config = leading.leadership.parts.published.snapshot().config;
        let (commits, epoch) = (Arc::clone(&leading.commits), leading.epoch);
        let asked = tokio::select! {
            biased;
            () = Leading::led(&commits, epoch) => {
                let text = format!("{} is the master no longer", self.me());
                outcome.send(Ok(RoleTaken::refused(text))).unwrap_or(());
                return Err(self.depose(leading, "it leads no longer").await);
            }
            // The caller has given up, and would not hear what comes of it now.
            () = outcome.closed() => return Ok(leading),
            // The loop above ends the leadership.
            _ = self.ending.asked() => return Ok(leading),
            asked = self.ask_everyone((&config, &own), Attempt::Failover, &request) => asked,
        };
        let (question, verdict) = match asked {
            Ok(asked) => asked,
            Err(error) => {
                let text = stdx::daemon::chain(&error);
                outcome.send(Ok(RoleTaken::refused(text))).unwrap_or(());
                return Ok(leading);
            }
        };
        if !request.dry_run && matches!(verdict.decision, Decision::Override { .. }) {
            self.commands.again = Some(RoleCommand::TakeOver { request, outcome });
            return Err(self.depose(leading, "the voters that are gone are overridden").await);
        }
        let message = if request.dry_run { self.looked(&verdict) } else { already };
        let check = Some(table::table(&question, &verdict));
        outcome.send(Ok(RoleTaken { check, ..RoleTaken::refused(message) })).unwrap_or(());
        Ok(leading)
    }

    /// Ends a leadership that another member has ended: at once.
    pub(super) async fn depose(&self, leading: Leading, why: &str) -> Next {
        let term = leading.epoch.term;
        let newer = leading.commits.engine().map(|engine| engine.status().vote);
        tracing::error!(why, term, ?newer, "no longer the master: stops, and follows");
        leading.over.cancel();
        let engine = leading.commits.engine();
        leading.leadership.abandon().await;
        match engine {
            Some(engine) => standby(engine),
            None => Next::End(Err(super::DaemonError::PartEnded)),
        }
    }

    /// Ends with the process.
    pub(super) async fn end(
        &self,
        leading: Leading,
        asked: Result<(), super::DaemonError>,
    ) -> Next {
        stdx::daemon::notify_stopping();
        let Leading { leadership, commits, over, mut end, .. } = leading;
        leadership.begin_to_end();
        // Clients are still answered what is decided already.
        self.shut_door().await;
        over.cancel();
        let ended = leadership.end().await;
        let Some(engine) = commits.engine() else { return Next::End(asked.and(ended)) };
        if !is_all_committed(&mut end).await {
            tracing::warn!(
                "what was decided last is not committed yet; it may be by whoever is master next"
            );
        }
        self.close(&engine, asked.and(ended)).await
    }
}
