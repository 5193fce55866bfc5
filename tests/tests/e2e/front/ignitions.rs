//! Templates of Ignition over HTTPS, as sabakan's clients send and fetch them.

use serde_json::{Value, json};

use super::Front;

const RULES: &str = tests::cluster::IPAM;
const WORKER: &str = "/api/v1/ignitions/worker";

/// A template in the form that `sabactl` sends.
fn template(hostname: &str) -> String {
    let source = format!("data:,{hostname}");
    let files = json!([{"filesystem": "root", "path": "/etc/hostname",
        "contents": {"source": source}}, {"filesystem": "root", "path": "/opt/url",
        "contents": {"source": "{{ MyURL }}/x"}}]);
    json!({"version": "2.3", "template": {"storage": {"files": files}}}).to_string()
}

#[test]
fn templates_are_kept_listed_rendered_and_removed() {
    let front = Front::begin();
    assert_eq!(front.answer("alice", &["-X", "PUT", "-d", RULES, "/api/v1/config/ipam"]).0, 200);
    let machine = r#"[{"serial": "SN1", "role": "worker"}]"#;
    assert_eq!(front.answer("alice", &["-d", machine, "/api/v1/machines"]).0, 201);
    let put = |user: &str, path: &str, body: &str| {
        front.answer(user, &["-X", "PUT", "--data-binary", body, &format!("/api/v1/{path}")])
    };
    let text = template("{{ .Spec.Serial }}");
    let of_master = json!({"ignition": {"version": "3.3.0"}}).to_string();
    let large = "x".repeat((256 << 10) + 1);
    let large = front.cluster.write("large", &large);
    let large = format!("@{}", large.display());
    assert_eq!(front.answer("bob", &[WORKER]), (200, "[]".to_owned()));
    for (user, path, body, wanted) in [
        ("bob", "ignitions/worker/1.9.0", text.as_str(), 403),
        ("alice", "ignitions/worker/1.9.0", &text, 201),
        ("alice", "ignitions/worker/1.9.0", &text, 201),
        ("alice", "ignitions/worker/1.9.0", &template("x"), 409),
        ("alice", "ignitions/worker/1.10.0", &text, 201),
        ("alice", "ignitions/worker/1.11.0", &template("{{ .Spec.None }}"), 400),
        ("alice", "ignitions/worker/1.11.0", "{", 400),
        ("alice", "ignitions/worker/1.11.0", &large, 413),
        ("alice", "ignitions/worker/latest", &text, 400),
        ("alice", "ignitions/a%20b/1.0.0", &text, 400),
        ("alice", "ignitions/worker/2.0.0", &of_master, 400),
        ("alice", "ignitions/worker/2.0.0?other-spec=1", &of_master, 201),
    ] {
        let (status, told) = put(user, path, body);
        assert_eq!(status, wanted, "{user} {path}: {told}");
    }
    let get = |path: &str| front.answer("bob", &[path]);
    assert_eq!(get(WORKER), (200, r#"["1.9.0","1.10.0","2.0.0"]"#.to_owned()));
    assert_eq!(get(&format!("{WORKER}/1.9.0")), (200, text));
    for (path, wanted) in [
        (format!("{WORKER}/1.8.0"), 404),
        (format!("{WORKER}/x"), 400),
        ("/api/v1/ignitions/a%20b".to_owned(), 400),
        ("/api/v1/boot/ignitions/SN9/1.9.0".to_owned(), 404),
        ("/api/v1/boot/ignitions/SN1/1.8.0".to_owned(), 404),
        ("/api/v1/boot/ignitions/SN1/x".to_owned(), 404),
    ] {
        assert_eq!(get(&path).0, wanted, "{path}");
    }
    let (status, document) = get("/api/v1/boot/ignitions/SN1/1.10.0");
    assert_eq!(status, 200, "{document}");
    let document: Value = serde_json::from_str(&document).unwrap();
    let source = |at: usize| document["storage"]["files"][at]["contents"]["source"].clone();
    assert_eq!(source(0), "data:,SN1");
    assert_eq!(source(1), format!("https://{}:5080/x", tests::cluster::MASTER));

    let remove = |user, path: &str| front.answer(user, &["-X", "DELETE", path]);
    assert_eq!(remove("bob", &format!("{WORKER}/2.0.0")).0, 403);
    assert_eq!(remove("alice", &format!("{WORKER}/2.0.0")), (200, String::new()));
    assert_eq!(remove("alice", &format!("{WORKER}/2.0.0")).0, 404);
    assert_eq!(get(WORKER).1, r#"["1.9.0","1.10.0"]"#);
}
