use super::*;
use crate::testing::{SMALL, membership, rack, ramdisk};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn told(cycle: u64, booted: Option<i64>, token: Option<i64>) -> RamdiskTold {
    RamdiskTold {
        rack: 0,
        serial: "S1".parse().unwrap(),
        registered: None,
        cycle,
        heard: Ramdisk { booted: booted.map(at), token_told: token.map(at), ..Ramdisk::default() },
    }
}

fn known(ledger: &Ledger) -> Vec<RamdiskTold> {
    let all = ledger.hear(at(0), |known| (known.ramdisks.values().cloned().collect(), None, None));
    all.unwrap().0
}

#[test]
fn what_two_agents_heard_is_joined() {
    for (one, other, both) in [
        (told(1, None, None), told(1, None, Some(5)), told(1, None, Some(5))),
        (told(1, Some(3), None), told(1, None, Some(5)), told(1, Some(3), Some(5))),
        (told(1, Some(3), Some(2)), told(1, Some(9), Some(5)), told(1, Some(9), Some(5))),
        // A later power cycle knows nothing of an earlier one.
        (told(2, None, None), told(1, Some(9), Some(5)), told(2, None, None)),
    ] {
        assert_eq!(joined(&one, &other), both);
        assert_eq!(joined(&other, &one), both);
    }
}

#[tokio::test]
async fn what_was_heard_outlives_a_restart_and_is_told_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap();
    let before = ledger.news_after(0, 10).upto;
    let record = told(1, None, Some(5));
    let (_, durable) = ledger.hear(at(5), |_| ((), Some(record.clone()), None)).unwrap();
    durable.unwrap().wait().await.unwrap();
    let news = ledger.news_after(before, 10);
    assert_eq!((news.ramdisks, news.count), (vec![record.clone()], 1));
    // A known record is no news, so two agents do not tell each other the same for ever.
    ledger.learn_ramdisks(vec![told(1, None, None), record.clone()]).unwrap();
    assert_eq!(ledger.news_after(news.upto, 10).count, 0);
    ledger.learn_ramdisks(vec![told(1, Some(9), None)]).unwrap();
    assert_eq!(ledger.news_after(news.upto, 10).ramdisks, [told(1, Some(9), Some(5))]);
    ledger.close().unwrap();
    drop(ledger);
    let (ledger, _) = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap();
    assert_eq!(known(&ledger), [told(1, Some(9), Some(5))]);
    assert_eq!(ledger.news_after(0, 10).ramdisks.len(), 1, "it is told again after a start");
    ledger.close().unwrap();
}

#[tokio::test]
async fn it_is_kept_while_a_document_expects_it() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _) = Ledger::open(dir.path(), &membership("n2"), SMALL).unwrap();
    let mut document = rack(0, 1);
    document.machines[0].cycle = 4;
    document.machines[0].ramdisk = Some(ramdisk());
    let kept = |record: RamdiskTold, document: Option<&RackDocument>| {
        ledger.learn_ramdisks(vec![record]).unwrap();
        ledger.forget_ramdisks(0, document).unwrap();
        let kept = known(&ledger);
        ledger.forget_ramdisks(0, None).unwrap();
        kept.len()
    };
    assert_eq!(kept(told(3, None, Some(1)), Some(&document)), 0);
    assert_eq!(kept(told(4, None, Some(1)), Some(&document)), 1);
    // Told by an agent with a newer document.
    assert_eq!(kept(told(5, None, Some(1)), Some(&document)), 1);
    document.machines[0].ramdisk = None;
    assert_eq!(kept(told(4, None, Some(1)), Some(&document)), 0);
    ledger.close().unwrap();
}
