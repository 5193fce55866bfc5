//! Core: the codes of what an operator must act on. `docs/runbook.md` has a section for each, and
//! `gnt explain CODE` prints it.
//!
//! A code is stable: alarms, errors and logs carry it, and programs compare it. Whether an error has
//! one is known by the error itself, which is [`Coded`].

use std::fmt;
use std::io::ErrorKind;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! codes {
    ($($code:ident $word:literal $meaning:literal,)+) => {
        /// A condition that an operator must act on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $meaning] $code,)+ }

        impl Code {
            /// Every code, in the order of the runbook.
            pub const ALL: &[Self] = &[$(Self::$code,)+];
            pub const WORDS: &[&str] = &[$($word,)+];

            /// The word that people and programs see.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$code => $word,)+ }
            }

            /// Its meaning, in a line.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$code => $meaning,)+ }
            }
        }
    };
}

codes! {
    MasterUnreached "master-unreached"
        "No master answered, and nothing was done",
    MasterSilent "master-silent"
        "`masterd` accepts connections and does not answer",
    WrongNode "wrong-node"
        "This node forwards nothing to the master, because it is not a candidate or has no copy of the store yet",
    SocketPermission "socket-permission"
        "This user may not use the socket of `masterd`",
    PermissionDenied "permission-denied"
        "The role of this user is not enough for what it asked for",
    OutcomeUnknown "outcome-unknown"
        "The answer was lost, so the change may have been made or not",
    Drained "drained"
        "The queue takes no new jobs",
    QueueFull "queue-full"
        "The queue holds as many jobs as it may",
    Overloaded "overloaded"
        "The daemon has more requests than it can take at the moment",
    ChangeTooLarge "change-too-large"
        "One request, job or answer is larger than the cluster can handle",
    WatcherPaused "watcher-paused"
        "The watcher is paused, and nothing is repaired automatically",
    Fault "fault"
        "Gantry met a fault of its own",
    MajorityLost "majority-lost"
        "No majority of the voters answers, and the master refuses changes",
    MajorityThin "majority-thin"
        "One more lost voter stops the cluster",
    Redundancy "redundancy"
        "There are fewer copies or voters than the nodes allow, or too few for `auto_failover`",
    Pool "pool"
        "There are too few master candidates, and no other node can become one",
    VotersNeeded "voters-needed"
        "The change would leave too few voters that answer, and the cluster would stop",
    NotConfirmed "not-confirmed"
        "This node was the master last, and its precheck fails",
    LeaderSilent "leader-silent"
        "This standby hears no master",
    MasterElsewhere "master-elsewhere"
        "Another node is or was the master, so this node does not take the role by itself",
    NodeIsMaster "node-is-master"
        "The node is the master, which cannot be changed in this way",
    NotEligible "not-eligible"
        "The node cannot be the master: it is no candidate, has no vote, or is a witness or offline",
    RoleNotMoved "role-not-moved"
        "The role was not moved to this node",
    TooFewNodes "too-few-nodes"
        "Not more than half of the nodes answered, and the others may have a master",
    TooFewVoters "too-few-voters"
        "Not more than half of the voters answered, and the others may know acknowledged changes",
    NewerLog "newer-log"
        "A node holds entries that the voters which answer cannot supply",
    LaterMaster "later-master"
        "A node knows of a later master, and no store that answers does",
    Diverged "diverged"
        "Two members hold histories that contradict each other",
    OverrideCut "override-cut"
        "An override cut entries that other nodes held",
    MasterAddress "master-address"
        "The master's address is not where it should be",
    CandidateUnreachable "candidate-unreachable"
        "`masterd` of a candidate does not answer",
    CandidateMissing "candidate-missing"
        "A candidate has no copy of the store",
    CandidateBehind "candidate-behind"
        "A candidate lacks more than 1,000 entries",
    CandidateFull "candidate-full"
        "The disk of a candidate takes no files",
    CandidateForgot "candidate-forgot"
        "The store of a candidate is older than what the candidate acknowledged, or empty",
    Copies "copies"
        "The files of candidates differ from the master's at the same log entry",
    StoreMissing "store-missing"
        "A node has no usable store",
    StoreFailed "store-failed"
        "A store can commit nothing any more, or could not be opened or closed",
    StoreDamaged "store-damaged"
        "The store of a node is damaged, or claims what cannot be true",
    DocumentDamaged "document-damaged"
        "A file of the store does not read, or contradicts another one",
    WrongStore "wrong-store"
        "The store belongs to another node or cluster than the certificates of this machine",
    OlderCopy "older-copy"
        "The store here is an older copy, from before a later master",
    StoreVersion "store-version"
        "Another version of Gantry wrote the store or the file",
    StoreNotCleared "store-not-cleared"
        "`masterd` cannot move an old store aside or wipe it",
    JournalTooSmall "journal-too-small"
        "The journal of this candidate cannot hold what it must hold",
    DiskFull "disk-full"
        "The disk takes no files, and new work is refused",
    DiskLow "disk-low"
        "Less than 5 % of the store's file system is free",
    Journal "journal"
        "More than 80 % of the journal is in use",
    Files "files"
        "More than 32 MiB of committed documents wait to be written as files",
    Agent "agent"
        "An agent does not answer, or does not know the master",
    Callers "callers"
        "An agent did not take the list of nodes that may call it",
    Document "document"
        "An agent does not serve the newest document of its rack, or no agent serves the rack",
    RackUnserved "rack-unserved"
        "A rack has machines and no agent, or its agent cannot serve it",
    ClockOff "clock-off"
        "The clock of a node and the master's differ by more than 150 s",
    NetworkDrift "network-drift"
        "A host's network is not what was applied last",
    BmcFailed "bmc-failed"
        "The management controller of a machine does not do, or not tell, what it was asked for",
    MachineFailed "machine-failed"
        "Something that a machine should do failed",
    SwitchUnreached "switch-unreached"
        "A switch does not answer, or not as it should",
    PortFailed "port-failed"
        "A port of a switch is not as it is to be",
    InstanceKeepsDying "instance-keeps-dying"
        "An instance that is to run dies again and again",
    InstanceStandsStill "instance-stands-still"
        "A guest stands still, as one of its disks could not be written",
    CopyStale "copy-stale"
        "A disk has one whole copy alone",
    MachineOff "machine-off"
        "A job was to switch a machine on, and did not see it on",
    MachineOverdue "machine-overdue"
        "A machine is longer in its state than it may be",
    HardwareChanged "hardware-changed"
        "An inspection found other hardware than the one before",
    MachineSilent "machine-silent"
        "A machine in service gives no sign of life any more",
    WrongPasswords "wrong-passwords"
        "Somebody guesses passwords or tokens at the front door",
    NotAccepted "not-accepted"
        "Two nodes do not accept each other, because of a certificate or a list of callers",
    OtherCluster "other-cluster"
        "The machine at this address belongs to another cluster",
    Fenced "fenced"
        "An agent obeys a later epoch than this master's",
    ProtocolMismatch "protocol-mismatch"
        "Two programs do not understand each other: they have different versions, or one is not Gantry",
    AgentStore "agent-store"
        "The store of the agent cannot be used",
    NotEnrolled "not-enrolled"
        "This machine belongs to no cluster",
    ClusterExists "cluster-exists"
        "This machine already belongs to a cluster",
    EnrolmentFailed "enrolment-failed"
        "A new node did not get its certificate",
    IdentityDamaged "identity-damaged"
        "The keys and certificates of this machine cannot be used",
    Certificate "certificate"
        "A certificate expires soon, has expired, or was not renewed",
    AlreadyRunning "already-running"
        "Another process uses the port, the socket or the data",
    FileAccess "file-access"
        "A file or directory cannot be read, written or given to its owner",
    UpgradeBlocked "upgrade-blocked"
        "The cluster is not ready for an upgrade",
    ExportRefused "export-refused"
        "The export was not made, and no file is left",
    ExportUnusable "export-unusable"
        "The file of the export cannot be used",
    ImportRefused "import-refused"
        "Nothing was imported, and nothing that was there is lost",
}

impl Code {
    /// The code of this word, if there is one.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.word() == word)
    }

    /// The code of a port that cannot be had. The rules of [`Coded`] for files do not hold there.
    pub fn of_port(error: &std::io::Error) -> Option<Self> {
        (error.kind() == ErrorKind::AddrInUse).then_some(Self::AlreadyRunning)
    }

    /// An error with this code as programs print it: `error[CODE]: why`, and who says more.
    pub fn told(self, why: &str) -> String {
        format!("error[{self}]: {why}\n{}", self.more())
    }

    /// Who says more.
    pub fn more(self) -> String {
        format!("`gnt explain {self}` says what to do.")
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Reads a code that may be missing; one that a newer version added is none here.
pub(crate) fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Code>, D::Error> {
    let word = Option::<String>::deserialize(deserializer)?;
    Ok(word.and_then(|word| Code::of_word(&word)))
}

/// An error that knows its code, if need be by its cause.
pub trait Coded {
    /// Its code; `None` where no operator has to act on it.
    fn code(&self) -> Option<Code>;
}

/// Errors of the system that an operator must act on, whatever was attempted.
const OF_SYSTEM: &[(ErrorKind, Code)] = &[
    (ErrorKind::StorageFull, Code::DiskFull),
    (ErrorKind::QuotaExceeded, Code::DiskFull),
    (ErrorKind::ReadOnlyFilesystem, Code::DiskFull),
    (ErrorKind::PermissionDenied, Code::FileAccess),
    (ErrorKind::AddrInUse, Code::AlreadyRunning),
];

impl Coded for std::io::Error {
    fn code(&self) -> Option<Code> {
        OF_SYSTEM.iter().find(|(kind, _)| *kind == self.kind()).map(|(_, code)| *code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_read_back() {
        for &code in Code::ALL {
            let word = code.word();
            assert_eq!(Code::of_word(word), Some(code));
            assert!(word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{word}");
        }
        assert_eq!(Code::of_word("nothing"), None);
    }
}
