//! Clients that do nothing, or go away in the middle.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tests::cluster::{Cluster, PATIENCE};
use tests::run::wait_for;

use super::{GoodClient, one_job};

/// Clients that do nothing: few enough for a test that is allowed 1,024 files.
const IDLE: usize = 300;
/// Files that a master may open at all, in the test that takes all connections.
const FILES: &str = "512";
/// Above what one user may have then.
const TOO_MANY: usize = 420;
/// Clients that do nothing, all at once.
const CROWD: usize = 10_000;
/// Files that a test needs for them.
const FILES_FOR_CROWD: u64 = 12_000;
/// Most memory of the master that one of them may cost.
const IDLE_KIB_MAX: usize = 12;
/// Clients that come and go.
const VANISHING: usize = 400;
/// How long a connection is looked at that may be refused.
const LOOK: Duration = Duration::from_millis(50);

#[test]
fn idle_and_vanishing_clients_harm_nobody() {
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let good = GoodClient::start(socket.clone());
    let idle: Vec<UnixStream> = (0..IDLE)
        .map(|at| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            if at % 2 == 0 {
                stream.write_all(b"{\"method\": \"Quer").unwrap();
            }
            stream
        })
        .collect();
    let job = cluster.submit("debug delay 1000");
    let wait = format!(
        r#"{{"method": "WaitForJobChange", "args": [{job}, ["status"], ["running"], null, 80]}}"#
    );
    let parts: [&[u8]; 4] = [
        b"",
        b"{\"method",
        wait.as_bytes(),
        b"{\"method\": \"QueryClusterInfo\", \"args\": []}\x03",
    ];
    for at in 0..VANISHING {
        let mut stream = UnixStream::connect(&socket).unwrap();
        // A client that comes while the master has yet to miss too many earlier ones is turned away at
        // once.
        let sent = stream.write_all(parts[at % parts.len()]);
        if at % 8 == 2 && sent.is_ok() {
            drop(stream.write_all(&[3]));
        }
    }
    good.end();
    drop(idle);
    one_job(&socket);
    assert_eq!(cluster.status(job), "running");
}

#[test]
fn ten_thousand_idle_clients_cost_little_memory() {
    if stdx::daemon::allow_files(FILES_FOR_CROWD) < FILES_FOR_CROWD {
        tests::skip("ten thousand clients", "this process may not open so many files");
        return;
    }
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let pid = cluster.master_pid().unwrap();
    let before = resident_kib(pid);
    let mut crowd: Vec<UnixStream> =
        (0..CROWD).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    for stream in crowd.iter_mut().step_by(10) {
        stream.write_all(b"{\"method\": \"QueryConfigValues\", \"args\": [[]]}\x03").unwrap();
        let mut answer = [0; 64];
        assert!(stream.read(&mut answer).unwrap() > 0);
    }
    let grown = resident_kib(pid).saturating_sub(before);
    let each = grown / CROWD;
    println!("{grown} KiB for {CROWD} idle clients");
    assert!(each < IDLE_KIB_MAX, "{each} KiB for each idle client");
    let good = GoodClient::start(socket.clone());
    for stream in &mut crowd {
        drop(stream.write_all(b"{"));
    }
    good.end();
    drop(crowd);
    one_job(&socket);
}

/// Memory of a process, in KiB.
fn resident_kib(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn idle_connections_of_one_user_keep_nobody_out() {
    let cluster = Cluster::init();
    cluster.start_master_with_files(FILES);
    let socket = cluster.master.layout().luxi_socket();
    let mut taken: Vec<UnixStream> = Vec::new();
    for _ in 0..TOO_MANY {
        taken.push(UnixStream::connect(&socket).unwrap());
    }
    // The first of them makes room, and others are served while the rest stays.
    let first = &mut taken[0];
    first.set_read_timeout(Some(LOOK)).unwrap();
    wait_for("the end of an idle connection", PATIENCE, || {
        (first.read(&mut [0]).ok()? == 0).then_some(())
    });
    let _name = cluster.gnt("cluster getmaster").ok();
    let _job = cluster.gnt("debug delay 0").ok();
}
