//! Disks that are full, or not to be written, or somebody else's.

use std::fs::{File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use luxi::method::{ChangeJobPriority, SubmitJob};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::cluster::{Cluster, IPAM, PATIENCE};
use tests::run::{Ended, run, wait_for};

/// A user without the rights of root.
const NOBODY: u32 = 65_534;
/// Room for four segments of a journal, and some.
const DISK: &str = "size=24m";

/// A small disk, gone when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, size: &str) -> Self {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", size, "gantry-test"]).arg(at);
        let _mounted = run(mount).ok();
        Self(at.to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The daemons that still use it end after this.
        drop(Command::new("umount").arg("-l").arg(&self.0).output());
    }
}

fn copy(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(from.join(".")).arg(to);
    let _copied = run(copy).ok();
}

#[test]
fn a_second_master_is_turned_away() {
    let cluster = Cluster::begin();
    let second = run(cluster.masterd());
    let pid = cluster.master_pid().unwrap().to_string();
    assert!(second.failed(2).contains(&pid), "it names the first, {pid}: {second:?}");
    assert!(second.stderr.contains("masterd.lock"), "{second:?}");
    let _goes_on = cluster.gnt("debug delay 0").ok();
    let again = cluster.gnt("cluster init other.example --node-name n9.example");
    assert!(!again.failed(2).is_empty(), "{again:?}");
    let _goes_on = cluster.gnt("debug delay 0").ok();
}

/// A cluster on a small disk of its own.
fn on_small_disk() -> (Cluster, Disk) {
    let cluster = Cluster::init();
    let data = cluster.master.layout().data();
    let aside = cluster.dir().join("aside");
    std::fs::remove_dir_all(data.join("journal")).unwrap();
    std::fs::create_dir(&aside).unwrap();
    copy(&data, &aside);
    let disk = Disk::mount(&data, DISK);
    copy(&aside, &data);
    cluster.start_master();
    let last = data.join("journal/segment-3");
    wait_for("the whole journal", PATIENCE, || last.exists().then_some(()));
    (cluster, disk)
}

/// Fills the disk to its last byte; gives the file to remove.
fn fill(disk: &Disk) -> PathBuf {
    let filler = disk.0.join(".filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[7; 4_096]).is_ok() {}
    filler
}

/// Submits jobs until one is refused.
fn until_refused(cluster: &Cluster) -> Ended {
    wait_for("a refusal", PATIENCE, || {
        let told = cluster.gnt("debug delay 0 --no-locks --submit");
        (told.code() != 0).then_some(told)
    })
}

/// The numbers of all jobs.
fn numbers(cluster: &Cluster) -> Vec<u64> {
    let rows = cluster.gnt("job list --json -o id").json();
    rows.as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect()
}

fn wait_until_taken(cluster: &Cluster) {
    wait_for("a job that is taken", PATIENCE, || {
        (cluster.gnt("debug delay 0").code() == 0).then_some(())
    });
}

#[test]
fn a_full_disk_stops_new_jobs_and_nothing_else() {
    if !tests::is_root() {
        return tests::skip("a full disk", "only root can mount a small one");
    }
    let (cluster, disk) = on_small_disk();
    let _works = cluster.gnt("debug delay 0").ok();
    let running = cluster.submit("debug delay 1000");
    cluster.wait_for_status(running, "running");
    let filler = fill(&disk);
    let refused = until_refused(&cluster);
    let told = refused.failed(1);
    assert!(told.contains("No space left") && told.contains("room"), "{refused:?}");
    let before = numbers(&cluster);
    assert!(before.starts_with(&[1, 2]), "{before:?}");
    let _queries_go_on = cluster.gnt("cluster info").ok();
    let _locks_too = cluster.gnt("debug locks").ok();
    let _what_runs_can_be_ended = cluster.gnt(&format!("job cancel {running}")).ok();
    cluster.wait_for_status(running, "canceled");

    std::fs::remove_file(&filler).unwrap();
    wait_until_taken(&cluster);
    cluster.kill_master();
    cluster.start_master();
    assert!(numbers(&cluster).starts_with(&before), "{before:?} and more");
    assert_eq!(cluster.status(running), "canceled");
}

#[test]
fn a_master_that_died_on_a_full_disk_starts_when_there_is_room() {
    if !tests::is_root() {
        return tests::skip("a start on a full disk", "only root can mount a small one");
    }
    let (cluster, disk) = on_small_disk();
    let _works = cluster.gnt("debug delay 0").ok();
    let filler = fill(&disk);
    let _refused = until_refused(&cluster);
    let before = numbers(&cluster);
    cluster.kill_master();
    let told = run(cluster.masterd());
    assert!(told.failed(2).contains("No space left on device"), "{told:?}");
    std::fs::remove_file(&filler).unwrap();
    cluster.start_master();
    assert_eq!(numbers(&cluster), before);
    wait_until_taken(&cluster);
}

/// Lets `nobody` own the cluster, where this is root, so that permissions mean something.
pub(super) fn unprivileged_master(cluster: &Cluster) -> Command {
    let masterd = cluster.masterd();
    let program = cluster.dir().join("masterd");
    std::fs::copy(masterd.get_program(), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(masterd.get_args());
    if tests::is_root() {
        let mut chown = Command::new("chown");
        chown.args(["-R", &format!("{NOBODY}:{NOBODY}")]).arg(cluster.dir());
        let _given = run(chown).ok();
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    command
}

#[test]
fn a_directory_that_becomes_read_only_stops_new_jobs_and_nothing_else() {
    let cluster = Cluster::init();
    cluster.start("masterd", unprivileged_master(&cluster));
    wait_for("a master", PATIENCE, || (cluster.gnt("debug delay 0").code() == 0).then_some(()));
    let queue = cluster.master.layout().data().join("queue");
    let mode = std::fs::metadata(&queue).unwrap().permissions();
    std::fs::set_permissions(&queue, Permissions::from_mode(0o555)).unwrap();
    let refused = until_refused(&cluster);
    assert!(refused.failed(1).contains("queue/"), "it names the path: {refused:?}");
    let _queries_go_on = cluster.gnt("job list").ok();
    std::fs::set_permissions(&queue, mode).unwrap();
    wait_until_taken(&cluster);
}

#[test]
fn a_master_does_not_start_on_what_it_cannot_write() {
    let cluster = Cluster::init();
    let command = unprivileged_master(&cluster);
    let data = cluster.master.layout().data();
    std::fs::set_permissions(&data, Permissions::from_mode(0o555)).unwrap();
    let told = run(command);
    std::fs::set_permissions(&data, Permissions::from_mode(0o751)).unwrap();
    let text = told.failed(2);
    assert!(text.contains(data.to_str().unwrap()) && text.contains("ermission"), "{told:?}");
}

#[test]
fn a_broken_file_stops_the_start_with_its_name() {
    let cluster = Cluster::begin();
    let _done = cluster.gnt("debug delay 0").ok();
    cluster.stop_master();
    let file = cluster.master.layout().data().join("queue/job-1");
    let whole = std::fs::read(&file).unwrap();
    stdx::atomic::write(&file, &whole[..whole.len() / 2], 0o640).unwrap();
    let told = run(cluster.masterd());
    assert!(told.failed(2).contains("queue/job-1"), "{told:?}");
    stdx::atomic::write(&file, &whole, 0o640).unwrap();
    cluster.start_master();
    assert_eq!(cluster.status(1), "success");
}

/// The segment and offset at which the journal first has an opcode.
fn first_record(journal: &Path) -> (u32, usize) {
    let wanted = b"OP_TEST_DELAY";
    let mut begin = vec![0; 64 << 10];
    let mut find = |number: u32| {
        let path = journal.join(format!("segment-{number}"));
        File::open(&path).ok()?.read_exact(&mut begin).ok()?;
        let at = begin.windows(wanted.len()).position(|window| window == wanted)?;
        Some((number, at))
    };
    (0..4).find_map(&mut find).expect("the journal holds the jobs that were just done")
}

fn flip(path: &Path, at: usize) {
    let at = u64::try_from(at).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn a_damaged_journal_stops_the_start_and_says_where() {
    let cluster = Cluster::begin();
    for _ in 0..5 {
        let _done = cluster.gnt("debug delay 0").ok();
    }
    cluster.kill_master();
    let journal = cluster.master.layout().data().join("journal");
    let (number, at) = first_record(&journal);
    let segment = journal.join(format!("segment-{number}"));
    flip(&segment, at);
    let told = run(cluster.masterd());
    let place = format!("segment {number}");
    assert!(told.failed(2).contains(&place) && told.stderr.contains("backup"), "{told:?}");
    flip(&segment, at);
    cluster.start_master();
    assert_eq!(numbers(&cluster), [1, 2, 3, 4, 5]);
}

#[test]
fn a_machine_without_a_cluster_says_how_to_get_one() {
    let cluster = Cluster::init();
    let empty = cluster.host("empty");
    std::fs::create_dir_all(empty.layout().log()).unwrap();
    let mut masterd = Command::new(cluster.masterd().get_program());
    masterd.arg("--root").arg(&empty.root);
    let told = run(masterd);
    assert!(told.failed(5).contains("gnt cluster init"), "{told:?}");
    let told = run(cluster.noded(&empty));
    assert!(told.failed(1).contains("noded enroll"), "{told:?}");
}

#[test]
fn an_agent_with_a_full_disk_ends_when_asked() {
    if !tests::is_root() {
        return tests::skip("an agent with a full disk", "only root can mount a small one");
    }
    let cluster = Cluster::begin_with_agent();
    let _rules =
        cluster.gnt(&format!("ipam set -f {}", cluster.write("ipam.json", IPAM).display())).ok();
    let host = cluster.host("n2");
    let data = host.layout().node_data();
    std::fs::create_dir_all(&data).unwrap();
    let disk = Disk::mount(&data, "size=40m");
    let token = cluster.token(&host, &[]);
    let _added = cluster.gnt(&format!("node add {} --secret {token}", host.name)).ok();
    cluster.wait_for_facts(&host.name);
    // A half-made one gives its room back to a full disk.
    let second = data.join("journal/segment-1");
    wait_for("the whole journal", PATIENCE, || second.exists().then_some(()));
    let filler = fill(&disk);
    // Its journal has room for the document; the file has none.
    let _pushed = cluster.gnt(&format!("node modify --rack 1 {}", host.name)).ok();
    let log = || std::fs::read_to_string(host.layout().node_log()).unwrap_or_default();
    wait_for("a word on the disk", PATIENCE, || log().contains("takes no files").then_some(()));
    let pid = cluster.pid(&host.name).unwrap();
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGTERM).unwrap();
    wait_for("the end of the agent", PATIENCE * 2, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z")).then_some(())
    });
    cluster.kill_agent(&host);
    std::fs::remove_file(&filler).unwrap();
    cluster.start_agent(&host);
    cluster.wait_for_facts(&host.name);
}

/// Bytes that nearly fill a job of a master with a small journal.
const LARGE: usize = 900 << 10;
/// More changes of such a job than the journal holds.
const CHANGES: i32 = 100;

#[test]
fn a_master_with_a_full_disk_and_journal_says_so_and_ends_when_asked() {
    if !tests::is_root() {
        return tests::skip("a full journal", "only root can mount a small disk");
    }
    let (cluster, disk) = on_small_disk();
    let running = cluster.submit("debug delay 1000 --no-locks");
    cluster.wait_for_status(running, "running");
    let large = format!(
        r#"[{{"OP_ID": "OP_TEST_DELAY", "duration": 0, "depends": [[{running}, []]],
             "comment": "{}"}}]"#,
        "x".repeat(LARGE)
    );
    let mut client = cluster.client();
    let job_id = client.call(&SubmitJob { ops: serde_json::from_str(&large).unwrap() }).unwrap();
    let filler = fill(&disk);
    let change = |priority| client.call(&ChangeJobPriority { job_id, priority: priority % 20 });
    let told = (0..CHANGES).map(change).find_map(Result::err).expect("the journal has an end");
    assert!(told.to_string().contains("make room"), "{told}");

    let pid = cluster.master_pid().unwrap();
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGTERM).unwrap();
    wait_for("the end of the master", PATIENCE * 2, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z")).then_some(())
    });
    cluster.kill_master();
    std::fs::remove_file(&filler).unwrap();
    cluster.start_master();
    assert_eq!(cluster.status(running), "error");
    cluster.wait_for_status(job_id.0, "success");
}
