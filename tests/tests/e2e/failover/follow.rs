//! Clients that follow the master: on a standby's socket, over a failover, and on a node that is no
//! candidate.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use luxi::Client;
use luxi::method::{Fields, JobChange, WaitForJobChange};
use model::JobId;
use serde_json::json;
use tests::candidates::{LONG, refusal};
use tests::cluster::{Cluster, Host, MASTER};
use tests::run::{Running, run, wait_for};

use super::{submit_ops, three};
use crate::ganeti_socket::{LIST, SOCKETS, ganeti, root_below, text};

/// Commands that submit a job when the master is killed.
const SUBMITTERS: usize = 12;

#[test]
fn a_watch_on_a_standby_lives_through_a_failover() {
    let (mut cluster, n2, n3) = three();
    let running = cluster.submit("debug delay 1000");
    cluster.wait_for_status(running, "running");
    let speaks_and_waits = json!([
        {"OP_ID": "OP_TEST_JQUEUE"},
        {"OP_ID": "OP_TEST_DELAY", "duration": 0.01, "no_locks": false},
    ]);
    let watched = submit_ops(&cluster, &speaks_and_waits);
    cluster.wait_for_status(watched, "waiting");
    let watching = cluster.gnt_start_on(&n3, &format!("job watch {watched}"));
    watching.wait_until_following();
    let told = cluster.gnt_on(&n3, &format!("job list --no-headers -o status {watched}"));
    assert_eq!(told.ok().trim(), "waiting");

    cluster.kill_master();
    let told = cluster.gnt_on(&n3, "job list --master-wait 0");
    let why = told.failed(11);
    assert!(why.contains("n1.example is the master, as far as n3.example (a standby)"), "{why}");
    assert!(why.contains("Nothing was done"), "{why}");
    cluster.fail_over(&n2);

    let ended = watching.end();
    let said = ended.ok();
    assert_eq!(said.matches("Executing").count(), 1, "{ended:#?}");
    assert!(ended.stderr.contains("lost while waiting for job"), "{ended:#?}");
    assert_eq!(cluster.status(running), "error");
    cluster.wait_for_standby(&n3, &n2.name);
    // Through the other node, everything works as on the master's own.
    let id = cluster.gnt_on(&n3, "debug delay 0 --no-locks --print-jobid");
    assert_eq!(id.ok().trim().parse(), Ok(watched + 1));
    let cancel = cluster.gnt_on(&n3, &format!("job cancel {watched} --yes"));
    assert!(cancel.failed(1).is_empty() && cancel.stdout.contains("Job"), "{cancel:?}");
}

#[test]
fn of_more_watches_than_a_standby_passes_on_none_is_lost() {
    let (cluster, _n2, n3) = three();
    let running = cluster.submit("debug delay 1000");
    cluster.wait_for_status(running, "running");
    let watched = cluster.submit("debug delay 0");
    cluster.wait_for_status(watched, "waiting");
    let in_vain = Arc::new(AtomicUsize::new(0));
    let watch = |_| {
        let (in_vain, socket) = (Arc::clone(&in_vain), n3.layout().luxi_socket());
        let mut wait = WaitForJobChange {
            job_id: JobId(watched),
            fields: Fields::from(["status"]),
            previous: None,
            previous_log: None,
            timeout: 60.0,
        };
        std::thread::spawn(move || {
            let mut client = Client::connect(&socket).unwrap();
            loop {
                match client.call(&wait).unwrap() {
                    JobChange::Unchanged => in_vain.fetch_add(1, Ordering::Relaxed),
                    JobChange::Changed(values, _) if values[0] == "canceled" => return,
                    JobChange::Changed(values, _) => {
                        wait.previous = Some(values);
                        0
                    }
                };
            }
        })
    };
    let watching: Vec<_> = (0..52).map(watch).collect();
    wait_for("those without a turn", LONG, || (in_vain.load(Ordering::Relaxed) >= 4).then_some(()));
    let _canceled = cluster.gnt(&format!("job cancel {watched} --yes")).ok();
    watching.into_iter().for_each(|watching| watching.join().unwrap());
}

#[test]
fn a_submission_under_way_at_the_end_of_the_master_is_there_once() {
    let (mut cluster, n2, n3) = three();
    let line = "debug delay 0 --no-locks --print-jobid --submit";
    let before: BTreeSet<u64> = jobs(&cluster);
    let mut submitters: Vec<Running> =
        (0..SUBMITTERS).map(|_| cluster.gnt_start_on(&n3, line)).collect();
    wait_for("the first to be answered", LONG, || {
        submitters.iter_mut().any(|one| !one.is_running()).then_some(())
    });
    cluster.kill_master();
    cluster.fail_over(&n2);
    let told: BTreeSet<u64> = submitters
        .into_iter()
        .map(Running::end)
        .map(|ended| ended.ok().trim().parse().unwrap_or_else(|_| panic!("{ended:?}")))
        .collect();
    assert_eq!(told.len(), SUBMITTERS, "one job for each: {told:?}");
    let new: BTreeSet<u64> = jobs(&cluster).difference(&before).copied().collect();
    assert_eq!(new, told);
}

/// The master takes as long to end as its opcode runs. It answers each request meanwhile that it has not
/// done it: no such request counts as sent.
#[test]
fn a_submission_through_a_standby_outlasts_the_restart_of_a_busy_master() {
    let (cluster, _n2, n3) = three();
    let n1 = cluster.master.clone();
    let before = jobs(&cluster);
    let running = cluster.submit("debug delay 1000");
    cluster.wait_for_status(running, "running");
    cluster.signal_masterd(&n1, nix::sys::signal::Signal::SIGTERM);
    wait_for("the master to cease", LONG, || {
        refused_change(&n3).filter(|told| told.contains("nothing was done"))
    });
    let submitting = cluster.gnt_start_on(&n3, "debug delay 0 --no-locks --print-jobid");
    cluster.stop_masterd(&n1);
    cluster.start_masterd(&n1);
    cluster.wait_for_master(&n1);
    let ended = submitting.end();
    let id: u64 = ended.ok().trim().parse().unwrap_or_else(|_| panic!("{ended:?}"));
    let new: BTreeSet<u64> = jobs(&cluster).difference(&before).copied().collect();
    assert_eq!(new, BTreeSet::from([running, id]), "one job for one request");
    assert_eq!([cluster.status(running), cluster.status(id)], ["error", "success"]);
}

/// The error of a change that changes nothing, if it is refused.
fn refused_change(host: &Host) -> Option<String> {
    let mut client = luxi::Client::connect(&host.layout().luxi_socket()).ok()?;
    let call = luxi::method::SetDrainFlag { drained: false };
    client.call(&call).err().map(|error| stdx::daemon::chain(&error).to_lowercase())
}

/// The jobs that are not archived.
fn jobs(cluster: &Cluster) -> BTreeSet<u64> {
    let list = cluster.gnt("job list --no-headers -o id");
    list.ok().lines().map(|id| id.trim().parse().unwrap()).collect()
}

#[test]
fn a_node_that_is_no_candidate_names_the_master() {
    let (cluster, hosts) = Cluster::begin_with_candidates(2);
    let _two = cluster.gnt("cluster modify -C 2").ok();
    let n3 = cluster.host("n3");
    cluster.enrol(&n3);
    cluster.start_masterd(&n3);
    let address = cluster.master.address;
    let wanted = format!("This node is no candidate: run it on {MASTER} ({address})");
    wait_for("the word of its agent", LONG, || {
        refusal(&n3).filter(|told| told.contains(&wanted)).map(drop)
    });
    for line in ["job list", "debug delay 0", "cluster verify"] {
        let told = cluster.gnt_on(&n3, line);
        assert!(told.failed(11).contains(&wanted), "{told:?}");
    }
    let mut second = cluster.masterd_of(&n3);
    second.arg("--log-stderr");
    let told = run(second);
    assert!(told.failed(2).contains("another masterd works on this machine"), "{told:?}");
    // As a candidate, it passes them on.
    let n2 = &hosts[0];
    let id = cluster.gnt_on(n2, "debug delay 0 --print-jobid");
    assert_eq!(cluster.status(id.ok().trim().parse().unwrap()), "success");
    let _three = cluster.gnt("cluster modify -C 3").ok();
    let _promoted = cluster.gnt(&format!("node modify -C yes {}", n3.name));
    cluster.wait_for_standby(&n3, MASTER);
    let _listed = cluster.gnt_on(&n3, "job list").ok();
}

#[test]
fn ganetis_client_on_a_standby_is_answered_by_the_master() {
    let (cluster, _n2, n3) = three();
    cluster.stop_masterd(&n3);
    let root = root_below(&cluster.dir());
    let mut command = cluster.masterd_of(&n3);
    command.arg("--ganeti-socket").arg(root.join(SOCKETS));
    cluster.start(&n3.masterd(), command);
    cluster.wait_for_standby(&n3, MASTER);
    let Some(mut submits) = ganeti(&root, "gnt-cluster", &["redist-conf"]) else { return };
    let submitted = submits.output().unwrap();
    assert!(submitted.status.success(), "{submitted:?}");
    let mut lists = ganeti(&root, "gnt-job", LIST).unwrap();
    let listed = lists.output().unwrap();
    let expected = cluster.gnt("job list --no-headers --separator=| -o id,status,summary");
    assert_eq!(text(&listed.stdout), expected.ok(), "{}", text(&listed.stderr));
    assert!(text(&listed.stdout).contains("CLUSTER_REDIST_CONF"), "{listed:?}");
}
