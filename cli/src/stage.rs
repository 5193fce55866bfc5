//! Files on their way into the spool, with a bar on a terminal.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

use blobs::Staging;
use indicatif::{ProgressBar, ProgressStyle};
use model::blob::Blob;

use crate::error::CliError;
use crate::session::can_draw;

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1024 * 1024;

/// Copies a file into the spool, where the master finds it by its digest.
pub(crate) fn stage(path: &Path, spool: &Path) -> Result<Blob, CliError> {
    let read = |error| CliError::Read { path: path.to_owned(), error };
    let mut from = File::open(path).map_err(read)?;
    let bar = bar(path, from.metadata().map_err(read)?.len());
    let mut staging = Staging::begin(spool)?;
    let mut buffer = vec![0; COPY_BYTES];
    let copied = loop {
        let bytes = match from.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(bytes) => &buffer[..bytes],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break Err(read(error)),
        };
        if let Err(error) = staging.write(bytes) {
            break Err(error.into());
        }
        bar.inc(u64::try_from(bytes.len()).unwrap_or_default());
    };
    bar.finish_and_clear();
    copied?;
    Ok(staging.finish()?)
}

/// How far a file of this length is, on a terminal.
fn bar(path: &Path, length: u64) -> ProgressBar {
    if !(io::stderr().is_terminal() && can_draw()) {
        return ProgressBar::hidden();
    }
    let style = "{prefix} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    let style =
        ProgressStyle::with_template(style).expect("the template is constant and well formed");
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bar = ProgressBar::new(length).with_style(style);
    bar.with_prefix(stdx::text::line(&name).to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_found_by_its_digest_and_a_failure_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let spool = dir.path().join("spool");
        fs::create_dir(&spool).unwrap();
        assert!(stage(dir.path(), &spool).is_err(), "a directory is no file");
        assert_eq!(fs::read_dir(&spool).unwrap().count(), 0);
        let file = dir.path().join("vmlinuz");
        stdx::atomic::write(&file, b"kernel", 0o600).unwrap();
        let blob = stage(&file, &spool).unwrap();
        assert_eq!(blob.size, 6);
        let staged = fs::read(spool.join(blob.sha256.to_string())).unwrap();
        assert_eq!(staged, b"kernel");
        assert_eq!(fs::read_dir(&spool).unwrap().count(), 1);
    }
}
