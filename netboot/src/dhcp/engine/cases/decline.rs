//! DECLINE: an address that another host uses.

use super::*;

const NOT_HELD: &str = "silence: the client does not hold the address";
const INCOMPLETE: &str = "silence: fields that it needs are missing";

fn after(name: &'static str, turn: (Sent, Expected), next: (Sent, Expected)) -> Case {
    let offer = (all(discover(A)), gets("OFFER .32 frame"));
    let lease = (all(selecting(A, at(32))), gets("ACK .32 frame"));
    case(name, [offer, lease, turn, next])
}

#[test]
fn what_is_declined() {
    let kept = || (all(discover(A)), gets("OFFER .32 frame"));
    let decline = || Request::new(MessageType::Decline, A);
    check(vec![
        after(
            "decline.success",
            (all(declining(A, at(32))), gets("declined .32")),
            (all(discover(A)), gets("OFFER .33 frame")),
        ),
        after(
            "decline.nobody_else_gets_it",
            (all(declining(A, at(32))), gets("declined .32")),
            (all(discover(B).address(50, at(32))), gets("OFFER .33 frame")),
        ),
        after(
            "decline.with_another_client_identifier",
            (all(declining(A, at(32)).option(61, b"\x00new")), gets("declined .32")),
            (all(discover(A)), gets("OFFER .33 frame")),
        ),
        after("decline.of_another_client", (all(declining(B, at(32))), gets(NOT_HELD)), kept()),
        after("decline.of_another_address", (all(declining(A, at(33))), gets(NOT_HELD)), kept()),
        after("decline.of_another_network", (all(declining(A, ELSEWHERE)), gets(NOT_HELD)), kept()),
        after(
            "decline.for_another_server",
            (
                all(decline().address(50, at(32)).address(54, OTHER_SERVER)),
                gets("silence: it is meant for another server"),
            ),
            kept(),
        ),
        after(
            "decline.without_a_server",
            (all(decline().address(50, at(32))), gets(INCOMPLETE)),
            kept(),
        ),
        after(
            "decline.without_an_address",
            (all(decline().address(54, US)), gets(INCOMPLETE)),
            kept(),
        ),
        after(
            "decline.address_in_the_wrong_field",
            (all(decline().address(54, US).ciaddr(at(32))), gets(INCOMPLETE)),
            kept(),
        ),
        after(
            "decline.twice",
            (all(declining(A, at(32))), gets("declined .32")),
            (all(declining(A, at(32))), gets(NOT_HELD)),
        ),
        case(
            "decline.of_an_offer",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(declining(A, at(32))), gets("declined .32")),
            ],
        ),
        case(
            "decline.the_third_only_ends_the_lease",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(declining(A, at(32))), gets("declined .32")),
                (all(discover(A)), gets("OFFER .33 frame")),
                (all(declining(A, at(33))), gets("declined .33")),
                (all(discover(A)), gets("OFFER .34 frame")),
                (all(declining(A, at(34))), gets("released .34")),
            ],
        ),
    ]);
}
