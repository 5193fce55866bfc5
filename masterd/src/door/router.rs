//! The door behind the socket: the master of this moment, the way to it, or a word on where it is.
//! Serves the path of a job, before `service`; `redirect` has the words.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jobs::majority::Majority;
use luxi::method::{
    Class, GantryClusterStatus, GantryMasterFailover, GantryMasterStatus, JobChange,
};
use luxi::response::{CUT_OFF, Unserved};
use luxi::{Caller, Request, Response, Service, answer};
use model::cluster_status::{ClusterStatus, StoreMissing};
use model::error::{ErrorCode, ExceptionKind};
use model::job::RequestDigest;
use model::layout::Layout;
use model::node::{Node, NodeRole};
use model::role_check::{RoleRequest, RoleTaken};
use model::{Code, Exception, NodeName, NotMeant, document};
use parking_lot::RwLock;
use rpc::peer::control::TakeOver;
use rpc::peer::{Passed, PeerError};
use stdx::daemon::chain;
use stdx::metrics::Page;
use stdx::{Clock, Executor};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::forwarding_client::{Forwarder, NotForwarded, passed_of};
use super::redirect::{self, Redirect};
use crate::agents::metrics::Metrics;
use crate::door::service::{LuxiService, Sources};
use crate::health::status::{self, MasterView, Part};
use crate::role::local_member::{LocalMember, newest};

/// Before why a failover did nothing.
const NOT_MOVED: &str = "The role was not moved";

/// Before why nobody can say what a failover did.
const NOT_KNOWN: &str = "It is not known whether the role was moved";

/// Who answers.
#[derive(Debug, Clone)]
enum Backend {
    Master {
        /// Answers.
        service: LuxiService,
        view: Arc<MasterView>,
        /// Told when its leadership is over.
        over: CancellationToken,
    },
    /// No master, but a standby, or about to be something: this one is, as far as is known here.
    Redirect(Redirect),
    /// Neither: this node has no store, since then.
    Outside(Instant),
}

impl Backend {
    /// Ends what rests on it.
    fn end(&self) {
        if let Self::Redirect(there) = self {
            there.moved.cancel();
        }
    }
}

/// Answers LUXI requests for as long as the process lives; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct LuxiRouter {
    me: NodeName,
    local: LocalMember,
    layout: Layout,
    /// Where queries run.
    queries: Executor,
    clock: Clock,
    forwarder: Forwarder,
    backend: Arc<RwLock<Backend>>,
    /// The outcome of the last attempt to start as the previous master.
    attempt: Arc<RwLock<Option<Arc<RoleTaken>>>>,
}

impl LuxiRouter {
    /// A door behind which is no master yet.
    pub(crate) fn new(
        local: LocalMember,
        (layout, queries): (Layout, Executor),
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Self {
        let nobody = Backend::Redirect(Redirect::new(None, "about to start"));
        let (me, backend) = (local.node.clone(), Arc::new(RwLock::new(nobody)));
        let forwarder = Forwarder::new(local.book.clone(), metrics);
        Self { me, local, layout, queries, clock, forwarder, backend, attempt: Arc::default() }
    }

    fn speak(&self, backend: Backend) {
        let mut now = self.backend.write();
        now.end();
        *now = backend;
    }

    /// From here on the master answers with `backend`, until it is `over`; `view` tells its status.
    pub(crate) fn open(
        &self,
        sources: Arc<Sources>,
        view: Arc<MasterView>,
        over: CancellationToken,
    ) {
        let service = LuxiService::new(sources, self.queries.clone());
        self.speak(Backend::Master { service, view, over });
        *self.attempt.write() = None;
    }

    /// From here on this process is `here`, and no master; requests go to the one that is.
    pub(crate) fn point_to(&self, master: Option<NodeName>, here: &'static str) {
        if let Backend::Redirect(there) = &*self.backend.read()
            && there.master == master
            && there.here == here
        {
            return;
        }
        self.speak(Backend::Redirect(Redirect::new(master, here)));
    }

    /// From here on everybody is told that this node is no candidate.
    pub(crate) fn point_outside(&self) {
        self.speak(Backend::Outside(Instant::now()));
    }

    /// Whether a request is answered by whoever is asked, master or not.
    pub(crate) const fn answers_everywhere(request: &Request) -> bool {
        matches!(request, Request::GantryMasterFailover(_) | Request::GantryClusterStatus(_))
    }

    /// Why this process does not answer as a master.
    pub(crate) fn words(&self) -> String {
        match &*self.backend.read() {
            Backend::Master { .. } => format!("{} is the master", self.me),
            Backend::Redirect(there) => there.words(&self.me),
            Backend::Outside(_) => format!("{} is no master candidate", self.me),
        }
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

    /// The view of the master here, if there is one.
    pub(crate) fn master(&self) -> Option<Arc<MasterView>> {
        match &*self.backend.read() {
            Backend::Master { view, .. } => Some(Arc::clone(view)),
            Backend::Redirect(_) | Backend::Outside(_) => None,
        }
    }

    /// The service of the master here, if there is one.
    #[cfg(test)]
    pub(crate) fn service(&self) -> Option<LuxiService> {
        match &*self.backend.read() {
            Backend::Master { service, .. } => Some(service.clone()),
            Backend::Redirect(_) | Backend::Outside(_) => None,
        }
    }

    /// The numbers of this moment.
    pub(crate) fn page(&self, metrics: &Metrics) -> Page {
        super::metrics_page::page(self.master().as_deref(), metrics)
    }

    /// How the cluster stands, as far as it is known here.
    async fn status(&self) -> ClusterStatus {
        let mut part = match &*self.backend.read() {
            Backend::Master { view, .. } => Part::Master(Arc::clone(view)),
            Backend::Redirect(there) => Part::Other {
                starting: there.master.as_ref() == Some(&self.me),
                attempt: self.attempt.read().clone(),
            },
            Backend::Outside(_) => Part::Outside(None),
        };
        if let Part::Outside(missing) = &mut part {
            *missing = self.store_missing().await;
        }
        status::collect(&self.local, part, &self.clock).await
    }

    /// The store that should be here.
    async fn store_missing(&self) -> Option<StoreMissing> {
        let since = match &*self.backend.read() {
            Backend::Outside(since) => since.elapsed(),
            Backend::Master { .. } | Backend::Redirect(_) => return None,
        };
        let (me, layout) = (self.me.clone(), self.layout.clone());
        let look = stdx::apart(move || redirect::store_missing(&me, &layout, since));
        look.await.ok().flatten()
    }

    /// Has a node take the role: this one, or one that is asked to.
    async fn fail_over(&self, call: GantryMasterFailover) -> Result<RoleTaken, Exception> {
        let GantryMasterFailover { to, request } = call;
        tracing::info!(?to, ?request, "failover asked for");
        if matches!(*self.backend.read(), Backend::Outside(_)) {
            let (me, layout) = (self.me.clone(), self.layout.clone());
            let told = stdx::apart(move || redirect::no_taker(&me, &layout)).await;
            return Ok(RoleTaken::refused(
                told.map_err(|ended| Exception::exec(ended.to_string()))?,
            ));
        }
        let to = to.map(|to| self.in_full(to)).transpose()?;
        match to.filter(|to| *to != self.me) {
            None => {
                let taken = self.local.fail_over(request).await;
                taken.map_err(|failure| not_moved(&failure.to_string()))
            }
            Some(to) => self.ask_to_take_over(&to, request).await,
        }
    }

    /// The name of the member that is meant by the first part of its name.
    fn in_full(&self, short: NodeName) -> Result<NodeName, Exception> {
        let mut all = self.local.book.names();
        all.push(self.me.clone());
        match short.meant(&all) {
            Ok(name) => Ok(name.clone()),
            // The asked node itself says whether it has a store.
            Err(NotMeant::Unknown) => Ok(short),
            Err(NotMeant::Several) => {
                let text =
                    format!("{NOT_MOVED}: several nodes begin with {short}: give the whole name");
                Err(Exception::prereq(text, ErrorCode::WrongInput))
            }
        }
    }

    /// Whether a node is marked offline, as far as is known here.
    async fn is_offline(&self, node: &NodeName) -> bool {
        let role = match (self.master(), self.local.state().engine()) {
            (Some(view), _) => {
                let config = view.published.snapshot().config;
                config.nodes.get(node.as_str()).map(|node| node.role)
            }
            (None, Some(engine)) => {
                let key = document::node(node);
                let read = stdx::apart(move || newest::<Node>(&engine, &key).ok().flatten());
                read.await.ok().flatten().map(|node| node.role)
            }
            (None, None) => None,
        };
        role == Some(NodeRole::Offline)
    }

    async fn ask_to_take_over(
        &self,
        to: &NodeName,
        request: RoleRequest,
    ) -> Result<RoleTaken, Exception> {
        if self.is_offline(to).await {
            let first = format!("`gnt node modify -O no {to}` takes it back first");
            return Ok(RoleTaken::not_eligible(format!("{to} is marked offline; {first}")));
        }
        let Some(place) = self.local.book.of_node(to) else {
            let others = self.local.book.names();
            let others: Vec<&str> = others.iter().map(NodeName::as_str).collect();
            let others = if others.is_empty() { "nobody".to_owned() } else { others.join(", ") };
            return Ok(RoleTaken::not_eligible(format!(
                "{to} is no master candidate with a copy of the store; besides {} those are: \
                 {others}",
                self.me
            )));
        };
        let why = |error: &PeerError| match chain(error) {
            why if error.certainly_not_done() => not_moved(&why),
            why => {
                let text = format!("{NOT_KNOWN}: {why}; `gnt cluster status` shows who is master");
                Exception::exec(text).coded(Code::OutcomeUnknown)
            }
        };
        let mut link = self.local.book.ask(place).map_err(|error| why(&error))?;
        link.call(&TakeOver { request }).await.map_err(|error| why(&error))
    }

    /// Has the master answer a request of a client of this node, once.
    async fn pass_on(&self, there: &Redirect, kind: Kind, passed: Passed) -> Response {
        let master = there.master.as_ref().filter(|master| **master != self.me);
        let place = master.and_then(|master| self.local.book.of_node(master));
        let (Some(master), Some(place)) = (master, place) else {
            return there.answer(&self.me, None, Unserved::Again, there.words(&self.me));
        };
        let address = place.target.address.ip();
        let passing = tokio::select! {
            biased;
            passing = self.forwarder.pass(&place, kind.class, &passed) => passing,
            () = there.moved.cancelled() => self.forwarder.moved(),
        };
        let why = match passing {
            Ok(answer) => return answer,
            // It asks again, and takes its turn with those who wait, too.
            Err(NotForwarded::Busy) if kind.is_watch => {
                return Response::success(&JobChange::Unchanged);
            }
            Err(why) => why,
        };
        tracing::info!(%master, %why, "a request was not answered by the master");
        there.not_passed((&self.me, master), address, kind.changes, &why)
    }
}

fn not_moved(why: &str) -> Exception {
    Exception::exec(format!("{NOT_MOVED}: {why}")).coded(Code::RoleNotMoved)
}

/// The properties of a request that matter when it is passed on.
#[derive(Debug, Clone, Copy)]
struct Kind {
    class: Class,
    /// Whether it may change something.
    changes: bool,
    /// Whether it waits for a job to change, which may be answered by that it did not.
    is_watch: bool,
}

impl Kind {
    fn of(request: &Request) -> Self {
        let is_watch = matches!(request, Request::WaitForJobChange(_));
        Self { class: request.class(), changes: changes(request), is_watch }
    }
}

/// Whether a request may change something: one that waits may, too.
const fn changes(request: &Request) -> bool {
    matches!(request.class(), Class::Change)
        || matches!(request, Request::AutoArchiveJobs(_) | Request::GantryConsole(_))
}

impl Service for LuxiRouter {
    async fn call(
        &self,
        request: Request,
        caller: Caller,
        digest: Option<RequestDigest>,
    ) -> Response {
        // It ends the leadership whose master would answer.
        let request = match request {
            Request::GantryMasterFailover(call) => {
                return answer(call, |call| self.fail_over(call)).await;
            }
            // It is asked for most where there is no master.
            Request::GantryClusterStatus(call) => {
                let status = async |_: GantryClusterStatus| Ok(self.status().await);
                let answered = answer(call, status).await;
                return match &*self.backend.read() {
                    Backend::Master { view, .. } => marked(answered, &view.commits.majority()),
                    Backend::Redirect(_) | Backend::Outside(_) => answered,
                };
            }
            other => other,
        };
        let backend = self.backend.read().clone();
        match backend {
            Backend::Master { over, .. } if over.is_cancelled() => redirect::ceasing(&self.me),
            Backend::Master { service, over, view } => {
                let majority = view.commits.majority();
                let request = match request {
                    Request::GantryMasterStatus(call) => {
                        let status = async |_: GantryMasterStatus| Ok(self.status().await);
                        return marked(answer(call, status).await, &majority);
                    }
                    other => other,
                };
                if !majority.contact().takes_changes() && changes(&request) {
                    let refusal = Exception::new(ExceptionKind::JobQueueError, CUT_OFF)
                        .coded(Code::MajorityLost);
                    let about = redirect::of_master(&self.me, Unserved::Again);
                    return marked(Response::not_master(&refusal, &about), &majority);
                }
                tokio::select! {
                    biased;
                    answered = service.call(request, caller, digest) => marked(answered, &majority),
                    () = over.cancelled() => redirect::lost(&self.me),
                }
            }
            Backend::Redirect(there) => {
                there.answer(&self.me, None, Unserved::Again, there.words(&self.me))
            }
            Backend::Outside(_) => {
                let (me, layout) = (self.me.clone(), self.layout.clone());
                let told = stdx::apart(move || redirect::outside(&me, &layout)).await;
                told.unwrap_or_else(|_ended| Response::internal_error())
            }
        }
    }

    async fn answer_client(
        &self,
        message: Bytes,
        request: Request,
        caller: Caller,
        digest: Option<RequestDigest>,
    ) -> Response {
        let there = loop {
            let there = match &*self.backend.read() {
                Backend::Redirect(there) if !Self::answers_everywhere(&request) => there.clone(),
                _ => break None,
            };
            if !there.changes_soon(&self.me).await {
                break Some(there);
            }
        };
        let Some(there) = there else {
            drop(message);
            return self.call(request, caller, digest).await;
        };
        let kind = Kind::of(&request);
        drop(request);
        let passed = passed_of(&caller, message);
        self.pass_on(&there, kind, passed).await
    }
}

/// An answer with a word that it may be old, where it may.
fn marked(answer: Response, majority: &Majority) -> Response {
    if majority.contact().answers_are_stale() {
        answer.stale(Duration::from_millis(majority.silence_ms()))
    } else {
        answer
    }
}

#[cfg(test)]
mod tests {
    use luxi::method::QueryClusterInfo;
    use luxi::request;
    use luxi::response::{self, Failure};
    use rpc::identity::Authority;
    use uuid::Uuid;

    use super::*;
    use crate::testing::NOW;
    use membership::peers::PeerBook;

    fn router(dir: &std::path::Path) -> LuxiRouter {
        let authority = Authority::create(&"c1".parse().unwrap(), NOW).unwrap();
        let me =
            authority.issue(&"n1.example".parse().unwrap(), &[[127, 0, 0, 1].into()], NOW).unwrap();
        let place = (me.name().clone(), Uuid::from_u128(7));
        let book = PeerBook::new(Arc::new(me), Uuid::from_u128(7));
        let (local, _errands) = LocalMember::new(place, book, dir.to_owned());
        let place = (Layout::new(dir), Executor::default());
        LuxiRouter::new(local, place, Clock::manual(NOW.micros()), Arc::default())
    }

    /// The words that a client gets, and the time until then.
    async fn told(router: LuxiRouter) -> (String, Duration) {
        let mut message = Vec::new();
        request::write(&QueryClusterInfo {}, &mut message).unwrap();
        let request = Request::parse(&message[..message.len() - 1]).unwrap();
        let (begun, caller) = (Instant::now(), Caller::root());
        let answer = router.answer_client(message.into(), request, caller, None).await;
        let bytes = answer.as_bytes();
        match response::read::<QueryClusterInfo>(&bytes[..bytes.len() - 1]) {
            Err(Failure::NotMaster { exception, .. }) => {
                (exception.message().to_owned(), begun.elapsed())
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_a_start_and_not_for_ever() {
        const SECOND: Duration = Duration::from_secs(1);
        let dir = tempfile::tempdir().unwrap();
        let router = router(dir.path());
        let mut held = tokio::task::JoinSet::new();
        held.spawn(told(router.clone()));
        tokio::time::sleep(SECOND).await;
        assert!(held.try_join_next().is_none(), "nobody is known to be master");
        router.point_to(Some(router.me.clone()), "a standby");
        let (text, after) = held.join_next().await.unwrap().unwrap();
        assert!(text.contains("not confirmed yet"), "{text}");
        assert_eq!(after.as_secs(), 6, "as long as a start may take");
        let (_, after) = told(router.clone()).await;
        assert_eq!(after.as_secs(), 0, "it does not change soon");

        router.point_to(None, "starting");
        held.spawn(told(router.clone()));
        tokio::time::sleep(SECOND).await;
        router.point_outside();
        let (text, after) = held.join_next().await.unwrap().unwrap();
        assert!(text.contains("This node is no candidate"), "{text}");
        assert_eq!(after.as_secs(), 1, "as soon as it is known");
    }
}
