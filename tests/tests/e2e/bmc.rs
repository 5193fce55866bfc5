//! Management controllers: power, hardware and health of machines by jobs, and what bad ones bring about.

use bmc::simulated::{Faults, PASSWORD, Simulated, USER};
use model::bmc::PowerState;
use tests::cluster::{Cluster, IPAM, PATIENCE};
use tests::run::wait_for;
use tokio::runtime::Runtime;

use crate::disk_keys::holding;

/// A cluster with two machines of which the controllers are simulated ones, and a file with their password.
fn begin() -> (Cluster, Runtime, [Simulated; 2]) {
    let cluster = Cluster::begin();
    let file = cluster.write("ipam.json", IPAM);
    let _set = cluster.gnt(&format!("ipam set -f {}", file.display())).ok();
    let runtime = Runtime::new().unwrap();
    let bmcs = [("SN1", true), ("SN2", false)].map(|(serial, tls)| {
        let _added = cluster.gnt(&format!("machine add --serial {serial} --rack 0 --role w")).ok();
        runtime.block_on(Simulated::start(serial, tls, None)).unwrap()
    });
    (cluster, runtime, bmcs)
}

fn set(cluster: &Cluster, serial: &str, bmc: &Simulated, password: &str) -> tests::run::Ended {
    let file = cluster.write("bmc.password", &format!("{password}\n"));
    let ended = cluster.gnt(&format!(
        "machine bmc set {serial} --url {} --user {USER} --password-file {}",
        bmc.url,
        file.display()
    ));
    std::fs::remove_file(file).unwrap();
    ended
}

#[test]
fn machines_are_switched_and_looked_at_by_their_controllers() {
    let (cluster, _runtime, bmcs) = begin();
    let unknown = cluster.gnt("machine power on SN1");
    assert!(unknown.failed(1).contains("gnt machine bmc set SN1"), "{unknown:?}");
    let wrong = set(&cluster, "SN1", &bmcs[0], "guess");
    assert!(wrong.failed(1).contains("refuses the user or the password"), "{wrong:?}");
    // Somebody mixed up two cables.
    let swapped = set(&cluster, "SN2", &bmcs[0], PASSWORD);
    let told = "SerialNumber SN1 at /redfish/v1/Systems/1; wanted is serial SN2";
    assert!(swapped.failed(1).contains(told), "{swapped:?}");
    for (serial, bmc) in ["SN1", "SN2"].iter().zip(&bmcs) {
        let known = set(&cluster, serial, bmc, PASSWORD);
        assert!(known.ok().contains("the machine is off"), "{known:?}");
    }
    let _on = cluster.gnt("machine power on SN1 SN2 --boot-once network").ok();
    for bmc in &bmcs {
        assert_eq!(bmc.seen().power, PowerState::On);
        assert_eq!(bmc.seen().boot_once.as_deref(), Some("UefiHttp"));
    }
    let _cycled = cluster.gnt("machine power cycle SN1 --yes").ok();
    assert_eq!(bmcs[0].seen().starts, 2);
    let told = cluster.gnt("machine power status SN1");
    assert!(told.ok().contains("SN1: on"), "{told:?}");
    let told = cluster.gnt("machine health SN1");
    assert!(told.ok().contains("health: OK"), "{told:?}");
    let _inspected = cluster.gnt("machine inspect SN1 SN2").ok();
    let told = cluster.gnt("machine list --no-headers --separator=| -o memory,processors SN1 SN2");
    assert_eq!(told.ok(), "98304|16\n98304|16\n");
    assert!(bmcs.iter().all(|bmc| bmc.seen().sessions == 0));

    let _renewed = cluster.gnt("cluster renew-crypto --vault").ok();
    let _off = cluster.gnt("machine power off SN1 --yes").ok();
    let export = cluster.dir().join("c1.export");
    let _exported = cluster.gnt(&format!("cluster export {}", export.display())).ok();
    let mut found = Vec::new();
    holding(&cluster.dir(), &[PASSWORD, "Y2Fsdmlu"], &mut found);
    assert_eq!(found, [""; 0]);
    let _removed = cluster.gnt("machine remove SN1 --yes").ok();
    let document = cluster.master.layout().data().join("bmcs/SN1");
    // Files follow what is committed.
    wait_for("its document to go", PATIENCE, || (!document.exists()).then_some(()));
}

#[test]
fn a_controller_that_fails_is_named_and_holds_up_no_other() {
    let (cluster, _runtime, bmcs) = begin();
    for (serial, bmc) in ["SN1", "SN2"].iter().zip(&bmcs) {
        let _known = set(&cluster, serial, bmc, PASSWORD).ok();
    }
    bmcs[1].fail(Faults { hangs: true, ..Faults::default() });
    let stuck = cluster.gnt("machine power on SN2 --submit --print-jobid");
    let stuck: u64 = stuck.ok().trim().parse().unwrap();
    let _on = cluster.gnt("machine power on SN1").ok();
    assert_eq!(cluster.status(stuck), "running");
    let _canceled = cluster.gnt(&format!("job cancel --kill --yes-do-it {stuck}")).ok();

    bmcs[1].fail(Faults { nonsense: Some("<html>"), ..Faults::default() });
    let failed = cluster.gnt("machine power on SN2");
    let said = failed.failed(1);
    assert!(said.contains("with nonsense") && said.contains("bmc-failed"), "{failed:?}");
    assert_eq!(bmcs[1].seen().power, PowerState::Off);
}
