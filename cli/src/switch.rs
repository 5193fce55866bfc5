//! `gnt switch`.

mod document;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use luxi::method::{GantrySeal, StagedSecret, What};
use model::opcode::network::OrNone;
use model::opcode::switch::Login;
use model::opcode::{SwitchAdd, SwitchRemove, SwitchSetParams, SwitchVerify};
use model::switch::{PortSpec, PortVerified, SwitchAccess, SwitchUrl, VlanSet};
use model::{MacAddress, NodeName, OpCode, Secret, Word};

use crate::all_fields;
use crate::details;
use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named, as_json};
use crate::output::{say, say_json, say_lines};
use crate::selection::Selection;
use crate::session::{Session, confirm, read_bytes, read_input};
use crate::submit::JobArguments;

/// The fields that `list` shows by default.
const USUAL: [&str; 6] = ["name", "provider", "state", "ports", "port_states", "url"];

/// The verbs of `gnt switch`.
#[derive(Debug, Subcommand)]
pub(crate) enum Switch {
    /// Add a switch, and read its ports; or all switches and configurations of a file.
    Add(Box<AddArguments>),
    /// Change how a switch is reached, and what its ports may be.
    Modify(Box<ModifyArguments>),
    /// Have the ports of a switch rest, and forget it.
    Remove {
        /// The switch.
        switch: Word,
        /// Forget it also where it does not answer: what its ports have stays there.
        #[arg(long)]
        force: bool,
        /// Do not ask.
        #[arg(short = 'f', long)]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Compare the ports of a switch with what they are to be, changing nothing.
    Verify {
        /// The switch.
        switch: Word,
        /// Print a JSON list with an object for each port.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// List switches.
    List {
        /// Only these.
        switches: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about switches.
    #[command(visible_alias = "show")]
    Info {
        /// Only these.
        switches: Vec<String>,
        /// Print a JSON list with an object for each.
        #[arg(long)]
        json: bool,
    },
}

/// How Gantry logs in.
#[derive(Debug, Args)]
pub(crate) struct LoginArguments {
    /// The user, where the switch has users.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// File with the password in its first line; `-` reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    password_file: Option<PathBuf>,
    /// File with our certificate, PEM, for a switch that speaks TLS.
    #[arg(long, value_name = "FILE", requires = "key_file")]
    certificate_file: Option<PathBuf>,
    /// File with the private key of it, PEM.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// File with the certificate of the authority that signed the switch's own, PEM.
    #[arg(long, value_name = "FILE")]
    authority_file: Option<PathBuf>,
}

/// Arguments of `add`.
#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// Its name.
    #[arg(required_unless_present = "file")]
    switch: Option<Word>,
    /// File in YAML with switches and configurations of ports, as Metal3's proposal writes them; `-` reads
    /// standard input.
    #[arg(
        short = 'f',
        long,
        value_name = "FILE",
        conflicts_with_all = ["switch", "url", "rack", "agents", "mac", "vlans", "ports", "all_ports"]
    )]
    file: Option<PathBuf>,
    /// How it is reached, such as `ovsdb+ssl://HOST#BRIDGE` or `command:PROGRAM`.
    #[arg(long, value_name = "URL", required_unless_present = "file")]
    url: Option<SwitchUrl>,
    /// A further word for its program; may be given several times.
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = option)]
    options: Vec<(Word, String)>,
    #[command(flatten)]
    login: LoginArguments,
    /// The rack whose agents reach it.
    #[arg(long, value_name = "NUMBER")]
    rack: Option<u32>,
    /// The nodes whose agents reach it, the first one first. Without these and --rack, that of the master.
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    agents: Vec<NodeName>,
    /// The Ethernet address by which LLDP names it.
    #[arg(long, value_name = "ADDRESS")]
    mac: Option<MacAddress>,
    /// The VLANs that its ports may be in, such as `1,6-10`. Without it, all.
    #[arg(long, value_name = "VLANS")]
    vlans: Option<VlanSet>,
    /// A port that Gantry sets: its name, and behind commas any of `real=NAME`, `vlans=1:6-10`, `disabled` and
    /// `no-trunk`; may be given several times.
    #[arg(long = "port", value_name = "PORT", value_parser = port)]
    ports: Vec<(Word, PortSpec)>,
    /// Set all ports that the switch tells.
    #[arg(long)]
    all_ports: bool,
    /// Do not ask the switch whether this is right.
    #[arg(long)]
    no_check: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// Arguments of `modify`.
#[derive(Debug, Args)]
pub(crate) struct ModifyArguments {
    /// The switch.
    switch: Word,
    /// How it is reached.
    #[arg(long, value_name = "URL")]
    url: Option<SwitchUrl>,
    /// A further word for its program: these take the place of all before.
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = option)]
    options: Vec<(Word, String)>,
    #[command(flatten)]
    login: LoginArguments,
    /// The rack whose agents reach it, or `none`.
    #[arg(long, value_name = "NUMBER")]
    rack: Option<OrNone<u32>>,
    /// The nodes whose agents reach it, or `none`.
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    agents: Option<Vec<String>>,
    /// The Ethernet address by which LLDP names it, or `none`.
    #[arg(long, value_name = "ADDRESS")]
    mac: Option<OrNone<MacAddress>>,
    /// The VLANs that its ports may be in.
    #[arg(long, value_name = "VLANS")]
    vlans: Option<VlanSet>,
    /// A port that Gantry sets from now on, or sets otherwise; as with `add`.
    #[arg(long = "port", value_name = "PORT", value_parser = port)]
    ports: Vec<(Word, PortSpec)>,
    /// A port that Gantry sets no more; it must rest.
    #[arg(long = "remove-port", value_name = "NAME")]
    removed: Vec<Word>,
    #[command(flatten)]
    job: JobArguments,
}

/// Reads `NAME[,real=NAME][,vlans=1:6-10][,disabled][,no-trunk]`.
fn port(text: &str) -> Result<(Word, PortSpec), String> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let name: Word = name.parse().map_err(|error| format!("{error}"))?;
    let mut spec = PortSpec::new(name.as_str());
    for part in parts {
        match part.split_once('=') {
            Some(("real", real)) => spec.name = real.to_owned(),
            Some(("vlans", vlans)) => {
                let vlans = vlans.replace(':', ",").parse();
                spec.vlans = Some(vlans.map_err(|error| format!("{error}"))?);
            }
            None if part == "disabled" => spec.disabled = true,
            None if part == "no-trunk" => spec.trunk = false,
            _ => return Err(format!("`{part}` is none of real=, vlans=, disabled and no-trunk")),
        }
    }
    Ok((name, spec))
}

/// Reads `KEY=VALUE`.
fn option(text: &str) -> Result<(Word, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.parse().map_err(|error| format!("{error}"))?, value.to_owned()))
}

fn first_line(path: &Path) -> Result<Vec<u8>, CliError> {
    let bytes = read_bytes(path)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
}

fn login(arguments: &LoginArguments, switch: &Word, session: &Session) -> Result<Login, CliError> {
    let LoginArguments { user, password_file, certificate_file, key_file, authority_file } =
        arguments;
    let secret = match (password_file, key_file) {
        (Some(file), _) => Some(first_line(file)?),
        (None, Some(file)) => Some(read_bytes(file)?),
        (None, None) => None,
    };
    let seal = |secret: Vec<u8>| {
        let secret = StagedSecret(Secret::new(STANDARD.encode(secret)));
        session.ask(&GantrySeal { purpose: SwitchAccess::purpose(switch), secret })
    };
    let text = |file: &Option<PathBuf>| file.as_deref().map(read_input).transpose();
    Ok(Login {
        user: user.clone(),
        sealed: secret.map(seal).transpose()?,
        certificate: text(certificate_file)?,
        authority: text(authority_file)?,
    })
}

/// Carries out one verb.
pub(crate) fn run(verb: Switch, session: &Session) -> Result<(), CliError> {
    match verb {
        Switch::Add(arguments) => add(*arguments, session),
        Switch::Modify(arguments) => modify(*arguments, session),
        Switch::Remove { switch, force, yes, job } => {
            let question = format!("Have all ports of switch {switch} rest, and forget it?");
            confirm(&question, yes || job.dry_run)?;
            let op = SwitchRemove { switch_name: switch.to_string(), force };
            job.run(OpCode::SwitchRemove(op), session).map(drop)
        }
        Switch::Verify { switch, json, job } => verify(&switch, json, &job, session),
        Switch::List { switches, list } => {
            let chosen = list.chosen(&switches, Named::By("name"))?;
            list.print(What::Switch, list.fields(&USUAL), &chosen, session)
        }
        Switch::ListFields(arguments) => arguments.print(What::Switch, session),
        Switch::Info { switches, json } => info(What::Switch, &switches, json, session),
    }
}

/// All there is to know about some objects.
pub(crate) fn info(
    what: What,
    names: &[String],
    json: bool,
    session: &Session,
) -> Result<(), CliError> {
    let chosen = Selection::named("name", names);
    let table = all_fields::ask(what, &chosen, &[], session)?;
    if json {
        say_json(&as_json(&table))?;
    } else if !table.data.is_empty() {
        let entries = all_fields::entries(what, &table, session, |_field, _cell| None);
        say_lines(&details::lines(entries))?;
    }
    chosen.all_in(what, &table)
}

fn add(arguments: AddArguments, session: &Session) -> Result<(), CliError> {
    if let Some(file) = &arguments.file {
        return add_all(file, &arguments, session);
    }
    let AddArguments { switch, url, options, login: how, rack, agents, mac, vlans, .. } = arguments;
    let (Some(switch), Some(url)) = (switch, url) else {
        return Err(CliError::Usage("name the switch, and give its --url".to_owned()));
    };
    let (ports, all_ports, no_check) = (arguments.ports, arguments.all_ports, arguments.no_check);
    let job = arguments.job;
    let login = login(&how, &switch, session)?;
    let op = SwitchAdd {
        switch_name: switch,
        url,
        login,
        options: options.into_iter().collect(),
        rack,
        agents,
        mac,
        vlans,
        ports: ports.into_iter().collect(),
        all_ports,
        unchecked: no_check,
    };
    job.run(OpCode::SwitchAdd(op), session).map(drop)
}

/// All switches and configurations of a file, as one job.
fn add_all(file: &Path, arguments: &AddArguments, session: &Session) -> Result<(), CliError> {
    let mut ops = document::opcodes(file, &read_input(file)?)?;
    for op in &mut ops {
        if let OpCode::SwitchAdd(op) = op {
            op.login = login(&arguments.login, &op.switch_name, session)?;
            op.unchecked = arguments.no_check;
        }
    }
    arguments.job.run_all(ops, session)
}

fn modify(arguments: ModifyArguments, session: &Session) -> Result<(), CliError> {
    let ModifyArguments { switch, url, options, login: how, rack, agents, mac, vlans, .. } =
        arguments;
    let (ports, removed, job) = (arguments.ports, arguments.removed, arguments.job);
    let options =
        Some(options.into_iter().collect()).filter(|all: &BTreeMap<_, _>| !all.is_empty());
    let agent = |name: &String| {
        name.parse::<NodeName>().map_err(|error| CliError::Usage(error.to_string()))
    };
    let agents = match agents {
        Some(names) if names == ["none"] => Some(Vec::new()),
        Some(names) => Some(names.iter().map(agent).collect::<Result<_, _>>()?),
        None => None,
    };
    let ports: BTreeMap<Word, Option<PortSpec>> = ports
        .into_iter()
        .map(|(name, spec)| (name, Some(spec)))
        .chain(removed.into_iter().map(|name| (name, None)))
        .collect();
    let login = login(&how, &switch, session)?;
    let switch_name = switch.to_string();
    let op = SwitchSetParams { switch_name, url, login, options, rack, agents, mac, vlans, ports };
    job.run(OpCode::SwitchSetParams(op), session).map(drop)
}

fn verify(
    switch: &Word,
    json: bool,
    job: &JobArguments,
    session: &Session,
) -> Result<(), CliError> {
    let op = SwitchVerify { switch_name: switch.to_string() };
    let Some(told) = job.run(OpCode::SwitchVerify(op), session)? else { return Ok(()) };
    if json {
        return say_json(&told);
    }
    let ports: Vec<PortVerified> = serde_json::from_value(told).unwrap_or_default();
    let mut bad = 0;
    for PortVerified { port, configuration, wanted, actual, good } in &ports {
        let none = || "-".to_owned();
        let actual = actual.clone().unwrap_or_else(|| "no such port".to_owned());
        let name = configuration.as_ref().map_or_else(none, ToString::to_string);
        let wanted = wanted.clone().unwrap_or_else(none);
        bad += usize::from(!good);
        let mark = if *good { "good" } else { "DIFFERS" };
        say(format_args!("{mark} {port}: {name} ({wanted}); on the switch {actual}"))?;
    }
    match bad {
        0 => Ok(()),
        bad => Err(CliError::Failed(format!("{bad} of {} ports differ", ports.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_written_in_a_line() {
        let (name, spec) = port("p1,real=eth1,vlans=1:6-10,no-trunk").unwrap();
        assert_eq!((name.as_str(), spec.name.as_str(), spec.trunk), ("p1", "eth1", false));
        assert_eq!(spec.vlans.unwrap().to_string(), "1,6-10");
        assert!(port("p2,disabled").unwrap().1.disabled);
        for wrong in ["", "a b", "p1,vlan=5", "p1,vlans=10-5", "p1,off"] {
            assert!(port(wrong).is_err(), "{wrong}");
        }
    }
}
