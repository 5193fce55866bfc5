use model::cluster::Role;
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_700_000_000;

/// A master of three, about which nothing is to be said.
fn well() -> Value {
    let one = |node: &str, master: bool| {
        json!({"node": node, "state": "voter", "master": master, "behind": 0,
            "heard_ms": if master { Value::Null } else { json!(83) }, "unreachable": false,
            "since": null})
    };
    json!({"cluster": "c1.example.com", "node": "n1.example.com", "state": "master",
        "now": [NOW, 0],
        "master": {"node": "n1.example.com", "epoch": "3.1", "since": [NOW - 7_500, 0]},
        "quorum": {"voters": ["n1.example.com", "n2.example.com", "n3.example.com"], "needed": 2,
            "heard": 3, "majority": true, "heard_ms": 83, "refusing": null},
        "auto_failover": false,
        "candidates": [one("n1.example.com", true), one("n2.example.com", false),
            one("n3.example.com", false)],
        "standby": null,
        "queue": {"running": 2, "waiting": 1, "queued": 17,
            "oldest": {"job": 1042, "since": [NOW - 240, 0]}, "drained": false},
        "store": {"health": {"is": "good"}, "position": "3.1/90210", "disk_free_mib": 48_000,
            "disk_mib": 102_400, "journal_used_bytes": 30 << 20, "journal_bytes": 256 << 20,
            "files_lag_keys": 0, "files_lag_bytes": 0},
        "agents": {"reached": 5, "unreached": [], "offline": 1},
        "certificates": [{"owner": "authority", "ends": [NOW + 900_000_000, 0]},
            {"owner": {"node": "n1.example.com"}, "ends": [NOW + 300_000_000, 0]}],
        "watcher_paused_until": null, "alarms": []})
}

fn alarm(kind: &str, what: &str, since: Option<i64>) -> Value {
    let since = since.map(|ago| json!([NOW - ago, 0]));
    let is_critical = ["majority-lost", "not-confirmed"].contains(&kind);
    json!({"severity": if is_critical { "critical" } else { "warning" }, "kind": kind, "what": what,
        "since": since,
        "text": "it is not as it should be, and this sentence is long enough to be broken",
        "todo": "do something about it, for which there are more than a few words here as well"})
}

fn in_trouble() -> Value {
    let mut seen = well();
    seen["quorum"]["heard"] = json!(1);
    seen["quorum"]["refusing"] = json!("no majority of the voters answers");
    for (at, heard) in [(1, json!(13_000)), (2, Value::Null)] {
        seen["candidates"][at]["unreachable"] = json!(true);
        seen["candidates"][at]["heard_ms"] = heard;
    }
    seen["queue"]["drained"] = json!(true);
    seen["store"]["health"] = json!({"is": "disk-full", "since": [NOW - 5, 0], "reason": "full"});
    seen["store"]["files_lag_keys"] = json!(1_200);
    seen["store"]["files_lag_bytes"] = json!(5 << 20);
    seen["agents"]["unreached"] = json!([{"node": "n3.example.com", "since": [NOW - 13, 0],
        "why": "connection \u{1b}[2Jrefused"}]);
    seen["watcher_paused_until"] = json!([NOW + 3_600, 0]);
    seen["alarms"] = json!([
        alarm("majority-lost", "quorum", Some(13)),
        alarm("candidate-unreachable", "candidate n3.example.com", None)
    ]);
    seen
}

fn standby() -> Value {
    let mut seen = well();
    for key in ["queue", "agents"] {
        seen[key] = Value::Null;
    }
    seen["node"] = json!("n2.example.com");
    seen["state"] = json!("standby");
    seen["quorum"]["heard"] = Value::Null;
    seen["auto_failover"] = json!(true);
    seen["standby"] = json!({"leader": "n1.example.com", "heard_ms": 83, "last": "3.1/90211",
        "applied": "3.1/90210", "why": "the master is n1.example.com", "attempt": null});
    seen
}

fn starting() -> Value {
    let mut seen = standby();
    seen["node"] = json!("n1.example.com");
    seen["state"] = json!("starting");
    seen["standby"]["leader"] = Value::Null;
    seen["standby"]["heard_ms"] = Value::Null;
    seen["standby"]["why"] = json!("it was the master last, and is not confirmed yet");
    seen["standby"]["attempt"] = json!({"done": false, "check": null,
        "message": "n1.example.com cannot be the master now"});
    seen["alarms"] = json!([alarm("not-confirmed", "master", None)]);
    seen
}

fn outside() -> Value {
    let mut seen = well();
    for key in ["cluster", "master", "quorum", "queue", "store", "agents"] {
        seen[key] = Value::Null;
    }
    seen["node"] = json!("n7.example.com");
    seen["state"] = json!("outside");
    seen["candidates"] = json!([]);
    seen
}

/// A pool of fourteen, two of which want a look, and as many agents and alarms.
fn many() -> Value {
    let mut seen = well();
    let one = |at: usize| {
        json!({"node": format!("n{at:02}.example.com"), "state": "voter", "master": at == 5,
            "behind": 0, "heard_ms": 20, "unreachable": at == 9, "since": null})
    };
    let mut candidates: Vec<Value> = (1..=14).map(one).collect();
    candidates[12]["state"] = json!("not-yet");
    seen["candidates"] = candidates.into();
    let agent =
        |at: i64| json!({"node": format!("n{at:02}"), "since": [NOW - at, 0], "why": "gone"});
    seen["agents"]["unreached"] = (1..=7).map(agent).collect();
    seen["alarms"] =
        (1..=8).map(|at| alarm("agent", &format!("agent of n{at:02}"), None)).collect();
    seen
}

fn view(colored: bool) -> View {
    View { colored, columns: 80, date: |at| at.to_string().trim_end_matches(" UTC").to_owned() }
}

fn shown(seen: &Value) -> Vec<String> {
    let seen = serde_json::from_value(seen.clone()).unwrap();
    let master = "n1.example.com".parse().unwrap();
    let role = Role { master, term: 3, node: 1, since: Timestamp::from_micros(0) };
    let known = Known {
        address: Some([192, 0, 2, 1].into()),
        others: Some("n2.example.com (192.0.2.2), n3.example.com (192.0.2.3)".to_owned()),
        ..Known::from(role)
    };
    view(false).lines(&seen, Some(&known), unknown(&seen))
}

/// Nobody tells a node that is no candidate of alarms.
fn unknown(seen: &ClusterStatus) -> Option<&'static str> {
    (seen.state == ProcessState::Outside).then_some("this node is no master candidate")
}

#[test]
fn screens() {
    let screens = [
        ("well", well()),
        ("in trouble", in_trouble()),
        ("a standby", standby()),
        ("about to start", starting()),
        ("no candidate", outside()),
        ("many", many()),
    ];
    let screens =
        screens.iter().map(|(name, seen)| format!("== {name}\n{}", shown(seen).join("\n")));
    insta::assert_snapshot!(screens.collect::<Vec<_>>().join("\n\n"));
}

#[test]
fn a_small_cluster_fits_a_terminal() {
    for seen in [well(), in_trouble(), standby(), starting(), outside()] {
        let lines = shown(&seen);
        assert!(lines.len() <= 24, "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    }
}

#[test]
fn what_others_said_does_not_move_the_cursor() {
    assert!(shown(&in_trouble()).iter().all(|line| !line.contains(char::is_control)));
}

#[test]
fn colours_change_nothing_else() {
    let without = regex::Regex::new("\x1b\\[[0-9]+m").unwrap();
    for seen in [well(), in_trouble(), many()] {
        let seen_as = serde_json::from_value(seen.clone()).unwrap();
        let colored = view(true).lines(&seen_as, None, None);
        let stripped: Vec<_> =
            colored.iter().map(|line| without.replace_all(line, "").into_owned()).collect();
        assert_ne!(colored, stripped);
        assert_eq!(stripped, shown(&seen));
    }
}
