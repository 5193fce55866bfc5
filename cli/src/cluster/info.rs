//! `gnt cluster info`, in the form of Ganeti's.

use luxi::method::{QueryClusterInfo, QueryConfigValues};
use model::cluster::SILENCE_DEADLINE;
use serde_json::Value;

use crate::details::{self, Detail, Entry};
use crate::error::CliError;
use crate::moment::TimeForm;
use crate::output::{say_json, say_lines};
use crate::session::Session;
use crate::{natural, params, python};

/// The value that tells whether the queue is drained.
const DRAIN_FLAG: &str = "drain_flag";

/// Place of the master's address among the parameters.
const BEFORE_NETDEV: usize = 4;

/// Prints the cluster's parameters: all of them, or those that are set and used.
pub(super) fn run(all: bool, roman: bool, session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let described = session.call(&mut client, &QueryClusterInfo {})?;
    let info = Info { info: &described, roman, times: session.times() };
    if all || session.is_as_ganeti() {
        return say_lines(&details::render(&Detail::Map(info.entries())));
    }
    let values = client.call(&QueryConfigValues { names: [DRAIN_FLAG].into() })?;
    let drained = values.first().and_then(Value::as_bool) == Some(true);
    say_lines(&details::render(&Detail::Map(info.used(drained))))
}

/// Prints all of the cluster's parameters as JSON.
pub(super) fn print_json(session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let mut info = session.call(&mut client, &QueryClusterInfo {})?;
    let values = client.call(&QueryConfigValues { names: [DRAIN_FLAG].into() })?;
    if let Value::Object(map) = &mut info {
        map.insert(DRAIN_FLAG.to_owned(), values.first().cloned().unwrap_or_default());
    }
    say_json(&info)
}

struct Info<'a> {
    info: &'a Value,
    roman: bool,
    times: TimeForm,
}

impl Info<'_> {
    fn get(&self, key: &str) -> &Value {
        self.info.get(key).unwrap_or(&Value::Null)
    }

    /// A list of texts with commas.
    fn list(&self, key: &str) -> String {
        let list = self.get(key).as_array().into_iter().flatten();
        list.map(python::text).collect::<Vec<_>>().join(", ")
    }

    fn list_or_none(&self, key: &str) -> String {
        let list = self.list(key);
        if list.is_empty() { "(none)".to_owned() } else { list }
    }

    fn time(&self, key: &str) -> String {
        self.times.date(self.get(key)).unwrap_or_else(|| "N/A".to_owned())
    }

    fn number(&self, key: &str) -> String {
        let value = self.get(key);
        let roman = value.as_u64().filter(|_| self.roman).and_then(roman);
        roman.unwrap_or_else(|| python::text(value))
    }

    fn tags(&self) -> String {
        let mut tags: Vec<String> =
            self.get("tags").as_array().into_iter().flatten().map(python::text).collect();
        natural::sort(&mut tags);
        if tags.is_empty() { "(none)".to_owned() } else { tags.join(", ") }
    }

    /// The parameters that are set, and that this version uses.
    fn used(&self, drained: bool) -> Vec<Entry> {
        let yes = |truth: bool| if truth { "yes" } else { "no" };
        let mut entries = vec![
            Entry::new("Cluster name", self.get("name")),
            Entry::new("Cluster UUID", self.get("uuid")),
            Entry::new("Creation time", self.time("ctime")),
            Entry::new("Modification time", self.time("mtime")),
            Entry::new("Software version", self.get("software_version")),
            Entry::new("Master node", self.get("master")),
        ];
        if !self.get("master_ip").is_null() {
            let [address, netdev, bits] = ["master_ip", "master_netdev", "master_netmask"]
                .map(|key| python::text(self.get(key)));
            let netdev = if netdev.is_empty() { String::new() } else { format!(" on {netdev}") };
            entries.push(Entry::new("Master address", format!("{address}/{bits}{netdev}")));
        }
        let automatic = self.get("auto_failover").as_bool() == Some(true);
        let mends = self.get("mend_network").as_bool() == Some(true);
        entries.extend([
            Entry::new("Automatic failover", yes(automatic)),
            Entry::new("Networks of hosts mended", yes(mends)),
            Entry::new("Candidate pool size", self.number("candidate_pool_size")),
            Entry::new("Jobs running at most", self.number("max_running_jobs")),
            Entry::new("Queue drained", yes(drained)),
            Entry::new("Tags", self.tags()),
        ]);
        entries
    }

    fn entries(&self) -> Vec<Entry> {
        let bits = self.get("architecture");
        let bit = |at: usize| bits.get(at).map(python::text).unwrap_or_default();
        let enabled = self.get("enabled_hypervisors");
        let is_enabled =
            |name: &String| enabled.as_array().into_iter().flatten().any(|known| known == name);
        let hypervisors: serde_json::Map<_, _> = self
            .get("hvparams")
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| is_enabled(name))
            .map(|(name, params)| (name.clone(), params.clone()))
            .collect();
        let group = |title: &str, key: &str| Entry::new(title, params::grouped(self.get(key)));
        vec![
            Entry::new("Cluster name", self.get("name")),
            Entry::new("Cluster UUID", self.get("uuid")),
            Entry::new("Creation time", self.time("ctime")),
            Entry::new("Modification time", self.time("mtime")),
            Entry::new("Master node", self.get("master")),
            Entry::new("Architecture (this node)", format!("{} ({})", bit(0), bit(1))),
            Entry::new("Tags", self.tags()),
            Entry::new("Default hypervisor", self.get("default_hypervisor")),
            Entry::new("Enabled hypervisors", self.list("enabled_hypervisors")),
            Entry::new("Hypervisor parameters", params::grouped(&hypervisors.into())),
            group("OS-specific hypervisor parameters", "os_hvp"),
            group("OS parameters", "osparams"),
            Entry::new("Hidden OSes", self.list("hidden_os")),
            Entry::new("Blacklisted OSes", self.list("blacklisted_os")),
            Entry::new("Cluster parameters", Detail::Map(self.parameters())),
            group("Default node parameters", "ndparams"),
            group("Default instance parameters", "beparams"),
            group("Default nic parameters", "nicparams"),
            group("Default disk parameters", "diskparams"),
            Entry::new(
                "Instance policy - limits for instances",
                params::cluster_policy(self.get("ipolicy")),
            ),
            Entry::new("Data collectors", self.collectors()),
        ]
    }

    fn parameters(&self) -> Vec<Entry> {
        let value = |title: &str, key: &str| Entry::new(title, self.get(key));
        let number = |title: &str, key: &str| Entry::new(title, self.number(key));
        let mut entries = vec![
            number("candidate pool size", "candidate_pool_size"),
            number("maximal number of jobs running simultaneously", "max_running_jobs"),
            number(
                "maximal number of jobs simultaneously tracked by the scheduler",
                "max_tracked_jobs",
            ),
            value("mac prefix", "mac_prefix"),
            value("master netdev", "master_netdev"),
            number("master netmask", "master_netmask"),
            value("use external master IP address setup script", "use_external_mip_script"),
            value("lvm volume group", "volume_group_name"),
            Entry::new("lvm reserved volumes", self.list_or_none("reserved_lvs")),
            value("drbd usermode helper", "drbd_usermode_helper"),
            value("file storage path", "file_storage_dir"),
            value("shared file storage path", "shared_file_storage_dir"),
            value("gluster storage path", "gluster_storage_dir"),
            value("maintenance of node health", "maintain_node_health"),
            Entry::new("uid pool", self.users()),
            value("default instance allocator", "default_iallocator"),
            value("default instance allocator parameters", "default_iallocator_params"),
            number("primary ip version", "primary_ip_version"),
            value("preallocation wipe disks", "prealloc_wipe_disks"),
            Entry::new("enabled disk templates", self.list("enabled_disk_templates")),
            value("install image", "install_image"),
            value("instance communication network", "instance_communication_network"),
            value("zeroing image", "zeroing_image"),
            value("compression tools", "compression_tools"),
            value("enabled user shutdown", "enabled_user_shutdown"),
            value("modify ssh setup", "modify_ssh_setup"),
            value("ssh_key_type", "ssh_key_type"),
            value("ssh_key_bits", "ssh_key_bits"),
        ];
        // Ganeti shows none: there it is what the cluster's name resolves to.
        if !self.get("master_ip").is_null() {
            entries.insert(BEFORE_NETDEV, value("master ip", "master_ip"));
        }
        if self.get("auto_failover").as_bool() == Some(true) {
            entries.push(value("automatic failover", "auto_failover"));
        }
        if self.get("mend_network").as_bool() == Some(true) {
            entries.push(value("networks mended", "mend_network"));
        }
        if self.get("silence_deadline") != &Value::from(SILENCE_DEADLINE) {
            entries.push(value("silence deadline", "silence_deadline"));
        }
        if !self.get("ramdisk_image").is_null() {
            entries.push(value("ramdisk image", "ramdisk_image"));
        }
        let kernel = self.get("kernel_parameters");
        let words = |list: &Value| {
            let words = list.as_array().into_iter().flatten().map(python::text);
            words.collect::<Vec<_>>().join(" ")
        };
        let all = words(&kernel["all"]);
        if !all.is_empty() {
            entries.push(Entry::new("kernel parameters", all));
        }
        for (role, list) in kernel["roles"].as_object().into_iter().flatten() {
            entries.push(Entry::new(format!("kernel parameters of role {role}"), words(list)));
        }
        entries
    }

    /// Ranges of user ids.
    fn users(&self) -> String {
        let range = |range: &Value| {
            let (low, high) = (range.get(0)?, range.get(1)?);
            Some(if low == high { low.to_string() } else { format!("{low}-{high}") })
        };
        let ranges = self.get("uid_pool").as_array().into_iter().flatten().filter_map(range);
        ranges.collect::<Vec<_>>().join(", ")
    }

    fn collectors(&self) -> Detail {
        const MICROS_PER_SECOND: f64 = 1e6;
        let intervals = self.get("data_collector_interval");
        let collector = |(name, active): (&String, &Value)| {
            let interval = intervals.get(name).and_then(Value::as_f64).unwrap_or_default();
            let interval = format!("{:.3}s", interval / MICROS_PER_SECOND);
            let entries = vec![Entry::new("active", active), Entry::new("interval", interval)];
            Entry::new(name, Detail::Map(entries))
        };
        let enabled = self.get("enabled_data_collectors").as_object();
        Detail::Map(enabled.into_iter().flatten().map(collector).collect())
    }
}

/// The number as Romans wrote it, who had no zero and no word for more than 3999.
fn roman(number: u64) -> Option<String> {
    const MARKS: [(u64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..4000).contains(&number) {
        return None;
    }
    let mut rest = number;
    let mut roman = String::new();
    for (value, mark) in MARKS {
        while rest >= value {
            roman.push_str(mark);
            rest -= value;
        }
    }
    Some(roman)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn romans() {
        for (number, expected) in [
            (0, None),
            (1, Some("I")),
            (4, Some("IV")),
            (25, Some("XXV")),
            (1994, Some("MCMXCIV")),
            (3999, Some("MMMCMXCIX")),
            (4000, None),
        ] {
            assert_eq!(roman(number).as_deref(), expected, "{number}");
        }
    }
}
