//! From power-on to the first program of an operating system.

use std::path::Path;

use xtask::guest::GuestError;
use xtask::guest::rack::{Guest, Rack, uuid};
use xtask::guest::secure::Secure;

use crate::{MAC, SERIAL, text};

/// A rack with so many agents and one registered machine that is to boot the image `guest/1`, as `upload` has it.
fn rack(nodes: u8, upload: &[&str], mac: Option<&str>) -> Option<Rack> {
    let rack = crate::rack(nodes, mac)?;
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

fn guest(disk: Option<&Path>) -> Guest<'_> {
    Guest { number: 0, serial: SERIAL, mac: MAC, disk, secure: None }
}

/// A machine whose card nobody told. Operators see of it what happened.
#[test]
fn a_kernel_boots_by_ipxe() {
    let upload = ["--kernel", "KERNEL", "--initrd", "INITRD", "--append", "console=ttyS0"];
    let Some(rack) = rack(1, &upload, None) else { return };
    rack.gnt(&["machine", "set-kernel", "--role", "worker", "--append", "of=role"]).unwrap();
    rack.gnt(&["machine", "set-kernel", "--append", "of=all"]).unwrap();
    rack.gnt(&["machine", "set-boot", "guest/1", SERIAL, "--append", "of=machine"]).unwrap();
    rack.power_on(&guest(None)).unwrap();
    rack.wait_for(0, "GUEST reported").unwrap();
    rack.wait_for(0, "console=ttyS0 of=all of=role of=machine").unwrap();
    rack.wait_for_stage(SERIAL, "system").unwrap();
    let fields = ["machine", "list", "--no-headers", "-o", "mac"];
    assert!(rack.gnt(&fields).unwrap().contains(MAC), "the card is known from the lease");
    let status = rack.gnt(&["rack", "status"]).unwrap();
    assert!(status.contains("1: 1 system"), "{status}");
    assert!(rack.gnt(&["lease", "list"]).unwrap().contains(MAC));
    // From now on what its card does before the script is seen as the machine's, too.
    rack.stage.kill("guest0");
    rack.power_on(&guest(None)).unwrap();
    rack.wait_for(0, "GUEST reported").unwrap();
    rack.wait_for_gnt(&["machine", "info", SERIAL], "- lease").unwrap();
    rack.wait_for_stage(SERIAL, "system").unwrap();
    let info = rack.gnt(&["machine", "info", SERIAL]).unwrap();
    let (_, stages) = info.split_once("Stages:").unwrap();
    let (now, rest) = stages.split_once("LastBoot:").unwrap();
    let (before, _) = rest.split_once("Seen:").unwrap();
    let of = |timeline: &str| -> Vec<String> {
        let lines = timeline.lines().filter_map(|line| line.trim().strip_prefix("- "));
        lines.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
    };
    assert_eq!(of(before), ["script", "kernel", "initrd", "system"], "{info}");
    assert_eq!(of(now), ["lease", "loader", "script", "kernel", "initrd", "system"], "{info}");
    assert!(info.contains("CommandLine: console=ttyS0 of=all of=role of=machine"), "{info}");
}

/// The text of a console, as if it had no end of lines.
fn shown(rack: &Rack) -> String {
    rack.console(0).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Its console shows what is missing, and the master how to register it.
#[test]
fn a_stranger_is_told_why_it_does_not_boot() {
    let Some(rack) = rack(1, &["--uki", "UKI"], Some(MAC)) else { return };
    let mac = "52:54:00:aa:bb:99";
    let stranger = Guest { serial: "SN 99", mac, ..guest(None) };
    rack.power_on(&stranger).unwrap();
    rack.wait_for(0, "where FILE holds").unwrap();
    let uuid = uuid(mac);
    let why =
        format!("not registered in a rack of this agent: MAC {mac}, serial SN 99, UUID {uuid};");
    assert!(shown(&rack).contains(&why), "{}", rack.console(0));
    let unknown = rack.wait_for_gnt(&["machine", "list-unknown"], "SN 99").unwrap();
    let register = format!("gnt machine add --serial 'SN 99' --rack 0 --role ROLE --mac {mac}");
    assert!(unknown.contains(&register), "{unknown}");
    // The card of one machine in a machine that tells another serial number.
    rack.stage.kill("guest0");
    let registered = ["machine", "add", "--serial", "SN-8", "--rack", "0", "--role", "worker"];
    rack.gnt(&[&registered[..], &["--mac", mac]].concat()).unwrap();
    rack.power_on(&Guest { serial: SERIAL, ..stranger }).unwrap();
    let why = format!("serial {SERIAL} is of machine {SERIAL}, but MAC {mac} is of machine SN-8");
    rack.wait_for(0, "was replaced").unwrap();
    assert!(shown(&rack).contains(&format!("refused: {why}")), "{}", rack.console(0));
    rack.wait_for_gnt(&["rack", "status"], &why).unwrap();
}

/// The agent serves files as they are, and firmware with Secure Boot judges them.
#[test]
fn secure_boot_takes_what_is_signed_alone() {
    let Some(rack) = rack(1, &["--uki", "UKI"], Some(MAC)) else { return };
    let secure = match Secure::provide(rack.parts()) {
        Ok(secure) => secure,
        Err(GuestError::Impossible(why)) => {
            tests::skip("machines with Secure Boot", &why);
            return;
        }
        Err(error) => panic!("{}", stdx::daemon::chain(&error)),
    };
    let guest = Guest { secure: Some(&secure), ..guest(None) };
    rack.gnt(&["machine", "set-boot", "guest", SERIAL]).unwrap();
    rack.power_on(&guest).unwrap();
    rack.wait_for(0, "Access Denied").unwrap();
    rack.wait_for_gnt(&["rack", "status"], &format!("{SERIAL}: loader for")).unwrap();
    assert!(!rack.console(0).contains("GUEST runs"));
    rack.stage.kill("guest0");
    rack.gnt(&["image", "upload", "guest/2", "--uki", &text(&secure.signed)]).unwrap();
    rack.power_on(&guest).unwrap();
    rack.wait_for(0, "GUEST reported").unwrap();
    rack.wait_for_stage(SERIAL, "system").unwrap();
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
