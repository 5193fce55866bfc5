//! `gnt debug iallocator`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use model::opcode::instance::create::{AllocatorDirection, AllocatorMode};
use model::opcode::instance::moves::EvacuationMode;
use model::opcode::instance::{Mib, Told};
use model::opcode::{OpCode, TestAllocator};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::instance::modify::size;
use crate::output::say_lines;
use crate::python;
use crate::session::Session;
use crate::submit::JobArguments;

/// The kinds of questions.
const MODES: [&str; 6] = [
    "allocate",
    "multi-allocate",
    "relocate",
    "allocate-secondary",
    "node-evacuate",
    "change-group",
];

/// Arguments of `iallocator`.
#[derive(Debug, Args)]
pub(crate) struct IallocatorArguments {
    /// The new instance, or those that go.
    #[arg(required = true)]
    names: Vec<String>,
    /// Show the question, or have it answered.
    #[arg(long, value_name = "DIRECTION", default_value = "in",
        value_parser = word::<AllocatorDirection>(&["in", "out"]))]
    dir: AllocatorDirection,
    /// The allocator; the cluster's without it, which is the built-in one unless it has another.
    #[arg(short = 'I', long, value_name = "NAME")]
    iallocator: Option<String>,
    /// What is asked.
    #[arg(short, long, value_name = "MODE", default_value = "relocate",
        value_parser = word::<AllocatorMode>(&MODES))]
    mode: AllocatorMode,
    /// Memory of the new instance.
    #[arg(long, value_name = "SIZE", default_value = "128", value_parser = size)]
    memory: Mib,
    /// Sizes of its disks.
    #[arg(long, value_name = "SIZE,...", default_value = "4096,4096", value_delimiter = ',', value_parser = size)]
    disks: Vec<Mib>,
    /// How its disks are stored.
    #[arg(short = 't', long, value_name = "TEMPLATE")]
    disk_template: Option<String>,
    /// Its network interfaces.
    #[arg(
        long,
        value_name = "MAC/IP/BRIDGE,...",
        default_value = "00:11:22:33:44:55",
        value_delimiter = ','
    )]
    nics: Vec<String>,
    /// Its operating system.
    #[arg(short = 'o', long, value_name = "NAME")]
    os_type: Option<String>,
    /// Its virtual processors.
    #[arg(short = 'p', long, value_name = "COUNT", default_value_t = 1)]
    vcpus: u64,
    /// Its tags.
    #[arg(long, value_name = "TAG,...", value_delimiter = ',')]
    tags: Vec<String>,
    /// Which instances go.
    #[arg(long, value_name = "WHICH", default_value = "all",
        value_parser = word::<EvacuationMode>(&["all", "primary-only", "secondary-only"]))]
    evac_mode: EvacuationMode,
    /// A group that they may go to; may be given several times.
    #[arg(long, value_name = "GROUP")]
    target_groups: Vec<String>,
    /// Spindles that it uses.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    spindle_use: u64,
    /// How many instances that are alike.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    count: u64,
    #[command(flatten)]
    job: JobArguments,
}

/// One of the words that an opcode has for a parameter.
fn word<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: serde::de::DeserializeOwned + Clone + Send + Sync + 'static,
{
    let read = |word: String| serde_json::from_value(Value::String(word));
    PossibleValuesParser::new(words).try_map(read)
}

/// A network interface as the option has it.
fn nic(text: &str) -> Told {
    let named = ["mac", "ip", "bridge"].into_iter().zip(text.split('/'));
    let told = named.filter(|(_, value)| !value.is_empty());
    told.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
}

impl IallocatorArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), CliError> {
        let disk = |size: Mib| Told::from_iter([("size".to_owned(), json!(size))]);
        let op = TestAllocator {
            direction: self.dir,
            mode: self.mode,
            name: self.names.first().cloned().unwrap_or_default(),
            nics: Some(self.nics.iter().map(|text| nic(text)).collect()),
            disks: Some(self.disks.into_iter().map(disk).collect()),
            hypervisor: None,
            iallocator: self.iallocator,
            tags: self.tags,
            memory: Some(self.memory.0),
            vcpus: Some(self.vcpus),
            os: self.os_type,
            disk_template: self.disk_template,
            instances: Some(self.names),
            evac_mode: Some(self.evac_mode),
            target_groups: Some(self.target_groups),
            spindle_use: self.spindle_use,
            count: self.count,
            group_name: None,
        };
        match self.job.run(OpCode::TestAllocator(op), session)? {
            Some(told) => say_lines(&python::text(&told)),
            None => Ok(()),
        }
    }
}
