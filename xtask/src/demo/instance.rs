//! The scene of an instance, of the hypervisor that is a fake.

use super::{DemoError, Play};

/// The columns that the scene shows.
const FIELDS: &str = "name,hypervisor,pnode,status,run,oper_ram";

/// The scene.
pub(super) fn play(play: &Play) -> Result<(), DemoError> {
    let modify = ["cluster", "modify", "--enabled-hypervisors", "fake"];
    play.gnt(&[&modify[..], &["--enabled-disk-templates", "diskless"]].concat())?;
    let add = ["instance", "add", "-t", "diskless", "-o", "noop", "--no-install"];
    let unchecked = ["--no-name-check", "--no-ip-check", "-n", "n2.example", "web1.example"];
    play.gnt(&[&add[..], &unchecked].concat())?;
    let list = ["instance", "list", "-o", FIELDS];
    play.gnt(&list)?;
    println!("\n  it goes to another node; a commit says on which one it runs:");
    play.gnt(&["instance", "migrate", "-f", "-n", "n3.example", "web1"])?;
    play.gnt(&list)?;
    play.gnt(&["instance", "shutdown", "web1"])?;
    play.gnt(&list)?;
    play.gnt(&["instance", "remove", "-f", "web1"])
}
