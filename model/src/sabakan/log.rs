//! Core: entries of the audit log as sabakan writes them.

use serde_json::{Value, json};

use super::time;
use crate::audit::AuditEntry;

/// An entry with sabakan's keys, and ours behind them.
pub fn shown(entry: &AuditEntry) -> Value {
    let verb = entry.action.trim_start_matches("OP_").to_lowercase();
    let (category, action) = verb.split_once('_').unwrap_or((&verb, ""));
    let address = entry.asker.address.map(|address| address.to_string());
    let mut shown = json!({
        "ts": time::shown(entry.time),
        // sabakan's client reads a number as text.
        "rev": entry.job.map_or(0, |id| id.0).to_string(),
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
    use crate::JobId;
    use crate::asker::{Asker, Interface};
    use crate::audit::Outcome;
    use crate::time::Timestamp;

    use super::*;

    #[test]
    fn an_entry_has_sabakans_keys() {
        let asker = Asker {
            user: "alice".into(),
            interface: Interface::Rest,
            host: "n1.example".parse().ok(),
            address: "192.0.2.7".parse().ok(),
            tenant: None,
        };
        let time = Timestamp::from_micros(1_542_763_425_000_000);
        let entry = AuditEntry::new(time, asker, "OP_MACHINE_ADD", "1234abcd", Outcome::Success);
        let entry = AuditEntry { job: Some(JobId(7)), ..entry };
        assert_eq!(
            shown(&entry),
            json!({"ts": "2018-11-21T01:23:45Z", "rev": "7", "user": "alice", "ip": "192.0.2.7",
                "host": "n1.example", "category": "machine", "instance": "1234abcd",
                "action": "add", "detail": "success", "interface": "rest"})
        );
        let refused = entry.because(Some("permission-denied"), "no");
        assert_eq!(shown(&refused)["code"], "permission-denied");
    }
}
