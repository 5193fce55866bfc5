//! Who did what, when and on what: the audit log of the cluster in the form of sabakan's.

use axum::http::header;
use axum::response::IntoResponse;
use luxi::method::GantryLog;
use model::Timestamp;
use model::audit::{AuditEntry, AuditFilter, ENTRIES_MAX};
use serde_json::{Value, json};

use super::time;
use crate::asked::{Answer, Asked};
use crate::refusal::Refusal;

/// Answers of the master that one log is made of: half a million entries. Earlier ones are asked for by
/// their day.
const PAGES_MAX: usize = 50;

pub(super) async fn logs(asked: Asked) -> Answer {
    let (since, mut until) = (day(&asked, "since")?, day(&asked, "until")?);
    let mut pages = Vec::new();
    for _ in 0..PAGES_MAX {
        let filter = AuditFilter { since, until, ..AuditFilter::default() };
        let mut page = asked.ask(GantryLog { filter, limit: ENTRIES_MAX }).await?;
        let is_last = page.len() < ENTRIES_MAX as usize;
        if let Some(first) = page.first().map(|entry| entry.time).filter(|_| !is_last) {
            // The rest of its moment comes with the next page.
            if page.iter().any(|entry| entry.time != first) {
                page.retain(|entry| entry.time != first);
                until = Some(Timestamp::from_micros(first.micros().saturating_add(1)));
            } else {
                until = Some(first);
            }
        }
        pages.push(page);
        if is_last {
            break;
        }
    }
    let mut lines = String::new();
    for entry in pages.iter().rev().flatten() {
        lines.push_str(&shown(entry).to_string());
        lines.push('\n');
    }
    Ok(([(header::CONTENT_TYPE, "application/json")], lines).into_response())
}

fn day(asked: &Asked, name: &str) -> Result<Option<Timestamp>, Refusal> {
    let wrong = || Refusal::bad(format!("`{name}` is a day, written as 20261120"));
    asked.value(name).map(|text| time::day(text).ok_or_else(wrong)).transpose()
}

/// An entry with sabakan's keys, and ours behind them.
fn shown(entry: &AuditEntry) -> Value {
    let verb = entry.action.trim_start_matches("OP_").to_lowercase();
    let (category, action) = verb.split_once('_').unwrap_or((&verb, ""));
    let address = entry.asker.address.map(|address| address.to_string());
    let mut shown = json!({
        "ts": time::shown(entry.time),
        "rev": entry.job.map_or(0, |id| id.0),
        "user": entry.asker.user,
        "ip": address.unwrap_or_default(),
        "host": entry.asker.host.as_ref().map_or("", |host| host.as_str()),
        "category": category,
        "instance": entry.object,
        "action": action,
        "detail": entry.result,
        "interface": entry.asker.interface,
    });
    if entry.times > 1 {
        shown["times"] = entry.times.into();
    }
    if let Some(code) = &entry.code {
        shown["code"] = code.as_str().into();
    }
    if let Some(reason) = &entry.reason {
        shown["reason"] = reason.as_str().into();
    }
    shown
}

#[cfg(test)]
mod tests {
    use model::JobId;
    use model::audit::{Asker, Interface, Outcome};

    use super::*;

    #[test]
    fn an_entry_has_sabakans_keys() {
        let asker = Asker {
            user: "alice".into(),
            interface: Interface::Rest,
            host: "n1.example".parse().ok(),
            address: "192.0.2.7".parse().ok(),
        };
        let time = Timestamp::from_micros(1_542_763_425_000_000);
        let entry = AuditEntry::new(time, asker, "OP_MACHINE_ADD", "1234abcd", Outcome::Success);
        let entry = AuditEntry { job: Some(JobId(7)), ..entry };
        assert_eq!(
            shown(&entry),
            json!({"ts": "2018-11-21T01:23:45Z", "rev": 7, "user": "alice", "ip": "192.0.2.7",
                "host": "n1.example", "category": "machine", "instance": "1234abcd",
                "action": "add", "detail": "success", "interface": "rest"})
        );
        let refused = entry.because(Some("permission-denied"), "no");
        assert_eq!(shown(&refused)["code"], "permission-denied");
    }
}
