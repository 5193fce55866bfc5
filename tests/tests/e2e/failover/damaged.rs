//! Nodes that cannot be believed, and majorities that are not there. Each ends in a state with a name
//! and a remedy, and nothing that was acknowledged is lost.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};

use luxi::method::{JobChange, SubmitJob, WaitForJobChange};
use model::JobId;
use model::cluster_status::ClusterStatus;
use model::error::ExceptionKind;
use tests::candidates::{LONG, is_master, refusal, role_check, status};
use tests::cluster::{Cluster, Host, MASTER};
use tests::run::{run, wait_for};

use super::{put_aside, three};
use crate::restart::{copy_store, restore};

/// A submission that is answered at once.
const QUICK: &str = "debug delay 0 --no-locks";

/// Submits without trying again; the job's number, or why not.
fn submit_once(cluster: &Cluster) -> Result<u64, String> {
    let op = r#"{"OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": true}"#;
    let call = SubmitJob { ops: vec![serde_json::from_str(op).unwrap()] };
    cluster.client().call(&call).map(|id| id.0).map_err(|error| error.to_string())
}

/// Waits for a moment for a job that the master does not know: whether it says that there is none.
fn is_lost(cluster: &Cluster, id: u64) -> bool {
    let fields = ["status"].into();
    let (previous, previous_log, timeout) = (None, None, 0.01);
    let job_id = JobId(id);
    let call = WaitForJobChange { job_id, fields, previous, previous_log, timeout };
    match cluster.client().call(&call) {
        Ok(JobChange::Unchanged) => false,
        Err(error) if error.exception().is_some_and(|e| e.kind == ExceptionKind::JobLost) => true,
        other => panic!("a job that is not known: {other:?}"),
    }
}

/// The row of a node in the answers to a machine that asks all.
fn row(asker: &Host, node: &str) -> String {
    let check = role_check(asker).expect("it asks");
    let lines = check.lines();
    lines.into_iter().find(|line| line.starts_with(node)).expect("a row for each node")
}

/// Whether a master's status names an alarm about a node.
fn alarms_about(status: &ClusterStatus, node: &str) -> Option<String> {
    let about = status.alarms.iter().find(|alarm| format!("{alarm:?}").contains(node));
    about.map(|alarm| format!("{alarm:?}"))
}

#[test]
fn certificates_that_were_copied_from_another_machine_are_found_out() {
    let (cluster, hosts) = Cluster::begin_with_candidates(2);
    let other = Cluster::begin();
    let n2 = &hosts[0];
    let own = cluster.dir().join("own");
    fs::create_dir(&own).unwrap();
    cluster.kill_masterd(n2);
    copy_store(&n2.layout().pki(), &own);
    for (from, there) in [(&cluster.master, "those of n1.example"), (&other.master, "of cluster")] {
        restore(&from.layout().pki(), &n2.layout().pki());
        let refused = run(cluster.masterd_of(n2));
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(refused.stderr.contains(there), "{refused:?}");
        assert!(refused.stderr.contains("the certificates in /etc/gantry/pki"), "{refused:?}");
    }
    restore(&own, &n2.layout().pki());
    cluster.start_masterd(n2);
    cluster.wait_for_standby(n2, MASTER);
}

#[test]
fn a_master_that_is_cut_off_refuses_and_says_that_it_may_be_wrong() {
    let (cluster, n2, n3) = three();
    let last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    let quiet = cluster.gnt("job list");
    assert!(!quiet.stderr.contains("majority"), "{quiet:?}");
    assert!(is_lost(&cluster, last + 1));
    for host in [&n2, &n3] {
        cluster.kill_masterd(host);
    }
    let warned = wait_for("a warning", LONG, || {
        let listed = cluster.gnt("job list");
        listed.stderr.contains("has heard no majority").then_some(listed)
    });
    assert!(warned.ok().contains(&last.to_string()), "{warned:?}");
    assert!(warned.stderr.contains("may be old"), "{warned:?}");
    let refused = submit_once(&cluster).unwrap_err();
    assert!(refused.contains("hears no majority of the voters: nothing was done"), "{refused}");
    assert!(!is_lost(&cluster, last + 1), "another master may have it");
    let archived = cluster.gnt("job autoarchive all --master-wait 0");
    assert_eq!(archived.code(), 11, "{archived:?}");
    assert!(archived.stderr.contains("nothing was done"), "{archived:?}");
    let seen = cluster.gnt("cluster status");
    assert!(seen.stderr.contains("may be old"), "{seen:?}");
    for host in [&n2, &n3] {
        cluster.start_masterd(host);
    }
    cluster.wait_for_votes(&n2, 3);
    let next = wait_for("a job", LONG, || submit_once(&cluster).ok());
    assert_eq!(next, last + 1, "what was refused had a number");
    assert!(!cluster.gnt("job list").stderr.contains("majority"));
}

#[test]
fn whoever_is_ignored_still_counts_as_a_voter() {
    let (mut cluster, n2, n3) = three();
    let last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    let n1 = cluster.master.clone();
    for host in [&n1, &n2] {
        cluster.kill_host(host);
    }
    let ignore = format!("--ignore-node {} --ignore-node {}", n1.name, n2.name);
    let refused = cluster.gnt_on(&n3, &format!("cluster master-failover {ignore}"));
    assert_eq!(refused.code(), 1, "{refused:?}");
    let told = &refused.stdout;
    assert!(told.contains("which is not more than half"), "{refused:?}");
    assert!(told.contains("an ignored one still counts as one of them"), "{refused:?}");
    let unknown = cluster.gnt_on(&n3, "cluster master-failover --ignore-node n9.example");
    assert!(unknown.stdout.contains("is not a node of this cluster"), "{unknown:?}");
    assert!(!is_master(&n3));
    // One may be missing.
    cluster.start_agent(&n2);
    cluster.start_masterd(&n2);
    cluster.wait_for_standby(&n2, &n1.name);
    wait_for_two_of_three(&n3);
    let moved = cluster.gnt_on(&n3, &format!("cluster master-failover --ignore-node {}", n1.name));
    let _told = moved.ok();
    cluster.wait_for_master(&n3);
    cluster.master = n3;
    assert_eq!(cluster.submit("debug delay 0"), last + 1);
}

fn wait_for_two_of_three(asker: &Host) {
    wait_for("two of three", LONG, || {
        role_check(asker).filter(|check| check.voters == "2 of 3").map(drop)
    });
}

/// Something in the place of an agent, which shows its certificate and answers everything with text.
struct Babbler {
    child: std::process::Child,
    /// Says it again and again: every client takes some of it.
    mouth: Option<std::thread::JoinHandle<()>>,
}

impl Babbler {
    /// None where this machine lacks the program.
    fn start(host: &Host) -> Option<Self> {
        let layout = host.layout();
        let mut child = Command::new("openssl")
            .args(["s_server", "-quiet", "-naccept", "1000000", "-alpn", "h2", "-Verify", "1"])
            .args(["-accept", &format!("{}:{}", host.address, model::layout::RPC_PORT)])
            .arg("-cert")
            .arg(layout.node_certificate())
            .arg("-key")
            .arg(layout.node_key())
            .arg("-CAfile")
            .arg(layout.ca_certificate())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let nonsense = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nnonsense\n".repeat(1000);
        let mut stdin = child.stdin.take().expect("it is piped");
        let babble = move || while stdin.write_all(nonsense.as_bytes()).is_ok() {};
        Some(Self { child, mouth: Some(std::thread::spawn(babble)) })
    }
}

impl Drop for Babbler {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if let Some(mouth) = self.mouth.take() {
            mouth.join().unwrap();
        }
    }
}

#[test]
fn an_agent_that_answers_nonsense_is_named_and_not_believed() {
    let (mut cluster, n2, n3) = three();
    let last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    cluster.kill_agent(&n3);
    let Some(babbler) = Babbler::start(&n3) else {
        return tests::skip("an agent that answers nonsense", "there is no openssl");
    };
    let told = row(&n2, &n3.name);
    assert!(told.contains("masterd only") && told.contains("voter"), "{told}");
    // Its door opens a moment after it was started.
    let check = wait_for("its nonsense", LONG, || {
        let check = role_check(&n2)?.lines().join("\n");
        let nonsense = "note: n3.example cannot be reached: the connection to";
        check.contains(nonsense).then_some(check)
    });
    assert!(check.contains("--ignore-node n3.example"), "{check}");
    // Its member is believed, and it as a node is not needed.
    cluster.kill_master();
    cluster.fail_over(&n2);
    assert_eq!(cluster.submit("debug delay 0"), last + 1);
    wait_for("its name", LONG, || {
        let agents = format!("{:?}", status(&n2)?.agents);
        agents.contains(&n3.name).then_some(())
    });
    drop(babbler);
}

#[test]
fn a_machine_of_another_cluster_at_a_nodes_address_is_named_and_told_nothing() {
    let (mut cluster, n2, n3) = three();
    let last = cluster.submit("debug delay 0");
    cluster.wait_for_status(last, "success");
    cluster.kill_host(&n3);
    let stranger = Host { address: n3.address, ..cluster.host("x1") };
    let init = format!("cluster init other.example --node-name {}", stranger.name);
    let init = format!("{init} --primary-ip {} --journal-segment 4 -C 3", stranger.address);
    let _begun = cluster.gnt_on(&stranger, &init).ok();
    cluster.start_masterd(&stranger);
    let info = cluster.gnt_on(&stranger, "cluster info");
    assert!(info.ok().contains("Candidate pool size: 3"), "{info:?}");
    cluster.start_agent(&stranger);
    let told = wait_for("its name", LONG, || {
        let told = role_check(&n2)?.lines().join("\n");
        told.contains("n3.example belongs to another cluster").then_some(told)
    });
    assert!(told.contains("another machine has its address"), "{told}");
    // It is neither counted nor in the way.
    cluster.kill_master();
    let few = cluster.gnt_on(&n2, "cluster master-failover --dry-run");
    assert!(few.stdout.contains("answers that count: 2 of 3 nodes, 1 of 3 voters"), "{few:?}");
    cluster.start_masterd(&cluster.master);
    // A node that starts again takes the role by itself: two at once would be another test.
    cluster.wait_for_master(&cluster.master);
    wait_for_two_of_three(&n2);
    cluster.fail_over(&n2);
    assert_eq!(cluster.submit("debug delay 0"), last + 1);
    wait_for("an alarm", LONG, || alarms_about(&status(&n2)?, &n3.name));
    // The other cluster has nothing of this one.
    let theirs = cluster.gnt_on(&stranger, "node list --no-headers -o name");
    assert_eq!(theirs.ok().trim(), stranger.name);
}

#[test]
fn a_rotten_journal_stops_its_candidate_and_nobody_else() {
    let (cluster, _n2, n3) = three();
    for _ in 0..20 {
        let _id = cluster.submit(QUICK);
    }
    cluster.wait_for_same_files(&[&cluster.master, &n3]);
    cluster.kill_masterd(&n3);
    rot(&n3);
    let mut command = cluster.masterd_of(&n3);
    let started = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(!started.status.success(), "a store that rotted is used: {said}");
    assert!(said.contains("journal"), "{said}");
    // The others go on; it is told of.
    let job = cluster.submit("debug delay 0");
    cluster.wait_for_status(job, "success");
    wait_for("an alarm", LONG, || alarms_about(&status(&cluster.master)?, &n3.name));
    // As docs/runbook.md has it.
    put_aside(&n3);
    cluster.start_masterd(&n3);
    for candidate in ["no", "yes"] {
        let _done = cluster.gnt(&format!("node modify -C {candidate} {}", n3.name)).ok();
    }
    cluster.wait_for_standby(&n3, MASTER);
    cluster.wait_for_votes(&n3, 3);
    cluster.wait_for_same_files(&[&cluster.master, &n3]);
    assert!(refusal(&n3).is_some());
}

#[test]
fn a_candidate_whose_jobs_do_not_read_is_not_master_and_the_role_is_not_lost() {
    let (mut cluster, n2, n3) = three();
    let job = cluster.submit(QUICK);
    cluster.wait_for_status(job, "success");
    cluster.wait_for_same_files(&[&cluster.master, &n2]);
    let path = n2.layout().data().join(format!("queue/job-{job}"));
    stdx::atomic::write(&path, b"half", 0o640).unwrap();
    let is_refused = || {
        let said = cluster.gnt_on(&n2, "cluster master-failover");
        assert_eq!(said.code(), 1, "{said:?}");
        let what = format!("{} cannot be the master with the queue that it has", n2.name);
        assert!(said.stderr.contains(&what), "{said:?}");
        assert!(said.stderr.contains(&format!("`queue/job-{job}`")), "{said:?}");
    };
    let leadership =
        || status(&cluster.master).expect("it answers").master.expect("a master").epoch;
    let before = leadership();
    is_refused();
    assert_eq!(leadership(), before, "it was asked for nothing");
    let _done = cluster.gnt(QUICK).ok();
    // It is found out behind the election, where nobody hands over.
    cluster.kill_masterd(&cluster.master);
    is_refused();
    cluster.fail_over(&n3);
    assert_eq!(cluster.status(job), "success");
    cluster.wait_for_standby(&n2, &n3.name);
}

/// A master's store from before there were candidates is put back on a machine that is none any more.
struct PutBack {
    cluster: Cluster,
    /// The first master, which has the old copy.
    n1: Host,
    /// The present master.
    n2: Host,
    /// The job that was acknowledged since.
    job: u64,
}

impl PutBack {
    fn begin() -> Self {
        let mut cluster = Cluster::begin_with_agent();
        let (n1, backup) = (cluster.master.clone(), cluster.dir().join("backup"));
        let data = n1.layout().data();
        cluster.stop_master();
        fs::create_dir(&backup).unwrap();
        copy_store(&data, &backup);
        cluster.start_master();
        let others = ["n2", "n3"].map(|short| cluster.host(short));
        for host in &others {
            cluster.enrol(host);
            cluster.start_masterd(host);
        }
        let [n2, n3] = others;
        for host in [&n2, &n3] {
            cluster.wait_for_votes(host, 3);
        }
        cluster.fail_over(&n2);
        let job = cluster.submit("debug delay 0");
        cluster.wait_for_status(job, "success");
        cluster.wait_for_same_files(&[&n1, &n2, &n3]);
        cluster.kill_host(&n1);
        restore(&backup, &data);
        Self { cluster, n1, n2, job }
    }

    /// The true master has it, and the one with the old copy is its candidate again.
    fn assert_well(&self) {
        let Self { cluster, n1, n2, job } = self;
        cluster.wait_for_standby(n1, &n2.name);
        cluster.wait_for_votes(n1, 3);
        cluster.wait_for_same_files(&[n1, n2]);
        assert_eq!(cluster.status(*job), "success");
        assert!(is_master(n2));
    }
}

#[test]
fn a_store_of_before_there_were_candidates_is_not_started() {
    let scene = PutBack::begin();
    let PutBack { cluster, n1, n2, .. } = &scene;
    cluster.start_agent(n1);
    let mut command = cluster.masterd_of(n1);
    let ended = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{said}");
    let wanted = format!("obeys {}, in epoch", n2.name);
    assert!(said.contains(&wanted) && said.contains("the node is invited anew"), "{said}");
    // It knows one node. The log may have an earlier table as well, by the candidate that it was.
    let log = n1.masterd_log();
    let refused = log.rsplit_once(&format!("start as master of {}: refused", n1.name));
    let (_before, table) = refused.unwrap_or_else(|| panic!("{log}"));
    let begins = format!(": {} ", n1.name);
    let row = |line: &str| line.contains(&begins) && line.contains(" yes ");
    assert!(table.lines().any(row) && !table.contains("makes no sense"), "{log}");
    // As it says.
    put_aside(n1);
    cluster.start_masterd(n1);
    scene.assert_well();
}

#[test]
fn a_store_of_before_there_were_candidates_gives_way_where_it_was_started() {
    let scene = PutBack::begin();
    let PutBack { cluster, n1, .. } = &scene;
    // No agent that it knows tells it better.
    cluster.start_masterd(n1);
    wait_for("a second master", LONG, || is_master(n1).then_some(()));
    cluster.start_agent(n1);
    scene.assert_well();
    let kept =
        fs::read_dir(n1.layout().data().join("aside")).unwrap().next().unwrap().unwrap().path();
    let reason = fs::read_to_string(kept.join("REASON")).unwrap();
    assert!(reason.contains(&n1.name) && reason.contains("before others had one"), "{reason}");
}

/// Turns bytes in the midst of the journal.
fn rot(host: &Host) {
    let journal = host.layout().data().join("journal");
    let mut segments: Vec<_> =
        fs::read_dir(&journal).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    for segment in segments {
        let file = fs::File::options().read(true).write(true).open(segment).unwrap();
        let mut bytes = [0; 4096];
        let read = file.read_at(&mut bytes, 0).unwrap();
        for byte in bytes[..read].iter_mut().skip(600).step_by(97) {
            *byte ^= 0x5a;
        }
        file.write_all_at(&bytes[..read], 0).unwrap();
    }
}

#[test]
fn a_candidate_whose_store_is_removed_under_it_acknowledges_nothing_more() {
    let (cluster, n2, n3) = three();
    let data = n3.layout().data();
    for directory in ["config", "queue", "journal"] {
        fs::remove_dir_all(data.join(directory)).unwrap();
    }
    fs::remove_file(data.join("store.json")).unwrap();
    let job = cluster.submit("debug delay 0");
    cluster.wait_for_status(job, "success");
    let why = "the store failed, aborting";
    wait_for(why, LONG, || n3.masterd_log().contains(why).then_some(()));
    assert!(n3.masterd_log().contains("the file was removed while it was in use"));
    // As its service manager does.
    cluster.kill_masterd(&n3);
    cluster.start_masterd(&n3);
    cluster.wait_for_votes(&n3, 3);
    cluster.wait_for_same_files(&[&cluster.master, &n2, &n3]);
    let _verified = cluster.gnt("cluster verify").ok();
}
