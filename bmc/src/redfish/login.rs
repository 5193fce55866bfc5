//! How a controller knows us: by a session, or by user and password with each request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, Method, header};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Redfish;
use crate::answer::{Answered, Verdict};
use crate::error::BmcError;
use crate::http_client::Question;

/// How often a session is asked for that comes without its token.
const TOKEN_TRIES: u32 = 2;
/// How often a login may be refused that was taken before, by a controller that may be starting. Controllers lock
/// out those who are refused too often.
const REFUSALS_MAX: u32 = 3;

/// The session of an opcode.
#[derive(Default)]
pub(super) struct Sessions {
    /// The path at which sessions are begun, if the controller has them.
    begun_at: Option<String>,
    /// The one that is open, whose place some controllers do not tell.
    open: Option<Option<String>>,
    /// Whether user and password were taken before.
    was_taken: bool,
    /// How often they were refused since.
    refusals: u32,
}

impl Sessions {
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

impl Redfish<'_> {
    /// Begins a session where there are some; else Basic authentication (DSP0266, 13.3).
    pub(super) async fn log_in(&mut self, root: &Value) -> Result<(), BmcError> {
        self.sessions.begun_at = root["Links"]["Sessions"]["@odata.id"].as_str().map(str::to_owned);
        if let Some(path) = self.sessions.begun_at.clone() {
            for _try in 0..TOKEN_TRIES {
                match self.begin_session(&path).await? {
                    Some(true) => return Ok(()),
                    Some(false) => {}
                    None => break,
                }
            }
        }
        let login = &self.controller.login;
        let basic = STANDARD.encode(format!("{}:{}", login.user, login.password.expose()));
        self.http.authorization = Some((header::AUTHORIZATION, format!("Basic {basic}")));
        Ok(())
    }

    /// Whether a session has begun; none where there are no sessions.
    async fn begin_session(&mut self, path: &str) -> Result<Option<bool>, BmcError> {
        let login = &self.controller.login;
        let body = json!({"UserName": login.user, "Password": login.password.expose()});
        let method = Method::POST;
        // It would be taken for one of the session that ended.
        self.http.authorization = None;
        let answered = self.http.ask(Question::new(&method, path, Some(&body))).await?;
        if [404, 405, 501].contains(&answered.status.as_u16()) {
            return Ok(None);
        }
        if answered.refuses_login() {
            return Err(self.refused_login());
        }
        if answered.verdict(&method) == Verdict::Refused {
            // Nothing is wrong with the request, so that the reason may pass.
            let (url, reason) = (self.controller.url.to_string(), answered.reason());
            return Err(BmcError::Failed { url, request: format!("POST {path}"), reason });
        }
        let answered = self.http.good(&method, path, answered)?;
        let Some(token) = answered.token.clone() else { return Ok(Some(false)) };
        self.http.authorization = Some((HeaderName::from_static("x-auth-token"), token));
        self.sessions.open = Some(place_of(&answered));
        (self.sessions.was_taken, self.sessions.refusals) = (true, 0);
        Ok(Some(true))
    }

    fn refused_login(&mut self) -> BmcError {
        let url = self.controller.url.to_string();
        self.sessions.refusals += 1;
        if self.sessions.was_taken && self.sessions.refusals < REFUSALS_MAX {
            let reason = "it refuses a login that it took before".to_owned();
            return BmcError::Failed { url, request: "a login".to_owned(), reason };
        }
        BmcError::Login { url }
    }

    /// Begins another session for the one that the controller forgot.
    pub(super) async fn log_in_again(&mut self) -> Result<(), BmcError> {
        let Some(path) = self.sessions.begun_at.clone() else { return Ok(()) };
        if self.sessions.refusals >= REFUSALS_MAX {
            return Err(BmcError::Login { url: self.controller.url.to_string() });
        }
        match self.begin_session(&path).await? {
            Some(true) => Ok(()),
            Some(false) | None => Err(self.nonsense(&path, "a session has no token")),
        }
    }

    /// Ends the session, whatever came of the work: controllers have few places for sessions, and some keep one
    /// for half an hour.
    pub(crate) async fn log_out(mut self) {
        let Some(place) = self.sessions.open.take().flatten() else { return };
        let ended = self.http.ask(Question::new(&Method::DELETE, &place, None));
        let url = &self.controller.url;
        match timeout(self.controller.times.farewell, ended).await {
            Ok(Ok(_answered)) => {}
            Ok(Err(error)) => tracing::debug!(%url, %error, "a session was not ended"),
            Err(_elapsed) => tracing::debug!(%url, "a session was not ended within its time"),
        }
    }
}

/// The path of a new session.
fn place_of(answered: &Answered) -> Option<String> {
    let place = answered.location.as_deref().or_else(|| answered.body["@odata.id"].as_str())?;
    // Some write a whole URL. Whether it is a path is looked at where it is used.
    let Some((_scheme, rest)) = place.split_once("://") else { return Some(place.to_owned()) };
    rest.find('/').map(|at| rest[at..].to_owned())
}
