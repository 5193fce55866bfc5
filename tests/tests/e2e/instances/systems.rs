//! Operating systems of instances by definitions: directories with scripts on nodes.

use super::*;

/// Prints what it is told onto the first disk, and fails on request.
const CREATE: &str = r#"#!/bin/sh
echo "creating for $INSTANCE_NAME"
[ -z "$OSP_FAIL" ] || { echo "no mirror" >&2; exit 7; }
env | sort | dd of="$DISK_0_PATH" conv=notrunc 2>/dev/null
"#;
const RENAME: &str = r#"#!/bin/sh
echo "$OLD_INSTANCE_NAME is $INSTANCE_NAME" | dd of="$DISK_0_PATH" conv=notrunc 2>/dev/null
"#;
const VERIFY: &str = r#"#!/bin/sh
[ "$OSP_SIZE" != wrong ] || { echo "no such size" >&2; exit 1; }
"#;

/// The file of the only disk of an instance, up to the first zero.
fn written(rack: &Rack, name: &str) -> String {
    use std::io::Read as _;
    let files = std::fs::read_dir(rack.disks().join("file").join(name)).unwrap();
    let path = files.map(|one| one.unwrap().path()).next().unwrap();
    let mut head = Vec::new();
    std::fs::File::open(path).unwrap().take(64 * 1024).read_to_end(&mut head).unwrap();
    let end = head.iter().position(|byte| *byte == 0).unwrap_or(head.len());
    String::from_utf8(head[..end].to_vec()).unwrap()
}

fn with(mut command: Command, arguments: &[&str]) -> Command {
    command.args(arguments);
    command
}

/// The directory for definitions that an operator makes.
fn place(host: &Host) -> PathBuf {
    host.layout().os_directories().into_iter().next().unwrap()
}

fn define(host: &Host, hypervisors: &str) {
    let directory = place(host).join("probe");
    std::fs::create_dir_all(&directory).unwrap();
    for (name, text, mode) in [
        ("ganeti_api_version", "20\n", 0o644),
        ("variants.list", "small\nlarge\n", 0o644),
        ("parameters.list", "fail Whether it fails\nsize How much of it\n", 0o644),
        ("hypervisors", hypervisors, 0o644),
        ("create", CREATE, 0o755),
        ("rename", RENAME, 0o755),
        ("verify", VERIFY, 0o755),
    ] {
        stdx::atomic::write(&directory.join(name), text.as_bytes(), mode).unwrap();
    }
}

impl Rack {
    /// Waits until the master knows what definitions its nodes have.
    fn wait_for_systems(&self, wanted: &str) {
        let list = "gnt-os list --no-headers";
        wait_for(&format!("systems {wanted:?}"), PATIENCE, || {
            (self.theirs(list).ok() == wanted).then_some(())
        });
    }

    /// The same with two definitions on all nodes.
    fn with_definitions() -> Option<Self> {
        let rack = Self::begin()?;
        for host in rack.nodes() {
            rack.ganeti.copy_definition("noop", &host.layout().os_directories()[3]);
            define(host, "fake\n");
        }
        rack.wait_for_systems("noop\nprobe+small\nprobe+large\n");
        Some(rack)
    }

    /// Adds an instance that has its system written.
    fn install(&self, options: &str, name: &str) -> Ended {
        let usual = "-t file --disk 0:size=1G -n n2 --no-start --no-name-check --no-ip-check";
        self.theirs(&format!("gnt-instance add {usual} {options} {name}"))
    }
}

#[test]
fn definitions_run_as_ganetis_own_commands_ask() {
    let Some(rack) = Rack::with_definitions() else { return };
    let told = rack.theirs("gnt-os diagnose");
    assert!(told.ok().contains("OS: probe [global status: valid]"), "{told:?}");
    let info = rack.theirs("gnt-os info probe");
    assert!(info.ok().contains("- size: How much of it"), "{info:?}");
    assert!(rack.ours("os info probe").ok().contains("size: How much of it"));

    let added =
        rack.install("-o probe+large -O size=much --net 0:link=br7 -B memory=256", "web1.example");
    assert!(
        format!("{}{}", added.ok(), added.stderr)
            .contains("running the instance OS create scripts")
    );
    let environment = written(&rack, "web1.example");
    for line in [
        "DISK_0_ACCESS=rw",
        "DISK_0_SIZE=1024",
        "DISK_COUNT=1",
        "HYPERVISOR=fake",
        "INSTANCE_BE_maxmem=256",
        "INSTANCE_NAME=web1.example",
        "INSTANCE_OS=probe+large",
        "INSTANCE_PRIMARY_NODE=n2.example",
        "NIC_0_BRIDGE=br7",
        "NIC_0_MODE=bridged",
        "OSP_SIZE=much",
        "OS_API_VERSION=20",
        "OS_NAME=probe",
        "OS_VARIANT=large",
    ] {
        assert!(environment.lines().any(|told| told == line), "{line}: {environment}");
    }
    assert!(!environment.contains("HOME="), "{environment}");

    rack.install("-o probe+tiny --force-variant", "web2.example").ok();
    rack.install("-o noop", "web3.example").ok();

    rack.theirs("gnt-instance rename -f --no-name-check --no-ip-check web2.example web4.example")
        .ok();
    assert!(written(&rack, "web4.example").starts_with("web2.example is web4.example\n"));
    rack.theirs("gnt-instance reinstall -f -o probe+small web3.example").ok();
    let environment = written(&rack, "web3.example");
    assert!(environment.contains("INSTANCE_REINSTALL=1\n"), "{environment}");
    assert_eq!(rack.list("name,os")[1], "web3.example:probe+small");
}

#[test]
fn what_a_definition_refuses_or_lacks_is_told_and_nothing_is_left() {
    let Some(rack) = Rack::with_definitions() else { return };
    // It fails: its words are told, and nothing is left.
    let failed = rack.install("-o probe+small -O fail=yes", "web2.example");
    let text = failed.failed(1);
    assert!(
        text.contains("Could not add os for instance web2.example on node n2.example"),
        "{text}"
    );
    assert!(text.contains("exit status: 7") && text.contains("no mirror"), "{text}");
    assert!(rack.list("name").is_empty());
    let logs = std::fs::read_dir(rack.hosts[0].layout().os_logs()).unwrap();
    assert_eq!(logs.count(), 1);
    for (more, why) in [
        ("-o probe", "must include a variant"),
        ("-o probe+tiny", "Unsupported OS variant"),
        ("-o noop+tiny", "doesn't support variants"),
        ("-o probe+small -O colour=red", "not supported by the OS probe: colour"),
        ("-o probe+small -O size=wrong", "no such size"),
        ("-o other", "OS 'other' is not known"),
    ] {
        let refused = rack.install(more, "web2.example");
        assert!(refused.failed(1).contains(why), "{more}: {refused:?}");
    }

    // One node has another one: it is valid nowhere, and right where it is.
    define(&rack.hosts[1], "kvm\n");
    std::fs::remove_file(place(&rack.hosts[1]).join("probe/create")).unwrap();
    rack.wait_for_systems("noop\n");
    let told = rack.theirs("gnt-os diagnose");
    let text = format!("{}{}", told.stdout, told.stderr);
    assert!(text.contains("invalid") && text.contains("File 'create' under path"), "{told:?}");
    rack.install("-o probe+small", "web5.example").ok();
    let elsewhere = rack.theirs(
        "gnt-instance add -t file --disk 0:size=1G -n n3 -o probe+small --no-name-check --no-ip-check web6",
    );
    assert!(elsewhere.failed(1).contains("File 'create' under path"), "{elsewhere:?}");
}

#[test]
fn debians_own_definition_installs_a_debian() {
    let what = "Debian's ganeti-instance-debootstrap";
    if !tests::is_root() {
        return tests::skip(what, "it mounts, as root");
    }
    if let Some(why) = xtask::needs::missing(&["udevadm", "mkfs.ext4"]) {
        return tests::skip(what, &why);
    }
    // Nobody else may have its loop devices.
    if let Err(why) = tests::loop_fs::LoopFs::make(tests::loop_fs::Kind::Ext4) {
        return tests::skip(what, &why);
    }
    let bare = match xtask::debian::bare() {
        Ok(bare) => bare,
        Err(why) => return tests::skip(what, &why),
    };
    let Some(rack) = Rack::begin() else { return };
    let host = &rack.hosts[0];
    let own = |name: &str| {
        let directory = rack.cluster.dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    };
    let (settings, cache) = (own("settings"), own("cache"));
    rack.ganeti.copy_definition("debootstrap", &place(host));
    // The settings are those of its package, and the cache is what its first run would leave.
    let text = format!(
        "SUITE=bookworm\nPARTITION_STYLE=none\nVARIANTS_DIR={}\nCUSTOMIZE_DIR=/nonexistent\n",
        settings.display()
    );
    let write =
        |path: PathBuf, text: &str| stdx::atomic::write(&path, text.as_bytes(), 0o644).unwrap();
    write(settings.join("ganeti-instance-debootstrap"), &text);
    write(settings.join("default.conf"), "");
    let caches = cache.join("ganeti-instance-debootstrap");
    std::fs::create_dir_all(&caches).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(bare).arg("-cf").arg(caches.join("cache-bookworm-amd64.tar")).arg(".");
    run(tar).ok();
    // The least Debian has no ifupdown, whose directory it wants.
    let more = own("more");
    std::fs::create_dir_all(more.join("etc/network")).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(more).arg("-rf").arg(caches.join("cache-bookworm-amd64.tar"));
    run(with(tar, &["./etc/network"])).ok();
    let places = [(settings, "/etc/default".into()), (cache, "/var/cache".into())];
    rack.start_with(host, &places);
    wait_for("the definition", PATIENCE, || {
        rack.ours("os diagnose").ok().contains("OS: debootstrap").then_some(())
    });
    let line = "gnt-instance add -t file --disk 0:size=2G -n n2 -o debootstrap+default --no-start \
                --no-name-check --no-ip-check deb1.example";
    rack.theirs(line).ok();
    let hostname = || {
        let files = std::fs::read_dir(rack.disks().join("file")).unwrap();
        let directory = files.map(|one| one.unwrap().path()).next().unwrap();
        let mut files = std::fs::read_dir(directory).unwrap();
        let disk = files.next().unwrap().unwrap().path();
        let mut look = Command::new("debugfs");
        look.args(["-c", "-R", "cat /etc/hostname"]).arg(disk);
        run(look).ok().to_owned()
    };
    assert_eq!(hostname(), "deb1.example\n");
    rack.theirs("gnt-instance rename -f --no-name-check --no-ip-check deb1.example deb2.example")
        .ok();
    assert_eq!(hostname(), "deb2.example\n");
}
