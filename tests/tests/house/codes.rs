//! Each code has its section in the runbook, and each section of the runbook that a program names is
//! there.

use model::Code;

use crate::source;

const RUNBOOK: &str = "docs/runbook.md";
/// What an operator reads of one code, at night.
const SECTION_WORDS_MAX: usize = 80;
const RUNBOOK_WORDS_MAX: usize = 7_000;

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
