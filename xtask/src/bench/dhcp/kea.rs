//! Debian's Kea with the bed's range, on a host of its own.

use std::net::Ipv4Addr;
use std::process::Command;

use super::super::bed::Bed;
use crate::guest::GuestError;
use crate::needs;

/// Last number of its address.
const LAST: u8 = 4;
/// Leases go to a file, as Debian has it; two threads for two cores.
const CONFIG: &str = r#"{"Dhcp4": {
"interfaces-config": {"interfaces": ["eth0"]},
"lease-database": {"type": "memfile", "persist": true, "name": "ROOT/kea-leases.csv"},
"multi-threading": {"enable-multi-threading": true, "thread-pool-size": 2, "packet-queue-size": 64},
"valid-lifetime": 3600,
"subnet4": [{"subnet": "10.69.0.0/20", "pools": [{"pool": "10.69.0.32 - 10.69.15.254"}],
 "option-data": [{"name": "routers", "data": "10.69.0.1"}]}],
"loggers": [{"name": "kea-dhcp4", "severity": "WARN", "output_options": [{"output": "stdout"}]}]
}}"#;

/// Starts it; gives its address.
pub(super) fn start(bed: &mut Bed) -> Result<Ipv4Addr, GuestError> {
    let namespace = bed.add_host("kea", LAST)?;
    let root = bed.rack.stage.root().display().to_string();
    let config = bed.write("kea.json", &CONFIG.replace("ROOT", &root))?;
    let program = needs::provide("kea-dhcp4").map_err(GuestError::Impossible)?;
    let mut kea = Command::new(program);
    kea.args(["-c", &config]).env("KEA_PIDFILE_DIR", &root).env("KEA_LOCKFILE_DIR", "none");
    bed.start("kea", &namespace, &kea)?;
    Ok(Ipv4Addr::new(10, 69, 0, LAST))
}
