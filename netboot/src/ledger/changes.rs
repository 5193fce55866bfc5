//! Core: in which order leases changed, for other agents that ask for news.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The last change of each address, counted since the start of the agent.
#[derive(Debug, Default)]
pub(super) struct Changes {
    last: u64,
    numbers: BTreeMap<Ipv4Addr, u64>,
    addresses: BTreeMap<u64, Ipv4Addr>,
}

impl Changes {
    /// Notes that the lease of an address changed.
    pub(super) fn note(&mut self, address: Ipv4Addr) {
        self.last += 1;
        if let Some(before) = self.numbers.insert(address, self.last) {
            self.addresses.remove(&before);
        }
        self.addresses.insert(self.last, address);
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The addresses that changed after this number, oldest change first.
    pub(super) fn after(&self, number: u64) -> impl Iterator<Item = (u64, Ipv4Addr)> + '_ {
        let later = self.addresses.range(number.saturating_add(1)..);
        later.map(|(number, address)| (*number, *address))
    }
}

impl FromIterator<Ipv4Addr> for Changes {
    fn from_iter<I: IntoIterator<Item = Ipv4Addr>>(addresses: I) -> Self {
        let mut changes = Self::default();
        addresses.into_iter().for_each(|address| changes.note(address));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_once_with_its_last_change() {
        let [a, b] = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last));
        let mut changes: Changes = [a, b].into_iter().collect();
        assert_eq!(changes.after(0).collect::<Vec<_>>(), [(1, a), (2, b)]);
        changes.note(a);
        assert_eq!(changes.after(0).collect::<Vec<_>>(), [(2, b), (3, a)]);
        assert_eq!(changes.after(2).collect::<Vec<_>>(), [(3, a)]);
        assert_eq!((changes.after(3).count(), changes.after(u64::MAX).count()), (0, 0));
    }
}
