//! Core: whether somebody guesses passwords or tokens, by what doors of the cluster refused.

use std::collections::VecDeque;

use model::audit::{AuditEntry, Interface, Outcome};
use model::{Code, Timestamp};

use crate::health::alarm::{Alarm, Subject};

/// Seconds for which a guess counts.
const WITHIN: i64 = 3_600;
/// Guesses within them that are an alarm: people mistype a password a few times.
const MANY: u64 = 20;
/// Entries that are remembered; each may stand for many guesses.
const KEPT_MAX: usize = 256;

/// The recent refusals of passwords and tokens.
#[derive(Debug, Default)]
pub struct Guesses(VecDeque<AuditEntry>);

impl Guesses {
    /// Remembers those of these entries that were refused for want of a right password or token. The front
    /// door refuses for other reasons, too.
    pub fn note(&mut self, entries: &[AuditEntry]) {
        let is_guess = |entry: &&AuditEntry| {
            let is_of_login = entry.code.as_deref() == Some(Code::WrongPasswords.word());
            let is_of_door = entry.asker.interface == Interface::Rest;
            entry.result == Outcome::Refused && is_of_door && is_of_login
        };
        self.0.extend(entries.iter().filter(is_guess).cloned());
        let surplus = self.0.len().saturating_sub(KEPT_MAX);
        self.0.drain(..surplus);
    }

    /// The alarm about them, where there are many.
    pub fn alarm(&self, now: Timestamp) -> Option<Alarm> {
        let oldest = now.plus_seconds(-WITHIN);
        let lately = || self.0.iter().filter(|entry| entry.time >= oldest);
        let number: u64 = lately().map(|entry| entry.times).sum();
        let (first, last) = (lately().next()?, lately().next_back()?);
        if number < MANY {
            return None;
        }
        let user = stdx::text::line(&last.asker.user);
        let from = last.asker.address.map_or_else(String::new, |from| format!(" from {from}"));
        Some(Alarm {
            what: Subject::Guesses,
            since: first.time,
            text: format!(
                "{number} wrong passwords or tokens came to the front door within an hour, the last for \
                 `{user}`{from}"
            ),
            todo: "`gnt log --refused` lists them: keep such an address out of the network, or mend the \
                   program that has an old password"
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use model::audit::Asker;

    use super::*;
    use crate::testing::NOW;

    #[test]
    fn many_within_an_hour_are_an_alarm() {
        let guess = |seconds: i64, times| {
            let address = "192.0.2.7".parse().ok();
            let asker = Asker {
                user: "al\nice".into(),
                interface: Interface::Rest,
                host: None,
                address,
                tenant: None,
            };
            let time = NOW.plus_seconds(seconds);
            let entry = AuditEntry::new(time, asker, "GET", "/", Outcome::Refused);
            AuditEntry { times, ..entry }.because(Some("wrong-passwords"), "no")
        };
        let mut guesses = Guesses::default();
        guesses.note(&[guess(0, 19)]);
        let other = |code| AuditEntry { code, ..guess(1, 50) };
        guesses.note(&[other(Some("permission-denied".to_owned())), other(None)]);
        assert_eq!(guesses.alarm(NOW), None, "a page of another site, or a right that is missing");
        guesses.note(&[guess(2, 1)]);
        let alarm = guesses.alarm(NOW).unwrap();
        assert!(alarm.text.starts_with("20 wrong") && alarm.text.contains("192.0.2.7"));
        assert!(alarm.since == NOW && !alarm.text.contains('\n'), "{alarm:?}");
        assert_eq!(guesses.alarm(NOW.plus_seconds(WITHIN + 10)), None);
        guesses.note(&vec![guess(3, 1); 2 * KEPT_MAX]);
        assert_eq!(guesses.0.len(), KEPT_MAX);
    }
}
