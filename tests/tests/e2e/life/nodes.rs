//! From a machine of the inventory to a node of the cluster, by one chain of jobs. The machine fetches
//! its configuration with the token, and runs the real agent.

use model::bmc::PowerState;
use serde_json::{Value, json};
use tests::cluster::{Host, PATIENCE};
use tests::run::wait_for;

use super::{Plays, Scene, curl, says_up};

/// A configuration that writes the token to a file.
fn configuration() -> String {
    json!({
        "ignition": { "version": "3.3.0" },
        "storage": { "files": [
            { "path": "/etc/gantry/enrol-token", "mode": 384, "contents": { "source": "data:,{{ EnrolToken }}%0A" } },
        ] },
    })
    .to_string()
}

impl Scene {
    fn with_template() -> Self {
        let scene = Self::begin();
        let file = scene.cluster.write("node.ign", &configuration());
        let _kept =
            scene.gnt(&format!("ignition-template upload worker 1.0.0 {}", file.display())).ok();
        scene.plays(Plays::Silent);
        scene
    }

    fn ignition(&self) -> String {
        self.url.replace("/boot/ipxe/SN1", "/boot/ignitions/SN1/1.0.0")
    }

    /// The configuration as the machine at an address gets it.
    fn fetched(&self, address: &str) -> (String, String) {
        curl(&["--interface", address, &self.ignition()])
    }

    /// Submits a chain of jobs, and gives their numbers once the machine has power.
    fn chain(&self, line: &str) -> Vec<u64> {
        let starts = self.bmc.seen().starts;
        let told = self.gnt(&format!("{line} --yes --submit --print-jobid"));
        let jobs = told.ok().lines().map(|id| id.parse().unwrap()).collect();
        wait_for("power", PATIENCE, || {
            let seen = self.bmc.seen();
            (seen.power == PowerState::On && seen.starts > starts).then_some(())
        });
        self.wait_for("deploy-wait");
        jobs
    }

    /// The work of its configuration on a machine: it writes the token to a file.
    fn configures(&self, host: &Host) -> String {
        let (text, status) = self.fetched(&host.address.to_string());
        assert_eq!(status, "200", "{text}");
        let document: Value = serde_json::from_str(&text).unwrap();
        let source = document["storage"]["files"][0]["contents"]["source"].as_str().unwrap();
        let token = source.strip_prefix("data:,").unwrap().strip_suffix("%0A").unwrap();
        self.keeps(host, token);
        token.to_owned()
    }

    fn keeps(&self, host: &Host, token: &str) {
        let file = host.root.join("enrol-token");
        stdx::atomic::write(&file, format!("{token}\n").as_bytes(), 0o600).unwrap();
    }

    /// Starts the agent of a machine, which waits for the master.
    fn enrols(&self, host: &Host) {
        let mut noded = self.cluster.noded(host);
        noded.args(["enroll", "--token-file"]).arg(host.root.join("enrol-token"));
        self.cluster.start(&host.name, noded);
    }

    fn up_from(&self, host: &Host) {
        let (text, status) =
            curl(&["--interface", &host.address.to_string(), "-X", "POST", &self.up()]);
        assert_eq!(status, "204", "{text}");
    }

    fn why(&self, job: u64) -> String {
        self.cluster.job(job, "opresult")["opresult"].to_string()
    }

    fn node(&self, fields: &str) -> Value {
        self.gnt(&format!("node list --json -o {fields} sn1.example")).json()[0].clone()
    }
}

#[test]
fn a_machine_becomes_a_node_by_one_chain_of_jobs() {
    let scene = Scene::with_template();
    let host = scene.cluster.host("n2");
    let refused = scene.gnt("machine deploy SN1 --image debian --yes");
    assert!(refused.failed(1).contains("give --node"), "{refused:?}");
    let (why, status) = scene.fetched(&host.address.to_string());
    assert!(status == "409" && why.contains("not about to become a node"), "{status} {why}");

    let enlist = "machine enlist SN1 --image debian --node --domain example";
    let jobs = scene.chain(enlist);
    let [inspected, deployed, added] = jobs[..] else { panic!("{jobs:?}") };
    let rows = scene.gnt("job list --json -o id,depends,summary").json();
    let row = |job| rows.as_array().unwrap().iter().find(|row| row["id"] == job).unwrap().clone();
    assert_eq!(row(deployed)["depends"], json!([inspected]));
    assert_eq!(row(added)["depends"], json!([deployed]));
    assert_eq!(row(added)["summary"], json!(["NODE_ADD(sn1.example)"]));

    let token = scene.configures(&host);
    // A request from elsewhere gets nothing, and the machine itself the same again.
    let stranger = scene.cluster.host("n3");
    let (why, status) = scene.fetched(&stranger.address.to_string());
    assert!(
        status == "409" && why.contains(&format!("told to {}", host.address)),
        "{status} {why}"
    );
    assert_eq!(scene.configures(&host), token);

    scene.up_from(&host);
    scene.cluster.wait_for_status(deployed, "success");
    wait_for("the master to wait for it", PATIENCE, || {
        scene.cluster.job(added, "oplog").to_string().contains("noded enroll").then_some(())
    });
    scene.enrols(&host);
    scene.cluster.wait_for_status(added, "success");
    scene.cluster.wait_for_facts("sn1.example");
    let node = scene.node("machine,role,master_capable,pip");
    assert_eq!(node["machine"], "SN1");
    assert_eq!((&node["role"], &node["master_capable"]), (&json!("R"), &json!(false)), "{node}");
    assert_eq!(node["pip"], host.address.to_string());
    assert!(scene.gnt("machine info SN1").ok().contains("sn1.example"));
    assert!(scene.gnt("node info sn1.example").ok().contains("machine: SN1"));
    assert!(!host.root.join("enrol-token").exists(), "a used token is removed");

    // Nothing that is kept or told has the token.
    let rendered = scene.gnt("ignition render SN1");
    assert!(rendered.ok().contains("gantry-enrol-token"), "{rendered:?}");
    for id in jobs {
        let job = scene.cluster.job(id, "ops,oplog,opresult").to_string();
        assert!(!job.contains(&token), "{job}");
    }
    assert!(!scene.cluster.master.masterd_log().contains(&token));

    // It works once, and the machine stays as long as it is a node.
    let again = scene.gnt("node add sn1.example --machine SN1");
    assert!(again.failed(1).contains("was used"), "{again:?}");
    for (line, why) in [
        ("machine retire SN1 --yes", "first `gnt node remove sn1.example`"),
        ("machine set-state SN1 retiring", "first `gnt node remove sn1.example`"),
        ("machine remove --in-service SN1 --yes", "first `gnt node remove sn1.example`"),
        ("machine deploy SN1 --yes", "which would be lost"),
    ] {
        let refused = scene.gnt(line);
        assert!(refused.failed(1).contains(why), "{line}: {refused:?}");
    }
}

#[test]
fn a_node_that_is_deployed_anew_is_added_again_by_its_own_token_alone() {
    let scene = Scene::with_template();
    let [host, later] = ["n2", "n3"].map(|short| scene.cluster.host(short));
    let deploy = "machine deploy SN1 --image debian --node --domain example";
    let jobs = scene.chain(deploy);
    let earlier = scene.configures(&host);
    scene.enrols(&host);
    scene.up_from(&host);
    scene.cluster.wait_for_status(jobs[1], "success");
    let id = scene.node("uuid,fingerprint");
    scene.cluster.kill_agent(&host);

    // Its new system is at the same address, on an empty disk.
    let host = Host { address: host.address, ..later };
    let jobs = scene.chain("machine deploy SN1 --node");
    let token = scene.configures(&host);
    assert_ne!(token, earlier);
    scene.keeps(&host, &earlier);
    scene.enrols(&host);
    scene.up_from(&host);
    scene.cluster.wait_for_status(jobs[1], "error");
    assert!(scene.why(jobs[1]).contains("with another token"), "{}", scene.why(jobs[1]));
    scene.cluster.kill_agent(&host);
    // The job that adds it can be given again.
    scene.keeps(&host, &token);
    scene.enrols(&host);
    let _added = scene.gnt("node add sn1.example --machine SN1").ok();
    scene.cluster.wait_for_facts("sn1.example");
    let now = scene.node("uuid,fingerprint,machine");
    assert_eq!((&now["uuid"], &now["machine"]), (&id["uuid"], &json!("SN1")));
    assert_ne!(now["fingerprint"], id["fingerprint"]);

    // The token ends with its power cycle.
    let jobs = scene.chain("machine deploy SN1 --node");
    let _token = scene.configures(&host);
    let _cycled = scene.gnt("machine power cycle SN1 --yes").ok();
    let (why, status) = scene.fetched(&host.address.to_string());
    assert!(status == "409" && why.contains("not about to become a node"), "{status} {why}");
    says_up(&scene.up());
    scene.cluster.wait_for_status(jobs[1], "error");
    assert!(scene.why(jobs[1]).contains("has no token"), "{}", scene.why(jobs[1]));
}
