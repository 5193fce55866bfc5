//! The seam between a session and the kinds of switches.

use std::future::Future;

use model::switch::{Actuals, PortChange, PortOutcome};

use crate::SwitchError;

/// A switch of some kind. Nobody else talks to the switch meanwhile.
pub(crate) trait Provider: Send + 'static {
    /// Connects anew, whatever there was before.
    fn connect(&mut self) -> impl Future<Output = Result<(), SwitchError>> + Send;

    /// All its ports.
    fn ports(&mut self) -> impl Future<Output = Result<Actuals, SwitchError>> + Send;

    /// Makes changes to different ports, all in one where the switch can: an outcome for each. After an
    /// error nobody knows which of them were made.
    fn apply(
        &mut self,
        changes: &[PortChange],
    ) -> impl Future<Output = Result<Vec<PortOutcome>, SwitchError>> + Send;

    /// Waits until ports may have changed. It may be dropped wherever it waits.
    fn changed(&mut self) -> impl Future<Output = Result<(), SwitchError>> + Send;
}
