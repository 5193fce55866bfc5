//! Core: the iPXE scripts.

use std::net::SocketAddr;

use model::Serial;
use model::rack::{BootChoice, RackMachine};

/// The path of the first script; sabakan's clients know it by [`PATH_ALIAS`], too.
pub const PATH: &str = "/api/v1/boot/ipxe";
/// The same by its other name.
pub const PATH_ALIAS: &str = "/api/v1/boot/coreos/ipxe";

/// The script that every machine gets: it asks for that of its serial number, which iPXE fills in.
#[must_use]
pub fn chain(server: SocketAddr, path: &str) -> String {
    format!("#!ipxe\nchain http://{server}{path}/${{serial}}\n")
}

/// The script of one machine.
#[must_use]
pub fn boot(machine: &RackMachine) -> String {
    let RackMachine { serial, role, boot, .. } = machine;
    match boot {
        BootChoice::Local => {
            format!("#!ipxe\necho {serial} ({role}) boots what its firmware has next\nexit\n")
        }
    }
}

/// For a machine that nobody registered. Not a script: the machine must not go on as if it were.
#[must_use]
pub fn unknown(serial: &Serial) -> String {
    format!(
        "machine {serial} is not registered in a rack of this agent; register it with\n\
         gnt machine add -f FILE\n\
         where FILE holds [{{\"serial\": \"{serial}\", \"rack\": RACK, \"role\": \"ROLE\"}}]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts() {
        let server = "10.69.0.3:10080".parse().unwrap();
        assert_eq!(
            chain(server, PATH),
            "#!ipxe\nchain http://10.69.0.3:10080/api/v1/boot/ipxe/${serial}\n"
        );
        let (_, machine) = crate::rack::Racks::new(vec![crate::testing::rack(0, 1)])
            .machine(&"S1".parse().unwrap())
            .unwrap();
        let text = boot(&machine);
        assert!(text.starts_with("#!ipxe\n") && text.ends_with("exit\n"), "{text}");
    }
}
