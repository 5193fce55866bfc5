//! Secrets that the agents of a rack tell a machine once: the token of a ramdisk, and that of a node. The first
//! agent by name that can be reached decides who tells it. It asks the others before, since it may have been
//! away.
//!
//! Only two agents that cannot reach each other may both tell a secret.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::timeout;

use model::power_cycle::{Enrolling, Ramdisk};
use model::rack::RackAgent;
use model::{NodeName, Serial, Timestamp};
use rpc::calls::{RamdiskClaim, RamdiskClaimed, RamdiskTold, SecretClaim};
use rpc::{Client, Failure, Meta, NodeTarget};
use stdx::Clock;
use stdx::daemon::chain;

use crate::ledger::{Known, Ledger, LedgerError};
use crate::rack::Racks;

/// How long another agent has to say what it knows: a dead one costs each first lookup so long, and agents in
/// ramdisks wait for 30 s.
const ASK_TIME: Duration = Duration::from_secs(2);
/// How long the agent that decides has: it asks the others, and writes.
const CLAIM_TIME: Duration = Duration::from_secs(4);

/// Claims secrets for this agent, and decides on claims of others.
#[derive(Debug)]
pub struct Claims {
    own: NodeName,
    ledger: Arc<Ledger>,
    racks: Arc<Racks>,
    client: Client,
    clock: Clock,
    /// One claim of this agent for each machine at a time: an answer is for the one that asked.
    turns: Mutex<HashMap<(u32, Serial), Waiting>>,
}

/// The lock that claims of one machine wait for.
type Waiting = Arc<tokio::sync::Mutex<()>>;

/// The turn of a machine.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    claims: &'a Claims,
    key: (u32, Serial),
    turn: Option<tokio::sync::OwnedMutexGuard<()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = self.claims.turns.lock();
        self.turn = None;
        if turns.get(&self.key).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(&self.key);
        }
    }
}

impl Claims {
    /// Claims for the agent of node `own`, by calls of `client`.
    pub fn new(
        own: NodeName,
        (ledger, racks): (Arc<Ledger>, Arc<Racks>),
        client: Client,
        clock: Clock,
    ) -> Self {
        Self { own, ledger, racks, client, clock, turns: Mutex::default() }
    }

    /// Whether other agents serve a rack.
    pub(crate) fn has_others(&self, rack: u32) -> bool {
        !self.others(rack).is_empty()
    }

    /// Waits until no other request of this machine is decided on here.
    pub(crate) async fn turn(&self, rack: u32, serial: &Serial) -> Turn<'_> {
        let key = (rack, serial.clone());
        let turn = Arc::clone(self.turns.lock().entry(key.clone()).or_default());
        let turn = turn.lock_owned().await;
        Turn { claims: self, key, turn: Some(turn) }
    }

    /// Whether this agent may tell a secret, of which it has this knowledge.
    ///
    /// # Errors
    /// The claim cannot be kept.
    pub(crate) async fn claim(
        &self,
        known: RamdiskTold,
        claim: SecretClaim,
    ) -> Result<bool, LedgerError> {
        let others = self.others(known.rack);
        let (before, after): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|agent| agent.name < self.own);
        for agent in before {
            if let Some(claimed) = self.call(&agent, &known, Some(claim)).await {
                self.ledger.learn_ramdisks(vec![claimed.known])?;
                return Ok(claimed.is_granted);
            }
        }
        Ok(self.decide(known, (claim, &self.own), after).await?.is_granted)
    }

    /// Answers another agent.
    ///
    /// # Errors
    /// What it tells cannot be kept, or is of no rack that is served here.
    pub async fn answer(&self, call: RamdiskClaim) -> Result<RamdiskClaimed, Failure> {
        let RamdiskClaim { by, known, claim } = call;
        if self.racks.get(known.rack).is_none() {
            return Err(Failure::failed(format!("rack {} is not served here", known.rack)));
        }
        let answered = match claim {
            None => self.tell(known),
            Some(claim) => {
                let mut others = self.others(known.rack);
                others.retain(|agent| agent.name != by);
                self.decide(known, (claim, &by), others).await
            }
        };
        answered.map_err(|error| Failure::failed(chain(&error)))
    }

    /// The knowledge of this agent, joined with what another one told.
    fn tell(&self, told: RamdiskTold) -> Result<RamdiskClaimed, LedgerError> {
        let key = (told.rack, told.serial.clone());
        self.ledger.learn_ramdisks(vec![told.clone()])?;
        let at = self.now();
        let (known, _) =
            self.ledger.hear(at, |known| (known.ramdisks.get(&key).cloned(), None, None))?;
        Ok(RamdiskClaimed { known: known.unwrap_or(told), is_granted: false })
    }

    /// Decides, once the others said what they know.
    async fn decide(
        &self,
        known: RamdiskTold,
        (claim, by): (SecretClaim, &NodeName),
        others: Vec<RackAgent>,
    ) -> Result<RamdiskClaimed, LedgerError> {
        let told = join_all(others.iter().map(|agent| self.call(agent, &known, None))).await;
        let told = told.into_iter().flatten().map(|claimed| claimed.known);
        self.ledger.learn_ramdisks(std::iter::once(known.clone()).chain(told).collect())?;
        let (key, at) = ((known.rack, known.serial.clone()), self.now());
        let decide = |all: &Known<'_>| {
            let before = all.ramdisks.get(&key).cloned().unwrap_or(known);
            let (heard, is_granted) = settled(&before.heard, (claim, by), at);
            let record = RamdiskTold { heard, ..before.clone() };
            let change = (record != before).then(|| record.clone());
            (RamdiskClaimed { known: record, is_granted }, change, None)
        };
        let (claimed, durable) = self.ledger.hear(at, decide)?;
        if let Some(durable) = durable {
            durable.wait().await?;
        }
        Ok(claimed)
    }

    async fn call(
        &self,
        agent: &RackAgent,
        known: &RamdiskTold,
        claim: Option<SecretClaim>,
    ) -> Option<RamdiskClaimed> {
        let target = NodeTarget::from(agent);
        let time = if claim.is_some() { CLAIM_TIME } else { ASK_TIME };
        let call = RamdiskClaim { by: self.own.clone(), known: known.clone(), claim };
        let called = timeout(time, self.client.call(&target, call, Meta::default())).await;
        match called {
            Ok(Ok(claimed)) => return Some(claimed),
            Ok(Err(error)) => {
                let (agent, error) = (&agent.name, chain(&error));
                tracing::warn!(error, %agent, "a token is told without the word of an agent");
            }
            Err(_late) => {
                let agent = &agent.name;
                tracing::warn!(%agent, "a token is told without the word of an agent: it is late");
            }
        }
        None
    }

    /// The other agents of a rack, by name.
    fn others(&self, rack: u32) -> Vec<RackAgent> {
        let document = self.racks.get(rack);
        let agents = document.iter().flat_map(|document| &document.agents);
        let mut others: Vec<_> = agents.filter(|agent| agent.name != self.own).cloned().collect();
        others.sort_by(|a, b| a.name.cmp(&b.name));
        others
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now_micros())
    }
}

/// The knowledge after a claim, and whether the claim is granted. The same claim is granted again, since its
/// answer may have been lost.
fn settled(
    heard: &Ramdisk,
    (claim, by): (SecretClaim, &NodeName),
    at: Timestamp,
) -> (Ramdisk, bool) {
    match claim {
        SecretClaim::Token if ironic::is_told(heard) => {
            (heard.clone(), heard.told_by.as_ref() == Some(by))
        }
        SecretClaim::Token => {
            let told = heard.booted.map_or(at, |booted| booted.max(at));
            let (token_told, told_by) = (Some(told), Some(by.clone()));
            // The agent that is known runs since an earlier boot.
            (Ramdisk { token_told, told_by, agent: None, ..heard.clone() }, true)
        }
        SecretClaim::Enrolment { to } => {
            let enrolling = heard.enrolling.unwrap_or(Enrolling { told: at, to });
            let is_granted = enrolling.to == to;
            (Ramdisk { enrolling: Some(enrolling), ..heard.clone() }, is_granted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_secret_is_granted_once_and_the_same_claim_again() {
        let [n1, n2]: [NodeName; 2] = ["n1", "n2"].map(|name| name.parse().unwrap());
        let token =
            |heard: &Ramdisk, by, seconds| settled(heard, (SecretClaim::Token, by), at(seconds));
        let (heard, granted) = token(&Ramdisk::default(), &n1, 5);
        assert!(granted && heard.token_told == Some(at(5)));
        assert_eq!(token(&heard, &n2, 6), (heard.clone(), false));
        assert_eq!(token(&heard, &n1, 6), (heard.clone(), true));
        // A later boot has another token, whatever the clocks say.
        let booted = Ramdisk { booted: Some(at(9)), ..heard };
        let (heard, granted) = token(&booted, &n2, 7);
        assert!(granted && heard.token_told == Some(at(9)) && ironic::is_told(&heard));
        assert!(!token(&heard, &n1, 8).1);

        let enrols = |heard: &Ramdisk, last: u8, by| {
            settled(heard, (SecretClaim::Enrolment { to: [10, 69, 0, last].into() }, by), at(10))
        };
        let (heard, granted) = enrols(&heard, 40, &n1);
        assert!(granted && enrols(&heard, 40, &n2).1);
        assert_eq!(enrols(&heard, 41, &n1), (heard.clone(), false));
    }
}
