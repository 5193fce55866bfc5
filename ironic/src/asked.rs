//! Core: what a request asks for, without knowing a machine.

use http::StatusCode;
use model::{MacAddress, Serial, Uuid};
use serde::{Deserialize, Serialize};

use crate::body::{Answer, refusal, unrouted};
use crate::heartbeat::Heartbeat;
use crate::inspection::Found;
use crate::version::{VERSION_MAX, VERSION_MIN, Version};
use crate::{HEARTBEAT_BYTES_MAX, INSPECTION_BYTES_MAX, Ident};

#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Its method, such as `GET`.
    pub method: &'a str,
    /// Its path, as it was sent.
    pub path: &'a str,
    /// What stands behind `?`.
    pub query: Option<&'a str>,
    /// The header that asks for a version, the first of [`crate::HEADERS`].
    pub version: Option<&'a str>,
    /// Its body, within the limit of its [`Route`].
    pub body: &'a [u8],
    /// How it reached this server: `http://ADDRESS:PORT`.
    pub base: &'a str,
}

/// A question of a client, and the version in which it asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub version: Version,
    /// How the client reached the server.
    pub base: String,
    pub question: Question,
}

/// The object that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// The versions of the API.
    Root,
    /// The resources below `/v1`.
    V1,
    /// The machine that asks.
    Lookup {
        /// Its UUID, where it knows it.
        uuid: Option<Uuid>,
        /// Its cards.
        macs: Vec<MacAddress>,
    },
    /// Nothing; a ramdisk says that it lives.
    Heartbeat(Box<Heartbeat>),
    /// Nothing; a ramdisk says what the machine is made of.
    Inspection(Box<Found>),
}

/// A path of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The versions of the API.
    Root,
    /// The resources below `/v1`.
    V1,
    Lookup,
    Heartbeat,
    /// The end of an inspection.
    Inspection,
}

impl Route {
    /// The route of `path`, and the rest of the path behind it.
    fn find(path: &str) -> Option<(Self, Option<&str>)> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let route = match path {
            "" => Self::Root,
            "/v1" => Self::V1,
            "/v1/lookup" => Self::Lookup,
            "/v1/continue_inspection" => Self::Inspection,
            "/v1/heartbeat" => Self::Heartbeat,
            _ => {
                let ident = path.strip_prefix("/v1/heartbeat/").filter(|i| !i.contains('/'))?;
                return Some((Self::Heartbeat, Some(ident)));
            }
        };
        Some((route, None))
    }

    /// The route of a path.
    pub fn at(path: &str) -> Option<Self> {
        Self::find(path).map(|(route, _)| route)
    }

    /// Its only method.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Root | Self::V1 | Self::Lookup => "GET",
            Self::Heartbeat | Self::Inspection => "POST",
        }
    }

    /// Bytes of a body that a request takes along: none where its answer does not depend on one.
    pub(crate) fn body_of(method: &str, path: &str) -> usize {
        let route = Self::at(path).filter(|route| route.method() == method);
        route.map_or(0, Self::body_bytes_max)
    }

    /// Bytes of a body that it takes.
    pub const fn body_bytes_max(self) -> usize {
        match self {
            Self::Root | Self::V1 | Self::Lookup => 0,
            Self::Heartbeat => HEARTBEAT_BYTES_MAX,
            Self::Inspection => INSPECTION_BYTES_MAX,
        }
    }
}

/// Reads a request.
///
/// # Errors
/// It asks for nothing that is served; the answer says why.
pub fn read(request: &Request<'_>) -> Result<Asked, Box<Answer>> {
    let Some((route, ident)) = Route::find(request.path) else {
        let why = "The resource could not be found.";
        return Err(Box::new(unrouted(StatusCode::NOT_FOUND, why)));
    };
    let asked = Version::asked(request.version);
    // The root says which versions there are, whatever was asked for.
    let version = match (asked, route) {
        (Some(version), _) => version,
        (None, Route::Root) => VERSION_MIN,
        (None, _) => return Err(Box::new(unserved(request.version.unwrap_or_default()))),
    };
    let refused = |answer: Answer| Box::new(answer.of_version(version));
    if request.method != route.method() {
        let answer = unrouted(StatusCode::METHOD_NOT_ALLOWED, "The method is not allowed here.");
        return Err(refused(Answer { allow: Some(route.method().to_owned()), ..answer }));
    }
    if request.body.len() > route.body_bytes_max() {
        return Err(refused(refusal(StatusCode::PAYLOAD_TOO_LARGE, "The body is too large.")));
    }
    let bad = |why: String| refused(refusal(StatusCode::BAD_REQUEST, &why));
    let is_too_old =
        version < Version::RAMDISK && matches!(route, Route::Lookup | Route::Heartbeat);
    if is_too_old {
        return Err(refused(refusal(StatusCode::NOT_FOUND, "Not Found")));
    }
    let question = match route {
        Route::Root => Question::Root,
        Route::V1 => Question::V1,
        Route::Lookup => lookup(request.query).map_err(bad)?,
        Route::Heartbeat => {
            let ident = of_path(ident).map_err(bad)?;
            let told = Heartbeat::read(ident, version, request.body).map_err(bad)?;
            Question::Heartbeat(Box::new(told))
        }
        Route::Inspection => {
            let [uuid] = query(request.query, ["node_uuid"]).map_err(bad)?;
            let uuid = uuid.map(|text| read_uuid(&text)).transpose().map_err(bad)?;
            Question::Inspection(Box::new(Found::read(uuid, request.body).map_err(bad)?))
        }
    };
    Ok(Asked { version, base: request.base.to_owned(), question })
}

fn unserved(version: &str) -> Answer {
    let version = crate::cut(version, 40);
    let why = format!(
        "Version {version} was requested but is not served; the oldest is {VERSION_MIN} and the newest is \
         {VERSION_MAX}."
    );
    unrouted(StatusCode::NOT_ACCEPTABLE, &why)
}

fn lookup(text: Option<&str>) -> Result<Question, String> {
    let [addresses, uuid] = query(text, ["addresses", "node_uuid"])?;
    let uuid = uuid.map(|text| read_uuid(&text)).transpose()?;
    let macs: Vec<MacAddress> = addresses
        .iter()
        .flat_map(|addresses| addresses.split(','))
        .filter_map(|mac| mac.parse().ok())
        .collect();
    if uuid.is_none() && macs.is_empty() {
        return Err("Either addresses or node_uuid must be given, and be valid.".to_owned());
    }
    Ok(Question::Lookup { uuid, macs })
}

fn read_uuid(text: &str) -> Result<Uuid, String> {
    let why = |_none| format!("Expected a UUID but received {}.", crate::cut(text, 64));
    Uuid::try_parse(text).map_err(why)
}

/// The values of a query by these names; an empty one is none.
fn query<const N: usize>(
    text: Option<&str>,
    names: [&str; N],
) -> Result<[Option<String>; N], String> {
    let mut values = [const { None }; N];
    for (name, value) in form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
        let known = names.iter().zip(&mut values).find(|(known, _)| **known == name);
        let Some((_, place)) = known else {
            return Err(format!("Unknown argument: \"{}\".", crate::cut(&name, 40)));
        };
        if place.is_some() {
            return Err(format!("The argument \"{name}\" is given twice."));
        }
        *place = Some(value.into_owned()).filter(|value| !value.is_empty());
    }
    Ok(values)
}

fn of_path(ident: Option<&str>) -> Result<Ident, String> {
    let missing = || "Missing mandatory argument: node_ident.".to_owned();
    let ident = ident.filter(|ident| !ident.is_empty()).ok_or_else(missing)?;
    if let Ok(uuid) = Uuid::try_parse(ident) {
        return Ok(Ident::Uuid(uuid));
    }
    // Ironic's names of nodes; a machine with another serial number is asked for by its UUID.
    let is_name = ident.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b));
    let name = ident.parse::<Serial>().ok().filter(|_| is_name);
    name.map(Ident::Serial).ok_or_else(|| {
        format!("Expected a UUID or a name of a node but received {}.", crate::cut(ident, 64))
    })
}

#[cfg(test)]
mod tests;
