//! Management controllers of machines (BMC): power, one boot from the network, health, inventory.
//!
//! One seam, [`Controller`], with two languages behind it: Redfish over HTTPS and
//! IPMI by `ipmitool`. It knows nothing of jobs, of the master or of the vault.
//!
//! A controller is slow, forgetful, and lies. It is believed only as far as it can be checked. An action
//! has happened when the power has been *seen* to be as it should, within its time. A change is made
//! when the controller shows it. An answer is bounded before it is read. The controller must be that of
//! the machine that is meant, as far as it tells. One odd answer means nothing: a look that failed is
//! "not yet", and what could not be read is not taken for what is not there.

mod answer;
mod blank;
mod controller;
mod error;
mod http_client;
mod ipmi;
mod power;
mod probe;
mod redfish;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated;
mod target;
mod times;
mod trust;

pub use controller::Session;
pub use error::BmcError;
pub use target::{Controller, Expected, Login};
pub use times::Times;
