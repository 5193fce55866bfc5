//! Relays: whose network it is, what is echoed, and where the reply goes.

use super::*;

/// Circuit `eth0`.
const CIRCUIT: &[u8] = b"\x01\x04eth0";
const UNSERVED: &str = "silence: its network is not served here";
const NO_RELAY: &str = "silence: its relay's address can be no host's";

#[test]
fn what_relays_lead_to() {
    let one = |name, request, expected| case(name, [(all(request), expected)]);
    let relayed = || discover(A).giaddr(RELAY);
    let back = || gets("OFFER .32 10.69.0.10:67");
    check(vec![
        one("relay.discover", relayed(), back().without(&[82])),
        one("relay.discover_with_option", relayed().option(82, CIRCUIT), back().with(82, CIRCUIT)),
        one("relay.wants_broadcasts", relayed().broadcast(), back()),
        one("relay.of_an_unserved_network", discover(A).giaddr(FAR_RELAY), gets(UNSERVED)),
        one(
            "relay.link_selection",
            discover(A).giaddr(FAR_RELAY).option(82, &[5, 4, 10, 69, 0, 1]),
            gets("OFFER .32 192.0.2.1:67").with(82, [5, 4, 10, 69, 0, 1]),
        ),
        one(
            "relay.link_selection_elsewhere",
            relayed().option(82, &[5, 4, 192, 0, 2, 1]),
            gets(UNSERVED),
        ),
        one("relay.link_selection_of_3_bytes", relayed().option(82, &[5, 3, 192, 0, 2]), back()),
        one(
            "relay.server_identifier",
            relayed().option(82, &[11, 4, 10, 69, 0, 10]),
            back().with(54, RELAY.octets()),
        ),
        one(
            "relay.server_identifier_zero",
            relayed().option(82, &[11, 4, 0, 0, 0, 0]),
            back().with(54, US.octets()),
        ),
        one(
            "relay.server_identifier_broadcast",
            relayed().option(82, &[11, 4, 255, 255, 255, 255]),
            back().with(54, US.octets()),
        ),
        one(
            "relay.server_identifier_multicast",
            relayed().option(82, &[11, 4, 224, 0, 0, 1]),
            back().with(54, US.octets()),
        ),
        // Of the network, not ours, and not the relay's: clients would write there.
        one(
            "relay.server_identifier_of_all_hosts",
            relayed().option(82, &[11, 4, 10, 69, 0, 63]),
            back().with(54, US.octets()),
        ),
        one(
            "relay.server_identifier_of_the_network",
            relayed().option(82, &[11, 4, 10, 69, 0, 0]),
            back().with(54, US.octets()),
        ),
        one(
            "relay.server_identifier_of_a_client",
            relayed().option(82, &[11, 4, 10, 69, 0, 40]),
            back().with(54, US.octets()),
        ),
        one(
            "relay.server_identifier_of_another_host",
            relayed().option(82, &[11, 4, 10, 69, 0, 4]),
            back().with(54, US.octets()),
        ),
        one("relay.source_port", relayed().option(82, &[19, 0]), gets("OFFER .32 10.69.0.10:68")),
    ]);
}

#[test]
fn what_is_told_of_relays() {
    let one = |name, request, expected| case(name, [(all(request), expected)]);
    let relayed = || discover(A).giaddr(RELAY);
    let back = || gets("OFFER .32 10.69.0.10:67");
    check(vec![
        one(
            "relay.unknown_sub_options",
            relayed().option(82, &[200, 1, 7, 1, 1, 9]),
            back().with(82, [200, 1, 7, 1, 1, 9]),
        ),
        one("relay.a_cut_sub_option", relayed().option(82, &[1, 9, 7]), back().with(82, [1, 9, 7])),
        one("relay.an_empty_option", relayed().option(82, b""), back().with(82, b"")),
        one(
            "relay.a_split_option",
            relayed().option(82, b"\x01\x04et").option(82, b"h0"),
            back().with(82, CIRCUIT),
        ),
        one(
            "relay.option_without_a_relay",
            discover(A).option(82, CIRCUIT),
            gets("silence: it has a relay's option, but came without a relay"),
        ),
        // A reply there would reach every host, or us.
        one("relay.giaddr_broadcast", discover(A).giaddr(at(63)), gets(NO_RELAY)),
        one("relay.giaddr_network", discover(A).giaddr(at(0)), gets(NO_RELAY)),
        one("relay.giaddr_ours", discover(A).giaddr(US), gets(NO_RELAY)),
        one(
            "relay.giaddr_everyone",
            discover(A).giaddr(Ipv4Addr::BROADCAST).option(82, &[5, 4, 10, 69, 0, 1]),
            gets(NO_RELAY),
        ),
        one(
            "relay.giaddr_multicast",
            discover(A).giaddr(Ipv4Addr::new(224, 0, 0, 1)).option(82, &[5, 4, 10, 69, 0, 1]),
            gets(NO_RELAY),
        ),
        one(
            "relay.giaddr_loopback",
            discover(A).giaddr(Ipv4Addr::LOCALHOST).option(82, &[5, 4, 10, 69, 0, 1]),
            gets(NO_RELAY),
        ),
    ]);
}

#[test]
fn conversations_through_relays() {
    check(vec![
        case(
            "relay.exchange",
            [
                (
                    all(discover(A).giaddr(RELAY).option(82, CIRCUIT)),
                    gets("OFFER .32 10.69.0.10:67"),
                ),
                (
                    all(selecting(A, at(32)).giaddr(RELAY).option(82, CIRCUIT)),
                    gets("ACK .32 10.69.0.10:67").with(82, CIRCUIT),
                ),
            ],
        ),
        case(
            "relay.two_relays_of_one_message",
            [
                (all(discover(A).giaddr(RELAY)), gets("OFFER .32 10.69.0.10:67")),
                (all(discover(A).giaddr(at(11))), gets("OFFER .32 10.69.0.11:67")),
            ],
        ),
        case(
            "relay.direct_and_relayed_are_one_client",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(discover(A).giaddr(RELAY)), gets("OFFER .32 10.69.0.10:67")),
            ],
        ),
    ]);
}

#[test]
fn refusals_and_ends_through_relays() {
    check(vec![
        case(
            "relay.refusal",
            [(
                all(rebooting(A, at(33)).giaddr(RELAY).option(82, CIRCUIT)),
                gets("NAK 10.69.0.10:67").with(82, CIRCUIT),
            )],
        ),
        case(
            "relay.init_reboot_wrong_network",
            [(all(rebooting(A, ELSEWHERE).giaddr(RELAY)), gets("NAK 10.69.0.10:67"))],
        ),
        case(
            "relay.renewal_to_a_server_identifier_of_the_relay",
            [
                (
                    all(discover(A).giaddr(RELAY).option(82, &[11, 4, 10, 69, 0, 10])),
                    gets("OFFER .32 10.69.0.10:67"),
                ),
                (
                    all(request(A)
                        .address(50, at(32))
                        .address(54, RELAY)
                        .giaddr(RELAY)
                        .option(82, &[11, 4, 10, 69, 0, 10])),
                    gets("ACK .32 10.69.0.10:67").with(54, RELAY.octets()),
                ),
                (
                    us(extending(A, at(32)).giaddr(RELAY).option(82, &[11, 4, 10, 69, 0, 10])),
                    gets("ACK .32 10.69.0.10:67"),
                ),
            ],
        ),
        case(
            "relay.decline",
            [
                (all(discover(A).giaddr(RELAY)), gets("OFFER .32 10.69.0.10:67")),
                (all(declining(A, at(32)).giaddr(RELAY)), gets("declined .32")),
            ],
        ),
        case(
            "relay.release",
            [
                (all(discover(A).giaddr(RELAY)), gets("OFFER .32 10.69.0.10:67")),
                (all(selecting(A, at(32)).giaddr(RELAY)), gets("ACK .32 10.69.0.10:67")),
                (us(releasing(A, at(32)).giaddr(RELAY)), gets("released .32")),
            ],
        ),
    ]);
}
