//! The numbers of the daemons, their document and the dashboard name the same things.

use std::collections::BTreeSet;

use serde_json::Value;
use stdx::metrics::{Family, Kind};

use crate::source;

const DOCUMENT: &str = "docs/metrics.md";
const DASHBOARD: &str = "docs/grafana/gantry.json";

fn families() -> impl Iterator<Item = &'static Family> {
    let daemons =
        [masterd::agents::metrics::FAMILIES, noded::metrics::FAMILIES, rapi::metrics::FAMILIES];
    daemons.into_iter().flatten()
}

#[test]
fn every_number_is_documented_and_nothing_else() {
    let text = source::read(DOCUMENT);
    for family in families() {
        let row = family.row();
        assert!(text.contains(&row), "{DOCUMENT} lacks the row\n{row}");
    }
    let rows = text.lines().filter(|line| line.starts_with("| `gantry_") && line.ends_with(". |"));
    assert_eq!(rows.count(), families().count(), "{DOCUMENT} has rows that no program has");
}

#[test]
fn names_follow_the_conventions() {
    let mut names = BTreeSet::new();
    for family in families() {
        let name = family.name;
        assert!(names.insert(name), "{name} is there twice");
        assert!(name.starts_with("gantry_"), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert!(!name.ends_with("_total") && !name.ends_with("_count"), "{name}: added by itself");
        assert!(!family.help.ends_with('.'), "{name}: the full stop is added by itself");
    }
}

/// The names as a page has them.
fn series() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for family in families() {
        let suffixes: &[&str] = match family.kind {
            Kind::Counter => &["_total"],
            Kind::Gauge => &[""],
            Kind::Histogram => &["_bucket", "_count", "_sum"],
        };
        names.extend(suffixes.iter().map(|suffix| format!("{}{suffix}", family.name)));
    }
    names
}

/// Words of an expression that begin with our prefix.
fn named(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("gantry_"))
}

#[test]
fn the_dashboard_asks_for_what_exists() {
    let dashboard: Value = serde_json::from_str(&source::read(DASHBOARD)).expect("JSON");
    let series = series();
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut asked = 0;
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "two panels of one id: {panel}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("an expression");
            let names: Vec<&str> = named(expression).collect();
            assert!(!names.is_empty(), "{DASHBOARD}: nothing of ours in {expression}");
            for name in names {
                assert!(series.contains(name), "{DASHBOARD} asks for {name}, which is not there");
                asked += 1;
            }
        }
    }
    assert!(asked > 20, "{DASHBOARD} asks for {asked} series only");
}

#[test]
fn what_is_said_about_signs_is_about_numbers_that_exist() {
    let series = series();
    let families: BTreeSet<&str> = families().map(|family| family.name).collect();
    for name in named(&source::read(DOCUMENT)) {
        let known = series.contains(name) || families.contains(name);
        assert!(known, "{DOCUMENT} names {name}, which is not there");
    }
}
