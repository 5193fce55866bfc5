//! The state that routes share, and the facts of a request that are known before it comes to a route.

use std::net::SocketAddr;
use std::sync::Arc;

use ironic::Door;
use model::access::Principal;
use model::layout::Layout;

use crate::access_log::AccessLog;
use crate::authenticate::Authenticator;
use crate::denied::Refusals;
use crate::master_pool::MasterPool;
use crate::meters::Meters;
use crate::rules::KnownRules;
use crate::shares::Shares;

/// Everything that routes need.
#[derive(Debug)]
pub struct Front {
    /// The way to the master.
    pub link: Arc<MasterPool>,
    /// Tells who asks.
    pub authenticator: Authenticator,
    /// The paths of the spool of uploads and of the agent's files.
    pub layout: Layout,
    /// The resources that clients share.
    pub shares: Shares,
    /// The log of requests.
    pub access_log: AccessLog,
    /// Refused requests, until the master knows of them.
    pub refusals: Refusals,
    /// The counters.
    pub meters: Meters,
    /// The form in which machines are shown.
    pub compatibility: Compatibility,
    /// The rules of addresses, remembered.
    pub rules: KnownRules,
    /// Whether a machine has the keys of its disks without a password, by its address.
    pub machines_by_address: bool,
    /// Whether ramdisks are answered.
    pub ramdisk_endpoints: bool,
    /// The door for requests of ramdisks.
    pub ramdisks: Door,
    /// The port that is served by TLS.
    pub tls_port: u16,
}

/// The address that a connection comes from.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// Marks a request that came without TLS, to the listener on loopback.
#[derive(Debug, Clone, Copy)]
pub struct PlainHttp;

/// The principal that asks, for routes.
#[derive(Debug, Clone)]
pub struct Asker(pub Principal);

/// The path for queries in GraphQL, as in sabakan.
pub const GRAPHQL: &str = "/graphql";

/// Which of the interfaces a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Ganeti's remote API.
    Ganeti,
    /// sabakan's REST API.
    Sabakan,
    /// Ironic's, as far as agents in ramdisks use it.
    Ironic,
}

impl Form {
    /// The form of the interface that a path belongs to.
    pub fn of(path: &str) -> Self {
        if path.starts_with("/api/") || path == GRAPHQL {
            Self::Sabakan
        } else if path == "/v1" || path.starts_with("/v1/") {
            Self::Ironic
        } else {
            Self::Ganeti
        }
    }
}

/// The form in which machines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Compatibility {
    /// Today's sabakan: `spec`, and `info` with netmasks and gateways.
    #[default]
    Today,
    /// The specification of 2018: one flat object.
    Document,
}
