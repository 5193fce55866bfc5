//! Core: the table of alarms. A kind has its code, its severity and, where the watcher raises it, its deadline.
//! A subject has its kind and the words that name it.

use std::fmt;

use model::cluster_status::AlarmSeverity;
use model::rack_fault::RackCause;
use model::switch::PortKey;
use model::{Code, InstanceName, NodeName, Serial, Timestamp, Word};

/// Seconds for which a pool may lack a candidate that nobody can become.
pub const POOL_DEADLINE: u64 = 60;
/// Seconds for which there may be fewer copies and voters than the nodes allow: time to get some.
pub const REDUNDANCY_DEADLINE: u64 = 60;
/// Seconds for which an agent may be silent: a restart of noded takes less, that of a machine is
/// worth a look.
pub const UNREACHED_DEADLINE: u64 = 60;
/// Seconds for which an agent that answers may have another list of callers: it is told at once, and
/// a few times more within them.
pub const CALLERS_DEADLINE: u64 = 60;
/// Seconds for which a rack may be unserved: a restart of its agent takes less.
pub const UNSERVED_DEADLINE: u64 = 60;
/// Seconds for which a host's network may differ from what was applied: a link that comes up takes less.
pub const DRIFT_DEADLINE: u64 = 60;
/// Seconds for which a guest may wait for a disk: a copy that is let go takes less.
pub const STILL_DEADLINE: u64 = 30;
/// Seconds for which a copy of a disk may lack writes: a restart of its node's agent and the filling of what
/// changed meanwhile take less.
pub const STALE_DEADLINE: u64 = 300;
/// Seconds for which the master's node may lack the master's address: time for some attempts to take
/// it.
pub const ADDRESS_DEADLINE: u64 = 10;
/// Seconds after which an agent without its document gets a push: twice the longest
/// pause between the pushes that the exchange with it makes by itself.
pub const BEHIND_DEADLINE: u64 = 1_800;
/// Seconds for which a watcher must have been at work before a machine is late: those that called while
/// there was no master call again within them.
pub const OVERDUE_GRACE: u64 = 60;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $severity:ident $(, after $deadline:expr)?;)+) => {
        /// A kind of alarm; the worst first.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum AlarmKind { $($(#[$doc])* $kind,)+ }

        impl AlarmKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            /// How urgent it is.
            pub const fn severity(self) -> AlarmSeverity {
                match self { $(Self::$kind => AlarmSeverity::$severity,)+ }
            }

            /// Its code, which answers, documents and metrics show.
            pub const fn code(self) -> Code {
                match self { $(Self::$kind => Code::$kind,)+ }
            }

            /// Seconds for which its state may last before the watcher raises it; none where a status page
            /// finds it by itself.
            pub const fn deadline(self) -> Option<u64> {
                match self { $(Self::$kind => kinds!(@deadline $($deadline)?),)+ }
            }
        }
    };
    (@deadline) => { None };
    (@deadline $deadline:expr) => { Some($deadline) };
}

// Critical where changes are refused, a store commits nothing, or data may be lost or wrong. A document
// gets a push before it is an alarm; copies never become alike again by themselves.
kinds! {
    /// No majority of the voters answers the master.
    MajorityLost Critical;
    /// The previous master is not confirmed.
    NotConfirmed Critical;
    /// A node lacks the store that it should have.
    StoreMissing Critical;
    /// A standby hears no leader.
    LeaderSilent Critical;
    /// A store commits nothing any more.
    StoreFailed Critical;
    /// The disk takes no files.
    DiskFull Critical;
    /// An override cut what members held, and nobody has looked at it yet.
    OverrideCut Critical;
    /// One voter more that goes ends commits.
    MajorityThin Warning;
    /// Fewer copies or voters than there could be.
    Redundancy Warning, after REDUNDANCY_DEADLINE;
    /// A candidate has an older copy than it had.
    CandidateForgot Warning;
    /// The copies of candidates differ.
    Copies Critical, after 0;
    /// A candidate does not answer.
    CandidateUnreachable Warning;
    /// The disk of a candidate takes no files.
    CandidateFull Warning;
    /// A candidate lacks much.
    CandidateBehind Warning;
    /// A candidate has no copy.
    CandidateMissing Warning;
    /// The master's node lacks the master's address.
    MasterAddress Warning, after ADDRESS_DEADLINE;
    /// Too few candidates.
    Pool Warning, after POOL_DEADLINE;
    /// Little room is left.
    DiskLow Warning;
    /// Little of the journal is left.
    Journal Warning;
    /// Files are written too slowly.
    Files Warning;
    /// A certificate ends.
    Certificate Warning;
    /// An agent does not answer.
    Agent Warning, after UNREACHED_DEADLINE;
    /// An agent has another list of who may call it.
    Callers Warning, after CALLERS_DEADLINE;
    /// An agent does not serve its rack's newest document.
    Document Warning, after BEHIND_DEADLINE + UNREACHED_DEADLINE;
    /// Nobody serves a rack, or an agent of it cannot; causes have their own severity.
    RackUnserved Warning, after UNSERVED_DEADLINE;
    /// The clock of a node is wrong.
    ClockOff Warning, after UNREACHED_DEADLINE;
    /// The network of a host is not what was applied.
    NetworkDrift Warning, after DRIFT_DEADLINE;
    MachineFailed Warning, after 0;
    /// A machine is longer in its state than it may be.
    MachineOverdue Warning, after OVERDUE_GRACE;
    /// A job left a machine off that it was to switch on.
    MachineOff Warning, after 0;
    /// A machine's hardware changed.
    HardwareChanged Warning, after 0;
    /// A switch does not answer.
    SwitchUnreached Warning, after UNREACHED_DEADLINE;
    /// A port of a switch is not as it is to be.
    PortFailed Warning, after 0;
    /// An instance does not stay alive.
    InstanceKeepsDying Warning, after 0;
    /// A guest stands still, as a disk could not be written.
    InstanceStandsStill Warning, after STILL_DEADLINE;
    /// A disk has one whole copy alone.
    CopyStale Warning, after STALE_DEADLINE;
    /// A machine in service gives no sign of life any more, or many of an agent.
    MachineSilent Warning, after 0;
    /// Somebody guesses passwords.
    WrongPasswords Warning, after 0;
    /// No new jobs are taken.
    Drained Warning;
    /// The watcher does nothing.
    WatcherPaused Warning;
}

macro_rules! subjects {
    ($(
        $(#[$doc:meta])*
        $subject:ident$(($($part:ident: $type:ty),+))? => $kind:ident, $words:literal $(, $shown:expr)*;
    )+) => {
        /// The subject of an alarm that the watcher raises.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Subject { $($(#[$doc])* $subject$(($($type),+))?,)+ }

        impl Subject {
            /// The kind of its alarm.
            pub const fn kind(&self) -> AlarmKind {
                match self { $(Self::$subject { .. } => AlarmKind::$kind,)+ }
            }
        }

        impl fmt::Display for Subject {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$subject$(($($part),+))? => write!(f, $words $(, $shown)*),)+ }
            }
        }
    };
}

subjects! {
    Pool => Pool, "master candidates";
    /// Voters and copies beside the master.
    Redundancy => Redundancy, "redundancy";
    /// The agent of a node, which does not answer.
    Agent(node: NodeName) => Agent, "agent of {node}";
    /// The rack document of a node's agent.
    Document(node: NodeName) => Document, "rack document of {node}";
    /// The list of those who may call a node's agent.
    Callers(node: NodeName) => Callers, "callers of {node}";
    /// The address that moves with the master.
    MasterAddress => MasterAddress, "master's address";
    /// The stores of candidates.
    Copies => Copies, "copies of candidates";
    /// A rack that nobody serves.
    Rack(rack: u32) => RackUnserved, "rack {rack}";
    /// A rack that the agent of a node cannot serve, for this reason.
    Serving(rack: u32, node: NodeName, cause: RackCause) =>
        RackUnserved, "rack {rack} at {node} ({})", cause.word();
    WrongClock(node: NodeName) => ClockOff, "clock of {node}";
    /// The network of a node's host.
    Network(node: NodeName) => NetworkDrift, "network of {node}";
    /// A machine that is longer in its state than it may be.
    LateMachine(serial: Serial) => MachineOverdue, "machine {serial}";
    FailedMachine(serial: Serial) => MachineFailed, "failed machine {serial}";
    /// A machine that a job left off.
    MachineOff(serial: Serial) => MachineOff, "machine {serial} left off";
    /// A machine whose hardware changed.
    Hardware(serial: Serial) => HardwareChanged, "hardware of machine {serial}";
    Switch(name: Word) => SwitchUnreached, "switch {name}";
    Port(key: PortKey) => PortFailed, "port {key}";
    Instance(name: InstanceName) => InstanceKeepsDying, "instance {name}";
    /// An instance whose guest waits for a disk.
    StillInstance(name: InstanceName) => InstanceStandsStill, "guest of {name}";
    /// An instance with copies of disks that lack writes.
    StaleCopies(name: InstanceName) => CopyStale, "copies of {name}";
    /// A machine whose silence made it unreachable.
    SilentMachine(serial: Serial) => MachineSilent, "silent machine {serial}";
    /// Machines of an agent that are silent at the same time.
    SilentMachines(agent: NodeName) => MachineSilent, "machines at {agent}";
    /// Passwords that somebody guesses.
    Guesses => WrongPasswords, "front door";
}

impl Subject {
    /// Why a rack is not served, where the alarm is about that.
    pub const fn cause(&self) -> Option<RackCause> {
        match self {
            Self::Serving(_, _, cause) => Some(*cause),
            Self::Rack(_) => Some(RackCause::NoAgent),
            Self::Agent(_) => Some(RackCause::AgentSilent),
            Self::WrongClock(_) => Some(RackCause::ClockOff),
            Self::Document(_) => Some(RackCause::DocumentOld),
            _ => None,
        }
    }

    /// How urgent its alarm is.
    pub fn severity(&self) -> AlarmSeverity {
        self.cause().map_or(self.kind().severity(), RackCause::severity)
    }
}

/// Something that should have passed by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Its subject; there is at most one alarm on each.
    pub what: Subject,
    /// Since when it is so.
    pub since: Timestamp,
    /// The fault.
    pub text: String,
    /// The remedy for the operator.
    pub todo: String,
}
