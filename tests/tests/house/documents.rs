//! The documents agree with the code where a table stands in both, and their links lead somewhere.

use std::path::Path;

use model::layout::{self, Layout};

use crate::direction;
use crate::source::{self, SourceFile};

const MAP: &str = "docs/ARCHITECTURE.md";
const REPLICATION: &str = "docs/decisions/0005-replication.md";
const INSTALL: &str = "docs/install.md";

#[test]
fn every_path_of_the_layout_is_documented() {
    let text = source::read(INSTALL);
    for (path, owner, mode, what) in Layout::TABLE {
        let row = format!("| `/{path}` | `{owner}` | {mode} | {} |", what.trim());
        assert!(text.contains(&row), "{INSTALL} lacks the row\n{row}");
    }
    let rows = text.lines().filter(|line| line.starts_with("| `/")).count();
    assert_eq!(rows, Layout::TABLE.len(), "{INSTALL} has rows that the layout has not");
}

#[test]
fn every_port_and_user_is_documented() {
    let text = source::read(INSTALL);
    for port in [
        layout::RPC_PORT,
        layout::RAPI_PORT,
        layout::BOOT_PORT,
        layout::BOOT_PORT_ALIAS,
        layout::DHCP_SERVER_PORT,
        layout::MASTER_METRICS_PORT,
        layout::PEER_PORT,
        layout::NODE_METRICS_PORT,
    ] {
        assert!(text.contains(&format!("| {port} |")), "{INSTALL} lacks port {port}");
    }
    for name in [
        layout::MASTER_USER,
        layout::NODE_USER,
        layout::RAPI_USER,
        layout::DAEMON_GROUP,
        layout::ADMIN_GROUP,
    ] {
        assert!(text.contains(&format!("| `{name}` |")), "{INSTALL} lacks {name}");
    }
}

#[test]
fn the_map_shows_every_crate() {
    let text = source::read(MAP);
    for member in direction::members() {
        assert!(text.contains(&format!("| `{member}` |")), "{MAP} lacks crate {member}");
    }
}

#[test]
fn the_map_shows_only_files_that_exist() {
    let members = direction::members();
    let text = source::read(MAP);
    let gone = quoted(&text).filter(|word| {
        let first = word.split('/').next().unwrap_or_default();
        let is_path = word.contains('/') && (members.contains(first) || first == "docs");
        is_path && !word.contains([' ', '*', '{']) && !source::root().join(word).exists()
    });
    let complaints: Vec<String> = gone.map(|path| format!("{MAP} names {path}")).collect();
    source::assert_none(&complaints);
}

/// Proofs are written as `path/to/file.rs` followed by the names of its tests, in one table row.
#[test]
fn every_proof_exists() {
    let mut proofs = 0;
    let mut complaints = Vec::new();
    let documents = [MAP, REPLICATION].map(|path| (path, source::read(path)));
    let rows = documents.iter().flat_map(|(path, text)| text.lines().map(move |line| (path, line)));
    for (path, line) in rows.filter(|(_, line)| line.starts_with('|')) {
        let mut tests = String::new();
        for word in quoted(line) {
            if Path::new(word).extension().is_some_and(|extension| extension == "rs") {
                let file = std::fs::read_to_string(source::root().join(word));
                tests = file.unwrap_or_default();
            } else if word.contains('_') && !tests.is_empty() {
                proofs += 1;
                if !tests.contains(&format!("fn {word}(")) {
                    complaints.push(format!("{path}: no test {word} in the file named before it"));
                }
            }
        }
    }
    source::assert_none(&complaints);
    assert!(proofs >= 100, "only {proofs} tests are named as proofs");
}

#[test]
fn links_lead_to_files() {
    let mut complaints = Vec::new();
    for document in source::files("md") {
        let dir = Path::new(&document.path).parent().unwrap_or(Path::new("")).to_owned();
        let dead = links(&document).filter(|to| !source::root().join(&dir).join(to).exists());
        complaints.extend(dead.map(|to| format!("{}: {to} is not there", document.path)));
    }
    source::assert_none(&complaints);
}

/// Words between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Targets of a document's relative links, without anchors.
fn links(document: &SourceFile) -> impl Iterator<Item = &str> {
    let targets = document.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let relative = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    relative.filter_map(|target| target.split('#').next())
}

/// Files whose errors are all refusals: their texts behind such marks are looked up.
const ERRORS: &[(&str, &[&str])] = &[
    ("cli/src/error.rs", &["#[error("]),
    ("membership/src/confirm/reason.rs", &["#[error("]),
    ("membership/src/amnesia.rs", &["#[error("]),
    ("masterd/src/members.rs", &["#[error("]),
    ("queue-format/src/journal/live.rs", &["#[error("]),
    ("queue-format/src/store/admission.rs", &["#[error("]),
    ("queue-format/src/store/callbacks.rs", &["reason = chain(error),"]),
    ("queue-format/src/store/header.rs", &["#[error("]),
    ("queue-format/src/store/open.rs", &["#[error("]),
    ("model/src/node/role.rs", &["#[error("]),
    ("luxi/src/client.rs", &["#[error("]),
    ("rpc/src/client/error.rs", &["#[error("]),
    ("rpc/src/identity/error.rs", &["#[error("]),
    ("rpc/src/peer/client/error.rs", &["#[error("]),
    ("rpc/src/peer/hello.rs", &["format!(", "let message ="]),
    ("noded/src/enroll.rs", &["#[error("]),
];

/// Files, each with what lies in the directory of its name, in which every text that may be told is
/// looked up, whatever makes it; but for [`NO_REFUSALS`].
const SPEAKING: &[&str] = &[
    "cli/src/cluster/failover",
    "engine/src/engine/answer",
    "engine/src/engine/members",
    "engine/src/error",
    "engine/src/message",
    "engine/src/offline",
    "masterd/src/bootstrap",
    "jobs/src/commits",
    "jobs/src/load",
    "masterd/src/config",
    "masterd/src/daemon",
    "masterd/src/agent_sync",
    "masterd/src/export",
    "masterd/src/local_member",
    "masterd/src/import",
    "masterd/src/lu/cluster",
    "masterd/src/lu/context",
    "masterd/src/lu/master_ip",
    "masterd/src/lu/node",
    "masterd/src/lu/rack",
    "masterd/src/lu/renew",
    "masterd/src/main",
    "masterd/src/master_address",
    "membership/src/loss",
    "masterd/src/secrets",
    "masterd/src/ssconf",
    "model/src/cluster",
    "noded/src/agent",
    "noded/src/daemon",
    "noded/src/facts",
    "noded/src/ledger",
    "noded/src/master_address",
    "noded/src/powercycle",
    "noded/src/run",
    "noded/src/ssconf",
    "queue-format/src/store/aside",
    "queue-format/src/store/commit",
    "queue-format/src/store/committer",
    "queue-format/src/store/files",
    "queue-format/src/store/frozen",
    "queue-format/src/store/incoming",
    "queue-format/src/store/pending",
    "queue-format/src/store/wipe",
    "rpc/src/calls/enrol",
    "rpc/src/enrol",
    "rpc/src/fence",
    "rpc/src/peer/server",
    "rpc/src/server/request",
    "rpc/src/service",
    "stdx/src/owner",
];

/// How texts begin in those files that are no refusals, by why they are none.
const NO_REFUSALS: &[(&str, &[&str])] = &[
    (
        "it tells what was done, or is being done",
        &[
            "Promoted nodes to master candidate role",
            "- WARNING",
            "Canceled after the last node",
            "Demoting from master candidate",
            "Auto-promoting node to master candidate",
            "Ignoring request to unset flag",
            "for its key",
            "is a member, as",
            "is a member again, as a regular node",
            "It was a master candidate, and is none before the pool promotes it again",
            "Readding a node, the offline/drained flags were reset",
            "Reboot scheduled in",
            "Renewing the certificates of",
            "has a new certificate",
            "shows the new certificate of an earlier renewal",
            "had the master's address and gave it up",
            "was here already; the link is told again",
            "was not here",
            "is imported as it was at position",
            "jobs had not ended and have failed",
            "other nodes are offline",
            "Now start `masterd` and `noded` on this machine",
            "everyone was asked, and nothing was done",
            "is the master, in epoch",
            "it was not confirmed by anybody: the other members begin anew",
            "begun; its first node and master is",
            "The store of this machine at position",
            "start noded now",
            "Submitted by",
        ],
    ),
    ("it says that all is well", &["remembers what it acknowledged"]),
    ("it asks", &["Passphrase of the export"]),
    (
        "it is a part of a sentence that is looked up",
        &[
            "it is offline",
            "be taken offline",
            "be expected at another port",
            "its key and certificate",
            "its copy of the store",
            "below a root of its own",
            "other candidates",
            "the files of who is master",
            "the list of who may call it",
            "the node protocol",
            "the boot side",
        ],
    ),
    (
        "it stands behind a word for the log alone, or with what is kept aside",
        &[
            "a later master asks this member to begin anew",
            "another member leads",
            "it leads no longer",
            "from before others had one; there is a master of epoch",
        ],
    ),
    ("it is a reason of a job of the master's own", &["does not hold the document of rack"]),
    (
        "no program of this version asks so",
        &[
            "a request is longer than",
            "is never passed on",
            "a test delay lasts 0 to",
            "an exchange waits at most",
            "there is no group",
            "is called by POST",
            "is longer than",
            "the answer to question",
            "a question came before the one ahead of it was answered",
            "what came is",
            "has no JSON form",
            "the body is no envelope",
            "the call is not in the table",
        ],
    ),
    (
        "who is refused so says it in words of its own, or asks again",
        &["is no master candidate: it may pass nothing on", "a newer exchange took the place"],
    ),
];

/// Whatever refuses the role, a change or a start says so in a sentence that an operator can look up.
#[test]
fn every_refusal_is_in_the_runbook() {
    const RUNBOOK: &str = "docs/runbook.md";
    let runbook = source::read(RUNBOOK);
    let said = first_cells(&runbook);
    let mut sentences = Vec::new();
    for (path, marks) in ERRORS {
        let code = source::read(path);
        for mark in *marks {
            let found = error_texts(&code, mark);
            assert!(!found.is_empty(), "{path} has no sentence any more");
            sentences.extend(found.into_iter().map(|piece| ((*path).to_owned(), vec![piece])));
        }
    }
    let files = source::files("rs");
    for place in SPEAKING {
        let within = |file: &&SourceFile| {
            let rest = file.path.strip_prefix(place);
            !file.is_test() && rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        let mut count = 0;
        for file in files.iter().filter(within) {
            count += 1;
            let found = told_texts(&file.text).into_iter();
            sentences.extend(found.map(|pieces| (file.path.clone(), pieces)));
        }
        assert!(count > 0, "{place} is gone");
    }
    let exceptions: Vec<&str> = NO_REFUSALS.iter().flat_map(|(_, texts)| *texts).copied().collect();
    let mut complaints = Vec::new();
    let begins = |pieces: &[String], text: &str| pieces.iter().any(|p| p.starts_with(text));
    for (path, pieces) in &sentences {
        let excepted = exceptions.iter().any(|text| begins(pieces, text));
        if !excepted && !said.iter().any(|cell| pieces.iter().all(|piece| cell.contains(piece))) {
            let sentence = pieces.join(" … ");
            complaints.push(format!("{RUNBOOK} has no row for `{sentence}` of {path}"));
        }
    }
    let is_stale = |text: &&&str| !sentences.iter().any(|(_, pieces)| begins(pieces, text));
    let stale = exceptions.iter().filter(is_stale);
    complaints.extend(stale.map(|text| format!("nobody says `{text}` any more")));
    assert!(sentences.len() > 450, "only {} sentences were found", sentences.len());
    source::assert_none(&complaints);
}

/// The first cell of each table row, where the runbook has the sentences.
fn first_cells(document: &str) -> Vec<&str> {
    document.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect()
}

/// Of each text behind `mark` its longest piece without placeholders, if that tells anything.
fn error_texts(code: &str, mark: &str) -> Vec<String> {
    let texts = code.split(mark).skip(1).filter_map(|rest| rest.split('"').nth(1));
    texts.filter_map(|text| pieces(text).into_iter().max_by_key(String::len)).collect()
}

/// All such pieces of each text that people are told: of every error; else of three words or more,
/// which are neither for the log nor what the code expects of itself.
fn told_texts(code: &str) -> Vec<Vec<String>> {
    const TESTS: &str = "\n#[cfg(test)]\nmod tests";
    const BLANKS: usize = 2;
    let code = code.split(TESTS).next().unwrap_or_default();
    let is_told = |around: &[String], text: &str| {
        let last = around.last().map(String::as_str).unwrap_or_default();
        if around.iter().any(|word| word == "#") {
            return last == "error";
        }
        let for_log = around.iter().any(|word| word.starts_with("tracing::"));
        !for_log && !last.ends_with(".expect") && joined(text).matches(' ').count() >= BLANKS
    };
    let told = texts(code).into_iter().filter(|(around, text)| is_told(around, text));
    told.map(|(_, text)| pieces(text)).filter(|pieces| !pieces.is_empty()).collect()
}

/// The texts in code, each with the words before the brackets around it: `format!`, or `#` and `error`.
fn texts(code: &str) -> Vec<(Vec<String>, &str)> {
    let (mut found, mut around, mut word) = (Vec::new(), Vec::new(), String::new());
    let mut rest = code;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => quoted_length(rest, '"'),
            '\'' if rest.starts_with("'\\") => quoted_length(rest, '\''),
            '\'' if rest.chars().nth(2) == Some('\'') => quoted_length(rest, '\''),
            _ => next.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        match next {
            '"' => found.push((around.clone(), token.trim_matches('"'))),
            '(' | '[' | '{' => around.push(std::mem::take(&mut word)),
            ')' | ']' | '}' => drop(around.pop()),
            _ => {}
        }
        if length == 1 && (next.is_ascii_alphanumeric() || "_:.!#".contains(next)) {
            word.push(next);
        } else {
            word.clear();
        }
    }
    found
}

/// Length of the literal that `rest` begins with, up to the `quote` that ends it.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(rest.len(), |(at, _)| at + quote.len_utf8())
}

/// A text that goes on over several lines, as one.
fn joined(text: &str) -> String {
    text.split("\\\n").map(str::trim_start).collect()
}

/// The pieces of a text without placeholders that tell anything.
fn pieces(text: &str) -> Vec<String> {
    const TELLING: usize = 8;
    let text = joined(text);
    let pieces = text.split('{').map(|piece| {
        let piece = piece.split_once('}').map_or(piece, |(_, rest)| rest);
        piece.trim_matches([' ', '`', ':', ';', '(', ')', '\\']).to_owned()
    });
    pieces.filter(|piece| piece.len() >= TELLING).collect()
}
