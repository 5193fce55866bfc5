//! `list-tags`, `add-tags` and `remove-tags` of every kind of object that has tags.

use std::path::PathBuf;

use clap::Args;
use luxi::method::QueryTags;
use serde_json::json;

use crate::error::CliError;
use crate::output::say;
use crate::session::{Session, read_input};
use crate::submit::{JobArguments, opcode};

/// The kinds of object that have tags, in the master's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tagged {
    /// The cluster itself, which needs no name.
    Cluster,
    /// A node.
    Node,
    /// A node group.
    Group,
    /// A network.
    Network,
    /// An instance.
    Instance,
}

impl Tagged {
    const fn kind(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Node => "node",
            Self::Group => "nodegroup",
            Self::Network => "network",
            Self::Instance => "instance",
        }
    }
}

/// Arguments of `add-tags` and `remove-tags` of the cluster.
#[derive(Debug, Args)]
pub(crate) struct ClusterTagsArguments {
    /// The tags.
    tags: Vec<String>,
    #[command(flatten)]
    source: Source,
}

/// Arguments of `add-tags` and `remove-tags` of what has a name.
#[derive(Debug, Args)]
pub(crate) struct TagsArguments {
    /// Its name.
    name: String,
    /// The tags.
    tags: Vec<String>,
    #[command(flatten)]
    source: Source,
}

#[derive(Debug, Args)]
struct Source {
    /// A file with further tags, one a line; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    job: JobArguments,
}

/// Prints the tags of one object, sorted.
pub(crate) fn list(what: Tagged, name: &str, session: &Session) -> Result<(), CliError> {
    let call = QueryTags { kind: what.kind().to_owned(), name: Some(name.to_owned()) };
    let mut tags = session.ask(&call)?;
    tags.sort();
    tags.iter().try_for_each(say)
}

impl From<ClusterTagsArguments> for TagsArguments {
    fn from(arguments: ClusterTagsArguments) -> Self {
        Self { name: String::new(), tags: arguments.tags, source: arguments.source }
    }
}

/// Adds tags to an object.
pub(crate) fn add(
    what: Tagged,
    arguments: TagsArguments,
    session: &Session,
) -> Result<(), CliError> {
    change(("OP_TAGS_SET", "added"), what, arguments, session)
}

/// Removes tags of an object.
pub(crate) fn remove(
    what: Tagged,
    arguments: TagsArguments,
    session: &Session,
) -> Result<(), CliError> {
    change(("OP_TAGS_DEL", "removed"), what, arguments, session)
}

fn change(
    (id, done): (&str, &str),
    what: Tagged,
    arguments: TagsArguments,
    session: &Session,
) -> Result<(), CliError> {
    let TagsArguments { name, mut tags, source: Source { from, job } } = arguments;
    if let Some(file) = from {
        tags.extend(read_input(&file)?.lines().map(|line| line.trim().to_owned()));
    }
    if tags.is_empty() {
        return Err(CliError::wrong_input(format!("No tags to be {done}")));
    }
    let op = opcode(id, json!({"kind": what.kind(), "name": name, "tags": tags}));
    job.run_raw(op, session).map(drop)
}
