//! Core: URLs as Ignition reads them, that is, as Go's libraries do.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, PAD};

/// Base64 as Go takes it: padded, with any bits behind the last byte.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, PAD.with_decode_allow_trailing_bits(true));
/// Characters of a host's name beside letters and digits.
const OF_HOST: &[u8] = b"!$&'()*+,;=:[]<>\"-_.~";
/// Characters of a user's name and password beside letters and digits.
const OF_USER: &[u8] = b"-._:~!$&'()*+,;=%@";
/// Characters that a `data:` URL cannot have.
const NOT_OF_DATA: &[u8] = b" <>#\"{}|\\^[]`";
/// Characters that end a word of a media type.
const NOT_OF_TOKEN: &[u8] = b"()<>@,;:\\\"/[]?=";
/// How media types begin, where they are none of a program's own.
const MEDIA_TYPES: &[&str] =
    &["text", "image", "audio", "video", "application", "message", "multipart"];

/// A URL that was taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url<'a> {
    /// The scheme, in small letters.
    pub(super) scheme: String,
    /// The part behind the scheme, where that is no path.
    pub(super) opaque: &'a str,
    query: &'a str,
}

impl<'a> Url<'a> {
    /// Takes a URL apart; none where Go does not.
    pub(super) fn new(text: &'a str) -> Option<Self> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        if text.bytes().any(|byte| byte.is_ascii_control()) || !is_escaped(fragment) {
            return None;
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let url = |opaque| Self { scheme: scheme.to_ascii_lowercase(), opaque, query };
        if !rest.starts_with('/') && !scheme.is_empty() {
            return Some(url(rest));
        }
        let first = rest.split('/').next().unwrap_or_default();
        if !rest.starts_with('/') && first.contains(':') {
            return None;
        }
        let has_host = !scheme.is_empty() || !rest.starts_with("///");
        let path = match rest.strip_prefix("//").filter(|_| has_host) {
            None => rest,
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                is_authority(authority).then_some(path)?
            }
        };
        is_escaped(path).then(|| url(""))
    }

    /// Whether it asks for the version "" of an object in S3.
    pub(super) fn has_empty_version(&self) -> bool {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .find(|(key, value)| *key == "versionId" && is_escaped(value))
            .is_some_and(|(_, value)| value.is_empty())
    }

    /// Whether it names an object in S3 by Amazon's general form of names.
    pub(super) fn is_s3_resource(&self) -> bool {
        let parts: Vec<&str> = self.opaque.splitn(5, ':').collect();
        let [_partition, "s3", _region, _account, resource] = parts.as_slice() else {
            return false;
        };
        let slashes = self.opaque.matches('/').count();
        slashes >= if resource.starts_with("accesspoint/") { 2 } else { 1 }
    }
}

/// The scheme, which may be empty, and the rest.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let is_of_it = |at: usize, byte: u8| match byte {
        b'0'..=b'9' | b'+' | b'-' | b'.' => at > 0,
        byte => byte.is_ascii_alphabetic(),
    };
    let end = text.bytes().enumerate().find(|(at, byte)| !is_of_it(*at, *byte));
    match end {
        Some((0, b':')) => None,
        Some((at, b':')) => Some((&text[..at], &text[at + 1..])),
        Some(_) | None => Some(("", text)),
    }
}

/// Whether each `%` has two hexadecimal digits.
fn is_escaped(text: &str) -> bool {
    escapes(text).all(|escape| escape.is_some())
}

/// The bytes that `%` stands for; none where it has no two digits.
fn escapes(text: &str) -> impl Iterator<Item = Option<u8>> {
    text.split('%').skip(1).map(|rest| {
        let digits = rest.get(..2).filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()))?;
        u8::from_str_radix(digits, 16).ok()
    })
}

fn is_authority(authority: &str) -> bool {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let is_user = user.bytes().all(|b| b.is_ascii_alphanumeric() || OF_USER.contains(&b));
    is_user && is_escaped(user) && is_host(host)
}

fn is_host(host: &str) -> bool {
    if let Some(literal) = host.strip_prefix('[') {
        let Some((address, port)) = literal.rsplit_once(']') else { return false };
        let (address, zone) = address.split_once("%25").unwrap_or((address, ""));
        // An escaped character in a zone could stand there as it is, or is a blank.
        let is_of_zone = |b: u8| b == b' ' || b == b'%' || (b.is_ascii() && is_plain(b));
        let is_zone = is_of_host(&zone.replace('%', ""))
            && escapes(zone).all(|escape| escape.is_some_and(is_of_zone));
        return is_port(port) && is_of_host(address) && is_zone;
    }
    let port = host.rfind(':').map_or("", |at| &host[at..]);
    is_port(port) && is_of_host(host)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || OF_HOST.contains(&byte) || !byte.is_ascii()
}

/// Whether all of it can be in a host's name; only what is no ASCII can be escaped there.
fn is_of_host(text: &str) -> bool {
    let is_escaped =
        |escape: Option<u8>| escape.is_some_and(|byte| !byte.is_ascii() || byte == b'%');
    text.bytes().all(|byte| byte == b'%' || is_plain(byte)) && escapes(text).all(is_escaped)
}

fn is_port(port: &str) -> bool {
    port.strip_prefix(':').map_or(port.is_empty(), |n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// Looks at a `data:` URL.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_data(url: &str) -> Result<(), &'static str> {
    let rest = url.strip_prefix("data:").ok_or("does not begin with `data:` in small letters")?;
    let comma = "has no comma before its file";
    let (kind, file) = parameters(rest).ok_or(match rest.contains(',') {
        true => "has a media type that is none; leave it out, as `data:,` or `data:;base64,`",
        false => comma,
    })?;
    if kind == Kind::Base64 {
        let file = file.replace('\n', "");
        let decoded = BASE64.decode(file).map(drop);
        return decoded.map_err(|_error| "has a file that is no Base64 with padding");
    }
    let is_data = |b: u8| b.is_ascii() && !b.is_ascii_control() && !NOT_OF_DATA.contains(&b);
    match file.bytes().all(is_data) && is_escaped(file) {
        true => Ok(()),
        false => Err("has a character that must be escaped, as %20 for a blank"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Escaped,
    Base64,
}

/// The parameters before the comma, and the file behind it.
fn parameters(rest: &str) -> Option<(Kind, &str)> {
    let mut rest = media_type(rest)?;
    loop {
        rest = match rest.strip_prefix(';') {
            Some(rest) => rest,
            None => return rest.strip_prefix(',').map(|file| (Kind::Escaped, file)),
        };
        let (name, behind) = token(rest);
        if let Some(file) = behind.strip_prefix(',') {
            return (name == "base64").then_some((Kind::Base64, file));
        }
        let value = behind.strip_prefix('=').filter(|_| !name.is_empty())?;
        rest = match value.strip_prefix('"') {
            Some(quoted) => quoted_end(quoted)?,
            None => {
                let (value, behind) = token(value);
                (!value.is_empty() && is_escaped(value)).then_some(behind)?
            }
        };
    }
}

/// The text behind a media type, which may be absent.
fn media_type(rest: &str) -> Option<&str> {
    if rest.starts_with([';', ',']) {
        return Some(rest);
    }
    let (name, behind) = token(rest);
    let is_own = name.starts_with("x-") || name.starts_with("X-");
    let is_known = MEDIA_TYPES.iter().any(|known| name.starts_with(known));
    let behind = behind.strip_prefix('/').filter(|_| is_own || is_known)?;
    Some(token(behind).1)
}

/// A word of a media type, and what follows.
fn token(text: &str) -> (&str, &str) {
    let is_of_it = |b: u8| b.is_ascii_graphic() && !NOT_OF_TOKEN.contains(&b);
    text.split_at(text.bytes().position(|b| !is_of_it(b)).unwrap_or(text.len()))
}

/// The text behind a text in quotes.
fn quoted_end(text: &str) -> Option<&str> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if !byte.is_ascii() || byte == b'\n' => return None,
            b'\\' if !is_escaped => is_escaped = true,
            b'"' if !is_escaped => return Some(&text[at + 1..]),
            _ => is_escaped = false,
        }
    }
    None
}
