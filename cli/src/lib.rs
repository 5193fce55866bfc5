//! `gnt`, the command line: one sub-command a kind of object, one verb below it, as Ganeti's
//! `gnt-*` tools, whose names it answers to as well.
//!
//! It reaches the master only by LUXI, and starts no runtime: it is to be gone in milliseconds.
//!
//! In reading order: `session` is what every command needs to know and to reach the master,
//! `error` and `hint` say what went wrong and what to do next; `submit`, `watch`, `follow`
//! and `interrupt` make a job and see it to its end; `list`, `chosen`, `table`, `cells`,
//! `expression` and `outline` show things; then one module for each kind of object.

mod error;
mod hint;
mod session;

mod follow;
mod interrupt;
mod submit;
mod watch;

mod cells;
mod chosen;
mod expression;
mod list;
mod outline;
mod table;

mod cluster;
mod debug;
mod ipam;
mod job;
mod machine;
mod node;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use error::{CliError, Exit};
use session::Session;

/// Where options stand that every command has.
const GLOBAL: &str = "Everywhere";

/// Operate a Gantry cluster.
///
/// Every change is a job: gnt submits it, shows what it says and ends when it ends. A job goes on
/// when gnt is interrupted; `gnt job watch` takes up its output again.
#[derive(Debug, Parser)]
#[command(
    name = "gnt",
    version,
    propagate_version = false,
    after_help = "Exit status: 0 success, 1 failure, 2 wrong usage or broken configuration, \
                  5 no cluster here, 11 not the master, 13 not confirmed, 14 unknown field, \
                  130 interrupted.\n\
                  Called as gnt-job, gnt-node, …, the first word is taken from that name."
)]
struct Arguments {
    /// Directory below which all paths lie; the variable GANTRY_ROOT sets it too.
    #[arg(long, value_name = "DIR", global = true, help_heading = GLOBAL, display_order = 900)]
    root: Option<PathBuf>,
    /// The master's socket, if it is not where it should be below the root.
    #[arg(long, value_name = "PATH", global = true, help_heading = GLOBAL, display_order = 901)]
    socket: Option<PathBuf>,
    /// Whether to use colours.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        help_heading = GLOBAL,
        display_order = 902
    )]
    color: ColorChoice,
    #[command(subcommand)]
    object: Object,
}

#[derive(Debug, Subcommand)]
enum Object {
    /// The cluster as a whole: begin it, see it, change it.
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    /// Nodes, the hosts of the cluster.
    #[command(subcommand)]
    Node(node::Node),
    /// Jobs of the queue.
    #[command(subcommand)]
    Job(job::Job),
    /// The rules by which machines get addresses.
    #[command(subcommand)]
    Ipam(ipam::Ipam),
    /// Machines, the bare-metal servers of the inventory.
    #[command(subcommand)]
    Machine(machine::Machine),
    /// Look inside, and test.
    #[command(subcommand)]
    Debug(debug::Debug),
}

/// The definition of the whole command line, for man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs one command line and gives its exit status.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = spell_out(arguments.into_iter().collect());
    let color = color_choice(&arguments);
    let parsed = command()
        .color(color)
        .try_get_matches_from(&arguments)
        .and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, words(&matches))));
    let (parsed, words) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let status = u8::try_from(error.exit_code()).unwrap_or(Exit::FAILURE.0);
            return if error.print().is_ok() { status } else { Exit::CLOSED_PIPE.0 }.into();
        }
    };
    let session = Session::new(&root(parsed.root), parsed.socket, words);
    let done = match parsed.object {
        Object::Cluster(verb) => cluster::run(verb, &session),
        Object::Node(verb) => node::run(verb, &session),
        Object::Job(verb) => job::run(verb, &session),
        Object::Ipam(verb) => ipam::run(verb, &session),
        Object::Machine(verb) => machine::run(verb, &session),
        Object::Debug(verb) => debug::run(verb, &session),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error, &session, color),
    }
}

/// The root as given, or of the environment, or that of an installed machine.
fn root(given: Option<PathBuf>) -> PathBuf {
    given.or_else(|| std::env::var_os("GANTRY_ROOT").map(PathBuf::from)).unwrap_or("/".into())
}

fn report(error: &CliError, session: &Session, color: ColorChoice) -> ExitCode {
    let (message, exit) = error.explain(session);
    if !message.is_empty() {
        let mut stderr = std::io::stderr().lock();
        let red = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        let written = if red {
            writeln!(stderr, "\x1b[31m{message}\x1b[0m")
        } else {
            writeln!(stderr, "{message}")
        };
        if written.is_err() {
            return Exit::CLOSED_PIPE.0.into();
        }
    }
    exit.0.into()
}

/// Turns `gnt-job list` into `gnt job list`.
fn spell_out(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(program) = arguments.first() else { return vec!["gnt".into()] };
    let name = Path::new(program).file_name().and_then(|name| name.to_str());
    let object = name.and_then(|name| name.strip_prefix("gnt-")).map(OsString::from);
    if let Some(object) = object {
        arguments.insert(1, object);
    }
    arguments
}

/// Messages on wrong arguments need the choice before the arguments are read.
fn color_choice(arguments: &[OsString]) -> ColorChoice {
    let mut words = arguments.iter().filter_map(|word| word.to_str());
    let inline = words.clone().find_map(|word| word.strip_prefix("--color="));
    let choice = inline.or_else(|| words.find(|word| *word == "--color").and(words.next()));
    choice.and_then(|choice| choice.parse().ok()).unwrap_or(ColorChoice::Auto)
}

/// The words that name object and verb, for the reason that every opcode carries.
fn words(matches: &clap::ArgMatches) -> (String, String) {
    let (object, inner) = matches.subcommand().unzip();
    let verb = inner.and_then(clap::ArgMatches::subcommand_name);
    (object.unwrap_or_default().to_owned(), verb.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn names_of_the_program() {
        let spelled = |words: &[&str]| spell_out(words.iter().map(OsString::from).collect());
        assert_eq!(spelled(&["/usr/sbin/gnt-job", "list"]), ["/usr/sbin/gnt-job", "job", "list"]);
        assert_eq!(spelled(&["gnt", "job"]), ["gnt", "job"]);
        assert_eq!(spelled(&[]), ["gnt"]);
        let matches = command().get_matches_from("gnt job --color never list -o id".split(' '));
        assert_eq!(words(&matches), ("job".to_owned(), "list".to_owned()));
    }
}
