//! How comments read: a sentence begins with its subject.

use crate::source::{self, SourceFile};

/// Words that begin a clause where a sentence should have its subject.
const CLAUSES: &[&str] = &[
    "Who ",
    "Whoever ",
    "What ",
    "Whose ",
    "Whom ",
    "Where ",
    "That ",
    "One that ",
    "Those that ",
    "He who ",
];
/// Most sentences of all comments that begin so. The number only falls.
const CLAUSES_MAX: usize = 30;
/// Fewest words of a sentence that counts; shorter ones are titles.
const WORDS_MIN: usize = 4;

/// The text of each comment: lines that follow each other, without the slashes.
fn comments(file: &SourceFile) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in file.text.lines().map(str::trim_start) {
        let text = line.strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']).trim());
        let last = found.last_mut().expect("it begins with one");
        match text {
            Some(text) if !text.is_empty() => *last = format!("{last} {text}"),
            _ if last.is_empty() => {}
            _ => found.push(String::new()),
        }
    }
    found
}

/// Splits where a full stop, a colon or a semicolon comes before a capital letter or code.
fn sentences(comment: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for word in comment.split_whitespace() {
        let last = found.last_mut().expect("it begins with one");
        let begins = word.starts_with(|c: char| c.is_uppercase() || c == '`' || c == '*');
        match last.ends_with(['.', ':', ';', '?', '!']) && begins {
            true => found.push(word.to_owned()),
            false if last.is_empty() => *last = word.to_owned(),
            false => *last = format!("{last} {word}"),
        }
    }
    found
}

fn begins_with_a_clause(sentence: &str) -> bool {
    let text = sentence.trim_start_matches(['*', '`', '-', '#', ' ']);
    let is_clause = CLAUSES.iter().any(|clause| text.starts_with(clause));
    is_clause && !text.ends_with('?') && text.split_whitespace().count() >= WORDS_MIN
}

#[test]
fn sentences_begin_with_their_subject() {
    let mut complaints = Vec::new();
    for file in source::files("rs") {
        let all = comments(&file);
        let sentences = all.iter().flat_map(|comment| sentences(comment));
        let clauses = sentences.filter(|sentence| begins_with_a_clause(sentence));
        complaints.extend(clauses.map(|sentence| format!("{}: {sentence}", file.path)));
    }
    let count = complaints.len();
    let report = complaints.join("\n");
    assert!(count <= CLAUSES_MAX, "{count} sentences begin with a clause:\n{report}");
}

#[test]
fn clauses_are_told_from_subjects() {
    let comment =
        "The lock is held. What it guards is told below. Who asks? Where it is:\nhere, for now.";
    let found: Vec<_> =
        sentences(comment).into_iter().filter(|s| begins_with_a_clause(s)).collect();
    assert_eq!(found, ["What it guards is told below.", "Where it is: here, for now."]);
}
