//! Changes that rest on what somebody saw (`If-Match`): of two that rest on one state, one is made.

use serde_json::Value;
use tests::cluster::{IPAM, MASTER, PATIENCE};
use tests::run::wait_for;

use super::Front;

/// A cluster with a rack and a machine.
fn front() -> Front {
    let front = Front::begin();
    let ipam = front.cluster.write("ipam.json", IPAM);
    let _set = front.cluster.gnt(&format!("ipam set -f {}", ipam.display())).ok();
    let _served = front.cluster.gnt(&format!("node modify --rack 0 {MASTER}")).ok();
    let _known = front.cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    front
}

impl Front {
    /// The tag of what is at a path.
    fn tag(&self, path: &str) -> String {
        let head = self.curl("bob", &["-D", "-", "-o", "/dev/null", path]);
        let line = head.ok().lines().find_map(|line| line.strip_prefix("etag: "));
        line.unwrap_or_else(|| panic!("{path}: {head:?}")).trim().to_owned()
    }

    /// Sends a change that rests on this tag; waits for its job where the answer is one.
    fn change(&self, tag: &str, arguments: &[&str]) -> (u16, String) {
        let condition = format!("If-Match: {tag}");
        let mut all = vec!["-H", &condition, "-H", "Content-Type: application/json"];
        all.extend(arguments);
        let (status, body) = self.answer("root", &all);
        if let (200, Ok(job)) = (status, body.parse()) {
            self.cluster.wait_for_status(job, "success");
        }
        (status, body)
    }
}

const KERNEL: &str = "/api/v1/kernel_params/coreos";
const IMAGE: &str = "/api/v1/images/coreos/1.0.0";
const TEMPLATE: &str = "/api/v1/ignitions/worker/1.0.0";

fn asset(text: &str) -> [&str; 5] {
    ["-X", "PUT", "-d", text, "/api/v1/assets/a"]
}

/// Makes a network, a filter rule and others; the path of the rule.
fn made(front: &Front) -> String {
    let add = r#"{"name": "net1", "network": "10.5.0.0/24"}"#;
    let json = ["-H", "Content-Type: application/json"];
    let (_, job) = front.answer("alice", &[&["-d", add][..], &json, &["/2/networks"]].concat());
    front.cluster.wait_for_status(job.parse().unwrap(), "success");
    let rule = r#"{"action": "ACCEPT"}"#;
    let (_, uuid) = front.answer("alice", &[&["-d", rule][..], &json, &["/2/filters"]].concat());
    let uuid: String = serde_json::from_str(&uuid).unwrap();
    assert_eq!(front.answer("alice", &["-X", "PUT", "-d", "quiet", KERNEL]).0, 200);
    let template = r#"{"ignition": {"version": "3.4.0"}}"#;
    assert_eq!(front.answer("alice", &["-X", "PUT", "-d", template, TEMPLATE]).0, 201);
    assert_eq!(front.answer("alice", &[&json[..], &asset("a")].concat()).0, 201);
    let kernel = front.cluster.write("kernel", &xtask::images::kernel("coreos"));
    let initrd = front.cluster.write("initrd", &xtask::images::initrd("coreos"));
    let (kernel, initrd) = (kernel.display(), initrd.display());
    let upload = format!("image upload coreos/1.0.0 --kernel {kernel} --initrd {initrd}");
    let _kept = front.cluster.gnt(&upload).ok();
    format!("/2/filters/{uuid}")
}

#[test]
fn of_two_changes_that_rest_on_one_state_one_is_made() {
    let front = front();
    let filter = made(&front);
    let condition = format!("If-None-Match: {}", front.tag("/2/networks/net1"));
    let known = front.answer("bob", &["-H", &condition, "/2/networks/net1"]);
    assert_eq!(known, (304, String::new()));
    let put = |body: &'static str, path: &'static str| vec!["-X", "PUT", "-d", body, path];
    let labels = "/api/v1/labels/SN1/zone";
    let date = "/api/v1/retire-date/SN1";
    let (node, tags) = ("/2/nodes/n1.example", "/2/groups/default/tags");
    let network = "/2/networks/net1";
    let modify = "/2/networks/net1/modify";
    for (seen, one, other) in [
        (
            "/2/info",
            put(r#"{"candidate_pool_size": 9}"#, "/2/modify"),
            put(r#"{"candidate_pool_size": 8}"#, "/2/modify"),
        ),
        (
            node,
            vec!["-d", r#"{"rack": 1}"#, "/2/nodes/n1.example/modify"],
            vec!["-d", r#"{"rack": 2}"#, "/2/nodes/n1.example/modify"],
        ),
        (
            tags,
            vec!["-X", "PUT", "/2/groups/default/tags?tag=a"],
            vec!["-X", "PUT", "/2/groups/default/tags?tag=b"],
        ),
        (
            network,
            put(r#"{"gateway": "10.5.0.1"}"#, modify),
            put(r#"{"gateway": "10.5.0.2"}"#, modify),
        ),
        (
            &filter,
            vec!["-X", "PUT", "-d", r#"{"priority": 1}"#, &filter],
            vec!["-X", "PUT", "-d", r#"{"priority": 2}"#, &filter],
        ),
        (&filter, vec!["-X", "DELETE", &filter], vec!["-X", "DELETE", &filter]),
        ("/api/v1/machines?serial=SN1", put("a", labels), put("b", labels)),
        (
            "/api/v1/machines?serial=SN1",
            put("2030-01-01T00:00:00Z", date),
            vec!["-X", "DELETE", labels],
        ),
        (
            "/api/v1/state/SN1",
            put("healthy", "/api/v1/state/SN1"),
            put("retiring", "/api/v1/state/SN1"),
        ),
        (KERNEL, put("noisy", KERNEL), put("loud", KERNEL)),
        ("/api/v1/assets/a/meta", asset("b").to_vec(), asset("c").to_vec()),
        (TEMPLATE, vec!["-X", "DELETE", TEMPLATE], vec!["-X", "DELETE", TEMPLATE]),
        (IMAGE, vec!["-X", "DELETE", IMAGE], vec!["-X", "DELETE", IMAGE]),
    ] {
        let tag = front.tag(seen);
        let (status, told) = front.change("\"another\"", &one);
        assert_eq!(status, 412, "{one:?}: {told}");
        let (status, told) = front.change(&tag, &one);
        assert_eq!(status, 200, "{one:?}: {told}");
        let (status, told) = front.change(&tag, &other);
        assert_eq!(status, 412, "{other:?}: {told}");
    }
    // A change that has no state to rest on is refused.
    assert_eq!(front.change("\"x\"", &["-X", "PUT", "/2/redistribute-config"]).0, 400);
}

#[test]
fn the_master_decides_where_both_came_in_time() {
    let front = front();
    let _held = front.cluster.gnt("filter add --priority 0 --action PAUSE").ok();
    let tag = front.tag("/api/v1/machines?serial=SN1");
    let label = |value: &'static str| {
        front.change(&tag, &["-X", "PUT", "-d", value, "/api/v1/labels/SN1/zone"]).0
    };
    let node = front.tag("/2/nodes/n1.example");
    let (condition, json) = (format!("If-Match: {node}"), "Content-Type: application/json");
    let rack = |body: &str| -> u64 {
        let change = ["-H", &condition, "-H", json, "-d", body, "/2/nodes/n1.example/modify"];
        let (status, job) = front.answer("root", &change);
        assert_eq!(status, 200, "{job}");
        job.parse().unwrap()
    };
    let jobs = [rack(r#"{"rack": 1}"#), rack(r#"{"rack": 2}"#)];
    let told = std::thread::scope(|scope| {
        let asked = ["a", "b"].map(|value| scope.spawn(move || label(value)));
        wait_for("both to be accepted", PATIENCE, || {
            let queued = front.cluster.gnt("job list --json -o summary,status").json();
            let is_it = |row: &&Value| row["summary"].to_string().contains("MACHINE_SET_PARAMS");
            (queued.as_array()?.iter().filter(is_it).count() == 2).then_some(())
        });
        let rules = front.cluster.gnt("filter list --json -o uuid").json();
        let uuid = rules[0]["uuid"].as_str().unwrap().to_owned();
        let _free = front.cluster.gnt(&format!("filter delete {uuid}")).ok();
        asked.map(|one| one.join().unwrap())
    });
    let mut told = told;
    told.sort_unstable();
    assert_eq!(told, [200, 412]);
    let ends = jobs.map(|job| {
        wait_for("its end", PATIENCE, || {
            let status = front.cluster.status(job);
            ["success", "error"].contains(&status.as_str()).then_some(status)
        })
    });
    // Either may get the lock first.
    let failed = ends.iter().position(|end| end == "error").unwrap();
    assert_eq!(ends[1 - failed], "success");
    let why = front.cluster.job(jobs[failed], "opresult")["opresult"].to_string();
    assert!(why.contains("was changed since you looked at it"), "{why}");
}
