//! What routes share, and what is known of a request before it comes to one.

use std::net::SocketAddr;
use std::sync::Arc;

use ironic::Door;
use model::access::Principal;
use model::layout::Layout;

use crate::access_log::AccessLog;
use crate::attempt::Refusals;
use crate::authenticate::Authenticator;
use crate::link::Link;
use crate::meters::Meters;
use crate::rules::KnownRules;
use crate::shares::Shares;

/// Everything that routes need.
#[derive(Debug)]
pub struct Front {
    /// The way to the master.
    pub link: Arc<Link>,
    /// Tells who asks.
    pub authenticator: Authenticator,
    /// Where the spool of uploads is, and the files of the agent.
    pub layout: Layout,
    /// What clients share.
    pub shares: Shares,
    /// Where requests are logged.
    pub access_log: AccessLog,
    /// What was refused, until the master knows.
    pub refusals: Refusals,
    /// What is counted.
    pub meters: Meters,
    /// Whose form machines are shown in.
    pub compatibility: Compatibility,
    /// The rules of addresses, remembered.
    pub rules: KnownRules,
    /// Whether a machine has the keys of its disks without a password, by its address.
    pub machines_by_address: bool,
    /// Whether ramdisks are answered.
    pub ramdisk_endpoints: bool,
    /// Where requests of ramdisks are taken in.
    pub ramdisks: Door,
    /// The port that is served by TLS.
    pub tls_port: u16,
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// That a request came without TLS, to the listener on loopback.
#[derive(Debug, Clone, Copy)]
pub struct PlainHttp;

/// Who asks, for routes.
#[derive(Debug, Clone)]
pub struct Asker(pub Principal);

/// Where questions in GraphQL are answered, as by sabakan.
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
    /// That of a path.
    #[must_use]
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

/// Whose form machines are shown in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Compatibility {
    /// Today's sabakan: `spec`, and `info` with netmasks and gateways.
    #[default]
    Today,
    /// The specification of 2018: one flat object.
    Document,
}
