//! A cluster half-way through an upgrade: agents that speak the version before or the one after.

use clap::Parser as _;
use noded::daemon::Daemon;
use noded::options::Options;
use rpc::wire::{PROTOCOL, Versions};
use tests::cluster::{Cluster, MASTER};

/// The settings of an agent of the master's machine, of a program whose protocol is `newest`.
fn settings(cluster: &Cluster, newest: u32) -> noded::daemon::Settings {
    let command = cluster.noded(&cluster.master);
    let line = std::iter::once(command.get_program()).chain(command.get_args());
    let options = Options::try_parse_from(line).unwrap();
    noded::daemon::Settings { versions: Versions::up_to(newest), ..options.agent.settings() }
}

#[test]
fn agents_of_neighbouring_versions_work_and_others_are_told() {
    let cluster = Cluster::begin();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // The master goes on while its agent is replaced by an older one, a newer one, and back.
    for newest in [PROTOCOL, PROTOCOL - 1, PROTOCOL + 1, PROTOCOL] {
        let agent = runtime.block_on(Daemon::start(settings(&cluster, newest))).unwrap();
        cluster.wait_for_facts(MASTER);
        let _job = cluster.gnt(&format!("debug delay --no-master -n {MASTER} 0")).ok();
        runtime.block_on(agent.stop()).unwrap();
    }
    let agent = runtime.block_on(Daemon::start(settings(&cluster, PROTOCOL + 2))).unwrap();
    let ended = cluster.gnt(&format!("debug delay --no-master -n {MASTER} 0"));
    let told = format!("{ended:?}");
    assert!(!ended.status.success(), "{told}");
    assert!(told.contains(&format!("versions {} to {}", PROTOCOL + 1, PROTOCOL + 2)), "{told}");
    assert!(told.contains("upgrade the older of the two"), "{told}");
    runtime.block_on(agent.stop()).unwrap();
}
