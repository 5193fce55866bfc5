//! Core: whether a request about a machine comes from the machine. The address that its card leases shows
//! that. A serial number does not: strangers know it, too. A boot that a stranger began would end the ramdisk
//! that runs, and tell the stranger its token.

use std::net::Ipv4Addr;

use model::MacAddress;
use model::rack::RackMachine;

/// An address from which somebody asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct SenderAddress {
    pub(super) address: Ipv4Addr,
    /// The card that leases it now.
    pub(super) card: Option<MacAddress>,
    /// Whether it lies in a network of the racks, where addresses come from leases or from the inventory.
    pub(super) is_of_rack: bool,
}

/// The sender of a request about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// The machine, as far as the agent can know.
    Machine,
    /// Somebody, while a card of the machine leases another address.
    Stranger(Stranger),
}

/// A sender that asks in place of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stranger {
    /// The address that a card of the machine leases.
    pub(super) leased: Ipv4Addr,
    /// The card that leases the sender's address now.
    pub(super) card: Option<MacAddress>,
    /// Whether the sender's address lies in a network of the racks.
    pub(super) is_of_rack: bool,
}

impl Sender {
    /// The sender at an address that asks about a machine; `leased` finds an address that one of these cards
    /// leases.
    pub(super) fn of(
        from: SenderAddress,
        machine: &RackMachine,
        leased: impl FnOnce(&[MacAddress]) -> Option<Ipv4Addr>,
    ) -> Self {
        let SenderAddress { address, card, is_of_rack } = from;
        let is_its_own = match card {
            Some(card) => machine.mac.contains(&card),
            None => machine.addresses.contains(&address),
        };
        if is_its_own {
            return Self::Machine;
        }
        match leased(&machine.mac) {
            Some(leased) => Self::Stranger(Stranger { leased, card, is_of_rack }),
            None => Self::Machine,
        }
    }

    /// Whether the sender may be the system of the machine. A system that names its power cycle may have an
    /// address in another network, while the lease by which it booted still lasts.
    pub(super) fn may_be_its_system(self, names_cycle: bool) -> bool {
        match self {
            Self::Machine => true,
            Self::Stranger(who) => names_cycle && who.card.is_none() && !who.is_of_rack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "52:54:00:00:00:01";
    const OTHER: &str = "52:54:00:00:00:09";

    #[test]
    fn who_asks() {
        let mut machine = crate::testing::rack(0, 1).machines.remove(0);
        machine.mac = vec![OWN.parse().unwrap()];
        let leases: Ipv4Addr = [10, 69, 0, 40].into();
        let stranger = |card: Option<&str>, is_of_rack| {
            let card = card.map(|card| card.parse().unwrap());
            Sender::Stranger(Stranger { leased: leases, card, is_of_rack })
        };
        // The address, who leases it, whether it is of the rack, and what the machine's card leases.
        for (address, card, is_of_rack, leased, sender) in [
            ([10, 69, 0, 40], Some(OWN), true, Some(leases), Sender::Machine),
            ([10, 69, 0, 40], Some(OWN), true, None, Sender::Machine),
            // Its own in the inventory, unless somebody else leases it.
            ([10, 69, 0, 4], None, true, Some(leases), Sender::Machine),
            ([10, 69, 0, 4], Some(OTHER), true, Some(leases), stranger(Some(OTHER), true)),
            ([10, 69, 0, 41], None, true, Some(leases), stranger(None, true)),
            ([10, 69, 0, 41], Some(OTHER), true, Some(leases), stranger(Some(OTHER), true)),
            ([192, 0, 2, 1], None, false, Some(leases), stranger(None, false)),
            // Nothing is known of the machine's own.
            ([10, 69, 0, 41], Some(OTHER), true, None, Sender::Machine),
            ([192, 0, 2, 1], None, false, None, Sender::Machine),
        ] {
            let card = card.map(|card| card.parse().unwrap());
            let from = SenderAddress { address: address.into(), card, is_of_rack };
            let found = Sender::of(from, &machine, |cards| {
                assert_eq!(cards, machine.mac);
                leased
            });
            assert_eq!(found, sender, "{from:?}");
        }
        let may = |sender: Sender| [true, false].map(|names| sender.may_be_its_system(names));
        assert_eq!(may(Sender::Machine), [true, true]);
        assert_eq!(may(stranger(None, false)), [true, false]);
        assert_eq!(may(stranger(None, true)), [false, false]);
        assert_eq!(may(stranger(Some(OTHER), false)), [false, false]);
    }
}
