//! Figures, each with what it is compared with.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Mode of the file of figures.
const FILE_MODE: u32 = 0o644;

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured: `bench.what`.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what: `1/s`, `us`, `MiB`.
    pub unit: &'static str,
    /// The figure of the same unit that it is compared with.
    pub baseline: Option<f64>,
    /// `value / baseline`.
    pub ratio: Option<f64>,
}

/// All figures of a run.
#[derive(Debug, Default)]
pub struct Report {
    figures: Vec<Figure>,
    /// Lines below the figures.
    told: Vec<String>,
    failures: Vec<String>,
}

/// The target of a figure.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Its value above this.
    ValueAbove(f64),
    /// Its value below this.
    ValueBelow(f64),
    /// Its ratio at least this.
    RatioAtLeast(f64),
    /// Its ratio below this.
    RatioBelow(f64),
}

/// Figures that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A figure is no number: something was divided by nothing.
    #[error("the figures have no JSON form")]
    Encode(#[source] serde_json::Error),
    /// The file cannot be written.
    #[error("cannot write the figures to `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
}

impl Report {
    /// Adds a figure that stands for itself.
    pub fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figures.push(Figure { name: name.into(), value, unit, baseline: None, ratio: None });
    }

    /// Adds a figure with one of the same unit to compare with; nothing compares with zero.
    pub fn add_compared(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        baseline: f64,
    ) {
        let ratio = (baseline > 0.0).then(|| value / baseline);
        self.figures.push(Figure {
            name: name.into(),
            value,
            unit,
            baseline: Some(baseline),
            ratio,
        });
    }

    /// Says of a figure whether it is what it should be. Machines differ and are shared, so a
    /// target that is not met is reported and is no failure.
    pub fn aim(&mut self, name: &str, target: Target) {
        let Some(figure) = self.figures.iter().find(|figure| figure.name == name) else { return };
        let ratio = figure.ratio.unwrap_or(f64::NAN);
        let (wanted, found, met) = match target {
            Target::ValueAbove(limit) => {
                let wanted = format!("above {} {}", number(limit), figure.unit);
                (wanted, number(figure.value), figure.value > limit)
            }
            Target::ValueBelow(limit) => {
                let wanted = format!("below {} {}", number(limit), figure.unit);
                (wanted, number(figure.value), figure.value < limit)
            }
            Target::RatioAtLeast(limit) => {
                (format!("ratio at least {limit}"), format!("{ratio:.2}"), ratio >= limit)
            }
            Target::RatioBelow(limit) => {
                (format!("ratio below {limit}"), format!("{ratio:.2}"), ratio < limit)
            }
        };
        let word = if met { "met" } else { "NOT MET" };
        self.told.push(format!("target of {name}: {wanted}; found {found}: {word}"));
    }

    /// Adds a line that is printed below the figures.
    pub fn tell(&mut self, line: String) {
        self.told.push(line);
    }

    /// Adds something that ends the run with a failure.
    pub fn fail(&mut self, why: String) {
        self.failures.push(why);
    }

    /// Reasons that end the run with a failure.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// All figures so far.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// The value of a figure, zero if there is none of this name.
    pub fn value(&self, name: &str) -> f64 {
        self.figures.iter().find(|figure| figure.name == name).map_or(0.0, |figure| figure.value)
    }

    /// Writes the figures as a JSON list.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ReportError> {
        let mut text = serde_json::to_vec_pretty(&self.figures).map_err(ReportError::Encode)?;
        text.push(b'\n');
        stdx::atomic::write(path, &text, FILE_MODE)
            .map_err(|error| ReportError::Write { path: path.to_owned(), error })
    }
}

/// A table with aligned columns.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["figure", "value", "unit", "baseline", "ratio"].map(str::to_owned);
        let rows = self.figures.iter().map(|figure| {
            let ratio = figure.ratio.map(|ratio| format!("{ratio:.2}"));
            [
                figure.name.clone(),
                number(figure.value),
                figure.unit.to_owned(),
                figure.baseline.map(number).unwrap_or_default(),
                ratio.unwrap_or_default(),
            ]
        });
        let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let [name, value, unit, baseline, ratio] = [0, 1, 2, 3, 4].map(width);
        for row in &rows {
            let line = format!(
                "{:name$}  {:>value$}  {:unit$}  {:>baseline$}  {:>ratio$}",
                row[0], row[1], row[2], row[3], row[4]
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        for line in &self.told {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// Three digits that count, or all before the point.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Report {
        let mut report = Report::default();
        report.add("disk.append", 12_345.6, "1/s");
        report.add_compared("queue.one_client", 4_000.0, "1/s", 12_345.6);
        report.add("queue.submit.p50", 81.25, "us");
        report
    }

    #[test]
    fn the_table_is_aligned() {
        let expected = "\
figure            value  unit  baseline  ratio
disk.append       12346  1/s
queue.one_client   4000  1/s      12346   0.32
queue.submit.p50   81.2  us
";
        assert_eq!(sample().to_string(), expected);
    }

    #[test]
    fn targets_are_told() {
        let mut report = sample();
        report.aim("queue.one_client", Target::RatioAtLeast(0.3));
        report.aim("queue.one_client", Target::RatioBelow(0.3));
        report.aim("disk.append", Target::ValueAbove(20_000.0));
        report.aim("queue.submit.p50", Target::ValueBelow(100.0));
        report.aim("disk.unknown", Target::ValueAbove(1.0));
        let text = report.to_string();
        let told: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(
            told,
            [
                "target of queue.one_client: ratio at least 0.3; found 0.32: met",
                "target of queue.one_client: ratio below 0.3; found 0.32: NOT MET",
                "target of disk.append: above 20000 1/s; found 12346: NOT MET",
                "target of queue.submit.p50: below 100 us; found 81.2: met",
            ]
        );
    }

    #[test]
    fn the_file_is_a_list_of_figures() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("figures.json");
        sample().write(&file).unwrap();
        let list: Vec<serde_json::Value> =
            serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(list.len(), 3);
        let keys: Vec<&String> = list[0].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["baseline", "name", "ratio", "unit", "value"]);
        assert_eq!(list[0]["baseline"], serde_json::Value::Null);
        assert_eq!(list[1]["baseline"], 12_345.6);
        assert!((list[1]["ratio"].as_f64().unwrap() - 0.324).abs() < 0.001);
    }

    #[test]
    fn nothing_compares_with_zero() {
        let mut report = Report::default();
        report.add_compared("x", 1.0, "1/s", 0.0);
        assert_eq!(report.figures()[0].ratio, None);
    }
}
