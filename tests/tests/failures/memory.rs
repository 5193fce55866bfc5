//! Nodes that forget: emptied disks, older copies, replicas that somebody edited.

use std::fs;
use std::path::Path;
use std::process::Command;

use queue_format::store::AtRest;
use tests::candidates::{LONG, role_check, status};
use tests::run::{run, wait_for};
use tests::sealed_test;
use tests::testbed::Testbed;
use tests::testbed::trouble::Trouble;

use super::{begin, well, well_again};

/// The answer to a node about another one that might vote.
fn word(testbed: &Testbed, asked: usize, about: &str) -> Option<String> {
    let check = role_check(&testbed.sites[asked].host)?;
    let text = format!("{check:?}");
    text.contains(about).then_some(text)
}

#[test]
fn a_candidate_with_an_empty_disk_does_not_vote_and_is_added_again() {
    sealed_test::run(
        "memory::a_candidate_with_an_empty_disk_does_not_vote_and_is_added_again",
        || {
            let mut scene = begin();
            let _rested = well(&mut scene);
            let testbed = &scene.testbed;
            testbed.kill(2);
            let root = &testbed.sites[2].host.root;
            fs::remove_dir_all(testbed.sites[2].host.layout().data()).unwrap();
            Trouble::Kill.begin(testbed, 0);
            testbed.start(2);
            wait_for("its word", LONG, || word(testbed, 1, "has no store"));
            Trouble::Kill.end(testbed, 0);
            wait_for("the master", LONG, || testbed.is_master(0).then_some(()));
            // The rest of its disk is gone, too.
            testbed.kill(2);
            fs::remove_dir_all(root).unwrap();
            fs::create_dir(root).unwrap();
            scene.clients.resume();
            let _added = testbed.add(0, 2, "--readd");
            testbed.start(2);
            well_again(&mut scene);
            // It is worth as much as before.
            scene.fail_over(2).unwrap();
            well(&mut scene);
            assert_eq!(scene.master, 2);
        },
    );
}

#[test]
fn a_candidate_with_an_empty_disk_becomes_another_member_by_itself() {
    sealed_test::run(
        "memory::a_candidate_with_an_empty_disk_becomes_another_member_by_itself",
        || {
            let mut scene = begin();
            let _rested = well(&mut scene);
            let testbed = &scene.testbed;
            testbed.kill(2);
            // All but what its agent has.
            for entry in fs::read_dir(testbed.sites[2].host.layout().data()).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    _ if path.ends_with("node") => {}
                    true => fs::remove_dir_all(path).unwrap(),
                    false => fs::remove_file(path).unwrap(),
                }
            }
            scene.clients.resume();
            testbed.start(2);
            wait_for("word of the lost store", LONG, || {
                let seen = status(&testbed.sites[0].host)?;
                seen.alarms.iter().any(|alarm| alarm.text.contains("lost its store")).then_some(())
            });
            well_again(&mut scene);
            scene.fail_over(2).unwrap();
            well(&mut scene);
            assert_eq!(scene.master, 2);
        },
    );
}

fn mount(what: &[&str], at: &Path) {
    let mut command = Command::new("mount");
    command.args(what).arg(at);
    let ended = run(command);
    assert_eq!(ended.code(), 0, "{ended:?}");
}

/// Takes away what is mounted; again while somebody looks into it.
fn unmount(at: &Path) {
    wait_for("the end of a mount", LONG, || {
        let mut command = Command::new("umount");
        command.arg(at);
        (run(command).code() == 0).then_some(())
    });
}

#[test]
fn a_disk_that_is_mounted_late_makes_it_the_member_that_it_was() {
    sealed_test::run("memory::a_disk_that_is_mounted_late_makes_it_the_member_that_it_was", || {
        let mut scene = begin();
        let _rested = well(&mut scene);
        let testbed = &scene.testbed;
        let data = testbed.sites[2].host.layout().data();
        let was = AtRest::read(&data).unwrap().unwrap();
        // Without a master nobody makes it another member meanwhile.
        Trouble::Kill.begin(testbed, 0);
        testbed.kill(2);
        mount(&["-t", "tmpfs", "none"], &data);
        // Its agent has its files there, too, and waits for them.
        testbed.start_masterd(2);
        wait_for("word of no store", LONG, || word(testbed, 1, "n3.example has no store"));
        unmount(&data);
        wait_for("word of a store", LONG, || {
            let check = format!("{:?}", role_check(&testbed.sites[1].host)?);
            let is_well = ["n3.example has no store", "n3.example cannot be reached: its masterd"]
                .iter()
                .all(|word| !check.contains(word));
            is_well.then_some(())
        });
        assert!(testbed.runs_masterd(2), "it went on with what came");
        testbed.start(2);
        Trouble::Kill.end(testbed, 0);
        scene.clients.resume();
        well_again(&mut scene);
        let is = AtRest::read(&data).unwrap().unwrap();
        assert_eq!((is.member, is.incarnation), (was.member, was.incarnation));
    });
}

fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.args(["--archive", "--no-target-directory"]).arg(from).arg(to);
    let ended = run(command);
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn an_older_copy_does_not_vote_and_says_so() {
    sealed_test::run("memory::an_older_copy_does_not_vote_and_says_so", || {
        let mut scene = begin();
        let _rested = well(&mut scene);
        let testbed = &scene.testbed;
        testbed.kill(2);
        let data = testbed.sites[2].host.layout().data();
        let older = testbed.logs().join("older");
        copy(&data, &older);
        testbed.start(2);
        scene.clients.resume();
        let _rested = well(&mut scene);
        let testbed = &scene.testbed;
        testbed.kill(2);
        fs::remove_dir_all(&data).unwrap();
        copy(&older, &data);
        testbed.start(2);
        // A node that asks it is told, while there is a master and when there is none.
        let gone_back =
            |asked: usize| wait_for("its word", LONG, || word(testbed, asked, "went back in time"));
        let _told = gone_back(1);
        wait_for("the alarm", LONG, || {
            let status = status(&testbed.sites[0].host)?;
            status.alarms.iter().any(|alarm| alarm.kind == "candidate-forgot").then_some(())
        });
        Trouble::Kill.begin(testbed, 0);
        let _told = gone_back(1);
        let refused = testbed.gnt(1, "cluster master-failover");
        assert_ne!(refused.code(), 0, "{refused:?}");
        assert!(refused.stdout.contains("1 of 3 voters"), "{refused:?}");
        Trouble::Kill.end(testbed, 0);
        wait_for("the master", LONG, || testbed.is_master(0).then_some(()));
        // As the runbook has it.
        testbed.kill(2);
        for entry in fs::read_dir(&data).unwrap() {
            let path = entry.unwrap().path();
            match path.ends_with("node") {
                true => {}
                false if path.is_dir() => fs::remove_dir_all(&path).unwrap(),
                false => fs::remove_file(&path).unwrap(),
            }
        }
        testbed.start(2);
        for candidate in ["no", "yes"] {
            let _done = testbed.gnt(0, &format!("node modify -C {candidate} n3.example")).ok();
        }
        scene.clients.resume();
        well_again(&mut scene);
        scene.fail_over(2).unwrap();
        well(&mut scene);
        assert_eq!(scene.master, 2);
    });
}

#[test]
fn a_replica_that_was_edited_is_named() {
    sealed_test::run("memory::a_replica_that_was_edited_is_named", || {
        let mut scene = begin();
        let _rested = well(&mut scene);
        let testbed = &scene.testbed;
        let key = "queue/job-2";
        let [own, theirs] = [0, 2].map(|node| testbed.sites[node].host.layout().data().join(key));
        let text = fs::read_to_string(&theirs).unwrap();
        stdx::atomic::write(&theirs, text.replace("\"id\":2", "\"id\": 2").as_bytes(), 0o600)
            .unwrap();
        assert_ne!(fs::read(&own).unwrap(), fs::read(&theirs).unwrap(), "{text}");
        let told = testbed.gnt(0, "cluster verify");
        assert!(told.code() != 0, "{told:?}");
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(said.contains("n3.example") && said.contains(key), "{said}");
        // As it says.
        for candidate in ["no --force", "yes"] {
            let line = format!("node modify -C {candidate} n3.example");
            assert!(said.contains(&format!("gnt node modify -C {candidate}")), "{said}");
            let done = testbed.gnt(0, &line);
            assert_eq!(done.code(), 0, "{done:?}");
        }
        // The alarm is over with the next comparison, which comes by itself after minutes.
        wait_for("equal copies", LONG, || {
            (testbed.gnt(0, "cluster verify").code() == 0).then_some(())
        });
        scene.clients.resume();
        well(&mut scene);
    });
}
