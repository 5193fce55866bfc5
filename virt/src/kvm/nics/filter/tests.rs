use super::*;

fn shown(mac: [u8; 6], ip: Option<&str>, is_routed: bool) -> String {
    let ip = ip.map(|ip| ip.parse().unwrap());
    rules("gnt123456789ab", MacAddress::new(mac), ip, is_routed)
}

#[test]
fn the_rules_of_each_kind_of_card() {
    let mac = [0xaa, 0, 0, 0x12, 0x34, 0x56];
    let kinds = [
        ("without an address", None, false),
        ("with one of IPv4", Some("10.0.0.5"), false),
        ("with one of IPv6", Some("2001:db8::9"), false),
        ("routed", Some("10.0.0.5"), true),
    ];
    let all: Vec<String> = kinds
        .into_iter()
        .map(|(name, ip, is_routed)| format!("# {name}\n{}", shown(mac, ip, is_routed)))
        .collect();
    insta::assert_snapshot!(all.join("\n"));
}

/// Rules have only letters that no value brings: a MAC address and an address are numbers.
#[test]
fn nothing_of_a_card_ends_a_rule() {
    let ips = [
        None,
        Some("255.255.255.255"),
        Some("::"),
        Some("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ];
    let count = |text: &str| text.matches(['\n', ';', '{', '}', '"', '#', '\\', '$']).count();
    for ip in ips {
        let wanted = count(&shown([0; 6], ip, false));
        for mac in [[0xff; 6], *b"\n;}{\"#", *b"$\\'`  "] {
            assert_eq!(count(&shown(mac, ip, false)), wanted, "{ip:?}");
        }
    }
}
