//! The clients: the command line of each, and how it is told to renew, to end and to release.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tests::run::wait_for;
use xtask::guest::rack::Rack;
use xtask::guest::wires::{HOST_INTERFACE, within};

use crate::capture::Capture;
use crate::lan::{PATIENCE, program, said};

/// Sets the interface as a client says, and writes down why it was called.
const SCRIPT: &str = r#"#!/bin/sh
event=${reason:-$1}
case $event in
bound|renew|BOUND|RENEW|REBIND|REBOOT)
    seconds=${new_dhcp_lease_time:-$lease}
    ip addr replace ${new_ip_address:-$ip}/${new_subnet_mask:-$subnet} dev eth0 \
        valid_lft $seconds preferred_lft $seconds
    ip route replace default via ${new_routers:-$router};;
deconfig|RELEASE|EXPIRE|FAIL|STOP) ip addr flush dev eth0;;
esac
{ echo "event=$event"; env; } >> HOME/events
"#;
/// The same for a client that sets its interface itself.
const NOTES: &str = "#!/bin/sh\necho \"event=$reason\" >> HOME/events\n";
/// `dhclient` renews by itself only: soon, whatever the lease says.
const DHCLIENT: &str = "supersede dhcp-renewal-time 2;\n";
const NETWORK: &str = "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n\
    IPv6AcceptRA=no\n";
/// A bus on which `networkctl` meets `systemd-networkd`.
const BUS: &str = r#"<busconfig><type>system</type>
<listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="*"/>
<allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>"#;
/// Files that clients keep in places of the system go to the client's home. `ip netns exec` has made
/// mounts that nobody else sees. Without a writable `/sys`, `systemd-networkd` does not wait for udev.
const PRIVATE: &str = "mount --bind \"$0/run\" /run && mount --bind \"$0/lib\" /var/lib || exit 1
umount -l /sys && mount -t sysfs -o ro sysfs /sys || exit 1
exec \"$@\"";

/// The maker of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Busybox: systems in memory, ramdisks.
    Udhcpc,
    /// The Internet Systems Consortium: Debian, Red Hat.
    Dhclient,
    /// Roy Marples: Gentoo, Alpine, Raspberry Pi.
    Dhcpcd,
    /// systemd: Flatcar, Fedora CoreOS's initrd, cloud images.
    Networkd,
}

impl Kind {
    /// The programs that it needs.
    pub(crate) const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Udhcpc => &["udhcpc"],
            Self::Dhclient => &["dhclient"],
            Self::Dhcpcd => &["dhcpcd"],
            Self::Networkd => &["systemd-networkd", "networkctl", "dbus-daemon"],
        }
    }
}

/// The lease that a client's interface has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u64,
    pub(crate) router: Ipv4Addr,
    /// How long it may be used from now on.
    pub(crate) seconds: u64,
}

/// A host with a client. Its processes end with it.
#[derive(Debug)]
pub(crate) struct Client {
    kind: Kind,
    /// Its network namespace.
    pub(crate) namespace: String,
    /// Its Ethernet address.
    pub(crate) mac: String,
    home: TempDir,
    running: Vec<Child>,
    /// Its traffic.
    pub(crate) capture: Capture,
}

impl Client {
    /// A host at the rack's switch.
    pub(crate) fn new(rack: &mut Rack, kind: Kind, number: u8) -> Self {
        let mac = format!("52:54:00:aa:bb:{number:02x}");
        let namespace = rack.switch.add_host(&format!("host{number}"), &mac).unwrap();
        Self::in_namespace(namespace, mac, kind)
    }

    /// A host whose namespace there is.
    pub(crate) fn in_namespace(namespace: String, mac: String, kind: Kind) -> Self {
        let home = tempfile::tempdir().unwrap();
        // `systemd-networkd` is not root while it works.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for dir in ["run/systemd/network", "run/dbus", "run/dhcpcd", "lib/dhcpcd"] {
            fs::create_dir_all(home.path().join(dir)).unwrap();
        }
        let place = home.path().display().to_string();
        let script = if kind == Kind::Dhcpcd { NOTES } else { SCRIPT };
        for (name, text) in [
            ("script", script.replace("HOME", &place).as_str()),
            ("dhclient.conf", DHCLIENT),
            ("run/systemd/network/eth0.network", NETWORK),
            ("bus.conf", BUS),
            ("events", ""),
        ] {
            stdx::atomic::write(&home.path().join(name), text.as_bytes(), 0o755).unwrap();
        }
        let capture = Capture::start(&namespace, home.path(), "seen");
        let mut client = Self { kind, namespace, mac, home, running: Vec::new(), capture };
        if kind == Kind::Networkd {
            let config = format!("--config-file={place}/bus.conf");
            client.run("dbus-daemon", &[&config, "--nofork", "--nopidfile", "--nosyslog"]);
            let socket = client.home.path().join("run/dbus/system_bus_socket");
            wait_for("a bus", PATIENCE, || socket.exists().then_some(()));
        }
        client
    }

    fn at_home(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    /// A command in its namespace, with its own `/run` and `/var/lib`.
    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut private = Command::new("sh");
        private.args(["-c", PRIVATE]).arg(self.home.path()).arg(program(name)).args(arguments);
        within(&self.namespace, &private)
    }

    fn run(&mut self, name: &str, arguments: &[&str]) {
        let mut command = self.command(name, arguments);
        let output = File::options().append(true).create(true).open(self.at_home("output"));
        let output = output.unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        self.running.push(command.spawn().unwrap());
    }

    /// Starts it; further options are those of its kind.
    pub(crate) fn start(&mut self, further: &[&str]) {
        let script = self.at_home("script");
        let (leases, pid) = (self.at_home("leases"), self.at_home("pid"));
        let config = self.at_home("dhclient.conf");
        let (name, own) = match self.kind {
            Kind::Udhcpc => ("udhcpc", vec!["-i", HOST_INTERFACE, "-f", "-s", &script]),
            Kind::Dhclient => (
                "dhclient",
                vec!["-4", "-d", "-cf", &config, "-sf", &script, "-lf", &leases, "-pf", &pid],
            ),
            Kind::Dhcpcd => ("dhcpcd", vec!["-4", "-B", "-A", "-c", &script]),
            Kind::Networkd => ("systemd-networkd", vec![]),
        };
        let interface =
            matches!(self.kind, Kind::Dhclient | Kind::Dhcpcd).then_some(HOST_INTERFACE);
        let arguments: Vec<&str> =
            own.into_iter().chain(further.iter().copied()).chain(interface).collect();
        self.run(name, &arguments);
    }

    /// Waits until its interface has an address and a router.
    pub(crate) fn lease(&self) -> Lease {
        let what = format!("a lease of {:?}, in {}", self.kind, self.home.path().display());
        wait_for(&what, PATIENCE, || self.try_lease())
    }

    /// The lease that its interface has now.
    pub(crate) fn try_lease(&self) -> Option<Lease> {
        let json = |line: &str| -> Value {
            let mut ip = Command::new("ip");
            ip.args(["-n", &self.namespace, "-j"]).args(line.split(' '));
            serde_json::from_str(&said(&mut ip)).unwrap()
        };
        let shown = json("-4 address show dev eth0");
        let one = shown.as_array()?.iter().find_map(|link| link["addr_info"].get(0))?;
        let routes = json("route show default");
        Some(Lease {
            address: one["local"].as_str()?.parse().unwrap(),
            prefix: one["prefixlen"].as_u64()?,
            router: routes[0]["gateway"].as_str()?.parse().unwrap(),
            seconds: one["valid_life_time"].as_u64()?,
        })
    }

    /// Tells it to renew its lease, if it does not do so by itself.
    pub(crate) fn renew(&self) {
        match self.kind {
            Kind::Udhcpc => self.signal("USR1"),
            // See its configuration.
            Kind::Dhclient => {}
            Kind::Dhcpcd => drop(said(&mut self.command("dhcpcd", &["-4", "-N", HOST_INTERFACE]))),
            Kind::Networkd => {
                drop(said(&mut self.command("networkctl", &["renew", HOST_INTERFACE])));
            }
        }
    }

    /// Tells it to give its lease back, and waits for its end where it ends by that.
    pub(crate) fn release(&mut self) {
        let (config, leases, pid) =
            (self.at_home("dhclient.conf"), self.at_home("leases"), self.at_home("pid"));
        let script = self.at_home("script");
        match self.kind {
            Kind::Udhcpc => return self.signal("USR2"),
            Kind::Dhclient => {
                let own = ["-4", "-r", "-cf", &config, "-sf", &script, "-lf", &leases, "-pf", &pid];
                let all = [&own[..], &[HOST_INTERFACE]].concat();
                // Another process of it releases; this one may hang when that tells it to end.
                self.end();
                return drop(said(&mut self.command("dhclient", &all)));
            }
            Kind::Dhcpcd => {
                drop(said(&mut self.command("dhcpcd", &["-4", "-k", HOST_INTERFACE])));
            }
            // It releases when it is asked to end.
            Kind::Networkd => self.signal("TERM"),
        }
        self.wait();
    }

    fn signal(&self, name: &str) {
        let child = self.running.last().expect("it was started");
        drop(said(Command::new("kill").args(["-s", name, &child.id().to_string()])));
    }

    fn wait(&mut self) {
        let mut child = self.running.pop().expect("it was started");
        wait_for("the end of a client", PATIENCE, || child.try_wait().unwrap());
    }

    /// Ends its process, and nothing else.
    fn end(&mut self) {
        let mut child = self.running.pop().expect("it was started");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends it as a power cut would: the next one finds its notes.
    pub(crate) fn kill(&mut self) {
        self.end();
        if self.kind == Kind::Dhcpcd {
            // Its helpers have no parent now.
            kill_all(&self.namespace, &["dhcpcd"]);
            for name in ["pid", "eth0.pid", "eth0-4.pid"] {
                drop(fs::remove_file(self.home.path().join("run/dhcpcd").join(name)));
            }
        }
        drop(said(Command::new("ip").args([
            "-n",
            &self.namespace,
            "address",
            "flush",
            "dev",
            HOST_INTERFACE,
        ])));
    }

    /// Takes its interface down and up, as a cable that is pulled.
    pub(crate) fn pull_cable(&self) {
        for state in ["down", "up"] {
            let set = ["-n", &self.namespace, "link", "set", HOST_INTERFACE, state];
            drop(said(Command::new("ip").args(set)));
        }
    }

    /// The last value that its script got for a name.
    pub(crate) fn told(&self, name: &str) -> Option<String> {
        let events = fs::read_to_string(self.home.path().join("events")).unwrap();
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        events.lines().rev().find_map(value)
    }
}

/// Ends the processes of a namespace; of these names only, if there are any.
fn kill_all(namespace: &str, names: &[&str]) {
    let pids = said(Command::new("ip").args(["netns", "pids", namespace]));
    for pid in pids.lines() {
        let comm =
            fs::read_to_string(Path::new("/proc").join(pid).join("comm")).unwrap_or_default();
        if names.is_empty() || names.contains(&comm.trim()) {
            // It may have ended meanwhile.
            drop(Command::new("kill").args(["-9", pid]).output());
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Its output lies there.
        self.home.disable_cleanup(std::thread::panicking());
        kill_all(&self.namespace, &[]);
        for child in &mut self.running {
            drop(child.wait());
        }
    }
}
