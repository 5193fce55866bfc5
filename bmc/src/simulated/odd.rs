//! Odd answers of a simulated controller, each to the requests that it is told for.

use std::fmt;
use std::time::Duration;

use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::machine::{Answer, answer_of, refusal};

/// The oddity of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Odd {
    /// 200, without a body.
    Empty,
    /// 200, with a page for people.
    NoJson,
    /// 200, with a list where an object should be.
    OtherType,
    /// 200, with an empty list of members.
    NoMembers,
    /// 200, with null for every field.
    Nulls,
    /// 400, since it is not ready yet.
    NotReady,
    /// 428.
    NoTag,
    /// 500.
    Failure,
    /// 503.
    Busy,
    /// None at all.
    Silence,
    /// The connection is cut.
    Cut,
}

impl Odd {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Empty,
        Self::NoJson,
        Self::OtherType,
        Self::NoMembers,
        Self::Nulls,
        Self::NotReady,
        Self::NoTag,
        Self::Failure,
        Self::Busy,
        Self::Silence,
        Self::Cut,
    ];
}

/// Which requests are answered oddly, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OddAnswers {
    pub odd: Odd,
    /// The end of the paths that count; empty for all.
    pub at: &'static str,
    /// So many are answered well before.
    pub after: u32,
    /// So many are answered oddly then.
    pub times: u32,
    /// Whether what was asked for is done all the same.
    pub is_done: bool,
}

/// The end of a connection.
#[derive(Debug)]
pub(super) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is cut")
    }
}

impl std::error::Error for Cut {}

impl OddAnswers {
    /// The oddity for this request, if there is one.
    pub(super) fn next(&mut self, parts: &Parts) -> Option<Self> {
        if !parts.uri.path().ends_with(self.at) {
            return None;
        }
        if self.after > 0 {
            self.after -= 1;
            return None;
        }
        self.times = self.times.checked_sub(1)?;
        Some(*self)
    }

    /// The odd answer, in the place of the one that `well` gives.
    pub(super) async fn answer(self, well: impl FnOnce() -> Answer) -> Result<Answer, Cut> {
        let good = self.is_done.then(well);
        let status = |status: StatusCode| Ok(answer_of(status, &Value::Null));
        match self.odd {
            Odd::Empty => status(StatusCode::OK),
            Odd::NoJson => Ok(Response::new(Full::from("<html>"))),
            Odd::OtherType => Ok(answer_of(StatusCode::OK, &json!(["x"]))),
            Odd::NoMembers => Ok(changed(good, |name, value| match name {
                "Members" => json!([]),
                _ => value.clone(),
            })
            .await),
            Odd::Nulls => Ok(changed(good, |_name, _value| Value::Null).await),
            Odd::NotReady => {
                let text = "iDRAC is not ready. The configuration values cannot be accessed. Please \
                            retry after a few minutes.";
                let refused = refusal("IDRAC.1.6.SWC0700", text);
                Ok(answer_of(StatusCode::BAD_REQUEST, &refused))
            }
            Odd::NoTag => status(StatusCode::PRECONDITION_REQUIRED),
            Odd::Failure => status(StatusCode::INTERNAL_SERVER_ERROR),
            Odd::Busy => status(StatusCode::SERVICE_UNAVAILABLE),
            Odd::Silence => {
                tokio::time::sleep(Duration::from_secs(3_600)).await;
                Err(Cut)
            }
            Odd::Cut => Err(Cut),
        }
    }
}

/// A good answer whose body has other fields.
async fn changed(good: Option<Answer>, field: impl Fn(&str, &Value) -> Value) -> Answer {
    let Some(good) = good else { return answer_of(StatusCode::OK, &json!({})) };
    let (parts, body) = good.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let body = body.as_object().map_or(Value::Null, |fields| {
        fields.iter().map(|(name, value)| (name.clone(), field(name, value))).collect()
    });
    let mut answer = answer_of(parts.status, &body);
    answer.headers_mut().extend(parts.headers);
    answer
}
