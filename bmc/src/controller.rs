//! One controller, whatever it speaks.

use model::bmc::{BmcProtocol, BootOnce, Health, PowerAction, PowerState};
use model::enrol::Fingerprint;
use model::inventory::Inventory;
use tokio::time::{Instant, sleep};

use crate::error::BmcError;
use crate::http_client::HttpClient;
use crate::ipmi::Ipmi;
use crate::power::{Next, Ordered, Switching};
use crate::redfish::Redfish;
use crate::target::Controller;

/// The way to one controller for as long as one opcode takes. It logs in with its first question, and again where
/// the controller forgot that. A session must be closed: controllers have few places for sessions.
pub struct Session<'a> {
    controller: &'a Controller,
    language: Language<'a>,
    /// Whether the machine was ordered off, and may be.
    is_off: bool,
}

enum Language<'a> {
    Redfish(Redfish<'a>),
    Ipmi(Ipmi<'a>),
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("url", &self.controller.url).finish_non_exhaustive()
    }
}

impl Controller {
    /// The way to it; nothing is asked yet.
    pub fn session(&self) -> Session<'_> {
        let language = match self.url.protocol {
            BmcProtocol::Ipmi => Language::Ipmi(Ipmi::new(self)),
            BmcProtocol::RedfishHttps | BmcProtocol::RedfishHttp => {
                Language::Redfish(Redfish::new(self))
            }
        };
        Session { controller: self, language, is_off: false }
    }

    /// The certificate that it shows now; none where it speaks without TLS.
    ///
    /// # Errors
    /// It is not reached.
    pub async fn certificate(&self) -> Result<Option<Fingerprint>, BmcError> {
        match self.url.protocol {
            BmcProtocol::Ipmi | BmcProtocol::RedfishHttp => Ok(None),
            BmcProtocol::RedfishHttps => HttpClient::new(self).certificate().await,
        }
    }
}

/// Each question fails as [`BmcError`] tells, and may be asked again in the same session.
impl Session<'_> {
    /// Ends it, whatever came of the questions.
    pub async fn close(self) {
        if let Language::Redfish(redfish) = self.language {
            redfish.log_out().await;
        }
    }

    /// Whether the machine runs.
    ///
    /// # Errors
    /// See [`BmcError`].
    pub async fn power_state(&mut self) -> Result<PowerState, BmcError> {
        match &mut self.language {
            Language::Redfish(redfish) => redfish.state().await,
            Language::Ipmi(ipmi) => ipmi.state().await,
        }
    }

    /// Has the machine boot from there at its next start, and only then; returns when the controller shows that
    /// it kept that.
    ///
    /// # Errors
    /// See [`BmcError`].
    pub async fn boot_once(&mut self, from: BootOnce) -> Result<(), BmcError> {
        match &mut self.language {
            Language::Redfish(redfish) => redfish.boot_once(from).await,
            Language::Ipmi(ipmi) => ipmi.boot_once(from).await,
        }
    }

    /// Power and sensors.
    ///
    /// # Errors
    /// See [`BmcError`].
    pub async fn health(&mut self) -> Result<Health, BmcError> {
        match &mut self.language {
            Language::Redfish(redfish) => redfish.health().await,
            Language::Ipmi(ipmi) => ipmi.health().await,
        }
    }

    /// The parts of the machine, as far as the controller knows them; by IPMI these are few.
    ///
    /// # Errors
    /// See [`BmcError`].
    pub async fn inventory(&mut self) -> Result<Inventory, BmcError> {
        let told = match &mut self.language {
            Language::Redfish(redfish) => redfish.inventory().await?,
            Language::Ipmi(ipmi) => ipmi.inventory().await?,
        };
        Ok(told.tidy())
    }

    /// Switches the power, and returns when the machine has been seen to be so. A machine that is so already is
    /// left alone.
    ///
    /// # Errors
    /// See [`BmcError`]; [`BmcError::NotDone`] where the controller takes it and nothing happens.
    pub async fn power(&mut self, action: PowerAction) -> Result<(), BmcError> {
        if action == PowerAction::Cycle {
            // A machine that was not seen to be off may be so all the same.
            let off = self.switch(PowerAction::Off).await;
            self.switch(PowerAction::On).await?;
            return off;
        }
        self.switch(action).await
    }

    async fn order(&mut self, action: PowerAction) -> Result<(), BmcError> {
        match &mut self.language {
            Language::Redfish(redfish) => redfish.order(action).await,
            Language::Ipmi(ipmi) => ipmi.order(action).await,
        }
    }

    /// One change of the power, to its seen end.
    async fn switch(&mut self, action: PowerAction) -> Result<(), BmcError> {
        let times = &self.controller.times;
        let limit = if action == PowerAction::SoftOff { times.soft_off } else { times.switch };
        let (begun, wanted) = (Instant::now(), action.ends_in());
        let mut switching = Switching::new(wanted, self.is_off, limit, times.order_again);
        let mut refusal = None;
        loop {
            let seen = match self.power_state().await {
                Err(error) if !error.is_passing() => return Err(error),
                seen => seen,
            };
            match switching.seen(seen.as_ref().ok().copied(), begun.elapsed()) {
                Next::Done => return Ok(()),
                Next::Look => {}
                Next::GiveUp => return Err(self.not_done(action, seen, refusal, limit)),
                Next::Order => {
                    self.is_off |= wanted == PowerState::Off;
                    let became = match self.order(action).await {
                        Ok(()) => Ordered::Taken,
                        Err(error @ BmcError::Refused { .. }) => {
                            refusal = Some(error);
                            Ordered::Refused
                        }
                        Err(error) if !error.is_passing() => return Err(error),
                        Err(error) => {
                            refusal = Some(error);
                            Ordered::Unknown
                        }
                    };
                    if became == Ordered::Taken {
                        refusal = None;
                    }
                    switching.ordered(became, begun.elapsed());
                }
            }
            sleep(times.look).await;
        }
    }

    /// Why the power is not as it should be: the order was not taken, nothing can be seen, or nothing happened.
    fn not_done(
        &self,
        action: PowerAction,
        seen: Result<PowerState, BmcError>,
        refusal: Option<BmcError>,
        waited: std::time::Duration,
    ) -> BmcError {
        let url = self.controller.url.to_string();
        match (refusal, seen) {
            (Some(refusal), _) => refusal,
            (None, Err(unseen)) => unseen,
            (None, Ok(seen)) => BmcError::NotDone { url, action, seen, waited },
        }
    }
}
