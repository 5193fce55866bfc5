//! The job queue over this master's configuration: the types of crate `jobs`, by their short names.

use jobs::filter::RuleMap;
use jobs::{Changed, Configuration};

use crate::config::{Config, ConfigChange};

/// The way to make changes durable.
pub type Commits = jobs::commits::Commits<Config>;
/// An engine that leads, and who proposes to it.
pub type Led = jobs::commits::Led<Config>;
pub type OpenEngine = jobs::commits::OpenEngine<Config>;
/// The work that follows when a round is durable.
pub type After = jobs::published::After<Config>;
/// The committed state.
pub type Published = jobs::published::Published<Config>;
/// The committed configuration.
pub type Snapshot = jobs::published::Snapshot<Config>;
/// The way to the writer.
pub type Writer = jobs::writer::Writer<Config>;
/// A request to the writer.
pub type Command = jobs::writer::Command<Config>;
/// The state that the writer works on.
pub type State = jobs::rounds::State<Config>;
/// Takes jobs for the queue.
pub type Submitter = jobs::submitter::Submitter<Config>;
pub type Archive = jobs::archive::Archive<Config>;
/// The decision of a transaction.
pub type Decision<T> = jobs::configuration::Decision<Config, T>;

impl Configuration for Config {
    type Change = ConfigChange;

    fn apply(&mut self, changes: Vec<ConfigChange>) -> Changed {
        Self::apply(self, changes)
    }

    fn running_jobs_max(&self) -> u32 {
        self.cluster.max_running_jobs
    }

    fn filter_rules(&self) -> &RuleMap {
        &self.filters
    }
}
