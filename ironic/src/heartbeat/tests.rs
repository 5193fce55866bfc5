use model::power_cycle::Ramdisk;
use model::rack::Observation;
use serde_json::json;

use super::*;
use crate::testing::{MAC, TOKEN, UUID, World, at, why};

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

fn path() -> String {
    format!("/v1/heartbeat/{UUID}")
}

fn body() -> Value {
    json!({
        "callback_url": "https://10.69.0.40:9999", "agent_token": TOKEN, "agent_version": "13.0.0",
        "agent_verify_ca": PEM,
    })
}

/// The usual body with one field changed; without it where the value is nothing.
fn with(name: &str, value: Option<Value>) -> String {
    let mut body = body();
    let fields = body.as_object_mut().unwrap();
    match value {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
    body.to_string()
}

fn heard(outcome: &Outcome) -> (Ramdisk, bool) {
    assert_eq!((outcome.answer.status, &*outcome.answer.body), (202, ""), "{outcome:?}");
    let Effect::Heard { observation, is_vital } = &outcome.effect else { panic!("{outcome:?}") };
    let Observation::Ramdisk { heard, .. } = &**observation else { panic!("{outcome:?}") };
    (heard.clone(), *is_vital)
}

#[test]
fn what_is_refused() {
    for (name, value, version, told) in [
        ("callback_url", None, "1.68", "Missing mandatory argument: callback_url"),
        ("callback_url", Some(json!(null)), "1.68", "callback_url"),
        ("callback_url", Some(json!("")), "1.68", "callback_url"),
        ("callback_url", Some(json!(5)), "1.68", "must be a text"),
        ("callback_url", Some(json!("ftp://10.69.0.40")), "1.68", "http"),
        ("callback_url", Some(json!("10.69.0.40:9999")), "1.68", "http"),
        ("callback_url", Some(json!("http:///x")), "1.68", "http"),
        ("callback_url", Some(json!("http://user:word@10.69.0.40")), "1.68", "http"),
        ("callback_url", Some(json!("http://10.69.0.40/\n")), "1.68", "http"),
        ("callback_url", Some(json!(format!("http://{}", "x".repeat(URL_MAX)))), "1.68", "long"),
        ("agent_token", None, "1.68", "token is required"),
        ("agent_token", Some(json!(null)), "1.68", "token is required"),
        ("agent_token", Some(json!("wrong")), "1.68", "Invalid or missing agent token"),
        ("agent_token", Some(json!("******")), "1.68", "Invalid or missing agent token"),
        ("agent_version", None, "1.68", "agent_version"),
        ("agent_verify_ca", Some(json!("x")), "1.68", "not a certificate"),
        ("agent_verify_ca", Some(json!([])), "1.68", "must be a text"),
        ("agent_verify_ca", Some(json!(PEM)), "1.67", "Unknown argument: \"agent_verify_ca\""),
        ("agent_status", Some(json!("end")), "1.68", "Unknown argument: \"agent_status\""),
        ("agent_status", Some(json!("done")), "1.72", "start, end or error"),
        ("agent_status_message", Some(json!("x")), "1.71", "Unknown argument"),
        ("junk", Some(json!(1)), "1.115", "Unknown argument: \"junk\""),
    ] {
        let outcome = World::new().post(&path(), version, &with(name, value.clone()), 1);
        assert_eq!(outcome.answer.status, 400, "{name} {value:?}");
        assert!(why(&outcome.answer).contains(told), "{name} {value:?}: {}", outcome.answer.body);
        assert_eq!(outcome.effect, Effect::Nothing);
    }
    for (text, told) in [("", "valid JSON"), ("[]", "an object"), ("{", "valid JSON")] {
        assert!(why(&World::new().post(&path(), "1.68", text, 1).answer).contains(told), "{text}");
    }
    for (version, told) in [("1.35", "agent_token"), ("1.61", "agent_token")] {
        let body = with("agent_verify_ca", None);
        let answer = World::new().post(&path(), version, &body, 1).answer;
        assert!(why(&answer).contains(told), "{version}: {}", answer.body);
    }
}

#[test]
fn which_machine_is_meant() {
    let body = body().to_string();
    for (ident, status) in [
        (UUID, 202),
        ("S1", 202),
        // Of S2, whose token is another one.
        ("S2", 400),
        ("S3", 404),
        ("S4", 404),
        ("00000000-0000-4000-8000-00000000000f", 404),
        ("", 400),
        ("%00", 400),
        ("a%20b", 400),
        ("a%2Fb", 400),
        ("SN-0001%23ABU", 400),
        ("a~b_c.d-e", 404),
    ] {
        let outcome = World::new().post(&format!("/v1/heartbeat/{ident}"), "1.68", &body, 1);
        assert_eq!(outcome.answer.status, status, "{ident}: {}", outcome.answer.body);
    }
    let mut world = World::new();
    world.origin = Some(("S1", Origin::AnotherMachine));
    assert_eq!(world.post(&path(), "1.68", &body, 1).answer.status, 404);
    // Its token shows who it is, whichever of its cards it uses.
    world.origin = Some(("S1", Origin::Elsewhere { card: None }));
    assert_eq!(world.post(&path(), "1.68", &body, 1).answer.status, 202);
}

/// The token of a boot ends with the next one, and who has it is seen.
#[test]
fn a_ramdisk_of_an_earlier_boot_is_heard_no_longer() {
    let mut world = World::new();
    let beat = |world: &mut World, boot: Option<i64>, seconds| {
        let token = world.token(boot.map(at));
        let body = with("agent_token", Some(json!(token)));
        let Outcome { answer, effect } = world.post(&path(), "1.68", &body, seconds);
        (answer.status, matches!(effect, Effect::Outlived(serial) if serial.as_str() == "S1"))
    };
    assert_eq!(beat(&mut world, None, 1), (202, false));
    world.boots(at(10));
    assert_eq!(beat(&mut world, None, 11), (400, true));
    assert_eq!(beat(&mut world, Some(10), 12), (202, false));
    world.boots(at(20));
    assert_eq!(beat(&mut world, Some(10), 21), (400, true));
    // Another server, of which nothing was heard, told the token of a later boot.
    assert_eq!(beat(&mut world, Some(30), 31), (202, false));
    assert_eq!(beat(&mut world, Some(20), 32), (400, true));
}

#[test]
fn what_a_ramdisk_told_first_stays() {
    let mut world = World::new();
    assert!(heard(&world.post(&path(), "1.68", &body().to_string(), 1)).1);
    let url = with("callback_url", Some(json!("https://10.69.0.41:9999")));
    let told = why(&world.post(&path(), "1.68", &url, 2).answer);
    assert!(told.contains("callback_url"), "{told}");
    let pem = with("agent_verify_ca", Some(json!(PEM.replace("MIIB", "MIIC"))));
    let told = why(&world.post(&path(), "1.68", &pem, 2).answer);
    assert!(told.contains("agent_verify_ca"), "{told}");
    // It need not repeat the certificate.
    let none = with("agent_verify_ca", None);
    assert_eq!(world.post(&path(), "1.68", &none, 2).answer.status, 202);
    // A ramdisk that boots anew has another address and another certificate.
    world.boots(at(3));
    let mut anew: Value = serde_json::from_str(&url).unwrap();
    anew["agent_token"] = json!(world.token(Some(at(3))));
    let (ramdisk, is_vital) = heard(&world.post(&path(), "1.68", &anew.to_string(), 4));
    assert_eq!(ramdisk.agent.unwrap().callback_url, "https://10.69.0.41:9999");
    assert!(is_vital && ramdisk.token_told == Some(at(4)));
}

#[test]
fn a_heartbeat_that_says_nothing_new_is_told_on_every_five_minutes() {
    let mut world = World::new();
    assert_eq!(world.get(&format!("/v1/lookup?addresses={MAC}"), "1.62", 1).answer.status, 200);
    let (ramdisk, is_vital) = heard(&world.post(&path(), "1.68", &body().to_string(), 10));
    assert!(is_vital && ramdisk.token_told == Some(at(1)));
    let agent = ramdisk.agent.unwrap();
    assert_eq!((&*agent.version, agent.verify_ca.as_deref()), ("13.0.0", Some(PEM)));
    for seconds in [10, 40, 309] {
        let outcome = world.post(&path(), "1.68", &body().to_string(), seconds);
        assert_eq!((outcome.answer.status, outcome.effect), (202, Effect::Nothing), "{seconds}");
    }
    let (ramdisk, is_vital) = heard(&world.post(&path(), "1.68", &body().to_string(), 310));
    assert!(!is_vital && ramdisk.agent.unwrap().heard == at(310));
    // A new state of its work is news.
    let mut done = body();
    done["agent_status"] = json!("error");
    done["agent_status_message"] = json!("disk\u{7} failed");
    let (ramdisk, _) = heard(&world.post(&path(), "1.72", &done.to_string(), 311));
    let agent = ramdisk.agent.unwrap();
    assert_eq!((agent.status, &*agent.status_message), (Some(AgentStatus::Error), "disk failed"));
    // A clock that went back is no reason to say nothing.
    assert!(matches!(
        world.post(&path(), "1.72", &done.to_string(), 5).effect,
        Effect::Heard { .. }
    ));
}
