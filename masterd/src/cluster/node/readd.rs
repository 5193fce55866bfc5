//! Adds a node again that lost its disk: it keeps its name, id and rack, and gets another key.
//!
//! Until it has its certificate it is offline under its new key; where that fails it stays so, and can
//! be added again. If it took its certificate, the same command completes the rest. A candidate that
//! lost its disk has nothing left of what made it one: it comes back as a regular node, and the pool
//! invites it anew. The record of its old membership stays until a look has shown that nothing is left
//! of its store.

use std::net::IpAddr;
use std::sync::Arc;

use model::error::ErrorCode;
use model::node::{Node, NodeRole};
use model::opcode::NodeAdd;
use model::{Code, Exception};

use super::add::{AddPlan, is_free};
use super::by_machine;
use super::{info, primary_instances, tell_callers};
use crate::agents::Signed;
use crate::config::{Config, ConfigChange};
use crate::machines::rack;
use crate::units::{Context, Failure};

/// The node that is to be added again.
///
/// # Errors
/// There is none, or it cannot be added again.
pub(super) fn member<'a>(asked: &NodeAdd, config: &'a Config) -> Result<&'a Arc<Node>, Exception> {
    let refuse = |text: String, code| Err(Exception::prereq(text, code));
    let known =
        by_machine::node_of(asked, config).map_or_else(|| config.node(&asked.node_name), Ok);
    let Ok(node) = known else {
        let text = format!("Node {} is not in the configuration", asked.node_name);
        return refuse(text, ErrorCode::UnknownEntity);
    };
    if config.is_master(node) {
        let refusal = Exception::prereq("Cannot readd the master node", ErrorCode::WrongState);
        return Err(refusal.coded(Code::NodeIsMaster));
    }
    if asked.group.is_some() {
        let text = "Cannot pass a node group when a node is being readded";
        return refuse(text.to_owned(), ErrorCode::WrongInput);
    }
    if asked.rack.is_some() && asked.rack != node.rack {
        let text = format!(
            "a node that is being readded keeps its rack; change it afterwards with `gnt node \
             modify --rack N {}`",
            node.name
        );
        return refuse(text, ErrorCode::WrongInput);
    }
    Ok(node)
}

/// The node as it will be at this address, as a regular one; its key is not known yet.
///
/// # Errors
/// A rule forbids it.
pub(super) fn renewed(
    asked: &NodeAdd,
    config: &Config,
    (primary_ip, rpc_port): (IpAddr, u16),
) -> Result<Node, Exception> {
    let old = member(asked, config)?;
    let machine = match &asked.machine {
        Some(serial) => Some(config.machine(serial)?.serial.clone()),
        None => old.machine.clone(),
    };
    is_free(config, &old.name, machine.as_ref(), (primary_ip, rpc_port))?;
    let was_its_own = old.secondary_ip != old.primary_ip;
    let secondary_ip = if was_its_own { old.secondary_ip } else { primary_ip };
    if asked.secondary_ip.is_some_and(|ip| ip != secondary_ip) {
        let text = "Readded node doesn't have the same IP address configuration as before";
        return Err(Exception::prereq(text, ErrorCode::WrongInput));
    }
    let vm_capable = asked.vm_capable.unwrap_or(old.vm_capable);
    if !vm_capable && primary_instances(config, old) > 0 {
        let text = format!(
            "Node {} being re-added with vm_capable flag set to false, but it already holds \
             instances",
            old.name
        );
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    Ok(Node {
        role: NodeRole::Regular,
        primary_ip,
        rpc_port,
        peer_port: asked.peer_port.unwrap_or(old.peer_port),
        secondary_ip,
        renewing: None,
        machine,
        master_capable: asked.master_capable.unwrap_or(old.master_capable),
        witness: asked.witness.unwrap_or(old.witness),
        vm_capable,
        powered: true,
        serial_no: old.serial_no + 1,
        ..old.as_ref().clone()
    })
}

/// Gives the machine that waits the identity of the node.
pub(super) async fn run(
    asked: NodeAdd,
    plan: AddPlan,
    signed: Signed,
    context: &mut Context,
) -> Result<(), Failure> {
    let address = (plan.primary_ip, plan.rpc_port);
    let fingerprint = signed.fingerprint;
    let was = context.config().node(plan.name.as_str())?.role;
    let now = context.now();
    context
        .transact(move |config| {
            let mut node = renewed(&asked, config, address)?;
            (node.role, node.fingerprint, node.mtime) = (NodeRole::Offline, fingerprint, now);
            Ok((vec![ConfigChange::Node(node)], ()))
        })
        .await?;
    let config = context.config();
    let node = config.node(plan.name.as_str())?.as_ref().clone();
    if let Err(error) = signed.deliver(&node, config.callers()).await {
        if was == NodeRole::Candidate {
            // The key that it had opens nothing more, whoever has it.
            tell_callers(context, None).await?;
        }
        let (name, why) = (&node.name, stdx::daemon::chain(&error));
        let text = format!(
            "{name} did not take its certificate: {why}; it is offline now. Run `noded enroll --again` \
             there and `gnt node add --readd {name} --secret -` here again; where `noded enroll` ended with \
             `enrolled`, start noded there, and give the same command with the same token again"
        );
        return Err(Exception::exec(text).coded(Code::EnrolmentFailed).into());
    }
    is_back(&node, context).await?;
    if let Some(recruit) = plan.recruit() {
        by_machine::used(recruit, context).await?;
    }
    if matches!(was, NodeRole::Offline | NodeRole::Drained) {
        context.say(info("Readding a node, the offline/drained flags were reset")).await;
    }
    if was == NodeRole::Candidate {
        let text = "It was a master candidate, and is none before the pool promotes it again";
        context.say(text).await;
        tell_callers(context, Some(&node.name)).await?;
    }
    rack::push(context, &node.rack.into_iter().collect()).await
}

/// Completes what an earlier job began that ended with its master: the node took its certificate,
/// and is offline all the same. False where that is not so.
pub(super) async fn resumed(plan: &AddPlan, context: &mut Context) -> Result<bool, Failure> {
    let config = context.config();
    let node = config.node(plan.name.as_str())?;
    let is_there = (node.primary_ip, node.rpc_port) == (plan.primary_ip, plan.rpc_port);
    if node.role != NodeRole::Offline || !is_there {
        return Ok(false);
    }
    let behalf = context.behalf();
    let agents = context.agents().await?.clone();
    if !agents.has_its_identity(node, behalf).await {
        return Ok(false);
    }
    context.say(format!("{} has the certificate that an earlier job made for it", node.name)).await;
    is_back(node, context).await?;
    // Its earlier role is not known any more.
    tell_callers(context, Some(&node.name)).await?;
    rack::push(context, &node.rack.into_iter().collect()).await?;
    Ok(true)
}

/// Makes the node, which has its certificate, a regular one.
async fn is_back(node: &Node, context: &mut Context) -> Result<(), Failure> {
    let (name, now) = (node.name.clone(), context.now());
    context
        .transact(move |config| {
            let mut node = config.node(name.as_str())?.as_ref().clone();
            node.role = NodeRole::Regular;
            node.serial_no += 1;
            node.mtime = now;
            Ok((vec![ConfigChange::Node(node)], ()))
        })
        .await?;
    context.say(format!("{} is a member again, as a regular node", node.name)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::node::Member;

    use super::*;
    use crate::testing::{config, node};

    fn asked(name: &str, fields: &str) -> NodeAdd {
        let text = format!(r#"{{"node_name": "{name}", "readd": true{fields}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn cluster() -> Config {
        let mut second = node("n2.example", NodeRole::Candidate);
        second.rack = Some(4);
        second.member =
            Some(Member { id: 7, incarnation: Some(uuid::Uuid::from_u128(1)), acknowledged: None });
        config(&[second, node("n3.example", NodeRole::Offline)])
    }

    const ELSEWHERE: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9)), 1811);

    #[test]
    fn what_a_node_is_stays_and_its_member_does_too() {
        let config = cluster();
        let before = &config.nodes["n2.example"];
        let node = renewed(&asked("n2", ""), &config, ELSEWHERE).unwrap();
        assert_eq!((&node.name, node.id, &node.uuid), (&before.name, before.id, &before.uuid));
        assert_eq!((node.rack, node.ctime), (Some(4), before.ctime));
        // Data that its disk may still hold is wiped, or put aside where it is another store.
        assert_eq!((node.role, &node.member), (NodeRole::Regular, &before.member));
        assert_eq!((node.primary_ip, node.secondary_ip), (ELSEWHERE.0, ELSEWHERE.0));
        let offline = renewed(&asked("n3", r#", "master_capable": false"#), &config, ELSEWHERE);
        let offline = offline.unwrap();
        assert!(offline.role == NodeRole::Regular && !offline.master_capable);
    }

    #[test]
    fn what_cannot_be_added_again_is_refused() {
        let config = cluster();
        let told = |name: &str, fields: &str, address: (IpAddr, u16)| {
            renewed(&asked(name, fields), &config, address).unwrap_err().to_string()
        };
        for (name, fields, why) in [
            ("n9", "", "not in the configuration"),
            ("n1", "", "Cannot readd the master"),
            ("n2", r#", "group": "default""#, "node group"),
            ("n2", r#", "rack": 5"#, "keeps its rack"),
            ("n2", r#", "secondary_ip": "10.9.9.9""#, "same IP address configuration"),
        ] {
            let told = told(name, fields, ELSEWHERE);
            assert!(told.contains(why), "{name} {fields}: {told}");
        }
        let taken = told("n2", "", ([10, 0, 0, 3].into(), 1811));
        assert!(taken.contains("is the address of n3.example"), "{taken}");
        assert!(member(&asked("n2", r#", "rack": 4"#), &config).is_ok());
    }
}
