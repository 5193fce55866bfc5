//! What is done to a node, and its end.

use std::fmt;

use nix::sys::signal::Signal;

use super::{Yard, masterd_of, noded_of};
use crate::seed::Seed;

/// One kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// `masterd` is killed.
    Kill,
    /// Both daemons are killed.
    KillBoth,
    /// `noded` is killed.
    KillAgent,
    /// `masterd` is stopped as by SIGSTOP, and goes on later.
    Pause,
    /// Both daemons are.
    PauseBoth,
    /// Nothing goes from or to the node.
    Unplug,
    /// What the node sends is lost.
    Mute,
    /// What is sent to the node is lost.
    Deafen,
    /// The node and the next one do not hear each other; both hear the third.
    Part,
    /// The disk has no room.
    Fill,
    /// The disk holds what was flushed, and nothing runs.
    Power,
    /// `masterd` is asked to end.
    Restart,
}

impl Trouble {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Kill,
        Self::KillBoth,
        Self::KillAgent,
        Self::Pause,
        Self::PauseBoth,
        Self::Unplug,
        Self::Mute,
        Self::Deafen,
        Self::Part,
        Self::Fill,
        Self::Power,
        Self::Restart,
    ];

    /// One of them.
    pub fn any(seed: &mut Seed) -> Self {
        let all = u64::try_from(Self::ALL.len()).expect("a few");
        let at = usize::try_from(seed.below(all)).expect("below a few");
        Self::ALL[at]
    }

    /// Whether a master that meets it is gone for all others, so that another one can and must come.
    #[must_use]
    pub const fn takes_away(self) -> bool {
        match self {
            Self::Kill
            | Self::KillBoth
            | Self::Pause
            | Self::PauseBoth
            | Self::Unplug
            | Self::Power
            | Self::Restart => true,
            Self::KillAgent | Self::Mute | Self::Deafen | Self::Part | Self::Fill => false,
        }
    }

    /// Whether daemons may end by it without having been asked.
    #[must_use]
    pub const fn may_end_daemons(self) -> bool {
        matches!(self, Self::Power)
    }

    /// Brings it to a node.
    pub fn begin(self, yard: &Yard, node: usize) {
        let (masterd, noded) = (masterd_of(node), noded_of(node));
        match self {
            Self::Kill => yard.daemons.kill(&masterd),
            Self::KillBoth => yard.kill(node),
            Self::KillAgent => yard.daemons.kill(&noded),
            Self::Pause => yard.daemons.signal(&masterd, Signal::SIGSTOP),
            Self::PauseBoth => yard.signal(node, Signal::SIGSTOP),
            Self::Unplug => yard.lan.unplug(node),
            Self::Mute => yard.lan.others(node).for_each(|other| yard.lan.silence(node, other)),
            Self::Deafen => yard.lan.others(node).for_each(|other| yard.lan.silence(other, node)),
            Self::Part => {
                let other = next(node);
                yard.lan.silence(node, other);
                yard.lan.silence(other, node);
            }
            Self::Fill => yard.fill(node),
            Self::Power => yard.cut_power(node),
            Self::Restart => yard.daemons.stop(&masterd),
        }
    }

    /// Ends it: what does not run is started.
    pub fn end(self, yard: &Yard, node: usize) {
        match self {
            Self::Pause | Self::PauseBoth => yard.signal(node, Signal::SIGCONT),
            Self::Unplug => yard.lan.plug(node),
            Self::Mute => yard.lan.others(node).for_each(|other| yard.lan.let_speak(node, other)),
            Self::Deafen => {
                yard.lan.others(node).for_each(|other| yard.lan.let_speak(other, node));
            }
            Self::Part => {
                let other = next(node);
                yard.lan.let_speak(node, other);
                yard.lan.let_speak(other, node);
            }
            Self::Fill => yard.make_room(node),
            Self::Power => yard.boot(node),
            Self::Kill | Self::KillBoth | Self::KillAgent | Self::Restart => {}
        }
        if self.may_end_daemons() || self.ends_daemons() {
            yard.start(node);
        }
    }

    const fn ends_daemons(self) -> bool {
        matches!(self, Self::Kill | Self::KillBoth | Self::KillAgent | Self::Restart)
    }
}

const fn next(node: usize) -> usize {
    (node + 1) % super::NODES
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill masterd",
            Self::KillBoth => "kill both",
            Self::KillAgent => "kill noded",
            Self::Pause => "pause masterd",
            Self::PauseBoth => "pause both",
            Self::Unplug => "unplug",
            Self::Mute => "mute",
            Self::Deafen => "deafen",
            Self::Part => "part",
            Self::Fill => "fill disk",
            Self::Power => "power cut",
            Self::Restart => "restart",
        })
    }
}
