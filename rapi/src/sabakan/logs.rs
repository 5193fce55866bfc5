//! Who did what, when and on what: sabakan's audit log, as a query over jobs.

use axum::http::header;
use axum::response::IntoResponse;
use luxi::method::{Fields, QueryJobs};
use model::Timestamp;
use model::sabakan::log::{FIELDS, entry};
use model::sabakan::time;

use crate::asked::{Answer, Asked};
use crate::refusal::Refusal;

pub(super) async fn logs(asked: Asked) -> Answer {
    let since = day(&asked, "since")?.unwrap_or_default();
    let until = day(&asked, "until")?.unwrap_or(Timestamp::from_micros(i64::MAX));
    let fields = FIELDS.into_iter().collect::<Fields>();
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
