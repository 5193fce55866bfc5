//! Jobs that are killed.

use super::*;

impl Bench {
    fn kill(&mut self, job: JobId) -> (u64, Option<Answer>) {
        let answer = self.ask(|reply| Event::Kill { job, reply });
        (self.asked, answer)
    }
}

fn told(done: bool, text: &str) -> Option<Answer> {
    Some(Answer::Told(done, text.to_owned()))
}

#[test]
fn what_has_no_worker_is_canceled() {
    let mut b = Bench::new(1);
    let blocker = b.one(vec![far("")]);
    let queued = b.one(vec![far("")]);
    assert_eq!(b.kill(queued).1, told(true, "Dequeued job 2"));
    assert_eq!(b.status(queued), JobStatus::Canceled);
    b.succeed(blocker);
    assert_eq!(b.kill(blocker).1, told(false, "Job 1 is already success"));
    assert_eq!(b.kill(JobId(9)).1, told(false, "Job 9 not found"));
}

#[test]
fn what_has_a_worker_ends_with_it() {
    for granted in [false, true] {
        let mut b = Bench::new(1);
        let job = b.one(vec![far(""), far("")]);
        if granted {
            b.granted(job);
        }
        let (reply, answer) = b.kill(job);
        assert_eq!(answer, None, "nothing is said before it has ended");
        b.end(job, Outcome::Failure(Exception::exec("killed")));
        assert_eq!(b.answers.get(&reply).cloned(), told(true, "Job 1 killed"));
        let statuses: Vec<_> = b.stored[&job].ops.iter().map(|op| op.status).collect();
        assert_eq!(statuses, [OpStatus::Error, OpStatus::Error]);
        assert!(b.running.is_empty());
    }
}

#[test]
fn an_opcode_that_ends_first_is_the_last_one() {
    let mut b = Bench::new(1);
    let job = b.one(vec![far(""), far("")]);
    b.granted(job);
    let (reply, _) = b.kill(job);
    b.end(job, Outcome::Success(Value::Null));
    assert_eq!(b.answers.get(&reply).cloned(), told(true, "Job 1 killed"));
    assert_eq!(b.status(job), JobStatus::Canceled);
    let job = b.one(vec![far("")]);
    b.granted(job);
    let (reply, _) = b.kill(job);
    b.end(job, Outcome::Success(Value::Null));
    let expected = told(false, "Job 2 ended as success before it could be killed");
    assert_eq!(b.answers.get(&reply).cloned(), expected);
}

#[test]
fn what_does_not_begin_any_more_can_be_ended_all_the_same() {
    for (is_before, is_kill) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut b = Bench::new(1);
        let job = b.one(vec![far(""), far("")]);
        b.running.clear();
        if is_before {
            b.event(Event::Withdrawn { job });
        }
        let (reply, answer) = if is_kill { b.kill(job) } else { (b.asked + 1, b.cancel(job)) };
        assert_eq!(answer, None);
        b.event(Event::Withdrawn { job });
        let text = if is_kill { "Job 1 killed" } else { "Job 1 canceled" };
        assert_eq!(b.answers.get(&reply).cloned(), told(true, text));
        assert_eq!(b.status(job), JobStatus::Canceled);
    }
    // A withdrawal does not end a job that nobody asked to end.
    let mut b = Bench::new(1);
    let job = b.one(vec![far("")]);
    b.event(Event::Withdrawn { job });
    assert_eq!(b.status(job), JobStatus::Waiting);
    // Nor does it end a job that runs.
    b.granted(job);
    let (_, answer) = b.kill(job);
    b.event(Event::Withdrawn { job });
    assert_eq!((answer, b.status(job)), (None, JobStatus::Running));
}
