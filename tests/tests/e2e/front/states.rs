//! States of machines: sabakan's table over REST, and the deadline of what runs.

use serde_json::Value;
use tests::cluster::IPAM;

use super::Front;

/// sabakan's states, each with those that may follow.
const TABLE: [(&str, &[&str]); 7] = [
    ("uninitialized", &["healthy", "retiring"]),
    ("healthy", &["unhealthy", "unreachable", "updating", "retiring"]),
    ("unhealthy", &["healthy", "unreachable", "updating", "retiring"]),
    ("unreachable", &["healthy", "unhealthy", "updating", "retiring"]),
    ("updating", &["uninitialized"]),
    ("retiring", &["retired"]),
    ("retired", &["uninitialized"]),
];
const PATH: &str = "/api/v1/state/s1";

impl Front {
    fn put(&self, user: &str, path: &str, body: &str) -> (u16, String) {
        self.answer(user, &["-X", "PUT", "--data-binary", body, path])
    }

    fn delete(&self, path: &str) -> u16 {
        self.answer("alice", &["-X", "DELETE", path]).0
    }

    fn with_machine(options: &[&str]) -> Self {
        let front = Self::begin_with(options);
        assert_eq!(front.put("alice", "/api/v1/config/ipam", IPAM), (200, String::new()));
        let machine = r#"[{"serial": "s1", "rack": 0, "role": "worker"}]"#;
        assert_eq!(front.answer("alice", &["-d", machine, "/api/v1/machines"]).0, 201);
        front
    }
}

/// The states on the shortest way between two.
fn way(from: &str, to: &'static str) -> Vec<&'static str> {
    let mut ways: Vec<Vec<&str>> = vec![vec![]];
    for _ in 0..TABLE.len() {
        let ends = |way: &Vec<&str>| way.last().copied().unwrap_or(from) == to;
        if let Some(way) = ways.iter().find(|way| ends(way)) {
            return way.clone();
        }
        let further = |way: &Vec<&'static str>| {
            let at = way.last().copied().unwrap_or(from);
            let (_, next) = TABLE.iter().find(|(state, _)| *state == at).unwrap();
            next.iter().map(|next| [way.as_slice(), &[*next]].concat()).collect::<Vec<_>>()
        };
        ways = ways.iter().flat_map(further).collect();
    }
    panic!("there is no way from {from} to {to}");
}

#[test]
fn a_machine_goes_through_sabakans_whole_table() {
    let front = Front::with_machine(&[]);
    let state = || front.answer("bob", &[PATH]);
    let mut at = "uninitialized";
    let (mut allowed, mut forbidden) = (0, 0);
    for (from, next) in TABLE {
        for (to, _) in TABLE {
            for step in way(at, from) {
                assert_eq!(front.put("alice", PATH, step), (200, String::new()), "{at} to {step}");
                at = step;
            }
            assert_eq!(state(), (200, from.to_owned()));
            let (code, told) = front.put("alice", PATH, to);
            if to == from || next.contains(&to) {
                assert_eq!(code, 200, "{from} to {to}: {told}");
                (allowed, at) = (allowed + 1, to);
            } else {
                assert_eq!(code, 409, "{from} to {to}: {told}");
                assert!(told.contains("cannot become"), "{told}");
                forbidden += 1;
            }
            assert_eq!(state(), (200, at.to_owned()));
        }
    }
    assert_eq!((allowed, forbidden), (24, 25));
}

#[test]
fn what_is_no_state_and_who_may_not_set_one() {
    let front = Front::with_machine(&[]);
    for (user, path, body, code) in [
        ("alice", PATH, "Healthy", 400),
        ("alice", PATH, "", 400),
        ("alice", PATH, "active", 400),
        ("alice", PATH, &"x".repeat(128), 400),
        ("alice", PATH, &"x".repeat(129), 413),
        ("alice", "/api/v1/state/s9", "healthy", 404),
        ("bob", PATH, "healthy", 403),
        ("nobody", PATH, "healthy", 401),
        ("alice", PATH, "healthy\n", 200),
    ] {
        let (status, told) = front.put(user, path, body);
        assert_eq!(status, code, "{user} {path} {body}: {told}");
        assert!(status == 200 || told.contains("\"error\""), "{told}");
    }
    assert_eq!(front.answer("bob", &["/api/v1/state/s9"]).0, 404);
    let found = |query: &str| front.answer("bob", &[&format!("/api/v1/machines?{query}")]);
    assert_eq!(found("state=healthy,updating").0, 200);
    assert_eq!(found("without-state=healthy").0, 404);
    let (_, body) = found("serial=s1");
    let machines: Value = serde_json::from_str(&body).unwrap();
    let status = &machines[0]["status"];
    assert_eq!(status["state"], "healthy");
    assert!(status["duration"].is_number() && status["timestamp"].as_str().unwrap().ends_with('Z'));
    let listed = front.cluster.gnt("machine list --no-headers -o serial,status,provision_state");
    let words: Vec<&str> = listed.ok().split_whitespace().collect();
    assert_eq!(words, ["s1", "healthy", "active"]);
    // It works for somebody.
    let refused = front.cluster.gnt("machine remove s1 --yes");
    assert!(refused.failed(1).contains("--in-service"), "{refused:?}");
    let refused = front.cluster.gnt("machine set-state s1 retired");
    assert!(refused.failed(1).contains("cannot become retired"), "{refused:?}");
    let _set = front.cluster.gnt("machine set-state s1 unhealthy --why fan").ok();
    let listed = front.cluster.gnt("machine list --no-headers --status unhealthy -o state_reason");
    assert_eq!(listed.ok().trim(), "fan");
    let _gone = front.cluster.gnt("machine remove s1 --yes --in-service").ok();
}

#[test]
fn a_machine_with_keys_is_not_retired_and_one_that_is_not_retired_not_removed() {
    let front = Front::with_machine(&[]);
    let (key, keys) = ("/api/v1/crypts/s1/sda", "/api/v1/crypts/s1");
    let machine = "/api/v1/machines/s1";
    assert_eq!(front.put("alice", key, "secret").0, 201);
    assert_eq!(front.delete(keys), 409, "only of a machine that goes out of service");
    assert_eq!(front.put("alice", PATH, "retiring").0, 200);
    let (code, told) = front.put("alice", "/api/v1/crypts/s1/sdb", "secret");
    assert_eq!(code, 409, "{told}");
    assert!(told.contains("is retiring"), "{told}");
    let (code, told) = front.put("alice", PATH, "retired");
    assert_eq!(code, 400, "{told}");
    assert!(told.contains("keys of 1 disk"), "{told}");
    assert_eq!(front.delete(machine), 409);
    assert_eq!(front.delete(keys), 200);
    assert_eq!(front.put("alice", PATH, "retired").0, 200);
    assert_eq!(front.put("alice", key, "secret").0, 409);
    assert_eq!(front.delete(machine), 200);
    assert_eq!(front.delete(machine), 404);
}

/// A question in GraphQL, and its answer.
fn graphql(front: &Front, user: &str, query: &str) -> (u16, Value) {
    let body = serde_json::json!({"query": query}).to_string();
    let head = "Content-Type: application/json";
    let (code, told) = front.answer(user, &["-H", head, "-d", &body, "/graphql"]);
    (code, serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}")))
}

#[test]
fn machines_are_asked_for_and_set_by_graphql() {
    let front = Front::with_machine(&[]);
    let ask = |user: &str, query: &str| graphql(&front, user, query);
    let whole = r#"{ machine(serial: "s1") { spec { serial labels { name value } rack indexInRack role
        ipv4 registerDate retireDate bmc { bmcType ipv4 } } status { state timestamp duration }
        info { bmc { ipv4 { address netmask maskbits gateway } } } } }"#;
    let (code, told) = ask("bob", whole);
    assert_eq!((code, &told["errors"]), (200, &Value::Null), "{told}");
    let machine = &told["data"]["machine"];
    assert_eq!(machine["spec"]["indexInRack"], 4);
    assert_eq!(machine["status"]["state"], "UNINITIALIZED");
    assert!(machine["info"]["bmc"]["ipv4"]["netmask"].is_string(), "{told}");
    let found = |query: &str| {
        let (_, told) =
            ask("bob", &format!("{{ searchMachines({query}) {{ spec {{ serial }} }} }}"));
        told["data"]["searchMachines"].as_array().map(Vec::len)
    };
    for (query, number) in [
        ("having: {}", 1),
        ("having: {racks: [0], roles: [\"worker\"], states: [UNINITIALIZED, HEALTHY]}", 1),
        ("having: {racks: [1]}", 0),
        ("notHaving: {states: [UNINITIALIZED]}", 0),
        ("having: {labels: [{name: \"a\", value: \"b\"}]}", 0),
        ("having: {minDaysBeforeRetire: 1}", 0),
        ("notHaving: {minDaysBeforeRetire: 1}", 1),
    ] {
        assert_eq!(found(query), Some(number), "{query}");
    }
    let set = |user: &str, serial: &str, state: &str| {
        let arguments = format!("serial: \"{serial}\", state: {state}");
        let (code, told) =
            ask(user, &format!("mutation {{ setMachineState({arguments}) {{ state }} }}"));
        let kind = &told["errors"][0]["extensions"]["type"];
        (code, told["data"]["setMachineState"]["state"].clone(), kind.clone())
    };
    let refused = |kind: &str| (200, Value::Null, Value::from(kind));
    assert_eq!(set("alice", "s1", "HEALTHY"), (200, "HEALTHY".into(), Value::Null));
    assert_eq!(set("alice", "s1", "RETIRED"), refused("INVALID_STATE_TRANSITION"));
    assert_eq!(set("alice", "s9", "HEALTHY"), refused("MACHINE_NOT_FOUND"));
    assert_eq!(set("bob", "s1", "UNHEALTHY"), refused("FORBIDDEN"));
    assert_eq!(set("nobody", "s1", "UNHEALTHY").0, 401);
    assert_eq!(front.answer("bob", &[PATH]), (200, "healthy".to_owned()));
    assert_eq!(front.put("alice", "/api/v1/crypts/s1/sda", "secret").0, 201);
    assert_eq!(set("alice", "s1", "RETIRING").1, "RETIRING");
    assert_eq!(set("alice", "s1", "RETIRED"), refused("ENCRYPTION_KEY_EXISTS"));
    // A browser sends this to another site without asking.
    let plain =
        ["-H", "Content-Type: text/plain", "-d", "{\"query\": \"{ __typename }\"}", "/graphql"];
    assert_eq!(front.answer("alice", &plain).0, 415);
    // A query in a link only reads.
    let asked = |user: &str, query: &str| {
        let query =
            ["-G", "--data-urlencode", query, "--data-urlencode", "variables={\"s\":\"s1\"}"];
        front.answer(user, &[&query[..], &["/graphql"]].concat())
    };
    let query = "query=query q($s: ID!) { machine(serial: $s) { spec { rack } } }";
    assert_eq!(
        asked("bob", query),
        (200, r#"{"data":{"machine":{"spec":{"rack":0}}}}"#.to_owned())
    );
    let set = "query=mutation { setMachineState(serial: \"s1\", state: HEALTHY) { state } }";
    assert_eq!((asked("alice", set).0, asked("alice", "other=1").0), (406, 400));
    assert_eq!(asked("nobody", query).0, 401);
    let long = format!("{{ machine(serial: \"{}\") {{ spec {{ rack }} }} }}", "x".repeat(64 << 10));
    assert_eq!(graphql(&front, "bob", &long).0, 413);
}

#[test]
fn todays_wart_is_there_where_it_is_wanted() {
    let front = Front::with_machine(&["--compat", "document"]);
    assert_eq!(front.put("alice", PATH, "retired").0, 500);
    assert_eq!(front.put("alice", PATH, "healthy").0, 200);
    let (_, body) = front.answer("bob", &["/api/v1/machines?serial=s1"]);
    let machines: Value = serde_json::from_str(&body).unwrap();
    assert!(machines[0].get("life").is_none(), "{body}");
}
