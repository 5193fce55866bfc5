//! Power cuts: of the disk there is what was flushed.

use std::process::Command;

use tests::candidates::{LONG, status};
use tests::run::{pass, run, wait_for};
use tests::sealed_test;
use tests::testbed::Testbed;
use tests::testbed::trouble::Trouble;

use super::{LOAD, begin, submit, submit_for, well, well_again};

/// Seconds that no other job sleeps.
const MARKED: f64 = 0.125;

#[test]
fn power_cuts_of_candidates_lose_nothing() {
    sealed_test::run("power::power_cuts_of_candidates_lose_nothing", || {
        let mut scene = begin();
        for node in [1, 2, 1, 2] {
            Trouble::Power.begin(&scene.testbed, node);
            pass(LOAD);
            assert!(submit(&scene.testbed, 0).is_ok(), "two are enough");
            Trouble::Power.end(&scene.testbed, node);
            well_again(&mut scene);
            assert_eq!(scene.master, 0);
        }
    });
}

#[test]
fn power_cuts_of_masters_lose_nothing() {
    sealed_test::run("power::power_cuts_of_masters_lose_nothing", || {
        let mut scene = begin();
        for fails_over in [false, true, true, true] {
            let master = scene.master;
            Trouble::Power.begin(&scene.testbed, master);
            let next = if fails_over { (master + 1) % 3 } else { master };
            if fails_over {
                scene.fail_over(next).unwrap();
            }
            Trouble::Power.end(&scene.testbed, master);
            well_again(&mut scene);
            assert_eq!(scene.master, next);
        }
    });
}

#[test]
fn a_power_cut_of_all_nodes_loses_nothing() {
    sealed_test::run("power::a_power_cut_of_all_nodes_loses_nothing", || {
        let mut scene = begin();
        for nodes in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            pass(LOAD);
            for node in nodes {
                Trouble::Power.begin(&scene.testbed, node);
            }
            for node in nodes {
                Trouble::Power.end(&scene.testbed, node);
            }
            well_again(&mut scene);
            assert_eq!(scene.master, 0, "it goes on by itself");
        }
    });
}

/// The end of a standby's log.
fn last(testbed: &Testbed, node: usize) -> Option<String> {
    Some(status(&testbed.sites[node].host)?.standby?.last)
}

/// Lets the file system of a node write no more, or again.
fn freeze(testbed: &Testbed, node: usize, how: &str) {
    let mut command = Command::new("fsfreeze");
    command.arg(how).arg(testbed.mounted(node));
    let ended = run(command);
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn a_master_whose_candidates_hold_more_starts_again_by_itself() {
    sealed_test::run("power::a_master_whose_candidates_hold_more_starts_again_by_itself", || {
        let mut scene = begin();
        let _words = well(&mut scene);
        let testbed = &scene.testbed;
        let before = [1, 2].map(|node| last(testbed, node).unwrap());
        // The master's next job reaches the candidates, and never its own disk.
        freeze(testbed, 0, "--freeze");
        let told = std::thread::scope(|scope| {
            let asks = scope.spawn(|| submit_for(testbed, 0, MARKED));
            for (node, before) in (1..).zip(&before) {
                wait_for("the candidates to have it", LONG, || {
                    last(testbed, node).filter(|last| last != before)
                });
            }
            testbed.lose_what_is_not_written(0);
            // A process that waits for the frozen disk cannot even be killed.
            freeze(testbed, 0, "--unfreeze");
            testbed.kill(0);
            asks.join().unwrap()
        });
        assert!(told.is_err(), "acknowledged by a master that did not have it: {told:?}");
        Trouble::Power.end(testbed, 0);
        well(&mut scene);
        assert_eq!(scene.master, 0);
        // The job that the candidates held is there.
        let list = scene.testbed.gnt(0, "job list --no-headers -o summary");
        let marked = format!("TEST_DELAY({MARKED})");
        assert_eq!(list.ok().lines().filter(|job| **job == marked).count(), 1, "{list:?}");
    });
}
