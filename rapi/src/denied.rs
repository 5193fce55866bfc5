//! Requests that were refused because of who asked: a wrong password, or a role that is not enough. The
//! master keeps them in the audit log; here they wait for it, a few seconds and never many.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{StatusCode, header};
use model::audit::flood::Flood;
use model::audit::{Asker, AuditEntry, Interface, Outcome};
use model::{Code, Timestamp, token};
use parking_lot::Mutex;

use crate::authenticate::Authenticator;
use crate::refusal::Refusal;

/// Entries that wait for the master: as many as it takes at a time. Later ones are counted with the last.
const WAITING_MAX: usize = 64;
/// The name that is noted where the given name is no user's: it may be a password.
const UNKNOWN: &str = "unknown";

/// Refused requests of which the master does not know yet.
#[derive(Debug, Default)]
pub struct Refusals {
    flood: Mutex<Flood>,
    waiting: Mutex<Vec<AuditEntry>>,
}

impl Refusals {
    fn note(&self, entry: AuditEntry) {
        let told = self.flood.lock().note(entry);
        self.add(told);
    }

    /// Lets entries wait for the master.
    pub(crate) fn add(&self, entries: Vec<AuditEntry>) {
        let mut waiting = self.waiting.lock();
        for entry in entries {
            let is_full = waiting.len() >= WAITING_MAX;
            match waiting.last_mut().filter(|_last| is_full) {
                Some(last) => last.times = last.times.saturating_add(entry.times),
                None => waiting.push(entry),
            }
        }
    }

    /// The entries for the master at `now`.
    pub(crate) fn take(&self, now: Timestamp) -> Vec<AuditEntry> {
        let over = self.flood.lock().ended(now);
        self.add(over);
        std::mem::take(&mut *self.waiting.lock())
    }
}

/// The parts of a request that are kept until it is known whether it is refused.
#[derive(Debug)]
pub(crate) struct Denied {
    method: String,
    path: String,
    /// The user that a password was given for.
    claimed: Option<Arc<str>>,
}

impl Denied {
    pub(crate) fn of(authenticator: &Authenticator, request: &Request) -> Self {
        let given = request.headers().get(header::AUTHORIZATION);
        let known = |header| authenticator.claimed(header).unwrap_or_else(|| UNKNOWN.into());
        let path = token::masked(request.uri().path()).into_owned();
        let method = request.method().to_string();
        Self { method, path, claimed: given.map(known) }
    }

    /// Notes that it was refused, if it was because of who asked. A client that was only asked to log
    /// in, as every browser is first, is not noted.
    pub(crate) fn note(
        self,
        (refusals, now): (&Refusals, Timestamp),
        (user, address): (Option<&str>, IpAddr),
        refusal: &Refusal,
    ) {
        let code = match refusal.status() {
            StatusCode::UNAUTHORIZED if self.claimed.is_some() => Some(Code::WrongPasswords),
            StatusCode::FORBIDDEN => refusal.see,
            _ => return,
        };
        let code = code.map(Code::word);
        let user = user.map(Arc::from).or(self.claimed).unwrap_or_else(|| "nobody".into());
        let address = Some(address.to_canonical());
        let asker = Asker { user, interface: Interface::Rest, host: None, address, tenant: None };
        let entry = AuditEntry::new(now, asker, &self.method, &self.path, Outcome::Refused);
        refusals.note(entry.because(code, &refusal.explain));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_wait_than_the_master_takes_and_none_is_lost() {
        let refusals = Refusals::default();
        for n in 0..1_000 {
            let asker = Asker { user: format!("u{n}").into(), ..Asker::cluster() };
            let entry = AuditEntry::new(Timestamp::default(), asker, "GET", "/", Outcome::Refused);
            refusals.note(entry);
        }
        let waiting = refusals.waiting.lock();
        assert_eq!(waiting.len(), WAITING_MAX);
        let withheld = refusals.flood.lock().withheld();
        let all = waiting.iter().chain(&withheld);
        assert_eq!(all.map(|entry| entry.times).sum::<u64>(), 1_000);
    }
}
