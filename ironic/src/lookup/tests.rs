use super::*;
use crate::machines::Origin;
use crate::testing::{MAC, OTHER_MAC, OTHER_UUID, TOKEN, UUID, World, at, json};

fn token(outcome: &Outcome) -> String {
    assert_eq!(outcome.answer.status, 200, "{}", outcome.answer.body);
    json(&outcome.answer)["config"]["agent_token"].as_str().unwrap().to_owned()
}

fn by(what: &str) -> String {
    format!("/v1/lookup?{what}")
}

#[test]
fn a_token_is_told_once_whatever_the_version() {
    let mut world = World::new();
    let path = by(&format!("addresses={MAC}"));
    let first = world.get(&path, "1.62", 10);
    assert_eq!(token(&first), TOKEN);
    let Effect::Heard { observation, is_vital: true } = first.effect else { panic!() };
    let model::rack::Observation::Ramdisk { heard, cycle: 7, .. } = *observation else { panic!() };
    assert_eq!(heard.token_told, Some(at(10)));
    // Ironic tells it again to a client of an old version.
    for version in ["1.62", "1.31", "1.22", "latest"] {
        let again = world.get(&path, version, 11);
        assert_eq!(token(&again), "******", "{version}");
        assert_eq!(again.effect, Effect::Nothing);
        assert!(!again.answer.body.contains(TOKEN));
    }
    assert_eq!(token(&world.get(&by(&format!("addresses={OTHER_MAC}")), "1.62", 12)), "b3RoZXI");
}

#[test]
fn a_new_boot_is_told_once_more() {
    let mut world = World::new();
    let path = by(&format!("node_uuid={UUID}"));
    assert_eq!(token(&world.get(&path, "1.62", 10)), TOKEN);
    world.boots(at(9));
    assert_eq!(token(&world.get(&path, "1.62", 11)), "******", "the boot was before that");
    world.boots(at(20));
    let second = world.token(Some(at(20)));
    assert_eq!(token(&world.get(&path, "1.62", 21)), second);
    assert_eq!(token(&world.get(&path, "1.62", 22)), "******");
    assert_ne!(second, TOKEN);
    world.claims = true;
    assert_eq!(token(&world.get(&path, "1.62", 23)), second, "another server kept it for this");
}

#[test]
fn which_machine_is_meant() {
    for (what, found) in [
        (format!("node_uuid={UUID}"), Some("1")),
        (format!("addresses={MAC}"), Some("1")),
        // A UUID wins over addresses, and one address of several is enough.
        (format!("node_uuid={OTHER_UUID}&addresses={MAC}"), Some("2")),
        (format!("addresses=52:54:00:00:00:0e,{MAC},52:54:00:00:00:0f"), Some("1")),
        (format!("node_uuid=00000000-0000-4000-8000-00000000000f&addresses={MAC}"), None),
        // A machine that expects no ramdisk is like one that is not there.
        ("addresses=52:54:00:00:00:03".to_owned(), None),
        (format!("addresses={MAC},{OTHER_MAC}"), None),
        // An address that vendors give to many cards tells nothing.
        ("addresses=fa:4b:7f:fc:bc:02".to_owned(), None),
        ("addresses=00:00:00:00:00:00".to_owned(), None),
    ] {
        let mut world = World::new();
        world.nodes[0].1.push("fa:4b:7f:fc:bc:02".parse().unwrap());
        let outcome = world.get(&by(&what), "1.62", 1);
        let Some(found) = found else {
            assert_eq!(outcome.answer.status, 404, "{what}");
            continue;
        };
        let uuid = json(&outcome.answer)["node"]["uuid"].as_str().unwrap().to_owned();
        assert!(uuid.ends_with(found), "{what}: {uuid}");
    }
    let several = World::new().get(&by(&format!("addresses={MAC},{OTHER_MAC}")), "1.62", 1);
    let Effect::Several(crate::Several(serials)) = several.effect else { panic!() };
    assert_eq!(serials.len(), 2);
}

#[test]
fn what_is_not_there_is_not_told_from_what_is_not_to_be_told() {
    let mut world = World::new();
    let missing = |world: &mut World, mac: &str| {
        let outcome = world.get(&by(&format!("addresses={mac}")), "1.62", 1);
        assert_eq!(outcome.answer.status, 404);
        outcome.answer.body
    };
    let unknown = missing(&mut world, "52:54:00:00:00:0f");
    assert_eq!(missing(&mut world, "52:54:00:00:00:03"), unknown);
    world.origin = Some(("S1", Origin::AnotherMachine));
    assert_eq!(missing(&mut world, MAC), unknown, "the address is that of S2");
    for card in [None, Some("52:54:00:00:00:0e".parse().unwrap())] {
        world.origin = Some(("S1", Origin::Elsewhere { card }));
        assert_eq!(missing(&mut world, MAC), unknown, "its card leases another address");
        let inspection = r#"{"inventory": {"interfaces": [{"mac_address": "52:54:00:00:00:01"}]}}"#;
        let answer = world.post("/v1/continue_inspection", "", inspection, 1).answer;
        assert_eq!((answer.status, answer.body), (404, unknown.clone()));
    }
    // A second card of the machine, as the ramdisk says.
    let cards = by(&format!("addresses={MAC},52:54:00:00:00:0e"));
    assert_eq!(token(&world.get(&cards, "1.62", 1)), TOKEN);
    assert_eq!(token(&world.get(&by(&format!("addresses={OTHER_MAC}")), "1.62", 1)), "b3RoZXI");
}

#[test]
fn an_answer_has_what_agents_read() {
    let mut world = World::new();
    let answer = world.get(&by(&format!("addresses={MAC}")), "1.62", 1).answer;
    let body = json(&answer);
    let node = &body["node"];
    assert_eq!(node["driver_internal_info"]["agent_secret_token"], "******");
    assert!(node["properties"].is_object() && node["instance_info"].is_object());
    let href = format!("http://10.69.0.3:10080/v1/nodes/{UUID}");
    assert_eq!(node["links"][0]["href"], href.as_str());
    let names = [
        "metrics",
        "metrics_statsd",
        "heartbeat_timeout",
        "agent_containers",
        "agent_token",
        "agent_token_required",
        "agent_md5_checksum_enable",
        "disable_deep_image_inspection",
        "permitted_image_formats",
        "agent_skip_bmc_detect",
        "enable_bios_bootloader_install",
    ];
    let mut told: Vec<&str> =
        body["config"].as_object().unwrap().keys().map(String::as_str).collect();
    told.sort_unstable();
    let mut wanted = names.to_vec();
    wanted.sort_unstable();
    // An empty key of TLS would override what the agent has.
    assert_eq!(told, wanted);
    assert_eq!(body["config"]["agent_token_required"], true);
}
