//! Instances by the fake hypervisor, with agents that end at any moment.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixListener;

use model::instance::disk::DiskPlace;
use model::instance::launch::{CopyState, DiskLaunch, ReplicaKey, Sight};

use super::*;
use crate::Change;

fn launch(number: u128, run: u64) -> Launch {
    Launch {
        uuid: Uuid::from_u128(number),
        name: format!("i{number}").parse().unwrap(),
        run,
        hypervisor: "fake".to_owned(),
        hvparams: model::instance::Parameters::new(),
        beparams: [("maxmem".to_owned(), 256.into())].into(),
        nics: Vec::new(),
        disks: Vec::new(),
        paused: false,
        seed: None,
        users: Vec::new(),
        network_port: None,
    }
}

fn open(dir: &tempfile::TempDir, boot: &str) -> Instances {
    let disks = dir.path().join("disks");
    let storage = Storage::new(dir.path().join("list"), disks);
    let runs = dir.path().join("runs");
    Instances::open(Paths::of(runs), boot.to_owned(), storage, Clock::system()).unwrap()
}

fn script(dir: &tempfile::TempDir, name: &str, text: &str) {
    let scripts = dir.path().join("runs/fake");
    fs::create_dir_all(&scripts).unwrap();
    let path = scripts.join(format!("{name}.json"));
    stdx::atomic::write(&path, text.as_bytes(), 0o644).unwrap();
}

const NO_TIME: Duration = Duration::ZERO;

#[tokio::test]
async fn an_agent_that_begins_anew_has_its_instances_and_a_node_that_restarts_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let (known, sight) = open(&dir, "a").start(launch(1, 1)).await.unwrap();
    assert_eq!((sight.seen, sight.memory, known.number), (Seen::Running, 256, 2));
    let again = open(&dir, "a");
    let told = again.since(Some(known));
    assert!(told.all, "the agent has another life");
    assert_eq!(told.instances[0].seen, Seen::Running);
    let rebooted = open(&dir, "b");
    let sight = rebooted.since(None).instances.remove(0);
    assert_eq!((sight.seen, sight.exit.as_deref()), (Seen::Crashed, Some(NODE_RESTARTED)));
    assert!(rebooted.start(launch(1, 2)).await.is_ok());
    assert!(matches!(rebooted.start(launch(1, 1)).await, Err(VirtError::Over { .. })));
}

/// The agent ended between the start of QEMU and the note of its process.
#[tokio::test]
async fn a_guest_whose_process_nobody_noted_is_told_to_quit() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let (uuid, name) = (Uuid::from_u128(1), "i1".parse().unwrap());
    let launch = Launch { hypervisor: "kvm".to_owned(), ..launch(1, 1) };
    let absent = Record::absent(uuid, name, "a", Timestamp::from_micros(1));
    let record = Record { launch: Some(launch), seen: Seen::Starting, ..absent };
    Records::open(runs.clone()).unwrap().write(&record).unwrap();
    let monitor = UnixListener::bind(runs.join(format!("{uuid}.qmp"))).unwrap();
    let qemu = std::thread::spawn(move || {
        let (stream, _) = monitor.accept().unwrap();
        let mut told = BufReader::new(stream).lines();
        told.any(|line| line.unwrap().contains("quit"))
    });
    let sight = open(&dir, "a").since(None).instances.remove(0);
    assert!(qemu.join().unwrap(), "it was told to quit");
    assert_eq!((sight.seen, sight.exit.as_deref()), (Seen::Crashed, Some(AGENT_ENDED)));
    // There is nobody at the socket any more.
    Records::open(runs).unwrap().write(&record).unwrap();
    assert_eq!(open(&dir, "a").since(None).instances[0].seen, Seen::Crashed);
}

#[tokio::test]
async fn devices_of_a_run_are_on_record() {
    let dir = tempfile::tempdir().unwrap();
    let instances = open(&dir, "a");
    let uuid = Uuid::from_u128(1);
    instances.start(launch(1, 1)).await.unwrap();
    let disk = model::instance::launch::DiskLaunch {
        uuid,
        place: model::instance::DiskPlace::File { path: "/srv/1".to_owned() },
        size: 1,
        mode: model::instance::disk::DiskMode::ReadWrite,
        params: model::instance::Parameters::new(),
        replica: None,
    };
    let change = Change { disks: vec![disk.clone()], ..Change::default() };
    instances.plug(uuid, 1, change.clone()).await.unwrap();
    let had = instances.get(uuid).unwrap().launch.unwrap();
    assert_eq!((had.disks, had.nics), (vec![disk], Vec::new()));
    let gone = instances.plug(uuid, 2, change).await;
    assert!(matches!(gone, Err(VirtError::NotAlive { .. })));
}

#[tokio::test]
async fn a_stop_ends_what_lives_and_no_newer_run() {
    let dir = tempfile::tempdir().unwrap();
    let instances = open(&dir, "a");
    let uuid = Uuid::from_u128(1);
    assert_eq!(instances.stop(uuid, 1, NO_TIME, false).await.unwrap().1.seen, Seen::Absent);
    instances.start(launch(1, 2)).await.unwrap();
    let old = instances.stop(uuid, 1, NO_TIME, false).await;
    assert!(matches!(old, Err(VirtError::Over { highest: 2, .. })));
    for _ in 0..2 {
        assert_eq!(instances.stop(uuid, 3, NO_TIME, false).await.unwrap().1.seen, Seen::Absent);
    }
    assert!(matches!(instances.start(launch(1, 3)).await, Err(VirtError::Over { .. })));
    let known = instances.since(None).known;
    instances.stop(uuid, 3, NO_TIME, true).await.unwrap();
    let told = instances.since(Some(known));
    assert_eq!((told.all, told.instances[0].seen), (false, Seen::Absent));
    assert!(open(&dir, "a").since(None).instances.is_empty(), "it is forgotten");
}

#[tokio::test]
async fn faults_are_as_the_script_says() {
    let dir = tempfile::tempdir().unwrap();
    let instances = open(&dir, "a");
    script(&dir, "i1", r#"{"start_fails": "no"}"#);
    let error = instances.start(launch(1, 1)).await.unwrap_err();
    assert_eq!(error.to_string(), "the hypervisor cannot start instance i1: no");
    assert_eq!(instances.since(None).instances[0].seen, Seen::Crashed);
    script(&dir, "i1", r#"{"ends": {"after_ms": 0, "crashes": false}}"#);
    let mut news = instances.watch();
    instances.start(launch(1, 2)).await.unwrap();
    let ended = || instances.since(None).instances[0].seen == Seen::Stopped;
    while !ended() {
        news.changed().await.unwrap();
    }
}

#[tokio::test]
async fn an_instance_moves_and_lives_on_one_side_at_each_moment() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, target) = (open(&here, "a"), open(&there, "b"));
    let uuid = Uuid::from_u128(1);
    source.start(launch(1, 1)).await.unwrap();
    target.receive(launch(1, 2)).await.unwrap();
    assert_eq!(source.send(uuid, 1).await.unwrap().1.seen, Seen::Paused);
    for _ in 0..2 {
        assert_eq!(target.go(uuid, 2).await.unwrap().1.seen, Seen::Running);
    }
    source.stop(uuid, 2, NO_TIME, true).await.unwrap();
    assert!(source.since(None).instances.is_empty());
    // And back, with a fault on the way: it goes on where it was.
    script(&there, "i1", r#"{"send_fails": "the link is gone"}"#);
    source.receive(launch(1, 3)).await.unwrap();
    assert!(target.send(uuid, 2).await.is_err());
    assert_eq!(target.since(None).instances[0].seen, Seen::Running);
    source.stop(uuid, 3, NO_TIME, true).await.unwrap();
}

#[tokio::test]
async fn the_owner_of_a_node_has_the_last_word() {
    let dir = tempfile::tempdir().unwrap();
    let instances = open(&dir, "a");
    for number in 1..=3 {
        instances.start(launch(number, 1)).await.unwrap();
    }
    let own = |number, run| OwnedRun { uuid: Uuid::from_u128(number), run, highest: 1 };
    let owned = [own(1, Some(1)), own(2, None)];
    for wanted in [vec!["i2".to_owned(), "i3".to_owned()], Vec::new()] {
        assert_eq!(instances.set(&owned).await.unwrap(), wanted);
    }
    let left: Vec<_> =
        instances.since(None).instances.into_iter().map(|s| (s.name, s.seen)).collect();
    assert_eq!(left.len(), 2);
    assert_eq!(left[0], ("i1".parse().unwrap(), Seen::Running));
    assert_eq!(left[1], ("i2".parse().unwrap(), Seen::Absent));
}

/// A fake instance has its copies where its launch says so.
#[tokio::test]
async fn copies_of_a_fake_instance_are_joined_and_detached() {
    let dir = tempfile::tempdir().unwrap();
    let instances = open(&dir, "a");
    let replica = model::instance::launch::Replica {
        node: "b".parse().unwrap(),
        address: ([192, 0, 2, 1], 7).into(),
    };
    let disk = |number: u128, replica: Option<_>| DiskLaunch {
        uuid: Uuid::from_u128(number),
        place: DiskPlace::Mirror { path: format!("/srv/{number}") },
        size: 1,
        mode: model::instance::disk::DiskMode::ReadWrite,
        params: model::instance::Parameters::new(),
        replica,
    };
    let disks = vec![disk(1, Some(replica.clone())), disk(2, None)];
    let told = instances.start(Launch { disks, ..launch(1, 1) }).await.unwrap().1;
    let states =
        |sight: &Sight| sight.copies.iter().map(|copy| copy.state.clone()).collect::<Vec<_>>();
    assert_eq!(states(&told), [CopyState::InStep, CopyState::Alone]);
    let uuid = Uuid::from_u128(1);
    let key = ReplicaKey::new(&[1; 32]);
    let order = |number| crate::Join {
        disk: Uuid::from_u128(number),
        replica: replica.clone(),
        key: key.clone(),
        is_new: false,
    };
    let joined = instances.join(uuid, 1, order(2)).await.unwrap();
    assert_eq!((joined.percent, joined.failed), (100, None));
    assert_eq!(states(&joined.told.1), [CopyState::InStep, CopyState::InStep]);
    let detached = instances.detach(uuid, 1, vec![Uuid::from_u128(1)]).await.unwrap().1;
    assert_eq!(states(&detached), [CopyState::Alone, CopyState::InStep]);
    let again = open(&dir, "a").since(None).instances.remove(0);
    assert_eq!(states(&again), states(&detached), "it is on record");
    let none = instances.join(uuid, 1, order(9)).await;
    assert!(matches!(none, Err(VirtError::NotMirrored { .. })), "{none:?}");
    let ended = instances.stop(uuid, 1, NO_TIME, false).await.unwrap().1;
    assert_eq!(ended.copies, []);
    let xen =
        Launch { hypervisor: "xen-pvm".to_owned(), disks: vec![disk(1, None)], ..launch(2, 1) };
    assert!(instances.start(xen).await.is_err());
}
