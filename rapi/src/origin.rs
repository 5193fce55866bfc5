//! Core: by which name a request came, and which site made a browser send it.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, Version, header};

use crate::refusal::Refusal;
use crate::route_request::authority;
use crate::state::PlainHttp;

/// The header by which a browser says whether the same site made it send a request.
const SITE: &str = "sec-fetch-site";

/// Refuses a request that does not name its host once (RFC 9112 section 3.2): two servers on its way could
/// take it for one of different hosts. HTTP/1.0 has no host.
///
/// # Errors
/// It names none, several, or one that is no name.
pub fn names_its_host(parts: &Parts) -> Result<(), Refusal> {
    let hosts: Vec<&HeaderValue> = parts.headers.get_all(header::HOST).iter().collect();
    let target = parts.uri.authority().map(Authority::as_str);
    let differs = |host: &&HeaderValue| {
        target.is_some_and(|target| !host.as_bytes().eq_ignore_ascii_case(target.as_bytes()))
    };
    let is_named_once = match parts.version {
        Version::HTTP_09 | Version::HTTP_10 => hosts.len() <= 1,
        Version::HTTP_11 => hosts.len() == 1,
        _ => hosts.len() <= 1 && !hosts.iter().any(differs),
    };
    let has_none = hosts.is_empty() && parts.version < Version::HTTP_11;
    if is_named_once && (has_none || authority(&parts.headers, &parts.uri).is_some()) {
        return Ok(());
    }
    Err(Refusal::bad("send one header Host, with the name or address of this server and its port"))
}

/// Refuses what pages of other sites can make a browser of this machine send to loopback without TLS.
///
/// # Errors
/// It is not for loopback, or from another site.
pub fn is_for_loopback(parts: &Parts) -> Result<(), Refusal> {
    if !authority(&parts.headers, &parts.uri).is_some_and(is_of_loopback) {
        let text = "ask for localhost or 127.0.0.1: any other name that leads here is not ours";
        return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, text));
    }
    let origin =
        parts.headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    let is_ours = |origin: &str| origin.strip_prefix("http://").is_some_and(is_of_loopback);
    if origin.is_none_or(is_ours) { Ok(()) } else { Err(other_site()) }
}

/// Whether a host, with its port, is this machine's loopback by its name. Another site can have its own name
/// lead here, and a browser would then take our answers for that site's.
fn is_of_loopback(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Whether another site made a browser send this: a browser sends the names and passwords that it
/// remembers for any site that asks. A browser that does not compare the sites itself names the site of
/// the page.
pub fn is_of_another_site(parts: &Parts) -> bool {
    let mut sites = parts.headers.get_all(SITE).iter().peekable();
    if sites.peek().is_some() {
        return sites.any(|site| site != "same-origin" && site != "none");
    }
    let is_plain = parts.extensions.get::<PlainHttp>().is_some();
    let (scheme, port) = if is_plain { ("http://", 80) } else { ("https://", 443) };
    let host = |text: &str| {
        let authority = text.parse::<Authority>().ok()?;
        let port = authority.port_u16().unwrap_or(port);
        Some((authority.host().to_ascii_lowercase(), port))
    };
    let own = authority(&parts.headers, &parts.uri).and_then(host);
    let is_own = |origin: &HeaderValue| {
        let origin = origin.to_str().ok().and_then(|origin| origin.strip_prefix(scheme));
        own.is_some() && origin.and_then(host) == own
    };
    !parts.headers.get_all(header::ORIGIN).iter().all(is_own)
}

/// The refusal of a request that another site made a browser send.
pub fn other_site() -> Refusal {
    let text = "a browser sends this from another site, which must not act in your name";
    Refusal::new(StatusCode::FORBIDDEN, text)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn parts(version: Version, target: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().version(version).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_host_is_named_once() {
        let (old, one, two) = (Version::HTTP_10, Version::HTTP_11, Version::HTTP_2);
        let (host, other) = (("host", "n1.example:5080"), ("host", "n2.example"));
        let target = "https://n1.example:5080/2";
        for (version, target, headers, is_good) in [
            (one, "/2", vec![host], true),
            (one, "/2", vec![("host", "[fd00::1]:5080")], true),
            (one, "/2", vec![("host", "my_host")], true),
            (one, "/2", vec![], false),
            (one, "/2", vec![host, host], false),
            (one, "/2", vec![host, other], false),
            (one, "/2", vec![("host", "")], false),
            (one, "/2", vec![("host", "n1.example, n2.example")], false),
            (one, "/2", vec![("host", "alice:secret@n1.example")], false),
            (one, target, vec![], false),
            (old, "/health", vec![], true),
            (old, "/health", vec![host], true),
            (old, "/health", vec![host, host], false),
            (old, "/health", vec![("host", "a b")], false),
            (two, target, vec![], true),
            (two, target, vec![("host", "N1.example:5080")], true),
            (two, target, vec![other], false),
            (two, target, vec![host, host], false),
            (two, "/2", vec![host], true),
            (two, "/2", vec![], false),
        ] {
            let told = names_its_host(&parts(version, target, &headers));
            assert_eq!(told.is_ok(), is_good, "{version:?} {target} {headers:?}");
        }
    }

    #[test]
    fn a_change_that_another_site_asks_for_is_seen_by_any_browser() {
        let host = ("host", "n1.example:5080");
        for (headers, is_other) in [
            (vec![], false),
            (vec![("sec-fetch-site", "same-origin")], false),
            (vec![("sec-fetch-site", "none")], false),
            (vec![("sec-fetch-site", "same-site")], true),
            (vec![("sec-fetch-site", "cross-site")], true),
            (vec![("origin", "https://n1.example:5080")], false),
            (vec![("origin", "https://N1.example:5080")], false),
            (vec![("origin", "https://n1.example")], true),
            (vec![("origin", "http://n1.example:5080")], true),
            (vec![("origin", "https://evil.example")], true),
            (vec![("origin", "https://n1.example:5080.evil.example")], true),
            (vec![("origin", "null")], true),
            (vec![("origin", "")], true),
            (vec![("origin", "https://n1.example:5080"), ("origin", "https://evil.example")], true),
        ] {
            let all = [&[host][..], &headers].concat();
            let told = is_of_another_site(&parts(Version::HTTP_11, "/2/tags", &all));
            assert_eq!(told, is_other, "{headers:?}");
        }
        let usual = [("host", "n1.example"), ("origin", "https://n1.example:443")];
        assert!(!is_of_another_site(&parts(Version::HTTP_11, "/2/tags", &usual)));
        let plain = |origin| {
            let headers = [("host", "localhost:5081"), ("origin", origin)];
            let mut parts = parts(Version::HTTP_11, "/2/tags", &headers);
            parts.extensions.insert(PlainHttp);
            is_of_another_site(&parts)
        };
        assert!(!plain("http://localhost:5081") && plain("http://localhost:3000"));
    }

    #[test]
    fn without_tls_only_names_of_loopback_are_answered() {
        let told = |name: &str, value: &str| {
            let headers = match name {
                "host" => vec![("host", value)],
                name => vec![("host", "localhost"), (name, value)],
            };
            let parts = parts(Version::HTTP_11, "/2/tags", &headers);
            is_for_loopback(&parts).map_err(|refusal| refusal.code)
        };
        for ours in ["localhost", "LOCALHOST:5081", "127.0.0.1:5081", "127.9.9.9", "[::1]:5081"] {
            assert_eq!(told("host", ours), Ok(()), "{ours}");
            assert_eq!(told("origin", &format!("http://{ours}")), Ok(()), "{ours}");
        }
        let others = [
            "",
            "example.com:5081",
            "localhost.example.com",
            "192.0.2.1",
            "127.0.0.1.example.com",
            "[::2]",
        ];
        for other in others {
            assert_eq!(told("host", other), Err(421), "{other}");
            assert_eq!(told("origin", &format!("http://{other}")), Err(403), "{other}");
        }
        assert_eq!(told("origin", "null"), Err(403));
        assert_eq!(told("accept", "text/html"), Ok(()));
    }
}
