//! The steps before a node is removed that is a candidate, or another member.

use std::time::Duration;

use model::node::{Node, NodeRole};
use model::opcode::NodeSetParams;
use queue_format::Epoch;
use rpc::peer::PeerError;
use rpc::peer::control::{AskPosition, Purge};
use stdx::daemon::chain;
use tokio::time::Instant;

use super::change::{Change, decide};
use super::tell_callers;
use crate::config::ConfigChange;
use crate::units::{Context, Failure};

/// How long it may take until the node is dismissed and wiped: some steps of who sees to members,
/// with one that fails and is tried again.
const WIPE_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Time for a question to its `masterd`.
const ASK_LIMIT: Duration = Duration::from_secs(3);
/// Questions without a connection after which nobody is there.
const UNREACHED_MAX: u32 = 2;

/// Ends the node's candidacy, with others in its place, so that it cannot become a candidate again.
/// Waits until it is a member no more and its store is wiped. Gives the reason if the store is not
/// wiped.
pub(super) async fn dismiss(context: &mut Context, node: &Node) -> Result<Option<String>, Failure> {
    let (asked, now) = (retirement(node), context.now());
    let reached = context.reached();
    let notes = context
        .transact(move |config| {
            let Change { mut node, changes, followers, notes } = decide(&asked, config, &reached)?;
            let mut nodes = followers;
            if !changes.is_empty() {
                node.serial_no += 1;
                nodes.push(node);
            }
            let touched = nodes.into_iter().map(|node| Node { mtime: now, ..node });
            Ok((touched.map(ConfigChange::Node).collect(), notes))
        })
        .await?;
    for note in notes {
        context.say(note).await;
    }
    if node.role == NodeRole::Candidate {
        tell_callers(context, None).await?;
    }
    if node.role == NodeRole::Offline {
        return Ok(Some("it is offline".to_owned()));
    }
    wiped(context, node).await
}

/// The request after which neither the pool nor the watcher takes the node back.
fn retirement(node: &Node) -> NodeSetParams {
    NodeSetParams {
        master_capable: Some(false),
        witness: Some(false),
        auto_promote: true,
        force: true,
        ..NodeSetParams::unchanged(node.name.as_str())
    }
}

/// Waits until the node's document has no member any more, which who sees to members writes when it is
/// dismissed and wiped.
async fn wiped(context: &Context, node: &Node) -> Result<Option<String>, Failure> {
    let (begun, mut unreached) = (Instant::now(), 0);
    loop {
        let config = context.config();
        let node = config.node(node.name.as_str())?;
        let Some(member) = &node.member else { return Ok(None) };
        let Some(engine) = context.engine() else { return Ok(None) };
        let is_dismissed = !engine.status().members.nodes.contains_key(&member.id);
        if is_dismissed && let Some(error) = unreachable(context, node).await {
            unreached += 1;
            if unreached >= UNREACHED_MAX {
                return Ok(Some(chain(&error)));
            }
        }
        if begun.elapsed() > WIPE_PATIENCE {
            let seconds = WIPE_PATIENCE.as_secs();
            return Ok(Some(format!("it was not wiped within {seconds} s")));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Has the node, whose member's store is wiped, remove any other store too, and what it kept aside. Says
/// why that may be there still; nothing of one that does not answer where there `may_be_nobody`.
pub(super) async fn clear(context: &Context, node: &Node, may_be_nobody: bool) -> Option<String> {
    let config = context.config();
    if config.cluster.overridden.is_some() {
        return Some("nobody has said yet that the override was seen".to_owned());
    }
    let epoch = Epoch { term: config.role.term, node: config.role.node };
    let cleared = async {
        let mut peer = context.peers().control(node)?;
        let found = peer.call_within(&AskPosition {}, ASK_LIMIT).await?;
        let member = found.member.unwrap_or(node.id);
        peer.call_within(&Purge { epoch, member, aside: None, all: true }, ASK_LIMIT).await
    };
    let error = cleared.await.err()?;
    (is_there(&error) || !may_be_nobody).then(|| chain(&error))
}

/// Why `masterd` of the node is not reached, if that is so.
async fn unreachable(context: &Context, node: &Node) -> Option<PeerError> {
    let mut link = match context.peers().control(node) {
        Ok(link) => link,
        Err(error) => return Some(error),
    };
    let error = link.call_within(&AskPosition {}, ASK_LIMIT).await.err()?;
    (!is_there(&error)).then_some(error)
}

/// Whether somebody said so.
fn is_there(error: &PeerError) -> bool {
    matches!(
        error,
        PeerError::Refused { .. } | PeerError::Failed { .. } | PeerError::Malformed { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{config, node};

    #[test]
    fn who_goes_is_replaced_and_does_not_come_back() {
        let second = node("n2.example", NodeRole::Candidate);
        let mut config = config(&[second.clone(), node("n3.example", NodeRole::Regular)]);
        let mut cluster = config.cluster.as_ref().clone();
        cluster.candidate_pool_size = 2;
        config.cluster = Arc::new(cluster);
        let reached = BTreeSet::from(["n3.example".parse().unwrap()]);
        let change = decide(&retirement(&second), &config, &reached).unwrap();
        assert!(change.node.role == NodeRole::Regular && !change.node.may_be_master());
        let followers: Vec<&str> = change.followers.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(followers, ["n3.example"]);
        // The node goes even if nobody can follow.
        let change = decide(&retirement(&second), &config, &BTreeSet::new()).unwrap();
        assert!(change.node.role == NodeRole::Regular && change.followers.is_empty());
        let mut witness = node("n4.example", NodeRole::Regular);
        (witness.witness, witness.master_capable) = (true, false);
        let config = crate::testing::config(&[witness.clone()]);
        let change = decide(&retirement(&witness), &config, &BTreeSet::new()).unwrap();
        assert!(!change.node.witness && change.node.role == NodeRole::Regular);
    }
}
