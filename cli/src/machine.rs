//! `gnt machine`.

mod bmc;
mod chosen;
mod disk_key;
mod info;
mod life;
mod modify;
mod timeline;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use luxi::method::{Query, What};
use luxi::query::Filter;
use model::image::{BootTarget, Parameter};
use model::json;
use model::machine::life::{Intent, Status};
use model::machine::{BmcSpec, MachineSpec, check};
use model::opcode::{
    KernelSet, MachineAdd, MachineReapply, MachineRemove, MachineSetParams, MachineSetState,
    Removable,
};
use model::switch::{PortKey, Served};
use model::{MacAddress, OpCode, Serial, Uuid};
use serde_json::Value;

use crate::error::CliError;
use crate::expression;
use crate::list::{ListArguments, ListFieldsArguments, Named, as_json};
use crate::output::say_lines;
use crate::selection::Selection;
use crate::session::{Session, confirm, read_input, read_json};
use crate::submit::JobArguments;

use chosen::Conditions;
use modify::Changes;

/// The fields that `list` shows by default.
const USUAL: [&str; 9] =
    ["serial", "rack", "index", "role", "product", "ipv4", "mac", "lease", "stage"];

/// The fields of `list-unknown`, before the command that registers the machine.
const UNKNOWN: [&str; 8] = ["rack", "mac", "serial", "ipv4", "agent", "first", "last", "count"];

/// The verbs of `gnt machine`.
#[derive(Debug, Subcommand)]
pub(crate) enum Machine {
    /// Register machines, all or none.
    Add(Box<AddArguments>),
    /// List machines.
    List {
        /// Only those with these serial numbers.
        serials: Vec<String>,
        #[command(flatten)]
        conditions: Box<Conditions>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// List machines that are not registered and were seen in a rack, and what would register them.
    #[command(visible_alias = "unknown")]
    ListUnknown {
        /// Only those in this rack; may be given several times.
        #[arg(long = "rack", value_name = "NUMBER")]
        racks: Vec<u32>,
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
    /// Change what is known of a machine.
    Modify {
        /// Its serial number.
        serial: Serial,
        #[command(flatten)]
        changes: Box<Changes>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Say how it stands with a machine, as an external controller does.
    SetState {
        /// Its serial number.
        serial: Serial,
        /// uninitialized, healthy, unhealthy, unreachable, updating, retiring or retired.
        state: Status,
        /// Why, in a few words.
        #[arg(long = "why", value_name = "TEXT")]
        why: Option<String>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Choose what machines boot: an image of `gnt image list`, or `local` for their disks.
    SetBoot {
        /// NAME for the newest version of an image, NAME/VERSION, or `local`.
        #[arg(value_name = "IMAGE")]
        boot: BootTarget,
        /// Their serial numbers; or conditions instead.
        #[arg(required_unless_present = "Conditions", conflicts_with = "Conditions")]
        serials: Vec<Serial>,
        #[command(flatten)]
        conditions: Box<Conditions>,
        /// A kernel parameter behind those of the image; may be given several times.
        #[arg(long = "append", value_name = "WORD")]
        parameters: Vec<Parameter>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Choose kernel parameters of all machines, or of those with a role, in place of earlier ones.
    ///
    /// A kernel gets those of its image, then those of all machines, of the machine's role and of the
    /// machine itself. `gnt cluster info` shows them. Unified kernel images take none.
    SetKernel {
        /// Only for machines with this role.
        #[arg(long, value_name = "WORD")]
        role: Option<String>,
        /// A kernel parameter; may be given several times.
        #[arg(long = "append", value_name = "WORD", required_unless_present = "clear")]
        parameters: Vec<Parameter>,
        /// They get none.
        #[arg(long, conflicts_with = "parameters")]
        clear: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Give machines the newest version of the network template of their role.
    Reapply {
        /// Their serial numbers; or conditions instead.
        #[arg(required_unless_present = "Conditions", conflicts_with = "Conditions")]
        serials: Vec<Serial>,
        #[command(flatten)]
        conditions: Box<Conditions>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Name the cards of machines: all of a file, in one job.
    ImportInterfaces {
        /// YAML with names and Ethernet addresses of cards, by serial number; `-` reads standard input.
        #[arg(short = 'f', long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Keep the keys of machines' encrypted disks; the cluster stores them sealed.
    #[command(subcommand, visible_alias = "disk-keys")]
    DiskKey(disk_key::DiskKeys),
    /// Say which port of a switch a card of a machine is at, whatever LLDP says.
    Port {
        /// The machine.
        serial: Serial,
        /// The port, as SWITCH/PORT.
        port: PortKey,
        /// The card, by its Ethernet address.
        #[arg(long, value_name = "ADDRESS")]
        card: MacAddress,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Set how management controllers are reached; the cluster stores their passwords sealed.
    #[command(subcommand)]
    Bmc(bmc::BmcVerb),
    /// Switch the power of machines by their management controllers, or tell whether they run.
    ///
    /// A job ends well when the controller has been seen to do what it took.
    Power(bmc::PowerArguments),
    /// Show the sensors of a machine, as its management controller tells them.
    Health {
        /// The machine.
        serial: Serial,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Find out what machines are made of, by their management controllers or by a ramdisk; `info` shows it.
    Inspect(Box<life::InspectArguments>),
    /// Give machines a system: restart them, and wait until it runs.
    ///
    /// Each machine is a job. The next one begins when another ends, and none behind a failure.
    Deploy(Box<life::DeployArguments>),
    /// Bring machines into service: inspect them by their controllers, and deploy them behind that.
    Enlist(Box<life::DeployArguments>),
    /// Have a ramdisk clean machines for their next system.
    Clean(Box<life::RamdiskArguments>),
    /// Boot a rescue system on machines.
    Rescue(Box<life::RamdiskArguments>),
    /// Go back from the rescue system to the machines' own.
    Unrescue(Box<life::OwnArguments>),
    /// Restart machines, and wait until their systems run.
    Reboot(Box<life::OwnArguments>),
    /// Take machines out of service. Keys of their disks must be gone.
    Retire(Box<life::RetireArguments>),
    /// Give up what is carried out on machines.
    Abort(Box<life::Machines>),
    /// Remove a machine from the inventory; one that is in service is refused.
    Remove {
        /// Its serial number.
        serial: Serial,
        /// Also if it is healthy, unhealthy, unreachable or updating.
        #[arg(long)]
        in_service: bool,
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
    /// Its role: `boot` (one a rack), or any word.
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
    /// Its system UUID, as its firmware tells it.
    #[arg(long, value_name = "UUID", requires = "serial")]
    uuid: Option<Uuid>,
    /// The type of its management controller, such as IPMI-2.0.
    #[arg(long, value_name = "WORD", requires = "serial")]
    bmc_type: Option<String>,
    /// The address of its management controller, if it is not that of the rules.
    #[arg(long, value_name = "ADDRESS", requires = "serial")]
    bmc_ipv4: Option<Ipv4Addr>,
    /// The IPv6 address of its management controller.
    #[arg(long, value_name = "ADDRESS", requires = "serial")]
    bmc_ipv6: Option<Ipv6Addr>,
    #[command(flatten)]
    job: JobArguments,
}

/// Carries out one verb.
pub(crate) fn run(verb: Machine, session: &Session) -> Result<(), CliError> {
    match verb {
        Machine::Add(arguments) => add(*arguments, session),
        Machine::List { serials, conditions, list } => {
            let chosen = match serials.as_slice() {
                [lone] if is_only_a_serial(lone) => Selection::named("serial", &serials),
                _ => list.chosen(&serials, Named::By("serial"))?,
            };
            let chosen = chosen.limited(conditions.filters());
            list.print(What::Machine, list.fields(&USUAL), &chosen, session)
        }
        Machine::ListUnknown { racks, list } => unknown(&racks, &list, session),
        Machine::ListFields(arguments) => arguments.print(What::Machine, session),
        Machine::Info { serials, json } => info::info(&serials, json, session),
        Machine::Modify { serial, changes, job } => {
            job.run(OpCode::MachineSetParams(changes.of(&serial)), session).map(drop)
        }
        Machine::SetState { serial, state, why, job } => {
            let op = MachineSetState { serial: serial.to_string(), state, why };
            job.run(OpCode::MachineSetState(op), session).map(drop)
        }
        Machine::SetBoot { boot, serials, conditions, parameters, job } => {
            let serials = meant(&serials, conditions.filters(), session)?;
            let op = |serial: &String| MachineSetParams {
                serial: serial.clone(),
                boot: Some(boot.clone()),
                kernel_parameters: Some(parameters.clone()),
                ..MachineSetParams::default()
            };
            let ops = serials.iter().map(|serial| OpCode::MachineSetParams(op(serial)));
            job.run_all(ops.collect(), session)
        }
        Machine::SetKernel { role, parameters, clear: _, job } => {
            job.run(OpCode::KernelSet(KernelSet { role, parameters }), session).map(drop)
        }
        Machine::DiskKey(verb) => disk_key::run(verb, session),
        Machine::Port { serial, port, card, job } => {
            crate::port::serve(port, Served { serial, mac: card }, &job, session)
        }
        Machine::Bmc(verb) => bmc::run(verb, session),
        Machine::Power(arguments) => bmc::power(arguments, session),
        Machine::Health { serial, json, job } => bmc::health(&serial, json, &job, session),
        Machine::Inspect(arguments) => life::inspect(*arguments, session),
        Machine::Deploy(arguments) => life::deploy(*arguments, session),
        Machine::Enlist(arguments) => life::enlist(*arguments, session),
        Machine::Clean(arguments) => life::ramdisk(Intent::Clean, *arguments, session),
        Machine::Rescue(arguments) => life::ramdisk(Intent::Rescue, *arguments, session),
        Machine::Unrescue(arguments) => life::own(Intent::Unrescue, *arguments, session),
        Machine::Reboot(arguments) => life::own(Intent::Reboot, *arguments, session),
        Machine::Retire(arguments) => life::retire(*arguments, session),
        Machine::Abort(machines) => life::abort(&machines, session),
        Machine::Reapply { serials, conditions, job } => {
            let serials = meant(&serials, conditions.filters(), session)?;
            let op = |serial| OpCode::MachineReapply(MachineReapply { serial });
            job.run_all(serials.into_iter().map(op).collect(), session)
        }
        Machine::ImportInterfaces { file, job } => {
            let ops = modify::interfaces(&file, &read_input(&file)?)?;
            job.run_all(ops.into_iter().map(OpCode::MachineSetParams).collect(), session)
        }
        Machine::Remove { serial, in_service, yes, job } => {
            confirm(&format!("Remove machine {serial} from the inventory?"), yes || job.dry_run)?;
            let only = if in_service { Removable::Any } else { Removable::OutOfService };
            let op = MachineRemove { serial: serial.to_string(), only };
            job.run(OpCode::MachineRemove(op), session).map(drop)
        }
    }
}

/// The machines with these serial numbers, all of which must be there, or for which conditions hold.
fn meant(
    serials: &[Serial],
    mut conditions: Vec<Filter>,
    session: &Session,
) -> Result<Vec<String>, CliError> {
    let named: Vec<String> = serials.iter().map(ToString::to_string).collect();
    let chosen = Selection::named("serial", &named);
    conditions.extend(chosen.filter());
    let query = Query {
        what: What::Machine,
        fields: ["serial"].into(),
        filter: Some(Filter::And(conditions)),
    };
    let table = session.ask(&query)?;
    chosen.all_in(What::Machine, &table)?;
    if table.data.is_empty() {
        return Err(CliError::Failed("no machine is meant; nothing was changed".to_owned()));
    }
    let found = table.data.iter().filter_map(|row| row.first()?.value()?.as_str());
    Ok(found.map(str::to_owned).collect())
}

/// Lists strangers, and behind them, for a reader, what registers each.
fn unknown(racks: &[u32], list: &ListArguments, session: &Session) -> Result<(), CliError> {
    let racks = racks.iter().map(|rack| u64::from(*rack).into()).collect();
    let chosen = list.chosen(&[], Named::By("mac"))?.with("rack", racks);
    list.print(What::Unregistered, list.fields(&UNKNOWN), &chosen, session)?;
    if list.is_plain() {
        return Ok(());
    }
    let fields = ["rack", "mac", "serial"].into();
    let query = Query { what: What::Unregistered, fields, filter: chosen.filter() };
    let table = session.ask(&query)?;
    let lines: Vec<String> = as_json(&table).iter().map(registering).collect();
    if lines.is_empty() { Ok(()) } else { say_lines(&format!("\n{}", lines.join("\n"))) }
}

/// The command that registers a stranger; what nobody knows yet is in capitals.
fn registering(stranger: &Value) -> String {
    let text = |name: &str| stranger[name].as_str();
    let serial = text("serial").map_or_else(|| "SERIAL".to_owned(), shell_word);
    let mac = text("mac").map(|mac| format!(" --mac {mac}")).unwrap_or_default();
    format!("gnt machine add --serial {serial} --rack {} --role ROLE{mac}", stranger["rack"])
}

/// A word that a shell takes as it is.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
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
            uuid: arguments.uuid,
            bmc: BmcSpec {
                kind: arguments.bmc_type,
                ipv4: arguments.bmc_ipv4,
                ipv6: arguments.bmc_ipv6,
            },
            labels: arguments.labels.into_iter().collect(),
            interfaces: std::collections::BTreeMap::new(),
            retire_date: None,
        }],
        (None, ..) => {
            return Err(CliError::Usage("give --file, or --serial and --rack".to_owned()));
        }
    };
    // The job says what became of each machine, or all that is wrong with them.
    arguments.job.run(OpCode::MachineAdd(MachineAdd { machines }), session).map(drop)
}

fn from_file(file: PathBuf) -> Result<Vec<MachineSpec>, CliError> {
    let text = read_input(&file)?;
    let wanted = "a machine or a list of machines";
    if text.trim_start().starts_with('{') {
        return Ok(vec![read_json(&file, &text, wanted)?]);
    }
    read_json(&file, &text, wanted).map_err(|error| all_faults(&text).unwrap_or(error))
}

/// The faults of a list in which several machines do not read.
fn all_faults(text: &str) -> Option<CliError> {
    let values: Vec<Value> = serde_json::from_str(text).ok()?;
    let mut faults = Vec::new();
    let mut specs = Vec::new();
    for (at, value) in values.iter().enumerate() {
        match json::read::<MachineSpec>(&value.to_string()) {
            Ok(spec) => specs.push(spec),
            Err(error) if error.place.is_empty() => faults.push(format!("[{at}]: {}", error.why)),
            Err(error) => faults.push(format!("[{at}].{error}")),
        }
    }
    faults.extend(check::faults(&specs).iter().map(ToString::to_string));
    (faults.len() > 1).then(|| CliError::Failed(check::told(&faults)))
}

/// Serial numbers may have the marks of expressions, and few of those that do are any.
fn is_only_a_serial(text: &str) -> bool {
    let is_expression = || !matches!(expression::read(text), Err(_) | Ok(Filter::True(_)));
    !text.contains('*') && text.parse::<Serial>().is_ok() && !is_expression()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_machine_that_does_not_read_is_told() {
        let told = |text: &str| all_faults(text).map(|error| error.to_string());
        let list = r#"[{"serial": "a\nb", "role": "w"}, {"serial": "s1", "role": "w"},
            {"serial": "s1", "role": "W", "mac": []}, {"serial": "s2", "role": "w", "mac": ["x"]}]"#;
        let text = told(list).unwrap();
        for fault in
            ["4 faults, ", "[0].serial: `a", "; [3].mac[0]: ", "role `W` must", "given twice"]
        {
            assert!(text.contains(fault), "{fault}: {text}");
        }
        // The usual error tells one fault better.
        assert_eq!(told(r#"[{"serial": "s1", "role": 1}]"#), None);
        assert_eq!(told("nonsense"), None);
    }

    #[test]
    fn serials_are_no_expressions() {
        for serial in ["/5Q4Q7Y1/CN72/", "SN 0001", "a/b", "SN-0001?x", "(x", "S!"] {
            assert!(is_only_a_serial(serial), "{serial}");
        }
        for other in ["role == \"x\"", "rack = 1", "not role", "s*"] {
            assert!(!is_only_a_serial(other), "{other}");
        }
    }

    #[test]
    fn what_registers_a_stranger() {
        let told = registering(&json!({"rack": 3, "serial": "S 9", "mac": "52:54:00:00:00:09"}));
        let command = "gnt machine add --serial 'S 9' --rack 3 --role ROLE --mac 52:54:00:00:00:09";
        assert_eq!(told, command);
        let unnamed = registering(&json!({"rack": 3, "serial": null, "mac": null}));
        assert_eq!(unnamed, "gnt machine add --serial SERIAL --rack 3 --role ROLE");
    }
}
