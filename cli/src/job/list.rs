//! `gnt job list`: in a pipe as Ganeti prints it, on a terminal for a reader.

use std::io::IsTerminal as _;

use clap::Args;
use luxi::method::{Query, What};
use luxi::query::filter::Comparison;
use luxi::query::{Cell, Filter, Table};

use super::{FINISHED, PENDING};
use crate::error::CliError;
use crate::job_table::{self, JobTable};
use crate::list::{ARCHIVED, ListArguments, Named, is_about_archived, tell_left_out};
use crate::output::{print, warn};
use crate::screen;
use crate::selection::Selection;
use crate::session::{Session, can_draw};

/// The fields that are shown by default.
const USUAL: [&str; 3] = ["id", "status", "summary"];

/// Jobs that a reader gets unless all are asked for: more than a screen holds, and few enough for
/// a master that has hundreds of thousands.
const NEWEST: usize = 50;

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
    /// All jobs, also on a terminal, which otherwise gets the newest 50.
    #[arg(long)]
    all: bool,
    /// Show the list all the time, as it changes, until `q` or Ctrl-C; on a terminal only.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    list: ListArguments,
}

impl JobListArguments {
    fn chosen(&self) -> Result<Selection, CliError> {
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

    /// Only the newest of the jobs, where a reader would get more of them than can be looked at; and
    /// what to say about that.
    fn newest(
        &self,
        chosen: Selection,
        session: &Session,
        ask: &mut dyn FnMut(&Query) -> Result<Table, CliError>,
    ) -> Result<(Selection, Option<String>), CliError> {
        let is_read = std::io::stdout().is_terminal() && !self.list.is_for_programs();
        if self.all || !is_read || session.is_as_ganeti() || chosen.filter().is_some() {
            return Ok((chosen, None));
        }
        let archived = self.archived.then_some("archived");
        let fields = std::iter::once("id").chain(archived).collect();
        let filter = self.list.condition(&chosen)?;
        let table = ask(&Query { what: What::Job, fields, filter })?;
        let id = |row: &Vec<Cell>| row.first()?.value()?.as_u64();
        let mut ids: Vec<u64> = table.data.iter().filter_map(id).collect();
        ids.sort_unstable();
        let Some(&first) = ids.iter().rev().nth(NEWEST - 1).filter(|_| ids.len() > NEWEST) else {
            return Ok((chosen, None));
        };
        let newest = Filter::Compare(Comparison::AtLeast, "id".to_owned(), first.into());
        let told = format!("The newest {NEWEST} of {} jobs; --all shows all.", ids.len());
        Ok((chosen.limited(vec![newest]), Some(told)))
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
    let mut client = session.connect()?;
    let mut ask = |question: &Query| session.call(&mut client, question);
    let (chosen, told) = arguments.newest(chosen, session, &mut ask)?;
    if (on_terminal || session.is_always_colored()) && !arguments.list.is_plain() {
        let mut table = ask(&question(arguments, &chosen)?)?;
        tell_left_out(&table)?;
        // A job that does not exist has nothing but its number.
        table.data.retain(|row| row.iter().filter(|cell| cell.value().is_some()).count() > 1);
        let mut lines = board(arguments, on_terminal, session).lines(&table, session.now_micros());
        lines.extend(told);
        if !lines.is_empty() {
            print(&lines.join("\n"))?;
        }
        return match chosen.all_in(What::Job, &table) {
            Err(missing) if chosen.others().is_empty() => warn(missing),
            _ => Ok(()),
        };
    }
    let mut fields = arguments.list.fields(&USUAL);
    // The master looks into the archive only for who asks whether jobs are archived.
    if arguments.archived && !fields.iter().any(|field| field == ARCHIVED) {
        fields.push(ARCHIVED.to_owned());
    }
    arguments.list.print_by(&mut client, What::Job, fields, (&chosen, session))?;
    told.map_or(Ok(()), warn)
}

fn question(arguments: &JobListArguments, chosen: &Selection) -> Result<Query, CliError> {
    let filter = arguments.list.condition(chosen)?;
    let archived = arguments.archived || is_about_archived(filter.as_ref());
    let fields = job_table::FIELDS.into_iter().chain(archived.then_some(ARCHIVED)).collect();
    Ok(Query { what: What::Job, fields, filter })
}

fn board(arguments: &JobListArguments, on_terminal: bool, session: &Session) -> JobTable {
    JobTable { headers: arguments.list.has_headers(), colored: session.is_colored(on_terminal) }
}

fn watch(
    arguments: &JobListArguments,
    chosen: &Selection,
    session: &Session,
) -> Result<(), CliError> {
    let board = board(arguments, true, session);
    let mut client = Some(session.connect()?);
    screen::show(screen::INTERVAL, || {
        let mut ask = |question: &Query| {
            let fresh = client.take().map_or_else(|| session.reach(), Ok);
            let asked = fresh.and_then(|mut fresh| {
                let table = fresh.call(question)?;
                client = Some(fresh);
                Ok(table)
            });
            Ok(asked?)
        };
        let shown =
            arguments.newest(chosen.clone(), session, &mut ask).and_then(|(chosen, told)| {
                let table = ask(&question(arguments, &chosen)?)?;
                let lines = board.lines(&table, session.now_micros());
                Ok(lines.into_iter().chain(told).collect())
            });
        match shown {
            Err(CliError::Client(error)) if error.is_away() => {
                Ok(vec!["The connection to the master is lost; trying again".to_owned()])
            }
            shown => shown,
        }
    })
}
