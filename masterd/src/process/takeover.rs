//! Takes the role on an engine: asks everyone, is elected or handed the lead, looks once more, and
//! makes the role entry (docs/failover.md). Serves the change of master.

use std::sync::Arc;
use std::time::Duration;

use engine::{End, Engine, EngineStatus, TakeOverError};
use model::cluster::Role;
use model::role_check::{RoleRequest, RoleTaken};
use model::{NodeName, document};
use queue_format::{Epoch, Position, Refusal};
use rpc::Client;
use rpc::peer::control::{LeadAndHandOver, PeerPosition};
use stdx::Tasks;
use stdx::daemon::chain;
use tokio::sync::watch;
use tokio::time::Instant;

use super::DaemonError;
use super::leadership;
use super::lifecycle::{Leading, Lifecycle, newest_role};
use super::newer_epoch::NewerEpochError;
use crate::config::queue::Commits;
use crate::config::{Config, ConfigChange};
use crate::role::load::FoundError;
use crate::role::local_member::newest;
use crate::role::precheck::{self, Asker, answers, table};
use crate::role::prefetch::Prefetch;
use crate::role::replicate::Publisher;
use crate::role::{elected, load, replicate};
use membership::confirm::{
    Attempt, Decision, Question, Reason, RoleEntry, Verdict, Waivers, confirm, given_jobs,
    knows_all_jobs, still_able, still_designated,
};
use membership::job_ids::LastJob;

/// How long all are waited for where enough have answered: longer than who lives takes, mostly.
pub(super) const PATIENCE: Duration = Duration::from_millis(1_500);

/// The same for who tries by itself, and for each answer: it tries again, and should not be long
/// about it.
const PATIENCE_AUTOMATIC: Duration = Duration::from_secs(1);
pub(super) const ANSWER_MAX_AUTOMATIC: Duration = Duration::from_secs(2);

/// How long who was just invited is waited for: what it was sent is committed there with the next
/// heartbeat.
const FIRST_COPY_WAIT: Duration = Duration::from_secs(2);

/// How long an election may take: several tries, each within the engine's longest pause.
const ELECTION_MAX: Duration = Duration::from_secs(10);

/// Longest time from the end of work on the one master to the election of the other. The old master
/// gives its address up, ends, commits what was decided and offers the lead, each within its limit.
const HAND_OVER_MAX: Duration = Duration::from_secs(60);

/// How long an elected member waits for its role entry while no majority of the voters answers. It
/// serves nobody meanwhile, and does no role command: not even the one that would override the others.
const MAJORITY_LOST_MAX: Duration = Duration::from_secs(10);
/// How often is looked whether a majority answers.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The outcome of an attempt.
pub(super) enum Take {
    /// This process is master.
    Taken(Box<Leading>, RoleTaken),
    Left(RoleTaken),
    /// It is what it was, with its store opened anew.
    Reopened(Arc<Engine>, RoleTaken),
    /// It leads and cannot be master: its store has to be opened anew.
    Stuck(RoleTaken),
}

/// How a node comes to lead.
enum Lead {
    Leads(Epoch),
    /// It is to go on whatever the others hold.
    Overrides(Box<(Question, Verdict)>),
}

impl Lifecycle {
    /// Takes the role, or says why not. Jobs that are being read `ahead` are not read again.
    ///
    /// # Errors
    /// What ends the process: a store that cannot be gone on with.
    pub(super) async fn take(
        &self,
        engine: &Arc<Engine>,
        (attempt, ahead): (Attempt, Option<Prefetch>),
        request: &RoleRequest,
    ) -> Result<Take, DaemonError> {
        let is_empty = |status: &EngineStatus| status.applied == Position::default();
        if !engine.wait_for(FIRST_COPY_WAIT, |status| !is_empty(status)).await.0 {
            let why = format!("{} has nothing of the store yet", self.me());
            let until = "wait until `gnt cluster status` calls it a voter";
            return Ok(Take::Left(RoleTaken::refused(format!("{why}; {until}"))));
        }
        let reader = engine.reader();
        let follower = self.follower();
        // An image of the store may have come a moment ago, with members that are not known yet.
        stdx::aside(|| follower.look(&reader)).map_err(load::FoundError::Read)?;
        let read = || -> Result<_, FoundError> {
            let config = newest_config(engine, self.me())?;
            jobs::load::serial(&reader)?;
            Ok(config)
        };
        let config = match stdx::aside(read) {
            Ok(config) => config,
            // It goes on to follow: who was just invited has nothing yet.
            Err(error) if attempt != Attempt::Start => {
                let why = format!("{} cannot be the master with what it has", self.me());
                return Ok(Take::Left(RoleTaken::refused(format!("{why}: {}", chain(&error)))));
            }
            Err(error) => return Err(error.into()),
        };
        // An attempt that repeats again and again must not read each time, however many do not answer.
        let reads = attempt == Attempt::Failover && !request.dry_run;
        let mut ahead = ahead.or_else(|| reads.then(|| Prefetch::begin(engine)));
        // To lead without a leadership is to be master of nothing: it is elected anew.
        let own = PeerPosition { leads: false, ..self.local.stand().await };
        let asked = self.ask_everyone((&config, &own), attempt, request).await;
        let asked = asked.and_then(|asked| match request.dry_run {
            true => Ok(asked),
            false => self.remember(&asked.0).map(|()| asked),
        });
        let (question, verdict) = match asked {
            Ok(asked) => asked,
            Err(error) => return Ok(Take::Left(RoleTaken::refused(chain(&error)))),
        };
        let check = table::table(&question, &verdict);
        let told = |done, message: String| RoleTaken {
            done,
            check: Some(check.clone()),
            ..RoleTaken::refused(message)
        };
        if request.dry_run {
            return Ok(Take::Left(told(false, self.looked(&verdict))));
        }
        if attempt == Attempt::Automatic && matches!(verdict.decision, Decision::Go) {
            ahead.get_or_insert_with(|| Prefetch::begin(engine));
        }
        let given = given_jobs(&question);
        let asked = (question, verdict);
        match self.lead(engine, asked, request.drain_seconds, ahead.as_mut()).await {
            Ok(Lead::Leads(epoch)) => {
                self.be_master((engine, ahead), (attempt, &given), epoch, told).await
            }
            Ok(Lead::Overrides(asked)) => {
                check.lines().iter().for_each(|line| tracing::error!("override: {line}"));
                let engine = self.override_others(engine, &asked.0, &asked.1).await?;
                let known = engine.status().vote;
                let taken = match self.be_elected(&engine, known).await {
                    Ok(epoch) => {
                        self.be_master((&engine, None), (attempt, &[]), epoch, told).await?
                    }
                    Err(message) => Take::Left(told(false, message)),
                };
                Ok(overridden(taken, engine))
            }
            Err(message) => Ok(Take::Left(told(false, message))),
        }
    }

    /// Makes the role entry of a leadership in `epoch`, in which this member leads; `given` are the job ids
    /// that others knew of.
    async fn be_master(
        &self,
        (engine, ahead): (&Arc<Engine>, Option<Prefetch>),
        (attempt, given): (Attempt, &[(NodeName, LastJob)]),
        epoch: Epoch,
        told: impl Fn(bool, String) -> RoleTaken,
    ) -> Result<Take, DaemonError> {
        let left = |message: String| Ok(Take::Left(told(false, message)));
        let reader = engine.reader();
        let entry = newest_role(engine).map(|role| role_entry(&role));
        if let Err(reason) = still_designated(attempt, self.me(), entry.as_ref()) {
            return left(format!("{reason}; that came to be since everyone was asked"));
        }
        let found = match ahead {
            Some(ahead) => match ahead.load(&reader).await {
                Ok(found) => found,
                Err(error) => return Ok(Take::Stuck(told(false, self.unread(&chain(&error))))),
            },
            None => stdx::aside(|| load::load(&reader))?,
        };
        let at = engine.position().index;
        let own = LastJob { id: found.serial, from: at, upto: at };
        if let Err(reason) = knows_all_jobs(self.me(), own, given) {
            let why = format!("{reason}; {}", reason.remedy());
            return Ok(Take::Stuck(told(false, why)));
        }
        let (node, by_itself) =
            (found.config.nodes.get(self.me()), found.config.cluster.auto_failover);
        if let Err(reason) = still_able(attempt, self.me(), node.map(AsRef::as_ref), by_itself) {
            return left(format!("{reason}; that came to be since everyone was asked"));
        }
        let (ended, end) = watch::channel(None::<End>);
        let (begin, authority) = self.begin(found, reader, engine.position(), epoch)?;
        let start = |publisher: Publisher| {
            let tasks = &self.followers;
            let led = replicate::propose(Arc::clone(engine), epoch, publisher, tasks, ended);
            Ok(Commits::replicated(led.0, led.1))
        };
        let taken = tokio::select! {
            biased;
            taken = leadership::take_role(begin, &self.clock, start) => taken,
            why = self.is_in_vain(engine) => return Ok(Take::Stuck(told(false, why))),
        };
        match taken {
            Ok(master) => {
                self.forget_later(engine);
                let leading = self.enthrone(master, authority, end, None);
                let message = format!("{} is the master, in epoch {epoch}", self.me());
                Ok(Take::Taken(Box::new(leading), told(true, message)))
            }
            Err(
                error @ (DaemonError::RoleLost
                | DaemonError::Refused(Refusal::CutOff | Refusal::Stopped)),
            ) => left(format!("another member was elected meanwhile: {}", chain(&error))),
            Err(DaemonError::Refused(reason)) => {
                let why =
                    format!("{} was elected, and its store did not take the role entry", self.me());
                Ok(Take::Stuck(told(false, format!("{why}: {reason}"))))
            }
            Err(fatal) => Err(fatal),
        }
    }

    pub(super) fn asker(&self) -> Asker {
        let agents = Client::new(Arc::clone(&self.identity), Tasks::new());
        let (me, book) = (self.me().clone(), self.local.book.clone());
        let metrics = Arc::clone(&self.metrics);
        Asker::new(me, self.local.cluster_uuid, (agents, book), metrics)
    }

    /// Waits until it is in vain to wait for the role entry; says why.
    async fn is_in_vain(&self, engine: &Engine) -> String {
        let lost = async {
            let mut since = None;
            loop {
                match engine.status().takes_proposals() {
                    Some(_) => since = None,
                    None if since.get_or_insert_with(Instant::now).elapsed()
                        >= MAJORITY_LOST_MAX =>
                    {
                        return;
                    }
                    None => {}
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let me = self.me();
        tokio::select! {
            biased;
            _ = self.ending.asked() => format!("{me} was elected, and is asked to end"),
            () = lost => format!(
                "{me} was elected, and then no majority of the voters answered for {} s: bring them back \
                 (`gnt cluster master-failover --dry-run` shows who answers); then `gnt cluster master-failover` again, if it is not the master by itself",
                MAJORITY_LOST_MAX.as_secs()
            ),
        }
    }

    /// The words for a look that was all that was asked for.
    pub(super) fn looked(&self, verdict: &Verdict) -> String {
        let asked = "everyone was asked, and nothing was done";
        match &verdict.decision {
            Decision::Refuse { reasons } => format!("{}; {asked}", self.may_not(reasons)),
            _ => asked.to_owned(),
        }
    }

    /// Asks everyone, and judges what they say; of this node, `own` is what it says.
    pub(super) async fn ask_everyone(
        &self,
        (config, own): (&Config, &PeerPosition),
        attempt: Attempt,
        request: &RoleRequest,
    ) -> Result<(Question, Verdict), NewerEpochError> {
        let asker = Asker { later: self.later()?, ..self.asker() };
        let asker = match attempt {
            // An operator who only looks sees everybody.
            _ if request.dry_run => asker,
            Attempt::Start | Attempt::Failover => Asker { patience: PATIENCE, ..asker },
            Attempt::Automatic => {
                let (limit, patience) = (ANSWER_MAX_AUTOMATIC, PATIENCE_AUTOMATIC);
                Asker { limit, patience, ..asker }
            }
        };
        let question = precheck::ask(&asker, config, attempt, waivers(request), own).await;
        let own_jobs = async || self.local.stand().await.last_job.map(answers::last_job);
        let question = question.with_own_jobs(own_jobs().await);
        let verdict = confirm(&question);
        if !matches!(verdict.decision, Decision::Override { .. }) || !verdict.voters.is_majority() {
            return Ok((question, verdict));
        }
        // A majority is overridden only if it has forgotten something, and did not merely answer first.
        let own = PeerPosition { leads: own.leads, ..self.local.stand().await };
        let again = precheck::ask(&asker, config, attempt, waivers(request), &own).await;
        let question = again.knowing_what_it_knew(&question).with_own_jobs(own_jobs().await);
        let verdict = confirm(&question);
        Ok((question, verdict))
    }

    /// Comes to lead, where the verdict allows it; the epoch, or why not.
    async fn lead(
        &self,
        engine: &Arc<Engine>,
        (question, verdict): (Question, Verdict),
        drain_seconds: u32,
        ahead: Option<&mut Prefetch>,
    ) -> Result<Lead, String> {
        match verdict.decision {
            Decision::Go => {
                let known = answers::newest_leadership(&verdict);
                self.be_elected(engine, known).await.map(Lead::Leads)
            }
            Decision::GoAfterFetching { from } => {
                // A master that serves goes on with that meanwhile.
                if let Some(ahead) = ahead.filter(|_| answers::leads(&question, from)) {
                    ahead.done().await.map_err(|why| self.unread(&why))?;
                }
                let epoch = answers::asked_under(&question, &verdict, from);
                self.be_handed(engine, from, epoch, drain_seconds).await.map(Lead::Leads)
            }
            Decision::Override { .. } => Ok(Lead::Overrides(Box::new((question, verdict)))),
            Decision::Refuse { reasons } => Err(self.may_not(&reasons)),
        }
    }

    /// The words for these `reasons` against it: first the fault of this node.
    fn may_not(&self, reasons: &[Reason]) -> String {
        match reasons.first() {
            Some(already @ Reason::AlreadyMaster { .. }) => already.to_string(),
            Some(reason) => format!("{} cannot be the master now: {reason}", self.me()),
            None => format!("{} cannot be the master now", self.me()),
        }
    }

    /// The words for jobs here, or their related data, that do not read.
    fn unread(&self, why: &str) -> String {
        format!("{} cannot be the master with the queue that it has: {why}", self.me())
    }

    /// Leads by an election, unless somebody else does in a later epoch than `known`: who may have won
    /// while everyone was asked.
    async fn be_elected(&self, engine: &Engine, known: Epoch) -> Result<Epoch, String> {
        engine.take_over_since(known, ELECTION_MAX).await.map_err(|error| match error {
            TakeOverError::Another { epoch } | TakeOverError::Back { epoch } => {
                late(&self.leads_by_now(epoch))
            }
            error => late(&format!("not elected: {error}")),
        })
    }

    /// Has the member `from` lead, commit what it holds, and hand over.
    async fn be_handed(
        &self,
        engine: &Engine,
        from: u64,
        epoch: Epoch,
        drain_seconds: u32,
    ) -> Result<Epoch, String> {
        let place = self.local.book.place(from);
        let place = place.ok_or_else(|| format!("member {from} is not in the configuration"))?;
        let node = place.target.name.clone();
        let mut peer = self.local.book.ask(place).map_err(|error| chain(&error))?;
        let call = LeadAndHandOver { epoch, to: engine.member(), drain_seconds };
        let limit = Duration::from_secs(u64::from(drain_seconds)) + HAND_OVER_MAX;
        tracing::info!(from = %node, %epoch, "has the lead handed over");
        let another = |seen: &EngineStatus| elected::another(seen, epoch, [engine.member(), from]);
        let lost = async |within| {
            let (_, status) = engine.wait_for(within, |seen| another(seen).is_some()).await;
            another(&status).map(|epoch| self.leads_by_now(epoch))
        };
        let asked = tokio::select! {
            biased;
            asked = peer.call_within(&call, limit) => asked,
            // The one that was asked learns that nobody waits any more, and goes on.
            _ = self.ending.asked() => return Err("masterd is ending on this node".to_owned()),
            Some(why) = lost(limit) => return Err(late(&why)),
        };
        if let Err(error) = asked {
            // It may have refused since somebody else was faster.
            let why = lost(elected::HEARD_WITHIN).await;
            let failed = || format!("{node} did not hand over: {}", chain(&error));
            return Err(why.map_or_else(failed, |why| late(&why)));
        }
        let ready = |status: &engine::EngineStatus| {
            let epoch = status.takes_proposals();
            epoch.is_some_and(|epoch| status.applied.epoch == epoch)
        };
        let (_, status) = engine.wait_for(ELECTION_MAX, ready).await;
        let led = status.takes_proposals().filter(|_| ready(&status));
        led.ok_or_else(|| format!("{node} handed over, and this node does not lead"))
    }
}

/// The outcome of an attempt, with a word on the override before it, and the store that was opened for
/// it.
fn overridden(taken: Take, engine: Arc<Engine>) -> Take {
    match taken {
        Take::Taken(leading, mut taken) => {
            let lost = taken.check.as_ref().map_or(0, |check| check.may_lose.len());
            taken.message = format!(
                "{}; it was not confirmed by anybody: the other members begin anew when they are \
                 reached, and what {lost} of them may hold beyond this node is cut, and then kept \
                 aside there (`gnt cluster status`)",
                taken.message
            );
            Take::Taken(leading, taken)
        }
        Take::Left(mut taken) | Take::Reopened(_, mut taken) | Take::Stuck(mut taken) => {
            taken.message = format!(
                "{}; this node is the only voter by now: `gnt cluster master-failover` tries again",
                taken.message
            );
            Take::Reopened(engine, taken)
        }
    }
}

/// The words for an attempt that another one was faster than.
fn late(why: &str) -> String {
    format!("{why}; `gnt cluster status` shows who is master, and whether to try again")
}

/// The configuration here, with what the log says of `me` and of the cluster's parameters, committed or
/// not: an election commits it.
///
/// # Errors
/// It does not read.
pub(super) fn newest_config(engine: &Engine, me: &NodeName) -> Result<Config, FoundError> {
    let mut config = load::config(&engine.reader())?;
    let unread = |error: &String| tracing::error!(error, "cannot read the newest configuration");
    if let Ok(Some(node)) = newest(engine, &document::node(me)).inspect_err(unread) {
        config.apply([ConfigChange::Node(node)]);
    }
    if let Ok(Some(cluster)) = newest(engine, document::CLUSTER).inspect_err(unread) {
        config.cluster = Arc::new(cluster);
    }
    Ok(config)
}

fn waivers(request: &RoleRequest) -> Waivers {
    let RoleRequest { candidates_only, no_voting, yes_do_it, ignored, .. } = request;
    Waivers {
        candidates_only: *candidates_only,
        no_voting: *no_voting,
        yes_do_it: *yes_do_it,
        ignored: ignored.iter().cloned().collect(),
    }
}

fn role_entry(role: &Role) -> RoleEntry {
    let epoch = Epoch { term: role.term, node: role.node };
    RoleEntry { master: role.master.clone(), epoch }
}
