use model::machine::life::State;
use model::node::NodeRole;
use model::power_cycle::{PowerCycle, Ramdisk};
use model::rack::Lease;
use model::vault::VaultKeys;
use serde_json::{Value, json};

use super::*;
use crate::config::vault::new_key;
use crate::machines::machine::register;
use crate::machines::power_cycle::new_token;
use crate::testing::{NOW, config, node, spec};

const MACS: [&str; 2] = ["52:54:00:00:00:01", "52:54:00:00:00:02"];
const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 69, 0, 40));

/// S1 and S2 are cleaned.
fn cleaned() -> Config {
    let mut agent = node("n2.example", NodeRole::Candidate);
    agent.rack = Some(0);
    let mut config = config(&[agent]);
    config.apply([ConfigChange::Vault(VaultKeys::first(new_key().unwrap()))]);
    let specs = ["S1", "S2"].map(|serial| spec(serial, 0, "worker"));
    let mut machines = register(&config, &specs, NOW).unwrap();
    let mut changes = Vec::new();
    for (machine, mac) in machines.iter_mut().zip(MACS) {
        machine.mac = vec![mac.parse().unwrap()];
        machine.life.state = State::CleanWait;
        changes.push(ConfigChange::PowerCycle(PowerCycle {
            serial: machine.serial.clone(),
            rack: 0,
            number: 1,
            began: NOW,
            sealed: new_token(&config, &machine.serial).unwrap(),
            ramdisk: Ramdisk::default(),
            switches_on: None,
            left_off: None,
            enrolment: None,
        }));
    }
    changes.extend(machines.into_iter().map(ConfigChange::Machine));
    config.apply(changes);
    config
}

fn asked(method: &str, target: &str, body: &str) -> Asked {
    let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
    let (version, base) = (Some("1.72"), "https://n1.example:5080");
    let body = body.as_bytes();
    ironic::read(&ironic::Request { method, path, query, version, body, base }).unwrap()
}

fn ask(config: &mut Config, asked: &Asked, seconds: i64, locked: bool) -> (u16, Value) {
    let now = NOW.plus_seconds(seconds);
    let (changes, answer) = decided(config, (asked, FROM), now, |_serial| locked);
    config.apply(changes);
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

fn look_up() -> Asked {
    asked("GET", &format!("/v1/lookup?addresses={}", MACS[0]), "")
}

#[test]
fn a_token_is_told_once_by_all_who_are_asked() {
    let mut config = cleaned();
    let token = |told: (u16, Value)| told.1["config"]["agent_token"].as_str().unwrap().to_owned();
    // While a job has the machine, nobody is told it.
    assert_eq!(ask(&mut config, &look_up(), 1, true).0, 409);
    let first = token(ask(&mut config, &look_up(), 2, false));
    assert_eq!(first.len(), 43);
    assert_eq!(token(ask(&mut config, &look_up(), 3, false)), "******");
    let serial: Serial = "S1".parse().unwrap();
    let heard = |config: &Config| config.power_cycles.get(&serial).unwrap().ramdisk.clone();
    let told = heard(&config).token_told;
    assert_eq!(told, Some(NOW.plus_seconds(2)));
    // An agent tells that the machine boots anew, by a clock that is behind.
    let booted = ironic::booting(&heard(&config), NOW);
    let boots = Observation::Ramdisk {
        rack: 0,
        serial: serial.clone(),
        registered: None,
        cycle: 1,
        heard: booted,
    };
    let changes = observe::heard(&config, NOW, boots);
    config.apply(changes);
    let second = token(ask(&mut config, &look_up(), 4, false));
    assert!(second.len() > 43 && second != first, "each boot has its own");
    assert_eq!(token(ask(&mut config, &look_up(), 5, false)), "******");
}

#[test]
fn heartbeats_end_what_waits_for_them_unless_a_job_has_the_machine() {
    let mut config = cleaned();
    let (_, told) = ask(&mut config, &look_up(), 1, false);
    let beat = |status: &str| {
        let body = json!({
            "callback_url": "https://10.69.0.40:9999", "agent_version": "13.0.0",
            "agent_token": told["config"]["agent_token"], "agent_status": status,
        });
        asked("POST", "/v1/heartbeat/S1", &body.to_string())
    };
    assert_eq!(ask(&mut config, &beat("start"), 2, false).0, 202);
    // It is not forgotten meanwhile: what it said before is no news.
    let (status, told) = ask(&mut config, &beat("end"), 3, true);
    let why: Value = serde_json::from_str(told["error_message"].as_str().unwrap()).unwrap();
    assert_eq!((status, &why["faultcode"]), (409, &json!("Client")), "{told}");
    assert!(why["faultstring"].as_str().unwrap().contains("is locked by host"), "{why}");
    assert_eq!(ask(&mut config, &beat("start"), 4, true).0, 202);
    let state = |config: &Config| config.machine("S1").unwrap().life.state;
    assert_eq!(state(&config), State::CleanWait);
    assert_eq!(ask(&mut config, &beat("end"), 5, false).0, 202);
    assert_eq!(state(&config), State::Available);
    assert_eq!(ask(&mut config, &beat("end"), 6, false).0, 404, "no ramdisk is expected");
}

#[test]
fn nobody_asks_for_the_machine_of_another() {
    let mut config = cleaned();
    let lease = |mac: &str, seconds| {
        ConfigChange::Lease(Lease {
            rack: 0,
            mac: mac.parse().unwrap(),
            address: [10, 69, 0, 40].into(),
            state: LeaseState::Bound,
            until: NOW.plus_seconds(seconds),
        })
    };
    config.apply([lease(MACS[1], 60)]);
    assert_eq!(ask(&mut config, &look_up(), 1, false).0, 404);
    let by_uuid = node_uuid(None, &"S1".parse().unwrap());
    let by_uuid = asked("GET", &format!("/v1/lookup?node_uuid={by_uuid}"), "");
    assert_eq!(ask(&mut config, &by_uuid, 1, false).0, 404);
    assert_eq!(ask(&mut config, &by_uuid, 61, false).0, 200, "the lease has ended");
    let both = format!("/v1/lookup?addresses={},{}", MACS[0], MACS[1]);
    assert_eq!(ask(&mut config, &asked("GET", &both, ""), 62, false).0, 404);
}
