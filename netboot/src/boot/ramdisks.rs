//! Ironic's API for agents in ramdisks, answered from the rack documents and what was heard so far. It
//! takes no lock of a job: what is heard is an observation.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use ironic::{Answer, Arrival, Door, Effect, Machines, Node, Origin, Outcome, Question, Several};
use model::machine::node_uuid;
use model::power_cycle::Ramdisk;
use model::rack::{Observation, RackDocument, RackMachine};
use model::{MacAddress, Serial, Timestamp, Uuid};
use rpc::calls::{RamdiskTold, SecretClaim};
use stdx::admission::network;
use stdx::daemon::chain as causes;

use super::origin::{Sender, SenderAddress};
use super::routes::{address, now};
use super::{Ends, Rack};
use crate::ledger::{Known, LedgerError, is_of};
use crate::rack::Passing;

pub(super) async fn answer(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Extension(door): Extension<Door>,
    request: Request,
) -> Response {
    rack.answers.ramdisk.add();
    let (head, body) = request.into_parts();
    let base = format!("http://{}", ends.ours);
    let arrival = Arrival { base: &base, from: network(ends.theirs.ip()) };
    let asked = match door.read(&head, arrival, body).await {
        Ok(asked) => asked,
        Err(answer) => return answer.response().into_response(),
    };
    let asks =
        Asks { rack: &rack, ends, asked: &asked, from: address(&rack, ends), at: now(&rack) };
    let answer = asks.decided().await.unwrap_or_else(|error| {
        tracing::warn!(error = causes(&error), "what a ramdisk told is not kept");
        Answer::refused(StatusCode::SERVICE_UNAVAILABLE, UNKEPT)
    });
    answer.response().into_response()
}

const UNKEPT: &str = "The request could not be kept; try again.";

/// A request, and what is known of it.
struct Asks<'a> {
    rack: &'a Rack,
    ends: Ends,
    asked: &'a ironic::Asked,
    from: SenderAddress,
    at: Timestamp,
}

impl Asks<'_> {
    /// Answers, once other agents know of a token that is told.
    async fn decided(&self) -> Result<Answer, LedgerError> {
        let Some(claims) = &self.rack.claims else { return self.kept(None).await };
        let Some(first) = self.first_telling()?.filter(|first| claims.has_others(first.rack))
        else {
            return self.kept(None).await;
        };
        let _turn = claims.turn(first.rack, &first.serial).await;
        // Another request had the turn before.
        let Some(first) = self.first_telling()? else { return self.kept(None).await };
        let serial = first.serial.clone();
        let is_granted = claims.claim(first, SecretClaim::Token).await?;
        self.kept(Some(&serial).filter(|_| is_granted)).await
    }

    /// The record of a ramdisk that would be told its token now.
    fn first_telling(&self) -> Result<Option<RamdiskTold>, LedgerError> {
        if !matches!(self.asked.question, Question::Lookup { .. }) {
            return Ok(None);
        }
        let look = |known: &Known<'_>| (self.outcome(known, None).effect, None, None);
        let (effect, _) = self.rack.ledger.hear(self.at, look)?;
        let Effect::Heard { observation, .. } = effect else { return Ok(None) };
        let told = record(&observation).map(|told| {
            let Ramdisk { booted, enrolling, .. } = told.heard;
            RamdiskTold { heard: Ramdisk { booted, enrolling, ..Ramdisk::default() }, ..told }
        });
        Ok(told)
    }

    fn outcome(&self, known: &Known<'_>, claimed: Option<&Serial>) -> Outcome {
        let machines = Served { asks: self, known, claimed };
        ironic::answer(self.asked, &machines, self.at)
    }

    /// Answers, once what must outlive a restart does. This machine's token was claimed for it.
    async fn kept(&self, claimed: Option<&Serial>) -> Result<Answer, LedgerError> {
        let decide = |known: &Known<'_>| {
            let outcome = self.outcome(known, claimed);
            let observation = match &outcome.effect {
                Effect::Heard { observation, .. } => Some((**observation).clone()),
                Effect::Nothing | Effect::Several(_) | Effect::Outlived(_) => None,
            };
            let record = observation.as_ref().and_then(record);
            (outcome, record, observation)
        };
        let (outcome, durable) = self.rack.ledger.hear(self.at, decide)?;
        let from = self.ends.theirs.ip();
        match outcome.effect {
            Effect::Heard { observation, is_vital } => {
                told(&observation, self.ends);
                if is_vital && let Some(durable) = durable {
                    durable.wait().await?;
                }
            }
            Effect::Several(Several(serials)) => {
                let serials: Vec<String> = serials.iter().map(ToString::to_string).collect();
                let serials = serials.join(", ");
                self.trouble(format!(
                    "a ramdisk at {from} has the cards of several machines: {serials}"
                ));
            }
            Effect::Outlived(serial) => self.trouble(format!(
                "a ramdisk at {from} shows the token of an earlier boot of machine {serial}, which began \
                 another one since: two of it run, or somebody else began that boot; `gnt machine power cycle \
                 {serial}` ends both"
            )),
            Effect::Nothing => {}
        }
        Ok(outcome.answer)
    }

    fn trouble(&self, why: String) {
        tracing::warn!(why, "a ramdisk is not answered");
        self.rack.racks.set_passing(Passing::Identity, why);
    }
}

fn told(observation: &Observation, ends: Ends) {
    let from = ends.theirs.ip();
    match observation {
        Observation::Ramdisk { serial, heard, .. } => {
            let agent = heard.agent.as_ref().map(|agent| agent.callback_url.as_str());
            tracing::info!(%serial, %from, agent, "a ramdisk is heard");
        }
        Observation::Inspected { serial, error, .. } => {
            tracing::info!(%serial, %from, error, "a ramdisk told what its machine is made of");
        }
        Observation::Lease(_) | Observation::Boot { .. } | Observation::Unknown { .. } => {}
    }
}

fn record(seen: &Observation) -> Option<RamdiskTold> {
    let Observation::Ramdisk { rack, serial, registered, cycle, heard } = seen.clone() else {
        return None;
    };
    Some(RamdiskTold { rack, serial, registered, cycle, heard })
}

/// The machines that this agent serves.
struct Served<'a> {
    asks: &'a Asks<'a>,
    known: &'a Known<'a>,
    /// The machine whose token was claimed for this answer.
    claimed: Option<&'a Serial>,
}

impl Served<'_> {
    fn node(&self, rack: u32, machine: &RackMachine) -> Node {
        let record = self.known.ramdisks.get(&(rack, machine.serial.clone()));
        let record = record.filter(|record| is_of(record, machine));
        let mut ramdisk = machine.ramdisk.clone();
        if let (Some(expected), Some(record)) = (&mut ramdisk, record) {
            expected.heard = ironic::merged(&expected.heard, &record.heard);
        }
        Node {
            rack,
            serial: machine.serial.clone(),
            uuid: node_uuid(machine.uuid, &machine.serial),
            registered: machine.registered,
            cycle: machine.cycle,
            ramdisk,
        }
    }

    fn with(&self, serial: Option<&Serial>, macs: &[MacAddress]) -> Vec<Node> {
        let found = self.asks.rack.racks.with(serial, macs);
        found.iter().map(|(rack, machine)| self.node(*rack, machine)).collect()
    }
}

impl Machines for Served<'_> {
    fn by_uuid(&self, uuid: Uuid) -> Vec<Node> {
        let found = self.asks.rack.racks.by_uuid(uuid);
        let node = |(document, at): &(Arc<RackDocument>, usize)| {
            Some(self.node(document.rack, document.machines.get(*at)?))
        };
        found.iter().filter_map(node).collect()
    }

    fn by_macs(&self, macs: &[MacAddress]) -> Vec<Node> {
        self.with(None, macs)
    }

    fn by_serial(&self, serial: &Serial) -> Vec<Node> {
        self.with(Some(serial), &[])
    }

    fn origin(&self, node: &Node) -> Origin {
        let (racks, from) = (&self.asks.rack.racks, self.asks.from);
        let its_own = racks.by_uuid(node.uuid);
        let mut its_own = its_own.iter().filter_map(|(document, at)| document.machines.get(*at));
        let Some(machine) = its_own.find(|machine| machine.serial == node.serial) else {
            return Origin::Itself;
        };
        let is_its_own = |card: &MacAddress| machine.mac.contains(card);
        let card = from.card.filter(|card| !is_its_own(card));
        if card.is_some_and(|card| !racks.with(None, &[card]).is_empty()) {
            return Origin::AnotherMachine;
        }
        let leased = |cards: &[MacAddress]| self.known.leased_by(cards, self.asks.at);
        match Sender::of(from, machine, leased) {
            Sender::Machine => Origin::Itself,
            Sender::Stranger(who) => Origin::Elsewhere { card: who.card },
        }
    }

    fn has_claimed(&self, node: &Node) -> bool {
        self.claimed == Some(&node.serial)
    }
}

#[cfg(test)]
mod tests;
