//! A machine of the inventory is known by its Ethernet address, whatever client it runs.

use std::process::Command;

use serde_json::Value;
use tests::run::wait_for;
use xtask::guest::rack::Rack;
use xtask::guest::wires::within;

use crate::client::{Client, Kind};
use crate::lan::{AGENT, PATIENCE, leases, program, rack, said, wait_for_lease};
use crate::lives::assert_by_rule;

const SERIAL: &str = "SN-1";
/// The options of UEFI on x64 that boots by HTTP: 60 and 93. It asks for option 67.
const FIRMWARE: [&str; 6] =
    ["-V", "HTTPClient:Arch:00016:UNDI:003000", "-x", "0x5d:0010", "-O", "bootfile"];
const LOADER: &str = "api/v1/boot/loader.efi";

/// The loader that firmware fetches, by the client's own way to the agent.
fn load(client: &Client) -> String {
    let mut curl = Command::new(program("curl"));
    curl.args(["--silent", "--fail", "--max-time", "20"]);
    said(&mut within(&client.namespace, curl.arg(format!("http://{AGENT}:10080/{LOADER}"))))
}

fn stage(rack: &Rack) -> Value {
    let list = rack.gnt(&["machine", "list", "--json", "-o", "serial,stage"]).unwrap();
    serde_json::from_str::<Value>(&list).unwrap()[0]["stage"].clone()
}

#[test]
fn firmware_loads_the_image_of_its_machine_and_the_system_has_the_same_lease() {
    let Some(mut rack) = rack(1, &["udhcpc", "dhclient", "curl"]) else { return };
    let mut firmware = Client::new(&mut rack, Kind::Udhcpc, 1);
    let image = rack.stage.root().join("image.efi");
    let uki = xtask::images::uki("what this machine boots");
    stdx::atomic::write(&image, uki.as_bytes(), 0o644).unwrap();
    let add = ["machine", "add", "--serial", SERIAL, "--rack", "0", "--role", "worker", "--mac"];
    rack.gnt(&[&add[..], &[&firmware.mac]].concat()).unwrap();
    rack.gnt(&["image", "upload", "os/1", "--uki", &image.display().to_string()]).unwrap();
    rack.gnt(&["machine", "set-boot", "os/1", SERIAL]).unwrap();

    firmware.start(&FIRMWARE);
    let lease = firmware.lease();
    // Addresses by rule are for the system to set; DHCP leases from the range.
    assert_by_rule(&lease);
    let file = firmware.told("bootfile").or_else(|| firmware.told("boot_file"));
    assert_eq!(file, Some(format!("http://{AGENT}:10080/{LOADER}")));
    wait_for_lease(&rack, &firmware.mac, lease.address);
    assert_eq!(leases(&rack)[0]["serial"], SERIAL);
    assert!(load(&firmware).contains("what this machine boots"));
    wait_for("the stage of the machine", PATIENCE, || (stage(&rack) == "loader").then_some(()));

    // The system that it boots has another client identifier, and the same address.
    firmware.kill();
    let (namespace, mac) = (firmware.namespace.clone(), firmware.mac.clone());
    drop(firmware);
    let mut system = Client::in_namespace(namespace, mac, Kind::Dhclient);
    system.start(&[]);
    assert_eq!(system.lease().address, lease.address);
    assert_eq!(leases(&rack).len(), 1);

    let unknown = rack.gnt(&["machine", "list-unknown", "--json"]).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&unknown).unwrap(), Value::Array(vec![]));
}

#[test]
fn a_host_that_is_not_registered_is_listed_as_unknown() {
    let Some(mut rack) = rack(1, &["udhcpc"]) else { return };
    let mut stranger = Client::new(&mut rack, Kind::Udhcpc, 2);
    stranger.start(&FIRMWARE);
    assert_by_rule(&stranger.lease());
    wait_for("the unknown machine", PATIENCE, || {
        let unknown = rack.gnt(&["machine", "list-unknown", "--json"]).unwrap();
        unknown.contains(&stranger.mac).then_some(())
    });
}
