//! `gnt`, the command line: a sub-command for each kind of object, a verb below it, and the names of
//! Ganeti's `gnt-*` tools. It reaches the master by LUXI alone, without a runtime: that saves milliseconds.
//!
//! In reading order: `membership` is what this machine is, `known` where the master is; `session` is what
//! every command needs to know and to reach the master, `output` writes text from outside as a terminal may
//! show it; `error` is what can go wrong, `explain`, `hint`, `refusal` and `absent` say it and what to do
//! next; `submit`, `batch`, `several`, `watch`, `follow`, `retry`, `outage` and `interrupt` make jobs and see them to
//! their ends, also by a master that is restarted meanwhile; `list`, `chosen`, `selection`, `table`, `cells`,
//! `expression`, `board`, `job_table`, `screen` and `keys` show lists. `all_fields`, `details` and
//! `params` show one object with all its fields, `parameters` reads those that are given, by `python`, `moment`, `span` and `natural`; `wrap`
//! breaks lines; then one module for each kind of object: `cluster`, `group`, `node`, `instance`, `backup`, `os`, `job`, `filter`,
//! `machine`, `rack`, `image`, `asset`, `boot_template`, `network_template`, `network`, `ipam`, `dhcp`,
//! `lease`, `switch`, `port`, `tenant` and `token`, and `tags`, which several have. `stage` sends the files of
//! some. `log` is the audit log, `debug` has jobs for tests, and `sabactl` is the command line of sabakan. `runbook`
//! explains codes of errors. `completion` gives words to shells, `completion_words` has those of fixed
//! sets. `generate` makes manual pages, `global_options` has the options of every command.

mod error;
mod known;
mod membership;
mod output;
mod session;

mod absent;
mod explain;
mod hint;
mod refusal;

mod batch;
mod follow;
mod interrupt;
mod retry;
mod several;
mod submit;
mod watch;

mod cells;
mod expression;
mod job_table;
mod keys;
mod list;
mod screen;
mod selection;
mod table;

mod all_fields;
mod details;
mod parameters;
mod params;
mod wrap;

mod moment;
mod natural;
mod network;
mod network_template;
mod python;
mod span;

mod asset;
mod backup;
mod boot_template;
mod cluster;
mod debug;
mod dhcp;
mod filter;
mod group;
mod image;
mod instance;
mod ipam;
mod job;
mod lease;
mod log;
mod machine;
mod node;
mod os;
mod port;
mod rack;
mod sabactl;
mod stage;
mod switch;
mod tags;
mod tenant;
mod token;

mod completion;
mod completion_words;
mod generate;
mod global_options;
mod runbook;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{
    ArgMatches, Args as _, ColorChoice, CommandFactory as _, FromArgMatches as _, Parser,
    Subcommand,
};

use completion::Shell;
use error::{CliError, Exit};
use explain::explain;
use global_options::GlobalOptions;
use model::boot_template::TemplateKind;
use model::layout::Layout;
use output::{say_lines, warn_lines};
use refusal::refuse;
use session::{Session, Words};
use stdx::text;

/// Operate a Gantry cluster.
///
/// Every change is a job: gnt submits it, shows what it says and ends when it ends. A job goes on
/// when gnt is interrupted; `gnt job watch` takes up its output again.
#[derive(Debug, Parser)]
#[command(
    name = "gnt",
    version,
    propagate_version = false,
    infer_long_args = true,
    args_override_self = true,
    after_help = "Exit status: 0 success, 1 failure or words that are missing or too many, 2 wrong \
                  options or broken configuration, 5 no cluster here, 11 not the master, 13 not confirmed, 14 unknown field, \
                  130 interrupted.\n\
                  Called as gnt-job, gnt-node, …, the first word is taken from that name."
)]
struct Arguments {
    #[command(flatten)]
    everywhere: GlobalOptions,
    #[command(subcommand)]
    object: Object,
}

/// The name of sabakan's command line, and of the object that stands for it.
const SABACTL: &str = "sabactl";

#[derive(Debug, Subcommand)]
enum Object {
    /// The cluster as a whole: begin it, see it, change it.
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    /// Tell on one screen how the cluster stands; the same as `gnt cluster status`.
    Status(cluster::StatusArguments),
    /// Show the audit log: who asked for which change, from where, and what came of it.
    Log(log::LogArguments),
    /// Nodes, the hosts of the cluster.
    #[command(subcommand)]
    Node(node::Node),
    /// Jobs of the queue.
    #[command(subcommand)]
    Job(job::Job),
    /// Rules that hold jobs back, refuse them or let them pass.
    #[command(subcommand)]
    Filter(filter::Filter),
    /// Node groups.
    #[command(subcommand)]
    Group(group::Group),
    /// Instances, virtual machines on the nodes.
    #[command(subcommand)]
    Instance(instance::Instance),
    /// Exports of instances, from which they are made again.
    #[command(subcommand)]
    Backup(backup::Backup),
    /// Operating systems of instances.
    #[command(subcommand)]
    Os(os::Os),
    /// The rules by which machines get addresses.
    #[command(subcommand)]
    Ipam(ipam::Ipam),
    /// How agents serve DHCP.
    #[command(subcommand)]
    Dhcp(dhcp::Dhcp),
    /// Machines, the bare-metal servers of the inventory.
    #[command(subcommand)]
    Machine(machine::Machine),
    /// Operating systems that machines boot.
    #[command(subcommand)]
    Image(image::Image),
    /// Files that machines fetch by name.
    #[command(subcommand)]
    Asset(asset::Asset),
    /// Networks, their pools, and who has which address.
    #[command(subcommand)]
    Network(network::Network),
    /// Templates of hosts' networks, one for each role.
    #[command(subcommand)]
    NetworkTemplate(network_template::NetworkTemplate),
    /// Templates of Ignition configurations, one for each role.
    #[command(subcommand)]
    IgnitionTemplate(boot_template::BootTemplate),
    /// Ignition configurations, as machines get them.
    #[command(subcommand)]
    Ignition(boot_template::Ignition),
    /// Templates of cloud-init's user data, one for each role.
    #[command(subcommand)]
    CloudInitTemplate(boot_template::BootTemplate),
    /// Data of cloud-init, as machines get it.
    #[command(subcommand)]
    CloudInit(boot_template::CloudInit),
    /// Racks, and how they stand.
    #[command(subcommand)]
    Rack(rack::Rack),
    /// Addresses that agents leased.
    #[command(subcommand)]
    Lease(lease::Lease),
    /// Switches, whose ports follow the machines behind them.
    #[command(subcommand)]
    Switch(switch::Switch),
    /// Ports of switches.
    #[command(subcommand)]
    Port(port::Port),
    /// Configurations of ports: VLANs, rules, packet size.
    #[command(subcommand)]
    PortConfiguration(port::PortConfiguration),
    /// Tenants, who use machines and ports within limits.
    #[command(subcommand)]
    Tenant(tenant::Tenant),
    /// Tokens, by which programs log in at the front door.
    #[command(subcommand)]
    Token(token::Token),
    /// The command line of sabakan, by its verbs and flags; a link of the name `sabactl` is the same.
    Sabactl(sabactl::Sabactl),
    /// Look inside, and test.
    #[command(subcommand)]
    Debug(debug::Debug),
    /// Explain the code of an error or alarm: what it means and what to do.
    Explain(runbook::ExplainArguments),
    /// Print completions of gnt for a shell: `source <(gnt completion bash)`.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Show the version of gnt, and that of the master where it is reached.
    Version,
    /// Show the options that every command takes.
    Options,
}

/// The definition of the whole command line. Each help page has one line on the options that every
/// command takes.
pub fn command() -> clap::Command {
    let options = |command: clap::Command| command.override_help(global_options::described());
    global_options::pointing(global_options::hidden(Arguments::command()))
        .mut_subcommand("options", options)
}

/// The definition of `gnt-job` and its like: the object `object` alone. `None` if there is none, or
/// it has no verbs.
fn command_of(object: &str) -> Option<clap::Command> {
    let all = command();
    let only = all.find_subcommand(object).filter(|found| found.has_subcommands())?.clone();
    let program = format!("gnt-{object}");
    let about = only.get_about().cloned().unwrap_or_default();
    let only = GlobalOptions::augment_args(only.version(env!("CARGO_PKG_VERSION"))).about(about);
    let only = global_options::hidden(only);
    // As Ganeti's tools read options.
    let only = only.infer_long_args(true).args_override_self(true);
    Some(only.display_name(program.clone()).bin_name(program))
}

/// Runs one command line and gives its exit status.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(written) = generate::write_if_asked(&arguments) {
        return written;
    }
    match completion::answer(&arguments) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => return refuse(error, &arguments).into(),
    }
    let color = color_choice(&arguments);
    let parsed = match read(&arguments, color) {
        Ok(parsed) => parsed,
        Err(error) => {
            let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            let exit = refuse(error, &arguments);
            let layout = Layout::new(Layout::default_root());
            if is_help
                && arguments.len() == 1
                && let Some(ways) = hint::ways_in(&layout)
                && warn_lines(&format!("\nThere is no cluster on this machine.\n{ways}")).is_err()
            {
                return Exit::CLOSED_PIPE.0.into();
            }
            return exit.into();
        }
    };
    let Parsed { everywhere, object, words } = parsed;
    let (object_name, verb) = words;
    let words = Words {
        object: object_name,
        verb,
        reason: everywhere.reason,
        debug_level: everywhere.debug,
        color: everywhere.color,
        master_wait: everywhere.master_wait.map(|seconds| Duration::from_secs(seconds.into())),
        as_ganeti: object_in_name(&arguments).is_some_and(|name| name != SABACTL),
    };
    let session = Session::new(
        &everywhere.root.unwrap_or_else(Layout::default_root),
        everywhere.socket,
        words,
    );
    let done = carry_out(object, &session);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error, &session),
    }
}

fn carry_out(object: Object, session: &Session) -> Result<(), CliError> {
    match object {
        Object::Cluster(verb) => cluster::run(verb, session),
        Object::Status(arguments) => cluster::status(&arguments, session),
        Object::Log(arguments) => log::run(&arguments, session),
        Object::Node(verb) => node::run(verb, session),
        Object::Job(verb) => job::run(verb, session),
        Object::Filter(verb) => filter::run(verb, session),
        Object::Group(verb) => group::run(verb, session),
        Object::Instance(verb) => instance::run(verb, session),
        Object::Ipam(verb) => ipam::run(verb, session),
        Object::Dhcp(verb) => dhcp::run(verb, session),
        Object::Machine(verb) => machine::run(verb, session),
        Object::Image(verb) => image::run(verb, session),
        Object::Backup(verb) => backup::run(verb, session),
        Object::Os(verb) => os::run(verb, session),
        Object::Asset(verb) => asset::run(verb, session),
        Object::Network(verb) => network::run(verb, session),
        Object::NetworkTemplate(verb) => network_template::run(verb, session),
        Object::IgnitionTemplate(verb) => boot_template::run(TemplateKind::Ignition, verb, session),
        Object::Ignition(verb) => boot_template::run_ignition(verb, session),
        Object::CloudInitTemplate(verb) => {
            boot_template::run(TemplateKind::CloudInit, verb, session)
        }
        Object::CloudInit(verb) => boot_template::run_cloud_init(verb, session),
        Object::Rack(verb) => rack::run(verb, session),
        Object::Lease(verb) => lease::run(verb, session),
        Object::Switch(verb) => switch::run(verb, session),
        Object::Port(verb) => port::run(verb, session),
        Object::PortConfiguration(verb) => port::run_configuration(verb, session),
        Object::Tenant(verb) => tenant::run(verb, session),
        Object::Token(verb) => token::run(verb, session),
        Object::Sabactl(arguments) => sabactl::run(arguments, session),
        Object::Debug(verb) => debug::run(verb, session),
        Object::Explain(arguments) => runbook::run(&arguments),
        Object::Completion { shell } => completion::print(shell).map_err(CliError::from),
        Object::Version => cluster::versions(session),
        Object::Options => say_lines(&global_options::described()),
    }
}

/// A command line that was read.
#[derive(Debug)]
struct Parsed {
    everywhere: GlobalOptions,
    object: Object,
    /// The names of object and verb, for the reason that every opcode carries.
    words: (String, String),
}

/// Reads a command line; as `gnt-job`, the program knows that object alone.
fn read(arguments: &[OsString], color: ColorChoice) -> Result<Parsed, clap::Error> {
    let verb = |matches: &ArgMatches| matches.subcommand_name().unwrap_or_default().to_owned();
    // Its help and its refusals are its own; a line that it takes is read as one of `gnt`.
    if let Some(definition) = object_in_name(arguments).and_then(command_of) {
        let _taken = definition.color(color).try_get_matches_from(arguments)?;
    }
    // An object that does not exist is refused by its name.
    let object = object_in_name(arguments).map(OsString::from);
    let rest = arguments.iter().skip(1).cloned();
    let arguments = std::iter::once("gnt".into()).chain(object).chain(rest);
    let matches = command().color(color).try_get_matches_from(arguments)?;
    let (object, inner) = matches.subcommand().unzip();
    let words = (object.unwrap_or_default().to_owned(), inner.map(verb).unwrap_or_default());
    let Arguments { everywhere, object } = Arguments::from_arg_matches(&matches)?;
    Ok(Parsed { everywhere, object, words })
}

fn report(error: &CliError, session: &Session) -> ExitCode {
    let (message, exit) = explain(error, session);
    if !message.is_empty() {
        let mut stderr = std::io::stderr().lock();
        let on_terminal = stderr.is_terminal();
        let written = if session.is_colored(on_terminal) {
            writeln!(stderr, "\x1b[31m{}\x1b[0m", text::lines(&message))
        } else {
            writeln!(stderr, "{}", text::lines(&message))
        };
        if written.is_err() {
            return Exit::CLOSED_PIPE.0.into();
        }
    }
    exit.0.into()
}

/// `job`, where the program was called as `gnt-job`.
fn object_in_name(arguments: &[OsString]) -> Option<&str> {
    let name = Path::new(arguments.first()?).file_name()?.to_str()?;
    if name == SABACTL { Some(name) } else { name.strip_prefix("gnt-") }
}

/// Messages on wrong arguments need the choice before the arguments are read.
fn color_choice(arguments: &[OsString]) -> ColorChoice {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let after = words.iter().zip(words.iter().skip(1));
    let apart = after.filter(|(option, _choice)| **option == "--color").map(|(_, choice)| *choice);
    let inline = words.iter().filter_map(|word| word.strip_prefix("--color="));
    apart.chain(inline).filter_map(|choice| choice.parse().ok()).next_back().unwrap_or_default()
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
        let read = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            read(&arguments, ColorChoice::Never).map(|parsed| parsed.words)
        };
        let job_list = ("job".to_owned(), "list".to_owned());
        assert_eq!(read("gnt job --color never list -o id").unwrap(), job_list);
        assert_eq!(read("/usr/sbin/gnt-job --root / list -o id").unwrap(), job_list);
        assert!(read("gnt-job job list").is_err());
        let refused = read("gnt-nothing list").unwrap_err().to_string();
        assert!(refused.contains("'nothing'"), "{refused}");
    }

    /// As Python's optparse reads them, which Ganeti's tools use.
    #[test]
    fn options_may_be_shortened_and_the_last_one_counts() {
        let list = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let Object::Job(job::Job::List(list)) = read(&arguments, ColorChoice::Never)?.object
            else {
                panic!("{line}")
            };
            Ok::<String, clap::Error>(format!("{list:?}"))
        };
        for (short, long) in [
            ("gnt-job list --sep=:", "gnt job list --separator :"),
            ("gnt job list --no-head --out status", "gnt job list --no-headers -o status"),
            ("gnt job list --pend --fini", "gnt job list --pending --finished"),
            ("gnt-job list -o id -o status", "gnt job list --output status"),
            ("gnt job list --no-headers --no-headers", "gnt job list --no-headers"),
            ("gnt job list --separator a --sep b", "gnt job list --separator b"),
        ] {
            assert_eq!(list(short).unwrap(), list(long).unwrap(), "{short}");
        }
        // Options that may be given several times still add up.
        let delay = "gnt debug delay 1 -n a -n b".split(' ').map(OsString::from);
        let delay = format!("{:?}", read(&delay.collect::<Vec<_>>(), ColorChoice::Never).unwrap());
        assert!(delay.contains(r#"nodes: ["a", "b"]"#), "{delay}");
        let ambiguous = list("gnt job list --r").unwrap_err();
        assert_eq!(ambiguous.kind(), clap::error::ErrorKind::UnknownArgument);
    }

    #[test]
    fn colors_of_messages() {
        for (line, choice) in [
            ("gnt job list", ColorChoice::Auto),
            ("gnt --color never job", ColorChoice::Never),
            ("gnt job --color=always", ColorChoice::Always),
            ("gnt --color never job --color always", ColorChoice::Always),
            ("gnt --color", ColorChoice::Auto),
        ] {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(color_choice(&arguments), choice, "{line}");
        }
    }

    #[test]
    fn each_object_is_a_program() {
        for object in command().get_subcommands().filter(|object| object.has_subcommands()) {
            let name = object.get_name();
            let definition = command_of(name).unwrap();
            definition.clone().debug_assert();
            let help = definition.clone().render_long_help().to_string();
            assert!(help.contains(&format!("Usage: gnt-{name} ")), "{help}");
            assert!(help.starts_with(&object.get_about().unwrap().to_string()), "{help}");
            let verb = definition.get_subcommands().last().unwrap().get_name().to_owned();
            let line = [format!("gnt-{name}"), verb, "--help".to_owned()];
            let told = definition.try_get_matches_from(line).unwrap_err().to_string();
            assert!(told.contains(&format!("Usage: gnt-{name} ")), "{told}");
        }
    }
}
