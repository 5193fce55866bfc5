//! Instances chosen by name, by their nodes, or all of them; and one job for each.

use clap::Args;
use luxi::method::{Query, What};
use luxi::query::Filter;
use model::OpCode;
use serde_json::Value;

use crate::error::CliError;
use crate::output::warn;
use crate::session::{Session, confirm};
use crate::several::each;
use crate::submit::JobArguments;

/// Which instances.
#[derive(Debug, Args)]
pub(crate) struct ChosenArguments {
    /// Their names; with an option below, what that says.
    names: Vec<String>,
    /// All instances of the cluster.
    #[arg(long, group = "choice")]
    all: bool,
    /// The names are those of instances.
    #[arg(long, group = "choice")]
    instance: bool,
    /// The names are those of nodes: the instances that run there.
    #[arg(long, visible_alias = "node", group = "choice")]
    primary: bool,
    /// The names are those of nodes: the instances that have a copy of their disks there.
    #[arg(long, group = "choice")]
    secondary: bool,
    /// The names are tags: the instances that have one of them.
    #[arg(long, group = "choice")]
    tags: bool,
    /// Do not ask, also where there are several.
    #[arg(long, visible_alias = "yes")]
    force_multiple: bool,
}

impl ChosenArguments {
    /// The instances that are meant.
    fn names(&self, session: &Session) -> Result<Vec<String>, CliError> {
        let by = |field: &str| Some(Filter::any_of(field, self.names.iter().map(String::as_str)));
        let has = |field: &str| {
            let one = |name: &String| Filter::Contains(field.to_owned(), name.as_str().into());
            Some(Filter::Or(self.names.iter().map(one).collect()))
        };
        let filter = match (self.all, self.primary, self.secondary, self.tags) {
            (true, ..) if !self.names.is_empty() => {
                return Err(CliError::Usage("--all takes no names".to_owned()));
            }
            (true, ..) => None,
            (_, true, ..) => by("pnode"),
            (_, _, true, _) => has("snodes"),
            (_, _, _, true) => has("tags"),
            (false, false, false, false) if self.names.is_empty() => {
                return Err(CliError::Usage("name the instances, or give --all".to_owned()));
            }
            (false, false, false, false) => return Ok(self.names.clone()),
        };
        let fields = ["name"].into_iter().collect();
        let table = session.ask(&Query { what: What::Instance, fields, filter })?;
        let names = table.data.into_iter().filter_map(|row| {
            row.into_iter().next()?.value().and_then(Value::as_str).map(str::to_owned)
        });
        Ok(names.collect())
    }

    /// Carries something out with each of them, and waits for all.
    pub(crate) fn run(
        &self,
        verb: &str,
        op: impl Fn(String) -> OpCode,
        job: &JobArguments,
        session: &Session,
    ) -> Result<(), CliError> {
        let names = self.names(session)?;
        if let [name] = names.as_slice() {
            return job.run(op(name.clone()), session).map(drop);
        }
        if names.is_empty() {
            return warn("No instances were chosen.");
        }
        if !self.is_by_name() || names.len() > 1 {
            let question = format!(
                "The {verb} will operate on {} instances: {}. Continue?",
                names.len(),
                names.join(", ")
            );
            confirm(&question, self.force_multiple || job.dry_run)?;
        }
        each(&names, |name| op(name.clone()), job, session)
    }

    fn is_by_name(&self) -> bool {
        !(self.all || self.primary || self.secondary || self.tags)
    }
}
