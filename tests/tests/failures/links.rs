//! Links that are cut, and an address that somebody removes.

use tests::candidates::LONG;
use tests::run::{pass, wait_for};
use tests::sealed_test;
use tests::testbed::masterd_of;
use tests::testbed::scene::Scene;
use tests::testbed::trouble::Trouble;

use super::{LONG_ENOUGH, begin, submit, successor, wait_until_refusing, well, well_again};

/// Cuts the master off, and waits until it acts as who is.
fn cut_off(scene: &Scene) {
    let testbed = &scene.testbed;
    Trouble::Unplug.begin(testbed, 0);
    wait_until_refusing(testbed, 0);
    let refused = submit(testbed, 0).expect_err("who is cut off takes nothing");
    assert!(refused.certainly_not_done(), "{refused:?}");
    let gone = || (!testbed.lan.has_master_address(0)).then_some(());
    wait_for("the address to be given up", LONG, gone);
}

#[test]
fn who_is_cut_off_while_its_agent_is_away_asks_it_again_for_the_address() {
    sealed_test::run(
        "links::who_is_cut_off_while_its_agent_is_away_asks_it_again_for_the_address",
        || {
            let mut scene = begin();
            let testbed = &scene.testbed;
            let log = || std::fs::read_to_string(testbed.daemons.said(&masterd_of(0))).ok();
            let says = |word| wait_for(word, LONG, || log()?.contains(word).then_some(()));
            Trouble::KillAgent.begin(testbed, 0);
            Trouble::Unplug.begin(testbed, 0);
            says("the address may still be here");
            assert!(testbed.lan.has_master_address(0), "nobody took it off");
            Trouble::KillAgent.end(testbed, 0);
            says("the master's address is given up");
            assert!(!testbed.lan.has_master_address(0));
            Trouble::Unplug.end(testbed, 0);
            well_again(&mut scene);
        },
    );
}

#[test]
fn a_master_that_is_cut_off_refuses_and_is_a_standby_of_the_next() {
    sealed_test::run(
        "links::a_master_that_is_cut_off_refuses_and_is_a_standby_of_the_next",
        || {
            let mut scene = begin();
            cut_off(&scene);
            scene.fail_over(1).unwrap();
            let taken = || scene.testbed.lan.has_master_address(1).then_some(());
            wait_for("the address to be taken", LONG, taken);
            assert!(submit(&scene.testbed, 0).is_err(), "who is cut off takes nothing");
            assert!(submit(&scene.testbed, 1).is_ok(), "the others go on");
            Trouble::Unplug.end(&scene.testbed, 0);
            well(&mut scene);
            assert_eq!(scene.master, 1);
        },
    );
}

#[test]
fn a_master_that_is_cut_off_goes_on_if_nobody_took_its_role() {
    sealed_test::run("links::a_master_that_is_cut_off_goes_on_if_nobody_took_its_role", || {
        let mut scene = begin();
        cut_off(&scene);
        Trouble::Unplug.end(&scene.testbed, 0);
        well_again(&mut scene);
        assert_eq!(scene.master, 0);
        // By itself, another one takes it.
        scene.set_auto_failover(true);
        cut_off(&scene);
        let next = successor(&scene.testbed, 0);
        Trouble::Unplug.end(&scene.testbed, 0);
        well(&mut scene);
        assert_eq!(scene.master, next);
    });
}

fn carry_one_way(auto_failover: bool) {
    let mut scene = begin();
    scene.set_auto_failover(auto_failover);
    for trouble in [Trouble::Mute, Trouble::Deafen, Trouble::Part] {
        for on_master in [true, false] {
            let others = |node| (node + 1) % 3;
            let node = if on_master { scene.master } else { others(scene.master) };
            trouble.begin(&scene.testbed, node);
            pass(LONG_ENOUGH);
            trouble.end(&scene.testbed, node);
            well_again(&mut scene);
        }
    }
}

#[test]
fn links_that_carry_one_way_only_lose_nothing() {
    sealed_test::run("links::links_that_carry_one_way_only_lose_nothing", || carry_one_way(false));
}

#[test]
fn links_that_carry_one_way_only_lose_nothing_where_the_role_moves_by_itself() {
    sealed_test::run(
        "links::links_that_carry_one_way_only_lose_nothing_where_the_role_moves_by_itself",
        || carry_one_way(true),
    );
}

#[test]
fn the_masters_address_comes_back_where_somebody_removes_it() {
    sealed_test::run("links::the_masters_address_comes_back_where_somebody_removes_it", || {
        let mut scene = begin();
        let has = |scene: &Scene, node| scene.testbed.lan.has_master_address(node);
        for _again in 0..2 {
            scene.testbed.lan.remove_master_address(0);
            assert!(!has(&scene, 0));
            wait_for("the address to be taken again", LONG, || has(&scene, 0).then_some(()));
        }
        well_again(&mut scene);
        // An address that an operator takes off stays off, and verify says so.
        let _off = scene.testbed.gnt(0, "cluster deactivate-master-ip --yes").ok();
        pass(LONG_ENOUGH);
        assert!(!has(&scene, 0));
        let found = scene.testbed.gnt(0, "cluster verify");
        assert!(found.ok().contains("was taken off by"), "{found:#?}");
        let _on = scene.testbed.gnt(0, "cluster activate-master-ip").ok();
        assert!(has(&scene, 0));
        // Until the role moves.
        let _off = scene.testbed.gnt(0, "cluster deactivate-master-ip --yes").ok();
        scene.fail_over(1).unwrap();
        well(&mut scene);
        assert!(has(&scene, 1));
    });
}
