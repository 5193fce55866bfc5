//! Members in the documents of nodes: the document is written before anything is done with a member.

use model::error::ErrorCode;
use model::node::{Member, Node};
use model::{Exception, NodeName};
use uuid::Uuid;

use super::{Keeper, StepError};
use crate::config::{Config, ConfigChange};

impl Keeper {
    /// Gives a node the next member id.
    pub(super) async fn allot(&self, name: &NodeName) -> Result<Member, StepError> {
        let name = name.clone();
        let decide = move |config: &Config| {
            let mut cluster = (*config.cluster).clone();
            let member = Member { id: cluster.next_node_id, incarnation: None, acknowledged: None };
            cluster.next_node_id = member.id.saturating_add(1);
            let mut node = find(config, &name)?;
            node.member = Some(member);
            Ok((vec![ConfigChange::Cluster(cluster), ConfigChange::Node(node)], member))
        };
        Ok(self.writer.transact(None, decide).await?)
    }

    /// Notes the store that a node made.
    pub(super) async fn record(
        &self,
        name: &NodeName,
        id: u64,
        incarnation: Uuid,
    ) -> Result<(), StepError> {
        let member = Member { id, incarnation: Some(incarnation), acknowledged: None };
        self.edit(name.clone(), move |node| node.member = Some(member)).await
    }

    /// Notes that a node is that member no more.
    pub(super) async fn forget(&self, name: &NodeName, id: u64) -> Result<(), StepError> {
        let is_it = move |node: &Node| node.member.as_ref().is_some_and(|member| member.id == id);
        self.edit(name.clone(), move |node| {
            if is_it(node) {
                node.member = None;
            }
        })
        .await
    }

    pub(super) async fn edit(
        &self,
        name: NodeName,
        edit: impl FnOnce(&mut Node) + Send + 'static,
    ) -> Result<(), StepError> {
        let decide = move |config: &Config| {
            let mut node = find(config, &name)?;
            edit(&mut node);
            Ok((vec![ConfigChange::Node(node)], ()))
        };
        Ok(self.writer.transact(None, decide).await?)
    }
}

fn find(config: &Config, name: &NodeName) -> Result<Node, Exception> {
    let node = config.nodes.get(name);
    let gone = || Exception::prereq(format!("Node {name} is gone"), ErrorCode::UnknownEntity);
    node.map(|node| (**node).clone()).ok_or_else(gone)
}
