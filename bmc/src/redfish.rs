//! Redfish (DSP0266, schemas of DSP8010) as controllers speak it today.

mod boot;
mod hardware;
mod identity;
mod login;

use http::Method;
use model::bmc::{Health, PowerAction, PowerState};
use model::inventory::Inventory;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::answer::Answered;
use crate::error::BmcError;
use crate::http_client::{HttpClient, Question};
use crate::target::Controller;
use login::Sessions;

/// The path at which every controller begins (DSP0266, 6.2).
const ROOT: &str = "/redfish/v1/";
/// The action on the power of a system.
const RESET: &str = "#ComputerSystem.Reset";
/// Systems of one controller: blades of a chassis, not more.
const SYSTEMS_MAX: usize = 64;
/// Parts of one kind that are looked at: disks of a large machine.
const PARTS_MAX: usize = 256;
/// Parts of one kind that are tried in vain: each may take a minute, and the others will not do better.
const UNREAD_MAX: usize = 3;

/// A machine as its controller shows it. It logs in with the first question, and again where the controller
/// forgot that.
pub(crate) struct Redfish<'a> {
    controller: &'a Controller,
    http: HttpClient<'a>,
    sessions: Sessions,
    /// The path of the machine's own object, once it was found.
    system: Option<String>,
    /// The action on its power, as it was shown last.
    reset: Value,
}

/// The objects of a collection that could be read.
#[derive(Default)]
struct Members {
    all: Vec<Value>,
    /// Why there may be more.
    unread: Option<BmcError>,
}

impl<'a> Redfish<'a> {
    pub(crate) fn new(controller: &'a Controller) -> Self {
        let http = HttpClient::new(controller);
        Self { controller, http, sessions: Sessions::default(), system: None, reset: Value::Null }
    }

    /// Logs in and finds the machine, where that was not done yet.
    async fn enter(&mut self) -> Result<String, BmcError> {
        if let Some(path) = &self.system {
            return Ok(path.clone());
        }
        let root = match self.get(ROOT).await {
            Ok(root) => root,
            Err(error) => return Err(self.http.first_failed(error).await),
        };
        let systems = self.link(&root, "Systems")?;
        if self.http.authorization.is_none() {
            self.log_in(&root).await?;
        }
        let systems = self.members(&systems, SYSTEMS_MAX).await?;
        let path = identity::choose(self.controller, &systems.all, systems.unread)?;
        self.system = Some(path.clone());
        Ok(path)
    }

    fn nonsense(&self, path: &str, reason: impl Into<String>) -> BmcError {
        let url = self.controller.url.to_string();
        BmcError::Nonsense { url, request: format!("GET {path}"), reason: reason.into() }
    }

    fn unsupported(&self, what: impl Into<String>) -> BmcError {
        BmcError::Unsupported { url: self.controller.url.to_string(), what: what.into() }
    }

    /// Asks; logs in again where the controller knows nothing of the login any more.
    async fn ask(&mut self, question: Question<'_>) -> Result<Answered, BmcError> {
        let answered = self.http.ask(question).await?;
        // Some say of a session that ended that it may not do this.
        if self.sessions.is_open() && [401, 403].contains(&answered.status.as_u16()) {
            self.log_in_again().await?;
            return self.http.ask(question).await;
        }
        Ok(answered)
    }

    async fn read(&mut self, path: &str) -> Result<Answered, BmcError> {
        let answered = self.ask(Question::new(&Method::GET, path, None)).await?;
        self.http.good(&Method::GET, path, answered)
    }

    async fn get(&mut self, path: &str) -> Result<Value, BmcError> {
        self.read(path).await.map(|answered| answered.body)
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
    async fn members(&mut self, collection: &str, most: usize) -> Result<Members, BmcError> {
        let told = self.get(collection).await?;
        let members = told["Members"].as_array();
        let members = members.ok_or_else(|| self.nonsense(collection, "`Members` is missing"))?;
        Ok(self.objects(collection, members, most).await)
    }

    /// The objects of a list of links.
    async fn objects(&mut self, from: &str, links: &[Value], most: usize) -> Members {
        let mut found = Members::default();
        let mut failures = 0;
        for link in links.iter().take(most) {
            let is_whole = link.as_object().is_some_and(|fields| fields.len() > 1);
            let object = match link["@odata.id"].as_str() {
                _ if is_whole => Ok(link.clone()),
                Some(path) => self.get(path).await,
                None => Err(self.nonsense(from, "a link is missing")),
            };
            match object {
                Ok(object) => found.all.push(object),
                Err(error) => {
                    failures += 1;
                    found.unread = Some(error);
                    if failures == UNREAD_MAX {
                        break;
                    }
                }
            }
        }
        found
    }

    /// The members of a named collection of an object, and why there may be more. An empty list is asked for
    /// again.
    async fn members_of(&mut self, object: &Value, name: &str) -> Members {
        let failed = |error| Members { all: Vec::new(), unread: Some(error) };
        let path = match self.link(object, name) {
            Ok(path) => path,
            Err(error) => return failed(error),
        };
        let members = self.members(&path, PARTS_MAX).await;
        if members.as_ref().is_ok_and(|members| members.all.is_empty()) {
            sleep(self.controller.times.busy).await;
            return self.members(&path, PARTS_MAX).await.unwrap_or_else(failed);
        }
        members.unwrap_or_else(failed)
    }

    /// The machine's own object.
    async fn object(&mut self) -> Result<Value, BmcError> {
        let path = self.enter().await?;
        self.get(&path).await
    }

    /// Changes what `tagged` shows, by the first of its tags that the controller takes.
    async fn change(
        &mut self,
        (method, path): (&Method, &str),
        change: &Value,
        tagged: &str,
    ) -> Result<(), BmcError> {
        let mut tried = 0;
        loop {
            let tags = self.read(tagged).await?.tags();
            let last = tags.len().saturating_sub(1);
            let etag = tags.get(tried.min(last)).and_then(Option::as_deref);
            let question = Question { etag, ..Question::new(method, path, Some(change)) };
            let answered = self.ask(question).await?;
            if !answered.wants_tag() || tried >= last {
                return self.http.good(method, path, answered).map(drop);
            }
            tried += 1;
        }
    }

    pub(crate) async fn health(&mut self) -> Result<Health, BmcError> {
        let system = self.object().await?;
        let power = self.power_of(&system)?;
        let (sensors, unread) = self.sensors(&system).await;
        let status = &system["Status"];
        let health = status["HealthRollup"].as_str().or_else(|| status["Health"].as_str());
        Ok(Health { power, health: health.map(model::inventory::text), sensors, unread })
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
                let path = self.system.as_deref().unwrap_or(ROOT);
                Err(self.nonsense(path, format!("`PowerState` is {told}")))
            }
        }
    }

    /// Whether the machine runs.
    pub(crate) async fn state(&mut self) -> Result<PowerState, BmcError> {
        let system = self.object().await?;
        self.power_of(&system)
    }

    /// Orders one of on, off and soft off; whether it happens is to be seen.
    pub(crate) async fn order(&mut self, action: PowerAction) -> Result<(), BmcError> {
        let path = self.enter().await?;
        let reset = self.get(&path).await.map(|system| system["Actions"][RESET].clone());
        match reset {
            Ok(shown) if shown["target"].is_string() => self.reset = shown,
            // The action that was shown before still holds.
            _ if self.reset.is_object() => {}
            Ok(_none) => return Err(self.nonsense(&path, format!("`{RESET}` is missing"))),
            Err(error) => return Err(error),
        }
        let words: &[&str] = match action {
            PowerAction::On | PowerAction::Cycle => &["On", "ForceOn", "PushPowerButton"],
            PowerAction::Off => &["ForceOff"],
            PowerAction::SoftOff => &["GracefulShutdown"],
        };
        let word = words.iter().find(|word| takes(&self.reset, "ResetType", word));
        let word = word.ok_or_else(|| {
            self.unsupported(format!("power {action}; it takes none of {words:?}"))
        })?;
        let target = self.reset["target"].as_str().unwrap_or_default().to_owned();
        let body = json!({ "ResetType": word });
        let answered = self.ask(Question::new(&Method::POST, &target, Some(&body))).await?;
        if answered.wants_tag() {
            return self.change((&Method::POST, &target), &body, &path).await;
        }
        self.http.good(&Method::POST, &target, answered).map(drop)
    }
}

/// Whether an object takes this value, as far as it says.
fn takes(object: &Value, name: &str, value: &str) -> bool {
    let known = object[format!("{name}@Redfish.AllowableValues")].as_array();
    let known = known.filter(|known| !known.is_empty());
    known.is_none_or(|known| known.iter().any(|one| one == value))
}

#[cfg(test)]
mod tests;
