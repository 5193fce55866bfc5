//! The messages of `gnt` when it cannot do what it should.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use model::layout::Layout;

use crate::script::Script;
use crate::toy::{gnt, start};

fn role(root: &std::path::Path, master: &str) {
    let path = Layout::new(root).data().join(model::document::ROLE);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!(r#"{{"master":"{master}","term":1,"node":1,"since":[1700000000,0]}}"#);
    stdx::atomic::write(&path, text.as_bytes(), 0o640).unwrap();
}

fn node(root: &std::path::Path, name: &str, address: &str) {
    let text = serde_json::json!({"name": name, "uuid": "0d0b", "id": 1, "role": "candidate",
        "primary_ip": address, "rpc_port": 1811, "secondary_ip": address,
        "fingerprint": "a7".repeat(32), "rack": null, "master_capable": true, "vm_capable": true,
        "powered": true, "serial_no": 1, "ctime": [1, 0], "mtime": [1, 0]});
    let path = Layout::new(root).data().join(model::document::node(&name.parse().unwrap()));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    stdx::atomic::write(&path, text.to_string().as_bytes(), 0o640).unwrap();
}

/// Writes the file that `noded enroll` leaves on a node, as far as it is read here.
fn enrolled(root: &std::path::Path, candidates: &[&str]) {
    let callers: Vec<_> = candidates
        .iter()
        .map(|name| serde_json::json!({"name": name, "fingerprint": "a7".repeat(32)}))
        .collect();
    let text = serde_json::json!({"cluster_uuid": "0d0b", "cluster_name": "c1.example.com",
        "node": "n2.example.com", "node_id": 2, "epoch": {"term": 1, "node": 1},
        "allow": {"epoch": {"term": 1, "node": 1}, "callers": callers}});
    let path = Layout::new(root).pki().join("membership.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    stdx::atomic::write(&path, text.to_string().as_bytes(), 0o644).unwrap();
}

/// A member that is no candidate holds no copy of the configuration.
#[test]
fn a_node_that_is_not_the_master() {
    let root = tempfile::tempdir().unwrap();
    for (candidates, known) in [
        (&["n2.example.com"] as &[&str], ""),
        (&["n1", "n2.example.com"], "the only other candidate was 'n1'"),
        (&["n1", "n3"], "candidates were 'n1', 'n3'"),
    ] {
        enrolled(root.path(), candidates);
        let shown = gnt("gnt", root.path().to_path_buf(), "job list", "");
        let told = "This is node 'n2.example.com' of the cluster 'c1.example.com'";
        assert!(shown.contains(told) && shown.contains(known), "{shown}");
        assert!(shown.ends_with("(exit 11)\n"), "{shown}");
    }
}

#[test]
fn no_master_here() {
    let root = tempfile::tempdir().unwrap();
    let run = |line| gnt("gnt", root.path().to_path_buf(), line, "");
    let mut shown = vec![run("job list")];
    role(root.path(), "elsewhere.example.com");
    shown.push(run("job list"));
    shown.push(run("cluster getmaster"));
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    role(root.path(), &host.to_ascii_lowercase());
    shown.push(run("job list --master-wait 1"));
    let socket = Layout::new(root.path()).luxi_socket();
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    drop(UnixListener::bind(&socket).unwrap());
    shown.push(run("job list --master-wait 0"));
    shown.push(run("job list --socket ROOT/elsewhere"));
    shown.push(gnt("gnt-job", root.path().to_path_buf(), "list --master-wait 0", ""));
    // A node need not have the name of its host; then its address tells.
    role(root.path(), "elsewhere.example.com");
    node(root.path(), "elsewhere.example.com", "127.0.0.1");
    shown.push(run("job list --master-wait 0"));
    node(root.path(), "elsewhere.example.com", "192.0.2.1");
    shown.push(run("job list"));
    insta::assert_snapshot!(shown.join("\n"));
}

/// Several nodes may be on one machine, with its name and its addresses.
#[test]
fn a_node_is_what_it_was_enrolled_as() {
    let root = tempfile::tempdir().unwrap();
    enrolled(root.path(), &["n2.example.com"]);
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap().to_ascii_lowercase();
    node(root.path(), "n3.example.com", "127.0.0.1");
    for (master, told, exit) in [
        ("n3.example.com", "the master is n3.example.com", "(exit 11)\n"),
        (host.as_str(), "Run gnt there", "(exit 11)\n"),
        ("n2.example.com", "This node is the master, but masterd does not run", "(exit 11)\n"),
    ] {
        role(root.path(), master);
        let shown = gnt("gnt", root.path().to_path_buf(), "job list --master-wait 0", "");
        assert!(shown.contains(told) && shown.ends_with(exit), "{master}: {shown}");
    }
}

/// User and group that own nothing.
const NOBODY: u32 = 65_534;

#[test]
fn no_permission() {
    let master = start();
    let socket = Layout::new(master.root.path()).luxi_socket();
    std::fs::set_permissions(&socket, Permissions::from_mode(0o000)).unwrap();
    let (told, status) = as_nobody(master.root.path());
    assert!(told.contains("no permission") && told.contains("usermod -aG gantry-admin"), "{told}");
    assert_eq!(status, Some(1));
}

/// Lists jobs as a user who owns nothing: what is told, and the exit status.
fn as_nobody(root: &std::path::Path) -> (String, Option<i32>) {
    std::fs::set_permissions(root, Permissions::from_mode(0o755)).unwrap();
    let program = root.join("gnt");
    std::fs::copy(env!("CARGO_BIN_EXE_gnt"), &program).unwrap();
    let mut command = Command::new(program);
    command.arg("--root").arg(root).args(["job", "list"]);
    // Nothing is forbidden to root.
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

#[test]
fn what_may_not_be_read_is_not_taken_for_no_cluster() {
    let root = tempfile::tempdir().unwrap();
    enrolled(root.path(), &["n1"]);
    role(root.path(), "n1");
    let layout = Layout::new(root.path());
    for directory in [layout.data(), layout.pki()] {
        std::fs::set_permissions(&directory, Permissions::from_mode(0o000)).unwrap();
        let (told, status) = as_nobody(root.path());
        let named = format!("`{}", directory.display());
        assert!(told.contains(&named) && told.contains("Permission denied"), "{told}");
        assert_eq!(status, Some(1));
        std::fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        std::fs::remove_file(layout.data().join(model::document::ROLE)).unwrap_or_default();
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let master = start();
    let mut child = Command::new(env!("CARGO_BIN_EXE_gnt"))
        .args(["job", "list"])
        .env("GANTRY_ROOT", master.root.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!((status.code(), told.as_str()), (Some(141), ""));
}

const BEGINS: &str = r#"{"success":true,"result":[["running",["running"],[null]],[[1,[1700000000,0],"message","begins"]]]}"#;
const ENDS: &str = r#"{"success":true,"result":[["success",["success"],[null]],[[2,[1700000000,0],"message","ends"]]]}"#;
const ENDING: &str =
    r#"{"success":false,"result":["GenericError",["The master daemon is ending; try again"]]}"#;

#[test]
fn a_master_that_is_restarted_does_not_end_the_wait() {
    let script = Script::new();
    let child = script.gnt(&["job", "watch", "5"]);
    script.answer(&[BEGINS]);
    script.answer(&[ENDING]);
    script.answer(&[]);
    let asked = script.answer(&[ENDS]);
    assert!(
        asked[0]
            .contains(r#"[5,["status","opstatus","opresult"],["running",["running"],[null]],1,"#)
    );
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = shown.lines().skip(2).collect();
    assert_eq!(lines, ["2023-11-14 22:13:20+00:00 begins", "2023-11-14 22:13:20+00:00 ends"]);
    let told = String::from_utf8(output.stderr).unwrap();
    let lost =
        "The connection to the master is lost while waiting for job 5; trying again for 60 s";
    assert_eq!(told.trim_end(), lost);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_submission_that_is_not_answered_is_sent_again_byte_for_byte() {
    let script = Script::new();
    let child = script.gnt(&["debug", "delay", "1", "--submit"]);
    let mut asked = Vec::new();
    for answers in [&[] as &[&str], &[ENDING], &[r#"{"success":true,"result":5}"#]] {
        asked.push(script.answer(answers).swap_remove(0));
    }
    assert!(asked[0].contains("SubmitJob"), "{asked:?}");
    assert!(asked.iter().all(|question| *question == asked[0]), "{asked:?}");
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let lost = "The connection to the master is lost before it answered SubmitJob; sending the \
                same again for 60 s";
    assert_eq!(told, format!("{lost}\nJobID: 5\n"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn what_the_master_says_at_last_is_told() {
    let script = Script::new();
    let child = script.gnt(&["debug", "delay", "1"]);
    script.answer(&[]);
    script.answer(&[r#"{"success":false,"result":["JobQueueDrainError",["closed"]]}"#]);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let last = "error[drained]: closed\n`gnt cluster queue undrain` opens it again.\n\
                `gnt explain drained` says what to do.\n";
    assert!(told.ends_with(last), "{told}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_answer_that_does_not_read_leaves_it_open_whether_there_is_a_job() {
    let script = Script::new();
    let child = script.gnt(&["debug", "delay", "1"]);
    script.answer(&[r#"{"success":true,"result":"x"}"#]);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("It is not known whether the job was accepted"), "{told}");
    assert!(told.contains("`gnt job list`"), "{told}");
    assert_eq!(output.status.code(), Some(1));
    script.listener.set_nonblocking(true).unwrap();
    assert!(script.listener.accept().is_err(), "nothing else was asked");
}

#[test]
fn jobs_that_are_repeated_are_requests_of_their_own() {
    let script = Script::new();
    let file = script.root.path().join("job.json");
    let ops = br#"[{"OP_ID": "OP_TEST_DELAY", "duration": 0}]"#;
    stdx::atomic::write(&file, ops, 0o640).unwrap();
    let file = file.to_str().unwrap();
    let taken = [r#"{"success":true,"result":5}"#, r#"{"success":true,"result":6}"#];
    let child = script.gnt(&["debug", "submit-job", "--each", "--job-repeat", "2", file]);
    let asked = script.answer(&taken);
    assert!(asked[0].contains("SubmitJob") && asked[1].contains("SubmitJob"), "{asked:?}");
    assert_ne!(asked[0], asked[1], "equal requests are one to the master");
    let _output = child.wait_with_output().unwrap();
}

/// The job 37 of the toy ends; one that does not is followed here until Ctrl-C.
#[test]
fn an_interrupted_wait_says_that_the_job_goes_on() {
    let script = Script::new();
    let mut child = script.gnt(&["job", "watch", "5"]);
    let (mut stream, _) = script.listener.accept().unwrap();
    let mut request = Vec::new();
    BufReader::new(stream.try_clone().unwrap()).read_until(3, &mut request).unwrap();
    stream.write_all(format!("{BEGINS}\u{3}").as_bytes()).unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("begins") {
        line.clear();
        output.read_line(&mut line).unwrap();
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let status = child.wait().unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told, "Job 5 goes on. Follow it with: gnt job watch 5\n");
    assert_eq!(status.code(), Some(130));
}
