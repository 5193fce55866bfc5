//! Core: stages of boots that were noted a moment ago. A loader that fetches a file in pieces, or again,
//! tells nothing new.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use model::rack::Observation;
use model::{Serial, Timestamp};

use crate::outbox::EVENTS_MAX;

/// Microseconds in which a stage of a boot that a machine comes to again is not noted again.
const REPEAT_US: i64 = 5_000_000;

/// The last stage of each machine at each of its addresses, with its time: a machine that asks from
/// several at once is no news each time.
#[derive(Debug, Default)]
pub(super) struct Repeats(HashMap<(u32, Serial, Ipv4Addr), (Timestamp, Observation)>);

impl Repeats {
    /// Whether `observation`, made at `at`, tells something new; it is the last one of its machine there then.
    pub(super) fn is_news(&mut self, at: Timestamp, observation: &Observation) -> bool {
        let Observation::Boot { rack, serial, address, .. } = observation else { return true };
        let key = (*rack, serial.clone(), *address);
        let repeats = self.0.get(&key).is_some_and(|(last, before)| {
            (0..REPEAT_US).contains(&(at.micros() - last.micros())) && before == observation
        });
        if repeats {
            return false;
        }
        if self.0.len() >= EVENTS_MAX {
            self.0.clear();
        }
        self.0.insert(key, (at, observation.clone()));
        true
    }
}

#[cfg(test)]
mod tests {
    use model::machine::BootStage;

    use super::*;
    use crate::outbox::tests::lease;

    fn boot(stage: BootStage, address: u8) -> Observation {
        Observation::Boot {
            cycle: 0,
            rack: 0,
            serial: "S1".parse().unwrap(),
            address: [10, 69, 0, address].into(),
            mac: None,
            stage,
            registered: None,
            earlier: Vec::new(),
            every: None,
            cycle_guessed: false,
            fetched: None,
        }
    }

    #[test]
    fn a_stage_that_is_told_again_at_once_is_no_news() {
        let mut repeats = Repeats::default();
        let script = || boot(BootStage::Script, 1);
        for (at, observation, is_news) in [
            (0, script(), true),
            (1, script(), false),
            (REPEAT_US - 1, script(), false),
            (REPEAT_US, script(), true),
            // A clock that went back.
            (5, script(), true),
            (6, boot(BootStage::Kernel, 1), true),
            (7, script(), true),
            (8, boot(BootStage::Script, 2), true),
            (9, script(), false),
            (9, lease(1, 10), true),
            (9, lease(1, 10), true),
        ] {
            let told = repeats.is_news(Timestamp::from_micros(at), &observation);
            assert_eq!(told, is_news, "{at}: {observation:?}");
        }
    }
}
