//! The rules of addresses, which each answer about machines needs for netmasks and gateways. They change
//! once in the life of a cluster, so that they are remembered for a moment: a question to the master costs
//! half of a small answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use luxi::method::GantryIpam;
use model::ipam::IpamConfig;
use parking_lot::Mutex;

use crate::asked::Asked;
use crate::refusal::Refusal;

/// How long they are remembered: nobody waits for it who changed them elsewhere, and thousands of answers
/// share a question.
const KNOWN_TIME: Duration = Duration::from_secs(1);

/// The rules; none inside where the cluster has none.
type Rules = Option<Arc<IpamConfig>>;

/// The rules as they were a moment ago.
#[derive(Debug, Default)]
pub struct KnownRules(Mutex<Option<(Instant, Rules)>>);

impl KnownRules {
    /// Forgets them: they are being changed here.
    pub(super) fn forget(&self) {
        *self.0.lock() = None;
    }

    fn fresh(&self) -> Option<Rules> {
        let known = self.0.lock();
        let (asked, rules) = known.as_ref()?;
        (asked.elapsed() < KNOWN_TIME).then(|| rules.clone())
    }
}

/// The rules of the cluster.
pub(super) async fn rules(asked: &Asked) -> Result<Rules, Refusal> {
    let known = &asked.front.rules;
    if let Some(rules) = known.fresh() {
        return Ok(rules);
    }
    let begun = Instant::now();
    let rules = asked.ask(GantryIpam {}).await?.map(Arc::new);
    *known.0.lock() = Some((begun, rules.clone()));
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_remembered_for_a_moment() {
        let known = KnownRules::default();
        assert!(known.fresh().is_none());
        *known.0.lock() = Some((Instant::now(), None));
        assert_eq!(known.fresh(), Some(None));
        let before = Instant::now().checked_sub(KNOWN_TIME).unwrap();
        *known.0.lock() = Some((before, None));
        assert!(known.fresh().is_none());
        *known.0.lock() = Some((Instant::now(), None));
        known.forget();
        assert!(known.fresh().is_none());
    }
}
