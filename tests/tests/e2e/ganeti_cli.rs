//! Ganeti's own command line and ours at the same master: what they print and how they end.
//!
//! Deliberate differences are listed in docs/gnt.md.

mod ends;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use tests::cluster::{Cluster, MASTER};
use tests::ganeti::Ganeti;
use tests::run::{Ended, run};

/// Holds the master's node until it is canceled.
const HOLD: &str = "debug delay 1000";
/// Fails, so that its second opcode is not begun.
const FAILS: &str = r#"[{"OP_ID": "OP_TEST_JQUEUE", "fail": true},
    {"OP_ID": "OP_TEST_DELAY", "duration": 0.5, "comment": "it's \"so\""}]"#;
/// The programs that both have.
const PROGRAMS: [&str; 7] =
    ["gnt-job", "gnt-node", "gnt-cluster", "gnt-debug", "gnt-group", "gnt-filter", "gnt-network"];

/// Both command lines at one master.
struct Both {
    cluster: Cluster,
    ganeti: Ganeti,
    root: PathBuf,
    links: PathBuf,
}

/// How far two answers agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agree {
    /// In all that they print.
    Fully,
    /// In what goes to standard output; ours may say more on standard error.
    Output,
}

impl Both {
    /// `None` where Ganeti is not installed.
    fn begin() -> Option<Self> {
        let ganeti = Ganeti::find("Ganeti's command line beside ours")?;
        let cluster = Cluster::begin();
        // Ganeti takes the last part of the root for the name of the host.
        let root = cluster.dir().join("ganeti").join(MASTER);
        let sockets = root.join("var/run/ganeti/socket");
        std::fs::create_dir_all(&sockets).unwrap();
        let socket = cluster.master.layout().luxi_socket();
        symlink(socket, sockets.join("ganeti-query")).unwrap();
        let links = cluster.dir().join("links");
        std::fs::create_dir_all(&links).unwrap();
        let gnt = cluster.gnt_command("job list").get_program().to_owned();
        for program in PROGRAMS {
            symlink(&gnt, links.join(program)).unwrap();
        }
        Some(Self { cluster, ganeti, root, links })
    }

    fn prepare(command: &mut Command, words: &[String]) {
        // Python orders some lists by chance otherwise.
        command.args(words).env("TZ", "UTC").env("PYTHONHASHSEED", "0");
    }

    fn theirs(&self, line: &str) -> Ended {
        let words = words(line);
        let mut command = self.ganeti.command(&words[0]);
        Self::prepare(&mut command, &words[1..]);
        command.env("GANETI_ROOTDIR", &self.root).env("GANETI_HOSTNAME", MASTER);
        run(command)
    }

    fn ours(&self, line: &str) -> Ended {
        let words = words(line);
        let mut command = Command::new(self.links.join(&words[0]));
        Self::prepare(&mut command, &words[1..]);
        command.env("GANTRY_ROOT", &self.cluster.master.root);
        run(command)
    }

    /// Runs the same line by both.
    fn compare(&self, line: &str, agree: Agree) {
        let (theirs, ours) = (self.theirs(line), self.ours(line));
        let printed = (ours.code(), without_additions(&ours.stdout));
        assert_eq!(printed, (theirs.code(), theirs.stdout.clone()), "{line}: {ours:?} {theirs:?}");
        if agree == Agree::Fully {
            assert_eq!(ours.stderr, theirs.stderr, "{line}");
        }
    }

    /// Runs a line that changes something by both, each on what is its own.
    fn compare_changes(&self, theirs: &str, ours: &str) {
        let (ended, own) = (self.theirs(theirs), self.ours(ours));
        let told = |ended: &Ended| (ended.code(), unnumbered(&ended.stdout));
        assert_eq!(told(&own), told(&ended), "{theirs} | {ours}: {own:?} {ended:?}");
        let (own, ended) = (unnumbered(&own.stderr), unnumbered(&ended.stderr));
        assert!(own.starts_with(&ended), "{theirs} | {ours}: {own:?} {ended:?}");
    }
}

/// Words of a line; what stands in single quotes is one.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// The output of `job info` without our additions: the owner of a job, and what it waits for.
fn without_additions(text: &str) -> String {
    let mut lines = Vec::new();
    let mut skips = false;
    for line in text.split_inclusive('\n') {
        let inner = line.starts_with("    ");
        skips = line.starts_with("  Waits for:") || (skips && inner);
        if !skips && !line.starts_with("  Owner: ") {
            lines.push(line);
        }
    }
    lines.concat()
}

/// The text with every number replaced, as each job has its own.
fn unnumbered(text: &str) -> String {
    let mut result = String::new();
    for c in text.chars() {
        match (c.is_ascii_digit(), result.ends_with('#')) {
            (true, true) => {}
            (true, false) => result.push('#'),
            (false, _) => result.push(c),
        }
    }
    result
}

/// A cluster with jobs of many kinds: 1 success, 2 and 3 errors, 4 running, 5 canceled, 6 waiting,
/// 7 archived, 8 success with a log.
fn with_jobs() -> Option<Both> {
    let both = Both::begin()?;
    let cluster = &both.cluster;
    let _first = cluster.gnt("debug delay 0").ok();
    let _no_such_node = cluster.gnt("debug delay 0 -n nobody.example").failed(1);
    let file = cluster.write("fails.json", FAILS);
    let _fails = cluster.gnt(&format!("debug submit-job {}", file.display())).failed(1);
    assert_eq!(cluster.submit(HOLD), 4);
    cluster.wait_for_status(4, "running");
    for id in [5, 6] {
        assert_eq!(cluster.submit(HOLD), id);
        cluster.wait_for_status(id, "waiting");
    }
    let _canceled = cluster.gnt("job cancel 5").ok();
    cluster.wait_for_status(5, "canceled");
    let _archived = cluster.gnt("debug delay 0 --no-locks").ok();
    let _moved = cluster.gnt("job archive 7").ok();
    let _logged = cluster.gnt("debug delay 0.01 --no-locks --interruptible").ok();
    Some(both)
}

/// Lines that both answer alike to the last byte.
const SHOWN: [&str; 52] = [
    "gnt-job list",
    "gnt-job list -o id,ops,opresult,oplog,opstatus,priority,oppriority",
    "gnt-job list -o +archived",
    "gnt-job list --separator=: -o id,status,opresult",
    "gnt-job list --no-headers -o summary,id",
    "gnt-job list -o id,received_ts,start_ts,end_ts",
    "gnt-job list --sep=: --no-head --out id,status",
    "gnt-job list -o id -o status --no-headers --no-headers",
    "gnt-job list -o id,moon",
    "gnt-job list -v -o id,moon",
    "gnt-job list -F 'status == \"error\"'",
    "gnt-job list -F --no-headers 'status == \"error\" or id > 4'",
    "gnt-job list 'status != \"error\" and id < 5'",
    "gnt-job list --pending",
    "gnt-job list --running",
    "gnt-job list --error",
    "gnt-job list --finished",
    "gnt-job list --archived",
    "gnt-job list --archived 7",
    "gnt-job list 2 3",
    "gnt-job list x",
    "gnt-job list-fields",
    "gnt-job list-fields id moon",
    "gnt-job list-fields --no-headers --separator=; summary",
    "gnt-job info 1 2 3",
    "gnt-job info 4",
    "gnt-job info 5",
    "gnt-job info 6",
    "gnt-job show 7",
    "gnt-job info 8",
    "gnt-job info x",
    "gnt-job watch 1",
    "gnt-job watch 8",
    "gnt-job watch 2",
    "gnt-job watch 3",
    "gnt-job wait 1",
    "gnt-job wait 3",
    "gnt-job cancel 1",
    "gnt-job cancel 99 1",
    "gnt-job cancel",
    "gnt-job cancel --pending 1",
    "gnt-job cancel --queued",
    "gnt-job cancel --kill 4",
    "gnt-job change-priority 4",
    "gnt-job change-priority --priority high",
    "gnt-job change-priority --priority high 1",
    "gnt-job autoarchive 1w",
    "gnt-job autoarchive x",
    "gnt-job autoarchive w",
    "gnt-debug locks",
    "gnt-debug locks --no-headers --separator=, -o pending,owner,mode,name",
    "gnt-debug locks -o name,moon",
];

#[test]
fn jobs_are_shown_alike() {
    let Some(both) = with_jobs() else { return };
    for line in SHOWN {
        both.compare(line, Agree::Fully);
    }
    for line in [
        "gnt-job list 99",
        "gnt-job list 1 99",
        "gnt-job list -F 'status =='",
        "gnt-job list -F 'nosuch == 1'",
        "gnt-job list --nonsense",
        "gnt-job list -F 1 2",
        "gnt-job info",
        "gnt-job info 99",
        "gnt-job info 1 99",
        "gnt-job watch",
        "gnt-job watch 99",
        "gnt-job watch x",
        "gnt-job wait 5",
        "gnt-job wait 99",
        "gnt-job archive 99",
        "gnt-job archive 4",
        "gnt-job change-priority --priority nonsense 1",
        "gnt-job cancel --nonsense",
    ] {
        both.compare(line, Agree::Output);
    }
}

#[test]
fn jobs_are_changed_alike() {
    let Some(both) = with_jobs() else { return };
    let submit = || {
        let id = both.cluster.submit(HOLD);
        both.cluster.wait_for_status(id, "waiting");
        id
    };
    let pairs = [
        "gnt-job change-priority --priority high",
        "gnt-job cancel",
        "gnt-job cancel",
        "gnt-job archive",
        "gnt-job archive",
    ];
    let (one, other) = (submit(), submit());
    for line in pairs {
        both.compare_changes(&format!("{line} {one}"), &format!("{line} {other}"));
    }
    // Nobody is there to be asked.
    both.compare("gnt-job cancel --waiting", Agree::Output);
    let canceled = both.ours("gnt-job cancel --force --waiting");
    assert!(canceled.ok().contains("6"), "{canceled:?}");
    both.compare("gnt-job cancel --force --waiting", Agree::Fully);
}

#[test]
fn jobs_are_made_alike() {
    let Some(both) = Both::begin() else { return };
    let fails = both.cluster.write("fails.json", FAILS);
    let fails = fails.display();
    for line in [
        "gnt-debug delay 0",
        "gnt-debug delay -r 2 0.01",
        "gnt-debug delay --no-master 0",
        "gnt-debug delay -l 0",
        "gnt-debug delay --priority high --reason because 0",
        "gnt-debug delay --submit 0",
        "gnt-debug delay --submit --print-jobid 0",
        "gnt-debug delay --print-jobid 0",
        "gnt-cluster verify-disks",
        "gnt-cluster verify-disks -g nothing",
        "gnt-cluster queue drain",
        "gnt-cluster queue info",
        "gnt-cluster queue undrain",
        "gnt-cluster queue info",
    ] {
        both.compare_changes(line, line);
    }
    // Both make the same opcodes; only the moments differ.
    let kept = |id: u64| {
        let mut ops = both.cluster.job(id, "ops")["ops"][0].clone();
        for reason in ops["reason"].as_array_mut().unwrap() {
            reason[2] = 0.into();
            reason[1] = unnumbered(reason[1].as_str().unwrap()).into();
        }
        ops
    };
    for (theirs, ours) in [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10)] {
        assert_eq!(kept(ours), kept(theirs), "job {ours} and job {theirs}");
    }
    // A failed job is a failure of ours only.
    let line = format!("gnt-debug submit-job --op-repeat 2 --job-repeat 2 -v {fails}");
    let (theirs, ours) = (both.theirs(&line), both.ours(&line));
    assert_eq!(unnumbered(&ours.stdout), unnumbered(&theirs.stdout));
    assert_eq!((theirs.code(), ours.code()), (0, 1));
    assert!(unnumbered(&ours.stderr).starts_with(&unnumbered(&theirs.stderr)), "{ours:?}");
    let line = "gnt-debug test-jobqueue";
    let (theirs, ours) = (both.theirs(line), both.ours(line));
    assert_eq!(unnumbered(ours.ok()), unnumbered(theirs.ok()));
}

#[test]
fn nodes_groups_and_the_cluster_are_shown_alike() {
    let Some(both) = Both::begin() else { return };
    for line in [
        "gnt-node list",
        "gnt-node list -v",
        "gnt-node list -o name,tags,pip,role,pinst_list,powered,moon",
        "gnt-node list --units g -o name,mtotal",
        "gnt-node list 'n*'",
        "gnt-node list -F 'name =* \"n*\"'",
        "gnt-node list-fields",
        "gnt-node list-tags n1.example",
        "gnt-node add-tags n1.example",
        "gnt-node modify n1.example",
        "gnt-group list",
        "gnt-group list -o +node_list,tags",
        "gnt-group list default",
        "gnt-group list-fields",
        "gnt-cluster version",
        "gnt-cluster queue x",
        "gnt-cluster watcher info",
        "gnt-cluster watcher pause",
        "gnt-cluster watcher x",
        "gnt-cluster master-ping",
        "gnt-cluster show-ispecs-cmd",
        "gnt-cluster list-tags",
        "gnt-cluster add-tags",
        "gnt-cluster remove-tags",
        "gnt-cluster modify",
        "gnt-filter list",
        "gnt-filter list-fields",
        "gnt-filter info",
    ] {
        both.compare(line, Agree::Fully);
    }
    for line in [
        "gnt-node list --units x",
        "gnt-node list-tags",
        "gnt-cluster queue",
        "gnt-cluster verify -I NOPE",
        "gnt-node info x",
    ] {
        both.compare(line, Agree::Output);
    }
    // Ours shows more of a node, and nothing of where Ganeti's programs look for scripts.
    let (theirs, ours) = (both.theirs("gnt-node info"), both.ours("gnt-node info"));
    assert!(ours.ok().starts_with(theirs.ok().trim_end_matches('\n')), "{ours:?} {theirs:?}");
    same_cluster(&both);
}

/// Both show the same of the cluster, but where Ganeti's programs look for scripts.
fn same_cluster(both: &Both) {
    let (theirs, ours) = (both.theirs("gnt-cluster info"), both.ours("gnt-cluster info"));
    let paths = |line: &&str| !line.contains("search path:");
    let theirs: Vec<&str> = theirs.ok().lines().filter(paths).collect();
    let (mut theirs, mut ours) = (theirs, ours.ok().lines().collect::<Vec<_>>());
    // Python has no order for some of its sets.
    theirs.sort_unstable();
    ours.sort_unstable();
    assert_eq!(ours, theirs);
}

/// By Ganeti's own commands and by ours, and both show what came of it.
#[test]
fn settings_for_instances_are_set_alike() {
    let Some(both) = Both::begin() else { return };
    for line in [
        "gnt-cluster modify --enabled-hypervisors kvm,fake",
        "gnt-cluster modify -H kvm:acpi=False,kernel_args=quiet,serial_speed=9600",
        "gnt-cluster modify -B memory=1G,vcpus=2",
        "gnt-cluster modify -N mode=routed,link=tap7",
        "gnt-cluster modify -D drbd:resync-rate=1024",
        "gnt-cluster modify --enabled-disk-templates file,diskless,sharedfile",
        "gnt-cluster modify --file-storage-dir /srv/disks --shared-file-storage-dir /srv/shared",
        "gnt-cluster modify --ipolicy-vcpu-ratio 8 --ipolicy-spindle-ratio 16",
        "gnt-cluster modify --ipolicy-std-specs \
         memory-size=256,cpu-count=2,disk-count=1,disk-size=2048,nic-count=1,spindle-use=1",
        "gnt-cluster modify --uid-pool 2000-2999,5000",
        "gnt-cluster modify --user-shutdown yes --prealloc-wipe-disks yes",
        "gnt-group modify --ipolicy-vcpu-ratio 6 default",
        "gnt-group modify -D plain:stripes=2 default",
    ] {
        for ended in [both.theirs(line), both.ours(line)] {
            assert_eq!(ended.code(), 0, "{line}: {ended:?}");
        }
        same_cluster(&both);
    }
    both.compare("gnt-group info default", Agree::Fully);
    for (line, told) in [
        ("gnt-cluster modify -H kvm:serial_speed=0", "serial_speed: `0` is not a number from 1"),
        ("gnt-cluster modify -H vmware:acpi=no", "vmware"),
        ("gnt-cluster modify -B minmem=4G", "minmem 4096 MiB is more than maxmem 1024 MiB"),
        ("gnt-cluster modify --enabled-disk-templates plain", "needs a volume group"),
        ("gnt-group modify --ipolicy-vcpu-ratio 0.5 default", "vcpu-ratio"),
    ] {
        let refused = both.ours(line);
        assert!(refused.failed(1).contains(told), "{line}: {refused:?}");
    }
    let _again = both.ours("gnt-cluster modify -H kvm:-acpi -B vcpus=default").ok();
    same_cluster(&both);
}

/// Each sets the same, on a node that the other has set back.
#[test]
fn nodes_are_modified_alike() {
    let Some(both) = Both::begin() else { return };
    for (capable, before) in [("no", "yes"), ("yes", "no")] {
        let line = format!("gnt-node modify --vm-capable={capable} n1.example");
        let theirs = both.theirs(&line);
        let back = both.ours(&format!("gnt-node modify --vm-capable={before} n1.example"));
        assert!(back.ok().contains("vm_capable"), "{back:?}");
        let ours = both.ours(&line);
        assert_eq!(ours.ok(), theirs.ok(), "{line}");
        assert!(ours.ok().contains("vm_capable"), "{ours:?}");
    }
}

#[test]
fn a_drained_queue_refuses_alike() {
    let Some(both) = Both::begin() else { return };
    let file = both.cluster.write("drained.json", FAILS);
    assert_eq!(both.ours("gnt-cluster queue drain").code(), 0);
    let line = format!("gnt-debug submit-job {}", file.display());
    both.compare(&line, Agree::Output);
    assert_eq!(both.theirs(&line).code(), 1);
    assert_eq!(both.ours("gnt-cluster queue undrain").code(), 0);
    assert_eq!(both.theirs("gnt-job list --no-headers").ok(), "");
}

#[test]
fn networks_are_shown_and_changed_alike() {
    let Some(both) = Both::begin() else { return };
    for (theirs, ours) in [
        (
            "gnt-network add --network 192.0.2.0/28 --gateway 192.0.2.1 --add-reserved-ips 192.0.2.5 lan",
            "gnt-network add --network 198.51.100.0/28 --gateway 198.51.100.1 own",
        ),
        (
            "gnt-network add --network 192.0.2.0/24 lan",
            "gnt-network add --network 192.0.2.0/24 lan",
        ),
    ] {
        both.compare_changes(theirs, ours);
    }
    for line in [
        "gnt-network connect -N mode=bridged,link=br0 lan",
        "gnt-network modify --add-reserved-ips 192.0.2.9 lan",
        "gnt-network add-tags lan a b",
    ] {
        assert_eq!(both.theirs(line).code(), 0, "{line}");
    }
    for line in [
        "gnt-network list",
        "gnt-network list lan",
        "gnt-network list -o name,network,gateway,gateway6,mac_prefix,free_count,reserved_count",
        "gnt-network list -o name,map,external_reservations,group_list,inst_cnt,tags --separator=:",
        "gnt-network list-tags lan",
        "gnt-network list-fields name free_count moon",
    ] {
        both.compare(line, Agree::Fully);
    }
    for line in ["gnt-network list nobody", "gnt-network remove lan"] {
        both.compare(line, Agree::Output);
    }
    assert_eq!(both.theirs("gnt-network disconnect lan").code(), 0);
    both.compare_changes("gnt-network remove lan", "gnt-network remove own");
}
