//! Agents that end amid a copy, disks without room, and nodes that are silent.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use model::instance::launch::CopyState;
use model::instance::state::Seen;
use serde_json::Value;
use stdx::process::Process;
use virt::Order;

use super::pair::{DISK, GUEST, is_lost, key, run, sight, state, until};

/// A file system with little room.
struct Mounted(PathBuf);

impl Mounted {
    fn at(place: &Path) -> Option<Self> {
        let words = ["-t", "tmpfs", "-o", "size=1m", "none"];
        let mounted = Command::new("mount").args(words).arg(place).output().unwrap();
        if !mounted.status.success() {
            tests::skip("disks without room", "nothing can be mounted here");
        }
        mounted.status.success().then(|| Self(place.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.0).status());
    }
}

#[test]
fn a_copy_without_room_is_lost() {
    run(async |pair| {
        let disks = pair.at("b", "disks");
        let Some(_mounted) = Mounted::at(&disks) else { return };
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        a.start_with(pair.launch(1, Some(port)), Some(key(1))).await.unwrap();
        until("loss", || is_lost(&a)).await;
        let CopyState::Lost(why) = state(&sight(&a)) else { panic!() };
        assert!(why.contains("No space left"), "{why}");
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(20).await;
        let why = pair.join_fails(&a, 1, pair.order(port, key(1))).await;
        assert!(why.contains("No space left"), "{why}");
        pair.writes(5).await;
        assert_eq!((sight(&a).seen, state(&sight(&a))), (Seen::Running, CopyState::Alone));
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
    });
}

/// Changes a record while no agent uses it.
fn change(record: &Path, change: impl Fn(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    change(&mut value);
    stdx::atomic::write(record, value.to_string().as_bytes(), 0o600).unwrap();
}

fn signal(process: Process, signal: &str) {
    let words = [format!("-{signal}"), process.pid.to_string()];
    assert!(Command::new("kill").args(words).status().unwrap().success());
}

#[test]
fn an_agent_that_ends_amid_a_copy_leaves_a_guest_that_goes_on() {
    run(async |pair| {
        let (mut a, mut b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        a.start(pair.launch(1, None)).await.unwrap();
        pair.writes(5).await;
        // It held the guest, and ended before it let it go.
        a.order(GUEST, 1, Order::Pause).await.unwrap();
        a.shutdown().await;
        let record = pair.at("a", &format!("runs/{GUEST}.json"));
        change(&record, |record| record["held"] = true.into());
        a = pair.agent("a");
        until("guest that runs", || sight(&a).seen == Seen::Running).await;
        pair.writes(5).await;
        // A guest that an operator had stand still does so.
        a.order(GUEST, 1, Order::Pause).await.unwrap();
        a.shutdown().await;
        a = pair.agent("a");
        pair.stands_still().await;
        assert_eq!(sight(&a).seen, Seen::Paused);
        a.order(GUEST, 1, Order::Resume).await.unwrap();
        // It fills a copy, and ends.
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        let joined = a.join(GUEST, 1, pair.order(port, key(1))).await.unwrap();
        assert_eq!((state(&joined.told.1), joined.percent), (CopyState::Filling, 0));
        a.shutdown().await;
        a = pair.agent("a");
        until("end of the try", || state(&sight(&a)) == CopyState::Alone).await;
        pair.writes(5).await;
        pair.join(&a, 1, port).await;
        pair.writes(5).await;
        // The process that serves the copy hangs, and nobody closes its connection.
        let hangs = pair.daemon();
        signal(hangs, "STOP");
        pair.stands_still().await;
        let began = Instant::now();
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        println!("detach from what hangs: {:?}", began.elapsed());
        pair.writes(5).await;
        let why = pair.join_fails(&a, 1, pair.order(port, key(1))).await;
        assert!(why.contains("cannot reach it"), "{why}");
        pair.writes(5).await;
        // The copy is served again by another process at the same port, as nobody uses that one.
        assert_eq!(b.serve(pair.copies(1, key(1))).await.unwrap(), port);
        assert!(!hangs.is_alive());
        pair.join(&a, 1, port).await;
        pair.writes(5).await;
        assert_eq!(b.serve(pair.copies(1, key(1))).await.unwrap(), port);
        assert_eq!(state(&sight(&a)), CopyState::InStep, "the process that is used goes on");
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        let hangs = pair.daemon();
        // The agent that serves ended before it noted the process.
        b.shutdown().await;
        let record = pair.at("b", &format!("runs/served/{GUEST}.json"));
        change(&record, |record| record["serving"] = "begins".into());
        b = pair.agent("b");
        until("end of what was not noted", || !hangs.is_alive()).await;
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        pair.join(&a, 1, port).await;
        pair.writes(5).await;
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(pair.is_equal());
    });
}

#[test]
fn an_own_disk_that_fails_is_no_lost_copy() {
    run(async |pair| {
        let disks = pair.at("a", "disks");
        let Some(_mounted) = Mounted::at(&disks) else { return };
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        a.start_with(pair.launch(1, Some(port)), Some(key(1))).await.unwrap();
        let says = |wanted: &str| sight(&a).exit.is_some_and(|why| why.contains(wanted));
        until("its reason", || says("No space left")).await;
        assert_eq!((sight(&a).seen, state(&sight(&a))), (Seen::IoError, CopyState::InStep));
        let more = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&disks).status();
        assert!(more.unwrap().success());
        a.order(GUEST, 1, Order::Resume).await.unwrap();
        pair.writes(5).await;
        until("a guest that runs", || sight(&a).exit.is_none()).await;
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(pair.is_equal());
    });
}

/// A rule by which nothing reaches a port, nor comes from there.
struct Silence(String);

impl Silence {
    fn of(port: u16) -> Option<Self> {
        let table = format!("gantry_test_{}", std::process::id());
        let text = format!(
            "table inet {table} {{\nchain quiet {{\ntype filter hook input priority 0\n\
             tcp dport {port} drop\ntcp sport {port} drop\n}}\n}}\n"
        );
        let done = Command::new("nft").arg(text).output();
        done.is_ok_and(|done| done.status.success()).then_some(Self(table))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        drop(Command::new("nft").args(["delete", "table", "inet", &self.0]).status());
    }
}

#[test]
fn a_node_that_is_silent_is_a_lost_copy() {
    run(async |pair| {
        let (a, b) = (pair.agent("a"), pair.agent("b"));
        pair.make_disks(&a, &b);
        let port = b.serve(pair.copies(1, key(1))).await.unwrap();
        a.start_with(pair.launch(1, Some(port)), Some(key(1))).await.unwrap();
        pair.writes(5).await;
        let Some(silence) = Silence::of(port) else {
            return tests::skip("a node that is silent", "nft sets no rule here");
        };
        let began = Instant::now();
        until("loss", || is_lost(&a)).await;
        println!("silence to loss: {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(15));
        a.detach(GUEST, 1, vec![DISK]).await.unwrap();
        pair.writes(5).await;
        let why = pair.join_fails(&a, 1, pair.order(port, key(1))).await;
        assert!(why.contains("cannot reach it"), "{why}");
        drop(silence);
        pair.join(&a, 1, port).await;
        a.stop(GUEST, 1, Duration::ZERO, false).await.unwrap();
        b.serve_no_more(GUEST, 1).await.unwrap();
        assert!(pair.is_equal());
    });
}
