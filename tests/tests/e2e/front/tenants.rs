//! Tenants at the front door: each sees and changes its own things, and hears nothing of others.

use serde_json::{Value, json};
use tests::cluster::{IPAM, PATIENCE};
use tests::run::wait_for;

use super::Front;
use super::tokens::{add, by};
use crate::switches::PROGRAM;

/// A front door, and two tenants with a machine and a port each.
struct Scene {
    front: Front,
    acme: String,
    other: String,
}

impl Scene {
    fn begin() -> Self {
        let front = Front::begin();
        let cluster = &front.cluster;
        let ipam = cluster.write("ipam.json", IPAM);
        let programs = cluster.master.layout().switch_programs();
        std::fs::create_dir_all(&programs).unwrap();
        stdx::atomic::write(&programs.join("fake"), PROGRAM.as_bytes(), 0o755).unwrap();
        stdx::atomic::write(&programs.join("mode.tor"), b"good", 0o644).unwrap();
        let password = cluster.write("password", "hunter2\n");
        let [acme, other] =
            ["ci-acme", "ci-other"].map(|name| add(&front, &format!("{name} --role tenant")));
        for line in [
            format!("ipam set -f {}", ipam.display()),
            "machine add --serial SN1 --rack 0 --role w".to_owned(),
            "machine add --serial SN2 --rack 0 --role w".to_owned(),
            "machine add --serial SN3 --rack 0 --role w".to_owned(),
            format!(
                "switch add tor --url command:fake --user me --password-file {} --all-ports",
                password.display()
            ),
            "network add storage --network 192.0.2.0/24 --vlan 77".to_owned(),
            "port set tor/e1 --machine SN1 --card 02:00:00:00:00:01".to_owned(),
            "port set tor/e2 --machine SN2 --card 02:00:00:00:00:02".to_owned(),
            "tenant add acme --member ci-acme --vlans 10-19 --machines 1 --jobs 3".to_owned(),
            "tenant add other --member ci-other --vlans 20-29".to_owned(),
            "tenant give acme SN1".to_owned(),
            "tenant give other SN2".to_owned(),
        ] {
            let _done = cluster.gnt(&line).ok();
        }
        Self { front, acme, other }
    }

    fn ask(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map(|body| body.to_string());
        let mut arguments = vec!["-X", method];
        if let Some(body) = &body {
            arguments.extend(["-H", "Content-Type: application/json", "-d", body.as_str()]);
        }
        arguments.push(path);
        let (status, told) = by(&self.front, token, &arguments);
        (status, serde_json::from_str(&told).unwrap_or(Value::String(told)))
    }

    fn names(&self, token: &str, path: &str) -> Vec<String> {
        let (status, told) = self.ask(token, "GET", path, None);
        assert_eq!(status, 200, "{path}: {told}");
        let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
        told.as_array().unwrap().iter().map(name).collect()
    }
}

#[test]
fn a_tenant_uses_what_it_was_given_within_its_limits_and_sees_nothing_else() {
    let scene = Scene::begin();
    let [acme, other] = [&scene.acme, &scene.other].map(String::as_str);
    let configurations = "/api/v1/port-configurations";
    let add = |token: &str, name: &str, vlan: u16| {
        scene.ask(token, "POST", configurations, Some(json!({"name": name, "untagged": vlan})))
    };
    let (status, made) = add(acme, "acme.lab", 12);
    assert_eq!((status, &made["untagged"]), (200, &json!(12)), "{made}");
    assert_eq!(add(other, "other.lab", 22).0, 200);
    for (name, vlan, told) in [
        ("acme.big", 20, "VLAN 20 is not one of tenant acme, which may use 10-19"),
        ("other.lab", 12, "tenant acme has no port configuration other.lab"),
        ("other.new", 12, "tenant acme has no port configuration other.new"),
        ("lab", 12, "tenant acme has no port configuration lab"),
    ] {
        let (status, refused) = add(acme, name, vlan);
        assert!((400..500).contains(&status), "{name}: {status}");
        assert!(refused.to_string().contains(told), "{name}: {refused}");
    }

    let by_network = |network: &str| {
        let body = json!({"name": "acme.net", "untagged": network});
        scene.ask(acme, "POST", configurations, Some(body)).1.to_string()
    };
    let others = by_network("storage");
    assert!(others.contains("tenant acme has no network storage"), "{others}");
    assert_eq!(others, by_network("nothing").replace("nothing", "storage"), "one is there");

    let link = |token: &str, port: &str, name: &str| {
        let body = json!({"phases": {"user": name}});
        scene.ask(token, "PUT", &format!("/api/v1/ports/{port}"), Some(body))
    };
    assert_eq!(link(acme, "tor/e1", "acme.lab").0, 200);
    let [others, nobodys] = ["tor/e2", "tor/e9"].map(|port| link(acme, port, "acme.lab"));
    assert_eq!(others.0, nobodys.0);
    assert_eq!(others.1.to_string().replace("e2", "e9"), nobodys.1.to_string());
    assert!(link(acme, "tor/e1", "other.lab").1.to_string().contains("has no port configuration"));
    let idle = json!({"phases": {"idle": "acme.lab"}});
    assert_eq!(scene.ask(acme, "PUT", "/api/v1/ports/tor/e1", Some(idle)).0, 403);

    for (path, of_acme, of_other) in [
        ("/api/v1/ports", "tor/e1", "tor/e2"),
        (configurations, "acme.lab", "other.lab"),
        ("/api/v1/tenants", "acme", "other"),
    ] {
        assert_eq!(scene.names(acme, path), [of_acme], "{path}");
        assert_eq!(scene.names(other, path), [of_other], "{path}");
        let one = scene.ask(acme, "GET", &format!("{path}/{of_other}"), None);
        let none = scene.ask(acme, "GET", &format!("{path}/{of_other}x"), None);
        assert_eq!((one.0, none.0), (404, 404), "{path}");
    }
    let machines = scene.ask(acme, "GET", "/2/query/machine?fields=serial,tenant", None).1;
    assert_eq!(machines["data"], json!([[[0, "SN1"], [0, "acme"]]]));
    for path in
        ["/api/v1/switches", "/api/v1/machines", "/2/nodes", "/2/query/node?fields=name", "/2/info"]
    {
        assert_eq!(scene.ask(acme, "GET", path, None).0, 403, "{path}");
    }

    let jobs = scene.ask(other, "GET", "/2/jobs", None).1;
    let own = jobs.as_array().unwrap();
    assert_eq!(own.len(), 1, "its configuration alone: {jobs}");
    let id = own[0]["id"].as_u64().unwrap();
    assert_eq!(scene.ask(other, "GET", &format!("/2/jobs/{id}"), None).0, 200);
    for id in [id, 99_999] {
        assert_eq!(scene.ask(acme, "GET", &format!("/2/jobs/{id}"), None).0, 404);
        assert_eq!(scene.ask(acme, "DELETE", &format!("/2/jobs/{id}"), None).0, 404);
    }
}

#[test]
fn what_is_taken_from_a_tenant_is_none_of_its_any_more() {
    let scene = Scene::begin();
    let gnt = |line: &str| scene.front.cluster.gnt(line);
    let acme = scene.acme.as_str();
    for (line, told) in [
        ("tenant give acme SN3", "tenant acme would have 2 machines, and may have 1"),
        ("tenant give acme SN2", "machine SN2 is one of tenant other already"),
        ("tenant give none SN3", "Tenant 'none' not known"),
        ("tenant add third --member ci-acme", "is a member of tenant acme already"),
        ("tenant add a.b", "its name has a dot"),
        ("tenant take acme SN2", "machine SN2 is none of tenant acme"),
        ("tenant remove acme", "tenant acme has machine SN1"),
        ("machine remove SN1 --in-service --yes", "gnt tenant take acme SN1"),
        ("tenant modify acme --remove-member nobody", "user `nobody` is no member"),
    ] {
        let refused = gnt(line);
        assert!(refused.failed(1).contains(told), "{line}: {refused:?}");
    }

    let body = || Some(json!({"name": "acme.lab", "untagged": 12}));
    assert_eq!(scene.ask(acme, "POST", "/api/v1/port-configurations", body()).0, 200);
    let link = Some(json!({"phases": {"user": "acme.lab"}}));
    assert_eq!(scene.ask(acme, "PUT", "/api/v1/ports/tor/e1", link).0, 200);
    let row = gnt("tenant list --json -o name,machine_count,port_count acme").json();
    assert_eq!(row[0], json!({"name": "acme", "machine_count": 1, "port_count": 1}));

    let _taken = gnt("tenant take acme SN1").ok();
    assert!(scene.names(acme, "/api/v1/ports").is_empty());
    wait_for("the port without what the tenant linked", PATIENCE, || {
        let port = gnt("port list --json -o phases,error tor/e1").json();
        (port[0]["phases"] == json!({})).then_some(())
    });
    let refused = gnt("tenant remove acme");
    assert!(refused.failed(1).contains("port configuration acme.lab"), "{refused:?}");
    let _removed = gnt("port-configuration remove acme.lab").ok();
    let _removed = gnt("tenant remove acme").ok();
    let (status, told) = scene.ask(acme, "GET", "/api/v1/ports", None);
    assert!(told.to_string().contains("is a member of none"), "{status} {told}");
}

#[test]
fn our_own_objects_change_on_condition() {
    let scene = Scene::begin();
    let front = &scene.front;
    let tag = |path: &str| {
        let head = front.curl("alice", &["--include", path]).ok().to_owned();
        let line = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
        format!("If-Match: {line}")
    };
    let put = |path: &str, condition: &str, body: &str| {
        let json = "Content-Type: application/json";
        front.answer("root", &["-X", "PUT", "-H", condition, "-H", json, "-d", body, path])
    };
    for (path, body) in [
        ("/api/v1/tenants/acme", r#"{"limits": {"ports": 7}}"#),
        ("/api/v1/switches/tor", r#"{"vlans": "1-100"}"#),
        ("/api/v1/ports/tor/e1", r#"{"phases": {"user": null}, "configuration": "none"}"#),
    ] {
        let before = tag(path);
        let (status, told) = put(path, &before, body);
        assert_eq!(status, 200, "{path}: {told}");
        if !path.contains("/ports/") {
            assert_eq!(put(path, &before, body).0, 412, "{path}");
        }
    }
    let (status, told) = front.answer("bob", &["-X", "DELETE", "/api/v1/tenants/acme"]);
    assert_eq!(status, 403, "{told}");
    let (status, told) =
        front.answer("root", &["-X", "DELETE", "/api/v1/tenants/acme/machines/SN1"]);
    assert_eq!(status, 200, "{told}");
    let (status, told) = front.answer("root", &["-X", "DELETE", "/api/v1/tenants/acme"]);
    assert_eq!(status, 200, "{told}");
    assert_eq!(front.answer("root", &["/api/v1/tenants/acme"]).0, 404);
}

#[test]
fn a_noisy_tenant_has_its_own_share_of_the_queue() {
    let scene = Scene::begin();
    let [acme, other] = [&scene.acme, &scene.other].map(String::as_str);
    let held = json!({"priority": 0, "action": "PAUSE",
        "predicates": [["opcode", ["=", "OP_ID", "OP_MACHINE_PROVISION"]]]});
    let json = "Content-Type: application/json";
    let rule = ["-X", "POST", "-H", json, "-d", &held.to_string(), "/2/filters"];
    assert_eq!(scene.front.answer("root", &rule).0, 200);
    let deploy = |token: &str, serial: &str| {
        let body = Some(json!({"target": "deploy"}));
        scene.ask(token, "PUT", &format!("/api/v1/provision/{serial}"), body)
    };
    let jobs: Vec<u64> = (0..3)
        .map(|_| {
            let (status, job) = deploy(acme, "SN1");
            assert_eq!(status, 200, "{job}");
            job.as_u64().unwrap()
        })
        .collect();
    let (status, refused) = deploy(acme, "SN1");
    assert!(status >= 400, "{refused}");
    assert!(refused.to_string().contains("has 3 jobs in the queue, and may have 3"), "{refused}");
    assert_eq!(deploy(other, "SN2").0, 200, "the others' share is theirs");
    for (serial, told) in [("SN2", "has no machine SN2"), ("SN9", "has no machine SN9")] {
        assert!(deploy(acme, serial).1.to_string().contains(told));
    }
    let (status, told) = scene.ask(acme, "DELETE", &format!("/2/jobs/{}", jobs[0]), None);
    assert_eq!(status, 200, "{told}");
    assert_eq!(deploy(acme, "SN1").0, 200, "one ended");

    // What was submitted is looked at once more when it runs.
    let _taken = scene.front.cluster.gnt("tenant take acme SN1").ok();
    let rules = scene.front.answer("root", &["/2/filters?bulk=1"]).1;
    let rules: Value = serde_json::from_str(&rules).unwrap();
    let path = format!("/2/filters/{}", rules[0]["uuid"].as_str().unwrap());
    assert_eq!(scene.front.answer("root", &["-X", "DELETE", &path]).0, 200);
    scene.front.cluster.wait_for_status(jobs[1], "error");
    let job = scene.ask(acme, "GET", &format!("/2/jobs/{}", jobs[1]), None).1;
    assert!(job["opresult"].to_string().contains("tenant acme has no machine SN1"), "{job}");
}
