//! Instances that are real guests: QEMU without hardware, a kernel with a shell.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use stdx::process::Process;
use tests::cluster::{Cluster, MASTER, PATIENCE};
use tests::run::{run, wait_for};
use tests::wire::Wire;
use xtask::guest::GuestError;
use xtask::guest::parts::Parts;
use xtask::guest::secure::Secure;
use xtask::needs;

/// A cluster of one node whose instances are guests.
pub(crate) struct Node {
    pub(crate) cluster: Cluster,
    pub(crate) parts: Parts,
}

impl Node {
    /// `None` where no guest runs.
    pub(crate) fn begin(wire: Option<&Wire>) -> Option<Self> {
        let parts = match Parts::provide() {
            Ok(parts) => parts,
            Err(GuestError::Impossible(why)) => {
                tests::skip("instances that are guests", &why);
                return None;
            }
            Err(error) => panic!("{}", stdx::daemon::chain(&error)),
        };
        let qemu = needs::find("qemu-system-x86_64").unwrap();
        let mut nobody = Command::new("setpriv");
        nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&qemu);
        if !nobody.arg("--version").output().unwrap().status.success() {
            let why = format!("{} lies where only root may go", qemu.display());
            tests::skip("instances that are guests", &why);
            return None;
        }
        let cluster = match wire {
            None => Cluster::init(),
            Some(wire) => Cluster::init_on(wire),
        };
        cluster.start_master();
        cluster.start_agent(&cluster.master);
        cluster.wait_for_facts(MASTER);
        let disks = cluster.dir().join("disks");
        std::fs::create_dir_all(&disks).unwrap();
        let list = cluster.master.layout().file_storage_paths();
        let text = format!("{}\n", disks.display());
        stdx::atomic::write(&list, text.as_bytes(), 0o644).unwrap();
        let node = Self { cluster, parts };
        let line = format!(
            "cluster modify --enabled-hypervisors kvm --enabled-disk-templates diskless,file,mirror \
             --file-storage-dir {}/file -H",
            disks.display()
        );
        let parameters = format!(
            "kvm:kvm_path={},kernel_path={},initrd_path={},root_path=none,\
             kernel_args=gantry.stays gantry.disks",
            qemu.display(),
            node.parts.kernel.display(),
            node.parts.initrd.display(),
        );
        run(with(node.cluster.gnt_command(&line), &[&parameters])).ok();
        Some(node)
    }

    /// Adds an instance with one disk, and further words.
    pub(crate) fn add(&self, name: &str, more: &str) {
        let line = format!(
            "instance add -t file --disk 0:size=1G --ignore-ipolicy -B memory=256M \
             --no-name-check --no-ip-check -n {MASTER} {more} {name}"
        );
        self.cluster.gnt(&line).ok();
    }

    pub(crate) fn fields(&self, name: &str, fields: &str) -> String {
        let line = format!("instance list --no-headers -o {fields} {name}");
        self.cluster.gnt(&line).ok().trim().to_owned()
    }

    /// Waits until a field of an instance is this.
    pub(crate) fn wait_for(&self, name: &str, field: &str, value: &str) {
        wait_for(&format!("{field} {value}"), PATIENCE, || {
            (self.fields(name, field) == value).then_some(())
        });
    }

    /// The text that a guest wrote to its serial console so far.
    pub(crate) fn console(&self, name: &str) -> String {
        let uuid = self.fields(name, "uuid");
        let path = self.cluster.master.layout().instances().join(format!("{uuid}.console.log"));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    pub(crate) fn wait_for_console(&self, name: &str, text: &str, times: usize) {
        wait_for(&format!("{text} on the console"), PATIENCE, || {
            (self.console(name).matches(text).count() >= times).then_some(())
        });
    }

    /// The devices that a guest tells of when it is asked on its serial console.
    pub(crate) fn devices(&self, name: &str) -> String {
        self.answer(name, "devices", "GUEST has:")
    }

    /// The words behind `mark` with which a guest answers a word on its serial console.
    fn answer(&self, name: &str, word: &str, mark: &str) -> String {
        let seen = self.console(name).matches(mark).count();
        let mut talk = self.cluster.gnt_command(&format!("instance console {name}"));
        talk.stdin(File::open(self.cluster.write("typed", &format!("{word}\n"))).unwrap());
        let talked = talk.output().unwrap();
        assert!(talked.status.success(), "{talked:?}");
        self.wait_for_console(name, mark, seen + 1);
        let console = self.console(name);
        console.rsplit(mark).next().unwrap().lines().next().unwrap().trim().to_owned()
    }

    /// The number of a guest's process.
    pub(crate) fn process(&self, name: &str) -> u32 {
        let uuid = self.fields(name, "uuid");
        let path = self.cluster.master.layout().instances().join(format!("{uuid}.json"));
        pid(&path).unwrap()
    }
}

/// The process of which a record tells.
fn pid(record: &Path) -> Option<u32> {
    let record: Value = serde_json::from_slice(&std::fs::read(record).ok()?).ok()?;
    u32::try_from(record["process"]["pid"].as_u64()?).ok()
}

impl Drop for Node {
    /// Guests outlive their agents, and are not to outlive the test.
    fn drop(&mut self) {
        self.cluster.kill_agent(&self.cluster.master);
        let Ok(records) = std::fs::read_dir(self.cluster.master.layout().instances()) else {
            return;
        };
        for process in records.flatten().filter_map(|entry| Process::of(pid(&entry.path())?)) {
            drop(process.kill());
        }
    }
}

/// A command with further words.
pub(crate) fn with(mut command: Command, words: &[&str]) -> Command {
    command.args(words);
    command
}

/// The guest reads what is typed. A serial port that gets something before may fall silent, in QEMU 7.2.
pub(crate) const LISTENS: &str = "GUEST listens";
/// An instance without a card.
pub(crate) const BARE: &str = "-o noop --no-install --no-nics";

#[test]
fn a_guest_outlives_its_agent() {
    let Some(node) = Node::begin(None) else { return };
    let cluster = &node.cluster;
    node.add("web1.example", BARE);
    node.wait_for("web1", "status", "running");
    node.wait_for_console("web1", "GUEST runs", 1);
    let process = node.process("web1");
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mut confined = vec!["\nNoNewPrivs:\t1\n", "\nSeccomp:\t2\n"];
    // A QEMU that was unpacked beside the machine's packages is wrapped by a namespace of users, within
    // which it has what is nothing outside.
    let users = std::fs::read_to_string(format!("/proc/{process}/uid_map")).unwrap();
    if users.split_whitespace().eq(["0", "0", "4294967295"]) {
        confined.push("\nCapPrm:\t0000000000000000\n");
    }
    for line in confined {
        assert!(status.contains(line), "{line}: {status}");
    }
    assert!(!status.contains("\nUid:\t0\t"), "{status}");
    cluster.kill_agent(&cluster.master);
    cluster.start_agent(&cluster.master);
    node.wait_for("web1", "status", "running");
    assert_eq!(node.process("web1"), process);
    // Two ways to the console: what was said, and what is typed.
    node.wait_for_console("web1", LISTENS, 1);
    let said = cluster.gnt("instance log web1");
    assert!(said.ok().contains("GUEST runs: gantry.stays"), "{said:?}");
    let shown = cluster.gnt("instance console --show-cmd web1");
    assert!(shown.ok().contains("ssh -t root@n1.example socat STDIO"), "{shown:?}");
    let mut talk = cluster.gnt_command("instance console web1");
    talk.stdin(File::open(cluster.write("typed", "hello\n")).unwrap());
    let talked = talk.output().unwrap();
    assert!(talked.status.success(), "{talked:?}");
    node.wait_for_console("web1", "GUEST hears hello", 1);
    cluster.gnt("instance reboot -t soft web1").ok();
    node.wait_for_console("web1", "GUEST runs", 2);
    assert_eq!(node.process("web1"), process);
    cluster.gnt("instance shutdown --timeout 0 web1").ok();
    node.wait_for("web1", "status", "ADMIN_down");
    assert_eq!(Process::of(process), None, "it has ended");
    cluster.gnt("instance startup web1").ok();
    node.wait_for_console("web1", "GUEST runs", 3);
    // The reconciler starts a guest again that dies.
    let process = node.process("web1");
    Process::of(process).unwrap().kill().unwrap();
    node.wait_for_console("web1", "GUEST runs", 4);
    assert_ne!(node.process("web1"), process);
    cluster.gnt("instance remove -f --shutdown-timeout 0 web1").ok();
    let left = std::fs::read_dir(cluster.master.layout().instances()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["served"], "of the instance nothing is left on the node");
}

/// The bridge of a wire's rack, with the wire in it.
fn bridge(wire: &Wire) {
    for line in ["link add br0 type bridge", "link set rack0 master br0", "link set br0 up"] {
        run(with(Command::new("ip"), &[&["-n", &wire.rack], &words(line)[..]].concat())).ok();
    }
}

#[test]
fn disks_and_cards_come_and_go_while_a_guest_runs() {
    if let Some(why) = Wire::missing() {
        return tests::skip("cards that are plugged into a guest", why);
    }
    if let Some(why) = needs::missing(&["nft"]) {
        return tests::skip("cards that are plugged into a guest", &why);
    }
    let wire = Wire::new();
    let Some(node) = Node::begin(Some(&wire)) else { return };
    let cluster = &node.cluster;
    bridge(&wire);
    node.add("web1.example", BARE);
    node.wait_for_console("web1", LISTENS, 1);
    let process = node.process("web1");
    let has = |devices: &str| assert_eq!(node.devices("web1"), devices);
    let modify =
        |words: &str| cluster.gnt(&format!("instance modify --ignore-ipolicy {words} web1"));
    has("vda=2097152");
    let added =
        modify("--disk 1:add,size=64M --net 0:add,mac=aa:00:00:00:00:01,mode=bridged,link=br0");
    for told in ["disk/1 -> hotplug:done", "nic.0 -> hotplug:done"] {
        assert!(added.ok().contains(told), "{added:?}");
    }
    has("vda=2097152 vdb=131072 aa:00:00:00:00:01");
    cluster.gnt("instance grow-disk --ignore-ipolicy web1 1 64M").ok();
    has("vda=2097152 vdb=262144 aa:00:00:00:00:01");
    // The next agent knows of them.
    cluster.kill_agent(&cluster.master);
    cluster.start_agent(&cluster.master);
    node.wait_for("web1", "status", "running");
    let cold = modify("--net 0:modify,mac=aa:00:00:00:00:02");
    assert!(!cold.ok().contains("hotplug"), "{cold:?}");
    has("vda=2097152 vdb=262144 aa:00:00:00:00:01");
    let hot = modify("--hotplug --net 0:modify,mac=aa:00:00:00:00:03");
    assert!(hot.ok().contains("nic/0 -> hotplug:done"), "{hot:?}");
    has("vda=2097152 vdb=262144 aa:00:00:00:00:03");
    copied_while_it_runs(&node);
    assert_eq!(node.process("web1"), process);
    let files =
        || std::fs::read_dir(cluster.dir().join("disks/file/web1.example")).unwrap().count();
    let refused = modify("--disk 1:remove");
    assert!(refused.failed(1).contains("--hotplug takes them out first"), "{refused:?}");
    assert_eq!(files(), 2);
    let removed = modify("--hotplug --disk 1:remove --net 0:remove");
    assert!(removed.ok().contains("nic.0 -> hotplug:done"), "{removed:?}");
    has("vda=2097152");
    assert_eq!(files(), 1);
    // The file that was removed is closed, so that its room is free.
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
    let mut targets = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    assert!(!targets.any(|target| target.to_string_lossy().ends_with("(deleted)")));
    assert_eq!(node.process("web1"), process);
    cluster.gnt("instance shutdown --timeout 0 web1").ok();
    let down = modify("--hotplug --disk 1:add,size=64M");
    assert!(down.failed(1).contains("Hotplug is not possible"), "{down:?}");
    cluster.gnt("instance remove -f --shutdown-timeout 0 web1").ok();
}

/// The disks of a guest that goes on are exported twice, the second time with other content.
fn copied_while_it_runs(node: &Node) {
    let cluster = &node.cluster;
    let directory = cluster.dir().join("disks/file/web1.example");
    let disks = || std::fs::read_dir(&directory).unwrap().flatten().map(|entry| entry.path());
    let first = disks().max_by_key(|disk| disk.metadata().unwrap().len()).unwrap();
    let export = cluster.master.layout().exports();
    for mark in [b"GANTRY-image3", b"GANTRY-image4"] {
        let disk = File::options().write(true).open(&first).unwrap();
        disk.write_all_at(mark, 0).unwrap();
        let told = cluster.gnt(&format!("backup export -n {MASTER} --noshutdown web1"));
        assert!(told.ok().contains("as they are now"), "{told:?}");
        let mut had = vec![0; mark.len()];
        let copy = File::open(export.join("web1.example/disk0.raw")).unwrap();
        copy.read_exact_at(&mut had, 0).unwrap();
        assert_eq!(had, mark);
        let blocks = std::os::unix::fs::MetadataExt::blocks(&copy.metadata().unwrap());
        assert!(blocks * 512 < 1 << 20, "{blocks} blocks, where holes stay holes");
    }
    let second = std::fs::metadata(export.join("web1.example/disk1.raw")).unwrap().len();
    assert_eq!(second, 128 << 20);
    assert_eq!(std::fs::read_dir(&export).unwrap().count(), 1, "nothing is half made");
}

#[test]
fn processors_and_memory_come_and_go_while_a_guest_runs() {
    let Some(node) = Node::begin(None) else { return };
    let cluster = &node.cluster;
    let room = "kvm:max_vcpus=4,max_memory=1G,kernel_args=gantry.stays memhp_default_state=online";
    let line = format!(
        "instance add -t diskless --ignore-ipolicy -B memory=256M --no-name-check --no-ip-check \
         -n {MASTER} {BARE} web1.example -H"
    );
    run(with(cluster.gnt_command(&line), &[room])).ok();
    node.wait_for_console("web1", LISTENS, 1);
    let process = node.process("web1");
    let is = |processors: &str, mib: std::ops::Range<u64>| {
        wait_for(&format!("{processors} processors, {mib:?} MiB"), PATIENCE, || {
            let told = node.answer("web1", "size", "GUEST size:");
            let (present, kib) = told.split_once(' ')?;
            let mib_now = kib.parse::<u64>().ok()? / 1024;
            (present == processors && mib.contains(&mib_now)).then_some(())
        });
    };
    let modify =
        |words: &str| cluster.gnt(&format!("instance modify --ignore-ipolicy {words} web1"));
    is("0", 150..256);
    let more = modify("--hotplug -B vcpus=3,memory=768M");
    for told in ["be/maxmem -> hotplug:done", "be/vcpus -> hotplug:done"] {
        assert!(more.ok().contains(told), "{more:?}");
    }
    is("0-2", 600..768);
    assert_eq!(node.fields("web1", "oper_vcpus,oper_ram"), "3 768M");
    // The next agent knows of them.
    cluster.kill_agent(&cluster.master);
    cluster.start_agent(&cluster.master);
    node.wait_for("web1", "status", "running");
    let beyond = modify("--hotplug -B vcpus=5");
    let why = "Could not hotplug vcpus";
    let said = format!("{}{}", beyond.stdout, beyond.stderr);
    assert!(said.contains(why) && said.contains("room for 4 processors"), "{beyond:?}");
    modify("--hotplug -B vcpus=1,memory=256M").ok();
    is("0", 150..300);
    assert_eq!(node.process("web1"), process);
    cluster.gnt("instance remove -f --shutdown-timeout 0 web1").ok();
}

/// A descriptor of firmware, as its packages have them, for the agent of a node.
fn describe(node: &Node, name: &str, (code, template): (&Path, &Path), features: &[&str]) {
    let raw = |path: &Path| json!({"filename": path, "format": "raw"});
    let descriptor = json!({
        "interface-types": ["uefi"],
        "mapping": {"device": "flash", "executable": raw(code), "nvram-template": raw(template)},
        "targets": [{"architecture": "x86_64", "machines": ["pc-q35-*"]}],
        "features": features,
    });
    let [directory, _] = &node.cluster.master.layout().firmware_directories()[..] else { panic!() };
    std::fs::create_dir_all(directory).unwrap();
    let path = directory.join(name);
    stdx::atomic::write(&path, descriptor.to_string().as_bytes(), 0o644).unwrap();
}

#[test]
fn uefi_starts_guests_and_secure_boot_takes_what_is_signed_alone() {
    let Some(node) = Node::begin(None) else { return };
    let (cluster, parts) = (&node.cluster, &node.parts);
    let none = cluster.gnt(&format!(
        "instance add -t diskless --ignore-ipolicy -B memory=256M --no-name-check --no-ip-check \
         -n {MASTER} {BARE} -H kvm:firmware=uefi web1"
    ));
    assert!(none.failed(1).contains("no firmware with plain UEFI"), "{none:?}");
    describe(&node, "60-plain.json", (&parts.firmware, &parts.variables), &[]);
    node.add("web1.example", &format!("{BARE} -H kvm:firmware=uefi"));
    node.wait_for_console("web1", "EDK II", 1);
    node.wait_for_console("web1", "GUEST runs", 1);
    let uuid = node.fields("web1", "uuid");
    let file = |kind: &str| cluster.master.layout().instances().join(format!("{uuid}.{kind}"));
    assert_ne!(std::fs::read(file("vars")).unwrap(), std::fs::read(&parts.variables).unwrap());
    cluster.gnt("instance shutdown --timeout 0 web1").ok();
    let secure = match Secure::provide(parts) {
        Ok(secure) => secure,
        Err(GuestError::Impossible(why)) => return tests::skip("guests with Secure Boot", &why),
        Err(error) => panic!("{}", stdx::daemon::chain(&error)),
    };
    let features = ["secure-boot", "enrolled-keys", "requires-smm"];
    describe(&node, "40-secure.json", (&secure.firmware, &secure.variables), &features);
    let start = |kernel: &Path| {
        let parameters =
            format!("firmware=uefi-secure,kernel_path={},initrd_path=none", kernel.display());
        run(with(cluster.gnt_command("instance modify --ignore-ipolicy web1 -H"), &[&parameters]))
            .ok();
        cluster.gnt("instance startup web1").ok();
    };
    let before = node.console("web1").matches("GUEST runs").count();
    start(&parts.uki);
    node.wait_for_console("web1", "No bootable option", 1);
    assert_eq!(node.console("web1").matches("GUEST runs").count(), before);
    cluster.gnt("instance shutdown --timeout 0 web1").ok();
    start(&secure.signed);
    node.wait_for_console("web1", "GUEST runs", before + 1);
    cluster.gnt("instance remove -f --shutdown-timeout 0 web1").ok();
    let left = [file("vars"), file("secure-vars")].map(|path| path.exists());
    assert_eq!(left, [false; 2]);
}

/// The disk of an image: a mark at its begin, and that of a boot sector.
fn image() -> Vec<u8> {
    let mut image = vec![0; 1 << 20];
    image[..13].copy_from_slice(b"GANTRY-image1");
    image[510..512].copy_from_slice(b"\x55\xaa");
    image
}

#[test]
fn an_instance_is_made_of_an_image_and_told_who_it_is() {
    if let Some(why) = Wire::missing() {
        return tests::skip("an instance of an image", why);
    }
    if let Some(why) = needs::missing(&["nft"]) {
        return tests::skip("an instance of an image", &why);
    }
    let wire = Wire::new();
    let Some(node) = Node::begin(Some(&wire)) else { return };
    let cluster = &node.cluster;
    bridge(&wire);
    let address = ["-n", &wire.client, "addr", "add", "10.69.0.9/26", "dev", "eth0"];
    run(with(Command::new("ip"), &address)).ok();
    let dhcp = "--no-daemon --port=0 --interface=eth0 --bind-interfaces --no-ping --leasefile-ro \
                --dhcp-range=10.69.0.40,10.69.0.50,1h";
    let dnsmasq = with(needs::command("dnsmasq"), &words(dhcp));
    cluster.start("dnsmasq", Wire::within(&wire.client, &dnsmasq));
    let file = cluster.dir().join("disk.raw");
    stdx::atomic::write(&file, &image(), 0o644).unwrap();
    cluster.gnt(&format!("image upload small/1 --disk {}", file.display())).ok();
    assert_eq!(cluster.gnt("os list --no-headers").ok(), "image+small\nimage+small/1\n");
    node.add("web1.example", "-o image+small --net 0:mode=bridged,link=br0");
    node.wait_for_console("web1", "GUEST disk /dev/vda: GANTRY-image1", 1);
    let told = "GUEST disk /dev/vdb: \"local-hostname\":\"web1.example\"";
    node.wait_for_console("web1", told, 1);
    node.wait_for_console("web1", "GUEST has 10.69.0.", 1);
    let running = cluster.gnt("instance reinstall -f web1");
    assert!(running.failed(1).contains("is marked to be up"), "{running:?}");
    cluster.gnt("instance shutdown --timeout 0 web1").ok();
    cluster.gnt("instance reinstall -f -o image+small/1 -O hostname=other web1").ok();
    cluster.gnt("instance startup web1").ok();
    node.wait_for_console("web1", "\"local-hostname\":\"other\"", 1);
    for (words, why) in [
        ("-o image+large web2", "there is no image of a disk 'large'"),
        ("-o debootstrap web2", "no node has a definition of it"),
        ("-o image+small -O nonsense=1 web2", "OS parameter nonsense is not known"),
    ] {
        let line = format!(
            "instance add -t file --disk 0:size=1G --no-name-check --no-ip-check -n {MASTER} {words}"
        );
        let refused = cluster.gnt(&line);
        assert!(refused.failed(1).contains(why), "{words}: {refused:?}");
    }
    comes_back_from_its_export(&node);
    cluster.gnt("instance remove -f --shutdown-timeout 0 web1").ok();
}

/// A guest that runs is exported, removed, and made again with what it had on its disk.
fn comes_back_from_its_export(node: &Node) {
    let cluster = &node.cluster;
    cluster.gnt("instance shutdown --timeout 0 web1").ok();
    let disk = std::fs::read_dir(cluster.dir().join("disks/file/web1.example")).unwrap();
    let disk = File::options().write(true).open(disk.flatten().next().unwrap().path()).unwrap();
    disk.write_all_at(b"GANTRY-image2", 0).unwrap();
    cluster.gnt("instance startup web1").ok();
    node.wait_for_console("web1", "GUEST disk /dev/vda: GANTRY-image2", 1);
    cluster.gnt(&format!("backup export -n {MASTER} --shutdown-timeout 0 web1")).ok();
    node.wait_for_console("web1", "GUEST disk /dev/vda: GANTRY-image2", 2);
    cluster.gnt("instance remove -f --shutdown-timeout 0 web1").ok();
    let import = "backup import --start --no-name-check --no-ip-check -n";
    cluster.gnt(&format!("{import} {MASTER} web1.example")).ok();
    node.wait_for_console("web1", "GUEST disk /dev/vda: GANTRY-image2", 1);
    node.wait_for_console("web1", "\"local-hostname\":\"other\"", 1);
    node.wait_for_console("web1", "GUEST has 10.69.0.", 1);
}

/// The words of a line.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
