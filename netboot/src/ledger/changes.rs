//! Core: in which order leases, ramdisks and addresses changed, for other agents that ask for news.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::Serial;

/// A subject of news for other agents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Changed {
    /// The lease of an address.
    Lease(Ipv4Addr),
    /// The record of a machine's ramdisk.
    Ramdisk(u32, Serial),
    /// The addresses at which the agent serves machines.
    Places,
}

/// The last change of each, counted since the start of the agent.
#[derive(Debug, Default)]
pub(super) struct Changes {
    last: u64,
    numbers: BTreeMap<Changed, u64>,
    order: BTreeMap<u64, Changed>,
}

impl Changes {
    /// Notes that something changed.
    pub(super) fn note(&mut self, changed: Changed) {
        self.last += 1;
        if let Some(before) = self.numbers.insert(changed.clone(), self.last) {
            self.order.remove(&before);
        }
        self.order.insert(self.last, changed);
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The changes after this number, oldest change first.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = (u64, &Changed)> + '_ {
        let later = self.order.range(number.saturating_add(1)..);
        later.map(|(number, changed)| (*number, changed))
    }
}

impl FromIterator<Changed> for Changes {
    fn from_iter<I: IntoIterator<Item = Changed>>(all: I) -> Self {
        let mut changes = Self::default();
        all.into_iter().for_each(|changed| changes.note(changed));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_once_with_its_last_change() {
        let a = Changed::Lease(Ipv4Addr::new(10, 0, 0, 1));
        let b = Changed::Ramdisk(0, "S1".parse().unwrap());
        let mut changes: Changes = [a.clone(), b.clone()].into_iter().collect();
        assert_eq!(changes.after(0).collect::<Vec<_>>(), [(1, &a), (2, &b)]);
        changes.note(a.clone());
        assert_eq!(changes.after(0).collect::<Vec<_>>(), [(2, &b), (3, &a)]);
        assert_eq!(changes.after(2).collect::<Vec<_>>(), [(3, &a)]);
        assert_eq!((changes.after(3).count(), changes.after(u64::MAX).count()), (0, 0));
    }
}
