//! `gnt network-template`.

use std::path::PathBuf;

use clap::Subcommand;
use luxi::method::{Query, What};
use model::opcode::{NetworkTemplateAdd, NetworkTemplateRemove};
use model::{OpCode, Word};

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::output::print;
use crate::selection::Selection;
use crate::session::{Session, confirm, read_input};
use crate::submit::JobArguments;

/// The fields that `list` shows by default.
const USUAL: [&str; 4] = ["template", "networks", "machines", "ctime"];

/// The verbs of `gnt network-template`.
#[derive(Debug, Subcommand)]
pub(crate) enum NetworkTemplate {
    /// Add a version: it is refused unless every machine of the role could have it.
    ///
    /// Machines of the role that have no version yet get this one. The others keep theirs until
    /// `gnt machine reapply`.
    Upload {
        /// Its name: the role of the machines that use it.
        name: Word,
        /// The text, in Jinja's syntax; `-` reads standard input.
        file: PathBuf,
        #[command(flatten)]
        job: JobArguments,
    },
    /// List templates.
    List {
        /// Only these, each NAME/VERSION.
        templates: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Print the text of a template.
    Show {
        /// Its name; the newest version, unless --version names another one.
        name: String,
        /// Which version.
        #[arg(long, value_name = "NUMBER")]
        version: Option<u64>,
    },
    /// Remove versions that no machine has.
    Remove {
        /// Its name.
        name: Word,
        /// Only this version.
        #[arg(long, value_name = "NUMBER")]
        version: Option<u32>,
        /// Do not ask.
        #[arg(short = 'f', long, visible_alias = "force")]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// Carries out one verb.
pub(crate) fn run(verb: NetworkTemplate, session: &Session) -> Result<(), CliError> {
    match verb {
        NetworkTemplate::Upload { name: template_name, file, job } => {
            let text = read_input(&file)?;
            let op = NetworkTemplateAdd { template_name, text };
            job.run(OpCode::NetworkTemplateAdd(op), session).map(drop)
        }
        NetworkTemplate::List { templates, list } => {
            let chosen = list.chosen(&templates, Named::By("template"))?;
            list.print(What::NetworkTemplate, list.fields(&USUAL), &chosen, session)
        }
        NetworkTemplate::ListFields(arguments) => arguments.print(What::NetworkTemplate, session),
        NetworkTemplate::Show { name, version } => show(&name, version, session),
        NetworkTemplate::Remove { name: template_name, version, yes, job } => {
            let what = match version {
                Some(version) => format!("{template_name}/{version}"),
                None => format!("{template_name}"),
            };
            confirm(&format!("Remove network template {what}?"), yes || job.dry_run)?;
            let op = NetworkTemplateRemove { template_name, version };
            job.run(OpCode::NetworkTemplateRemove(op), session).map(drop)
        }
    }
}

fn show(name: &str, version: Option<u64>, session: &Session) -> Result<(), CliError> {
    let chosen = Selection::named("name", &[name.to_owned()]);
    let fields = ["name", "version", "text"].into();
    let query = Query { what: What::NetworkTemplate, fields, filter: chosen.filter() };
    let table = session.ask(&query)?;
    chosen.all_in(What::NetworkTemplate, &table)?;
    let text = table.data.iter().rev().find_map(|row| {
        let value = |at: usize| row.get(at)?.value().cloned();
        let is_meant =
            version.is_none_or(|wanted| value(1).and_then(|v| v.as_u64()) == Some(wanted));
        value(2).filter(|_| is_meant)?.as_str().map(str::to_owned)
    });
    let missing = || CliError::Failed(format!("network template {name} has no such version"));
    print(text.ok_or_else(missing)?.trim_end())
}
