//! The address that moves with the master: the new master's agent takes it, after those of others
//! were asked to give it up.
//!
//! An agent remembers nothing of it but what its kernel holds, and obeys the highest epoch. So an
//! address that a crashed or cut-off master left behind is met thrice. A new master asks every candidate
//! to give it up before its own agent takes it ([`MoveAddress::raise`]), and each other node when that
//! is reached again (`drop_at`). A master that is cut off asks its own agent
//! ([`MoveAddress::drop_here`]). A machine that was restarted has it no more. The holder cannot be asked
//! through the address itself: it may be the very node that does not answer. So its silence is no reason
//! not to take the address.
//!
//! Once it is here it is looked after for as long as the leadership lasts (`hold`).

mod hold;
mod rule;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use model::NodeName;
use model::cluster::MasterAddress;
use model::node::{Node, NodeRole};
use model::rack_fault::RackCause;
use rpc::RpcError;
use rpc::calls::{MasterAddressDown, MasterAddressUp};
use rpc::wire::FailureKind;
use stdx::daemon::chain;
use tokio::time::timeout;

use hold::Held;
pub(crate) use hold::{Holding, Look};

use crate::agents::{Agents, Behalf};
use crate::config::Config;
use crate::config::queue::Published;
use stdx::Clock;

/// How long other nodes are waited for before the address is taken all the same. A failover takes a
/// second, and neighbours go to where the address was announced last.
const OTHERS_WAIT: Duration = Duration::from_millis(500);

/// An address that was not raised or dropped.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The configuration lacks the master.
    #[error("the master {0} is not among the nodes; `gnt cluster verify` tells more")]
    NoNode(NodeName),
    /// The agent of this node did not take it.
    #[error("the master's address {address} was not taken on {node}")]
    Raise {
        /// The address that was to be taken.
        address: MasterAddress,
        /// Where.
        node: NodeName,
        /// Why not.
        #[source]
        error: Box<RpcError>,
    },
    /// The agent of this node did not give it up.
    #[error(
        "the master's address {address} may still be on {node}: `ip address del {}/{} dev {}` there",
        address.address, address.prefix, address.netdev
    )]
    Drop {
        /// The address that was to be given up.
        address: MasterAddress,
        /// Where.
        node: NodeName,
        /// Why not.
        #[source]
        error: Box<RpcError>,
    },
}

/// Why the master's node lacks the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What is wrong.
    pub why: String,
    /// The command that ends it.
    pub remedy: String,
}

impl Missing {
    /// It was there, and is gone; it is taken again by itself.
    fn gone(node: &NodeName, address: &MasterAddress) -> Self {
        let why = format!("somebody took {address} off {node}, as a daemon of its network may");
        Self { why, remedy: "`gnt cluster activate-master-ip` takes it again at once".to_owned() }
    }
}

impl From<&AddressError> for Missing {
    fn from(error: &AddressError) -> Self {
        let mut why = chain(error).to_string();
        let remedy = match error {
            AddressError::Raise { node, error: cause, .. } => match cause.as_ref() {
                RpcError::Failed { remedy, message, .. } => {
                    why = format!("{error}: {message}");
                    remedy.clone()
                }
                cause if cause.certainly_not_done() => {
                    Some(RackCause::AgentSilent.fault("", &[]).at(node.as_str(), 0).remedy)
                }
                _ => None,
            },
            AddressError::NoNode(_) | AddressError::Drop { .. } => None,
        };
        let usual =
            || "`gnt cluster activate-master-ip` tries again, and says what is wrong".to_owned();
        Self { why, remedy: remedy.unwrap_or_else(usual) }
    }
}

/// The result of raising the address.
#[derive(Debug)]
pub struct Raised {
    /// It, and whether the agent had to do something; none where the cluster has no address.
    pub here: Option<(MasterAddress, bool)>,
    /// Nodes that had it until now.
    pub had_it: Vec<NodeName>,
    /// Nodes that may have it still, and why they were not asked with success.
    pub not_asked: Vec<(NodeName, String)>,
}

/// Moves the address that moves with the master.
#[derive(Debug)]
pub struct MoveAddress {
    published: Arc<Published>,
    agents: Agents,
    clock: Clock,
    pub(crate) held: Held,
}

impl MoveAddress {
    /// Moves the address of the `published` cluster by its `agents`.
    pub fn new(published: Arc<Published>, agents: Agents, clock: Clock) -> Self {
        Self { published, agents, clock, held: Held::default() }
    }

    /// Takes the master's address to this node: other candidates that answer soon give it up, and
    /// then this node's agent takes it and tells the link. May be repeated.
    ///
    /// # Errors
    /// This node's agent did not take it.
    pub async fn raise(&self, behalf: Option<Behalf>) -> Result<Raised, AddressError> {
        let config = self.published.snapshot().config;
        let mut raised = Raised { here: None, had_it: Vec::new(), not_asked: Vec::new() };
        let Some(address) = config.cluster.master_address() else { return Ok(raised) };
        let me = master(&config)?;
        let others = config
            .nodes
            .values()
            .filter(|node| node.name != me.name && node.role == NodeRole::Candidate);
        let asked = others.map(async |node| {
            let call = self.agents.call_anyway(node, down(&address), behalf);
            let answer = timeout(OTHERS_WAIT, call)
                .await
                .map_err(|_elapsed| format!("no answer within {} ms", OTHERS_WAIT.as_millis()));
            (&node.name, answer.and_then(|answer| answer.map_err(|error| chain(&error))))
        });
        for (node, answer) in join_all(asked).await {
            match answer {
                Ok(there) if there.changed => {
                    tracing::info!(%node, "gave the master's address up");
                    raised.had_it.push(node.clone());
                }
                Ok(_) => {}
                Err(why) => {
                    tracing::warn!(
                        %node, why,
                        "was not asked to give the master's address up; it is asked when it is reached"
                    );
                    raised.not_asked.push((node.clone(), why));
                }
            }
        }
        match self.agents.call(me, up(&address), behalf).await {
            Ok(there) => {
                tracing::info!(%address, changed = there.changed, "the master's address is here");
                raised.here = Some((address, there.changed));
                Ok(raised)
            }
            Err(error) => {
                let (node, error) = (me.name.clone(), Box::new(error));
                Err(AddressError::Raise { address, node, error })
            }
        }
    }

    /// Has this node's agent give the address up; whether it had it. An agent that obeys a newer master
    /// is left to that one.
    ///
    /// # Errors
    /// The agent did not do it.
    pub async fn drop_here(&self) -> Result<bool, AddressError> {
        let config = self.published.snapshot().config;
        let Some(address) = config.cluster.master_address() else { return Ok(false) };
        self.drop_for(master(&config)?, address, None).await
    }

    pub(crate) async fn drop_for(
        &self,
        me: &Node,
        address: MasterAddress,
        behalf: Option<Behalf>,
    ) -> Result<bool, AddressError> {
        let node = &me.name;
        match self.agents.call_anyway(me, down(&address), behalf).await {
            Ok(there) => {
                tracing::info!(%address, changed = there.changed, "the master's address is dropped");
                Ok(there.changed)
            }
            Err(RpcError::Failed { kind: FailureKind::Epoch, .. }) => {
                tracing::info!(%address, "the agent obeys a newer master, which moves the address");
                Ok(false)
            }
            Err(error) => {
                let (node, error) = (node.clone(), Box::new(error));
                Err(AddressError::Drop { address, node, error })
            }
        }
    }

    /// Has the agent of another node, which is reached again, give the address up. The node may have
    /// kept it from the time when it was the master.
    pub(crate) async fn drop_at(&self, node: &Node) {
        let config = self.published.snapshot().config;
        let Some(address) = config.cluster.master_address() else { return };
        if node.name == config.role.master {
            return;
        }
        match self.agents.call_anyway(node, down(&address), None).await {
            Ok(there) if there.changed => {
                tracing::warn!(node = %node.name, %address, "still had the master's address");
            }
            Ok(_) => {}
            Err(error) => {
                let why = chain(&error);
                tracing::warn!(node = %node.name, %address, why, "may have the master's address");
            }
        }
    }
}

/// The master's node, which is the one that asks.
pub(crate) fn master(config: &Config) -> Result<&Arc<Node>, AddressError> {
    let name = &config.role.master;
    config.nodes.get(name).ok_or_else(|| AddressError::NoNode(name.clone()))
}

fn up(wanted: &MasterAddress) -> MasterAddressUp {
    let MasterAddress { address, prefix, netdev } = wanted.clone();
    MasterAddressUp { address, prefix, netdev }
}

fn down(gone: &MasterAddress) -> MasterAddressDown {
    let MasterAddress { address, prefix, netdev } = gone.clone();
    MasterAddressDown { address, prefix, netdev }
}
