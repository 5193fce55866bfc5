//! The front door's numbers, for Prometheus.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use stdx::metrics::Kind::{Counter as OfCounter, Gauge, Histogram as OfHistogram};
use stdx::metrics::{Counter, Endpoint, Family, Histogram, LATENCY, Page, serve};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::front::Front;

/// Every number, printed in `docs/metrics.md`.
pub const FAMILIES: &[Family] = &[
    Family::new("gantry_rapi_info", Gauge, &["version"], "Always 1; which version runs"),
    Family::new(
        "gantry_rapi_request_seconds",
        OfHistogram,
        &[],
        "Time of requests until the answer is ready; waits for jobs last on purpose",
    ),
    Family::new(
        "gantry_rapi_answers",
        OfCounter,
        &["class"],
        "Answers, by the class of their status",
    ),
    Family::new(
        "gantry_rapi_wrong_passwords",
        OfCounter,
        &[],
        "Requests with a wrong password or an unknown user",
    ),
];

/// Classes of status codes.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What requests count.
#[derive(Debug)]
pub struct Meters {
    seconds: Histogram,
    answers: [Counter; CLASSES.len()],
}

impl Default for Meters {
    fn default() -> Self {
        Self { seconds: Histogram::new(LATENCY), answers: Default::default() }
    }
}

impl Meters {
    /// Counts a request that was answered after so long.
    pub fn answered(&self, status: StatusCode, took: Duration) {
        self.seconds.observe_time(took);
        let class = usize::from(status.as_u16() / 100).checked_sub(1);
        if let Some(counter) = class.and_then(|class| self.answers.get(class)) {
            counter.add();
        }
    }
}

/// Takes the numbers.
#[must_use]
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

/// Serves the numbers until `stopped`, if the address can be had.
pub async fn run(front: Arc<Front>, endpoint: Endpoint, stopped: watch::Receiver<bool>) {
    let Some(address) = endpoint.address() else { return };
    match TcpListener::bind(address).await {
        Ok(listener) => {
            tracing::info!(%address, "metrics are served");
            serve(listener, move || page(&front).text(), stopped).await;
        }
        Err(error) => tracing::warn!(
            %address,
            %error,
            "metrics are not served: another program has the port? `--metrics` sets another one"
        ),
    }
}
