use model::rack::Event;
use serde_json::{Value, json};

use super::*;
use crate::boot::tests::{Scene, body, scene_of};
use crate::testing::{rack as document, ramdisk};

const MAC: &str = "52:54:00:00:00:01";
const TOKEN: &str = "dG9rZW4";

/// S1 with a card and S2 with another one; both expect a ramdisk.
async fn scene() -> Scene {
    let mut document = document(5, 1);
    let s1 = &mut document.machines[0];
    s1.mac = vec![MAC.parse().unwrap()];
    s1.cycle = 3;
    s1.ramdisk = Some(ramdisk());
    let mut s2 = s1.clone();
    s2.serial = "S2".parse().unwrap();
    s2.mac = vec!["52:54:00:00:00:02".parse().unwrap()];
    document.machines.push(s2);
    scene_of(document).await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

async fn look_up(scene: &Scene) -> (u16, String) {
    let head = format!("GET /v1/lookup?addresses={MAC}");
    let answer = scene.ask_with(&head, "x-openstack-ironic-api-version: 1.62\r\n", "").await;
    let token = serde_json::from_str::<Value>(body(&answer)).unwrap();
    let token = token["config"]["agent_token"].as_str().unwrap_or_default().to_owned();
    (status(&answer), token)
}

async fn beat(scene: &Scene, url: &str) -> u16 {
    let told = json!({ "callback_url": url, "agent_token": TOKEN, "agent_version": "13.0.0" });
    let head = "POST /v1/heartbeat/S1";
    let version = "x-openstack-ironic-api-version: 1.68\r\n";
    status(&scene.ask_with(head, version, &told.to_string()).await)
}

fn seen(scene: &Scene) -> Vec<Observation> {
    let (events, _) = scene.ledger.pending(100);
    events.into_iter().map(|Event { observation, .. }| observation).collect()
}

#[tokio::test]
async fn a_ramdisk_looks_itself_up_and_lives() {
    let scene = scene().await;
    let root = scene.ask("GET /").await;
    assert!(root.contains("x-openstack-ironic-api-maximum-version: 1.115\r\n"), "{root}");
    assert!(root.contains("content-type: application/json\r\n"), "{root}");
    assert_eq!(look_up(&scene).await, (200, TOKEN.to_owned()));
    assert_eq!(look_up(&scene).await, (200, "******".to_owned()));
    // What was told is durable by now.
    let [Observation::Ramdisk { cycle: 3, heard, .. }] = &seen(&scene)[..] else { panic!() };
    assert!(heard.token_told.is_some() && heard.agent.is_none());
    for url in ["https://10.69.0.40:9999", "https://10.69.0.40:9999"] {
        assert_eq!(beat(&scene, url).await, 202);
    }
    assert_eq!(beat(&scene, "https://10.69.0.41:9999").await, 400);
    // The second heartbeat says nothing new, and the newest word is enough.
    let [Observation::Ramdisk { heard, .. }] = &seen(&scene)[..] else { panic!() };
    assert_eq!(heard.agent.as_ref().unwrap().callback_url, "https://10.69.0.40:9999");
    // A new boot is another ramdisk.
    assert_eq!(status(&scene.ask("GET /api/v1/boot/ipxe/S1").await), 200);
    assert_eq!(look_up(&scene).await, (200, TOKEN.to_owned()));
    assert_eq!(beat(&scene, "https://10.69.0.41:9999").await, 202);
    scene.end().await;
}

#[tokio::test]
async fn two_at_the_same_time_get_one_token() {
    let scene = scene().await;
    let asked = futures_util::future::join_all((0..8).map(|_| look_up(&scene))).await;
    let told = asked.iter().filter(|(_, token)| token == TOKEN).count();
    assert_eq!(told, 1, "{asked:?}");
    scene.end().await;
}

#[tokio::test]
async fn a_token_goes_to_no_other_machines_address() {
    let scene = scene().await;
    scene.lease("52:54:00:00:00:02".parse().unwrap()).await;
    assert_eq!(look_up(&scene).await.0, 404);
    // A card of nobody, which may be one that nobody knows yet, and its own.
    scene.lease("52:54:00:00:00:09".parse().unwrap()).await;
    assert_eq!(look_up(&scene).await, (200, TOKEN.to_owned()));
    scene.lease(MAC.parse().unwrap()).await;
    assert_eq!(look_up(&scene).await, (200, "******".to_owned()));
    scene.end().await;
}

#[tokio::test]
async fn cards_of_several_machines_are_a_trouble() {
    let scene = scene().await;
    let head = format!("GET /v1/lookup?addresses={MAC},52:54:00:00:00:02");
    let answer = scene.ask_with(&head, "x-openstack-ironic-api-version: 1.62\r\n", "").await;
    assert_eq!(status(&answer), 404);
    let troubles = scene.racks.troubles();
    assert!(troubles.iter().any(|t| t.contains("several machines: S1, S2")), "{troubles:?}");
    scene.end().await;
}

#[tokio::test]
async fn an_inspection_becomes_an_observation() {
    let scene = scene().await;
    let logs = "x".repeat(ironic::SMALL_BYTES);
    let told = json!({
        "inventory": { "interfaces": [{ "name": "eth0", "mac_address": MAC }] },
        "error": null, "logs": logs,
    });
    let answer = scene.ask_with("POST /v1/continue_inspection", "", &told.to_string()).await;
    assert_eq!(status(&answer), 202, "{answer}");
    let uuid = serde_json::from_str::<Value>(body(&answer)).unwrap()["uuid"].clone();
    assert_eq!(uuid, json!(node_uuid(None, &"S1".parse().unwrap())));
    let [Observation::Inspected { inventory, cycle: 3, .. }] = &seen(&scene)[..] else { panic!() };
    assert_eq!(inventory.cards[0].name, "eth0");
    // A head that promises too much is refused, and so is a body that is too large.
    let large = format!("{{\"x\": \"{}\"}}", "x".repeat(ironic::HEARTBEAT_BYTES_MAX));
    let version = "x-openstack-ironic-api-version: 1.68\r\n";
    assert_eq!(status(&scene.ask_with("POST /v1/heartbeat/S1", version, &large).await), 413);
    scene.end().await;
}
