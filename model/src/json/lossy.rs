//! Core: JSON of programs that break its rules, such as firmware, made readable.

/// The escape that replaces half a surrogate pair.
const REPLACEMENT: &str = "\\ufffd";

/// The bytes as text that a parser takes. Bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD,
/// and control characters become blanks. A backslash that begins no escape stands for itself, and a byte
/// order mark goes. One odd byte in a name of hardware must not hide the rest.
pub fn lossy(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.as_ref();
    let mut good = String::with_capacity(rest.len());
    while let Some(at) = rest.find(|character: char| character == '\\' || character < ' ') {
        let (plain, odd) = rest.split_at(at);
        good.push_str(plain);
        let (written, length) = match odd.starts_with('\\') {
            true => escape(odd),
            false => (" ", 1),
        };
        good.push_str(written);
        rest = odd.get(length..).unwrap_or_default();
    }
    good.push_str(rest);
    good
}

/// The text to write for the escape at the beginning of `text`, and the length of that escape.
fn escape(text: &str) -> (&str, usize) {
    let whole = |length: usize| (&text[..length], length);
    match unit(text) {
        Some(0xD800..=0xDBFF) => match text.get(6..).and_then(unit) {
            Some(0xDC00..=0xDFFF) => whole(12),
            _ => (REPLACEMENT, 6),
        },
        Some(0xDC00..=0xDFFF) => (REPLACEMENT, 6),
        Some(_) => whole(6),
        None => match text.as_bytes().get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => whole(2),
            _ => ("\\\\", 1),
        },
    }
}

/// The number in an escape such as `\u00e9`.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    // A sign would be read as well.
    let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    are_digits.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_firmware_writes_reads() {
        for (bytes, name) in [
            (&b"\xef\xbb\xbf{\"name\": \"R630\"}"[..], "R630"),
            (b"{\"name\": \"R\xae630\"}", "R\u{fffd}630"),
            (b"{\r\n\t\"name\": \"R\t6\x00\x1b30\"\n}", "R 6  30"),
            (br#"{"name": "R\udce9 \ud83d"}"#, "R\u{fffd} \u{fffd}"),
            (br#"{"name": "\ud83d\ude00 \ud83d\ud83d\ude00"}"#, "\u{1f600} \u{fffd}\u{1f600}"),
            (br#"{"name": "\\udce9 \"\\\""}"#, "\\udce9 \"\\\""),
            (b"{\"name\": \"\\\\\xe9\"}", "\\\u{fffd}"),
            (b"{\"name\": \"C:\\x41 \\u+12f \\\xe9\\\n\"}", "C:\\x41 \\u+12f \\\u{fffd}\\ "),
        ] {
            let read: Value = serde_json::from_str(&lossy(bytes)).unwrap();
            assert_eq!(read["name"], name, "{}", String::from_utf8_lossy(bytes));
        }
    }

    proptest! {
        #[test]
        fn what_is_json_stays_what_it_is(text in "\\PC{0,20}", pretty in any::<bool>()) {
            let value = serde_json::json!({ &*text: [&text, 1, null] });
            let written = if pretty { format!("{value:#}") } else { value.to_string() };
            let read: Value = serde_json::from_str(&lossy(written.as_bytes())).unwrap();
            prop_assert_eq!(read, value);
        }

        #[test]
        fn any_bytes_are_text(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let text = lossy(&bytes);
            prop_assert!(text.bytes().all(|byte| byte >= b' '));
        }
    }
}
