//! Allocators: Ganeti's own `hail`, programs that do wrong, and the built-in one.

use serde_json::{Value, json};

use tests::run::run;

use super::{Rack, name};

impl Rack {
    /// Puts a program for allocation on the master.
    fn put_allocator(&self, name: &str, script: &str) {
        let directory = self.cluster.master.layout().allocators();
        std::fs::create_dir_all(&directory).unwrap();
        stdx::atomic::write(&directory.join(name), script.as_bytes(), 0o755).unwrap();
    }

    fn put_hail(&self) {
        self.put_allocator("hail", &self.ganeti.script("/usr/lib/ganeti/iallocators/hail"));
    }

    /// How many instances each node has.
    fn counts(&self) -> Vec<usize> {
        let listed = self.theirs("gnt-node list --no-headers -o pinst_cnt");
        listed.ok().lines().map(|line| line.trim().parse().unwrap()).collect()
    }

    /// A file for `batch-create`.
    fn batch(&self, numbers: std::ops::RangeInclusive<usize>) -> String {
        let one = |number| {
            json!({"instance_name": name(number), "mode": "create", "disk_template": "diskless",
                "disks": [], "nics": [{}], "os_type": "noop", "no_install": true,
                "name_check": false, "ip_check": false})
        };
        let all: Vec<Value> = numbers.map(one).collect();
        let file = self.cluster.dir().join("batch.json");
        stdx::atomic::write(&file, json!(all).to_string().as_bytes(), 0o644).unwrap();
        file.display().to_string()
    }
}

#[test]
fn ganetis_hail_places_instances_and_moves_them() {
    let Some(rack) = Rack::begin() else { return };
    rack.put_hail();
    let added = rack.add(&name(1), "-t diskless -I hail");
    let told = format!("{}{}", added.ok(), added.stderr);
    assert!(told.contains("via iallocator hail: n"), "{told}");
    rack.theirs("gnt-cluster modify --default-iallocator hail").ok();
    rack.add(&name(2), "-t diskless").ok();
    rack.theirs(&format!("gnt-instance batch-create {}", rack.batch(3..=6))).ok();
    assert_eq!(rack.counts(), [2, 2, 2], "hail balances");

    let before = rack.list("name,pnode");
    rack.theirs(&format!("gnt-instance migrate -f {}", name(1))).ok();
    assert_ne!(rack.list("name,pnode"), before);
    rack.theirs("gnt-node evacuate -f -p -I hail n2.example").ok();
    assert_eq!(rack.counts()[1], 0, "hail moves what is there");

    rack.theirs("gnt-group add far").ok();
    // Instances of a lone node have nowhere to go if it fails; hail would refuse them for that.
    rack.theirs("gnt-cluster modify --default-iallocator-params no-capacity-checks=").ok();
    rack.theirs("gnt-group assign-nodes far n2.example n3.example").ok();
    let on_first = rack.list("pnode,name").into_iter().filter(|line| line.starts_with("n1."));
    let names: Vec<String> = on_first.map(|line| line["n1.example:".len()..].to_owned()).collect();
    assert!(names.len() > 1, "{names:?}");
    rack.theirs(&format!("gnt-instance change-group --to far -I hail {}", names[0])).ok();
    assert_eq!(rack.counts()[0], names.len() - 1);
    rack.theirs("gnt-group evacuate --to far -I hail default").ok();
    assert_eq!(rack.counts()[0], 0);

    let asked = format!("-m allocate -t diskless -o noop {}", name(9));
    let question = rack.theirs(&format!("gnt-debug iallocator --dir in -I hail {asked}"));
    let question: Value = serde_json::from_str(question.ok()).unwrap();
    assert_eq!(question["request"]["type"], "allocate");
    assert_eq!(question["nodes"].as_object().unwrap().len(), 3);
    for line in [
        format!("gnt-debug iallocator --dir out -I hail {asked}"),
        "gnt-debug iallocator --dir out -I hail -m multi-allocate -t diskless -o noop x".to_owned(),
        format!("gnt-debug iallocator --dir out -I hail -m relocate {}", name(1)),
        format!("gnt-debug iallocator --dir out -I hail -m node-evacuate {}", name(1)),
    ] {
        let told = rack.theirs(&line);
        let answer: Value = serde_json::from_str(told.ok()).unwrap();
        assert_eq!(answer["success"], true, "{line}: {answer}");
    }
}

#[test]
fn what_an_allocator_does_wrong_is_told_and_nothing_is_made() {
    let Some(rack) = Rack::begin() else { return };
    for (program, script, wanted) in [
        ("rubbish", "echo rubbish", "Can't parse iallocator results of 'rubbish'"),
        ("silent", "true", "Can't parse iallocator results of 'silent'"),
        (
            "broken",
            "echo no luck >&2; exit 3",
            "iallocator 'broken' failed: exit status: 3, no luck",
        ),
        (
            "full",
            r#"echo '{"success": false, "info": "no room", "result": []}'"#,
            "Can't compute nodes using iallocator 'full': no room",
        ),
        (
            "stranger",
            r#"echo '{"success": true, "info": "", "result": ["n9.example"]}'"#,
            "the node 'n9.example', which there is not",
        ),
        (
            "two",
            r#"echo '{"success": true, "info": "", "result": ["n1.example", "n2.example"]}'"#,
            "returned invalid number of nodes (2), required 1",
        ),
        (
            "offline",
            r#"echo '{"success": true, "info": "", "result": ["n3.example"]}'"#,
            "Cannot use offline primary node 'n3.example'",
        ),
        ("there/is.none", "", "no program of this name"),
    ] {
        if !script.is_empty() {
            rack.put_allocator(program, &format!("#!/bin/sh\n{script}\n"));
        }
        if program == "offline" {
            rack.theirs("gnt-node modify --offline yes n3.example").ok();
        }
        let refused = rack.add(&name(1), &format!("-t diskless -I {program}"));
        assert!(refused.failed(1).contains(wanted), "{program}: {refused:?}");
        assert!(rack.list("name").is_empty());
    }
}

#[test]
fn the_built_in_allocator_balances_what_comes_at_once() {
    let Some(rack) = Rack::begin() else { return };
    let made = rack.ours(&format!("instance batch-create {}", rack.batch(1..=6)));
    assert!(made.ok().contains("All instances created successfully."), "{made:?}");
    assert_eq!(rack.counts(), [2, 2, 2]);
    for mode in
        ["allocate -t diskless new", "multi-allocate -t diskless new", "relocate i1.example"]
    {
        let told = rack.ours(&format!("debug iallocator --dir out -m {mode}"));
        let answer: Value = serde_json::from_str(told.ok()).unwrap();
        assert_eq!(answer["success"], true, "{mode}: {answer}");
    }
}

/// The balancer moves instances by jobs, and finds nothing to do behind the built-in allocator.
#[test]
fn ganetis_planners_read_instances_and_move_them() {
    let Some(rack) = Rack::begin() else { return };
    let planner = |line: &str| {
        let socket = rack.cluster.master.layout().luxi_socket();
        let mut words = line.split_whitespace();
        let mut command = rack.ganeti.command(words.next().unwrap());
        command.arg(format!("--luxi={}", socket.display())).args(words);
        run(command)
    };
    let made = rack.ours(&format!("instance batch-create {}", rack.batch(1..=3)));
    made.ok();
    let balanced = planner("hbal -X");
    // The free room of disks differs where other tests write while agents look.
    let is_balanced =
        |told: &str| told.contains("already well balanced") || told.contains("Solution length=0");
    assert!(is_balanced(balanced.ok()), "{balanced:?}");
    for number in 4..=9 {
        rack.add(&name(number), "-t sharedfile --disk 0:size=1G -n n1.example").ok();
    }
    assert_eq!(rack.counts(), [7, 1, 1]);
    let moved = planner("hbal -X");
    moved.ok();
    assert_eq!(rack.counts(), [3, 3, 3], "{moved:?}");
    let space = planner("hspace --disk-template=diskless");
    assert!(space.ok().contains("The cluster has 3 nodes"), "{space:?}");
    let repairs = planner("harep");
    repairs.ok();
    let hcheck = planner("hcheck");
    assert!(hcheck.ok().contains("no problems found"), "{hcheck:?}");
}
