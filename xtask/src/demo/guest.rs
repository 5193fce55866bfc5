//! A guest of QEMU boots from a rack of its own, where this machine can run one.

use super::{DemoError, Play};
use crate::guest::GuestError;
use crate::guest::parts::Parts;
use crate::guest::power::{IPMI_PROGRAMS, Protocol};
use crate::guest::rack::{Guest, Rack, SOON};
use crate::needs;

/// The variable that tells why no guest can boot.
pub(super) const IMPOSSIBLE: &str = "GANTRY_DEMO_NO_GUEST";

/// The machine's serial number.
const SERIAL: &str = "SN-0004";
/// Its guest's card.
const MAC: &str = "52:54:00:00:00:04";
/// A machine that is not registered.
const STRANGER: &str = "SN-0099";
/// Its guest's card.
const STRANGERS_MAC: &str = "52:54:00:00:00:99";
/// First words of the lines of a console that tell how far the guest is.
const TOLD: &[&str] = &[">>Start HTTP Boot", "iPXE", "http://", "GUEST"];

/// Has come what a guest is made of, or tells why it cannot boot.
pub(super) fn prepare() -> Result<(), String> {
    Parts::provide().map_err(|error| crate::chain(&error))?;
    needs::prepare(&needs::of(IPMI_PROGRAMS)).first().map_or(Ok(()), |lack| Err(lack.to_string()))
}

pub(super) fn boot(play: &Play) -> Result<(), DemoError> {
    if let Ok(why) = std::env::var(IMPOSSIBLE) {
        play.skip(&why);
        return Ok(());
    }
    let rack = match Rack::new(play.programs.clone(), &play.stage.root(), 1, 2) {
        Ok(rack) => rack,
        Err(GuestError::Impossible(why)) => {
            play.skip(&why);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let path = |file: &std::path::Path| file.display().to_string();
    let (kernel, initrd) = (path(&rack.parts().kernel), path(&rack.parts().initrd));
    println!("  in network namespaces: a switch, a node that is master and agent, a guest of QEMU");
    let add = ["machine", "add", "--serial", SERIAL, "--rack", "0", "--role", "worker"];
    show(&rack, &[&add[..], &["--mac", MAC]].concat())?;
    let image = ["image", "upload", "guest/1", "--kernel", &kernel, "--initrd", &initrd];
    show(&rack, &[&image[..], &["--append", "console=ttyS0"]].concat())?;
    println!("  its management controller speaks IPMI, and switches its power");
    println!("  without hardware support a boot takes half a minute");
    let guest = Guest { number: 0, serial: SERIAL, mac: MAC, disk: None, secure: None };
    rack.with_power(Protocol::Ipmi, &guest, |_power| {
        show(&rack, &["machine", "deploy", SERIAL, "--image", "guest/1", "--yes"])
    })??;
    let console = rack.console(0);
    for line in console.lines().filter(|line| TOLD.iter().any(|told| line.starts_with(told))) {
        println!("    {}", stdx::text::line(line.trim_end()));
    }
    show(&rack, &["machine", "list"])?;
    show(&rack, &["machine", "info", SERIAL])?;
    // Its new state is on its way to the agent.
    let is_well = || rack.gnt(&["rack", "status"]).is_ok();
    rack.stage.wait_until("a rack without troubles", SOON, is_well).map_err(GuestError::from)?;
    show(&rack, &["rack", "status"])?;
    show(&rack, &["lease", "list"])?;
    println!("  another machine is switched on, which nobody registered");
    rack.power_on(&Guest {
        number: 1,
        serial: STRANGER,
        mac: STRANGERS_MAC,
        disk: None,
        secure: None,
    })?;
    rack.wait_for(1, "not registered in a rack")?;
    rack.wait_for_gnt(&["machine", "list-unknown"], STRANGER).map_err(GuestError::from)?;
    show(&rack, &["machine", "list-unknown"])
}

fn show(rack: &Rack, arguments: &[&str]) -> Result<(), DemoError> {
    println!("$ gnt {}", arguments.join(" "));
    for line in rack.gnt(arguments)?.lines() {
        println!("{line}");
    }
    Ok(())
}
