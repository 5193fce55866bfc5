//! Ironic's API for agents in ramdisks, answered from the rack documents and what was heard so far. It
//! takes no lock of a job: what is heard is an observation.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use ironic::{Answer, Door, Effect, Machines, Node, Several};
use model::machine::node_uuid;
use model::rack::{Observation, RackDocument, RackMachine};
use model::{MacAddress, Serial, Uuid};
use rpc::calls::RamdiskTold;
use stdx::daemon::chain as causes;

use super::routes::{holder, now};
use super::{Ends, Rack};
use crate::ledger::{LedgerError, Ramdisks, is_of};
use crate::rack::{Passing, Racks};

pub(super) async fn answer(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Extension(door): Extension<Door>,
    request: Request,
) -> Response {
    rack.answers.ramdisk.add();
    let (head, body) = request.into_parts();
    let asked = match door.read(&head, &format!("http://{}", ends.ours), body).await {
        Ok(asked) => asked,
        Err(answer) => return answer.response().into_response(),
    };
    let answer = decided(&rack, ends, &asked).await.unwrap_or_else(|error| {
        tracing::warn!(error = causes(&error), "what a ramdisk told is not kept");
        Answer::refused(StatusCode::SERVICE_UNAVAILABLE, UNKEPT)
    });
    answer.response().into_response()
}

const UNKEPT: &str = "The request could not be kept; try again.";

/// Answers, once what must outlive a restart does.
async fn decided(rack: &Rack, ends: Ends, asked: &ironic::Asked) -> Result<Answer, LedgerError> {
    let at = now(rack);
    let holder = match ends.theirs.ip().to_canonical() {
        IpAddr::V4(address) => holder(rack, address, at),
        IpAddr::V6(_) => None,
    };
    let decide = |heard: &Ramdisks| {
        let outcome = ironic::answer(asked, &Known { racks: &rack.racks, heard, holder }, at);
        let observation = match &outcome.effect {
            Effect::Heard { observation, .. } => Some((**observation).clone()),
            Effect::Nothing | Effect::Several(_) => None,
        };
        let record = observation.as_ref().and_then(record);
        (outcome, record, observation)
    };
    let (outcome, durable) = rack.ledger.hear(at, decide)?;
    match outcome.effect {
        Effect::Heard { observation, is_vital } => {
            told(&observation, ends);
            if is_vital && let Some(durable) = durable {
                durable.wait().await?;
            }
        }
        Effect::Several(Several(serials)) => {
            let serials: Vec<String> = serials.iter().map(ToString::to_string).collect();
            let why = format!(
                "a ramdisk at {} has the cards of several machines: {}",
                ends.theirs.ip(),
                serials.join(", ")
            );
            tracing::warn!(why, "a ramdisk is not answered");
            rack.racks.set_passing(Passing::Identity, why);
        }
        Effect::Nothing => {}
    }
    Ok(outcome.answer)
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

/// What is kept of an observation of a ramdisk.
fn record(seen: &Observation) -> Option<RamdiskTold> {
    let Observation::Ramdisk { rack, serial, registered, cycle, heard } = seen.clone() else {
        return None;
    };
    Some(RamdiskTold { rack, serial, registered, cycle, heard })
}

/// What this agent knows of machines.
struct Known<'a> {
    racks: &'a Racks,
    heard: &'a Ramdisks,
    /// Whose card has the lease of the address that is asked from.
    holder: Option<MacAddress>,
}

impl Known<'_> {
    fn node(&self, rack: u32, machine: &RackMachine) -> Node {
        let record = self.heard.get(&(rack, machine.serial.clone()));
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
        let found = self.racks.with(serial, macs);
        found.iter().map(|(rack, machine)| self.node(*rack, machine)).collect()
    }
}

impl Machines for Known<'_> {
    fn by_uuid(&self, uuid: Uuid) -> Vec<Node> {
        let found = self.racks.by_uuid(uuid);
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

    fn asks_for_another(&self, node: &Node) -> bool {
        let Some(holder) = self.holder else { return false };
        let its_own = self.racks.by_uuid(node.uuid);
        let mut its_own = its_own.iter().filter_map(|(document, at)| document.machines.get(*at));
        if its_own.any(|machine| machine.serial == node.serial && machine.mac.contains(&holder)) {
            return false;
        }
        self.racks.with(None, &[holder]).iter().any(|(_, machine)| machine.serial != node.serial)
    }
}

#[cfg(test)]
mod tests;
