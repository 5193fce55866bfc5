//! `gnt os`.

use clap::Subcommand;
use model::OpCode;
use model::opcode::OsDiagnose;
use serde_json::Value;

use crate::error::CliError;
use crate::output::{say, say_json};
use crate::python;
use crate::session::Session;
use crate::submit::JobArguments;

/// The verbs of `gnt os`.
#[derive(Debug, Subcommand)]
pub(crate) enum Os {
    /// List the operating systems that instances can have.
    List {
        /// Leave the heading out.
        #[arg(long)]
        no_headers: bool,
        /// Print a JSON list with an object for each system.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Show variants and parameters of operating systems.
    Info {
        /// Only these.
        names: Vec<String>,
        /// Print a JSON list with an object for each system.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Tell what each node has of the operating systems.
    Diagnose {
        #[command(flatten)]
        job: JobArguments,
    },
}

/// The fields that are asked for, in this order.
const FIELDS: [&str; 5] = ["name", "variants", "valid", "parameters", "node_status"];

/// Carries out one verb.
pub(crate) fn run(verb: Os, session: &Session) -> Result<(), CliError> {
    match verb {
        Os::List { json: true, no_headers: _, job } => say_json(&objects(&systems(&job, session)?)),
        Os::List { json: false, no_headers, job } => {
            if !no_headers {
                say("Name")?;
            }
            systems(&job, session)?.iter().try_for_each(|system| {
                let variants = texts(&system[1]);
                match variants.is_empty() {
                    true => say(python::text(&system[0])),
                    false => variants.iter().try_for_each(|variant| {
                        say(format_args!("{}+{variant}", python::text(&system[0])))
                    }),
                }
            })
        }
        Os::Info { names, json, job } => {
            let all = systems(&job, session)?;
            let name_of = |system: &Value| python::text(&system[0]);
            let known = |name: &&String| all.iter().any(|system| name_of(system) == **name);
            if let Some(unknown) = names.iter().find(|name| !known(name)) {
                return Err(CliError::Usage(format!(
                    "there is no operating system {unknown}; `gnt os list` shows them"
                )));
            }
            let wanted = |system: &&Value| names.is_empty() || names.contains(&name_of(system));
            let chosen: Vec<Value> = all.iter().filter(wanted).cloned().collect();
            if json {
                return say_json(&objects(&chosen));
            }
            chosen.iter().try_for_each(|system| {
                say(format_args!("{}:", name_of(system)))?;
                say("  - variants:")?;
                for variant in texts(&system[1]) {
                    say(format_args!("    - {variant}"))?;
                }
                say("  - parameters:")?;
                for parameter in system[3].as_array().into_iter().flatten() {
                    let (name, about) = (python::text(&parameter[0]), python::text(&parameter[1]));
                    say(format_args!("    - {name}: {about}"))?;
                }
                Ok(())
            })
        }
        Os::Diagnose { job } => systems(&job, session)?.iter().try_for_each(|system| {
            say(format_args!("OS: {}", python::text(&system[0])))?;
            for (node, found) in system[4].as_object().into_iter().flatten() {
                for place in found.as_array().into_iter().flatten() {
                    let state = if place[1] == true { "valid" } else { "invalid" };
                    let (path, words) = (python::text(&place[0]), python::text(&place[2]));
                    let why = if words.is_empty() { words } else { format!(" ({words})") };
                    say(format_args!("  Node: {node}, {path}: {state}{why}"))?;
                }
            }
            Ok(())
        }),
    }
}

fn systems(job: &JobArguments, session: &Session) -> Result<Vec<Value>, CliError> {
    let output_fields = FIELDS.map(str::to_owned).to_vec();
    let op = OsDiagnose { output_fields, names: Vec::new() };
    let told = job.run(OpCode::OsDiagnose(op), session)?.unwrap_or_default();
    Ok(told.as_array().cloned().unwrap_or_default())
}

/// Systems as objects, by the names of their fields.
fn objects(systems: &[Value]) -> Vec<Value> {
    let object = |system: &Value| -> Value {
        let fields = FIELDS.iter().enumerate();
        fields.map(|(at, name)| ((*name).to_owned(), system[at].clone())).collect()
    };
    systems.iter().map(object).collect()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(python::text).collect()
}
