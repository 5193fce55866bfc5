//! Core: somebody who asks for a change, and from where, as jobs and the audit log name it.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::{NodeName, Word};

crate::words! {
    /// The way by which a request came.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Interface {
        /// The socket of `masterd`.
        Luxi = "luxi",
        /// Its socket for queries.
        Query = "query",
        /// The front door.
        Rest = "rest",
        /// None: the cluster did it by itself.
        Cluster = "cluster",
    }
}

/// Somebody who asks for something, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asker {
    /// A user of the host or of the front door, or `machine SERIAL`.
    pub user: Arc<str>,
    /// The way.
    pub interface: Interface,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<NodeName>,
    /// The address of the client, of a front door.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The tenant as which it asks, if its role is that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Word>,
}

impl Asker {
    /// The cluster itself.
    pub fn cluster() -> Self {
        let user = Arc::from("cluster");
        Self { user, interface: Interface::Cluster, host: None, address: None, tenant: None }
    }
}
