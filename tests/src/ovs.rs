//! An Open vSwitch in userspace, with stations at its ports that send and hear frames. Each has a network
//! namespace of its own, and all of it ends with the test.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};
use tempfile::TempDir;
use xtask::needs;

use crate::cluster::PATIENCE;
use crate::run::{Ended, run, wait_for};

/// The bridge.
pub const BRIDGE: &str = "br0";
/// Programs that it needs.
const PROGRAMS: [&str; 5] = ["ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ip", "openssl"];
/// The type of its frames: IEEE keeps it for experiments.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// How long a frame may take that arrives; none takes a tenth of it.
const ARRIVES: Duration = Duration::from_millis(500);

/// A switch.
#[derive(Debug)]
pub struct Ovs {
    dir: TempDir,
    /// It lives as long as its namespace.
    space: Child,
    database: Option<Child>,
    switch: Option<Child>,
    /// The port of the database, TLS.
    port: u16,
}

/// A computer at a port of the switch.
#[derive(Debug)]
pub struct Station {
    /// The name of the port on the switch.
    pub port: String,
    space: Child,
    socket: OwnedFd,
}

fn space() -> Child {
    let mut command = Command::new("unshare");
    command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let path = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let own = path("self");
    wait_for("a network namespace", PATIENCE, || {
        path(&child.id().to_string()).filter(|space| Some(space) != own.as_ref()).map(drop)
    });
    child
}

fn ip(line: &str) {
    let mut command = Command::new("ip");
    command.args(line.split_whitespace());
    let _done = run(command).ok();
}

/// Makes an authority, and a certificate for each name.
fn certificates(dir: &Path, names: &[&str]) {
    let script = r#"cd "$0" && key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes' &&
        openssl req -x509 $key -keyout ca.key -out ca.pem -days 9 -subj /CN=authority \
            -addext basicConstraints=critical,CA:TRUE &&
        echo basicConstraints=CA:FALSE >leaf && for name; do
            openssl req $key -keyout $name.key -out $name.csr -subj /CN=$name &&
            openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 \
                -extfile leaf -out $name.pem || exit 1
        done"#;
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(dir).args(names);
    let _made = run(command).ok();
}

impl Ovs {
    /// Why there can be none here.
    pub fn missing() -> Option<String> {
        if !crate::is_root() {
            return Some("network namespaces need root".to_owned());
        }
        needs::missing(&PROGRAMS)
    }

    /// A switch without ports.
    ///
    /// # Panics
    /// If it does not start.
    pub fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        certificates(dir.path(), &["switch", "gantry"]);
        let ovs = Self { dir, space: space(), database: None, switch: None, port: 0 };
        ovs.begun()
    }

    fn begun(mut self) -> Self {
        self.empty();
        self.start_database();
        let _made = self.vsctl("--no-wait init").ok();
        self.start_switch();
        self.restore(&[]);
        self
    }

    /// Takes away all that the database holds, while it does not run.
    ///
    /// # Panics
    /// If there is no new one.
    pub fn empty(&self) {
        drop(fs::remove_file(self.path("conf.db")));
        let mut tool = self.command("ovsdb-tool");
        tool.arg("create").arg(self.path("conf.db"));
        tool.arg("/usr/share/openvswitch/vswitch.ovsschema");
        let _made = run(tool).ok();
    }

    /// Makes the bridge, with ports of stations that are there.
    pub fn restore(&self, ports: &[&str]) {
        let line = format!("add-br {BRIDGE} -- set bridge {BRIDGE} datapath_type=netdev");
        let _made = self.vsctl(&line).ok();
        for port in ports {
            let _added = self.vsctl(&format!("add-port {BRIDGE} {port}")).ok();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of the certificates: `ca.pem`, `gantry.pem`, `gantry.key`.
    pub fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The URL of the switch.
    pub fn url(&self) -> String {
        format!("ovsdb+ssl://127.0.0.1:{}#{BRIDGE}", self.port)
    }

    /// The same over the socket.
    pub fn socket_url(&self) -> String {
        format!("ovsdb+unix://{}#{BRIDGE}", self.file("db.sock"))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = needs::beside("ovs-vswitchd", program);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.dir.path());
        }
        command.current_dir(self.dir.path());
        command
    }

    /// Starts the database, at the port where it was before.
    ///
    /// # Panics
    /// If it does not listen.
    pub fn start_database(&mut self) {
        let log = self.path("database.log");
        drop(fs::remove_file(&log));
        let mut command = self.command("ovsdb-server");
        command.arg(self.path("conf.db"));
        command.arg(format!("--remote=punix:{}", self.file("db.sock")));
        command.arg(format!("--remote=pssl:{}:127.0.0.1", self.port));
        command.args(["--private-key=switch.key", "--certificate=switch.pem", "--ca-cert=ca.pem"]);
        command.arg(format!("--unixctl={}", self.file("database.ctl")));
        command.arg(format!("--log-file={}", log.display()));
        self.database = Some(started(command));
        if self.port != 0 {
            let listens = || TcpStream::connect(("127.0.0.1", self.port)).ok().map(drop);
            return wait_for("the database", PATIENCE, listens);
        }
        self.port = wait_for("the port of the database", PATIENCE, || {
            let text = fs::read_to_string(&log).ok()?;
            let (_, rest) = text.split_once("listening on port ")?;
            rest.lines().next()?.trim().parse().ok()
        });
    }

    /// Starts what moves packets.
    pub fn start_switch(&mut self) {
        let mut switch = self.command("ovs-vswitchd");
        switch.arg(format!("unix:{}", self.file("db.sock")));
        switch.arg(format!("--unixctl={}", self.file("switch.ctl")));
        switch.arg(format!("--log-file={}", self.file("switch.log")));
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.space.id())).arg("--");
        command.arg(switch.get_program()).args(switch.get_args());
        command.envs(switch.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.switch = Some(started(command));
    }

    /// Ends the database, as `kill -9` does.
    pub fn kill_database(&mut self) {
        end(&mut self.database);
    }

    /// Ends what moves packets.
    pub fn kill_switch(&mut self) {
        end(&mut self.switch);
    }

    /// Runs `ovs-vsctl`.
    pub fn vsctl(&self, line: &str) -> Ended {
        let mut command = self.command("ovs-vsctl");
        command.arg("--timeout=20").arg(format!("--db=unix:{}", self.file("db.sock")));
        command.args(line.split_whitespace());
        run(command)
    }

    /// A station at a new port.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn station(&self, port: &str) -> Station {
        let space = space();
        let (switch, id) = (self.space.id(), space.id());
        ip(&format!("link add {port} netns {switch} type veth peer name eth0 netns {id}"));
        for (process, link) in [(switch, port), (id, "eth0")] {
            let mut up = Command::new("nsenter");
            up.arg(format!("--net=/proc/{process}/ns/net"));
            up.args(["--", "ip", "link", "set", link, "up"]);
            let _up = run(up).ok();
        }
        let _added = self.vsctl(&format!("add-port {BRIDGE} {port}")).ok();
        let socket = std::thread::spawn(move || packets(id)).join().unwrap().unwrap();
        Station { port: port.to_owned(), space, socket }
    }
}

/// A socket for all frames of the interface of a namespace.
fn packets(process: u32) -> io::Result<OwnedFd> {
    let space = fs::File::open(format!("/proc/{process}/ns/net"))?;
    setns(&space, CloneFlags::CLONE_NEWNET)?;
    let all = SockProtocol::EthAll;
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, all)?;
    let mut links = nix::ifaddrs::getifaddrs()?.filter(|link| link.interface_name == "eth0");
    let address = links.find_map(|link| link.address?.as_link_addr().copied());
    let address = address.ok_or(io::ErrorKind::NotFound)?;
    bind(socket.as_raw_fd(), &address)?;
    Ok(socket)
}

impl Station {
    /// Whether a frame that this one sends to all arrives at the other.
    ///
    /// # Panics
    /// If its socket does not work.
    pub fn reaches(&self, other: &Self) -> bool {
        static SENT: AtomicU64 = AtomicU64::new(0);
        let number = SENT.fetch_add(1, Ordering::Relaxed);
        let token = format!("gantry {} {number}", std::process::id());
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 1]);
        frame.extend(ETHERTYPE);
        frame.extend(token.as_bytes());
        frame.resize(60, 0);
        let _sent = send(self.socket.as_raw_fd(), &frame, MsgFlags::empty()).unwrap();
        let until = Instant::now() + ARRIVES;
        let mut bytes = [0; 2_048];
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let mut waiting =
                [PollFd::new(std::os::fd::AsFd::as_fd(&other.socket), PollFlags::POLLIN)];
            let left = PollTimeout::try_from(left).unwrap();
            if poll(&mut waiting, left).unwrap() == 0 {
                return false;
            }
            let read = recv(other.socket.as_raw_fd(), &mut bytes, MsgFlags::empty()).unwrap();
            if bytes[..read].windows(token.len()).any(|part| part == token.as_bytes()) {
                return true;
            }
        }
        false
    }
}

fn started(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        drop(child.kill());
        drop(child.wait());
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        end(&mut self.switch);
        end(&mut self.database);
        drop(self.space.kill());
        drop(self.space.wait());
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        drop(self.space.kill());
        drop(self.space.wait());
    }
}
