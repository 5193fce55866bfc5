//! From power-on to the first program of an operating system.

use std::path::Path;

use tests::place::programs;
use xtask::guest::GuestError;
use xtask::guest::rack::{Guest, Rack};

const SERIAL: &str = "SN-7";
const MAC: &str = "52:54:00:aa:bb:01";

/// A rack with so many agents and one registered machine that is to boot the image `guest/1`, as `upload` has it.
fn rack(nodes: u8, upload: &[&str], mac: Option<&str>) -> Option<Rack> {
    let rack = match Rack::new(programs().clone(), &std::env::temp_dir(), nodes, 1) {
        Ok(rack) => rack,
        Err(GuestError::Impossible(why)) => {
            tests::skip("machines that boot", &why);
            return None;
        }
        Err(error) => panic!("{}", stdx::daemon::chain(&error)),
    };
    let add = ["machine", "add", "--serial", SERIAL, "--rack", "0", "--role", "worker"];
    let mac = mac.map(|mac| ["--mac", mac]);
    rack.gnt(&[&add[..], mac.as_ref().map_or(&[][..], |mac| mac)].concat()).unwrap();
    let path = |name: &str| match name {
        "KERNEL" => text(&rack.parts().kernel),
        "INITRD" => text(&rack.parts().initrd),
        "UKI" => text(&rack.parts().uki),
        other => other.to_owned(),
    };
    let upload: Vec<String> = upload.iter().map(|word| path(word)).collect();
    let upload: Vec<&str> = upload.iter().map(String::as_str).collect();
    rack.gnt(&[&["image", "upload", "guest/1"], &upload[..]].concat()).unwrap();
    Some(rack)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn guest(disk: Option<&Path>) -> Guest<'_> {
    Guest { number: 0, serial: SERIAL, mac: MAC, disk }
}

/// A machine whose card nobody told.
#[test]
fn a_kernel_boots_by_ipxe() {
    let upload = ["--kernel", "KERNEL", "--initrd", "INITRD", "--append", "console=ttyS0"];
    let Some(rack) = rack(1, &upload, None) else { return };
    rack.gnt(&["machine", "set-boot", "guest/1", SERIAL]).unwrap();
    rack.power_on(&guest(None)).unwrap();
    rack.wait_for(0, "GUEST reported").unwrap();
    rack.wait_for_stage(SERIAL, "system").unwrap();
    let fields = ["machine", "list", "--no-headers", "-o", "mac"];
    assert!(rack.gnt(&fields).unwrap().contains(MAC), "the card is known from the lease");
}

/// The firmware loads it without a loader between, and the master is away from before the power-on.
#[test]
fn a_unified_kernel_image_boots_without_the_master() {
    let Some(rack) = rack(1, &["--uki", "UKI"], Some(MAC)) else { return };
    rack.gnt(&["machine", "set-boot", "guest/1", SERIAL]).unwrap();
    rack.stage.stop("masterd");
    rack.power_on(&guest(None)).unwrap();
    rack.wait_for(0, "GUEST reported").unwrap();
    rack.start_master().unwrap();
    rack.wait_for_stage(SERIAL, "system").unwrap();
}

/// Each leases its own part of the range, so that the other need not be asked.
#[test]
fn one_of_two_agents_is_enough() {
    let Some(rack) = rack(2, &["--uki", "UKI"], Some(MAC)) else { return };
    rack.gnt(&["machine", "set-boot", "guest/1", SERIAL]).unwrap();
    rack.stage.kill("noded1");
    rack.power_on(&guest(None)).unwrap();
    rack.wait_for(0, "GUEST reported").unwrap();
    rack.wait_for_stage(SERIAL, "system").unwrap();
    let fields = ["machine", "list", "--no-headers", "-o", "agent"];
    assert_eq!(rack.gnt(&fields).unwrap().trim(), "n2.example");
}

/// iPXE ends as a failure, and the firmware goes on to the disk.
#[test]
fn local_boot_reaches_the_disk() {
    let Some(rack) = rack(1, &["--uki", "UKI"], Some(MAC)) else { return };
    let disk = rack.parts().disk.clone();
    rack.power_on(&guest(Some(&disk))).unwrap();
    rack.wait_for(0, "GUEST runs: console=ttyS0 guest.disk").unwrap();
}
