//! Waits until a file is written to (inotify).

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes of events that are read at a time: some of the longest.
const EVENTS_BYTES: usize = 4096;

/// The writes to one file, whoever makes them.
#[derive(Debug)]
pub struct FileChanges(AsyncFd<OwnedFd>);

impl FileChanges {
    /// Those of the file at `path` from now on, within a tokio runtime.
    ///
    /// # Errors
    /// There is no such file, or this user watches as many as it may.
    pub fn of(path: &Path) -> io::Result<Self> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        add_watch(&inotify, path, WatchFlags::MODIFY | WatchFlags::DELETE_SELF)?;
        #[expect(unsafe_code, reason = "tokio asks its caller for the life of the descriptor")]
        // SAFETY: `OwnedFd` owns an open descriptor, and nobody takes it out of the `AsyncFd`.
        let registered = unsafe { AsyncFd::register_with_interest(inotify, Interest::READABLE) };
        Ok(Self(registered?))
    }

    /// Waits for the next write since the last one that was waited for.
    ///
    /// # Errors
    /// The system's error.
    pub async fn next(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            // The events' own words are of no interest.
            let mut events = [0; EVENTS_BYTES];
            let read =
                ready.try_io(|inotify| Ok(rustix::io::read(inotify, &mut events).map(drop)?));
            if let Ok(read) = read {
                return read;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn each_write_is_told() {
        let path = std::env::temp_dir().join(format!("changes-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).unwrap();
        let mut changes = FileChanges::of(&path).unwrap();
        for _ in 0..3 {
            file.write_all(b"more").unwrap();
            changes.next().await.unwrap();
        }
        std::fs::remove_file(&path).unwrap();
        assert!(FileChanges::of(&path).is_err());
    }
}
