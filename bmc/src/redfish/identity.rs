//! Which of a controller's systems is the machine that is meant, and whether it is.

use model::Uuid;
use serde_json::Value;

use crate::error::BmcError;
use crate::target::Controller;

/// Serial numbers that boards have whose maker forgot theirs; they tell nothing.
const PLACEHOLDERS: [&str; 6] =
    ["to be filled by o.e.m.", "default string", "not specified", "none", "unknown", "0"];

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

/// The path of the system that is the machine.
pub(super) fn choose(controller: &Controller, systems: &[Value]) -> Result<String, BmcError> {
    let of = |wanted: Likeness| {
        systems.iter().filter(move |system| likeness(controller, system) == wanted)
    };
    let chosen = match (of(Likeness::Same).next(), systems) {
        (Some(same), _) => same,
        // The only one, and it says nothing against it.
        (None, [only]) if likeness(controller, only) == Likeness::Unknown => only,
        (None, _) => {
            let told: Vec<String> = systems.iter().map(told).collect();
            return Err(BmcError::OtherMachine {
                url: controller.url.to_string(),
                told: if told.is_empty() { "none at all".to_owned() } else { told.join("; ") },
                wanted: wanted(controller),
            });
        }
    };
    let path = chosen["@odata.id"].as_str().map(str::to_owned);
    path.ok_or_else(|| BmcError::Nonsense {
        url: controller.url.to_string(),
        request: "GET of its systems".to_owned(),
        reason: "a system has no `@odata.id`".to_owned(),
    })
}

fn likeness(controller: &Controller, system: &Value) -> Likeness {
    let expected = &controller.expected;
    let serial = |name: &str| {
        let (told, expected) = (system[name].as_str()?.trim(), expected.serial.as_deref()?);
        let is_placeholder = PLACEHOLDERS.iter().any(|none| told.eq_ignore_ascii_case(none));
        (!told.is_empty() && !is_placeholder).then(|| told.eq_ignore_ascii_case(expected))
    };
    let uuid = || {
        let told: Uuid = system["UUID"].as_str()?.parse().ok()?;
        let swapped = Uuid::from_bytes_le(told.into_bytes());
        let expected = expected.uuid?;
        // The first three groups are written in either byte order (SMBIOS 2.6).
        (!told.is_nil()).then(|| told == expected || swapped == expected)
    };
    // What firmware calls the serial number is the service tag, in `SKU`, on some (Dell).
    let compared = [serial("SerialNumber"), serial("SKU"), uuid()];
    if compared.contains(&Some(true)) {
        Likeness::Same
    } else if compared[0].is_some() || compared[2].is_some() {
        Likeness::Other
    } else {
        Likeness::Unknown
    }
}

fn told(system: &Value) -> String {
    let field = |name: &str| {
        let value = system[name].as_str().filter(|value| !value.is_empty())?;
        Some(format!("{name} {}", model::inventory::text(value)))
    };
    let fields: Vec<String> =
        ["SerialNumber", "SKU", "UUID"].iter().filter_map(|name| field(name)).collect();
    if fields.is_empty() {
        "a system without a serial number".to_owned()
    } else {
        fields.join(", ")
    }
}

fn wanted(controller: &Controller) -> String {
    let expected = &controller.expected;
    let serial = expected.serial.as_ref().map(|serial| format!("serial {serial}"));
    let uuid = expected.uuid.map(|uuid| format!("UUID {uuid}"));
    let all: Vec<String> = serial.into_iter().chain(uuid).collect();
    if all.is_empty() { "one system".to_owned() } else { all.join(", ") }
}
