//! The front door: Ganeti's own clients of its remote API, the requests of sabakan's specification, and what
//! should not be let in.

mod browser;
mod conditions;
mod crypts;
mod described;
mod failover;
mod files;
mod go_client;
mod ignitions;
mod sabakan;
mod states;
mod strangers;
mod switches;
mod tenants;
mod tokens;

use std::net::TcpStream;
use std::process::Command;

use model::layout::RAPI_PORT;
use tests::cluster::{Cluster, Host, MASTER, PATIENCE};
use tests::ganeti::Ganeti;
use tests::run::{Ended, run, wait_for};

/// Users with each role; `alice` operates, `root` administers, `bob` looks.
const USERS: &str = "alice secret write\nroot top admin\nbob {HA1}HA1 read\n";

/// A cluster with a front door on its first machine.
struct Front {
    cluster: Cluster,
    door: Host,
}

impl Front {
    fn begin() -> Self {
        Self::begin_with(&[])
    }

    fn begin_with(options: &[&str]) -> Self {
        let cluster = Cluster::begin_with_agent();
        let door = cluster.master.clone();
        Self::open(&cluster, &door, options);
        Self { cluster, door }
    }

    /// Opens the front door of a machine.
    fn open(cluster: &Cluster, door: &Host, options: &[&str]) {
        let mut md5 = Command::new("sh");
        md5.args(["-c", "printf 'bob:Ganeti Remote API:hunter2' | md5sum | cut -d' ' -f1"]);
        let users = USERS.replace("}HA1", &format!("}}{}", run(md5).ok().trim()));
        let path = door.layout().rapi_users();
        stdx::atomic::write(&path, users.as_bytes(), 0o640).unwrap();
        Self::start(cluster, door, options);
    }

    fn start(cluster: &Cluster, door: &Host, options: &[&str]) {
        let mut command = cluster.program("rapi");
        command.arg("--root").arg(&door.root);
        command.args(["--address", &door.address.to_string()]).args(options);
        cluster.start(&format!("rapi-{}", door.name), command);
        wait_for("the front door", PATIENCE, || TcpStream::connect((door.address, RAPI_PORT)).ok());
    }

    /// Where it is.
    fn authority(&self) -> String {
        format!("{}:5080", self.door.address)
    }

    /// Asks by curl as `user`, or as nobody; the last argument is the path.
    fn curl(&self, user: &str, arguments: &[&str]) -> Ended {
        let (path, options) = arguments.split_last().expect("a path");
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60"]).arg("--cacert");
        curl.arg(self.door.layout().ca_certificate());
        curl.args(["--connect-to", &format!("::{}", self.authority())]);
        match user {
            "alice" => drop(curl.args(["--user", "alice:secret"])),
            "root" => drop(curl.args(["--user", "root:top"])),
            "bob" => drop(curl.args(["--user", "bob:hunter2"])),
            _ => {}
        }
        curl.args(options).arg(format!("https://{}:5080{path}", self.door.name));
        run(curl)
    }

    /// The status and body of an answer.
    fn answer(&self, user: &str, arguments: &[&str]) -> (u16, String) {
        let mut all = vec!["--write-out", "\n%{http_code}"];
        all.extend(arguments);
        let ended = self.curl(user, &all);
        let (body, status) = ended.ok().rsplit_once('\n').expect("a status behind the body");
        (status.parse().unwrap(), body.to_owned())
    }
}

#[test]
fn ganetis_own_client_does_everything_that_there_is() {
    let Some(ganeti) = Ganeti::find("Ganeti's client of its remote API") else { return };
    let front = Front::begin();
    let mut python = ganeti.python();
    python.arg("-c").arg(include_str!("front/client.py"));
    python.args([&front.door.address.to_string(), MASTER]);
    let told = run(python);
    assert_eq!(told.ok(), "everything is as Ganeti's client wants it\n");
    let log = std::fs::read_to_string(front.door.layout().rapi_access_log()).unwrap();
    assert!(log.contains(" - alice [") && log.contains("\"PUT /2/tags?tag=a&tag=b HTTP/"), "{log}");
    assert!(log.contains(" - - [") && log.contains(" 401 "), "{log}");
}

#[test]
fn ganetis_htools_see_the_cluster() {
    let Some(ganeti) = Ganeti::find("Ganeti's planners at its remote API") else { return };
    let front = Front::begin();
    for (name, wanted) in [
        ("hinfo", "Loaded 1 node, 0 instances, 1 node group"),
        ("hbal", "Cluster is empty, exiting"),
    ] {
        let mut command = ganeti.command(name);
        command.args(["-m", &format!("https://alice:secret@{}", front.authority())]);
        let told = run(command);
        assert!(told.ok().contains(wanted), "{told:?}");
    }
}
