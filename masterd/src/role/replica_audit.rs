//! Compares the candidates' copies with the master's files by itself, not only when `gnt cluster verify`
//! asks. The first comparison is soon after the role was taken, since a master reads its own files; more
//! follow a few times a day. A difference is an alarm of the [`watcher`](crate::health::watcher).

mod compare;

use std::sync::Arc;
use std::time::Duration;

use model::{NodeName, Timestamp};
use parking_lot::Mutex;
use stdx::Clock;
use tokio::sync::Notify;

use crate::config::finding::{Finding, Severity};
use crate::config::queue::{Commits, Published, Writer};
use crate::config::reconciler::Reconciler;
use crate::role::replicas::{Compared, check};
use compare::{Onlooker, compare};
use membership::peers::PeerBook;

/// Delay after the role was taken: the work of the first moments is over.
const FIRST: Duration = Duration::from_secs(10);
/// Between two comparisons where all are alike: each reads all files on all candidates.
const LATER: Duration = Duration::from_secs(6 * 3_600);
/// Delay where somebody could not be compared, or nobody was there.
const AWAY: Duration = Duration::from_secs(3_600);
/// Delay where something differs, so that a repair is soon seen.
const DIFFER: Duration = Duration::from_secs(300);

/// The findings of this master's last comparison, whoever asked for it.
#[derive(Debug, Default)]
pub struct Audited {
    found: Mutex<Found>,
    /// Wakes whoever waits for the next comparison.
    noted: Notify,
}

#[derive(Debug, Default)]
struct Found {
    differ: Option<Differ>,
    /// Whether there was somebody to compare with, and all could be.
    whole: bool,
}

/// Copies that are not alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differ {
    /// When that was seen first.
    pub since: Timestamp,
    /// The nodes whose copies differ, the keys, and the remedy.
    pub text: String,
}

impl Audited {
    /// The copies that are not alike, if there are any.
    pub fn differ(&self) -> Option<Differ> {
        self.found.lock().differ.clone()
    }

    /// Notes the outcome of a comparison, at `now`. A copy that could not be compared says nothing.
    pub fn note(&self, master: &NodeName, compared: &[Compared], now: Timestamp) {
        let found = check(master, compared);
        let wrong: Vec<_> =
            found.iter().filter(|finding| finding.severity == Severity::Error).collect();
        let all_told = compared.iter().all(|one| one.outcome.is_ok());
        let mut known = self.found.lock();
        let differ = match (wrong.as_slice(), known.differ.take()) {
            // A copy that differed and is away now may differ still.
            ([], before) => before.filter(|_| !all_told),
            (wrong, before) => {
                let since = before.map_or(now, |before| before.since);
                Some(Differ { since, text: told(wrong) })
            }
        };
        *known = Found { differ, whole: all_told && !compared.is_empty() };
        self.noted.notify_one();
    }

    /// How long until the next comparison.
    fn pause(&self) -> Duration {
        match &*self.found.lock() {
            Found { differ: Some(_), .. } => DIFFER,
            Found { whole: true, .. } => LATER,
            Found { whole: false, .. } => AWAY,
        }
    }

    /// Waits for the next comparison, which is later or sooner once somebody else compared.
    async fn due(&self) {
        while tokio::time::timeout(self.pause(), self.noted.notified()).await.is_ok() {}
    }
}

/// The first finding, and how many others there are.
fn told(wrong: &[&Finding]) -> String {
    let first = wrong.first().map(|Finding { item, text, .. }| format!("{item}: {text}"));
    let more = wrong.len().saturating_sub(1);
    let more = (more > 0).then(|| format!(" (and {more} more: `gnt cluster verify`)"));
    first.unwrap_or_default() + &more.unwrap_or_default()
}

/// Compares the stores of all members with the master's.
#[derive(Debug)]
pub struct ReplicaAudit {
    commits: Arc<Commits>,
    published: Arc<Published>,
    peers: PeerBook,
    clock: Clock,
    audited: Audited,
}

impl ReplicaAudit {
    /// Compares what is committed by `commits`; other members are asked by `peers`.
    pub fn new(
        commits: Arc<Commits>,
        published: Arc<Published>,
        peers: PeerBook,
        clock: Clock,
    ) -> Self {
        Self { commits, published, peers, clock, audited: Audited::default() }
    }

    /// The copies that are not alike, if there are any.
    pub fn differ(&self) -> Option<Differ> {
        self.audited.differ()
    }

    /// Compares now; where the cluster is still, entries that change nothing are made by `writer`.
    pub async fn compare(&self, writer: &Writer) -> Vec<Compared> {
        self.compare_by(writer).await
    }

    async fn compare_by(&self, write: &impl compare::Write) -> Vec<Compared> {
        let Some(engine) = self.commits.engine() else { return Vec::new() };
        let config = self.published.snapshot().config;
        let compared = compare(engine, &config, &self.peers, write).await;
        let now = Timestamp::from_micros(self.clock.now_micros());
        self.audited.note(&config.role.master, &compared, now);
        compared
    }
}

/// Compares again and again, without making an entry, which a cluster that is neither still nor busy
/// may prevent.
#[derive(Debug)]
pub(crate) struct Auditing {
    audit: Arc<ReplicaAudit>,
    begun: bool,
}

impl Auditing {
    /// Has `audit` compare now and then.
    pub(crate) fn new(audit: Arc<ReplicaAudit>) -> Self {
        Self { audit, begun: false }
    }
}

impl Reconciler for Auditing {
    const NAME: &'static str = "replica audit";

    async fn reconcile(&mut self) -> Option<Duration> {
        if !std::mem::replace(&mut self.begun, true) {
            return Some(FIRST);
        }
        self.audit.compare_by(&Onlooker).await;
        self.audit.audited.due().await;
        Some(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use queue_format::digest::Difference;

    use super::*;
    use crate::role::replicas::{Differing, Other};
    use crate::testing::NOW;

    fn compared(node: &str, outcome: Result<Differing, String>) -> Compared {
        Compared { node: node.parse().unwrap(), outcome, is_refused: false }
    }

    fn edited() -> Result<Differing, String> {
        let (key, difference) = ("config/nodes/n2".to_owned(), Difference::Content);
        let judged = vec![Other { key, difference, theirs: Some("1".to_owned()) }];
        let groups = vec!["config".to_owned()];
        Ok(Differing { groups, judged, total: 1, cut_short: false })
    }

    #[test]
    fn what_differs_is_known_until_all_are_alike() {
        let (copies, master) = (Audited::default(), "n1".parse().unwrap());
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

    #[tokio::test(start_paused = true)]
    async fn the_next_comparison_is_sooner_where_something_is_wrong() {
        let (copies, master) = (Audited::default(), "n1".parse().unwrap());
        let due = async |compared: &[Compared], sooner: &[Compared]| {
            copies.note(&master, compared, NOW);
            let begun = tokio::time::Instant::now();
            let mut due = std::pin::pin!(copies.due());
            if !sooner.is_empty() {
                let early = tokio::time::timeout(Duration::from_secs(5), due.as_mut()).await;
                assert!(early.is_err());
                copies.note(&master, sooner, NOW);
            }
            due.await;
            begun.elapsed()
        };
        let well = [compared("n2", Ok(Differing::default()))];
        let differs = [compared("n2", edited())];
        assert_eq!(due(&well, &[]).await, LATER);
        assert_eq!(due(&differs, &[]).await, DIFFER);
        assert_eq!(due(&[compared("n2", Err("away".to_owned()))], &[]).await, DIFFER);
        assert_eq!(due(&[], &[]).await, AWAY);
        // Somebody else finds it meanwhile.
        let after = Duration::from_secs(5);
        assert_eq!(due(&well, &differs).await, after + DIFFER);
        assert_eq!(due(&differs, &well).await, after + LATER);
    }
}
