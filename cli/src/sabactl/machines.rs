//! `sabactl machines`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use luxi::method::{GantryIpam, What};
use luxi::query::{Filter, sabakan};
use model::machine::life::Status;
use model::machine::{Machine, MachineSpec};
use model::opcode::{MachineAdd, MachineRemove, MachineSetParams, MachineSetState, Removable};
use model::sabakan::{given, today};
use model::{OpCode, Timestamp};
use serde_json::Value;

use super::{ask, missing, quietly, read, rows};
use crate::error::CliError;
use crate::output::{say, say_json, say_lines};
use crate::session::Session;
use crate::table::{Column, lines};

/// The verbs for machines.
#[derive(Debug, Subcommand)]
pub(super) enum Machines {
    /// Print machines as JSON.
    Get(Box<Search>),
    /// Register machines, all or none.
    Create {
        /// JSON file with a list of machines.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Remove a machine, which must be retired.
    Remove {
        /// Its serial number.
        serial: String,
    },
    /// Print the state of a machine.
    GetState {
        /// Its serial number.
        serial: String,
    },
    /// Set the state of a machine.
    SetState {
        /// Its serial number.
        serial: String,
        /// uninitialized, healthy, unhealthy, unreachable, updating, retiring or retired.
        state: Status,
    },
    /// Print a label of a machine.
    GetLabel {
        /// Its serial number.
        serial: String,
        /// The name of the label.
        name: String,
    },
    /// Set a label of a machine.
    SetLabel {
        /// Its serial number.
        serial: String,
        /// The name of the label.
        name: String,
        /// The value.
        value: String,
    },
    /// Remove a label of a machine.
    RemoveLabel {
        /// Its serial number.
        serial: String,
        /// The name of the label.
        name: String,
    },
    /// Set when a machine is to be taken out of use.
    SetRetireDate {
        /// Its serial number.
        serial: String,
        /// The day, such as 2026-11-20.
        date: String,
    },
}

/// The conditions of a search for machines; values have commas between them.
#[derive(Debug, Args)]
pub(super) struct Search {
    /// Serial numbers.
    #[arg(long)]
    serial: Option<String>,
    /// Racks.
    #[arg(long)]
    rack: Option<String>,
    /// Roles.
    #[arg(long)]
    role: Option<String>,
    /// Labels, each NAME=VALUE; all of them must be there.
    #[arg(long)]
    labels: Option<String>,
    /// IPv4 addresses.
    #[arg(long)]
    ipv4: Option<String>,
    /// IPv6 addresses.
    #[arg(long)]
    ipv6: Option<String>,
    /// Types of management controllers.
    #[arg(long)]
    bmc_type: Option<String>,
    /// States.
    #[arg(long)]
    state: Option<String>,
    /// None of these serial numbers.
    #[arg(long)]
    without_serial: Option<String>,
    /// None of these racks.
    #[arg(long)]
    without_rack: Option<String>,
    /// None of these roles.
    #[arg(long)]
    without_role: Option<String>,
    /// Not all of these labels.
    #[arg(long)]
    without_labels: Option<String>,
    /// None of these IPv4 addresses.
    #[arg(long)]
    without_ipv4: Option<String>,
    /// None of these IPv6 addresses.
    #[arg(long)]
    without_ipv6: Option<String>,
    /// None of these types of management controllers.
    #[arg(long)]
    without_bmc_type: Option<String>,
    /// None of these states.
    #[arg(long)]
    without_state: Option<String>,
    /// Form of what is printed.
    #[arg(short, long, value_name = "FORM", default_value = "json")]
    output: Form,
}

/// How machines are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// As JSON.
    Json,
    /// As a table.
    Simple,
}

impl Search {
    fn filter(self) -> Result<Option<Filter>, CliError> {
        let all = [
            ("serial", self.serial),
            ("rack", self.rack),
            ("role", self.role),
            ("labels", self.labels),
            ("ipv4", self.ipv4),
            ("ipv6", self.ipv6),
            ("bmc-type", self.bmc_type),
            ("state", self.state),
            ("without-serial", self.without_serial),
            ("without-rack", self.without_rack),
            ("without-role", self.without_role),
            ("without-labels", self.without_labels),
            ("without-ipv4", self.without_ipv4),
            ("without-ipv6", self.without_ipv6),
            ("without-bmc-type", self.without_bmc_type),
            ("without-state", self.without_state),
        ];
        let given = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        sabakan::filter(&given.collect::<Vec<_>>()).map_err(CliError::wrong_input)
    }
}

/// Carries out one verb.
pub(super) fn run(verb: Machines, session: &Session) -> Result<(), CliError> {
    match verb {
        Machines::Get(search) => {
            let form = search.output;
            let machines = found(search.filter()?, session)?;
            if machines.is_empty() {
                return Err(missing("no machine is like that".to_owned()));
            }
            if form == Form::Simple {
                return say_lines(&simple(&machines));
            }
            let rules = ask(&GantryIpam {}, session)?;
            let now = Timestamp::from_micros(session.now_micros());
            let shown = machines.iter().map(|machine| today(machine, rules.as_ref(), now));
            say_json(&shown.collect::<Vec<_>>())
        }
        Machines::Create { file } => {
            let machines: Vec<MachineSpec> = read(&file, "list of machines", given::machines)?;
            quietly(OpCode::MachineAdd(MachineAdd { machines }), session).map(drop)
        }
        Machines::Remove { serial } => quietly(
            OpCode::MachineRemove(MachineRemove { serial, only: Removable::Retired }),
            session,
        )
        .map(drop),
        Machines::GetState { serial } => say(machine(&serial, session)?.life.state.status()),
        Machines::SetState { serial, state } => {
            let op = MachineSetState { serial, state, why: None };
            quietly(OpCode::MachineSetState(op), session).map(drop)
        }
        Machines::GetLabel { serial, name } => say(label(&serial, &name, session)?),
        Machines::SetLabel { serial, name, value } => {
            set(&serial, |op| drop(op.labels.insert(name, Some(value))), session)
        }
        Machines::RemoveLabel { serial, name } => {
            let _value = label(&serial, &name, session)?;
            set(&serial, |op| drop(op.labels.insert(name, None)), session)
        }
        Machines::SetRetireDate { serial, date } => {
            let wrong = || CliError::Usage(format!("`{date}` is no day, such as 2026-11-20"));
            let date = Timestamp::of_rfc3339(&format!("{date}T00:00:00Z")).ok_or_else(wrong)?;
            set(&serial, |op| op.retire_date = Some(date), session)
        }
    }
}

/// The table that sabactl prints.
fn simple(machines: &[Machine]) -> String {
    let columns = ["Serial", "Rack", "Role", "State", "IPv4", "BMC"];
    let columns = columns.map(|title| Column { title: title.to_owned(), right: false });
    let row = |machine: &Machine| {
        let address = machine.network.values().flat_map(|of| &of.ipv4).next();
        vec![
            machine.serial.to_string(),
            machine.rack.to_string(),
            machine.role.clone(),
            machine.life.state.status().to_string(),
            address.map(ToString::to_string).unwrap_or_default(),
            machine.bmc.kind.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = machines.iter().map(row).collect();
    lines(&columns, &rows, true, None).join("\n")
}

fn found(filter: Option<Filter>, session: &Session) -> Result<Vec<Machine>, CliError> {
    let rows = rows(What::Machine, ["document"], filter, session)?;
    let machines = rows.into_iter().flatten().map(serde_json::from_value);
    machines
        .collect::<Result<_, _>>()
        .map_err(|error| CliError::Failed(format!("a machine does not read: {error}")))
}

fn machine(serial: &str, session: &Session) -> Result<Machine, CliError> {
    let machines = found(Some(Filter::any_of("serial", [serial])), session)?;
    let none = || missing(format!("there is no machine {serial}"));
    machines.into_iter().next().ok_or_else(none)
}

/// The value of a label.
fn label(serial: &str, name: &str, session: &Session) -> Result<String, CliError> {
    let machine = machine(serial, session)?;
    let none = || missing(format!("machine {serial} has no label {name}"));
    machine.labels.get(name).cloned().ok_or_else(none)
}

fn set(
    serial: &str,
    change: impl FnOnce(&mut MachineSetParams),
    session: &Session,
) -> Result<(), CliError> {
    let mut op = MachineSetParams { serial: serial.to_owned(), ..MachineSetParams::default() };
    change(&mut op);
    let _machine: Value = quietly(OpCode::MachineSetParams(op), session)?;
    Ok(())
}
