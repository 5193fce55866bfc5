//! The power of machines: after jobs whose master dies, and behind an inspection.

use bmc::simulated::{Odd, OddAnswers};
use model::bmc::PowerState;
use serde_json::{Value, json};
use tests::cluster::PATIENCE;
use tests::run::wait_for;

use super::{Plays, Scene, curl};
use crate::failover::alarm;

/// The card that SN1 boots by.
const MAC: &str = "52:54:00:00:00:01";

impl Scene {
    /// Sends the inventory that a ramdisk sends before it looks itself up.
    fn is_inspected(&self, memory_mib: u32) {
        let agent = self.url.split("/api/").next().unwrap().to_owned();
        let inventory = json!({"inventory": {
            "cpu": {"count": 2, "architecture": "x86_64"},
            "memory": {"physical_mb": memory_mib},
            "interfaces": [{"name": "eth0", "mac_address": MAC, "has_carrier": true}],
            "disks": [], "boot": {"pxe_interface": MAC, "current_boot_mode": "uefi"},
        }});
        let url = format!("{agent}/v1/continue_inspection");
        let version = "X-OpenStack-Ironic-API-Version: 1.84";
        let body = inventory.to_string();
        let json = "Content-Type: application/json";
        let (text, status) =
            curl(&["-X", "POST", "-H", version, "-H", json, "--data", &body, &url]);
        assert_eq!(status, "202", "{text}");
    }
}

#[test]
fn a_machine_whose_job_lost_its_master_behind_the_switch_is_switched_on_again() {
    let scene = Scene::begin();
    let _on = scene.gnt("machine power on SN1 --yes").ok();
    let starts = scene.bmc.seen().starts;
    scene.plays(Plays::Kills(scene.cluster.master_pid().unwrap()));
    let job = scene.submitted("machine power cycle SN1 --yes --submit");
    // The controller answers nobody before the master is dead.
    wait_for("no power", PATIENCE, || (scene.bmc.seen().power == PowerState::Off).then_some(()));
    scene.cluster.kill_master();
    scene.plays(Plays::Silent);
    scene.cluster.start_master();
    assert_eq!(scene.cluster.status(job), "error");
    wait_for("power", PATIENCE, || {
        let seen = scene.bmc.seen();
        (seen.power == PowerState::On && seen.starts == starts + 1).then_some(())
    });
    let jobs = scene.gnt("job list --json -o id,status,summary").json();
    let told =
        jobs.as_array().unwrap().iter().filter(|job| job["summary"][0] == "MACHINE_POWER(SN1)");
    assert_eq!(
        told.count(),
        3,
        "one that switched on, one that was cut short, one that mends: {jobs}"
    );
}

/// Looks at the machine until its power is ordered off: three before, and one of the order itself.
const LOOKS_BEFORE: u32 = 4;

impl Scene {
    /// Behind the order to switch the machine off, the controller answers so many looks with this.
    fn sees_oddly(&self, odd: Odd, times: u32) {
        let at = "/Systems/1";
        let after = LOOKS_BEFORE;
        self.bmc.answer_oddly(OddAnswers { odd, at, after, times, is_done: true });
    }
}

#[test]
fn odd_answers_behind_the_switch_are_no_end_and_one_login_does() {
    let scene = Scene::begin();
    scene.plays(Plays::Silent);
    let _on = scene.gnt("machine power on SN1 --yes").ok();
    for odd in [Odd::Empty, Odd::Cut] {
        let before = scene.bmc.seen();
        scene.sees_oddly(odd, 3);
        let _cycled = scene.gnt("machine power cycle SN1 --yes").ok();
        let seen = scene.bmc.seen();
        assert_eq!((seen.power, seen.starts), (PowerState::On, before.starts + 1), "{odd:?}");
        assert_eq!((seen.logins, seen.sessions), (before.logins + 1, 0), "{odd:?}");
    }
}

#[test]
fn a_machine_that_a_job_left_off_is_an_alarm_until_it_is_on() {
    let scene = Scene::begin();
    let before = scene.bmc.seen().logins;
    let _well = scene.gnt("machine deploy SN1 --image debian --yes").ok();
    assert_eq!(scene.bmc.seen().logins, before + 1, "off, boot once and on");
    scene.plays(Plays::Silent);
    let left_off = || alarm(&scene.cluster.master, "machine-off");
    for line in ["machine power cycle SN1", "machine reboot SN1"] {
        assert_eq!(left_off(), None);
        scene.sees_oddly(Odd::Failure, u32::MAX);
        let job = scene.submitted(&format!("{line} --yes --submit"));
        wait_for("no power", PATIENCE, || {
            (scene.bmc.seen().power == PowerState::Off).then_some(())
        });
        let _killed = scene.gnt(&format!("job cancel --kill --yes-do-it {job}")).ok();
        let told = wait_for("the alarm", PATIENCE, left_off);
        let wanted = format!("job {job} was to switch it on");
        assert!(told.contains(&wanted) && told.contains("gnt machine power on SN1"), "{told}");
        // The watcher tries in vain, which ends nothing.
        wait_for("a job of the watcher's", PATIENCE, || {
            let jobs = scene.gnt("job list --json -o summary,status").json();
            let is_it = |job: &Value| {
                job["summary"][0] == "MACHINE_POWER(SN1)" && job["status"] == "running"
            };
            jobs.as_array().unwrap().iter().any(is_it).then_some(())
        });
        assert!(left_off().is_some());
        scene.sees_oddly(Odd::Failure, 0);
        let _mended = scene.gnt("machine power on SN1 --yes").ok();
        assert_eq!(scene.bmc.seen().power, PowerState::On, "{line}");
        wait_for("its end", PATIENCE, || left_off().is_none().then_some(()));
    }
}

#[test]
fn a_machine_is_off_behind_its_inspection_by_a_ramdisk_and_another_one_is_compared() {
    let scene = Scene::begin();
    scene.plays(Plays::Silent);
    let _known = scene.gnt(&format!("machine modify SN1 --mac {MAC}")).ok();
    let changed = || alarm(&scene.cluster.master, "hardware-changed");
    for (options, power, memory_mib) in
        [("", PowerState::Off, 4096), ("--leave-on", PowerState::On, 2048)]
    {
        assert_eq!(changed(), None);
        let job = scene.submitted(&format!(
            "machine inspect SN1 --ramdisk --image ramdisk --yes --submit {options}"
        ));
        scene.wait_for("inspect-wait");
        wait_for("power", PATIENCE, || (scene.bmc.seen().power == PowerState::On).then_some(()));
        scene.is_inspected(memory_mib);
        scene.cluster.wait_for_status(job, "success");
        assert_eq!((scene.state().as_str(), scene.bmc.seen().power), ("manageable", power));
    }
    let told = wait_for("the alarm", PATIENCE, changed);
    assert!(told.contains("memory") && told.contains("--clear hardware-changes"), "{told}");
    let _accepted = scene.gnt("machine modify SN1 --clear hardware-changes").ok();
    wait_for("its end", PATIENCE, || changed().is_none().then_some(()));
}

#[test]
fn jobs_that_nobody_awaits_run_behind_each_other_all_the_same() {
    let scene = Scene::begin();
    for serial in ["SN2", "SN3", "SN4"] {
        let _more =
            scene.gnt(&format!("machine add --serial {serial} --rack 0 --role worker")).ok();
    }
    scene.plays(Plays::Silent);
    let deploy =
        "machine deploy SN1 SN2 SN3 SN4 --image debian --parallel 2 --yes --submit --print-jobid";
    let told = scene.gnt(deploy);
    let jobs: Vec<u64> = told.ok().lines().map(|id| id.parse().unwrap()).collect();
    let [first, second, third, fourth] = jobs[..] else { panic!("{told:?}") };
    let behind = |job| scene.cluster.job(job, "depends")["depends"].clone();
    assert_eq!([first, second].map(behind), [json!([]), json!([])]);
    assert_eq!([third, fourth].map(behind), [json!([first]), json!([second])]);
    // SN2 has no controller: what is behind it does not begin, and what is behind SN1 waits.
    scene.cluster.wait_for_status(second, "error");
    scene.cluster.wait_for_status(fourth, "error");
    let waits = scene.cluster.status(third);
    assert!(matches!(waits.as_str(), "queued" | "waiting"), "{waits}");
    scene.wait_for("deploy-wait");
    super::says_up(&scene.up());
    scene.cluster.wait_for_status(first, "success");
    scene.cluster.wait_for_status(third, "error");
    let why = |job| scene.cluster.job(job, "opresult")["opresult"].to_string();
    assert!(why(third).contains("no known management controller"), "{}", why(third));
    let states = scene.gnt("machine list --json -o serial,state SN3 SN4").json();
    let is_untouched = |row: &Value| row["state"] == "enrolled";
    assert!(states.as_array().unwrap().iter().all(is_untouched), "{states}");
}
