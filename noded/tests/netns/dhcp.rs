//! The DHCP server against busybox's `udhcpc` and ISC's `dhclient`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use netboot::dhcp::server::{self, Handle, LeaseNews, LeaseStore, Link, Parts, PersistError};
use netboot::dhcp::{Config, Engine, LeaseRecord, LeaseState, Observation, ServedRange};
use parking_lot::Mutex;
use stdx::{Clock, Tasks};
use tokio::sync::mpsc;

use crate::wire::{FIRST, MAC, SERVER, Wire, has, skip};

/// For anything that should happen at once; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<Ipv4Addr, LeaseRecord>>>);

impl LeaseStore for Memory {
    fn is_open(&self) -> bool {
        true
    }

    async fn persist(&self, records: Vec<LeaseRecord>) -> Result<(), PersistError> {
        self.0.lock().extend(records.into_iter().map(|record| (record.address, record)));
        Ok(())
    }

    async fn persist_learned(&self, records: Vec<LeaseRecord>) -> Result<(), PersistError> {
        self.persist(records).await
    }
}

fn config() -> Config {
    let range = ServedRange {
        interface_address: SERVER,
        prefix_len: 26,
        first: FIRST,
        last: Ipv4Addr::new(10, 69, 0, 62),
        excluded: BTreeSet::new(),
        later: BTreeMap::new(),
        others: BTreeMap::new(),
        settled_us: 0,
        peers: BTreeSet::new(),
        relays_only: false,
        guests: None,
        gateway: Some(Ipv4Addr::new(10, 69, 0, 1)),
        dns: vec![Ipv4Addr::new(10, 69, 0, 2)],
        ntp: Vec::new(),
        domain: None,
        lease_seconds: 3_600,
        boot_base_url: format!("http://{SERVER}:10080"),
        observe: false,
        trusted_circuits: false,
        onie: None,
        server_id: SERVER,
    };
    Config { ranges: vec![range] }
}

struct Rig {
    tasks: Tasks,
    handle: Handle,
    store: Memory,
    observed: mpsc::Receiver<Observation>,
}

impl Rig {
    /// Starts a server in the namespace that this thread is in.
    fn start() -> Self {
        let (tasks, store) = (Tasks::new(), Memory::default());
        let (observations, observed) = mpsc::channel(64);
        let parts = Parts {
            engine: Engine::new(config(), []).unwrap(),
            links: vec![Link::interface("rack0", SERVER).unwrap()],
            store: store.clone(),
            observations,
            clock: Clock::system(),
            counters: Arc::default(),
        };
        let handle = server::start(parts, &tasks);
        Self { tasks, handle, store, observed }
    }

    async fn leased(&mut self) -> LeaseRecord {
        match self.observation().await {
            Observation::Leased { record, .. } => record,
            other => panic!("{other:?}"),
        }
    }

    /// Passes over renewals: udhcpc loses an answer that comes before it has closed the socket it
    /// asked by, and asks once more.
    async fn released(&mut self) -> LeaseRecord {
        loop {
            match self.observation().await {
                Observation::Released(record) => return record,
                Observation::Leased { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn observation(&mut self) -> Observation {
        tokio::time::timeout(PATIENCE, self.observed.recv()).await.unwrap().unwrap()
    }

    async fn stop(self) {
        drop(self.handle);
        tokio::time::timeout(PATIENCE, self.tasks.join()).await.unwrap();
    }
}

/// Runs `test` on the server's side of a wire; says so if that cannot be.
fn on_a_wire(name: &str, test: impl AsyncFnOnce(&Wire, Rig) + Send) {
    let Some(wire) = Wire::new(name) else { return };
    wire.at_server(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { test(&wire, Rig::start()).await });
    });
}

/// A script for a client: one file for each event, complete as soon as it has its name.
fn script(directory: &Path) -> PathBuf {
    let path = directory.join("script");
    let mut file = File::options().write(true).create_new(true).mode(0o755).open(&path).unwrap();
    let home = directory.display();
    write!(
        file,
        "#!/bin/sh\nenv > {home}/part && mv {home}/part {home}/${{reason:-$1}}\n\
         [ -z \"$ip\" ] || ip addr replace $ip/$mask dev $interface\n",
    )
    .unwrap();
    path
}

/// A running client which writes down what it is told; ended when dropped.
struct Client {
    child: Child,
    directory: tempfile::TempDir,
}

impl Client {
    fn udhcpc(wire: &Wire, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = wire.in_client("udhcpc");
        command.args(["-i", "eth0", "-f", "-t", "5", "-T", "1", "-n", "-O", "bootfile"]);
        command.arg("-s").arg(script(directory.path())).args(options);
        Self { child: command.spawn().unwrap(), directory }
    }

    /// With the memory of earlier leases in `leases`.
    fn dhclient(wire: &Wire, leases: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = wire.in_client("dhclient");
        command.args(["-4", "-1", "-d", "-sf"]).arg(script(directory.path()));
        command.arg("-lf").arg(leases).arg("-pf").arg(directory.path().join("pid")).arg("eth0");
        Self { child: command.spawn().unwrap(), directory }
    }

    /// The variables that the client's script had at `event`.
    async fn event(&self, event: &str) -> BTreeMap<String, String> {
        let path: PathBuf = self.directory.path().join(event);
        self.waits_for(event, || path.exists()).await;
        let text = std::fs::read_to_string(&path).unwrap();
        let pair = |line: &str| line.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        text.lines().filter_map(pair).collect()
    }

    /// Waits until something is seen of what the client does.
    async fn waits_for(&self, what: &str, seen: impl Fn() -> bool) {
        let seen = async {
            while !seen() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, seen).await;
        assert!(waited.is_ok(), "the client had no `{what}`");
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    async fn ended(mut self) {
        let ended = async {
            while self.child.try_wait().unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn lease_renewal_and_release() {
    on_a_wire("a", async |wire, mut rig| {
        let client = Client::udhcpc(wire, &[]);
        let told = client.event("bound").await;
        let expected = [
            ("ip", "10.69.0.32"),
            ("mask", "26"),
            ("subnet", "255.255.255.192"),
            ("router", "10.69.0.1"),
            ("dns", "10.69.0.2"),
            ("serverid", "10.69.0.3"),
            ("lease", "3600"),
            ("bootfile", "http://10.69.0.3:10080/api/v1/boot/ipxe"),
        ];
        for (name, value) in expected {
            let got = told.get(name).or_else(|| told.get(&name.replace("bootfile", "boot_file")));
            assert_eq!(got.map(String::as_str), Some(value), "{name} in {told:?}");
        }
        let first = rig.leased().await;
        assert_eq!(first.address, FIRST);
        assert_eq!(first.client.to_string(), MAC);
        assert_eq!(rig.store.0.lock().get(&FIRST), Some(&first));

        // By unicast now, over the address that the script has set.
        client.signal("USR1");
        assert_eq!(client.event("renew").await["ip"], "10.69.0.32");
        let renewed = rig.leased().await;
        assert!(renewed.bound_until_us() > first.bound_until_us());

        client.signal("USR2");
        let released = rig.released().await;
        assert!(matches!(released.state, LeaseState::Released { .. }));
        drop(client);
        rig.stop().await;
    });
}

#[test]
fn another_client_of_the_same_machine_and_broadcast_replies() {
    on_a_wire("b", async |wire, mut rig| {
        // Firmware sends no client identifier, systems do; one address all the same.
        for options in [&["-q", "-C"][..], &["-q"], &["-q", "-B"], &["-q", "-V", "HTTPClient"]] {
            let client = Client::udhcpc(wire, options);
            let told = client.event("bound").await;
            assert_eq!(told["ip"], "10.69.0.32", "{options:?}");
            client.ended().await;
            assert_eq!(rig.leased().await.address, FIRST);
        }
        // A wish for an address outside of the range is not granted.
        let client = Client::udhcpc(wire, &["-q", "-r", "10.69.0.9", "-x", "0x3d:ff01"]);
        assert_eq!(client.event("bound").await["ip"], "10.69.0.32");
        drop(client);
        rig.stop().await;
    });
}

/// It asks for its old address after a restart, without DISCOVER.
#[test]
fn dhclient_leases_and_reboots() {
    if !has("dhclient") {
        skip("there is no `dhclient`");
        return;
    }
    on_a_wire("d", async |wire, mut rig| {
        let home = tempfile::tempdir().unwrap();
        let leases = home.path().join("leases");
        for reason in ["BOUND", "REBOOT"] {
            let client = Client::dhclient(wire, &leases);
            let told = client.event(reason).await;
            assert_eq!(told["new_ip_address"], "10.69.0.32");
            assert_eq!(told["new_subnet_mask"], "255.255.255.192");
            assert_eq!(told["new_routers"], "10.69.0.1");
            assert_eq!(rig.leased().await.address, FIRST);
            // It writes down its lease behind the run of its script.
            client
                .waits_for("the lease", || {
                    let noted = std::fs::read_to_string(&leases);
                    noted.is_ok_and(|text| text.contains("fixed-address 10.69.0.32"))
                })
                .await;
        }
        rig.stop().await;
    });
}

#[test]
fn a_missing_interface_or_address_is_told() {
    on_a_wire("c", async |_, rig| {
        let text = |name: &str, last| {
            let error = Link::interface(name, Ipv4Addr::new(10, 69, 0, last)).unwrap_err();
            error.to_string()
        };
        assert_eq!(text("rack9", 3), "no interface `rack9` has the address 10.69.0.3");
        assert_eq!(text("rack0", 4), "no interface `rack0` has the address 10.69.0.4");
        // A second server on the interface.
        assert_eq!(text("rack0", 3), "cannot listen for DHCP on rack0, port 67");
        rig.stop().await;
    });
}

/// A host that keeps an address after the end of its lease keeps it from others.
#[test]
fn an_address_is_not_given_again_while_a_host_answers_for_it() {
    on_a_wire("e", async |wire, mut rig| {
        let next = Ipv4Addr::new(10, 69, 0, 33);
        let mut config = config();
        config.ranges[0].last = next;
        rig.handle.configure(config).await.unwrap().unwrap();
        let released = |address, mac: &str, at_us| LeaseRecord {
            address,
            client: mac.parse().unwrap(),
            state: LeaseState::Released { at_us },
            since_us: None,
        };
        let (squatter, gone) = ("02:00:00:00:00:aa", "02:00:00:00:00:bb");
        let ended = vec![released(FIRST, squatter, 1), released(next, gone, 2)];
        let news = LeaseNews { agent: "n2".parse().unwrap(), told: ended, asked_us: None };
        rig.handle.learner().learn(news).await.unwrap().unwrap();
        let shell = |script: &str| {
            let status = wire.in_client("sh").args(["-c", script]).status().unwrap();
            assert!(status.success(), "{script}");
        };
        // A second host behind the client's wire; each answers for its own address only.
        shell("echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore");
        shell(&format!("ip link add other link eth0 address {squatter} type macvlan mode bridge"));
        shell(&format!("ip addr add {FIRST}/26 dev other && ip link set other up"));

        let client = Client::udhcpc(wire, &["-q"]);
        let Observation::Declined(found) = rig.observation().await else { panic!() };
        assert_eq!((found.address, found.client.to_string().as_str()), (FIRST, squatter));
        assert_eq!(client.event("bound").await["ip"], "10.69.0.33");
        assert_eq!(rig.leased().await.address, next);
        client.ended().await;
        rig.stop().await;
    });
}
