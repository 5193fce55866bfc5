//! Core: signs of life of machines' systems: `up`, told again and again. Only the first two of a boot go to
//! the disk; the last one is kept in memory.

use std::collections::HashMap;
use std::time::Duration;

use model::machine::BootStage;
use model::rack::Observation;
use model::{Serial, Timestamp};
use rpc::calls::Sign;

use crate::outbox::EVENTS_MAX;

/// Between two times that the master is told of one machine's signs: with the exchange's own wait, a sign is
/// known there within half a minute.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// The meaning of a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is the first of its boot, or no sign at all.
    First,
    /// It came so many seconds after the first.
    Second(u32),
    /// It is a later one.
    Again,
}

/// The last sign of each machine, by rack.
#[derive(Debug, Default)]
pub(super) struct Signs(HashMap<(u32, Serial), Last>);

#[derive(Debug)]
struct Last {
    registered: Option<Timestamp>,
    cycle: u64,
    at: Duration,
    every: Option<u32>,
    /// Which sign was told, and when.
    told: Option<(Duration, Duration)>,
}

impl Signs {
    /// Takes in an observation, made `now` after the start. A stage before the system is up begins
    /// another boot.
    pub(super) fn hear(&mut self, now: Duration, observation: &Observation) -> Heard {
        let Observation::Boot { rack, serial, stage, registered, cycle, .. } = observation else {
            return Heard::First;
        };
        let key = (*rack, serial.clone());
        if *stage != BootStage::System {
            self.0.remove(&key);
            return Heard::First;
        }
        let of = (*registered, *cycle);
        match self.0.get_mut(&key).filter(|last| (last.registered, last.cycle) == of) {
            Some(last) => {
                let seconds = u32::try_from(now.saturating_sub(last.at).as_secs());
                let seconds = seconds.unwrap_or(u32::MAX).max(1);
                last.at = now;
                match last.every.replace(seconds) {
                    None => Heard::Second(seconds),
                    Some(_) => Heard::Again,
                }
            }
            None => {
                if self.0.len() >= EVENTS_MAX {
                    self.0.clear();
                }
                let (registered, cycle) = of;
                let last = Last { registered, cycle, at: now, every: None, told: None };
                self.0.insert(key, last);
                Heard::First
            }
        }
    }

    /// Forgets the machine of an observation that was not kept: its next sign is a first one.
    pub(super) fn forget(&mut self, observation: &Observation) {
        if let Observation::Boot { rack, serial, .. } = observation {
            self.0.remove(&(*rack, serial.clone()));
        }
    }

    /// Those to tell `now`.
    pub(super) fn take_due(&mut self, now: Duration, anew: bool, most: usize) -> Vec<Sign> {
        if anew {
            self.0.values_mut().for_each(|last| last.told = None);
        }
        let is_due = |last: &Last| {
            last.told.is_none_or(|(sign, at)| sign != last.at && now >= at + TOLD_EVERY)
        };
        let due = self.0.iter_mut().filter(|(_, last)| is_due(last)).take(most);
        let told = due.map(|((_, serial), last)| {
            last.told = Some((last.at, now));
            let age = now.saturating_sub(last.at).as_secs();
            Sign {
                serial: serial.clone(),
                registered: last.registered,
                cycle: last.cycle,
                age_s: u32::try_from(age).unwrap_or(u32::MAX),
                every_s: last.every,
            }
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(stage: BootStage, cycle: u64) -> Observation {
        let machine = crate::testing::rack(0, 1).machines.remove(0);
        let machine = model::rack::RackMachine { cycle, ..machine };
        machine.observed(0, [10, 69, 0, 40].into(), None, (stage, None))
    }

    #[test]
    fn the_first_two_signs_of_a_boot_are_news() {
        use BootStage::{Kernel, System};
        let mut signs = Signs::default();
        for (at, stage, cycle, heard) in [
            (10, System, 0, Heard::First),
            (40, System, 0, Heard::Second(30)),
            (70, System, 0, Heard::Again),
            (200, System, 0, Heard::Again),
            // It restarts by itself, and then by a job.
            (210, Kernel, 0, Heard::First),
            (220, System, 0, Heard::First),
            (221, System, 0, Heard::Second(1)),
            (230, System, 1, Heard::First),
            (260, System, 1, Heard::Second(30)),
        ] {
            let told = signs.hear(Duration::from_secs(at), &seen(stage, cycle));
            assert_eq!(told, heard, "{at}");
        }
        signs.forget(&seen(System, 1));
        assert_eq!(signs.hear(Duration::from_secs(261), &seen(System, 1)), Heard::First);
    }

    #[test]
    fn a_sign_is_told_once_and_not_too_often_and_all_to_a_new_master() {
        let mut signs = Signs::default();
        let up = seen(BootStage::System, 4);
        let mut told = |hears: bool, at, anew| {
            let at = Duration::from_secs(at);
            if hears {
                let _news = signs.hear(at, &up);
            }
            let told = signs.take_due(at + Duration::from_secs(2), anew, 5);
            told.into_iter().map(|sign| (sign.cycle, sign.age_s, sign.every_s)).next()
        };
        assert_eq!(told(true, 0, false), Some((4, 2, None)));
        assert_eq!(told(true, 6, false), None, "too early");
        assert_eq!(told(false, 10, false), Some((4, 6, Some(6))));
        assert_eq!(told(false, 100, false), None, "nothing new");
        assert_eq!(told(false, 106, true), Some((4, 102, Some(6))));
        assert!(signs.take_due(Duration::from_secs(200), true, 0).is_empty());
    }
}
