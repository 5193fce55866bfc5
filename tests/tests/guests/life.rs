//! The life of a machine whose power a management controller switches.

use xtask::guest::power::Protocol;
use xtask::guest::rack::{Guest, Rack};

use crate::{MAC, SERIAL, text};

/// A rack with one machine, and the images `system/1`, which stays, and `ramdisk/1`.
fn rack() -> Option<Rack> {
    let rack = crate::rack(1, Some(MAC))?;
    let (kernel, initrd) = (text(&rack.parts().kernel), text(&rack.parts().initrd));
    let files = ["--kernel", &kernel, "--initrd", &initrd, "--append", "console=ttyS0"];
    rack.gnt(&[&["image", "upload", "ramdisk/1"], &files[..]].concat()).unwrap();
    let stays = ["image", "upload", "system/1", "--append", "gantry.stays"];
    rack.gnt(&[&stays[..], &files[..]].concat()).unwrap();
    Some(rack)
}

const GUEST: Guest<'static> =
    Guest { number: 0, serial: SERIAL, mac: MAC, disk: None, secure: None };

/// The value of a field of the machine.
fn field(rack: &Rack, name: &str) -> String {
    let list = ["machine", "list", "--no-headers", "-o", name, SERIAL];
    rack.gnt(&list).unwrap().trim().to_owned()
}

/// By its controller alone: a ramdisk looks at it, it gets a system and another one, and it goes out of
/// service with wiped disks.
#[test]
fn a_machine_goes_through_its_life() {
    let Some(rack) = rack() else { return };
    let done = rack.with_power(Protocol::Ipmi, &GUEST, |power| {
        let looked = ["machine", "inspect", SERIAL, "--ramdisk", "--image", "ramdisk", "--yes"];
        rack.gnt(&looked).unwrap();
        assert_eq!((field(&rack, "state").as_str(), power.boot().as_str()), ("manageable", "pxe"));
        let found = rack.gnt(&["machine", "info", SERIAL]).unwrap();
        assert!(found.contains(MAC) && found.contains("QEMU"), "{found}");
        rack.gnt(&["machine", "deploy", SERIAL, "--image", "system/1", "--yes"]).unwrap();
        assert_eq!(field(&rack, "state"), "healthy");
        rack.wait_for(0, "gantry.stays").unwrap();
        rack.gnt(&["machine", "deploy", SERIAL, "--image", "system", "--yes"]).unwrap();
        assert_eq!(field(&rack, "state"), "healthy");
        let retire = ["machine", "retire", SERIAL, "--erase", "--image", "ramdisk", "--yes"];
        rack.gnt(&retire).unwrap();
        assert_eq!(field(&rack, "state"), "retired");
        rack.wait_for(0, "GUEST heartbeat").unwrap();
    });
    done.unwrap();
}

/// The controller is one with which OpenStack tests its own programs. Its switch follows some seconds
/// after its answer, and it keeps the boot device for ever.
#[test]
fn a_controller_with_redfish_deploys_a_machine() {
    let Some(rack) = rack() else { return };
    let done = rack.with_power(Protocol::Redfish, &GUEST, |power| {
        rack.gnt(&["machine", "inspect", SERIAL, "--yes"]).unwrap();
        assert_eq!(field(&rack, "state"), "manageable");
        rack.gnt(&["machine", "deploy", SERIAL, "--image", "system/1", "--yes"]).unwrap();
        assert_eq!(field(&rack, "state"), "healthy");
        // It makes this of `UefiHttp` without a URL.
        assert_eq!(power.boot(), "Pxe");
        rack.wait_for(0, "gantry.stays").unwrap();
        rack.gnt(&["machine", "power", "cycle", SERIAL, "--yes"]).unwrap();
        let told = rack.gnt(&["machine", "power", "status", SERIAL]).unwrap();
        assert!(told.contains("on"), "{told}");
        rack.gnt(&["machine", "power", "off", SERIAL, "--yes"]).unwrap();
        let told = rack.gnt(&["machine", "power", "status", SERIAL]).unwrap();
        assert!(told.contains("off"), "{told}");
    });
    match done {
        Err(xtask::guest::GuestError::Impossible(why)) => tests::skip("Redfish", &why),
        done => done.unwrap(),
    }
}
