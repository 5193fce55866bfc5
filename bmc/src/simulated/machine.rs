//! The answers of a simulated machine and its controller.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Incoming;
use model::bmc::PowerState;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::odd::{Cut, OddAnswers};
use super::{Faults, Hook, PASSWORD, Seen, USER};

/// A machine, and what its controller does wrong.
pub(super) struct Machine {
    serial: String,
    pub(super) faults: Mutex<Faults>,
    pub(super) odd: Mutex<Option<OddAnswers>>,
    pub(super) seen: Mutex<Seen>,
    /// Requests that the newest session made.
    in_session: Mutex<u32>,
    hook: Option<Hook>,
}

const ROOT: &str = "/redfish/v1/";
const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";
const SESSION: &str = "/redfish/v1/SessionService/Sessions/1";
const SYSTEMS: &str = "/redfish/v1/Systems";
const SYSTEM: &str = "/redfish/v1/Systems/1";
const BASEBOARD: &str = "/redfish/v1/Systems/HGX_Baseboard_0";
const SETTINGS: &str = "/redfish/v1/Systems/1/Settings";
const RESET: &str = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
const CARDS: &str = "/redfish/v1/Systems/1/EthernetInterfaces";
const CARD: &str = "/redfish/v1/Systems/1/EthernetInterfaces/1";
const CHASSIS: &str = "/redfish/v1/Chassis/1";
const THERMAL: &str = "/redfish/v1/Chassis/1/Thermal";
const WEAK: &str = "W/\"7\"";
const STRONG: &str = "\"7\"";

pub(super) type Answer = Response<Full<Bytes>>;

pub(super) fn answer_of(status: StatusCode, body: &Value) -> Answer {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

pub(super) fn refusal(id: &str, message: &str) -> Value {
    json!({"error": {"@Message.ExtendedInfo": [{"MessageId": id, "Message": message}]}})
}

impl Machine {
    pub(super) fn new(serial: &str, hook: Option<Hook>) -> Self {
        let seen = Seen {
            power: PowerState::Off,
            boot_once: None,
            starts: 0,
            logins: 0,
            sessions: 0,
            requests: 0,
        };
        Self {
            serial: serial.to_owned(),
            faults: Mutex::default(),
            odd: Mutex::default(),
            seen: Mutex::new(seen),
            in_session: Mutex::default(),
            hook,
        }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Cut> {
        self.seen.lock().requests += 1;
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let faults = *self.faults.lock();
        if faults.hangs {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        }
        if let Some(nonsense) = faults.nonsense {
            return Ok(Response::new(Full::from(nonsense)));
        }
        let odd = self.odd.lock().as_mut().and_then(|odd| odd.next(&parts));
        match odd {
            None => Ok(self.routed(&parts, &body, faults)),
            Some(odd) => odd.answer(|| self.routed(&parts, &body, faults)).await,
        }
    }

    fn routed(&self, parts: &Parts, body: &Value, faults: Faults) -> Answer {
        let path = parts.uri.path();
        if !self.is_in(parts, faults) && ![ROOT, SESSIONS].contains(&path) {
            return answer_of(StatusCode::UNAUTHORIZED, &Value::Null);
        }
        if parts.method != "GET" && path != SESSIONS {
            let mut faults = self.faults.lock();
            if faults.busy > 0 {
                faults.busy -= 1;
                let busy = refusal("", "in the middle of something");
                return answer_of(StatusCode::CONFLICT, &busy);
            }
        }
        match parts.method.as_str() {
            "GET" => self.shown(path, faults),
            "POST" if path == SESSIONS && !faults.locks_out => self.login(body),
            "POST" if path == SESSIONS => answer_of(StatusCode::UNAUTHORIZED, &Value::Null),
            "DELETE" if path == SESSION => {
                let mut seen = self.seen.lock();
                seen.sessions = seen.sessions.saturating_sub(1);
                drop(seen);
                answer_of(StatusCode::NO_CONTENT, &Value::Null)
            }
            _ => match untagged(parts, faults) {
                Some(refused) => refused,
                None => self.changed(parts, body, faults),
            },
        }
    }

    /// Whether a request comes from somebody who is known.
    fn is_in(&self, parts: &Parts, faults: Faults) -> bool {
        if parts.headers.contains_key("authorization") {
            return true;
        }
        let token = token(self.seen.lock().logins);
        if parts.headers.get("x-auth-token").is_none_or(|told| *told != *token) {
            return false;
        }
        let mut requests = self.in_session.lock();
        *requests += 1;
        faults.forgets_after.is_none_or(|most| *requests <= most)
    }

    fn login(&self, body: &Value) -> Answer {
        if body["UserName"] != USER || body["Password"] != PASSWORD {
            return answer_of(StatusCode::UNAUTHORIZED, &Value::Null);
        }
        let mut seen = self.seen.lock();
        seen.sessions += 1;
        seen.logins += 1;
        *self.in_session.lock() = 0;
        let mut answer = answer_of(StatusCode::CREATED, &json!({}));
        let headers = answer.headers_mut();
        let token = HeaderValue::from_str(&token(seen.logins));
        headers.insert("x-auth-token", token.unwrap_or(HeaderValue::from_static("")));
        headers.insert("location", HeaderValue::from_static(SESSION));
        answer
    }

    fn shown(&self, path: &str, faults: Faults) -> Answer {
        let links = |paths: &[&str]| {
            let links = paths.iter().map(|path| json!({ "@odata.id": path }));
            json!({ "Members": links.collect::<Value>() })
        };
        let body = match path {
            ROOT => root(faults),
            SYSTEMS if faults.has_baseboard => links(&[BASEBOARD, SYSTEM]),
            SYSTEMS => links(&[SYSTEM]),
            SYSTEM => self.system(faults),
            BASEBOARD => {
                json!({"@odata.id": BASEBOARD, "Id": "HGX_Baseboard_0", "PowerState": "On",
                "SerialNumber": self.serial, "SystemType": "Physical"})
            }
            SETTINGS => json!({"@odata.id": SETTINGS, "@odata.etag": WEAK, "Boot": self.boot()}),
            CARDS => links(&[CARD]),
            CARD => {
                json!({"Id": "NIC.1", "MACAddress": "52:54:00:AA:BB:01", "LinkStatus": "LinkUp",
                "SpeedMbps": 10_000})
            }
            CHASSIS => json!({"@odata.id": CHASSIS, "Thermal": {"@odata.id": THERMAL}}),
            THERMAL => json!({"Fans": [{"Name": "Fan 1", "Reading": 900, "ReadingUnits": "RPM",
                "Status": {"Health": "OK"}}]}),
            _ => return answer_of(StatusCode::NOT_FOUND, &refusal("", "no such thing")),
        };
        let mut answer = answer_of(StatusCode::OK, &body);
        if faults.tags_in_headers {
            answer.headers_mut().insert("etag", HeaderValue::from_static(STRONG));
        }
        answer
    }

    fn system(&self, faults: Faults) -> Value {
        let power = if self.seen.lock().power == PowerState::On { "On" } else { "Off" };
        let mut boot = self.boot();
        boot["BootSourceOverrideTarget@Redfish.AllowableValues"] =
            json!(["None", "Pxe", "UefiHttp", "Hdd"]);
        boot["BootSourceOverrideMode"] = "UEFI".into();
        if faults.settings_apart {
            boot["BootSourceOverrideTarget"] = "None".into();
        }
        let mut system = json!({
            "@odata.id": SYSTEM, "Id": "1", "PowerState": power, "SerialNumber": self.serial,
            "Manufacturer": "Gantry", "Model": "Simulated", "BiosVersion": "1.0",
            "ProcessorSummary": {"Count": 2, "LogicalProcessorCount": 16, "Model": "Xeon"},
            "MemorySummary": {"TotalSystemMemoryGiB": 96},
            "Status": {"Health": "OK"},
            "Boot": boot,
            "Actions": {"#ComputerSystem.Reset": {"target": RESET,
                "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown"]}},
            "EthernetInterfaces": {"@odata.id": CARDS},
            "Links": {"Chassis": [{"@odata.id": CHASSIS}]},
        });
        if faults.settings_apart {
            system["@Redfish.Settings"] = json!({"SettingsObject": {"@odata.id": SETTINGS}});
        }
        system
    }

    fn boot(&self) -> Value {
        let target = self.seen.lock().boot_once.clone();
        let enabled = if target.is_some() { "Once" } else { "Disabled" };
        let target = target.unwrap_or_else(|| "None".to_owned());
        json!({"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled})
    }

    fn changed(&self, parts: &Parts, body: &Value, faults: Faults) -> Answer {
        let patched = if faults.settings_apart { SETTINGS } else { SYSTEM };
        match (parts.method.as_str(), parts.uri.path()) {
            ("PATCH", path) if path == patched => self.patch(body, faults),
            ("POST", RESET) => self.reset(body["ResetType"].as_str(), faults),
            _ => answer_of(StatusCode::NOT_FOUND, &refusal("", "no such thing")),
        }
    }

    fn patch(&self, change: &Value, faults: Faults) -> Answer {
        let boot = &change["Boot"];
        let target = boot["BootSourceOverrideTarget"].as_str();
        let Some(target) = target.filter(|_| boot["BootSourceOverrideEnabled"] == "Once") else {
            return answer_of(StatusCode::BAD_REQUEST, &refusal("", "nothing to change"));
        };
        if faults.fixed_mode && boot.get("BootSourceOverrideMode").is_some() {
            let text = "The property BootSourceOverrideMode is a read only property";
            let refused = refusal("Base.1.8.PropertyNotWritable", text);
            return answer_of(StatusCode::BAD_REQUEST, &refused);
        }
        if !faults.lies && faults.keeps_only.is_none_or(|kept| kept == target) {
            self.seen.lock().boot_once = Some(target.to_owned());
        }
        answer_of(StatusCode::NO_CONTENT, &Value::Null)
    }

    fn reset(&self, kind: Option<&str>, faults: Faults) -> Answer {
        let power = match kind {
            Some("On") => PowerState::On,
            Some("ForceOff" | "GracefulShutdown") => PowerState::Off,
            _ => return answer_of(StatusCode::BAD_REQUEST, &refusal("", "no such kind of reset")),
        };
        if !faults.lies {
            let mut seen = self.seen.lock();
            let is_new = seen.power != power;
            seen.power = power;
            seen.starts += u32::from(is_new && power == PowerState::On);
            drop(seen);
            if let Some(hook) = self.hook.as_ref().filter(|_| is_new) {
                hook(power);
            }
        }
        answer_of(StatusCode::NO_CONTENT, &Value::Null)
    }
}

fn root(faults: Faults) -> Value {
    let mut root = json!({"Systems": {"@odata.id": SYSTEMS}});
    if !faults.no_sessions {
        root["Links"] = json!({"Sessions": {"@odata.id": SESSIONS}});
    }
    root
}

fn token(login: u32) -> String {
    format!("sesame-{login}")
}

/// The refusal of a change that lacks the tag that is wanted.
fn untagged(parts: &Parts, faults: Faults) -> Option<Answer> {
    let tag = parts.headers.get("if-match").map(HeaderValue::as_bytes);
    let is_settings = parts.uri.path() == SETTINGS;
    let wanted = match faults {
        Faults { strong_tags: true, .. } if is_settings => STRONG,
        Faults { tags_in_headers: true, .. } => STRONG,
        _ if is_settings => WEAK,
        _ => return None,
    };
    let status = match tag {
        None => StatusCode::PRECONDITION_REQUIRED,
        Some(tag) if tag == wanted.as_bytes() => return None,
        Some(_) => StatusCode::PRECONDITION_FAILED,
    };
    Some(answer_of(status, &refusal("", "no tag")))
}
