//! Core: how an instance stands, of the wish, its node, and what agents see.

use model::Timestamp;
use model::instance::Instance;
use model::instance::launch::Sight;
use model::instance::state::{NodeState, Standing, Status};
use model::node::NodeRole;

use crate::agents::contacts::Contacts;
use crate::config::Config;

/// Seconds after which the agent of a node that is not reached counts as down: an agent that begins anew
/// takes less.
pub(crate) const DOWN_AFTER: i64 = 10;

/// An instance as it is known at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stands {
    pub node: NodeState,
    /// The word of its primary node on it.
    pub sight: Option<Sight>,
    /// How it stands; none while its node has told nothing yet.
    pub standing: Option<Standing>,
}

impl Stands {
    pub(crate) fn of(
        config: &Config,
        instance: &Instance,
        contacts: &Contacts,
        now: Timestamp,
    ) -> Self {
        let node = node_state(config, &instance.primary_node, contacts, now);
        Self::on(node, config, instance, contacts)
    }

    /// The same where it is known how its node stands.
    pub(crate) fn on(
        node: NodeState,
        config: &Config,
        instance: &Instance,
        contacts: &Contacts,
    ) -> Self {
        let primary = &instance.primary_node;
        let told = contacts.instances.of(primary, instance.uuid);
        let is_known = told.is_some() || node != NodeState::Up;
        let sight = told.flatten();
        let seen = sight.as_ref().map(|sight| sight.seen).unwrap_or_default();
        let alive_on = contacts.instances.alive_on(instance.uuid);
        let standing = Standing {
            wish: instance.admin_state,
            source: instance.admin_state_source,
            node,
            seen,
            elsewhere: alive_on.iter().any(|node| node != primary),
            user_shutdown: config.instance_settings().enabled_user_shutdown,
        };
        Self { node, sight, standing: is_known.then_some(standing) }
    }

    /// The status; none while its node has told nothing yet.
    pub fn status(&self) -> Option<Status> {
        self.standing.map(Standing::status)
    }

    /// Whether its node sees it alive; none where the node does not tell.
    pub fn is_alive(&self) -> Option<bool> {
        let standing = self.standing?;
        (self.node == NodeState::Up).then(|| standing.seen.is_alive())
    }
}

/// How a node stands.
pub(crate) fn node_state(
    config: &Config,
    node: &model::NodeName,
    contacts: &Contacts,
    now: Timestamp,
) -> NodeState {
    let role = config.nodes.get(node).map(|node| node.role);
    match (role, contacts.get(node)) {
        (None | Some(NodeRole::Offline), _) => NodeState::Offline,
        (Some(_), Some(contact))
            if contact.failure.is_some() && contact.since.plus_seconds(DOWN_AFTER) <= now =>
        {
            NodeState::Down
        }
        (Some(_), _) => NodeState::Up,
    }
}
