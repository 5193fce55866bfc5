//! `sabactl machines`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use luxi::method::{GantryIpam, What};
use luxi::query::{Filter, sabakan};
use model::machine::life::Status;
use model::machine::{Machine, MachineSpec};
use model::opcode::{MachineAdd, MachineRemove, MachineSetParams, MachineSetState, Removable};
use model::sabakan::today;
use model::{OpCode, Timestamp};
use serde_json::Value;

use super::{ask, missing, quietly, read, rows};
use crate::error::CliError;
use crate::output::{say, say_json};
use crate::session::Session;

/// What can be done with machines.
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

/// What machines are searched by; values have commas between them.
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
}

impl Search {
    fn filter(self) -> Result<Option<Filter>, CliError> {
        let Self { serial, rack, role, labels, ipv4, ipv6, bmc_type, state } = self;
        let all = [
            ("serial", serial),
            ("rack", rack),
            ("role", role),
            ("labels", labels),
            ("ipv4", ipv4),
            ("ipv6", ipv6),
            ("bmc-type", bmc_type),
            ("state", state),
        ];
        let given = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        sabakan::filter(&given.collect::<Vec<_>>()).map_err(CliError::wrong_input)
    }
}

/// Carries out one verb.
pub(super) fn run(verb: Machines, session: &Session) -> Result<(), CliError> {
    match verb {
        Machines::Get(search) => {
            let machines = found(search.filter()?, session)?;
            if machines.is_empty() {
                return Err(missing("no machine is like that".to_owned()));
            }
            let rules = ask(&GantryIpam {}, session)?;
            let now = Timestamp::from_micros(session.now_micros());
            let shown = machines.iter().map(|machine| today(machine, rules.as_ref(), now));
            say_json(&shown.collect::<Vec<_>>())
        }
        Machines::Create { file } => {
            let machines: Vec<MachineSpec> = read(&file, "list of machines")?;
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
