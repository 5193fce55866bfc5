//! Core: which paths are our own, and which are for tenants.

/// The beginnings of the paths of our own objects.
const BEGINNINGS: [&str; 5] = [
    "/api/v1/switches",
    "/api/v1/ports",
    "/api/v1/port-configurations",
    "/api/v1/tenants",
    "/api/v1/provision",
];
/// The beginnings of the paths that somebody with the role tenant may ask for: what is behind them, the
/// master limits to its own things.
const TENANTS_PATHS: [&str; 6] = [
    "/api/v1/provision",
    "/api/v1/ports",
    "/api/v1/port-configurations",
    "/api/v1/tenants",
    "/2/jobs",
    "/2/query/",
];

/// Whether a path is one of our own objects'.
pub fn is_ours(path: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| is_below(path, beginning))
}

/// Whether somebody with the role tenant may ask for a path.
pub fn is_for_tenants(path: &str) -> bool {
    TENANTS_PATHS.iter().any(|beginning| is_below(path, beginning))
}

fn is_below(path: &str, beginning: &str) -> bool {
    let rest = path.strip_prefix(beginning);
    rest.is_some_and(|rest| beginning.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_asks_for_paths_behind_which_is_what_the_master_limits() {
        for (path, is_for) in [
            ("/api/v1/ports", true),
            ("/api/v1/ports/tor/p1", true),
            ("/api/v1/port-configurations/acme.lab", true),
            ("/2/jobs/7/wait", true),
            ("/2/query/machine", true),
            ("/api/v1/portsx", false),
            ("/api/v1/switches", false),
            ("/api/v1/machines", false),
            ("/api/v1/config", false),
            ("/2/nodes", false),
            ("/2/info", false),
            ("/graphql", false),
        ] {
            assert_eq!(is_for_tenants(path), is_for, "{path}");
        }
    }
}
