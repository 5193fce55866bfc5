//! Gives nodes new keys and certificates, one after the other, while everything goes on.
//!
//! A node's document names the new certificate beside the old one before the new one is handed over. It
//! names the old one no more when every daemon of the node shows the new one. In between both are good,
//! with everybody. So wherever this is cut short, nobody is locked out, and the same opcode goes on from
//! there.
//!
//! A node that may call agents gets another certificate only while every agent can be told of it. An
//! agent that is not told would refuse that node for good. The master is last: until then all that it
//! calls was told by a certificate that nobody doubts, and what does not work has shown with others.

mod one;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::node::{Node, NodeRole};
use model::opcode::ClusterRenewCrypto;
use model::vault::VaultKeys;
use model::{Code, Exception, NodeName};
use rpc::calls::Version;

use crate::config::vault::{self, VaultError};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};
use one::Stop;

/// Nodes that are asked at once whether they answer: each holds a connection's share.
const ASKED_AT_ONCE: usize = 64;

impl LogicalUnit for ClusterRenewCrypto {
    type Plan = Vec<Arc<Node>>;

    const BY_STEPS: bool = true;

    /// All nodes, as in Ganeti: who may call whom is everybody's.
    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        let all = (level == Level::Node).then(|| (LockName::set(level), Mode::Exclusive));
        Ok(all.into_iter().collect())
    }

    async fn check(&self, context: &mut Context) -> Result<Vec<Arc<Node>>, Failure> {
        let wrong = |text: &str| Exception::prereq(text, ErrorCode::WrongInput);
        if self.renew_ssh_keys {
            return Err(wrong("nodes have no SSH keys here; leave renew_ssh_keys out").into());
        }
        if !self.node_certificates {
            return match self.vault {
                true => Ok(Vec::new()),
                false => Err(wrong("nothing is asked for: node_certificates is false").into()),
            };
        }
        Ok(order(&self.nodes, &context.config())?)
    }

    async fn exec(self, nodes: Vec<Arc<Node>>, context: &mut Context) -> Result<(), Failure> {
        if self.vault {
            renew_vault(context).await?;
        }
        if nodes.is_empty() {
            return Ok(());
        }
        let silent = silent(context).await?;
        let (number, mut renewed, mut left) = (nodes.len(), 0_usize, Vec::new());
        context.say(format!("Renewing the certificates of {number} node(s)")).await;
        for (place, node) in nodes.iter().enumerate() {
            if context.cancel().is_cancelled() {
                context.say(canceled(renewed, nodes.get(place..).unwrap_or_default())).await;
                return Err(Failure::Canceled);
            }
            let name = &node.name;
            if node.role == NodeRole::Offline {
                let text = format!(
                    "{name} is offline and keeps its certificate. It learns of no other node's new \
                     one either: if it is refused when it is back, `noded enroll --again` there and `gnt \
                     node add --readd {name} --secret -` here"
                );
                context.say(text).await;
                continue;
            }
            let stopped = match hindered(&context.config(), node, &silent) {
                Some(why) => Err(Stop::Left(why)),
                None => one::renew(context, name).await,
            };
            match stopped {
                Ok(fingerprint) => {
                    renewed += 1;
                    context.say(format!("{name} has a new certificate, {fingerprint}")).await;
                }
                Err(Stop::Left(why)) => {
                    context.say(format!("{name} is left out: {why}")).await;
                    left.push(name.clone());
                }
                Err(Stop::Job(failure)) => return Err(failure),
            }
        }
        if context.cancel().is_cancelled() {
            context.say(canceled(renewed, &[])).await;
            return Err(Failure::Canceled);
        }
        match rest(renewed, &left) {
            Some(text) => Err(Exception::exec(text).coded(Code::Certificate).into()),
            None => Ok(()),
        }
    }
}

/// Gives the vault another key, and seals all secrets with it. If that is cut short, the same opcode
/// goes on from there: whatever is sealed has its key still.
async fn renew_vault(context: &mut Context) -> Result<(), Failure> {
    let failed = |error: VaultError| Exception::exec(format!("the vault is not renewed: {error}"));
    let key = vault::new_key().map_err(failed)?;
    let begin = move |config: &Config| {
        let keys = match config.vault.as_deref() {
            Some(keys) => keys.renewed(key),
            None => VaultKeys::first(key),
        };
        Ok((vec![ConfigChange::Vault(keys)], ()))
    };
    context.transact(begin).await?;
    let mut sealed = 0;
    loop {
        let step = move |config: &Config| {
            let changes = vault::renewal(config).map_err(failed)?;
            let secrets = changes.iter().filter(|c| !matches!(c, ConfigChange::Vault(_))).count();
            let is_over = changes.is_empty();
            Ok((changes, (secrets, is_over)))
        };
        let (secrets, is_over) = context.transact(step).await?;
        sealed += secrets;
        if is_over {
            break;
        }
    }
    context.say(format!("The vault has a new key, which seals {sealed} secret(s)")).await;
    Ok(())
}

/// The text for the log where the job is canceled.
fn canceled(renewed: usize, nodes: &[Arc<Node>]) -> String {
    let options: String = nodes.iter().map(|node| format!(" --node {}", node.name)).collect();
    match nodes {
        [] => format!("Canceled after the last node: {renewed} certificate(s) were renewed"),
        _ => format!(
            "Canceled: {renewed} certificate(s) were renewed; `gnt cluster renew-crypto{options}` \
             renews those that were not begun"
        ),
    }
}

/// The rest of the work, for operators who read nothing else.
fn rest(renewed: usize, left: &[NodeName]) -> Option<String> {
    let options: String = left.iter().map(|name| format!(" --node {name}")).collect();
    (!left.is_empty()).then(|| {
        format!(
            "{renewed} certificate(s) were renewed, and {} not, for the reasons above; when they are \
             mended, `gnt cluster renew-crypto{options}` does the rest",
            left.len()
        )
    })
}

/// The nodes of a request in the order in which they are renewed: who calls nobody first, the master
/// last.
///
/// # Errors
/// One is not known.
fn order(asked: &[String], config: &Config) -> Result<Vec<Arc<Node>>, Exception> {
    let mut nodes: Vec<Arc<Node>> = match asked {
        [] => config.nodes.values().cloned().collect(),
        some => some.iter().map(|name| config.node(name).cloned()).collect::<Result<_, _>>()?,
    };
    let place = |node: &Node| {
        (config.is_master(node), config.is_caller(node), node.name.as_str().to_owned())
    };
    nodes.sort_by_cached_key(|node| place(node));
    nodes.dedup_by(|one, other| one.name == other.name);
    Ok(nodes)
}

/// Why a node cannot be renewed while these do not answer.
fn hindered(config: &Config, node: &Node, silent: &BTreeSet<NodeName>) -> Option<String> {
    if silent.contains(&node.name) {
        return Some("its agent does not answer".to_owned());
    }
    if !config.is_caller(node) || silent.is_empty() {
        return None;
    }
    let names = silent.iter().map(NodeName::as_str).collect::<Vec<_>>().join(", ");
    Some(format!(
        "it is a master candidate, and {names} would refuse it for good without being told of its \
         new certificate; bring them back, or mark who is away for long offline"
    ))
}

/// Nodes that are not offline and do not answer.
async fn silent(context: &mut Context) -> Result<BTreeSet<NodeName>, Failure> {
    let (config, behalf) = (context.config(), context.behalf());
    let agents = context.agents().await?.clone();
    let nodes = config.nodes.values().filter(|node| node.role != NodeRole::Offline);
    let asked: Vec<_> = nodes
        .map(|node| {
            let (agents, node) = (agents.clone(), Arc::clone(node));
            async move {
                let answer = agents.call(&node, Version {}, behalf).await;
                answer.err().map(|error| (node.name.clone(), stdx::daemon::chain(&error)))
            }
        })
        .collect();
    let mut answers = futures_util::stream::iter(asked).buffered(ASKED_AT_ONCE);
    let mut silent = BTreeSet::new();
    while let Some(answer) = answers.next().await {
        if let Some((name, why)) = answer {
            context.say(format!("{name} does not answer: {why}")).await;
            silent.insert(name);
        }
    }
    Ok(silent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config, node};

    fn cluster() -> Config {
        config(&[
            node("n2.example", NodeRole::Regular),
            node("n3.example", NodeRole::Candidate),
            node("n4.example", NodeRole::Drained),
            node("n5.example", NodeRole::Offline),
        ])
    }

    fn names(nodes: &[Arc<Node>]) -> Vec<&str> {
        nodes.iter().map(|node| node.name.as_str().split_once('.').unwrap().0).collect()
    }

    #[test]
    fn the_master_is_last_and_candidates_are_behind_the_others() {
        let config = cluster();
        let all = order(&[], &config).unwrap();
        assert_eq!(names(&all), ["n2", "n4", "n5", "n3", "n1"]);
        let asked = ["n1", "n3.example", "n2", "n3"].map(str::to_owned);
        assert_eq!(names(&order(&asked, &config).unwrap()), ["n2", "n3", "n1"]);
        assert!(order(&["n9".to_owned()], &config).is_err());
    }

    #[test]
    fn who_calls_agents_waits_for_all_of_them() {
        let config = cluster();
        let why = |node: &str, silent: &[&str]| {
            let silent = silent.iter().map(|name| name.parse().unwrap()).collect();
            hindered(&config, &config.nodes[node], &silent)
        };
        for node in ["n1.example", "n2.example", "n3.example"] {
            assert_eq!(why(node, &[]), None);
        }
        assert_eq!(why("n2.example", &["n4.example"]), None);
        assert!(why("n4.example", &["n4.example"]).unwrap().contains("does not answer"));
        for candidate in ["n1.example", "n3.example"] {
            let why = why(candidate, &["n2.example", "n4.example"]).unwrap();
            assert!(why.contains("n2.example, n4.example would refuse it"), "{why}");
        }
    }

    #[test]
    fn what_is_left_is_told_as_a_command() {
        assert_eq!(rest(3, &[]), None);
        let left = ["n2.example", "n1.example"].map(|name| name.parse().unwrap());
        let text = rest(1, &left).unwrap();
        assert!(text.contains("renew-crypto --node n2.example --node n1.example`"), "{text}");
    }
}
