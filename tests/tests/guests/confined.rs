//! A guest that has taken its QEMU over reaches nothing of its node but its own disks.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use tests::run::run;

use crate::instances::{BARE, Node, with};

/// The program that runs as QEMU, and names whatever it reaches. Words in capitals stand for numbers of
/// processes, a port, and the cluster's directory.
const HOSTILE: &str = r#"#!/bin/bash
agent=AGENT; guest=GUEST; port=PORT; root=ROOT
reached() { printf ' %s' "$1" >&2; }
printf 'REACHED:' >&2
cat /etc/passwd >/dev/null 2>&1 && reached passwd
[ -e /etc/gantry ] || [ -e $root ] && reached configuration
[ -e /root ] || [ -e /home ] || [ -e /var ] || [ -e /srv ] && reached host
touch /usr/bin/gantry-test 2>/dev/null && rm /usr/bin/gantry-test && reached programs
touch /tmp/gantry-test /gantry-test 2>/dev/null && rm -f /tmp/gantry-test /gantry-test && reached files
: 2>/dev/null </dev/tcp/127.0.0.1/$port && reached network
ls /sys/class/net 2>/dev/null | grep -q . && reached interfaces
grep -qv 'lo:\|face\|Inter' /proc/self/net/dev && reached cards
ls /proc/$agent/fd >/dev/null 2>&1 && reached agent
ls /proc/$guest/fd >/dev/null 2>&1 && reached disks
kill -0 $agent 2>/dev/null && reached kill-agent
kill -0 $guest 2>/dev/null && reached kill-guest
chroot / true 2>/dev/null && reached root
unshare --mount true 2>/dev/null && reached mounts
[ $(ulimit -c) = 0 ] || reached core
: 2>/dev/null <&3 && reached descriptors
echo >&2
exit 3
"#;

/// A node's own programs, which its guests' user may read.
struct Place(PathBuf);

impl Place {
    fn new(node: &Node) -> Self {
        let parts = node.parts.kernel.parent().unwrap();
        let place = parts.join(format!("hostile-{}", std::process::id()));
        std::fs::create_dir_all(place.join("bin")).unwrap();
        Self(place)
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join("bin").join(name);
        stdx::atomic::write(&path, text.as_bytes(), 0o755).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o755);
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The things that the program reached, by its words.
fn reached(words: &str) -> BTreeSet<&str> {
    let line = words.lines().find_map(|line| line.split_once("REACHED:"));
    line.unwrap_or_else(|| panic!("it did not run: {words}")).1.split_whitespace().collect()
}

#[test]
fn whoever_takes_a_qemu_over_reaches_its_own_disks_alone() {
    let Some(node) = Node::begin(None) else { return };
    let cluster = &node.cluster;
    cluster.gnt("cluster modify --uid-pool 61000-61001 -H kvm:security_model=pool").ok();
    node.add("web1.example", BARE);
    node.wait_for("web1", "status", "running");
    let guest = node.process("web1");
    assert_eq!(user(guest), 61_000);
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let place = Place::new(&node);
    let text = HOSTILE
        .replace("AGENT", &std::process::id().to_string())
        .replace("GUEST", &guest.to_string())
        .replace("PORT", &listener.local_addr().unwrap().port().to_string())
        .replace("ROOT", &cluster.dir().display().to_string());
    let hostile = place.program("qemu", &text);
    let line = format!(
        "instance add -t diskless --ignore-ipolicy -B memory=256M --no-name-check --no-ip-check -n {} \
         {BARE} web2.example -H",
        tests::cluster::MASTER
    );
    let told =
        run(with(cluster.gnt_command(&line), &[&format!("kvm:kvm_path={}", hostile.display())]));
    let told = told.failed(1);
    assert_eq!(reached(told), BTreeSet::from(["descriptors"]), "{told}");
    // The same program sees much where nobody confines it: so it would tell.
    let free = Command::new(&hostile).output().unwrap();
    let free = String::from_utf8_lossy(&free.stderr).into_owned();
    for place in ["passwd", "configuration", "host", "network", "cards", "agent", "disks", "root"] {
        assert!(reached(&free).contains(place), "{place}: {free}");
    }
    // So it is where an agent has few rights of its own, as its packages' unit gives them.
    let noded = tests::place::programs().command("noded");
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65533", "--regid=65533", "--clear-groups", "test", "-x"]);
    if !nobody.arg(noded.get_program()).status().unwrap().success() {
        return tests::skip("an agent with few rights", "its program lies where only root may go");
    }
    let mut agent = Command::new("setpriv");
    agent.args([
        "--reuid=65533",
        "--regid=65533",
        "--clear-groups",
        "--bounding-set=-all,+setuid,+setgid",
    ]);
    agent.args(["--inh-caps=-all,+setuid,+setgid", "--ambient-caps=-all,+setuid,+setgid"]);
    agent.arg(noded.get_program()).arg("confine");
    agent.arg(r#"{"user":61001,"group":65534,"groups":[]}"#).arg(&hostile).env_clear();
    let told = agent.output().unwrap();
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(reached(&told), BTreeSet::new(), "{told}");
}

/// The user of a process.
fn user(process: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
