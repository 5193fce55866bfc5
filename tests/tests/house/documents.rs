//! The documents agree with the code where a table stands in both, and their links lead somewhere.

use std::path::Path;

use model::OpCode;
use model::access::Verb;
use model::layout::{self, Layout};

use crate::direction;
use crate::source;

const MAP: &str = "docs/ARCHITECTURE.md";
const REPLICATION: &str = "docs/decisions/0005-replication.md";
const INSTALL: &str = "docs/install.md";
const RAPI: &str = "docs/rapi.md";

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
        layout::KEYS_PORT,
        layout::DHCP_SERVER_PORT,
        layout::MASTER_METRICS_PORT,
        layout::PEER_PORT,
        layout::NODE_METRICS_PORT,
        layout::RAPI_METRICS_PORT,
    ] {
        assert!(text.contains(&format!("| {port} |")), "{INSTALL} lacks port {port}");
    }
    for name in [
        layout::MASTER_USER,
        layout::NODE_USER,
        layout::RAPI_USER,
        layout::DAEMON_GROUP,
        layout::ADMIN_GROUP,
        layout::OPERATOR_GROUP,
        layout::READ_GROUP,
    ] {
        assert!(text.contains(&format!("| `{name}` |")), "{INSTALL} lacks {name}");
    }
}

#[test]
fn every_role_is_documented() {
    let text = source::read(RAPI);
    let opcodes = OpCode::ROLES.iter().map(|(id, role)| format!("| `{id}` | {role} |\n"));
    let verbs = Verb::TABLE.iter().map(|(verb, role)| format!("| {verb} | {role} |\n"));
    let missing = opcodes.chain(verbs).filter(|row| !text.contains(row));
    source::assert_none(&missing.map(|row| format!("{RAPI} lacks {row}")).collect::<Vec<_>>());
    let rows = text.lines().filter(|line| line.starts_with("| `OP_")).count();
    assert_eq!(rows, OpCode::ROLES.len(), "{RAPI} has opcodes that there are not");
}

#[test]
fn every_route_is_documented() {
    let text = source::read(RAPI);
    let routes = rapi::front::routes();
    let missing = routes.described().iter().map(rapi::routes::Described::row);
    let missing = missing.filter(|row| !text.contains(row));
    source::assert_none(&missing.map(|row| format!("{RAPI} lacks {row}")).collect::<Vec<_>>());
    let rows = text.lines().filter(|line| line.starts_with("| `/")).count();
    assert_eq!(rows, routes.described().len(), "{RAPI} has routes that there are not");
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
fn links_lead_to_files_and_headings() {
    let mut complaints = Vec::new();
    for document in source::files("md") {
        let dir = Path::new(&document.path).parent().unwrap_or(Path::new("")).to_owned();
        for (file, anchor) in links(&document.text) {
            let to = if file.is_empty() { document.path.clone().into() } else { dir.join(file) };
            let to = source::root().join(to);
            let known = match anchor {
                "" => to.exists(),
                anchor => std::fs::read_to_string(&to).is_ok_and(|text| has(&text, anchor)),
            };
            if !known {
                complaints.push(format!("{}: {file}#{anchor} is not there", document.path));
            }
        }
    }
    source::assert_none(&complaints);
}

/// Words between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Targets of a document's relative links: file and anchor, of which one may be missing.
fn links(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let relative = targets.filter(|target| !target.contains("://"));
    relative.map(|target| target.split_once('#').unwrap_or((target, "")))
}

/// Whether a document has a heading with this anchor.
fn has(text: &str, anchor: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#').trim().to_lowercase()).any(|title| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>() == anchor
    })
}
