//! The limits of the disk: the two ways to make a small record durable, one at a time.
//!
//! Everything else that is measured is a ratio to these, taken in the same directory and run.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::report::Report;
use super::{BenchError, Setting};

/// Size of a record: a job file with one small opcode.
pub const RECORD_BYTES: usize = 1_100;
/// Size of the file that records are appended to: as a journal's segment, written before it is
/// used, so that an append changes nothing but content.
const FILE_BYTES: usize = 64 << 20;
/// Zeros that are written at once.
const ZEROS_BYTES: usize = 1 << 20;
/// Files that are replaced in turn.
const NAMES: usize = 64;
/// Mode of the files that are replaced.
const FILE_MODE: u32 = 0o640;
/// Most durations kept; beyond it, a disk is measured well enough.
const SAMPLES_MAX: usize = 10_000_000;

/// The cost of both ways.
#[derive(Debug, Clone)]
pub struct DiskLimits {
    /// Append to a pre-zeroed file and fdatasync.
    pub append: Sample,
    /// Write, fsync, rename, and fsync the directory.
    pub replace: Sample,
}

/// Durations of one operation that was done again and again.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Ascending.
    durations: Vec<Duration>,
    elapsed: Duration,
}

/// A disk that could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The file to append to cannot be prepared.
    #[error("cannot prepare `{path}`")]
    Prepare {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A record could not be made durable.
    #[error("cannot make a record durable in `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

/// The bench `disk`.
///
/// # Errors
/// The disk cannot be written.
pub fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let limits = measure(&setting.dir, setting.time)?;
    let baseline = limits.append.per_second();
    report.add("disk.append_fdatasync", baseline, "1/s");
    report.add("disk.append_fdatasync.p50", limits.append.percentile_us(50), "us");
    report.add("disk.append_fdatasync.p99", limits.append.percentile_us(99), "us");
    report.add_compared("disk.replace", limits.replace.per_second(), "1/s", baseline);
    report.add("disk.replace.p50", limits.replace.percentile_us(50), "us");
    report.add("disk.replace.p99", limits.replace.percentile_us(99), "us");
    Ok(())
}

/// Measures both ways in `dir`, each for `time`; leaves its files behind.
///
/// # Errors
/// The disk cannot be written.
pub fn measure(dir: &Path, time: Duration) -> Result<DiskLimits, DiskError> {
    let append = Appender::prepare(dir)?.measure(time)?;
    Ok(DiskLimits { append, replace: replace(dir, time)? })
}

/// A file to append records to.
#[derive(Debug)]
pub struct Appender {
    path: PathBuf,
    file: File,
    next: usize,
}

impl Appender {
    /// Makes the file, durably.
    ///
    /// # Errors
    /// The disk cannot be written.
    pub fn prepare(dir: &Path) -> Result<Self, DiskError> {
        let path = dir.join("append");
        let at = |error| DiskError::Prepare { path: path.clone(), error };
        let file = File::create(&path).map_err(at)?;
        let zeros = vec![0; ZEROS_BYTES];
        for start in (0..FILE_BYTES).step_by(ZEROS_BYTES) {
            file.write_all_at(&zeros, offset(start)).map_err(at)?;
        }
        file.sync_all().map_err(at)?;
        stdx::atomic::sync_parent(&path).map_err(at)?;
        Ok(Self { path, file, next: 0 })
    }

    /// Appends records for `time`, each durable before the next.
    ///
    /// # Errors
    /// The disk cannot be written.
    pub fn measure(&mut self, time: Duration) -> Result<Sample, DiskError> {
        Sample::take(time, || self.append())
    }

    /// Appends a record, which is durable then.
    ///
    /// # Errors
    /// The disk cannot be written.
    pub fn append(&mut self) -> Result<(), DiskError> {
        let Self { path, file, next } = self;
        if *next + RECORD_BYTES > FILE_BYTES {
            *next = 0;
        }
        let written =
            file.write_all_at(&[0x5a; RECORD_BYTES], offset(*next)).and_then(|()| file.sync_data());
        *next += RECORD_BYTES;
        written.map_err(|error| DiskError::Write { path: path.clone(), error })
    }
}

fn replace(dir: &Path, time: Duration) -> Result<Sample, DiskError> {
    let record = [0x5a; RECORD_BYTES];
    let mut names = (0..NAMES).cycle();
    Sample::take(time, || {
        let path = dir.join(format!("job-{}", names.next().unwrap_or(0)));
        let written = stdx::atomic::write(&path, &record, FILE_MODE);
        written.map_err(|error| DiskError::Write { path, error })
    })
}

fn offset(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a file's size fits 64 bits")
}

impl Sample {
    /// Repeats `operation` for `time`, at least once.
    ///
    /// # Errors
    /// The first error of the operation.
    pub fn take<E>(
        time: Duration,
        mut operation: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut durations = Vec::new();
        let begun = Instant::now();
        loop {
            let start = Instant::now();
            operation()?;
            durations.push(start.elapsed());
            if begun.elapsed() >= time || durations.len() == SAMPLES_MAX {
                return Ok(Self::new(durations, begun.elapsed()));
            }
        }
    }

    /// A sample of operations that took `elapsed` together; at least one.
    pub fn new(mut durations: Vec<Duration>, elapsed: Duration) -> Self {
        durations.sort_unstable();
        Self { durations, elapsed }
    }

    /// Adds what was measured at another time.
    pub fn extend(&mut self, other: Self) {
        self.durations.extend(other.durations);
        self.durations.sort_unstable();
        self.elapsed += other.elapsed;
    }

    /// Operations in a second.
    pub fn per_second(&self) -> f64 {
        self.durations.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// The duration, in microseconds, that `percent` of the operations did not exceed; without
    /// operations, zero.
    pub fn percentile_us(&self, percent: usize) -> f64 {
        let rank = (self.durations.len() * percent).div_ceil(100).max(1);
        self.durations.get(rank - 1).map_or(0.0, |duration| duration.as_secs_f64() * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let durations = (1..=200).rev().map(Duration::from_micros).collect();
        let sample = Sample::new(durations, Duration::from_secs(2));
        let is = |percent: usize, micros: f64| {
            let found = sample.percentile_us(percent);
            assert!((found - micros).abs() < 1e-6, "p{percent} is {found}, not {micros}");
        };
        is(0, 1.0);
        is(50, 100.0);
        is(99, 198.0);
        is(100, 200.0);
        assert!((sample.per_second() - 100.0).abs() < 1e-9);
        let mut longer = sample.clone();
        longer.extend(Sample::new(vec![Duration::from_micros(500); 100], Duration::from_secs(1)));
        assert!((longer.per_second() - 100.0).abs() < 1e-9);
        assert!((longer.percentile_us(100) - 500.0).abs() < 1e-6);
    }

    #[test]
    fn measures_both_ways_and_stays_in_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let setting = Setting {
            dir: dir.path().to_owned(),
            time: Duration::ZERO,
            quick: true,
            accept: false,
            own_disk: None,
        };
        let mut report = Report::default();
        bench(&setting, &mut report).unwrap();
        let names: Vec<&str> = report.figures().iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names.len(), 6);
        assert!(report.figures().iter().all(|figure| figure.value > 0.0), "{report}");
        assert!(dir.path().join("job-0").exists() && dir.path().join("append").exists());
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = measure(Path::new("/nonexistent"), Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "cannot prepare `/nonexistent/append`");
    }
}
