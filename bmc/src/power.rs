//! What both languages can do with the power of a machine.

use model::bmc::{PowerAction, PowerState};

use crate::error::BmcError;

/// A driver: what both languages can do with the power of one machine.
pub(crate) trait Power {
    /// How it is.
    async fn state(&mut self) -> Result<PowerState, BmcError>;
    /// Asks for one of on, off and soft off.
    async fn ask(&mut self, action: PowerAction) -> Result<(), BmcError>;
}
