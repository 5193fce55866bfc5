//! Core: parameters and replies of the calls that a node answers which waits to be enrolled.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use model::enrol::{EnrolSecret, TokenError, parse_secret, secret_text};
use model::{NodeName, Secret, Timestamp};

use crate::calls::node::AllowList;
use crate::wire::Versions;
use queue_format::Epoch;

/// The one-time secret on its way through TLS to the node that made it. The only form in which it
/// can be serialised; `Debug` still hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WireSecret(pub EnrolSecret);

impl fmt::Debug for WireSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for WireSecret {
    type Error = TokenError;

    fn try_from(text: String) -> Result<Self, TokenError> {
        // The copy in `text` is dropped here; what it was read from is dropped with the body.
        parse_secret(Secret::new(text).expose()).map(Self)
    }
}

impl From<WireSecret> for String {
    fn from(secret: WireSecret) -> Self {
        secret_text(&secret.0).expose().clone()
    }
}

/// Parameters of `enrol_begin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolBegin {
    /// Proof that the caller was shown the token.
    pub secret: WireSecret,
}

/// The offer of a new node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolOffer {
    /// The name that it would like to have.
    pub hostname: String,
    /// Whether an operator gave it that name: then it takes no other one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
    /// Version of its software.
    pub software: String,
    /// Versions of the protocol that it understands.
    pub protocol: Versions,
    /// Certificate request, PEM; proves that the node holds the key.
    pub request: String,
    /// The node that the machine is already, where it waits to be taken back as that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<WasNode>,
    /// Proof that the sender of the request knows the token of a machine, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<WireSecret>,
}

impl EnrolOffer {
    /// Whether the machine may become `node`.
    ///
    /// # Errors
    /// An operator gave the machine another name.
    pub fn may_be_called(&self, node: &NodeName) -> Result<(), String> {
        if !self.named || self.hostname.eq_ignore_ascii_case(node.as_str()) {
            return Ok(());
        }
        let name = &self.hostname;
        Err(format!(
            "the new machine waits as `{name}` (`noded enroll --name {name}`), not as `{node}`: give \
             `gnt node add` that name, or run `noded enroll --name {node}` there"
        ))
    }

    /// Whether `node` is the machine's own name, or one of the two begins the other.
    pub fn is_called(&self, node: &NodeName) -> bool {
        let begins = |long: &str, short: &str| {
            long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let (own, node) = (self.hostname.to_ascii_lowercase(), node.as_str());
        begins(&own, node) || begins(node, &own)
    }
}

/// A node of a cluster, as a machine says that it is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasNode {
    /// Identity of the cluster.
    pub cluster_uuid: Uuid,
    pub cluster_name: NodeName,
    /// The node's name.
    pub node: NodeName,
}

impl WasNode {
    /// The node that `membership` describes.
    pub fn of(membership: &Membership) -> Self {
        let Membership { cluster_uuid, cluster_name, node, .. } = membership;
        Self { cluster_uuid: *cluster_uuid, cluster_name: cluster_name.clone(), node: node.clone() }
    }

    /// Whether it may become `meant`: nothing else than what it is.
    ///
    /// # Errors
    /// What it is, and what to do.
    pub fn may_be(&self, meant: &Self) -> Result<(), String> {
        if (self.cluster_uuid, &self.node) == (meant.cluster_uuid, &meant.node) {
            return Ok(());
        }
        Err(format!(
            "this machine waits to be taken back as {self}, not to become {meant}. If that is meant: end \
             `noded enroll` there, `gnt node remove {}` in its cluster, if that lives still, then remove \
             what the machine has in /etc/gantry/pki and /var/lib/gantry, and run `noded enroll` without \
             `--again`",
            self.node
        ))
    }
}

impl fmt::Display for WasNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} of cluster {} ({})", self.node, self.cluster_name, self.cluster_uuid)
    }
}

/// Parameters of `enrol_finish`: all that a node must know to be one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolFinish {
    /// Proof that the caller was shown the token.
    pub secret: WireSecret,
    /// The node's certificate, PEM.
    pub certificate: String,
    /// The cluster's authority, PEM.
    pub authority: String,
    /// The node's membership from now on.
    pub membership: Membership,
}

/// The membership of a node: the file `membership.json` beside its certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Identity of the cluster.
    pub cluster_uuid: Uuid,
    pub cluster_name: NodeName,
    /// The node's name.
    pub node: NodeName,
    /// The node's id.
    pub node_id: u64,
    /// The allowed callers until the first `allow_list`.
    pub allow: AllowList,
    /// The epoch that is obeyed from the start.
    pub epoch: Epoch,
    /// When it was enrolled, which tells one enrolment from another; 1970 where the software of
    /// then did not say.
    #[serde(default)]
    pub enrolled: Timestamp,
}
