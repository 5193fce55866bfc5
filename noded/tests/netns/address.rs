//! The address that moves with the master, taken from a host that does not answer any more: the
//! neighbours go to the new place at once.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use noded::master_address::MasterAddress;
use rpc::calls::{AddressChanged, MasterAddressDown, MasterAddressUp};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use stdx::net::{Addresses, LinkAddress, interfaces};

use crate::agent::Rig;
use crate::wire::Wire;

/// For anything that should happen at once; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);
/// The Ethernet address of who had the address before.
const GONE: &str = "02:00:00:00:00:99";
/// The number that the agent writes beside its address.
const ORIGIN: u8 = 0x67;

const CHANGED: AddressChanged = AddressChanged { changed: true };
const AS_BEFORE: AddressChanged = AddressChanged { changed: false };

fn up(address: &str, prefix: u8, netdev: &str) -> MasterAddressUp {
    MasterAddressUp { address: address.parse().unwrap(), prefix, netdev: netdev.to_owned() }
}

fn down(of: &MasterAddressUp) -> MasterAddressDown {
    let MasterAddressUp { address, prefix, netdev } = of.clone();
    MasterAddressDown { address, prefix, netdev }
}

/// The links on which the machine has the address.
fn held(address: IpAddr) -> Vec<LinkAddress> {
    let all = Addresses::open().unwrap().list().unwrap();
    all.into_iter().filter(|one| one.address == address).collect()
}

/// The entries for the address in the client's table of neighbours.
fn neighbour(wire: &Wire, address: IpAddr) -> String {
    let shown = wire.in_client("ip").args(["neigh", "show", &address.to_string()]).output();
    String::from_utf8(shown.unwrap().stdout).unwrap()
}

/// Lets the client believe that the address is where it is no more.
fn believe(wire: &Wire, address: IpAddr) {
    let address = address.to_string();
    let arguments = ["neigh", "replace", &address, "lladdr", GONE, "dev", "eth0", "nud", "stale"];
    assert!(wire.in_client("ip").args(arguments).status().unwrap().success());
}

fn moves(name: &str, address: &str, prefix: u8) {
    let Some(wire) = Wire::new(name) else { return };
    let (root, wanted) = (tempfile::tempdir().unwrap(), up(address, prefix, "rack0"));
    let address = wanted.address;
    believe(&wire, address);
    assert!(neighbour(&wire, address).contains(GONE));
    wire.at_server(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let rig = runtime.block_on(Rig::start(root.path()));
        assert_eq!(runtime.block_on(rig.call(down(&wanted))).unwrap(), AS_BEFORE);
        assert_eq!(runtime.block_on(rig.call(wanted.clone())).unwrap(), CHANGED);

        let [one] = &held(address)[..] else { panic!("{:?}", held(address)) };
        assert_eq!((one.prefix_len, one.origin), (prefix, ORIGIN));
        let rack0 = interfaces().unwrap().into_iter().find(|one| one.name == "rack0").unwrap();
        let [a, b, c, d, e, f] = rack0.mac.unwrap();
        let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        let begun = Instant::now();
        while !neighbour(&wire, address).contains(&mac) {
            assert!(begun.elapsed() < PATIENCE, "{mac}: {}", neighbour(&wire, address));
        }

        assert_eq!(runtime.block_on(rig.call(wanted.clone())).unwrap(), AS_BEFORE);
        // A restart of the agent changes nothing: what there is, the kernel knows.
        runtime.block_on(rig.daemon.stop()).unwrap();
        assert_eq!(held(address).len(), 1);
        let rig = runtime.block_on(Rig::start(root.path()));
        assert_eq!(runtime.block_on(rig.call(wanted.clone())).unwrap(), AS_BEFORE);
        assert_eq!(runtime.block_on(rig.call(down(&wanted))).unwrap(), CHANGED);
        assert_eq!(held(address), []);
        assert_eq!(runtime.block_on(rig.call(down(&wanted))).unwrap(), AS_BEFORE);
        runtime.block_on(rig.daemon.stop()).unwrap();
    });
}

#[test]
fn an_ipv4_address_moves() {
    moves("m4", "10.69.0.50", 26);
}

#[test]
fn an_ipv6_address_moves() {
    moves("m6", "fd00:69::50", 64);
}

#[test]
fn leftovers_go_and_what_is_in_the_way_is_told() {
    let Some(wire) = Wire::new("mx") else { return };
    let root = tempfile::tempdir().unwrap();
    wire.at_server(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let rig = runtime.block_on(Rig::start(root.path()));
        let told =
            |call: MasterAddressUp| runtime.block_on(rig.call(call)).unwrap_err().to_string();
        let missing = told(up("10.69.0.50", 26, "rack9"));
        assert!(missing.contains("no interface `rack9`, it has lo, rack0"), "{missing}");
        let elsewhere = told(up("127.0.0.1", 8, "rack0"));
        assert!(elsewhere.contains("127.0.0.1/8 is on the interface `lo`"), "{elsewhere}");
        assert!(told(up("10.69.0.50", 33, "rack0")).contains("at most 32"));

        // An address that an agent made with other parameters before a crash goes with the new ones.
        let before = up("10.69.0.50", 32, "lo");
        assert_eq!(runtime.block_on(rig.call(before.clone())).unwrap(), CHANGED);
        let wanted = up("10.69.0.50", 26, "rack0");
        assert_eq!(runtime.block_on(rig.call(wanted.clone())).unwrap(), CHANGED);
        let [one] = &held(wanted.address)[..] else { panic!("{:?}", held(wanted.address)) };
        assert_eq!(one.prefix_len, 26);
        assert_eq!(runtime.block_on(rig.call(down(&before))).unwrap(), CHANGED);
        assert_eq!(held(wanted.address), []);
        runtime.block_on(rig.daemon.stop()).unwrap();
    });
}

#[test]
fn an_agent_that_may_not_says_what_it_needs() {
    let Some(wire) = Wire::new("mp") else { return };
    wire.at_server(|| {
        let mut own = capabilities(None).unwrap();
        own.effective.remove(CapabilitySet::NET_ADMIN);
        own.permitted.remove(CapabilitySet::NET_ADMIN);
        set_capabilities(None, own).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let (agent, wanted) = (MasterAddress::default(), up("10.69.0.50", 26, "rack0"));
        let error = runtime.block_on(agent.up(&wanted)).unwrap_err();
        assert!(error.to_string().contains("needs CAP_NET_ADMIN"), "{error}");
        // An address that is not there needs no work and no capability.
        assert_eq!(agent.down(&down(&wanted)).unwrap(), AS_BEFORE);
    });
}
