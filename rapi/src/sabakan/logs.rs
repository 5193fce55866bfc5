//! The audit log of the cluster in the form of sabakan's: who did what, when and on what.

use axum::http::header;
use axum::response::IntoResponse;
use luxi::method::GantryLog;
use model::Timestamp;
use model::audit::{AuditFilter, ENTRIES_MAX};
use model::sabakan::{log, time};

use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest};

/// Answers of the master that one log is made of: half a million entries. Earlier ones are asked for by
/// their day.
const PAGES_MAX: usize = 50;

pub(super) async fn logs(asked: RouteRequest) -> Answer {
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
        lines.push_str(&log::shown(entry).to_string());
        lines.push('\n');
    }
    Ok(([(header::CONTENT_TYPE, "application/json")], lines).into_response())
}

fn day(asked: &RouteRequest, name: &str) -> Result<Option<Timestamp>, Refusal> {
    let wrong = || Refusal::bad(format!("`{name}` is a day, written as 20261120"));
    asked.value(name).map(|text| time::day(text).ok_or_else(wrong)).transpose()
}
