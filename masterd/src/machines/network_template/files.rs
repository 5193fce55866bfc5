//! Core: the files of a machine's network, from the template of its role.

use hostnet::{Format, OsNetConfig, RenderedFile};
use model::error::ErrorCode;
use model::host::HostNetwork;
use model::host::link::LinkName;
use model::machine::Machine;
use model::network::{ClaimKey, Owner, TemplateKey};
use model::{Exception, Word};

use super::{Facts, render};
use crate::config::Config;

/// The files of a machine's network.
///
/// # Errors
/// There is no template for it, an address is missing, or the format cannot say what it asks for.
pub(crate) fn files(
    config: &Config,
    serial: &str,
    version: Option<u32>,
    format: Format,
) -> Result<Vec<RenderedFile>, Exception> {
    let machine = config.machine(serial)?;
    let wanted = version.or(machine.network_template);
    let template = match (wanted, machine.role.parse()) {
        (Some(version), Ok(name)) => {
            config.network_templates.get(&TemplateKey { name, version }).cloned()
        }
        _ => config.newest_template(&machine.role),
    };
    let role = &machine.role;
    let template = template.ok_or_else(|| {
        if let Some(version) = version {
            let text = format!("network template {role} has no version {version}");
            return Exception::prereq(text, ErrorCode::UnknownEntity);
        }
        let text = format!(
            "machine '{serial}' has no network template; `gnt network-template upload {role} FILE` gives its \
             role one"
        );
        Exception::prereq(text, ErrorCode::UnknownEntity)
    })?;
    let refuse = |why: String| {
        Exception::prereq(
            format!("template {} for machine '{serial}': {why}", template.key()),
            ErrorCode::WrongState,
        )
    };
    let (text, used) = render(&template.text, &Facts::of_machine(config, machine));
    let owner = Owner::Machine(machine.serial.clone());
    let waits = |network: &&Word| {
        let key = ClaimKey { network: (*network).clone(), owner: owner.clone() };
        config.claims.get(&key).is_some_and(|claim| claim.is_waiting())
    };
    if let Some(network) = used.iter().find(waits) {
        return Err(refuse(format!(
            "it waits for an address of network {network}, whose pools are full"
        )));
    }
    let text = text.map_err(|error| refuse(error.to_string()))?;
    let OsNetConfig { network, fallback } = read_whole(&text).map_err(&refuse)?;
    let network = with_cards(network, machine);
    let fallback = fallback.map(|network| with_cards(network, machine));
    hostnet::render(format, &network, fallback.as_ref()).map_err(|why| refuse(why.to_string()))
}

/// A rendered template, in any form that is known.
pub(crate) fn read(text: &str) -> Result<HostNetwork, String> {
    read_whole(text).map(|config| config.network)
}

/// The same with what the host gets when that fails, of which os-net-config alone knows.
fn read_whole(text: &str) -> Result<OsNetConfig, String> {
    let config = hostnet::from_any_form(text).map_err(|why| quoted(&why.to_string(), text))?;
    config.network.check().map_err(|why| why.to_string())?;
    if let Some(fallback) = &config.fallback {
        fallback.check().map_err(|why| format!("fallback_config: {why}"))?;
    }
    Ok(config)
}

/// A reason that names a line, with what that line became.
fn quoted(why: &str, text: &str) -> String {
    let number = why.split_once("line ").map_or("", |(_, rest)| rest);
    let number = number.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let line = number.parse::<usize>().ok().and_then(|line| text.lines().nth(line.checked_sub(1)?));
    match line {
        Some(line) => format!("{why}: the rendered line is `{}`", line.trim()),
        None => why.to_owned(),
    }
}

/// The same with the cards that the operator named.
pub(crate) fn with_cards(network: HostNetwork, machine: &Machine) -> HostNetwork {
    let cards = machine.interfaces.iter();
    let cards =
        cards.filter_map(|(name, mac)| Some((LinkName::try_from(name.to_string()).ok()?, *mac)));
    network.with_cards(&cards.collect())
}
