//! The passphrase of an export, from a file or the terminal.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use model::Secret;

/// Longest line that is read: far more than anybody types.
const LINE_BYTES_MAX: u64 = 4_096;

/// The first line of a file, or of standard input where that is `-`. Without a file, the line that is
/// typed on the terminal; none where there is no terminal either.
///
/// # Errors
/// It cannot be read, or is no text.
pub fn read(file: Option<&Path>) -> io::Result<Option<Secret<String>>> {
    match file {
        None => Ok(stdx::terminal::hidden_line("Passphrase of the export: ")?.map(Secret::new)),
        Some(path) if path == Path::new("-") => first_line(io::stdin().lock()).map(Some),
        Some(path) => first_line(File::open(path)?).map(Some),
    }
}

fn first_line(input: impl Read) -> io::Result<Secret<String>> {
    let mut line = String::new();
    BufReader::new(input.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    Ok(Secret::new(line.trim_end_matches(['\r', '\n']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_passphrase() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("phrase");
        stdx::atomic::write(&file, b" correct horse\r\nbattery\n", 0o600).unwrap();
        assert_eq!(read(Some(&file)).unwrap().unwrap().expose(), " correct horse");
        assert!(read(Some(&dir.path().join("none"))).is_err());
    }
}
