//! The states of the model: small and flat, since there are many of them.
#![expect(clippy::cast_possible_truncation, reason = "an entry is unpacked as it was packed")]

use std::hash::{Hash, Hasher};

use queue_format::{Epoch, Position};

/// Nodes, each with a member, an agent and a disk.
pub(super) const NODES: usize = 3;
/// All of them, as a set of bits.
pub(super) const ALL: u8 = 0b111;
/// Most entries of a log; every bound of a scenario fits in.
const ENTRIES_MAX: usize = 8;
/// Most calls on their way, and most that run on one agent.
pub(super) const CALLS_MAX: usize = 2;
/// Most batches that are acknowledged.
pub(super) const ACKNOWLEDGED_MAX: usize = 4;

/// The content of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A leadership begins; whether by a mere start.
    Role { start: bool },
    /// A job with this id was taken.
    Batch(u32),
    /// The voters from here on.
    Voters(u8),
    /// An override cut what others hold; the last job id from here on.
    Cut(u32),
    /// A node whose disk was emptied has a seat again, with the store that it has now.
    Admitted(u8),
}

/// An entry of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) term: u32,
    pub(super) leader: u8,
    pub(super) kind: Kind,
}

impl Entry {
    pub(super) fn epoch(self) -> Epoch {
        Epoch { term: self.term.into(), node: u64::from(self.leader) + 1 }
    }

    fn packed(self) -> u64 {
        let (kind, value) = match self.kind {
            Kind::Role { start } => (0, u32::from(start)),
            Kind::Batch(id) => (1, id),
            Kind::Voters(voters) => (2, voters.into()),
            Kind::Cut(id) => (3, id),
            Kind::Admitted(node) => (4, node.into()),
        };
        debug_assert!(self.term < 1 << 24, "terms of the model fit");
        u64::from(self.term) << 40 | u64::from(self.leader) << 36 | kind << 32 | u64::from(value)
    }

    fn unpacked(packed: u64) -> Self {
        let value = (packed & 0xffff_ffff) as u32;
        let kind = match packed >> 32 & 0xf {
            0 => Kind::Role { start: value == 1 },
            1 => Kind::Batch(value),
            2 => Kind::Voters(value as u8),
            3 => Kind::Cut(value),
            _ => Kind::Admitted(value as u8),
        };
        Self { term: (packed >> 40) as u32, leader: (packed >> 36 & 0xf) as u8, kind }
    }
}

/// A log: the first `len` entries are there. Each is packed into one number, since logs are copied,
/// compared and hashed millions of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Log {
    entries: [u64; ENTRIES_MAX],
    len: u8,
}

impl Log {
    pub(super) const EMPTY: Self = Self { entries: [0; ENTRIES_MAX], len: 0 };

    pub(super) fn len(&self) -> u8 {
        self.len
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries[usize::from(self.len)] = entry.packed();
        self.len += 1;
    }

    pub(super) fn cut(&mut self, len: u8) {
        self.len = self.len.min(len);
        self.entries[usize::from(self.len)..].fill(0);
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Entry> + '_ {
        self.entries[..usize::from(self.len)].iter().map(|&packed| Entry::unpacked(packed))
    }

    pub(super) fn get(&self, index: u8) -> Option<Entry> {
        (index < self.len).then(|| Entry::unpacked(self.entries[usize::from(index)]))
    }

    /// How many entries both begin with.
    pub(super) fn common(&self, other: &Self) -> u8 {
        let same = self.entries.iter().zip(&other.entries).take_while(|(a, b)| a == b).count();
        u8::try_from(same).expect("a log has few entries").min(self.len).min(other.len)
    }

    /// The position of the first `len` entries.
    pub(super) fn position(&self, len: u8) -> Position {
        let last = len.checked_sub(1).and_then(|last| self.get(last));
        Position { epoch: last.map(Entry::epoch).unwrap_or_default(), index: len.into() }
    }

    pub(super) fn last(&self) -> Position {
        self.position(self.len)
    }

    pub(super) fn voters(&self) -> u8 {
        let named = self.iter().rev().find_map(|entry| match entry.kind {
            Kind::Voters(voters) => Some(voters),
            Kind::Role { .. } | Kind::Batch(_) | Kind::Cut(_) | Kind::Admitted(_) => None,
        });
        named.unwrap_or(ALL)
    }

    /// Nodes that are known by the store that they made after their disk was emptied.
    pub(super) fn admitted(&self) -> u8 {
        self.iter().fold(0, |set, entry| match entry.kind {
            Kind::Admitted(node) => set | 1 << node,
            Kind::Role { .. } | Kind::Batch(_) | Kind::Voters(_) | Kind::Cut(_) => set,
        })
    }

    /// The last job id.
    pub(super) fn job_id(&self) -> u32 {
        let ids = self.iter().map(|entry| match entry.kind {
            Kind::Batch(id) | Kind::Cut(id) => id,
            Kind::Role { .. } | Kind::Voters(_) | Kind::Admitted(_) => 0,
        });
        ids.max().unwrap_or(0)
    }

    pub(super) fn role(&self) -> Option<Entry> {
        self.iter().rev().find(|entry| matches!(entry.kind, Kind::Role { .. }))
    }
}

/// A node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    /// The memory of its member on disk: the term in which it has voted, flushed at once, and its log.
    pub(super) term: u32,
    pub(super) log: Log,
    /// Entries that a crash leaves.
    pub(super) flushed: u8,
    /// Whether its disk was emptied: the store is another one than it had at first.
    pub(super) emptied: bool,
    /// The state that it forgets in a crash.
    pub(super) confirmed: Option<super::Attempt>,
    pub(super) leading: bool,
    /// Whether it forgot in a crash that it keeps to a leader.
    pub(super) unbound: bool,
    /// The state of a leader: what is committed, what each has acknowledged beyond it, and whom it has
    /// heard within the time for which these keep to it.
    pub(super) committed: u8,
    pub(super) matched: [u8; NODES],
    pub(super) heard: u8,
    /// Its agent: the epoch that it obeys, and the calls that run.
    pub(super) obeys: Epoch,
    pub(super) running: [Option<Epoch>; CALLS_MAX],
}

/// In few large numbers: in a debug build, hashing was most of the time.
impl Hash for Node {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let confirmed = self.confirmed.map_or(0, |attempt| attempt as u8 + 1);
        let flags = [self.emptied, self.leading, self.unbound];
        let flags = flags.iter().fold(0, |set, flag| set << 1 | u8::from(*flag));
        let [a, b, c] = self.matched;
        let Self { flushed, committed, heard, .. } = *self;
        to.write_u64(u64::from_le_bytes([flushed, committed, heard, a, b, c, confirmed, flags]));
        to.write_u64(u64::from(self.term) << 8 | u64::from(self.log.len));
        for entry in &self.log.entries[..usize::from(self.log.len)] {
            to.write_u64(*entry);
        }
        for epoch in [Some(self.obeys)].iter().chain(&self.running) {
            to.write_u64(epoch.map_or(u64::MAX, |epoch| epoch.term << 8 | epoch.node));
        }
    }
}

/// How often each thing may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Bounds {
    pub(super) elections: u8,
    pub(super) batches: u8,
    pub(super) crashes: u8,
    pub(super) emptied: u8,
    pub(super) changes: u8,
    pub(super) calls: u8,
    pub(super) overrides: u8,
    /// Whether anything may happen between the vote check and the election.
    pub(super) apart: bool,
    /// Whether operators change roles at will, and nodes are away for as long as they like. Else all are
    /// candidates, and nobody is away for longer than it is waited for.
    pub(super) roles: bool,
}

/// A state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) nodes: [Node; NODES],
    /// Calls that were sent: under which epoch, to whom.
    pub(super) calls: [Option<(Epoch, u8)>; CALLS_MAX],
    /// Batches that clients were told of, with their indices.
    pub(super) acknowledged: [Option<(u8, Entry)>; ACKNOWLEDGED_MAX],
    /// The epoch of an override, and whether it said what it cuts.
    pub(super) overridden: Option<(Epoch, bool)>,
    /// Whether a client was told of a batch that one member alone had acknowledged.
    pub(super) on_one_disk: bool,
    pub(super) left: Bounds,
}

impl World {
    /// Node 0 is master in term 1, which everyone knows.
    pub(super) fn new(left: Bounds) -> Self {
        let mut log = Log::EMPTY;
        log.push(Entry { term: 1, leader: 0, kind: Kind::Role { start: false } });
        let follower = Node {
            term: 1,
            log,
            flushed: 1,
            emptied: false,
            committed: 0,
            confirmed: None,
            leading: false,
            matched: [0; NODES],
            unbound: false,
            heard: 0,
            obeys: Epoch::default(),
            running: [None; CALLS_MAX],
        };
        let mut nodes = [follower; NODES];
        nodes[0].leading = true;
        (nodes[0].committed, nodes[0].heard) = (1, ALL & !1);
        Self {
            nodes,
            calls: [None; CALLS_MAX],
            acknowledged: [None; ACKNOWLEDGED_MAX],
            overridden: None,
            on_one_disk: false,
            left,
        }
    }
}

/// The members of a set of bits.
pub(super) fn members(set: u8) -> impl Iterator<Item = usize> {
    (0..NODES).filter(move |node| set & (1 << node) != 0)
}

/// Whether `some` are more than half of `all`.
pub(super) fn is_majority(some: u8, all: u8) -> bool {
    (some & all).count_ones() * 2 > all.count_ones()
}
