use model::inventory::{CARDS_MAX, Neighbour};

use super::*;
use crate::testing::{MAC, UUID, World, json as read, why};

const PATH: &str = "/v1/continue_inspection";

fn body() -> Value {
    json!({
        "inventory": {
            "interfaces": [
                {"name": "eth1", "mac_address": "52:54:00:00:00:09", "has_carrier": false,
                 "lldp": null, "speed_mbps": null, "client_id": null},
                {"name": "eth0", "mac_address": MAC, "has_carrier": true, "speed_mbps": 25000,
                 "lldp": [[4, "6f6c64"]], "ipv4_address": "10.69.0.40"},
                {"name": "usb0", "mac_address": "fa:4b:7f:fc:bc:02"},
                {"name": "ib0", "mac_address": "a0:00:02:20:fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01"},
                {"name": "no"},
            ],
            "cpu": {"model_name": "EPYC", "frequency": "2000.0", "count": 96,
                    "architecture": "x86_64", "flags": ["fpu"], "socket_count": 2},
            "disks": [
                {"name": "/dev/sda", "model": "M", "size": 960197124096u64, "rotational": false,
                 "wwn": "0x5", "serial": "X1", "vendor": "V", "hint": null},
                {"name": "/dev/sdb", "size": null},
            ],
            "memory": {"total": 540_000_000_000u64, "physical_mb": 524_288},
            "bmc_address": "10.72.17.4", "bmc_v6address": null,
            "system_vendor": {"product_name": "R630", "serial_number": "S1", "manufacturer": "Dell",
                              "firmware": {"vendor": "Dell", "version": "2.1", "build_date": ""}},
            "boot": {"current_boot_mode": "uefi", "pxe_interface": null},
        },
        "root_disk": null, "boot_interface": MAC, "configuration": {}, "error": null,
        "lldp_raw": {"eth0": [[1, "0464649b32f300"], [2, "05706f72742031"]]},
        "logs": "H4sI",
    })
}

fn inspected(outcome: &Outcome) -> (Inventory, Option<String>) {
    assert_eq!(outcome.answer.status, 202, "{}", outcome.answer.body);
    assert_eq!(read(&outcome.answer)["uuid"], UUID);
    let Effect::Heard { observation, is_vital: true } = &outcome.effect else { panic!() };
    let Observation::Inspected { serial, cycle: 7, inventory, error, .. } = &**observation else {
        panic!("{observation:?}")
    };
    assert_eq!(serial.as_str(), "S1");
    (*inventory.clone(), error.clone())
}

#[test]
fn an_inventory_is_read() {
    let (found, error) = inspected(&World::new().post(PATH, "", &body().to_string(), 1));
    assert_eq!(error, None);
    assert_eq!((&*found.manufacturer, &*found.product, &*found.firmware), ("Dell", "R630", "2.1"));
    assert_eq!((found.processors.threads, found.processors.sockets), (96, 2));
    assert_eq!((&*found.processors.model, found.memory_mib), ("EPYC", 524_288));
    let [sda, sdb] = found.disks.as_slice() else { panic!("{:?}", found.disks) };
    assert_eq!((&*sda.name, &*sda.serial, sda.bytes), ("sda", "X1", 960_197_124_096));
    assert_eq!((sda.rotational, sdb.bytes), (Some(false), 0));
    // Neither what vendors give to many machines nor what is not Ethernet.
    let [eth0, eth1] = found.cards.as_slice() else { panic!("{:?}", found.cards) };
    assert_eq!((eth0.speed, eth0.link, eth1.link), (Some(25_000), Some(true), Some(false)));
    let switch = Neighbour {
        chassis: "64:64:9b:32:f3:00".into(),
        port: "port 1".into(),
        ..Neighbour::default()
    };
    assert_eq!((eth0.neighbour.as_ref(), eth1.neighbour.as_ref()), (Some(&switch), None));
}

#[test]
fn an_interface_on_a_card_is_no_second_card() {
    let cards = |interfaces: Value| {
        let mut body = body();
        body["inventory"]["interfaces"] = interfaces;
        let (found, _) = inspected(&World::new().post(PATH, "", &body.to_string(), 1));
        found.cards.into_iter().map(|card| card.name).collect::<Vec<_>>()
    };
    let on = |name: &str| json!({"name": name, "mac_address": MAC, "has_carrier": true});
    let of_hardware =
        |name: &str| json!({"name": name, "mac_address": MAC, "vendor": "0x8086", "product": null});
    let other = json!({"name": "ens2", "mac_address": "52:54:00:00:00:09"});
    // By what tells that it is hardware, or else by its name, in whatever order they come.
    for stacked in ["bond0", "team0", "br-ex", "vlan5", "eno1.5", "eno1@x"] {
        assert_eq!(cards(json!([on(stacked), on("eno1"), other])), ["eno1", "ens2"], "{stacked}");
        assert_eq!(cards(json!([on("eno1"), other, on(stacked)])), ["eno1", "ens2"], "{stacked}");
    }
    assert_eq!(cards(json!([on("aggregate"), of_hardware("bond7"), other])), ["bond7", "ens2"]);
    // One whose card was not told is still known by its address.
    assert_eq!(cards(json!([on("bond0")])), ["bond0"]);
}

#[test]
fn limits() {
    let mut body = body();
    let card = |n: usize| json!({"name": format!("e{n}"), "mac_address": format!("52:54:00:00:01:{n:02x}")});
    let cards: Vec<Value> = (0..100).map(card).collect();
    body["inventory"]["interfaces"] = cards.into();
    body["inventory"]["disks"] = vec![json!({"name": "/dev/x"}); DISKS_MAX + 5].into();
    body["inventory"]["cpu"] = json!("none");
    body["inventory"]["memory"] = json!({"total": 1u64 << 30});
    body["error"] = json!("x".repeat(ERROR_MAX + 1));
    let mut long = body.clone();
    long["inventory"]["disks"] =
        vec![json!({"name": "d", "model": "\u{10000}".repeat(255)}); DISKS_MAX].into();
    let (found, _) = inspected(&World::new().post(PATH, "", &long.to_string(), 1));
    assert_eq!(found.disks.len(), DISK_TEXT_MAX / (255 * 4 + 1));
    let (found, error) = inspected(&World::new().post(PATH, "", &body.to_string(), 1));
    assert_eq!((found.cards.len(), found.disks.len()), (CARDS_MAX, DISKS_MAX));
    assert_eq!((found.memory_mib, error.unwrap().len()), (1_024, ERROR_MAX));
}

#[test]
fn which_machine_is_meant() {
    let cards = |mac: &str, serial: &str| {
        let mut body = body();
        body["inventory"]["interfaces"] = json!([{"name": "e", "mac_address": mac}]);
        body["inventory"]["system_vendor"]["serial_number"] = json!(serial);
        body.to_string()
    };
    for (query, mac, serial, status) in [
        ("", MAC, "", 202),
        // A machine whose cards nobody knows yet has its serial number.
        ("", "52:54:00:00:00:0f", "S1", 202),
        ("", "52:54:00:00:00:0f", "Default string", 404),
        ("", "52:54:00:00:00:0f", "S9", 404),
        ("", "52:54:00:00:00:03", "", 404),
        (&format!("?node_uuid={UUID}"), "52:54:00:00:00:0f", "", 202),
        ("?node_uuid=00000000-0000-4000-8000-00000000000f", MAC, "S1", 404),
        ("?node_uuid=x", MAC, "S1", 400),
        ("?x=1", MAC, "S1", 400),
    ] {
        let path = format!("{PATH}{query}");
        let answer = World::new().post(&path, "", &cards(mac, serial), 1).answer;
        assert_eq!(answer.status, status, "{query} {mac} {serial}: {}", answer.body);
    }
    let mut world = World::new();
    world.origin = Some(("S1", crate::machines::Origin::AnotherMachine));
    assert_eq!(world.post(PATH, "", &body().to_string(), 1).answer.status, 404);
}

#[test]
fn what_comes_behind_the_lookup_is_not_the_ramdisks() {
    let mut world = World::new();
    assert_eq!(world.get(&format!("/v1/lookup?node_uuid={UUID}"), "1.62", 5).answer.status, 200);
    assert_eq!(world.post(PATH, "", &body().to_string(), 6).answer.status, 404);
    world.boots(crate::testing::at(7));
    assert_eq!(world.post(PATH, "", &body().to_string(), 8).answer.status, 202);
}

#[test]
fn a_failure_is_told_with_what_was_found() {
    let mut body = body();
    body["error"] = json!("collector\u{1b} failed");
    let (_, error) = inspected(&World::new().post(PATH, "1.84", &body.to_string(), 1));
    assert_eq!(error.as_deref(), Some("collector failed"));
    let none = World::new().post(PATH, "", r#"{"error": "x"}"#, 1).answer;
    assert!(none.status == 400 && why(&none).contains("inventory"), "{}", none.body);
}
