//! `gnt machine`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use luxi::method::{Query, QueryFields, What};
use luxi::query::Filter;
use model::image::{BootTarget, Parameter};
use model::machine::MachineSpec;
use model::opcode::{MachineAdd, MachineRemove, MachineSetParams};
use model::{MacAddress, OpCode, Serial};

use crate::cells::{self, Look, Units};
use crate::details::{self, Entry};
use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named, as_json};
use crate::output::{say_json, say_lines};
use crate::selection::Selection;
use crate::session::{Session, confirm, read_input, read_json};
use crate::submit::JobArguments;

/// What `list` shows unless told otherwise.
const USUAL: [&str; 9] =
    ["serial", "rack", "index", "role", "product", "ipv4", "mac", "lease", "stage"];

/// What can be done with machines.
#[derive(Debug, Subcommand)]
pub(crate) enum Machine {
    /// Register machines, all or none.
    Add(AddArguments),
    /// List machines.
    List {
        /// Only those with these serial numbers.
        serials: Vec<String>,
        /// Only those in this rack; may be given several times.
        #[arg(long = "rack", value_name = "NUMBER")]
        racks: Vec<u32>,
        /// Only those of this role; may be given several times.
        #[arg(long = "role", value_name = "WORD")]
        roles: Vec<String>,
        /// Only those with this label; may be given several times.
        #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
        labels: Vec<(String, String)>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about machines.
    #[command(visible_alias = "show")]
    Info {
        /// Serial numbers.
        #[arg(required = true)]
        serials: Vec<String>,
        /// Print a JSON list with an object for each; times are seconds since the epoch.
        #[arg(long)]
        json: bool,
    },
    /// Change the labels of a machine.
    Modify {
        /// Its serial number.
        serial: Serial,
        /// Set a label; may be given several times.
        #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
        labels: Vec<(String, String)>,
        /// Remove a label; may be given several times.
        #[arg(long = "remove-label", value_name = "NAME")]
        removed: Vec<String>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Choose what machines boot: an image of `gnt image list`, or `local` for their disks.
    SetBoot {
        /// NAME for the newest version of an image, NAME/VERSION, or `local`.
        #[arg(value_name = "IMAGE")]
        boot: BootTarget,
        /// Their serial numbers.
        #[arg(required = true)]
        serials: Vec<Serial>,
        /// A kernel parameter behind those of the image; may be given several times.
        #[arg(long = "append", value_name = "WORD")]
        parameters: Vec<Parameter>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Remove a machine from the inventory.
    Remove {
        /// Its serial number.
        serial: Serial,
        /// Do not ask.
        #[arg(short = 'f', long, visible_alias = "force")]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// Arguments of `add`.
#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// JSON file with one machine or a list of them; `-` reads standard input.
    #[arg(
        short,
        long,
        value_name = "FILE",
        conflicts_with = "serial",
        required_unless_present = "serial"
    )]
    file: Option<PathBuf>,
    /// Serial number of one machine, as its firmware tells it.
    #[arg(long, value_name = "SERIAL", requires = "role", requires = "rack")]
    serial: Option<Serial>,
    /// Its logical rack number.
    #[arg(long, value_name = "NUMBER", requires = "serial")]
    rack: Option<u32>,
    /// What it is for: `boot` (one a rack), or any word.
    #[arg(long, value_name = "WORD", requires = "serial")]
    role: Option<String>,
    /// Its product name.
    #[arg(long, value_name = "TEXT", requires = "serial", default_value = "")]
    product: String,
    /// Where it stands.
    #[arg(long, value_name = "TEXT", requires = "serial", default_value = "")]
    datacenter: String,
    /// An Ethernet address of it; may be given several times.
    #[arg(long, value_name = "ADDRESS", requires = "serial")]
    mac: Vec<MacAddress>,
    /// A label of it; may be given several times.
    #[arg(long = "label", value_name = "NAME=VALUE", requires = "serial", value_parser = label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    job: JobArguments,
}

/// Carries out one verb.
pub(crate) fn run(verb: Machine, session: &Session) -> Result<(), CliError> {
    match verb {
        Machine::Add(arguments) => add(arguments, session),
        Machine::List { serials, racks, roles, labels, list } => {
            let has = |(name, value): &(String, String)| {
                Filter::Contains("labels".to_owned(), format!("{name}={value}").as_str().into())
            };
            let racks = racks.into_iter().map(|rack| u64::from(rack).into());
            let roles = roles.iter().map(|role| role.as_str().into());
            let chosen = list.chosen(&serials, Named::By("serial"))?;
            let chosen = chosen.with("rack", racks.collect()).with("role", roles.collect());
            let chosen = chosen.limited(labels.iter().map(has).collect());
            list.print(What::Machine, list.fields(&USUAL), &chosen, session)
        }
        Machine::ListFields(arguments) => arguments.print(What::Machine, session),
        Machine::Info { serials, json } => info(&serials, json, session),
        Machine::Modify { serial, labels, removed, job } => {
            if labels.is_empty() && removed.is_empty() {
                let told = "give at least one change: --label NAME=VALUE or --remove-label NAME";
                return Err(CliError::Usage(told.to_owned()));
            }
            let set = labels.into_iter().map(|(name, value)| (name, Some(value)));
            let labels = removed.into_iter().map(|name| (name, None)).chain(set).collect();
            let op = MachineSetParams {
                serial: serial.to_string(),
                labels,
                boot: None,
                kernel_parameters: None,
            };
            job.run(OpCode::MachineSetParams(op), session).map(drop)
        }
        Machine::SetBoot { boot, serials, parameters, job } => {
            let op = |serial: &Serial| MachineSetParams {
                serial: serial.to_string(),
                labels: std::collections::BTreeMap::new(),
                boot: Some(boot.clone()),
                kernel_parameters: Some(parameters.clone()),
            };
            let ops = serials.iter().map(|serial| OpCode::MachineSetParams(op(serial)));
            job.run_all(ops.collect(), session)
        }
        Machine::Remove { serial, yes, job } => {
            confirm(&format!("Remove machine {serial} from the inventory?"), yes || job.dry_run)?;
            let op = MachineRemove { serial: serial.to_string() };
            job.run(OpCode::MachineRemove(op), session).map(drop)
        }
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn add(arguments: AddArguments, session: &Session) -> Result<(), CliError> {
    let machines = match (arguments.file, arguments.serial, arguments.rack) {
        (Some(file), ..) => from_file(file)?,
        (None, Some(serial), Some(rack)) => vec![MachineSpec {
            serial,
            product: arguments.product,
            datacenter: arguments.datacenter,
            rack,
            role: arguments.role.unwrap_or_default(),
            mac: arguments.mac,
            labels: arguments.labels.into_iter().collect(),
        }],
        (None, ..) => {
            return Err(CliError::Usage("give --file, or --serial and --rack".to_owned()));
        }
    };
    for machine in &machines {
        machine.validate().map_err(|error| CliError::Failed(error.to_string()))?;
    }
    // The job says what became of each machine.
    arguments.job.run(OpCode::MachineAdd(MachineAdd { machines }), session).map(drop)
}

fn from_file(file: PathBuf) -> Result<Vec<MachineSpec>, CliError> {
    let text = read_input(&file)?;
    let wanted = "a machine or a list of machines";
    match text.trim_start().starts_with('{') {
        true => Ok(vec![read_json(&file, &text, wanted)?]),
        false => read_json(&file, &text, wanted),
    }
}

fn info(serials: &[String], json: bool, session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let known = session.call(&mut client, &QueryFields { what: What::Machine, fields: None })?;
    let others =
        known.fields.iter().map(|field| field.name.as_ref()).filter(|name| *name != "serial");
    let fields = std::iter::once("serial").chain(others).collect();
    let chosen = Selection::named("serial", serials);
    let table = client.call(&Query { what: What::Machine, fields, filter: chosen.filter() })?;
    if json {
        say_json(&as_json(&table))?;
        return chosen.all_in(What::Machine, &table);
    }
    let look = Look {
        what: What::Machine,
        units: Units::H,
        verbose: true,
        times: session.times(),
        own: true,
    };
    let machines = table.data.iter().map(|row| {
        let titles = std::iter::once("Serial")
            .chain(table.fields.iter().skip(1).map(|field| field.title.as_ref()));
        let cells =
            row.iter().zip(&table.fields).map(|(cell, field)| cells::text(cell, field, look));
        titles.zip(cells).map(|(title, text)| Entry::new(title, text)).collect()
    });
    if !table.data.is_empty() {
        say_lines(&details::lines(machines.collect()))?;
    }
    chosen.all_in(What::Machine, &table)
}
