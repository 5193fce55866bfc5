//! Faults of a node, and their end.

use std::fmt;

use nix::sys::signal::Signal;

use super::{Testbed, masterd_of, noded_of};
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
    /// All packets from the node are lost.
    Mute,
    /// All packets to the node are lost.
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
    pub const fn may_end_daemons(self) -> bool {
        matches!(self, Self::Power)
    }

    /// Brings it to a node.
    pub fn begin(self, testbed: &Testbed, node: usize) {
        let (masterd, noded) = (masterd_of(node), noded_of(node));
        match self {
            Self::Kill => testbed.daemons.kill(&masterd),
            Self::KillBoth => testbed.kill(node),
            Self::KillAgent => testbed.daemons.kill(&noded),
            Self::Pause => testbed.daemons.signal(&masterd, Signal::SIGSTOP),
            Self::PauseBoth => testbed.signal(node, Signal::SIGSTOP),
            Self::Unplug => testbed.lan.unplug(node),
            Self::Mute => {
                testbed.lan.others(node).for_each(|other| testbed.lan.silence(node, other));
            }
            Self::Deafen => {
                testbed.lan.others(node).for_each(|other| testbed.lan.silence(other, node));
            }
            Self::Part => {
                let other = next(node);
                testbed.lan.silence(node, other);
                testbed.lan.silence(other, node);
            }
            Self::Fill => testbed.fill(node),
            Self::Power => testbed.cut_power(node),
            Self::Restart => testbed.daemons.stop(&masterd),
        }
    }

    /// Ends it: what does not run is started.
    pub fn end(self, testbed: &Testbed, node: usize) {
        match self {
            Self::Pause | Self::PauseBoth => testbed.signal(node, Signal::SIGCONT),
            Self::Unplug => testbed.lan.plug(node),
            Self::Mute => {
                testbed.lan.others(node).for_each(|other| testbed.lan.let_speak(node, other));
            }
            Self::Deafen => {
                testbed.lan.others(node).for_each(|other| testbed.lan.let_speak(other, node));
            }
            Self::Part => {
                let other = next(node);
                testbed.lan.let_speak(node, other);
                testbed.lan.let_speak(other, node);
            }
            Self::Fill => testbed.make_room(node),
            Self::Power => testbed.boot(node),
            Self::Kill | Self::KillBoth | Self::KillAgent | Self::Restart => {}
        }
        if self.may_end_daemons() || self.ends_daemons() {
            testbed.start(node);
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
