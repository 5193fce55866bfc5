//! Completions: the shell asks this program for the words that fit, which asks the master for the
//! names and numbers among them.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Command;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate};
use luxi::Client;
use luxi::method::{Query, What};
use luxi::query::{Cell, Filter};
use model::layout::Layout;
use stdx::pages::{Generated, completion_path};
use stdx::text;

use crate::{command, command_of, object_in_name, python};

/// The variable by which a shell asks for words, and says which shell it is.
const ASKED: &str = "GANTRY_COMPLETE";
/// How long a master may take: whoever pressed a key would rather type the word than wait.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Words that are offered of one kind: what a reader chooses from.
const WORDS_MAX: usize = 200;

/// Gives a word for what was typed so far.
type Offer = fn(&OsStr) -> Vec<CompletionCandidate>;

/// The objects whose verbs take such words, the arguments that take them, and where they come from.
/// Verbs that add something take words that are not there yet.
const OFFERS: &[(&str, &[&str], Offer)] = &[
    ("node", &["name", "names"], nodes),
    ("job", &["id", "ids"], jobs),
    ("machine", &["serial", "serials"], machines),
    ("token", &["name", "names"], tokens),
    ("group", &["name", "names"], groups),
    ("filter", &["uuid", "uuids"], rules),
    ("cluster", &["to", "nodes", "ignore_node"], nodes),
    ("cluster", &["node_group"], groups),
    ("debug", &["nodes"], nodes),
    ("rack", &["racks"], racks),
    ("lease", &["racks"], racks),
    ("lease", &["addresses"], addresses),
    ("switch", &["switch", "switches"], switches),
    ("port", &["ports"], ports),
    ("machine", &["port"], ports),
    ("port", &["configuration"], configurations),
    ("port-configuration", &["name", "names"], configurations),
    ("tenant", &["tenant", "names"], tenants),
    ("tenant", &["machines"], machines),
    ("instance", &["name", "names"], instances),
    ("instance", &["node", "target_node"], nodes),
    ("instance", &["node_group"], groups),
];

/// Verbs that add what they name.
const ADDS: &str = "add";

/// Answers a shell that asks for words; whether one did.
///
/// # Errors
/// The shell is none that this program knows, or is gone.
pub(crate) fn answer(arguments: &[OsString]) -> Result<bool, clap::Error> {
    let definition = || match object_in_name(arguments).and_then(command_of) {
        Some(object) => {
            let name = object.get_name().to_owned();
            offering(object, &name)
        }
        None => all_offering(),
    };
    let directory = std::env::current_dir().ok();
    CompleteEnv::with_factory(definition)
        .var(ASKED)
        .try_complete(arguments.iter().cloned(), directory.as_deref())
}

fn all_offering() -> Command {
    command().mut_subcommands(|object| {
        let name = object.get_name().to_owned();
        offering(object, &name)
    })
}

/// The definition of an object whose arguments offer what there is.
fn offering(definition: Command, object: &str) -> Command {
    let offers = OFFERS.iter().filter(|(of, ..)| *of == object);
    let offers: Vec<_> = offers.collect();
    definition.mut_subcommands(|verb| {
        if verb.get_name() == ADDS {
            return verb;
        }
        verb.mut_args(|argument| {
            let id = argument.get_id().as_str();
            match offers.iter().find(|(_, ids, _)| ids.contains(&id)) {
                Some((_, _, offer)) => argument.add(ArgValueCompleter::new(*offer)),
                None => argument,
            }
        })
    })
}

/// Shells that completions are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    const fn generator(self) -> clap_complete::Shell {
        match self {
            Self::Bash => clap_complete::Shell::Bash,
            Self::Zsh => clap_complete::Shell::Zsh,
            Self::Fish => clap_complete::Shell::Fish,
        }
    }

    /// The script by which the shell asks `program` for words.
    fn registration(self, program: &str) -> Vec<u8> {
        let completer: &dyn EnvCompleter = match self {
            Self::Bash => &Bash,
            Self::Zsh => &Zsh,
            Self::Fish => &Fish,
        };
        let mut script = Vec::new();
        completer
            .write_registration(ASKED, program, program, program, &mut script)
            .expect("memory takes all that is written to it");
        if self == Self::Zsh {
            // The file is a function that zsh runs for the first key, which wants an answer too.
            let function = format!("_clap_dynamic_completer_{}", program.replace('-', "_"));
            let first = format!("[[ $funcstack[1] != _{program} ]] || {function} \"$@\"\n");
            script.extend(first.into_bytes());
        }
        script
    }
}

/// Prints what a shell needs to complete `gnt`.
pub(crate) fn print(shell: Shell) -> io::Result<()> {
    io::stdout().lock().write_all(&shell.registration("gnt"))
}

/// Completions for `gnt` and each `gnt-OBJECT`: path below `/usr/share` and content.
pub(crate) fn completions() -> Generated {
    let all = command();
    let objects = all.get_subcommands().filter(|object| object.has_subcommands());
    let own = objects.map(|object| format!("gnt-{}", object.get_name()));
    let programs = std::iter::once("gnt".to_owned()).chain(own);
    let files = programs.flat_map(|program| {
        Shell::ALL.map(|shell| {
            (completion_path(shell.generator(), &program), shell.registration(&program))
        })
    });
    files.collect()
}

fn nodes(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::Node, "name", begin).unwrap_or_default()
}

fn machines(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::Machine, "serial", begin).unwrap_or_default()
}

fn racks(begin: &OsStr) -> Vec<CompletionCandidate> {
    let ask = || {
        let begin = begin.to_str()?;
        let rows = asked(&Query { what: What::Rack, fields: ["rack"].into(), filter: None })?;
        let number = |row: &Vec<Cell>| Some(row.first()?.value()?.as_u64()?.to_string());
        let numbers = rows.iter().filter_map(number).filter(|number| number.starts_with(begin));
        Some(numbers.take(WORDS_MAX).map(CompletionCandidate::new).collect())
    };
    ask().unwrap_or_default()
}

fn addresses(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::Lease, "ipv4", begin).unwrap_or_default()
}

fn tokens(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::Token, "name", begin).unwrap_or_default()
}

fn switches(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::Switch, "name", begin).unwrap_or_default()
}

fn ports(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::Port, "name", begin).unwrap_or_default()
}

fn configurations(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::PortConfiguration, "name", begin).unwrap_or_default()
}

fn tenants(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::Tenant, "name", begin).unwrap_or_default()
}

fn instances(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::Instance, "name", begin).unwrap_or_default()
}

fn groups(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::Group, "name", begin).unwrap_or_default()
}

fn rules(begin: &OsStr) -> Vec<CompletionCandidate> {
    words(What::Filter, "uuid", begin).unwrap_or_default()
}

/// The newest jobs whose numbers begin so, with what they do.
fn jobs(begin: &OsStr) -> Vec<CompletionCandidate> {
    let ask = || {
        let begin = begin.to_str()?;
        let rows = asked(&Query {
            what: What::Job,
            fields: ["id", "status", "summary"].into(),
            filter: None,
        })?;
        let number = |row: &Vec<Cell>| row.first().and_then(Cell::value)?.as_u64();
        let mut rows: Vec<_> =
            rows.into_iter().filter_map(|row| Some((number(&row)?, row))).collect();
        rows.retain(|(number, _)| number.to_string().starts_with(begin));
        rows.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        let told = |row: &[Cell]| {
            let parts = row.iter().skip(1).filter_map(Cell::value).map(python::text);
            text::line(&parts.collect::<Vec<_>>().join(" ")).into_owned()
        };
        let job = |(number, row): (u64, Vec<Cell>)| {
            CompletionCandidate::new(number.to_string()).help(Some(told(&row).into()))
        };
        Some(rows.into_iter().take(WORDS_MAX).map(job).collect())
    };
    ask().unwrap_or_default()
}

/// The values of a field that begin so; `None` where the master does not tell in time.
fn words(what: What, field: &str, begin: &OsStr) -> Option<Vec<CompletionCandidate>> {
    let begin = begin.to_str()?;
    // There may be very many of them.
    let filter = match begin {
        "" => None,
        begin => Some(Filter::matching(field, &format!("^{}", regex::escape(begin))).ok()?),
    };
    let rows = asked(&Query { what, fields: [field].into(), filter })?;
    let value = |row: &Vec<Cell>| Some(row.first()?.value()?.as_str()?.to_owned());
    let fits = |word: &String| text::line(word) == *word;
    let words = rows.iter().filter_map(value).filter(fits).take(WORDS_MAX);
    Some(words.map(CompletionCandidate::new).collect())
}

/// Asks the master that the line to complete is about, and says nothing where there is none.
fn asked(question: &Query) -> Option<Vec<Vec<Cell>>> {
    let line: Vec<OsString> = std::env::args_os().collect();
    let option = |name: &str| {
        let after = line.iter().position(|word| word == name)?;
        line.get(after + 1).map(PathBuf::from)
    };
    let socket = option("--socket");
    let socket = socket.unwrap_or_else(|| {
        Layout::new(option("--root").unwrap_or_else(Layout::default_root)).luxi_socket()
    });
    let client = Client::connect(&socket).ok()?;
    Some(client.answered_within(ANSWER_MAX).call(question).ok()?.data)
}
