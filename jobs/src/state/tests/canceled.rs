//! Jobs that are canceled.

use super::*;

impl Bench {
    /// Cancels; gives the number of the question, for the answer that comes later.
    fn cancel_later(&mut self, job: JobId) -> u64 {
        assert_eq!(self.cancel(job), None, "nothing is said before it has ended");
        self.asked
    }

    fn may_change(&mut self, job: JobId) -> bool {
        match self.ask(|reply| Event::NoReturn { job, reply }) {
            Some(Answer::Done(may)) => may,
            other => panic!("{other:?}"),
        }
    }

    fn statuses(&self, job: JobId) -> Vec<OpStatus> {
        self.stored[&job].ops.iter().map(|op| op.status).collect()
    }

    fn logged(&self, job: JobId) -> Vec<String> {
        let entries = self.stored[&job].ops.iter().flat_map(|op| &op.log);
        entries.map(|entry| entry.3.as_str().unwrap().to_owned()).collect()
    }
}

fn told(done: bool, text: &str) -> Answer {
    Answer::Told(done, text.to_owned())
}

#[test]
fn what_has_not_begun_leaves_the_queue() {
    let mut b = Bench::new(1);
    let first = b.one(vec![far("")]);
    let queued = b.one(vec![far("")]);
    assert_eq!(b.cancel(queued), Some(told(true, "Dequeued job 2")));
    assert_eq!(b.status(queued), JobStatus::Canceled);
    assert_eq!(b.stored[&queued].ops[0].result, CANCELED);
    assert!(b.logged(queued).is_empty());
    b.succeed(first);
    assert_eq!(b.cancel(first), Some(told(false, "Job 1 is already success")));
    assert_eq!(b.cancel(JobId(99)), Some(told(false, "Job 99 not found")));
}

#[test]
fn the_answer_comes_when_it_is_known() {
    let ends = [
        (Outcome::Canceled, true, "Job 1 canceled"),
        (
            Outcome::Failure(Exception::exec("no such node")),
            false,
            "Job 1 ended as error before it could be canceled",
        ),
    ];
    for runs in [false, true] {
        for (outcome, done, text) in ends.clone() {
            let mut b = Bench::new(1);
            let job = b.one(vec![op("")]);
            if runs {
                b.granted(job);
            }
            let asked = b.cancel_later(job);
            assert!(b.interrupted.contains(&job));
            b.end(job, outcome);
            assert_eq!(b.answers[&asked], told(done, text));
            assert_eq!(b.status(job) == JobStatus::Canceled, done);
        }
    }
    let mut b = Bench::new(1);
    let job = b.one(vec![op("")]);
    let asked = b.cancel_later(job);
    b.succeed(job);
    let text = "Job 1 ended as success before it could be canceled";
    assert_eq!(b.answers[&asked], told(false, text));
}

#[test]
fn who_is_canceled_changes_nothing_and_who_changed_something_is_not_canceled() {
    let mut b = Bench::new(1);
    let job = b.one(vec![op("")]);
    b.granted(job);
    b.cancel_later(job);
    assert!(!b.may_change(job));
    b.end(job, Outcome::Canceled);

    let job = b.one(vec![op("")]);
    b.granted(job);
    assert!(b.may_change(job));
    let text = "Job 2 has made its change and can no longer be canceled; it runs to its end";
    assert_eq!(b.cancel(job), Some(told(false, text)));
    assert!(!b.interrupted.contains(&job));
    assert!(b.may_change(job), "it goes on changing");
    b.end(job, Outcome::Success(Value::Null));
    assert_eq!(b.status(job), JobStatus::Success);
}

#[test]
fn opcodes_behind_one_that_changed_something_do_not_begin() {
    for (outcome, ends) in [
        (
            Outcome::Success(Value::Null),
            [OpStatus::Success, OpStatus::Canceled, OpStatus::Canceled],
        ),
        (Outcome::Failure(Exception::exec("no")), [OpStatus::Error; 3]),
    ] {
        let mut b = Bench::new(1);
        let job = b.one(vec![op(""), op(""), op("")]);
        b.granted(job);
        assert!(b.may_change(job));
        let text = "Job 1: opcode 0 has made its change and runs to its end; the 2 behind it will not begin";
        assert_eq!(b.cancel(job), Some(told(true, text)));
        assert!(b.may_change(job), "it goes on changing");
        b.end(job, outcome);
        assert_eq!(b.statuses(job), ends);
        let logged = "Canceled; the opcodes before number 1 were carried out";
        assert_eq!(b.logged(job).contains(&logged.to_owned()), ends[1] == OpStatus::Canceled);
    }
}

#[test]
fn the_next_opcode_can_be_canceled_again() {
    let mut b = Bench::new(1);
    let job = b.one(vec![op(""), op("")]);
    b.granted(job);
    assert!(b.may_change(job));
    b.end(job, Outcome::Success(Value::Null));
    let asked = b.cancel_later(job);
    assert!(!b.may_change(job));
    b.end(job, Outcome::Canceled);
    assert_eq!(b.answers[&asked], told(true, "Job 1 canceled"));
    assert_eq!(b.statuses(job), [OpStatus::Success, OpStatus::Canceled]);
    assert_eq!(b.logged(job), ["Canceled; the opcodes before number 1 were carried out"]);
}
