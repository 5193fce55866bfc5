//! DISCOVER: which address is offered.

use super::*;

const FULL: &str = "silence: no address is free";

#[test]
fn which_address_is_offered() {
    check(vec![
        case(
            "discover.lowest_free",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(discover(B)), gets("OFFER .33 frame")),
            ],
        ),
        case(
            "discover.again_gets_the_same_offer",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(discover(A).bytes_at(4, &[1; 4])), gets("OFFER .32 frame")),
                (all(discover(A)).after(29), gets("OFFER .32 frame")),
            ],
        ),
        case(
            "discover.requested_address_is_offered",
            [(all(discover(A).address(50, at(50))), gets("OFFER .50 frame"))],
        ),
        case(
            "discover.requested_address_of_another_network",
            [(all(discover(A).address(50, ELSEWHERE)), gets("OFFER .32 frame"))],
        ),
        case(
            "discover.requested_address_that_is_not_leased",
            [
                (all(discover(A).address(50, US)), gets("OFFER .32 frame")),
                (all(discover(B).address(50, at(1))), gets("OFFER .33 frame")),
                (all(discover(C).address(50, at(63))), gets("OFFER .34 frame")),
            ],
        ),
        case(
            "discover.requested_address_that_another_holds",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
                (all(discover(B).address(50, at(32))), gets("OFFER .33 frame")),
            ],
        ),
        case(
            "discover.requested_address_that_was_offered_to_another",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(discover(B).address(50, at(32))), gets("OFFER .33 frame")),
            ],
        ),
    ]);
}

#[test]
fn who_is_offered_which_address() {
    check(vec![
        case(
            "discover.a_holder_is_offered_what_it_holds",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
                (all(discover(A).address(50, at(40))), gets("OFFER .32 frame")),
            ],
        ),
        case(
            "discover.an_ended_lease_comes_back",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
                (all(discover(B)).after(2 * LEASE), gets("OFFER .33 frame")),
                (all(discover(A)), gets("OFFER .32 frame")),
            ],
        ),
        case(
            "discover.two_clients_with_one_transaction",
            [
                (all(discover(A).bytes_at(4, &[7; 4])), gets("OFFER .32 frame")),
                (all(discover(B).bytes_at(4, &[7; 4])), gets("OFFER .33 frame")),
            ],
        ),
        case(
            "discover.another_client_identifier_of_one_machine",
            [
                (all(discover(A).option(61, b"\x01one")), gets("OFFER .32 frame")),
                (all(discover(A).option(61, b"\xfftwo")), gets("OFFER .32 frame")),
                (all(discover(A)), gets("OFFER .32 frame")),
            ],
        ),
        case(
            "discover.one_client_identifier_of_two_machines",
            [
                (all(discover(A).option(61, b"\x00same")), gets("OFFER .32 frame")),
                (all(discover(B).option(61, b"\x00same")), gets("OFFER .33 frame")),
            ],
        ),
        case(
            "discover.a_rapid_commit_is_an_offer",
            [(all(discover(A).option(80, b"")), gets("OFFER .32 frame").without(&[80]))],
        ),
        case(
            "discover.the_name_of_a_server_means_nothing",
            [(
                all(discover(A).address(54, OTHER_SERVER)),
                gets("OFFER .32 frame").with(54, US.octets()),
            )],
        ),
    ]);
}

#[test]
fn a_range_that_is_used_up() {
    check(vec![
        narrow(
            "discover.full_range",
            1,
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
                (all(discover(B)), gets("alarm: no address is free")),
                (all(discover(C)), gets(FULL)),
                (all(discover(A)), gets("OFFER .32 frame")),
            ],
        ),
        narrow(
            "discover.an_offer_that_nobody_took",
            1,
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(discover(B)).after(29), gets("alarm: no address is free")),
                (all(discover(B)).after(1), gets("OFFER .32 frame")),
            ],
        ),
        narrow(
            "discover.the_longest_ended_lease_goes_first",
            2,
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
                (all(discover(B)).after(9), gets("OFFER .33 frame")),
                (all(selecting(B, at(33))), gets("ACK .33 frame")),
                (all(discover(C)).after(2 * LEASE), gets("OFFER .32 frame")),
            ],
        ),
        narrow(
            "discover.quarantine_ends",
            1,
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(declining(A, at(32))), gets("declined .32")),
                (all(discover(A)), gets("alarm: no address is free")),
                (all(discover(A)).after(3_600), gets("OFFER .32 frame")),
            ],
        ),
    ]);
}
