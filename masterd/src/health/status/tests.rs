//! The status of a process that is not master; the tests of the real programs ask a master.

use engine::{EngineOptions, Link, PeerError, Peers};
use model::cluster_status::CandidateState;
use queue_format::StoreOptions;
use rpc::peer::StoreId;

use super::*;
use crate::process::nobody;

#[derive(Debug)]
struct Nobody;

impl Peers for Nobody {
    fn link(&self, _member: u64, _node: &str) -> Box<dyn Link> {
        Box::new(Self)
    }
}

impl Link for Nobody {
    fn ask(
        &mut self,
        _kind: u8,
        _body: bytes::Bytes,
        _limit: std::time::Duration,
    ) -> engine::Answer<'_> {
        let reason = "nobody is there".to_owned();
        Box::pin(async { Err(PeerError { reason, soon: false }) })
    }
}

fn local(root: &std::path::Path) -> LocalMember {
    let book = nobody(root).book;
    let me = (book.identity().name().clone(), uuid::Uuid::nil());
    LocalMember::new(me, book, root.to_owned()).0
}

fn other() -> Part {
    let attempt = Some(Arc::new(RoleTaken::refused("too few")));
    Part::Other { starting: false, attempt }
}

#[tokio::test]
async fn who_has_no_store_tells_its_certificates_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let told = collect(&local(dir.path()), other(), &Clock::system()).await;
    assert_eq!((told.state, told.certificates.len()), (ProcessState::Outside, 2));
    assert_eq!((told.master, told.store, told.standby), (None, None, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_tells_its_store_and_what_it_waits_for() {
    let dir = tempfile::tempdir().unwrap();
    let local = local(dir.path());
    let store = StoreOptions { segment_bytes: 256 << 10, ..StoreOptions::default() };
    let options = EngineOptions::new(2, local.node.as_str(), store);
    let data = dir.path().join("data");
    let (engine, _news) = Engine::open(&data, options, Arc::new(Nobody)).await.unwrap();
    let engine = Arc::new(engine);
    local.set_state(MemberState::Standby(Arc::clone(&engine)), StoreId::NONE);

    let told = collect(&local, other(), &Clock::system()).await;
    assert_eq!((told.state, told.master), (ProcessState::Standby, None));
    let store = told.store.unwrap();
    assert!(store.disk_free_mib.is_some() && store.journal_bytes > 0, "{store:?}");
    let standby = told.standby.unwrap();
    assert_eq!(standby.leader, None);
    assert_eq!(standby.attempt.unwrap().message, "too few", "of its own, since nobody is heard");
    assert!(told.candidates.iter().all(|one| one.state != CandidateState::NotYet));

    let starting =
        Part::Other { starting: true, attempt: Some(Arc::new(RoleTaken::refused("too few"))) };
    let told = collect(&local, starting, &Clock::system()).await;
    assert_eq!(told.state, ProcessState::Starting);
    assert_eq!(told.standby.unwrap().attempt.unwrap().message, "too few");
    assert_eq!(told.alarms[0].kind, "not-confirmed");
    engine.close().await.unwrap();
}
