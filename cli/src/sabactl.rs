//! `sabactl`: the command line of sabakan, by its verbs, flags and forms. Each verb is what another object of
//! `gnt` does, with its words kept back.

mod files;
mod machines;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use luxi::Method;
use luxi::method::{Fields, GantryDhcp, GantryLog, Query, QueryClusterInfo, What};
use luxi::query::{Cell, Filter};
use model::audit::{AuditFilter, ENTRIES_MAX};
use model::boot_template::{TemplateId, TemplateKind};
use model::error::ErrorCode;
use model::image::Parameter;
use model::opcode::{
    BootTemplateAdd, BootTemplateRemove, DhcpSet, KernelSet, MachineDiskKeysRemove,
};
use model::sabakan::{given, log, time};
use model::{Exception, OpCode, Word};
use serde_json::Value;

use crate::error::{CliError, Exit};
use crate::explain::explain;
use crate::follow::wait;
use crate::ipam;
use crate::output::{print, say, say_json, warn_lines};
use crate::session::{Session, read_input};
use crate::submit::JobArguments;

/// Seconds of a day.
const DAY: i64 = 86_400;
/// Characters of a detail that a line of the log shows.
const DETAIL_MAX: usize = 20;

/// Arguments of `sabactl`.
#[derive(Debug, Args)]
pub(crate) struct Sabactl {
    /// Taken where it names this machine, and of no use: the master is asked by the socket here.
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// The same.
    #[arg(long, global = true, value_name = "URL")]
    tls_server: Option<String>,
    /// Taken, and of no use either.
    #[arg(long, global = true)]
    insecure: bool,
    #[command(subcommand)]
    noun: Noun,
}

/// The kinds of object that `sabactl` knows.
#[derive(Debug, Subcommand)]
enum Noun {
    /// The rules of addresses.
    #[command(subcommand)]
    Ipam(Settings),
    /// How agents serve DHCP.
    #[command(subcommand)]
    Dhcp(Settings),
    /// Machines of the inventory.
    #[command(subcommand)]
    Machines(machines::Machines),
    /// Versions of the image `coreos`.
    #[command(subcommand)]
    Images(files::Images),
    /// Files that machines fetch by name.
    #[command(subcommand)]
    Assets(files::Assets),
    /// Templates of Ignition.
    #[command(subcommand)]
    Ignitions(Ignitions),
    /// Kernel parameters of all machines.
    #[command(subcommand)]
    KernelParams(KernelParams),
    /// Keys of machines' disks.
    #[command(subcommand)]
    Crypts(Crypts),
    /// Print who changed what.
    Logs {
        /// Print a JSON object for each.
        #[arg(long)]
        json: bool,
        /// The first day, such as 20261120; that day alone where no other is given.
        since: Option<String>,
        /// The day behind the last one.
        until: Option<String>,
    },
    /// Print the version of this program.
    Version,
}

/// The verbs for settings.
#[derive(Debug, Subcommand)]
enum Settings {
    /// Set them.
    Set {
        /// JSON file.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Print them as JSON.
    Get,
}

/// The verbs for templates of Ignition.
#[derive(Debug, Subcommand)]
enum Ignitions {
    /// Print the versions of a role's template, or one of them.
    Get {
        /// The role.
        role: String,
        /// The version.
        id: Option<TemplateId>,
    },
    /// Add a version.
    Set {
        /// The template.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
        /// The file is JSON, as the REST API takes it; files in YAML that include others are not read.
        #[arg(long, required = true)]
        json: bool,
        /// The role.
        role: Word,
        /// The version.
        id: TemplateId,
    },
    /// Remove a version.
    Delete {
        /// The role.
        role: Word,
        /// The version.
        id: TemplateId,
    },
}

/// The verbs for kernel parameters.
#[derive(Debug, Subcommand)]
enum KernelParams {
    /// Set them.
    Set {
        /// All of them, with blanks between.
        #[arg(allow_hyphen_values = true)]
        parameters: String,
    },
    /// Print them.
    Get,
}

/// The verbs for keys of disks.
#[derive(Debug, Subcommand)]
enum Crypts {
    /// Forget all keys of a machine: what is on its disks cannot be read any more.
    Delete {
        /// Really.
        #[arg(long, required = true)]
        force: bool,
        /// Its serial number.
        serial: String,
    },
}

/// Carries out one verb; the exit status is sabactl's.
pub(crate) fn run(arguments: Sabactl, session: &Session) -> Result<(), CliError> {
    let Sabactl { server, tls_server, insecure: _, noun } = arguments;
    if let Some(server) = server.into_iter().chain(tls_server).find(|server| !is_here(server)) {
        let text = format!(
            "--server {server} is another machine: run this on a candidate of that cluster, or use \
             the REST API there"
        );
        return Err(CliError::Usage(text));
    }
    carry_out(noun, session).map_err(|error| {
        let Some(exit) = exit_of(&error) else { return error };
        match warn_lines(&explain(&error, session).0) {
            Ok(()) => CliError::Ended(exit),
            Err(gone) => gone,
        }
    })
}

fn carry_out(noun: Noun, session: &Session) -> Result<(), CliError> {
    match noun {
        Noun::Ipam(Settings::Get) => ipam::run(ipam::Ipam::Get, session),
        Noun::Ipam(Settings::Set { file }) => quietly(ipam::set(&file)?, session).map(drop),
        Noun::Dhcp(Settings::Get) => say_json(&given::shown_dhcp(&session.ask(&GantryDhcp {})?)),
        Noun::Dhcp(Settings::Set { file }) => {
            let current = session.ask(&GantryDhcp {})?;
            let config = read(&file, "object with settings of DHCP", |given| match given {
                Value::Object(given) => given::dhcp(given, &current).map(Value::from),
                other => Ok(other),
            })?;
            quietly(OpCode::DhcpSet(DhcpSet { config }), session).map(drop)
        }
        Noun::Machines(verb) => machines::run(verb, session),
        Noun::Images(verb) => files::images(verb, session),
        Noun::Assets(verb) => files::assets(verb, session),
        Noun::Ignitions(verb) => ignitions(verb, session),
        Noun::KernelParams(KernelParams::Get) => {
            let info = session.ask(&QueryClusterInfo {})?;
            let words = info["kernel_parameters"]["all"].as_array();
            let words: Vec<&str> = words.into_iter().flatten().filter_map(Value::as_str).collect();
            say(words.join(" "))
        }
        Noun::KernelParams(KernelParams::Set { parameters }) => {
            let parameters = Parameter::split(&parameters)
                .map_err(|error| CliError::wrong_input(error.to_string()))?;
            let op = KernelSet { role: None, parameters };
            quietly(OpCode::KernelSet(op), session).map(drop)
        }
        Noun::Crypts(Crypts::Delete { force: _, serial }) => {
            let op = MachineDiskKeysRemove { serial, only_retiring: true };
            quietly(OpCode::MachineDiskKeysRemove(op), session).map(drop)
        }
        Noun::Logs { json, since, until } => logs(json, since, until, session),
        Noun::Version => say(format_args!("sabactl of gnt {}", env!("CARGO_PKG_VERSION"))),
    }
}

/// Whether a URL is that of this machine, as sabactl's own default is.
fn is_here(server: &str) -> bool {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _port)| host);
    host == "localhost" || host == "[::1]" || host.starts_with("127.")
}

/// Runs an opcode as a job to its end and says nothing of it; the result.
fn quietly(op: OpCode, session: &Session) -> Result<Value, CliError> {
    let op = serde_json::to_value(op).expect("opcodes are maps of plain values");
    let mut client = session.connect()?;
    let id = JobArguments::default().begin(op, &mut client, session)?;
    let results = CliError::of_end(id, wait(session, &mut client, id)?)?;
    Ok(results.into_iter().next().unwrap_or_default())
}

/// The rows of a list.
fn rows(
    what: What,
    fields: impl Into<Fields>,
    filter: Option<Filter>,
    session: &Session,
) -> Result<Vec<Vec<Value>>, CliError> {
    let table = ask(&Query { what, fields: fields.into(), filter }, session)?;
    let values = |row: Vec<Cell>| row.into_iter().map(Cell::into_value).collect();
    Ok(table.data.into_iter().map(values).collect())
}

fn ask<M: Method>(call: &M, session: &Session) -> Result<M::Reply, CliError> {
    session.ask(call)
}

fn missing(text: String) -> CliError {
    CliError::Refused(Exception::prereq(text, ErrorCode::UnknownEntity))
}

fn ignitions(verb: Ignitions, session: &Session) -> Result<(), CliError> {
    let kind = TemplateKind::Ignition;
    match verb {
        Ignitions::Get { role, id } => {
            let of = |field: &str, value: &str| Filter::any_of(field, [value]);
            let filter = Filter::And(vec![of("kind", kind.as_str()), of("role", &role)]);
            let found = rows(What::BootTemplate, ["version", "text"], Some(filter), session)?;
            let read = |row: &Vec<Value>| {
                let [id, text] = row.as_slice() else { return None };
                Some((id.as_str()?.parse::<TemplateId>().ok()?, text.as_str()?.to_owned()))
            };
            let mut versions: Vec<_> = found.iter().filter_map(read).collect();
            versions.sort();
            let Some(id) = id else {
                let ids: Vec<_> = versions.into_iter().map(|(id, _)| id).collect();
                return say_json(&ids);
            };
            let text = versions.into_iter().find(|(known, _)| *known == id);
            let none = || missing(format!("role {role} has no template {id}"));
            print(text.ok_or_else(none)?.1.trim_end())
        }
        Ignitions::Set { file, json: _, role, id } => {
            let text = read_input(&file)?;
            let op = BootTemplateAdd { kind, role, id, text, other_spec: false };
            quietly(OpCode::BootTemplateAdd(op), session).map(drop)
        }
        Ignitions::Delete { role, id } => {
            let op = BootTemplateRemove { kind, role, id: Some(id) };
            quietly(OpCode::BootTemplateRemove(op), session).map(drop)
        }
    }
}

fn logs(
    json: bool,
    since: Option<String>,
    until: Option<String>,
    session: &Session,
) -> Result<(), CliError> {
    let day = |text: String| {
        let wrong = || CliError::Usage(format!("`{text}` is no day, such as 20261120"));
        time::day(&text).ok_or_else(wrong)
    };
    let since = since.map(day).transpose()?;
    let until = until.map(day).transpose()?.or_else(|| since.map(|day| day.plus_seconds(DAY)));
    let filter = AuditFilter { since, until, ..AuditFilter::default() };
    for entry in ask(&GantryLog { filter, limit: ENTRIES_MAX }, session)? {
        let entry = log::shown(&entry);
        say(if json { entry.to_string() } else { line(&entry) })?;
    }
    Ok(())
}

/// An entry of the log for people, as sabactl writes it.
fn line(entry: &Value) -> String {
    let of = |key: &str| entry[key].as_str().unwrap_or_default();
    let detail: String = of("detail").chars().take(DETAIL_MAX).collect();
    format!(
        "{} {}@{} {}/{} {} detail:{detail}",
        of("ts"),
        of("user"),
        of("ip"),
        of("category"),
        of("instance"),
        of("action")
    )
}

/// sabactl's exit status for what the master refused.
fn exit_of(error: &CliError) -> Option<Exit> {
    let exception = match error {
        CliError::Job { exception, .. } | CliError::Refused(exception) => exception,
        CliError::Client(error) => error.exception()?,
        _ => return None,
    };
    Some(match exception.args.get(1).and_then(Value::as_str)? {
        "unknown_entity" => Exit(14),
        "already_exists" | "resource_not_unique" | "wrong_state" => Exit(19),
        "wrong_input" => Exit(4),
        _ => Exit(5),
    })
}

/// Reads a file in sabakan's form as JSON of this kind; `ours` makes our form of it.
fn read<T: serde::de::DeserializeOwned>(
    file: &Path,
    what: &'static str,
    ours: impl FnOnce(Value) -> Result<Value, String>,
) -> Result<T, CliError> {
    let text = read_input(file)?;
    let wrong = |why: &dyn std::fmt::Display| {
        CliError::wrong_input(format!("`{}` is no {what}: {why}", file.display()))
    };
    let given = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    let ours = ours(given).map_err(|why| wrong(&why))?;
    serde_json::from_value(ours).map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_this_machine_is_here() {
        for here in
            ["http://localhost:10080", "https://127.0.0.1:10443/", "localhost", "[::1]:8888"]
        {
            assert!(is_here(here), "{here}");
        }
        for other in ["http://10.0.0.1:10080", "localhost.example:80", ""] {
            assert!(!is_here(other), "{other}");
        }
    }

    #[test]
    fn exit_statuses_are_sabactls() {
        let of = |code| {
            let exception = Exception::prereq("no", code);
            exit_of(&CliError::Refused(exception)).map(|exit| exit.0)
        };
        assert_eq!(of(ErrorCode::UnknownEntity), Some(14));
        assert_eq!(of(ErrorCode::AlreadyExists), Some(19));
        assert_eq!(of(ErrorCode::WrongInput), Some(4));
        assert!(exit_of(&CliError::Told).is_none());
    }

    #[test]
    fn a_line_of_the_log() {
        let entry = json!({"ts": "2018-11-21T01:23:45Z", "user": "alice", "ip": "", "category": "machine",
            "instance": "S1", "action": "add", "detail": "success"});
        assert_eq!(line(&entry), "2018-11-21T01:23:45Z alice@ machine/S1 add detail:success");
    }
}
