//! Disks without room.

use tests::candidates::{LONG, status};
use tests::run::{pass, wait_for};
use tests::sealed_test;
use tests::testbed::trouble::Trouble;
use tests::testbed::{SETTLED_WITHIN, Testbed, masterd_of};

use super::{LONG_ENOUGH, begin, submit, well, well_again};

#[test]
fn a_master_whose_disk_is_full_says_so_and_goes_on_when_there_is_room() {
    sealed_test::run(
        "disks::a_master_whose_disk_is_full_says_so_and_goes_on_when_there_is_room",
        || {
            let mut scene = begin();
            fill_and_notice(&scene.testbed, 0);
            let refused = submit(&scene.testbed, 0);
            assert!(refused.is_err(), "{refused:?}");
            pass(LONG_ENOUGH);
            Trouble::Fill.end(&scene.testbed, 0);
            well_again(&mut scene);
            assert_eq!(scene.master, 0);
            // The role can be moved away from it as well.
            fill_and_notice(&scene.testbed, 0);
            scene.fail_over(1).unwrap();
            assert!(submit(&scene.testbed, 1).is_ok());
            Trouble::Fill.end(&scene.testbed, 0);
            well(&mut scene);
            assert_eq!(scene.master, 1);
        },
    );
}

/// Leaves no room on a node's disk, and waits until that is said.
fn fill_and_notice(testbed: &Testbed, node: usize) {
    wait_for("the node's alarm", LONG, || {
        // A file system that set room aside for files that grow gives it back when it is full.
        Trouble::Fill.begin(testbed, node);
        has_alarm(testbed, node, "disk-full")
    });
}

fn has_alarm(testbed: &Testbed, at: usize, kind: &str) -> Option<()> {
    let status = status(&testbed.sites[at].host)?;
    status.alarms.iter().any(|alarm| alarm.kind == kind).then_some(())
}

#[test]
fn a_candidate_whose_disk_is_full_does_not_hinder_the_others() {
    sealed_test::run("disks::a_candidate_whose_disk_is_full_does_not_hinder_the_others", || {
        let mut scene = begin();
        for node in [1, 2] {
            fill_and_notice(&scene.testbed, node);
            pass(LONG_ENOUGH);
            assert!(submit(&scene.testbed, 0).is_ok(), "two are enough");
            wait_for("the master's alarm", LONG, || has_alarm(&scene.testbed, 0, "candidate-full"));
            Trouble::Fill.end(&scene.testbed, node);
            well_again(&mut scene);
            assert_eq!(scene.master, 0);
        }
    });
}

#[test]
fn a_lone_master_without_room_replicates_once_there_is_some() {
    sealed_test::run("disks::a_lone_master_without_room_replicates_once_there_is_some", || {
        let testbed = Testbed::begin_alone();
        let candidate = testbed.sites[1].host.name.clone();
        // A file that is still to be written would tell the master, who would take no job then.
        wait_for("all files", LONG, || {
            let store = status(&testbed.sites[0].host)?.store?;
            (store.files_lag_keys == 0).then_some(())
        });
        testbed.fill(0);
        let _asked = testbed.gnt(0, &format!("node modify -C yes {candidate} --submit")).ok();
        wait_for("its word", LONG, || {
            let said = testbed.daemons.said(&masterd_of(0));
            std::fs::read_to_string(said).ok()?.contains("make room first").then_some(())
        });
        assert!(testbed.runs_masterd(0));
        testbed.make_room(0);
        wait_for("the other one's copy", SETTLED_WITHIN, || {
            let candidates = status(&testbed.sites[0].host)?.candidates;
            let has =
                |name: &str| candidates.iter().any(|one| one.node == name && one.behind == Some(0));
            has(&candidate).then_some(())
        });
        assert!(testbed.runs_masterd(0));
    });
}
