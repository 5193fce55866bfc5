//! `gnt explain`: what the runbook says about a code.

use clap::Args;
use model::Code;
use serde_json::{Value, json};

use crate::completion_words::Offered;
use crate::error::CliError;
use crate::output::{say, say_json, say_lines};
use crate::wrap::wrapped;

/// The single source of what operators read about a code.
const RUNBOOK: &str = include_str!("../../docs/runbook.md");
/// The directory in which packages install the other documents that it names.
const DOCUMENTS: &str = "/usr/share/doc/gantry";
/// Characters of a line.
const COLUMNS: usize = 80;
/// Similar codes that are named beside one that does not exist.
const SIMILAR_MAX: usize = 3;
/// How similar a code must be, from 0 to 1; the value by which the parser proposes verbs.
const SIMILAR_MIN: f64 = 0.7;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// The code, as `majority-lost` of `error[majority-lost]`; without it, list all codes.
    #[arg(value_parser = Offered(Code::WORDS), hide_possible_values = true)]
    code: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ExplainArguments) -> Result<(), CliError> {
    let Some(given) = &arguments.code else { return list(arguments.json) };
    // Somebody may copy it with what stands around it.
    let word = given.trim_start_matches("error").trim_matches(['[', ']', ':']);
    let code = Code::of_word(word).ok_or_else(|| CliError::Failed(unknown(word)))?;
    match arguments.json {
        true => say_json(&as_json(code)),
        false => say_lines(&text(code).join("\n")),
    }
}

fn list(json: bool) -> Result<(), CliError> {
    if json {
        let row = |code: &Code| json!({"code": code, "meaning": code.meaning()});
        return say_json(&Code::ALL.iter().map(row).collect::<Vec<_>>());
    }
    let width = Code::WORDS.iter().map(|word| word.len()).max().unwrap_or_default();
    let line = |code: &Code| say(format_args!("{code:<width$}  {}", code.meaning()));
    Code::ALL.iter().try_for_each(line)
}

fn unknown(word: &str) -> String {
    let mut similar: Vec<(f64, &str)> =
        Code::WORDS.iter().map(|known| (similarity(word, known), *known)).collect();
    similar.retain(|(alike, _)| *alike >= SIMILAR_MIN);
    similar.sort_by(|one, other| other.0.total_cmp(&one.0));
    let similar: Vec<&str> = similar.iter().take(SIMILAR_MAX).map(|(_, word)| *word).collect();
    let meant = match similar.as_slice() {
        [] => String::new(),
        some => format!(" (did you mean {}?)", some.join(", ")),
    };
    format!("there is no code '{word}'{meant}; `gnt explain` lists all codes")
}

/// How similar two codes are, by their letters; more if they share a part, as `lost`.
fn similarity(one: &str, other: &str) -> f64 {
    let is_shared = one.split('-').any(|part| other.split('-').any(|known| known == part));
    strsim::jaro(one, other) + if is_shared { 0.5 } else { 0.0 }
}

/// The section of a code, then each procedure of the runbook that it names.
fn text(code: Code) -> Vec<String> {
    let section = section("### ", code.word()).unwrap_or_default();
    let mut lines = vec![format!("error[{code}]"), String::new()];
    lines.extend(paragraphs(section));
    for (title, body) in procedures(section) {
        lines.extend([String::new(), title.to_uppercase(), String::new()]);
        lines.extend(paragraphs(body));
    }
    lines
}

fn as_json(code: Code) -> Value {
    let section = section("### ", code.word()).unwrap_or_default();
    let procedure = |(title, body): (&str, &str)| json!({"title": title, "text": body.trim()});
    json!({
        "code": code,
        "meaning": code.meaning(),
        "text": section.trim(),
        "procedures": procedures(section).into_iter().map(procedure).collect::<Vec<_>>(),
    })
}

/// The text of the runbook below the heading `title`.
fn section(level: &str, title: &str) -> Option<&'static str> {
    let (_, rest) = RUNBOOK.split_once(&format!("\n{level}{title}\n"))?;
    let end = ["\n## ", "\n### "].iter().filter_map(|heading| rest.find(heading)).min();
    rest.get(..end.unwrap_or(rest.len()))
}

/// The sections without a code to which a section links, with their titles.
fn procedures(section: &str) -> Vec<(&'static str, &'static str)> {
    let titles = RUNBOOK.lines().filter_map(|line| line.strip_prefix("## "));
    let linked = titles.filter(|title| section.contains(&format!("](#{})", anchor(title))));
    linked.filter_map(|title| Some((title, self::section("## ", title)?))).collect()
}

/// The anchor of a heading that has nothing but letters and blanks.
fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

/// Markdown as lines for a terminal: code blocks as they are, all else without marks.
fn paragraphs(body: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut is_code = false;
    for line in body.trim().lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            lines.push(format!("    {line}"));
        } else {
            let indent = match line.chars().next() {
                Some('-') => 2,
                Some('0'..='9') => 3,
                _ => 0,
            };
            let wrapped = wrapped(&plain(line), COLUMNS, 0, indent).into_iter().enumerate();
            lines.extend(wrapped.map(|(at, line)| match at {
                0 => line,
                _ => format!("{:indent$}{line}", ""),
            }));
        }
    }
    lines
}

/// A line without emphasis and bullets. A link to another document becomes its path.
fn plain(line: &str) -> String {
    let line = line.strip_prefix("- ").unwrap_or(line).replace("**", "");
    let mut rest = line.as_str();
    let mut told = String::new();
    while let Some((before, (text, target, after))) = next_link(rest) {
        told.push_str(before);
        told.push_str(text);
        let file = target.split('#').next().unwrap_or_default();
        if !file.is_empty() {
            told.push_str(&format!(" ({DOCUMENTS}/{file})"));
        }
        rest = after;
    }
    told + rest
}

/// The text before the next link; then the link's text, its target and what follows.
fn next_link(text: &str) -> Option<(&str, (&str, &str, &str))> {
    let (head, tail) = text.split_once("](")?;
    let (before, shown) = head.rsplit_once('[')?;
    let (target, after) = tail.split_once(')')?;
    Some((before, (shown, target, after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained() {
        for &code in Code::ALL {
            let text = text(code).join("\n");
            assert!(
                ["\nMeans: ", "\nLook: ", "\nDo: "].iter().all(|part| text.contains(part)),
                "{text}"
            );
            assert!(!text.contains("](") && !text.contains("**"), "{text}");
            let mut prose = text.lines().filter(|line| !line.starts_with("    "));
            assert!(prose.all(|line| line.chars().count() <= COLUMNS), "{text}");
        }
    }

    #[test]
    fn procedures_follow_the_section_that_names_them() {
        insta::assert_snapshot!(text(Code::CandidateForgot).join("\n"));
    }

    #[test]
    fn a_similar_code_is_proposed() {
        let told = unknown("majority-losd");
        assert!(told.contains("'majority-losd' (did you mean majority-lost"), "{told}");
        assert!(unknown("quorum-lost").contains("(did you mean majority-lost"));
        assert_eq!(unknown("x"), "there is no code 'x'; `gnt explain` lists all codes");
    }
}
