//! Core: devices of an instance, by index, UUID or name, and the place of a new one.

use model::opcode::instance::{DeviceChange, DeviceVerb};
use model::{Exception, Uuid};
use serde_json::Value;

use crate::units::wrong;

/// Something with an identity and perhaps a name.
pub(super) trait Device {
    fn uuid(&self) -> Uuid;
    fn name(&self) -> Option<&str>;
}

/// The place of the device that is meant: an index, −1 for the last one, a UUID or a name.
///
/// # Errors
/// There is none.
pub(super) fn place<D: Device>(
    devices: &[D],
    which: &Value,
    what: &str,
) -> Result<usize, Exception> {
    let found = match which {
        Value::String(text) => {
            let uuid = text.parse::<Uuid>().ok();
            let by_text =
                |device: &D| uuid == Some(device.uuid()) || device.name() == Some(text.as_str());
            let by_number = text.parse().ok().and_then(|index| indexed(devices.len(), index));
            devices.iter().position(by_text).or(by_number)
        }
        other => other.as_i64().and_then(|index| indexed(devices.len(), index)),
    };
    found.ok_or_else(|| wrong(format!("there is no {what} {which}; it has {}", devices.len())))
}

fn indexed(count: usize, index: i64) -> Option<usize> {
    match index {
        -1 => count.checked_sub(1),
        index => usize::try_from(index).ok().filter(|index| *index < count),
    }
}

/// The place of a new device: an index up to the number of those that are there, or −1 for the end.
///
/// # Errors
/// It leaves a gap, or is a name.
pub(super) fn new_place(
    count: usize,
    change: &DeviceChange,
    what: &str,
) -> Result<usize, Exception> {
    let index = match &change.1 {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    match index {
        Some(-1) => Ok(count),
        Some(index) => {
            usize::try_from(index).ok().filter(|index| *index <= count).ok_or_else(|| {
                wrong(format!("a new {what} gets a place from 0 to {count}, or −1 for the end"))
            })
        }
        None => Err(wrong(format!("a new {what} gets a place, and its name as a parameter"))),
    }
}

/// Refuses parameters where a device leaves.
pub(super) fn takes_none(change: &DeviceChange) -> Result<(), Exception> {
    let leaves = matches!(change.0, DeviceVerb::Remove | DeviceVerb::Detach);
    match leaves && !change.2.is_empty() {
        true => Err(wrong("Not accepting parameters on removal/detach")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct One(u128, Option<&'static str>);

    impl Device for One {
        fn uuid(&self) -> Uuid {
            Uuid::from_u128(self.0)
        }

        fn name(&self) -> Option<&str> {
            self.1
        }
    }

    #[test]
    fn devices_are_meant_in_each_way() {
        let devices = [One(1, None), One(2, Some("data")), One(3, None)];
        let found = |which: Value| place(&devices, &which, "disk").ok();
        for (which, wanted) in [
            (json!(0), Some(0)),
            (json!(-1), Some(2)),
            (json!("1"), Some(1)),
            (json!("data"), Some(1)),
            (json!("00000000-0000-0000-0000-000000000003"), Some(2)),
            (json!(3), None),
            (json!(-2), None),
            (json!("other"), None),
        ] {
            assert_eq!(found(which.clone()), wanted, "{which}");
        }
        let none: [One; 0] = [];
        assert!(place(&none, &json!(-1), "disk").is_err());
        let new = |which: Value| {
            let change = DeviceChange(DeviceVerb::Add, which, serde_json::Map::new());
            new_place(3, &change, "disk").ok()
        };
        assert_eq!(
            [json!(-1), json!(0), json!(3), json!(4)].map(new),
            [Some(3), Some(0), Some(3), None]
        );
    }
}
