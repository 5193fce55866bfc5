//! Many jobs at once: all there, each once, at every moment.

use std::collections::BTreeSet;

use luxi::Client;
use luxi::method::{ArchiveJob, Query, Submission, SubmitManyJobs, What};
use model::{JobId, OpInput};
use tests::cluster::{Cluster, PATIENCE};
use tests::run::wait_for;

/// Jobs of one submission: enough to need more than one commit, few enough for a test.
const MANY: usize = 2_000;
/// One more than a submission may have.
const TOO_MANY: usize = 10_001;
/// Jobs that are archived one by one while others look.
const ARCHIVED: u64 = 300;

fn trivial() -> Vec<OpInput> {
    let op = r#"[{"OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": true}]"#;
    serde_json::from_str(op).unwrap()
}

/// The numbers of all jobs with this field asked for, each of which must come once.
fn listed(client: &mut Client, field: &str) -> BTreeSet<u64> {
    let fields = ["id", field].into();
    let table = client.call(&Query { what: What::Job, fields, filter: None }).unwrap();
    let mut ids = BTreeSet::new();
    for row in table.data {
        let id = row[0].value().unwrap().as_u64().unwrap();
        assert!(ids.insert(id), "job {id} is listed twice");
    }
    ids
}

fn submit(client: &mut Client, count: usize) -> Vec<u64> {
    let answers = client.call(&SubmitManyJobs { jobs: vec![trivial(); count] }).unwrap();
    let id = |answer| match answer {
        Submission::Accepted(id) => id.0,
        Submission::Refused(why) => panic!("{why}"),
    };
    answers.into_iter().map(id).collect()
}

fn wait_for_all(cluster: &Cluster, count: usize) {
    wait_for("the success of all jobs", PATIENCE * 2, || {
        let done = cluster.gnt("job list --no-headers -o id --finished");
        (done.ok().lines().count() == count).then_some(())
    });
}

#[test]
fn thousands_of_jobs_come_and_go_in_order() {
    let cluster = Cluster::begin();
    let mut client = cluster.client();
    let ids = submit(&mut client, MANY);
    let count = u64::try_from(MANY).unwrap();
    assert!(ids.iter().copied().eq(1..=count), "numbers in the order of the submission");
    let refused = client.call(&SubmitManyJobs { jobs: vec![trivial(); TOO_MANY] }).unwrap_err();
    assert!(refused.to_string().contains("10000"), "{refused}");
    wait_for_all(&cluster, MANY);
    assert_eq!(cluster.gnt("job list --no-headers -o id --error").ok(), "");
    let told = cluster.gnt("job autoarchive all");
    assert_eq!(told.ok(), format!("Archived {MANY} jobs, 0 unchecked left\n"));
    assert!(listed(&mut client, "status").is_empty());
    assert_eq!(listed(&mut client, "archived").len(), MANY);
    assert_eq!(submit(&mut client, 1), [count + 1]);
}

#[test]
fn a_job_is_in_sight_while_it_is_archived() {
    let cluster = Cluster::begin();
    let mut client = cluster.client();
    let ids: BTreeSet<u64> =
        submit(&mut client, usize::try_from(ARCHIVED).unwrap()).into_iter().collect();
    wait_for_all(&cluster, ids.len());
    let socket = cluster.master.layout().luxi_socket();
    let archive = std::thread::spawn(move || {
        let mut client = Client::connect(&socket).unwrap();
        for id in 1..=ARCHIVED {
            assert!(client.call(&ArchiveJob { job_id: JobId(id) }).unwrap());
        }
    });
    let mut looks = 0;
    while !archive.is_finished() || looks == 0 {
        let found = listed(&mut client, "archived");
        let missing: Vec<_> = ids.difference(&found).collect();
        assert!(missing.is_empty(), "out of sight: {missing:?}");
        looks += 1;
    }
    archive.join().unwrap();
    assert_eq!(listed(&mut client, "archived"), ids);
    assert!(listed(&mut client, "status").is_empty());
}
