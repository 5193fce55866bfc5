//! Commands of an operator and their results: words, exit statuses, and jobs that go on.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::json;
use tests::cluster::Cluster;
use tests::run::run;

/// A user that may do nothing.
const NOBODY: u32 = 65_534;
/// Fails when it runs.
const FAILS: &str = r#"[{"OP_ID": "OP_TEST_JQUEUE", "fail": true}]"#;

#[test]
fn a_drained_queue_takes_nothing_and_says_so() {
    let cluster = Cluster::begin();
    assert_eq!(cluster.gnt("cluster queue drain").ok(), "");
    assert_eq!(cluster.gnt("cluster queue info").ok(), "The drain flag is set\n");
    let refused = cluster.gnt("debug delay 0");
    assert!(refused.failed(1).contains("gnt cluster queue undrain"), "{refused:?}");
    assert_eq!(cluster.gnt("cluster queue undrain").ok(), "");
    assert_eq!(cluster.gnt("cluster queue info").ok(), "The drain flag is unset\n");
    assert_eq!(cluster.submit("debug delay 0"), 1, "what was refused took no number");
}

#[test]
fn a_job_is_submitted_watched_and_archived() {
    let cluster = Cluster::begin();
    let shown = cluster.gnt("debug delay 0 --print-jobid --reason because");
    assert_eq!(shown.ok().lines().next(), Some("1"));
    assert_eq!(cluster.submit("debug delay 0"), 2);
    let _waited = cluster.gnt("job wait 2").ok();
    let watched = cluster.gnt("job watch 2");
    assert!(watched.ok().starts_with("Output from job 2 follows\n----"), "{watched:?}");
    let info = cluster.gnt("job info 1");
    for part in
        ["Job ID: 1", "Status: success", "OP_TEST_DELAY", "- - gnt:user\n            - because"]
    {
        assert!(info.ok().contains(part), "no {part} in {info:?}");
    }
    let listed = cluster.gnt("job list --no-headers --separator : -o id,status,summary");
    assert_eq!(listed.ok(), "1:success:TEST_DELAY(0.0)\n2:success:TEST_DELAY(0.0)\n");
    let _archived = cluster.gnt("job archive 1").ok();
    let again = cluster.gnt("job archive 1");
    let why = "Failed to archive job with ID '1'\nJob 1 is archived already";
    assert!(again.failed(1).contains(why), "{again:?}");
    let none = cluster.gnt("job archive 99");
    assert!(none.failed(1).contains("Job 99 does not exist"), "{none:?}");
    let rest = cluster.gnt("job autoarchive all");
    assert_eq!(rest.ok(), "Archived 1 jobs, 0 unchecked left\n");
    assert_eq!(cluster.gnt("job list --no-headers").ok(), "");
    assert_eq!(cluster.gnt("job list --archived --no-headers -o id").ok().lines().count(), 2);
    assert!(cluster.gnt("job info 1").ok().contains("Status: success"));
}

#[test]
fn failing_jobs_fail_their_commands() {
    let cluster = Cluster::begin();
    let failed = cluster.gnt("debug delay 0 -n nobody.example");
    assert!(failed.failed(1).contains("Node 'nobody.example' not known"), "{failed:?}");
    let _waited = cluster.gnt("job wait 1").failed(1);
    let watched = cluster.gnt("job watch 1");
    assert!(watched.failed(1).contains("not known"), "{watched:?}");
    for line in ["job cancel 99", "job watch 99", "job archive 99"] {
        let told = cluster.gnt(line);
        assert!(!told.failed(1).is_empty() || !told.stdout.is_empty(), "{told:?}");
    }
    let missing = cluster.gnt("job info 99");
    assert!(missing.ok().contains("Job ID 99 not found"), "{missing:?}");
    let missing = cluster.gnt("job list 99 1 --no-headers --separator=: -o id,status");
    assert_eq!(missing.ok(), "1:error\n99:-\n");
    let finished = cluster.gnt("job cancel 1");
    assert_eq!(finished.code(), 1, "{finished:?}");
    assert!(!finished.stdout.is_empty(), "{finished:?}");
    let field = cluster.gnt("job list -o id,nonsense");
    assert!(field.failed(14).contains("nonsense"), "{field:?}");
    for (line, status) in [
        ("debug delay abc", 1),
        ("debug delay 0 --priority 99", 2),
        ("job list 18446744073709551616", 1),
    ] {
        assert!(!cluster.gnt(line).failed(status).is_empty(), "{line}");
    }
}

#[test]
fn jobs_depend_on_one_another() {
    let cluster = Cluster::begin();
    let after = |name: &str, back: i32, status: &str| {
        let depends = json!([[back, [status]]]);
        let ops = json!([{"OP_ID": "OP_TEST_DELAY", "duration": 0, "depends": depends}]);
        cluster.write(name, &ops.to_string()).display().to_string()
    };
    let fails = cluster.write("fails.json", FAILS).display().to_string();
    let (error, success) = (after("error.json", -1, "error"), after("success.json", -2, "success"));
    let told = cluster.gnt(&format!("debug submit-job -v {fails} {error} {success}"));
    assert!(told.failed(1).contains("2 of 3 jobs"), "{told:?}");
    assert_eq!(told.stdout.lines().next(), Some("Submitted jobs 1, 2, 3"));
    assert_eq!(cluster.status(1), "error");
    assert_eq!(cluster.status(2), "success");
    let third = cluster.job(3, "status,opresult");
    assert!(third["opresult"][0].to_string().contains("job 1"), "{third}");
}

#[test]
fn files_that_are_no_jobs_are_refused_with_the_reason() {
    let cluster = Cluster::begin();
    for (text, reason) in [
        (
            r#"[{"OP_ID": "OP_TEST_DELAY", "duration": "x"}]"#,
            "duration: expected a number, found a text",
        ),
        (r#"[{"OP_ID": "OP_NO_SUCH_THING"}]"#, "OP_NO_SUCH_THING"),
        (r#"[{"OP_ID": "OP_TEST_DELAY", "duration": 0, "colour": 1}]"#, "colour"),
        (r#"[{"duration": 0}]"#, "OP_ID"),
        ("[", "EOF"),
    ] {
        let file = cluster.write("job.json", text);
        let told = cluster.gnt(&format!("debug submit-job {}", file.display()));
        assert!(told.failed(1).contains(reason), "{text}: {told:?}");
    }
    assert_eq!(cluster.gnt("job list --no-headers").ok(), "");
}

#[test]
fn interrupting_the_command_does_not_interrupt_the_job() {
    let cluster = Cluster::begin();
    let following = cluster.gnt_start("debug delay 1000");
    following.wait_until_following();
    cluster.wait_for_status(1, "running");
    following.signal(Signal::SIGINT);
    let told = following.end();
    assert_eq!(told.status.code(), Some(130), "{told:?}");
    assert!(told.stderr.contains("Job 1 goes on") && told.stderr.contains("gnt job watch 1"));
    assert_eq!(cluster.status(1), "running");
}

#[test]
fn interrupting_the_command_names_no_job_that_has_ended() {
    let cluster = Cluster::begin();
    // It has the lock that one of the jobs waits for which the check makes.
    let holding = cluster.submit("debug delay 1000");
    cluster.wait_for_status(holding, "running");
    let mut command = cluster.gnt_command("cluster verify");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut checking = command.spawn().unwrap();
    let waiting = format!("Waiting for job {}", holding + 2);
    let mut said = BufReader::new(checking.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.starts_with(&waiting)));
    let pid = Pid::from_raw(i32::try_from(checking.id()).unwrap());
    nix::sys::signal::kill(pid, Signal::SIGINT).unwrap();
    let told = checking.wait_with_output().unwrap();
    assert_eq!(told.status.code(), Some(130));
    assert_eq!(String::from_utf8(told.stderr).unwrap(), "");
    assert_eq!(cluster.status(holding + 2), "waiting");
}

#[test]
fn a_reader_that_has_enough_is_no_failure_of_ours() {
    let cluster = Cluster::begin();
    for _ in 0..3 {
        let _id = cluster.submit("debug delay 0");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = cluster.gnt_command("job list");
    command.stdout(writer).stdin(Stdio::null()).stderr(Stdio::piped());
    let ended = command.output().unwrap();
    assert_eq!(ended.status.code(), Some(141));
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
}

#[test]
fn who_cannot_reach_the_master_is_told_what_to_do() {
    let cluster = Cluster::init();
    let told = cluster.gnt("job list --master-wait 0");
    assert!(told.failed(11).contains("This node is the master"), "{told:?}");
    cluster.start_master();
    assert_eq!(cluster.gnt("cluster getmaster").ok(), "n1.example\n");
    cluster.kill_master();
    let told = cluster.gnt("job list --master-wait 1");
    assert!(told.stderr.contains("trying again for 1 s"), "{told:?}");
    assert!(told.failed(11).contains("gantry-masterd"), "a socket that nobody serves: {told:?}");
    assert_eq!(cluster.gnt("cluster getmaster").ok(), "n1.example\n");
}

#[test]
fn a_cluster_is_begun_under_the_name_of_gnt() {
    let cluster = Cluster::init();
    let again = cluster.gnt("cluster init c2.example --node-name n1.example");
    assert!(again.failed(2).starts_with("gnt cluster init: "), "{again:?}");
    let unknown = cluster.gnt("cluster init c2.example --unknown");
    assert!(unknown.failed(2).contains("Usage: gnt cluster init "), "{unknown:?}");
    assert!(!unknown.stderr.contains("masterd"), "{unknown:?}");
}

/// Set to nothing, the variable is as not set, and no hindrance for who names the root.
#[test]
fn an_empty_root_in_the_environment_is_none() {
    let cluster = Cluster::init();
    let mut again = cluster.gnt_command("cluster init c2.example --node-name n1.example");
    again.env("GANTRY_ROOT", "");
    let told = run(again);
    assert!(told.failed(2).contains("belongs to a cluster already"), "{told:?}");
    let host = cluster.host("n2");
    let taken = std::net::TcpListener::bind((host.address, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut enroll = cluster.noded(&host);
    enroll.env("GANTRY_ROOT", "").args(["enroll", "--port", &port]);
    let told = run(enroll);
    assert!(told.failed(1).contains("this machine was not enrolled"), "{told:?}");
}

#[test]
fn only_the_group_may_use_the_socket() {
    if !tests::is_root() {
        return tests::skip("another user at the socket", "only root can become another user");
    }
    let cluster = Cluster::begin();
    let socket = cluster.master.layout().luxi_socket();
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660, "{mode:o}");
    // Everything on the way is open, so that only the socket itself can refuse.
    for dir in [cluster.dir(), cluster.master.root.clone()] {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let gnt = cluster.gnt_command("job list");
    let copy = cluster.dir().join("gnt");
    std::fs::copy(gnt.get_program(), &copy).unwrap();
    let mut command = Command::new(copy);
    command.args(gnt.get_args()).uid(NOBODY).gid(NOBODY).current_dir("/");
    let told = run(command);
    let text = told.failed(1);
    assert!(text.contains("no permission") && text.contains("gantry-admin"), "{told:?}");
}
