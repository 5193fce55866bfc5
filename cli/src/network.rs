//! `gnt network`.

mod change;
mod document;
mod info;
mod render;

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use luxi::method::{Query, What};

use model::network::{NicMode, Owner};
use model::opcode::network::ClaimSpec;
use model::opcode::{
    NetworkClaim, NetworkConnect, NetworkDisconnect, NetworkRelease, NetworkRemove,
};
use model::{OpCode, Word};

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::selection::Selection;
use crate::session::{Session, read_input};
use crate::submit::JobArguments;
use crate::tags::{self, Tagged, TagsArguments};

/// The fields that `list` shows by default.
const USUAL: [&str; 6] = ["name", "network", "gateway", "mac_prefix", "group_list", "tags"];
/// What `list-claims` shows.
const CLAIMS: [&str; 5] = ["network", "owner", "state", "addresses", "ctime"];

/// The verbs of `gnt network`.
#[derive(Debug, Subcommand)]
pub(crate) enum Network {
    /// Add a network, or all networks of a file.
    Add(Box<change::AddArguments>),
    /// Change a network. An address in use is never cut off.
    Modify(Box<change::ModifyArguments>),
    /// Remove a network.
    Remove {
        /// Its name or UUID.
        network: String,
        /// Also with its claims.
        #[arg(short = 'f', long)]
        force: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// List networks.
    List {
        /// Only these.
        networks: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about networks: addresses in use and free, groups, claims.
    #[command(visible_alias = "show")]
    Info {
        /// Only these.
        networks: Vec<String>,
        /// Print a JSON list with an object for each; times are seconds since the epoch.
        #[arg(long)]
        json: bool,
    },
    /// Tell how the nodes of groups reach a network.
    Connect(ConnectArguments),
    /// Take a network away from node groups.
    Disconnect {
        /// The network.
        network: String,
        /// The node groups; all of them where none is given.
        groups: Vec<String>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Print the files that configure a machine's network.
    Render(render::RenderArguments),
    /// Print what another version of its template would change at a machine.
    Diff(render::DiffArguments),
    /// Claim an address of a network for an owner; again gives the same one.
    Claim {
        /// The network.
        network: Word,
        /// Who claims: `machine:SERIAL`, or any name.
        owner: Owner,
        /// The address that is wanted; without it the pools give one.
        #[arg(long, value_name = "ADDRESS")]
        address: Option<IpAddr>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Give the address of an owner back.
    Release {
        /// The network.
        network: Word,
        /// Whose claim ends.
        owner: Owner,
        #[command(flatten)]
        job: JobArguments,
    },
    /// List claims: who has which address, and who waits for one.
    ListClaims {
        /// Only those of these owners.
        owners: Vec<String>,
        /// Only those of this network; may be given several times.
        #[arg(long = "network", value_name = "NAME")]
        networks: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list-claims` can show.
    ListClaimFields(ListFieldsArguments),
    /// Claim addresses that are in use already: all of a file, or none.
    ImportClaims {
        /// A ConfigMap in YAML, whose `data` has addresses by network and owner; `-` reads standard input.
        #[arg(short = 'f', long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        job: JobArguments,
    },
    /// List the tags of a network.
    ListTags {
        /// Its name.
        name: String,
    },
    /// Add tags to a network.
    AddTags(TagsArguments),
    /// Remove tags of a network.
    RemoveTags(TagsArguments),
}

/// Arguments of `connect`.
#[derive(Debug, Args)]
pub(crate) struct ConnectArguments {
    /// The network.
    network: String,
    /// The node groups; all of them where none is given.
    groups: Vec<String>,
    /// How nodes reach it: `mode=bridged|routed|openvswitch,link=NAME`, and `vlan=NUMBER` where wanted.
    #[arg(short = 'N', long, value_name = "KEY=VALUE,...", required = true)]
    nic_parameters: String,
    /// Taken for Ganeti's scripts: there are no instances that could conflict.
    #[arg(long)]
    no_conflicts_check: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// Carries out one verb.
pub(crate) fn run(verb: Network, session: &Session) -> Result<(), CliError> {
    match verb {
        Network::Add(arguments) => change::add(*arguments, session),
        Network::Modify(arguments) => change::modify(*arguments, session),
        Network::Remove { network, force, job } => {
            let remove = NetworkRemove { network_name: network, force };
            job.run(OpCode::NetworkRemove(remove), session).map(drop)
        }
        Network::List { networks, list } => {
            let chosen = list.chosen(&networks, Named::By("name"))?;
            list.print(What::Network, list.fields(&USUAL), &chosen, session)
        }
        Network::ListFields(arguments) => arguments.print(What::Network, session),
        Network::Info { networks, json } => info::run(&networks, json, session),
        Network::Connect(arguments) => connect(arguments, session),
        Network::Disconnect { network, groups, job } => {
            let disconnect =
                |group_name| NetworkDisconnect { group_name, network_name: network.clone() };
            let groups = groups_or_all(groups, session)?.into_iter().map(disconnect);
            job.run_all(groups.map(OpCode::NetworkDisconnect).collect(), session)
        }
        Network::Render(arguments) => render::render(&arguments, session),
        Network::Diff(arguments) => render::diff(&arguments, session),
        Network::Claim { network, owner, address, job } => {
            let claims = vec![ClaimSpec { network, owner, address }];
            job.run(OpCode::NetworkClaim(NetworkClaim { claims }), session).map(drop)
        }
        Network::Release { network: network_name, owner, job } => {
            let release = NetworkRelease { network_name, owner };
            job.run(OpCode::NetworkRelease(release), session).map(drop)
        }
        Network::ListClaims { owners, networks, list } => {
            let networks = networks.iter().map(|name| name.as_str().into()).collect();
            let chosen = list.chosen(&owners, Named::By("owner"))?.with("network", networks);
            list.print(What::Claim, list.fields(&CLAIMS), &chosen, session)
        }
        Network::ListClaimFields(arguments) => arguments.print(What::Claim, session),
        Network::ImportClaims { file, job } => {
            let claims = document::claims(&file, &read_input(&file)?)?;
            job.run(OpCode::NetworkClaim(NetworkClaim { claims }), session).map(drop)
        }
        Network::ListTags { name } => tags::list(Tagged::Network, &name, session),
        Network::AddTags(arguments) => tags::add(Tagged::Network, arguments, session),
        Network::RemoveTags(arguments) => tags::remove(Tagged::Network, arguments, session),
    }
}

fn groups_or_all(groups: Vec<String>, session: &Session) -> Result<Vec<String>, CliError> {
    if !groups.is_empty() {
        return Ok(groups);
    }
    let chosen = Selection::all();
    let query = Query { what: What::Group, fields: ["name"].into(), filter: chosen.filter() };
    let table = session.ask(&query)?;
    let names = table.data.iter().filter_map(|row| row.first()?.value()?.as_str());
    Ok(names.map(str::to_owned).collect())
}

fn connect(arguments: ConnectArguments, session: &Session) -> Result<(), CliError> {
    let ConnectArguments { network, groups, nic_parameters, no_conflicts_check, job } = arguments;
    let (mode, link, vlan) = nic(&nic_parameters)?;
    let connect = |group_name| NetworkConnect {
        group_name,
        network_name: network.clone(),
        network_mode: mode,
        network_link: link.clone(),
        network_vlan: vlan.clone(),
        conflicts_check: !no_conflicts_check,
    };
    let groups = groups_or_all(groups, session)?.into_iter().map(connect);
    job.run_all(groups.map(OpCode::NetworkConnect).collect(), session)
}

/// Mode, link and VLAN of Ganeti's text.
fn nic(text: &str) -> Result<(NicMode, Word, String), CliError> {
    let wrong = |why: String| CliError::Usage(format!("--nic-parameters `{text}`: {why}"));
    let (mut mode, mut link, mut vlan) = (None, None, String::new());
    for pair in text.split(',') {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| wrong(format!("`{pair}` is no KEY=VALUE")))?;
        match key {
            "mode" => {
                mode = Some(match value {
                    "bridged" => NicMode::Bridged,
                    "routed" => NicMode::Routed,
                    "openvswitch" => NicMode::Openvswitch,
                    _ => return Err(wrong("mode is bridged, routed or openvswitch".to_owned())),
                });
            }
            "link" => link = Some(value.parse().map_err(|error| wrong(format!("{error}")))?),
            "vlan" => value.clone_into(&mut vlan),
            _ => return Err(wrong(format!("`{key}` is none of mode, link and vlan"))),
        }
    }
    match (mode, link) {
        (Some(mode), Some(link)) => Ok((mode, link, vlan)),
        _ => Err(wrong("mode and link are needed".to_owned())),
    }
}
