//! RELEASE: a lease that is given back.

use super::*;

const NOT_HELD: &str = "silence: the client does not hold the address";

fn after(name: &'static str, turn: (Sent, Expected), next: (Sent, Expected)) -> Case {
    let offer = (all(discover(A)), gets("OFFER .32 frame"));
    let lease = (all(selecting(A, at(32))), gets("ACK .32 frame"));
    narrow(name, 1, [offer, lease, turn, next])
}

#[test]
fn what_is_released() {
    let free = || (all(discover(B)), gets("OFFER .32 frame"));
    let held = || (all(discover(B)), gets("alarm: no address is free"));
    let release = || Request::new(MessageType::Release, A).ciaddr(at(32));
    check(vec![
        after(
            "release.success",
            (us(releasing(A, at(32))).from(at(32)), gets("released .32")),
            free(),
        ),
        after("release.by_broadcast", (all(releasing(A, at(32))), gets("released .32")), free()),
        after("release.without_a_server", (us(release()), gets("released .32")), free()),
        after(
            "release.with_another_client_identifier",
            (us(releasing(A, at(32)).option(61, b"\x00new")), gets("released .32")),
            free(),
        ),
        after(
            "release.keeps_the_memory",
            (us(releasing(A, at(32))), gets("released .32")),
            (all(rebooting(A, at(32))), gets("ACK .32 frame")),
        ),
        after("release.of_another_client", (us(releasing(B, at(32))), gets(NOT_HELD)), held()),
        after("release.of_another_address", (us(releasing(A, at(33))), gets(NOT_HELD)), held()),
        after(
            "release.of_another_network",
            (us(releasing(A, ELSEWHERE)), gets("silence: its network is not served here")),
            held(),
        ),
        after(
            "release.for_another_server",
            (
                us(release().address(54, OTHER_SERVER)),
                gets("silence: it is meant for another server"),
            ),
            held(),
        ),
        after(
            "release.address_in_the_wrong_field",
            (
                us(Request::new(MessageType::Release, A).address(50, at(32)).address(54, US)),
                gets(NOT_HELD),
            ),
            held(),
        ),
        after(
            "release.twice",
            (us(releasing(A, at(32))), gets("released .32")),
            (us(releasing(A, at(32))), gets(NOT_HELD)),
        ),
        narrow(
            "release.of_an_offer",
            1,
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (us(releasing(A, at(32))), gets(NOT_HELD)),
            ],
        ),
        narrow(
            "release.of_an_ended_lease",
            1,
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
                (us(releasing(A, at(32))).after(LEASE), gets(NOT_HELD)),
            ],
        ),
    ]);
}
