//! Core: a ramdisk says that it lives, and where it takes commands.

use http::{StatusCode, Uri};
use model::Timestamp;
use model::power_cycle::{AgentStatus, RamdiskAgent, RamdiskToken};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::body::{Answer, refusal};
use crate::machines::{Machines, Origin, later, only};
use crate::version::Version;
use crate::{Effect, Ident, Outcome, json};

/// Seconds after which a heartbeat that says nothing new is told on: the master need not write ten
/// thousand documents a minute.
pub const HEARD_AGAIN_SECONDS: i64 = 300;
/// Characters of a URL.
const URL_MAX: usize = 2_048;
/// Characters of a certificate: one of RSA with 4,096 bits has 2,000.
const CERTIFICATE_MAX: usize = 16_384;
/// Characters of a version.
const VERSION_MAX: usize = 64;
/// Characters of a token; ours have 43.
const TOKEN_MAX: usize = 128;
/// Characters that are kept of what an agent says about its work.
const MESSAGE_MAX: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The machine.
    pub ident: Ident,
    /// The URL at which the agent takes commands.
    pub callback_url: String,
    pub token: RamdiskToken,
    pub agent_version: String,
    /// The certificate that it shows.
    pub verify_ca: Option<String>,
    /// The state of its work.
    pub status: Option<AgentStatus>,
    /// Its message about that state.
    pub status_message: String,
}

/// The fields of a heartbeat, each with the first version that has it.
const FIELDS: [(&str, Version); 6] = [
    ("callback_url", Version::RAMDISK),
    ("agent_version", Version::AGENT_VERSION),
    ("agent_token", Version::AGENT_TOKEN),
    ("agent_verify_ca", Version::VERIFY_CA),
    ("agent_status", Version::STATUS),
    ("agent_status_message", Version::STATUS),
];

impl Heartbeat {
    pub(crate) fn read(ident: Ident, version: Version, body: &[u8]) -> Result<Self, String> {
        let body = json::parse(body)?;
        let Value::Object(fields) = body else { return Err("Expected an object.".to_owned()) };
        for name in fields.keys() {
            let known = FIELDS.iter().find(|(known, _)| known == name);
            if known.is_none_or(|(_, since)| version < *since) {
                let name = crate::cut(name, 40);
                return Err(format!("Unknown argument: \"{name}\" in version {version}."));
            }
        }
        let callback_url = given(&fields, "callback_url", URL_MAX)?;
        let callback_url = callback_url.ok_or("Missing mandatory argument: callback_url.")?;
        check_url(&callback_url)?;
        let token = given(&fields, "agent_token", TOKEN_MAX)?;
        let token = token.ok_or("Agent token is required for heartbeat processing.")?;
        let agent_version = given(&fields, "agent_version", VERSION_MAX)?;
        let agent_version = agent_version.ok_or("Missing mandatory argument: agent_version.")?;
        let verify_ca = given(&fields, "agent_verify_ca", CERTIFICATE_MAX)?;
        if verify_ca.as_ref().is_some_and(|pem| !is_certificate(pem)) {
            return Err("agent_verify_ca is not a certificate in PEM.".to_owned());
        }
        let status = given(&fields, "agent_status", VERSION_MAX)?;
        let status = status.map(|word| {
            let known = AgentStatus::ALL.into_iter().find(|status| status.as_str() == word);
            known.ok_or("agent_status must be start, end or error.")
        });
        let message = given(&fields, "agent_status_message", crate::HEARTBEAT_BYTES_MAX)?;
        Ok(Self {
            ident,
            callback_url,
            token: RamdiskToken::new(token),
            agent_version: crate::cut(&agent_version, VERSION_MAX),
            verify_ca,
            status: status.transpose()?,
            status_message: crate::cut(&message.unwrap_or_default(), MESSAGE_MAX),
        })
    }
}

/// A text of these fields; one that is null or empty is none.
fn given(fields: &Map<String, Value>, name: &str, most: usize) -> Result<Option<String>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() > most => Err(format!("{name} is too long.")),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(format!("{name} must be a text.")),
    }
}

/// A URL names a host, and nothing in it is a password.
fn check_url(url: &str) -> Result<(), &'static str> {
    let why = "callback_url must be a URL of http or https with a host.";
    let uri: Uri = url.parse().map_err(|_none| why)?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().filter(|authority| !authority.host().is_empty());
    let is_plain = authority.is_some_and(|authority| !authority.as_str().contains('@'));
    if is_web && is_plain { Ok(()) } else { Err(why) }
}

fn is_certificate(pem: &str) -> bool {
    let is_plain = pem.chars().all(|c| c.is_ascii_graphic() || " \r\n".contains(c));
    let pem = pem.trim();
    is_plain
        && pem.starts_with("-----BEGIN CERTIFICATE-----")
        && pem.ends_with("-----END CERTIFICATE-----")
}

pub(crate) fn answer(told: &Heartbeat, machines: &impl Machines, now: Timestamp) -> Outcome {
    let nodes = match &told.ident {
        Ident::Uuid(uuid) => machines.by_uuid(*uuid),
        Ident::Serial(serial) => machines.by_serial(serial),
    };
    let mut node = match only(nodes) {
        Ok(node) if machines.origin(&node) != Origin::AnotherMachine => node,
        Ok(_) => return Outcome::missing(),
        Err(missing) => return missing,
    };
    let bad = |why: &str| Outcome::plain(refusal(StatusCode::BAD_REQUEST, why));
    let wrong = bad("Invalid or missing agent token.");
    let Some(expected) = &mut node.ramdisk else { return wrong };
    let Some(booted) = expected.token.boot_of(&told.token) else { return wrong };
    if booted < expected.heard.booted {
        return Outcome { effect: Effect::Outlived(node.serial), ..wrong };
    }
    // An agent that told the token of a later boot than is known here saw that boot.
    expected.heard.booted = booted;
    let mut heard = node.heard();
    let before = heard.agent.take();
    if before.as_ref().is_some_and(|before| before.callback_url != told.callback_url) {
        return bad("Detected change in ramdisk provided \"callback_url\".");
    }
    let pinned = before.as_ref().and_then(|before| before.verify_ca.as_ref());
    if pinned.is_some_and(|pinned| told.verify_ca.as_ref().is_some_and(|ca| ca != pinned)) {
        return bad("Detected change in ramdisk provided \"agent_verify_ca\".");
    }
    let agent = RamdiskAgent {
        callback_url: told.callback_url.clone(),
        version: told.agent_version.clone(),
        verify_ca: told.verify_ca.as_ref().or(pinned).cloned(),
        status: told.status,
        status_message: told.status_message.clone(),
        heard: later(before.as_ref().map(|before| before.heard), now),
    };
    let accepted = Answer::new(StatusCode::ACCEPTED, String::new());
    let says_the_same = |before: &RamdiskAgent| {
        let age = now.seconds().saturating_sub(before.heard.seconds());
        (0..HEARD_AGAIN_SECONDS).contains(&age)
            && RamdiskAgent { heard: before.heard, ..agent.clone() } == *before
    };
    if before.as_ref().is_some_and(says_the_same) {
        return Outcome::plain(accepted);
    }
    let is_vital = heard.token_told.is_none()
        || before.is_none_or(|before| before.verify_ca != agent.verify_ca);
    // An agent that has the token was told it, if by another server.
    heard.token_told = heard.token_told.or(Some(node.told_at(now)));
    heard.agent = Some(agent);
    let observation = node.ramdisk_heard(heard);
    Outcome { answer: accepted, effect: Effect::Heard { observation, is_vital } }
}

#[cfg(test)]
mod tests;
