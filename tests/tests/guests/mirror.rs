//! Disks with two copies: real guests of QEMU and its real storage daemon, by the instances of two agents.
//! A [`pair`] has both; [`faults`] are agents, disks and networks that fail.

mod faults;
mod pair;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use model::instance::launch::{CopyState, DiskLaunch, Launch};
use model::instance::state::Seen;
use stdx::Clock;
use virt::{Change, Copies, Instances, Join, Order, Paths, Storage, VirtError};

use pair::{
    DISK, DISTANCE, GUEST, PLACES, SECOND, SIZE, is_lost, key, kill, run, sight, state, text, until,
};

#[test]
fn a_guest_goes_on_with_one_copy_and_fills_the_other_one_again() {
    run(async |pair| {
        let (mut a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        assert_eq!(b.serve(pair.copies(1, key(1))).await.unwrap(), port, "the same call again");
        let began = Instant::now();
        let told = a.start_with(pair.launch(1, Some(port)), Some(key(1))).await.unwrap();
        println!("start with a copy: {:?}", began.elapsed());
        assert_eq!((told.1.seen, state(&told.1)), (Seen::Running, CopyState::InStep));
        pair.writes(20).await;
        // The process that serves the copy dies.
        kill(pair.daemon());
        let began = Instant::now();
        until("loss", || is_lost(&a)).await;
        println!("killed to told: {:?}", began.elapsed());
        until("stop", || sight(&a).seen == Seen::IoError).await;
        let (before, began) = (pair.written(), Instant::now());
        let told = a.detach(GUEST, 1, vec![DISK]).await.unwrap().1;
        println!("detach: {:?}", began.elapsed());
        assert_eq!(state(&told), CopyState::Alone);
        until("next number", || pair.written() > before).await;
        println!("detach to the next number: {:?}", began.elapsed());
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(10).await;
        // It comes back; a wrong key does not reach it.
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        let why = pair.join_fails(&a, 1, pair.order(port, key(2))).await;
        assert!(why.contains("TLS"), "{why}");
        let began = Instant::now();
        pair.join(&a, 1, port).await;
        println!("in step again: {:?}", began.elapsed());
        pair.writes(10).await;
        // The agent ends while both are in step, and while a copy is lost, and a copy is lost meanwhile.
        a.shutdown().await;
        a = pair.agent("a");
        until("knowledge", || state(&sight(&a)) == CopyState::InStep).await;
        pair.writes(5).await;
        kill(pair.daemon());
        until("loss", || is_lost(&a)).await;
        a.shutdown().await;
        a = pair.agent("a");
        until("loss", || is_lost(&a) && sight(&a).seen == Seen::IoError).await;
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(5).await;
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        pair.join(&a, 1, port).await;
        a.shutdown().await;
        kill(pair.daemon());
        pair.stands_still().await;
        a = pair.agent("a");
        until("loss", || is_lost(&a) && sight(&a).seen == Seen::IoError).await;
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(5).await;
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        pair.join(&a, 1, port).await;
        pair.writes(5).await;
        // The agent that serves ends, and the next one knows what is served.
        b.shutdown().await;
        let b = pair.agent("b");
        assert_eq!(b.serve(pair.copies(1, key(1))).await.unwrap(), port);
        assert_eq!(state(&sight(&a)), CopyState::InStep);
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        let daemon = pair.daemon();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(!daemon.is_alive());
        assert!(pair.written() > 60 && pair.is_equal());
        for node in ["a", "b"] {
            let keys = std::fs::read_dir(pair.at(node, "keys")).unwrap();
            assert_eq!(keys.count(), 0, "keys are left on {node}");
        }
    });
}

#[test]
fn what_a_guest_was_told_is_on_the_other_copy() {
    run(async |pair| {
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let mut run = 0;
        for round in 0..tests::tries(3, 40) {
            run += 1;
            let port = b.serve(pair.copies(run, key(1))).await.unwrap();
            // The copies may differ in writes that nobody was told of: the surviving one counts.
            let [from, to] = ["b", "a"].map(|node| pair.at(node, "disks").join(DISK.to_string()));
            std::fs::copy(from, to).unwrap();
            drop(std::fs::remove_file(pair.at("a", &format!("runs/{GUEST}.console.log"))));
            a.start_with(pair.launch(run, Some(port)), Some(key(1))).await.unwrap();
            pair.writes(20 + round).await;
            kill(pair.guest());
            until("end", || sight(&a).seen == Seen::Crashed).await;
            let told = pair.written();
            let copy = File::open(pair.at("b", "disks").join(DISK.to_string())).unwrap();
            for number in told.saturating_sub(PLACES - 2).max(1)..=told {
                let mut block = [0; 512];
                copy.read_exact_at(&mut block, number % PLACES * DISTANCE).unwrap();
                let has = String::from_utf8_lossy(&block).trim().to_owned();
                assert_eq!(has, format!("COUNT {number}"), "{told} were told");
            }
        }
        b.serve_no_more(GUEST, run).await.unwrap();
    });
}

#[test]
fn a_guest_that_began_alone_fills_its_other_copy() {
    run(async |pair| {
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let random = Command::new("dd")
            .args(["if=/dev/urandom", "bs=1M", "count=32", "seek=16", "conv=notrunc"])
            .arg(format!("of={}", pair.at("a", "disks").join(DISK.to_string()).display()))
            .output();
        assert!(random.unwrap().status.success());
        a.start(pair.launch(1, None)).await.unwrap();
        assert_eq!(state(&sight(&a)), CopyState::Alone);
        pair.writes(5).await;
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        let began = Instant::now();
        pair.join(&a, 1, port).await;
        println!("all of {SIZE} MiB, half of it data: {:?}", began.elapsed());
        pair.writes(5).await;
        // An operator has it stand still meanwhile.
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(5).await;
        a.order(GUEST, 1, Order::Pause).await.unwrap();
        pair.join(&a, 1, port).await;
        assert_eq!(sight(&a).seen, Seen::Paused);
        a.order(GUEST, 1, Order::Resume).await.unwrap();
        pair.writes(5).await;
        // The disk does not grow while the guest runs, and a second one comes and goes.
        let grown = DiskLaunch { size: SIZE * 2, ..pair.disk("a", DISK, Some(port)) };
        let change = Change { disks: vec![grown], ..Change::default() };
        let (_, not) = a.plug(GUEST, 1, change).await.unwrap();
        assert!(not[0].1.contains("next start"), "{not:?}");
        let second = pair.disk("a", SECOND, None);
        a.storage().create(&second).unwrap();
        let change = Change { disks: vec![second], ..Change::default() };
        let (told, not) = a.plug(GUEST, 1, change).await.unwrap();
        assert_eq!(not, []);
        assert_eq!(told.1.copies.len(), 2, "{told:?}");
        assert_eq!(told.1.copies[1].state, CopyState::Alone);
        let change = Change { without: vec![SECOND], ..Change::default() };
        let (told, not) = a.plug(GUEST, 1, change).await.unwrap();
        assert_eq!((not, told.1.copies.len()), (Vec::new(), 1));
        // Its disk is copied as it is now.
        let copy = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(pair.at("a", "copy"));
        a.snapshot(GUEST, 1, vec![(DISK, copy.unwrap())]).await.unwrap();
        assert_eq!(pair.at("a", "copy").metadata().unwrap().len(), SIZE << 20);
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(pair.is_equal());
    });
}

#[test]
fn a_disk_that_is_plugged_in_gets_its_other_copy() {
    run(async |pair| {
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        a.start(pair.launch(1, None)).await.unwrap();
        pair.writes(5).await;
        let second = pair.disk("a", SECOND, None);
        a.storage().create(&second).unwrap();
        b.storage().create(&pair.disk("b", SECOND, None)).unwrap();
        let plug = || Change { disks: vec![second.clone()], ..Change::default() };
        assert_eq!(a.plug(GUEST, 1, plug()).await.unwrap().1, []);
        let disks = [DISK, SECOND].map(|disk| pair.disk("b", disk, None)).to_vec();
        let copies = || Copies { disks: disks.clone(), ..pair.copies(1, key(1)) };
        let port = b.serve(copies()).await.unwrap();
        let mut left = vec![SECOND, DISK];
        while let Some(disk) = left.pop() {
            let order = Join { disk, ..pair.order(port, key(1)) };
            let joined = a.join(GUEST, 1, order).await.unwrap();
            assert_eq!(joined.failed, None);
            if joined.percent < 100 {
                left.insert(0, disk);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let copies_now = sight(&a).copies;
        assert!(copies_now.iter().all(|copy| copy.state == CopyState::InStep), "{copies_now:?}");
        pair.writes(5).await;
        // It leaves with its copy, and nothing of it is left that would be in the way of the next one.
        for _ in 0..2 {
            let change = Change { without: vec![SECOND], ..Change::default() };
            assert_eq!(a.plug(GUEST, 1, change).await.unwrap().1, []);
            assert_eq!(state(&sight(&a)), CopyState::InStep);
            assert_eq!(a.plug(GUEST, 1, plug()).await.unwrap().1, []);
        }
        pair.writes(5).await;
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(pair.is_equal());
    });
}

#[test]
fn copies_are_served_to_one_run_alone() {
    run(async |pair| {
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        let serve = |run, number| b.serve(pair.copies(run, key(number)));
        let why = text(serve(2, 1).await.unwrap_err());
        assert!(why.contains("there is no disk"), "{why}");
        pair.make_disks(&a, &b);
        let other = DiskLaunch { size: SIZE + 1, ..pair.disk("b", DISK, None) };
        let why = b.serve(Copies { disks: vec![other], ..pair.copies(2, key(1)) }).await;
        assert!(matches!(why, Err(VirtError::DiskSize { has: SIZE, .. })), "{why:?}");
        let port = serve(2, 1).await.unwrap();
        let first = pair.daemon();
        let old = serve(1, 1).await;
        assert!(matches!(old, Err(VirtError::Over { run: 1, highest: 2, .. })), "{old:?}");
        assert!(first.is_alive());
        // A run with a wrong key does not begin; neither does one whose copy is gone.
        let why = text(a.start_with(pair.launch(2, Some(port)), Some(key(9))).await.unwrap_err());
        assert!(
            why.contains("copy of disk 0 on node b cannot be joined") && why.contains("TLS"),
            "{why}"
        );
        assert_eq!(sight(&a).seen, Seen::Crashed);
        // A former primary is cut off by the next run, and by another key.
        a.start_with(pair.launch(3, Some(port)), Some(key(1))).await.unwrap();
        pair.writes(5).await;
        serve(4, 2).await.unwrap();
        assert!(!first.is_alive());
        until("loss", || is_lost(&a) && sight(&a).seen == Seen::IoError).await;
        a.stop(GUEST, 3, Duration::ZERO, false).await.unwrap();
        let second = pair.daemon();
        serve(4, 3).await.unwrap();
        assert!(!second.is_alive());
        let why = text(a.start_with(pair.launch(5, Some(port)), Some(key(3))).await.unwrap_err());
        assert!(why.contains("cannot reach it"), "{why}");
        // No run begins beside the copies that are served.
        let there =
            |run| Launch { disks: vec![pair.disk("b", DISK, None)], ..pair.launch(run, None) };
        let refused = b.start(there(4)).await;
        assert!(matches!(refused, Err(VirtError::Serves { served: 4, .. })), "{refused:?}");
        let third = pair.daemon();
        assert!(third.is_alive());
        b.start(there(5)).await.unwrap();
        assert!(!third.is_alive());
        let refused = serve(6, 1).await;
        assert!(matches!(refused, Err(VirtError::Lives { alive: 5, .. })), "{refused:?}");
        b.stop(GUEST, 5, Duration::ZERO, false).await.unwrap();
        serve(6, 1).await.unwrap();
        b.serve_no_more(GUEST, 5).await.unwrap();
        assert!(pair.daemon().is_alive(), "the order is older than what is served");
        b.serve_no_more(GUEST, 6).await.unwrap();
        let without =
            Paths { storage_daemon: "/none/daemon".into(), ..Paths::of(pair.at("b", "runs2")) };
        let storage = Storage::new(pair.at("b", "list"), pair.at("b", "disks"));
        let b = Instances::open(without, "boot".to_owned(), storage, Clock::system()).unwrap();
        let why = text(b.serve(pair.copies(7, key(1))).await.unwrap_err());
        assert!(why.contains("qemu-utils"), "{why}");
    });
}
