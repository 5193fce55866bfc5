//! `gnt port` and `gnt port-configuration`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use luxi::method::What;
use model::opcode::network::{NoneWord, OrNone};
use model::opcode::{
    PortConfigurationAdd, PortConfigurationRemove, PortPolicySet, PortSetParams, SwitchSettle,
};
use model::switch::{
    AclRule, OnDeadSwitch, OnDrift, PortKey, PortPhase, Served, VlanOf, VlanSet, Wanted,
};
use model::{MacAddress, OpCode, Serial, Word};

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::session::{Session, read_input};
use crate::submit::JobArguments;
use crate::switch::info;

/// The fields that `list` shows by default.
const USUAL: [&str; 6] = ["name", "state", "machine", "configuration", "wanted", "actual"];
/// The fields that the list of configurations shows by default.
const CONFIGURATIONS: [&str; 5] = ["name", "untagged", "tagged", "mtu", "disabled"];

/// The verbs of `gnt port`.
#[derive(Debug, Subcommand)]
pub(crate) enum Port {
    /// List ports of switches.
    List {
        /// Only these, as SWITCH/PORT.
        ports: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about ports.
    #[command(visible_alias = "show")]
    Info {
        /// Only these, as SWITCH/PORT.
        ports: Vec<String>,
        /// Print a JSON list with an object for each.
        #[arg(long)]
        json: bool,
    },
    /// Say which card a port serves, or which configuration ports have.
    Set(Box<SetArguments>),
    /// Take away what was said of ports: they follow their machines, or rest.
    Clear {
        /// The ports, as SWITCH/PORT.
        #[arg(required = true)]
        ports: Vec<PortKey>,
        /// Take away, too, which card they serve: LLDP alone tells that then.
        #[arg(long)]
        card: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Try ports anew that are in error, and look at others.
    Reset {
        /// The ports, as SWITCH/PORT.
        #[arg(required = true)]
        ports: Vec<PortKey>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Say which configuration ports have in each phase of their machines' lives.
    Policy(PolicyArguments),
}

/// Configurations by phase.
#[derive(Debug, Args)]
pub(crate) struct PhaseArguments {
    /// While nobody uses the machine; `none` takes it away, here and below.
    #[arg(long, value_name = "NAME")]
    idle: Option<Word>,
    /// While a ramdisk looks at the machine. Without it, as while it gets its system.
    #[arg(long, value_name = "NAME")]
    inspection: Option<Word>,
    /// While the machine gets its system. Without it, as while nobody uses it.
    #[arg(long, value_name = "NAME")]
    provisioning: Option<Word>,
    /// While its disks are wiped. Without it, as while it gets its system.
    #[arg(long, value_name = "NAME")]
    cleaning: Option<Word>,
    /// While a rescue system runs. Without it, as while it gets its system.
    #[arg(long, value_name = "NAME")]
    rescue: Option<Word>,
    /// While its system works for its users.
    #[arg(long, value_name = "NAME")]
    user: Option<Word>,
}

impl PhaseArguments {
    fn phases(self) -> BTreeMap<PortPhase, Option<Word>> {
        let Self { idle, inspection, provisioning, cleaning, rescue, user } = self;
        let all = [
            (PortPhase::Idle, idle),
            (PortPhase::Inspection, inspection),
            (PortPhase::Provisioning, provisioning),
            (PortPhase::Cleaning, cleaning),
            (PortPhase::Rescue, rescue),
            (PortPhase::User, user),
        ];
        let told = all.into_iter().filter_map(|(phase, name)| Some((phase, name?)));
        told.map(|(phase, name)| (phase, Some(name).filter(|name| name.as_str() != "none")))
            .collect()
    }
}

/// Arguments of `set`.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// The ports, as SWITCH/PORT.
    #[arg(required = true)]
    ports: Vec<PortKey>,
    /// The configuration that they have whatever their machines do.
    #[arg(long, value_name = "NAME")]
    configuration: Option<Word>,
    /// The machine that the port serves, with --card.
    #[arg(long, value_name = "SERIAL", requires = "card")]
    machine: Option<Serial>,
    /// The card of the machine, by its Ethernet address.
    #[arg(long, value_name = "ADDRESS", requires = "machine")]
    card: Option<MacAddress>,
    #[command(flatten)]
    phases: PhaseArguments,
    #[command(flatten)]
    job: JobArguments,
}

/// Arguments of `policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArguments {
    /// Only for machines with this role.
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    #[command(flatten)]
    phases: PhaseArguments,
    /// The answer to changes by somebody else.
    #[arg(long, value_enum, value_name = "repair|tell")]
    on_drift: Option<Drift>,
    /// The effect of a switch that is not reached on what is wanted of a machine.
    #[arg(long, value_enum, value_name = "fail|hold")]
    on_dead_switch: Option<DeadSwitch>,
    #[command(flatten)]
    job: JobArguments,
}

/// The answer to changes by somebody else.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Drift {
    /// They are set again, a few times; then an alarm tells.
    Repair,
    /// An alarm tells.
    Tell,
}

/// The effect of a switch that is not reached.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DeadSwitch {
    /// The job fails.
    Fail,
    /// The job waits for it.
    Hold,
}

/// The verbs of `gnt port-configuration`.
#[derive(Debug, Subcommand)]
pub(crate) enum PortConfiguration {
    /// Add a configuration. It never changes: make another one, and link that.
    Add(Box<AddArguments>),
    /// Remove a configuration that nothing names.
    Remove {
        /// Its name.
        name: Word,
        #[command(flatten)]
        job: JobArguments,
    },
    /// List configurations.
    List {
        /// Only these.
        names: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about configurations.
    #[command(visible_alias = "show")]
    Info {
        /// Only these.
        names: Vec<String>,
        /// Print a JSON list with an object for each.
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `port-configuration add`.
#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// Its name.
    name: Word,
    /// The VLAN of packets without a tag: 1 to 4094, or the name of a network that has one.
    #[arg(long, value_name = "VLAN|NETWORK", value_parser = vlan_of)]
    untagged: Option<VlanOf>,
    /// The VLANs of packets with a tag, such as `6-10,20`.
    #[arg(long, value_name = "VLANS")]
    tagged: Option<VlanSet>,
    /// Networks whose VLANs are tagged, too.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    tagged_networks: Vec<Word>,
    /// File with a list of rules for packets that come in, in JSON.
    #[arg(long, value_name = "FILE")]
    acl_file: Option<PathBuf>,
    /// Largest packet in bytes.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,
    /// The port carries nothing.
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    job: JobArguments,
}

fn vlan_of(text: &str) -> Result<VlanOf, String> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return text.parse().map(VlanOf::Number).map_err(|error| format!("{error}"));
    }
    text.parse().map(VlanOf::Network).map_err(|error| format!("{error}"))
}

/// Carries out one verb of `gnt port`.
pub(crate) fn run(verb: Port, session: &Session) -> Result<(), CliError> {
    match verb {
        Port::List { ports, list } => {
            let chosen = list.chosen(&ports, Named::By("name"))?;
            list.print(What::Port, list.fields(&USUAL), &chosen, session)
        }
        Port::ListFields(arguments) => arguments.print(What::Port, session),
        Port::Info { ports, json } => info(What::Port, &ports, json, session),
        Port::Set(arguments) => set(*arguments, session),
        Port::Clear { ports, card, job } => {
            let phases = PortPhase::ALL.into_iter().map(|phase| (phase, None)).collect();
            let configuration = Some(OrNone::None(NoneWord::None));
            let serves = card.then_some(OrNone::None(NoneWord::None));
            let op = PortSetParams { ports, serves, configuration, phases };
            job.run(OpCode::PortSetParams(op), session).map(drop)
        }
        Port::Reset { ports, job } => reset(ports, &job, session),
        Port::Policy(arguments) => {
            let PolicyArguments { role, phases, on_drift, on_dead_switch, job } = arguments;
            let on_drift = on_drift.map(|what| match what {
                Drift::Repair => OnDrift::Repair,
                Drift::Tell => OnDrift::Tell,
            });
            let on_dead_switch = on_dead_switch.map(|what| match what {
                DeadSwitch::Fail => OnDeadSwitch::Fail,
                DeadSwitch::Hold => OnDeadSwitch::Hold,
            });
            let op = PortPolicySet { role, phases: phases.phases(), on_drift, on_dead_switch };
            job.run(OpCode::PortPolicySet(op), session).map(drop)
        }
    }
}

fn set(arguments: SetArguments, session: &Session) -> Result<(), CliError> {
    let SetArguments { ports, configuration, machine, card, phases, job } = arguments;
    let served = machine.zip(card).map(|(serial, mac)| Served { serial, mac });
    let configuration = configuration.map(|name| match name.as_str() {
        "none" => OrNone::None(NoneWord::None),
        _ => OrNone::Some(name),
    });
    let serves = served.map(OrNone::Some);
    let op = PortSetParams { ports, serves, configuration, phases: phases.phases() };
    job.run(OpCode::PortSetParams(op), session).map(drop)
}

/// Says which card a port serves.
pub(crate) fn serve(
    port: PortKey,
    served: Served,
    job: &JobArguments,
    session: &Session,
) -> Result<(), CliError> {
    let serves = Some(OrNone::Some(served));
    let (ports, phases) = (vec![port], BTreeMap::new());
    let op = PortSetParams { ports, serves, configuration: None, phases };
    job.run(OpCode::PortSetParams(op), session).map(drop)
}

/// One job for each switch.
fn reset(ports: Vec<PortKey>, job: &JobArguments, session: &Session) -> Result<(), CliError> {
    let mut by_switch: BTreeMap<Word, Vec<Word>> = BTreeMap::new();
    for key in ports {
        by_switch.entry(key.switch).or_default().push(key.port);
    }
    for (switch, ports) in by_switch {
        let op = SwitchSettle { switch_name: switch.to_string(), ports, reset: true };
        job.run(OpCode::SwitchSettle(op), session)?;
    }
    Ok(())
}

/// Carries out one verb of `gnt port-configuration`.
pub(crate) fn run_configuration(
    verb: PortConfiguration,
    session: &Session,
) -> Result<(), CliError> {
    let what = What::PortConfiguration;
    match verb {
        PortConfiguration::Add(arguments) => add(*arguments, session),
        PortConfiguration::Remove { name, job } => {
            let op = PortConfigurationRemove { configuration_name: name.to_string() };
            job.run(OpCode::PortConfigurationRemove(op), session).map(drop)
        }
        PortConfiguration::List { names, list } => {
            let chosen = list.chosen(&names, Named::By("name"))?;
            list.print(what, list.fields(&CONFIGURATIONS), &chosen, session)
        }
        PortConfiguration::ListFields(arguments) => arguments.print(what, session),
        PortConfiguration::Info { names, json } => info(what, &names, json, session),
    }
}

fn add(arguments: AddArguments, session: &Session) -> Result<(), CliError> {
    let AddArguments { name, untagged, tagged, tagged_networks, acl_file, mtu, disabled, job } =
        arguments;
    let acl: Vec<AclRule> = match acl_file {
        None => Vec::new(),
        Some(file) => serde_json::from_str(&read_input(&file)?)
            .map_err(|error| CliError::wrong_input(format!("{}: {error}", file.display())))?,
    };
    let tagged = tagged.unwrap_or_default();
    let wanted = Wanted { untagged, tagged, tagged_networks, acl, mtu, disabled };
    let op = PortConfigurationAdd { configuration_name: name, wanted };
    job.run(OpCode::PortConfigurationAdd(op), session).map(drop)
}
