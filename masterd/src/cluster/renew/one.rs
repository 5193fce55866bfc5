//! One node on its way from one certificate to the next.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use model::enrol::Fingerprint;
use model::node::{Node, NodeRole};
use model::{Exception, NodeName};
use rpc::calls::{RenewBegin, RenewFinish, Version};
use rpc::peer::PeerError;
use rpc::peer::control::AskPosition;
use stdx::daemon::chain;
use tokio::time::Instant;

use crate::cluster::node::tell_callers;
use crate::config::ConfigChange;
use crate::units::{Context, Failure};
use membership::peers::PeerStore;

/// How long a node's `masterd` gets to show the new certificate: it looks every 2 s.
const MASTERD_PATIENCE: Duration = Duration::from_secs(15);
/// How long other members get to know of a certificate before it is shown: far more than the
/// heartbeat that tells them what is committed.
const MEMBERS_PATIENCE: Duration = Duration::from_secs(3);
/// Between two questions to them.
const MEMBERS_AGAIN: Duration = Duration::from_millis(20);
/// Between two questions to it.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Time for one.
const ASK_LIMIT: Duration = Duration::from_secs(3);

/// Why a node has no new certificate.
#[derive(Debug)]
pub(super) enum Stop {
    /// It keeps the old one, or both, for this reason; others can go on.
    Left(String),
    /// The job cannot go on.
    Job(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Job(failure)
    }
}

fn left(error: impl std::error::Error) -> Stop {
    Stop::Left(chain(&error))
}

/// Renews a node, or ends what was begun; gives its new certificate.
pub(super) async fn renew(context: &mut Context, name: &NodeName) -> Result<Fingerprint, Stop> {
    let (node, behalf) = (found(context, name)?, context.behalf());
    let agents = context.agents().await?.clone();
    let offer = agents.call(&node, RenewBegin {}, behalf).await.map_err(left)?;
    if node.renewing == Some(offer.fingerprint) {
        context.say(format!("{name} shows the new certificate of an earlier renewal")).await;
        settle(context, &node, offer.fingerprint).await?;
        return Ok(offer.fingerprint);
    }
    let (certificate, fingerprint) = agents.certify(&node, &offer.request).map_err(left)?;
    // One of before was never taken, and its key is void by now.
    edit(context, name, move |node| node.renewing = Some(fingerprint)).await?;
    if context.config().is_caller(&node) {
        let untold = tell_callers(context, None).await?;
        if let Some(first) = untold.first() {
            edit(context, name, |node| node.renewing = None).await?;
            tell_callers(context, None).await?;
            return Err(Stop::Left(format!("{first} could not be told of its new certificate")));
        }
    }
    wait_for_members(context).await?;
    let node = found(context, name)?;
    let handed = agents.call(&node, RenewFinish { certificate }, behalf).await;
    if let Err(error) = handed {
        // Its answer may be all that was lost.
        let shows = agents.call(&only(&node, fingerprint), Version {}, behalf).await.is_ok();
        if !shows && error.certainly_not_done() {
            edit(context, name, |node| node.renewing = None).await?;
            if context.config().is_caller(&node) {
                tell_callers(context, None).await?;
            }
        }
        if !shows {
            return Err(Stop::Left(chain(&error)));
        }
    }
    settle(context, &node, fingerprint).await?;
    Ok(fingerprint)
}

/// Waits until the `masterd` of every other member knows what is committed by now. It lets nobody in by
/// a certificate that is news to it, not even the bringer of the news. A member that is away hears of it
/// from its agent.
async fn wait_for_members(context: &Context) -> Result<(), Failure> {
    let Some(engine) = context.engine() else { return Ok(()) };
    let (known, config) = (engine.position().index, context.config());
    let is_asked = |node: &&Arc<Node>| {
        node.member.is_some() && node.role != NodeRole::Offline && !config.is_master(node)
    };
    let told = config.nodes.values().filter(is_asked).map(async |node| {
        let Ok(mut link) = context.peers().ask(PeerStore::of(node)) else { return };
        while let Ok(position) = link.call_within(&AskPosition {}, ASK_LIMIT).await
            && position.committed.index < known
        {
            tokio::time::sleep(MEMBERS_AGAIN).await;
        }
    });
    let told = tokio::time::timeout(MEMBERS_PATIENCE, join_all(told));
    // A member that is that far behind has no part in a majority that is needed at once.
    let _late = told.await;
    Ok(())
}

/// Sees that the node shows the new certificate, and makes that the only one.
async fn settle(context: &mut Context, node: &Node, new: Fingerprint) -> Result<(), Stop> {
    let (shows, behalf) = (only(node, new), context.behalf());
    let answer = context.agents().await?.call(&shows, Version {}, behalf).await;
    answer.map_err(left)?;
    let config = context.config();
    if config.is_master(node) {
        let (identity, layout) = (context.peers().identity(), context.layout());
        stdx::aside(|| identity.refresh(layout)).map_err(left)?;
    } else if node.member.is_some() || config.is_caller(node) {
        wait_for_masterd(context, &shows).await?;
    }
    edit(context, &node.name, move |node| {
        (node.fingerprint, node.renewing) = (new, None);
    })
    .await?;
    if config.is_caller(node) {
        tell_callers(context, None).await?;
    }
    Ok(())
}

/// Waits until `masterd` of the node shows the new certificate, which it then calls by, too. A `masterd`
/// that does not run will do so when it is started.
async fn wait_for_masterd(context: &Context, shows: &Node) -> Result<(), Stop> {
    let begun = Instant::now();
    loop {
        let mut link = context.peers().control(shows).map_err(left)?;
        let why = match link.call_within(&AskPosition {}, ASK_LIMIT).await {
            // Whatever it says, it says under the new certificate.
            Ok(_)
            | Err(
                PeerError::Refused { .. } | PeerError::Failed { .. } | PeerError::Malformed { .. },
            ) => return Ok(()),
            Err(error) => error,
        };
        let old = matches!(why, PeerError::Certificate { .. });
        if begun.elapsed() > MASTERD_PATIENCE {
            let name = &shows.name;
            if old {
                let text = format!("its masterd goes on with the old one, see its log: {why}");
                return Err(Stop::Left(text));
            }
            let why = chain(&why);
            context.say(format!("masterd of {name} is not asked for its new one: {why}")).await;
            return Ok(());
        }
        if !old && matches!(why, PeerError::Unreachable { .. }) {
            let text = format!("{}; it shows the new certificate when it is back", chain(&why));
            context.say(text).await;
            return Ok(());
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// The node where only one certificate will do.
fn only(node: &Node, fingerprint: Fingerprint) -> Node {
    Node { fingerprint, renewing: None, ..node.clone() }
}

fn found(context: &Context, name: &NodeName) -> Result<Node, Stop> {
    let node = context.config().node(name.as_str()).map(|node| node.as_ref().clone());
    node.map_err(|gone: Exception| Stop::Left(gone.to_string()))
}

async fn edit(
    context: &mut Context,
    name: &NodeName,
    change: impl FnOnce(&mut Node) + Send + 'static,
) -> Result<(), Failure> {
    let (name, now) = (name.clone(), context.now());
    context
        .transact(move |config| {
            let mut node = config.node(name.as_str())?.as_ref().clone();
            change(&mut node);
            node.serial_no += 1;
            node.mtime = now;
            Ok((vec![ConfigChange::Node(node)], ()))
        })
        .await
}
