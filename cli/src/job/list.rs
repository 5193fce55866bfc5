//! `gnt job list`: in a pipe as Ganeti prints it, on a terminal for a reader.

use std::io::IsTerminal as _;

use clap::Args;
use luxi::Client;
use luxi::method::{Query, What};
use luxi::query::{Filter, Table};

use super::{FINISHED, PENDING};
use crate::board::{self, Board};
use crate::chosen::Chosen;
use crate::error::CliError;
use crate::list::{ListArguments, Named};
use crate::screen;
use crate::session::{Session, can_draw, say, warn};

/// What is shown unless told otherwise.
const USUAL: [&str; 3] = ["id", "status", "summary"];

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct JobListArguments {
    /// Only these, or those that a lone expression holds for.
    ids: Vec<String>,
    /// Only jobs that have not begun.
    #[arg(long)]
    pending: bool,
    /// Only jobs that run.
    #[arg(long)]
    running: bool,
    /// Only jobs that failed.
    #[arg(long)]
    error: bool,
    /// Only jobs that have ended.
    #[arg(long)]
    finished: bool,
    /// Archived jobs too.
    #[arg(long)]
    archived: bool,
    /// Show the list all the time, as it changes, until `q` or Ctrl-C; on a terminal only.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    list: ListArguments,
}

impl JobListArguments {
    fn chosen(&self) -> Result<Chosen, CliError> {
        let wanted = [
            (self.pending, PENDING),
            (self.running, &["running"]),
            (self.error, &["error"]),
            (self.finished, FINISHED),
        ];
        let wanted = wanted.iter().filter(|(given, _)| *given).flat_map(|(_, words)| *words);
        let wanted: Vec<&str> = wanted.copied().collect();
        let chosen = self.list.chosen(&self.ids, Named::Jobs)?;
        if wanted.is_empty() {
            return Ok(chosen);
        }
        Ok(chosen.limited(vec![Filter::any_of("status", wanted)]))
    }
}

/// Prints the list.
pub(super) fn run(arguments: &JobListArguments, session: &Session) -> Result<(), CliError> {
    let chosen = arguments.chosen()?;
    let on_terminal = std::io::stdout().is_terminal();
    if arguments.watch {
        if !on_terminal || !can_draw() || arguments.list.is_plain() {
            let told = "--watch needs a terminal whose screen can be cleared, and does not go with \
                        -o, --separator and --json";
            return Err(CliError::wrong_input(told));
        }
        return watch(arguments, &chosen, session);
    }
    if (on_terminal || session.is_always_colored()) && !arguments.list.is_plain() {
        let table = session.ask(&question(arguments, &chosen)?)?;
        let lines = board(arguments, on_terminal, session).lines(&table, session.now_micros());
        if !lines.is_empty() {
            say(lines.join("\n"))?;
        }
        return match chosen.all_in(What::Job, &table) {
            Err(missing) if chosen.others().is_empty() => warn(missing),
            _ => Ok(()),
        };
    }
    let mut fields = arguments.list.fields(&USUAL);
    // The master looks into the archive only for who asks whether jobs are archived.
    if arguments.archived && !fields.iter().any(|field| field == "archived") {
        fields.push("archived".to_owned());
    }
    arguments.list.print(What::Job, fields, &chosen, session)
}

fn question(arguments: &JobListArguments, chosen: &Chosen) -> Result<Query, CliError> {
    let archived = arguments.archived.then_some("archived");
    let fields = board::FIELDS.into_iter().chain(archived).collect();
    Ok(Query { what: What::Job, fields, filter: arguments.list.condition(chosen)? })
}

fn board(arguments: &JobListArguments, on_terminal: bool, session: &Session) -> Board {
    Board { headers: arguments.list.has_headers(), colored: session.is_colored(on_terminal) }
}

fn watch(arguments: &JobListArguments, chosen: &Chosen, session: &Session) -> Result<(), CliError> {
    let question = question(arguments, chosen)?;
    let board = board(arguments, true, session);
    let mut client = Some(session.connect()?);
    screen::show(screen::INTERVAL, || {
        let asked = match &mut client {
            Some(client) => ask(client, &question),
            None => session.reach().map_err(CliError::from).and_then(|mut fresh| {
                let table = ask(&mut fresh, &question);
                client = Some(fresh);
                table
            }),
        };
        match asked {
            Ok(table) => Ok(board.lines(&table, session.now_micros())),
            Err(CliError::Client(error)) if error.is_away() => {
                client = None;
                Ok(vec!["The connection to the master is lost; trying again".to_owned()])
            }
            Err(error) => Err(error),
        }
    })
}

fn ask(client: &mut Client, question: &Query) -> Result<Table, CliError> {
    Ok(client.call(question)?)
}
