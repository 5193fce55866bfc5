//! Core: the description of an export, `config.ini` in Ganeti's form (`lib/backend.py`, `FinalizeExport`).

use ini::{EscapePolicy, Ini, LineSeparator, ParseOption, WriteOption};
use model::instance::parameters::{Change, Parameters, hypervisor};
use model::instance::{Disk, Instance, InstanceSettings};
use model::opcode::instance::Told;
use model::{NodeName, Timestamp};
use serde_json::{Value, json};

/// The version of this form, which Ganeti compares.
const VERSION: &str = "0";
/// Most disks, and most NICs, that a description is asked for.
const MANY_MAX: usize = 64;

/// A description that was read.
#[derive(Debug)]
pub(super) struct Description(Ini);

/// The name of the file with the content of a disk.
pub(super) fn dump(place: usize) -> String {
    format!("disk{place}.raw")
}

/// The begin of a value that is a string in JSON: lines of its own, and blanks around it, would be lost, as
/// they are in Ganeti.
const AS_JSON: &str = "json:";

/// A value as Ganeti's parser reads it.
fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    };
    let is_plain = text.trim() == text && !text.contains(['\n', '\r']);
    Some(match is_plain && !text.starts_with(AS_JSON) {
        true => text,
        false => format!("{AS_JSON}{}", json!(text)),
    })
}

/// The value that a text stands for.
fn value(text: &str) -> Value {
    let written = text.strip_prefix(AS_JSON).and_then(|written| serde_json::from_str(written).ok());
    written.unwrap_or_else(|| text.into())
}

/// Describes an instance with its disks, as they lie on `source`.
pub(super) fn written(
    instance: &Instance,
    disks: &[Disk],
    settings: &InstanceSettings,
    source: &NodeName,
    now: Timestamp,
) -> String {
    let mut ini = Ini::new();
    let mut put = |section: &str, name: &str, value: Value| {
        if let Some(text) = text(&value) {
            ini.set_to(Some(section), name.to_owned(), text);
        }
    };
    put("export", "version", json!(VERSION));
    put("export", "timestamp", json!(now.seconds()));
    put("export", "source", json!(source));
    put("export", "os", json!(instance.os));
    put("export", "compression", json!("none"));
    let backend = settings.backend_of(instance);
    put("instance", "name", json!(instance.name));
    for (name, of) in
        [("maxmem", "maxmem"), ("minmem", "minmem"), ("memory", "maxmem"), ("vcpus", "vcpus")]
    {
        put("instance", name, backend.get(of).cloned().unwrap_or_default());
    }
    put("instance", "disk_template", json!(instance.disk_template));
    put("instance", "hypervisor", json!(instance.hypervisor));
    let tags: Vec<&str> = instance.tags.iter().map(AsRef::as_ref).collect();
    put("instance", "tags", json!(tags.join(" ")));
    for (place, nic) in instance.nics.iter().enumerate() {
        let mut put =
            |name: &str, value: Value| put("instance", &format!("nic{place}_{name}"), value);
        put("mac", json!(nic.mac));
        put("ip", json!(nic.ip));
        put("network", json!(nic.network));
        put("name", json!(nic.name));
        for (name, value) in settings.nic_of(nic) {
            put(&name, value);
        }
    }
    put("instance", "nic_count", json!(instance.nics.len()));
    for (place, disk) in disks.iter().enumerate() {
        let mut put =
            |name: &str, value: Value| put("instance", &format!("disk{place}_{name}"), value);
        put("ivname", json!(format!("disk/{place}")));
        put("dump", json!(dump(place)));
        put("size", json!(disk.size));
        put("name", json!(disk.name));
    }
    put("instance", "disk_count", json!(disks.len()));
    // An instance has none of its own of those that are the cluster's.
    let mut of_hypervisor = settings.hypervisor_of(instance);
    for parameter in hypervisor(&instance.hypervisor).unwrap_or_default() {
        if parameter.change == Change::Cluster {
            of_hypervisor.remove(parameter.name);
        }
    }
    let sections: [(&str, Parameters); 3] =
        [("hypervisor", of_hypervisor), ("backend", backend), ("os", settings.system_of(instance))];
    for (section, parameters) in sections {
        for (name, value) in parameters {
            put(section, &name, value);
        }
    }
    let options = WriteOption {
        escape_policy: EscapePolicy::Nothing,
        line_separator: LineSeparator::CR,
        kv_separator: " = ",
    };
    let mut bytes = Vec::new();
    // Memory takes whatever is written.
    ini.write_to_opt(&mut bytes, options).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

impl Description {
    /// Reads one.
    ///
    /// # Errors
    /// It is none of this version; the text says why.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let options = ParseOption {
            enabled_quote: false,
            enabled_escape: false,
            enabled_indented_mutiline_value: true,
            ..ParseOption::default()
        };
        let ini = Ini::load_from_str_opt(text, options).map_err(|error| error.to_string())?;
        let found = Self(ini);
        match found.get("export", "version") {
            Some(VERSION) => Ok(found),
            Some(other) => Err(format!("Wrong export version {other} (wanted {VERSION})")),
            None => Err("it has no version".to_owned()),
        }
    }

    /// A value that says something: Python writes `None` for none.
    fn get(&self, section: &str, name: &str) -> Option<&str> {
        let found = self.0.get_from(Some(section), name);
        found.filter(|value| !value.is_empty() && *value != "None")
    }

    pub(super) fn of_instance(&self, name: &str) -> Option<&str> {
        self.get("instance", name)
    }

    pub(super) fn os(&self) -> Option<&str> {
        self.get("export", "os")
    }

    /// When it was made, in seconds since the epoch; zero where it does not say.
    pub(super) fn made(&self) -> u64 {
        self.get("export", "timestamp").and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// All parameters of a section.
    pub(super) fn parameters(&self, section: &str) -> Told {
        let found = self.0.section(Some(section)).into_iter().flat_map(|found| found.iter());
        let said = found.filter(|(_, value)| *value != "None");
        said.map(|(name, text)| (name.to_owned(), value(text))).collect()
    }

    fn count(&self, name: &str) -> Result<usize, String> {
        let text = self.of_instance(name).unwrap_or("0");
        let count: usize = text.parse().map_err(|_no| format!("{name} is `{text}`"))?;
        match count <= MANY_MAX {
            true => Ok(count),
            false => Err(format!("{name} is {count}, more than {MANY_MAX}")),
        }
    }

    /// The size in MiB of each disk, and the file with its content.
    ///
    /// # Errors
    /// A size is no number.
    pub(super) fn disks(&self) -> Result<Vec<(u64, Option<String>)>, String> {
        let disk = |place: usize| {
            let name = format!("disk{place}_size");
            let size = self.of_instance(&name).unwrap_or_default();
            let size = size.parse().map_err(|_no| format!("{name} is `{size}`"))?;
            Ok((size, self.of_instance(&format!("disk{place}_dump")).map(str::to_owned)))
        };
        (0..self.count("disk_count")?).map(disk).collect()
    }

    /// Its NICs, as a client tells them.
    ///
    /// # Errors
    /// Their count is no number.
    pub(super) fn nics(&self) -> Result<Vec<Told>, String> {
        let nic = |place: usize| {
            let value = |name: &str| self.of_instance(&format!("nic{place}_{name}"));
            let of_network = value("network").is_some();
            let own = ["mac", "ip", "name", "network"].into_iter();
            // The network says how its NICs are connected.
            let link = ["mode", "link", "vlan"].into_iter().filter(|_| !of_network);
            own.chain(link)
                .filter_map(|name| Some((name.to_owned(), json!(value(name)?))))
                .collect()
        };
        Ok((0..self.count("nic_count")?).map(nic).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, instance};

    const USER_DATA: &str = "#cloud-config\nusers:\n  - name: a=b;c\n    shell: \"sh\"\n";

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let mut instance = instance("web1.example", "n1.example");
        instance.os = "image+debian".to_owned();
        instance.tags = vec!["web".parse().unwrap(), "prod".parse().unwrap()];
        instance.osparams.insert("user_data".to_owned(), json!(USER_DATA));
        let nic = json!({"uuid": model::Uuid::nil(), "mac": "aa:00:00:01:02:03", "ip": "10.0.0.9",
            "nicparams": {"link": "br7"}});
        instance.nics = vec![serde_json::from_value(nic).unwrap()];
        let settings = InstanceSettings::default();
        let node = instance.primary_node.clone();
        let text = written(&instance, &[], &settings, &node, NOW);
        let read = Description::read(&text).unwrap();
        assert_eq!(read.of_instance("name"), Some("web1.example"));
        assert_eq!(read.of_instance("tags"), Some("web prod"));
        assert_eq!(read.os(), Some("image+debian"));
        assert_eq!(read.disks(), Ok(Vec::new()));
        let nics = read.nics().unwrap();
        assert_eq!(nics[0]["mac"], "aa:00:00:01:02:03");
        assert_eq!((&nics[0]["ip"], &nics[0]["link"]), (&json!("10.0.0.9"), &json!("br7")));
        let user_data = read.parameters("os")["user_data"].clone();
        assert_eq!(user_data, USER_DATA, "{text}");
        assert_eq!(read.made(), u64::try_from(NOW.seconds()).unwrap());
    }

    #[test]
    fn what_is_no_description_is_told() {
        for text in ["", "[export]", "[export]\nversion = 1", "rubbish"] {
            assert!(Description::read(text).is_err(), "{text}");
        }
        let with = |line: &str| {
            Description::read(&format!("[export]\nversion=0\n[instance]\n{line}")).unwrap()
        };
        assert!(with("disk_count = many").disks().is_err());
        assert!(with("disk_count = 1\ndisk0_size = big").disks().is_err());
        assert!(with("nic_count = 100000").nics().is_err());
        let one = with("disk_count = 1\ndisk0_size = 7\ndisk0_dump = x.snap").disks().unwrap();
        assert_eq!(one, [(7, Some("x.snap".to_owned()))]);
    }
}
