//! Core: how a flood of refused requests becomes a few entries with counts, so that it neither fills a
//! disk nor hides what came before.

use std::collections::HashMap;
use std::sync::Arc;

use super::{AuditEntry, Interface};
use crate::time::Timestamp;

/// Seconds for which entries are counted before they are told of together.
pub const WINDOW_SECONDS: i64 = 600;
/// Entries that are alike and that are told of at once; later ones of the same window are counted.
const ALIKE_MAX: u32 = 3;
/// Counted entries that are told of before the window is over: with those before, as many as are an
/// alarm. After that it takes four times as many each time.
const COUNTED_FIRST: u64 = 17;
const COUNTED_MORE: u64 = 4;
/// Entries of one window that are told of at once: some 40 KiB.
const AT_ONCE_MAX: u32 = 100;
/// Kinds of entries that are told apart. A client that invents names fills them; further kinds are
/// counted together.
const KINDS_MAX: usize = 256;
/// The name in an entry for names that are too many to be told apart.
const MANY: &str = "many";

/// The fields in which alike entries agree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    user: Arc<str>,
    interface: Interface,
    address: Option<std::net::IpAddr>,
    action: String,
    code: Option<String>,
}

#[derive(Debug, Clone)]
struct Row {
    told: u32,
    /// So many that are counted are told of.
    next: u64,
    withheld: Option<AuditEntry>,
}

/// The refusals in the present window.
#[derive(Debug, Default)]
pub struct Flood {
    since: Timestamp,
    told: u32,
    rows: HashMap<Kind, Row>,
    others: Option<AuditEntry>,
}

impl Flood {
    /// Notes a refusal; gives the entries that are to be told of now.
    pub fn note(&mut self, entry: AuditEntry) -> Vec<AuditEntry> {
        let mut tell = self.ended(entry.time);
        let kind = Kind {
            user: Arc::clone(&entry.asker.user),
            interface: entry.asker.interface,
            address: entry.asker.address,
            action: entry.action.clone(),
            code: entry.code.clone(),
        };
        if !self.rows.contains_key(&kind) && self.rows.len() >= KINDS_MAX {
            let mut entry = entry;
            entry.asker.user = MANY.into();
            entry.asker.address = None;
            count(&mut self.others, entry);
            return tell;
        }
        let row =
            self.rows.entry(kind).or_insert(Row { told: 0, next: COUNTED_FIRST, withheld: None });
        let has_room = self.told < AT_ONCE_MAX;
        if row.told < ALIKE_MAX && has_room {
            row.told += 1;
            self.told += 1;
            tell.push(entry);
            return tell;
        }
        count(&mut row.withheld, entry);
        if has_room && row.withheld.as_ref().is_some_and(|counted| counted.times >= row.next) {
            row.next = row.next.saturating_mul(COUNTED_MORE);
            self.told += 1;
            tell.extend(row.withheld.take());
        }
        tell
    }

    /// The entries that were only counted and are to be told of, if the window is over.
    pub fn ended(&mut self, now: Timestamp) -> Vec<AuditEntry> {
        // A clock that was set back ends it, too.
        if (self.since..self.since.plus_seconds(WINDOW_SECONDS)).contains(&now) {
            return Vec::new();
        }
        let told = self.withheld();
        *self = Self { since: now, ..Self::default() };
        told
    }

    /// The entries that were only counted until now.
    pub fn withheld(&self) -> Vec<AuditEntry> {
        let rows = self.rows.values().filter_map(|row| row.withheld.clone());
        let mut told: Vec<_> = rows.chain(self.others.clone()).collect();
        told.sort_by_key(|entry| entry.time);
        told
    }
}

/// Counts an entry with those that are alike.
fn count(withheld: &mut Option<AuditEntry>, entry: AuditEntry) {
    let before = withheld.as_ref().map_or(0, |before| before.times);
    let times = before.saturating_add(entry.times);
    *withheld = Some(AuditEntry { times, ..entry });
}

#[cfg(test)]
mod tests {
    use super::super::{Asker, Outcome};
    use super::*;

    fn entry(user: &str, second: i64) -> AuditEntry {
        let asker = Asker { user: user.into(), ..Asker::cluster() };
        let time = Timestamp::from_micros(0).plus_seconds(1_000 + second);
        AuditEntry::new(time, asker, "OP_NODE_REMOVE", "n2", Outcome::Refused)
    }

    #[test]
    fn what_is_alike_is_told_a_few_times_and_counted() {
        let mut flood = Flood::default();
        let told: Vec<u64> =
            (0..1_000).flat_map(|_| flood.note(entry("eve", 1))).map(|e| e.times).collect();
        assert_eq!(told, [1, 1, 1, 17, 68, 272]);
        assert_eq!(flood.note(entry("bob", 2)).len(), 1, "another one is not hidden");
        assert_eq!(flood.withheld().iter().map(|entry| entry.times).collect::<Vec<_>>(), [640]);
        assert!(flood.ended(entry("", 500).time).is_empty());
        let told = flood.note(entry("bob", 700));
        let told: Vec<_> = told.iter().map(|e| (e.asker.user.as_ref(), e.times)).collect();
        assert_eq!(told, [("eve", 640), ("bob", 1)]);
        assert!(flood.withheld().is_empty());
    }

    #[test]
    fn invented_names_are_counted_together() {
        let mut flood = Flood::default();
        let told: usize = (0..10_000).map(|n| flood.note(entry(&format!("u{n}"), 1)).len()).sum();
        assert_eq!(told, AT_ONCE_MAX as usize);
        let withheld = flood.withheld();
        assert_eq!(withheld.len(), KINDS_MAX - AT_ONCE_MAX as usize + 1);
        let total: u64 = withheld.iter().map(|entry| entry.times).sum();
        assert_eq!(total, 10_000 - u64::from(AT_ONCE_MAX));
        assert!(withheld.iter().any(|entry| entry.asker.user.as_ref() == MANY));
    }
}
