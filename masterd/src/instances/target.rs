//! The node to which an instance goes.

use model::error::ErrorCode;
use model::instance::Instance;
use model::node::Node;
use model::{Exception, NodeName};

use super::allocator::built_in::{Wish, choose};
use super::allocator::{self, Allocator};
use super::capacity::{AllFacts, Extent, Share, broken, fits, may_host, sizes};
use super::copies::{self, rules::MIRROR};
use crate::config::Config;
use crate::units::{Context, Failure, wrong};

/// Disk templates whose disks every node reaches.
const ANYWHERE: [&str; 6] = ["diskless", "sharedfile", "blockdev", "rbd", "ext", "gluster"];

/// The word for taking an instance to another node while it stands still.
pub(super) const FAILOVER: &str = "failover";

/// A client's words on the place where an instance is to go.
#[derive(Debug, Clone, Copy)]
pub(super) struct TargetAsked<'a> {
    pub(super) target_node: Option<&'a str>,
    pub(super) target_node_uuid: Option<&'a str>,
    pub(super) iallocator: Option<&'a str>,
    pub(super) ignore_ipolicy: bool,
    /// The word for what is done, in refusals.
    pub(super) verb: &'static str,
}

/// Refuses what takes an instance elsewhere that cannot go: its disks are on its node.
///
/// # Errors
/// They are.
pub(super) fn goes_anywhere(instance: &Instance, verb: &str) -> Result<(), Exception> {
    let template = instance.disk_template.as_str();
    if ANYWHERE.contains(&template) {
        return Ok(());
    }
    let text = format!(
        "Instance's disk layout '{template}' does not allow {verb}; `gnt instance move {}` takes it to \
         another node with its disks, and stops it meanwhile",
        instance.name
    );
    Err(Exception::prereq(text, ErrorCode::WrongState))
}

/// The node that has whole copies of all disks of an instance.
///
/// # Errors
/// None has.
pub(super) fn with_copies<'c>(
    config: &'c Config,
    instance: &Instance,
) -> Result<&'c Node, Exception> {
    let others = copies::others(config, instance);
    let [other] = others.as_slice() else {
        let text = format!("Instance {} has no copies of its disks on one node", instance.name);
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    };
    let mut disks = config.disks_of(instance).enumerate();
    let stale = disks.find_map(|(place, disk)| Some((place, *disk.stale.get(*other)?)));
    if let Some((place, since)) = stale {
        let text = format!(
            "The copy of disk/{place} of instance {} on {other} lacks writes since {since}; it is filled while \
             the instance runs",
            instance.name
        );
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    config.node(other.as_str()).map(AsRef::as_ref)
}

/// The node that an instance goes to: a program chooses it where one is to.
///
/// # Errors
/// None may have it.
pub(super) async fn found(
    context: &Context,
    config: &Config,
    instance: &Instance,
    asked: TargetAsked<'_>,
) -> Result<NodeName, Failure> {
    let facts = context.contacts().facts();
    let named = asked.iallocator.filter(|name| !name.is_empty());
    let program = match asked.target_node {
        Some(_) if named.is_some() => {
            return Err(wrong("Do not specify both, iallocator and node").into());
        }
        Some(_) => None,
        None => Allocator::program(asked.iallocator, config),
    };
    let Some(program) = program.filter(|_| instance.disk_template != MIRROR) else {
        return Ok(target(config, &facts, instance, asked)?.name.clone());
    };
    goes_anywhere(instance, asked.verb)?;
    let node = allocator::other_node(context, &program, instance).await?;
    let asked = TargetAsked { target_node: Some(node.as_str()), target_node_uuid: None, ..asked };
    Ok(target(config, &facts, instance, asked)?.name.clone())
}

/// The named node, or one that the built-in allocator chooses.
///
/// # Errors
/// None may have it.
fn target<'c>(
    config: &'c Config,
    facts: &AllFacts,
    instance: &Instance,
    asked: TargetAsked<'_>,
) -> Result<&'c Node, Exception> {
    let own = config.node(instance.primary_node.as_str())?;
    let copies = match instance.disk_template.as_str() {
        MIRROR if asked.verb == FAILOVER => Some(with_copies(config, instance)?),
        _ => {
            goes_anywhere(instance, asked.verb)?;
            None
        }
    };
    let settings = config.settings_on(own);
    let share = Share::of(instance, &settings, 0);
    let named = asked.target_node.map(|name| config.node_with(name, asked.target_node_uuid));
    let node = match named.transpose()? {
        Some(node) if node.name == own.name => {
            let text = format!("Instance {} is already on node {}", instance.name, own.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState));
        }
        Some(node) if copies.is_some_and(|copies| copies.name != node.name) => {
            let text = format!(
                "Instance {} can go to {} alone, which has copies of its disks",
                instance.name,
                copies.map_or("no node", |node| node.name.as_str())
            );
            return Err(wrong(text));
        }
        Some(node) => {
            may_host(node, "target")?;
            fits(config, node, facts.get(&node.name).map(AsRef::as_ref), share, None)?;
            node
        }
        None if let Some(copies) = copies => {
            may_host(copies, "target")?;
            fits(config, copies, facts.get(&copies.name).map(AsRef::as_ref), share, None)?;
            copies
        }
        None => {
            // An instance goes elsewhere within its group.
            let group = Some(config.group_of(own));
            let extent = Extent::of(instance, &settings, &sizes(config, instance));
            let extent = Some(&extent).filter(|_| !asked.ignore_ipolicy);
            choose(config, facts, Wish { share, extent, group, not: Some(own) })?
        }
    };
    within_policy(config, node, instance, asked.ignore_ipolicy)?;
    Ok(node)
}

/// Refuses a node whose group has a policy that the instance breaks.
///
/// # Errors
/// It breaks it, and that matters.
pub(super) fn within_policy(
    config: &Config,
    node: &Node,
    instance: &Instance,
    ignored: bool,
) -> Result<(), Exception> {
    let broken = broken(instance, &config.settings_on(node), &sizes(config, instance));
    if !broken.is_empty() && !ignored {
        let group = config.group_of(node);
        let text = format!(
            "Instance does not meet target node group's ({}) instance policy: {}",
            group.name,
            broken.join(", ")
        );
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    Ok(())
}
