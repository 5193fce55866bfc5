//! Core: times that an agent told, by the master's clock. The clock of an agent's host may be years
//! ahead or behind, now or when something was seen. No stored time is in the master's future. An event
//! behind one that had to be corrected gets a later time than that, so that it replaces it.

use model::Timestamp;
use model::power_cycle::Ramdisk;
use model::rack::{Event, Observation};

use crate::agents::clock_skew::CLOCK_SKEW_MAX_SECONDS;

/// A clock that is further off was set, or is wrong.
const SKEW_MAX_US: i64 = CLOCK_SKEW_MAX_SECONDS * 1_000_000;

/// The times of an agent's events, from one answer to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventTimes {
    /// The latest time of an event.
    last: Option<Timestamp>,
    /// The latest one that was corrected: those behind it lie behind it.
    floor: Option<Timestamp>,
}

/// Both clocks when an agent answered.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    /// The master's.
    pub master: Timestamp,
    /// The agent's, where it told.
    pub agent: Option<Timestamp>,
}

impl Clocks {
    /// A time that the agent's clock gave, as far as its present error explains it.
    fn corrected(self, told: Timestamp) -> Timestamp {
        let Some(agent) = self.agent else { return told };
        let skew = agent.micros().saturating_sub(self.master.micros());
        // An event from before the clock was set has a time that cannot be of the wrong clock.
        let is_of_it = match skew {
            SKEW_MAX_US.. => told > self.master,
            ..=0 if skew < -SKEW_MAX_US => told <= agent,
            _ => false,
        };
        if is_of_it { shifted(told, skew.saturating_neg()) } else { told }
    }
}

fn shifted(time: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(time.micros().saturating_add(micros))
}

impl EventTimes {
    /// Gives events, in their order, times by the master's clock.
    pub fn correct(&mut self, events: &mut [Event], clocks: Clocks) {
        for event in events {
            let told = event.at;
            let at = self.time_of(clocks.corrected(told), clocks.master);
            event.at = at;
            let moved = at.micros().saturating_sub(told.micros());
            correct_within(&mut event.observation, clocks, at, moved);
        }
    }

    fn time_of(&mut self, told: Timestamp, now: Timestamp) -> Timestamp {
        let went_back = self.last.is_some_and(|last| shifted(told, SKEW_MAX_US) < last);
        let above = |floor: Option<Timestamp>| floor.map(|floor| shifted(floor, 1));
        let at = match told {
            told if told > now => above(self.floor).map_or(now, |above| above.max(now)),
            _ if went_back => above(self.last.max(self.floor)).unwrap_or(told),
            told => above(self.floor).map_or(told, |above| above.max(told)),
        };
        if at != told {
            self.floor = Some(at);
        }
        self.last = self.last.max(Some(at));
        at
    }
}

/// Corrects the times within an observation, made `at`, whose own time was `moved` by so many
/// microseconds.
fn correct_within(seen: &mut Observation, clocks: Clocks, at: Timestamp, moved: i64) {
    match seen {
        // It lasts as long as it was given for.
        Observation::Lease(lease) => lease.until = shifted(lease.until, moved),
        Observation::Boot { earlier, .. } => {
            let is_late = |time: Timestamp| time > clocks.master;
            if moved == 0 && !earlier.iter().any(|seen| is_late(seen.at)) {
                return;
            }
            let mut limit = at;
            for seen in earlier.iter_mut().rev() {
                seen.at = clocks.corrected(seen.at).min(shifted(limit, -1));
                limit = seen.at;
            }
        }
        Observation::Ramdisk { heard, .. } => correct_ramdisk(heard, clocks),
        Observation::Inspected { .. } | Observation::Unknown { .. } => {}
    }
}

/// Moves times of the future to now, in their order: it tells which word was the later one.
fn correct_ramdisk(heard: &mut Ramdisk, clocks: Clocks) {
    let Ramdisk { booted, token_told, told_by: _, agent, enrolling } = heard;
    let mut times: Vec<&mut Timestamp> = booted.iter_mut().chain(token_told).collect();
    times.extend(agent.iter_mut().map(|agent| &mut agent.heard));
    times.extend(enrolling.iter_mut().map(|enrolling| &mut enrolling.told));
    times.iter_mut().for_each(|time| **time = clocks.corrected(**time));
    let mut late: Vec<Timestamp> = times.iter().map(|time| **time).collect();
    late.retain(|time| *time > clocks.master);
    late.sort_unstable();
    late.dedup();
    for time in times {
        let place = late.binary_search(time).ok().and_then(|place| i64::try_from(place).ok());
        if let Some(place) = place {
            *time = shifted(clocks.master, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use model::machine::{BootStage, StageSeen};
    use model::power_cycle::RamdiskAgent;
    use model::rack::{Lease, LeaseState};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::NOW;

    const SECOND: i64 = 1_000_000;
    const YEARS: i64 = 4 * 365 * 86_400 * SECOND;

    fn at(micros: i64) -> Timestamp {
        shifted(NOW, micros)
    }

    fn clocks(agent: i64) -> Clocks {
        Clocks { master: NOW, agent: Some(at(agent)) }
    }

    /// A lease of an hour.
    fn lease(number: u64, seen: i64) -> Event {
        let observation = Observation::Lease(Lease {
            rack: 0,
            mac: "52:54:00:00:00:07".parse().unwrap(),
            address: [10, 69, 0, 32].into(),
            state: LeaseState::Bound,
            until: at(seen + 3_600 * SECOND),
        });
        Event { number, at: at(seen), observation }
    }

    fn corrected(times: &mut EventTimes, seen: &[i64], clocks: Clocks) -> Vec<(i64, i64)> {
        let mut events: Vec<Event> = (1..).zip(seen).map(|(n, seen)| lease(n, *seen)).collect();
        times.correct(&mut events, clocks);
        let since = |time: Timestamp| time.micros() - NOW.micros();
        let told = events.iter().map(|event| {
            let Observation::Lease(lease) = &event.observation else { panic!() };
            (since(event.at), (since(lease.until) - since(event.at)) / SECOND)
        });
        told.collect()
    }

    #[test]
    fn times_of_a_good_clock_stay() {
        let seen = [-9_000 * SECOND, -5 * SECOND, -5 * SECOND, -SECOND, 0];
        let stay: Vec<_> = seen.iter().map(|seen| (*seen, 3_600)).collect();
        for agent in [0, 100 * SECOND, -100 * SECOND] {
            assert_eq!(corrected(&mut EventTimes::default(), &seen, clocks(agent)), stay);
        }
        let silent = Clocks { agent: None, ..clocks(0) };
        assert_eq!(corrected(&mut EventTimes::default(), &seen, silent), stay);
    }

    #[test]
    fn a_clock_that_is_off_is_corrected_by_its_error() {
        for years in [YEARS, -YEARS] {
            let seen = [-9 * SECOND, years - 5 * SECOND, years];
            // A clock that is behind gives the same times now as it gave years ago.
            let told = corrected(&mut EventTimes::default(), &seen, clocks(years));
            assert_eq!(told, [(-9 * SECOND, 3_600), (-5 * SECOND, 3_600), (0, 3_600)]);
        }
    }

    #[test]
    fn what_a_clock_said_before_it_was_set_is_now_and_the_next_word_lies_behind_it() {
        for wrong in [YEARS, 3_600 * SECOND, SECOND] {
            let mut times = EventTimes::default();
            let told = corrected(&mut times, &[-9, wrong, wrong + 1, -2], clocks(0));
            assert_eq!(told, [(-9, 3_600), (0, 3_600), (1, 3_600), (2, 3_600)]);
            let next = Clocks { master: at(SECOND), agent: Some(at(SECOND)) };
            assert_eq!(corrected(&mut times, &[SECOND / 2], next), [(SECOND / 2, 3_600)]);
        }
        let mut times = EventTimes::default();
        let told = corrected(&mut times, &[-9, -YEARS, 1 - YEARS, -2], clocks(0));
        assert_eq!(told, [(-9, 3_600), (-8, 3_600), (-7, 3_600), (-2, 3_600)]);
    }

    #[test]
    fn stages_and_words_of_ramdisks_keep_their_order() {
        let stage = |stage, seen| StageSeen {
            stage,
            at: at(seen),
            agent: String::new(),
            fetched: None,
            cycle: 0,
        };
        let mut boot = Observation::Boot {
            rack: 0,
            serial: "s1".parse().unwrap(),
            address: [10, 69, 0, 32].into(),
            mac: None,
            stage: BootStage::Kernel,
            registered: None,
            cycle: 0,
            earlier: vec![
                stage(BootStage::Lease, -50),
                stage(BootStage::Loader, YEARS),
                stage(BootStage::Script, YEARS + 7),
            ],
            fetched: None,
            every: None,
            cycle_guessed: false,
        };
        correct_within(&mut boot, clocks(0), at(0), -YEARS - 9);
        let Observation::Boot { earlier, .. } = boot else { panic!() };
        let told: Vec<i64> = earlier.iter().map(|s| s.at.micros() - NOW.micros()).collect();
        assert_eq!(told, [-50, -2, -1]);
        let agent = RamdiskAgent {
            callback_url: "https://10.69.0.32:9999".to_owned(),
            version: String::new(),
            verify_ca: None,
            status: None,
            status_message: String::new(),
            heard: at(YEARS + 2),
        };
        let (booted, token_told) = (Some(at(YEARS)), Some(at(YEARS + 1)));
        let mut heard =
            Ramdisk { booted, token_told, told_by: None, agent: Some(agent), enrolling: None };
        correct_ramdisk(&mut heard, clocks(0));
        assert_eq!((heard.booted, heard.token_told), (Some(at(0)), Some(at(1))));
        assert_eq!(heard.agent.unwrap().heard, at(2));
    }

    proptest! {
        #[test]
        fn nothing_is_of_the_future_and_what_was_corrected_is_passed_by_the_next(
            seen in prop::collection::vec(-3 * YEARS..3 * YEARS, 0..20),
            agent in prop::option::of(-3 * YEARS..3 * YEARS),
        ) {
            let clocks = Clocks { master: NOW, agent: agent.map(at) };
            let mut times = EventTimes::default();
            let most = i64::try_from(seen.len()).unwrap();
            let mut before = i64::MIN;
            for (told, _) in corrected(&mut times, &seen, clocks) {
                prop_assert!(told <= most, "a microsecond for each at most");
                prop_assert!(told >= before.saturating_sub(SKEW_MAX_US));
                before = before.max(told);
            }
        }
    }
}
