//! Opcodes that list what no LUXI method lists. None takes locks: each sees one configuration.

use jobs::locks::Level;
use luxi::limits::FIELDS_MAX;
use luxi::query::{FieldDefinition, Filter};
use model::Exception;
use model::error::{ErrorCode, ExceptionKind};
use model::opcode::{ClusterConfigQuery, ExtStorageDiagnose, OsDiagnose, Query, QueryFields};
use serde_json::{Value, json};

use crate::cluster::settings::fields::{self as cluster, ClusterRow};
use crate::config::Config;
use crate::door::lists::without_rows::{self, EXT_STORAGE, OS};
use crate::units::list::{Listing, bare, definitions};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// The kinds of objects that only opcodes list.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Cluster,
    WithoutRows(&'static [FieldDefinition]),
}

/// # Errors
/// The kind is not listed by opcodes.
fn kind(what: &str) -> Result<Kind, Exception> {
    match what {
        "cluster" => Ok(Kind::Cluster),
        "os" => Ok(Kind::WithoutRows(OS)),
        "extstorage" => Ok(Kind::WithoutRows(EXT_STORAGE)),
        other => Err(Exception::prereq(
            format!("Unknown query resource '{other}'"),
            ErrorCode::WrongInput,
        )),
    }
}

/// # Errors
/// There are more fields than a query may have.
fn few(fields: &[String]) -> Result<(), Exception> {
    if fields.len() <= FIELDS_MAX {
        return Ok(());
    }
    let text = format!("{} fields are asked for; at most {FIELDS_MAX} can be", fields.len());
    Err(Exception::prereq(text, ErrorCode::WrongInput))
}

fn cluster_row(context: &Context) -> ClusterRow {
    let is_drained = context.is_drained();
    ClusterRow { config: context.config(), is_drained }
}

/// A list as the result of an opcode.
fn written(list: &impl serde::Serialize) -> Result<Value, Failure> {
    let why = |error| Exception::exec(format!("the list cannot be written: {error}"));
    Ok(serde_json::to_value(list).map_err(why)?)
}

impl LogicalUnit for Query {
    type Plan = (Kind, Option<Filter>);

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, _context: &mut Context) -> Result<Self::Plan, Failure> {
        few(&self.fields)?;
        let filter = self.qfilter.clone().map(|filter| serde_json::from_value(filter.into()));
        let filter = filter
            .transpose()
            .map_err(|error| Exception::new(ExceptionKind::ParameterError, error.to_string()))?;
        Ok((kind(&self.what)?, filter))
    }

    async fn exec(self, plan: Self::Plan, context: &mut Context) -> Result<Value, Failure> {
        let (kind, filter) = plan;
        written(&match kind {
            Kind::Cluster => {
                let mut listing = Listing::new(cluster::FIELDS, &self.fields, filter.as_ref())?;
                listing.add(&cluster_row(context));
                listing.table()
            }
            Kind::WithoutRows(known) => without_rows::empty(known, &self.fields, filter.as_ref())?,
        })
    }
}

impl LogicalUnit for QueryFields {
    type Plan = Kind;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, _context: &mut Context) -> Result<Kind, Failure> {
        few(self.fields.as_deref().unwrap_or_default())?;
        Ok(kind(&self.what)?)
    }

    async fn exec(self, kind: Kind, _context: &mut Context) -> Result<Value, Failure> {
        let wanted = self.fields.as_deref();
        written(&match kind {
            Kind::Cluster => definitions(cluster::FIELDS, wanted),
            Kind::WithoutRows(known) => without_rows::describe(known, wanted),
        })
    }
}

impl LogicalUnit for ClusterConfigQuery {
    type Plan = Vec<Value>;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<Vec<Value>, Failure> {
        few(&self.output_fields)?;
        let rows = bare(cluster::FIELDS, [cluster_row(context)], &self.output_fields)?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    async fn exec(self, row: Vec<Value>, _context: &mut Context) -> Result<Vec<Value>, Failure> {
        Ok(row)
    }
}

impl LogicalUnit for OsDiagnose {
    type Plan = Vec<Vec<Value>>;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let _known: Vec<Vec<Value>> = without_rows::bare(OS, &self.output_fields)?;
        let systems =
            crate::instances::os::diagnosed(&context.config(), &context.contacts().facts());
        let row = |told: std::collections::BTreeMap<&str, Value>| {
            let fields = self.output_fields.iter();
            fields.map(|field| told.get(field.as_str()).cloned().unwrap_or_default()).collect()
        };
        let asks = |field: &str| self.output_fields.iter().any(|asked| asked == field);
        // Whoever does not ask for a mark gets what is usual (Ganeti).
        let usual = [("valid", true), ("hidden", false), ("blacklisted", false)];
        let is_wanted = |told: &std::collections::BTreeMap<&str, Value>| {
            let name = told.get("name").and_then(Value::as_str).unwrap_or_default();
            let is_usual = |(mark, wanted): &(&str, bool)| told.get(mark) == Some(&json!(wanted));
            (self.names.is_empty() || self.names.iter().any(|wanted| wanted == name))
                && usual.iter().all(|mark| asks(mark.0) || is_usual(mark))
        };
        Ok(systems.into_iter().filter(is_wanted).map(row).collect())
    }

    async fn exec(self, rows: Self::Plan, _context: &mut Context) -> Result<Self::Plan, Failure> {
        Ok(rows)
    }
}

impl LogicalUnit for ExtStorageDiagnose {
    type Plan = Vec<Vec<Value>>;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, _context: &mut Context) -> Result<Self::Plan, Failure> {
        Ok(without_rows::bare(EXT_STORAGE, &self.output_fields)?)
    }

    async fn exec(self, rows: Self::Plan, _context: &mut Context) -> Result<Self::Plan, Failure> {
        Ok(rows)
    }
}
