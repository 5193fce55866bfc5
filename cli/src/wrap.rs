//! Core: text in lines that fit a screen.

use unicode_width::UnicodeWidthStr as _;

/// The words of `text` in lines of so many `columns`; the first line stands behind `first`
/// characters, and each other one behind `next`.
pub(crate) fn wrapped(text: &str, columns: usize, first: usize, next: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(text, columns.saturating_sub(first.max(next))) {
        let taken = if lines.len() == 1 { first } else { next };
        let line = lines.last_mut().expect("there is always a last line");
        let length = taken + line.width() + 1 + word.width();
        match line.is_empty() {
            true => line.push_str(&word),
            false if length <= columns => {
                line.push(' ');
                line.push_str(&word);
            }
            false => lines.push(word),
        }
    }
    lines
}

/// The words of a text. Text between two backquotes is to be copied. It is one word, with what clings to
/// it, where it has no more than `most` characters.
fn words(text: &str, most: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (at, part) in text.split_inclusive('`').enumerate() {
        // Every second part is quoted, and ends with the quote.
        let quoted = at % 2 == 1 && part.ends_with('`');
        let begins = part.starts_with(char::is_whitespace) || words.is_empty();
        let mut parts = if quoted { vec![part] } else { part.split_whitespace().collect() };
        if let Some(last) = words.last_mut().filter(|_| !begins && !parts.is_empty()) {
            last.push_str(parts.remove(0));
        }
        words.extend(parts.into_iter().map(str::to_owned));
    }
    let fits = |word: &str| word.width() <= most;
    let parts = words.iter().flat_map(|word| match fits(word) {
        true => vec![word.as_str()],
        false => word.split_whitespace().collect(),
    });
    parts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_command_stays_on_its_line_where_it_fits_on_one() {
        let todo = "stop it, then `gnt node modify -O yes n1`, and wait; `x";
        let is = |most, wanted: &[&str]| assert_eq!(words(todo, most), wanted, "{most}");
        let begin = ["stop", "it,", "then"];
        for most in [40, 28] {
            is(
                most,
                &[&begin[..], &["`gnt node modify -O yes n1`,", "and", "wait;", "`x"]].concat(),
            );
        }
        let split = ["`gnt", "node", "modify", "-O", "yes", "n1`,", "and", "wait;", "`x"];
        is(27, &[&begin[..], &split].concat());
    }
}
