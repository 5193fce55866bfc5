//! Which machines `list` shows.

use clap::Args;
use luxi::query::Filter;
use luxi::query::filter::Operand;
use model::machine::life::Status;

/// Conditions on machines, all of which must hold. Of several values of one, any may hold; of
/// labels, all must.
#[derive(Debug, Args)]
pub(crate) struct Conditions {
    /// Only those in this rack; may be given several times.
    #[arg(long = "rack", value_name = "NUMBER")]
    racks: Vec<u32>,
    /// Only those in other racks.
    #[arg(long = "without-rack", value_name = "NUMBER")]
    without_racks: Vec<u32>,
    /// Only those of this role; may be given several times.
    #[arg(long = "role", value_name = "WORD")]
    roles: Vec<String>,
    /// Only those of other roles.
    #[arg(long = "without-role", value_name = "WORD")]
    without_roles: Vec<String>,
    /// Only those of this data centre; may be given several times.
    #[arg(long = "datacenter", value_name = "TEXT")]
    datacenters: Vec<String>,
    /// Only those of other data centres.
    #[arg(long = "without-datacenter", value_name = "TEXT")]
    without_datacenters: Vec<String>,
    /// Only those of this product; may be given several times.
    #[arg(long = "product", value_name = "TEXT")]
    products: Vec<String>,
    /// Only those of other products.
    #[arg(long = "without-product", value_name = "TEXT")]
    without_products: Vec<String>,
    /// Only those with this state of sabakan's, such as healthy; may be given several times.
    #[arg(long = "status", value_name = "STATE")]
    statuses: Vec<Status>,
    /// Only those with other states.
    #[arg(long = "without-status", value_name = "STATE")]
    without_statuses: Vec<Status>,
    /// Only those with this label; may be given several times.
    #[arg(long = "label", value_name = "NAME=VALUE")]
    labels: Vec<String>,
    /// Only those without this label; may be given several times.
    #[arg(long = "without-label", value_name = "NAME=VALUE")]
    without_labels: Vec<String>,
}

impl Conditions {
    /// The conditions as filters.
    pub(super) fn filters(&self) -> Vec<Filter> {
        let numbers = |racks: &[u32]| racks.iter().map(|rack| u64::from(*rack).into()).collect();
        let texts = |texts: &[String]| texts.iter().map(|text| text.as_str().into()).collect();
        let mut filters = Vec::new();
        let mut limit = |field: &str, with: Vec<Operand>, without: Vec<Operand>| {
            if !with.is_empty() {
                filters.push(Filter::any_of(field, with));
            }
            if !without.is_empty() {
                filters.push(Filter::Not(Box::new(Filter::any_of(field, without))));
            }
        };
        limit("rack", numbers(&self.racks), numbers(&self.without_racks));
        limit("role", texts(&self.roles), texts(&self.without_roles));
        limit("datacenter", texts(&self.datacenters), texts(&self.without_datacenters));
        limit("product", texts(&self.products), texts(&self.without_products));
        let words = |all: &[Status]| all.iter().map(|status| status.as_str().into()).collect();
        limit("status", words(&self.statuses), words(&self.without_statuses));
        filters.extend(self.labels.iter().map(|label| has(label)));
        filters.extend(self.without_labels.iter().map(|label| Filter::Not(Box::new(has(label)))));
        filters
    }
}

/// A label without a value may be written as its name.
fn has(label: &str) -> Filter {
    let mark = if label.contains('=') { "" } else { "=" };
    Filter::Contains("labels".to_owned(), format!("{label}{mark}").as_str().into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        conditions: Conditions,
    }

    #[test]
    fn conditions() {
        for (line, filters) in [
            ("", "[]"),
            ("--rack 1 --rack 2", r#"[["|",["==","rack",1],["==","rack",2]]]"#),
            (
                "--role a --without-role b --without-role c",
                r#"[["|",["==","role","a"]],["!",["|",["==","role","b"],["==","role","c"]]]]"#,
            ),
            ("--without-rack 3", r#"[["!",["|",["==","rack",3]]]]"#),
            (
                "--datacenter x --without-product y",
                r#"[["|",["==","datacenter","x"]],["!",["|",["==","product","y"]]]]"#,
            ),
            (
                "--status healthy --without-status retired",
                r#"[["|",["==","status","healthy"]],["!",["|",["==","status","retired"]]]]"#,
            ),
            (
                "--label a=1 --label gpu --without-label b=",
                r#"[["=[]","labels","a=1"],["=[]","labels","gpu="],["!",["=[]","labels","b="]]]"#,
            ),
        ] {
            let line_read = Line::parse_from(["list"].into_iter().chain(line.split_whitespace()));
            let written = serde_json::to_string(&line_read.conditions.filters()).unwrap();
            assert_eq!(written, filters, "{line}");
        }
    }
}
