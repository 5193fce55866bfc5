//! Clients that look for the socket where Ganeti has it.

use std::path::Path;
use std::process::Command;

use luxi::Client;
use luxi::method::QueryClusterInfo;
use tests::cluster::Cluster;
use tests::skip;

/// Ganeti's own client, where its Debian package puts it.
const GANETI_CLIENT: &str = "/usr/sbin/gnt-job";
/// What Ganeti takes the machine for, with a root directory of its own.
const HOST: &str = "n1.example";

/// The directory below a root of Ganeti where its clients look.
const SOCKETS: &str = "var/run/ganeti/socket";

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

fn ganeti_lists_the_job(root: &Path) {
    if !Path::new(GANETI_CLIENT).exists() {
        skip("gnt-job of Ganeti", "it is not installed");
        return;
    }
    let mut command = Command::new(GANETI_CLIENT);
    command.args(["list", "--no-headers", "--separator=|", "-o", "id,status,summary"]);
    command.env("GANETI_ROOTDIR", root).env("GANETI_HOSTNAME", HOST);
    let listed = command.output().unwrap();
    let told = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "1|success|TEST_DELAY(0)\n", "{told}");
}
