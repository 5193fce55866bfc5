//! Core: whether a node is as it should be.

use model::Timestamp;
use model::cluster_status::AlarmSeverity;
use model::enrol::Fingerprint;
use model::rack_fault::{RackCause, RackFault};
use queue_format::Epoch;
use rpc::calls::{Caller, NodeHeld};

use super::configuration::certificate;
use crate::agents::clock_skew::ClockSkew;
use crate::agents::master_address::Missing;
use crate::config::finding::{Code, Finding, simulated};

/// Free space on a node's disk below which it may be low, in hundredths of it.
const DISK_FREE_MIN_PERCENT: u64 = 5;

/// Free space that is enough on a disk of any size, in MiB: an operator has time before it fills.
const DISK_FREE_ENOUGH_MIB: u64 = 4096;

/// The state that a node should hold.
#[derive(Debug, Clone)]
pub struct Expected {
    pub name: String,
    /// Its certificate.
    pub fingerprint: Fingerprint,
    /// The certificate that is to take its place.
    pub renewing: Option<Fingerprint>,
    /// Its rack and the digest of that rack's document, if it serves one and there is one.
    pub rack: Option<(u32, String)>,
    /// The nodes that may call it.
    pub callers: Vec<Caller>,
    /// The master's epoch.
    pub epoch: Epoch,
    /// The master's software.
    pub software: String,
    /// The master's node.
    pub master: String,
}

/// The master's clock around the call.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Before it.
    pub from: Timestamp,
    /// Behind it.
    pub to: Timestamp,
}

/// The faults of a node, by the answer of its agent.
pub fn check(
    expected: &Expected,
    answer: Result<&NodeHeld, &str>,
    asked: Asked,
    simulate: bool,
) -> Vec<Finding> {
    let name = expected.name.as_str();
    let mut findings = if simulate {
        use Code::{Files, NodeCertificate, Reach, Setup, Storage, Time, Version};
        simulated(&[Reach, Version, Time, NodeCertificate, Setup, Files, Storage], name)
    } else {
        Vec::new()
    };
    let held = match answer {
        Ok(held) => held,
        Err(why) => {
            findings.push(Finding::error(
                Code::Reach,
                name,
                format!("while contacting node: {why}"),
            ));
            return findings;
        }
    };
    findings.extend(software(expected, held));
    findings.extend(clock(expected, held.time, asked));
    findings.extend(certificate(Code::NodeCertificate, name, held.certificate_ends, asked.to));
    if expected.renewing.is_some() {
        let text = format!(
            "the renewal of its certificate did not end: the old and the new one are good; `gnt \
             cluster renew-crypto --node {name}` ends it"
        );
        findings.push(Finding::warning(Code::NodeCertificate, name, text));
    }
    if held.fingerprint != expected.fingerprint && Some(held.fingerprint) != expected.renewing {
        let text = format!(
            "node {name} has another certificate than the one that it was given; `gnt node remove` \
             it and add it again"
        );
        findings.push(Finding::error(Code::NodeCertificate, name, text));
    }
    findings.extend(callers(expected, held));
    findings.extend(rack(expected, held));
    let serves = expected.rack.is_some();
    let faults = held.faults.iter().filter(|_| serves).cloned();
    findings.extend(faults.map(|found| fault(expected, found)));
    let (free, total) = (held.disk_free_mib, held.disk_total_mib);
    if disk_is_low(free, total) {
        let text = format!("its disk has {free} MiB left of {total}");
        findings.push(Finding::warning(Code::Storage, name, text));
    }
    findings
}

/// Whether a disk of `total` MiB with `free` MiB left is nearly full.
pub fn disk_is_low(free: u64, total: u64) -> bool {
    free < DISK_FREE_ENOUGH_MIB
        && free.saturating_mul(100) < total.saturating_mul(DISK_FREE_MIN_PERCENT)
}

/// The finding on the master's address (`address`), which its node lacks: an operator took it off, or it
/// should be there.
pub fn address(
    master: &str,
    address: &str,
    missing: Option<&Missing>,
    is_released: bool,
) -> Finding {
    if is_released {
        let text = format!(
            "the master's address {address} was taken off by `gnt cluster deactivate-master-ip`; `gnt \
             cluster activate-master-ip` takes it again"
        );
        return Finding::warning(Code::Address, master, text);
    }
    let text = format!("it lacks the master's address {address}, though it is the master");
    let text = match missing {
        Some(Missing { why, remedy }) => format!("{text}: {why}: {remedy}"),
        None => format!("{text}; `gnt cluster activate-master-ip` takes it"),
    };
    Finding::error(Code::Address, master, text)
}

fn software(expected: &Expected, held: &NodeHeld) -> Option<Finding> {
    let (ours, theirs) = (&expected.software, &held.version.software);
    (ours != theirs).then(|| {
        let text = format!("software version mismatch: master {ours}, node {theirs}");
        Finding::warning(Code::Version, &expected.name, text)
    })
}

fn clock(expected: &Expected, time: Timestamp, asked: Asked) -> Option<Finding> {
    let skew = ClockSkew::measured(time, asked.from, asked.to)?;
    Some(fault(expected, skew.fault(&expected.master)))
}

/// The finding on a fault that keeps the agent from serving its rack.
fn fault(expected: &Expected, fault: RackFault) -> Finding {
    use RackCause::{
        AddressMissing, ClockOff, DhcpFailed, DiskFull, FileMissing, LinkDown, LoaderMisplaced,
        LoaderMissing, PortTaken,
    };
    let code = match fault.cause {
        ClockOff => Code::Time,
        DiskFull => Code::Storage,
        FileMissing | LoaderMissing | LoaderMisplaced => Code::Files,
        AddressMissing | LinkDown | PortTaken | DhcpFailed => Code::Address,
        _ => Code::Setup,
    };
    let rack = expected.rack.as_ref().map_or(0, |(rack, _)| *rack);
    let RackFault { cause, text, remedy } = fault.at(&expected.name, rack);
    let text = format!("{text}: {remedy}");
    // As Ganeti has it, a wrong clock is an error.
    if cause == ClockOff || cause.severity() == AlarmSeverity::Critical {
        Finding::error(code, &expected.name, text)
    } else {
        Finding::warning(code, &expected.name, text)
    }
}

fn callers(expected: &Expected, held: &NodeHeld) -> Vec<Finding> {
    let mut findings = Vec::new();
    let known = |list: &[Caller]| -> Vec<String> {
        let mut names: Vec<_> =
            list.iter().map(|caller| format!("{} {}", caller.name, caller.fingerprint)).collect();
        names.sort_unstable();
        names
    };
    if known(&held.callers.callers) != known(&expected.callers) {
        findings.push(Finding::error(
            Code::Setup,
            &expected.name,
            "it has another list of candidates that may call it; the master sends it by itself, and \
             `gnt cluster redist-conf` says why it is not taken",
        ));
    }
    if held.version.epoch > expected.epoch {
        let (theirs, ours) = (held.version.epoch, expected.epoch);
        let text =
            format!("it obeys epoch {theirs}, this master is of {ours}: there is another one");
        findings.push(Finding::error(Code::Setup, &expected.name, text));
    }
    findings
}

fn rack(expected: &Expected, held: &NodeHeld) -> Vec<Finding> {
    let wanted = expected.rack.as_ref();
    let surplus =
        held.racks.iter().filter(|held| wanted.is_none_or(|(rack, _)| *rack != held.rack));
    let mut findings: Vec<Finding> = surplus
        .map(|held| {
            let text = format!("it serves rack {}, which is not its own", held.rack);
            Finding::error(Code::Files, &expected.name, text)
        })
        .collect();
    if let Some((rack, digest)) = wanted {
        let has = held.racks.iter().find(|held| held.rack == *rack);
        let text = match has {
            None => Some(format!("it does not serve rack {rack}")),
            Some(held) if held.digest != *digest => Some(format!(
                "it serves rack {rack} by another document, of version {}",
                held.version
            )),
            Some(_) => None,
        };
        findings.extend(text.map(|text| {
            let text = format!("{text}; `gnt cluster redist-conf` sends it the right one");
            Finding::error(Code::Files, &expected.name, text)
        }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use model::rack::DocumentVersion;
    use rpc::calls::{AllowList, NodeVersion, RackHeld};
    use rpc::wire::Versions;

    use super::*;
    use crate::config::finding::Severity;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
    const ASKED: Asked = Asked { from: NOW, to: NOW };

    fn pair() -> (Expected, NodeHeld) {
        let caller =
            Caller { name: "n1".parse().unwrap(), fingerprint: Fingerprint::from_bytes([1; 32]) };
        let epoch = Epoch { term: 2, node: 1 };
        let fingerprint = Fingerprint::from_bytes([2; 32]);
        let version = DocumentVersion { term: 2, position: 7 };
        let expected = Expected {
            name: "n2".to_owned(),
            fingerprint,
            renewing: None,
            rack: Some((3, "d".to_owned())),
            callers: vec![caller.clone()],
            epoch,
            software: "1".to_owned(),
            master: "n1".to_owned(),
        };
        let held = NodeHeld {
            version: NodeVersion {
                node: "n2".parse().unwrap(),
                node_id: 2,
                cluster_uuid: uuid::Uuid::nil(),
                software: "1".to_owned(),
                protocol: Versions::OURS,
                incarnation: uuid::Uuid::nil(),
                epoch,
            },
            time: NOW,
            fingerprint,
            certificate_ends: NOW.plus_seconds(100 * 86_400),
            callers: AllowList { epoch, callers: vec![caller] },
            racks: vec![RackHeld { rack: 3, version, digest: "d".to_owned() }],
            disk_total_mib: 100,
            disk_free_mib: 50,
            faults: Vec::new(),
        };
        (expected, held)
    }

    #[test]
    fn a_node_that_is_as_it_should_be() {
        let (expected, held) = pair();
        assert_eq!(check(&expected, Ok(&held), ASKED, false), []);
        assert_eq!(check(&expected, Ok(&held), ASKED, true).len(), 7);
        let unreached = check(&expected, Err("refused"), ASKED, false);
        assert_eq!(unreached.len(), 1);
        assert!(unreached[0].text.contains("while contacting node: refused"));
    }

    #[test]
    fn each_difference_is_told() {
        type Change = fn(&mut NodeHeld);
        let found = |cause: RackCause| vec![cause.fault("it is so", &[("PID", "812")])];
        let cases: [(Change, Code, &str); 9] = [
            (|h| h.time = h.time.plus_seconds(151), Code::Time, "151 s ahead of"),
            (|h| h.time = h.time.plus_seconds(-200), Code::Time, "200 s behind"),
            (|h| h.version.software = "2".to_owned(), Code::Version, "master 1, node 2"),
            (|h| h.version.epoch.term = 3, Code::Setup, "obeys epoch"),
            (|h| h.callers.callers.clear(), Code::Setup, "another list"),
            (|h| h.racks.clear(), Code::Files, "does not serve rack 3"),
            (|h| h.racks[0].digest.clear(), Code::Files, "another document"),
            (|h| h.disk_free_mib = 4, Code::Storage, "4 MiB left of 100"),
            (
                |h| h.fingerprint = Fingerprint::from_bytes([9; 32]),
                Code::NodeCertificate,
                "another certificate",
            ),
        ];
        for (change, code, words) in cases {
            let (expected, mut held) = pair();
            change(&mut held);
            let found = check(&expected, Ok(&held), ASKED, false);
            assert_eq!(found.len(), 1, "{words}: {found:?}");
            assert!(found[0].code == code && found[0].text.contains(words), "{words}: {found:?}");
        }
        for (cause, code, severity, words) in [
            (RackCause::PortTaken, Code::Address, Severity::Error, "`kill 812` on n2"),
            (RackCause::RangeFull, Code::Setup, Severity::Warning, "--rack 3`"),
            (RackCause::FileMissing, Code::Files, Severity::Warning, "with the same files"),
        ] {
            let (mut expected, mut held) = pair();
            held.faults = found(cause);
            let [finding] = &check(&expected, Ok(&held), ASKED, false)[..] else {
                panic!("{cause:?}")
            };
            assert_eq!((finding.code, finding.severity), (code, severity), "{finding:?}");
            assert!(finding.text.contains(words), "{finding:?}");
            // A node that serves no rack lacks nothing for it.
            (expected.rack, held.racks) = (None, Vec::new());
            assert_eq!(check(&expected, Ok(&held), ASKED, false), []);
        }
        let (mut expected, mut held) = pair();
        expected.renewing = Some(Fingerprint::from_bytes([9; 32]));
        for shown in [expected.fingerprint, Fingerprint::from_bytes([9; 32])] {
            held.fingerprint = shown;
            let found = check(&expected, Ok(&held), ASKED, false);
            assert!(found.len() == 1 && found[0].text.contains("did not end"), "{found:?}");
        }
        let (mut expected, held) = pair();
        expected.rack = None;
        assert!(check(&expected, Ok(&held), ASKED, false)[0].text.contains("not its own"));
    }

    #[test]
    fn an_address_that_is_missing_is_an_error_unless_it_was_taken_off() {
        for (is_released, severity, words) in
            [(false, Severity::Error, "activate-master-ip"), (true, Severity::Warning, "taken off")]
        {
            let found = address("n1", "10.0.0.9/24 on eth0", None, is_released);
            assert_eq!(
                (found.code, found.severity, found.item.as_str()),
                (Code::Address, severity, "n1")
            );
            assert!(found.text.contains(words) && found.text.contains("10.0.0.9"), "{found:?}");
        }
    }
}
