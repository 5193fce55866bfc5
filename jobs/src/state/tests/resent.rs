//! Submissions that are sent again.

use model::job::RequestDigest;
use proptest::prelude::*;

use super::*;
use crate::deduplication::Remembered;
use crate::deduplication::{REMEMBERED_SECONDS, STEP_SECONDS_MAX};

const UID: u32 = 1_000;

fn digest(number: u64) -> RequestDigest {
    RequestDigest::of("SubmitManyJobs", UID, &number.to_be_bytes())
}

impl Bench {
    fn send(&mut self, request: u64, jobs: Vec<Vec<OpInput>>) -> Vec<Result<JobId, Exception>> {
        let jobs = submit::check(jobs, self.queue.bytes).unwrap();
        let sent = |(index, job): (u32, Submission)| {
            job.sent_by((UID, None), Some(digest(request).at(index)))
        };
        let jobs = (0..).zip(jobs).map(sent).collect();
        let archived = HashMap::new();
        match self.ask(|reply| Event::Submit { jobs, to_drained: false, archived, reply }) {
            Some(Answer::Submitted(answers)) => answers,
            other => panic!("a submission was answered {other:?}"),
        }
    }

    /// A new master on what the store has.
    fn restart(&mut self) {
        let jobs: Vec<Arc<Job>> = self.stored.values().cloned().collect();
        let all = self.stored.values().chain(self.archived.values());
        let found = all.filter_map(|job| Remembered::of(job)).collect();
        let serial = self.queue.serial;
        self.queue = Queue::new(jobs, serial, self.queue.drained, 1, self.queue.bytes);
        self.queue.recall(found);
    }
}

#[test]
fn a_repeat_gets_the_first_ones_job_whatever_became_of_it() {
    let mut b = Bench::new(1);
    let first = b.send(1, vec![vec![op("")]]);
    assert_eq!(first, [Ok(JobId(1))]);
    assert_eq!(b.stored[&JobId(1)].submitter, Some(UID));
    assert_eq!(b.send(1, vec![vec![op("")]]), first);
    b.succeed(JobId(1));
    b.ask(|reply| Event::SetDrained { drained: true, reply });
    assert_eq!(b.send(1, vec![vec![op("")]]), first, "a drained queue took it before");
    b.ask(|reply| Event::Archive { job: JobId(1), reply });
    assert_eq!(b.send(1, vec![vec![op("")]]), first);
    b.restart();
    assert_eq!(b.send(1, vec![vec![op("")]]), first);
    assert!(b.send(2, vec![vec![op("")]])[0].is_err(), "another request is another matter");
    b.ask(|reply| Event::SetDrained { drained: false, reply });
    // Another machine's clock, or this one's, which was set.
    b.time += 100 * REMEMBERED_SECONDS * 1_000_000;
    b.restart();
    assert_eq!(b.send(1, vec![vec![op("")]]), first);
    b.time += 100 * REMEMBERED_SECONDS * 1_000_000;
    assert_eq!(b.send(1, vec![vec![op("")]]), first);
    for other in 2.. {
        if b.time > 400 * REMEMBERED_SECONDS * 1_000_000 {
            break;
        }
        b.time += STEP_SECONDS_MAX * 1_000_000;
        let _other = b.send(other, vec![vec![op("")]]);
    }
    assert_ne!(b.send(1, vec![vec![op("")]]), first, "hours later it is forgotten");
}

#[test]
fn what_was_refused_is_tried_again_and_what_was_taken_is_not() {
    let mut b = Bench::new(1);
    let jobs = |on: &str| {
        vec![vec![op("")], vec![op(&format!(r#","depends":[[{on},[]]]"#))], vec![op("")]]
    };
    b.event(Event::SetDrained { drained: true, reply: u64::MAX });
    let first = b.send(1, jobs("7"));
    assert!(first.iter().all(Result::is_err));
    b.event(Event::SetDrained { drained: false, reply: u64::MAX - 1 });
    assert_eq!(b.send(1, jobs("7")), [JobId(1), JobId(2), JobId(3)].map(Ok));
    assert_eq!(b.send(1, jobs("7")), [JobId(1), JobId(2), JobId(3)].map(Ok));
    // A dependency on the job before is one on the job that this one is.
    assert_eq!(b.send(2, jobs("-1")), [JobId(4), JobId(5), JobId(6)].map(Ok));
    assert_eq!(b.send(2, jobs("-1")), [JobId(4), JobId(5), JobId(6)].map(Ok));
    assert_eq!(b.stored.len(), 6);
}

proptest! {
    /// However often requests are sent, whatever happens to their jobs and to the master in
    /// between, each index of each request has one job.
    #[test]
    fn one_request_is_one_job(
        steps in proptest::collection::vec((0u8..6, 0u64..5, 1usize..4), 1..50),
    ) {
        let mut b = Bench::new(1);
        let mut expected: HashMap<(u64, usize), JobId> = HashMap::new();
        for (what, number, jobs) in steps {
            match what {
                0 | 1 => {
                    let ops = vec![vec![op("")]; jobs];
                    for (index, answer) in b.send(number, ops).into_iter().enumerate() {
                        let id = answer.unwrap();
                        prop_assert_eq!(*expected.entry((number, index)).or_insert(id), id);
                    }
                }
                2 => {
                    let running = b.running.first().map(|start| start.job);
                    let job = running.filter(|job| !b.interrupted.contains(job));
                    job.into_iter().for_each(|job| b.succeed(job));
                }
                3 => drop(b.cancel(JobId(number + 1))),
                4 => drop(b.ask(|reply| Event::Archive { job: JobId(number + 1), reply })),
                _ => {
                    // The fate of running jobs at a restart is not the subject here.
                    while let Some(job) = b.running.first().map(|start| start.job) {
                        if b.interrupted.contains(&job) {
                            b.end(job, Outcome::Canceled);
                        } else {
                            b.succeed(job);
                        }
                    }
                    b.restart();
                }
            }
        }
        prop_assert_eq!(b.stored.len() + b.archived.len(), expected.len());
    }
}
