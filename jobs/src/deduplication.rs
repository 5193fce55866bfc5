//! Core: which job came of which request, so that a request that is sent again makes no second one.
//!
//! Clients send a submission anew when the connection is lost before the answer, and cannot know whether
//! it was taken. These requests are looked up before anything else of a submission is checked; they
//! include those that are not durable yet. Answers leave in the order of commits, so the repeat is
//! answered behind the first.

use std::collections::VecDeque;

use foldhash::{HashMap, HashMapExt};
use model::job::RequestId;
use model::{Job, JobId, Timestamp};

/// How long a request is remembered. Ganeti's clients send again up to fifteen times within nine
/// minutes, and a master may be away for a while in between.
pub const REMEMBERED_SECONDS: i64 = 3_600;
/// Most that the clock counts between two submissions. It may be set forward at any time, by more
/// than an hour; where nobody submits for longer, what is known is known for longer.
pub const STEP_SECONDS_MAX: i64 = 600;
/// Jobs whose requests are remembered, some 100 MB. Remembering all of an hour at 20,000 a second would
/// take gigabytes; beyond this the oldest are forgotten first. If clients submit more than 270 jobs a
/// second for an hour, the last million are known. An older request that is sent again is taken as a new
/// one.
pub const REQUESTS_REMEMBERED_MAX: usize = 1_000_000;

/// A job, and the request that it came of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remembered {
    /// The id by which its request is known.
    pub request: RequestId,
    /// Its number.
    pub job: JobId,
}

impl Remembered {
    /// The request and the id of a stored job; none if the request is not known again.
    pub fn of(job: &Job) -> Option<Self> {
        Some(Self { request: job.request?, job: job.id })
    }
}

/// Microseconds from one moment to a later one, as far as wall clocks are believed: they may be set
/// meanwhile, and be those of two machines.
fn passed_micros(earlier: Timestamp, later: Timestamp) -> i64 {
    later.micros().saturating_sub(earlier.micros()).clamp(0, STEP_SECONDS_MAX * 1_000_000)
}

/// How far back jobs lie whose requests are still known, looked at from the newest to the oldest.
#[derive(Debug, Default)]
pub struct Back {
    last: Option<Timestamp>,
    /// Microseconds between the newest and the last one.
    age: i64,
}

impl Back {
    /// Whether the job that was received then, before all that were asked about, is known no more.
    pub fn is_old(&mut self, received: Timestamp) -> bool {
        let later = self.last.replace(received).unwrap_or(received);
        self.age += passed_micros(received, later);
        self.age > REMEMBERED_SECONDS * 1_000_000
    }
}

/// The requests of the last hour.
#[derive(Debug)]
pub struct Requests {
    jobs: HashMap<RequestId, JobId>,
    /// The same, oldest first, with the age of all this when each was noted.
    order: VecDeque<(i64, RequestId)>,
    max: usize,
    /// The wall clock as it was last seen.
    seen: Option<Timestamp>,
    /// Microseconds that have passed, as far as the wall clock is believed.
    age: i64,
}

impl Requests {
    /// Remembers nothing yet, and at most `max` jobs.
    pub fn new(max: usize) -> Self {
        Self { jobs: HashMap::new(), order: VecDeque::new(), max, seen: None, age: 0 }
    }

    /// The job that came of this request, if it was sent before.
    pub fn find(&self, request: RequestId) -> Option<JobId> {
        self.jobs.get(&request).copied()
    }

    /// Remembers a job that was accepted just now, or is known from an earlier life: when that was,
    /// another machine's clock said.
    pub fn note(&mut self, new: Remembered) {
        // A request that was forgotten and sent again is in two job files; the first is as good.
        if self.jobs.contains_key(&new.request) {
            return;
        }
        while self.order.len() >= self.max.max(1) {
            self.forget_oldest();
        }
        self.jobs.insert(new.request, new.job);
        self.order.push_back((self.age, new.request));
    }

    /// Forgets what was noted more than an hour ago; `now` is the wall clock.
    pub fn expire(&mut self, now: Timestamp) {
        let seen = self.seen.replace(now).unwrap_or(now);
        self.age += passed_micros(seen, now);
        let before = self.age - REMEMBERED_SECONDS * 1_000_000;
        while self.order.front().is_some_and(|oldest| oldest.0 < before) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, request)) = self.order.pop_front() {
            self.jobs.remove(&request);
        }
    }
}

#[cfg(test)]
mod tests {
    use model::job::RequestDigest;
    use proptest::prelude::*;

    use super::*;

    fn request(number: u8) -> RequestId {
        RequestDigest::of("SubmitJob", 0, &[number]).at(0)
    }

    #[test]
    fn jobs_of_masters_with_other_clocks_are_no_older_for_that() {
        let (hour, now) = (REMEMBERED_SECONDS, 1_000_000);
        let known = |received: &[i64]| {
            let mut back = Back::default();
            let old = |at: &i64| back.is_old(Timestamp::from_micros(*at * 1_000_000));
            received.iter().position(old)
        };
        // The newest first: an hour of jobs, and one more.
        let steady: Vec<i64> = (0..8).map(|place| now - place * STEP_SECONDS_MAX).collect();
        assert_eq!(known(&steady), Some(7));
        // The newest is of a master whose clock is hours ahead of the one before, or behind it.
        for ahead in [5 * hour, -5 * hour] {
            let moved: Vec<i64> = std::iter::once(now + ahead).chain(steady.clone()).collect();
            let wanted = if ahead > 0 { 7 } else { 8 };
            assert_eq!(known(&moved), Some(wanted), "{ahead}");
        }
        // After a long time without submissions, requests are known for longer.
        assert_eq!(known(&[now, now - 100 * hour]), None);
        assert_eq!(known(&[]), None);
    }

    proptest! {
        /// The model is the whole history, by a clock that nobody sets. The wall clock is set.
        #[test]
        fn the_newest_of_the_last_hour_are_known(
            max in 1usize..6,
            steps in proptest::collection::vec(
                (0u8..12, 0i64..=STEP_SECONDS_MAX, proptest::option::of(-100_000i64..0)), 1..80),
        ) {
            let mut requests = Requests::new(max);
            let mut history: Vec<(i64, Remembered)> = Vec::new();
            let (mut passed, mut job) = (0, 0);
            let mut wall = Timestamp::from_micros(1 << 50);
            requests.expire(wall);
            for (number, seconds, set_back) in steps {
                wall = wall.plus_seconds(set_back.unwrap_or(seconds));
                passed += if set_back.is_some() { 0 } else { seconds };
                requests.expire(wall);
                history.retain(|(at, _)| *at >= passed - REMEMBERED_SECONDS);
                let request = request(number);
                let known = history.iter().find(|(_, old)| old.request == request);
                let known = known.map(|(_, old)| old.job);
                prop_assert_eq!(requests.find(request), known);
                if known.is_none() {
                    job += 1;
                    let new = Remembered { request, job: JobId(job) };
                    requests.note(new);
                    history.push((passed, new));
                    if history.len() > max {
                        history.remove(0);
                    }
                }
                prop_assert!(requests.jobs.len() <= max);
                prop_assert_eq!(requests.jobs.len(), requests.order.len());
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_forward_makes_nothing_forgotten() {
        let mut requests = Requests::new(2);
        let now = Timestamp::from_micros(1 << 50);
        requests.expire(now);
        requests.note(Remembered { request: request(1), job: JobId(1) });
        requests.expire(now.plus_seconds(100 * REMEMBERED_SECONDS));
        assert_eq!(requests.find(request(1)), Some(JobId(1)));
    }

    #[test]
    fn the_first_job_of_a_request_stays_its_job() {
        let mut requests = Requests::new(2);
        requests.note(Remembered { request: request(1), job: JobId(1) });
        requests.note(Remembered { request: request(1), job: JobId(2) });
        assert_eq!(requests.find(request(1)), Some(JobId(1)));
        assert_eq!(requests.order.len(), 1);
    }
}
