//! `list` and `list-fields` of every kind of object.

use std::io::IsTerminal as _;

use clap::Args;
use luxi::Client;
use luxi::method::{Fields, Query, QueryFields, What};
use luxi::query::{Cell, FieldDefinition, FieldKind, Filter, LEFT_OUT, Table};
use serde_json::{Map, Value};

use crate::cells::{self, Look, Units};
use crate::error::{CliError, Exit};
use crate::explain::explain;
use crate::expression;
use crate::moment::TimeForm;
use crate::output::{print, say_json, warn, warn_lines};
use crate::selection::Selection;
use crate::session::Session;
use crate::table::{self, Column};

/// The filter language, as the long help tells it.
const FILTER_HELP: &str = r#"Show only what this holds for, as 'status == "error" and not archived'

  FIELD                       it is true, not zero, not empty
  FIELD == VALUE, !=          they are equal, or not; `=` is the same as `==`
  FIELD < VALUE, <=, >, >=    they compare so
  FIELD =~ m/REGEX/, !~       the regular expression is found in it, or not; another
                              mark may stand for the slash; behind it, `i` ignores case
                              and `s` lets a dot match the end of a line
  FIELD =* "PATTERN", !*      a pattern of `*` and `?` fits it as a whole, or not
  VALUE in FIELD, not in      the list has this element, or not
  not X, X and Y, X or Y      also `!`, `&`, `|`; `and` binds closer; parentheses group

A VALUE is a number, or text in single or double quotes. The field `name` equals its beginning up to a dot: n1 is n1.example.com. A condition on a field that has no value does not hold."#;

/// How a list is printed.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Format {
    /// Do not print titles.
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Put this between the columns, and do not align them.
    #[arg(long, value_name = "TEXT")]
    pub(crate) separator: Option<String>,
}

/// The arguments of every `list`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ListArguments {
    /// The fields to show, with commas; `+f1,f2` adds them to the usual ones, as
    /// `+received_ts,end_ts` for jobs. `list-fields` shows all there are.
    #[arg(short, long, value_name = "FIELDS")]
    output: Option<String>,
    #[command(flatten)]
    pub(crate) format: Format,
    /// The unit of sizes: h (what fits), m, g or t; without it, h, or m with --separator.
    #[arg(long, value_name = "UNIT", ignore_case = true)]
    units: Option<Units>,
    /// Show in words why a value is missing.
    #[arg(short, long)]
    verbose: bool,
    /// Print a JSON list with an object for each row; times are seconds since the epoch.
    #[arg(long)]
    json: bool,
    /// Show only what this holds for, as 'status == "error" and not archived'.
    #[arg(
        short = 'F',
        long,
        value_name = "EXPRESSION",
        num_args = 0..=1,
        default_missing_value = "",
        long_help = FILTER_HELP
    )]
    filter: Option<String>,
}

/// The field that tells whether a job is archived.
pub(crate) const ARCHIVED: &str = "archived";

/// Whether a condition on jobs is about archived ones, too.
pub(crate) fn is_about_archived(filter: Option<&Filter>) -> bool {
    filter.is_some_and(|filter| filter.fields().contains(&ARCHIVED))
}

/// Warns of archived jobs that are too many for one list.
pub(crate) fn tell_left_out(table: &Table) -> Result<(), CliError> {
    let left_out = |field: &FieldDefinition| Some(field.doc.split_once(LEFT_OUT)?.1.to_owned());
    match table.fields.iter().find_map(left_out) {
        Some(left_out) => warn(format_args!("Not shown: {left_out}; their numbers show them")),
        None => Ok(()),
    }
}

/// How the lone arguments of a list are read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Named {
    /// As values of the field, or patterns of it.
    By(&'static str),
    /// As numbers of jobs.
    Jobs,
}

impl ListArguments {
    /// The fields to ask for.
    pub(crate) fn fields(&self, usual: &[&str]) -> Vec<String> {
        let usual = usual.iter().map(|&name| name.to_owned());
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        match self.output.as_deref() {
            None => usual.collect(),
            Some(more) if more.starts_with('+') => {
                usual.chain(names(more.trim_start_matches('+'))).collect()
            }
            Some(fields) => names(fields),
        }
    }

    /// The objects that the arguments name. Behind a `-F` without an expression the only argument
    /// is one, as in Ganeti.
    pub(crate) fn chosen(&self, arguments: &[String], named: Named) -> Result<Selection, CliError> {
        if self.filter.as_deref() == Some("") {
            let [text] = arguments else {
                let told = "Exactly one argument must be given as a filter";
                return Err(CliError::wrong_input(told));
            };
            let wrong = |error| CliError::Filter { text: text.clone(), error };
            return Ok(Selection::all().limited(vec![expression::read(text).map_err(wrong)?]));
        }
        match named {
            Named::By(key) => Selection::by_arguments(key, arguments),
            Named::Jobs => Selection::jobs_by_arguments(arguments),
        }
    }

    /// The condition that `-F` gives and those that other arguments give, together.
    pub(crate) fn condition(&self, chosen: &Selection) -> Result<Option<Filter>, CliError> {
        let mut all: Vec<Filter> =
            chosen.filter().into_iter().chain(chosen.others().iter().cloned()).collect();
        if let Some(text) = self.filter.as_ref().filter(|text| !text.is_empty()) {
            let wrong = |error| CliError::Filter { text: text.clone(), error };
            all.push(expression::read(text).map_err(wrong)?);
        }
        Ok(match all.len() {
            0 => None,
            1 => all.pop(),
            _ => Some(Filter::And(all)),
        })
    }

    /// Prints the objects of one kind that are `chosen`, as far as `-F` holds for them.
    ///
    /// # Errors
    /// A chosen object that does not exist is one, after the others were printed.
    pub(crate) fn print(
        &self,
        what: What,
        fields: Vec<String>,
        chosen: &Selection,
        session: &Session,
    ) -> Result<(), CliError> {
        self.print_by(&mut session.connect()?, what, fields, (chosen, session))
    }

    /// The same by a connection that is there.
    pub(crate) fn print_by(
        &self,
        client: &mut Client,
        what: What,
        fields: Vec<String>,
        (chosen, session): (&Selection, &Session),
    ) -> Result<(), CliError> {
        let is_limited = !chosen.others().is_empty() || self.filter.is_some();
        let filter = self.condition(chosen)?;
        let columns = fields.len();
        // One more column, which is not shown, tells which of the chosen objects these are, and
        // another one whether archived jobs are left out.
        let key = chosen.filter().map(|_some| chosen.key().to_owned());
        let archived = what == What::Job && is_about_archived(filter.as_ref());
        let archived = archived.then(|| ARCHIVED.to_owned());
        let asked: Fields = fields.iter().cloned().chain(key).chain(archived).collect();
        let mut table = session.call(client, &Query { what, fields: asked, filter })?;
        tell_left_out(&table)?;
        let mut there = chosen.all_in(what, &table);
        if there.is_err() && is_limited {
            // They may exist, and not meet the other conditions.
            let asked: Fields = fields.into_iter().chain([chosen.key().to_owned()]).collect();
            let all = client.call(&Query { what, fields: asked, filter: chosen.filter() })?;
            there = chosen.all_in(what, &all);
        }
        table.fields.truncate(columns);
        // Ganeti's clients print them as they come, which is what scripts read.
        if self.json || std::io::stdout().is_terminal() {
            for field in table.fields.iter_mut().filter(|field| cells::is_moment(&field.name)) {
                field.kind = FieldKind::Timestamp;
            }
        }
        table.data.iter_mut().for_each(|row| row.truncate(columns));
        let known = warn_of_unknown(&table.fields)?;
        if self.json {
            say_json(&as_json(&table))?;
        } else {
            say_all(&self.lines(what, &table, session))?;
        }
        // Ganeti's clients take a job that is not there for no failure.
        if let (What::Job, Err(missing)) = (what, &there) {
            warn(missing)?;
            there = Ok(());
        }
        match there {
            there if known => there,
            Ok(()) => Err(CliError::Ended(Exit::UNKNOWN_FIELD)),
            Err(missing) => {
                warn_lines(&explain(&missing, session).0)?;
                Err(CliError::Ended(Exit::UNKNOWN_FIELD))
            }
        }
    }

    /// Whether the list is for a program, or asks for fields of its own: then nothing is added.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_for_programs() || self.output.is_some()
    }

    /// Whether the list is in a form for programs, even on a terminal.
    pub(crate) fn is_for_programs(&self) -> bool {
        self.json || self.format.separator.is_some()
    }

    /// Whether titles are printed.
    pub(crate) fn has_headers(&self) -> bool {
        !self.format.no_headers
    }

    fn lines(&self, what: What, table: &Table, session: &Session) -> Vec<String> {
        let chooses = self.output.as_ref().is_some_and(|fields| !fields.starts_with('+'));
        let own = !session.is_as_ganeti() && !self.is_for_programs() && !chooses;
        let usual = if self.format.separator.is_some() { Units::M } else { Units::H };
        let look = Look {
            what,
            units: self.units.unwrap_or(usual),
            verbose: self.verbose,
            times: session.times(),
            own,
        };
        lines(table, look, &self.format)
    }
}

/// The table as lines, in the usual look.
pub(crate) fn table_lines(what: What, table: &Table, format: &Format) -> Vec<String> {
    lines(
        table,
        Look { what, units: Units::H, verbose: false, times: TimeForm::Zoned, own: true },
        format,
    )
}

fn lines(table: &Table, look: Look, format: &Format) -> Vec<String> {
    let columns: Vec<Column> = table.fields.iter().map(|field| column(look.what, field)).collect();
    let cells = |row: &Vec<Cell>| {
        let cells = row.iter().zip(&table.fields);
        cells.map(|(cell, field)| cells::text(cell, field, look)).collect()
    };
    let rows: Vec<Vec<String>> = table.data.iter().map(cells).collect();
    table::lines(&columns, &rows, !format.no_headers, format.separator.as_deref())
}

/// Writes a table at once: one write is cheaper than one for each row.
fn say_all(lines: &[String]) -> Result<(), CliError> {
    if lines.is_empty() { Ok(()) } else { print(&lines.join("\n")) }
}

fn column(what: What, field: &FieldDefinition) -> Column {
    let is_number = matches!(field.kind, FieldKind::Number | FieldKind::Unit | FieldKind::Float);
    let right = is_number && !cells::has_own_form(what, &field.name);
    Column { title: field.title.clone().into_owned(), right }
}

/// An object for each row.
pub(crate) fn as_json(table: &Table) -> Vec<Value> {
    let object = |row: &Vec<Cell>| {
        let names = table.fields.iter().map(|field| field.name.clone().into_owned());
        let cells = row.iter().zip(&table.fields);
        let value = |(cell, field): (&Cell, _)| cell.value().map(|value| cells::json(value, field));
        let values = cells.map(|cell| value(cell).unwrap_or_default());
        Value::Object(names.zip(values).collect::<Map<_, _>>())
    };
    table.data.iter().map(object).collect()
}

/// The arguments of every `list-fields`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListFieldsArguments {
    /// The fields to describe; all without it.
    fields: Vec<String>,
    #[command(flatten)]
    format: Format,
}

impl ListFieldsArguments {
    /// Prints the fields of one kind of object.
    pub(crate) fn print(self, what: What, session: &Session) -> Result<(), CliError> {
        let fields = (!self.fields.is_empty()).then(|| self.fields.into_iter().collect());
        let definitions = session.ask(&QueryFields { what, fields })?;
        let column = |title: &str| Column { title: title.to_owned(), right: false };
        let columns = [column("Name"), column("Type"), column("Title"), column("Description")];
        let rows: Vec<Vec<String>> = definitions
            .fields
            .iter()
            .map(|field| {
                let kind = kind_title(field.kind).to_owned();
                vec![field.name.to_string(), kind, field.title.to_string(), field.doc.to_string()]
            })
            .collect();
        let known = warn_of_unknown(&definitions.fields)?;
        let separator = self.format.separator.as_deref();
        say_all(&table::lines(&columns, &rows, !self.format.no_headers, separator))?;
        if known { Ok(()) } else { Err(CliError::Ended(Exit::UNKNOWN_FIELD)) }
    }
}

/// Ganeti's words for the kinds of fields.
const fn kind_title(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Text => "Text",
        FieldKind::Bool => "Boolean",
        FieldKind::Number => "Number",
        FieldKind::Float => "Floating-point number",
        FieldKind::Unit => "Storage size",
        FieldKind::Timestamp => "Timestamp",
        FieldKind::Other => "Custom",
        FieldKind::Unknown => "Unknown",
    }
}

/// Tells which fields do not exist; whether all do.
fn warn_of_unknown(fields: &[FieldDefinition]) -> Result<bool, CliError> {
    let unknown = fields.iter().filter(|field| field.kind == FieldKind::Unknown);
    let unknown: Vec<&str> = unknown.map(|field| field.name.as_ref()).collect();
    if unknown.is_empty() {
        return Ok(true);
    }
    warn(format_args!("Warning: Queried for unknown fields {}", unknown.join(", ")))?;
    Ok(false)
}
