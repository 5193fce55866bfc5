//! Programs without what only a debugger reads, and that in files of its own.
//!
//! Stripped, the programs are about a sixth; with the package of symbols installed, debuggers and
//! the backtraces of panics find names and lines again by the build id.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DistError, said};

/// One program in two files.
#[derive(Debug)]
pub struct Split {
    /// The program that runs.
    pub program: PathBuf,
    /// Its symbols and lines.
    pub symbols: PathBuf,
    /// The place of the symbols, below the root.
    pub place: String,
    /// The build id that ties both together, in hexadecimal.
    pub build_id: String,
}

/// Splits a program into two files below `directory`.
///
/// # Errors
/// The tools are not there, or the program has no build id.
pub fn split(program: &Path, directory: &Path) -> Result<Split, DistError> {
    let name = program.file_name().unwrap_or_default();
    let stripped = directory.join(name);
    let symbols = directory.join(name).with_extension("debug");
    let objcopy = |options: &[&str], from: &Path, to: &Path| {
        said(Command::new("objcopy").args(options).arg(from).arg(to), ("objcopy", "binutils"))
    };
    objcopy(&["--only-keep-debug", "--compress-debug-sections"], program, &symbols)?;
    objcopy(&["--strip-all", "--remove-section=.comment"], program, &stripped)?;
    let notes =
        said(Command::new("readelf").arg("--notes").arg(&stripped), ("readelf", "binutils"))?;
    let build_id = build_id(&notes).ok_or_else(|| DistError::Sense {
        what: format!("the notes of `{}`: it has no build id", program.display()),
    })?;
    let (directory, rest) = build_id.split_at(2);
    let place = format!("usr/lib/debug/.build-id/{directory}/{rest}.debug");
    Ok(Split { program: stripped, symbols, place, build_id })
}

/// The build id in what `readelf --notes` tells.
fn build_id(notes: &str) -> Option<String> {
    let mut lines = notes.lines().filter_map(|line| line.trim().strip_prefix("Build ID: "));
    let id = lines.next()?.trim();
    (id.len() > 2 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_id_is_found_among_the_notes() {
        let notes = "\nDisplaying notes found in: .note.gnu.build-id\n  Owner  Data size\n    \
                     Build ID: 0a1b2c\nDisplaying notes found in: .note.ABI-tag\n";
        assert_eq!(build_id(notes), Some("0a1b2c".to_owned()));
        assert_eq!(build_id("    Build ID: \n"), None);
        assert_eq!(build_id(""), None);
    }
}
