//! The rules of addresses, which each answer about machines needs for netmasks and gateways. They change
//! once in the life of a cluster, so that they are remembered for a moment: a question to the master costs
//! half of a small answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::ipam::IpamConfig;
use parking_lot::Mutex;

use crate::refusal::Refusal;

/// How long they are remembered: nobody waits for it who changed them elsewhere, and thousands of answers
/// share a question.
const KNOWN_TIME: Duration = Duration::from_secs(1);

/// The rules, if the cluster has some.
pub type Rules = Option<Arc<IpamConfig>>;

/// The rules as they were a moment ago.
#[derive(Debug, Default)]
pub struct KnownRules(Mutex<Option<(Instant, Rules)>>);

impl KnownRules {
    /// The rules that are remembered, or those that `ask` gives.
    ///
    /// # Errors
    /// It gives none.
    pub async fn of(
        &self,
        ask: impl Future<Output = Result<Option<IpamConfig>, Refusal>>,
    ) -> Result<Rules, Refusal> {
        if let Some(rules) = self.fresh() {
            return Ok(rules);
        }
        let begun = Instant::now();
        let rules = ask.await?.map(Arc::new);
        *self.0.lock() = Some((begun, rules.clone()));
        Ok(rules)
    }

    /// Forgets them: they are being changed here.
    pub fn forget(&self) {
        *self.0.lock() = None;
    }

    fn fresh(&self) -> Option<Rules> {
        let known = self.0.lock();
        let (asked, rules) = known.as_ref()?;
        (asked.elapsed() < KNOWN_TIME).then(|| rules.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn they_are_asked_for_once_in_a_moment() {
        let known = KnownRules::default();
        let away = || std::future::ready(Err(Refusal::bad("away")));
        let none = || std::future::ready(Ok(None));
        assert!(known.of(away()).await.is_err());
        assert_eq!(known.of(none()).await.unwrap(), None);
        assert_eq!(known.of(away()).await.unwrap(), None, "they are remembered");
        known.forget();
        assert!(known.of(away()).await.is_err());
        assert_eq!(known.of(none()).await.unwrap(), None);
        let before = Instant::now().checked_sub(KNOWN_TIME).unwrap();
        known.0.lock().as_mut().unwrap().0 = before;
        assert!(known.of(away()).await.is_err(), "their time is over");
    }
}
