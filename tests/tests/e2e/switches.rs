//! Ports of a real switch follow a machine through its life, which frames between its ports prove.

use serde_json::Value;
use tests::cluster::{Cluster, PATIENCE};
use tests::ovs::{Ovs, Station};
use tests::run::wait_for;

use crate::life::{Plays, Scene, says_up};

/// A switch with a machine at a port, and a station in each network.
struct Rack {
    ovs: Ovs,
    machine: Station,
    boot: Station,
    lab: Station,
    rest: Station,
}

impl Rack {
    fn new() -> Option<Self> {
        if let Some(why) = Ovs::missing() {
            tests::skip("a real switch", &why);
            return None;
        }
        let ovs = Ovs::begin();
        let [machine, boot, lab, rest] = ["m1", "b1", "l1", "r1"].map(|port| ovs.station(port));
        Some(Self { ovs, machine, boot, lab, rest })
    }

    /// Has the cluster know the switch, and the stations be in their networks.
    fn known_to(&self, cluster: &Cluster) {
        for line in [
            "port-configuration add idle --untagged 999",
            "port-configuration add boot --untagged 100",
            "port-configuration add lab --untagged 200 --tagged 201-203",
            "port policy --idle idle --provisioning boot --user lab",
        ] {
            let _done = cluster.gnt(line).ok();
        }
        let file = |name: &str| self.ovs.file(name);
        let add = format!(
            "switch add tor-1 --url {} --certificate-file {} --key-file {} --authority-file {} --all-ports",
            self.ovs.url(),
            file("gantry.pem"),
            file("gantry.key"),
            file("ca.pem")
        );
        let _added = cluster.gnt(&add).ok();
        let _set = cluster.gnt("port set tor-1/b1 --configuration boot").ok();
        let _set = cluster.gnt("port set tor-1/l1 --configuration lab").ok();
    }

    /// The network that the machine is in, by frames both ways with each station: `-` where it is in none,
    /// and more than one word where it is in several.
    fn network(&self) -> String {
        let all = [("boot", &self.boot), ("lab", &self.lab), ("idle", &self.rest)];
        let is_in = |station: &Station| {
            let ways = [self.machine.reaches(station), station.reaches(&self.machine)];
            assert_eq!(ways[0], ways[1], "one way alone to {}", station.port);
            ways[0]
        };
        let found: Vec<&str> =
            all.into_iter().filter(|(_, station)| is_in(station)).map(|(name, _)| name).collect();
        if found.is_empty() { "-".to_owned() } else { found.join(" and ") }
    }
}

fn port(cluster: &Cluster, name: &str) -> Value {
    cluster
        .gnt(&format!("port list --json -o name,state,configuration,applied,actual,error {name}"))
        .json()[0]
        .clone()
}

fn wait_for_state(cluster: &Cluster, name: &str, state: &str) {
    wait_for(&format!("{state} of {name}"), PATIENCE, || {
        (port(cluster, name)["state"] == state).then_some(())
    });
}

#[test]
fn ports_follow_a_machine_through_its_life() {
    let Some(rack) = Rack::new() else { return };
    let scene = Scene::begin();
    rack.known_to(&scene.cluster);
    wait_for_state(&scene.cluster, "tor-1/m1", "idle");
    assert_eq!(rack.network(), "idle", "nobody is behind the port");
    let card = "02:00:00:00:00:11";
    let _said = scene.gnt(&format!("port set tor-1/m1 --machine SN1 --card {card}")).ok();
    assert_eq!(rack.network(), "idle", "it is registered, and no more");

    scene.plays(Plays::Silent);
    let job = scene.submitted("machine deploy SN1 --image debian/12 --yes --submit");
    scene.wait_for("deploy-wait");
    assert_eq!(rack.network(), "boot", "it boots");
    says_up(&scene.up());
    scene.cluster.wait_for_status(job, "success");
    assert_eq!(scene.state(), "healthy");
    assert_eq!(rack.network(), "lab", "it works for its users");
    let told = rack.ovs.vsctl("--bare --columns=vlan_mode,tag,trunks list port m1");
    assert_eq!(told.ok(), "native-untagged\n200\n200 201 202 203\n");

    // Somebody else changes it, and it is set again.
    let _changed = rack.ovs.vsctl("set port m1 tag=100 trunks=[] vlan_mode=access").ok();
    wait_for("the repair", PATIENCE, || {
        (rack.ovs.vsctl("get port m1 tag").ok().trim() == "200").then_some(())
    });
    assert_eq!(rack.network(), "lab");

    let _retired = scene.gnt("machine retire SN1 --yes").ok();
    assert_eq!(rack.network(), "idle", "it goes out of service");
    let row = port(&scene.cluster, "tor-1/m1");
    assert_eq!((&row["state"], &row["actual"]), (&"idle".into(), &"999".into()));
    let refused = scene.gnt("port-configuration remove lab");
    assert!(refused.failed(1).contains("in use by the policy of ports"), "{refused:?}");
    let _gone = scene.gnt("switch remove tor-1 --yes").ok();
    let tags = rack.ovs.vsctl("--bare --columns=tag list port b1 l1 m1 r1");
    assert_eq!(tags.ok().split_whitespace().collect::<Vec<_>>(), ["999"; 4], "all rest");
}

#[test]
fn a_dead_switch_fails_a_deployment_and_its_ports_rest_when_it_is_back() {
    let Some(mut rack) = Rack::new() else { return };
    let scene = Scene::begin();
    rack.known_to(&scene.cluster);
    let said = "port set tor-1/m1 --machine SN1 --card 02:00:00:00:00:11";
    let _said = scene.gnt(said).ok();
    wait_for_state(&scene.cluster, "tor-1/m1", "idle");

    rack.ovs.kill_database();
    let failed = scene.gnt("machine deploy SN1 --image debian/12 --yes");
    assert!(failed.failed(1).contains("port-failed"), "{failed:?}");
    assert_eq!(scene.state(), "deploy-failed");
    let row = port(&scene.cluster, "tor-1/m1");
    assert_eq!(row["state"], "error");
    assert!(row["error"].as_str().unwrap().contains("ovsdb+ssl"), "{row}");
    // In userspace nothing moves without the database.
    assert!(["-", "idle"].contains(&&*rack.network()));
    let refused = scene.gnt("switch remove tor-1 --yes");
    assert!(refused.failed(1).contains("--force"), "{refused:?}");

    rack.ovs.start_database();
    wait_for_state(&scene.cluster, "tor-1/m1", "idle");
    assert_eq!(rack.network(), "idle");
    let _retired = scene.gnt("machine retire SN1 --yes").ok();
    let _gone = scene.gnt("switch remove tor-1 --yes").ok();
}

/// A switch that is a program: it keeps its ports in a file, and does what `mode` says wrong.
pub(crate) const PROGRAM: &str = r#"#!/usr/bin/env python3
import json, os, sys, time
here = os.path.dirname(os.path.abspath(sys.argv[0]))
asked = json.load(sys.stdin)
assert asked["password"] == "hunter2" and "hunter2" not in str(sys.argv) + str(os.environ)
file = os.path.join(here, asked["switch"] + ".json")
ports = json.load(open(file)) if os.path.exists(file) else {"e1": {"other": "new"}, "e2": {"other": "new"}}
mode = open(os.path.join(here, "mode." + asked["switch"])).read().strip()
if mode == "hang":
    time.sleep(1000)
if mode == "fail":
    sys.exit("user already in config mode")
refused = {}
for change in asked.get("changes", []):
    if mode == "refuse":
        refused[change["port"]] = "no such VLAN"
    elif mode != "lie":
        ports[change["port"]] = {"set": change["wanted"]}
json.dump(ports, open(file, "w"))
json.dump({"ports": ports, "refused": refused}, sys.stdout)
"#;

#[test]
fn programs_are_switches_and_one_that_fails_is_named_and_delays_no_other() {
    let cluster = Cluster::begin_with_agent();
    let programs = cluster.master.layout().switch_programs();
    std::fs::create_dir_all(&programs).unwrap();
    let program = programs.join("fake");
    stdx::atomic::write(&program, PROGRAM.as_bytes(), 0o755).unwrap();
    let mode = |switch: &str, word: &str| {
        let path = programs.join(format!("mode.{switch}"));
        stdx::atomic::write(&path, word.as_bytes(), 0o644).unwrap();
    };
    let password = cluster.write("password", "hunter2\n");
    let _made = cluster.gnt("port-configuration add five --untagged 5").ok();
    let _made = cluster.gnt("port-configuration add six --untagged 6 --tagged 7-9").ok();
    for switch in ["a", "b"] {
        mode(switch, "good");
        let add = format!(
            "switch add {switch} --url command:fake --user me --password-file {} --all-ports",
            password.display()
        );
        let _added = cluster.gnt(&add).ok();
    }
    let _set = cluster.gnt("port set a/e1 --configuration six").ok();
    assert_eq!(port(&cluster, "a/e1")["state"], "active");
    let verified = cluster.gnt("switch verify a");
    assert!(verified.ok().contains("good a/e1: six (6 tagged 7-9)"), "{verified:?}");
    for (word, told) in [
        ("refuse", "no such VLAN"),
        ("lie", "its switch was told 5, and has new"),
        ("fail", "user already in config mode"),
    ] {
        mode("a", word);
        let failed = cluster.gnt("port set a/e2 --configuration five");
        assert!(failed.failed(1).contains(told), "{word}: {failed:?}");
        assert_eq!(port(&cluster, "a/e2")["state"], "error");
    }
    mode("a", "hang");
    let hangs = cluster.gnt("port set a/e2 --configuration six --submit --print-jobid");
    let hangs: u64 = hangs.ok().trim().parse().unwrap();
    let _set = cluster.gnt("port set b/e1 --configuration five").ok();
    assert_eq!(port(&cluster, "b/e1")["state"], "active");
    let row = cluster.job(hangs, "status");
    assert_eq!(row["status"], "running", "the other one waits for its own switch alone");
    for (line, told) in [
        ("port set c/e1 --configuration five", "Switch 'c' not known"),
        ("port set b/e9 --configuration five", "switch b has no port e9"),
        ("port set b/e1 --configuration seven", "Port configuration 'seven' not known"),
        ("port set b/e1 --machine SN9 --card 02:00:00:00:00:01", "Machine 'SN9' not known"),
        ("port-configuration add five --untagged 6", "such never change"),
        ("port-configuration remove five", "in use by port"),
        ("port-configuration add net --untagged storage", "network storage is not known"),
        ("switch add b --url command:fake", "Switch 'b' exists"),
        ("switch add c --url command:none", "command:none is not reached"),
        ("switch modify b --remove-port e1", "port b/e1 is active; it must rest first"),
    ] {
        let refused = cluster.gnt(line);
        assert!(refused.failed(1).contains(told), "{line}: {refused:?}");
    }
}

#[test]
fn what_a_master_left_undone_and_a_switch_forgot_is_done_anew() {
    let Some(mut rack) = Rack::new() else { return };
    let scene = Scene::begin();
    rack.known_to(&scene.cluster);
    let _said = scene.gnt("machine port SN1 tor-1/m1 --card 02:00:00:00:00:11").ok();
    scene.plays(Plays::Silent);
    let _job = scene.submitted("machine deploy SN1 --image debian/12 --yes --submit");
    scene.wait_for("deploy-wait");
    assert_eq!(rack.network(), "boot");
    scene.cluster.kill_master();
    says_up(&scene.up());
    scene.cluster.start_master();
    scene.wait_for("healthy");
    wait_for("the port in the network of users", PATIENCE, || {
        let row = port(&scene.cluster, "tor-1/m1");
        (row["applied"] == "lab" && row["state"] == "active").then_some(())
    });
    assert_eq!(rack.network(), "lab");
    let told = scene.gnt("machine info SN1");
    assert!(told.ok().contains("tor-1/m1 02:00:00:00:00:11 active lab"), "{told:?}");

    rack.ovs.kill_database();
    rack.ovs.empty();
    rack.ovs.start_database();
    wait_for("the switch without its bridge", PATIENCE, || {
        let told = scene.gnt("switch list --json -o why tor-1").json()[0]["why"].to_string();
        told.contains("has no bridge br0").then_some(())
    });
    rack.ovs.restore(&["m1", "b1", "l1", "r1"]);
    for (name, state) in [("m1", "active"), ("b1", "active"), ("l1", "active"), ("r1", "idle")] {
        wait_for(&format!("{name} as it was"), PATIENCE, || {
            let row = port(&scene.cluster, &format!("tor-1/{name}"));
            let is_set =
                row["actual"].as_str().is_some_and(|actual| actual != "trunk of all VLANs");
            (row["state"] == state && is_set).then_some(())
        });
    }
    assert_eq!(rack.network(), "lab");
}
