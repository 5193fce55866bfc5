//! The agents of a rack tell each other of leases, so that each can renew a lease that another one gave.
//! They tell each other of ramdisks too, so that a token is told once in a rack.
//!
//! An agent asks each other one for news, by a long poll. The DHCP server decides whose word counts. The
//! agent asks for everything at its start, and whenever the DHCP server or the ranges change.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use model::enrol::Fingerprint;
use model::ipam::LeaseRange;
use model::rack::{LeaseState as TellState, RackAgent, RackDocument};
use model::shares::PARTS;
use model::{NodeName, Timestamp};
use rpc::calls::{
    Caller, LEASE_SYNC_WAIT_MS_MAX, LEASES_TOLD_MAX, LeaseSync, LeaseTold, LeasesTold,
};
use rpc::client::{Client, Meta, NodeTarget};
use rpc::fence::Interrupt;
use rpc::tls::AllowedCallers;
use rpc::{Failure, FailureKind};
use stdx::daemon::chain;
use stdx::{Clock, Tasks};

use crate::dhcp::server::{Learner, LeaseNews};
use crate::dhcp::{Learned, LeaseClash, LeaseRecord, LeaseState};
use crate::ledger::{Ledger, News};
use crate::rack::{Passing, Racks};

/// Pause after a call that failed, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause: an agent that comes back is asked within it.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Answers another agent: the leases of its rack that changed, or the wait for some.
///
/// # Errors
/// The wait is longer than allowed, or the agent is ending.
pub async fn tell(
    ledger: &Ledger,
    racks: &Racks,
    call: LeaseSync,
    mut interrupt: Interrupt,
) -> Result<LeasesTold, Failure> {
    if call.wait_ms > LEASE_SYNC_WAIT_MS_MAX {
        let message = format!("`lease_sync` waits at most {LEASE_SYNC_WAIT_MS_MAX} ms");
        return Err(Failure::new(FailureKind::Malformed, message));
    }
    let run = ledger.run();
    let mut after = if call.run == Some(run) { call.after } else { 0 };
    let mut changed = ledger.watch_news();
    let deadline = tokio::time::sleep(Duration::from_millis(call.wait_ms.into()));
    tokio::pin!(deadline);
    loop {
        changed.mark_unchanged();
        let News { leases, mut ramdisks, has_places, upto, more, .. } =
            ledger.news_after(after, LEASES_TOLD_MAX);
        // The agent that asks may have a document already which gives the rack more addresses.
        let is_of = |address| racks.rack_of(address).is_none_or(|rack| rack == call.rack);
        let leases: Vec<_> = leases.iter().filter(|r| is_of(r.address)).map(told).collect();
        ramdisks.retain(|ramdisk| ramdisk.rack == call.rack);
        let is_news = !leases.is_empty() || !ramdisks.is_empty() || has_places;
        if is_news || (!more && deadline.is_elapsed()) {
            let boot = racks.places(call.rack);
            return Ok(LeasesTold { run, upto, more, leases, ramdisks, boot });
        }
        after = upto;
        if more {
            continue;
        }
        tokio::select! {
            _ = changed.changed() => {}
            () = deadline.as_mut() => {}
            why = interrupt.wait() => return Err(why.failure()),
        }
    }
}

fn told(record: &LeaseRecord) -> LeaseTold {
    let (state, until) = match record.state {
        LeaseState::Bound { until_us } => (TellState::Bound, until_us),
        LeaseState::Released { at_us } => (TellState::Released, at_us),
        LeaseState::Declined { until_us } => (TellState::Declined, until_us),
    };
    LeaseTold {
        address: record.address,
        client: record.client.to_string(),
        state,
        until: Timestamp::from_micros(until),
        since: record.since_us.map(Timestamp::from_micros),
    }
}

fn record(told: &LeaseTold) -> Option<LeaseRecord> {
    let us = told.until.micros();
    let state = match told.state {
        TellState::Bound => LeaseState::Bound { until_us: us },
        TellState::Released => LeaseState::Released { at_us: us },
        TellState::Declined => LeaseState::Declined { until_us: us },
    };
    let (client, since_us) = (told.client.parse().ok()?, told.since.map(Timestamp::micros));
    Some(LeaseRecord { address: told.address, client, state, since_us })
}

/// The parts that the lease sync needs to ask other agents.
#[derive(Debug)]
pub struct Asking {
    /// The name of this agent's node.
    pub own: NodeName,
    /// Takes what they heard of ramdisks.
    pub ledger: Arc<Ledger>,
    /// The racks that it serves.
    pub racks: Arc<Racks>,
    /// Calls the others.
    pub client: Client,
    /// Learns who the others are, since they call, too.
    pub allowed: AllowedCallers,
    /// The DHCP server, while it runs.
    pub server: watch::Receiver<Option<Learner>>,
    /// The time.
    pub clock: Clock,
}

/// Asks the other agents of its racks for their leases until `stopped`.
pub async fn serve(mut asking: Asking, mut stopped: watch::Receiver<bool>) {
    let mut changed = asking.racks.watch();
    let mut asked = None;
    let polls = Tasks::new();
    loop {
        changed.mark_unchanged();
        let is_anew = asking.server.has_changed().unwrap_or(false);
        let server = asking.server.borrow_and_update().clone();
        let documents = asking.racks.all();
        // New ranges have all leases told again, as some may have been in no range before.
        let wanted = (others(&documents, &asking.own), ranges(&documents));
        if is_anew || asked.as_ref() != Some(&wanted) {
            polls.shutdown().await;
            let callers = wanted.0.iter().flat_map(|(_, agent)| callers(agent)).collect();
            asking.allowed.replace_agents(callers);
            for (rack, agent) in &wanted.0 {
                let Some(server) = server.clone() else { continue };
                let learns = Learns {
                    ledger: Arc::clone(&asking.ledger),
                    racks: Arc::clone(&asking.racks),
                    server,
                    clock: asking.clock.clone(),
                };
                let client = asking.client.clone();
                polls.spawn("lease sync", poll(*rack, agent.clone(), client, learns));
            }
            asked = Some(wanted);
        }
        tokio::select! {
            _ = changed.changed() => {}
            Ok(()) = asking.server.changed() => asking.server.mark_changed(),
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
    polls.shutdown().await;
    asking.client.close().await;
}

fn others(documents: &[Arc<RackDocument>], own: &NodeName) -> Vec<(u32, RackAgent)> {
    let of = |document: &Arc<RackDocument>| {
        let others = document.agents.iter().filter(|agent| agent.name != *own).cloned();
        let rack = document.rack;
        others.take(PARTS).map(move |agent| (rack, agent)).collect::<Vec<_>>()
    };
    documents.iter().flat_map(of).collect()
}

fn ranges(documents: &[Arc<RackDocument>]) -> Vec<LeaseRange> {
    documents.iter().flat_map(|document| document.ranges.iter().cloned()).collect()
}

fn callers(agent: &RackAgent) -> impl Iterator<Item = Caller> + '_ {
    let caller =
        |fingerprint: &Fingerprint| Caller { name: agent.name.clone(), fingerprint: *fingerprint };
    agent.fingerprints.iter().map(caller)
}

/// The receivers of another agent's news.
struct Learns {
    ledger: Arc<Ledger>,
    racks: Arc<Racks>,
    server: Learner,
    clock: Clock,
}

/// Asks one agent for ever.
async fn poll(rack: u32, agent: RackAgent, client: Client, learns: Learns) {
    let target = NodeTarget::from(&agent);
    let mut call = LeaseSync { rack, run: None, after: 0, wait_ms: 0 };
    let mut pause = None;
    loop {
        let asked_us = learns.clock.now_micros();
        match client.call(&target, call, Meta::default()).await {
            Ok(told) => {
                if pause.take().is_some() {
                    tracing::info!(rack, agent = %agent.name, "tells of its leases again");
                }
                learns.racks.set_places_of(rack, &agent.name, told.boot);
                let news = LeaseNews {
                    agent: agent.name.clone(),
                    told: told.leases.iter().filter_map(record).collect(),
                    asked_us: Some(asked_us).filter(|_| !told.more),
                };
                if !learn(&learns, news).await {
                    return;
                }
                let ramdisks = told.ramdisks.into_iter().filter(|ramdisk| ramdisk.rack == rack);
                if let Err(error) = learns.ledger.learn_ramdisks(ramdisks.collect()) {
                    let (agent, error) = (&agent.name, chain(&error));
                    tracing::warn!(error, %agent, "ramdisks that it told of are not kept");
                }
                let (run, after) = (Some(told.run), told.upto);
                call = LeaseSync { rack, run, after, wait_ms: LEASE_SYNC_WAIT_MS_MAX };
            }
            Err(error) => {
                if pause.is_none() {
                    tracing::warn!(
                        rack,
                        agent = %agent.name,
                        error = chain(&error),
                        "does not tell of its leases: clients that got theirs from it since cannot \
                         renew them here; it is asked again"
                    );
                }
                let next = pause.map_or(FIRST_PAUSE, |pause: Duration| pause * 2);
                let next = next.min(LONGEST_PAUSE);
                pause = Some(next);
                tokio::time::sleep(next).await;
            }
        }
    }
}

/// Hands leases to the DHCP server. Whether that still runs.
async fn learn(learns: &Learns, news: LeaseNews) -> bool {
    let agent = news.agent.clone();
    match learns.server.learn(news).await {
        Ok(Ok(learned)) => {
            for learned in learned {
                let why = match learned {
                    Learned::Kept(clash) => kept(&agent, &clash),
                    Learned::Yielded(clash) => yielded(&agent, &clash),
                    Learned::Taken(_) | Learned::Known => continue,
                };
                tracing::error!("{why}");
                learns.racks.set_passing(Passing::TwoHolders, why);
            }
            true
        }
        Ok(Err(error)) => {
            tracing::warn!(error = chain(&error), %agent, "leases that it told of are not kept");
            true
        }
        Err(_stopped) => false,
    }
}

/// Another agent renewed an address for a client that does not have it.
fn kept(agent: &NodeName, clash: &LeaseClash) -> String {
    let (address, theirs, ours) = (clash.told.address, &clash.told.client, &clash.client);
    format!(
        "{address} is leased to {ours} here, and {agent} renewed it for {theirs}: restart the network \
         of {theirs}, or the host"
    )
}

/// This agent renewed an address for a client that does not have it.
fn yielded(agent: &NodeName, clash: &LeaseClash) -> String {
    let (address, theirs, ours) = (clash.told.address, &clash.told.client, &clash.client);
    format!(
        "{address} was renewed for {ours} here, and {agent} leases it to {theirs}: restart the network \
         of {ours}, or the host"
    )
}
