//! Opcodes on templates of hosts' networks, and what a host gets by one.

use std::collections::BTreeSet;
use std::sync::Arc;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::host::HostNetwork;
use model::host::link::{Kind, Link, LinkName};
use model::machine::Machine;
use model::network::template::{TEMPLATES_MAX, TEXT_BYTES_MAX, VERSIONS_MAX};
use model::network::{ClaimKey, NetworkTemplate, Owner, TemplateKey};
use model::opcode::network::ClaimSpec;
use model::opcode::{MachineReapply, NetworkTemplateAdd, NetworkTemplateRemove};
use model::{Exception, Serial, Timestamp, Uuid, Word};

use crate::config::queue::Decision;
use crate::config::{Config, ConfigChange};
use crate::machines::network::claim::{made, released};
use crate::machines::network_template::files::{read, with_cards};
use crate::machines::network_template::{Facts, render};
use crate::units::wrong;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// Times that a template is rendered for a machine until all networks that it asks for are known: each
/// time it may get one step further.
const ROUNDS: usize = 64;

impl LogicalUnit for NetworkTemplateAdd {
    type Plan = ();

    /// None: machines get it in its transaction, which excludes others.
    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let (now, config) = (context.now(), context.config());
        stdx::aside(|| add(self, &config, now, 0))?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<NetworkTemplate, Failure> {
        let (now, seed) = (context.now(), Uuid::new_v4().as_u128());
        let added = context.transact(move |config| add(&self, config, now, seed)).await?;
        let Added { template, given, waiting, older } = added;
        let networks: Vec<&str> = template.networks.iter().map(Word::as_str).collect();
        let (key, networks) = (template.key(), networks.join(", "));
        context.say(format!("{key} takes addresses of: {networks}")).await;
        context
            .say(format!("{given} machines have {key} now, {older} keep an older version"))
            .await;
        if waiting > 0 {
            context
                .say(format!("{waiting} machines wait for addresses; see gnt network list-claims"))
                .await;
        }
        Ok(template)
    }
}

/// The result of the upload of a template.
struct Added {
    template: NetworkTemplate,
    /// Machines that got it.
    given: usize,
    /// Those of them that wait for an address.
    waiting: usize,
    /// Machines that keep an older version.
    older: usize,
}

fn add(op: &NetworkTemplateAdd, config: &Config, now: Timestamp, seed: u128) -> Decision<Added> {
    let name = &op.template_name;
    if op.text.len() > TEXT_BYTES_MAX {
        let bytes = op.text.len();
        return Err(wrong(format!(
            "template {name} has {bytes} bytes; at most {TEXT_BYTES_MAX} are taken"
        )));
    }
    let versions: Vec<_> = config.template_versions(name).collect();
    if versions.is_empty() && config.network_templates.len() >= TEMPLATES_MAX * VERSIONS_MAX {
        return Err(wrong(format!("there are {TEMPLATES_MAX} templates, which is the limit")));
    }
    let (text, used) = render(&op.text, &Facts::sample(config));
    let text =
        text.map_err(|error| wrong(format!("template {name}, for a sample host: {error}")))?;
    read(&text).map_err(|why| wrong(format!("template {name}, for a sample host: {why}")))?;
    let version = versions.last().map_or(1, |last| last.version + 1);
    let template = NetworkTemplate {
        name: name.clone(),
        version,
        text: op.text.clone(),
        networks: used.into_iter().collect(),
        ctime: now,
    };
    let mut after = config.clone();
    let mut changes = vec![ConfigChange::NetworkTemplate(template.clone())];
    changes.extend(superfluous(config, &versions));
    after.apply(changes.clone());
    let (mut given, mut waiting, mut older) = (0, 0, 0);
    for machine in config.machines.by.role.of(Arc::from(name.as_str())) {
        if machine.network_template.is_some() {
            older += 1;
            // It is refused as long as one of its machines could not have it.
            assigned(&mut after.clone(), &machine.serial, &template, (now, seed))?;
            continue;
        }
        let Assigned { changes: more, waits } =
            assigned(&mut after, &machine.serial, &template, (now, seed))?;
        changes.extend(more);
        given += 1;
        waiting += usize::from(waits);
    }
    Ok((changes, Added { template, given, waiting, older }))
}

/// Old versions beyond those that are kept, and that no machine has.
fn superfluous(config: &Config, versions: &[&Arc<NetworkTemplate>]) -> Vec<ConfigChange> {
    let old = versions.len().saturating_sub(VERSIONS_MAX - 1);
    let unused =
        versions.iter().take(old).filter(|template| config.template_users(&template.key()) == 0);
    unused.map(|template| ConfigChange::NetworkTemplateRemoved(template.key())).collect()
}

/// The claims of a template's version for a host, and the network that it gives.
pub(crate) struct Resolved {
    /// New claims.
    pub(crate) changes: Vec<ConfigChange>,
    /// The networks that it takes addresses of.
    used: BTreeSet<Word>,
    /// The host's network; none while a claim waits for an address.
    pub(crate) network: Option<HostNetwork>,
}

/// Claims for a host what a template asks for. `after` is the state with the changes so far.
///
/// # Errors
/// The template is wrong for this host, or an address cannot be had.
pub(crate) fn resolved(
    after: &mut Config,
    owner: &Owner,
    facts: impl Fn(&Config) -> Facts,
    template: &NetworkTemplate,
    (now, seed): (Timestamp, u128),
) -> Result<Resolved, Exception> {
    let key = |network: &Word| ClaimKey { network: network.clone(), owner: owner.clone() };
    let refuse = |why: String| wrong(format!("template {} for {owner}: {why}", template.key()));
    let spec = |network: &Word| ClaimSpec {
        network: network.clone(),
        owner: owner.clone(),
        address: None,
    };
    let mut changes = Vec::new();
    for _round in 0..ROUNDS {
        let (text, used) = render(&template.text, &facts(after));
        let missing = used.iter().filter(|network| !after.claims.contains_key(&key(network)));
        let missing: Vec<ClaimSpec> = missing.map(spec).collect();
        if missing.is_empty() {
            if used.iter().any(|network| after.claims[&key(network)].is_waiting()) {
                return Ok(Resolved { changes, used, network: None });
            }
            let text = text.map_err(|error| refuse(error.to_string()))?;
            let network = read(&text).map_err(refuse)?;
            return Ok(Resolved { changes, used, network: Some(network) });
        }
        let (more, _claims) = made(after, &missing, now, seed)?;
        after.apply(more.clone());
        changes.extend(more);
    }
    Err(refuse(format!(
        "it asks for addresses of more than {ROUNDS} networks, one after the other"
    )))
}

/// The claims of a template's version for a machine.
pub(crate) struct Assigned {
    /// Claims, the ends of claims, and the machine.
    pub(crate) changes: Vec<ConfigChange>,
    /// Whether a claim waits for an address.
    pub(crate) waits: bool,
}

/// Gives a machine a version of a template: the addresses that it asks for, and none that only the version
/// before asked for. `after` is the state with the changes so far.
///
/// # Errors
/// The template is wrong for this machine.
pub(crate) fn assigned(
    after: &mut Config,
    serial: &Serial,
    template: &NetworkTemplate,
    moment: (Timestamp, u128),
) -> Result<Assigned, Exception> {
    let machine = Arc::clone(after.machine(serial.as_str())?);
    let owner = Owner::Machine(serial.clone());
    let facts = |config: &Config| Facts::of_machine(config, &machine);
    let Resolved { mut changes, used, network } = resolved(after, &owner, facts, template, moment)?;
    let waits = network.is_none();
    if let Some(network) = network {
        let refuse = |why: String| wrong(format!("template {} for {owner}: {why}", template.key()));
        let network = with_cards(network, &machine);
        network.check().map_err(|why| refuse(why.to_string()))?;
        if let Some(card) = missing_card(&network, &machine) {
            let has: Vec<&str> = machine.interfaces.keys().map(Word::as_str).collect();
            let has = has.join(", ");
            return Err(refuse(format!(
                "the machine has no card {card}, only {has}; \
                 gnt machine modify --interface {card}=ADDRESS {serial} names it"
            )));
        }
    }
    let dropped: Vec<Word> = asked(after, &machine).difference(&used).cloned().collect();
    changes.extend(dropped_by(after, &owner, &dropped, moment.1));
    let machine = Machine { network_template: Some(template.version), ..machine.as_ref().clone() };
    let change = ConfigChange::Machine(machine);
    after.apply([change.clone()]);
    changes.push(change);
    Ok(Assigned { changes, waits })
}

/// The networks of which the version that a machine has takes addresses.
fn asked(config: &Config, machine: &Machine) -> BTreeSet<Word> {
    let key = machine.network_template.and_then(|version| {
        let name = machine.role.parse().ok()?;
        Some(TemplateKey { name, version })
    });
    let template = key.and_then(|key| config.network_templates.get(&key));
    template
        .map(|template| render(&template.text, &Facts::of_machine(config, machine)).1)
        .unwrap_or_default()
}

/// Ends the claims of an owner on these networks.
fn dropped_by(
    after: &mut Config,
    owner: &Owner,
    networks: &[Word],
    seed: u128,
) -> Vec<ConfigChange> {
    let key = |network: &Word| ClaimKey { network: network.clone(), owner: owner.clone() };
    let claims: Vec<_> =
        networks.iter().filter_map(|n| after.claims.get(&key(n)).cloned()).collect();
    let ended = released(after, &claims, seed);
    after.apply(ended.clone());
    ended
}

/// Gives a machine the newest template of a role that is new to it, and ends the claims that only the
/// template of its role `before` asked for. `after` has the machine with its new role.
///
/// # Errors
/// The template is wrong for it.
pub(crate) fn with_new_role(
    after: &mut Config,
    before: &Machine,
    moment: (Timestamp, u128),
) -> Result<Vec<ConfigChange>, Exception> {
    let owner = Owner::Machine(before.serial.clone());
    let had = asked(after, before);
    let machine = after.machine(before.serial.as_str())?.as_ref().clone();
    let machine = Machine { network_template: None, ..machine };
    let mut changes = vec![ConfigChange::Machine(machine.clone())];
    after.apply(changes.clone());
    if let Some(template) = after.newest_template(&machine.role) {
        changes.extend(assigned(after, &machine.serial, &template, moment)?.changes);
    }
    let has = asked(after, after.machine(before.serial.as_str())?);
    let dropped: Vec<Word> = had.difference(&has).cloned().collect();
    changes.extend(dropped_by(after, &owner, &dropped, moment.1));
    Ok(changes)
}

/// Gives new machines the newest template of their role, where there is one. `after` has the machines.
///
/// # Errors
/// The template is wrong for one of them.
pub(crate) fn assigned_to_new(
    after: &mut Config,
    machines: &[Machine],
    moment: (Timestamp, u128),
) -> Result<Vec<ConfigChange>, Exception> {
    let mut changes = Vec::new();
    for machine in machines {
        let Some(template) = after.newest_template(&machine.role) else { continue };
        changes.extend(assigned(after, &machine.serial, &template, moment)?.changes);
    }
    Ok(changes)
}

/// A card that a network needs and a machine, whose cards the operator named, lacks: all machines of a role
/// have the same ones (Metal3's IPAM study).
fn missing_card<'a>(network: &'a HostNetwork, machine: &Machine) -> Option<&'a LinkName> {
    if machine.interfaces.is_empty() {
        return None;
    }
    let lacks = |link: &&Link| matches!(link.kind, Kind::Ethernet { permanent_mac: None });
    network.links.iter().find(lacks).map(|link| &link.name)
}

impl LogicalUnit for NetworkTemplateRemove {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        removal(self, &context.config())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        context.transact(move |config| Ok((removal(&self, config)?, ()))).await
    }
}

fn removal(op: &NetworkTemplateRemove, config: &Config) -> Result<Vec<ConfigChange>, Exception> {
    let name = &op.template_name;
    let meant =
        config.template_versions(name).filter(|t| op.version.is_none_or(|v| v == t.version));
    let meant: Vec<TemplateKey> = meant.map(|template| template.key()).collect();
    if meant.is_empty() {
        let text = match op.version {
            Some(version) => format!("Network template '{name}/{version}' not known"),
            None => format!("Network template '{name}' not known"),
        };
        return Err(Exception::prereq(text, ErrorCode::UnknownEntity));
    }
    for key in &meant {
        let users = config.template_users(key);
        if users > 0 {
            let text = format!("{users} machines have network template {key}");
            return Err(Exception::prereq(text, ErrorCode::WrongState));
        }
    }
    Ok(meant.into_iter().map(ConfigChange::NetworkTemplateRemoved).collect())
}

impl LogicalUnit for MachineReapply {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        let machine = config.machine(&self.serial)?;
        Ok(match level {
            Level::Machine => {
                vec![(LockName::member(level, machine.serial.as_str()), Mode::Exclusive)]
            }
            _ => Vec::new(),
        })
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let (now, config) = (context.now(), context.config());
        reapply(self, &config, now, 0)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Machine, Failure> {
        let (now, seed) = (context.now(), Uuid::new_v4().as_u128());
        let (machine, waits) =
            context.transact(move |config| reapply(&self, config, now, seed)).await?;
        if let Some(version) = machine.network_template {
            context
                .say(format!("{} has network template {}/{version}", machine.serial, machine.role))
                .await;
        }
        if waits {
            context.say("it waits for an address; see gnt network list-claims").await;
        }
        Ok(machine)
    }
}

/// The machine with the newest version of the network template of its role, and whether it waits for an
/// address.
///
/// # Errors
/// There is none, or it is wrong for the machine.
pub(crate) fn reapply(
    op: &MachineReapply,
    config: &Config,
    now: Timestamp,
    seed: u128,
) -> Decision<(Machine, bool)> {
    let machine = config.machine(&op.serial)?;
    let template = config.newest_template(&machine.role).ok_or_else(|| {
        let text = format!("role `{}` has no network template", machine.role);
        Exception::prereq(text, ErrorCode::UnknownEntity)
    })?;
    let mut after = config.clone();
    let assigned = assigned(&mut after, &machine.serial, &template, (now, seed))?;
    let machine = after.machine(&op.serial)?.as_ref().clone();
    Ok((assigned.changes, (machine, assigned.waits)))
}

#[cfg(test)]
mod tests;
