//! The same by the front door: the master answers, and what an agent of the rack told counts there.

use bmc::simulated::{Faults, PASSWORD, Simulated, USER};
use luxi::method::SubmitJob;
use model::OpInput;
use model::layout::RAPI_PORT;
use serde_json::{Value, json};
use tests::cluster::{Cluster, PATIENCE};
use tests::run::wait_for;

use super::python_agent::{self, Asks};
use super::{MAC, asked};
use crate::rack::rack;

/// A rack with a machine, and a front door.
struct Door {
    cluster: Cluster,
}

impl Door {
    fn begin(mac: &str) -> Self {
        let cluster = rack();
        let file = cluster.write("vmlinuz", &xtask::images::kernel("ramdisk"));
        let _kept =
            cluster.gnt(&format!("image upload ramdisk/1 --kernel {}", file.display())).ok();
        let _set = cluster.gnt("cluster modify --ramdisk-image ramdisk").ok();
        let add = format!("machine add --serial SN1 --rack 0 --role worker --mac {mac}");
        let _added = cluster.gnt(&add).ok();
        let door = Self { cluster };
        door.open(&[]);
        door
    }

    fn open(&self, options: &[&str]) {
        let door = &self.cluster.master;
        let mut command = self.cluster.program("rapi");
        command.arg("--root").arg(&door.root);
        command.args(["--address", &door.address.to_string()]).args(options);
        self.cluster.start("rapi", command);
        let port = (door.address, RAPI_PORT);
        wait_for("the front door", PATIENCE, || std::net::TcpStream::connect(port).ok());
    }

    fn url(&self) -> String {
        format!("https://{}:{RAPI_PORT}", self.cluster.master.address)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut curl = std::process::Command::new("curl");
        curl.arg("--cacert").arg(self.cluster.master.layout().ca_certificate());
        asked(curl, (method, &format!("{}{path}", self.url())), "1.72", body)
    }

    /// The same of the agent of the rack.
    fn ask_agent(&self, path: &str) -> (u16, Value) {
        let address = self.cluster.boot_address(&self.cluster.master);
        let url = format!("http://{address}:10080{path}");
        asked(std::process::Command::new("curl"), ("GET", &url), "1.72", None)
    }

    /// The job that has the machine do something, once it waits for its ramdisk.
    fn begins(&self, what: &str) -> u64 {
        let line = format!("machine {what} SN1 --manual-power --yes --submit --print-jobid");
        let job = self.cluster.gnt(&line).ok().trim().parse().unwrap();
        wait_for(what, PATIENCE, || self.state().ends_with("-wait").then_some(()));
        job
    }

    fn state(&self) -> String {
        let rows = self.cluster.gnt("machine list --json -o state SN1").json();
        rows[0]["state"].as_str().unwrap().to_owned()
    }

    /// The store's knowledge of the ramdisk.
    fn heard(&self) -> Value {
        let path = self.cluster.master.layout().data().join("power-cycles/SN1");
        let text = std::fs::read(path).unwrap_or_default();
        let cycle: Value = serde_json::from_slice(&text).unwrap_or_default();
        cycle["ramdisk"].clone()
    }
}

fn token(answer: &(u16, Value)) -> &str {
    assert_eq!(answer.0, 200, "{answer:?}");
    answer.1["config"]["agent_token"].as_str().unwrap()
}

#[test]
fn the_front_door_hears_a_ramdisk_whose_token_is_told_once() {
    let door = Door::begin(MAC);
    let lookup = format!("/v1/lookup?addresses={MAC}");
    assert_eq!(door.ask("GET", "/", None).1["default_version"]["version"], "1.115");
    assert_eq!(door.ask("GET", "/v1/", None).1["id"], "v1");
    assert_eq!(door.ask("GET", &lookup, None).0, 404, "no ramdisk is expected");

    let job = door.begins("clean");
    let told = wait_for("the agent's document", PATIENCE, || {
        Some(door.ask_agent(&lookup)).filter(|told| told.0 == 200)
    });
    assert_eq!(token(&told).len(), 43);
    wait_for("the master to hear it", PATIENCE, || {
        (!door.heard()["token_told"].is_null()).then_some(())
    });
    assert_eq!(token(&door.ask("GET", &lookup, None)), "******");

    let path = format!("/v1/heartbeat/{}", told.1["node"]["uuid"].as_str().unwrap());
    let beat = |token: &str, url: &str, status: &str| {
        let body = json!({
            "callback_url": url, "agent_token": token, "agent_version": "13.0.0",
            "agent_status": status,
        });
        door.ask("POST", &path, Some(&body)).0
    };
    let url = "https://127.0.0.1:9999";
    assert_eq!(beat("guessed", url, "start"), 400);
    assert_eq!(beat(token(&told), url, "start"), 202);
    assert_eq!(beat(token(&told), "https://127.0.0.2:9999", "start"), 400);
    // The file follows the journal.
    wait_for("the file of it", PATIENCE, || {
        (door.heard()["agent"]["callback_url"] == url).then_some(())
    });
    while_a_job_has_the_machine(&door, || {
        assert_eq!(beat(token(&told), url, "end"), 409);
        assert_eq!(beat(token(&told), url, "start"), 202, "it is not forgotten");
        let gone = beat(token(&told), "https://127.0.0.2:9999", "start");
        assert_eq!(gone, 400, "nor is its address");
    });
    assert_eq!(beat(token(&told), url, "end"), 202);
    door.cluster.wait_for_status(job, "success");
    assert_eq!(door.state(), "available");
    assert_eq!(door.ask("GET", &lookup, None).0, 404);

    // In the next power cycle the front door tells it, and the agent knows.
    let _again = door.begins("clean");
    let first = token(&door.ask("GET", &lookup, None)).to_owned();
    assert_eq!(first.len(), 43);
    assert_ne!(first, token(&told));
    // The job ends when the agent has the newest document.
    let push = OpInput::parse(r#"{"OP_ID": "OP_RACK_PUSH", "racks": [0]}"#).unwrap();
    let pushed = door.cluster.client().call(&SubmitJob { ops: vec![push] }).unwrap();
    door.cluster.wait_for_status(pushed.0, "success");
    assert_eq!(token(&door.ask_agent(&lookup)), "******");

    door.cluster.stop("rapi");
    door.open(&["--no-ramdisk-endpoints"]);
    let (status, told) = door.ask("GET", &lookup, None);
    assert_eq!(status, 403);
    assert!(told["error_message"].as_str().unwrap().contains("faultstring"), "{told}");
    assert_eq!(door.ask("GET", "/", None), (200, Value::Null));
}

/// Does something while a job waits for a controller that does not answer.
fn while_a_job_has_the_machine(door: &Door, what: impl FnOnce()) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bmc = runtime.block_on(Simulated::start("SN1", false, None)).unwrap();
    let password = door.cluster.write("bmc.password", &format!("{PASSWORD}\n"));
    let set = format!(
        "machine bmc set SN1 --url {} --user {USER} --password-file {}",
        bmc.url,
        password.display()
    );
    let _known = door.cluster.gnt(&set).ok();
    bmc.fail(Faults { hangs: true, ..Faults::default() });
    let line = "machine health SN1 --submit --print-jobid";
    let job: u64 = door.cluster.gnt(line).ok().trim().parse().unwrap();
    door.cluster.wait_for_status(job, "running");
    what();
    let _killed = door.cluster.gnt(&format!("job cancel --kill --yes-do-it {job}")).ok();
    door.cluster.wait_for_status(job, "error");
}

#[test]
fn ironic_python_agent_works_with_the_front_door() {
    let Some((card, mac)) = python_agent::card() else {
        return tests::skip("ironic-python-agent", "this machine has no network card");
    };
    let door = Door::begin(&mac);
    let inspection = door.begins("inspect --ramdisk");
    let asks = Asks {
        dir: &door.cluster.dir(),
        address: door.cluster.master.address.into(),
        url: &door.url(),
        authority: Some(door.cluster.master.layout().ca_certificate()),
    };
    let Some(mut agent) = python_agent::start(&asks, &card) else { return };
    door.cluster.wait_for_status(inspection, "success");
    let found = door.cluster.gnt("machine info SN1");
    assert!(found.ok().contains("D1"), "{found:?}");
    // It looks itself up until somebody expects it.
    let _cleaning = door.begins("clean");
    let heard = wait_for("its heartbeat", PATIENCE, || {
        assert!(!agent.has_ended(), "it ended");
        Some(door.heard()["agent"].clone()).filter(Value::is_object)
    });
    assert_eq!(heard["version"], agent.version(), "{heard}");
    assert!(heard["verify_ca"].as_str().unwrap().contains("BEGIN CERTIFICATE"), "{heard}");
    assert!(agent.log().contains("trying the next URL"), "{}", agent.log());
    // It lives on while the front door is another one.
    let beats = agent.heartbeats();
    door.cluster.kill("rapi");
    door.open(&[]);
    wait_for("a heartbeat after that", PATIENCE, || (agent.heartbeats() > beats).then_some(()));
    assert!(!agent.log().contains("FATAL"), "{}", agent.log());
}
