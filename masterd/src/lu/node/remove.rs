//! Removes a node from the cluster.

use model::error::ErrorCode;
use model::node::{Node, NodeRole};
use model::opcode::NodeRemove;
use model::{Exception, NodeName};

use super::{primary_instances, tell_callers};
use crate::config::{Config, ConfigChange};
use crate::locks::{Level, LockName, Mode};
use crate::lu::{Context, Failure, LogicalUnit, Wanted, rack};

impl LogicalUnit for NodeRemove {
    type Plan = Node;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Node {
            return Ok(Vec::new());
        }
        let node = config.node(&self.node_name)?;
        Ok(vec![(LockName::member(Level::Node, node.name.as_str()), Mode::Exclusive)])
    }

    async fn check(&self, context: &mut Context) -> Result<Node, Failure> {
        let config = context.config();
        let node = config.node(&self.node_name)?;
        if config.is_master(node) {
            return Err(Exception::prereq(
                format!("Node {} is the master, which cannot be removed", node.name),
                ErrorCode::WrongInput,
            )
            .into());
        }
        let instances = primary_instances(&config, node);
        if instances > 0 {
            let text = format!(
                "{instances} instances are still running on the node {}, please remove them first",
                node.name
            );
            return Err(Exception::prereq(text, ErrorCode::WrongInput).into());
        }
        Ok(node.as_ref().clone())
    }

    async fn exec(self, node: Node, context: &mut Context) -> Result<(), Failure> {
        if node.role != NodeRole::Offline {
            let (job, op) = (context.job(), context.op());
            let left = context.agents().await?.leave(&node, (job, op)).await;
            if let Err(error) = left {
                let why = stdx::daemon::chain(&error);
                let name = &node.name;
                context
                    .say(format!("{name} keeps its certificate, which counts no more: {why}"))
                    .await;
            }
        }
        let name: NodeName = node.name.clone();
        context.transact(move |_| Ok(vec![ConfigChange::NodeRemoved(name)])).await?;
        context.remove_lock(&LockName::member(Level::Node, node.name.as_str()))?;
        rack::tell_if_unserved(context, node.rack).await;
        if node.role == NodeRole::Candidate {
            tell_callers(context, None).await?;
        }
        Ok(())
    }
}
