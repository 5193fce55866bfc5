//! Queries behind the path of a request, and the parts of them that no log has.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use tests::cluster::{MASTER, PATIENCE};
use tests::run::wait_for;

use super::Front;

/// Has the form of a token, and is none.
const TOKEN: &str = "gtk_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

#[test]
fn every_job_of_ganetis_interface_obeys_a_dry_run_and_a_misspelt_one_is_refused() {
    let front = Front::begin();
    let json = ["-H", "Content-Type: application/json"];
    let done = |method: &str, path: &str, body: &str| -> Value {
        let sent = [&["-X", method, "-d", body][..], &json, &[path]].concat();
        let (status, job) = front.answer("alice", &sent);
        assert_eq!(status, 200, "{path}: {job}");
        wait_for(path, PATIENCE, || {
            let told = front.answer("alice", &[&format!("/2/jobs/{}", job.trim())]).1;
            let told: Value = serde_json::from_str(&told).unwrap();
            ["success", "error"].contains(&told["status"].as_str()?).then_some(told)
        })
    };
    assert_eq!(done("POST", "/2/groups", r#"{"name": "blue"}"#)["status"], "success");
    let network = r#"{"name": "net0", "network": "10.5.0.0/24"}"#;
    assert_eq!(done("POST", "/2/networks", network)["status"], "success");
    let connect = r#"{"group_name": "blue", "network_mode": "bridged", "network_link": "br0"}"#;
    for (method, path, body) in [
        ("PUT", "/2/modify".to_owned(), r#"{"candidate_pool_size": 3}"#),
        ("PUT", "/2/redistribute-config".to_owned(), ""),
        ("PUT", "/2/groups/blue/modify".to_owned(), r#"{"alloc_policy": "unallocable"}"#),
        ("PUT", "/2/groups/blue/rename".to_owned(), r#"{"new_name": "green"}"#),
        ("PUT", "/2/groups/blue/assign-nodes".to_owned(), r#"{"nodes": ["n1.example"]}"#),
        ("DELETE", "/2/groups/blue".to_owned(), ""),
        ("POST", format!("/2/nodes/{MASTER}/modify"), r#"{"vm_capable": false}"#),
        ("PUT", format!("/2/nodes/{MASTER}/role"), r#""drained""#),
        ("PUT", "/2/networks/net0/modify".to_owned(), r#"{"gateway": "10.5.0.1"}"#),
        ("PUT", "/2/networks/net0/connect".to_owned(), connect),
        ("DELETE", "/2/networks/net0".to_owned(), ""),
        ("PUT", "/2/tags".to_owned(), ""),
    ] {
        let join = if path.ends_with("/tags") { "?tag=x&" } else { "?" };
        let told = done(method, &format!("{path}{join}dry-run=1"), body);
        assert_eq!(told["ops"][0]["dry_run"], true, "{path}: {told}");
    }
    for (method, path) in [
        ("DELETE", "/2/groups/blue?dry_run=1"),
        ("DELETE", "/2/groups/blue?dry-run"),
        ("DELETE", "/2/groups/blue?force=1"),
        ("DELETE", "/2/networks/net0?dryrun=1"),
        ("DELETE", "/2/jobs/1?dry-run=1"),
        ("POST", "/2/filters?dry-run=1"),
        ("PUT", "/api/v1/kernel_params/coreos?dry-run=1"),
        ("DELETE", "/api/v1/machines/s1?dry_run=1"),
        ("POST", "/graphql?dry-run=1"),
    ] {
        let sent = [&["-X", method, "-d", "{}"][..], &json, &[path]].concat();
        assert_eq!(front.answer("alice", &sent).0, 400, "{path}");
    }
    let left = |path: &str| front.answer("bob", &[path]).1;
    assert!(left("/2/groups").contains("blue") && left("/2/networks").contains("net0"));
    assert_eq!(left("/2/tags"), "[]");
    let missing = [&["-d", r#"{"name": "net1"}"#][..], &json, &["/2/networks"]].concat();
    assert_eq!(front.answer("alice", &missing).0, 400, "a network has an address");
}

#[test]
fn logs_have_no_token_and_tell_of_a_users_file_that_is_open_or_gone() {
    let front = Front::begin();
    let layout = front.door.layout();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let escaped = TOKEN.replace('_', "%5F");
    for target in [format!("/2/nodes?token={TOKEN}"), format!("/2/nodes/{escaped}")] {
        let (status, _body) = front.answer("bob", &[&target]);
        assert!([200, 404].contains(&status), "{target}: {status}");
    }
    assert_eq!(front.answer("", &["--user", &format!("{TOKEN}:x"), "/2/nodes"]).0, 401);
    let digits = TOKEN.trim_start_matches("gtk_");
    let (access, daemon) = (read(layout.rapi_access_log()), read(layout.rapi_log()));
    assert!(!access.contains(digits) && access.contains("GET /2/nodes?token=gtk_..."), "{access}");
    assert!(!daemon.contains(digits) && daemon.contains("somebody is not let in"), "{daemon}");

    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(layout.rapi_users(), open).unwrap();
    assert_eq!(front.answer("bob", &["/2/nodes"]).0, 200);
    let daemon = read(layout.rapi_log());
    assert!(daemon.contains("chmod o-rw") && daemon.contains("0644"), "{daemon}");
    std::fs::remove_file(layout.rapi_users()).unwrap();
    assert_eq!(front.answer("bob", &["/2/nodes"]).0, 401);
    assert!(read(layout.rapi_log()).contains("the file is gone: nobody has access"));
}
