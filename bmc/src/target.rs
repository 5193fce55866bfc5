//! A controller: where it is, what it may show, by which it knows us.

use model::Uuid;
use model::bmc::{BmcPrivilege, BmcTrust, BmcUrl};
use model::secret::Secret;

use crate::times::Times;

/// By which a controller knows us.
#[derive(Debug, Clone)]
pub struct Login {
    pub user: String,
    pub password: Secret<String>,
}

/// The machine that is meant; a controller that tells to belong to another one is not obeyed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// Its serial number.
    pub serial: Option<String>,
    /// Its system UUID.
    pub uuid: Option<Uuid>,
}

/// A management controller. It takes one session at a time: callers hold the lock of its machine.
#[derive(Debug, Clone)]
pub struct Controller {
    /// The URL at which it is reached.
    pub url: BmcUrl,
    /// Which certificate it may show.
    pub trust: BmcTrust,
    /// By which it knows us.
    pub login: Login,
    /// The level at which that user acts, where IPMI asks for one; none for that of an administrator.
    pub privilege: Option<BmcPrivilege>,
    /// The machine that is meant.
    pub expected: Expected,
    /// How long it may take.
    pub times: Times,
}
