//! Cards in a network namespace of their own, with frames that a guest would send.

mod frames;
mod space;

use model::Uuid;
use model::instance::parameters::Parameters;

use super::*;
use frames::{Frame, frames_v4, frames_v6};
use space::{Guest, in_namespace, ip, nft, out};

/// The address of the host behind routed cards.
const GATEWAY: [u8; 4] = [192, 0, 2, 1];

fn nic(number: u128, place: (&str, &str, &str), ip: Option<&str>) -> NicLaunch {
    let (mode, link, vlan) = place;
    let values = [("mode", mode), ("link", link), ("vlan", vlan)];
    let nicparams: Parameters =
        values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    NicLaunch {
        uuid: Uuid::from_u128(number << 96),
        mac: model::MacAddress::new([0xaa, 0, 0, 0, 0, u8::try_from(number).unwrap()]),
        ip: ip.map(|ip| ip.parse().unwrap()),
        network: None,
        nicparams,
    }
}

fn launch(nics: Vec<NicLaunch>) -> Launch {
    Launch {
        uuid: Uuid::from_u128(1),
        name: "web1.example.com".parse().unwrap(),
        run: 1,
        hypervisor: "kvm".to_owned(),
        hvparams: Parameters::new(),
        beparams: Parameters::new(),
        nics,
        disks: Vec::new(),
        paused: false,
        seed: None,
        users: Vec::new(),
        network_port: None,
    }
}

fn cards() -> Nics {
    Nics::new("/nowhere/nic-hook".into())
}

const BRIDGED: (&str, &str, &str) = ("bridged", "br0", "");

/// Which frames of a guest arrive at the other one of its bridge.
async fn arriving(address: &str, sent: &[Frame]) -> Vec<&'static str> {
    ip("link add br0 type bridge");
    ip("link set br0 up");
    let launch = launch(vec![nic(1, BRIDGED, Some(address)), nic(2, BRIDGED, None)]);
    let nics = cards();
    let mut made = nics.connect(&launch).await.unwrap();
    for nic in &launch.nics {
        space::forwards(&interface(nic));
    }
    let (one, other) = (Guest::of(&mut made[0]), Guest::of(&mut made[1]));
    let arrived = sent_to(&one, &other, sent);
    // Nothing but the filter keeps the others back.
    nft("flush ruleset");
    let names: Vec<&str> = sent.iter().map(|frame| frame.name).collect();
    assert_eq!(sent_to(&one, &other, sent), names);
    drop((one, other, made));
    nics.disconnect(&launch.name, &launch.nics).await;
    nics.disconnect(&launch.name, &launch.nics).await;
    assert_eq!(nft("list tables"), "");
    arrived
}

/// Sends frames from a guest to another one, up to the last, which arrives.
fn sent_to(one: &Guest, other: &Guest, sent: &[Frame]) -> Vec<&'static str> {
    for frame in sent {
        one.send(&frame.bytes);
    }
    let mut arrived = Vec::new();
    while arrived.last() != sent.last().map(|frame| &frame.name) {
        let bytes = other.next();
        arrived.extend(sent.iter().filter(|frame| frame.is(&bytes)).map(|frame| frame.name));
    }
    arrived
}

fn passing(frames: &[Frame]) -> Vec<&'static str> {
    frames.iter().filter(|frame| frame.passes).map(|frame| frame.name).collect()
}

#[test]
fn a_guest_speaks_in_its_own_name_alone() {
    in_namespace(async || {
        let frames = frames_v4();
        assert_eq!(arriving("10.0.0.5", &frames).await, passing(&frames));
    });
}

#[test]
fn so_it_is_with_an_address_of_ipv6() {
    in_namespace(async || {
        let frames = frames_v6();
        assert_eq!(arriving("2001:db8::5", &frames).await, passing(&frames));
    });
}

#[test]
fn a_filter_that_was_flushed_is_renewed() {
    in_namespace(async || {
        ip("link add br0 type bridge");
        let launch = launch(vec![nic(1, BRIDGED, None)]);
        let nics = cards();
        let made = nics.connect(&launch).await.unwrap();
        nft("flush ruleset");
        nics.renew(&launch.name, &launch.nics).await;
        nics.renew(&launch.name, &launch.nics).await;
        // A second card of the same name is none, and takes nothing from the first one.
        let error = nics.connect(&launch).await.unwrap_err().to_string();
        assert!(error.contains("busy"), "{error}");
        nics.disconnect(&launch.name, &launch.nics).await;
        let rules = nft("list ruleset");
        assert_eq!(rules.matches("ether saddr != aa:00:00:00:00:01 drop").count(), 1, "{rules}");
        drop(made);
    });
}

#[test]
fn a_bridge_keeps_its_packet_size_and_its_address() {
    in_namespace(async || {
        ip("link add br0 type bridge");
        ip("link add card0 address 02:00:00:00:00:01 mtu 9000 type veth peer name far0");
        ip("link set card0 master br0");
        let before = ip("-o link show br0");
        assert!(before.contains("mtu 9000") && before.contains("02:00:00:00:00:01"), "{before}");
        let made = cards().connect(&launch(vec![nic(1, BRIDGED, None)])).await.unwrap();
        assert_eq!(ip("-o link show br0"), before);
        let card = ip("-o link show gnt00000001000");
        assert!(card.contains("mtu 9000") && card.contains("fe:00:00:00:00:01"), "{card}");
        assert!(card.contains("master br0") && card.contains("UP"), "{card}");
        drop(made);
    });
}

/// Connects a card that cannot be; gives the words of its error.
async fn refused(nics: &Nics, nic: NicLaunch) -> String {
    let error = nics.connect(&launch(vec![nic])).await.unwrap_err();
    let left = ip("-o link show");
    assert!(!left.contains("gnt0"), "{left}");
    error.to_string()
}

#[test]
fn a_card_that_cannot_be_connected_says_why_and_leaves_nothing() {
    in_namespace(async || {
        let nics = cards();
        ip("link add br0 type bridge");
        ip("link add card0 type veth peer name far0");
        let no_bridge = refused(&nics, nic(1, ("bridged", "br9", ""), None)).await;
        assert!(no_bridge.contains("no bridge br9"), "{no_bridge}");
        let no_linux_bridge = refused(&nics, nic(1, ("bridged", "card0", ""), None)).await;
        assert!(no_linux_bridge.contains("card0 is no Linux bridge"), "{no_linux_bridge}");
        // A kernel that can keep VLANs apart does not do so by itself.
        let no_vlans = refused(&nics, nic(1, ("bridged", "br0", ".100"), None)).await;
        assert!(no_vlans.contains("bridge br0") && no_vlans.contains("VLANs apart"), "{no_vlans}");
        let empty = Nics { programs: Programs::new("/".into()).with("PATH", "/nowhere") };
        let no_nft = refused(&empty, nic(1, BRIDGED, None)).await;
        assert!(no_nft.contains("`nft`") && no_nft.contains("package nftables"), "{no_nft}");
        let no_switch = nic(1, ("openvswitch", "br0", ""), None);
        let no_switch = refused(&nics_without_a_switch(), no_switch).await;
        assert!(no_switch.contains("`ovs-vsctl`"), "{no_switch}");
    });
}

/// Those of a node whose Open vSwitch does not run.
fn nics_without_a_switch() -> Nics {
    Nics { programs: Programs::new("/".into()).with("OVS_RUNDIR", "/nowhere") }
}

#[test]
fn a_routed_card_has_its_route_its_rule_and_an_answer() {
    in_namespace(async || {
        ip("link add card0 up type veth peer name far0");
        ip("route add default dev card0 table 100");
        let nics = cards();
        let own = [10, 0, 0, 5];
        let launch = launch(vec![
            nic(1, ("routed", "100", ".7"), Some("10.0.0.5")),
            nic(2, ("routed", "", ""), Some("10.0.0.6")),
            nic(3, ("routed", "100", ""), Some("2001:db8::5")),
        ]);
        let mut made = nics.connect(&launch).await.unwrap();
        let route = ip("route show table 100 10.0.0.5");
        assert!(route.contains("dev gnt00000001000 proto static scope link"), "{route}");
        let rules = ip("rule show");
        assert_eq!(rules.matches("iif gnt00000001000 lookup 100").count(), 1, "{rules}");
        assert!(!rules.contains("gnt00000002000"), "{rules}");
        assert!(ip("route show 10.0.0.6").contains("dev gnt00000002000"));
        assert!(ip("-6 route show table 100 2001:db8::5").contains("dev gnt00000003000"));
        assert!(ip("-6 rule show").contains("iif gnt00000003000 lookup 100"));
        // The host answers for all that lies behind it.
        let guest = Guest::of(&mut made[0]);
        guest.send(&frames::who_has(launch.nics[0].mac, own, GATEWAY));
        let answer = guest.find(|bytes| bytes.get(12..14) == Some(&[8, 6]));
        assert_eq!((&answer[20..22], &answer[28..32]), (&[0, 2][..], &GATEWAY[..]));
        // A second start finds what the first one left.
        drop((guest, made));
        let made = nics.connect(&launch).await.unwrap();
        assert_eq!(ip("rule show").matches("iif gnt00000001000").count(), 1);
        drop(made);
        nics.disconnect(&launch.name, &launch.nics).await;
        let left = ip("rule show") + &ip("-6 rule show") + &ip("route show table all");
        assert!(!left.contains("gnt0"), "{left}");
    });
}

#[test]
fn the_operators_program_is_told_of_each_card() {
    in_namespace(async || {
        ip("link add br0 type bridge");
        let dir = tempfile::tempdir().unwrap();
        let (hook, told) = (dir.path().join("hook"), dir.path().join("told"));
        let script = format!(
            "#!/bin/sh\necho $1 $INSTANCE $INTERFACE $MODE $LINK $BRIDGE $MAC $IP >>{}\n\
             [ $MAC != aa:00:00:00:00:09 ] || {{ echo not this one >&2; exit 3; }}\n",
            told.display()
        );
        stdx::atomic::write(&hook, script.as_bytes(), 0o755).unwrap();
        let nics = Nics::new(hook);
        let launch = launch(vec![nic(1, BRIDGED, Some("10.0.0.5"))]);
        drop(nics.connect(&launch).await.unwrap());
        nics.disconnect(&launch.name, &launch.nics).await;
        let lines = std::fs::read_to_string(told).unwrap();
        let about = "web1.example.com gnt00000001000 bridged br0 br0 aa:00:00:00:00:01 10.0.0.5";
        assert_eq!(lines, format!("up {about}\ndown {about}\n"));
        let error = refused(&nics, nic(9, BRIDGED, None)).await;
        assert!(error.contains("not this one"), "{error}");
    });
}

/// A launch of a guest that stands still, in which nothing runs; none where QEMU is not for everybody.
fn guest(nics: Vec<NicLaunch>) -> Option<Launch> {
    use model::instance::parameters::{BACKEND, KVM, Table};
    let path = std::env::var_os("PATH")?;
    let mut paths = std::env::split_paths(&path).map(|dir| dir.join("qemu-system-x86_64"));
    let found = paths.find(|path| path.is_file());
    let program = found.map(|path| path.display().to_string()).unwrap_or_default();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", &program, "--version"];
    let says = std::process::Command::new("setpriv").args(nobody).output();
    if !says.is_ok_and(|says| says.status.success()) {
        println!("skipped: not everybody may start QEMU");
        return None;
    }
    let filled = |table: Table| -> Parameters {
        table.iter().map(|row| (row.name.to_owned(), row.usual.value())).collect()
    };
    let (mut hvparams, mut beparams) = (filled(KVM), filled(BACKEND));
    for (name, value) in
        [("kvm_path", program.as_str()), ("kernel_path", ""), ("accelerator", "tcg")]
    {
        hvparams.insert(name.to_owned(), value.into());
    }
    hvparams.insert("virtio_net_queues".to_owned(), 2.into());
    beparams.insert("maxmem".to_owned(), 32.into());
    Some(Launch { hvparams, beparams, paused: true, ..launch(nics) })
}

#[test]
fn what_a_run_leaves_goes_with_it_however_it_ends() {
    in_namespace(async || {
        ip("link add br0 type bridge");
        let routed = nic(2, ("routed", "100", ""), Some("10.0.0.5"));
        let Some(launch) = guest(vec![nic(1, BRIDGED, None), routed]) else { return };
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let open = || {
            let storage = crate::Storage::new(path("list"), path("disks"));
            let clock = stdx::Clock::system();
            let (nic_hook, agent) = (path("hook"), path("agent"));
            let paths = crate::Paths { nic_hook, agent, ..crate::Paths::of(path("runs")) };
            crate::Instances::open(paths, "boot".into(), storage, clock).unwrap()
        };
        // This program is no agent that could confine.
        let confines =
            "#!/bin/sh\nshift 2; exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"\n";
        stdx::atomic::write(&path("agent"), confines.as_bytes(), 0o755).unwrap();
        let (uuid, patience) = (launch.uuid, std::time::Duration::ZERO);
        let left = || nft("list tables") + &ip("-o link show") + &ip("rule show");
        let has = |count: usize| {
            let left = left();
            assert_eq!(left.matches("table netdev gantry-gnt0").count(), count, "{left}");
            assert_eq!(left.matches("iif gnt0").count(), count / 2, "{left}");
        };
        let instances = open();
        instances.start(launch.clone()).await.unwrap();
        has(2);
        // The next agent renews the filters of guests that it takes over.
        nft("flush ruleset");
        instances.shutdown().await;
        let instances = open();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while nft("list tables").lines().count() < 2 {
            assert!(std::time::Instant::now() < until, "{}", left());
            tokio::task::yield_now().await;
        }
        instances.stop(uuid, 1, patience, false).await.unwrap();
        has(0);
        // A process that dies by itself leaves nothing either.
        instances.start(Launch { run: 2, ..launch.clone() }).await.unwrap();
        has(2);
        let mut news = instances.watch();
        space::kill_qemu(&path("runs"), uuid);
        let is_alive = |_: &u64| instances.since(None).instances[0].seen.is_alive();
        news.wait_for(|number| !is_alive(number)).await.unwrap();
        has(0);
        // A guest does not start.
        let mut wrong = Launch { run: 3, ..launch };
        wrong.hvparams.insert("kvm_extra".to_owned(), "-no-such-option".into());
        instances.start(wrong).await.unwrap_err();
        has(0);
        instances.shutdown().await;
    });
}

#[test]
fn a_switch_has_a_port_with_the_vlans_of_each_card() {
    in_namespace(async || {
        let Some(switch) = space::Switch::begin() else { return };
        let programs = Programs::new("/".into()).with("OVS_RUNDIR", switch.directory());
        let nics = Nics { programs };
        let place = |vlan| ("openvswitch", "br0", vlan);
        let launch = launch(vec![
            nic(1, place(".100"), None),
            nic(2, place(":1:2"), None),
            nic(3, place(".100:1:2"), None),
            nic(4, place(""), None),
        ]);
        for _ in 0..2 {
            drop(nics.connect(&launch).await.unwrap());
        }
        let port = |number| switch.port(&format!("gnt0000000{number}000"));
        assert_eq!(port(1), "100 [] access");
        assert_eq!(port(2), "[] [1, 2] trunk");
        assert_eq!(port(3), "100 [1, 2] native-untagged");
        assert_eq!(port(4), "[] [] []");
        let elsewhere = nic(5, ("openvswitch", "br9", ""), None);
        let error = refused(&nics, elsewhere).await;
        assert!(error.contains("no bridge named br9"), "{error}");
        nics.disconnect(&launch.name, &launch.nics).await;
        nics.disconnect(&launch.name, &launch.nics).await;
        assert_eq!(switch.vsctl(&["list-ports", "br0"]), "");
        assert!(!out("ip", &["-o", "link", "show"]).contains("gnt0"));
    });
}
