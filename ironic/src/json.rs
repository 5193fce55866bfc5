//! Core: JSON of strangers: how deep it goes and how much it holds is known before it is parsed, and
//! nothing of it must be there.

use serde_json::Value;

/// How deep a body may go: an inspection goes six deep.
pub(crate) const DEPTH_MAX: usize = 25;
/// How many values a body may hold. A machine with a thousand disks tells some twenty thousand. A value
/// takes up to a hundred bytes of memory, even if it is one byte of text.
pub(crate) const VALUES_MAX: usize = 200_000;

/// Parses a body. A byte that is no text, as names of hardware have, does not make it unreadable.
pub(crate) fn parse(body: &[u8]) -> Result<Value, &'static str> {
    check(body)?;
    serde_json::from_str(&model::json::lossy(body))
        .map_err(|_no_json| "The body is not valid JSON.")
}

fn check(body: &[u8]) -> Result<(), &'static str> {
    let (mut depth, mut values) = (0_usize, 0_usize);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => (depth, values) = (depth + 1, values + 1),
            b',' if !is_text => values += 1,
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err("The JSON body is nested too deeply.");
        }
        if values > VALUES_MAX {
            return Err("The JSON body holds too many values.");
        }
    }
    Ok(())
}

/// A text of an object; empty where it has none.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A number of an object, also of one in a text.
pub(crate) fn number(object: &Value, name: &str) -> Option<u64> {
    match object.get(name)? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The members of a list of an object; none where it has no such list.
pub(crate) fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_bounded_before_parsing() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(DEPTH_MAX).as_bytes()).is_ok());
        let deep = parse(nested(DEPTH_MAX + 1).as_bytes());
        assert!(deep.unwrap_err().contains("deep"));
        // Half a megabyte of brackets never reaches the parser, and brackets in texts are none.
        assert!(parse("[".repeat(500_000).as_bytes()).unwrap_err().contains("deep"));
        let texts = format!(r#"["{}\"", "\\", "{}"]"#, "[".repeat(99), "{".repeat(99));
        assert!(parse(texts.as_bytes()).is_ok());
        assert!(parse(b"{").unwrap_err().contains("valid"));
        let odd = parse(b"{\"product_name\": \"R\xae\\udcae630\"}").unwrap();
        assert_eq!(text(&odd, "product_name"), "R\u{fffd}\u{fffd}630");
        let many = format!("[{}0]", "0,".repeat(VALUES_MAX));
        assert!(parse(many.as_bytes()).unwrap_err().contains("many"));
        let wide = format!("[{}[]]", "[],".repeat(1_000));
        assert!(parse(wide.as_bytes()).is_ok(), "what is closed counts no longer");
    }
}
