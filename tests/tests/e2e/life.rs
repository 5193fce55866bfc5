//! Machines on their way through life by jobs. A controller in this process switches a machine that is
//! played here. The machine speaks over HTTP to the agent of its rack, as a booted one would.

use std::process::Command;
use std::sync::Arc;

use bmc::simulated::{Faults, Hook, PASSWORD, Simulated, USER};
use model::bmc::PowerState;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Host, PATIENCE};
use tests::run::{Ended, run, wait_for};
use tokio::runtime::Runtime;

use crate::rack::rack;

mod failover;
mod nodes;
mod power;

/// The behaviour of a machine that has power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plays {
    /// It boots, and its system says that it runs.
    Boots,
    /// It does not get so far.
    Silent,
    /// This process, the master, is killed when the power goes.
    Kills(u32),
}

/// A rack with a machine, and how it boots.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    _runtime: Runtime,
    pub(crate) bmc: Simulated,
    plays: Arc<Mutex<Plays>>,
    /// The URL of the machine's script.
    url: String,
}

fn curl(arguments: &[&str]) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "20", "-w", "\n%{http_code}"]).args(arguments);
    let answer = run(curl).stdout;
    let (body, status) = answer.rsplit_once('\n').unwrap();
    (body.to_owned(), status.to_owned())
}

/// The boot of the machine: it fetches its script and its kernel, and says that it runs. A fetch that
/// fails ends it, and the test finds it out.
fn boots(script: &str) {
    let (text, status) = curl(&[script]);
    assert_eq!(status, "200", "{text}");
    let mut words = text.split_whitespace();
    let kernel = words.find(|word| word.contains("/kernel/")).unwrap_or_else(|| panic!("{text}"));
    let up = text.split_whitespace().find_map(|word| word.strip_prefix("gantry.up=")).unwrap();
    let (_, status) = curl(&[kernel, "-o", "/dev/null"]);
    assert_eq!(status, "200", "{kernel}");
    says_up(up);
}

pub(crate) fn says_up(up: &str) {
    let (text, status) = curl(&["-X", "POST", up]);
    assert_eq!(status, "204", "{text}");
}

impl Scene {
    pub(crate) fn begin() -> Self {
        let cluster = rack();
        let agent = cluster.master.clone();
        Self::of(cluster, &agent)
    }

    /// In a rack that this agent serves.
    fn of(cluster: Cluster, agent: &Host) -> Self {
        for image in ["debian/12", "debian/13", "ramdisk/1"] {
            let file = cluster.write("vmlinuz", &xtask::images::kernel(image));
            let _kept =
                cluster.gnt(&format!("image upload {image} --kernel {}", file.display())).ok();
        }
        let _added = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
        let address = cluster.boot_address(agent);
        let url = format!("http://{address}:10080/api/v1/boot/ipxe/SN1");
        let plays = Arc::new(Mutex::new(Plays::Boots));
        let (mode, script) = (Arc::clone(&plays), url.clone());
        let hook: Hook = Arc::new(move |power| match (power, *mode.lock()) {
            (PowerState::On, Plays::Boots) => {
                let script = script.clone();
                std::thread::spawn(move || boots(&script));
            }
            (PowerState::Off, Plays::Kills(master)) => {
                let mut kill = Command::new("kill");
                kill.args(["-KILL", &master.to_string()]);
                let _ended = run(kill).ok();
            }
            _ => {}
        });
        let runtime = Runtime::new().unwrap();
        let bmc = runtime.block_on(Simulated::start("SN1", false, Some(hook))).unwrap();
        let scene = Self { cluster, _runtime: runtime, bmc, plays, url };
        let password = scene.cluster.write("bmc.password", &format!("{PASSWORD}\n"));
        let _known = scene
            .gnt(&format!(
                "machine bmc set SN1 --url {} --user {USER} --password-file {}",
                scene.bmc.url,
                password.display()
            ))
            .ok();
        scene
    }

    pub(crate) fn gnt(&self, line: &str) -> Ended {
        self.cluster.gnt(line)
    }

    pub(crate) fn plays(&self, plays: Plays) {
        *self.plays.lock() = plays;
    }

    /// The URL at which its system says that it runs, from its boot script, which it fetches.
    pub(crate) fn up(&self) -> String {
        let (text, _) = curl(&[&self.url]);
        let up = text.split_whitespace().find_map(|word| word.strip_prefix("gantry.up="));
        up.unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    /// The same by a URL that somebody made, without its power cycle.
    fn up_at_any_time(&self) -> String {
        self.url.replace("/ipxe/SN1", "/machines/SN1/up")
    }

    fn row(&self) -> Value {
        self.gnt(
            "machine list --json -o serial,state,state_reason,status,intent,stage,document SN1",
        )
        .json()[0]
            .clone()
    }

    pub(crate) fn state(&self) -> String {
        self.row()["state"].as_str().unwrap().to_owned()
    }

    pub(crate) fn wait_for(&self, state: &str) {
        wait_for(&format!("{state} of SN1"), PATIENCE, || (self.state() == state).then_some(()));
    }

    /// The job that deploys it, once it waits for the machine.
    fn deploys_silently(&self) -> u64 {
        self.plays(Plays::Silent);
        let job = self.submitted("machine deploy SN1 --image debian --yes --submit");
        self.wait_for("deploy-wait");
        wait_for("power", PATIENCE, || (self.bmc.seen().power == PowerState::On).then_some(()));
        job
    }

    pub(crate) fn submitted(&self, line: &str) -> u64 {
        self.gnt(&format!("{line} --print-jobid")).ok().trim().parse().unwrap()
    }
}

#[test]
fn a_machine_is_deployed_when_its_new_system_says_so() {
    let scene = Scene::begin();
    let refused = scene.gnt("machine deploy SN1 --yes");
    assert!(refused.failed(1).contains("boots its disk"), "{refused:?}");
    let refused = scene.gnt("machine deploy SN1 --image plan9 --yes");
    assert!(refused.failed(1).contains("Image 'plan9' is not known"), "{refused:?}");
    let refused = scene.gnt("machine deploy SN1 --image debian --new-role wroker --yes");
    assert!(refused.failed(1).contains("has no template"), "{refused:?}");
    assert_eq!((scene.state(), scene.bmc.seen().starts), ("enrolled".to_owned(), 0));

    let told = scene.gnt("machine deploy SN1 --image debian/12 --yes");
    assert!(told.ok().contains("SN1: system"), "{told:?}");
    let row = scene.row();
    assert_eq!((&row["state"], &row["status"]), (&json!("healthy"), &json!("healthy")));
    assert_eq!((&row["stage"], &row["intent"]), (&json!("system"), &json!("deploy")));
    let seen = scene.bmc.seen();
    assert_eq!((seen.starts, seen.boot_once.as_deref()), (1, Some("UefiHttp")));

    let _again = scene.gnt("machine reboot SN1 --yes").ok();
    assert_eq!((scene.state(), scene.bmc.seen().starts), ("healthy".to_owned(), 2));
    let skipped = scene.gnt("machine reboot SN1 --yes --resume 1");
    assert!(skipped.stderr.contains("left out: SN1"), "{skipped:?}");
    assert_eq!(skipped.ok(), "");
    assert_eq!(scene.bmc.seen().starts, 2);
}

#[test]
fn words_from_before_change_nothing_and_a_newer_intent_takes_over() {
    let scene = Scene::begin();
    // Its agent is away while the machine speaks: the words come late, and are of the old cycle.
    let _first = scene.gnt("machine deploy SN1 --image debian/12 --yes").ok();
    let job = scene.deploys_silently();
    let _cycled = scene.gnt("machine power cycle SN1 --yes").ok();
    assert_eq!(scene.state(), "deploy-wait");
    let second = scene.submitted("machine deploy SN1 --image debian/12 --yes --submit");
    scene.cluster.wait_for_status(job, "error");
    let why = scene.cluster.job(job, "opresult")["opresult"].to_string();
    assert!(why.contains("taken over"), "{why}");
    wait_for("the second start", PATIENCE, || {
        (scene.bmc.seen().starts == 4 && scene.state() == "deploy-wait").then_some(())
    });
    says_up(&scene.up());
    scene.cluster.wait_for_status(second, "success");
    assert_eq!(scene.state(), "healthy");
}

#[test]
fn a_controller_that_lies_or_a_machine_that_is_given_up_has_its_reason() {
    let scene = Scene::begin();
    scene.bmc.fail(Faults { nonsense: Some("<html>"), ..Faults::default() });
    let failed = scene.gnt("machine deploy SN1 --image debian --yes");
    assert!(failed.failed(1).contains("nonsense"), "{failed:?}");
    let row = scene.row();
    assert_eq!(row["state"], "deploy-failed");
    assert!(row["state_reason"].as_str().unwrap().contains("nonsense"), "{row}");

    scene.bmc.fail(Faults { hangs: true, ..Faults::default() });
    let stuck = scene.submitted("machine deploy SN1 --image debian --yes --submit");
    scene.wait_for("deploying");
    let _killed = scene.gnt(&format!("job cancel --kill --yes-do-it {stuck}")).ok();
    scene.wait_for("deploy-failed");
    let why = scene.row()["state_reason"].as_str().unwrap().to_owned();
    assert!(why.contains(&format!("job {stuck} ended before")), "{why}");

    // An old system's sign of life while a job prepares its restart is no sign of the new system.
    scene.bmc.fail(Faults::default());
    let _well = scene.gnt("machine deploy SN1 --image debian --yes").ok();
    scene.plays(Plays::Silent);
    let _cycled = scene.gnt("machine power cycle SN1 --yes").ok();
    scene.bmc.fail(Faults { hangs: true, ..Faults::default() });
    let stuck = scene.submitted("machine reboot SN1 --yes --submit");
    scene.wait_for("rebooting");
    let seen = || scene.gnt("machine list --json -o seen SN1").json()[0]["seen"].clone();
    let before = seen();
    says_up(&scene.up());
    wait_for("the master to hear it", PATIENCE, || (seen() != before).then_some(()));
    assert_eq!(scene.state(), "rebooting");
    let _killed = scene.gnt(&format!("job cancel --kill --yes-do-it {stuck}")).ok();
    scene.wait_for("unhealthy");

    scene.bmc.fail(Faults::default());
    let job = scene.deploys_silently();
    let _given_up = scene.gnt("machine abort SN1").ok();
    scene.cluster.wait_for_status(job, "error");
    assert_eq!(scene.state(), "deploy-failed");
    scene.plays(Plays::Boots);
    let _at_last = scene.gnt("machine deploy SN1 --image debian --yes").ok();
    assert_eq!(scene.state(), "healthy");
}

#[test]
fn a_master_that_dies_leaves_no_machine_between_two_states() {
    let scene = Scene::begin();
    // While it prepares the machine.
    scene.bmc.fail(Faults { hangs: true, ..Faults::default() });
    let prepared = scene.submitted("machine deploy SN1 --image debian --yes --submit");
    scene.wait_for("deploying");
    scene.cluster.kill_master();
    scene.bmc.fail(Faults::default());
    scene.cluster.start_master();
    assert_eq!(scene.cluster.status(prepared), "error");
    scene.wait_for("deploy-failed");
    // While it waits for the machine, which speaks when there is no master.
    let awaited = scene.deploys_silently();
    scene.cluster.kill_master();
    says_up(&scene.up());
    scene.cluster.start_master();
    assert_eq!(scene.cluster.status(awaited), "error");
    scene.wait_for("healthy");
    scene.plays(Plays::Boots);
    let _again = scene.gnt("machine deploy SN1 --image debian --yes").ok();
    assert_eq!(scene.state(), "healthy");
}

/// Requests to the controller after which the master is killed: more than a deployment makes.
const POINTS: u32 = 20;

#[test]
fn a_master_killed_at_any_point_of_a_deployment_leaves_a_named_state() {
    let scene = Scene::begin();
    let requests = || scene.bmc.seen().requests;
    for point in 0..POINTS {
        let before = requests();
        let job = scene.submitted("machine deploy SN1 --image debian --yes --submit");
        let is_over = wait_for("the point", PATIENCE, || {
            let is_over = scene.cluster.status(job) == "success";
            (is_over || requests() >= before + point).then_some(is_over)
        });
        scene.cluster.kill_master();
        scene.cluster.start_master();
        wait_for(&format!("an end of what died after {point} requests"), PATIENCE, || {
            // A job that had not begun begins anew.
            let has_ended = matches!(scene.cluster.status(job).as_str(), "error" | "success");
            let state = scene.state();
            let is_named = matches!(state.as_str(), "healthy" | "deploy-failed" | "enrolled");
            (has_ended && is_named).then_some(())
        });
        if is_over {
            break;
        }
    }
    let _at_last = scene.gnt("machine deploy SN1 --image debian --yes").ok();
    assert_eq!(scene.state(), "healthy");
}

#[test]
fn a_rescue_a_retirement_and_what_somebody_switches_by_hand() {
    let scene = Scene::begin();
    let which = scene.gnt("machine rescue SN1 --yes");
    assert!(which.failed(1).contains("rescue"), "{which:?}");
    let _set = scene.gnt("cluster modify --ramdisk-image ramdisk").ok();
    let _first = scene.gnt("machine deploy SN1 --image debian/12 --yes").ok();
    let _rescued = scene.gnt("machine rescue SN1 --yes").ok();
    assert_eq!(scene.state(), "rescued");
    let (script, _) = curl(&[&scene.url]);
    assert!(script.contains("boots ramdisk/1"), "{script}");
    assert_eq!(
        scene.row()["document"]["boot"],
        json!({"image": {"name": "debian", "version": "12"}})
    );
    let _back = scene.gnt("machine unrescue SN1 --yes").ok();
    let (script, _) = curl(&[&scene.url]);
    assert!(script.contains("boots debian/12"), "{script}");
    assert_eq!(scene.state(), "healthy");

    let old = scene.up();
    let by_hand = scene.submitted("machine reboot SN1 --manual-power --yes --submit");
    scene.wait_for("rebooting");
    wait_for("the hint", PATIENCE, || {
        let log = scene.gnt(&format!("job info {by_hand}"));
        log.ok().contains("Switch the power of SN1").then_some(())
    });
    // Until somebody does, its old system says that it runs.
    let seen = || scene.gnt("machine list --json -o seen SN1").json()[0]["seen"].clone();
    for old in [&old, &scene.up_at_any_time()] {
        let before = seen();
        says_up(old);
        wait_for("the master to hear it", PATIENCE, || (seen() != before).then_some(()));
        assert_eq!(scene.state(), "rebooting");
    }
    says_up(&scene.up());
    scene.cluster.wait_for_status(by_hand, "success");
    let on = scene.gnt("machine retire SN1 --yes");
    assert!(on.ok().contains("its system runs until `gnt machine power off SN1`"), "{on:?}");
    assert_eq!((scene.state().as_str(), scene.bmc.seen().power), ("retired", PowerState::On));
    let _again = scene.gnt("machine set-state SN1 uninitialized").ok();
    let _off = scene.gnt("machine retire SN1 --power-off --yes").ok();
    assert_eq!((scene.state().as_str(), scene.bmc.seen().power), ("retired", PowerState::Off));
}

#[test]
fn a_rack_is_deployed_in_steps_that_end_with_a_failure() {
    let scene = Scene::begin();
    let _more = scene.gnt("machine add --serial SN2 --rack 0 --role worker").ok();
    let _more = scene.gnt("machine add --serial SN3 --rack 0 --role worker").ok();
    let ended = scene.gnt("machine deploy --rack 0 --image debian --parallel 1 --yes");
    let said = ended.failed(1);
    assert!(said.contains("Machine SN2 has no known"), "{ended:?}");
    assert!(said.contains("1 were not begun") && said.contains("--resume"), "{ended:?}");
    let rows = scene.gnt("machine list --json -o serial,state").json();
    let states: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["state"].clone()).collect();
    assert_eq!(states, ["healthy", "enrolled", "enrolled"]);
    let job = said.split("--resume ").nth(1).unwrap().split_whitespace().next().unwrap();
    let ended = scene
        .gnt(&format!("machine deploy --rack 0 --image debian --parallel 1 --yes --resume {job}"));
    assert!(ended.failed(1).contains("left out: SN1"), "{ended:?}");
    assert_eq!(scene.bmc.seen().starts, 1);
    let chain = scene.gnt("machine enlist SN1 --image debian --yes").ok().to_owned();
    let listed = scene.gnt("job list --no-headers -o summary,status").ok().to_owned();
    assert!(listed.contains("MACHINE_INSPECT(SN1)"), "{chain}{listed}");
    assert_eq!((scene.state(), scene.bmc.seen().starts), ("healthy".to_owned(), 2));
}

#[test]
fn a_machine_that_falls_silent_is_unreachable_until_its_next_sign() {
    let scene = Scene::begin();
    let refused = scene.gnt("cluster modify --silence-deadline 59");
    assert!(refused.failed(1).contains("at least 60 s"), "{refused:?}");
    let _soon = scene.gnt("cluster modify --silence-deadline 60").ok();
    let _first = scene.gnt("machine deploy SN1 --image debian/12 --yes").ok();
    let up = scene.up();
    wait_for("a second sign of life", PATIENCE, || {
        says_up(&up);
        let row = scene.gnt("machine list --json -o sign_every SN1").json();
        row[0]["sign_every"].as_u64()
    });
    let jobs = || scene.gnt("job list --no-headers -o id,summary,status").ok().to_owned();
    scene.wait_for("unreachable");
    let why = scene.row()["state_reason"].as_str().unwrap().to_owned();
    assert!(why.starts_with("no sign of life since 20"), "{why}");
    assert!(jobs().contains("MACHINE_EXPIRE(SN1)"), "{}", jobs());
    wait_for("the alarm", PATIENCE, || {
        // Its exit status tells of alarms.
        let status = scene.gnt("cluster status --json").stdout;
        status.contains("silent machine SN1").then_some(())
    });
    wait_for("its return", PATIENCE, || {
        says_up(&up);
        (scene.state() == "healthy").then_some(())
    });
    // Its sign of life before the power switch counts for nothing, and it has the time to boot.
    scene.plays(Plays::Silent);
    let _cycled = scene.gnt("machine power cycle SN1 --yes").ok();
    assert_eq!(scene.state(), "healthy");
}
