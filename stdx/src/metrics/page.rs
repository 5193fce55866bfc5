//! The answer to one request for numbers, as text.

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::{Counts, Family, Kind};

/// The labels and the value of one number.
#[derive(Debug, Clone)]
struct Sample {
    labels: Vec<(&'static str, String)>,
    value: Value,
}

#[derive(Debug, Clone)]
enum Value {
    Counter(u64),
    Gauge(f64),
    Histogram(Counts),
}

impl Value {
    fn kind(&self) -> Kind {
        match self {
            Self::Counter(_) => Kind::Counter,
            Self::Gauge(_) => Kind::Gauge,
            Self::Histogram(_) => Kind::Histogram,
        }
    }
}

/// A number of a family that the page does not have, or with other labels or of another kind than
/// the family says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the number `{name}` with these labels is not in the table of metrics")]
pub struct Unlisted {
    pub name: &'static str,
}

/// The numbers of a table of families at a moment.
#[derive(Debug)]
pub struct Page {
    families: &'static [Family],
    /// In the order of the families.
    samples: Vec<Vec<Sample>>,
    unlisted: Vec<Unlisted>,
}

impl Page {
    /// A page for these families, without a number yet.
    pub fn new(families: &'static [Family]) -> Self {
        Self { families, samples: vec![Vec::new(); families.len()], unlisted: Vec::new() }
    }

    /// Adds the number of a counter; `labels` are the values for the family's labels, in order.
    pub fn counter(&mut self, name: &'static str, labels: &[&str], value: u64) {
        self.add(name, labels, Value::Counter(value));
    }

    /// Adds the number of a gauge.
    pub fn gauge(&mut self, name: &'static str, labels: &[&str], value: f64) {
        self.add(name, labels, Value::Gauge(value));
    }

    /// Adds a count as the number of a gauge.
    #[expect(clippy::cast_precision_loss, reason = "counts beyond 2^53 do not occur")]
    pub fn gauge_of(&mut self, name: &'static str, labels: &[&str], value: u64) {
        self.gauge(name, labels, value as f64);
    }

    /// Adds what a histogram holds.
    pub fn histogram(&mut self, name: &'static str, labels: &[&str], value: Counts) {
        self.add(name, labels, Value::Histogram(value));
    }

    fn add(&mut self, name: &'static str, labels: &[&str], value: Value) {
        let fits = |family: &Family| {
            family.name == name
                && family.kind == value.kind()
                && family.labels.len() == labels.len()
        };
        let Some(at) = self.families.iter().position(fits) else {
            self.unlisted.push(Unlisted { name });
            return;
        };
        let named = self.families[at].labels.iter().copied();
        let labels = named.zip(labels.iter().map(|&value| value.to_owned())).collect();
        self.samples[at].push(Sample { labels, value });
    }

    /// The page in the text format of OpenMetrics.
    pub fn text(self) -> String {
        for unlisted in &self.unlisted {
            tracing::error!(%unlisted, "a number is not shown");
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Written(Mutex::new(self))));
        let mut text = String::new();
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &registry) {
            tracing::error!(%error, "numbers cannot be written");
        }
        text
    }
}

/// A page that the library asks for its numbers.
#[derive(Debug)]
struct Written(Mutex<Page>);

impl Collector for Written {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let page = self.0.lock();
        for (family, samples) in page.families.iter().zip(&page.samples) {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            // The library puts the full stop behind the meaning.
            let mut metric =
                encoder.encode_descriptor(family.name, &format!("{}.", family.help), None, kind)?;
            for sample in samples {
                if sample.labels.is_empty() {
                    write(&sample.value, &mut metric)?;
                } else {
                    write(&sample.value, &mut metric.encode_family(&sample.labels.as_slice())?)?;
                }
            }
        }
        Ok(())
    }
}

fn write(value: &Value, metric: &mut MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
    match value {
        Value::Counter(value) => metric.encode_counter::<NoLabelSet, _, u64>(value, None),
        Value::Gauge(value) => metric.encode_gauge(value),
        Value::Histogram(Counts { buckets, count, sum }) => {
            metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Histogram, LATENCY};

    const FAMILIES: &[Family] = &[
        Family { name: "toys_made", kind: Kind::Counter, labels: &[], help: "Toys" },
        Family { name: "toys", kind: Kind::Gauge, labels: &["colour"], help: "Toys \"here\"" },
        Family { name: "toy_seconds", kind: Kind::Histogram, labels: &[], help: "Time" },
    ];

    #[test]
    fn a_page_in_the_text_format() {
        let mut page = Page::new(FAMILIES);
        page.counter("toys_made", &[], 3);
        page.gauge("toys", &["r\"e\nd"], 0.5);
        page.gauge_of("toys", &["blue"], 2);
        let times = Histogram::new(LATENCY);
        times.observe(60);
        times.observe(1 << 50);
        page.histogram("toy_seconds", &[], times.counts());
        let text = page.text();
        for line in [
            "# HELP toys_made Toys.\n",
            "# TYPE toys_made counter\ntoys_made_total 3\n",
            "toys{colour=\"r\\\"e\\nd\"} 0.5\ntoys{colour=\"blue\"} 2.0\n",
            "toy_seconds_bucket{le=\"0.00005\"} 0\n",
            "toy_seconds_bucket{le=\"0.0001\"} 1\n",
            "toy_seconds_bucket{le=\"300.0\"} 1\n",
            "toy_seconds_bucket{le=\"+Inf\"} 2\n",
            "toy_seconds_count 2\n",
        ] {
            assert!(text.contains(line), "no {line:?} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn what_the_table_lacks_is_told() {
        let mut page = Page::new(FAMILIES);
        page.counter("toys_lost", &[], 1);
        page.counter("toys", &["red"], 1);
        page.gauge("toys", &[], 1.0);
        let names: Vec<_> = page.unlisted.iter().map(|unlisted| unlisted.name).collect();
        assert_eq!(names, ["toys_lost", "toys", "toys"]);
    }
}
