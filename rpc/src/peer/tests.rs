//! Members over real connections.

use model::role_check::RoleTaken;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use uuid::Uuid;

use queue_format::Position;

use super::control::{
    AskDigest, AskPosition, Join, Joined, LeadAndHandOver, PeerDigest, PeerPosition, PeerRole,
    PeerState, Purge, TakeOver,
};
use super::frame::FRAME_BYTES_MAX;
use super::*;
use crate::identity::{Authority, NodeIdentity};
use crate::testing::{LOCALHOST, allow, epoch, name, now};
use crate::tls::AllowedCallers;

mod clients;
mod limits;
mod refusals;

pub(super) const CLUSTER: Uuid = Uuid::from_u128(7);
/// Time for an answer that comes.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// Kinds of questions that [`Member`] knows.
pub(super) const ECHO: u8 = 1;
pub(super) const FAIL: u8 = 2;
pub(super) const HOLD: u8 = 3;
pub(super) const PANIC: u8 = 4;
pub(super) const FLOOD: u8 = 5;

pub(super) fn store(member: u64) -> StoreId {
    StoreId::new(member, Uuid::from_u128(100 + u128::from(member)))
}

/// A member of memory.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) here: Mutex<Here>,
    /// Hellos and questions that came to the gate.
    pub(super) asked: AtomicUsize,
    pub(super) holding: Notify,
    pub(super) release: Notify,
}

#[derive(Debug, Clone)]
pub(super) struct Shared(pub(super) Arc<Member>);

impl Gate for Shared {
    fn admit(&self, hello: &Hello) -> Result<(), PeerRefusal> {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        hello.check(&self.0.here.lock())
    }
}

impl EngineService for Shared {
    async fn answer(&self, from: &Hello, kind: u8, body: Bytes) -> Result<Bytes, PeerFailure> {
        assert_eq!(from.from.store, store(1));
        match kind {
            ECHO => Ok(body),
            FAIL => Err(PeerFailure::failed("the disk said no")),
            HOLD => {
                self.0.holding.notify_one();
                self.0.release.notified().await;
                Ok(body)
            }
            PANIC => panic!("a bug in one answer"),
            FLOOD => Ok(Bytes::from(vec![0; FRAME_BYTES_MAX])),
            other => Err(PeerFailure::unknown_question(other)),
        }
    }
}

impl ControlService for Shared {
    async fn position(&self, _: &Hello, _: AskPosition) -> Result<PeerPosition, PeerFailure> {
        let StoreId { member, incarnation } = self.0.here.lock().store;
        let last = Position { epoch: epoch(3), index: 9 };
        Ok(PeerPosition {
            member,
            incarnation,
            node: name("n2"),
            last,
            committed: last,
            epoch: epoch(4),
            leader: None,
            voters: vec![1, 2, 3],
            changing: Vec::new(),
            learners: Vec::new(),
            role: Some(PeerRole { master: name("n1"), epoch: epoch(3) }),
            leads: false,
            disk_full: false,
            state: PeerState::Standby,
            disk_free_mib: 1_000,
            last_job: None,
        })
    }

    async fn join(&self, from: &Hello, call: Join) -> Result<Joined, PeerFailure> {
        assert_eq!(from.from.node, name("n1"));
        let joined = store(call.member);
        self.0.here.lock().store = joined;
        Ok(Joined { incarnation: joined.incarnation.unwrap() })
    }

    async fn purge(&self, _: &Hello, _: Purge) -> Result<(), PeerFailure> {
        self.0.here.lock().store = StoreId::NONE;
        Ok(())
    }

    async fn take_over(&self, _: &Hello, _: TakeOver) -> Result<RoleTaken, PeerFailure> {
        Ok(RoleTaken::refused("not here"))
    }

    async fn lead_and_hand_over(&self, _: &Hello, _: LeadAndHandOver) -> Result<(), PeerFailure> {
        Err(PeerFailure::not_now("a learner is never elected"))
    }

    async fn digest(&self, _: &Hello, call: AskDigest) -> Result<PeerDigest, PeerFailure> {
        let digests = [(call.group.unwrap_or_default(), "00".repeat(32))].into();
        Ok(PeerDigest { digests, complete: true })
    }
}

/// Node `n1` with member 1, which asks, and `n2` with member 2, which answers.
pub(super) struct Two {
    pub(super) authority: Authority,
    pub(super) asking: NodeIdentity,
    pub(super) allowed: AllowedCallers,
    pub(super) member: Arc<Member>,
    pub(super) server: PeerServer<Shared>,
    pub(super) target: PeerTarget,
}

impl Two {
    pub(super) async fn start() -> Self {
        Self::with(PeerLimits::default()).await
    }

    pub(super) async fn with(limits: PeerLimits) -> Self {
        Self::with_clients(limits, None).await
    }

    pub(super) async fn with_clients(
        limits: PeerLimits,
        clients: Option<Arc<dyn ClientService>>,
    ) -> Self {
        let authority = Authority::create(&name("c1"), now()).unwrap();
        let asking = authority.issue(&name("n1"), &[LOCALHOST], now()).unwrap();
        let answering = authority.issue(&name("n2"), &[LOCALHOST], now()).unwrap();
        let allowed = AllowedCallers::new(allow(&[&asking]));
        let member = Arc::new(Member {
            here: Mutex::new(Here {
                cluster_uuid: CLUSTER,
                store: store(2),
                last: Default::default(),
            }),
            asked: AtomicUsize::new(0),
            holding: Notify::new(),
            release: Notify::new(),
        });
        let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
        let services = (Shared(Arc::clone(&member)), clients);
        let server =
            PeerServer::start_with_clients(listener, &answering, allowed.clone(), services, limits)
                .unwrap();
        let target = PeerTarget {
            name: name("n2"),
            address: server.address(),
            fingerprint: Some(answering.fingerprint()),
            renewing: None,
        };
        Self { authority, asking, allowed, member, server, target }
    }

    pub(super) fn client(&self) -> PeerClient {
        PeerClient::new(&self.asking, CLUSTER, self.target.clone()).unwrap()
    }

    pub(super) fn engine(&self) -> Link {
        self.client().engine(store(1), store(2))
    }

    pub(super) fn control(&self) -> ControlLink {
        self.client().control(store(1), StoreId::NONE)
    }
}

pub(super) async fn echoes(link: &mut Link) {
    assert_eq!(link.ask(ECHO, &[b"as", b"", b" it is"], LONG).await.unwrap(), "as it is");
}

#[tokio::test]
async fn questions_of_any_size_are_answered_on_one_connection() {
    let two = Two::start().await;
    let mut link = two.engine();
    let body: Vec<u8> = (0..=250).cycle().take(FRAME_BYTES_MAX - 1).collect();
    for size in [0, 1, 1_500, 16_384, 65_536, 1 << 20, FRAME_BYTES_MAX - 1] {
        let pieces: Vec<&[u8]> = body[..size].chunks(size / 100 + 1).collect();
        let answer = link.ask(ECHO, &pieces, LONG).await.unwrap();
        assert!(answer == body[..size], "{size} bytes came back otherwise");
    }
    // One hello, seven questions.
    assert_eq!(two.member.asked.load(Ordering::Relaxed), 8);
    two.server.stop().await;
}

#[tokio::test]
async fn failures_are_answers_and_the_connection_goes_on() {
    let two = Two::start().await;
    let mut link = two.engine();
    for (kind, wanted, words, not_done) in [
        (FAIL, PeerFailureKind::Failed, "the disk said no", false),
        (77, PeerFailureKind::UnknownQuestion, "no question 77", true),
        (FLOOD, PeerFailureKind::TooLarge, "at most", false),
    ] {
        let error = link.ask(kind, &[], LONG).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.certainly_not_done(), not_done);
        let PeerError::Failed { failure, .. } = error else { panic!("{error:?}") };
        assert_eq!(failure.kind, wanted);
    }
    echoes(&mut link).await;
    assert_eq!(two.member.asked.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn a_question_that_is_too_long_is_not_sent() {
    let two = Two::start().await;
    let mut link = two.engine();
    echoes(&mut link).await;
    let half = vec![0; FRAME_BYTES_MAX / 2];
    let error = link.ask(ECHO, &[&half, &half], LONG).await.unwrap_err();
    assert!(matches!(error, PeerError::TooLarge { .. }) && error.certainly_not_done());
    echoes(&mut link).await;
    assert_eq!(two.member.asked.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn every_control_question_has_its_answer() {
    let two = Two::start().await;
    let mut control = two.control();
    let position = control.call(&AskPosition {}).await.unwrap();
    assert_eq!((position.member, position.voters), (Some(2), vec![1, 2, 3]));
    control.call(&Purge { epoch: epoch(3), member: 2, aside: None, all: false }).await.unwrap();
    assert_eq!(control.call(&AskPosition {}).await.unwrap().member, None);
    let joined = control.call(&Join { epoch: epoch(3), member: 5 }).await.unwrap();
    assert_eq!(Some(joined.incarnation), store(5).incarnation);
    let ask =
        AskDigest { position: Position::default(), group: Some("config".to_owned()), after: None };
    let digest = control.call(&ask).await.unwrap();
    assert!(digest.complete && digest.digests.contains_key("config"));
    let error = control
        .call(&LeadAndHandOver { epoch: epoch(4), to: 1, drain_seconds: 1 })
        .await
        .unwrap_err();
    assert!(error.certainly_not_done() && error.word() == "failed", "{error}");
}

#[tokio::test]
async fn control_knows_no_other_questions_and_reads_parameters_strictly() {
    let two = Two::start().await;
    let mut link = two.client().link(store(1), StoreId::NONE, Purpose::Control);
    for (kind, body, wanted) in [
        (0, "{}", PeerFailureKind::UnknownQuestion),
        (99, "{}", PeerFailureKind::UnknownQuestion),
        (1, "", PeerFailureKind::Malformed),
        (1, r#"{"more":1}"#, PeerFailureKind::Malformed),
        (2, r#"{"member":"x"}"#, PeerFailureKind::Malformed),
        (2, "\u{0}\u{1}", PeerFailureKind::Malformed),
    ] {
        let error = link.ask(kind, &[body.as_bytes()], LONG).await.unwrap_err();
        let PeerError::Failed { failure, .. } = error else { panic!("{error:?}") };
        assert_eq!(failure.kind, wanted, "{kind} {body}: {failure}");
    }
}

#[tokio::test]
async fn a_panic_ends_its_connection_and_no_other() {
    let two = Two::start().await;
    let (mut link, mut other) = (two.engine(), two.engine());
    echoes(&mut other).await;
    let error = link.ask(PANIC, &[], LONG).await.unwrap_err();
    assert!(matches!(error, PeerError::Lost { .. }) && !error.certainly_not_done(), "{error:?}");
    echoes(&mut other).await;
    echoes(&mut link).await;
}
