//! Who did what, when and on what: sabakan's audit log, as a query over jobs.

use axum::http::header;
use axum::response::IntoResponse;
use luxi::method::{Fields, QueryJobs, Row};
use model::Timestamp;
use serde_json::{Value, json};

use super::time;
use crate::asked::{Answer, Asked, TRAIL};
use crate::refusal::Refusal;

/// What is asked of each job, archived ones too.
const FIELDS: [&str; 6] = ["id", "received_ts", "summary", "status", "owner", "ops"];

pub(super) async fn logs(asked: Asked) -> Answer {
    let since = day(&asked, "since")?.unwrap_or_default();
    let until = day(&asked, "until")?.unwrap_or(Timestamp::from_micros(i64::MAX));
    // Naming the field brings the archive, too.
    let fields = FIELDS.into_iter().chain(["archived"]).collect::<Fields>();
    let rows = asked.ask(QueryJobs { job_ids: None, fields }).await?;
    let mut lines = String::new();
    for row in rows.into_iter().flatten() {
        let Some((moment, entry)) = entry(row) else { continue };
        if (since..until).contains(&moment) {
            lines.push_str(&entry.to_string());
            lines.push('\n');
        }
    }
    Ok(([(header::CONTENT_TYPE, "application/json")], lines).into_response())
}

fn day(asked: &Asked, name: &str) -> Result<Option<Timestamp>, Refusal> {
    let wrong = || Refusal::bad(format!("`{name}` is a day, written as 20261120"));
    asked.value(name).map(|text| time::day(text).ok_or_else(wrong)).transpose()
}

/// A job as an entry of the log, with its time.
fn entry(row: Row) -> Option<(Timestamp, Value)> {
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
