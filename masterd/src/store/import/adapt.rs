//! Core: what becomes of the documents of an export on the machine where it is imported.

use std::collections::BTreeMap;

use bytes::Bytes;
use jobs::recover::give_up;
use jobs::rounds::round::job_file;
use jobs::stored;
use model::cluster::{Cluster, Role};
use model::node::{Node, NodeRole};
use model::{NodeName, NotMeant, Secret, Timestamp, document};
use queue_format::{Epoch, Key};

use crate::store::export::manifest::Manifest;
use membership::forced_takeover::TERM_STEP;

/// Distances by which an import raises numbers that must never be used twice. Each exceeds what
/// overrides after the export can have added. Each grows with time, since the same file may be imported
/// twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// To the term: ten overrides, and one a minute since 1970, of which the last fifteen years count,
    /// so that it stays among those that make sense.
    pub term: u64,
    /// To the ids of nodes and members: one a second since 1970.
    pub node_id: u64,
    /// To the ids of jobs: a thousand a second since 1970.
    pub job_id: u64,
}

impl Steps {
    /// Those of an import at the time `now`.
    pub fn at(now: Timestamp) -> Self {
        const MINUTES_MAX: u64 = 8 * TERM_STEP;
        let seconds = u64::try_from(now.seconds()).unwrap_or_default();
        Self {
            term: 10 * TERM_STEP + seconds / 60 % MINUTES_MAX,
            node_id: seconds,
            job_id: seconds.saturating_mul(1_000),
        }
    }
}

/// An export whose documents cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// A document does not read.
    #[error("`{key}` in the export cannot be used ({why}); take another export")]
    Document {
        key: String,
        /// The fault.
        why: String,
    },
    /// A document is missing.
    #[error("there is no `{0}` in the export; take another one")]
    Missing(&'static str),
    /// The documents are of another cluster than the export says.
    #[error(
        "the export says that it is of the cluster {told}, and holds {found}; take another one"
    )]
    OtherCluster {
        /// The UUID of its manifest.
        told: String,
        /// The UUID of its documents.
        found: String,
    },
    /// This machine is none of the cluster's nodes.
    #[error(
        "the cluster has no node {name}; say with `--node-name` which of its nodes this machine is \
         from now on: {nodes}"
    )]
    NoNode {
        /// The name that it should have.
        name: NodeName,
        /// The first of those who it could be.
        nodes: String,
    },
    /// It is not told which of its nodes this machine is.
    #[error("several nodes of the cluster begin with {0}: give `--node-name` in full")]
    Ambiguous(NodeName),
    /// The node that it is cannot be master.
    #[error(
        "the node {0} must not be master (`--master-capable no`); choose another one by `--node-name`"
    )]
    Incapable(NodeName),
    /// The node that it is only votes.
    #[error(
        "the node {0} is a witness, which is never master; choose another one by `--node-name`"
    )]
    Witness(NodeName),
}

/// Nodes that a message names.
const NAMED_MAX: usize = 10;

/// The parts of an export that an import has to know.
#[derive(Debug, Default)]
pub struct Gathered {
    cluster: Option<Cluster>,
    role: Option<Role>,
    nodes: BTreeMap<NodeName, Node>,
    has_queue: bool,
    /// The key of the authority, if it is in there.
    pub authority: Option<Secret<String>>,
    /// How many documents there are.
    pub documents: u64,
    /// Jobs that had not ended.
    pub unfinished: u64,
}

impl Gathered {
    /// Takes in a document, and checks it.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn take(&mut self, key: &Key, content: &[u8]) -> Result<(), Unfit> {
        self.documents += 1;
        match key.as_str() {
            document::CLUSTER => self.cluster = Some(parse(key, content)?),
            document::ROLE => self.role = Some(parse(key, content)?),
            document::AUTHORITY => {
                let text = String::from_utf8(content.to_vec());
                // The error would repeat the key.
                let text = text.map_err(|_secret| unfit(key, "it is no text"))?;
                self.authority = Some(Secret::new(text));
            }
            document::QUEUE_VERSION if content != document::QUEUE_FORMAT.as_bytes() => {
                return Err(unfit(key, "the queue has another format"));
            }
            document::QUEUE_VERSION => self.has_queue = true,
            name if is_node(name) => {
                let node: Node = parse(key, content)?;
                self.nodes.insert(node.name.clone(), node);
            }
            name => {
                if let Some(id) = stored::job_of(name) {
                    let job = stored::read(id, content);
                    let job = job.map_err(|error| unfit(key, &error.to_string()))?;
                    self.unfinished += u64::from(!job.status().is_final());
                }
            }
        }
        Ok(())
    }

    /// The node that is meant by the first part of its name; the name as it is where there is none.
    ///
    /// # Errors
    /// Several are.
    pub fn in_full(&self, name: &NodeName) -> Result<NodeName, Unfit> {
        match name.meant(self.nodes.keys()) {
            Ok(meant) => Ok(meant.clone()),
            Err(NotMeant::Unknown) => Ok(name.clone()),
            Err(NotMeant::Several) => Err(Unfit::Ambiguous(name.clone())),
        }
    }

    /// The plan for a store where this machine is the node `me`, which obeyed `known` so far.
    ///
    /// # Errors
    /// Something is missing, or there is no such node.
    pub fn plan(
        &self,
        manifest: &Manifest,
        me: &NodeName,
        known: Option<Epoch>,
        now: Timestamp,
    ) -> Result<Plan, Unfit> {
        let mut cluster = self.cluster.clone().ok_or(Unfit::Missing(document::CLUSTER))?;
        let role = self.role.clone().ok_or(Unfit::Missing(document::ROLE))?;
        if !self.has_queue {
            return Err(Unfit::Missing(document::QUEUE_VERSION));
        }
        let told = manifest.cluster_uuid.to_string();
        if cluster.uuid != told {
            return Err(Unfit::OtherCluster { told, found: cluster.uuid });
        }
        let mut node = self.nodes.get(me).cloned().ok_or_else(|| {
            let names: Vec<&str> = self.nodes.keys().map(NodeName::as_str).collect();
            let mut nodes = names[..names.len().min(NAMED_MAX)].join(", ");
            if let Some(more) = names.len().checked_sub(NAMED_MAX + 1) {
                nodes.push_str(&format!(" and {} more", more + 1));
            }
            Unfit::NoNode { name: me.clone(), nodes }
        })?;
        if !node.may_be_master() {
            let why = if node.witness { Unfit::Witness } else { Unfit::Incapable };
            return Err(why(me.clone()));
        }
        (node.role, node.member, node.mtime) = (NodeRole::Candidate, None, now);
        node.serial_no += 1;
        // The cluster went on after the export, and what it gave out then must never be given again.
        let steps = Steps::at(now);
        cluster.next_node_id = cluster.next_node_id.saturating_add(steps.node_id);
        let terms = [role.term, manifest.position.epoch.term, known.unwrap_or_default().term];
        let term = terms.into_iter().max().unwrap_or_default().saturating_add(steps.term);
        cluster.first_term = term;
        let role = Role { master: me.clone(), term, node: node.id, since: now };
        let others = self.nodes.keys().filter(|name| *name != me).count();
        Ok(Plan { cluster, role, node, others, now })
    }
}

/// The plan for a new store.
#[derive(Debug, Clone)]
pub struct Plan {
    pub cluster: Cluster,
    /// The role, with this machine as master.
    pub role: Role,
    /// This machine; the certificate is that of the export.
    pub node: Node,
    /// How many other nodes there are.
    pub others: usize,
    now: Timestamp,
}

impl Plan {
    /// The first epoch of the new store.
    pub fn epoch(&self) -> Epoch {
        Epoch { term: self.role.term, node: self.role.node }
    }

    /// The new form of a document of the export; none if it is among [`Plan::last`].
    ///
    /// # Errors
    /// It cannot be used.
    pub fn adapt(&self, key: &Key, content: Bytes) -> Result<Option<Bytes>, Unfit> {
        match key.as_str() {
            document::CLUSTER | document::ROLE | document::AUTHORITY => Ok(None),
            document::QUEUE_SERIAL => {
                let last: u64 = parse(key, &content)?;
                Ok(Some(json(&last.saturating_add(Steps::at(self.now).job_id))))
            }
            name if is_node(name) => {
                let mut node: Node = parse(key, &content)?;
                if node.name == self.node.name {
                    return Ok(None);
                }
                // Nobody is called or invited before an operator says that it is there: what it
                // holds may be newer than the export.
                (node.role, node.member, node.mtime) = (NodeRole::Offline, None, self.now);
                node.serial_no += 1;
                Ok(Some(json(&node)))
            }
            name => {
                let Some(id) = stored::job_of(name) else { return Ok(Some(content)) };
                let job = stored::read(id, &content);
                let job = job.map_err(|error| unfit(key, &error.to_string()))?;
                Ok(Some(give_up(&job, self.now).map_or(content, |job| job_file(&job))))
            }
        }
    }

    /// The documents that are written last, and make a cluster of the store.
    pub fn last(&self, authority: &Secret<String>) -> Vec<(String, Bytes)> {
        vec![
            (document::AUTHORITY.to_owned(), Bytes::from(authority.expose().clone())),
            (document::node(&self.node.name), json(&self.node)),
            (document::ROLE.to_owned(), json(&self.role)),
            (document::CLUSTER.to_owned(), json(&self.cluster)),
        ]
    }
}

fn is_node(key: &str) -> bool {
    key.strip_prefix(document::NODES).is_some_and(|rest| rest.starts_with('/'))
}

fn unfit(key: &Key, why: &str) -> Unfit {
    Unfit::Document { key: key.to_string(), why: why.to_owned() }
}

fn parse<T: serde::de::DeserializeOwned>(key: &Key, content: &[u8]) -> Result<T, Unfit> {
    serde_json::from_slice(content).map_err(|error| unfit(key, &error.to_string()))
}

fn json(value: &impl serde::Serialize) -> Bytes {
    let mut text = serde_json::to_vec(value).expect("documents have plain keys");
    text.push(b'\n');
    text.into()
}
