//! What clients of the socket meet: the master of this moment, or a word on where it is. Serves the
//! path of a job, before `luxi_service`.

use std::sync::Arc;
use std::time::Duration;

use luxi::method::{Class, GantryClusterStatus, GantryMasterFailover};
use luxi::{Answer, Caller, Request, Service, answer};
use model::cluster_status::ClusterStatus;
use model::error::{ErrorCode, ExceptionKind};
use model::job::RequestDigest;
use model::role_check::{RoleRequest, RoleTaken};
use model::{Exception, NodeName};
use parking_lot::RwLock;
use rpc::peer::control::TakeOver;
use stdx::Clock;
use stdx::daemon::chain;
use stdx::metrics::Page;
use tokio_util::sync::CancellationToken;

use crate::house::House;
use crate::jobs::desk::CUT_OFF;
use crate::lu::World;
use crate::luxi_service::LuxiService;
use crate::majority::Majority;
use crate::metrics::Metrics;
use crate::status::{self, Part};

/// Who answers.
#[derive(Debug, Clone)]
enum Voice {
    /// A master.
    Master {
        /// Answers.
        service: LuxiService,
        /// All that it works on.
        world: Arc<World>,
        /// Told when its reign is over.
        over: CancellationToken,
    },
    /// No master; this one is, as far as is known here.
    Elsewhere {
        /// The newest role entry's.
        master: Option<NodeName>,
        /// What this process is.
        here: &'static str,
    },
}

/// Answers LUXI requests for as long as the process lives; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    me: NodeName,
    house: House,
    clock: Clock,
    voice: Arc<RwLock<Voice>>,
    /// What came of the last attempt to start as the master of before.
    attempt: Arc<RwLock<Option<Arc<RoleTaken>>>>,
}

impl Door {
    /// A door behind which is no master yet.
    pub(crate) fn new(house: House, clock: Clock) -> Self {
        let nobody = Voice::Elsewhere { master: None, here: "about to start" };
        let (me, voice) = (house.node.clone(), Arc::new(RwLock::new(nobody)));
        Self { me, house, clock, voice, attempt: Arc::default() }
    }

    /// From here on the master of `world` answers, until it is `over`.
    pub(crate) fn open(&self, world: Arc<World>, over: CancellationToken) {
        let service = LuxiService::new(Arc::clone(&world));
        *self.voice.write() = Voice::Master { service, world, over };
        *self.attempt.write() = None;
    }

    /// From here on everybody is told that this process is `here`, and no master.
    pub(crate) fn point_to(&self, master: Option<NodeName>, here: &'static str) {
        *self.voice.write() = Voice::Elsewhere { master, here };
    }

    /// From here on who asks for the status is told what came of an attempt to start as the master
    /// of before.
    pub(crate) fn tell_attempt(&self, left: &RoleTaken) {
        *self.attempt.write() = Some(Arc::new(left.clone()));
    }

    /// Forgets that, since a leader is heard.
    pub(crate) fn forget_attempt(&self) {
        *self.attempt.write() = None;
    }

    /// What the master here works on, where there is one.
    pub(crate) fn world(&self) -> Option<Arc<World>> {
        match &*self.voice.read() {
            Voice::Master { world, .. } => Some(Arc::clone(world)),
            Voice::Elsewhere { .. } => None,
        }
    }

    /// The numbers of this moment.
    pub(crate) fn page(&self, metrics: &Metrics) -> Page {
        crate::metrics::page(self.world().as_deref(), metrics)
    }

    /// How the cluster stands, as far as it is known here.
    async fn status(&self) -> ClusterStatus {
        let part = match &*self.voice.read() {
            Voice::Master { world, .. } => Part::Master(Arc::clone(world)),
            Voice::Elsewhere { master, .. } => Part::Other {
                starting: master.as_ref() == Some(&self.me),
                attempt: self.attempt.read().clone(),
            },
        };
        status::collect(&self.house, part, &self.clock).await
    }

    /// Has a node take the role: this one, or one that is asked to.
    async fn fail_over(&self, call: GantryMasterFailover) -> Result<RoleTaken, Exception> {
        let GantryMasterFailover { to, request } = call;
        tracing::info!(?to, ?request, "failover asked for");
        let taken = match to.filter(|to| *to != self.me) {
            None => self.house.fail_over(request).await.map_err(|failure| failure.to_string()),
            Some(to) => self.ask_to_take_over(&to, request).await,
        };
        taken.map_err(|why| Exception::exec(format!("The role was not moved: {why}")))
    }

    async fn ask_to_take_over(
        &self,
        to: &NodeName,
        request: RoleRequest,
    ) -> Result<RoleTaken, String> {
        let Some(place) = self.house.book.of_node(to) else {
            let others = self.house.book.names().join(", ");
            let others = if others.is_empty() { "nobody".to_owned() } else { others };
            return Ok(RoleTaken::refused(format!(
                "{to} is no master candidate with a copy of the store; besides {} those are: \
                 {others}",
                self.me
            )));
        };
        let mut link = self.house.book.ask(place).map_err(|error| chain(&error))?;
        link.call(&TakeOver { request }).await.map_err(|error| chain(&error))
    }

    fn elsewhere(&self, master: Option<&NodeName>, here: &str) -> Exception {
        let me = &self.me;
        let text = match master {
            Some(master) if master == me => format!(
                "{me} was the master last and is {here}: it is not confirmed yet; `gnt cluster \
                 status` tells what it waits for"
            ),
            // Ganeti's words, for its clients' sake.
            Some(master) => format!(
                "This is not the master node, please connect to node '{master}' and rerun the \
                 command ({me} is {here})"
            ),
            None => format!("{me} is {here}, and knows no master; run this on the master node"),
        };
        Exception::prereq(text, ErrorCode::WrongState)
    }
}

impl Service for Door {
    async fn call(
        &self,
        request: Request,
        caller: Caller,
        digest: Option<RequestDigest>,
    ) -> Answer {
        // It ends the reign whose master would answer.
        let request = match request {
            Request::GantryMasterFailover(call) => {
                return answer(call, |call| self.fail_over(call)).await;
            }
            // It is asked for most where there is no master.
            Request::GantryClusterStatus(call) => {
                let status = async |_: GantryClusterStatus| Ok(self.status().await);
                return answer(call, status).await;
            }
            other => other,
        };
        let voice = self.voice.read().clone();
        match voice {
            Voice::Master { service, over, world } => {
                let majority = world.commits.majority();
                if !majority.contact().takes_changes() && request.class() == Class::Change {
                    let refusal = Exception::new(ExceptionKind::JobQueueError, CUT_OFF);
                    return marked(Answer::failure(&refusal), &majority);
                }
                tokio::select! {
                    biased;
                    answered = service.call(request, caller, digest) => marked(answered, &majority),
                    () = over.cancelled() => Answer::failure(&lost(&self.me)),
                }
            }
            Voice::Elsewhere { master, here } => {
                Answer::failure(&self.elsewhere(master.as_ref(), here))
            }
        }
    }
}

/// An answer with a word that it may be old, where it may.
fn marked(answer: Answer, majority: &Majority) -> Answer {
    if majority.contact().answers_are_stale() {
        answer.stale(Duration::from_millis(majority.silence_ms()))
    } else {
        answer
    }
}

fn lost(me: &NodeName) -> Exception {
    Exception::new(
        ExceptionKind::GenericError,
        format!(
            "{me} is no longer the master, and it is not known whether this was done; look on the \
             new master before you try again"
        ),
    )
}
