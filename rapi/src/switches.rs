//! Core: what may stand behind the path of a request that changes something. Anything else is refused: to pass
//! over a misspelt `dry-run` would do what the client wants to try.

use axum::http::Method;

use crate::paths;
use crate::refusal::Refusal;
use crate::state::{Form, GRAPHQL};

/// Check everything and change nothing, which every opcode can.
pub const DRY_RUN: &str = "dry-run";
const FORCE: &str = "force";
const AUTO_PROMOTE: &str = "auto-promote";
const OTHER_SPEC: &str = "other-spec";
const REASON: &str = "reason";
const NO_REMEMBER: &str = "no_remember";
const IGNORE_SIZE: &str = "ignore_size";
const IGNORE_SECONDARIES: &str = "ignore_secondaries";
const ALLOCATABLE: &str = "allocatable";
const NO_STARTUP: &str = "nostartup";
/// Switches that are yes or no, written as a number.
pub const FLAGS: [&str; 9] = [
    DRY_RUN,
    FORCE,
    AUTO_PROMOTE,
    OTHER_SPEC,
    NO_REMEMBER,
    IGNORE_SIZE,
    IGNORE_SECONDARIES,
    ALLOCATABLE,
    NO_STARTUP,
];
/// Characters of an unknown name that an answer repeats.
const NAME_MAX: usize = 60;

/// Whether a request changes nothing: lists may be asked for by `PUT`, too. A change by GraphQL is a
/// job, and is checked when it is submitted.
pub fn reads(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
        || (*method == Method::PUT && path.starts_with("/2/query/"))
        || (*method == Method::POST && path == GRAPHQL)
}

/// Whether a request may change something, also where its route looks at that itself.
pub fn changes(method: &Method, path: &str) -> bool {
    !reads(method, path) || (*method == Method::POST && path == GRAPHQL)
}

/// The switches that a method, in small letters, of a path takes. Jobs have a reason. sabakan's
/// interface has no dry run, and neither has a request that makes no job.
pub fn of(method: &str, path: &str) -> &'static [&'static str] {
    match (method, path) {
        ("put", "/2/query/{what}") => &["fields"],
        ("delete", "/2/jobs/{id}" | "/2/filters/{uuid}") => &[],
        (_, "/2/filters" | "/2/filters/{uuid}") => &[REASON],
        (_, "/2/nodes/{name}/powercycle" | "/2/groups/{name}/assign-nodes") => {
            &[DRY_RUN, FORCE, REASON]
        }
        (_, "/2/nodes/{name}/role") => &[DRY_RUN, FORCE, AUTO_PROMOTE, REASON],
        (_, "/2/instances/{name}/startup") => &[DRY_RUN, FORCE, NO_REMEMBER, REASON],
        (_, "/2/instances/{name}/shutdown") => &[DRY_RUN, NO_REMEMBER, REASON],
        (_, "/2/instances/{name}/reboot") => &[DRY_RUN, IGNORE_SECONDARIES, "type", REASON],
        (_, "/2/instances/{name}/activate-disks") => &[DRY_RUN, IGNORE_SIZE, REASON],
        (_, "/2/instances/{name}/deactivate-disks") => &[DRY_RUN, FORCE, REASON],
        (_, "/2/instances/{name}/prepare-export") => &[DRY_RUN, "mode", REASON],
        (_, "/2/instances/{name}/reinstall") => &[DRY_RUN, "os", NO_STARTUP, REASON],
        (_, "/2/instances/{name}/replace-disks") => {
            &[DRY_RUN, "mode", "disks", "remote_node", "iallocator", REASON]
        }
        (_, "/2/nodes/{name}/storage/modify") => {
            &[DRY_RUN, "storage_type", "name", ALLOCATABLE, REASON]
        }
        (_, "/2/nodes/{name}/storage/repair") => &[DRY_RUN, "storage_type", "name", REASON],
        (_, path) if path.ends_with("/tags") => &["tag", DRY_RUN, REASON],
        ("put", "/api/v1/ignitions/{role}/{id}") => &[OTHER_SPEC, REASON],
        ("delete", path) if paths::is_ours(path) => &[DRY_RUN, FORCE, REASON],
        (_, path) if paths::is_ours(path) => &[DRY_RUN, REASON],
        (_, path) if Form::of(path) == Form::Ganeti => &[DRY_RUN, REASON],
        (_, path) if path.starts_with("/api/") || path == GRAPHQL => &[REASON],
        _ => &[],
    }
}

/// Looks at the query of a change.
///
/// # Errors
/// It has a name that the route does not take, or a switch without a value.
pub fn check(method: &str, path: &str, query: &[(String, String)]) -> Result<(), Refusal> {
    let known = of(&method.to_ascii_lowercase(), path);
    for (name, value) in query {
        if !known.contains(&name.as_str()) {
            let name: String = name.chars().take(NAME_MAX).collect();
            let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let text = format!("`{name}` is no switch of this request, which takes {takes}");
            return Err(Refusal::bad(format!("{text}; nothing was done")));
        }
        if FLAGS.contains(&name.as_str()) && value.is_empty() {
            return Err(Refusal::bad(format!("write {name}=1 or {name}=0; nothing was done")));
        }
    }
    Ok(())
}

/// A switch of a query, which Ganeti writes as a number. Without a value there is none, as in Ganeti.
///
/// # Errors
/// It is no number, or there are two that differ.
pub fn flag(query: &[(String, String)], name: &str) -> Result<bool, Refusal> {
    let invalid = || Refusal::bad(format!("Invalid value for the '{name}' parameter"));
    let given = query.iter().filter(|(key, value)| key == name && !value.is_empty());
    let mut is_set = None;
    for (_name, value) in given {
        let value = value.parse::<i64>().map_err(|_no_number| invalid())? != 0;
        if is_set.replace(value).is_some_and(|before| before != value) {
            return Err(invalid());
        }
    }
    Ok(is_set.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::routes;

    fn query(text: &str) -> Vec<(String, String)> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.to_owned())
        };
        text.split('&').map(pair).collect()
    }

    #[test]
    fn a_misspelt_switch_is_refused_and_so_is_one_without_a_value() {
        let code =
            |method, path, text| check(method, path, &query(text)).map_err(|refusal| refusal.code);
        for (method, path, good) in [
            ("DELETE", "/2/groups/{name}", "dry-run=1"),
            ("PUT", "/2/tags", "tag=a&tag=b&dry-run=0&reason="),
            ("PUT", "/2/nodes/{name}/role", "force=1&auto-promote=1&dry-run=1"),
            ("POST", "/2/nodes/{name}/powercycle", "force=1&dry-run=1"),
            ("POST", "/2/instances/{name}/reboot", "type=soft&ignore_secondaries=0"),
            ("PUT", "/2/instances/{name}/shutdown", "no_remember=1"),
            ("PUT", "/api/v1/ignitions/{role}/{id}", "other-spec=1"),
            ("DELETE", "/api/v1/machines/{serial}", "reason=why"),
        ] {
            assert_eq!(code(method, path, good), Ok(()), "{path}?{good}");
        }
        let misspelt = ["dry_run=1", "dryrun=1", "Dry-Run=1", "dry-run", "dry-run=", "bulk=1"];
        let forms = ["/2/groups/{name}", "/api/v1/machines/{serial}", "/2/jobs/{id}"];
        for path in forms.into_iter().chain([GRAPHQL]) {
            for wrong in misspelt {
                assert_eq!(code("DELETE", path, wrong), Err(400), "{path}?{wrong}");
            }
        }
        // A request without a dry run must not be taken for one.
        for (method, path) in [
            ("DELETE", "/2/jobs/{id}"),
            ("POST", "/2/filters"),
            ("POST", GRAPHQL),
            ("DELETE", "/api/v1/machines/{serial}"),
            ("PUT", "/api/v1/assets/{name}"),
        ] {
            assert_eq!(code(method, path, "dry-run=1"), Err(400), "{path}");
        }
    }

    #[test]
    fn every_change_of_ganetis_interface_that_is_a_job_can_be_tried() {
        let is_none = |path: &str| {
            path.starts_with("/2/filters") || path == "/2/jobs/{id}" || path == "/2/query/{what}"
        };
        let routes = routes();
        let changes = routes.described().iter().filter(|route| {
            route.method != "get" && Form::of(route.path) == Form::Ganeti && !is_none(route.path)
        });
        let without: Vec<_> =
            changes.filter(|route| !of(route.method, route.path).contains(&DRY_RUN)).collect();
        assert_eq!(without, Vec::<&crate::routes::Described>::new());
    }

    #[test]
    fn a_switch_is_a_number_and_one_alone() {
        let told = |text| flag(&query(text), DRY_RUN).map_err(|refusal| refusal.code);
        for (text, wanted) in [
            ("a=1", Ok(false)),
            ("dry-run=", Ok(false)),
            ("dry-run=0", Ok(false)),
            ("dry-run=1", Ok(true)),
            ("dry-run=-5", Ok(true)),
            ("dry-run=1&dry-run=2", Ok(true)),
            ("dry-run=0&dry-run=1", Err(400)),
            ("dry-run=true", Err(400)),
        ] {
            assert_eq!(told(text), wanted, "{text}");
        }
    }
}
