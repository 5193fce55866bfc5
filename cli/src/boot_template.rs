//! `gnt ignition-template`, `gnt cloud-init-template`, and what machines get by them: `gnt ignition` and
//! `gnt cloud-init`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use luxi::method::{GantryBootDocument, Query, What};
use luxi::query::Filter;
use luxi::query::filter::Operand;
use model::boot_template::{
    BootDocument, DocumentKind, ENROL_TOKEN, MY_URL, MY_URL_HTTPS, TemplateId, TemplateKind,
};
use model::opcode::{BootTemplateAdd, BootTemplateRemove};
use model::{OpCode, Word};
use serde_json::Value;
use similar::TextDiff;

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::output::{print, warn};
use crate::selection::Selection;
use crate::session::{Session, confirm, read_input};
use crate::submit::JobArguments;

/// The fields that `list` shows by default.
const USUAL: [&str; 6] = ["role", "version", "spec", "newest", "machines", "ctime"];

/// The verbs for templates of what machines boot with.
#[derive(Debug, Subcommand)]
pub(crate) enum BootTemplate {
    /// Add a version: it is refused unless it fits every machine of the role.
    ///
    /// Machines of the role get the newest version when they boot next.
    Upload {
        /// The role of the machines that use it.
        role: Word,
        /// Its version, such as 1.2.3; ten are kept, the newest by their numbers.
        version: TemplateId,
        /// The text, in the syntax of Go's templates; `-` reads standard input.
        file: PathBuf,
        /// Take it also where it declares another major version of Ignition's specification than the
        /// newest one of the role.
        #[arg(long)]
        other_spec: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// List templates.
    List {
        /// Only those of these roles.
        roles: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Print the text of a template.
    Show {
        /// The role.
        role: String,
        /// Which version; the newest one where none is given.
        version: Option<TemplateId>,
    },
    /// Remove a version, or all of a role: machines get the newest one that is left.
    Remove {
        /// The role.
        role: Word,
        /// Only this version.
        version: Option<TemplateId>,
        /// Do not ask.
        #[arg(short = 'f', long, visible_alias = "force")]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// The verbs of `gnt ignition`.
#[derive(Debug, Subcommand)]
pub(crate) enum Ignition {
    /// Print the configuration of a machine. The agent that serves it fills in its own URL.
    Render(RenderArguments),
    /// Print what differs between two versions for a machine.
    Diff(DiffArguments),
}

/// The verbs of `gnt cloud-init`.
#[derive(Debug, Subcommand)]
pub(crate) enum CloudInit {
    /// Print the user data of a machine. The agent that serves it fills in its own URL.
    Render {
        #[command(flatten)]
        render: RenderArguments,
        /// user-data, meta-data or network-config.
        #[arg(long, value_name = "WORD", default_value = "user-data")]
        part: DocumentKind,
    },
    /// Print what differs between two versions for a machine.
    Diff(DiffArguments),
}

/// Arguments of `render`.
#[derive(Debug, Args)]
pub(crate) struct RenderArguments {
    /// The machine's serial number.
    serial: String,
    /// The version of the template of its role; the newest one where none is given.
    #[arg(long, value_name = "VERSION")]
    id: Option<TemplateId>,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 nothing differs, 1 something does.")]
pub(crate) struct DiffArguments {
    /// The machine's serial number.
    serial: String,
    /// The version to begin with; the one before the other where none is given.
    #[arg(long, value_name = "VERSION")]
    from: Option<TemplateId>,
    /// The version to compare it with; the newest one where none is given.
    #[arg(long, value_name = "VERSION")]
    id: Option<TemplateId>,
}

/// Carries out one verb on templates.
pub(crate) fn run(
    kind: TemplateKind,
    verb: BootTemplate,
    session: &Session,
) -> Result<(), CliError> {
    match verb {
        BootTemplate::Upload { role, version: id, file, other_spec, job } => {
            let text = read_input(&file)?;
            let op = BootTemplateAdd { kind, role, id, text, other_spec };
            job.run(OpCode::BootTemplateAdd(op), session).map(drop)
        }
        BootTemplate::List { roles, list } => {
            let chosen = list.chosen(&roles, Named::By("role"))?;
            let chosen = chosen.with("kind", vec![kind.as_str().into()]);
            list.print(What::BootTemplate, list.fields(&USUAL), &chosen, session)
        }
        BootTemplate::ListFields(arguments) => arguments.print(What::BootTemplate, session),
        BootTemplate::Show { role, version } => {
            let texts = versions(kind, &role, session)?;
            let found = match &version {
                None => texts.last(),
                Some(version) => texts.iter().find(|(id, _)| id == version),
            };
            let missing = || missing(kind, &role, version.as_ref());
            print(found.ok_or_else(missing)?.1.trim_end())
        }
        BootTemplate::Remove { role, version: id, yes, job } => {
            let of = id.as_ref().map_or_else(String::new, |id| format!(" {id}"));
            let what = format!("Remove {} template {role}{of}?", kind.as_str());
            confirm(&what, yes || job.dry_run)?;
            let op = BootTemplateRemove { kind, role, id };
            job.run(OpCode::BootTemplateRemove(op), session).map(drop)
        }
    }
}

fn missing(kind: TemplateKind, role: &str, id: Option<&TemplateId>) -> CliError {
    let of = id.map_or_else(String::new, |id| format!(" {id}"));
    let list = format!("`gnt {}-template list` names all", kind.as_str());
    CliError::Failed(format!("role {role} has no {} template{of}; {list}", kind.as_str()))
}

/// The versions of a role's template with their texts, oldest first.
fn versions(
    kind: TemplateKind,
    role: &str,
    session: &Session,
) -> Result<Vec<(TemplateId, String)>, CliError> {
    let fields = ["version", "text"].into();
    let of = |field: &str, value: &str| Filter::any_of(field, [Operand::from(value)]);
    let filter = Some(Filter::And(vec![of("role", role), of("kind", kind.as_str())]));
    let table = session.ask(&Query { what: What::BootTemplate, fields, filter })?;
    let text = |row: &[_], at: usize| -> Option<String> {
        let cell: &luxi::query::Cell = row.get(at)?;
        cell.value().and_then(Value::as_str).map(str::to_owned)
    };
    let read = |row: &Vec<_>| Some((text(row, 0)?.parse().ok()?, text(row, 1)?));
    let mut versions: Vec<(TemplateId, String)> = table.data.iter().filter_map(read).collect();
    versions.sort();
    Ok(versions)
}

/// Carries out one verb on machines' configurations of Ignition.
pub(crate) fn run_ignition(verb: Ignition, session: &Session) -> Result<(), CliError> {
    match verb {
        Ignition::Render(arguments) => render(arguments, DocumentKind::Ignition, session),
        Ignition::Diff(arguments) => diff(arguments, DocumentKind::Ignition, session),
    }
}

/// Carries out one verb on machines' data of cloud-init.
pub(crate) fn run_cloud_init(verb: CloudInit, session: &Session) -> Result<(), CliError> {
    match verb {
        CloudInit::Render { part: DocumentKind::Ignition, .. } => {
            Err(CliError::Usage("--part is user-data, meta-data or network-config".to_owned()))
        }
        CloudInit::Render { render: arguments, part } => render(arguments, part, session),
        CloudInit::Diff(arguments) => diff(arguments, DocumentKind::UserData, session),
    }
}

fn document(
    serial: &str,
    kind: DocumentKind,
    version: Option<TemplateId>,
    session: &Session,
) -> Result<BootDocument, CliError> {
    session.ask(&GantryBootDocument { serial: serial.to_owned(), kind, version })
}

fn render(
    arguments: RenderArguments,
    kind: DocumentKind,
    session: &Session,
) -> Result<(), CliError> {
    let RenderArguments { serial, id } = arguments;
    let document = document(&serial, kind, id, session)?;
    print(document.text.trim_end())?;
    let words = [MY_URL, MY_URL_HTTPS, ENROL_TOKEN];
    let words: Vec<&str> = words.into_iter().filter(|word| document.text.contains(word)).collect();
    if !words.is_empty() {
        let words = words.join("`, `");
        warn(format_args!("`{words}` stands for what the agent fills in that the machine asks"))?;
    }
    Ok(())
}

fn diff(arguments: DiffArguments, kind: DocumentKind, session: &Session) -> Result<(), CliError> {
    let DiffArguments { serial, from, id } = arguments;
    let after = document(&serial, kind, id, session)?;
    let from = match from {
        Some(from) => from,
        None => before(&serial, &after, session)?,
    };
    let before = document(&serial, kind, Some(from), session)?;
    let (old, new) = (by_lines(&before.text), by_lines(&after.text));
    if old == new {
        return Ok(());
    }
    let heading = |document: &BootDocument| format!("{serial} with version {}", document.id);
    let diff = TextDiff::from_lines(&old, &new);
    let diff = diff.unified_diff().header(&heading(&before), &heading(&after)).to_string();
    print(diff.trim_end())?;
    Err(CliError::Told)
}

/// The version before that of a document.
fn before(serial: &str, after: &BootDocument, session: &Session) -> Result<TemplateId, CliError> {
    let filter = Selection::named("serial", &[serial.to_owned()]).filter();
    let table = session.ask(&Query { what: What::Machine, fields: ["role"].into(), filter })?;
    let role = table.data.first().and_then(|row| row.first()?.value()?.as_str().map(str::to_owned));
    let role = role.unwrap_or_default();
    let known = versions(after.kind.template(), &role, session)?;
    let older = known.into_iter().rev().map(|(id, _)| id).find(|id| *id < after.id);
    let none = || format!("role {role} has no version before {}; --from names another", after.id);
    older.ok_or_else(|| CliError::Failed(none()))
}

/// JSON with a line for each value; other texts as they are.
fn by_lines(text: &str) -> String {
    let read = serde_json::from_str::<Value>(text);
    let lines = read.and_then(|document| serde_json::to_string_pretty(&document));
    lines.map_or_else(|_no_json| text.to_owned(), |lines| lines + "\n")
}
