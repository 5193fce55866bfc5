//! Core: what a switch told by LLDP (IEEE 802.1AB), as type, length and value in hexadecimal.

use std::net::{Ipv4Addr, Ipv6Addr};

use model::MacAddress;
use model::inventory::Neighbour;
use serde_json::Value;

/// Bytes of a value: its length has nine bits.
const VALUE_BYTES_MAX: usize = 511;
/// Values of one card that are looked at: switches send some thirty.
const VALUES_MAX: usize = 256;

/// Types of values: the end of a frame, and what this reads.
const END: u64 = 0;
const CHASSIS: u64 = 1;
const PORT: u64 = 2;
const PORT_DESCRIPTION: u64 = 4;
const SYSTEM: u64 = 5;

/// The other end of a cable; none where nothing that reads tells of it.
pub(crate) fn neighbour(values: &[Value]) -> Option<Neighbour> {
    let mut found = Neighbour::default();
    for (kind, bytes) in first_frame(values).filter_map(read) {
        // The first one counts, as a switch may tell each only once.
        let place = match kind {
            CHASSIS => &mut found.chassis,
            PORT => &mut found.port,
            PORT_DESCRIPTION => &mut found.port_description,
            SYSTEM => &mut found.system,
            _ => continue,
        };
        if place.is_empty() {
            *place = match kind {
                CHASSIS => identity(&bytes, 4, 5),
                PORT => identity(&bytes, 3, 4),
                _ => lossy(&bytes),
            };
        }
    }
    (found != Neighbour::default()).then_some(found)
}

/// The values of the first frame. A port may hear two switches, whose values then stand behind each
/// other: each frame begins with the identity of its switch.
fn first_frame(values: &[Value]) -> impl Iterator<Item = &Value> {
    let mut frames = 0;
    values.iter().take(VALUES_MAX).take_while(move |value| {
        let kind = value.get(0).and_then(Value::as_u64);
        frames += u32::from(kind == Some(CHASSIS));
        frames < 2 && kind != Some(END)
    })
}

/// Type and value. A value that is too long, or cut in the middle of a byte, is none.
fn read(value: &Value) -> Option<(u64, Vec<u8>)> {
    let [kind, value] = value.as_array()?.as_slice() else { return None };
    let digits = value.as_str()?;
    let bytes = (digits.len() <= 2 * VALUE_BYTES_MAX).then(|| hex::decode(digits).ok()).flatten();
    Some((kind.as_u64()?, bytes.filter(|bytes| !bytes.is_empty())?))
}

/// The identity of a switch or a port, whose first byte says what it is: an Ethernet address, an address
/// of a network, or a text.
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

/// A text as far as it is one.
fn lossy(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text: String = text.chars().filter(|character| !character.is_control()).collect();
    text.trim().to_owned()
}

/// An identity: a text where most of it is one, else hexadecimal digits.
fn plain(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let text = &bytes[..end];
    let graphic = text.iter().filter(|byte| byte.is_ascii_graphic()).count();
    let has_control = text.iter().any(u8::is_ascii_control);
    let is_text = std::str::from_utf8(text).is_ok() || 2 * graphic > text.len();
    if is_text && !has_control { lossy(text) } else { hex::encode(bytes) }
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
    fn one_port_has_one_neighbour() {
        let first = [json!([1, "0464649b32f300"]), json!([2, "0545746831"]), json!([5, "7331"])];
        let second = [
            json!([1, "0464649b32f3ff"]),
            json!([2, "0545746839"]),
            json!([4, "7570206c696e6b"]),
            json!([5, "7332"]),
        ];
        let told = neighbour(&first).unwrap();
        assert_eq!((&*told.port, &*told.system, &*told.port_description), ("Eth1", "s1", ""));
        for between in
            [vec![], vec![json!([0, ""])], vec![json!([0, null])], vec![json!([3, "0078"])]]
        {
            let all = [&first[..], &between, &second].concat();
            assert_eq!(neighbour(&all).as_ref(), Some(&told), "{between:?}");
        }
        // A chassis that does not read begins a frame all the same.
        let odd = [&first[..], &[json!([1, "zz"])], &second[1..]].concat();
        assert_eq!(neighbour(&odd), Some(told));
        assert_eq!(neighbour(&[json!([0, ""])]), None);
    }

    #[test]
    fn texts_that_are_none_in_part_are_read() {
        let told = [
            json!([1, "07737769746368e931"]),
            json!([2, "074574682031e92f31"]),
            json!([4, "757020e96c696e6b0d0a"]),
            json!([5, "ff"]),
        ];
        let found = neighbour(&told).unwrap();
        assert_eq!((&*found.chassis, &*found.port), ("switch\u{fffd}1", "Eth 1\u{fffd}/1"));
        assert_eq!((&*found.port_description, &*found.system), ("up \u{fffd}link", "\u{fffd}"));
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
