//! Instances that are real guests: QEMU without hardware, a kernel with a shell.

use std::path::{Path, PathBuf};

use serde_json::Value;
use stdx::process::Process;
use tests::cluster::{Cluster, MASTER, PATIENCE};
use tests::run::wait_for;
use xtask::guest::GuestError;
use xtask::guest::parts::Parts;
use xtask::needs;

/// A cluster of one node whose instances are guests.
struct Node {
    cluster: Cluster,
    parts: Parts,
    qemu: PathBuf,
}

impl Node {
    /// `None` where no guest runs.
    fn begin() -> Option<Self> {
        let parts = match Parts::provide() {
            Ok(parts) => parts,
            Err(GuestError::Impossible(why)) => {
                tests::skip("instances that are guests", &why);
                return None;
            }
            Err(error) => panic!("{}", stdx::daemon::chain(&error)),
        };
        let qemu = needs::find("qemu-system-x86_64").unwrap();
        let cluster = Cluster::begin_with_agent();
        let disks = cluster.dir().join("disks");
        std::fs::create_dir_all(&disks).unwrap();
        let list = cluster.master.layout().file_storage_paths();
        let text = format!("{}\n", disks.display());
        stdx::atomic::write(&list, text.as_bytes(), 0o644).unwrap();
        let node = Self { cluster, parts, qemu };
        let line = format!(
            "cluster modify --enabled-hypervisors kvm --enabled-disk-templates diskless,file \
             --file-storage-dir {}/file -H kvm:kvm_path={},kernel_path={},initrd_path={},kernel_args=gantry.stays,root_path=none",
            disks.display(),
            node.qemu.display(),
            node.parts.kernel.display(),
            node.parts.initrd.display(),
        );
        node.cluster.gnt(&line).ok();
        Some(node)
    }

    /// Adds an instance with one disk, and further words.
    fn add(&self, name: &str, more: &str) {
        let line = format!(
            "instance add -t file --disk 0:size=1G --ignore-ipolicy -B memory=256M -o noop --no-install --no-nics \
             --no-name-check --no-ip-check -n {MASTER} {more} {name}"
        );
        self.cluster.gnt(&line).ok();
    }

    fn fields(&self, name: &str, fields: &str) -> String {
        let line = format!("instance list --no-headers -o {fields} {name}");
        self.cluster.gnt(&line).ok().trim().to_owned()
    }

    /// Waits until a field of an instance is this.
    fn wait_for(&self, name: &str, field: &str, value: &str) {
        wait_for(&format!("{field} {value}"), PATIENCE, || {
            (self.fields(name, field) == value).then_some(())
        });
    }

    /// The text that a guest wrote to its serial console so far.
    fn console(&self, name: &str) -> String {
        let uuid = self.fields(name, "uuid");
        let path = self.cluster.master.layout().instances().join(format!("{uuid}.console.log"));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    fn wait_for_console(&self, name: &str, text: &str, times: usize) {
        wait_for(&format!("{text} on the console"), PATIENCE, || {
            (self.console(name).matches(text).count() >= times).then_some(())
        });
    }

    /// The number of a guest's process.
    fn process(&self, name: &str) -> u32 {
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

#[test]
fn a_guest_outlives_its_agent() {
    let Some(node) = Node::begin() else { return };
    let cluster = &node.cluster;
    node.add("web1.example", "");
    node.wait_for("web1", "status", "running");
    node.wait_for_console("web1", "GUEST runs", 1);
    let process = node.process("web1");
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    assert!(
        status.contains("\nNoNewPrivs:\t1\n") && status.contains("\nSeccomp:\t2\n"),
        "{status}"
    );
    assert!(!status.contains("\nUid:\t0\t"), "{status}");
    cluster.kill_agent(&cluster.master);
    cluster.start_agent(&cluster.master);
    node.wait_for("web1", "status", "running");
    assert_eq!(node.process("web1"), process);
    cluster.gnt("instance reboot -t soft web1").ok();
    node.wait_for_console("web1", "GUEST runs", 2);
    assert_eq!(node.process("web1"), process);
    cluster.gnt("instance shutdown --timeout 0 web1").ok();
    node.wait_for("web1", "status", "ADMIN_down");
    assert_eq!(Process::of(process), None, "it has ended");
    cluster.gnt("instance startup web1").ok();
    node.wait_for_console("web1", "GUEST runs", 3);
    cluster.gnt("instance remove -f --shutdown-timeout 0 web1").ok();
    let left = std::fs::read_dir(cluster.master.layout().instances()).unwrap().count();
    assert_eq!(left, 0, "of the instance nothing is left on the node");
}
