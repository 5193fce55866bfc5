//! Core: the built-in allocator, which chooses the nodes of instances.

use std::sync::Arc;

use model::Exception;
use model::error::ErrorCode;
use model::group::{AllocPolicy, Group};
use model::node::Node;

use super::capacity::{AllFacts, Share, fits, may_host, taken};
use crate::config::Config;
use crate::units::wrong;

/// A wish for a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish<'w> {
    pub(crate) share: Share,
    /// The group that it must be in; none leaves that to the policies of groups.
    pub(crate) group: Option<&'w Group>,
    /// A node that it must not be.
    pub(crate) not: Option<&'w Node>,
}

/// Looks whether the allocator that is named, or else the cluster's, is this one.
///
/// # Errors
/// It is a program.
pub(crate) fn is_built_in(named: Option<&str>, config: &Config) -> Result<(), Exception> {
    let usual = config.instance_settings().default_iallocator.clone();
    let named = named.filter(|name| *name != ".").unwrap_or(&usual);
    match named.is_empty() {
        true => Ok(()),
        false => Err(wrong(format!(
            "this version runs no program for allocation, and so not `{named}`; leave it out for the built-in \
             one"
        ))),
    }
}

/// The node that is least loaded when the wish is met.
///
/// # Errors
/// None has room; the text says why the nearest one has not.
pub(crate) fn choose<'c>(
    config: &'c Config,
    facts: &AllFacts,
    wish: Wish<'_>,
) -> Result<&'c Arc<Node>, Exception> {
    let rank = |node: &Arc<Node>| match config.group_of(node).alloc_policy {
        AllocPolicy::Preferred => Some(0),
        AllocPolicy::LastResort => Some(1),
        AllocPolicy::Unallocable => wish.group.is_some().then_some(2),
    };
    let is_asked = |node: &&Arc<Node>| {
        wish.group.is_none_or(|group| config.group_of(node).uuid == group.uuid)
            && wish.not.is_none_or(|not| not.name != node.name)
    };
    let mut best: Option<(u8, f64, &Arc<Node>)> = None;
    let mut why_not: Option<Exception> = None;
    for node in config.nodes.values().filter(is_asked) {
        let Some(rank) = rank(node) else { continue };
        let facts = facts.get(&node.name);
        let has_room = may_host(node, "primary")
            .and_then(|()| fits(config, node, facts.map(AsRef::as_ref), wish.share, None));
        if let Err(error) = has_room {
            why_not.get_or_insert(error);
            continue;
        }
        let Some(facts) = facts else { continue };
        let mut share = taken(config, node, None);
        share += wish.share;
        let load = load(share.memory, facts.memory_total_mib)
            + load(share.vcpus, u64::from(facts.cpus))
            + load(share.disk, facts.disk_total_mib);
        if best.is_none_or(|(known, least, _)| (rank, load) < (known, least)) {
            best = Some((rank, load, node));
        }
    }
    best.map(|(_, _, node)| node).ok_or_else(|| {
        let why = why_not
            .map_or_else(|| "no node may have it".to_owned(), |error| error.message().to_owned());
        let text = format!("Can't compute nodes using the built-in allocator: {why}");
        Exception::prereq(text, ErrorCode::InsufficientResources)
    })
}

#[expect(clippy::cast_precision_loss, reason = "a load is compared, and needs no exact number")]
fn load(taken: u64, of: u64) -> f64 {
    taken as f64 / of.max(1) as f64
}
