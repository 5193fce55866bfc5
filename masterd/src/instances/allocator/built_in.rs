//! Core: the built-in allocator. It takes the node with which the group is balanced best, by the measure of
//! Ganeti's htools, so that `hbal` finds nothing to mend behind it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::error::ErrorCode;
use model::group::{AllocPolicy, Group};
use model::instance::policy::Policy;
use model::node::{Node, NodeRole};
use model::{Exception, NodeName};

use crate::config::Config;
use crate::instances::capacity::{AllFacts, Extent, Share, fits_beside, may_host, number, taken};

/// A wish for a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish<'w> {
    pub(crate) share: Share,
    /// What policies of groups limit; none breaks no limit.
    pub(crate) extent: Option<&'w Extent>,
    /// The group that it must be in; none leaves that to the policies of groups.
    pub(crate) group: Option<&'w Group>,
    /// A node that it must not be.
    pub(crate) not: Option<&'w Node>,
}

/// How many figures of a node are balanced.
const FIGURES: usize = 5;
/// Their weights: processors, memory, disks and network are loaded by each instance alike, as long as nobody
/// measures it.
const WEIGHTS: [f64; FIGURES] = [1.0, 1.0, 1.0, 1.0, 4.0];

/// How full a node is: the free part of its memory and disk, virtual processors by real ones, the part of
/// spindles in use, and the number of instances.
type Figures = [f64; FIGURES];

/// The figures of the nodes of a group, as sums: what one more instance changes needs no second look at the
/// others.
#[derive(Debug, Clone, Copy, Default)]
struct Balance {
    nodes: f64,
    sums: Figures,
    squares: Figures,
}

impl Balance {
    fn add(&mut self, figures: &Figures) {
        self.nodes += 1.0;
        for ((figure, sum), square) in figures.iter().zip(&mut self.sums).zip(&mut self.squares) {
            *sum += figure;
            *square += figure * figure;
        }
    }

    /// The weighted sum of standard deviations where one node has other figures: the less, the better.
    fn score(&self, before: &Figures, after: &Figures) -> f64 {
        let sums = self.sums.iter().zip(&self.squares);
        let changes = before.iter().zip(after).zip(WEIGHTS);
        let deviation = |((sum, square), ((before, after), weight))| {
            let (sum, square): (&f64, &f64) = (sum, square);
            let (before, after): (&f64, &f64) = (before, after);
            let mean = (sum - before + after) / self.nodes;
            let square = square - before * before + after * after;
            weight * (square / self.nodes - mean * mean).max(0.0).sqrt()
        };
        sums.zip(changes).map(deviation).sum()
    }
}

/// A node with what is taken of it.
struct Stand {
    total: Share,
    /// Most virtual processors by its policy.
    vcpus_max: u64,
    taken: Share,
    instances: usize,
}

impl Stand {
    fn figures(&self, more: Option<Share>) -> Figures {
        let mut taken = self.taken;
        taken += more.unwrap_or_default();
        let part = |taken: u64, of: u64| ratio(taken) / ratio(of.max(1));
        [
            part(self.total.memory.saturating_sub(taken.memory), self.total.memory),
            part(self.total.disk.saturating_sub(taken.disk), self.total.disk),
            part(taken.vcpus, self.total.vcpus),
            part(taken.spindles, self.total.spindles),
            count(self.instances + usize::from(more.is_some())),
        ]
    }
}

#[expect(clippy::cast_precision_loss, reason = "a load is compared, and needs no exact number")]
fn ratio(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "instances of a node are counted by thousands")]
fn count(number: usize) -> f64 {
    number as f64
}

/// The nodes whose balance counts: those that could have instances, and have told what they have.
pub(super) struct Loads<'c> {
    config: &'c Config,
    stands: BTreeMap<&'c NodeName, Stand>,
    /// By the UUID of the group.
    balances: BTreeMap<&'c str, Balance>,
}

impl<'c> Loads<'c> {
    pub(super) fn of(config: &'c Config, facts: &AllFacts) -> Self {
        let of_group = |group: &'c Arc<Group>| {
            let settings = config.instance_settings().in_group(&group.settings);
            let spindles = number(&settings.node(), "spindle_count");
            (group.uuid.as_str(), (settings.ipolicy, spindles))
        };
        let limits: BTreeMap<&str, (Policy, u64)> = config.groups.values().map(of_group).collect();
        let stand = |node: &'c Arc<Node>| {
            let is_there = matches!(node.role, NodeRole::Candidate | NodeRole::Regular);
            let facts = facts.get(&node.name).filter(|_| is_there && node.vm_capable)?;
            let (policy, spindles) = limits.get(config.group_of(node).uuid.as_str())?;
            let stand = Stand {
                total: Share {
                    memory: facts.memory_total_mib,
                    vcpus: u64::from(facts.cpus),
                    spindles: most(*spindles, policy.spindle_ratio),
                    disk: facts.disk_total_mib,
                },
                vcpus_max: most(u64::from(facts.cpus), policy.vcpu_ratio),
                taken: taken(config, node, None),
                instances: config.instances.by.primary.of(node.name.clone()).count(),
            };
            Some((&node.name, stand))
        };
        let stands: BTreeMap<_, _> = config.nodes.values().filter_map(stand).collect();
        let mut balances: BTreeMap<&str, Balance> = BTreeMap::new();
        for node in config.nodes.values() {
            if let Some(stand) = stands.get(&node.name) {
                let group = config.group_of(node).uuid.as_str();
                balances.entry(group).or_default().add(&stand.figures(None));
            }
        }
        Self { config, stands, balances }
    }

    fn taken(&self, node: &Node) -> Share {
        self.stands.get(&node.name).map(|stand| stand.taken).unwrap_or_default()
    }

    /// How badly the group of a node is balanced with one more instance there; none where that would break
    /// the ratios of its policy.
    pub(super) fn score(&self, node: &Node, share: Share) -> Option<f64> {
        let stand = self.stands.get(&node.name)?;
        let balance = self.balances.get(self.config.group_of(node).uuid.as_str())?;
        let is_within = stand.taken.vcpus + share.vcpus <= stand.vcpus_max
            && stand.taken.spindles + share.spindles <= stand.total.spindles;
        is_within.then(|| balance.score(&stand.figures(None), &stand.figures(Some(share))))
    }
}

/// Most of what a node has so many of, by a ratio of its policy.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a policy has ratios of some tens"
)]
fn most(count: u64, by: f64) -> u64 {
    (ratio(count) * by) as u64
}

/// The node by which its group is balanced best when the wish is met there, in the group that is preferred.
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
    let loads = Loads::of(config, facts);
    let mut policies = Policies { config, extent: wish.extent, known: BTreeMap::new() };
    let mut best: Option<(u8, f64, &Arc<Node>)> = None;
    let mut why_not: Option<Exception> = None;
    for node in config.nodes.values().filter(is_asked) {
        let Some(rank) = rank(node) else { continue };
        if let Some(error) = policies.refusal(config.group_of(node)) {
            why_not.get_or_insert(error);
            continue;
        }
        let facts = facts.get(&node.name).map(AsRef::as_ref);
        let has_room = may_host(node, "primary")
            .and_then(|()| fits_beside(node, facts, wish.share, loads.taken(node)));
        if let Err(error) = has_room {
            why_not.get_or_insert(error);
            continue;
        }
        let Some(score) = loads.score(node, wish.share) else {
            why_not.get_or_insert_with(|| too_many(node));
            continue;
        };
        if best.is_none_or(|(known, least, _)| (rank, score) < (known, least)) {
            best = Some((rank, score, node));
        }
    }
    best.map(|(_, _, node)| node).ok_or_else(|| {
        let why = why_not
            .map_or_else(|| "no node may have it".to_owned(), |error| error.message().to_owned());
        let text = format!("Can't compute nodes using the built-in allocator: {why}");
        Exception::prereq(text, ErrorCode::InsufficientResources)
    })
}

/// The words of groups' policies on an instance, each group asked once.
struct Policies<'c> {
    config: &'c Config,
    extent: Option<&'c Extent>,
    known: BTreeMap<String, Vec<String>>,
}

impl Policies<'_> {
    fn refusal(&mut self, group: &Group) -> Option<Exception> {
        let extent = self.extent?;
        let broken = self.known.entry(group.uuid.clone()).or_insert_with(|| {
            let settings = self.config.instance_settings().in_group(&group.settings);
            extent.breaks(&settings.ipolicy)
        });
        (!broken.is_empty()).then(|| {
            let text = format!("policy of group {}: {}", group.name, broken.join(", "));
            Exception::prereq(text, ErrorCode::InsufficientResources)
        })
    }
}

fn too_many(node: &Node) -> Exception {
    let text =
        format!("node {} has as many virtual processors or spindles in use as it may", node.name);
    Exception::prereq(text, ErrorCode::InsufficientResources)
}
