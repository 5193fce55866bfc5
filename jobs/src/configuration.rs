//! The configuration as the queue knows it. Changes are applied to it in one commit with the jobs that
//! make them. It holds two settings of the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use bytes::Bytes;
use model::Exception;

use crate::filter::RuleMap;

/// Documents by key with their new contents; `None` deletes one.
pub type Documents = BTreeMap<String, Option<Bytes>>;

/// The effects of a list of changes.
#[derive(Debug, Default)]
pub struct Changed {
    /// Documents to write.
    pub documents: Documents,
    /// The racks whose documents may differ.
    pub racks: BTreeSet<u32>,
}

/// Every object of the cluster but the jobs. Cheap to clone: a clone is made for each transaction.
pub trait Configuration: Clone + Debug + Send + Sync + 'static {
    /// One object that is set or taken away.
    type Change: Debug + Send + 'static;

    /// Applies changes in their order.
    fn apply(&mut self, changes: Vec<Self::Change>) -> Changed;

    /// How many jobs may call agents at once.
    fn running_jobs_max(&self) -> u32;

    /// The filter rules of the queue.
    fn filter_rules(&self) -> &RuleMap;
}

/// The decision of a transaction: the changes, and a value for its owner. The transaction gets the
/// newest configuration and the last job id that was given out.
pub type Decision<C, T> = Result<(Vec<<C as Configuration>::Change>, T), Exception>;
