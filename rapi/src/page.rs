//! Core: the page that a person sees who opens the front door in a browser: all routes, and where their
//! description is.

use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};

use crate::routes::Described;

/// The path of the page.
pub const PATH: &str = "/";
/// The page has no script, picture or frame, and shall get none.
const POLICY: &str = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'";

/// A cache must not give the answer to a client that takes other types.
pub const VARY: (header::HeaderName, &str) = (header::VARY, "accept");

pub fn page(routes: &[Described]) -> String {
    let rows: String = routes.iter().map(row).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Gantry front door</title></head>\n\
         <body>\n<h1>Gantry front door</h1>\n\
         <p>This server has Ganeti's remote API below <code>/2</code>, sabakan's REST API below \
         <code>/api/v1</code>, and Ironic's for ramdisks below <code>/v1</code>. Programs read <a href=\"/openapi.json\">openapi.json</a>. Log in with a name and \
         password of this cluster's users.</p>\n<table>\n{rows}</table>\n</body>\n</html>\n"
    )
}

/// A link where a browser can follow it: the others need a name in the path, or change something.
fn row(route: &Described) -> String {
    let Described { path, method, summary } = route;
    let is_link = *method == "get" && !path.contains('{');
    let shown = if is_link { format!("<a href=\"{path}\">{path}</a>") } else { (*path).to_owned() };
    format!("<tr><td>{}</td><td>{shown}</td><td>{summary}</td></tr>\n", method.to_uppercase())
}

/// The page, for a browser.
pub fn answer(headers: &HeaderMap, page: &str) -> Option<Response> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok())?;
    let policy = (header::CONTENT_SECURITY_POLICY, POLICY);
    let answer = || ([VARY, policy], Html(page.to_owned())).into_response();
    accept.contains("text/html").then(answer)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_browser_gets_the_page_and_others_do_not() {
        let routes = [
            Described { path: "/2/info", method: "get", summary: "Describe the cluster" },
            Described { path: "/2/jobs/{id}", method: "delete", summary: "Cancel a job" },
        ];
        let page = page(&routes);
        assert!(page.contains("<a href=\"/2/info\">/2/info</a></td><td>Describe the cluster<"));
        assert!(page.contains("<td>DELETE</td><td>/2/jobs/{id}</td>"));
        let kind = |accept: Option<&'static str>| {
            let accept = accept.map(|accept| (header::ACCEPT, HeaderValue::from_static(accept)));
            let answer = answer(&HeaderMap::from_iter(accept), &page)?;
            Some(answer.headers()[header::CONTENT_TYPE].clone())
        };
        let html = kind(Some("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert_eq!(html.unwrap(), "text/html; charset=utf-8");
        for other in [None, Some("application/json, */*; q=0.5"), Some("*/*")] {
            assert_eq!(kind(other), None);
        }
    }
}
