//! Instances by Ganeti's own `gnt-instance`, on the fake hypervisor of three nodes.

mod allocator;
mod backup;
mod burnin;
mod relocate;
mod storage;
mod systems;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use luxi::Client;
use luxi::method::{Fields, Query, What};
use serde_json::Value;
use tests::cluster::{Cluster, Host, MASTER, PATIENCE};
use tests::ganeti::Ganeti;
use tests::inspect::documents;
use tests::run::{Ended, pass, run, wait_for};

/// A cluster of three nodes with instances, and Ganeti's programs at its master.
struct Rack {
    cluster: Cluster,
    hosts: Vec<Host>,
    ganeti: Ganeti,
    root: PathBuf,
}

impl Rack {
    /// `None` where Ganeti is not installed.
    fn begin() -> Option<Self> {
        let ganeti = Ganeti::find("Ganeti's gnt-instance at this master")?;
        let cluster = Cluster::begin_with_agent();
        let hosts: Vec<Host> = ["n2", "n3"].map(|name| cluster.host(name)).into();
        hosts.iter().for_each(|host| cluster.enrol(host));
        // Ganeti takes the last part of the root for the name of the host.
        let root = cluster.dir().join("ganeti").join(MASTER);
        let sockets = root.join("var/run/ganeti/socket");
        std::fs::create_dir_all(&sockets).unwrap();
        symlink(cluster.master.layout().luxi_socket(), sockets.join("ganeti-query")).unwrap();
        let rack = Self { cluster, hosts, ganeti, root };
        let disks = rack.disks();
        for host in rack.hosts.iter().chain([&rack.cluster.master]) {
            std::fs::create_dir_all(&disks).unwrap();
            let list = host.layout().file_storage_paths();
            let text = format!("{}\n", disks.display());
            stdx::atomic::write(&list, text.as_bytes(), 0o644).unwrap();
        }
        let line = format!(
            "gnt-cluster modify --enabled-hypervisors fake --enabled-disk-templates \
             diskless,file,sharedfile --file-storage-dir {0}/file --shared-file-storage-dir {0}/shared",
            disks.display()
        );
        rack.theirs(&line).ok();
        Some(rack)
    }

    fn disks(&self) -> PathBuf {
        self.cluster.dir().join("disks")
    }

    fn command(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let mut command = self.ganeti.command(words.next().unwrap());
        command.args(words).env("TZ", "UTC").env("PYTHONHASHSEED", "0");
        command.env("GANETI_ROOTDIR", &self.root).env("GANETI_HOSTNAME", MASTER);
        command
    }

    /// Runs a line of Ganeti's commands.
    fn theirs(&self, line: &str) -> Ended {
        run(self.command(line))
    }

    /// Runs a line of ours, as Ganeti's programs are called.
    fn ours(&self, line: &str) -> Ended {
        let mut command = self.cluster.gnt_command(line);
        command.env("TZ", "UTC");
        run(command)
    }

    /// Starts the agent of a node anew where it alone sees each of these places instead of another: the first
    /// of a pair at the second.
    fn start_with(&self, host: &Host, places: &[(PathBuf, PathBuf)]) {
        self.cluster.kill_agent(host);
        let noded = self.cluster.noded(host);
        let mut script = "set -e\n".to_owned();
        for (place, at) in places {
            script.push_str(&format!("mount --bind '{}' '{}'\n", place.display(), at.display()));
        }
        script.push_str("exec \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c", &script]).arg(noded.get_program());
        command.args(noded.get_args());
        command.envs(noded.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.cluster.start(&host.name, command);
    }

    /// Adds an instance by Ganeti's command.
    fn add(&self, name: &str, options: &str) -> Ended {
        let usual = "-o noop --no-install --no-name-check --no-ip-check";
        self.theirs(&format!("gnt-instance add {usual} {options} {name}"))
    }

    /// The values of fields of all instances, a line each.
    fn list(&self, fields: &str) -> Vec<String> {
        let line = format!("gnt-instance list --no-headers --separator=: -o {fields}");
        self.theirs(&line).ok().lines().map(str::to_owned).collect()
    }

    /// The same once it is so.
    fn wait_for_list(&self, fields: &str, wanted: &[&str]) {
        wait_for(&format!("a list {wanted:?}"), PATIENCE, || {
            (self.list(fields) == wanted).then_some(())
        });
    }

    /// The runs that live on a node, by the records of its agent: the number of each, by its instance.
    fn runs(&self, host: &Host) -> BTreeMap<String, u64> {
        let Ok(records) = std::fs::read_dir(host.layout().instances()) else {
            return BTreeMap::new();
        };
        let runs = records.filter_map(|record| {
            let path = record.ok()?.path();
            let text = std::fs::read(path).ok()?;
            let record: Value = serde_json::from_slice(&text).ok()?;
            let alive = ["starting", "running", "paused"].contains(&record["seen"].as_str()?);
            let name = record["name"].as_str()?.to_owned();
            alive.then(|| Some((name, record["launch"]["run"].as_u64()?)))?
        });
        runs.collect()
    }

    /// The instances that live on a node.
    fn alive(&self, host: &Host) -> BTreeSet<String> {
        self.runs(host).into_keys().collect()
    }

    fn nodes(&self) -> impl Iterator<Item = &Host> {
        [&self.cluster.master].into_iter().chain(&self.hosts)
    }
}

#[test]
fn an_instance_lives_by_ganetis_own_commands() {
    let Some(rack) = Rack::begin() else { return };
    let options = "-t diskless -n n2.example -B memory=256,vcpus=2 --net 0:link=br0";
    let added = rack.add("i1.example", options);
    let told = added.ok();
    for line in ["adding instance i1.example to cluster config", "* starting instance..."] {
        assert!(told.contains(line) || added.stderr.contains(line), "{added:?}");
    }
    let fields = "name,hypervisor,os,pnode,status,oper_ram,oper_vcpus,be/memory,nic.link/0";
    rack.wait_for_list(fields, &["i1.example:fake:noop:n2.example:running:256:2:256:br0"]);
    assert!(
        rack.theirs("gnt-instance info i1.example").ok().contains("State: configured to be up")
    );
    rack.theirs("gnt-instance migrate -f -n n3.example i1.example").ok();
    rack.wait_for_list("name,pnode,status", &["i1.example:n3.example:running"]);
    assert!(rack.alive(&rack.hosts[0]).is_empty() && rack.alive(&rack.hosts[1]).len() == 1);
    rack.theirs("gnt-instance failover -f -n n2.example i1.example").ok();
    rack.wait_for_list("name,pnode,status", &["i1.example:n2.example:running"]);
    rack.theirs("gnt-instance reboot i1.example").ok();
    rack.theirs("gnt-instance shutdown i1.example").ok();
    rack.wait_for_list("name,status,admin_state", &["i1.example:ADMIN_down:down"]);
    rack.theirs("gnt-instance startup i1.example").ok();
    rack.wait_for_list("name,status", &["i1.example:running"]);
    assert_eq!(rack.theirs("gnt-node list --no-headers -o pinst_cnt n2").ok().trim(), "1");
    rack.theirs("gnt-instance remove -f i1.example").ok();
    assert!(rack.list("name").is_empty());
    assert!(rack.nodes().all(|host| rack.alive(host).is_empty()));
}

#[test]
fn an_instance_changes_by_ganetis_own_commands_and_ours_shows_the_same() {
    let Some(rack) = Rack::begin() else { return };
    let options = "-t file --disk 0:size=1G,name=root -n n1.example --no-start --net 0:link=br0";
    rack.add("i1.example", options).ok();
    let modified = rack.theirs(
        "gnt-instance modify -B vcpus=2 --net add:link=br1 --disk add:size=1G --disk 0:mode=ro i1",
    );
    for told in ["be/vcpus", "nic.1", "disk/1", "disk.mode/0"] {
        assert!(modified.ok().contains(told), "{modified:?}");
    }
    let fields = "name,disk.sizes,nic.links,be/vcpus,disk.name/0";
    rack.wait_for_list(fields, &["i1.example:1024,1024:br0,br1:2:root"]);
    rack.theirs("gnt-instance grow-disk i1.example 0 1G").ok();
    let active = rack.theirs("gnt-instance activate-disks i1.example");
    assert!(active.ok().contains("n1.example:disk/0:"), "{active:?}");
    rack.theirs("gnt-instance rename -f --no-name-check --no-ip-check i1.example i9.example").ok();
    assert!(rack.disks().join("file/i9.example").is_dir());
    assert!(!rack.disks().join("file/i1.example").exists());
    rack.theirs("gnt-instance modify --disk 1:remove i9.example").ok();
    rack.wait_for_list("name,disk.sizes", &["i9.example:2048"]);
    assert_eq!(rack.files(), 1);
    rack.theirs("gnt-instance add-tags i9.example web blue").ok();
    assert_eq!(rack.theirs("gnt-instance list-tags i9.example").ok(), "blue\nweb\n");
    for (mark, status) in [("--offline", "ADMIN_offline"), ("--online", "ADMIN_down")] {
        rack.theirs(&format!("gnt-instance modify {mark} i9.example")).ok();
        rack.wait_for_list("name,status", &[&format!("i9.example:{status}")]);
    }
    let there = rack.theirs("gnt-instance recreate-disks i9.example");
    assert!(there.failed(1).contains("only disks that are lost"), "{there:?}");
    std::fs::remove_dir_all(rack.disks().join("file/i9.example")).unwrap();
    let verified = rack.theirs("gnt-cluster verify");
    let told = format!("{}{}", verified.stdout, verified.stderr);
    assert!(told.contains("missing on node n1.example"), "{told}");
    rack.theirs("gnt-instance recreate-disks i9.example").ok();
    assert_eq!(rack.files(), 1);
    for line in ["list", "list-tags i9.example", "info i9.example", "info --static i9.example"] {
        let theirs = rack.theirs(&format!("gnt-instance {line}"));
        let ours = rack.ours(&format!("instance {line}"));
        // Ours names the offset of a time.
        assert_eq!(ours.ok().replace("+00:00", ""), theirs.ok(), "{line}");
    }
    rack.theirs("gnt-instance remove -f i9.example").ok();
    assert_eq!(rack.files(), 0);
}

#[test]
fn a_node_is_emptied_by_ganetis_own_commands() {
    let Some(rack) = Rack::begin() else { return };
    for number in 1..=4 {
        let start = if number == 4 { "--no-start" } else { "" };
        let options = format!("-t diskless -n n2.example {start}");
        rack.add(&name(number), &options).ok();
    }
    rack.theirs("gnt-node evacuate -f -p -I . n2.example").ok();
    assert_eq!(rack.theirs("gnt-node list --no-headers -o pinst_cnt n2").ok().trim(), "0");
    assert!(rack.alive(&rack.hosts[0]).is_empty());
    let statuses = rack.list("status");
    assert_eq!(statuses, ["running", "running", "running", "ADMIN_down"]);
    let busiest = rack.theirs("gnt-node list --no-headers -o name,pinst_cnt --separator=:");
    let from = busiest.ok().lines().find(|line| !line.ends_with(":0")).unwrap().to_owned();
    let node = from.split(':').next().unwrap();
    rack.theirs("gnt-instance shutdown --all --force-multiple").ok();
    rack.theirs("gnt-instance startup --all --force-multiple").ok();
    rack.theirs(&format!("gnt-node migrate -f {node}")).ok();
    let line = format!("gnt-node list --no-headers -o pinst_cnt {node}");
    assert_eq!(rack.theirs(&line).ok().trim(), "0");
    // The other nodes have no masterd, of which alone it is to tell.
    let verified = rack.theirs("gnt-cluster verify");
    let told = format!("{}{}", verified.stdout, verified.stderr);
    assert!(!told.contains("ERROR: instance"), "{told}");
}

/// A second run would end the guest that nobody sees.
#[test]
fn silence_of_a_node_is_not_the_end_of_its_guest() {
    let Some(rack) = Rack::begin() else { return };
    rack.add("i1.example", "-t diskless -n n2.example").ok();
    let first = rack.runs(&rack.hosts[0]);
    rack.cluster.kill_agent(&rack.hosts[0]);
    rack.cluster.kill_master();
    rack.cluster.start_master();
    for line in ["startup", "reboot", "migrate -f -n n3.example"] {
        let refused = rack.theirs(&format!("gnt-instance {line} i1.example"));
        assert!(refused.failed(1).contains("does not tell whether instance"), "{refused:?}");
    }
    // A shutdown that nobody has confirmed is none.
    rack.theirs("gnt-instance shutdown i1.example").failed(1);
    for (line, why) in [
        ("modify --new-primary=n1.example i1.example", "still running, or is to run"),
        ("modify --offline i1.example", "cannot change state to offline"),
        ("recreate-disks i1.example", "does not tell whether instance"),
        ("startup i1.example", "does not tell whether instance"),
    ] {
        let refused = rack.theirs(&format!("gnt-instance {line}"));
        assert!(refused.failed(1).contains(why), "{refused:?}");
    }
    rack.cluster.start_agent(&rack.hosts[0]);
    rack.wait_for_list("name,status", &["i1.example:ERROR_up"]);
    rack.theirs("gnt-instance startup i1.example").ok();
    rack.wait_for_list("name,status", &["i1.example:running"]);
    rack.theirs("gnt-instance startup i1.example").ok();
    assert_eq!(rack.runs(&rack.hosts[0]), first);
    assert_eq!(first.len(), 1);
}

/// An operator says that the node is off, which its agent must not contradict.
#[test]
fn instances_of_a_node_that_is_dead_go_elsewhere() {
    let Some(rack) = Rack::begin() else { return };
    rack.add("i1.example", "-t sharedfile --disk 0:size=1G -n n2.example --tags prod").ok();
    let offline = "gnt-node modify --offline yes --force n2.example";
    let refused = rack.theirs(offline);
    assert!(refused.failed(1).contains("it answers"), "{refused:?}");
    rack.cluster.kill_agent(&rack.hosts[0]);
    let failover = "gnt-instance failover -f -n n3.example i1.example";
    let refused = rack.theirs(failover);
    assert!(refused.failed(1).contains("modify --offline yes --force"), "{refused:?}");
    rack.theirs(offline).ok();
    rack.theirs(failover).ok();
    rack.wait_for_list("name,pnode,status", &["i1.example:n3.example:running"]);
    rack.ours("instance shutdown --tags prod --force-multiple").ok();
    rack.wait_for_list("name,status", &["i1.example:ADMIN_down"]);
}

/// Refused before anything is reserved, with the parameter's name.
#[test]
fn what_no_instance_can_have_is_refused_with_its_name() {
    let Some(rack) = Rack::begin() else { return };
    rack.add("there.example", "-t diskless -n n2.example --net 0:mac=aa:00:00:00:00:01").ok();
    let seventeen: String = (0..17).map(|n| format!("--disk {n}:size=1G ")).collect();
    let nine: String = (0..9).map(|n| format!("--net {n}:link=br0 ")).collect();
    for (options, told) in [
        ("-t diskless -B vcpus=0", "vcpus"),
        ("-t diskless -B minmem=4G,maxmem=1G", "minmem"),
        ("-t diskless -B memory=1048576T", "Not enough memory on node n2.example"),
        ("-t diskless -B nonsense=1", "nonsense"),
        ("-t diskless -B vcpus=64", "cpu-count"),
        ("-t file --disk 0:size=1048576T", "disk size"),
        ("-t file --disk 0:size=2T", "disk"),
        ("-t file --disk 0:size=1G,vg=x", "vg"),
        (&format!("-t file {seventeen}"), "17 disks"),
        (&format!("-t diskless {nine}"), "9 NICs"),
        ("-t diskless --net 0:mac=aa:00:00:00:00:01", "already in use"),
        ("-t diskless --net 0:network=nothing", "nothing"),
        ("-t diskless -H kvm:acpi=false", "kvm"),
        ("-t diskless -H fake:nonsense=1", "nonsense"),
        ("-t plain --disk 0:size=1G", "plain"),
        ("-t diskless -I nothing", "nothing"),
    ] {
        let node = if options.contains("-I") { "" } else { "-n n2.example" };
        let refused = rack.add("new.example", &format!("{options} {node}"));
        assert!(refused.failed(1).contains(told), "{options}: {refused:?}");
    }
    let again = rack.add("there.example", "-t diskless -n n2.example");
    assert!(again.failed(1).contains("already in the cluster"), "{again:?}");
    let add = "gnt-instance add -o noop --no-install -t diskless -n n2.example";
    let unknown = rack.theirs(&format!("{add} x.invalid"));
    assert!(unknown.failed(1).contains("(x.invalid) does not resolve"), "{unknown:?}");
    rack.theirs(&format!("{add} --no-start localhost")).ok();
    rack.theirs("gnt-instance remove -f localhost").ok();
    let rename = "gnt-instance rename -f --no-name-check --no-ip-check";
    rack.add("other.example", "-t diskless -n n3.example --no-start").ok();
    let living = rack.theirs(&format!("{rename} other.example there.example"));
    assert!(living.failed(1).contains("already in the cluster"), "{living:?}");
    assert_eq!(rack.list("name"), ["other.example", "there.example"]);
    assert_eq!(rack.files(), 0);
}

/// Instances of the path; every third one has a disk.
const INSTANCES: usize = 100;
/// Operators who work at the same time.
const OPERATORS: usize = 4;
/// Between two crashes of the master.
const CRASH_EVERY: Duration = Duration::from_secs(4);

fn name(number: usize) -> String {
    format!("i{number}.example")
}

const fn has_disk(number: usize) -> bool {
    number.is_multiple_of(3)
}

impl Rack {
    /// Fields of one instance; `None` while no master answers, an empty list where it is not there.
    fn look(&self, name: &str, fields: &[&str]) -> Option<Vec<Value>> {
        let mut client = Client::connect(&self.cluster.master.layout().luxi_socket()).ok()?;
        let filter = Some(luxi::query::Filter::any_of("name", [name]));
        let fields = Fields::from_iter(fields.iter().copied());
        let table = match client.call(&Query { what: What::Instance, fields, filter }) {
            Ok(table) => table,
            Err(error) if error.to_string().contains("not known") => return Some(Vec::new()),
            Err(_) => return None,
        };
        let rows = table.data.into_iter().next().unwrap_or_default();
        Some(rows.into_iter().map(luxi::query::Cell::into_value).collect())
    }

    /// Runs a line again and again until an instance is as it is to be, as an operator would.
    fn until(&self, number: usize, line: &str, is_so: impl Fn(&[Value]) -> bool) {
        let name = name(number);
        let fields = ["pnode", "status", "phase"];
        wait_for(&format!("{line}, and its end"), PATIENCE * 2, || {
            if self.look(&name, &fields).is_some_and(|found| is_so(&found)) {
                return Some(());
            }
            let _may_fail = self.theirs(line);
            self.look(&name, &fields).filter(|found| is_so(found)).map(drop)
        });
    }

    /// Has operators do something with each instance, while the master crashes.
    fn all(&self, work: impl Fn(usize) + Sync) {
        let (next, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let crashes = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    pass(CRASH_EVERY);
                    self.cluster.kill_master();
                    self.cluster.start_master();
                }
            });
            let operators: Vec<_> = (0..OPERATORS)
                .map(|_| {
                    scope.spawn(|| {
                        while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed))
                            .filter(|number| *number < INSTANCES)
                        {
                            work(number);
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = operators.into_iter().map(ScopedJoinHandle::join).collect();
            done.store(true, Ordering::Relaxed);
            crashes.join().unwrap();
            for end in ended {
                end.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
    }

    /// The files of disks that there are.
    fn files(&self) -> usize {
        let mut directories = vec![self.disks()];
        let mut files = 0;
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => directories.push(path),
                    false => files += 1,
                }
            }
        }
        files
    }
}

/// The path of document 2: a hundred instances added, moved and removed while the master crashes.
#[test]
fn a_hundred_instances_outlive_crashes_of_the_master_and_nothing_of_them_remains() {
    let Some(rack) = Rack::begin() else { return };
    let usual = "-o noop --no-install --no-name-check --no-ip-check";
    let is = |found: &[Value], status: &str| {
        found.get(1).is_some_and(|it| it == status) && found.get(2).is_some_and(|it| it == "ready")
    };
    rack.all(|number| {
        let node = format!("n{}.example", number % 3 + 1);
        let storage = if has_disk(number) { "-t file --disk 0:size=1G" } else { "-t diskless" };
        let line = format!("gnt-instance add {usual} {storage} -n {node} {}", name(number));
        rack.until(number, &line, |found| is(found, "running") || is(found, "ERROR_down"));
        let line = format!("gnt-instance startup {}", name(number));
        rack.until(number, &line, |found| is(found, "running"));
    });
    assert_eq!(rack.list("name").len(), INSTANCES);
    assert_eq!(rack.files(), (0..INSTANCES).filter(|number| has_disk(*number)).count());
    let alive: Vec<BTreeSet<String>> = rack.nodes().map(|host| rack.alive(host)).collect();
    let everywhere: usize = alive.iter().map(BTreeSet::len).sum();
    assert_eq!(everywhere, INSTANCES, "each lives once");
    rack.all(|number| {
        // Every second one of those without a disk.
        if has_disk(number) || number.is_multiple_of(2) {
            return;
        }
        let target = format!("n{}.example", (number + 1) % 3 + 1);
        let verb = if number % 4 == 1 { "migrate" } else { "failover" };
        let line = format!("gnt-instance {verb} -f -n {target} {}", name(number));
        let cleanup = format!("gnt-instance migrate -f --cleanup {}", name(number));
        let there = |found: &[Value]| {
            found.first().is_some_and(|node| *node == *target.as_str()) && is(found, "running")
        };
        wait_for(&line, PATIENCE * 2, || {
            let _may_fail = rack.theirs(&line);
            let found = rack.look(&name(number), &["pnode", "status", "phase"])?;
            if found.get(2).is_some_and(|phase| phase == "moving") {
                let _may_fail = rack.theirs(&cleanup);
            }
            if found.get(1).is_some_and(|status| status == "ERROR_down") {
                let _may_fail = rack.theirs(&format!("gnt-instance startup {}", name(number)));
            }
            there(&rack.look(&name(number), &["pnode", "status", "phase"])?).then_some(())
        });
    });
    let alive: usize = rack.nodes().map(|host| rack.alive(host).len()).sum();
    assert_eq!(alive, INSTANCES, "each lives once");
    rack.all(|number| {
        let line = format!("gnt-instance remove -f {}", name(number));
        rack.until(number, &line, <[Value]>::is_empty);
    });
    assert!(rack.list("name").is_empty());
    assert_eq!(rack.files(), 0, "no disk remains");
    assert!(rack.nodes().all(|host| rack.alive(host).is_empty()), "nothing lives");
    let left = documents(&rack.cluster.master);
    let is_left = |key: &&String| key.starts_with("instances/") || key.starts_with("disks/");
    assert_eq!(left.keys().filter(is_left).count(), 0, "no record remains");
}
