//! REQUEST: the four kinds, and what a server says to each.

use super::*;

const OTHER: &str = "silence: it is meant for another server";
const UNKNOWN: &str = "silence: the client is unknown here";
const INCOMPLETE: &str = "silence: fields that it needs are missing";
const NAK: &str = "NAK broadcast";

#[test]
fn selecting_an_offer() {
    check(vec![
        case(
            "request.selecting",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame").with(54, US.octets())),
            ],
        ),
        case(
            "request.selecting_again",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
            ],
        ),
        case("request.selecting_without_an_offer", [(all(selecting(A, at(32))), gets(NAK))]),
        case(
            "request.selecting_another_address",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(33))), gets(NAK)),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
            ],
        ),
        case(
            "request.selecting_anothers_offer",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(discover(B)), gets("OFFER .33 frame")),
                (all(selecting(B, at(32))), gets(NAK)),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
            ],
        ),
        case(
            "request.selecting_another_server",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(request(A).address(50, at(40)).address(54, OTHER_SERVER)), gets(OTHER)),
                (all(discover(B)), gets("OFFER .32 frame")),
            ],
        ),
        case(
            "request.selecting_another_server_keeps_a_lease",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
                (all(request(A).address(50, at(40)).address(54, OTHER_SERVER)), gets(OTHER)),
                (all(discover(B)), gets("OFFER .33 frame")),
            ],
        ),
    ]);
}

#[test]
fn selecting_late_or_badly() {
    check(vec![
        case(
            "request.selecting_late_while_nobody_else_came",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))).after(31), gets("ACK .32 frame")),
            ],
        ),
        narrow(
            "request.selecting_too_late",
            1,
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(discover(B)).after(31), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets(NAK)),
                (all(selecting(B, at(32))), gets("ACK .32 frame")),
            ],
        ),
        case(
            "request.selecting_without_an_address",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(request(A).address(54, US)), gets(INCOMPLETE)),
            ],
        ),
        case(
            "request.selecting_with_a_short_server",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                // A server identifier that cannot be read is none: the client reboots.
                (
                    all(request(A).address(50, at(32)).option(54, &[10, 69, 0])),
                    gets("ACK .32 frame"),
                ),
            ],
        ),
        case(
            "request.selecting_no_server",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (
                    all(request(A).address(50, at(32)).address(54, Ipv4Addr::UNSPECIFIED)),
                    gets(OTHER),
                ),
                (all(request(A).address(50, at(32)).address(54, Ipv4Addr::BROADCAST)), gets(OTHER)),
                (all(request(A).address(50, at(32)).address(54, at(63))), gets(OTHER)),
                (all(request(A).address(50, at(32)).address(54, at(0))), gets(OTHER)),
                (
                    all(request(A).address(50, at(32)).address(54, Ipv4Addr::new(224, 0, 0, 1))),
                    gets(OTHER),
                ),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
            ],
        ),
        case(
            "request.selecting_an_address_of_another_network",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, ELSEWHERE)), gets(NAK)),
            ],
        ),
        case("request.with_nothing", [(all(request(A)), gets(INCOMPLETE))]),
    ]);
}

#[test]
fn rebooting_with_an_address() {
    let lease = || {
        [
            (all(discover(A)), gets("OFFER .32 frame")),
            (all(selecting(A, at(32))), gets("ACK .32 frame")),
        ]
    };
    let after = |name, turn| {
        let [first, second] = lease();
        case(name, [first, second, turn])
    };
    check(vec![
        after("request.init_reboot", (all(rebooting(A, at(32))), gets("ACK .32 frame"))),
        after("request.init_reboot_wrong_address", (all(rebooting(A, at(33))), gets(NAK))),
        after("request.init_reboot_anothers_address", (all(rebooting(B, at(32))), gets(NAK))),
        after("request.init_reboot_wrong_network", (all(rebooting(A, ELSEWHERE)), gets(NAK))),
        after(
            "request.init_reboot_after_the_end",
            (all(rebooting(A, at(32))).after(2 * LEASE), gets("ACK .32 frame")),
        ),
        case("request.init_reboot_never_leased", [(all(rebooting(A, at(40))), gets(NAK))]),
        case("request.init_reboot_not_ours_to_lease", [(all(rebooting(A, at(9))), gets(UNKNOWN))]),
        case(
            "request.init_reboot_wrong_network_unknown",
            [(all(rebooting(A, ELSEWHERE)), gets(NAK))],
        ),
        case(
            "request.init_reboot_of_a_quarantined_address",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(declining(A, at(32))), gets("declined .32")),
                (all(rebooting(A, at(32))), gets(NAK)),
                (all(rebooting(B, at(32))), gets(NAK)),
            ],
        ),
        case(
            "request.init_reboot_with_a_short_address",
            [(all(request(A).option(50, &[10, 69, 0])), gets(INCOMPLETE))],
        ),
    ]);
}

#[test]
fn extending_a_lease() {
    let after = |name, turn| {
        let lease = (all(discover(A)), gets("OFFER .32 frame"));
        case(name, [lease, (all(selecting(A, at(32))), gets("ACK .32 frame")), turn])
    };
    let straight = "ACK .32 10.69.0.32:68";
    check(vec![
        after("request.renewing", (us(extending(A, at(32))).from(at(32)), gets(straight))),
        after(
            "request.renewing_after_half",
            (us(extending(A, at(32))).after(LEASE / 2), gets(straight)),
        ),
        after(
            "request.renewing_names_the_server",
            (us(extending(A, at(32)).address(54, US)), gets(straight)),
        ),
        after(
            "request.renewing_names_another_server",
            (us(extending(A, at(32)).address(54, OTHER_SERVER)), gets(OTHER)),
        ),
        after(
            "request.renewing_repeats_the_address",
            (us(extending(A, at(32)).address(50, at(32))), gets(straight)),
        ),
        after(
            "request.renewing_contradicts_itself",
            (us(extending(A, at(32)).address(50, at(33))), gets(INCOMPLETE)),
        ),
        after("request.renewing_anothers_lease", (us(extending(B, at(32))), gets(NAK))),
        after("request.renewing_after_the_end", (us(extending(A, at(32))).after(LEASE), gets(NAK))),
        after(
            "request.renewing_an_unserved_address",
            (us(extending(A, ELSEWHERE)), gets("silence: its network is not served here")),
        ),
        after("request.rebinding", (all(extending(A, at(32))), gets(straight))),
        after(
            "request.rebinding_wants_broadcasts",
            (all(extending(A, at(32)).broadcast()), gets(straight)),
        ),
        after("request.rebinding_anothers_lease", (all(extending(B, at(32))), gets(NAK))),
        after(
            "request.rebinding_after_the_end",
            (all(extending(A, at(32))).after(LEASE), gets(NAK)),
        ),
        after("request.rebinding_wrong_network", (all(extending(A, ELSEWHERE)), gets(NAK))),
        after(
            "request.rebinding_through_a_relay",
            (all(extending(A, at(32)).giaddr(RELAY)), gets("ACK .32 10.69.0.10:67")),
        ),
        case("request.renewing_unknown", [(us(extending(A, at(40))), gets(NAK))]),
        case("request.rebinding_unknown", [(all(extending(A, at(40))), gets(UNKNOWN))]),
    ]);
}
