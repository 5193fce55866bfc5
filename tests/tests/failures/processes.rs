//! Processes that are killed, stopped for a while, and asked to end.

use tests::run::pass;
use tests::sealed_test;
use tests::testbed::trouble::Trouble;

use super::{LONG_ENOUGH, begin, submit, successor, well_again};

fn masters_end(auto_failover: bool) {
    let mut scene = begin();
    scene.set_auto_failover(auto_failover);
    for trouble in [Trouble::Kill, Trouble::KillBoth, Trouble::Pause, Trouble::PauseBoth] {
        let master = scene.master;
        trouble.begin(&scene.testbed, master);
        let next = if auto_failover {
            successor(&scene.testbed, master)
        } else {
            let next = (master + 1) % 3;
            scene.fail_over(next).expect("the next one takes the role");
            next
        };
        assert!(submit(&scene.testbed, next).is_ok());
        trouble.end(&scene.testbed, master);
        well_again(&mut scene);
        assert_eq!(scene.master, next, "{trouble}");
    }
}

#[test]
fn masters_that_are_killed_or_stopped_are_standbys_of_the_next() {
    sealed_test::run(
        "processes::masters_that_are_killed_or_stopped_are_standbys_of_the_next",
        || {
            masters_end(false);
        },
    );
}

#[test]
fn masters_that_are_killed_or_stopped_are_standbys_of_who_takes_over_by_itself() {
    sealed_test::run(
        "processes::masters_that_are_killed_or_stopped_are_standbys_of_who_takes_over_by_itself",
        || masters_end(true),
    );
}

#[test]
fn candidates_that_are_killed_or_stopped_catch_up() {
    sealed_test::run("processes::candidates_that_are_killed_or_stopped_catch_up", || {
        let mut scene = begin();
        for trouble in [Trouble::Kill, Trouble::KillBoth, Trouble::Pause, Trouble::PauseBoth] {
            trouble.begin(&scene.testbed, 2);
            pass(LONG_ENOUGH);
            assert!(submit(&scene.testbed, 1).is_ok(), "two are enough");
            trouble.end(&scene.testbed, 2);
            well_again(&mut scene);
            assert_eq!(scene.master, 0, "{trouble}");
        }
    });
}
