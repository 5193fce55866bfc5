//! Core: what a switch told by LLDP (IEEE 802.1AB), as type, length and value in hexadecimal.

use std::net::{Ipv4Addr, Ipv6Addr};

use model::MacAddress;
use model::inventory::Neighbour;
use serde_json::Value;

/// Bytes of a value: its length has nine bits.
const VALUE_BYTES_MAX: usize = 511;
/// Values of one card that are looked at: switches send some thirty.
const VALUES_MAX: usize = 256;

/// The other end of a cable; none where nothing that reads tells of it.
pub(crate) fn neighbour(values: &[Value]) -> Option<Neighbour> {
    let mut found = Neighbour::default();
    for value in values.iter().take(VALUES_MAX) {
        let Some((kind, bytes)) = read(value) else { continue };
        // The first one counts, as a switch may tell each only once.
        let place = match kind {
            1 => &mut found.chassis,
            2 => &mut found.port,
            4 => &mut found.port_description,
            5 => &mut found.system,
            _ => continue,
        };
        if place.is_empty() {
            *place = match kind {
                1 => identity(&bytes, 4, 5),
                2 => identity(&bytes, 3, 4),
                _ => plain(&bytes),
            };
        }
    }
    (found != Neighbour::default()).then_some(found)
}

/// Type and value. One that is too long, or cut in the middle of a byte, is none.
fn read(value: &Value) -> Option<(u64, Vec<u8>)> {
    let [kind, value] = value.as_array()?.as_slice() else { return None };
    let digits = value.as_str()?;
    let bytes = (digits.len() <= 2 * VALUE_BYTES_MAX).then(|| hex::decode(digits).ok()).flatten();
    Some((kind.as_u64()?, bytes.filter(|bytes| !bytes.is_empty())?))
}

/// The identity of a switch or a port, whose first byte says what it is: an Ethernet address, an address of
/// a network, or a text.
fn identity(bytes: &[u8], ethernet: u8, network: u8) -> String {
    let Some((kind, rest)) = bytes.split_first() else { return String::new() };
    if *kind == ethernet
        && let Ok(mac) = <[u8; 6]>::try_from(rest)
    {
        return MacAddress::new(mac).to_string();
    }
    match rest {
        [1, address @ ..] if *kind == network => <[u8; 4]>::try_from(address)
            .map_or_else(|_| plain(rest), |address| Ipv4Addr::from(address).to_string()),
        [2, address @ ..] if *kind == network => <[u8; 16]>::try_from(address)
            .map_or_else(|_| plain(rest), |address| Ipv6Addr::from(address).to_string()),
        _ => plain(rest),
    }
}

/// A text; as hexadecimal where it is none.
fn plain(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).map(|text| text.trim_matches(['\0', ' ']));
    match text {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        Ok(_) | Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_switches() {
        let told = json!([
            [1, "0464649b32f300"],
            [2, "0545746865726e6574312f31"],
            [4, "706f7274206f6e65"],
            [5, "7377697463682d31"],
            [5, "7468652d7365636f6e64"],
            [127, "0080c2010001"]
        ]);
        let found = neighbour(told.as_array().unwrap()).unwrap();
        let named = Neighbour {
            chassis: "64:64:9b:32:f3:00".into(),
            system: "switch-1".into(),
            port: "Ethernet1/1".into(),
            port_description: "port one".into(),
        };
        assert_eq!(found, named);
        // A port that is told by its address has its name in the description.
        let told = json!([[2, "0364649b32f301"], [4, "6765302f302f31"], [1, "05010a000001"]]);
        let found = neighbour(told.as_array().unwrap()).unwrap();
        assert_eq!(
            (&*found.port, &*found.port_description, &*found.chassis),
            ("64:64:9b:32:f3:01", "ge0/0/1", "10.0.0.1")
        );
    }

    #[test]
    fn values_that_do_not_read_are_ignored() {
        let long = "41".repeat(VALUE_BYTES_MAX + 1);
        for told in [
            json!([[4, long]]),
            json!([[4, "414"]]),
            json!([[4, "4x"]]),
            json!([[4, "+4+1"]]),
            json!([[4, ""]]),
            json!([[4]]),
            json!([4, "41"]),
            json!([["4", "41"]]),
            json!([[4, "41", 1]]),
            json!([[9, "41"]]),
            json!([[4, "äa"]]),
        ] {
            assert_eq!(neighbour(told.as_array().unwrap()), None, "{told}");
        }
        let longest = json!([[4, "41".repeat(VALUE_BYTES_MAX)]]);
        assert!(neighbour(longest.as_array().unwrap()).is_some());
        let binary = json!([[2, "07ff00"]]);
        assert_eq!(neighbour(binary.as_array().unwrap()).unwrap().port, "ff00");
    }
}
