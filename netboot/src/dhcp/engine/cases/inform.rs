//! INFORM: parameters for a client that has its address from elsewhere.

use super::*;

const UNSERVED: &str = "silence: its network is not served here";
const NO_HOST: &str = "silence: the address can be no client's";

#[test]
fn who_is_informed() {
    let straight = || gets("ACK 10.69.0.9:68").without(&[50, 51, 58, 59]);
    check(vec![
        case(
            "inform.success",
            [(us(informing(A, at(9))).from(at(9)), straight().with(54, US.octets()))],
        ),
        case("inform.by_broadcast", [(all(informing(A, at(9))), straight())]),
        case("inform.wants_broadcasts", [(all(informing(A, at(9)).broadcast()), straight())]),
        case(
            "inform.relayed_goes_straight",
            [(all(informing(A, at(9)).giaddr(RELAY)), straight())],
        ),
        case(
            "inform.echoes_the_client_identifier",
            [(us(informing(A, at(9)).option(61, b"\x00id")), straight().with(61, b"\x00id"))],
        ),
        case(
            "inform.parameters",
            [(
                us(informing(A, at(9)).option(55, &[1, 3, 6, 67])),
                straight()
                    .with(1, [255, 255, 255, 192])
                    .with(3, [10, 69, 0, 1])
                    .with(6, [10, 69, 0, 2]),
            )],
        ),
        case(
            "inform.a_lease_time_is_not_given",
            [(us(informing(A, at(9)).option(51, &[0, 0, 1, 0])), straight())],
        ),
        case(
            "inform.keeps_no_lease",
            [
                (us(informing(A, at(32))), gets("ACK 10.69.0.32:68")),
                (all(discover(B)), gets("OFFER .32 frame")),
            ],
        ),
        case(
            "inform.by_a_leaseholder",
            [
                (all(discover(A)), gets("OFFER .32 frame")),
                (all(selecting(A, at(32))), gets("ACK .32 frame")),
                (us(informing(A, at(32))), gets("ACK 10.69.0.32:68")),
            ],
        ),
        case(
            "inform.without_an_address",
            [(
                us(Request::new(MessageType::Inform, A)),
                gets("silence: fields that it needs are missing"),
            )],
        ),
        case(
            "inform.of_another_network",
            [
                (us(informing(A, ELSEWHERE)), gets(UNSERVED)),
                (all(informing(A, ELSEWHERE)), gets(UNSERVED)),
                (all(informing(A, ELSEWHERE).giaddr(RELAY)), gets(UNSERVED)),
            ],
        ),
        // Replies to these would go to every host, or to ourselves.
        case("inform.of_the_broadcast_address", [(all(informing(A, at(63))), gets(NO_HOST))]),
        case("inform.of_the_networks_own_address", [(all(informing(A, at(0))), gets(NO_HOST))]),
        case("inform.of_our_address", [(all(informing(A, US)), gets(NO_HOST))]),
    ]);
}
