use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::rate_limit::Counted;
use super::*;

fn limit(name: &str, max: u64) -> Limit {
    Limit { on: Counted::Asked(name.into()), max }
}

fn limited(limits: &[Limit]) -> Gate {
    let mut limits = limits.to_vec();
    limits.sort_unstable();
    Gate::Limited(limits.into())
}

#[test]
fn priority_then_id() {
    let mut schedule = Schedule::new(2);
    for (id, priority) in [(5, 0), (3, 0), (4, -10), (1, 10)] {
        schedule.ready(JobId(id), priority, Reach::Agents, &Gate::Open);
    }
    assert_eq!(schedule.start_next(), Some(JobId(4)));
    assert_eq!(schedule.start_next(), Some(JobId(3)));
    assert_eq!(schedule.start_next(), None);
    schedule.ended(Reach::Agents, &Gate::Open);
    assert_eq!(schedule.start_next(), Some(JobId(5)));
    assert!(schedule.withdraw(JobId(1), 10, Reach::Agents, &Gate::Open));
    assert!(!schedule.withdraw(JobId(1), 10, Reach::Agents, &Gate::Open));
}

#[test]
fn jobs_on_the_master_pass_by() {
    let mut schedule = Schedule::new(1);
    schedule.ready(JobId(1), 0, Reach::Agents, &Gate::Open);
    schedule.ready(JobId(2), 0, Reach::Agents, &Gate::Open);
    schedule.ready(JobId(3), 0, Reach::Master, &Gate::Open);
    assert_eq!(schedule.start_next(), Some(JobId(1)));
    assert_eq!(schedule.start_next(), Some(JobId(3)));
    assert_eq!(schedule.start_next(), None);
    assert_eq!(schedule.running(), (1, 1));
    schedule.set_running_max(2);
    assert_eq!(schedule.start_next(), Some(JobId(2)));
}

#[test]
fn who_may_not_start_keeps_nobody_waiting() {
    let mut schedule = Schedule::new(20);
    let slow = limited(&[limit("1:slow", 1)]);
    schedule.ready(JobId(1), -10, Reach::Agents, &Gate::Paused);
    schedule.ready(JobId(2), 0, Reach::Agents, &slow);
    schedule.ready(JobId(3), 0, Reach::Master, &slow);
    schedule.ready(JobId(4), 0, Reach::Agents, &Gate::Open);
    assert_eq!(schedule.start_next(), Some(JobId(2)));
    assert_eq!(schedule.start_next(), Some(JobId(4)));
    assert_eq!(schedule.start_next(), None);
    let told = |id, reach, gate| schedule.obstacles(JobId(id), 0, reach, gate);
    assert_eq!(told(1, Reach::Agents, &Gate::Paused), [Obstacle::Pause]);
    assert_eq!(told(3, Reach::Master, &slow), [Obstacle::Limit(limit("1:slow", 1), 1)]);
    schedule.ended(Reach::Agents, &slow);
    assert_eq!(schedule.start_next(), Some(JobId(3)));
    assert!(schedule.withdraw(JobId(1), -10, Reach::Agents, &Gate::Paused));
}

#[test]
fn the_place_in_the_line_is_told() {
    let mut schedule = Schedule::new(1);
    let two = limited(&[limit("2:x", 2)]);
    for id in 1..=4 {
        schedule.ready(JobId(id), 0, Reach::Agents, &Gate::Open);
    }
    schedule.ready(JobId(5), 0, Reach::Agents, &two);
    schedule.ready(JobId(6), 0, Reach::Agents, &two);
    assert_eq!(schedule.start_next(), Some(JobId(1)));
    let told = |id, gate| schedule.obstacles(JobId(id), 0, Reach::Agents, gate);
    assert_eq!(told(2, &Gate::Open), [Obstacle::Turn { max: 1, ahead: 0 }]);
    assert_eq!(told(4, &Gate::Open), [Obstacle::Turn { max: 1, ahead: 2 }]);
    assert_eq!(told(6, &two), [Obstacle::Turn { max: 1, ahead: 4 }]);
}

#[test]
fn reasons_that_ask_for_a_limit() {
    let job = |reasons: &[&str]| {
        let reason: Vec<_> = reasons.iter().map(|text| ("gnt:user", text, 1)).collect();
        let input = serde_json::json!({"OP_ID": "OP_TEST_DELAY", "duration": 0, "reason": reason});
        let input = model::OpInput::parse(&input.to_string()).unwrap();
        let input = Arc::new(model::opcode::Input::Known(Box::new(input)));
        model::Job::new(JobId(1), [input], model::Timestamp::from_micros(1))
    };
    let asked = |reason: &str| rate_limit::asked(&job(&[reason])).pop();
    assert_eq!(asked("rate-limit:3:slow disks"), Some(limit("3:slow disks", 3)));
    assert_eq!(asked("rate-limit:3:a:b"), Some(limit("3:a:b", 3)));
    assert_eq!(asked("rate-limit:3"), Some(limit("3", 3)));
    for none in
        ["rate-limit", "rate-limit:", "rate-limit:0:x", "rate-limit:-1:x", "rate-limit:+1:x"]
    {
        assert_eq!(asked(none), None, "{none}");
    }
    assert_eq!(asked(" rate-limit:1:x"), None);
    let many: Vec<String> = (1..40).map(|n| format!("rate-limit:{n}:x")).collect();
    let many: Vec<&str> = many.iter().flat_map(|text| [text.as_str(); 2]).collect();
    assert_eq!(rate_limit::asked(&job(&many)).len(), rate_limit::ASKED_LIMITS_MAX);
}

/// The same rules, by looking at everything each time.
#[derive(Default)]
struct Naive {
    ready: BTreeMap<(i32, JobId), (Reach, Gate)>,
    running: Vec<(JobId, Reach, Gate)>,
    max: usize,
}

impl Naive {
    fn runs(&self, reach: Reach) -> usize {
        self.running.iter().filter(|(_, of, _)| *of == reach).count()
    }

    fn has_room(&self, gate: &Gate) -> bool {
        let count = |limit: &Limit| {
            let counts = |gate: &Gate| gate.limits().contains(limit);
            self.running.iter().filter(|(_, _, gate)| counts(gate)).count() as u64
        };
        *gate != Gate::Paused && gate.limits().iter().all(|limit| count(limit) < limit.max)
    }

    fn start_next(&mut self) -> Option<JobId> {
        for (reach, max) in [(Reach::Agents, self.max), (Reach::Master, MASTER_JOBS_MAX)] {
            let fits = |(of, gate): &(Reach, Gate)| *of == reach && self.has_room(gate);
            let found = self.ready.iter().find(|(_, job)| fits(job)).map(|(turn, _)| *turn);
            if let Some(turn) = found.filter(|_| self.runs(reach) < max) {
                let (reach, gate) = self.ready.remove(&turn).unwrap();
                self.running.push((turn.1, reach, gate));
                return Some(turn.1);
            }
        }
        None
    }
}

#[derive(Debug, Clone)]
enum Step {
    Ready(i32, bool, usize),
    Withdraw(usize),
    End(usize),
    Differ(usize, usize),
    RunningMax(u32),
}

fn gates() -> Vec<Gate> {
    let (a, b, c) = (limit("a", 1), limit("b", 2), limit("c", 1));
    vec![
        Gate::Open,
        Gate::Paused,
        limited(std::slice::from_ref(&a)),
        limited(std::slice::from_ref(&b)),
        limited(&[a.clone(), b.clone()]),
        limited(&[b.clone(), c.clone()]),
        limited(&[a, b, c]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (-1i32..2, any::<bool>(), 0usize..7).prop_map(|(p, far, gate)| Step::Ready(p, far, gate)),
        1 => (0usize..30).prop_map(Step::Withdraw),
        3 => (0usize..30).prop_map(Step::End),
        1 => (0usize..30, 0usize..7).prop_map(|(n, gate)| Step::Differ(n, gate)),
        1 => (1u32..5).prop_map(Step::RunningMax),
    ]
}

proptest! {
    /// Whatever happens, the same jobs start in the same order as when everything is looked at.
    #[test]
    fn starts_as_the_naive_one(steps in proptest::collection::vec(step(), 1..120)) {
        let (gates, mut schedule) = (gates(), Schedule::new(2));
        let mut naive = Naive { max: 2, ..Naive::default() };
        for (id, step) in (1..).zip(steps) {
            match step {
                Step::Ready(priority, far, gate) => {
                    let reach = if far { Reach::Agents } else { Reach::Master };
                    schedule.ready(JobId(id), priority, reach, &gates[gate]);
                    naive.ready.insert((priority, JobId(id)), (reach, gates[gate].clone()));
                }
                Step::Withdraw(n) => {
                    let Some((&turn, (reach, gate))) = naive.ready.iter().nth(n) else { continue };
                    prop_assert!(schedule.withdraw(turn.1, turn.0, *reach, gate));
                    prop_assert!(!schedule.withdraw(turn.1, turn.0, *reach, gate));
                    naive.ready.remove(&turn);
                }
                Step::End(n) if n < naive.running.len() => {
                    let (_, reach, gate) = naive.running.remove(n);
                    schedule.ended(reach, &gate);
                }
                Step::Differ(n, gate) if n < naive.running.len() => {
                    schedule.counts_for(&naive.running[n].2, &gates[gate]);
                    naive.running[n].2 = gates[gate].clone();
                }
                Step::RunningMax(max) => {
                    schedule.set_running_max(max);
                    naive.max = max as usize;
                }
                Step::End(_) | Step::Differ(..) => {}
            }
            loop {
                let expected = naive.start_next();
                prop_assert_eq!(schedule.start_next(), expected);
                if expected.is_none() {
                    break;
                }
            }
            let (master, agents) = schedule.running();
            prop_assert_eq!(master + agents, naive.running.len());
            for (turn, (reach, gate)) in &naive.ready {
                let told = schedule.obstacles(turn.1, turn.0, *reach, gate);
                let full = told.iter().any(|o| !matches!(o, Obstacle::Turn { .. }));
                prop_assert_eq!(full, !naive.has_room(gate));
            }
        }
        for (turn, (reach, gate)) in naive.ready {
            prop_assert!(schedule.withdraw(turn.1, turn.0, reach, &gate));
        }
        for (_, reach, gate) in naive.running {
            schedule.ended(reach, &gate);
        }
        prop_assert!(schedule.limits.is_empty());
    }
}
