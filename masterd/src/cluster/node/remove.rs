//! Removes a node from the cluster: what it is part of first, then what it holds, then its document.
//!
//! A candidate, and a witness, leave in one step: another one takes its place, and nobody lets it call
//! any more. It is dismissed and wiped as a member, and then it forgets its keys. A node that does not
//! answer is removed all the same, and the job says what is left on its disk. A job that is cut short
//! leaves a regular node that cannot be the master; the same opcode goes on.

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::network::Owner;
use model::node::{Node, NodeRole};
use model::opcode::NodeRemove;
use model::{Code, Exception, NodeName, Uuid};
use rpc::calls::Leave;
use stdx::daemon::chain;

use super::{goes_on_if_silent, member_removal, primary_instances, tell_if_alone, votes};
use crate::config::{Config, ConfigChange};
use crate::machines::network::released_by;
use crate::machines::rack;
use crate::role::members::heard;
use crate::units::{Context, Failure, LogicalUnit, Wanted};
use membership::loss;

impl LogicalUnit for NodeRemove {
    type Plan = Node;

    /// All nodes where another one may have to take its place.
    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Node {
            return Ok(Vec::new());
        }
        let node = config.node_with(&self.node_name, self.node_uuid.as_deref())?;
        let lock = match takes_part(node) {
            true => LockName::set(Level::Node),
            false => LockName::member(Level::Node, node.name.as_str()),
        };
        Ok(vec![(lock, Mode::Exclusive)])
    }

    async fn check(&self, context: &mut Context) -> Result<Node, Failure> {
        let config = context.config();
        let node = config.node_with(&self.node_name, self.node_uuid.as_deref())?;
        let refuse = |text: String, code| Err(Exception::prereq(text, code).into());
        if config.is_master(node) {
            let text = format!("Node {} is the master, which cannot be removed", node.name);
            let refusal = Exception::prereq(text, ErrorCode::WrongInput);
            return Err(refusal.coded(Code::NodeIsMaster).into());
        }
        let instances = primary_instances(&config, node);
        if instances > 0 {
            let text = format!(
                "{instances} instances are still running on the node {}, please remove them first",
                node.name
            );
            return refuse(text, ErrorCode::WrongInput);
        }
        if let Some(disk) = config.disks.by.copy.of(node.name.clone()).next() {
            let owner = disk.instance.and_then(|owner| config.instance_of(owner));
            let of = owner.map_or("no instance", |owner| owner.name.as_str());
            let text = format!(
                "Node {} has a copy of a disk of {of}, please remove that instance first",
                node.name
            );
            return refuse(text, ErrorCode::WrongInput);
        }
        if takes_part(node) && !context.holds(&LockName::set(Level::Node)) {
            let text = format!("Node {} has another role by now: nothing was changed", node.name);
            return refuse(text, ErrorCode::WrongState);
        }
        if let (Some(member), Some(engine)) = (&node.member, context.engine()) {
            let status = engine.status();
            let heard = heard(engine.member(), &status);
            if let Err(stops) = loss::goes_on_without(member.id, &status.members.voters, &heard) {
                let text = format!("Node {} cannot be removed now: {stops}", node.name);
                let refusal = Exception::prereq(text, ErrorCode::WrongState);
                return Err(refusal.coded(Code::VotersNeeded).into());
            }
        }
        Ok(node.as_ref().clone())
    }

    async fn exec(self, node: Node, context: &mut Context) -> Result<(), Failure> {
        context.point_of_no_return().await?;
        let (name, voted) = (node.name.clone(), votes(context));
        let store = match takes_part(&node) {
            true => member_removal::dismiss(context, &node).await?,
            false => None,
        };
        let aside = match node.role {
            NodeRole::Offline => None,
            _ if store.is_some() => None,
            // Many nodes never had anything, nor `masterd`.
            _ => member_removal::clear(context, &node, !takes_part(&node)).await,
        };
        let keys = match node.role {
            NodeRole::Offline => Some("it is offline".to_owned()),
            _ => {
                let behalf = context.behalf();
                let node = context.config().node(name.as_str())?.as_ref().clone();
                let agents = context.agents().await?;
                let leave = Leave { cluster_uuid: agents.cluster_uuid() };
                let left = agents.call(&node, leave, behalf).await;
                left.err().map(|error| chain(&error))
            }
        };
        // A node that is still a member was waited for in vain.
        let config = context.config();
        goes_on_if_silent(context, config.node(name.as_str())?, "be removed").await?;
        let gone: NodeName = name.clone();
        let seed = Uuid::new_v4().as_u128();
        context
            .transact(move |config| {
                let owner = gone.as_str().parse().map(Owner::Name);
                let mut changes =
                    owner.map(|owner| released_by(config, &owner, seed)).unwrap_or_default();
                changes.push(ConfigChange::NodeRemoved(gone));
                Ok((changes, ()))
            })
            .await?;
        let lock = LockName::member(Level::Node, name.as_str());
        if context.holds(&lock) {
            context.remove_lock(&lock)?;
        }
        if let Some(text) = remains(&name, store.as_deref(), keys.as_deref()) {
            context.say(text).await;
        }
        if let Some(why) = aside {
            let text = format!(
                "{name} may have a store, or one kept aside (/var/lib/gantry/aside), with the cluster's \
                 keys, and keeps it: {why}. Look at it, then remove it"
            );
            context.say(text).await;
        }
        tell_if_alone(context, voted).await;
        rack::tell_if_unserved(context, node.rack).await;
        Ok(())
    }
}

/// Whether more than its agent is to be taken leave of.
fn takes_part(node: &Node) -> bool {
    node.role == NodeRole::Candidate || node.member.is_some()
}

/// The note on what a removed node keeps on its disk, by why its store and its keys were not wiped.
fn remains(name: &NodeName, store: Option<&str>, keys: Option<&str>) -> Option<String> {
    let (what, why) = match (store, keys) {
        (None, None) => return None,
        (None, Some(why)) => ("its key and certificate".to_owned(), why),
        (Some(why), None) => ("its copy of the store".to_owned(), why),
        (Some(why), Some(_)) => ("its copy of the store, its key and certificate".to_owned(), why),
    };
    Some(format!(
        "{name} is removed, and keeps {what} on its disk: {why}. Its certificate opens nothing any \
         more, and nobody takes what it holds. Before the machine is used again, remove \
         /etc/gantry/pki and /var/lib/gantry there"
    ))
}

#[cfg(test)]
mod tests {
    use model::node::Member;

    use super::*;
    use crate::testing::{config, node};

    #[test]
    fn another_node_of_the_name_is_not_meant() {
        let config = config(&[node("n2.example", NodeRole::Regular)]);
        let locks = |uuid: &str| {
            let (node_name, node_uuid) = ("n2".to_owned(), Some(uuid.to_owned()));
            NodeRemove { node_name, node_uuid }.locks(Level::Node, &config)
        };
        assert!(locks("uuid-2").is_ok());
        let refused = locks("uuid-1").unwrap_err();
        assert!(refused.to_string().contains("another node has its name by now"), "{refused}");
    }

    #[test]
    fn what_is_left_is_told() {
        let name = "n2.example".parse().unwrap();
        assert_eq!(remains(&name, None, None), None);
        for (store, keys, wanted) in [
            (None, Some("offline"), "keeps its key and certificate on its disk: offline."),
            (Some("slow"), None, "keeps its copy of the store on its disk: slow."),
            (Some("dead"), Some("no"), "store, its key and certificate on its disk: dead."),
        ] {
            let text = remains(&name, store, keys).unwrap();
            assert!(text.contains(wanted) && text.contains("opens nothing"), "{text}");
        }
    }

    #[test]
    fn who_takes_part() {
        let mut regular = node("n2.example", NodeRole::Regular);
        assert!(!takes_part(&regular));
        regular.member = Some(Member { id: 4, incarnation: None, acknowledged: None });
        assert!(takes_part(&regular) && takes_part(&node("n3.example", NodeRole::Candidate)));
    }
}
