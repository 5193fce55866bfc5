//! Jobs that are canceled while an agent does not answer.

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tests::cluster::{Cluster, IPAM, MASTER, PATIENCE};
use tests::run::wait_for;

/// A cluster whose agent serves rack 0.
fn rack() -> Cluster {
    let cluster = Cluster::begin_with_agent();
    let ipam = cluster.write("ipam.json", IPAM);
    let _set = cluster.gnt(&format!("ipam set -f {}", ipam.display())).ok();
    let _given = cluster.gnt(&format!("node modify --rack 0 {MASTER}")).ok();
    cluster
}

fn signal_agent(cluster: &Cluster, signal: Signal) {
    let pid = cluster.pid(&cluster.master.name).expect("its agent was started");
    let pid = Pid::from_raw(i32::try_from(pid).expect("process ids are below 2^22"));
    nix::sys::signal::kill(pid, signal).unwrap();
}

/// Runs a job whose change is made while its call to the agent hangs, and cancels it then.
fn refused_when_changed(line: &str, is_changed: impl Fn(&Cluster) -> bool) {
    let cluster = rack();
    signal_agent(&cluster, Signal::SIGSTOP);
    let job = cluster.submit(line);
    wait_for(&format!("the change of `{line}`"), PATIENCE, || is_changed(&cluster).then_some(()));
    let canceled = cluster.gnt(&format!("job cancel {job}"));
    assert_eq!(cluster.status(job), "running");
    signal_agent(&cluster, Signal::SIGCONT);
    let _told = canceled.failed(1);
    let text = format!("Job {job} has made its change and can no longer be canceled");
    assert!(canceled.stdout.contains(&text), "{canceled:?}");
    cluster.wait_for_status(job, "success");
    assert!(is_changed(&cluster));
}

#[test]
fn a_machine_that_is_registered_is_not_canceled() {
    refused_when_changed("machine add --serial SN1 --rack 0 --role worker", |cluster| {
        let rows = cluster.gnt("machine list --json -o serial").json();
        rows.as_array().unwrap().iter().any(|row| row["serial"] == "SN1")
    });
}

#[test]
fn a_rack_that_is_moved_is_not_canceled() {
    refused_when_changed(&format!("node modify --rack 1 {MASTER}"), |cluster| {
        cluster.gnt("node list --json -o name,rack").json()[0]["rack"] == 1
    });
}

#[test]
fn a_push_that_hangs_is_canceled_and_says_what_may_be_done() {
    let cluster = rack();
    signal_agent(&cluster, Signal::SIGSTOP);
    let job = cluster.submit("cluster redist-conf");
    cluster.wait_for_status(job, "running");
    let canceled = cluster.gnt(&format!("job cancel {job}"));
    signal_agent(&cluster, Signal::SIGCONT);
    assert!(canceled.ok().contains(&format!("Job {job} canceled")), "{canceled:?}");
    let job = cluster.job(job, "status,oplog");
    assert_eq!(job["status"], "canceled");
    let text = "Canceled; the configuration was not changed. Agents may have carried out: ";
    assert!(job["oplog"].to_string().contains(text), "{job}");
}
