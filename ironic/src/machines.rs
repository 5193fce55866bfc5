//! Core: what is known of machines.

use model::power_cycle::{ExpectedRamdisk, Ramdisk, RamdiskToken};
use model::rack::Observation;
use model::{MacAddress, Serial, Timestamp, Uuid};

/// The server's knowledge of machines.
pub trait Machines {
    /// The machines with this UUID, which is [`model::machine::node_uuid`].
    fn by_uuid(&self, uuid: Uuid) -> Vec<Node>;
    /// The machines that have one of these cards.
    fn by_macs(&self, macs: &[MacAddress]) -> Vec<Node>;
    /// The machines with this serial number.
    fn by_serial(&self, serial: &Serial) -> Vec<Node>;
    /// The owner of the address that the request comes from.
    fn origin(&self, node: &Node) -> Origin;
    /// Whether the token that counts as told was claimed for this answer, in the hearing of other
    /// servers.
    fn has_claimed(&self, _node: &Node) -> bool {
        false
    }
}

/// The owner of the address that a machine's request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The machine, or nobody that is known.
    Itself,
    /// Another machine, whose card leases it.
    AnotherMachine,
    /// Neither of them, while a card of the machine leases another address.
    Elsewhere {
        /// The card that leases the address; no machine that is known has it.
        card: Option<MacAddress>,
    },
}

impl Origin {
    /// Whether a request may ask for the machine, whose sender names these cards as its own and shows no
    /// token. A card that nobody knows yet may be a second one of the machine.
    fn may_ask(self, cards: &[MacAddress]) -> bool {
        match self {
            Self::Itself => true,
            Self::AnotherMachine => false,
            Self::Elsewhere { card } => card.is_some_and(|card| cards.contains(&card)),
        }
    }
}

/// A machine, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub rack: u32,
    /// Its serial number.
    pub serial: Serial,
    pub uuid: Uuid,
    /// When it was registered.
    pub registered: Option<Timestamp>,
    /// Its power cycle.
    pub cycle: u64,
    /// The ramdisk that is to look itself up, where one is.
    pub ramdisk: Option<ExpectedRamdisk>,
}

impl Node {
    /// The facts heard of the ramdisk that runs now. Of a ramdisk of an earlier boot, only the client
    /// that was told the token of a node is kept.
    pub fn heard(&self) -> Ramdisk {
        let heard = self.ramdisk.as_ref().map(|expected| expected.heard.clone());
        let heard = heard.unwrap_or_default();
        if is_told(&heard) {
            return heard;
        }
        Ramdisk { booted: heard.booted, enrolling: heard.enrolling, ..Ramdisk::default() }
    }

    /// The time that counts for a token told at `now`: no clock puts it before the boot that it is for.
    pub(crate) fn told_at(&self, now: Timestamp) -> Timestamp {
        self.heard().booted.map_or(now, |booted| booted.max(now))
    }

    /// The token of the ramdisk that runs now.
    pub(crate) fn token(&self) -> Option<RamdiskToken> {
        let expected = self.ramdisk.as_ref()?;
        Some(expected.token.of_boot(expected.heard.booted))
    }

    pub(crate) fn ramdisk_heard(&self, heard: Ramdisk) -> Box<Observation> {
        let Self { rack, serial, registered, cycle, .. } = self.clone();
        Box::new(Observation::Ramdisk { rack, serial, registered, cycle, heard })
    }
}

/// Whether a ramdisk has its token since the machine booted last.
pub fn is_told(heard: &Ramdisk) -> bool {
    heard.token_told.is_some_and(|told| heard.booted.is_none_or(|booted| told >= booted))
}

/// Merges what two servers heard of one ramdisk: the later boot counts, and of the words the later.
pub fn merged(one: &Ramdisk, other: &Ramdisk) -> Ramdisk {
    let key = |heard: &Ramdisk| (heard.token_told, heard.agent.as_ref().map(|agent| agent.heard));
    let later = if key(other) > key(one) { other } else { one };
    // The client that was told first counts, by whichever agent.
    let enrolling = one.enrolling.into_iter().chain(other.enrolling).min();
    Ramdisk { booted: one.booted.max(other.booted), enrolling, ..later.clone() }
}

/// The record of a machine that begins to boot. From here on its ramdisk is another one, with another
/// token. The boot is later than all that was heard, whatever the clocks of servers say.
pub fn booting(heard: &Ramdisk, now: Timestamp) -> Ramdisk {
    let last = heard.token_told.max(heard.booted);
    Ramdisk { booted: Some(later(last, now)), ..heard.clone() }
}

/// When something counts as heard that is heard behind `last`: clocks of servers differ.
pub(crate) fn later(last: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let after = last.map(|last| Timestamp::from_micros(last.micros().saturating_add(1)));
    after.map_or(now, |after| after.max(now))
}

/// Machines that one request means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Several(pub Vec<Serial>);

/// The one machine that is meant, where a request may ask for it that names these cards.
pub(crate) fn asked_by(
    nodes: Vec<Node>,
    machines: &impl Machines,
    cards: &[MacAddress],
) -> Result<Node, crate::Outcome> {
    let may_ask = |node: &Node| machines.origin(node).may_ask(cards);
    only(nodes).and_then(|node| Some(node).filter(may_ask).ok_or_else(crate::Outcome::missing))
}

/// The one machine that is meant.
pub(crate) fn only(nodes: Vec<Node>) -> Result<Node, crate::Outcome> {
    let mut serials: Vec<Serial> = nodes.iter().map(|node| node.serial.clone()).collect();
    serials.sort();
    serials.dedup();
    let missing = crate::Outcome::missing();
    if serials.len() > 1 {
        return Err(crate::Outcome { effect: crate::Effect::Several(Several(serials)), ..missing });
    }
    nodes.into_iter().next().filter(|node| node.ramdisk.is_some()).ok_or(missing)
}
