//! Deployments over failovers: another node goes on with what the master began.

use bmc::simulated::Faults;
use model::bmc::PowerState;
use tests::cluster::Host;

use super::{Plays, Scene, says_up};
use crate::failover::three;
use crate::rack::serves;

impl Scene {
    /// The master is killed, and another node takes the role; the dead one is a standby then.
    fn fails_over(&mut self, next: &Host, meanwhile: impl FnOnce(&Self)) {
        let dead = self.cluster.master.clone();
        self.cluster.kill_masterd(&dead);
        meanwhile(self);
        self.cluster.fail_over(next);
        self.cluster.start_masterd(&dead);
        self.cluster.wait_for_standby(&dead, &next.name);
        self.cluster.wait_for_votes(&dead, 3);
    }
}

#[test]
fn the_next_master_ends_what_the_one_before_it_began_with_a_machine() {
    let (cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    serves(&cluster, &n3.name);
    let mut scene = Scene::of(cluster, &n3);

    // It waits for the machine, which speaks when there is no master.
    let awaited = scene.deploys_silently();
    scene.fails_over(&n2, |scene| says_up(&scene.up()));
    assert_eq!(scene.cluster.status(awaited), "error");
    scene.wait_for("healthy");

    // The machine is being prepared: what is left is a failure with a reason.
    scene.bmc.fail(Faults { hangs: true, ..Faults::default() });
    let prepared = scene.submitted("machine deploy SN1 --image debian --yes --submit");
    scene.wait_for("deploying");
    scene.fails_over(&n1, |scene| scene.bmc.fail(Faults::default()));
    assert_eq!(scene.cluster.status(prepared), "error");
    scene.wait_for("deploy-failed");

    // It speaks to the next master as to the one before.
    let awaited = scene.deploys_silently();
    scene.fails_over(&n2, |_| ());
    assert_eq!(scene.cluster.status(awaited), "error");
    assert_eq!(scene.state(), "deploy-wait");
    says_up(&scene.up());
    scene.wait_for("healthy");

    // All goes on from here.
    scene.plays(Plays::Boots);
    let _again = scene.gnt("machine deploy SN1 --image debian --yes").ok();
    assert_eq!((scene.state().as_str(), scene.bmc.seen().power), ("healthy", PowerState::On));
}
