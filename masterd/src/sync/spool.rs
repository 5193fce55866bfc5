//! Clears the spool of uploads that no job wanted: who uploads may be interrupted, or a job be refused.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::blob::BlobDigest;
use stdx::Clock;

use crate::agents::blobs::Source;
use crate::config::reconciler::Reconciler;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(3_600);
/// How long an upload may lie there after its last byte was written: a job may wait in the queue for a
/// day.
const AGE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How names of uploads that are under way begin.
const UNFINISHED: &str = ".upload-";

/// The spool, and what must stay there.
#[derive(Debug)]
pub(crate) struct Spool {
    directory: PathBuf,
    source: Arc<Source>,
    clock: Clock,
}

impl Spool {
    /// Clears this directory.
    pub(crate) const fn new(directory: PathBuf, source: Arc<Source>, clock: Clock) -> Self {
        Self { directory, source, clock }
    }

    /// Removes what is too old; says how many files and bytes.
    fn clear(&self) -> io::Result<(usize, u64)> {
        let needed: BTreeSet<BlobDigest> =
            self.source.pinned().into_iter().map(|blob| blob.sha256).collect();
        let now = Duration::from_micros(u64::try_from(self.clock.now_micros()).unwrap_or_default());
        let (mut files, mut bytes) = (0, 0);
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let Some(length) = too_old(&path, now, &needed)? else { continue };
            match fs::remove_file(&path) {
                Ok(()) => (files, bytes) = (files + 1, bytes + length),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok((files, bytes))
    }
}

/// The length of an upload that nobody wants any more; none of what is to stay.
fn too_old(path: &Path, now: Duration, needed: &BTreeSet<BlobDigest>) -> io::Result<Option<u64>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_ours = match name.parse::<BlobDigest>() {
        Ok(digest) => !needed.contains(&digest),
        Err(_other) => name.starts_with(UNFINISHED),
    };
    if !is_ours {
        return Ok(None);
    }
    let met = match path.symlink_metadata() {
        Ok(met) => met,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let written = met.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let written = written.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok((met.is_file() && now.saturating_sub(written) > AGE_MAX).then_some(met.len()))
}

impl Reconciler for Spool {
    const NAME: &'static str = "spool";

    async fn reconcile(&mut self) -> Option<Duration> {
        match stdx::aside(|| self.clear()) {
            Ok((0, _)) => {}
            Ok((files, bytes)) => {
                tracing::info!(files, bytes, "uploads that no job wanted were removed");
            }
            Err(error) => {
                tracing::warn!(path = %self.directory.display(), %error, "the spool is not cleared");
            }
        }
        Some(EVERY)
    }
}

#[cfg(test)]
mod tests {
    use model::layout::Layout;

    use super::*;

    #[tokio::test]
    async fn old_uploads_go_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        let spool = layout.spool();
        fs::create_dir_all(&spool).unwrap();
        let source = Arc::new(Source::new(&layout));
        let [wanted, unwanted] = ["aa", "bb"].map(|byte| byte.repeat(32));
        for name in [wanted.as_str(), &unwanted, ".upload-7", "notes.txt"] {
            stdx::atomic::write(&spool.join(name), b"x", 0o600).unwrap();
        }
        let blob = model::blob::Blob { sha256: wanted.parse().unwrap(), size: 1 };
        let _pin = source.pin(&[blob]).await;
        let now = stdx::Clock::system().now_micros();
        let clock = Clock::manual(now);
        let cleaned = Spool::new(spool.clone(), source, clock.clone());
        assert_eq!(cleaned.clear().unwrap(), (0, 0), "they are young");
        clock.set(now + 86_410_000_000);
        assert_eq!(cleaned.clear().unwrap(), (2, 2));
        let left = fs::read_dir(&spool).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, [wanted.as_str(), "notes.txt"]);
    }
}
