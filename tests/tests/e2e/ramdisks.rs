//! Agents in ramdisks, as an agent of the rack serves them while there is no master: by a client of HTTP,
//! and by ironic-python-agent as it is.

use serde_json::{Value, json};
use tests::run::{run, wait_for};

mod door;
mod python_agent;
mod scene;

use python_agent::Asks;
use scene::{PATIENCE, Scene, TOKEN};

const MAC: &str = "52:54:00:00:00:01";

/// The status and the body of an answer.
fn ask(
    scene: &Scene,
    method: &str,
    path: &str,
    version: &str,
    body: Option<&Value>,
) -> (u16, Value) {
    let url = format!("{}{path}", scene.url());
    asked(std::process::Command::new("curl"), (method, &url), version, body)
}

/// The same by a client with options of its own.
fn asked(
    mut curl: std::process::Command,
    (method, url): (&str, &str),
    version: &str,
    body: Option<&Value>,
) -> (u16, Value) {
    curl.args(["--silent", "--max-time", "20", "-w", "\n%{http_code}", "-X", method]);
    curl.args(["-H", "Accept: application/json"]);
    curl.args(["-H", &format!("X-OpenStack-Ironic-API-Version: {version}")]);
    if let Some(body) = body {
        curl.args(["-H", "Content-Type: application/json", "--data-binary", &body.to_string()]);
    }
    curl.arg(url);
    let answer = run(curl).stdout;
    let (body, status) = answer.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

fn look_up(scene: &Scene, version: &str) -> (u16, Value) {
    let path = format!("/v1/lookup?addresses=52:54:00:00:00:99,{}", MAC.to_uppercase());
    ask(scene, "GET", &path, version, None)
}

#[test]
fn a_ramdisk_is_served_without_a_master_and_over_a_restart() {
    let mut scene = Scene::new(MAC);
    scene.push(1, true);
    assert_eq!(ask(&scene, "GET", "/", "junk", None).1["default_version"]["version"], "1.115");
    assert_eq!(look_up(&scene, "2.0").0, 406);
    assert_eq!(look_up(&scene, "1.21").0, 404);

    let inventory = json!({
        "inventory": {
            "interfaces": [{ "name": "eth0", "mac_address": MAC, "has_carrier": true }],
            "cpu": { "count": 4, "architecture": "x86_64" }, "memory": { "physical_mb": 2048 },
        },
        "error": null,
    });
    let (status, told) = ask(&scene, "POST", "/v1/continue_inspection", "1.1", Some(&inventory));
    assert_eq!(status, 202, "{told}");
    let uuid = told["uuid"].as_str().unwrap().to_owned();

    let (status, told) = look_up(&scene, "1.62");
    assert_eq!((status, &told["config"]["agent_token"]), (200, &json!(TOKEN)), "{told}");
    assert_eq!(told["node"]["uuid"], json!(uuid));

    // Every answer is durable: an agent that is killed tells no token twice, and knows its ramdisk.
    scene.kill();
    scene.start();
    assert_eq!(look_up(&scene, "1.31").1["config"]["agent_token"], "******");
    let beat =
        |url: &str| json!({ "callback_url": url, "agent_token": TOKEN, "agent_version": "13.0.0" });
    let path = format!("/v1/heartbeat/{uuid}");
    let send = |scene: &Scene, body: &Value| ask(scene, "POST", &path, "1.68", Some(body)).0;
    assert_eq!(send(&scene, &beat("https://127.0.0.1:9999")), 202);
    scene.kill();
    scene.start();
    assert_eq!(send(&scene, &beat("https://127.0.0.2:9999")), 400);
    assert_eq!(send(&scene, &beat("https://127.0.0.1:9999")), 202);

    let seen = scene.seen();
    let kinds: Vec<&str> = seen.iter().filter_map(|seen| seen["kind"].as_str()).collect();
    assert_eq!(kinds, ["inspected", "ramdisk"], "{seen:#?}");
    assert_eq!(seen[0]["inventory"]["memory_mib"], 2048);
    assert_eq!(seen[1]["heard"]["agent"]["callback_url"], "https://127.0.0.1:9999");
    assert_eq!(seen[1]["cycle"], 1);

    // The machine expects no ramdisk any more.
    scene.push(2, false);
    assert_eq!(look_up(&scene, "1.62").0, 404);
    assert_eq!(send(&scene, &beat("https://127.0.0.1:9999")), 404);
    // In its next power cycle it is another one.
    scene.push(3, true);
    assert_eq!(look_up(&scene, "1.62").1["config"]["agent_token"], TOKEN);
}

#[test]
fn ironic_python_agent_inspects_looks_itself_up_and_lives() {
    let Some((card, mac)) = python_agent::card() else {
        return tests::skip("ironic-python-agent", "this machine has no network card");
    };
    let mut scene = Scene::new(&mac);
    scene.push(1, true);
    let asks =
        Asks { dir: scene.dir.path(), address: scene.address, url: &scene.url(), authority: None };
    let Some(mut agent) = python_agent::start(&asks, &card) else { return };
    let mut wait = |what: &str, is_there: &dyn Fn(&Value) -> bool| {
        wait_for(what, PATIENCE, || {
            assert!(!agent.has_ended(), "it ended");
            scene.seen().into_iter().find(|seen| seen["kind"] == what && is_there(seen))
        })
    };
    let inspected = wait("inspected", &|_| true);
    assert_eq!(inspected["inventory"]["cards"][0]["mac"], mac, "{inspected}");
    assert_eq!(inspected["inventory"]["disks"][0]["serial"], "D1", "{inspected}");
    let heard = wait("ramdisk", &|seen| seen["heard"]["agent"].is_object());
    let agent_heard = &heard["heard"]["agent"];
    assert_eq!(agent_heard["version"], agent.version(), "{heard}");
    assert!(agent_heard["verify_ca"].as_str().unwrap().contains("BEGIN CERTIFICATE"), "{heard}");
    let url = agent_heard["callback_url"].as_str().unwrap();
    assert!(url.starts_with(&format!("https://{}:", scene.address)), "{url}");
    // The first of its URLs is dead; it says so, and goes on.
    assert!(agent.log().contains("trying the next URL"), "{}", agent.log());

    // It lives on over a restart of the agent that serves it.
    let beats = agent.heartbeats();
    scene.kill();
    scene.start();
    wait_for("a heartbeat after the restart", PATIENCE, || {
        (agent.heartbeats() > beats).then_some(())
    });
    assert!(!agent.log().contains("FATAL"), "{}", agent.log());
}
