//! Systems of machines say that they run, by the URL in `gantry.up` on their kernel's command line. The URL has
//! the power cycle of the boot, since a system of an earlier one may say so at any time.

use axum::extract::{Extension, Path, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use model::machine::BootStage;
use model::rack::Observation;

use super::files::told;
use super::origin::Sender;
use super::routes::{name_stranger, note_observed, sender, text};
use super::{Ends, Rack};

/// A system says so by the URL of its boot.
pub(super) async fn says_of(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Path((serial, cycle)): Path<(String, u64)>,
    method: Method,
) -> Response {
    answer(&rack, ends, (&serial, Some(cycle)), &method)
}

/// A system says so by a URL without a power cycle, which somebody made by hand.
pub(super) async fn says(
    State(rack): State<Rack>,
    Extension(ends): Extension<Ends>,
    Path(serial): Path<String>,
    method: Method,
) -> Response {
    answer(&rack, ends, (&serial, None), &method)
}

fn answer(
    rack: &Rack,
    ends: Ends,
    (serial, named): (&str, Option<u64>),
    method: &Method,
) -> Response {
    let machine = serial.parse().ok().and_then(|serial| told(rack, ends, serial));
    let Some((number, machine)) = machine else { return nobody() };
    // No script has a power cycle that is still to come.
    let named = named.filter(|cycle| *cycle <= machine.cycle);
    let sender = sender(rack, ends, &machine);
    if !sender.may_be_its_system(named.is_some()) {
        if let Sender::Stranger(who) = sender {
            name_stranger(rack, ends, &machine, who);
        }
        return nobody();
    }
    if method != Method::HEAD {
        note_observed(rack, ends.theirs.ip(), |address, mac| {
            let mut seen = machine.observed(number, address, mac, (BootStage::System, None));
            if let Observation::Boot { cycle, cycle_guessed, .. } = &mut seen {
                *cycle_guessed = named.is_none();
                *cycle = named.unwrap_or(*cycle);
            }
            seen
        });
    }
    StatusCode::NO_CONTENT.into_response()
}

fn nobody() -> Response {
    let why = "no machine of this rack has that serial number and this address\n";
    text(StatusCode::NOT_FOUND, why.to_owned())
}
