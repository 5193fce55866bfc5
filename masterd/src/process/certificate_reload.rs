//! Notices that this machine's agent got another key and certificate, and shows them from then on.
//! Between the two there is no call, so the files are looked at. Serves every connection of `masterd`.

use std::sync::Arc;
use std::time::Duration;

use model::layout::Layout;
use rpc::identity::NodeIdentity;
use stdx::daemon::chain;
use tokio::sync::watch;

/// How often is looked: the master waits some times as long before it goes on without.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Looks again and again whether there is another certificate.
pub(super) async fn run(
    identity: Arc<NodeIdentity>,
    layout: Layout,
    mut stop: watch::Receiver<bool>,
) {
    let mut told = None;
    while tokio::time::timeout(LOOK_AGAIN, stop.wait_for(|stop| *stop)).await.is_err() {
        match stdx::aside(|| identity.refresh(&layout)) {
            Ok(true) => {
                let fingerprint = identity.fingerprint();
                tracing::info!(%fingerprint, "this node has another certificate");
                told = None;
            }
            Ok(false) => told = None,
            // Each once: a node that leaves removes its files, and this process goes on for a while.
            Err(error) => {
                let error = chain(&error);
                if told.as_ref() != Some(&error) {
                    tracing::warn!(error, "the certificate in use may be an old one");
                    told = Some(error);
                }
            }
        }
    }
}
