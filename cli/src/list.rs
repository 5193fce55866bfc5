//! `list` and `list-fields` of every kind of object.

use clap::Args;
use luxi::method::{Fields, Query, QueryFields, What};
use luxi::query::{Cell, FieldDefinition, FieldKind, Filter, Table};
use serde_json::{Map, Value};

use crate::cells::{self, Look, Units};
use crate::chosen::Chosen;
use crate::error::CliError;
use crate::expression;
use crate::session::{Session, say, warn};
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
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Format {
    /// Do not print titles.
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Put this between the columns, and do not align them.
    #[arg(long, value_name = "TEXT")]
    pub(crate) separator: Option<String>,
}

/// What every `list` takes.
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
    #[arg(short = 'F', long, value_name = "EXPRESSION", long_help = FILTER_HELP)]
    filter: Option<String>,
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

    /// The condition that `-F` gives and those that other arguments give, together.
    fn condition(&self, chosen: &Chosen) -> Result<Option<Filter>, CliError> {
        let mut all: Vec<Filter> =
            chosen.filter().into_iter().chain(chosen.others().iter().cloned()).collect();
        if let Some(text) = &self.filter {
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
        chosen: &Chosen,
        session: &Session,
    ) -> Result<(), CliError> {
        let mut client = session.connect()?;
        let is_limited = !chosen.others().is_empty() || self.filter.is_some();
        let filter = self.condition(chosen)?;
        let columns = fields.len();
        // One more column, which is not shown, tells which of the chosen objects these are.
        let key = chosen.filter().map(|_some| chosen.key().to_owned());
        let asked: Fields = fields.iter().cloned().chain(key).collect();
        let mut table = client.call(&Query { what, fields: asked, filter })?;
        let mut there = chosen.all_in(what, &table);
        if there.is_err() && is_limited {
            // They may exist, and not meet the other conditions.
            let asked: Fields = fields.into_iter().chain([chosen.key().to_owned()]).collect();
            let all = client.call(&Query { what, fields: asked, filter: chosen.filter() })?;
            there = chosen.all_in(what, &all);
        }
        table.fields.truncate(columns);
        for field in table.fields.iter_mut().filter(|field| cells::is_moment(&field.name)) {
            field.kind = FieldKind::Timestamp;
        }
        table.data.iter_mut().for_each(|row| row.truncate(columns));
        if self.json {
            say(as_json(&table))?;
        } else {
            say_all(&self.lines(&table))?;
        }
        let unknown = unknown(&table.fields);
        match there {
            there if unknown.is_empty() => there,
            Ok(()) => Err(CliError::UnknownFields(unknown)),
            Err(missing) => {
                warn(missing)?;
                Err(CliError::UnknownFields(unknown))
            }
        }
    }

    fn lines(&self, table: &Table) -> Vec<String> {
        let usual = if self.format.separator.is_some() { Units::M } else { Units::H };
        let look = Look { units: self.units.unwrap_or(usual), verbose: self.verbose };
        let columns: Vec<Column> = table.fields.iter().map(column).collect();
        let rows: Vec<Vec<String>> = table
            .data
            .iter()
            .map(|row| {
                let cells = row.iter().zip(&table.fields);
                cells.map(|(cell, field)| text(cell, field, look)).collect()
            })
            .collect();
        let separator = self.format.separator.as_deref();
        table::lines(&columns, &rows, !self.format.no_headers, separator)
    }
}

/// Writes a table at once: one write is cheaper than one for each row.
fn say_all(lines: &[String]) -> Result<(), CliError> {
    if lines.is_empty() { Ok(()) } else { say(lines.join("\n")) }
}

fn column(field: &FieldDefinition) -> Column {
    let right = matches!(field.kind, FieldKind::Number | FieldKind::Unit | FieldKind::Float);
    Column { title: field.title.clone().into_owned(), right }
}

/// Waiting requests of a lock are pairs of mode and owners, and read better so; times of opcodes
/// come as lists.
fn text(cell: &Cell, field: &FieldDefinition, look: Look) -> String {
    if field.name == "pending"
        && let Some(Value::Array(requests)) = cell.value()
    {
        let request = |request: &Value| match (request.get(0), request.get(1)) {
            (Some(Value::String(mode)), Some(owners)) => format!("{mode}:{}", cells::plain(owners)),
            _ => request.to_string(),
        };
        return requests.iter().map(request).collect::<Vec<_>>().join(" ");
    }
    if cells::is_times(&field.name)
        && let Some(Value::Array(times)) = cell.value()
    {
        return times.iter().map(cells::time).collect::<Vec<_>>().join(",");
    }
    cells::text(cell, field.kind, look)
}

fn as_json(table: &Table) -> String {
    let object = |row: &Vec<Cell>| {
        let names = table.fields.iter().map(|field| field.name.clone().into_owned());
        let cells = row.iter().zip(&table.fields);
        let value = |(cell, field): (&Cell, _)| cell.value().map(|value| cells::json(value, field));
        let values = cells.map(|cell| value(cell).unwrap_or_default());
        Value::Object(names.zip(values).collect::<Map<_, _>>())
    };
    let rows: Vec<Value> = table.data.iter().map(object).collect();
    format!("{:#}", Value::Array(rows))
}

/// What every `list-fields` takes.
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
                let kind = format!("{:?}", field.kind);
                vec![field.name.to_string(), kind, field.title.to_string(), field.doc.to_string()]
            })
            .collect();
        let separator = self.format.separator.as_deref();
        say_all(&table::lines(&columns, &rows, !self.format.no_headers, separator))?;
        let unknown = unknown(&definitions.fields);
        if unknown.is_empty() { Ok(()) } else { Err(CliError::UnknownFields(unknown)) }
    }
}

/// The names of the fields that do not exist, with commas.
fn unknown(fields: &[FieldDefinition]) -> String {
    let unknown = fields.iter().filter(|field| field.kind == FieldKind::Unknown);
    unknown.map(|field| field.name.as_ref()).collect::<Vec<&str>>().join(", ")
}
