//! Parameters on the command line, in Ganeti's forms.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};

use clap::Args;
use model::instance::settings::Told;
use serde_json::{Map, Value};

/// Most bytes of a file that is a parameter: what a seed disk holds besides.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A name, and the values behind it.
pub(crate) type Named = (String, Told);

/// Limits of instances.
#[derive(Debug, Args)]
pub(crate) struct PolicyArguments {
    /// Limits of instances, as `min:cpu-count=1,…/max:cpu-count=8,…`, and further pairs behind `//`.
    #[arg(long, value_name = "SPECS", value_parser = bounds)]
    ipolicy_bounds_specs: Option<Bounds>,
    /// The usual instance, as `memory-size=128,cpu-count=1`.
    #[arg(long, value_name = "SPECS", value_parser = measures)]
    ipolicy_std_specs: Option<Told>,
    /// Disk templates within the limits.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    ipolicy_disk_templates: Vec<String>,
    /// Most virtual processors for each processor of a node.
    #[arg(long, value_name = "RATIO")]
    ipolicy_vcpu_ratio: Option<f64>,
    /// Most spindles in use for each of a node.
    #[arg(long, value_name = "RATIO")]
    ipolicy_spindle_ratio: Option<f64>,
}

impl PolicyArguments {
    /// Gives the limits as the master takes them; none if none was given.
    pub(crate) fn told(self) -> Option<Told> {
        let some = |list: Vec<String>| Some(list).filter(|list| !list.is_empty()).map(Value::from);
        let parts = [
            ("minmax", self.ipolicy_bounds_specs.map(|Bounds(pairs)| pairs.into())),
            ("std", self.ipolicy_std_specs.map(Value::from)),
            ("disk-templates", some(self.ipolicy_disk_templates)),
            ("vcpu-ratio", self.ipolicy_vcpu_ratio.map(Value::from)),
            ("spindle-ratio", self.ipolicy_spindle_ratio.map(Value::from)),
        ];
        let told = parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Some(told.collect::<Told>()).filter(|told| !told.is_empty())
    }
}

/// Gathers what was given by name; none if nothing was.
pub(crate) fn by_name(named: Vec<Named>) -> Option<BTreeMap<String, Told>> {
    let mut all: BTreeMap<String, Told> = BTreeMap::new();
    for (name, told) in named {
        all.entry(name).or_default().extend(told);
    }
    Some(all).filter(|all| !all.is_empty())
}

/// Reads `NAME=VALUE,...` as Ganeti does: `NAME` alone is true, `no_NAME` false, `-NAME` the default again; a
/// backslash keeps a comma.
pub(crate) fn keys(text: &str) -> Result<Told, String> {
    let mut told = Told::new();
    for word in words(text) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.into()),
            None => match (word.strip_prefix("no_"), word.strip_prefix('-')) {
                (Some(name), _) => (name.to_owned(), false.into()),
                (None, Some(name)) => (name.to_owned(), Value::Null),
                (None, None) => (word, true.into()),
            },
        };
        if name.is_empty() {
            return Err("write NAME=VALUE, with commas between them".to_owned());
        }
        if told.insert(name.clone(), value).is_some() {
            return Err(format!("{name} is given twice"));
        }
    }
    Ok(told)
}

/// Reads parameters of an operating system as [`keys`]; a value `@FILE` is what is in the file, and `@@` a
/// single `@`.
pub(crate) fn system_keys(text: &str) -> Result<Told, String> {
    let mut told = keys(text)?;
    for (name, value) in &mut told {
        let Some(path) = value.as_str().and_then(|text| text.strip_prefix('@')) else { continue };
        *value = match path.starts_with('@') {
            true => path.into(),
            false => content(path).map_err(|error| format!("{name}: `{path}`: {error}"))?.into(),
        };
    }
    Ok(told)
}

/// The text of a file, within [`FILE_BYTES_MAX`].
fn content(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    match u64::try_from(text.len()) {
        Ok(length) if length <= FILE_BYTES_MAX => Ok(text),
        _ => Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes"))),
    }
}

/// The words between commas; a backslash keeps what is behind it.
fn words(text: &str) -> Vec<String> {
    let (mut all, mut word, mut kept) = (Vec::new(), String::new(), false);
    for one in text.chars() {
        match one {
            _ if kept => {
                word.push(one);
                kept = false;
            }
            '\\' => kept = true,
            ',' => all.push(std::mem::take(&mut word)),
            _ => word.push(one),
        }
    }
    all.push(word);
    all.retain(|word| !word.is_empty());
    all
}

/// Reads `WORD:NAME=VALUE,...`.
pub(crate) fn named(text: &str) -> Result<Named, String> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    Ok((name.to_owned(), keys(rest)?))
}

/// Pairs of limits.
#[derive(Debug, Clone)]
pub(crate) struct Bounds(Vec<Value>);

/// Numbers, of which sizes may be written as `4G`.
fn numbers(told: Told) -> Result<Told, String> {
    let number = |(name, value): (String, Value)| {
        let number = value.as_str().and_then(model::instance::parameters::mib);
        let number = number.ok_or_else(|| format!("{name} is no number"))?;
        Ok((name, Value::from(number)))
    };
    told.into_iter().map(number).collect()
}

/// Reads `cpu-count=2,memory-size=1G`.
fn measures(text: &str) -> Result<Told, String> {
    numbers(keys(text)?)
}

fn bounds(text: &str) -> Result<Bounds, String> {
    let pair = |text: &str| {
        let mut pair = Map::new();
        for part in text.split('/') {
            let (name, told) = named(part)?;
            if !["min", "max"].contains(&name.as_str()) {
                return Err(format!("`{name}` is neither min nor max"));
            }
            pair.insert(name, numbers(told)?.into());
        }
        Ok(Value::from(pair))
    };
    text.split("//").map(pair).collect::<Result<_, String>>().map(Bounds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_read_as_ganeti_reads_them() {
        let read = |text: &str| Value::from(keys(text).unwrap());
        assert_eq!(read("a=1,b=x y"), json!({"a": "1", "b": "x y"}));
        assert_eq!(read("acpi,no_pae,-vga"), json!({"acpi": true, "pae": false, "vga": null}));
        assert_eq!(read(r"args=a\,b,c="), json!({"args": "a,b", "c": ""}));
        assert_eq!(read(""), json!({}));
        assert!(keys("a=1,a=2").unwrap_err().contains("given twice"));
        assert!(keys("=1").is_err());
        let (name, told) = named("kvm:acpi=yes").unwrap();
        assert_eq!((name.as_str(), Value::from(told)), ("kvm", json!({"acpi": "yes"})));
        let Bounds(pairs) =
            bounds("min:memory-size=128M/max:memory-size=4G//min:cpu-count=1").unwrap();
        let wanted = [
            json!({"min": {"memory-size": 128}, "max": {"memory-size": 4_096}}),
            json!({"min": {"cpu-count": 1}}),
        ];
        assert_eq!(pairs, wanted);
        assert!(bounds("mid:cpu-count=1").is_err());
        assert_eq!(Value::from(measures("memory-size=1G").unwrap()), json!({"memory-size": 1_024}));
    }

    #[test]
    fn a_parameter_of_a_system_may_lie_in_a_file() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("user-data");
        let text = "#cloud-config\n{a: [b, \"c\\\\d\"]}\n";
        stdx::atomic::write(&path, text.as_bytes(), 0o600).unwrap();
        let line = format!("hostname=web1,user_data=@{},at=@@x", path.display());
        let told = Value::from(system_keys(&line).unwrap());
        assert_eq!(told, json!({"hostname": "web1", "user_data": text, "at": "@x"}));
        let none = system_keys("user_data=@none/there").unwrap_err();
        assert!(none.contains("user_data: `none/there`: No such file"), "{none}");
        let long = "x".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() + 1);
        stdx::atomic::write(&path, long.as_bytes(), 0o600).unwrap();
        assert!(system_keys(&line).unwrap_err().contains("more than 65536 bytes"));
    }
}
