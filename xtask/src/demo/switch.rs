//! The scene of a switch: an Open vSwitch whose ports follow machines.

use super::{DemoError, Play};
use crate::needs;
use crate::ovs::{self, Ovs};

/// Programs that the scene needs.
pub(super) const PROGRAMS: &[&str] = ovs::PROGRAMS;

/// The scene.
pub(super) fn play(play: &Play) -> Result<(), DemoError> {
    if let Some(why) = needs::missing(PROGRAMS) {
        play.skip(&why);
        return Ok(());
    }
    let ports = ["p1", "p2", "p3"].map(str::to_owned);
    let switch = Ovs::start(&play.stage, &play.stage.root().join("switch"), &ports)?;
    for words in [
        &["port-configuration", "add", "idle", "--untagged", "999"][..],
        &["port-configuration", "add", "boot", "--untagged", "100"],
        &["port-configuration", "add", "users", "--untagged", "200", "--tagged", "201-203"],
        &["port", "policy", "--idle", "idle", "--provisioning", "boot", "--user", "users"],
    ] {
        play.gnt(words)?;
    }
    play.gnt(&["switch", "add", "tor-1", "--url", &switch.url(), "--all-ports"])?;
    play.gnt(&["machine", "port", "SN-0002", "tor-1/p2", "--card", "52:54:00:00:00:02"])?;
    play.gnt(&["port", "reset", "tor-1/p1", "tor-1/p2", "tor-1/p3"])?;
    println!("\n  the machine works for its users, and its port follows:");
    play.gnt(&["machine", "set-state", "SN-0002", "healthy"])?;
    play.gnt(&["port", "reset", "tor-1/p2"])?;
    play.gnt(&["port", "list"])
}
