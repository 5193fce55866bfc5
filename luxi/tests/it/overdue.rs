//! The log of a machine that is too busy says so once, and has no line for each request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use luxi::Limits;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::toy::{HANGS, ask, start};

/// Counts the lines of the server by their level.
static ERRORS: AtomicUsize = AtomicUsize::new(0);
static WARNINGS: AtomicUsize = AtomicUsize::new(0);
/// Requests: the toy keeps two words of each.
const REQUESTS: usize = 30;

struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, line: &Metadata<'_>) -> bool {
        *line.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let is_error = *event.metadata().level() == Level::ERROR;
        let lines = if is_error { &ERRORS } else { &WARNINGS };
        lines.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[test]
fn requests_that_miss_their_deadline_are_one_warning_and_no_error() {
    tracing::subscriber::set_global_default(Lines).unwrap();
    let server = start(Limits { wait: Duration::ZERO, ..Limits::default() });
    let request =
        format!(r#"{{"method":"WaitForJobChange","args":[{HANGS},["status"],null,null,1]}}"#);
    for _ in 0..REQUESTS {
        let told = ask(&mut server.raw(), &request);
        assert!(told.contains("was given up") && told.contains(r#""code":"overloaded""#), "{told}");
    }
    let lines = [&ERRORS, &WARNINGS].map(|lines| lines.load(Ordering::Relaxed));
    assert_eq!(lines, [0, 1]);
}
