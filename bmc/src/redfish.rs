//! Redfish (DSP0266, schemas of DSP8010) as controllers speak it today.

use http::{HeaderName, Method, header};
use model::bmc::{BootOnce, Health, PowerAction, PowerState};
use model::inventory::Inventory;
use serde_json::{Value, json};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::BmcError;
use crate::http_client::HttpClient;
use crate::power::Power;
use crate::target::Controller;

mod hardware;
mod identity;

/// Where every controller begins (DSP0266, 6.2).
const ROOT: &str = "/redfish/v1/";
/// Systems of one controller: blades of a chassis, not more.
const SYSTEMS_MAX: usize = 64;
/// Parts of one kind that are looked at: disks of a large machine.
const PARTS_MAX: usize = 256;

/// A machine as its controller shows it.
pub(crate) struct Redfish<'a> {
    controller: &'a Controller,
    http: HttpClient<'a>,
    /// The session that ends with this.
    session: Option<String>,
    /// Where the machine's own object is.
    system: String,
}

impl<'a> Redfish<'a> {
    /// Logs in and finds the machine. What is opened must be closed: controllers have few places for
    /// sessions, and some keep one for half an hour.
    pub(crate) async fn open(controller: &'a Controller) -> Result<Self, BmcError> {
        let http = HttpClient::new(controller);
        let mut redfish = Self { controller, http, session: None, system: String::new() };
        match redfish.begin().await {
            Ok(()) => Ok(redfish),
            Err(error) => redfish.close(Err(error)).await,
        }
    }

    /// Logs out, whatever came of the work.
    pub(crate) async fn close<T>(mut self, done: Result<T, BmcError>) -> Result<T, BmcError> {
        self.log_out().await;
        done
    }

    async fn begin(&mut self) -> Result<(), BmcError> {
        let root = self.http.get(ROOT).await?;
        self.log_in(&root).await?;
        let systems = self.link(&root, "Systems")?;
        let systems = self.members(&systems, SYSTEMS_MAX).await?;
        self.system = identity::choose(self.controller, &systems)?;
        Ok(())
    }

    /// A session where there are some, Basic authentication where not (DSP0266, 13.3).
    async fn log_in(&mut self, root: &Value) -> Result<(), BmcError> {
        let login = &self.controller.login;
        let named = root["Links"]["Sessions"]["@odata.id"].as_str().map(str::to_owned);
        if let Some(sessions) = named {
            let body = json!({"UserName": login.user, "Password": login.password.expose()});
            let answered = self.http.ask(Method::POST, &sessions, Some(&body), None).await?;
            let is_there = ![404, 405, 501].contains(&answered.status.as_u16());
            if is_there {
                let answered = self.http.good(&Method::POST, &sessions, answered)?;
                self.session = answered.location.as_deref().map(path_of);
                if let Some(token) = answered.token {
                    self.http.authorization =
                        Some((HeaderName::from_static("x-auth-token"), token));
                    return Ok(());
                }
            }
        }
        let basic = STANDARD.encode(format!("{}:{}", login.user, login.password.expose()));
        self.http.authorization = Some((header::AUTHORIZATION, format!("Basic {basic}")));
        Ok(())
    }

    async fn log_out(&mut self) {
        let Some(session) = self.session.take() else { return };
        if let Err(error) = self.http.ask(Method::DELETE, &session, None, None).await {
            tracing::debug!(url = %self.controller.url, %error, "a session was not ended");
        }
    }

    fn nonsense(&self, path: &str, reason: impl Into<String>) -> BmcError {
        let url = self.controller.url.to_string();
        BmcError::Nonsense { url, request: format!("GET {path}"), reason: reason.into() }
    }

    fn unsupported(&self, what: impl Into<String>) -> BmcError {
        BmcError::Unsupported { url: self.controller.url.to_string(), what: what.into() }
    }

    /// The path of a named neighbour of an object.
    fn link(&self, object: &Value, name: &str) -> Result<String, BmcError> {
        let path = object[name]["@odata.id"].as_str().map(str::to_owned);
        path.ok_or_else(|| {
            let at = object["@odata.id"].as_str().unwrap_or(ROOT);
            self.nonsense(at, format!("`{name}` is missing"))
        })
    }

    /// The objects of a collection; some controllers send them along.
    async fn members(&mut self, collection: &str, most: usize) -> Result<Vec<Value>, BmcError> {
        let told = self.http.get(collection).await?;
        let members = told["Members"].as_array();
        let members = members.ok_or_else(|| self.nonsense(collection, "`Members` is missing"))?;
        let mut all = Vec::new();
        for member in members.iter().take(most) {
            match member["@odata.id"].as_str() {
                Some(path) if member.as_object().is_some_and(|fields| fields.len() == 1) => {
                    all.push(self.http.get(path).await?);
                }
                _ => all.push(member.clone()),
            }
        }
        Ok(all)
    }

    /// The same where there may be none: what a controller lacks is left out.
    async fn members_of(&mut self, object: &Value, name: &str) -> Vec<Value> {
        let Some(path) = object[name]["@odata.id"].as_str().map(str::to_owned) else {
            return Vec::new();
        };
        self.members(&path, PARTS_MAX).await.unwrap_or_else(|error| {
            tracing::debug!(url = %self.controller.url, %error, "parts are left out");
            Vec::new()
        })
    }

    async fn object(&mut self) -> Result<Value, BmcError> {
        let path = self.system.clone();
        self.http.get(&path).await
    }

    /// Sets where the next boot comes from. Many controllers take changes only at the settings object
    /// that the system names (`@Redfish.Settings`), and only with the tag of what is changed.
    pub(crate) async fn boot_once(&mut self, from: BootOnce) -> Result<(), BmcError> {
        let system = self.object().await?;
        let boot = &system["Boot"];
        let known = boot["BootSourceOverrideTarget@Redfish.AllowableValues"].as_array();
        let takes = |target: &str| known.is_none_or(|known| known.iter().any(|one| one == target));
        let targets: &[&str] = match from {
            BootOnce::Network => &["UefiHttp", "Pxe"],
            BootOnce::Disk => &["Hdd"],
        };
        let target = targets.iter().find(|target| takes(target));
        let target = target.ok_or_else(|| {
            self.unsupported(format!(
                "boot once from {}; it takes none of {targets:?}",
                from.as_str()
            ))
        })?;
        let mut wanted = json!({
            "BootSourceOverrideEnabled": "Once",
            "BootSourceOverrideTarget": target,
        });
        if boot["BootSourceOverrideMode"].is_string() {
            wanted["BootSourceOverrideMode"] = "UEFI".into();
        }
        let settings = system["@Redfish.Settings"]["SettingsObject"]["@odata.id"].as_str();
        let path = settings.unwrap_or(&self.system).to_owned();
        self.patch(&path, &json!({ "Boot": wanted })).await
    }

    /// Changes an object; the tag is fetched again, once, where it was changed meanwhile.
    async fn patch(&mut self, path: &str, change: &Value) -> Result<(), BmcError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let object = self.http.get(path).await?;
            let etag = object["@odata.etag"].as_str();
            let answered = self.http.ask(Method::PATCH, path, Some(change), etag).await?;
            if answered.status.as_u16() == 412 && tries == 1 {
                continue;
            }
            return self.http.good(&Method::PATCH, path, answered).map(drop);
        }
    }

    pub(crate) async fn health(&mut self) -> Result<Health, BmcError> {
        let system = self.object().await?;
        let power = self.power_of(&system)?;
        let sensors = self.sensors(&system).await;
        let status = &system["Status"];
        let health = status["HealthRollup"].as_str().or_else(|| status["Health"].as_str());
        Ok(Health { power, health: health.map(model::inventory::text), sensors })
    }

    pub(crate) async fn inventory(&mut self) -> Result<Inventory, BmcError> {
        let system = self.object().await?;
        Ok(self.hardware(&system).await)
    }

    fn power_of(&self, system: &Value) -> Result<PowerState, BmcError> {
        // A machine on its way still runs, or runs already (Resource.PowerState).
        match system["PowerState"].as_str() {
            Some("On" | "PoweringOff" | "Paused") => Ok(PowerState::On),
            Some("Off" | "PoweringOn") => Ok(PowerState::Off),
            told => {
                let told = told.map_or_else(|| "null".to_owned(), model::inventory::text);
                Err(self.nonsense(&self.system, format!("`PowerState` is {told}")))
            }
        }
    }
}

impl Power for Redfish<'_> {
    async fn state(&mut self) -> Result<PowerState, BmcError> {
        let system = self.object().await?;
        self.power_of(&system)
    }

    async fn ask(&mut self, action: PowerAction) -> Result<(), BmcError> {
        let system = self.object().await?;
        let reset = &system["Actions"]["#ComputerSystem.Reset"];
        let known = reset["ResetType@Redfish.AllowableValues"].as_array();
        let words: &[&str] = match action {
            PowerAction::On | PowerAction::Cycle => &["On", "ForceOn", "PushPowerButton"],
            PowerAction::Off => &["ForceOff"],
            PowerAction::SoftOff => &["GracefulShutdown"],
        };
        let takes = |word: &str| known.is_none_or(|known| known.iter().any(|one| one == word));
        let word = words.iter().find(|word| takes(word));
        let word = word.ok_or_else(|| {
            self.unsupported(format!("power {action}; it takes none of {words:?}"))
        })?;
        let target = reset["target"].as_str();
        let target = target.ok_or_else(|| self.unsupported("changes of the power"))?.to_owned();
        let body = json!({ "ResetType": word });
        let answered = self.http.ask(Method::POST, &target, Some(&body), None).await?;
        self.http.good(&Method::POST, &target, answered).map(drop)
    }
}

/// The path of a location, which some write as a whole URL. Whether it is one is looked at where it is used.
fn path_of(location: &str) -> String {
    let Some((_scheme, rest)) = location.split_once("://") else { return location.to_owned() };
    rest.find('/').map_or_else(String::new, |at| rest[at..].to_owned())
}

#[cfg(test)]
mod tests;
