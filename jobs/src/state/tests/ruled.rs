use model::job::Wait;
use serde_json::json;

use super::*;
use crate::filter::Rule;
use crate::limits::REJECTED_AT_ONCE_MAX;

impl Bench {
    /// Sets rules, looked at in this order: each an id, its predicates and its action.
    pub(super) fn rules(&mut self, rules: &[(&str, Value, Value)]) {
        let made = rules.iter().enumerate().map(|(priority, (uuid, predicates, action))| {
            let rule = json!({"uuid": uuid, "watermark": self.queue.serial(), "priority": priority,
                "predicates": predicates, "action": action, "reason_trail": []});
            let rule = Rule::new(serde_json::from_value(rule).unwrap()).unwrap();
            ((*uuid).to_owned(), Arc::new(rule))
        });
        self.event(Event::SetRules(made.collect()));
    }

    fn waits(&self, job: JobId) -> Vec<Wait> {
        let mut waits = self.queue.waits(&[job]);
        waits.pop().unwrap().1
    }
}

fn all() -> Value {
    json!([])
}

fn new() -> Value {
    json!([["jobid", [">", "id", "watermark"]]])
}

fn reason(text: &str) -> OpInput {
    op(&format!(r#","reason":[["gnt:user","{text}",1]]"#))
}

fn held(uuid: Option<&str>, action: &str, running: u64) -> Wait {
    Wait::Filter { uuid: uuid.map(str::to_owned), action: action.to_owned(), running, why: None }
}

#[test]
fn a_pause_holds_new_jobs_until_it_is_gone() {
    let mut b = Bench::new(20);
    let old = b.one(vec![op(""), op("")]);
    b.rules(&[
        ("keep", json!([["reason", ["=", "reason", "pink bunny"]]]), json!("ACCEPT")),
        ("hold", new(), json!("PAUSE")),
    ]);
    let (paused, allowed) = (b.one(vec![op("")]), b.one(vec![reason("pink bunny")]));
    assert_eq!(b.status(paused), JobStatus::Queued);
    assert_eq!(b.status(allowed), JobStatus::Waiting);
    assert_eq!(b.waits(paused), [held(Some("hold"), "PAUSE", 0)]);
    assert_eq!(b.waits(allowed), []);
    // A job that has begun goes on, also with its next opcode.
    b.rules(&[("hold", all(), json!("PAUSE"))]);
    b.succeed_first(old);
    assert_eq!(b.start_of(old).op, 1);
    let other = b.one(vec![op("")]);
    b.rules(&[]);
    assert_eq!(b.status(paused), JobStatus::Waiting);
    assert_eq!(b.status(other), JobStatus::Waiting);
}

#[test]
fn a_paused_job_can_be_canceled_and_changed() {
    let mut b = Bench::new(20);
    b.rules(&[("hold", all(), json!("PAUSE"))]);
    let (first, second) = (b.one(vec![op("")]), b.one(vec![op("")]));
    assert_eq!(b.cancel(first), Some(Answer::Told(true, "Dequeued job 1".to_owned())));
    b.ask(|reply| Event::ChangePriority { job: second, priority: 5, reply });
    assert_eq!(b.status(second), JobStatus::Queued);
    b.rules(&[]);
    assert_eq!(b.status(second), JobStatus::Waiting);
    assert_eq!(b.status(first), JobStatus::Canceled);
}

#[test]
fn a_rejection_ends_what_has_not_begun() {
    let mut b = Bench::new(1);
    let running = b.one(vec![far(""), far("")]);
    let queued = b.one(vec![far("")]);
    let depends = b.one(vec![far(r#","depends":[[1,[]]]"#)]);
    b.rules(&[("no", all(), json!("REJECT"))]);
    for job in [queued, depends] {
        assert_eq!(b.status(job), JobStatus::Canceled);
        assert_eq!(b.stored[&job].ops[0].result, "Job rejected by filter rule no");
    }
    let later = b.submit(vec![vec![op("")], vec![op(r#","depends":[[-1,["success"]]]"#)]]);
    for job in later {
        assert_eq!(b.status(job.unwrap()), JobStatus::Canceled);
    }
    b.succeed(running);
    b.succeed(running);
    assert_eq!(b.status(running), JobStatus::Success);
    assert_eq!(b.queue.running(), (0, 0));
    assert!(b.queue.dependencies.is_empty());
}

#[test]
fn many_are_rejected_in_portions() {
    let mut b = Bench::new(1);
    let first = b.one(vec![far("")]);
    let count = REJECTED_AT_ONCE_MAX + 5;
    let jobs: Vec<JobId> = (0..count).map(|_| b.one(vec![far("")])).collect();
    b.rules(&[("no", all(), json!("REJECT"))]);
    let left = |b: &Bench| jobs.iter().filter(|job| !b.status(**job).is_final()).count();
    assert_eq!(left(&b), 5);
    b.succeed(first);
    assert!(b.running.is_empty(), "one that is to be rejected was started");
    assert!(b.queue.rejects_more());
    b.event(Event::RejectMore);
    assert_eq!(left(&b), 0);
    assert!(!b.queue.rejects_more());
}

#[test]
fn a_rule_that_is_gone_in_time_rejects_nobody() {
    let mut b = Bench::new(1);
    let first = b.one(vec![far("")]);
    let jobs: Vec<JobId> = (0..=REJECTED_AT_ONCE_MAX).map(|_| b.one(vec![far("")])).collect();
    b.rules(&[("no", all(), json!("REJECT"))]);
    b.rules(&[]);
    assert!(!b.queue.rejects_more());
    b.succeed(first);
    assert_eq!(b.status(*jobs.last().unwrap()), JobStatus::Waiting);
}

#[test]
fn a_rate_limit_counts_what_runs() {
    let mut b = Bench::new(20);
    let jobs: Vec<JobId> = (0..2).map(|_| b.one(vec![op("")])).collect();
    let slow = json!([["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]]);
    b.rules(&[("slow", slow.clone(), json!(["RATE_LIMIT", 2]))]);
    let third = b.one(vec![op("")]);
    let fourth = b.one(vec![op("")]);
    assert_eq!(b.waits(third), [held(Some("slow"), "RATE_LIMIT 2", 2)]);
    b.succeed(jobs[0]);
    assert_eq!(b.status(third), JobStatus::Waiting);
    assert_eq!(b.status(fourth), JobStatus::Queued);
    b.rules(&[("slow", slow, json!(["RATE_LIMIT", 1]))]);
    b.succeed(third);
    assert_eq!(b.waits(fourth), [held(Some("slow"), "RATE_LIMIT 1", 1)]);
    b.succeed(jobs[1]);
    b.succeed(fourth);
    assert_eq!(b.queue.running(), (0, 0));
}

#[test]
fn reasons_ask_for_limits() {
    let mut b = Bench::new(20);
    let first = b.one(vec![reason("rate-limit:1:disks")]);
    let second = b.one(vec![reason("rate-limit:1:disks")]);
    let other = b.one(vec![reason("rate-limit:2:disks")]);
    assert_eq!(b.status(other), JobStatus::Waiting);
    assert_eq!(b.waits(second), [held(None, "RATE_LIMIT 1", 1)]);
    b.succeed(first);
    assert_eq!(b.status(second), JobStatus::Waiting);
}

#[test]
fn why_a_job_waits() {
    let mut b = Bench::new(1);
    let running = b.one(vec![far("")]);
    let (next, last) = (b.one(vec![far("")]), b.one(vec![far("")]));
    assert_eq!(b.waits(running), []);
    assert_eq!(b.waits(next), [Wait::Turn { limit: 1, ahead: 0 }]);
    assert_eq!(b.waits(last), [Wait::Turn { limit: 1, ahead: 1 }]);
    let depends = b.one(vec![op(r#","depends":[[1,["success"]],[2,[]]]"#)]);
    let both = vec![(running, vec![JobStatus::Success]), (next, vec![])];
    assert_eq!(b.waits(depends), [Wait::Jobs { jobs: both }]);
    b.rules(&[("hold", all(), json!("PAUSE"))]);
    b.succeed(running);
    let held = held(Some("hold"), "PAUSE", 0);
    assert_eq!(b.waits(depends), [Wait::Jobs { jobs: vec![(next, vec![])] }, held.clone()]);
    assert_eq!(b.waits(last), [held]);
    assert_eq!(b.waits(JobId(99)), []);
}

#[test]
fn a_job_between_opcodes_that_waits_for_another_gives_its_place_away() {
    let mut b = Bench::new(20);
    let paused = ("hold", json!([["jobid", ["=", "id", 1]]]), json!("PAUSE"));
    let limit = ("one", all(), json!(["RATE_LIMIT", 1]));
    b.rules(&[paused, limit.clone()]);
    let first = b.one(vec![op("")]);
    let second = b.one(vec![op(""), op(r#","depends":[[1,[]]]"#)]);
    let third = b.one(vec![op("")]);
    assert_eq!(b.status(third), JobStatus::Queued);
    b.succeed_first(second);
    assert_eq!(b.status(third), JobStatus::Waiting);
    b.rules(&[limit]);
    assert_eq!(b.status(first), JobStatus::Queued);
    b.succeed(third);
    b.succeed(first);
    assert_eq!(b.start_of(second).op, 1);
    b.succeed(second);
    assert_eq!(b.queue.running(), (0, 0));
}

#[test]
fn rules_that_a_store_held_hold_from_the_start() {
    let mut b = Bench::new(20);
    b.rules(&[("hold", all(), json!("PAUSE"))]);
    let paused = b.one(vec![op("")]);
    let rules = b.queue.rules.all().clone();
    let jobs: Vec<Arc<Job>> = b.stored.values().cloned().collect();
    b.queue = Queue::new(jobs, 1, false, 20, b.queue.bytes).with_rules(rules);
    b.queue.begin(|_| None, Timestamp::from_micros(9), &mut b.effects);
    assert!(b.effects.start.is_empty());
    b.rules(&[]);
    assert_eq!(b.status(paused), JobStatus::Waiting);
}
