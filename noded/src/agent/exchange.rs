//! One exchange: acknowledge, wait for news, hand it out.

use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use model::instance::launch::SightsKnown;
use model::rack_fault::RackFault;
use parking_lot::Mutex;
use tokio::sync::watch;

use rpc::calls::{
    Caller, EXCHANGE_EVENTS_MAX, EXCHANGE_WAIT_MS_MAX, Exchange, Exchanged, SIGNS_TOLD_MAX,
    TROUBLES_MAX,
};
use rpc::fence::Interrupt;
use rpc::tls::AllowedCallers;
use rpc::{Failure, FailureKind};
use stdx::Clock;
use stdx::daemon::chain;

use crate::host_network::HostNetworks;
use crate::machine_certificate::MachineCertificates;
use netboot::key_desk::KeyDesk;
use netboot::ledger::Ledger;
use netboot::rack::Racks;
use virt::Instances;

/// One exchange under way.
pub(super) struct Turn<'a> {
    pub(super) ledger: &'a Arc<Ledger>,
    pub(super) racks: &'a Arc<Racks>,
    pub(super) allowed: &'a AllowedCallers,
    pub(super) network: &'a HostNetworks,
    pub(super) keys: &'a KeyDesk,
    pub(super) machines: &'a MachineCertificates,
    /// The faults that the last answer told.
    pub(super) told_faults: &'a Mutex<Vec<RackFault>>,
    pub(super) instances: &'a Instances,
    pub(super) clock: &'a Clock,
    /// When the certificate ends.
    pub(super) certificate_ends: Option<Timestamp>,
    pub(super) turn: u64,
    pub(super) newest: watch::Receiver<u64>,
    pub(super) interrupt: Interrupt,
}

impl Turn<'_> {
    pub(super) async fn run(mut self, call: Exchange) -> Result<Exchanged, Failure> {
        if call.wait_ms > EXCHANGE_WAIT_MS_MAX {
            let message = format!("an exchange waits at most {EXCHANGE_WAIT_MS_MAX} ms");
            return Err(Failure::new(FailureKind::Malformed, message));
        }
        let ours = self.ledger.incarnation();
        // A master that has just begun, or knows another store.
        let knows_nothing = call.incarnation != Some(ours);
        if call.incarnation == Some(ours) {
            self.ledger
                .acknowledge(call.acknowledged)
                .map_err(|error| Failure::failed(chain(&error)))?;
        } else if call.acknowledged > 0 {
            tracing::warn!(acknowledged = call.acknowledged, "acknowledgement for another store");
        }
        self.wait(Duration::from_millis(u64::from(call.wait_ms)), call.sights).await?;
        let time = Timestamp::from_micros(self.clock.now_micros());
        let (events, dropped) = self.ledger.pending(EXCHANGE_EVENTS_MAX);
        let signs = self.ledger.signs(knows_nothing, SIGNS_TOLD_MAX);
        let racks = self.racks.held();
        let callers = Some(Caller::digest(&self.allowed.current().callers));
        let (certificate_ends, mut faults) = (self.certificate_ends, self.racks.faults());
        self.told_faults.lock().clone_from(&faults);
        faults.truncate(TROUBLES_MAX);
        let mut network_drift = self.network.drift();
        network_drift.truncate(TROUBLES_MAX);
        Ok(Exchanged {
            incarnation: ours,
            events,
            racks,
            dropped,
            callers,
            certificate_ends,
            time: Some(time),
            faults,
            lease_ranges: self.racks.lease_ranges(),
            network_drift,
            key_requests: self.keys.take(),
            machine_certificate: self.machines.wanted(),
            signs,
            sights: Some(self.instances.since(call.sights)),
            facts: None,
        })
    }

    /// Waits for an event, a request for a key, a rack that needs another certificate, faults that were not
    /// told yet, or news of instances, at most `limit`.
    async fn wait(&mut self, limit: Duration, known: Option<SightsKnown>) -> Result<(), Failure> {
        let mut instances = self.instances.watch();
        let life = self.instances.life();
        // A master that knows nothing is told at the end of its wait: it asks first without
        // waiting, and one whose software has no instances never asks.
        let is_new =
            |number: &u64| known.is_some_and(|known| known.life != life || known.number < *number);
        let (mut durable, mut asked) = (self.ledger.watch(), self.keys.watch());
        let mut documents = self.racks.watch();
        let (told, mut faults) = (self.told_faults.lock().clone(), self.racks.watch_faults());
        let deadline = tokio::time::sleep(limit);
        tokio::pin!(deadline);
        loop {
            durable.mark_unchanged();
            if !self.ledger.pending(1).0.is_empty() {
                return Ok(());
            }
            tokio::select! {
                _ = durable.changed() => {}
                _ = asked.wait_for(|new| *new > 0) => return Ok(()),
                _ = documents.changed() => {
                    if self.machines.wanted().is_some() {
                        return Ok(());
                    }
                }
                _ = faults.wait_for(|now| *now != told) => return Ok(()),
                _ = instances.wait_for(is_new) => return Ok(()),
                () = deadline.as_mut() => return Ok(()),
                why = self.interrupt.wait() => return Err(why.failure()),
                _ = self.newest.wait_for(|newest| *newest > self.turn) => {
                    let message = "a newer exchange took the place of this one";
                    return Err(Failure::new(FailureKind::Interrupted, message));
                }
            }
        }
    }
}
