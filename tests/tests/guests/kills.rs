//! Agents and guests that are killed at any moment, and many guests at once.

use std::path::PathBuf;

use stdx::process::Process;
use tests::cluster::{MASTER, PATIENCE};
use tests::run::wait_for;

use crate::instances::{BARE, Node};

/// The moments of a start, each by the file beside the instance's record that has something in it then.
const MOMENTS: [&str; 4] = ["json", "qmp", "console", "console.log"];
/// Who is killed then: the agent, the guest's process, or both.
const KILLED: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];
/// Guests that a host has at once.
const MANY: usize = 30;

/// The processes of QEMU that are an instance.
fn processes(uuid: &str) -> Vec<Process> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_it = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        words.windows(2).any(|pair| pair == [b"-uuid".as_slice(), uuid.as_bytes()])
    };
    numbers.filter(is_it).filter_map(Process::of).collect()
}

/// Whether a moment of a start is there.
fn is_there(file: &PathBuf, ending: &str) -> bool {
    match ending {
        // Sockets have no length.
        "qmp" | "console" => file.exists(),
        "json" => std::fs::read_to_string(file).is_ok_and(|record| record.contains("starting")),
        _ => std::fs::metadata(file).is_ok_and(|file| file.len() > 0),
    }
}

#[test]
fn whoever_is_killed_in_a_start_leaves_one_guest_or_none() {
    let Some(node) = Node::begin(None) else { return };
    let (cluster, name) = (&node.cluster, "web1");
    node.add("web1.example", &format!("{BARE} --no-start"));
    let uuid = node.fields(name, "uuid");
    let mut points = KILLED.iter().cycle().zip(MOMENTS.iter().cycle());
    for _ in 0..tests::tries(6, 24) {
        let ((agent, guest), moment) = points.next().unwrap();
        let file = cluster.master.layout().instances().join(format!("{uuid}.{moment}"));
        // What an earlier run left is no moment of this one.
        if *moment != "json" {
            drop(std::fs::remove_file(&file));
        }
        let job = cluster.submit(&format!("instance startup {name}"));
        let over = || !["queued", "waiting", "running"].contains(&cluster.status(job).as_str());
        // A start may be over before it was seen.
        wait_for(moment, PATIENCE, || (is_there(&file, moment) || over()).then_some(()));
        if *agent {
            cluster.kill_agent(&cluster.master);
        }
        if *guest {
            processes(&uuid).iter().for_each(|process| process.kill().unwrap());
        }
        if *agent {
            cluster.start_agent(&cluster.master);
        }
        wait_for("the end of the start", PATIENCE, || over().then_some(()));
        // Whatever became of the job, its instance is to run: else it is asked for again.
        wait_for("a guest", PATIENCE, || {
            let status = node.fields(name, "status");
            if status == "ADMIN_down" {
                cluster.gnt(&format!("instance startup {name}"));
            }
            (status == "running").then_some(())
        });
        wait_for("one process", PATIENCE, || (processes(&uuid).len() == 1).then_some(()));
        assert_eq!(processes(&uuid)[0].pid.unsigned_abs(), node.process(name));
        cluster.gnt(&format!("instance shutdown --timeout 0 {name}")).ok();
        assert_eq!(processes(&uuid), []);
    }
    cluster.gnt(&format!("instance remove -f {name}")).ok();
}

#[test]
fn a_host_has_many_guests_at_once() {
    if !tests::has_time("thirty guests of a host") {
        return;
    }
    let Some(node) = Node::begin(None) else { return };
    let cluster = &node.cluster;
    let name = |number: usize| format!("g{number}.example");
    let ratios = "--ipolicy-vcpu-ratio 1000 --ipolicy-spindle-ratio 1000";
    cluster.gnt(&format!("cluster modify {ratios}")).ok();
    let jobs: Vec<u64> = (0..MANY)
        .map(|number| {
            cluster.submit(&format!(
                "instance add -t diskless --ignore-ipolicy -B memory=160M --no-name-check \
                 --no-ip-check -n {MASTER} {BARE} {}",
                name(number)
            ))
        })
        .collect();
    jobs.into_iter().for_each(|job| cluster.wait_for_status(job, "success"));
    for number in 0..MANY {
        node.wait_for_console(&name(number), "GUEST runs", 1);
    }
    cluster.kill_agent(&cluster.master);
    cluster.start_agent(&cluster.master);
    for number in 0..MANY {
        node.wait_for(&name(number), "status", "running");
        cluster.gnt(&format!("instance remove -f --shutdown-timeout 0 {}", name(number))).ok();
    }
}
