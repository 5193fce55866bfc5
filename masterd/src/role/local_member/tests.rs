//! A house behind its door, asked over real connections.

use std::time::Duration;

use engine::EngineOptions;
use queue_format::{Batch, Change, Position, StoreOptions};
use rpc::peer::control::ControlCall;
use rpc::peer::{PeerError, PeerFailureKind, Speaker};

use super::*;
use crate::testing::{AskedHouse, Nobody};

/// Far more than a flush takes.
const SOON: Duration = Duration::from_secs(60);

fn epoch(term: u64) -> Epoch {
    Epoch { term, node: 1 }
}

struct Scene {
    dir: tempfile::TempDir,
    local: AskedHouse,
}

impl Scene {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let local = AskedHouse::start(dir.path(), epoch(1)).await;
        Self { dir, local }
    }

    async fn ask<C: ControlCall>(&self, call: &C) -> Result<C::Reply, PeerError> {
        self.local.book.control(&self.local.asked).unwrap().call(call).await
    }

    async fn position(&self) -> PeerPosition {
        self.ask(&AskPosition {}).await.unwrap()
    }

    /// Makes the house that of member 2, whose engine has led alone and holds a role entry.
    async fn follow(&self) -> Arc<Engine> {
        let store = StoreOptions { segment_bytes: 256 << 10, ..StoreOptions::default() };
        let options = EngineOptions::new(2, "n2.example", store);
        let data = self.dir.path().join("data");
        let (engine, mut news) = Engine::open(&data, options, Arc::new(Nobody)).await.unwrap();
        let engine = Arc::new(engine);
        let epoch = engine.take_over(SOON).await.unwrap();
        let Epoch { term, node } = epoch;
        let role = model::cluster::Role {
            master: "n2.example".parse().unwrap(),
            term,
            node,
            since: crate::testing::NOW,
        };
        let content = Bytes::from(serde_json::to_vec(&role).unwrap());
        let key = Key::parse(model::document::ROLE).unwrap();
        let batch = Batch(vec![Change::Put { key, content }]);
        engine.propose(epoch, batch).await.unwrap();
        assert!(news.recv().await.is_some());
        let here = StoreId::new(2, engine.recovered().incarnation);
        self.local.server.service().set_state(MemberState::Standby(Arc::clone(&engine)), here);
        engine
    }
}

fn failure(error: PeerError) -> PeerFailure {
    match error {
        PeerError::Failed { failure, .. } => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn outside_there_is_no_store_and_no_replica() {
    let scene = Scene::start().await;
    let position = scene.position().await;
    assert_eq!((position.member, position.incarnation), (None, None));
    assert_eq!((position.last, position.epoch), (Position::default(), Epoch::default()));
    assert_eq!((position.role, position.leads), (None, false));
    assert!(position.state == PeerState::Outside && position.disk_free_mib > 0);
    let digest = AskDigest { position: Position::default(), group: None, after: None };
    assert_eq!(failure(scene.ask(&digest).await.unwrap_err()).kind, PeerFailureKind::NotNow);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_tells_where_it_stands_and_what_it_holds() {
    let scene = Scene::start().await;
    let engine = scene.follow().await;
    let status = engine.status();
    let position = scene.position().await;
    assert_eq!((position.member, position.node.as_str()), (Some(2), "n2.example"));
    assert_eq!(position.incarnation, Some(engine.recovered().incarnation));
    assert_eq!((position.last, position.committed), (status.last, status.applied));
    assert_eq!((position.epoch, position.voters.as_slice()), (status.vote, &[2][..]));
    assert_eq!((&position.state, position.disk_full), (&PeerState::Standby, false));
    // A member that leads only to hand over is no master.
    assert!(position.leads);
    let role = position.role.unwrap();
    assert_eq!((role.master.as_str(), role.epoch), ("n2.example", status.vote));

    let groups = AskDigest { position: status.applied, group: None, after: None };
    let groups = scene.ask(&groups).await.unwrap();
    assert!(groups.complete && groups.digests.contains_key("config"), "{groups:?}");
    let keys = |after: Option<&str>| AskDigest {
        position: status.applied,
        group: Some("config".to_owned()),
        after: after.map(str::to_owned),
    };
    let all = scene.ask(&keys(None)).await.unwrap();
    assert_eq!(all.digests.keys().collect::<Vec<_>>(), ["config/role"]);
    assert!(scene.ask(&keys(Some("config/role"))).await.unwrap().digests.is_empty());
    let unknown = AskDigest { group: Some("x/y".to_owned()), ..keys(None) };
    assert!(failure(scene.ask(&unknown).await.unwrap_err()).message.contains("no group `x/y`"));
    engine.close().await.unwrap();
}

#[tokio::test]
async fn of_a_store_that_is_opened_anew_nothing_is_said() {
    let scene = Scene::start().await;
    let engine = scene.follow().await;
    engine.close().await.unwrap();
    let failed = failure(scene.ask(&AskPosition {}).await.unwrap_err());
    assert_eq!(failed.kind, PeerFailureKind::NotNow, "{failed}");
    assert!(failed.message.contains("begins anew, or ends"), "{failed}");
}

#[tokio::test]
async fn errands_reach_who_runs_them_and_their_end_who_asked() {
    let mut scene = Scene::start().await;
    let incarnation = Uuid::from_u128(9);
    let (book, asked) = (scene.local.book.clone(), scene.local.asked.clone());
    let asking = async {
        let mut link = book.control(&asked).unwrap();
        let joined = link.call(&Join { epoch: epoch(1), member: 2 }).await.unwrap();
        let purged = link
            .call(&Purge { epoch: epoch(1), member: 2, aside: None, all: false })
            .await
            .unwrap_err();
        let handed = link.call(&LeadAndHandOver { epoch: epoch(1), to: 1, drain_seconds: 1 }).await;
        (joined.incarnation, failure(purged).message, handed.is_ok())
    };
    let running = async {
        let Some(RoleCommand::Join { member: 2, outcome, .. }) = scene.local.commands.recv().await
        else {
            panic!()
        };
        outcome.send(Ok(incarnation)).unwrap();
        let Some(RoleCommand::Purge { member: 2, outcome, .. }) = scene.local.commands.recv().await
        else {
            panic!()
        };
        outcome.send(Err("the disk said no".to_owned())).unwrap();
        let Some(RoleCommand::HandOver { to: 1, outcome, .. }) = scene.local.commands.recv().await
        else {
            panic!()
        };
        outcome.send(Ok(())).unwrap();
    };
    let (told, ()) = tokio::join!(asking, running);
    assert_eq!(told, (incarnation, "the disk said no".to_owned(), true));
    // Nobody runs them any more.
    scene.local.commands.close();
    let error = scene.ask(&Join { epoch: epoch(1), member: 3 }).await.unwrap_err();
    assert_eq!(failure(error).kind, PeerFailureKind::NotNow);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_a_member_is_asked_in_an_epoch_that_is_not_over() {
    let mut scene = Scene::start().await;
    let engine = scene.follow().await;
    let known = engine.status().vote;
    let over = Epoch { term: known.term, node: 1 };
    let refused = [
        scene.ask(&Join { epoch: over, member: 5 }).await.map(drop),
        scene.ask(&Purge { epoch: over, member: 2, aside: None, all: false }).await,
        scene.ask(&LeadAndHandOver { epoch: over, to: 1, drain_seconds: 1 }).await,
    ];
    for error in refused {
        assert_eq!(failure(error.unwrap_err()).kind, PeerFailureKind::Epoch);
    }
    // Nor is another member's store wiped, whoever asks.
    let failed = failure(
        scene.ask(&Purge { epoch: known, member: 3, aside: None, all: false }).await.unwrap_err(),
    );
    assert_eq!(failed.kind, PeerFailureKind::NotNow);
    assert!(failed.message.contains("nothing was wiped"), "{failed}");
    assert!(scene.local.commands.try_recv().is_err());
    engine.close().await.unwrap();
}

#[tokio::test]
async fn an_older_copy_counts_as_damaged_until_another_store_is_there() {
    let scene = Scene::start().await;
    let engine = scene.follow().await;
    let local = scene.local.server.service();
    let last = engine.last();
    let hello = Hello {
        protocol: rpc::peer::PEER_PROTOCOL,
        cluster_uuid: local.cluster_uuid,
        from: rpc::peer::Speaker {
            node: "n1.example".parse().unwrap(),
            store: StoreId::new(1, Uuid::from_u128(1)),
        },
        to: local.book.here(),
        purpose: Purpose::Engine,
        acknowledged: Position { index: last.index + 1, ..last },
    };
    let refusal = local.admit(&hello).unwrap_err();
    assert!(matches!(refusal.reason, RefusalReason::Reverted { .. }), "{refusal}");
    let PeerState::Damaged { why } = scene.position().await.state else { panic!("it is believed") };
    assert!(why.contains("went back in time"), "{why}");
    local.set_state(MemberState::Outside, StoreId::NONE);
    assert_eq!(scene.position().await.state, PeerState::Outside);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn who_came_after_all_that_is_known_here_is_let_in_and_who_went_is_not() {
    let scene = Scene::start().await;
    let engine = scene.follow().await;
    let local = scene.local.server.service();
    let asked = &scene.local.asked;
    let member =
        |id| Some(model::node::Member { id, incarnation: Some(Uuid::nil()), acknowledged: None });
    local.book.set_nodes([&model::node::Node { member: member(4), ..asked.clone() }]);
    let hello = |member| {
        let here = local.here();
        Hello {
            protocol: rpc::peer::PEER_PROTOCOL,
            cluster_uuid: here.cluster_uuid,
            from: Speaker { node: asked.name.clone(), store: StoreId::new(member, Uuid::nil()) },
            to: here.store,
            purpose: Purpose::Engine,
            acknowledged: Position::default(),
        }
    };
    // Until it is known which ids were given, only those that are there are members.
    let refused = local.admit(&hello(9)).unwrap_err();
    assert_eq!(refused.reason, RefusalReason::Stranger, "{refused:?}");
    local.book.set_next_member(9);
    for (member, is_let_in) in [(4, true), (5, false), (8, false), (9, true), (12, true)] {
        let admitted = local.admit(&hello(member));
        assert_eq!(admitted.is_ok(), is_let_in, "{member}: {admitted:?}");
    }
    engine.close().await.unwrap();
}
