//! `gnt network add` and `modify`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use model::network::{IpRange, Owner, Prefix, Strategy};
use model::opcode::network::OrNone;
use model::opcode::{NetworkAdd, NetworkSetParams};
use model::{OpCode, Word};

use super::document;
use crate::error::CliError;
use crate::session::{Session, read_input};
use crate::submit::JobArguments;

/// The arguments that `add` and `modify` have in common.
#[derive(Debug, Args)]
struct Common {
    /// Addresses to give out, in this order: FIRST-LAST or one address, separated by commas.
    #[arg(long = "pool", value_name = "RANGE", value_delimiter = ',')]
    pools: Option<Vec<IpRange>>,
    /// Addresses never to give out, separated by commas.
    #[arg(long, value_name = "RANGE", value_delimiter = ',')]
    add_reserved_ips: Option<Vec<IpRange>>,
    /// Addresses of name servers, separated by commas.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    dns: Option<Vec<IpAddr>>,
    /// First three bytes of Ethernet addresses of instances.
    #[arg(short = 'm', long, value_name = "PREFIX")]
    mac_prefix: Option<String>,
    /// Which free address is given: the lowest, any one, or the same for an owner that comes back.
    #[arg(long, value_name = "WORD")]
    strategy: Option<Give>,
    #[command(flatten)]
    job: JobArguments,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Give {
    /// The lowest.
    Sequential,
    /// A free one that nobody can foretell.
    Random,
    /// The same for an owner that comes back.
    Sticky,
}

impl From<Give> for Strategy {
    fn from(give: Give) -> Self {
        match give {
            Give::Sequential => Self::Sequential,
            Give::Random => Self::Random,
            Give::Sticky => Self::Sticky,
        }
    }
}

/// Arguments of `add`.
#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// Its name.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    name: Option<Word>,
    /// Networks in YAML instead, as the study of address management has them; `-` reads standard input.
    #[arg(short = 'f', long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The IPv4 network, such as 192.0.2.0/24. Without --pool all of it is given out.
    #[arg(long, value_name = "PREFIX")]
    network: Option<Prefix>,
    /// Its router.
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<IpAddr>,
    /// The IPv6 network. Without --network and --pool all of it is given out.
    #[arg(long, value_name = "PREFIX")]
    network6: Option<Prefix>,
    /// Its router.
    #[arg(long, value_name = "ADDRESS")]
    gateway6: Option<IpAddr>,
    /// A further subnet, with its router where it has one; may be given several times.
    #[arg(long = "subnet", value_name = "PREFIX[=ROUTER]", value_parser = subnet)]
    further: Vec<(Prefix, Option<IpAddr>)>,
    /// An address that is kept for an owner; may be given several times.
    #[arg(long = "keep", value_name = "OWNER=ADDRESS", value_parser = kept)]
    pre_allocated: Vec<(Owner, IpAddr)>,
    /// Largest packet in bytes.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,
    /// Its VLAN, 1 to 4094.
    #[arg(long, value_name = "NUMBER")]
    vlan: Option<u16>,
    /// Its tags, separated by commas.
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    tags: Vec<String>,
    /// Taken for Ganeti's scripts: addresses of nodes are never given out.
    #[arg(long, action = ArgAction::SetTrue)]
    no_conflicts_check: bool,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `modify`.
#[derive(Debug, Args)]
pub(crate) struct ModifyArguments {
    /// Its name or UUID.
    name: String,
    /// The router of the IPv4 network, or `none`.
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<OrNone<IpAddr>>,
    /// The IPv6 network, or `none`.
    #[arg(long, value_name = "PREFIX")]
    network6: Option<OrNone<Prefix>>,
    /// Its router, or `none`.
    #[arg(long, value_name = "ADDRESS")]
    gateway6: Option<OrNone<IpAddr>>,
    /// Addresses that are reserved no longer, separated by commas.
    #[arg(long, value_name = "RANGE", value_delimiter = ',')]
    remove_reserved_ips: Option<Vec<IpRange>>,
    /// An address that is kept for an owner; may be given several times.
    #[arg(long = "keep", value_name = "OWNER=ADDRESS", value_parser = kept)]
    kept: Vec<(Owner, IpAddr)>,
    /// An owner for which none is kept any longer; may be given several times.
    #[arg(long = "keep-no-more", value_name = "OWNER")]
    kept_no_more: Vec<Owner>,
    /// Largest packet in bytes, or `none`.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<OrNone<u16>>,
    /// Its VLAN, or `none`.
    #[arg(long, value_name = "NUMBER")]
    vlan: Option<OrNone<u16>>,
    /// Refuse the change if the network was changed since it had this serial number.
    #[arg(long, value_name = "NUMBER")]
    if_serial_no: Option<u64>,
    #[command(flatten)]
    common: Common,
}

fn kept(text: &str) -> Result<(Owner, IpAddr), String> {
    let (owner, address) = text.split_once('=').ok_or("expected OWNER=ADDRESS")?;
    let owner = owner.parse().map_err(|error| format!("{error}"))?;
    let address = model::network::range::parse(address).map_err(|error| error.to_string())?;
    Ok((owner, address))
}

fn subnet(text: &str) -> Result<(Prefix, Option<IpAddr>), String> {
    let (prefix, router) = match text.split_once('=') {
        Some((prefix, router)) => (prefix, Some(router)),
        None => (text, None),
    };
    let prefix = prefix.parse().map_err(|error| format!("{error}"))?;
    let router = router.map(model::network::range::parse).transpose();
    Ok((prefix, router.map_err(|error| error.to_string())?))
}

pub(super) fn add(arguments: AddArguments, session: &Session) -> Result<(), CliError> {
    let AddArguments { name, file, network, gateway, network6, gateway6, common, .. } = arguments;
    if let Some(file) = file {
        let ops = document::networks(&file, &read_input(&file)?)?;
        return common.job.run_all(ops.into_iter().map(OpCode::NetworkAdd).collect(), session);
    }
    let network_name = name.ok_or_else(|| CliError::Usage("give a name, or --file".to_owned()))?;
    let further = arguments.further.into_iter().map(|(Prefix(prefix), gateway)| (prefix, gateway));
    let further = once("--subnet", further.collect())?;
    let further = further.into_iter().map(|(prefix, gateway)| (Prefix(prefix), gateway)).collect();
    let op = NetworkAdd {
        network_name,
        network,
        gateway,
        network6,
        gateway6,
        mac_prefix: common.mac_prefix,
        add_reserved_ips: common.add_reserved_ips,
        conflicts_check: !arguments.no_conflicts_check,
        tags: arguments.tags,
        pools: common.pools,
        further,
        pre_allocated: once("--keep", arguments.pre_allocated)?,
        dns_servers: common.dns.unwrap_or_default(),
        mtu: arguments.mtu,
        vlan: arguments.vlan,
        strategy: common.strategy.map_or_else(Strategy::default, Strategy::from),
    };
    common.job.run(OpCode::NetworkAdd(op), session).map(drop)
}

/// The pairs by their keys; one that is given twice cannot be meant.
fn once<K: Ord + Display, V>(option: &str, pairs: Vec<(K, V)>) -> Result<BTreeMap<K, V>, CliError> {
    let mut all = BTreeMap::new();
    for (key, value) in pairs {
        let text = format!("{option}: {key} is given twice");
        if all.insert(key, value).is_some() {
            return Err(CliError::Usage(text));
        }
    }
    Ok(all)
}

pub(super) fn modify(arguments: ModifyArguments, session: &Session) -> Result<(), CliError> {
    let ModifyArguments { name, common, kept, kept_no_more, .. } = arguments;
    let kept = once("--keep", kept)?.into_iter();
    let kept = kept.map(|(owner, address)| (owner, Some(address)));
    let op = NetworkSetParams {
        network_name: name,
        gateway: arguments.gateway,
        network6: arguments.network6,
        gateway6: arguments.gateway6,
        mac_prefix: common.mac_prefix,
        add_reserved_ips: common.add_reserved_ips,
        remove_reserved_ips: arguments.remove_reserved_ips,
        pools: common.pools,
        pre_allocated: kept.chain(kept_no_more.into_iter().map(|owner| (owner, None))).collect(),
        dns_servers: common.dns,
        mtu: arguments.mtu,
        vlan: arguments.vlan,
        strategy: common.strategy.map(Strategy::from),
        if_serial_no: arguments.if_serial_no,
    };
    let nothing = NetworkSetParams {
        network_name: op.network_name.clone(),
        if_serial_no: op.if_serial_no,
        ..NetworkSetParams::default()
    };
    if op == nothing {
        return Err(CliError::Usage("give something to change; --help says what".to_owned()));
    }
    common.job.run(OpCode::NetworkSetParams(op), session).map(drop)
}
