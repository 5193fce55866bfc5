//! The access log: one line for each request in the common log format, in a file of its own.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use stdx::daemon::{LogError, LogFile};
use stdx::local_time::{LocalTime, local_time};
use stdx::{Throttle, text};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Characters of a request's target that are logged.
const TARGET_MAX: usize = 2_048;
/// Characters of a user's name that are logged.
const NAME_MAX: usize = 128;

/// The log of requests.
#[derive(Debug)]
pub struct AccessLog {
    file: Arc<LogFile>,
    failed: Throttle,
}

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    /// The address of the client.
    pub peer: IpAddr,
    /// The user, if known.
    pub user: Option<&'a str>,
    /// Seconds since the epoch.
    pub seconds: i64,
    /// Method, target and version.
    pub request: &'a str,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of the body.
    pub bytes: Option<u64>,
}

impl Line<'_> {
    /// The line, with the escapes of Apache for what would end a field.
    pub fn text(&self) -> String {
        let user = self.user.map_or_else(|| "-".to_owned(), |user| field(user, NAME_MAX, ' '));
        let request = field(self.request, TARGET_MAX, '"');
        let mut line = format!("{} - {user} [{}] \"{request}\"", self.peer, time(self.seconds));
        let bytes = self.bytes.filter(|bytes| *bytes > 0);
        let bytes = bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        line.push_str(&format!(" {} {bytes}\n", self.status));
        line
    }
}

fn field(given: &str, most: usize, end: char) -> String {
    let cut: String = given.chars().take(most).collect();
    let escaped = text::line(&cut).replace(end, &format!("\\x{:02x}", u32::from(end)));
    if escaped.is_empty() { "-".to_owned() } else { escaped }
}

/// `20/Nov/2026:13:05:09 +0100`.
fn time(seconds: i64) -> String {
    let Some(local) = local_time(seconds) else { return "-".to_owned() };
    let LocalTime { year, month, day, hour, minute, second, ahead_minutes, .. } = local;
    let month = usize::from(month).checked_sub(1).and_then(|at| MONTHS.get(at)).unwrap_or(&"-");
    let sign = if ahead_minutes < 0 { '-' } else { '+' };
    let ahead = ahead_minutes.abs();
    format!(
        "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} {sign}{:02}{:02}",
        ahead / 60,
        ahead % 60
    )
}

impl AccessLog {
    /// Logs to this file, which is opened anew with the daemon's log.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        Ok(Self { file: LogFile::open(path)?, failed: Throttle::new() })
    }

    /// Logs a request. A disk that takes no line keeps nobody from an answer.
    pub fn note(&self, line: &Line<'_>) {
        if let Err(error) = (&*self.file).write_all(line.text().as_bytes())
            && let Some(withheld) = self.failed.pass()
        {
            tracing::error!(%error, withheld, "the access log takes no lines");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_cannot_forge_a_line_or_a_field() {
        let line = Line {
            peer: "192.0.2.1".parse().unwrap(),
            user: Some("bob x\n"),
            seconds: 1_700_000_000,
            request: "GET /2/info\" 200 5\n127.0.0.1 HTTP/1.1",
            status: 404,
            bytes: Some(0),
        };
        let text = line.text();
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert_eq!(text.matches('"').count(), 2, "{text}");
        assert!(
            text.starts_with("192.0.2.1 - bob\\x20x") && text.ends_with("\" 404 -\n"),
            "{text}"
        );
        assert!(text.contains("/Nov/2023:"), "{text}");
    }
}
