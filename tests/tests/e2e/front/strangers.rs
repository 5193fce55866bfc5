//! Requests that should not be made, and what they get: the right code, a reason, and nothing half-done.

use serde_json::Value;

use super::Front;
use crate::failover::alarm;

#[test]
fn each_bad_request_gets_its_code_and_a_reason() {
    let front = Front::begin();
    let long = "x".repeat(4_097);
    let (short, deep) = (&long[..4_096], "[".repeat(100_000));
    let json = ["-H", "Content-Type: application/json"];
    let put = |body| ["-X", "PUT", "-d", body];
    let cases: &[(&str, &[&str], u16)] = &[
        ("nobody", &["/2/info"], 401),
        ("nobody", &["/api/v1/machines"], 401),
        ("nobody", &["/version"], 200),
        ("nobody", &["-H", "Authorization: Bearer x", "/2/info"], 401),
        ("nobody", &["-H", "Authorization: Digest x", "/2/info"], 400),
        ("bob", &["-X", "DELETE", "/2/jobs/1"], 403),
        ("alice", &["-X", "DELETE", "/2/jobs/99999"], 200),
        ("alice", &["/2/jobs/x"], 404),
        ("alice", &["/2/nodes/..%2f..%2fetc%2fpasswd"], 404),
        ("alice", &["/2/nodes/%ff"], 400),
        ("alice", &["/nowhere"], 404),
        ("alice", &["-X", "DELETE", "/2/info"], 501),
        ("alice", &["-X", "PATCH", "/2/info"], 405),
        ("alice", &["-X", "PATCH", "/api/v1/machines"], 405),
        ("alice", &["/2/jobs?bulk=x"], 400),
        ("alice", &["/2/query/nonsense?fields=name"], 404),
        ("alice", &["/2/query/node"], 400),
        ("alice", &[&put("{}")[..], &["/2/networks/n/modify"]].concat(), 415),
        ("alice", &[&put("{")[..], &json, &["/2/networks/n/modify"]].concat(), 400),
        ("alice", &[&put("[]")[..], &json, &["/2/networks/n/modify"]].concat(), 400),
        ("alice", &[&put(deep.as_str())[..], &json, &["/2/networks/n/modify"]].concat(), 400),
        ("alice", &[&put("{\"x\":1}")[..], &json, &["/2/networks/n/modify"]].concat(), 400),
        ("alice", &[&put(short)[..], &["/version"]].concat(), 501),
        ("alice", &[&put(long.as_str())[..], &["/version"]].concat(), 413),
        (
            "alice",
            &["--http1.1", "-H", "Content-Length: 10000000000", "-X", "POST", "/api/v1/machines"],
            413,
        ),
        ("alice", &["-H", "Sec-Fetch-Site: cross-site", "-X", "PUT", "/2/tags?tag=x"], 403),
        ("alice", &["-H", "If-Match: \"x\"", "-X", "PUT", "/2/tags?tag=x"], 412),
        ("alice", &["-H", "If-Match: \"x\"", "-X", "PUT", "/2/redistribute-config"], 400),
        ("alice", &["-d", "[]", "/api/v1/machines"], 409),
        ("alice", &["-d", "{}", "/api/v1/machines"], 400),
        (
            "alice",
            &["-d", r#"[{"serial": "a", "rack": -1, "role": "x"}]"#, "/api/v1/machines"],
            400,
        ),
    ];
    for (user, arguments, wanted) in cases {
        let (status, body) = front.answer(user, arguments);
        assert_eq!(status, *wanted, "{user} {:?}: {body}", arguments.last());
        if status >= 400 {
            let told: Value = serde_json::from_str(&body).unwrap();
            let of_sabakan = arguments.last().is_some_and(|path| path.starts_with("/api/"));
            let (code, why) = if of_sabakan { ("status", "error") } else { ("code", "explain") };
            assert_eq!(told[code], status, "{told}");
            assert!(told[why].as_str().is_some_and(|why| !why.is_empty()), "{told}");
        }
    }
    assert_eq!(front.answer("bob", &["/2/jobs"]).1, front.answer("alice", &["/2/jobs"]).1);
    assert_eq!(front.answer("bob", &["/2/tags"]), (200, "[]".to_owned()), "nothing was changed");
}

#[test]
fn a_request_that_is_sent_again_with_its_mark_is_one_job() {
    let front = Front::begin();
    let tag = |mark: &str, path: &str| {
        let (status, job) =
            front.answer("alice", &["-X", "PUT", "-H", &format!("Idempotency-Key: {mark}"), path]);
        assert_eq!(status, 200, "{job}");
        job
    };
    let first = tag("m1", "/2/tags?tag=a");
    assert_eq!(tag("m1", "/2/tags?tag=a"), first);
    assert_ne!(tag("m2", "/2/tags?tag=a"), first);
}

#[test]
fn doors_that_the_operator_opens_are_open_and_no_others() {
    let front = Front::begin_with(&["--open-reads"]);
    assert_eq!(front.answer("nobody", &["/2/nodes"]).0, 200);
    assert_eq!(front.answer("nobody", &["-X", "PUT", "/2/tags?tag=x"]).0, 401);
    front.cluster.stop(&format!("rapi-{}", front.door.name));
    Front::start(&front.cluster, &front.door, &["--trust-loopback"]);
    assert_eq!(front.answer("nobody", &["-X", "PUT", "/2/tags?tag=x"]).0, 200);
    // A user whose line goes has no access from then on.
    stdx::atomic::write(&front.door.layout().rapi_users(), b"", 0o640).unwrap();
    assert_eq!(front.answer("alice", &["/2/nodes"]).0, 401);
}

#[test]
fn without_tls_loopback_is_answered_and_no_other_name() {
    let cluster = tests::cluster::Cluster::begin_with_agent();
    let door = cluster.master.clone();
    let plain = format!("{}:5081", door.address);
    let front = Front { cluster, door };
    Front::open(&front.cluster, &front.door, &["--plain-http", &plain, "--trust-loopback"]);
    let status = |host: &str, arguments: &[&str]| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]);
        curl.args(["--max-time", "60", "--connect-to", &format!("::{plain}")]);
        tests::run::run({
            curl.args(arguments).arg(format!("http://{host}/2/tags?tag=x"));
            curl
        })
        .ok()
        .to_owned()
    };
    assert_eq!(status("localhost:5081", &["-X", "PUT"]), "200");
    assert_eq!(status("example.com:5081", &[]), "421");
    assert_eq!(status("localhost:5081", &["-H", "Origin: https://example.com"]), "403");
    assert_eq!(status("localhost:5081", &["--user", "alice:wrong"]), "401");
    assert_eq!(status("localhost:5081", &["--user", "bob:hunter2", "-X", "PUT"]), "403");
    assert_eq!(front.answer("bob", &["/2/tags"]).1, r#"["x"]"#, "TLS is served as ever");
    urls_are_those_of_the_door(&front, &plain);
    let elsewhere = front.cluster.program("rapi");
    let ended = tests::run::run({
        let mut elsewhere = elsewhere;
        elsewhere.args(["--plain-http", "0.0.0.0:5081"]);
        elsewhere
    });
    assert!(ended.failed(2).contains("only loopback"), "{ended:?}");
}

/// Wrong passwords and refused changes are in the audit log, with the address, and without what was typed.
#[test]
fn what_is_refused_is_in_the_audit_log() {
    let front = Front::begin();
    assert_eq!(front.answer("bob", &["-X", "PUT", "/2/tags?tag=x"]).0, 403);
    for wrong in ["alice:typed-in-haste", "typed-in-haste:x"] {
        assert_eq!(front.answer("", &["--user", wrong, "/2/nodes"]).0, 401);
    }
    assert_eq!(front.answer("alice", &["-X", "PUT", "/2/tags?tag=x"]).0, 200);
    let lines = tests::run::wait_for("the refused requests", tests::cluster::PATIENCE, || {
        let (_status, lines) = front.answer("root", &["/api/v1/logs"]);
        (lines.matches("\"refused\"").count() == 3).then_some(lines)
    });
    assert!(!lines.contains("typed-in-haste"), "{lines}");
    let entries: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |user: &str, result: &str| {
        let found = entries.iter().find(|one| one["user"] == user && one["detail"] == result);
        let found = found.unwrap_or_else(|| panic!("{user}: {lines}"));
        assert_eq!((&found["host"], &found["interface"]), (&"n1.example".into(), &"rest".into()));
        assert!(found["ip"].as_str().unwrap().starts_with("127."), "{found}");
        found.clone()
    };
    assert_eq!(of("bob", "refused")["code"], "permission-denied");
    let why = "the name, the password or the token is wrong, or its time is over";
    assert_eq!(of("alice", "refused")["reason"], why);
    of("unknown", "refused");
    let told = front.cluster.gnt("log --user alice");
    assert!(told.ok().contains("OP_TAGS_SET"), "{told:?}");

    // A client that goes on guessing raises an alarm.
    let door = &front.cluster.master;
    assert_eq!(alarm(door, "wrong-passwords"), None);
    for _ in 0..20 {
        assert_eq!(front.answer("", &["--user", "alice:guessed", "/2/nodes"]).0, 401);
    }
    let told = tests::run::wait_for("the alarm", tests::cluster::PATIENCE, || {
        alarm(door, "wrong-passwords")
    });
    assert!(told.contains("`alice` from 127."), "{told}");
}

/// A document names the door that it was asked for at.
fn urls_are_those_of_the_door(front: &Front, plain: &str) {
    let files = serde_json::json!([
        {"path": "/a", "contents": {"source": "{{ MyURL }}/a"}},
        {"path": "/b", "contents": {"source": "{{ MyURLHTTPS }}/b"}}]);
    let template =
        serde_json::json!({"ignition": {"version": "3.3.0"}, "storage": {"files": files}});
    for (method, path, body) in [
        ("PUT", "/api/v1/config/ipam", tests::cluster::IPAM),
        ("POST", "/api/v1/machines", r#"[{"serial": "SN1", "role": "worker"}]"#),
        ("PUT", "/api/v1/ignitions/worker/1.0.0", &template.to_string()),
    ] {
        let (status, told) = front.answer("alice", &["-X", method, "--data-binary", body, path]);
        assert!([200, 201].contains(&status), "{path}: {told}");
    }
    let mut curl = std::process::Command::new("curl");
    curl.args(["--silent", "--max-time", "60", "--connect-to", &format!("::{plain}")]);
    curl.arg("http://localhost:5081/api/v1/boot/ignitions/SN1/1.0.0");
    let told = tests::run::run(curl);
    let document: Value = serde_json::from_str(told.ok()).unwrap();
    let source = |at: usize| document["storage"]["files"][at]["contents"]["source"].clone();
    assert_eq!(source(0), "http://localhost:5081/a");
    assert_eq!(source(1), "https://localhost:5080/b");
}
