//! Each code has its section in the runbook, and a program that gives it; each error that an operator
//! must act on has a code.

use std::collections::BTreeSet;

use model::Code;

use crate::source::{self, SourceFile};

const RUNBOOK: &str = "docs/runbook.md";
const TABLE: &str = "model/src/code.rs";
/// Most words that an operator reads of one code, at night.
const SECTION_WORDS_MAX: usize = 80;
const RUNBOOK_WORDS_MAX: usize = 7_000;

/// Places whose errors need no code of their own: beginnings of paths, by the reason.
const WITHOUT: &[(&str, &[&str])] = &[
    (
        "the message says what to write instead",
        &[
            "cli/src/expression.rs",
            "jobs/src/filter.rs",
            "luxi/src/query/",
            "luxi/src/request.rs",
            "model/src/",
            "stdx/src/metrics/",
        ],
    ),
    (
        "the error that holds it knows the code",
        &[
            "engine/src/",
            "jobs/src/load.rs",
            "jobs/src/stored.rs",
            "luxi/src/frame.rs",
            "masterd/src/config/load.rs",
            "masterd/src/store/export/",
            "masterd/src/store/import/adapt.rs",
            "masterd/src/config/vault.rs",
            "membership/src/loss.rs",
            "noded/src/facts.rs",
            "queue-format/src/",
            "rpc/src/peer/",
            "rpc/src/wire.rs",
            "stdx/src/owner.rs",
        ],
    ),
    ("it has a method of its own for the code", &["membership/src/"]),
    (
        "the logical unit or the client that meets it gives the code",
        &[
            "jobs/src/locks/",
            "luxi/src/server/",
            "masterd/src/agents/blobs.rs",
            "masterd/src/door/forwarding_client.rs",
            "masterd/src/process/newer_epoch.rs",
            "masterd/src/agents/master_address.rs",
            "masterd/src/config/secrets.rs",
            "masterd/src/machines/network_template.rs",
            "rpc/src/enrol/ask.rs",
            "switches/src/",
            "virt/src/",
        ],
    ),
    (
        "an answer or the log of an agent tells it",
        &[
            "blobs/src/",
            "hostnet/src/",
            "netboot/src/dhcp/",
            "netboot/src/key_desk.rs",
            "netboot/src/leasing.rs",
            "netboot/src/rack.rs",
            "noded/src/master_address",
            "noded/src/powercycle.rs",
            "noded/src/ssconf.rs",
            "rpc/src/calls.rs",
        ],
    ),
    ("it is no fault of the cluster", &["jobs/src/commits.rs", "stdx/src/"]),
];

#[test]
fn every_code_has_a_section_and_every_section_a_code() {
    let runbook = source::read(RUNBOOK);
    let sections = sections(&runbook);
    let titles: Vec<&str> = sections.iter().map(|(title, _)| *title).collect();
    assert_eq!(titles, Code::WORDS, "{RUNBOOK} and the table of codes differ");
    let mut complaints = Vec::new();
    for (&code, (title, body)) in Code::ALL.iter().zip(&sections) {
        let means = format!("- **Means:** {}.\n", code.meaning());
        if !body.trim_start().starts_with(&means) {
            complaints.push(format!("{title} does not begin with\n{means}"));
        }
        for part in ["\n- **Look:** ", "\n- **Do:** "] {
            if !body.contains(part) {
                complaints.push(format!("{title} lacks{part}"));
            }
        }
        let words = body.split_whitespace().count();
        if words > SECTION_WORDS_MAX {
            complaints.push(format!("{title} has {words} words, more than {SECTION_WORDS_MAX}"));
        }
    }
    source::assert_none(&complaints);
    let words = runbook.split_whitespace().count();
    assert!(words <= RUNBOOK_WORDS_MAX, "{RUNBOOK} has {words} words");
}

#[test]
fn every_code_is_given_by_a_program() {
    let files = source::files("rs");
    let shipped = files.iter().filter(|file| {
        !file.is_test() && !["tests", "xtask"].contains(&file.package()) && file.path != TABLE
    });
    let code: String = shipped.map(SourceFile::code).collect();
    let mut complaints = Vec::new();
    for code_of in Code::ALL {
        let name = format!("{code_of:?}");
        // Alarms are rows of a table, with their severity.
        let uses = [format!("Code::{name}"), format!("{name} Critical"), format!("{name} Warning")];
        if !uses.iter().any(|text| source::holds(&code, text)) {
            complaints.push(format!("no program gives the code {code_of}"));
        }
    }
    source::assert_none(&complaints);
}

#[test]
fn every_error_has_a_code_or_a_reason_to_have_none() {
    let files = source::files("rs");
    let mut complaints = Vec::new();
    let mut excused = BTreeSet::new();
    for file in files.iter().filter(|file| !file.is_test() && is_shipped(file)) {
        for error in errors(&file.code()) {
            let coded = format!("impl Coded for {error} ");
            let is_coded = |other: &&SourceFile| {
                other.package() == file.package() && other.text.contains(&coded)
            };
            if files.iter().any(|other| is_coded(&other)) {
                continue;
            }
            let mut places = WITHOUT.iter().flat_map(|(_, places)| *places);
            match places.find(|place| file.path.starts_with(**place)) {
                Some(place) => drop(excused.insert(*place)),
                None => complaints.push(format!("{}: {error} has no code", file.path)),
            }
        }
    }
    let places = WITHOUT.iter().flat_map(|(_, places)| *places);
    let stale = places.filter(|place| !excused.contains(**place));
    complaints.extend(stale.map(|place| format!("{place} has no error without a code")));
    source::assert_none(&complaints);
}

fn is_shipped(file: &SourceFile) -> bool {
    !["tests", "xtask", "fuzz"].contains(&file.package()) && !file.path.contains("/bench")
}

/// The names of the error types in code.
fn errors(code: &str) -> Vec<&str> {
    let behind = code.split("thiserror::Error").skip(1);
    let named = behind.filter_map(|rest| {
        let mut words =
            rest.split_whitespace().skip_while(|word| !["enum", "struct"].contains(word));
        words.nth(1)
    });
    named.map(|name| name.trim_end_matches([';', '(', '{'])).collect()
}

/// Texts name a section as `"TITLE" in the runbook` or `(runbook: TITLE)`.
#[test]
fn sections_that_programs_name_exist() {
    let runbook = source::read(RUNBOOK);
    let mut named = 0;
    let mut complaints = Vec::new();
    for file in source::files("rs").iter().filter(|file| file.package() != "tests") {
        let text: String = file.text.split("\\\n").map(str::trim_start).collect();
        let quoted = text.split("\\\" in the runbook").collect::<Vec<_>>();
        let before = quoted.iter().take(quoted.len() - 1);
        let quoted = before.filter_map(|text| text.rsplit("\\\"").next());
        let behind = text.split("(runbook: ").skip(1).filter_map(|text| text.split(')').next());
        for title in quoted.chain(behind) {
            named += 1;
            if !runbook.contains(&format!("\n## {title}\n")) {
                complaints.push(format!("{}: {RUNBOOK} has no section `{title}`", file.path));
            }
        }
    }
    source::assert_none(&complaints);
    assert!(named > 10, "only {named} texts were found that name a section");
}

/// The sections of codes: title and body.
fn sections(runbook: &str) -> Vec<(&str, &str)> {
    let parts = runbook.split("\n### ").skip(1);
    let alone = parts.filter_map(|part| part.split("\n## ").next());
    alone.filter_map(|part| part.split_once('\n')).collect()
}
