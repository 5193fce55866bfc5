//! A page of metrics, read as strictly as the text format of OpenMetrics is written.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// The content type of the format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The identity of a number: its name with its labels as `name{label="value",…}`.
pub type Series = String;

/// The numbers of one page.
#[derive(Debug)]
pub struct Page {
    /// Names of the families.
    pub families: BTreeSet<String>,
    pub numbers: BTreeMap<Series, f64>,
}

impl Page {
    /// Asks the program at `address`; panics where it does not answer by the rules.
    pub fn of(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(CONTENT_TYPE), "{head}");
        Self::parse(body).unwrap_or_else(|why| panic!("{why} in\n{body}"))
    }

    /// Reads a page.
    ///
    /// # Errors
    /// A breach of the rules, with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let body = text.strip_suffix("# EOF\n").ok_or("no end mark")?;
        let mut page = Self { families: BTreeSet::new(), numbers: BTreeMap::new() };
        let mut family: Option<Family> = None;
        for line in body.lines() {
            let told = |why: &str| format!("{why}: {line:?}");
            if let Some(words) = line.strip_prefix("# HELP ") {
                let (name, help) = words.split_once(' ').ok_or_else(|| told("no meaning"))?;
                if help.is_empty() || !page.families.insert(name.to_owned()) {
                    return Err(told("a family without meaning, or twice"));
                }
                family = Some(Family { name: name.to_owned(), kind: String::new() });
            } else if let Some(words) = line.strip_prefix("# TYPE ") {
                let now = family.as_mut().ok_or_else(|| told("a type before its family"))?;
                let kind = words.strip_prefix(&format!("{} ", now.name));
                kind.ok_or_else(|| told("the type of another family"))?.clone_into(&mut now.kind);
            } else {
                let now = family.as_ref().ok_or_else(|| told("a number without a family"))?;
                let (series, number) = sample(line, now).map_err(|why| told(&why))?;
                if page.numbers.insert(series, number).is_some() {
                    return Err(told("a number twice"));
                }
            }
        }
        page.check_histograms()?;
        Ok(page)
    }

    /// The number of a series.
    pub fn get(&self, series: &str) -> f64 {
        let found = self.numbers.get(series);
        *found.unwrap_or_else(|| panic!("no {series} among {:?}", self.numbers.keys()))
    }

    /// The last bucket of a histogram has what its count says.
    fn check_histograms(&self) -> Result<(), String> {
        for (series, all) in
            self.numbers.iter().filter(|(series, _)| series.contains("le=\"+Inf\""))
        {
            let count = series.replacen("_bucket{", "_count{", 1).replace("le=\"+Inf\"", "");
            let count = count.replace("{,", "{").replace(",}", "}").replace("{}", "");
            if self.numbers.get(&count) != Some(all) {
                return Err(format!("{series} is {all}, but {count} is not"));
            }
        }
        Ok(())
    }
}

struct Family {
    name: String,
    kind: String,
}

/// One line `name{labels} number`.
fn sample(line: &str, family: &Family) -> Result<(Series, f64), String> {
    let (series, number) = line.rsplit_once(' ').ok_or("no number")?;
    let (name, labels) = match series.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}').ok_or("labels do not end")?),
        None => (series, ""),
    };
    let suffix = name.strip_prefix(&family.name).ok_or("a number of another family")?;
    let suffixes: &[&str] = match family.kind.as_str() {
        "counter" => &["_total"],
        "gauge" => &[""],
        "histogram" => &["_bucket", "_count", "_sum"],
        _ => return Err(format!("the kind {:?} is none of ours", family.kind)),
    };
    if !suffixes.contains(&suffix) {
        return Err(format!("a {} has no {suffix:?}", family.kind));
    }
    check_labels(labels)?;
    let number: f64 = number.parse().map_err(|error| format!("{error}"))?;
    let whole = suffix != "_sum" && family.kind != "gauge";
    if !number.is_finite() || (whole && (number < 0.0 || number.fract() != 0.0)) {
        return Err("no number of this kind".to_owned());
    }
    Ok((series.to_owned(), number))
}

/// Labels are `name="value"`, with commas between them and quotes, backslashes and line ends
/// escaped.
fn check_labels(labels: &str) -> Result<(), String> {
    let mut rest = labels;
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").ok_or("a label without a value")?;
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(good) {
            return Err(format!("{name:?} is no name of a label"));
        }
        let mut escaped = false;
        let end = value.char_indices().find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let (end, _) = end.ok_or("a value does not end")?;
        rest = &value[end + 1..];
        rest = match rest.strip_prefix(',') {
            Some("") => return Err("a comma too many".to_owned()),
            Some(more) => more,
            None if rest.is_empty() => rest,
            None => return Err("no comma between labels".to_owned()),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_against_the_rules_is_found() {
        let good = "# HELP a A.\n# TYPE a gauge\na{x=\"1,\\\"}\",y=\"2\"} 0.5\n# EOF\n";
        let page = Page::parse(good).unwrap();
        assert_eq!(page.numbers.values().copied().collect::<Vec<_>>(), [0.5]);
        for wrong in [
            "",
            "# HELP a A.\n# TYPE a gauge\na 1\n",
            "a 1\n# EOF\n",
            "# HELP a A.\n# TYPE b gauge\na 1\n# EOF\n",
            "# HELP a A.\n# TYPE a gauge\na x\n# EOF\n",
            "# HELP a A.\n# TYPE a gauge\na 1\na 1\n# EOF\n",
            "# HELP a A.\n# TYPE a gauge\na_total 1\n# EOF\n",
            "# HELP a A.\n# TYPE a counter\na_total 0.5\n# EOF\n",
            "# HELP a A.\n# TYPE a gauge\na{x=\"1\"y=\"2\"} 1\n# EOF\n",
            "# HELP a A.\n# TYPE a gauge\na{x=\"1} 1\n# EOF\n",
            "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 2\na_count 1\n# EOF\n",
            "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"+Inf\",x=\"\"} 2\na_count{x=\"\"} 1\n# EOF\n",
        ] {
            assert!(Page::parse(wrong).is_err(), "{wrong}");
        }
    }
}
