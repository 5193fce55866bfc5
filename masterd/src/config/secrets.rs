//! One-time secrets of nodes that are about to be added. They reach the master beside the job,
//! never in it, and live in memory only.

use std::collections::HashMap;
use std::time::Duration;

use model::NodeName;
use model::enrol::EnrolSecret;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a secret waits for its job: time enough for the job to wait behind others.
const KEPT_FOR: Duration = Duration::from_secs(3_600);
/// Secrets that wait at the same time; more than anybody adds nodes at once.
const STAGED_MAX: usize = 1_000;

/// Secrets by the name of the node that they belong to.
#[derive(Debug, Default)]
pub struct StagedSecrets(Mutex<HashMap<NodeName, (EnrolSecret, Instant)>>);

/// There are as many secrets waiting as may.
#[derive(Debug, thiserror::Error)]
#[error("{STAGED_MAX} one-time secrets wait for their jobs already")]
pub struct TooMany;

impl StagedSecrets {
    /// Keeps a secret for the job that will ask for it; a later one replaces it.
    ///
    /// # Errors
    /// Too many secrets wait.
    pub fn stage(&self, node: NodeName, secret: EnrolSecret) -> Result<(), TooMany> {
        let mut staged = self.0.lock();
        let now = Instant::now();
        staged.retain(|_, (_, until)| *until > now);
        if staged.len() >= STAGED_MAX {
            return Err(TooMany);
        }
        staged.insert(node, (secret, now + KEPT_FOR));
        Ok(())
    }

    /// Whether a secret waits for a node.
    pub fn has(&self, node: &NodeName) -> bool {
        self.0.lock().get(node).is_some_and(|(_, until)| *until > Instant::now())
    }

    /// The secret of a node, if one waits; it is gone then.
    pub fn take(&self, node: &NodeName) -> Option<EnrolSecret> {
        let (secret, until) = self.0.lock().remove(node)?;
        (until > Instant::now()).then_some(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn used_once_and_not_for_ever() {
        let secrets = StagedSecrets::default();
        let node: NodeName = "n1".parse().unwrap();
        secrets.stage(node.clone(), model::Secret::new([1; 16])).unwrap();
        assert!(secrets.has(&node));
        assert_eq!(secrets.take(&node).unwrap().expose(), &[1; 16]);
        assert!(!secrets.has(&node) && secrets.take(&node).is_none());
        secrets.stage(node.clone(), model::Secret::new([2; 16])).unwrap();
        tokio::time::advance(KEPT_FOR).await;
        assert!(secrets.take(&node).is_none());
    }
}
