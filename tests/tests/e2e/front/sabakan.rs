//! sabakan's REST API: the requests of its specification as they stand there, and what today's clients ask.

use std::process::Command;

use serde_json::{Value, json};
use tests::run::{Ended, run};

use super::Front;

/// The requests of the specification, with its blanks and line breaks. Its `http://` is `https://` here:
/// the front door speaks nothing else.
const SET_RULES: &str = r#"curl -XPUT localhost:8888/api/v1/config -d '
{
   "max-nodes-in-rack": 28,
   "node-ipv4-pool": "10.69.0.0/16",
   "node-ipv4-range-size": 6,
   "node-ipv4-range-mask": 26,
   "node-ip-per-node": 3,
   "node-index-offset": 3,
   "bmc-ipv4-pool": "10.72.16.0/20",
   "bmc-ipv4-range-size": 5,
   "bmc-ipv4-range-mask": 20
}'"#;
const GET_RULES: &str = "curl -XGET localhost:8888/api/v1/config";
const REGISTER: &str = r#"curl -i -X POST \
   -H "Content-Type:application/json" \
   -d \
'[{
  "serial": "1234abcd",
  "product": "R630",
  "datacenter": "ty3",
  "rack": 1,
  "role": "boot"
}]' \
 'https://localhost:8888/api/v1/machines'"#;
const BY_SERIAL: &str = "curl -XGET 'localhost:8888/api/v1/machines?serial=1234abcd'";
const BY_PLACE: &str =
    "curl -XGET 'localhost:8888/api/v1/machines?datacenter=ty3&rack=1&product=R630'";
const BY_ADDRESS: &str = "curl -XGET 'localhost:8888/api/v1/machines?ipv4=10.20.30.40'";
const REMOVE: &str = "curl -i -X DELETE 'localhost:8888/api/v1/machines/1234abcd'";

/// Runs a line of the specification in a shell whose curl knows where that is and who asks.
fn line(front: &Front, line: &str) -> Ended {
    let config = format!(
        "silent\nproto-default = https\nuser = \"alice:secret\"\ninsecure\nconnect-to = \"localhost:8888:{}\"\n",
        front.authority()
    );
    drop(front.cluster.write(".curlrc", &config));
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("CURL_HOME", front.cluster.dir());
    run(shell)
}

fn json_of(ended: &Ended) -> Value {
    ended.json()
}

#[test]
fn the_requests_of_the_specification_work_as_they_stand_there() {
    let front = Front::begin_with(&["--compat", "document"]);
    let none = line(&front, GET_RULES).json();
    assert_eq!(none["status"], 404);
    assert_eq!(line(&front, SET_RULES).ok(), "");
    let rules = json_of(&line(&front, GET_RULES));
    assert_eq!(
        (&rules["max-nodes-in-rack"], &rules["bmc-ipv4-pool"]),
        (&json!(28), &json!("10.72.16.0/20"))
    );
    let registered = line(&front, REGISTER);
    assert!(registered.ok().starts_with("HTTP/2 201 "), "{registered:?}");
    let again = line(&front, REGISTER);
    assert!(again.ok().starts_with("HTTP/2 409 "), "{again:?}");
    let found = json_of(&line(&front, BY_SERIAL));
    assert_eq!(found[0]["serial"], "1234abcd");
    assert_eq!(found[0]["network"]["node0"], json!({"ipv4": ["10.69.0.195"], "ipv6": null}));
    assert_eq!(json_of(&line(&front, BY_PLACE)), found);
    assert_eq!(json_of(&line(&front, BY_ADDRESS))["status"], 404);
    // Other rules would move the machine.
    let other = SET_RULES.replace("10.69.0.0/16", "10.70.0.0/16");
    let refused = json_of(&line(&front, &other));
    assert_eq!(refused["status"], 500, "{refused}");
    let removed = line(&front, REMOVE);
    assert!(removed.ok().starts_with("HTTP/2 200 "), "{removed:?}");
    assert!(line(&front, REMOVE).ok().starts_with("HTTP/2 404 "));
}

#[test]
fn machines_are_searched_labelled_and_retired_as_todays_sabakan_does() {
    let front = Front::begin();
    assert_eq!(line(&front, &SET_RULES.replace("/config", "/config/ipam")).ok(), "");
    let register = |body: &str| front.answer("alice", &["-d", body, "/api/v1/machines"]);
    let two = r#"[{"serial": "s1", "rack": 0, "role": "worker", "labels": {"zone": "a", "tier": "1"}},
        {"serial": "s2", "rack": 1, "role": "worker", "labels": {"zone": "a"}, "bmc": {"type": "iDRAC-9"}}]"#;
    assert_eq!(register(two), (201, String::new()));
    // All or none.
    let (status, _) =
        register(r#"[{"serial": "s3", "role": "worker"}, {"serial": "s1", "role": "worker"}]"#);
    assert_eq!(status, 409);
    assert_eq!(front.answer("bob", &["/api/v1/machines?serial=s3"]).0, 404);
    let serials = |query: &str| -> Vec<String> {
        let (status, body) = front.answer("bob", &[&format!("/api/v1/machines?{query}")]);
        if status == 404 {
            return Vec::new();
        }
        let found: Value = serde_json::from_str(&body).unwrap();
        let machines = found.as_array().unwrap().iter();
        machines.map(|machine| machine["spec"]["serial"].as_str().unwrap().to_owned()).collect()
    };
    for (query, found) in [
        ("", &["s1", "s2"][..]),
        ("serial=s1,s2", &["s1", "s2"]),
        ("labels=zone=a,tier=1", &["s1"]),
        ("without-rack=0", &["s2"]),
        ("bmc-type=iDRAC-9", &["s2"]),
        ("ipv4=10.69.0.4", &["s1"]),
        ("rack=7", &[]),
    ] {
        assert_eq!(serials(query), found, "{query}");
    }
    let put = |path: &str, body: &str| {
        front.answer("alice", &["-X", "PUT", "--data-binary", body, path]).0
    };
    assert_eq!(put("/api/v1/labels/s2/zone", "b"), 200);
    assert_eq!(serials("labels=zone=b"), ["s2"]);
    assert_eq!(front.answer("alice", &["-X", "DELETE", "/api/v1/labels/s2/zone"]).0, 200);
    assert_eq!(front.answer("alice", &["-X", "DELETE", "/api/v1/labels/s2/zone"]).0, 404);
    assert_eq!(put("/api/v1/labels/s9/zone", "b"), 404);
    assert_eq!(put("/api/v1/retire-date/s1", "2030-01-02T03:04:05Z"), 200);
    assert_eq!(put("/api/v1/retire-date/s1", "soon"), 400);
    let (_, body) = front.answer("bob", &["/api/v1/machines?serial=s1"]);
    let found: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(found[0]["spec"]["retire-date"], "2030-01-02T03:04:05Z");
    assert_eq!(found[0]["info"]["network"]["ipv4"][0]["gateway"], "10.69.0.1");
    settings(&front);
    let (status, log) = front.answer("bob", &["/api/v1/logs?since=20200101"]);
    let entries: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let added = entries.iter().find(|entry| entry["action"] == "add").expect("a registration");
    assert_eq!(
        (status, &added["user"], &added["category"]),
        (200, &json!("alice"), &json!("machine"))
    );
    assert_eq!(front.answer("bob", &["/api/v1/logs?until=20200101"]), (200, String::new()));
}

fn settings(front: &Front) {
    let put = |path: &str, body: &str| front.answer("alice", &["-X", "PUT", "-d", body, path]);
    assert_eq!(front.answer("bob", &["/api/v1/kernel_params/coreos"]).0, 404);
    assert_eq!(put("/api/v1/kernel_params/coreos", "quiet console=ttyS0").0, 200);
    let told = front.answer("bob", &["/api/v1/kernel_params/coreos"]);
    assert_eq!(told, (200, "quiet console=ttyS0".to_owned()));
    assert_eq!(put("/api/v1/kernel_params/coreos", "a\"b").0, 400);
    assert_eq!(put("/api/v1/config/dhcp", r#"{"dns-servers": ["10.0.0.53"]}"#).0, 200);
    let (_, dhcp) = front.answer("bob", &["/api/v1/config/dhcp"]);
    let dhcp: Value = serde_json::from_str(&dhcp).unwrap();
    assert_eq!(dhcp["name-servers"], json!(["10.0.0.53"]));
    assert_eq!(put("/api/v1/config/dhcp", r#"{"lease-minutes": 5}"#).0, 400);
    assert_eq!(front.answer("bob", &["/api/v1/images/coreos"]), (200, "[]".to_owned()));
    assert_eq!(front.answer("alice", &["-X", "DELETE", "/api/v1/images/coreos/1"]).0, 404);
    assert_eq!(front.answer("nobody", &["/health"]), (200, r#"{"health":"healthy"}"#.to_owned()));
}
