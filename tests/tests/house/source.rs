//! Reads the workspace's source, and takes Rust text apart just far enough for the rules.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories that hold no source of ours.
const SKIPPED: &[&str] = &["target", ".git"];

/// One text file of the workspace.
pub(crate) struct SourceFile {
    /// Path below the workspace root, with `/`.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

impl SourceFile {
    /// The crate's directory: the first part of the path.
    pub(crate) fn package(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// Whether the file holds nothing but tests.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name == "tests.rs"
            || name.ends_with("_tests.rs")
            || self.path.split('/').any(|part| part == "tests")
    }

    /// The code alone: without comments, contents of literals and what is `#[cfg(test)]`.
    pub(crate) fn code(&self) -> String {
        without_tests(&without_prose(&self.text))
    }
}

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.parent().expect("the tests crate lies in the workspace").to_owned()
}

/// The text of one file.
pub(crate) fn read(path: &str) -> String {
    let full = root().join(path);
    fs::read_to_string(&full).unwrap_or_else(|error| panic!("{}: {error}", full.display()))
}

/// All files whose name ends with `.extension`, sorted by path.
pub(crate) fn files(extension: &str) -> Vec<SourceFile> {
    let mut found = Vec::new();
    collect(&root(), &root(), extension, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no .{extension} file: the tree was not found");
    found
}

fn collect(root: &Path, dir: &Path, extension: &str, found: &mut Vec<SourceFile>) {
    for entry in fs::read_dir(dir).expect("a directory of the workspace is readable") {
        let path = entry.expect("a directory entry is readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !SKIPPED.contains(&name.as_str()) {
            collect(root, &path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            let below = path.strip_prefix(root).expect("the walk starts at the root");
            // A file may vanish between listing and reading while someone edits.
            if let Ok(text) = fs::read_to_string(&path) {
                found.push(SourceFile { path: below.to_string_lossy().into_owned(), text });
            }
        }
    }
}

/// Replaces comments by nothing and the contents of literals by nothing, keeping line ends.
pub(crate) fn without_prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = prose_length(rest, out.chars().next_back());
        if length > 0 {
            let (prose, after) = rest.split_at(length);
            out.push(if prose.starts_with('/') { ' ' } else { '"' });
            out.extend(prose.chars().filter(|c| *c == '\n'));
            rest = after;
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

/// Length of the comment or literal that `rest` starts with; zero when it starts with code.
fn prose_length(rest: &str, before: Option<char>) -> usize {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        rest.find('\n').unwrap_or(rest.len())
    } else if rest.starts_with("/*") {
        rest.find("*/").map_or(rest.len(), |end| end + 2)
    } else if rest.starts_with('"') {
        escaped_length(rest, '"')
    } else if rest.starts_with('\'') {
        char_length(rest)
    } else if !in_word && (rest.starts_with("r\"") || rest.starts_with("r#")) {
        raw_length(rest)
    } else if !in_word && (rest.starts_with("br\"") || rest.starts_with("br#")) {
        1 + raw_length(&rest[1..])
    } else {
        0
    }
}

fn escaped_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// A character literal, or zero for a lifetime.
fn char_length(rest: &str) -> usize {
    let mut chars = rest.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => escaped_length(rest, '\''),
        (Some(c), Some('\'')) => c.len_utf8() + 2,
        _ => 0,
    }
}

/// A raw string, or zero for a raw identifier.
fn raw_length(rest: &str) -> usize {
    let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
    if !rest[1 + hashes..].starts_with('"') {
        return 0;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let body = 2 + hashes;
    rest[body..].find(&close).map_or(rest.len(), |end| body + end + close.len())
}

/// Cuts every item that follows a `#[cfg(test)]`.
pub(crate) fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::new();
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        rest = &rest[at + MARK.len()..];
        rest = &rest[item_length(rest)..];
    }
    out.push_str(rest);
    out
}

/// Length of the item at the start: up to its `;`, or to the brace that closes its body.
fn item_length(code: &str) -> usize {
    let mut depth = 0_u32;
    for (at, c) in code.char_indices() {
        match c {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    code.len()
}

/// Whether `code` holds `word`, not as part of a longer word where `word` begins or ends as one.
pub(crate) fn holds(code: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (starts, ends) = (part(word.chars().next()), part(word.chars().next_back()));
    code.match_indices(word).any(|(at, _)| {
        let before = part(code[..at].chars().next_back());
        let after = part(code[at + word.len()..].chars().next());
        !(starts && before || ends && after)
    })
}

/// Fails with all complaints at once, one a line.
pub(crate) fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} broken:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn prose_and_tests_are_no_code() {
    let text = r##"
        /// tokio::spawn in a comment
        fn a<'x>(c: &'x str) -> char { let _ = "Instant::now \" .await"; '"' }
        /* Clock */ const R: &str = r#"async fn "quoted" "#;
        #[cfg(test)]
        mod tests { fn b() { x.await } }
        fn kept() { std::fs::read(r#type) }
        #[cfg(test)]
        mod more;
        struct Last;
    "##;
    let file = SourceFile { path: "x/src/a.rs".to_owned(), text: text.to_owned() };
    let code = file.code();
    for gone in ["tokio", "Instant", "await", "Clock", "async", "tests", "more"] {
        assert!(!holds(&code, gone), "{gone} in {code}");
    }
    for kept in ["fn a<'x>", "std::fs", "struct Last", "char"] {
        assert!(holds(&code, kept), "{kept} not in {code}");
    }
    assert!(!holds("MyClock clocks", "Clock"));
}
