//! A module that gives an order of reading names all that is to be read.

use crate::source::{self, SourceFile};

/// By these words a module's documentation begins the order of its parts.
const ORDER: &str = "In reading order";

#[test]
fn an_order_of_reading_leaves_nothing_out() {
    let files = source::files("rs");
    let ordered = files.iter().filter(|file| documentation(&file.text).contains(ORDER));
    let complaints: Vec<String> = ordered
        .flat_map(|file| left_out(file).into_iter().map(move |name| (file, name)))
        .map(|(file, name)| format!("{}: its order of reading lacks `{name}`", file.path))
        .collect();
    source::assert_none(&complaints);
}

#[test]
fn what_an_order_lacks_is_found() {
    let text = "//! In reading order: [`a`], then `b`.\n\nmod a;\npub(crate) mod b;\nmod c;\n\n\
                #[cfg(test)]\nmod tests;\n";
    let file = SourceFile { path: "x/src/lib.rs".to_owned(), text: text.to_owned() };
    assert_eq!(left_out(&file), ["c"]);
}

/// The documentation at a file's top.
fn documentation(text: &str) -> String {
    text.lines().take_while(|line| line.starts_with("//!")).collect()
}

/// The modules that a file declares outside of tests, and its documentation does not name.
fn left_out(file: &SourceFile) -> Vec<String> {
    let documentation = documentation(&file.text);
    let code = file.code();
    let declared = code.lines().filter_map(|line| line.strip_suffix(';')?.rsplit_once("mod "));
    let declared = declared.map(|(_, name)| name.to_owned());
    let is_named = |name: &String| {
        // A module with the name of a function or macro is linked with `mod@`.
        [format!("`{name}`"), format!("`mod@{name}`")]
            .iter()
            .any(|form| documentation.contains(form))
    };
    declared.filter(|name| !is_named(name)).collect()
}
