//! `gnt rack`.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use luxi::method::{Query, What};
use luxi::query::filter::Operand;
use luxi::query::{Cell, Filter, Table};
use serde_json::Value;
use stdx::text::line;

use crate::cells::plain;
use crate::error::CliError;
use crate::list::{ListFieldsArguments, as_json};
use crate::output::{print, say, say_json};
use crate::screen;
use crate::session::{Session, can_draw, pause};

/// The fields to ask for, in the order in which [`lines`] reads them.
const FIELDS: [&str; 8] =
    ["rack", "agents", "machines", "stages", "leases", "range", "warnings", "switches"];
/// The stages in the order of a boot.
const STAGES: [&str; 8] =
    ["none", "lease", "loader", "script", "kernel", "initrd", "config", "system"];

/// The verbs of `gnt rack`.
#[derive(Debug, Subcommand)]
pub(crate) enum Rack {
    /// Tell how racks stand: agents, machines by the stage of their boot, what is stuck and why.
    Status(StatusArguments),
    /// Describe the fields that `status --json` has.
    ListFields(ListFieldsArguments),
}

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 all is well, 1 there are warnings.")]
pub(crate) struct StatusArguments {
    /// Only these racks.
    #[arg(value_name = "RACK")]
    racks: Vec<u32>,
    /// Show it all the time, until `q` or Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Print all of it as JSON; with --watch, a line for each time.
    #[arg(long)]
    json: bool,
    /// Seconds between two pictures of --watch.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=3_600),
        requires = "watch"
    )]
    interval: u64,
}

/// Carries out one verb.
pub(crate) fn run(verb: Rack, session: &Session) -> Result<(), CliError> {
    match verb {
        Rack::Status(arguments) => status(&arguments, session),
        Rack::ListFields(arguments) => arguments.print(What::Rack, session),
    }
}

fn status(arguments: &StatusArguments, session: &Session) -> Result<(), CliError> {
    let interval = Duration::from_secs(arguments.interval);
    let racks: Vec<Operand> = arguments.racks.iter().map(|rack| u64::from(*rack).into()).collect();
    let chosen = (!racks.is_empty()).then(|| Filter::any_of("rack", racks));
    let ask = || {
        let fields = match arguments.json {
            true => ["stuck", "unknown"].iter().chain(&FIELDS).copied().collect(),
            false => FIELDS.into(),
        };
        session.ask(&Query { what: What::Rack, fields, filter: chosen.clone() })
    };
    if arguments.watch {
        if std::io::stdout().is_terminal() && can_draw() && !arguments.json {
            return screen::show(interval, || Ok(lines(&ask()?)));
        }
        loop {
            let table = ask()?;
            match arguments.json {
                true => say(Value::from(as_json(&table)))?,
                false => print(&(lines(&table).join("\n") + "\n"))?,
            }
            pause(interval);
        }
    }
    let table = ask()?;
    match arguments.json {
        true => say_json(&as_json(&table))?,
        false => print(&lines(&table).join("\n"))?,
    }
    let rows = as_json(&table);
    let is_there = |rack: &u32| rows.iter().any(|row| row["rack"].as_u64() == Some((*rack).into()));
    let missing: Vec<String> =
        arguments.racks.iter().filter(|rack| !is_there(rack)).map(u32::to_string).collect();
    if !missing.is_empty() {
        let text = format!("no machine and no agent is in rack {}", missing.join(", "));
        return Err(CliError::Failed(text));
    }
    match rows.iter().any(|row| row["warnings"] != Value::Array(Vec::new())) {
        true => Err(CliError::Told),
        false => Ok(()),
    }
}

/// The racks, each with a headline and what belongs to it.
fn lines(table: &Table) -> Vec<String> {
    if table.data.is_empty() {
        return vec!["No rack has a machine or an agent.".to_owned()];
    }
    table.data.iter().flat_map(|row| rack(row)).collect()
}

fn rack(row: &[Cell]) -> Vec<String> {
    let value = |at: usize| row.get(at).and_then(Cell::value).cloned().unwrap_or_default();
    let list = |at: usize| value(at).as_array().cloned().unwrap_or_default();
    let warnings = list(6);
    let verdict = match warnings.len() {
        0 => "all is well".to_owned(),
        1 => "1 warning".to_owned(),
        count => format!("{count} warnings"),
    };
    let stages = value(3);
    let stage = |name: &&str| {
        let name: &str = name;
        let word = if name == "none" { "not seen" } else { name };
        Some(format!("{} {word}", stages.get(name)?))
    };
    let stages: Vec<String> = STAGES.iter().filter_map(stage).collect();
    let stages = if stages.is_empty() { String::new() } else { format!(": {}", stages.join(", ")) };
    let agents: Vec<String> = list(1).iter().map(agent).collect();
    let agents = if agents.is_empty() { "none".to_owned() } else { agents.join(", ") };
    let mut lines = vec![
        format!("Rack {}: {verdict}", plain(&value(0))),
        format!("  Agents    {agents}"),
        format!("  Machines  {}{stages}", plain(&value(2))),
        format!("  Leases    {} of {} in use", plain(&value(4)), plain(&value(5))),
    ];
    let switch = |switch: &Value| format!("{} ({})", plain(&switch[0]), plain(&switch[1]));
    let switches: Vec<String> = list(7).iter().map(switch).collect();
    if !switches.is_empty() {
        lines.push(format!("  Switches  {}", switches.join(", ")));
    }
    lines.extend(warnings.iter().map(|warning| format!("  ! {}", plain(warning))));
    // Text from machines must not move the cursor.
    lines.iter().map(|text| line(text).into_owned()).collect()
}

fn agent(agent: &Value) -> String {
    let state = match (&agent["reached"], &agent["stale"]) {
        (Value::Bool(false), _) => "not reached",
        (Value::Bool(true), Value::Bool(true)) => "older rack document",
        (Value::Bool(true), _) => "reached",
        _ => "not asked yet",
    };
    format!("{} ({state})", plain(&agent["node"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rack_is_a_headline_and_what_belongs_to_it() {
        let agents = json!([
            {"node": "n1", "reached": true, "stale": false, "faults": []},
            {"node": "n2", "reached": false, "stale": true, "faults": []},
        ]);
        let warnings = json!(["s1: script for 61 s: no\u{1b}image"]);
        let stages = json!({"system": 2, "none": 1});
        let row = [json!(3), agents, json!(3), stages, json!(4), json!(31), warnings];
        let shown = rack(&row.map(Cell::normal));
        assert_eq!(shown[0], "Rack 3: 1 warning");
        assert_eq!(shown[1], "  Agents    n1 (reached), n2 (not reached)");
        assert_eq!(shown[2], "  Machines  3: 1 not seen, 2 system");
        assert_eq!(shown[3], "  Leases    4 of 31 in use");
        assert!(shown[4].starts_with("  ! s1: script") && !shown[4].contains('\u{1b}'));
    }
}
