//! One controller, whatever it speaks.

use model::bmc::{BmcProtocol, BootOnce, Health, PowerAction, PowerState};
use model::enrol::Fingerprint;
use model::inventory::Inventory;
use tokio::time::{Instant, sleep};

use crate::error::BmcError;
use crate::http_client::HttpClient;
use crate::ipmi::Ipmi;
use crate::power::Power;
use crate::redfish::Redfish;
use crate::target::Controller;

impl Controller {
    /// Whether the machine runs.
    ///
    /// # Errors
    /// See [`BmcError`].
    pub async fn power_state(&self) -> Result<PowerState, BmcError> {
        match self.url.protocol {
            BmcProtocol::Ipmi => Ipmi::new(self).state().await,
            BmcProtocol::RedfishHttps | BmcProtocol::RedfishHttp => {
                let mut redfish = Redfish::open(self).await?;
                let told = redfish.state().await;
                redfish.close(told).await
            }
        }
    }

    /// Switches the power, and returns when the machine has been seen to be so. A machine that is so
    /// already is left alone.
    ///
    /// # Errors
    /// See [`BmcError`]; [`BmcError::NotDone`] where the controller takes it and nothing happens.
    pub async fn power(&self, action: PowerAction) -> Result<(), BmcError> {
        match self.url.protocol {
            BmcProtocol::Ipmi => self.switch(&mut Ipmi::new(self), action).await,
            BmcProtocol::RedfishHttps | BmcProtocol::RedfishHttp => {
                let mut redfish = Redfish::open(self).await?;
                let told = self.switch(&mut redfish, action).await;
                redfish.close(told).await
            }
        }
    }

    /// Has the machine boot from there at its next start, and only then.
    ///
    /// # Errors
    /// See [`BmcError`].
    pub async fn boot_once(&self, from: BootOnce) -> Result<(), BmcError> {
        match self.url.protocol {
            BmcProtocol::Ipmi => Ipmi::new(self).boot_once(from).await,
            BmcProtocol::RedfishHttps | BmcProtocol::RedfishHttp => {
                let mut redfish = Redfish::open(self).await?;
                let told = redfish.boot_once(from).await;
                redfish.close(told).await
            }
        }
    }

    /// Power and sensors.
    ///
    /// # Errors
    /// See [`BmcError`].
    pub async fn health(&self) -> Result<Health, BmcError> {
        match self.url.protocol {
            BmcProtocol::Ipmi => Ipmi::new(self).health().await,
            BmcProtocol::RedfishHttps | BmcProtocol::RedfishHttp => {
                let mut redfish = Redfish::open(self).await?;
                let told = redfish.health().await;
                redfish.close(told).await
            }
        }
    }

    /// What the machine is made of, as far as the controller knows; one by IPMI knows little.
    ///
    /// # Errors
    /// See [`BmcError`].
    pub async fn inventory(&self) -> Result<Inventory, BmcError> {
        let told = match self.url.protocol {
            BmcProtocol::Ipmi => Ipmi::new(self).inventory().await?,
            BmcProtocol::RedfishHttps | BmcProtocol::RedfishHttp => {
                let mut redfish = Redfish::open(self).await?;
                let told = redfish.inventory().await;
                redfish.close(told).await?
            }
        };
        Ok(told.tidy())
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

    async fn switch(&self, driver: &mut impl Power, action: PowerAction) -> Result<(), BmcError> {
        match action {
            PowerAction::On | PowerAction::Off | PowerAction::SoftOff => {
                self.step(driver, action, action).await
            }
            PowerAction::Cycle => {
                self.step(driver, PowerAction::Off, action).await?;
                self.step(driver, PowerAction::On, action).await
            }
        }
    }

    /// One change of the power, to its seen end.
    async fn step(
        &self,
        driver: &mut impl Power,
        ask: PowerAction,
        whole: PowerAction,
    ) -> Result<(), BmcError> {
        let wanted = ask.ends_in();
        if driver.state().await? == wanted {
            return Ok(());
        }
        driver.ask(ask).await?;
        let limit = match ask {
            PowerAction::SoftOff => self.times.soft_off,
            PowerAction::On | PowerAction::Off | PowerAction::Cycle => self.times.switch,
        };
        let begun = Instant::now();
        loop {
            let seen = driver.state().await?;
            if seen == wanted {
                return Ok(());
            }
            if begun.elapsed() >= limit {
                let url = self.url.to_string();
                return Err(BmcError::NotDone { url, action: whole, seen, waited: limit });
            }
            sleep(self.times.look).await;
        }
    }
}
