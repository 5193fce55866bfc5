//! Jobs that are killed, and jobs that ask for a limit of their own.

use serde_json::{Value, json};

use super::{Agree, Both, HOLD, with_jobs};

/// Runs until it is canceled, and holds no locks.
const LONG: &str = "debug delay 1000 --no-locks";

impl Both {
    /// The outcome of a job.
    fn end(&self, id: u64) -> Value {
        self.cluster.job(id, "status,opstatus,opresult")
    }
}

#[test]
fn jobs_are_killed_alike() {
    let Some(both) = with_jobs() else { return };
    let cluster = &both.cluster;
    let pair = |line: &str, status: &str| {
        let ids = (cluster.submit(line), cluster.submit(line));
        cluster.wait_for_status(ids.0, status);
        cluster.wait_for_status(ids.1, status);
        ids
    };
    let kill = "gnt-job cancel --kill --yes-do-it";
    // A job that runs, and a job that waits for the locks of another; then both again, as they are over.
    for (line, status) in [(LONG, "running"), (HOLD, "waiting")] {
        let (one, other) = pair(line, status);
        for _ in 0..2 {
            both.compare_changes(&format!("{kill} {one}"), &format!("{kill} {other}"));
            assert_eq!(both.end(one), both.end(other), "{status}");
        }
        assert_eq!(both.end(one)["status"], "error", "{status}");
    }
    let rule = r#"--predicates=[["jobid",[">","id","watermark"]]]"#;
    let _paused = cluster.gnt(&format!("filter add --action PAUSE {rule}")).ok();
    let (one, other) = pair(LONG, "queued");
    both.compare_changes(&format!("{kill} {one}"), &format!("{kill} {other}"));
    assert_eq!(both.end(one), both.end(other));
    let ((one, two), (three, four)) = (pair(LONG, "queued"), pair(LONG, "queued"));
    both.compare_changes(&format!("{kill} {one} 1 {two}"), &format!("{kill} {three} 1 {four}"));
    // The same question about the same jobs; nobody is there to be asked.
    let _held = pair(LONG, "queued");
    both.compare(&format!("{kill} --queued"), Agree::Output);
    for line in [
        format!("{kill} 1"),
        format!("{kill} 2 3"),
        format!("{kill} 7"),
        kill.to_owned(),
        format!("{kill} --queued 1"),
        "gnt-job cancel --kill 4".to_owned(),
        "gnt-job cancel --kill --queued".to_owned(),
    ] {
        both.compare(&line, Agree::Fully);
    }
    for line in [format!("{kill} 99"), format!("{kill} x"), "gnt-job cancel --yes-do-it".to_owned()]
    {
        both.compare(&line, Agree::Output);
    }
    let killed = both.ours(&format!("{kill} --force --queued"));
    assert_eq!(killed.ok().lines().count(), 2, "{killed:?}");
    both.compare(&format!("{kill} --force --queued"), Agree::Fully);
}

#[test]
fn a_limit_in_a_reason_holds_for_both() {
    let Some(both) = Both::begin() else { return };
    let cluster = &both.cluster;
    let submit = |reason: &str| {
        let line = |reason: &str| format!("gnt-debug delay --submit -l --reason {reason} 1000");
        let number = |told: &str| told.trim().trim_start_matches("JobID: ").parse().unwrap();
        let (theirs, ours) = (both.theirs(&line(reason)), both.ours(&line(reason)));
        let told = |ended: &tests::run::Ended| format!("{}{}", ended.ok(), ended.stderr);
        [number(&told(&theirs)), number(&told(&ours))]
    };
    let running = |ids: [u64; 2]| ids.map(|id| cluster.wait_for_status(id, "running"));
    let first = submit("rate-limit:2:label");
    running(first);
    let held = submit("rate-limit:2:label");
    let other = submit("rate-limit:2:other");
    // These came later and run, so those before them have had their turn.
    running(other);
    running(submit("rate-limits"));
    for id in held {
        let job = cluster.job(id, "status,waits_for");
        assert_eq!(job["status"], "queued", "{job}");
        let why = (&job["waits_for"][0]["action"], &job["waits_for"][0]["running"]);
        assert_eq!(why, (&json!("RATE_LIMIT 2"), &json!(2)), "{job}");
    }
    both.compare("gnt-job list", Agree::Fully);
    both.compare(&format!("gnt-job info {} {}", first[0], held[0]), Agree::Fully);
    // As one ends, one begins, whoever submitted it.
    for (at, ends) in first.into_iter().enumerate() {
        let _ended = cluster.gnt(&format!("job cancel {ends}")).ok();
        cluster.wait_for_status(held[at], "running");
        let next = held.get(at + 1).map(|id| cluster.status(*id));
        assert!(next.is_none_or(|status| status == "queued"));
    }
}
