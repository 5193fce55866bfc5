//! Restarts a node's machine, hard: a last resort, which waits for nobody.

use std::sync::Arc;

use jobs::locks::{Level, Mode};
use model::error::ErrorCode;
use model::node::{Node, NodeRole};
use model::opcode::NodePowercycle;
use model::{Coded as _, Exception};
use rpc::calls::Powercycle;

use crate::config::Config;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for NodePowercycle {
    type Plan = Arc<Node>;

    fn big_lock(&self) -> Option<Mode> {
        None
    }

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<Arc<Node>, Failure> {
        Ok(target(self, &context.config())?)
    }

    async fn exec(self, node: Arc<Node>, context: &mut Context) -> Result<String, Failure> {
        context.point_of_no_return().await?;
        let behalf = context.behalf();
        match context.agents().await?.call(&node, Powercycle {}, behalf).await {
            Ok(reply) => Ok(format!("Reboot scheduled in {} seconds", reply.seconds)),
            Err(error) => {
                let why = stdx::daemon::chain(&error);
                let text = format!("Failed to schedule the reboot: {why}");
                Err(Exception::exec(text).coded(error.code()).into())
            }
        }
    }
}

/// The node whose machine is meant.
fn target(asked: &NodePowercycle, config: &Config) -> Result<Arc<Node>, Exception> {
    let node = config.node_with(&asked.node_name, asked.node_uuid.as_deref())?;
    let name = &node.name;
    if config.is_master(node) && !asked.force {
        let text = "The node is the master and the force parameter was not set";
        return Err(Exception::prereq(text, ErrorCode::WrongInput));
    }
    if node.role == NodeRole::Offline {
        let text = format!("Node {name} is marked offline: its agent is not called");
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    Ok(Arc::clone(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config, node};

    #[test]
    fn the_master_is_restarted_only_by_force() {
        let config =
            config(&[node("n2.example", NodeRole::Regular), node("n3.example", NodeRole::Offline)]);
        let told = |name: &str, force| {
            let asked = NodePowercycle { node_name: name.to_owned(), node_uuid: None, force };
            target(&asked, &config).map_or_else(|e| e.to_string(), |node| node.name.to_string())
        };
        assert_eq!(told("n2", false), "n2.example");
        assert!(told("n1", false).contains("is the master and the force parameter was not set"));
        assert_eq!(told("n1", true), "n1.example");
        assert!(told("n3", true).contains("marked offline"));
        assert!(told("n9", true).contains("not known"));
    }

    #[test]
    fn another_node_of_the_name_is_not_meant() {
        let config = config(&[node("n2.example", NodeRole::Regular)]);
        let told = |uuid: Option<&str>| {
            let (node_name, node_uuid) = ("n2".to_owned(), uuid.map(str::to_owned));
            target(&NodePowercycle { node_name, node_uuid, force: false }, &config)
        };
        assert!(told(None).is_ok() && told(Some("uuid-2")).is_ok());
        let refused = told(Some("uuid-1")).unwrap_err();
        assert!(refused.to_string().contains("another node has its name by now"), "{refused}");
    }
}
