//! `gnt instance info`, in the form of Ganeti's.

use clap::Args;
use model::opcode::{InstanceQueryData, OpCode};
use serde_json::{Map, Value};

use crate::cells::{Units, size};
use crate::details::{Detail, Entry, lines};
use crate::error::CliError;
use crate::moment::TimeForm;
use crate::output::{say, say_lines};
use crate::params::merged;
use crate::python;
use crate::session::Session;
use crate::submit::JobArguments;

/// Arguments of `info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArguments {
    /// Only these.
    names: Vec<String>,
    /// All instances.
    #[arg(long)]
    all: bool,
    /// Leave out what only nodes know.
    #[arg(short = 's', long = "static")]
    only_static: bool,
    /// Print a JSON object with one for each.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    job: JobArguments,
}

impl InfoArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), CliError> {
        match (self.names.is_empty(), self.all) {
            (true, false) => {
                let text = "name the instances, or give --all";
                return Err(CliError::Usage(text.to_owned()));
            }
            (false, true) => return Err(CliError::Usage("--all takes no names".to_owned())),
            (true, true) | (false, false) => {}
        }
        let op = InstanceQueryData {
            instances: self.names,
            use_locking: false,
            only_static: self.only_static,
        };
        let told = self.job.run(OpCode::InstanceQueryData(op), session)?;
        let Some(Value::Object(all)) = told else { return Ok(()) };
        if self.json {
            return say(Value::Object(all));
        }
        if all.is_empty() {
            say("No instances.")?;
            return Err(CliError::Told);
        }
        let times = session.times();
        let instances = all.into_iter().filter_map(|(_, one)| match one {
            Value::Object(one) => Some(described(&one, times)),
            _ => None,
        });
        say_lines(&lines(instances.collect()))
    }
}

/// One instance.
fn described(of: &Map<String, Value>, times: TimeForm) -> Vec<Entry> {
    let value = |key: &str| of.get(key).cloned().unwrap_or_default();
    let text = |key: &str| python::text(&value(key));
    let list = |key: &str| value(key).as_array().cloned().unwrap_or_default();
    let mut state = format!("configured to be {}", text("config_state"));
    if let Some(actual) = value("run_state").as_str() {
        state.push_str(&format!(", actual state is {actual}"));
    }
    let group = format!("{} (UUID {})", text("pnode_group_name"), text("pnode_group_uuid"));
    let nodes = Detail::List(vec![
        Detail::Map(vec![Entry::new("primary", text("pnode")), Entry::new("group", group)]),
        Detail::Map(vec![Entry::new("secondaries", "")]),
    ]);
    let mut backend = value("be_actual");
    if let Some(actual) = backend.as_object_mut() {
        actual.insert("memory".to_owned(), actual.get("maxmem").cloned().unwrap_or_default());
    }
    let numbered = |key: &str, one: &dyn Fn((usize, &Value)) -> Vec<Entry>| {
        Detail::List(list(key).iter().enumerate().map(one).map(Detail::Map).collect())
    };
    vec![
        Entry::new("Instance name", text("name")),
        Entry::new("UUID", text("uuid")),
        Entry::new("Serial number", text("serial_no")),
        Entry::new("Creation time", times.date(&value("ctime")).unwrap_or_default()),
        Entry::new("Modification time", times.date(&value("mtime")).unwrap_or_default()),
        Entry::new("State", state),
        Entry::new("Nodes", nodes),
        Entry::new("Operating system", text("os")),
        Entry::new(
            "Operating system parameters",
            merged(&value("os_instance"), &value("os_actual")),
        ),
        Entry::new("Allocated network port", text("network_port")),
        Entry::new("Hypervisor", text("hypervisor")),
        Entry::new("Hypervisor parameters", merged(&value("hv_instance"), &value("hv_actual"))),
        Entry::new("Back-end parameters", merged(&value("be_instance"), &backend)),
        Entry::new("NICs", numbered("nics", &nic)),
        Entry::new("Disk template", text("disk_template")),
        Entry::new("Disks", numbered("disks", &|one| disk(one, times))),
    ]
}

fn nic((place, nic): (usize, &Value)) -> Vec<Entry> {
    let text = |at: usize| python::text(nic.get(at).unwrap_or(&Value::Null));
    let network = nic.pointer("/8/name").cloned().unwrap_or_default();
    vec![
        Entry::new(format!("nic/{place}"), ""),
        Entry::new("MAC", text(3)),
        Entry::new("IP", text(2)),
        Entry::new("mode", text(4)),
        Entry::new("link", text(5)),
        Entry::new("vlan", text(6)),
        Entry::new("network", python::text(&network)),
        Entry::new("UUID", text(1)),
        Entry::new("name", text(0)),
    ]
}

fn disk((place, disk): (usize, &Value), times: TimeForm) -> Vec<Entry> {
    let text = |key: &str| python::text(disk.get(key).unwrap_or(&Value::Null));
    let mib = disk.get("size").and_then(Value::as_f64).unwrap_or_default();
    let mut entries = vec![Entry::new(
        format!("disk/{place}"),
        format!("{}, size {}", text("dev_type"), size(mib, Units::H)),
    )];
    if disk.get("spindles").is_some_and(|spindles| !spindles.is_null()) {
        entries.push(Entry::new("spindles", text("spindles")));
    }
    entries.push(Entry::new("access mode", text("mode")));
    entries.push(Entry::new("logical_id", text("logical_id")));
    entries.push(Entry::new("name", text("name")));
    entries.push(Entry::new("UUID", text("uuid")));
    for copy in disk.get("copies").and_then(Value::as_array).into_iter().flatten() {
        let node = python::text(copy.get("node").unwrap_or(&Value::Null));
        entries.push(Entry::new(format!("copy on {node}"), copy_state(copy, times)));
    }
    entries
}

/// The state of another copy: by the record, and by the run where that says more.
fn copy_state(copy: &Value, times: TimeForm) -> String {
    let since = copy.get("stale_since").and_then(|since| times.date(since));
    let run = copy.get("run").unwrap_or(&Value::Null);
    let lost = run.get("lost").and_then(Value::as_str);
    match (since, run.as_str(), lost) {
        (_, _, Some(why)) => format!("lost: {why}"),
        (None, _, None) => "in step".to_owned(),
        (Some(since), Some("filling"), None) => {
            format!("stale since {since}, being filled")
        }
        (Some(since), Some("in_step"), None) => format!("stale since {since}, filled"),
        (Some(since), _, None) => format!("stale since {since}"),
    }
}
