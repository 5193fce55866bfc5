use model::Uuid;
use model::instance::parameters::Parameters;
use proptest::prelude::{any, prop_assert, proptest};

use super::*;

fn nic(mode: &str, link: &str, vlan: &str, ip: Option<&str>) -> NicLaunch {
    let values = [("mode", mode), ("link", link), ("vlan", vlan)];
    let nicparams: Parameters =
        values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    NicLaunch {
        uuid: Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef),
        mac: "aa:00:00:12:34:56".parse().unwrap(),
        ip: ip.map(|ip| ip.parse().unwrap()),
        network: None,
        nicparams,
    }
}

fn place(mode: &str, link: &str, vlan: &str, ip: Option<&str>) -> Result<Place, CardError> {
    plan(&nic(mode, link, vlan, ip), "# numbers\n100\tdmz # ours\n0 nothing\n")
        .map(|plan| plan.place)
}

fn both(untagged: Option<u16>, tagged: &[u16]) -> Option<Vlans> {
    Some(Vlans { untagged, tagged: tagged.iter().copied().collect() })
}

#[test]
fn a_card_has_an_interface_of_its_own() {
    let card = plan(&nic("bridged", "br0", "", None), "").unwrap();
    assert_eq!(card.interface, "gnt123456789ab");
    assert_eq!(card.address, [0xfe, 0, 0, 0x12, 0x34, 0x56]);
    // The interface must not have the address of its guest.
    assert_eq!(address([0xfe, 0, 0, 1, 2, 3]), [0xfa, 0, 0, 1, 2, 3]);
    assert!(card.filter.contains("table netdev gantry-gnt123456789ab {"), "{}", card.filter);
}

#[test]
fn each_mode_has_its_place() {
    let bridge = || "br0".to_owned();
    let address = "10.0.0.5".parse().unwrap();
    let bridged = |vlans| Ok(Place::Bridge { bridge: bridge(), vlans });
    let switched = |vlans| Ok(Place::Switch { bridge: bridge(), vlans });
    let routed = |table| Ok(Place::Routed { address, table });
    let ip = Some("10.0.0.5");
    assert_eq!(place("bridged", "br0", "", ip), bridged(None));
    assert_eq!(place("bridged", "br0", ".100", None), bridged(both(Some(100), &[])));
    assert_eq!(place("openvswitch", "br0", "", None), switched(None));
    assert_eq!(place("openvswitch", "br0", "100", None), switched(both(Some(100), &[])));
    assert_eq!(place("openvswitch", "br0", ":1:2", None), switched(both(None, &[1, 2])));
    let hybrid = both(Some(100), &[1, 2]);
    assert_eq!(place("openvswitch", "br0", ".100:2:1:2", None), switched(hybrid));
    assert_eq!(place("routed", "", "", ip), routed(254));
    assert_eq!(place("routed", "main", ".9", ip), routed(254));
    assert_eq!(place("routed", "7", "", ip), routed(7));
    assert_eq!(place("routed", "4294967295", "", ip), routed(u32::MAX));
    assert_eq!(place("routed", "dmz", "", ip), routed(100));
}

#[test]
fn a_card_that_cannot_be_connected_is_refused_by_its_parameter() {
    let ip = Some("10.0.0.5");
    let mode = |mode: &str| Err(CardError::Mode(mode.to_owned()));
    assert_eq!(place("pool", "br0", "", ip), mode("pool"));
    assert_eq!(place("", "br0", "", ip), mode(""));
    for link in ["", "-br0", "--db=x", "br 0", "br/0", "..", "a-name-too-long-1", "br0;reboot", "ü"]
    {
        let refused = Err(CardError::Link(link.to_owned()));
        assert_eq!(place("bridged", link, "", ip), refused);
        assert_eq!(place("openvswitch", link, "", ip), refused);
    }
    let wrong =
        [".", ":", ".0", ".4095", "0", "x", ".x", "1.2", ":1:", "::1", ".5:5", "+5", ".-1", " 1"];
    for vlan in wrong {
        assert_eq!(place("bridged", "br0", vlan, ip), Err(CardError::Vlan(vlan.to_owned())));
    }
    assert_eq!(place("routed", "", "", None), Err(CardError::NoAddress));
    for link in ["xen-br0", "0", "nothing", "4294967296", "-1"] {
        assert_eq!(place("routed", link, "", ip), Err(CardError::NoTable(link.to_owned())));
    }
}

#[test]
fn a_bridge_is_joined_if_it_does_with_vlans_what_the_card_wants() {
    use VlanStep::{Remove, Tagged, Untagged};
    let plain = FoundLink { index: 4, mtu: 9_000, is_bridge: true, has_vlans: None, usual_vlan: 0 };
    let off = FoundLink { has_vlans: Some(false), usual_vlan: 1, ..plain };
    let on = FoundLink { has_vlans: Some(true), ..off };
    let bare = FoundLink { usual_vlan: 0, ..on };
    let no_bridge = FoundLink { is_bridge: false, ..plain };
    let name = || "br0".to_owned();
    let (access, hybrid) = (both(Some(100), &[]), both(Some(7), &[1, 2]));
    let rows = [
        (plain, None, Ok(vec![])),
        (off, None, Ok(vec![])),
        // The bridge gives it the usual VLAN by itself.
        (on, None, Ok(vec![])),
        (no_bridge, None, Err(CardError::NoLinuxBridge(name()))),
        (plain, access.clone(), Err(CardError::NoVlans(name()))),
        (off, access.clone(), Err(CardError::VlansOff(name()))),
        (on, access.clone(), Ok(vec![Remove(1), Untagged(100)])),
        (bare, access, Ok(vec![Untagged(100)])),
        (on, hybrid, Ok(vec![Remove(1), Untagged(7), Tagged(1), Tagged(2)])),
        (on, both(None, &[3]), Ok(vec![Remove(1), Tagged(3)])),
    ];
    for (found, vlans, wanted) in rows {
        assert_eq!(joins("br0", &found, vlans.as_ref()), wanted, "{found:?} {vlans:?}");
    }
    let told = CardError::NoVlans(name()).to_string();
    assert!(told.contains("br0") && told.contains("CONFIG_BRIDGE_VLAN_FILTERING"), "{told}");
}

#[test]
fn open_vswitch_is_told_of_vlans_in_its_own_words() {
    let columns = |vlans: Option<Vlans>| columns(vlans.as_ref()).join(" ");
    assert_eq!(columns(None), "");
    assert_eq!(columns(both(Some(100), &[])), "tag=100 vlan_mode=access");
    assert_eq!(columns(both(None, &[1, 2])), "trunks=1,2 vlan_mode=trunk");
    let hybrid = columns(both(Some(100), &[1, 2]));
    assert_eq!(hybrid, "tag=100 trunks=1,2 vlan_mode=native-untagged");
}

proptest! {
    /// Words of a tenant become numbers and names, or nothing.
    #[test]
    fn any_words_are_read_or_refused(link in any::<String>(), vlan in any::<String>()) {
        for mode in ["bridged", "openvswitch", "routed"] {
            let Ok(plan) = plan(&nic(mode, &link, &vlan, Some("fd00::9")), &link) else { continue };
            prop_assert!(!plan.filter.contains(&link) || link.len() < 5, "{}", plan.filter);
            if let Place::Switch { bridge, .. } = plan.place {
                prop_assert!(bridge.len() <= NAME_BYTES_MAX && !bridge.starts_with('-'));
            }
        }
    }
}
