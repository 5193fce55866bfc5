use model::rack::{Lease, LeaseState as State_};

use super::*;
use crate::dhcp::LeaseState;
use crate::dhcp::packet::Identity;
use crate::testing::{SMALL, membership, name};

fn record(last: u8, until_us: i64) -> LeaseRecord {
    let mac = model::MacAddress::new([2, 0, 0, 0, 0, last]);
    LeaseRecord {
        address: Ipv4Addr::new(10, 69, 0, last),
        client: Identity::Ethernet(mac),
        state: LeaseState::Bound { until_us },
        since_us: None,
    }
}

fn seen(record: &LeaseRecord) -> Observation {
    Observation::Lease(Lease {
        rack: 0,
        mac: record.client.mac().unwrap(),
        address: record.address,
        state: State_::Bound,
        until: Timestamp::from_micros(1),
    })
}

async fn give(ledger: &Ledger, last: u8, until_us: i64) {
    let record = record(last, until_us);
    let observation = seen(&record);
    ledger.keep_leases(vec![record], Timestamp::from_micros(1), vec![observation]).await.unwrap();
}

fn open(dir: &tempfile::TempDir) -> (Ledger, Restored) {
    Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap()
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, found) = open(&dir);
    assert_eq!((found.obeyed.epoch, found.allow, found.racks.len()), (Epoch::default(), None, 0));
    let incarnation = ledger.incarnation();
    let epoch = Epoch { term: 4, node: 2 };
    let obeyed = Obeyed { epoch, master: Some(name("n2")) };
    ledger.hold_epoch(&obeyed).await.unwrap();
    ledger.keep_allow_list(&AllowList::default()).await.unwrap();
    let rack = crate::testing::rack(7, 3);
    ledger.keep_rack(&rack).await.unwrap();
    give(&ledger, 32, 100).await;
    give(&ledger, 33, 100).await;
    give(&ledger, 32, 200).await;
    ledger.acknowledge(2).unwrap();
    drop(ledger);
    let (ledger, found) = open(&dir);
    assert_eq!(found.obeyed, obeyed);
    assert_eq!(found.allow, Some(AllowList::default()));
    assert_eq!(found.racks, [rack]);
    assert_eq!(ledger.incarnation(), incarnation);
    assert_eq!(ledger.leases(), [record(32, 200), record(33, 100)]);
    let (events, dropped) = ledger.pending(10);
    assert_eq!((events.len(), events[0].number, dropped), (1, 3, 0));
    // Numbers go on.
    ledger.acknowledge(3).unwrap();
    give(&ledger, 34, 100).await;
    assert_eq!(ledger.pending(10).0[0].number, 4);
    ledger.forget_rack(7).await.unwrap();
    drop(ledger);
    let (_ledger, found) = open(&dir);
    assert!(found.racks.is_empty());
}

#[tokio::test]
async fn numbers_are_not_used_twice_after_all_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = open(&dir);
    give(&ledger, 32, 100).await;
    ledger.acknowledge(u64::MAX).unwrap();
    assert!(ledger.pending(10).0.is_empty());
    drop(ledger);
    let (ledger, _) = open(&dir);
    give(&ledger, 32, 200).await;
    assert_eq!(ledger.pending(10).0[0].number, 2);
}

#[tokio::test]
async fn a_noted_event_wakes_who_watches_when_it_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = open(&dir);
    let mut watching = ledger.watch();
    ledger.note(Timestamp::from_micros(1), seen(&record(40, 1))).unwrap();
    watching.changed().await.unwrap();
    assert_eq!(ledger.pending(10).0.len(), 1);
}

#[tokio::test]
async fn the_state_of_another_membership_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = open(&dir);
    ledger.hold_epoch(&Epoch { term: 99, node: 1 }.into()).await.unwrap();
    ledger.keep_rack(&crate::testing::rack(7, 3)).await.unwrap();
    give(&ledger, 32, 100).await;
    drop(ledger);
    let other = Membership { node_id: 77, cluster_name: name("other"), ..membership("n2") };
    for _again in 0..2 {
        let (ledger, found) = Ledger::open(dir.path(), &other, SMALL).unwrap();
        assert_eq!((found.obeyed, found.racks.len()), (Obeyed::default(), 0));
        assert!(ledger.leases().is_empty() && ledger.pending(10).0.is_empty());
    }
}

#[tokio::test]
async fn an_enrolment_brings_a_later_list_of_callers_than_the_one_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = open(&dir);
    ledger.keep_allow_list(&AllowList::default()).await.unwrap();
    give(&ledger, 32, 100).await;
    drop(ledger);
    let again = Membership { enrolled: Timestamp::from_micros(7), ..membership("n2") };
    let (ledger, found) = Ledger::open(dir.path(), &again, SMALL).unwrap();
    assert_eq!((found.allow, ledger.leases().len()), (None, 1));
    ledger.keep_allow_list(&AllowList::default()).await.unwrap();
    drop(ledger);
    let (_ledger, found) = Ledger::open(dir.path(), &again, SMALL).unwrap();
    assert_eq!(found.allow, Some(AllowList::default()));
}

#[tokio::test]
async fn a_wiped_ledger_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = open(&dir);
    ledger.keep_rack(&crate::testing::rack(7, 3)).await.unwrap();
    give(&ledger, 32, 100).await;
    ledger.wipe(&[7]).await.unwrap();
    ledger.close().unwrap();
    let (ledger, found) = open(&dir);
    assert!(found.racks.is_empty() && ledger.leases().is_empty());
    assert!(ledger.pending(10).0.is_empty());
}

#[test]
fn a_second_agent_on_the_same_root_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _first = open(&dir);
    let second = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap_err();
    assert!(second.to_string().contains("another noded"), "{second}");
}

#[test]
fn a_damaged_document_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = open(&dir);
    ledger.close().unwrap();
    drop(ledger);
    stdx::atomic::write(&dir.path().join("epoch"), b"{", 0o640).unwrap();
    let error = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap_err();
    assert!(error.to_string().contains("`epoch`"), "{error}");
}

/// A client that had the address of a damaged record may have it still.
#[tokio::test]
async fn a_damaged_record_blocks_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = open(&dir);
    for last in [32, 33, 34] {
        give(&ledger, last, 100).await;
    }
    ledger.close().unwrap();
    drop(ledger);
    let file = |last: u8| dir.path().join(format!("leases/10.69.0.{last}"));
    stdx::atomic::write(&file(33), b"{garbage", 0o600).unwrap();
    std::fs::copy(file(32), file(34)).unwrap();
    let (ledger, _) = open(&dir);
    assert_eq!(ledger.lease(Ipv4Addr::new(10, 69, 0, 32)), Some(record(32, 100)));
    for last in [33, 34] {
        let lease = ledger.lease(Ipv4Addr::new(10, 69, 0, last)).unwrap();
        assert!(matches!(lease.state, LeaseState::Declined { .. }), "{lease:?}");
    }
}
