//! States of machines, in sabakan's words and by sabakan's table.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use model::machine::life::{NoStatus, Status};
use serde_json::json;

use super::inventory::one;
use super::machines::{condition, done, parameters, tag, text};
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest};
use crate::state::Compatibility;

/// The path of the state of a machine.
pub const PATH: &str = "/api/v1/state/{serial}";

pub(super) async fn state(Path(serial): Path<String>, asked: RouteRequest) -> Answer {
    let machine = one(&asked, &serial).await?;
    let state = machine.life.state.status();
    // axum answers with text/plain.
    Ok(([(header::ETAG, tag(&asked, machine).await?)], state.as_str()).into_response())
}

pub(super) async fn set(Path(serial): Path<String>, asked: RouteRequest) -> Answer {
    let state = text(&asked)?.trim().parse();
    let state: Status = state.map_err(|error: NoStatus| Refusal::bad(error.to_string()))?;
    condition(&asked, &serial).await?;
    become_of(&asked, &serial, state).await?;
    Ok(done())
}

/// Sets the state of a machine.
///
/// # Errors
/// sabakan's table has no such transition, or keys of its disks are left.
pub(super) async fn become_of(
    asked: &RouteRequest,
    serial: &str,
    state: Status,
) -> Result<(), Refusal> {
    let op = json!({"serial": serial, "state": state});
    let set = asked.run("OP_MACHINE_SET_STATE", parameters(&op)).await;
    set.map(drop).map_err(|refusal| as_in(asked.front.compatibility, refusal))
}

/// sabakan calls a transition that its table lacks a fault of its own; it is the client's.
fn as_in(compatibility: Compatibility, refusal: Refusal) -> Refusal {
    if compatibility == Compatibility::Today || refusal.status() != StatusCode::CONFLICT {
        return refusal;
    }
    refusal.with_status(StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_has_sabakans_code_where_that_is_wanted() {
        let code = |compatibility, status| {
            as_in(compatibility, Refusal::new(status, "no such transition")).code
        };
        assert_eq!(code(Compatibility::Today, StatusCode::CONFLICT), 409);
        assert_eq!(code(Compatibility::Document, StatusCode::CONFLICT), 500);
        assert_eq!(code(Compatibility::Document, StatusCode::BAD_REQUEST), 400);
    }
}
