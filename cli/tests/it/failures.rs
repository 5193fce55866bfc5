//! What `gnt` says when it cannot do what it should.

use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use model::layout::Layout;

use crate::toy::{gnt, start};

fn role(root: &std::path::Path, master: &str) {
    let path = Layout::new(root).data().join(model::document::ROLE);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!(r#"{{"master":"{master}","term":1,"node":1,"since":[1700000000,0]}}"#);
    stdx::atomic::write(&path, text.as_bytes(), 0o640).unwrap();
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
    shown.push(run("job list"));
    let socket = Layout::new(root.path()).luxi_socket();
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    shown.push(run("job list"));
    insta::assert_snapshot!(shown.join("\n"));
}

/// User and group that own nothing.
const NOBODY: u32 = 65_534;

#[test]
fn no_permission() {
    let master = start();
    let socket = Layout::new(master.root.path()).luxi_socket();
    std::fs::set_permissions(&socket, Permissions::from_mode(0o000)).unwrap();
    std::fs::set_permissions(master.root.path(), Permissions::from_mode(0o755)).unwrap();
    let program = master.root.path().join("gnt");
    std::fs::copy(env!("CARGO_BIN_EXE_gnt"), &program).unwrap();
    let mut command = Command::new(program);
    command.arg("--root").arg(master.root.path()).args(["job", "list"]);
    // Nothing is forbidden to root.
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("no permission") && told.contains("group gantry-admin"), "{told}");
    assert_eq!(output.status.code(), Some(1));
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

/// The job 37 of the toy ends; one that does not is followed here until Ctrl-C.
#[test]
fn an_interrupted_wait_says_that_the_job_goes_on() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let root = tempfile::tempdir().unwrap();
    let socket = root.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_gnt"))
        .arg("--socket")
        .arg(&socket)
        .args(["job", "watch", "5"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    BufReader::new(stream.try_clone().unwrap()).read_until(3, &mut request).unwrap();
    let answer = br#"{"success":true,"result":[["running",["running"],[null]],[[1,[1700000000,0],"message","begins"]]]}"#;
    stream.write_all(answer).unwrap();
    stream.write_all(b"\x03").unwrap();
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
