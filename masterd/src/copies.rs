//! Compares what candidates hold with the master's files by itself, and not only when
//! `gnt cluster verify` asks: soon after the role was taken, since a master reads its own files, and
//! then a few times a day. What is found is an alarm of the [`watcher`](crate::watcher).

use std::sync::Arc;
use std::time::Duration;

use model::{NodeName, Timestamp};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::lu::World;
use crate::lu::verify::replicas;
use crate::verify::replicas::{Compared, check};
use crate::verify::{Finding, Severity};

/// How long after the role was taken: what the first moments are busy with is over.
const FIRST: Duration = Duration::from_secs(10);
/// Between two comparisons where all are alike: each reads all files on all candidates.
const LATER: Duration = Duration::from_secs(6 * 3_600);
/// Where something differs, or somebody was away.
const AGAIN: Duration = Duration::from_secs(300);

/// What the last comparison of this master found, whoever asked for it.
#[derive(Debug, Default)]
pub struct Copies(Mutex<Option<Differ>>);

/// Copies that are not alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differ {
    /// When that was seen first.
    pub since: Timestamp,
    /// Whose copies, in which keys, and what to do.
    pub text: String,
}

impl Copies {
    /// What is not alike, if anything is.
    #[must_use]
    pub fn differ(&self) -> Option<Differ> {
        self.0.lock().clone()
    }

    /// Notes the outcome of a comparison, at `now`. Who could not be compared says nothing.
    pub fn note(&self, master: &NodeName, compared: &[Compared], now: Timestamp) {
        let found = check(master, compared);
        let wrong: Vec<_> =
            found.iter().filter(|finding| finding.severity == Severity::Error).collect();
        let mut differ = self.0.lock();
        let all_told = compared.iter().all(|one| one.outcome.is_ok());
        *differ = match (wrong.as_slice(), differ.take()) {
            // Who was found to differ and is away now may differ still.
            ([], before) => before.filter(|_| !all_told),
            (wrong, before) => {
                let since = before.map_or(now, |before| before.since);
                Some(Differ { since, text: told(wrong) })
            }
        };
    }
}

/// The first finding, and how many others there are.
fn told(wrong: &[&Finding]) -> String {
    let first = wrong.first().map(|Finding { item, text, .. }| format!("{item}: {text}"));
    let more = wrong.len().saturating_sub(1);
    let more = (more > 0).then(|| format!(" (and {more} more: `gnt cluster verify`)"));
    first.unwrap_or_default() + &more.unwrap_or_default()
}

/// Compares until `over`.
pub(crate) async fn run(world: Arc<World>, over: CancellationToken) {
    let mut pause = FIRST;
    while over.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        let comparing = replicas::compare_silently(&world);
        let Some(compared) = over.run_until_cancelled(comparing).await else { return };
        let config = world.published.snapshot().config;
        let now = Timestamp::from_micros(world.clock.now_micros());
        world.copies.note(&config.role.master, &compared, now);
        let are_alike = compared
            .iter()
            .all(|one| one.outcome.as_ref().is_ok_and(|differing| differing.groups.is_empty()));
        pause = if are_alike { LATER } else { AGAIN };
    }
}

#[cfg(test)]
mod tests {
    use queue_format::digest::Difference;

    use super::*;
    use crate::testing::NOW;
    use crate::verify::replicas::{Differing, Other};

    fn compared(node: &str, outcome: Result<Differing, String>) -> Compared {
        Compared { node: node.parse().unwrap(), outcome }
    }

    fn edited() -> Result<Differing, String> {
        let (key, difference) = ("config/nodes/n2".to_owned(), Difference::Content);
        let judged = vec![Other { key, difference, theirs: Some("1".to_owned()) }];
        let groups = vec!["config".to_owned()];
        Ok(Differing { groups, judged, total: 1, cut_short: false })
    }

    #[test]
    fn what_differs_is_known_until_all_are_alike() {
        let (copies, master) = (Copies::default(), "n1".parse().unwrap());
        let well = || Ok(Differing::default());
        let away = || Err("it is away".to_owned());
        let note = |outcomes: [Result<Differing, String>; 2], seconds| {
            let nodes = ["n2", "n3"].into_iter();
            let compared: Vec<_> = nodes.zip(outcomes).map(|(n, o)| compared(n, o)).collect();
            copies.note(&master, &compared, NOW.plus_seconds(seconds));
            copies.differ()
        };
        assert_eq!(note([well(), away()], 0), None);
        let one = note([well(), edited()], 1).unwrap();
        assert_eq!(one.since, NOW.plus_seconds(1));
        assert!(one.text.starts_with("n3: ") && one.text.contains("config/nodes/n2"), "{one:?}");
        let both = note([edited(), edited()], 2).unwrap();
        assert_eq!(both.since, one.since);
        assert!(both.text.starts_with("n1: "), "{both:?}");
        assert_eq!(note([well(), away()], 3), Some(both), "nothing new is known of n3");
        assert_eq!(note([well(), well()], 4), None);
    }
}
