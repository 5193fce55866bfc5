//! The opcode that ends a lease.

pub mod fields;

use std::net::Ipv4Addr;
use std::sync::Arc;

use jobs::locks::Level;
use model::error::ErrorCode;
use model::node::{Node, NodeRole};
use model::opcode::LeaseRelease;
use model::{Exception, NodeName};
use rpc::calls;
use stdx::daemon::chain;

use crate::config::Config;
use crate::machines::rack::shares as rack_shares;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// The agents that are to end the lease of an address.
#[derive(Debug, Clone)]
pub struct LeaseAgents {
    rack: u32,
    /// The agents of the rack, the one first that gives the address, if one does at the moment.
    agents: Vec<Arc<Node>>,
    giver: Option<NodeName>,
}

impl LeaseAgents {
    fn of(config: &Config, address: Ipv4Addr) -> Result<Self, Exception> {
        let ipam = config.ipam.as_ref();
        let range = |rack: u32| {
            let ranges = ipam.and_then(|ipam| ipam.lease_ranges(rack).ok())?;
            let range = ranges.into_iter().find(|r| (r.first..=r.last).contains(&address))?;
            Some((rack, range))
        };
        let Some((rack, range)) = config.served().find_map(range) else {
            let text = format!(
                "{address} is in no lease range of a rack with an agent; `gnt lease list` has the \
                 addresses that are leased"
            );
            return Err(Exception::prereq(text, ErrorCode::UnknownEntity));
        };
        let giver = rack_shares::giver(config, rack, range.first, address);
        let called = config.agents_of(rack).filter(|node| node.role != NodeRole::Offline);
        let mut agents: Vec<_> = called.cloned().collect();
        agents.sort_by_key(|node| giver.as_ref() != Some(&node.name));
        Ok(Self { rack, agents, giver })
    }
}

impl LogicalUnit for LeaseRelease {
    type Plan = LeaseAgents;

    /// None: the lease is the agents' own, and who has it changes without a job.
    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<LeaseAgents, Failure> {
        let plan = LeaseAgents::of(&context.config(), self.address)?;
        if plan.agents.is_empty() {
            let text = format!("no agent of rack {} is called; see `gnt rack status`", plan.rack);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        Ok(plan)
    }

    async fn exec(self, plan: LeaseAgents, context: &mut Context) -> Result<String, Failure> {
        context.point_of_no_return().await?;
        let (address, behalf) = (self.address, context.behalf());
        let mut client = None;
        for node in plan.agents {
            let call = calls::LeaseRelease { address };
            let agents = context.agents().await?;
            let answer = agents.call(&node, call, behalf).await;
            match answer {
                Ok(released) => {
                    if let Some(had) = &released.client {
                        context.say(format!("{}: {had} had {address}", node.name)).await;
                    }
                    client = client.or(released.client);
                }
                Err(error) if plan.giver.as_ref().is_none_or(|giver| *giver == node.name) => {
                    let text = format!(
                        "{} gives {address} to clients and was not told ({}): the lease stands",
                        node.name,
                        chain(&error)
                    );
                    return Err(Exception::exec(text).into());
                }
                // It hears of the end by the agent that gives the address.
                Err(error) => context.say(format!("{}: {}", node.name, chain(&error))).await,
            }
        }
        client.ok_or_else(|| {
            Exception::exec(format!("nobody has {address}; see `gnt lease list`")).into()
        })
    }
}
