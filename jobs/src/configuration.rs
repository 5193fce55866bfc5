//! What the queue knows of the configuration: it has changes applied to it, in one commit with the
//! jobs that make them, and it holds two settings of the queue.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use model::Exception;
use serde::Serialize;

use crate::filter::RuleMap;

/// A document to write; without content, to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its key.
    pub key: String,
    /// What it holds from now on.
    pub content: Option<Bytes>,
}

impl Document {
    /// Writes an object of the configuration.
    pub fn put(key: impl Into<String>, value: &impl Serialize) -> Self {
        let mut content =
            serde_json::to_vec(value).expect("objects of the configuration have plain keys");
        content.push(b'\n');
        Self { key: key.into(), content: Some(content.into()) }
    }

    /// Deletes an object.
    #[must_use]
    pub fn delete(key: String) -> Self {
        Self { key, content: None }
    }
}

/// Every object of the cluster but the jobs. Cheap to clone: a clone is made for each transaction.
pub trait Configuration: Clone + Debug + Send + Sync + 'static {
    /// One object that is set or taken away.
    type Change: Debug + Send + 'static;

    /// Applies a change: adds what must be written to `documents`, and the racks whose documents may
    /// differ afterwards to `racks`.
    fn apply(
        &mut self,
        change: Self::Change,
        documents: &mut Vec<Document>,
        racks: &mut BTreeSet<u32>,
    );

    /// How many jobs may call agents at once.
    fn running_jobs_max(&self) -> u32;

    /// The filter rules of the queue. Shared: another reference means that they changed.
    fn filter_rules(&self) -> &Arc<RuleMap>;
}

/// What a transaction decides, given the newest configuration and the last job id that was given
/// out: the changes, and a value for the transaction's owner.
pub type Decision<C, T> = Result<(Vec<<C as Configuration>::Change>, T), Exception>;
