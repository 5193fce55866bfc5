//! Options of clients: what is echoed, what is obeyed, and what nonsense costs.

use super::*;

#[test]
fn what_options_lead_to() {
    let one = |name, request, expected| case(name, [(all(request), expected)]);
    let offer = || gets("OFFER .32 frame");
    check(vec![
        one(
            "options.client_identifier",
            discover(A).option(61, b"\x01abc"),
            offer().with(61, b"\x01abc"),
        ),
        one("options.no_client_identifier", discover(A), offer().without(&[61])),
        one(
            "options.an_empty_client_identifier",
            discover(A).option(61, b""),
            offer().with(61, b""),
        ),
        one(
            "options.a_split_client_identifier",
            discover(A).option(61, b"\x01ab").option(12, b"x").option(61, b"cd"),
            offer().with(61, b"\x01abcd"),
        ),
        one(
            "options.a_long_client_identifier",
            discover(A).option(61, &[7; 255]),
            offer().with(61, [7; 255]),
        ),
        one("options.host_name", discover(A).option(12, b"worker-1"), offer().without(&[12])),
        one("options.host_name_that_is_no_text", discover(A).option(12, &[0xff, 0, 10]), offer()),
        one("options.a_bad_domain_name", discover(A).option(81, &[0, 0]), offer().without(&[81])),
        one("options.an_odd_domain_name", discover(A).option(81, b"\x04\x00\x00\x3fx"), offer()),
        one(
            "options.a_lease_time",
            discover(A).option(51, &[0, 0, 0, 9]),
            offer().with(51, [0, 0, 14, 16]),
        ),
        one(
            "options.a_lease_without_end",
            discover(A).option(51, &[255; 4]),
            offer().with(51, [0, 0, 14, 16]),
        ),
        one(
            "options.renewal_times",
            discover(A),
            offer().with(58, [0, 0, 7, 8]).with(59, [0, 0, 12, 78]),
        ),
        // A client may not choose the network that it is served in: its link says which.
        one(
            "options.subnet_selection",
            discover(A).address(118, ELSEWHERE),
            offer().without(&[118]),
        ),
        one("options.a_vendor_class", discover(A).option(60, b"docsis3.0"), offer().without(&[60])),
        one("options.unknown_codes", discover(A).option(224, &[1; 99]).option(254, b""), offer()),
    ]);
}

#[test]
fn what_the_form_of_options_leads_to() {
    let one = |name, request, expected| case(name, [(all(request), expected)]);
    let offer = || gets("OFFER .32 frame");
    let asking = |codes: &[u8]| discover(A).option(55, codes);
    check(vec![
        one(
            "options.padding",
            discover(A).pad(9).option(61, b"\x00x").pad(3),
            offer().with(61, b"\x00x"),
        ),
        one(
            "options.behind_the_end",
            discover(A).end().option(61, b"\x00x"),
            offer().without(&[61]),
        ),
        one(
            "options.a_length_beyond_the_end",
            discover(A).raw(&[61, 200, 1]),
            offer().without(&[61]),
        ),
        one("options.a_code_without_a_length", discover(A).raw(&[61]), offer().without(&[61])),
        one("options.nothing_is_asked_for", asking(b""), offer().with(1, [255, 255, 255, 192])),
        one(
            "options.asked_for_and_not_here",
            asking(&[2, 15, 119, 252]),
            offer().without(&[2, 15, 119, 252]),
        ),
        one("options.asked_for_twice", asking(&[3, 3, 3, 1]), offer().with(3, [10, 69, 0, 1])),
        one("options.asked_for_every_code", asking(&every_code()), offer().with(6, [10, 69, 0, 2])),
        one("options.a_boot_file_is_asked_for", asking(&[67]), offer().with(67, SCRIPT)),
        one("options.no_boot_file_is_asked_for", asking(&[1, 3]), offer().without(&[67])),
    ]);
}

#[test]
fn where_options_may_be() {
    let one = |name, request, expected| case(name, [(all(request), expected)]);
    let offer = || gets("OFFER .32 frame");
    check(vec![
        one(
            "options.overload_of_the_file",
            discover(A).option(52, &[1]).bytes_at(108, b"\x3d\x02\x00x\xff"),
            offer().with(61, b"\x00x"),
        ),
        one(
            "options.overload_of_the_name",
            discover(A).option(52, &[2]).bytes_at(44, b"\x3d\x02\x00x\xff"),
            offer().with(61, b"\x00x"),
        ),
        one(
            "options.overload_of_both_joins",
            discover(A)
                .option(52, &[3])
                .bytes_at(108, b"\x3d\x02\x00x\xff")
                .bytes_at(44, b"\x3d\x01y\xff"),
            offer().with(61, b"\x00xy"),
        ),
        one(
            "options.overload_of_nothing",
            discover(A).option(52, &[0]).bytes_at(108, b"\x3d\x02\x00x\xff"),
            offer().without(&[61]),
        ),
        one(
            "options.overload_holds_no_overload",
            discover(A)
                .option(52, &[1])
                .bytes_at(108, b"\x34\x01\x02\xff")
                .bytes_at(44, b"\x3d\x02\x00x\xff"),
            offer().without(&[61, 52]),
        ),
    ]);
}

const SCRIPT: &str = "http://10.69.0.3:10080/api/v1/boot/ipxe";

/// As many as one option holds.
fn every_code() -> Vec<u8> {
    (0..=254).collect()
}
