//! Clients that look for the socket where Ganeti has it.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use luxi::Client;
use luxi::method::QueryClusterInfo;
use tests::cluster::{Cluster, PATIENCE};
use tests::ganeti::Ganeti;
use tests::run::wait_for;

/// The host name of the machine for Ganeti, with a root directory of its own.
const HOST: &str = "n1.example";

/// The directory below a root of Ganeti where its clients look.
pub(crate) const SOCKETS: &str = "var/run/ganeti/socket";

#[test]
fn the_socket_is_where_ganetis_tools_look() {
    let cluster = Cluster::init();
    let root = cluster.dir().join(HOST);
    let sockets = root.join(SOCKETS);
    let mut command = cluster.masterd();
    command.arg("--ganeti-socket").arg(&sockets);
    cluster.start_master_by(command);
    let socket = sockets.join("ganeti-query");
    let mut client = Client::connect(&socket).unwrap();
    client.call(&QueryClusterInfo {}).unwrap();
    let id = cluster.submit("debug delay 0");
    cluster.wait_for_status(id, "success");
    ganeti_lists_the_job(&root);

    let other = Cluster::init();
    let mut second = other.masterd();
    second.arg("--log-stderr").arg("--ganeti-socket").arg(&sockets);
    let refused = second.output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("another process listens there"), "{told}");
    client.call(&QueryClusterInfo {}).unwrap();

    cluster.stop_master();
    assert!(!socket.exists() && sockets.exists());
}

/// Ganeti's client asks its files who the master is when it finds no socket.
#[test]
fn ganetis_tools_wait_for_a_master_that_restarts() {
    let cluster = Cluster::init();
    let root = cluster.dir().join(HOST);
    let files = root.join("var/lib/ganeti");
    std::fs::create_dir_all(&files).unwrap();
    let masterd = || {
        let mut command = cluster.masterd();
        command.arg("--ganeti-socket").arg(root.join(SOCKETS));
        command.arg("--ganeti-ssconf").arg(&files);
        command
    };
    cluster.start_master_by(masterd());
    let id = cluster.submit("debug delay 0");
    cluster.wait_for_status(id, "success");
    let Some(mut asks) = ganeti(&root, "gnt-cluster", &["getmaster"]) else { return };
    assert_eq!(text(&asks.output().unwrap().stdout), format!("{HOST}\n"));
    cluster.stop_master();
    // A master that goes away just when the client has come.
    let socket = root.join(SOCKETS).join("ganeti-query");
    let leaving = UnixListener::bind(&socket).unwrap();
    let mut lists = ganeti(&root, "gnt-job", LIST).unwrap();
    let waits = lists.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (client, _) = leaving.accept().unwrap();
    std::fs::remove_file(&socket).unwrap();
    drop((leaving, client));
    cluster.start_master_by(masterd());
    let listed = waits.wait_with_output().unwrap();
    assert_eq!(text(&listed.stdout), LISTED, "{}", text(&listed.stderr));
}

/// Ganeti's tools repeat what found no socket, and nothing that was refused.
#[test]
fn whoever_finds_the_socket_of_a_start_is_answered() {
    let cluster = Cluster::init();
    let socket = cluster.master.layout().luxi_socket();
    for _ in 0..3 {
        cluster.start(&cluster.master.masterd(), cluster.masterd());
        let mut client = wait_for("the socket", PATIENCE, || Client::connect(&socket).ok());
        client.call(&QueryClusterInfo {}).unwrap();
        cluster.stop_master();
    }
}

/// Arguments of Ganeti's client for jobs.
pub(crate) const LIST: &[&str] =
    &["list", "--no-headers", "--separator=|", "-o", "id,status,summary"];
/// The output of that command.
const LISTED: &str = "1|success|TEST_DELAY(0.0)\n";

/// A root directory for Ganeti's clients below a directory.
pub(crate) fn root_below(directory: &Path) -> PathBuf {
    directory.join("ganeti").join(HOST)
}

fn ganeti_lists_the_job(root: &Path) {
    let Some(mut command) = ganeti(root, "gnt-job", LIST) else { return };
    let listed = command.output().unwrap();
    assert_eq!(text(&listed.stdout), LISTED, "{}", text(&listed.stderr));
}

/// A client of Ganeti; `None` where there is none.
pub(crate) fn ganeti(root: &Path, program: &str, words: &[&str]) -> Option<Command> {
    let mut command = Ganeti::find(program)?.command(program);
    command.args(words).env("GANETI_ROOTDIR", root).env("GANETI_HOSTNAME", HOST);
    Some(command)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
