//! Core: what nextest's JUnit report says about each test.

use std::time::Duration;

use super::skips::{self, Skip};

/// One test of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Its program and its name.
    pub test: String,
    /// How long it took.
    pub took: Duration,
    /// Whether it failed.
    pub failed: bool,
    /// Why it passed without testing.
    pub skips: Vec<Skip>,
}

/// The tests of a report.
pub fn cases(report: &str) -> Vec<Case> {
    report.split("<testcase ").skip(1).map(case).collect()
}

fn case(text: &str) -> Case {
    let (head, body) = text.split_once('>').unwrap_or((text, ""));
    let body = body.split("</testcase>").next().unwrap_or_default();
    let name = |key| attribute(head, key).unwrap_or_default();
    let test = format!("{} {}", name("classname"), name("name"));
    let seconds = name("time").parse().ok().and_then(|time| Duration::try_from_secs_f64(time).ok());
    let failed = body.contains("<failure") || body.contains("<error");
    let spaced = body.replace('>', ">\n").replace('<', "\n<");
    let whys = spaced.lines().filter_map(skips::reason).map(unescape);
    let mut skips: Vec<Skip> = whys.map(|why| Skip { test: test.clone(), why }).collect();
    skips.dedup();
    Case { test, took: seconds.unwrap_or_default(), failed, skips }
}

fn attribute(head: &str, key: &str) -> Option<String> {
    let padded = format!(" {head}");
    let (_, rest) = padded.split_once(&format!(" {key}=\""))?;
    rest.split('"').next().map(unescape)
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    plain.replace("&apos;", "'").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_gives_times_failures_and_skips() {
        let report = r#"<?xml version="1.0"?>
<testsuites><testsuite name="noded::dhcp">
  <testcase name="lease" classname="noded::dhcp" time="0.1"><system-out>
running 1 test
test lease ... skipped: needs root &amp; &quot;udhcpc&quot;
test result: ok. 1 passed; 0 failed; 0 skipped</system-out></testcase>
  <testcase name="quiet" classname="noded::dhcp" time="61.250"/>
  <testcase name="broken" classname="noded::dhcp" time="1"><failure type="test failure"/></testcase>
  <testcase name="loud" classname="noded::dhcp"><system-out>nothing was skipped: here</system-out>
    <system-err>skipped: no namespaces</system-err></testcase>
</testsuite></testsuites>"#;
        let case = |name: &str, millis, failed, why: Option<&str>| {
            let test = format!("noded::dhcp {name}");
            let skip = |why: &str| Skip { test: test.clone(), why: why.to_owned() };
            let skips = why.map(skip).into_iter().collect();
            Case { test: test.clone(), took: Duration::from_millis(millis), failed, skips }
        };
        let expected = [
            case("lease", 100, false, Some("needs root & \"udhcpc\"")),
            case("quiet", 61_250, false, None),
            case("broken", 1_000, true, None),
            case("loud", 0, false, Some("no namespaces")),
        ];
        assert_eq!(cases(report), expected);
        assert_eq!(cases(""), []);
    }
}
