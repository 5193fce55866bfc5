//! The report of a soak: on its output and in a file, as it happens.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::testbed::reckoning::Totals;

/// The record of a soak.
#[derive(Debug)]
pub struct Record {
    begun: Instant,
    path: PathBuf,
    file: File,
    events: BTreeMap<String, u64>,
    rounds: u64,
    outage: (Duration, u64),
    /// The outcomes of submissions.
    pub totals: Totals,
}

impl Record {
    /// A new one, in a directory that is made if need be.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn begin(dir: &Path, name: &str) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let path = dir.join(format!("{name}.log"));
        let file = File::create(&path).unwrap();
        Self {
            begun: Instant::now(),
            path,
            file,
            events: BTreeMap::new(),
            rounds: 0,
            outage: (Duration::ZERO, 0),
            totals: Totals::default(),
        }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a line.
    ///
    /// # Panics
    /// If the file takes none.
    pub fn say(&mut self, text: &str) {
        let line = format!("[{:5} s] {text}", self.begun.elapsed().as_secs());
        // The reader of the output may be gone; the file counts.
        drop(writeln!(std::io::stdout(), "{line}"));
        writeln!(self.file, "{line}").unwrap();
    }

    /// Tells of an event, and counts it.
    pub fn event(&mut self, round: u64, kind: &str, about: &str) {
        *self.events.entry(kind.to_owned()).or_default() += 1;
        self.say(&format!("round {round}: {kind}{about}"));
    }

    /// Takes in a round that ended well.
    pub fn round(&mut self, number: u64, outage: Duration) {
        self.rounds = number;
        self.outage = self.outage.max((outage, number));
    }

    /// All of it in a few lines.
    pub fn summary(&self, seed: u64, finding: Option<&String>) -> String {
        let mut text = format!("{} rounds with --seed {seed}", self.rounds);
        for (kind, count) in &self.events {
            write!(text, "\n  {kind:28} {count:5}").expect("text takes every word");
        }
        let Totals { acknowledged, refused, unknown, unknown_there, calls } = self.totals;
        write!(
            text,
            "\n  jobs: {acknowledged} acknowledged, {refused} refused, {unknown} unknown, of which \
             {unknown_there} are there; {calls} calls of agents\n  longest time without an \
             acknowledgement: {:.1} s, in round {}\n",
            self.outage.0.as_secs_f64(),
            self.outage.1
        )
        .expect("text takes every word");
        text.push_str(&finding.map_or_else(
            || "no finding: nothing lost, nothing doubled, all replicas equal".to_owned(),
            |finding| format!("FINDING: {finding}"),
        ));
        text
    }
}
