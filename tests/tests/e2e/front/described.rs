//! Requests that Schemathesis makes of the front door's own description: right ones and wrong ones, for every
//! method of every path. Each gets an answer of the description, and none is a fault of the program.

use std::process::Command;

use tests::run::run;

use super::Front;

const SKIPPED: &str = "every_route_answers_as_it_is_described";
/// Seed of the requests, so that a fault is found again.
const SEED: &str = "1";
/// Requests of each kind for a method of a path: all of them take half a minute.
const EXAMPLES: &str = "12";
/// A server's fault, a status, a type or a body that is not described.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance";
/// Methods that a path does not have get Ganeti's 501, which is meant. The machine is one that is there.
const SETTINGS: &str = "[phases.coverage]\nunexpected-methods = []\n\n\
                        [parameters]\n\"path.serial\" = \"SN1\"\n";

#[test]
fn every_route_answers_as_it_is_described() {
    let Some(program) = xtask::needs::find("schemathesis") else {
        let why = "Schemathesis is missing; `cargo xtask test install` has pip install it";
        return tests::skip(SKIPPED, why);
    };
    let front = Front::begin();
    let rules = ["-X", "PUT", "-d", tests::cluster::IPAM, "/api/v1/config/ipam"];
    assert_eq!(front.answer("alice", &rules).0, 200);
    let machine = r#"[{"serial": "SN1", "role": "worker"}]"#;
    assert_eq!(front.answer("alice", &["-d", machine, "/api/v1/machines"]).0, 201);
    // From a file: what it is read from by HTTP is not asked for again.
    let (_status, description) = front.answer("nobody", &["/openapi.json"]);
    let description = front.cluster.write("openapi.json", &description);
    let settings = front.cluster.write("schemathesis.toml", SETTINGS);
    let mut ask = Command::new(program);
    ask.arg("--no-color").arg("--config-file").arg(&settings).arg("run");
    ask.arg(description).args(["--url", &format!("https://{}", front.authority())]);
    ask.arg("--tls-verify").arg(front.door.layout().ca_certificate());
    ask.args(["--auth", "root:top", "--checks", CHECKS, "--phases", "coverage,fuzzing"]);
    ask.args(["--seed", SEED, "--max-examples", EXAMPLES, "--no-shrink", "--continue-on-failure"]);
    ask.args(["--request-timeout", "60", "--warnings", "off"]);
    // It keeps what it found before, which would make another run of this one.
    ask.current_dir(settings.parent().expect("a directory"));
    let told = run(ask);
    assert!(told.status.success(), "{}", told.stdout);
    let all = format!("Tested: {}", rapi::front::routes().described().len());
    assert!(told.stdout.contains(&all), "{}", told.stdout);
}
