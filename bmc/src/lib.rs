//! Management controllers of machines (BMC): power, one boot from the network, health, inventory.
//!
//! One seam, [`Controller`], with two languages behind it: Redfish over HTTPS and
//! IPMI by `ipmitool`. It knows nothing of jobs, of the master or of the vault.
//!
//! A controller is believed only as far as it can be checked: an action has happened when the power has
//! been *seen* to be as it should, within its time; what it answers is bounded before it is read; and it
//! must be that of the machine that is meant, as far as it tells.
#![warn(missing_docs)]

mod controller;
mod error;
mod http_client;
mod ipmi;
mod power;
mod redfish;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated;
mod target;
mod times;
mod trust;

pub use error::BmcError;
pub use target::{Controller, Expected, Login};
pub use times::Times;
