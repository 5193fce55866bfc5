//! Core: rules of units of systemd.

use serde_json::Value as Json;

use super::super::schema::Look;
use super::super::unit;
use super::super::v3::V3_4;
use super::{list, text, truth};

/// The directory where Ignition writes units.
const UNITS: &str = "/etc/systemd/system";

/// A unit that is enabled says where it is to be installed.
pub(in super::super) fn enabled_is_installed(
    unit: &Json,
    look: &mut Look<'_>,
) -> Result<(), String> {
    let contents = text(unit, "contents");
    let is_enabled = truth(unit, "enabled") || truth(unit, "enable");
    if is_enabled && !contents.is_empty() && unit::has_install(contents) == Ok(false) {
        look.warn("is enabled and has no section [Install], so that nothing starts it");
    }
    Ok(())
}

/// No file takes the place of a unit. Systems of the time before version 3.4 took that, later ones refuse it.
pub(in super::super) fn no_file_is_a_unit(
    config: &Json,
    look: &mut Look<'_>,
) -> Result<(), String> {
    let mut written = Vec::new();
    for unit in list(&config["systemd"], "units") {
        let name = text(unit, "name");
        if !text(unit, "contents").is_empty() {
            written.push(format!("{UNITS}/{name}"));
        }
        let drop_ins = list(unit, "dropins").iter();
        let drop_ins = drop_ins.filter(|drop_in| !text(drop_in, "contents").is_empty());
        written.extend(drop_ins.map(|one| format!("{UNITS}/{name}.d/{}", text(one, "name"))));
    }
    let lists = ["files", "directories", "links"].into_iter();
    let nodes = lists.flat_map(|key| list(&config["storage"], key));
    for path in nodes.map(|node| text(node, "path")) {
        if !written.iter().any(|written| written == path) {
            continue;
        }
        let why = format!("has {path:?} in `storage`, and as a unit in `systemd`");
        if look.spec >= V3_4 {
            return Err(why);
        }
        look.warn(&format!("{why}; newer systems refuse that"));
    }
    Ok(())
}
