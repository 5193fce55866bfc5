//! Core: the causes that keep a rack from being served, in one table: code, severity, meaning, and the
//! command that ends it. Status pages, alarms, metrics, `gnt cluster verify` and the runbook speak
//! from it.

use serde::{Deserialize, Serialize};

use crate::cluster_status::AlarmSeverity;
use crate::code::Code;

/// The word of a remedy that stands for the node; who shows the fault fills it in.
const NODE: &str = "NODE";
/// The same for the rack.
const RACK: &str = "RACK";

macro_rules! causes {
    ($($cause:ident $word:literal $code:ident $severity:ident $means:literal $remedy:literal,)+) => {
        /// A cause that keeps a rack from being served as it should be.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum RackCause {
            $(#[doc = $means] #[serde(rename = $word)] $cause,)+
            /// A cause that a newer version added.
            #[serde(other, rename = "other")]
            Other,
        }

        impl RackCause {
            /// Every cause, in the order of the runbook.
            pub const ALL: &[Self] = &[$(Self::$cause,)+];

            /// The word that people and programs see.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$cause => $word,)+ Self::Other => "other" }
            }

            /// The code of its alarm.
            pub const fn code(self) -> Code {
                match self { $(Self::$cause => Code::$code,)+ Self::Other => Code::RackUnserved }
            }

            /// How urgent it is. Critical causes keep every machine from its address, where no other
            /// agent serves the rack.
            pub const fn severity(self) -> AlarmSeverity {
                match self {
                    $(Self::$cause => AlarmSeverity::$severity,)+
                    Self::Other => AlarmSeverity::Warning,
                }
            }

            /// Its meaning, in a line.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$cause => $means,)+ Self::Other => "A newer version knows it" }
            }

            /// The remedy; words in braces stand for facts.
            const fn template(self) -> &'static str {
                match self { $(Self::$cause => $remedy,)+ Self::Other => "see the log of `noded` on {NODE}" }
            }
        }
    };
}

causes! {
    NoAgent "no-agent" RackUnserved Critical
        "The rack has machines and no agent"
        "`gnt node modify --rack {RACK} NODE` gives it one",
    AddressMissing "address-missing" RackUnserved Critical
        "No interface of the agent's host has an address in the rack's network"
        "`ip address add {ADDRESS} dev {INTERFACE}` on {NODE}",
    LinkDown "link-down" RackUnserved Critical
        "The interface to the rack is switched off"
        "`ip link set {INTERFACE} up` on {NODE}",
    PortTaken "port-taken" RackUnserved Critical
        "Another program has the port of DHCP"
        "`kill {PID}` on {NODE}",
    DhcpFailed "dhcp-failed" RackUnserved Critical
        "The agent cannot listen for DHCP"
        "`systemctl restart gantry-noded` on {NODE}: the packaged unit has the capabilities",
    RulesRefused "rules-refused" RackUnserved Critical
        "The rules of addresses cannot be served"
        "`gnt ipam set -f FILE` with rules that can",
    DiskFull "disk-full" RackUnserved Critical
        "The disk of the agent takes no files, so that it gives no lease"
        "`du -xhd3 {MOUNT} | sort -h | tail` on {NODE} shows what to remove",
    RangeFull "range-full" RackUnserved Warning
        "No address of the lease range is free"
        "`gnt lease release ADDRESS` for one of `gnt lease list --rack {RACK}` that nobody needs",
    GuestsFull "guests-full" RackUnserved Warning
        "Cards that are not registered have all addresses that they may have"
        "`gnt machine list-unknown` names them: register them, or take them off the network",
    TwoHolders "two-holders" RackUnserved Warning
        "Two clients hold one address"
        "`networkctl renew INTERFACE`, or a restart, on the host that the fault names",
    OwnAddress "own-address" RackUnserved Warning
        "The host lacks an address at which the agent listens"
        "`ip address add ADDRESS dev INTERFACE` on {NODE} for the address that the fault names",
    OtherServer "other-server" RackUnserved Warning
        "Another DHCP server answers in the rack"
        "`kill $(ss -Hlunp sport = :67 | grep -oP 'pid=\\K\\d+')` on the host {SERVER}, or switch DHCP off there",
    LoaderMissing "loader-missing" RackUnserved Warning
        "The agent lacks the package with the boot loader"
        "`apt-get install --reinstall ipxe` on {NODE}",
    LoaderMisplaced "loader-misplaced" RackUnserved Warning
        "The agent lacks the boot loader where `--ipxe` names it"
        "`install -D {LOADER} {FILE}` on {NODE}",
    FileMissing "file-missing" RackUnserved Warning
        "The agent lacks a file that its machines boot; the master sends it"
        "`gnt {KIND} upload {NAME}` with the same files, if no other node has them",
    KeysFailed "keys-failed" RackUnserved Warning
        "The agent serves no keys of disks"
        "`systemctl restart gantry-noded` on {NODE}, once the port is free",
    MachineAmbiguous "machine-ambiguous" RackUnserved Warning
        "A machine tells what belongs to several machines"
        "`gnt machine modify OLD --remove-mac MAC` for the one that has the card no more",
    AddressInUse "address-in-use" RackUnserved Warning
        "A host uses an address of the lease range that nobody leased to it"
        "`ip address del {ADDRESS} dev INTERFACE` on that host",
    BootRefused "boot-refused" RackUnserved Warning
        "The firmware of a machine asks for a boot that agents do not serve"
        "turn on UEFI HTTP boot in its firmware, or boot iPXE from its card or a medium",
    AgentSilent "agent-silent" Agent Warning
        "The agent does not answer"
        "`systemctl start gantry-noded` on {NODE}",
    ClockOff "clock-off" ClockOff Warning
        "The clock of the agent's host is wrong, or the master's"
        "`timedatectl set-ntp true` on {NODE}",
    DocumentOld "document-old" Document Warning
        "The agent does not serve the newest document of the rack"
        "`gnt cluster redist-conf` sends it, and says why it is not taken",
}

/// One fault, as the agent or the master found it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RackFault {
    /// Its kind.
    pub cause: RackCause,
    /// The fault, in a line.
    pub text: String,
    pub remedy: String,
}

impl RackCause {
    /// A fault of this cause; `facts` are the words of its remedy, but for node and rack.
    pub fn fault(self, text: impl Into<String>, facts: &[(&str, &str)]) -> RackFault {
        let remedy = self.template().to_owned();
        let fill = |remedy: String, (word, value): &(&str, &str)| {
            remedy.replace(&format!("{{{word}}}"), value)
        };
        RackFault { cause: self, text: text.into(), remedy: facts.iter().fold(remedy, fill) }
    }

    pub fn runbook_row(self) -> String {
        let (word, means) = (self.word(), self.meaning());
        let remedy = self.template().replace(['{', '}'], "").replace('|', "\\|");
        let code = self.code();
        format!("| `{word}` | `{code}` | {} | {means} | {remedy} |", self.severity().as_str())
    }
}

impl RackFault {
    /// The fault with the node that has it, and the rack, in its remedy.
    pub fn at(mut self, node: &str, rack: u32) -> Self {
        for (word, value) in [(NODE, node), (RACK, &rack.to_string())] {
            self.remedy = self.remedy.replace(&format!("{{{word}}}"), value);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_word_of_its_own_and_a_remedy() {
        for (at, cause) in RackCause::ALL.iter().enumerate() {
            let word = cause.word();
            assert!(RackCause::ALL[at + 1..].iter().all(|other| other.word() != word), "{word}");
            assert_eq!(serde_json::to_value(cause).unwrap(), word);
            let is_command = cause.template().contains('`');
            assert!(is_command || *cause == RackCause::BootRefused, "{word} names no command");
        }
        let newer: RackCause = serde_json::from_str("\"on-fire\"").unwrap();
        assert_eq!(newer, RackCause::Other);
    }

    #[test]
    fn a_remedy_is_filled_with_facts() {
        let fault = RackCause::AddressMissing
            .fault("no address", &[("ADDRESS", "10.69.0.3/26"), ("INTERFACE", "rack0")]);
        let fault = fault.at("n2.example", 4);
        assert_eq!(fault.remedy, "`ip address add 10.69.0.3/26 dev rack0` on n2.example");
        let fault = RackCause::NoAgent.fault("none", &[]).at("-", 4);
        assert_eq!(fault.remedy, "`gnt node modify --rack 4 NODE` gives it one");
    }

    #[test]
    fn the_runbook_has_every_row() {
        let runbook = include_str!("../../docs/runbook.md");
        for cause in RackCause::ALL {
            let row = cause.runbook_row();
            assert!(runbook.contains(&row), "docs/runbook.md lacks the row\n{row}");
        }
    }
}
