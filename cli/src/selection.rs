//! Core: the objects that the operator named, and which of them there are.

use std::collections::HashSet;

use luxi::method::What;
use luxi::query::filter::Operand;
use luxi::query::{Cell, Filter, Table};
use model::JobId;
use serde_json::Value;

use crate::error::CliError;
use crate::expression;

/// The field whose values are host names, for filters and so here.
const HOST_NAME: &str = "name";
/// A lone argument with one of these is an expression, as in Ganeti.
const EXPRESSION_MARKS: &str = "\t\n\u{b}\u{c}\r !\"'()/<=>\\~";

/// Whether a text is two words with a slash between them, as images and ports are called: no expression.
fn is_path(text: &str) -> bool {
    let word = |part: &str| part.parse::<model::Word>().is_ok();
    text.split_once('/').is_some_and(|(first, second)| word(first) && word(second))
}

/// The objects that are meant; none named means all there are.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    key: &'static str,
    operands: Vec<Operand>,
    others: Vec<Filter>,
}

impl Selection {
    /// The objects whose field `key` has one of these names. A name with `*` or `?` is a pattern
    /// for each part of a host name, and a lone argument that can only be an expression is one.
    pub(crate) fn by_arguments(key: &'static str, arguments: &[String]) -> Result<Self, CliError> {
        if let [lone] = arguments
            && lone.contains(|c| EXPRESSION_MARKS.contains(c))
            && !is_path(lone)
        {
            return Ok(Self::all().limited(vec![expression_of(lone)?]));
        }
        let (patterns, names): (Vec<String>, Vec<String>) =
            arguments.iter().cloned().partition(|name| name.contains(['*', '?']));
        if patterns.is_empty() {
            return Ok(Self::named(key, &names));
        }
        let matching = patterns.iter().map(|pattern| {
            Filter::matching(key, &expression::glob_pattern(pattern))
                .map_err(|error| CliError::Usage(error.to_string()))
        });
        let mut any = matching.collect::<Result<Vec<_>, _>>()?;
        any.extend(Self::named(key, &names).filter());
        Ok(Self::all().limited(vec![Filter::Or(any)]))
    }

    /// The jobs with these numbers, or a lone expression.
    pub(crate) fn jobs_by_arguments(arguments: &[String]) -> Result<Self, CliError> {
        if let [lone] = arguments
            && lone.contains(|c| EXPRESSION_MARKS.contains(c))
        {
            return Ok(Self::all().limited(vec![expression_of(lone)?]));
        }
        Ok(Self::jobs(&job_ids(arguments)?))
    }

    /// The objects whose field `key` has one of these names.
    pub(crate) fn named(key: &'static str, names: &[String]) -> Self {
        Self {
            key,
            operands: names.iter().map(|name| name.as_str().into()).collect(),
            others: Vec::new(),
        }
    }

    /// The jobs with these numbers.
    pub(crate) fn jobs(ids: &[JobId]) -> Self {
        Self { key: "id", operands: ids.iter().map(|id| id.0.into()).collect(), others: Vec::new() }
    }

    /// No names: all objects, of which none can be missing.
    pub(crate) const fn all() -> Self {
        Self { key: "", operands: Vec::new(), others: Vec::new() }
    }

    /// Only those for which these conditions hold, too.
    pub(crate) fn limited(mut self, others: Vec<Filter>) -> Self {
        self.others.extend(others);
        self
    }

    /// Only those whose field has one of these values, where some are given.
    pub(crate) fn with(self, field: &str, values: Vec<Operand>) -> Self {
        if values.is_empty() {
            return self;
        }
        self.limited(vec![Filter::any_of(field, values)])
    }

    /// The further conditions.
    pub(crate) fn others(&self) -> &[Filter] {
        &self.others
    }

    /// The field by which they are named.
    pub(crate) const fn key(&self) -> &'static str {
        self.key
    }

    /// A condition that holds for those that were named; `None` if none were.
    pub(crate) fn filter(&self) -> Option<Filter> {
        let any = || Filter::any_of(self.key, self.operands.iter().cloned());
        (!self.operands.is_empty()).then(any)
    }

    /// The names that none of the objects in `table` has, which must show the key.
    pub(crate) fn missing(&self, table: &Table) -> Vec<String> {
        let column = table.fields.iter().position(|field| field.name == self.key);
        let value = |row: &'_ Vec<Cell>| column.and_then(|at| row.get(at)?.value().cloned());
        let values: Vec<Value> = table.data.iter().filter_map(value).collect();
        let known: HashSet<String> = values.iter().map(text).collect();
        // A host name is also found without its domain; the filter knows how.
        let is_there = |operand: &Operand| {
            if self.key != HOST_NAME {
                return false;
            }
            let filter = Filter::any_of(self.key, [operand.clone()]);
            values.iter().any(|value| filter.holds(|_key| Some((*value).clone())))
        };
        let names = self.operands.iter().map(|operand| (operand, name(operand)));
        let missing = names.filter(|(operand, name)| !known.contains(name) && !is_there(operand));
        missing.map(|(_operand, name)| name).collect()
    }

    /// # Errors
    /// One of the objects is missing in `table`.
    pub(crate) fn all_in(&self, what: What, table: &Table) -> Result<(), CliError> {
        let missing = self.missing(table);
        if missing.is_empty() {
            return Ok(());
        }
        Err(CliError::Missing { what, names: missing.join(", ") })
    }
}

/// Numbers that one range of jobs may have: an expression asks for more without naming each.
const RANGE_MAX: u64 = 10_000;

/// Reads numbers of jobs, and ranges of them: `5-7`.
pub(crate) fn job_ids(arguments: &[String]) -> Result<Vec<JobId>, CliError> {
    let mut ids = Vec::new();
    for text in arguments {
        match text.trim().split_once('-') {
            Some((first, last)) if !first.is_empty() => ids.extend(job_range(text, first, last)?),
            _ => ids.push(job_id(text)?),
        }
    }
    Ok(ids)
}

fn job_range(text: &str, first: &str, last: &str) -> Result<impl Iterator<Item = JobId>, CliError> {
    let number = |part: &str| job_id(part).map_err(|_none| CliError::NoJobId(text.to_owned()));
    let (JobId(first), JobId(last)) = (number(first)?, number(last)?);
    if first > last || last - first >= RANGE_MAX {
        return Err(CliError::wrong_input(format!(
            "`{text}` is no range of 1 to {RANGE_MAX} jobs; `gnt job list 'id >= {first} and id <= \
             {last}'` takes any"
        )));
    }
    Ok((first..=last).map(JobId))
}

/// Reads the number of a job.
pub(crate) fn job_id(text: &str) -> Result<JobId, CliError> {
    let number = text.trim().parse().map_err(|_no_number| CliError::NoJobId(text.to_owned()));
    Ok(JobId(number?))
}

fn expression_of(text: &str) -> Result<Filter, CliError> {
    let wrong = |error| CliError::Filter { text: text.to_owned(), error };
    expression::read(text).map_err(wrong)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn name(operand: &Operand) -> String {
    match operand {
        Operand::Text(text) => text.clone(),
        Operand::Number(number) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use luxi::query::{FieldDefinition, FieldKind};

    use super::*;

    fn table(key: &'static str, values: &[Value]) -> Table {
        let row = |value: &Value| vec![Cell::normal("x"), Cell::normal(value.clone())];
        let field = |name| FieldDefinition::new(name, "Title", FieldKind::Other, "");
        let fields = vec![field("other"), field(key)];
        Table { fields, data: values.iter().map(row).collect() }
    }

    #[test]
    fn names_that_are_not_there() {
        let names = ["n1", "n2.example.com", "n3", "N4"].map(str::to_owned);
        let there = ["n1.example.com", "n2.example.com", "n30.example.com", "n4.example.com"];
        let there = there.map(Value::from);
        assert_eq!(Selection::named("name", &names).missing(&table("name", &there)), ["n3"]);
        let serials = table("serial", &there);
        assert_eq!(Selection::named("serial", &names).missing(&serials), ["n1", "n3", "N4"]);
        let ids = [JobId(7), JobId(8)];
        assert_eq!(Selection::jobs(&ids).missing(&table("id", &[Value::from(7)])), ["8"]);
        assert!(Selection::all().missing(&table("id", &[])).is_empty());
        assert!(Selection::all().filter().is_none());
    }

    #[test]
    fn arguments() {
        let wire = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
            let chosen = Selection::by_arguments("name", &arguments).unwrap();
            let all: Vec<_> = chosen.filter().into_iter().chain(chosen.others.clone()).collect();
            serde_json::to_string(&all).unwrap()
        };
        assert_eq!(wire(&[]), "[]");
        assert_eq!(
            wire(&["n1"]),
            serde_json::to_string(&[Filter::any_of("name", ["n1"])]).unwrap()
        );
        assert_eq!(wire(&["offline = 1"]), r#"[["==","offline",1]]"#);
        assert_eq!(
            wire(&["n?.a*", "m"]),
            r#"[["|",["=~","name","^n[^.]\\.a[^.]*(\\..*)?$"],["|",["==","name","m"]]]]"#
        );
        assert!(job_ids(&["5".to_owned(), "x".to_owned()]).is_err());
    }

    #[test]
    fn ranges_of_jobs() {
        let read = |text: &str| {
            let ids = job_ids(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
            ids.map(|ids| ids.into_iter().map(|id| id.0).collect::<Vec<_>>())
        };
        assert_eq!(read("5-7 9").unwrap(), [5, 6, 7, 9]);
        assert_eq!(read("5-5").unwrap(), [5]);
        for wrong in ["7-5", "-5", "5-", "5-x", "1-10001", "1-2-3", "0-18446744073709551615"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
