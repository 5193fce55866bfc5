//! How files look: one subject each, nothing left over.

use crate::source;

/// Most lines of a source file: beyond it, it has more than one subject.
const LINES_MAX: usize = 500;

/// Text that must not be committed. Lints catch some of it too, but only in what is compiled.
const LEFT_OVERS: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[", "ignore"),
    concat!("#[", "allow("),
    concat!("#![", "allow("),
    concat!("dbg", "!("),
];

/// Words of unfinished work, also in comments.
const NOTES_TO_SELF: &[&str] = &[concat!("FIX", "ME"), concat!("X", "XX"), concat!("HA", "CK")];

#[test]
fn a_file_has_one_subject() {
    let mut complaints = Vec::new();
    for file in source::files("rs") {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            complaints.push(format!("{} has {lines} lines; split it by subject", file.path));
        }
        if file.path.ends_with("/mod.rs") {
            complaints.push(format!("{}: use `name.rs` beside `name/`", file.path));
        }
    }
    source::assert_none(&complaints);
}

#[test]
fn nothing_is_left_over() {
    let mut complaints = Vec::new();
    for file in source::files("rs") {
        let code = source::without_prose(&file.text);
        let left_over = LEFT_OVERS.iter().filter(|word| code.contains(**word));
        let notes = NOTES_TO_SELF.iter().filter(|word| source::holds(&file.text, word));
        complaints.extend(left_over.chain(notes).map(|word| format!("{}: `{word}`", file.path)));
    }
    source::assert_none(&complaints);
}
