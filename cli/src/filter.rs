//! `gnt filter`: rules that hold jobs back, refuse them or let them pass.

use std::collections::BTreeMap;

use clap::builder::TypedValueParser as _;
use clap::{Args, Subcommand};
use luxi::method::{DeleteFilter, QueryFilters, ReplaceFilter, What};
use serde_json::{Value, json};

use crate::completion_words::Offered;
use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::output::{say, say_json};
use crate::python;
use crate::session::Session;

/// The fields that `list` and `info` show by default.
const USUAL: [&str; 6] = ["uuid", "watermark", "priority", "predicates", "action", "reason_trail"];
/// The titles of [`USUAL`] in `info`.
const TITLES: [&str; 6] = ["UUID", "Watermark", "Priority", "Predicates", "Action", "Reason trail"];

/// The actions of a rule that take no number.
const WORDS: [&str; 4] = ["ACCEPT", "PAUSE", "REJECT", "CONTINUE"];
/// The same, and the one that takes a number.
const ACTIONS: [&str; 5] = ["ACCEPT", "PAUSE", "REJECT", "CONTINUE", LIMIT];
const LIMIT: &str = "RATE_LIMIT";

/// The verbs of `gnt filter`.
#[derive(Debug, Subcommand)]
pub(crate) enum Filter {
    /// Add a rule; prints its id.
    Add(RuleArguments),
    /// Replace a rule, or add it under this id; prints its id.
    Replace {
        /// The rule's id.
        uuid: String,
        #[command(flatten)]
        rule: RuleArguments,
    },
    /// Delete a rule.
    Delete {
        /// The rule's id.
        uuid: String,
    },
    /// List rules.
    List {
        /// Only those with these ids.
        uuids: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about rules.
    #[command(visible_alias = "show")]
    Info {
        /// Only those with these ids.
        uuids: Vec<String>,
        /// Print a JSON list with an object for each; times are seconds since the epoch.
        #[arg(long)]
        json: bool,
    },
}

/// The content of a rule.
#[derive(Debug, Args)]
pub(crate) struct RuleArguments {
    /// Rules with lower numbers come first.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    priority: u32,
    /// Which jobs it is for: a JSON list of predicates, as '[["jobid", [">", "id", "watermark"]]]';
    /// all without it.
    #[arg(long, value_name = "JSON", default_value = "[]", value_parser = predicates)]
    predicates: Value,
    /// The action on these jobs: ACCEPT, PAUSE, REJECT, CONTINUE or 'RATE_LIMIT N'.
    #[arg(
        long,
        value_name = "ACTION",
        default_value = "CONTINUE",
        value_parser = Offered(&ACTIONS).try_map(action),
        hide_possible_values = true
    )]
    action: Value,
}

fn predicates(text: &str) -> Result<Value, String> {
    model::json::read::<Vec<Value>>(text).map(Value::Array).map_err(|error| error.to_string())
}

/// An action as it was given.
fn words(action: &Value) -> String {
    let parts = action.as_array().map_or(std::slice::from_ref(action), Vec::as_slice);
    parts.iter().map(python::text).collect::<Vec<_>>().join(" ")
}

/// `RATE_LIMIT 5` is a list on the wire.
#[expect(clippy::unnecessary_wraps, reason = "parsers of arguments may fail")]
fn action(text: String) -> Result<Value, String> {
    let limit = text.strip_prefix(LIMIT).filter(|rest| rest.starts_with(char::is_whitespace));
    let limit = limit.and_then(|limit| limit.trim().parse::<u64>().ok());
    Ok(limit.map_or_else(|| text.into(), |limit| json!([LIMIT, limit])))
}

/// Carries out one verb.
pub(crate) fn run(verb: Filter, session: &Session) -> Result<(), CliError> {
    match verb {
        Filter::Add(rule) => replace(None, rule, session),
        Filter::Replace { uuid, rule } => replace(Some(uuid), rule, session),
        Filter::Delete { uuid } => session.ask(&DeleteFilter { uuid, unchanged: None }),
        Filter::List { uuids, list } => {
            let chosen = list.chosen(&uuids, Named::By("uuid"))?;
            list.print(What::Filter, list.fields(&USUAL), &chosen, session)
        }
        Filter::ListFields(arguments) => arguments.print(What::Filter, session),
        Filter::Info { uuids, json } => info(uuids, json, session),
    }
}

fn replace(uuid: Option<String>, rule: RuleArguments, session: &Session) -> Result<(), CliError> {
    let Value::Array(predicates) = rule.predicates else {
        return Err(CliError::wrong_input("--predicates must be a JSON list"));
    };
    let is_limit = |action: &Value| action.get(1).and_then(Value::as_u64).is_some_and(|n| n > 0);
    if !is_limit(&rule.action) && !rule.action.as_str().is_some_and(|word| WORDS.contains(&word)) {
        let told = "the action of a filter rule is ACCEPT, PAUSE, REJECT, CONTINUE or \
                    'RATE_LIMIT N' with N from 1";
        return Err(CliError::wrong_input(format!("{told}, not '{}'", words(&rule.action))));
    }
    say(session.ask(&ReplaceFilter {
        uuid,
        priority: rule.priority,
        predicates,
        action: rule.action,
        reason: session.users_reason().into_iter().collect(),
        unchanged: None,
    })?)
}

fn info(uuids: Vec<String>, json: bool, session: &Session) -> Result<(), CliError> {
    let rows = session.ask(&QueryFilters { uuids: Some(uuids), fields: USUAL.into() })?;
    if json {
        let object = |row: Vec<Value>| USUAL.into_iter().zip(row).collect();
        return say_json(&rows.into_iter().map(object).collect::<Vec<BTreeMap<_, _>>>());
    }
    for row in rows {
        for (at, (title, value)) in TITLES.iter().zip(&row).enumerate() {
            let indent = if at == 0 { "" } else { "  " };
            say(format_args!("{indent}{title}: {}", python::text(value)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions() {
        for (text, wire) in [
            ("ACCEPT", json!("ACCEPT")),
            ("RATE_LIMIT 5", json!(["RATE_LIMIT", 5])),
            ("RATE_LIMIT  12", json!(["RATE_LIMIT", 12])),
            ("RATE_LIMIT", json!("RATE_LIMIT")),
            ("RATE_LIMIT x", json!("RATE_LIMIT x")),
        ] {
            assert_eq!(action(text.to_owned()).unwrap(), wire, "{text}");
        }
    }
}
