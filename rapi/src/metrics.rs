//! The front door's numbers, for Prometheus.

use stdx::families;
use stdx::metrics::{Family, Page};

use crate::meters::CLASSES;
use crate::state::Front;

/// Every number, printed in `docs/metrics.md`.
pub const FAMILIES: &[Family] = families! {
    "gantry_rapi_info" Gauge ["version"] "Always 1; which version runs";
    "gantry_rapi_request_seconds" Histogram []
        "Time of requests until the answer is ready; waits for jobs last on purpose";
    "gantry_rapi_answers" Counter ["class"] "Answers, by the class of their status";
    "gantry_rapi_wrong_passwords" Counter []
        "Requests with a wrong password, token or certificate, or an unknown user";
};

/// Takes the numbers.
pub fn page(front: &Front) -> Page {
    let mut page = Page::new(FAMILIES);
    page.gauge_of("gantry_rapi_info", &[env!("CARGO_PKG_VERSION")], 1);
    page.histogram("gantry_rapi_request_seconds", &[], front.meters.seconds.counts());
    for (class, counter) in CLASSES.iter().zip(&front.meters.answers) {
        page.counter("gantry_rapi_answers", &[class], counter.get());
    }
    page.counter("gantry_rapi_wrong_passwords", &[], front.authenticator.failures.get());
    page
}
