//! The audit log beside the jobs' entries: other changes and refused requests, each in a file of JSON
//! lines of this machine.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Timestamp;
use model::audit::flood::Flood;
use model::audit::{AuditEntry, AuditFilter};
use model::layout::{DOCUMENT_MODE, Layout};
use parking_lot::Mutex;
use stdx::{Clock, Throttle};

/// Longest file: some 25,000 entries. Then it becomes the older one.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Days for which an entry is told: half a year, in which a fault is looked into. The addresses and
/// names of people in an older entry are of no more use.
const KEPT_DAYS: i64 = 180;
/// The same in seconds.
const KEPT_SECONDS: i64 = KEPT_DAYS * 86_400;
/// The suffix of the older file, of which there is one.
const OLDER: &str = "old";

/// The files; clones share them.
#[derive(Debug, Clone)]
pub struct AuditLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    changes: Book,
    refusals: Book,
    flood: Mutex<Flood>,
    clock: Clock,
}

impl AuditLog {
    /// The files of this machine.
    pub fn new(layout: &Layout, clock: Clock) -> Self {
        let [changes, refusals] = [layout.changes_log(), layout.refusals_log()].map(Book::new);
        Self(Arc::new(Inner { changes, refusals, flood: Mutex::default(), clock }))
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.clock.now_micros())
    }

    /// Keeps a change that is no job.
    pub(crate) async fn changed(&self, entry: AuditEntry) {
        let inner = Arc::clone(&self.0);
        let now = self.now();
        note_end(stdx::apart(move || inner.changes.append(&[entry], now)).await);
    }

    /// Keeps what was refused, unless there was much of the same: that is counted. Gives what was kept.
    pub(crate) async fn refused(&self, entries: Vec<AuditEntry>) -> Vec<AuditEntry> {
        let told: Vec<AuditEntry> = {
            let mut flood = self.0.flood.lock();
            entries.into_iter().flat_map(|entry| flood.note(entry)).collect()
        };
        if !told.is_empty() {
            let (inner, kept) = (Arc::clone(&self.0), told.clone());
            let now = self.now();
            note_end(stdx::apart(move || inner.refusals.append(&kept, now)).await);
        }
        told
    }

    /// The entries that are wanted, in no order. Blocks.
    pub(crate) fn entries(&self, filter: &AuditFilter) -> Vec<AuditEntry> {
        let mut found = self.0.refusals.entries(filter);
        if !filter.refused {
            found.extend(self.0.changes.entries(filter));
        }
        found.extend(self.0.flood.lock().withheld().into_iter().filter(|e| filter.takes(e)));
        let oldest = self.now().plus_seconds(-KEPT_SECONDS);
        found.retain(|entry| entry.time >= oldest);
        found
    }
}

fn note_end<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        tracing::error!(%error, "writing the audit log panicked");
    }
}

/// One file, and the older one.
#[derive(Debug)]
struct Book {
    path: PathBuf,
    /// A writer holds this lock.
    writing: Mutex<()>,
    failed: Throttle,
}

impl Book {
    fn new(path: PathBuf) -> Self {
        Self { path, writing: Mutex::new(()), failed: Throttle::new() }
    }

    fn older(&self) -> PathBuf {
        self.path.with_extension(OLDER)
    }

    /// Adds entries at this moment. A disk that takes nothing must not hold up what the log is about.
    fn append(&self, entries: &[AuditEntry], now: Timestamp) {
        let _turn = self.writing.lock();
        if let Err(error) = self.write(entries, now)
            && let Some(withheld) = self.failed.pass()
        {
            let path = self.path.display();
            tracing::error!(%path, %error, withheld, "the audit log takes no entry");
        }
    }

    fn write(&self, entries: &[AuditEntry], now: Timestamp) -> io::Result<()> {
        let mut lines = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut lines, entry)?;
            lines.push(b'\n');
        }
        let mut file = self.open()?;
        // Of the older file nothing is told any more when the first entry of this one is as old.
        let oldest = now.plus_seconds(-KEPT_SECONDS);
        let is_over = || first(&self.path).is_some_and(|entry| entry.time < oldest);
        if file.metadata()?.len() >= FILE_BYTES_MAX || is_over() {
            stdx::atomic::rename(&self.path, &self.older())?;
            file = self.open()?;
        }
        file.write_all(&lines)
    }

    fn open(&self) -> io::Result<File> {
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        OpenOptions::new().append(true).create(true).mode(DOCUMENT_MODE).open(&self.path)
    }

    fn entries(&self, filter: &AuditFilter) -> Vec<AuditEntry> {
        let mut found = Vec::new();
        for path in [self.older(), self.path.clone()] {
            if let Err(error) = read(&path, filter, &mut found) {
                tracing::warn!(path = %path.display(), %error, "a part of the audit log does not read");
            }
        }
        found
    }
}

/// The first entry of a file.
fn first(path: &Path) -> Option<AuditEntry> {
    let line = BufReader::new(File::open(path).ok()?).split(b'\n').next()?;
    serde_json::from_slice(&line.ok()?).ok()
}

/// Reads a file; a line that was cut off by a crash is left out.
fn read(path: &Path, filter: &AuditFilter, found: &mut Vec<AuditEntry>) -> io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for line in BufReader::new(file).split(b'\n') {
        let entry = serde_json::from_slice::<AuditEntry>(&line?).ok();
        found.extend(entry.filter(|entry| filter.takes(entry)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::audit::{Asker, Outcome};

    use super::*;

    fn entry(second: i64, object: &str, result: Outcome) -> AuditEntry {
        let time = Timestamp::from_micros(0).plus_seconds(second);
        AuditEntry::new(time, Asker::cluster(), "SetDrainFlag", object, result)
    }

    #[tokio::test]
    async fn entries_are_found_again_and_a_flood_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let audit_log = AuditLog::new(&Layout::new(dir.path()), Clock::manual(0));
        audit_log.changed(entry(1, "drained", Outcome::Success)).await;
        let flood = (0..100).map(|_| entry(2, "drained", Outcome::Refused)).collect();
        assert_eq!(audit_log.refused(flood).await.len(), 5);
        let all = audit_log.entries(&AuditFilter::default());
        assert_eq!(all.len(), 7);
        assert_eq!(all.iter().map(|entry| entry.times).sum::<u64>(), 101);
        let refused = AuditFilter { refused: true, ..AuditFilter::default() };
        assert_eq!(audit_log.entries(&refused).len(), 6);
        let again = AuditLog::new(&Layout::new(dir.path()), Clock::manual(0));
        assert_eq!(again.entries(&refused).len(), 5, "after a restart");
    }

    #[tokio::test]
    async fn an_entry_is_told_for_half_a_year_and_kept_for_a_year_at_most() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::manual(0);
        let layout = Layout::new(dir.path());
        let audit_log = AuditLog::new(&layout, clock.clone());
        let told = || {
            let mut objects = Vec::new();
            for entry in audit_log.entries(&AuditFilter::default()) {
                objects.push(entry.object.to_string());
            }
            objects
        };
        let at = |days: i64| {
            clock.set(days * 86_400 * 1_000_000);
            entry(days * 86_400, &format!("d{days}"), Outcome::Success)
        };
        for days in [0, 100, 180] {
            audit_log.changed(at(days)).await;
        }
        assert_eq!(told(), ["d0", "d100", "d180"]);
        audit_log.changed(at(181)).await;
        assert_eq!(told(), ["d100", "d180", "d181"]);
        audit_log.changed(at(362)).await;
        assert_eq!(told(), ["d362"]);
        let files = [layout.changes_log(), layout.changes_log().with_extension(OLDER)];
        let kept = files.map(|path| std::fs::read_to_string(path).unwrap());
        assert!(!kept.concat().contains("d100"), "{kept:?}");
    }

    #[test]
    fn a_file_is_bounded_and_its_cut_off_line_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let book = Book::new(dir.path().join("log/audit.jsonl"));
        let many: Vec<_> =
            (0..1_000).map(|n| entry(n, &"x".repeat(300), Outcome::Success)).collect();
        for _ in 0..60 {
            book.append(&many, Timestamp::from_micros(0));
        }
        let size = |path: &Path| std::fs::metadata(path).unwrap().len();
        for path in [&book.path, &book.older()] {
            assert!(size(path) < FILE_BYTES_MAX + 500_000, "{}", path.display());
        }
        assert_eq!(std::fs::read_dir(dir.path().join("log")).unwrap().count(), 2);
        let before = book.entries(&AuditFilter::default()).len();
        let mut file = book.open().unwrap();
        file.write_all(b"{\"time\":[1,").unwrap();
        assert_eq!(book.entries(&AuditFilter::default()).len(), before);
    }
}
