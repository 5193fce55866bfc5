//! Clients in a network without an agent, behind Debian's DHCP relay.

use std::net::Ipv4Addr;
use std::process::Command;

use tests::run::wait_for;
use xtask::guest::rack::{Rack, address};
use xtask::guest::wires::{HOST_INTERFACE, Switch, ip, within};
use xtask::stage::Stage;

use crate::client::{Client, Kind};
use crate::lan::{AGENT, PATIENCE, ROUTER, program, rack, said, wait_for_lease, wait_for_no_lease};
use crate::lives::{assert_by_rule, renews};

/// Addresses of router and agent in the network between them.
const BETWEEN: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
/// The router's interface in the clients' network.
const DOWN: &str = "down0";

/// The clients' network: a switch of its own, and a router to the agent which is their gateway. The
/// agent has its address of the rack, but is not at that switch.
struct Remote {
    clients: Switch,
    router: String,
    /// Runs the relay.
    stage: Stage,
}

impl Remote {
    fn new(rack: &mut Rack) -> Self {
        let clients = Switch::new(0, &[]).unwrap();
        let router = rack.switch.add_host("router", "52:54:00:aa:cc:01").unwrap();
        clients.add_interface(&router, DOWN).unwrap();
        let agent = rack.switch.node(1);
        let set = |line: &str| ip(&line.split(' ').collect::<Vec<_>>()).unwrap();
        set(&format!("-n {router} address add {}/24 dev {HOST_INTERFACE}", BETWEEN[0]));
        set(&format!("-n {router} address add {ROUTER}/26 dev {DOWN}"));
        set(&format!("-n {router} route add {AGENT}/32 via {}", BETWEEN[1]));
        // The agent's rack is elsewhere now; what it sends there goes through the router.
        set(&format!("-n {agent} address del {AGENT}/26 dev rack0"));
        set(&format!("-n {agent} address add {AGENT}/32 dev rack0"));
        set(&format!("-n {agent} address add {}/24 dev rack0", BETWEEN[1]));
        set(&format!("-n {agent} route add 10.69.0.0/26 via {} src {AGENT}", BETWEEN[0]));
        // Clients take the agent for a neighbour, by its address.
        for name in ["ip_forward", &format!("conf/{DOWN}/proxy_arp")] {
            let script = format!("echo 1 > /proc/sys/net/ipv4/{name}");
            said(&mut within(&router, Command::new("sh").args(["-c", &script])));
        }
        let stage = Stage::new(&std::env::temp_dir()).unwrap();
        Self { clients, router, stage }
    }

    /// Starts the relay; it marks what it relays with option 82.
    fn start_relay(&self) {
        let mut relay = Command::new(program("dhcrelay"));
        relay.args(["-4", "-d", "-a", "-id", DOWN, "-iu", HOST_INTERFACE]);
        let pid = self.stage.root().join("dhcrelay.pid");
        relay.arg("-pf").arg(pid).arg(AGENT.to_string());
        self.stage.start("dhcrelay", within(&self.router, &relay)).unwrap();
        let output = self.stage.root().join("dhcrelay.out");
        wait_for("the relay", PATIENCE, || {
            std::fs::read_to_string(&output).unwrap().contains("Sending on").then_some(())
        });
    }

    fn client(&mut self, kind: Kind, number: u8) -> Client {
        let mac = format!("52:54:00:aa:dd:{number:02x}");
        let namespace = self.clients.add_host(&format!("remote{number}"), &mac).unwrap();
        Client::in_namespace(namespace, mac, kind)
    }
}

/// A lease through a relay: the agent answers the relay, which hands it on; it renews by itself.
fn is_relayed(kind: Kind) {
    let needed = [kind.programs(), &["dhcrelay"]].concat();
    let Some(mut rack) = rack(1, &needed) else { return };
    assert_eq!(address(1), AGENT);
    let mut remote = Remote::new(&mut rack);
    remote.start_relay();
    let mut client = remote.client(kind, 1);
    client.start(&[]);
    let lease = client.lease();
    assert_by_rule(&lease);
    wait_for_lease(&rack, &client.mac, lease.address);
    renews(&client, &lease);
    client.release();
    wait_for_no_lease(&rack, &client.mac);
}

#[test]
fn dhclient_behind_a_relay() {
    is_relayed(Kind::Dhclient);
}

#[test]
fn udhcpc_behind_a_relay() {
    is_relayed(Kind::Udhcpc);
}

#[test]
fn dhcpcd_behind_a_relay() {
    is_relayed(Kind::Dhcpcd);
}

#[test]
fn systemd_networkd_behind_a_relay() {
    is_relayed(Kind::Networkd);
}
