//! Nodes beside the first one that can be master: each has `masterd`, agent and address of its own.

use std::time::Duration;

use luxi::Client;
use luxi::method::{GantryClusterStatus, GantryMasterFailover, QueryClusterInfo};
use model::cluster_status::{ClusterStatus, ProcessState};
use model::role_check::{RoleCheck, RoleRequest};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::cluster::{Cluster, Host, MASTER, PATIENCE};
use crate::inspect::documents;
use crate::run::{Ended, Running, run, start, wait_for};

/// For what takes several looks of daemons that look every few seconds.
pub const LONG: Duration = Duration::from_secs(180);

impl Cluster {
    /// A master with further nodes, `n2` and so on, all of which are candidates that follow.
    ///
    /// # Panics
    /// If they do not come to be that.
    pub fn begin_with_candidates(count: usize) -> (Self, Vec<Host>) {
        let cluster = Self::begin_with_agent();
        let hosts: Vec<Host> =
            (2..=count).map(|number| cluster.host(&format!("n{number}"))).collect();
        for host in &hosts {
            cluster.enrol(host);
            cluster.start_masterd(host);
        }
        // Asked from the first moment on, when it has nothing of the store yet.
        if let [.., last] = hosts.as_slice() {
            cluster.wait_for_votes(last, if count < 3 { 1 } else { count });
        }
        for host in &hosts {
            cluster.wait_for_standby(host, MASTER);
        }
        (cluster, hosts)
    }

    /// Adds a machine to the cluster; its agent runs from here on.
    ///
    /// # Panics
    /// If it is not added.
    pub fn enrol(&self, host: &Host) {
        let token = self.token(host, &[]);
        let _added = self.gnt(&format!("node add {} --secret {token}", host.name)).ok();
        self.wait_for_facts(&host.name);
    }

    /// Has a machine wait to be added; its token.
    ///
    /// # Panics
    /// If it shows none.
    pub fn token(&self, host: &Host, options: &[&str]) -> String {
        let mut noded = self.noded(host);
        noded.args(["enroll", "--name", &host.name, "--address", &host.address.to_string()]);
        noded.args(options);
        self.start(&host.name, noded);
        wait_for("a token", PATIENCE, || {
            let printed = self.printed(&host.name);
            printed.lines().find_map(|line| line.strip_prefix("token: ").map(str::to_owned))
        })
    }

    /// Starts the `masterd` of a machine, whatever it will be.
    ///
    /// # Panics
    /// If it does not listen.
    pub fn start_masterd(&self, host: &Host) {
        self.start(&host.masterd(), self.masterd_of(host));
        wait_for(&format!("masterd of {}", host.name), PATIENCE, || {
            Client::connect(&host.layout().luxi_socket()).ok()
        });
    }

    /// Ends the `masterd` of a machine as a crash would.
    pub fn kill_masterd(&self, host: &Host) {
        self.kill(&host.masterd());
    }

    /// Ends the `masterd` of a machine as its service manager would.
    pub fn stop_masterd(&self, host: &Host) {
        self.stop(&host.masterd());
    }

    /// Ends all daemons of a machine, as the loss of its power would.
    pub fn kill_host(&self, host: &Host) {
        self.kill_masterd(host);
        self.kill_agent(host);
    }

    /// Sends the `masterd` of a machine a signal.
    ///
    /// # Panics
    /// If it does not run.
    pub fn signal_masterd(&self, host: &Host, signal: Signal) {
        let pid = self.pid(&host.masterd()).expect("its masterd was started");
        let pid = Pid::from_raw(i32::try_from(pid).expect("process ids are below 2^22"));
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Runs `gnt` with the words of a line, on any machine.
    pub fn gnt_on(&self, host: &Host, line: &str) -> Ended {
        run(self.gnt_command_on(host, line))
    }

    /// Starts `gnt` with the words of a line, on any machine.
    pub fn gnt_start_on(&self, host: &Host, line: &str) -> Running {
        start(self.gnt_command_on(host, line))
    }

    /// Makes another machine the master, and works there from here on.
    ///
    /// # Panics
    /// If that is refused.
    pub fn fail_over(&mut self, host: &Host) {
        let told = self.gnt_on(host, "cluster master-failover");
        let wanted = format!("{} is the master, in epoch", host.name);
        assert!(told.ok().contains(&wanted), "{told:#?}");
        self.master = host.clone();
    }

    /// Waits until a machine is master.
    ///
    /// # Panics
    /// If it does not become that.
    pub fn wait_for_master(&self, host: &Host) {
        wait_for(&format!("{} to be master", host.name), LONG, || is_master(host).then_some(()));
    }

    /// Waits until a machine follows, and knows who is master.
    ///
    /// # Panics
    /// If it does not come to that.
    pub fn wait_for_standby(&self, host: &Host, master: &str) {
        wait_for(&format!("{} to be a standby of {master}", host.name), LONG, || {
            let status = status(host).filter(|status| status.state == ProcessState::Standby)?;
            (status.master?.node.as_str() == master).then_some(())
        });
    }

    /// Waits until so many members vote, and all of them answer a standby.
    ///
    /// # Panics
    /// If that does not come to be.
    pub fn wait_for_votes(&self, standby: &Host, votes: usize) {
        wait_for(&format!("{votes} votes"), LONG, || {
            let check = role_check(standby)?;
            (check.voters == format!("{votes} of {votes}")).then_some(())
        });
    }

    /// Waits until these machines hold the same files; gives how many.
    ///
    /// # Panics
    /// If they differ for long.
    pub fn wait_for_same_files(&self, hosts: &[&Host]) -> usize {
        wait_for("equal files", LONG, || {
            // Files follow what is committed: those of a moment ago are equal as well.
            let stores: Vec<_> = hosts.iter().filter_map(|host| status(host)?.store).collect();
            let alike = stores.windows(2).all(|two| two[0].position == two[1].position);
            let written = stores.iter().all(|store| store.files_lag_keys == 0);
            let mut all = hosts.iter().map(|host| documents(host));
            let first = all.next()?;
            (alike && written && all.all(|other| other == first)).then_some(first.len())
        })
    }
}

/// The state of the cluster by the `masterd` of a machine; none where it is not there.
pub fn status(host: &Host) -> Option<ClusterStatus> {
    let mut client = Client::connect(&host.layout().luxi_socket()).ok()?;
    client.call(&GantryClusterStatus {}).ok()
}

/// Whether the `masterd` of a machine answers as a master.
pub fn is_master(host: &Host) -> bool {
    status(host).is_some_and(|status| status.state == ProcessState::Master)
}

/// The refusal of a `masterd` that is no master, or a sentence that a master answers through it. None
/// where it is a master, or is not there.
pub fn refusal(host: &Host) -> Option<String> {
    let status = status(host).filter(|status| status.state != ProcessState::Master)?;
    let mut client = Client::connect(&host.layout().luxi_socket()).ok()?;
    Some(match client.call(&QueryClusterInfo {}) {
        Ok(info) => format!("{} passes on, and {} answers", status.node, info["master"]),
        Err(error) => stdx::daemon::chain(&error),
    })
}

/// The answers of all to a machine that might take the role; none where it cannot ask.
pub fn role_check(host: &Host) -> Option<RoleCheck> {
    let mut client = Client::connect(&host.layout().luxi_socket()).ok()?;
    let request = RoleRequest { dry_run: true, ..RoleRequest::default() };
    client.call(&GantryMasterFailover { to: None, request }).ok()?.check
}
