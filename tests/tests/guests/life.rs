//! The life of a machine whose power a management controller switches.

use std::path::Path;

use tests::place::programs;
use xtask::guest::GuestError;
use xtask::guest::rack::{Guest, Rack};

const SERIAL: &str = "SN-7";
const MAC: &str = "52:54:00:aa:bb:01";

/// A rack with one machine, and the images `system/1`, which stays, and `ramdisk/1`.
fn rack() -> Option<Rack> {
    let rack = match Rack::new(programs().clone(), &std::env::temp_dir(), 1, 1) {
        Ok(rack) => rack,
        Err(GuestError::Impossible(why)) => {
            tests::skip("machines that boot", &why);
            return None;
        }
        Err(error) => panic!("{}", stdx::daemon::chain(&error)),
    };
    let add = ["machine", "add", "--serial", SERIAL, "--rack", "0", "--role", "worker"];
    rack.gnt(&[&add[..], &["--mac", MAC]].concat()).unwrap();
    let (kernel, initrd) = (text(&rack.parts().kernel), text(&rack.parts().initrd));
    let files = ["--kernel", &kernel, "--initrd", &initrd, "--append", "console=ttyS0"];
    rack.gnt(&[&["image", "upload", "ramdisk/1"], &files[..]].concat()).unwrap();
    let stays = ["image", "upload", "system/1", "--append", "gantry.stays"];
    rack.gnt(&[&stays[..], &files[..]].concat()).unwrap();
    Some(rack)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

const GUEST: Guest<'static> =
    Guest { number: 0, serial: SERIAL, mac: MAC, disk: None, secure: None };

#[test]
fn a_controller_switches_a_machine() {
    let Some(rack) = rack() else { return };
    rack.gnt(&["machine", "set-boot", "system/1", SERIAL]).unwrap();
    let done = rack.with_power(&GUEST, |power| {
        rack.gnt(&["machine", "power", "on", SERIAL, "--boot-once", "network"]).unwrap();
        assert_eq!(power.boot(), "pxe");
        rack.wait_for_stage(SERIAL, "system").unwrap();
        rack.gnt(&["machine", "power", "cycle", SERIAL, "--yes"]).unwrap();
        rack.wait_for(0, "GUEST reported").unwrap();
        rack.gnt(&["machine", "power", "off", SERIAL, "--yes"]).unwrap();
    });
    done.unwrap();
}
