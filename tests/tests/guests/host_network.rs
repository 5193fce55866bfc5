//! Kinds of links that the kernel of a test machine may lack: hostnet's own test of them, in a guest with
//! Debian's kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use xtask::guest::parts::Parts;
use xtask::guest::{GuestError, run};

/// The test that runs there.
const TEST: &str = "host::tests::kinds::bonds_vlans_and_dummies_are_applied_and_rolled_back";
/// The guest's line when that test passed; a skipped one passes too, and says so.
const PASSED: &str = "GUEST tested: 0";
/// Modules of the kernel, each behind those that it needs.
const MODULES: &[&str] =
    &["llc", "stp", "bridge", "garp", "mrp", "8021q", "tls", "bonding", "dummy", "veth"];
/// Longest that the guest may take; it takes some seconds, and more beside other work.
const SECONDS: &str = "300";
/// The first program of the guest.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
export PATH=/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in MODULES; do insmod /modules/$module.ko; done
/test --exact --nocapture TEST
echo "GUEST tested: $?"
poweroff -f
"#;

#[test]
fn bonds_vlans_and_dummies_are_changed_under_debians_kernel() {
    let parts = match Parts::provide() {
        Ok(parts) => parts,
        Err(GuestError::Impossible(why)) => {
            tests::skip("links under Debian's kernel", &why);
            return;
        }
        Err(error) => panic!("{}", stdx::daemon::chain(&error)),
    };
    let dir = tempfile::tempdir().unwrap();
    let initrd = initrd(&parts, dir.path());
    let mut guest = Command::new("timeout");
    guest.args([SECONDS, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "512"]);
    guest.args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]);
    guest.arg("-kernel").arg(&parts.kernel).arg("-initrd").arg(&initrd);
    guest.args(["-append", "console=ttyS0 quiet panic=-1"]);
    let said = run(&mut guest).unwrap();
    assert!(said.contains(PASSED) && !said.contains("skipped"), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

/// A file system in memory with the test, `ip`, and what both need.
fn initrd(parts: &Parts, dir: &Path) -> PathBuf {
    let tree = dir.join("tree");
    let place = parts.kernel.parent().unwrap();
    for sub in ["bin", "sbin", "modules"] {
        fs::create_dir_all(tree.join(sub)).unwrap();
    }
    fs::copy(place.join("initrd.d/bin/busybox"), tree.join("bin/busybox")).unwrap();
    for module in MODULES {
        let mut find = Command::new("find");
        find.arg(place.join("unpacked")).args(["-name", &format!("{module}.ko*")]);
        let found = run(&mut find).unwrap();
        let from = Path::new(found.lines().next().unwrap());
        let to = tree.join("modules").join(from.file_name().unwrap());
        fs::copy(from, &to).unwrap();
        if to.extension() == Some("xz".as_ref()) {
            let _unpacked = run(Command::new("xz").arg("-d").arg(&to)).unwrap();
        }
    }
    for (program, name) in [(test_program(), "test"), (PathBuf::from("/usr/sbin/ip"), "sbin/ip")] {
        for library in libraries(&program) {
            let to = tree.join(library.strip_prefix("/").unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&library, to).unwrap();
        }
        fs::copy(program, tree.join(name)).unwrap();
    }
    let init = INIT.replace("MODULES", &MODULES.join(" ")).replace("TEST", TEST);
    stdx::atomic::write(&tree.join("init"), init.as_bytes(), 0o755).unwrap();
    let initrd = dir.join("initrd");
    let mut pack = Command::new("sh");
    pack.args(["-c", "cd \"$1\" && find . | bin/busybox cpio -o -H newc > \"$2\"", "pack"]);
    let _packed = run(pack.arg(&tree).arg(&initrd)).unwrap();
    initrd
}

/// The libraries of a program and the loader, as they lie here.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let said = run(Command::new("ldd").arg(program)).unwrap();
    let words =
        said.lines().filter_map(|line| line.split_whitespace().find(|w| w.starts_with('/')));
    words.map(PathBuf::from).collect()
}

/// The unit tests of hostnet, built. Of the whole workspace, as all tests are: for one package, cargo would
/// build all that it needs anew.
fn test_program() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--workspace", "--lib", "--no-run", "--message-format", "json"]);
    let said = run(&mut cargo).unwrap();
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| message["target"]["name"] == "hostnet");
    built.find_map(|message| Some(message["executable"].as_str()?.into())).unwrap()
}
