//! Core: text that comes from outside, in a form in which a terminal or a log may show it.
//!
//! Control characters move the cursor, clear the screen or end the line; others turn the direction
//! of writing or cannot be seen. All of them appear as escapes, in the form that Python uses.

use std::borrow::Cow;
use std::fmt::Write as _;

pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, acts, push)
}

/// The text with its line breaks and nothing else that a terminal acts on.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && acts(c), push)
}

/// JSON text with the same meaning that a terminal does not act on. Its line breaks stay: inside
/// strings JSON has none.
pub fn json(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |c| c != '\n' && acts(c),
        |shown, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                append(shown, format_args!("\\u{unit:04x}"));
            }
        },
    )
}

/// Appends a character, as an escape where a terminal would act on it.
pub fn push(shown: &mut String, c: char) {
    match (c, u32::from(c)) {
        ('\n', _) => shown.push_str("\\n"),
        ('\r', _) => shown.push_str("\\r"),
        ('\t', _) => shown.push_str("\\t"),
        (c, _) if !acts(c) => shown.push(c),
        (_, code @ ..0x100) => append(shown, format_args!("\\x{code:02x}")),
        (_, code @ 0x100..0x1_0000) => append(shown, format_args!("\\u{code:04x}")),
        (_, code) => append(shown, format_args!("\\U{code:08x}")),
    }
}

fn append(shown: &mut String, text: std::fmt::Arguments<'_>) {
    shown.write_fmt(text).expect("a string takes all that is written to it");
}

fn escaped(text: &str, is_meant: fn(char) -> bool, push: fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(is_meant) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_meant(c) { push(&mut shown, c) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Whether a terminal acts on the character, or a reader is deceived by it.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Marks of direction, and those that cannot be seen.
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}'
            // Separators of lines and paragraphs, embeddings and overrides of the direction.
            | '\u{2028}'..='\u{202e}'
            // Isolates of the direction, and marks that are out of use.
            | '\u{2066}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}'
            // Tags, which repeat ASCII and are not shown.
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_shown_as_an_escape() {
        for (text, shown) in [
            ("it's ä 漢 e\u{301} \\n", "it's ä 漢 e\u{301} \\n"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\x1b[2J\x7f\u{9b}2J", "\\x1b[2J\\x7f\\x9b2J"),
            ("a\u{202e}b\u{2028}c\u{200b}", "a\\u202eb\\u2028c\\u200b"),
            ("\u{e0041}", "\\U000e0041"),
        ] {
            assert_eq!(line(text), shown);
        }
        assert_eq!(lines("a\nb\x1b"), "a\nb\\x1b");
        assert_eq!(json("[\n\"\u{9b}\u{e0041}\"]"), "[\n\"\\u009b\\udb40\\udc41\"]");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_one_line(text in any::<String>()) {
            let shown = line(&text);
            prop_assert!(!shown.contains(acts));
            prop_assert_eq!(line(&shown), shown.as_ref());
            let parts: Vec<_> = text.split('\n').map(line).collect();
            prop_assert_eq!(lines(&text), parts.join("\n"));
        }

        #[test]
        fn json_means_the_same(text in any::<String>()) {
            let written = serde_json::to_string_pretty(&[&text]).unwrap();
            let shown = json(&written);
            prop_assert!(!shown.contains(|c| c != '\n' && acts(c)));
            prop_assert_eq!(serde_json::from_str::<[String; 1]>(&shown).unwrap(), [text]);
        }
    }
}
