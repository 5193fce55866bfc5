//! Core: the stages of a machine's boot with their times, of this boot and of the last one.

use crate::machine::{BootStage, StageSeen};

/// Boots that an agent's event carries. The master keeps two; one more tells where the older one of
/// these began.
const BOOTS_CARRIED_MAX: usize = 3;
/// A sight that is older than this beside the newest one is no late word: the agent's clock went back.
const CLOCK_WENT_BACK_US: i64 = 24 * 3_600 * 1_000_000;

/// A machine's stages, each at most once in a boot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// This boot.
    pub now: Vec<StageSeen>,
    /// The boot before.
    pub before: Vec<StageSeen>,
}

impl Timeline {
    /// Adds a sight. A stage that lies before the last one begins another boot; the same stage again is
    /// a retry. A sight that is not newer than all that is known was told before.
    pub fn see(&mut self, seen: StageSeen) {
        if !is_news(&self.now, &seen) {
            return;
        }
        if let Some(ended) = enter(&mut self.now, seen) {
            self.before = ended;
        }
    }

    /// Whether a system that runs tells so once more, which begins no boot.
    pub fn is_sign(&self, seen: &StageSeen) -> bool {
        is_sign(&self.now, seen)
    }
}

/// The earlier stages that an event carries along: those of the newest boots.
pub fn carry(stages: impl IntoIterator<Item = StageSeen>) -> Vec<StageSeen> {
    let (mut boots, mut now) = (Vec::new(), Vec::new());
    for seen in stages {
        if is_news(&now, &seen) {
            boots.extend(enter(&mut now, seen));
        }
    }
    boots.push(now);
    let old = boots.len().saturating_sub(BOOTS_CARRIED_MAX);
    boots.into_iter().skip(old).flatten().collect()
}

/// Whether the machine fetched something in a power cycle.
pub fn has_fetched(stages: &[StageSeen], cycle: u64) -> bool {
    stages.iter().any(|seen| seen.stage.is_fetch() && seen.cycle == cycle)
}

fn is_news(now: &[StageSeen], seen: &StageSeen) -> bool {
    let age = |last: &StageSeen| last.at.micros().saturating_sub(seen.at.micros());
    now.last().is_none_or(|last| !(0..CLOCK_WENT_BACK_US).contains(&age(last)))
        && !is_sign(now, seen)
}

/// Whether a system that runs tells so once more.
fn is_sign(now: &[StageSeen], seen: &StageSeen) -> bool {
    let is_like = |last: &StageSeen| last.stage == seen.stage && last.cycle == seen.cycle;
    seen.stage == BootStage::System && now.last().is_some_and(is_like)
}

/// Gives the boot that ended by it.
fn enter(now: &mut Vec<StageSeen>, seen: StageSeen) -> Option<Vec<StageSeen>> {
    let last = now.last().map(|last| last.stage);
    let ended = last.is_some_and(|last| seen.stage < last).then(|| std::mem::take(now));
    if last == Some(seen.stage) {
        now.pop();
    }
    now.push(seen);
    ended
}

#[cfg(test)]
mod tests {
    use BootStage::{Kernel, Lease, Loader, Script, System};

    use super::*;
    use crate::time::Timestamp;

    fn seen(stage: BootStage, at: i64) -> StageSeen {
        StageSeen {
            stage,
            at: Timestamp::from_micros(at),
            agent: String::new(),
            fetched: None,
            cycle: 0,
        }
    }

    fn of(stages: &[(BootStage, i64)]) -> Vec<(BootStage, i64)> {
        stages.to_vec()
    }

    fn told(stages: &[StageSeen]) -> Vec<(BootStage, i64)> {
        stages.iter().map(|seen| (seen.stage, seen.at.micros())).collect()
    }

    #[test]
    fn an_earlier_stage_begins_a_boot_and_the_same_is_a_retry() {
        let mut timeline = Timeline::default();
        let mut see = |stage, at| {
            timeline.see(seen(stage, at));
            (told(&timeline.now), told(&timeline.before))
        };
        see(Loader, 1);
        see(Script, 2);
        assert_eq!(see(Script, 5), (of(&[(Loader, 1), (Script, 5)]), vec![]));
        assert_eq!(see(System, 9).0, of(&[(Loader, 1), (Script, 5), (System, 9)]));
        let first = of(&[(Loader, 1), (Script, 5), (System, 9)]);
        assert_eq!(see(Loader, 10), (of(&[(Loader, 10)]), first.clone()));
        assert_eq!(see(System, 9), (of(&[(Loader, 10)]), first), "it was told before");
        see(Kernel, 11);
        assert_eq!(see(Lease, 12), (of(&[(Lease, 12)]), of(&[(Loader, 10), (Kernel, 11)])));
        let mut late = Timeline { now: vec![seen(Script, CLOCK_WENT_BACK_US + 5)], ..timeline };
        late.see(seen(Kernel, 5));
        assert_eq!(told(&late.now).last(), Some(&(Kernel, 5)), "the clock went back");
    }

    #[test]
    fn an_event_carries_three_boots() {
        let all = [(Script, 1), (Loader, 2), (Script, 3), (Loader, 4), (Loader, 5), (Lease, 6)];
        let carried = carry(all.map(|(stage, at)| seen(stage, at)));
        assert_eq!(told(&carried), [(Loader, 2), (Script, 3), (Loader, 5), (Lease, 6)]);
    }
}
