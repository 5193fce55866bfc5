//! The scene of a virtual machine: a guest of QEMU, on one of the cluster's nodes.

use std::path::Path;
use std::process::Command;

use model::layout::Layout;

use super::{DemoError, Play, scenes};
use crate::guest::parts::Parts;
use crate::guest::rack::SOON;
use crate::needs;

/// The node of the guest.
const NODE: u8 = 2;
/// The columns that the scene shows.
const FIELDS: &str = "name,hypervisor,pnode,status,oper_ram,disk_usage";
/// The program that the guest is a process of.
const QEMU: &str = "qemu-system-x86_64";
/// The guest says so when it reads what is typed.
const LISTENS: &str = "GUEST listens";
/// The user and group that the guest's process is, where no package made one for it.
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// The scene.
pub(super) fn play(play: &Play) -> Result<(), DemoError> {
    let parts = Parts::provide().map_err(|error| crate::chain(&error));
    let ready = parts.and_then(|parts| Ok((parts, qemu()?)));
    let (parts, qemu) = match ready {
        Ok(ready) => ready,
        Err(why) => {
            play.skip(&why);
            return Ok(());
        }
    };
    live(play, &parts, &qemu)
}

/// QEMU, if one who is nobody may run it.
fn qemu() -> Result<String, String> {
    let qemu = needs::find(QEMU).ok_or_else(|| format!("{QEMU} is not there"))?;
    let mut nobody = Command::new("setpriv");
    nobody.args(NOBODY).arg(&qemu).arg("--version");
    match nobody.output() {
        Ok(output) if output.status.success() => Ok(qemu.display().to_string()),
        _ => Err("a guest's process is nobody in particular, and nobody may not run QEMU here"
            .to_owned()),
    }
}

fn live(play: &Play, parts: &Parts, qemu: &str) -> Result<(), DemoError> {
    let disks = play.stage.root().join("disks");
    let list = Layout::new(play.root(NODE)).file_storage_paths();
    let write = |path: &Path, text: &str| {
        stdx::atomic::write(path, text.as_bytes(), super::FILE_MODE)
            .map_err(|error| DemoError::Write { path: path.to_owned(), error })
    };
    std::fs::create_dir_all(&disks)
        .map_err(|error| DemoError::Write { path: disks.clone(), error })?;
    write(&list, &format!("{}\n", disks.display()))?;
    let directory = disks.join("file").display().to_string();
    let modify = ["cluster", "modify", "--enabled-hypervisors", "kvm,fake"];
    let storage = ["--enabled-disk-templates", "file,diskless", "--file-storage-dir", &directory];
    play.gnt(&[&modify[..], &storage].concat())?;
    let parameters = format!(
        "kvm:kvm_path={qemu},kernel_path={},initrd_path={},root_path=none,kernel_args=gantry.stays",
        parts.kernel.display(),
        parts.initrd.display(),
    );
    let add = ["instance", "add", "-t", "file", "--disk", "0:size=1G", "--ignore-ipolicy"];
    let guest = ["-B", "memory=256M", "-o", "noop", "--no-install", "--no-nics", "-H", &parameters];
    let unchecked = ["--no-name-check", "--no-ip-check", "-n", "n2.example", "vm1.example"];
    play.gnt(&[&add[..], &guest, &unchecked].concat())?;
    let log = || play.quiet(&["instance", "log", "vm1"]).unwrap_or_default();
    let says = |text: &str| play.stage.wait_until(text, SOON, || log().contains(text));
    says(LISTENS)?;
    play.gnt(&["instance", "list", "-o", FIELDS, "vm1"])?;
    println!("\n  its agent ends, and the guest goes on; the next agent takes it over:");
    play.stage.kill("noded2");
    scenes::start_rack_agent(play, &[])?;
    let status = ["instance", "list", "--no-headers", "-o", "status", "vm1"];
    let runs = || play.quiet(&status).is_some_and(|status| status.trim() == "running");
    play.stage.wait_until("the guest in the cluster's eyes", SOON, runs)?;
    println!("\n  it gets one more disk while it runs, and is asked by its console what it has:");
    play.gnt(&["instance", "modify", "--ignore-ipolicy", "--disk", "1:add,size=64M", "vm1"])?;
    play.gnt_with(&["instance", "console", "vm1"], Some("devices"))?;
    says("vdb=131072")?;
    for line in log().lines().filter(|line| line.starts_with("GUEST")) {
        println!("    {}", stdx::text::line(line.trim_end()));
    }
    play.gnt(&["instance", "list", "-o", FIELDS, "vm1"])?;
    play.gnt(&["instance", "remove", "-f", "--shutdown-timeout", "0", "vm1"])
}
