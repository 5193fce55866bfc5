//! How the toy's cluster stands.

use model::cluster_status::ClusterStatus;
use serde_json::json;

/// One of a single node; a drained queue is its only alarm.
pub(crate) fn status(drained: bool) -> ClusterStatus {
    let alarms = match drained {
        false => json!([]),
        true => json!([{"kind": "drained", "what": "queue", "since": null,
            "text": "it is drained: no new jobs are taken",
            "todo": "`gnt cluster queue undrain` opens it again"}]),
    };
    let status = json!({"cluster": "toy.example.com", "node": "n1.example.com", "state": "master",
        "now": [1_700_000_100, 0],
        "master": {"node": "n1.example.com", "epoch": "2.1", "since": [1_700_000_000, 0]},
        "quorum": {"voters": ["n1.example.com"], "needed": 1, "heard": 1, "majority": true,
            "heard_ms": 0, "refusing": null},
        "candidates": [{"node": "n1.example.com", "state": "voter", "master": true, "behind": 0,
            "heard_ms": null, "unreachable": false, "since": null}],
        "standby": null,
        "queue": {"running": 0, "waiting": 0, "queued": 1,
            "oldest": {"job": 1042, "since": [1_700_000_001, 5]}, "drained": drained},
        "store": {"health": {"is": "good"}, "position": "2.1/7", "disk_free_mib": 512,
            "disk_mib": 2_048, "journal_used_bytes": 1 << 20, "journal_bytes": 256 << 20,
            "files_lag_keys": 0, "files_lag_bytes": 0},
        "agents": {"reached": 1, "unreached": [], "offline": 0},
        "certificates": [{"owner": {"node": "n1.example.com"}, "ends": [2_015_000_000, 0]}],
        "watcher_paused_until": null, "alarms": alarms});
    serde_json::from_value(status).unwrap()
}
