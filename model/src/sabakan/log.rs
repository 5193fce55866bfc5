//! Core: jobs as entries of sabakan's audit log.

use serde_json::{Value, json};

use super::time;
use crate::time::Timestamp;

/// What says in the trail of a job who asked for it at the front door.
pub const TRAIL: &str = "gantry:rapi";
/// What is asked of each job. The last one brings archived jobs, too.
pub const FIELDS: [&str; 7] =
    ["id", "received_ts", "summary", "status", "owner", "ops", "archived"];

/// A job as an entry of the log, with its time.
#[must_use]
pub fn entry(row: Vec<Value>) -> Option<(Timestamp, Value)> {
    let [id, received, summary, status, owner, ops, _archived] = row.try_into().ok()?;
    let moment: Timestamp = serde_json::from_value(received).ok()?;
    let op = ops.get(0)?;
    let trail = op["reason"].as_array()?;
    let ours = trail.iter().find(|entry| entry[0] == TRAIL).and_then(|entry| entry[1].as_str());
    let user = ours.and_then(|text| text.split_once(": ")).map(|(user, _)| user);
    let user = user.or_else(|| owner.as_str()).unwrap_or_default();
    let verb = op["OP_ID"].as_str()?.trim_start_matches("OP_").to_lowercase();
    let (category, action) = verb.split_once('_').unwrap_or((&verb, ""));
    let summary = summary.get(0).and_then(Value::as_str).unwrap_or_default();
    let instance = summary.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
    let shown = json!({
        "ts": time::shown(moment),
        "rev": id,
        "user": user,
        "ip": "",
        "host": "",
        "category": category,
        "instance": instance,
        "action": action,
        "detail": status,
    });
    Some((moment, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_an_entry() {
        let op = json!({
            "OP_ID": "OP_MACHINE_ADD",
            "reason": [["gantry:rapi", "alice: POST /api/v1/machines", 5]],
        });
        let row = vec![
            json!(7),
            json!([1_542_763_425, 0]),
            json!(["MACHINE_ADD(1234abcd)"]),
            json!("success"),
            json!("gantry-rapi"),
            json!([op]),
            json!(false),
        ];
        let (_, entry) = entry(row).unwrap();
        assert_eq!(
            entry,
            json!({"ts": "2018-11-21T01:23:45Z", "rev": 7, "user": "alice", "ip": "", "host": "",
                "category": "machine", "instance": "1234abcd", "action": "add", "detail": "success"})
        );
    }
}
