//! Whatever happens to a queue, in any order.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Submit { agents: bool, ops: usize, priority: i32, back: Option<u64> },
    Grant(usize),
    NoReturn(usize),
    Log(usize, usize),
    End(usize, u8, usize),
    Cancel(u64),
    Archive(u64),
    Priority(u64, i32),
    Rule(usize, u64, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (any::<bool>(), 1usize..4, prop_oneof![Just(-10), Just(0), Just(10)],
              proptest::option::of(1u64..4))
            .prop_map(|(agents, ops, priority, back)| Step::Submit { agents, ops, priority, back }),
        4 => (0usize..8).prop_map(Step::Grant),
        2 => (0usize..8).prop_map(Step::NoReturn),
        2 => (0usize..8, 0usize..4_000).prop_map(|(n, bytes)| Step::Log(n, bytes)),
        4 => (0usize..8, 0u8..3, prop_oneof![3 => Just(0), 1 => 0usize..9_000])
            .prop_map(|(n, how, bytes)| Step::End(n, how, bytes)),
        1 => (1u64..20).prop_map(Step::Cancel),
        1 => (1u64..20).prop_map(Step::Archive),
        1 => (1u64..20, -20i32..20).prop_map(|(id, p)| Step::Priority(id, p)),
        1 => (0usize..2, 0u64..12, 0u8..5).prop_map(|(n, from, how)| Step::Rule(n, from, how)),
    ]
}

proptest! {
    /// Whatever happens, the limits hold, those of the files too (see `Bench::event`), what is stored
    /// reads back, and in the end every job ends.
    #[test]
    fn every_job_ends(steps in proptest::collection::vec(step(), 1..60)) {
        let mut b = Bench::with_bytes(2, JobBytes::within(8 << 10));
        let mut rules = [none(), none()];
        for step in steps {
            if let Step::Rule(n, from, how) = step {
                rules[n] = rule(from, how);
                b.rules(&rules);
            }
            take(&mut b, step);
            for job in b.stored.values().filter(|job| !job.status().is_final()) {
                let waits = !b.queue.waits(&[job.id])[0].1.is_empty();
                prop_assert_eq!(waits, b.running.iter().all(|start| start.job != job.id));
            }
            let (_, agents) = b.queue.running();
            prop_assert!(agents <= 2);
            prop_assert_eq!(b.running.len(), b.queue.running().0 + agents);
        }
        b.rules(&[]);
        prop_assert!(!b.queue.rejects_more());
        while let Some(start) = b.running.first().cloned() {
            if b.status(start.job) == JobStatus::Waiting && !b.interrupted.contains(&start.job) {
                b.granted(start.job);
            }
            let outcome = if b.interrupted.contains(&start.job) {
                Outcome::Canceled
            } else {
                Outcome::Success(Value::Null)
            };
            b.end(start.job, outcome);
        }
        for job in b.stored.values().chain(b.archived.values()) {
            prop_assert!(job.status().is_final(), "{} is {}", job.id, job.status());
            let text = serde_json::to_string(job.as_ref()).unwrap();
            let again: Job = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json::to_string(&again).unwrap(), text);
        }
        prop_assert_eq!(b.queue.running(), (0, 0));
        prop_assert!(b.queue.dependencies.is_empty());
        prop_assert_eq!(b.answers.len() as u64, b.asked);
        for answer in b.answers.values() {
            // A job is canceled if its answer says so, and only then.
            let Answer::Told(done, text) = answer else { continue };
            let mut words = text.split_whitespace();
            let id = words.nth(1).and_then(|id| id.parse().ok()).map(JobId);
            let job = id.and_then(|id| b.stored.get(&id).or_else(|| b.archived.get(&id)));
            let is_canceled = *done && text.ends_with(" canceled");
            if let Some(job) = job.filter(|_| is_canceled || text.contains("before it could")) {
                prop_assert_eq!(is_canceled, job.status() == JobStatus::Canceled, "{}", text);
            }
        }
        let ids = b.stored.len() + b.archived.len();
        prop_assert_eq!(ids as u64, b.queue.serial());
    }
}

type RuleStep = (&'static str, Value, Value);

fn none() -> RuleStep {
    rule(0, 0)
}

/// A rule for the jobs from an id on.
fn rule(from: u64, how: u8) -> RuleStep {
    let action = match how {
        0 => json!("CONTINUE"),
        1 => json!("ACCEPT"),
        2 => json!("PAUSE"),
        3 => json!("REJECT"),
        _ => json!(["RATE_LIMIT", 1]),
    };
    let uuid = if how.is_multiple_of(2) { "even" } else { "odd" };
    (uuid, json!([["jobid", [">=", "id", from]]]), action)
}

fn take(b: &mut Bench, step: Step) {
    match step {
        Step::Submit { agents, ops, priority, back } => {
            let depends = back
                .and_then(|n| b.queue.serial().checked_sub(n))
                .filter(|&id| id > 0)
                .map(|id| format!(r#","depends":[[{id},[]]]"#));
            let extra = format!(r#","priority":{priority}{}"#, depends.unwrap_or_default());
            let make = |_| if agents { far(&extra) } else { op(&extra) };
            b.one((0..ops).map(make).collect());
        }
        Step::Grant(n) => {
            let waiting = |s: &&Start| b.stored[&s.job].ops[s.op].status == OpStatus::Waiting;
            if let Some(job) = b.running.iter().filter(waiting).nth(n).map(|s| s.job) {
                b.granted(job);
            }
        }
        Step::NoReturn(n) => {
            let running = |s: &&Start| b.stored[&s.job].ops[s.op].status == OpStatus::Running;
            if let Some(job) = b.running.iter().filter(running).nth(n).map(|s| s.job) {
                let was_canceled = b.interrupted.contains(&job);
                let may = b.ask(|reply| Event::NoReturn { job, reply });
                assert_eq!(may, Some(Answer::Done(!was_canceled)));
            }
        }
        Step::Log(n, bytes) => {
            let running = |s: &&Start| b.stored[&s.job].ops[s.op].status == OpStatus::Running;
            if let Some(job) = b.running.iter().filter(running).nth(n).map(|s| s.job) {
                b.log(job, &"x".repeat(bytes));
            }
        }
        Step::End(n, how, bytes) => {
            let Some(start) = b.running.get(n).cloned() else { return };
            let running = b.stored[&start.job].ops[start.op].status == OpStatus::Running;
            let outcome = match how {
                0 if running => Outcome::Success(Value::from("x".repeat(bytes))),
                1 => Outcome::Failure(Exception::exec("\u{1f}".repeat(bytes))),
                _ => Outcome::Canceled,
            };
            b.end(start.job, outcome);
        }
        Step::Cancel(id) => {
            b.cancel(JobId(id));
        }
        Step::Archive(id) => {
            b.ask(|reply| Event::Archive { job: JobId(id), reply });
        }
        Step::Rule(..) => {}
        Step::Priority(id, priority) => {
            b.ask(|reply| Event::ChangePriority { job: JobId(id), priority, reply });
        }
    }
}
