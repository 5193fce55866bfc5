use super::*;
use crate::testing::{MAC, UUID, World, json, why};

#[test]
fn what_is_served_is_told() {
    let mut world = World::new();
    let root = world.get("/", "junk", 1).answer;
    assert_eq!(root.status, 200, "whatever version is asked for");
    let body = json(&root);
    assert_eq!(body["default_version"]["version"], "1.115");
    assert_eq!(body["default_version"]["min_version"], "1.1");
    for path in ["/v1", "/v1/"] {
        let v1 = world.get(path, "1.1", 1).answer;
        assert_eq!(v1.status, 200);
        let href = "http://10.69.0.3:10080/v1/continue_inspection";
        assert_eq!(json(&v1)["continue_inspection"][0]["href"], href);
    }
}

#[test]
fn every_answer_tells_versions() {
    let mut world = World::new();
    for (path, version, status, told) in [
        ("/v1", "1.31", 200, "1.31"),
        ("/v1", "latest", 200, "1.115"),
        ("/v1/nothing", "1.31", 404, "1.1"),
        ("/v1/lookup", "1.116", 406, "1.1"),
        ("/v1/lookup", "2.1", 406, "1.1"),
        ("/v1", "junk", 406, "1.1"),
    ] {
        let answer = world.get(path, version, 1).answer;
        assert_eq!(answer.status, status, "{path} {version}");
        let headers = answer.headers();
        let has = |name: &str, value: &str| headers.iter().any(|(n, v)| *n == name && v == value);
        assert!(has("x-openstack-ironic-api-version", told), "{path} {version}: {headers:?}");
        assert!(has("x-openstack-ironic-api-minimum-version", "1.1"));
        assert!(has("x-openstack-ironic-api-maximum-version", "1.115"));
    }
}

#[test]
fn old_versions_have_no_lookup_and_no_heartbeat() {
    let mut world = World::new();
    let lookup = format!("/v1/lookup?addresses={MAC}");
    for (version, status) in [("1.1", 404), ("1.21", 404), ("1.22", 200)] {
        assert_eq!(world.get(&lookup, version, 1).answer.status, status, "{version}");
    }
    let request = Request { method: "GET", path: "/v1/lookup", ..Request::default() };
    assert_eq!(world.ask(request, 1).answer.status, 404, "without a header it is 1.1");
    let path = format!("/v1/heartbeat/{UUID}");
    assert_eq!(world.post(&path, "1.21", "{}", 1).answer.status, 404);
    assert_eq!(world.post(&path, "1.22", "{}", 1).answer.status, 400);
}

#[test]
fn refusals_are_texts_of_json_in_json() {
    let mut world = World::new();
    let body = json(&world.get("/v1/lookup", "1.62", 1).answer);
    let inner: serde_json::Value =
        serde_json::from_str(body["error_message"].as_str().unwrap()).unwrap();
    assert_eq!(inner["faultcode"], "Client");
    assert!(inner["faultstring"].as_str().unwrap().contains("addresses or node_uuid"));
    assert!(inner["debuginfo"].is_null());
    let body = json(&world.get("/v1/nodes", "1.62", 1).answer);
    let inner: serde_json::Value =
        serde_json::from_str(body["error_message"].as_str().unwrap()).unwrap();
    assert_eq!((&inner["code"], &inner["title"]), (&404.into(), &"Not Found".into()));
    let body = json(&world.get("/v1/lookup", "2.0", 1).answer);
    let inner: serde_json::Value =
        serde_json::from_str(body["error_message"].as_str().unwrap()).unwrap();
    assert_eq!((&inner["code"], &inner["title"]), (&406.into(), &"Not Acceptable".into()));
    assert!(inner["description"].as_str().unwrap().contains("Version 2.0"), "{inner}");
}

#[test]
fn arguments() {
    let mut world = World::new();
    for (query, status, told) in [
        ("", 400, "Either addresses"),
        ("?", 400, "Either addresses"),
        ("?addresses=", 400, "Either addresses"),
        ("?addresses=x,y", 400, "Either addresses"),
        ("?node_uuid=", 400, "Either addresses"),
        ("?node_uuid=x", 400, "Expected a UUID"),
        ("?node_uuid=x&addresses=52:54:00:00:00:01", 400, "Expected a UUID"),
        ("?addresses=52:54:00:00:00:01&x=1", 400, "Unknown argument"),
        ("?addresses=52:54:00:00:00:01&addresses=", 400, "given twice"),
        ("?addresses=x,52:54:00:00:00:01", 200, ""),
        ("?addresses=52%3A54%3A00%3A00%3A00%3A01%2Cx", 200, ""),
        ("?addresses=52:54:00:00:00:0f", 404, "could not be found"),
        ("?addresses=52:54:00:00:00:03", 404, "could not be found"),
    ] {
        let answer = world.get(&format!("/v1/lookup{query}"), "1.62", 1).answer;
        assert_eq!(answer.status, status, "{query}: {}", answer.body);
        if status != 200 {
            assert!(why(&answer).contains(told), "{query}: {}", answer.body);
        }
    }
    let upper = "/v1/lookup?addresses=52:54:00:00:00:01"
        .to_uppercase()
        .replace("V1/LOOKUP?ADDRESSES", "v1/lookup?addresses");
    assert_eq!(world.get(&upper, "1.62", 1).answer.status, 200);
}

#[test]
fn methods() {
    let mut world = World::new();
    for (method, path, allow) in [
        ("POST", "/v1/lookup", "GET"),
        ("HEAD", "/v1/lookup", "GET"),
        ("GET", "/v1/heartbeat/x", "POST"),
        ("PUT", "/v1/continue_inspection", "POST"),
        ("DELETE", "/", "GET"),
    ] {
        let request = Request { method, path, version: Some("1.62"), ..Request::default() };
        let answer = world.ask(request, 1).answer;
        assert_eq!((answer.status, answer.allow.as_deref()), (405, Some(allow)), "{method} {path}");
    }
}

#[test]
fn bodies_have_limits() {
    let mut world = World::new();
    let large = " ".repeat(HEARTBEAT_BYTES_MAX + 1);
    let path = format!("/v1/heartbeat/{UUID}");
    assert_eq!(world.post(&path, "1.68", &large, 1).answer.status, 413);
    assert_eq!(world.post("/v1/continue_inspection", "", &large, 1).answer.status, 400);
    let request = Request { method: "GET", path: "/v1", body: b"x", ..Request::default() };
    assert_eq!(world.ask(request, 1).answer.status, 413);
    let deep = format!(r#"{{"callback_url": {}1{}}}"#, "[".repeat(25), "]".repeat(25));
    let answer = world.post(&path, "1.68", &deep, 1).answer;
    assert!(why(&answer).contains("deep"), "{}", answer.body);
}
