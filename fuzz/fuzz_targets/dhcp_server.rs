#![no_main]

#[path = "../targets.rs"]
#[expect(dead_code, reason = "this is one of them")]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::dhcp_server(input));
