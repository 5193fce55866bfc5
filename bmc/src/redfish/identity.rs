//! Which of a controller's systems is the machine that is meant, and whether it is.

use model::Uuid;
use serde_json::Value;

use crate::blank::is_blank;
use crate::error::BmcError;
use crate::target::Controller;

/// How sure it is that a system is the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// Something that it tells says so.
    Same,
    /// It tells nothing to compare.
    Unknown,
    /// Everything that it tells says otherwise.
    Other,
}

/// The path of the system that is the machine; `unread` tells why there may be more systems than those.
pub(super) fn choose(
    controller: &Controller,
    systems: &[Value],
    unread: Option<BmcError>,
) -> Result<String, BmcError> {
    let url = || controller.url.to_string();
    let of = |wanted: Likeness| -> Vec<&Value> {
        systems.iter().filter(|system| likeness(controller, system) == wanted).collect()
    };
    let (same, unknown) = (of(Likeness::Same), of(Likeness::Unknown));
    let whole: Vec<&Value> = same.iter().copied().filter(|system| is_whole(system)).collect();
    let chosen = match (whole.as_slice(), same.as_slice(), unread) {
        ([only], ..) => only,
        // A system that tells nothing, or was not read, may be the machine, and this one a part of it.
        (_, [only], None) if unknown.is_empty() => only,
        ([], _, Some(error)) => return Err(error),
        ([], [], None) => match systems {
            [] => return Err(BmcError::NoSystem { url: url() }),
            // The only one, and it says nothing against it.
            [only] if !unknown.is_empty() => only,
            _ => {
                let (told, wanted) = (told(systems.iter()), wanted(controller));
                return Err(BmcError::OtherMachine { url: url(), told, wanted });
            }
        },
        _ => {
            let told = told(same.into_iter().chain(unknown));
            return Err(BmcError::Ambiguous { url: url(), told, wanted: wanted(controller) });
        }
    };
    let path = chosen["@odata.id"].as_str().map(str::to_owned);
    path.ok_or_else(|| BmcError::Nonsense {
        url: url(),
        request: "GET of its systems".to_owned(),
        reason: "a system has no `@odata.id`".to_owned(),
    })
}

/// Whether a system is a machine by itself. A baseboard of accelerators has the serial number of its machine on
/// some, but boots nothing.
fn is_whole(system: &Value) -> bool {
    let reset = &system["Actions"][super::RESET];
    system["Boot"].is_object() && reset["target"].is_string()
}

fn likeness(controller: &Controller, system: &Value) -> Likeness {
    let expected = &controller.expected;
    let serial = |name: &str| {
        let (told, expected) = (system[name].as_str()?.trim(), expected.serial.as_deref()?);
        (!is_blank(told)).then(|| told.eq_ignore_ascii_case(expected))
    };
    let uuid = || {
        let told: Uuid = system["UUID"].as_str()?.parse().ok()?;
        let swapped = Uuid::from_bytes_le(told.into_bytes());
        let expected = expected.uuid?;
        // The first three groups are written in either byte order (SMBIOS 2.6).
        (!told.is_nil()).then(|| told == expected || swapped == expected)
    };
    // Some controllers (Dell) show the serial number of the firmware, the service tag, in `SKU`.
    let compared = [serial("SerialNumber"), serial("SKU"), uuid()];
    if compared.contains(&Some(true)) {
        Likeness::Same
    } else if compared[0].is_some() || compared[2].is_some() {
        Likeness::Other
    } else {
        Likeness::Unknown
    }
}

/// Systems by what they say of themselves.
fn told<'a>(systems: impl Iterator<Item = &'a Value>) -> String {
    let of = |system: &Value| {
        let field = |name: &str| {
            let value = system[name].as_str().filter(|value| !value.is_empty())?;
            Some(format!("{name} {}", model::inventory::text(value)))
        };
        let fields: Vec<String> =
            ["SerialNumber", "SKU", "UUID"].iter().filter_map(|name| field(name)).collect();
        let said = match fields.is_empty() {
            true => "a system without a serial number".to_owned(),
            false => fields.join(", "),
        };
        let path = system["@odata.id"].as_str().map(model::inventory::text);
        path.map_or_else(|| said.clone(), |path| format!("{said} at {path}"))
    };
    systems.map(of).collect::<Vec<_>>().join("; ")
}

fn wanted(controller: &Controller) -> String {
    let expected = &controller.expected;
    let serial = expected.serial.as_ref().map(|serial| format!("serial {serial}"));
    let uuid = expected.uuid.map(|uuid| format!("UUID {uuid}"));
    let all: Vec<String> = serial.into_iter().chain(uuid).collect();
    if all.is_empty() { "one system".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use model::bmc::BmcTrust;
    use model::secret::Secret;
    use serde_json::json;

    use super::*;
    use crate::{Expected, Login, Times};

    fn controller() -> Controller {
        Controller {
            url: "https://bmc".parse().unwrap(),
            trust: BmcTrust::Any,
            login: Login { user: "u".to_owned(), password: Secret::new(String::new()) },
            privilege: None,
            expected: Expected { serial: Some("SN1".to_owned()), uuid: None },
            times: Times::default(),
        }
    }

    fn failure() -> BmcError {
        BmcError::Failed { url: String::new(), request: String::new(), reason: "500".to_owned() }
    }

    /// A system of this name and serial number; a whole one boots and can be reset.
    fn system(name: &str, serial: Value, whole: bool) -> Value {
        let mut system = json!({"@odata.id": format!("/{name}"), "SerialNumber": serial});
        if whole {
            system["Boot"] = json!({});
            system["Actions"] = json!({"#ComputerSystem.Reset": {"target": "/reset"}});
        }
        system
    }

    #[test]
    fn the_machine_is_found_among_systems() {
        let host = || system("host", json!("sn1"), true);
        let board = || system("board", json!("SN1"), false);
        let silent = || system("silent", Value::Null, true);
        let other = || system("other", json!("SN2"), true);
        let (well, failed) = (false, true);
        for (systems, unread, found) in [
            (vec![host()], well, "/host"),
            (vec![board(), host(), other()], well, "/host"),
            (vec![host(), board()], failed, "/host"),
            (vec![host(), silent()], well, "/host"),
            // A simple one, which has neither.
            (vec![board()], well, "/board"),
            (vec![board(), other()], well, "/board"),
            (vec![silent()], well, "/silent"),
            // The machine may be the one that told nothing this time.
            (vec![board(), silent()], well, "several systems"),
            (vec![board()], failed, "500"),
            (vec![], failed, "500"),
            (vec![other()], failed, "500"),
            (
                vec![board(), board()],
                well,
                "SerialNumber SN1 at /board; SerialNumber SN1 at /board",
            ),
            (vec![host(), host()], well, "several systems"),
            (vec![], well, "shows no machine"),
            (vec![other()], well, "another machine: SerialNumber SN2 at /other; wanted is serial"),
            (vec![silent(), silent()], well, "another machine"),
        ] {
            let unread = unread.then(failure);
            let told = choose(&controller(), &systems, unread);
            let told = told.unwrap_or_else(|error| error.to_string());
            assert!(told.contains(found), "{systems:?}: {told}");
        }
    }
}
