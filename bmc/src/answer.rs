//! Core: what an answer of a controller says, whatever it looks like.

use http::{Method, StatusCode};
use model::bmc::BmcUrl;
use serde_json::Value;

/// How often a request is sent that the controller is too busy for.
const BUSY_TRIES: u32 = 5;
/// How often a request is sent whose answer is odd, where that does no harm: one odd answer means nothing.
const ODD_TRIES: u32 = 2;

/// An answer that was read whole.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    /// The token of a new session.
    pub(crate) token: Option<String>,
    /// The `Location` header: the address of a new object, or the target of a redirection.
    pub(crate) location: Option<String>,
    /// The tag of the object, in the header; its body may have another one.
    pub(crate) etag: Option<String>,
    /// Its body; null where there is none, or none that reads.
    pub(crate) body: Value,
}

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is done, or told.
    Good,
    /// It is told, as the status says, in a way that does not read.
    Unreadable,
    /// The controller does not know us, or no longer.
    Unauthorized,
    /// It knows us, and we may not do this.
    Forbidden,
    /// It will do this later, as it says.
    NotReady,
    /// It cannot do this now, for a reason that may pass.
    Failed,
    /// It will not do this.
    Refused,
}

/// Words by which controllers say that they will do something later: message identifiers of DMTF, Dell and HPE,
/// and what stands in texts.
const LATER: [&str; 7] =
    ["swc0700", "temporarily", "not ready", "retry", "try again", "in progress", "busy"];

impl Answered {
    /// The verdict on it as the answer to a request of this method.
    pub(crate) fn verdict(&self, method: &Method) -> Verdict {
        let reads = method == Method::GET;
        match self.status.as_u16() {
            200..=299 if reads && !self.body.is_object() => Verdict::Unreadable,
            200..=299 => Verdict::Good,
            401 => Verdict::Unauthorized,
            403 => Verdict::Forbidden,
            408 | 409 | 423 | 425 | 429 | 503 => Verdict::NotReady,
            _ if self.says_later() => Verdict::NotReady,
            500 | 502 | 504 => Verdict::Failed,
            // Nothing is wrong with a question that names what the controller itself told.
            _ if reads => Verdict::Failed,
            _ => Verdict::Refused,
        }
    }

    fn says_later(&self) -> bool {
        let words = self.words().join(" ").to_lowercase();
        LATER.iter().any(|later| words.contains(later))
    }

    /// All that it says about a refusal (DSP0266, error responses). Some send an object where the standard has a
    /// list.
    fn words(&self) -> Vec<&str> {
        let error = &self.body["error"];
        let extended = &error["@Message.ExtendedInfo"];
        let list = extended.as_array().map_or(std::slice::from_ref(extended), Vec::as_slice);
        let of_list = list.iter().flat_map(|one| [&one["MessageId"], &one["Message"]]);
        of_list.chain([&error["code"], &error["message"]]).filter_map(Value::as_str).collect()
    }

    /// Why it refuses, in its own words.
    pub(crate) fn reason(&self) -> String {
        let error = &self.body["error"];
        let extended = &error["@Message.ExtendedInfo"];
        let first = if extended.is_array() { &extended[0] } else { extended };
        let told = first["Message"].as_str().or_else(|| error["message"].as_str());
        let told = told.map(model::inventory::text).unwrap_or_default();
        format!("{} {told}", self.status).trim_end().to_owned()
    }

    /// Whether a login fails for its user or password; some say so by the status of a bad request.
    pub(crate) fn refuses_login(&self) -> bool {
        let words = self.words().join(" ").to_lowercase();
        [401, 403].contains(&self.status.as_u16()) || words.contains("unauthorized")
    }

    /// Whether it wants another tag of what is to be changed, or one at all.
    pub(crate) fn wants_tag(&self) -> bool {
        [412, 428].contains(&self.status.as_u16())
    }

    /// The HTTPS address to which it redirects a client without TLS.
    pub(crate) fn secured_elsewhere(&self) -> Option<BmcUrl> {
        let location = self.location.as_ref().filter(|_| self.status.is_redirection())?;
        let host = location.strip_prefix("https://")?.split(['/', '?']).next()?;
        format!("https://{host}").parse().ok()
    }

    /// The tags by which a change of this object may be taken, in the order in which they are tried. The
    /// tag of the header counts; some controllers know only that of the body. Some compare weak tags
    /// with nothing but strong ones, some want any tag, and some none.
    pub(crate) fn tags(&self) -> Vec<Option<String>> {
        let header = self.etag.as_deref();
        let told: Vec<&str> = header.into_iter().chain(self.body["@odata.etag"].as_str()).collect();
        let strong = told.iter().filter_map(|tag| tag.strip_prefix("W/"));
        let mut tags: Vec<Option<String>> = Vec::new();
        for tag in told.iter().copied().chain(strong).filter(|tag| is_tag(tag)) {
            if !tags.iter().any(|known| known.as_deref() == Some(tag)) {
                tags.push(Some(tag.to_owned()));
            }
        }
        let any = Some("*".to_owned());
        if tags.is_empty() { vec![None, any] } else { [tags, vec![any, None]].concat() }
    }
}

/// Whether a tag may stand in a header.
fn is_tag(tag: &str) -> bool {
    !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
}

/// How often a request is sent for which there are such answers. An order to the power is not repeated
/// blindly: whoever gave it looks what became of it.
pub(crate) fn tries(method: &Method, verdict: Verdict) -> u32 {
    match verdict {
        Verdict::NotReady => BUSY_TRIES,
        Verdict::Unreadable | Verdict::Failed if method != Method::POST => ODD_TRIES,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
