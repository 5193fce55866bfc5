//! Core: parameters of instances as tables: name, type, default, check, and when a change counts.
//!
//! Only what differs from a default is stored (Ganeti's sparse storage). A value is that of the instance,
//! else that of its operating system, its group, its cluster, its table. `default` takes a stored value
//! away; `none` is no value where a parameter may have none.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

mod tables;

pub use tables::{
    BACKEND, CHROOT, DISK_TEMPLATES, FAKE, KVM, LXC, NIC, NODE, XEN_HVM, XEN_PVM, hypervisor,
    template,
};

/// Options of QEMU by which Gantry keeps a guest confined, and talks with it.
const QEMU_OWN: [&str; 18] = [
    "-S",
    "-add-fd",
    "-chroot",
    "-daemonize",
    "-enable-kvm",
    "-incoming",
    "-mon",
    "-monitor",
    "-name",
    "-no-user-config",
    "-nodefaults",
    "-pidfile",
    "-qmp",
    "-qmp-pretty",
    "-readconfig",
    "-runas",
    "-sandbox",
    "-uuid",
];
/// Longest text of a parameter.
pub const TEXT_CHARS_MAX: usize = 4_096;
/// Characters of a wrong value that an error repeats.
const TOLD_MAX: usize = 60;
/// The word that takes a stored value away.
pub const DEFAULT: &str = "default";
/// The word for no value.
pub const NONE: &str = "none";

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    Bool,
    /// A number from the first to the second.
    Int(i64, i64),
    /// MiB, also written as `512M`, `4G`; at least this.
    Size(i64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Some of these words, with commas between them.
    Words(&'static [&'static str]),
    /// Any text without control characters.
    Text,
    /// A path from the root, or nothing.
    Path,
    /// Further words for QEMU, which take none of those that Gantry gives itself.
    Qemu,
}

/// The value that a parameter has where nobody gave one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Usual {
    Bool(bool),
    Int(i64),
    Text(&'static str),
}

impl Usual {
    /// As JSON.
    pub fn value(self) -> Value {
        match self {
            Self::Bool(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::Text(value) => value.into(),
        }
    }
}

/// When a change of a parameter counts, and who may have its own value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// For a running instance at once.
    Live,
    /// At the next start.
    Restart,
    /// It is one of the cluster alone: no instance has its own.
    Cluster,
}

/// A row of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: ParameterKind,
    pub usual: Usual,
    pub change: Change,
}

/// A table of parameters.
pub type Table = &'static [Parameter];

/// Values by name, those that somebody gave.
pub type Parameters = BTreeMap<String, Value>;

/// A value that a parameter does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// There is no such parameter.
    #[error("there is no parameter `{name}`{hint}")]
    Unknown { name: String, hint: String },
    /// It is of another type, or out of range.
    #[error("parameter {name}: {given} is not {wanted}")]
    Wrong { name: &'static str, given: String, wanted: String },
    /// It is the cluster's alone.
    #[error("parameter {0} is set for the cluster alone, by `gnt cluster modify`")]
    ClusterAlone(&'static str),
}

impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("`true` or `false`"),
            Self::Int(least, i64::MAX) => write!(f, "a number from {least}"),
            Self::Int(least, most) => write!(f, "a number from {least} to {most}"),
            Self::Size(least) => write!(f, "a size in MiB from {least}, or one such as 4G"),
            Self::Word(words) => write!(f, "one of {}", words.join(", ")),
            Self::Words(words) => {
                write!(f, "some of {}, with commas between them", words.join(", "))
            }
            Self::Text => write!(f, "a text of at most {TEXT_CHARS_MAX} characters in one line"),
            Self::Path => f.write_str("a path from the root, or nothing"),
            Self::Qemu => {
                write!(f, "words for QEMU in one line, without {}", QEMU_OWN.join(", "))
            }
        }
    }
}

impl ParameterKind {
    /// The value in its own form: clients send numbers and flags as text, too.
    fn read(self, given: &Value) -> Option<Value> {
        match (self, given) {
            (Self::Bool, Value::Bool(_)) => Some(given.clone()),
            (Self::Bool, Value::String(text)) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" => Some(true.into()),
                "false" | "no" => Some(false.into()),
                _ => None,
            },
            (Self::Int(least, most), _) => {
                let of_text = || given.as_str()?.trim().parse().ok();
                let number = given.as_i64().or_else(of_text)?;
                (least..=most).contains(&number).then(|| number.into())
            }
            (Self::Size(least), _) => {
                let size = given.as_i64().or_else(|| mib(given.as_str()?))?;
                (least..=SIZE_MAX).contains(&size).then(|| size.into())
            }
            (Self::Word(words), Value::String(text)) => {
                words.contains(&text.as_str()).then(|| given.clone())
            }
            (Self::Words(words), Value::String(text)) => {
                let all = text.split(',').all(|word| words.contains(&word.trim()));
                all.then(|| given.clone())
            }
            (Self::Text, Value::String(text)) => is_text(text).then(|| given.clone()),
            // Versions and counts come as numbers where a client guesses types.
            (Self::Text, Value::Number(number)) => Some(number.to_string().into()),
            (Self::Qemu, Value::String(text)) => {
                let is_own = |word: &str| {
                    let plain = word.trim_start_matches('-');
                    word.starts_with('-') && QEMU_OWN.iter().any(|own| own[1..] == *plain)
                };
                (is_text(text) && !text.split_whitespace().any(is_own)).then(|| given.clone())
            }
            (Self::Path, Value::String(text)) => {
                let is_path = text.is_empty() || (text.starts_with('/') && is_text(text));
                (is_path && !text.split('/').any(|part| part == "..")).then(|| given.clone())
            }
            _ => None,
        }
    }
}

/// Digits behind the point of a size.
const FRACTION_DIGITS_MAX: usize = 6;
/// Largest size, in MiB: 1 EiB.
pub const SIZE_MAX: i64 = 1 << 40;

fn is_text(text: &str) -> bool {
    text.chars().count() <= TEXT_CHARS_MAX && !text.chars().any(char::is_control)
}

/// A size as Ganeti's command line takes it: a number of MiB, or one with m, g, t behind it.
pub fn mib(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let factor: i64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "m" | "mb" | "mib" => 1,
        "g" | "gb" | "gib" => 1 << 10,
        "t" | "tb" | "tib" => 1 << 20,
        _ => return None,
    };
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, ""));
    if rest.len() > FRACTION_DIGITS_MAX || !rest.chars().all(|one| one.is_ascii_digit()) {
        return None;
    }
    let whole = whole.parse::<i64>().ok()?.checked_mul(factor)?;
    let scale = 10_i64.pow(u32::try_from(rest.len()).ok()?);
    // What is less than a whole MiB counts as one.
    let rest = (format!("0{rest}").parse::<i64>().ok()? * factor + scale - 1) / scale;
    whole.checked_add(rest).filter(|size| (0..=SIZE_MAX).contains(size))
}

/// The parameter with this name.
pub fn find(table: Table, name: &str) -> Option<&'static Parameter> {
    table.iter().find(|parameter| parameter.name == name)
}

/// Reads values that somebody gives: those to store, and the names of those to take away.
///
/// # Errors
/// One of them does not read, or is not for this place.
pub fn read(
    table: Table,
    given: &serde_json::Map<String, Value>,
    for_cluster: bool,
) -> Result<Given, ParameterError> {
    let mut read = Given::default();
    for (name, value) in given {
        let parameter = find(table, name).ok_or_else(|| unknown(table, name))?;
        if parameter.change == Change::Cluster && !for_cluster {
            return Err(ParameterError::ClusterAlone(parameter.name));
        }
        let is_default = value.is_null() || value == DEFAULT;
        if is_default && parameter.kind.read(value).is_none() {
            read.removed.push(name.clone());
            continue;
        }
        let value = match (parameter.kind, value) {
            (
                ParameterKind::Text | ParameterKind::Path | ParameterKind::Qemu,
                Value::String(text),
            ) if text == NONE => "".into(),
            (kind, value) => kind.read(value).ok_or_else(|| wrong(parameter, value))?,
        };
        read.set.insert(name.clone(), value);
    }
    Ok(read)
}

/// Values that were given, each in its own form.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Given {
    pub set: Parameters,
    /// Those that have the default again.
    pub removed: Vec<String>,
}

impl Given {
    /// Stored values with these.
    pub fn over(self, stored: &Parameters) -> Parameters {
        let mut values = stored.clone();
        values.extend(self.set);
        values.retain(|name, _| !self.removed.contains(name));
        values
    }
}

fn unknown(table: Table, name: &str) -> ParameterError {
    let near = table.iter().map(|parameter| parameter.name);
    let near = near.filter(|known| are_alike(known, name)).take(3).collect::<Vec<_>>().join(", ");
    let hint = if near.is_empty() { String::new() } else { format!("; did you mean {near}?") };
    ParameterError::Unknown { name: name.chars().take(TOLD_MAX).collect(), hint }
}

/// Whether two names begin or end alike.
fn are_alike(known: &str, name: &str) -> bool {
    let short = known.len().min(name.len()).min(5);
    short > 2
        && (known.get(..short) == name.get(..short)
            || known.get(known.len() - short..) == name.get(name.len() - short..))
}

fn wrong(parameter: &'static Parameter, given: &Value) -> ParameterError {
    let text = given.as_str().map_or_else(|| given.to_string(), |text| format!("`{text}`"));
    let short: String = text.chars().take(TOLD_MAX).collect();
    let given = if short.len() < text.len() { format!("{short}…") } else { short };
    ParameterError::Wrong { name: parameter.name, given, wanted: parameter.kind.to_string() }
}

/// All parameters of a table, each from the first of the layers that has it.
pub fn filled(table: Table, layers: &[&Parameters]) -> Parameters {
    let value = |parameter: &Parameter| {
        let given = layers.iter().find_map(|layer| layer.get(parameter.name));
        (parameter.name.to_owned(), given.cloned().unwrap_or_else(|| parameter.usual.value()))
    };
    table.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use serde_json::json;

    use super::*;

    fn read_one(table: Table, name: &str, value: Value) -> Result<Value, String> {
        let given = [(name.to_owned(), value)].into_iter().collect();
        let read = read(table, &given, false).map_err(|error| error.to_string())?;
        Ok(read.set.get(name).cloned().unwrap_or(Value::Null))
    }

    #[test]
    fn the_tables() {
        let mut text = String::new();
        for (name, table) in [
            ("backend", BACKEND),
            ("nic", NIC),
            ("node", NODE),
            ("kvm", KVM),
            ("xen-pvm", XEN_PVM),
            ("xen-hvm", XEN_HVM),
            ("fake", FAKE),
            ("lxc", LXC),
            ("chroot", CHROOT),
        ] {
            text.push_str(&format!("[{name}] {}\n", table.len()));
            for Parameter { name, kind, usual, change } in table {
                text.push_str(&format!("{name} = {} ({kind}; {change:?})\n", usual.value()));
            }
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn every_default_is_a_value_of_its_parameter() {
        let templates = DISK_TEMPLATES.iter().map(|(_, table)| *table);
        let tables = [BACKEND, NIC, NODE, KVM, XEN_PVM, XEN_HVM, FAKE, LXC, CHROOT];
        for parameter in tables.into_iter().chain(templates).flatten() {
            let usual = parameter.usual.value();
            assert_eq!(parameter.kind.read(&usual), Some(usual.clone()), "{parameter:?}");
        }
    }

    #[test]
    fn values_are_read_as_clients_send_them() {
        for (table, name, given, wanted) in [
            (BACKEND, "maxmem", json!("4G"), json!(4_096)),
            (BACKEND, "maxmem", json!("1.5g"), json!(1_536)),
            (BACKEND, "vcpus", json!("2"), json!(2)),
            (BACKEND, "auto_balance", json!("False"), json!(false)),
            (KVM, "acpi", json!("yes"), json!(true)),
            (KVM, "boot_order", json!("disk,network"), json!("disk,network")),
            (KVM, "kernel_path", json!("none"), json!("")),
            (KVM, "machine_version", json!(7.2), json!("7.2")),
            (KVM, "vga", json!("default"), json!("default")),
            (KVM, "serial_speed", json!("default"), Value::Null),
        ] {
            assert_eq!(read_one(table, name, given.clone()), Ok(wanted), "{name} {given}");
        }
    }

    #[test]
    fn wrong_values_are_refused_with_name_and_range() {
        for (table, name, given, told) in [
            (BACKEND, "vcpus", json!(0), "parameter vcpus: 0 is not a number from 1 to 1024"),
            (BACKEND, "vcpus", json!("two"), "`two` is not a number"),
            (BACKEND, "maxmem", json!("1P"), "is not a size in MiB"),
            (BACKEND, "maxmem", json!("2097152T"), "is not a size in MiB"),
            (BACKEND, "memry", json!(1), "there is no parameter `memry`"),
            (KVM, "acpi", json!(2), "2 is not `true` or `false`"),
            (KVM, "nic_type", json!("e1000e"), "`e1000e` is not one of rtl8139"),
            (KVM, "boot_order", json!("disk,usb"), "is not some of floppy, cdrom, disk, network"),
            (KVM, "floppy_image_path", json!("a.img"), "is not a path from the root"),
            (KVM, "kernel_path", json!("/boot/../etc/shadow"), "is not a path from the root"),
            (KVM, "kernel_args", json!("ro\nrm"), "is not a text"),
            (KVM, "kernel_args", json!(["ro"]), "is not a text"),
            (KVM, "kvm_extra", json!("-rtc base=utc --sandbox off"), "is not words for QEMU"),
            (KVM, "kvm_extra", json!("-runas root"), "without -S, -add-fd"),
            (KVM, "migration_port", json!(8_000), "is set for the cluster alone"),
            (KVM, "serial_sped", json!(1), "did you mean serial_console, serial_speed"),
        ] {
            let error = read_one(table, name, given.clone()).unwrap_err();
            assert!(error.contains(told), "{name} {given}: {error}");
        }
    }

    #[test]
    fn the_nearest_layer_counts() {
        let layer = |vcpus: i64| Parameters::from([("vcpus".to_owned(), vcpus.into())]);
        let (none, two, four) = (Parameters::new(), layer(2), layer(4));
        let vcpus = |layers: &[&Parameters]| filled(BACKEND, layers)["vcpus"].clone();
        assert_eq!(vcpus(&[]), json!(1));
        assert_eq!(vcpus(&[&none, &four]), json!(4));
        assert_eq!(vcpus(&[&two, &four]), json!(2));
        let given = Given { removed: vec!["vcpus".to_owned()], ..Given::default() };
        assert_eq!(given.over(&two), Parameters::new());
    }

    proptest! {
        #[test]
        fn no_text_breaks_a_reader(text in any::<String>(), number in any::<i64>()) {
            for parameter in KVM.iter().chain(BACKEND).chain(NIC) {
                for given in [Value::from(text.clone()), number.into()] {
                    if let Some(read) = parameter.kind.read(&given) {
                        prop_assert_eq!(parameter.kind.read(&read), Some(read.clone()));
                        prop_assert!(!read.as_str().is_some_and(|t| t.contains('\n')));
                    }
                }
            }
        }
    }
}
