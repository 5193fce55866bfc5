//! Another key and certificate for this node, while it serves.

use std::sync::Arc;

use parking_lot::Mutex;
use rpc::Failure;
use rpc::calls::{RenewFinish, RenewOffer, SetMachineCertificate};
use rpc::identity::{IdentityError, renewal};
use stdx::daemon::chain;

use super::Agent;

/// The files of the identity are changed by one call at a time, also where the caller of the one
/// before has gone.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn(Arc<Mutex<()>>);

impl Turn {
    /// Does `work` when it is its turn.
    pub(super) fn take<T>(&self, work: impl FnOnce() -> T) -> T {
        let _turn = self.0.lock();
        work()
    }
}

impl Agent {
    /// Makes a key, and tells of it and of what is in use.
    pub(super) async fn renew_begin(&self) -> Result<RenewOffer, Failure> {
        let layout = self.layout.clone();
        let (turn, identity) = (self.renewal.clone(), Arc::clone(&self.identity));
        let begin = move || {
            turn.take(|| {
                let request = renewal::begin(&layout)?;
                // Read under the same turn: what came before is in the files, or void.
                identity.refresh(&layout)?;
                Ok(RenewOffer { fingerprint: identity.fingerprint(), request })
            })
        };
        aside(begin).await
    }

    /// Shows machines another certificate.
    pub(super) async fn machine_certificate(
        &self,
        call: SetMachineCertificate,
    ) -> Result<(), Failure> {
        let (turn, machines) = (self.renewal.clone(), Arc::clone(&self.machines));
        aside(move || turn.take(|| machines.install(call))).await
    }

    /// Goes over to the new certificate.
    pub(super) async fn renew_finish(&self, call: RenewFinish) -> Result<(), Failure> {
        let layout = self.layout.clone();
        let (turn, identity) = (self.renewal.clone(), Arc::clone(&self.identity));
        let finish = move || {
            turn.take(|| {
                renewal::finish(&layout, &call.certificate)?;
                identity.refresh(&layout)
            })
        };
        if aside(finish).await? {
            let fingerprint = self.identity.fingerprint();
            tracing::info!(%fingerprint, "this node has another certificate");
        }
        Ok(())
    }
}

async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IdentityError> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
    done.map_err(|error| Failure::failed(chain(&error)))
}
