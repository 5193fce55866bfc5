//! `perfdhcp`: many clients behind a relay, each of which asks for a lease, takes it, and asks again.

use std::fmt;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use super::super::bed::Bed;
use super::super::queue::count_as_number;
use crate::guest::GuestError;
use crate::guest::wires::HOST_INTERFACE;
use crate::needs;

/// Microseconds that it waits for answers behind the last question.
const LATE_US: &str = "1000000";

/// The outcome of a run.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Questions, of both kinds.
    pub(super) sent: u64,
    /// Answers.
    pub(super) received: u64,
    /// DISCOVERs.
    asked: u64,
    seconds: f64,
    /// From DISCOVER to OFFER.
    pub(super) offer_ms: Vec<f64>,
    /// From REQUEST to ACK.
    pub(super) ack_ms: Vec<f64>,
}

impl Found {
    /// Share of questions without an answer.
    pub(super) fn drops(&self) -> f64 {
        let lost = self.sent.saturating_sub(self.received);
        if self.sent == 0 { 1.0 } else { count_as_number(lost) / count_as_number(self.sent) }
    }

    /// DISCOVERs of the clients in a second, which may be fewer than they should.
    pub(super) fn asked_per_second(&self) -> f64 {
        count_as_number(self.asked) / self.seconds
    }

    /// Adds another run.
    pub(super) fn extend(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.asked += other.asked;
        self.seconds += other.seconds;
        self.offer_ms.extend(other.offer_ms);
        self.ack_ms.extend(other.ack_ms);
    }

    /// Reads its report.
    fn read(text: &str, seconds: f64) -> Self {
        let mut found = Self { seconds, ..Self::default() };
        let mut is_offer = true;
        for line in text.lines() {
            let number = |text: &str| text.trim().parse::<u64>().unwrap_or_default();
            if line.contains("DISCOVER-OFFER***") {
                is_offer = true;
            } else if line.contains("REQUEST-ACK***") {
                is_offer = false;
            } else if let Some(sent) = line.strip_prefix("sent packets:") {
                found.sent += number(sent);
                found.asked += if is_offer { number(sent) } else { 0 };
            } else if let Some(received) = line.strip_prefix("received packets:") {
                found.received += number(received);
            } else if let Some(delay) = delay_ms(line) {
                if is_offer { found.offer_ms.push(delay) } else { found.ack_ms.push(delay) }
            }
        }
        found
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (drops, asked) = (self.drops() * 100.0, self.asked_per_second());
        let (offer, ack) = (p99(&self.offer_ms), p99(&self.ack_ms));
        write!(f, "asked {asked:.0}/s, {drops:.2} % lost, p99 {offer:.1} and {ack:.1} ms")
    }
}

/// `sent / received: 000000.000133 / 000000.002528`, in seconds.
fn delay_ms(line: &str) -> Option<f64> {
    let (sent, received) = line.strip_prefix("sent / received:")?.split_once('/')?;
    let second = |text: &str| text.trim().parse::<f64>().ok();
    Some((second(received)? - second(sent)?) * 1_000.0)
}

/// The 99th percentile.
pub(super) fn p99(all: &[f64]) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = (sorted.len() * 99 / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or_default()
}

/// A host of the bed where it runs.
pub(super) struct Load<'b> {
    pub(super) bed: &'b Bed,
    /// The host's namespace.
    pub(super) namespace: String,
}

impl Load<'_> {
    /// Has clients ask a server at a rate, for a time.
    pub(super) fn run(
        &self,
        server: Ipv4Addr,
        rate: f64,
        clients: u32,
        time: Duration,
    ) -> Result<Found, GuestError> {
        let program = needs::provide("perfdhcp").map_err(GuestError::Impossible)?;
        let seconds = time.as_secs().max(1);
        let mut command = Command::new("sh");
        // It fails where something was lost, which its report tells.
        command.args(["-c", "\"$0\" \"$@\"; [ $? -le 3 ]"]).arg(program);
        command.args(["-4", "-l", HOST_INTERFACE, "-x", "t", "-W", LATE_US]);
        command.args(["-r", &format!("{rate:.0}"), "-R", &clients.to_string()]);
        command.args(["-p", &seconds.to_string()]).arg(server.to_string());
        let said = self.bed.run(&self.namespace, &command)?;
        Ok(Found::read(&said, count_as_number(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = "\
***Statistics for: DISCOVER-OFFER***
sent packets: 1000
received packets: 999
***Statistics for: REQUEST-ACK***
sent packets: 999
received packets: 998
***Timestamps for packets: DISCOVER-OFFER***
sent / received: 000000.000100 / 000000.002100
***Timestamps for packets: REQUEST-ACK***
sent / received: 000001.000000 / 000001.004000
";
        let found = Found::read(text, 2.0);
        assert_eq!((found.sent, found.received), (1_999, 1_997));
        assert!((found.asked_per_second() - 500.0).abs() < 1e-9);
        assert!((found.drops() - 2.0 / 1_999.0).abs() < 1e-9);
        assert!((p99(&found.offer_ms) - 2.0).abs() < 1e-9);
        assert!((p99(&found.ack_ms) - 4.0).abs() < 1e-9);
        assert!((Found::default().drops() - 1.0).abs() < 1e-9, "silence is no service");
    }
}
