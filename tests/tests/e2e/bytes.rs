//! Requests that are larger than one commit of the store: done in several, or refused with the limit.
//!
//! The clusters of these tests have journal segments of 4 MiB, so a commit has 2 MiB at most.

use luxi::Client;
use luxi::method::{
    ArchiveJob, CancelJob, ChangeJobPriority, Query, Submission, SubmitJob, SubmitManyJobs,
    WaitForJobChange, What,
};
use model::{JobId, OpInput};
use tests::cluster::{Cluster, IPAM, PATIENCE};
use tests::run::wait_for;

/// Jobs that depend on one: with some 600 bytes each, more than a commit has.
const DEPENDENTS: usize = 6_000;
/// Bytes that nearly fill a job, and bytes that do not fit one.
const LARGE: usize = 900 << 10;
const TOO_LARGE: usize = 1_100 << 10;
/// Machines whose documents do not fit a commit, and some that do.
const TOO_MANY_MACHINES: usize = 7_000;
const MACHINES: usize = 500;
/// Submissions that race with an archiving.
const RACES: usize = 100;

fn op(text: &str) -> Vec<OpInput> {
    serde_json::from_str(&format!(r#"[{{"OP_ID": "OP_TEST_DELAY", "no_locks": true, {text}}}]"#))
        .unwrap()
}

fn accepted(answers: Vec<Submission>) -> Vec<JobId> {
    let id = |answer| match answer {
        Submission::Accepted(id) => id,
        Submission::Refused(why) => panic!("{why}"),
    };
    answers.into_iter().map(id).collect()
}

/// How many jobs have each status.
fn count(client: &mut Client, status: &str) -> usize {
    let fields = ["status"].into();
    let table = client.call(&Query { what: What::Job, fields, filter: None }).unwrap();
    table.data.iter().filter(|row| row[0].value().unwrap() == status).count()
}

#[test]
fn the_end_of_one_job_changes_more_than_a_commit_has() {
    let cluster = Cluster::begin();
    let mut client = cluster.client();
    let parent = op(r#""duration": 10000"#);
    let dependents = (1..=DEPENDENTS)
        .map(|n| op(&format!(r#""duration": 0, "depends": [[-{n}, ["success"]]]"#)));
    let jobs = std::iter::once(parent).chain(dependents).collect();
    let ids = accepted(client.call(&SubmitManyJobs { jobs }).unwrap());
    assert_eq!(ids.len(), DEPENDENTS + 1);
    cluster.wait_for_status(ids[0].0, "running");
    client.call(&CancelJob { job_id: ids[0], kill: false }).unwrap();
    wait_for("the end of every job", PATIENCE, || {
        (count(&mut client, "canceled") == DEPENDENTS + 1).then_some(())
    });
    cluster.kill_master();
    cluster.start_master();
    let mut client = cluster.client();
    assert_eq!(count(&mut client, "canceled"), DEPENDENTS + 1);
    let next = client.call(&SubmitJob { ops: op(r#""duration": 0"#) }).unwrap();
    assert_eq!(next.0, ids[DEPENDENTS].0 + 1);
}

#[test]
fn jobs_are_taken_up_to_their_limit_and_several_large_ones_change_at_once() {
    let cluster = Cluster::begin();
    let mut client = cluster.client();
    let with = |bytes: usize, more: &str| {
        op(&format!(r#""duration": 0, "comment": "{}"{more}"#, "x".repeat(bytes)))
    };
    let refused = client.call(&SubmitJob { ops: with(TOO_LARGE, "") }).unwrap_err().to_string();
    assert!(refused.contains("bytes") && refused.contains("at most"), "{refused}");
    let parent = client.call(&SubmitJob { ops: op(r#""duration": 10000"#) }).unwrap();
    let after = format!(r#", "depends": [[{parent}, ["success", "canceled"]]]"#);
    let jobs = vec![with(LARGE, &after); 4];
    let ids = accepted(client.call(&SubmitManyJobs { jobs }).unwrap());
    for &job_id in &ids {
        assert!(client.call(&ChangeJobPriority { job_id, priority: -5 }).unwrap().0);
    }
    client.call(&CancelJob { job_id: parent, kill: false }).unwrap();
    for id in ids {
        cluster.wait_for_status(id.0, "success");
    }
}

/// Rules with controllers for more racks, whose broadcast address is beyond them.
fn wide_ipam() -> String {
    let wider = IPAM.replace("10.72.16.0/20", "10.72.0.0/16");
    wider.replace("\"bmc-ipv4-range-mask\": 20", "\"bmc-ipv4-range-mask\": 16")
}

#[test]
fn a_transaction_that_does_not_fit_a_commit_is_refused_whole() {
    let cluster = Cluster::begin();
    let ipam = cluster.write("ipam.json", &wide_ipam());
    let _set = cluster.gnt(&format!("ipam set -f {}", ipam.display())).ok();
    let add = |count: usize| {
        let machine =
            |n: usize| format!(r#"{{"serial": "s{n}", "rack": {}, "role": "worker"}}"#, n / 25);
        let machines: Vec<String> = (0..count).map(machine).collect();
        let file = cluster.write("machines.json", &format!("[{}]", machines.join(",")));
        cluster.gnt(&format!("machine add -f {}", file.display()))
    };
    let refused = add(TOO_MANY_MACHINES);
    assert!(refused.failed(1).contains("smaller steps"), "{refused:?}");
    assert_eq!(cluster.gnt("machine list --no-headers -o serial").ok(), "");
    let _added = add(MACHINES).ok();
    let listed = cluster.gnt("machine list --no-headers -o serial");
    assert_eq!(listed.ok().lines().count(), MACHINES);
}

#[test]
fn a_job_may_depend_on_one_that_is_archived_at_the_same_moment() {
    let cluster = Cluster::begin();
    let mut client = cluster.client();
    let socket = cluster.master.layout().luxi_socket();
    let (send, archive) = std::sync::mpsc::sync_channel::<JobId>(0);
    let archiver = std::thread::spawn(move || {
        let mut client = Client::connect(&socket).unwrap();
        while let Ok(job_id) = archive.recv() {
            assert!(client.call(&ArchiveJob { job_id }).unwrap());
        }
    });
    for _ in 0..RACES {
        let first = client.call(&SubmitJob { ops: op(r#""duration": 0"#) }).unwrap();
        end_of(&mut client, first, "success");
        send.send(first).unwrap();
        let after = format!(r#""duration": 0, "depends": [[{first}, ["success"]]]"#);
        let second = client.call(&SubmitJob { ops: op(&after) }).unwrap();
        end_of(&mut client, second, "success");
    }
    drop(send);
    archiver.join().unwrap();
}

/// Waits for the end of a job, which must be this one.
fn end_of(client: &mut Client, job_id: JobId, status: &str) {
    let mut previous = None;
    loop {
        let call = WaitForJobChange {
            job_id,
            fields: ["status"].into(),
            previous: previous.clone(),
            previous_log: None,
            timeout: 10.0,
        };
        if let luxi::method::JobChange::Changed(row, _) = client.call(&call).unwrap() {
            let found = row[0].as_str().unwrap_or_default().to_owned();
            if ["success", "error", "canceled"].contains(&found.as_str()) {
                assert_eq!(found, status, "job {job_id}");
                return;
            }
            previous = Some(row);
        }
    }
}
