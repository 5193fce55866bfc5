use model::machine::BootStage;
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
    beat_with(scene, url, TOKEN).await
}

async fn beat_with(scene: &Scene, url: &str, token: &str) -> u16 {
    let told = json!({ "callback_url": url, "agent_token": token, "agent_version": "13.0.0" });
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
    // The told token is durable by now.
    let [Observation::Ramdisk { cycle: 3, heard, .. }] = &seen(&scene)[..] else { panic!() };
    assert!(heard.token_told.is_some() && heard.agent.is_none());
    for url in ["https://10.69.0.40:9999", "https://10.69.0.40:9999"] {
        assert_eq!(beat(&scene, url).await, 202);
    }
    assert_eq!(beat(&scene, "https://10.69.0.41:9999").await, 400);
    // The second heartbeat says nothing new, and the newest word is enough.
    let [Observation::Ramdisk { heard, .. }] = &seen(&scene)[..] else { panic!() };
    assert_eq!(heard.agent.as_ref().unwrap().callback_url, "https://10.69.0.40:9999");
    // A new boot is another ramdisk, with another token.
    assert_eq!(status(&scene.ask("HEAD /api/v1/boot/ipxe/S1").await), 200);
    assert_eq!(look_up(&scene).await, (200, "******".to_owned()));
    assert_eq!(status(&scene.ask("GET /api/v1/boot/ipxe/S1").await), 200);
    let (_, second) = look_up(&scene).await;
    assert!(second.len() > 30 && second != TOKEN, "{second}");
    assert_eq!(look_up(&scene).await, (200, "******".to_owned()));
    // The old one is heard no longer, and seen.
    assert!(scene.racks.troubles().is_empty());
    assert_eq!(beat(&scene, "https://10.69.0.40:9999").await, 400);
    let troubles = scene.racks.troubles();
    assert!(troubles[0].contains("an earlier boot of machine S1"), "{troubles:?}");
    assert_eq!(beat_with(&scene, "https://10.69.0.41:9999", &second).await, 202);
    scene.end().await;
}

/// The card of S1 leases an address of the rack; somebody asks from another one. A lease of `card`, or none,
/// is where they ask from.
async fn stranger(card: Option<&str>) -> Scene {
    let scene = scene().await;
    scene.lease_at([10, 69, 0, 40], MAC.parse().unwrap()).await;
    if let Some(card) = card {
        scene.lease(card.parse().unwrap()).await;
    }
    scene
}

/// The first of them is no machine's card, and the second is another one's.
#[tokio::test]
async fn a_stranger_begins_no_boot_and_is_told_no_token() {
    for card in [None, Some("52:54:00:00:00:09"), Some("52:54:00:00:00:02")] {
        let scene = stranger(card).await;
        for path in ["GET /api/v1/boot/ipxe/S1", "GET /api/v1/boot/coreos/ipxe/S1"] {
            let wanted = if card == Some("52:54:00:00:00:02") { 409 } else { 200 };
            assert_eq!(status(&scene.ask(path).await), wanted, "{card:?}");
        }
        for path in ["/api/v1/boot/machines/S1/up", "/api/v1/boot/machines/S1/up/3"] {
            let wanted = if card.is_none() && path.ends_with('3') { 204 } else { 404 };
            assert_eq!(
                status(&scene.ask(&format!("POST {path}")).await),
                wanted,
                "{card:?} {path}"
            );
        }
        assert_eq!(look_up(&scene).await.0, 404, "{card:?}");
        let inventory = json!({ "inventory": { "interfaces": [{ "mac_address": MAC }] } });
        let told = scene.ask_with("POST /v1/continue_inspection", "", &inventory.to_string()).await;
        assert_eq!(status(&told), 404, "{card:?}");
        let is_system = |seen: &Observation| {
            matches!(seen, Observation::Boot { stage: BootStage::System, cycle: 3, .. })
        };
        let seen = seen(&scene);
        assert!(seen.iter().all(is_system) && seen.len() < 2, "{card:?}: {seen:?}");
        let is_named = scene.racks.troubles().iter().any(|why| why.contains("S1"));
        assert_eq!(is_named, card.is_some(), "a look from elsewhere is no trouble");
        // The machine itself.
        scene.lease(MAC.parse().unwrap()).await;
        assert_eq!(status(&scene.ask("GET /api/v1/boot/ipxe/S1").await), 200);
        assert!(look_up(&scene).await.1.len() > 30);
        scene.end().await;
    }
}

/// A second card of the machine, which the ramdisk tells of.
#[tokio::test]
async fn a_ramdisk_may_ask_by_a_card_that_nobody_knew() {
    let scene = stranger(Some("52:54:00:00:00:09")).await;
    let head = format!("GET /v1/lookup?addresses={MAC},52:54:00:00:00:09");
    let answer = scene.ask_with(&head, "x-openstack-ironic-api-version: 1.62\r\n", "").await;
    assert!(status(&answer) == 200 && body(&answer).contains(TOKEN), "{answer}");
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

/// Its kernel's command line names the agents where they serve its network, and each once.
#[tokio::test]
async fn a_ramdisk_is_told_the_agents_of_its_network() {
    let mut document = document(5, 1);
    let agents = ["n2", "n3", "n4", "n5"].map(|name| model::rack::RackAgent {
        name: name.parse().unwrap(),
        // For calls, in another network.
        address: "192.0.2.1:1811".parse().unwrap(),
        fingerprints: Vec::new(),
    });
    document.agents = agents.to_vec();
    document.ranges[0].subnet = "127.0.0.0/8".parse().unwrap();
    let files = model::image::ImageFiles::Linux {
        kernel: model::blob::Blob { sha256: "aa".repeat(32).parse().unwrap(), size: 1 },
        initrds: Vec::new(),
    };
    let (id, parameters) = ("ipa/1".parse().unwrap(), Vec::new());
    document.machines[0].boot = model::rack::BootChoice::Image { id, files, parameters };
    document.machines[0].ramdisk = Some(ramdisk());
    let scene = scene_of(document).await;
    let places = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    for (agent, told) in [
        ("n3", places(&["10.0.0.3:10080", "127.9.0.3:10081"])),
        ("n4", places(&["10.0.0.4:10080"])),
        ("n5", places(&[])),
        ("gone", places(&["127.9.0.9:10080"])),
    ] {
        scene.racks.set_places_of(5, &agent.parse().unwrap(), told);
    }
    let script = scene.ask("GET /api/v1/boot/ipxe/S1").await;
    let own = scene.address;
    let told = format!(" ipa-api-url=http://{own},http://127.9.0.3:10081,http://10.0.0.4:10080 ");
    assert!(script.contains(&told), "{script}");
    scene.end().await;
}
