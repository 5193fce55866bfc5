//! Core: what is wrong with machines that are to be registered or changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::Ipv4Addr;

use uuid::Uuid;

use super::{BOOT_ROLE, Labels, MachineSpec};
use crate::error::ErrorCode;
use crate::ipam::IpamError;
use crate::mac::MacAddress;
use crate::serial::Serial;

/// Longest text of a product or data centre.
const TEXT_MAX: usize = 64;
/// Most labels of a machine, so that its document stays small.
const LABELS_MAX: usize = 64;
/// Most Ethernet addresses of a machine.
const MACS_MAX: usize = 64;
/// Faults that one answer lists.
const FAULTS_TOLD_MAX: usize = 20;

/// One thing that is wrong with one machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("machine '{serial}': {problem}")]
pub struct Fault {
    /// The machine.
    pub serial: Serial,
    /// What is wrong.
    pub problem: Problem,
}

/// A fault of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A text that is not taken.
    #[error("{field} `{value}` must be {wanted}")]
    Text {
        field: &'static str,
        /// The text, or its beginning.
        value: String,
        /// What is taken.
        wanted: &'static str,
    },
    /// A role with capital letters, which a reader would take for another one.
    #[error("role `{given}` must be in lower case; write `{lower}`")]
    Capitals {
        /// The role.
        given: String,
        /// The same in lower case.
        lower: String,
    },
    /// A serial number that many machines have.
    #[error(
        "its serial number {0}; give it one of your own, such as its asset tag, and its MAC addresses, \
         by which it is recognised then"
    )]
    Placeholder(&'static str),
    /// An Ethernet address that is no card's.
    #[error("MAC address {mac} {why}")]
    Mac {
        mac: MacAddress,
        /// Why it is none.
        why: &'static str,
    },
    /// A UUID that many machines have.
    #[error("UUID {0} is what vendors leave where they set none; leave it out")]
    Uuid(Uuid),
    /// Its serial number is in the inventory.
    #[error("it is already registered")]
    Registered,
    /// Its serial number occurs twice in the request.
    #[error("it is given twice")]
    Twice,
    /// Something that only one machine can have.
    #[error("{what} belongs to '{other}'")]
    Taken {
        what: String,
        /// The machine that has it.
        other: Serial,
    },
    /// The rack has a boot machine.
    #[error("the boot machine of rack {rack} is already registered: '{other}'")]
    Boot {
        rack: u32,
        /// Its boot machine.
        other: Serial,
    },
    /// It would become the rack's boot machine, or no longer be it.
    #[error(
        "a boot machine has another index, and so other addresses; to change that role, remove the \
         machine and add it again"
    )]
    BootRole,
    /// It gets no place or address.
    #[error(transparent)]
    Address(#[from] IpamError),
}

impl Problem {
    /// The kind of error that it is to clients.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Registered | Self::Twice | Self::Taken { .. } | Self::Boot { .. } => {
                ErrorCode::AlreadyExists
            }
            Self::Address(IpamError::BootTaken { .. }) => ErrorCode::AlreadyExists,
            Self::Address(IpamError::RackFull { .. }) => ErrorCode::InsufficientResources,
            Self::Address(_)
            | Self::Text { .. }
            | Self::Capitals { .. }
            | Self::Placeholder(_)
            | Self::Mac { .. }
            | Self::BootRole
            | Self::Uuid(_) => ErrorCode::WrongInput,
        }
    }

    /// A text that is not taken.
    fn text(field: &'static str, value: &str, wanted: &'static str) -> Self {
        let value = value.chars().take(TEXT_MAX).collect();
        Self::Text { field, value, wanted }
    }
}

/// Every fault that machines of one registration have by themselves and among each other.
pub fn faults(specs: &[MachineSpec]) -> Vec<Fault> {
    let mut serials = BTreeSet::new();
    let mut boots: BTreeMap<u32, &Serial> = BTreeMap::new();
    let mut macs: BTreeMap<MacAddress, &Serial> = BTreeMap::new();
    let mut uuids: BTreeMap<Uuid, &Serial> = BTreeMap::new();
    let mut bmcs: BTreeMap<Ipv4Addr, &Serial> = BTreeMap::new();
    let mut faults = Vec::new();
    for spec in specs {
        let serial = &spec.serial;
        let taken = |what, other: &Serial| Problem::Taken { what, other: other.clone() };
        let mut problems = spec.problems();
        if !serials.insert(serial) {
            problems.push(Problem::Twice);
        }
        for mac in &spec.mac {
            if let Some(other) = macs.insert(*mac, serial) {
                problems.push(taken(format!("MAC address {mac}"), other));
            }
        }
        if let Some(uuid) = spec.uuid
            && let Some(other) = uuids.insert(uuid, serial)
        {
            problems.push(taken(format!("UUID {uuid}"), other));
        }
        if let Some(address) = spec.bmc.ipv4
            && let Some(other) = bmcs.insert(address, serial)
        {
            problems.push(taken(format!("BMC address {address}"), other));
        }
        if spec.role == BOOT_ROLE
            && let Some(other) = boots.insert(spec.rack, serial)
        {
            problems.push(Problem::Boot { rack: spec.rack, other: other.clone() });
        }
        faults
            .extend(problems.into_iter().map(|problem| Fault { serial: serial.clone(), problem }));
    }
    faults
}

/// Faults in one line: as many as a reader takes in, and how many more there are.
pub fn told(faults: &[impl Display]) -> String {
    if let [one] = faults {
        return one.to_string();
    }
    let mut parts: Vec<String> =
        faults.iter().take(FAULTS_TOLD_MAX).map(ToString::to_string).collect();
    if let Some(more) = faults.len().checked_sub(FAULTS_TOLD_MAX).filter(|&more| more > 0) {
        parts.push(format!("and {more} more"));
    }
    format!("{} faults, and nothing was changed: {}", faults.len(), parts.join("; "))
}

impl MachineSpec {
    /// The faults of the machine by itself, beyond those that the types refuse.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> =
            self.serial.placeholder().map(Problem::Placeholder).into_iter().collect();
        problems.extend(role(&self.role));
        problems.extend(text("product", &self.product));
        problems.extend(text("datacenter", &self.datacenter));
        problems.extend(macs(&self.mac));
        problems.extend(self.uuid.and_then(uuid));
        problems.extend(self.bmc.kind.as_deref().and_then(bmc_type));
        problems.extend(labels(&self.labels));
        problems
    }
}

/// The fault of a role, if any.
pub fn role(role: &str) -> Option<Problem> {
    let lower = role.to_ascii_lowercase();
    if !is_word(role) {
        Some(Problem::text("role", role, WORD))
    } else if lower != role {
        Some(Problem::Capitals { given: role.to_owned(), lower })
    } else {
        None
    }
}

/// The fault of a product or data centre, if any.
pub fn text(field: &'static str, value: &str) -> Option<Problem> {
    let wrong = value.len() > TEXT_MAX || value.chars().any(char::is_control);
    wrong.then(|| Problem::text(field, value, "at most 64 printable characters"))
}

/// The fault of the type of a management controller, if any.
pub fn bmc_type(kind: &str) -> Option<Problem> {
    (!is_word(kind)).then(|| Problem::text("bmc type", kind, WORD))
}

/// The fault of a system UUID, if any.
pub fn uuid(uuid: Uuid) -> Option<Problem> {
    /// UUIDs of boards whose vendor never set one.
    const KNOWN: [u128; 3] = [
        0x0300_0200_0400_0500_0006_0007_0008_0009,
        0x0002_0003_0004_0005_0006_0007_0008_0009,
        0x1234_5678_1234_5678_90ab_cdde_efaa_bbcc,
    ];
    let is_one = uuid.is_nil() || uuid.is_max() || KNOWN.contains(&uuid.as_u128());
    is_one.then_some(Problem::Uuid(uuid))
}

/// The faults of the Ethernet addresses of a machine.
pub fn macs(macs: &[MacAddress]) -> Vec<Problem> {
    let wrong = |mac: &MacAddress| mac.unusable().map(|why| Problem::Mac { mac: *mac, why });
    let mut problems: Vec<Problem> = macs.iter().filter_map(wrong).collect();
    if macs.len() > MACS_MAX {
        let count = macs.len().to_string();
        problems.push(Problem::text("number of MAC addresses", &count, "at most 64"));
    }
    problems
}

/// The faults of the labels of a machine.
pub fn labels(labels: &Labels) -> Vec<Problem> {
    let mut problems = Vec::new();
    if labels.len() > LABELS_MAX {
        let count = labels.len().to_string();
        problems.push(Problem::text("number of labels", &count, "at most 64"));
    }
    for (name, value) in labels {
        if !is_word(name) {
            problems.push(Problem::text("label", name, WORD));
        }
        if !value.is_empty() && !is_word(value) {
            problems.push(Problem::text("value of label", &format!("{name}={value}"), WORD));
        }
    }
    problems
}

/// What [`is_word`] takes.
const WORD: &str =
    "1 to 63 letters, digits, `-`, `_` or `.`, beginning and ending with a letter or digit";

/// The rule that sabakan took from Kubernetes for labels.
fn is_word(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> MachineSpec {
        serde_json::from_str(&format!("{{{text}}}")).unwrap()
    }

    #[test]
    fn each_fault_of_one_machine_is_told() {
        for (text, wanted) in [
            (r#""serial": "s1", "role": "worker""#, &[][..]),
            (r#""serial": "Default string", "role": "worker""#, &["its serial number is what"]),
            (
                r#""serial": "s1", "role": "Boot""#,
                &["role `Boot` must be in lower case; write `boot`"],
            ),
            (r#""serial": "s1", "role": """#, &["role `` must be 1 to 63"]),
            (
                r#""serial": "0", "role": "A b", "product": "a\u0007", "mac": ["ff:ff:ff:ff:ff:ff",
                    "0:0:0:0:0:0", "01:00:5e:00:00:01"], "labels": {"-": "a", "b": "c d"},
                    "uuid": "00000000-0000-0000-0000-000000000000", "bmc": {"type": "a b"}"#,
                &[
                    "its serial number has nothing but zeroes",
                    "role `A b` must",
                    "product `a\u{7}` must",
                    "ff:ff:ff:ff:ff:ff is the broadcast address",
                    "00:00:00:00:00:00 is all zeroes",
                    "01:00:5e:00:00:01 is a multicast address",
                    "UUID 00000000-0000-0000-0000-000000000000 is what vendors leave",
                    "bmc type `a b` must",
                    "label `-` must",
                    "value of label `b=c d` must",
                ],
            ),
            (
                r#""serial": "s1", "role": "w", "uuid": "03000200-0400-0500-0006-000700080009""#,
                &["UUID 03000200"],
            ),
        ] {
            let problems = spec(text).problems();
            assert_eq!(problems.len(), wanted.len(), "{problems:?}");
            for (problem, told) in problems.iter().zip(wanted) {
                assert!(problem.to_string().contains(told), "{told}: {problem}");
            }
        }
        let mut many = spec(r#""serial": "s1", "role": "w""#);
        many.labels = (0..=LABELS_MAX).map(|n| (n.to_string(), String::new())).collect();
        let count = u8::try_from(MACS_MAX).unwrap();
        many.mac = (0..=count).map(|n| MacAddress::new([2, 0, 0, 0, 0, n])).collect();
        let problems: Vec<String> = many.problems().iter().map(ToString::to_string).collect();
        assert!(problems[0].contains("number of MAC addresses `65` must be at most 64"));
        assert!(problems[1].contains("number of labels `65` must be at most 64"));
    }

    #[test]
    fn machines_of_one_request_do_not_share() {
        let uuid = r#""uuid": "4c4c4544-0042-3510-8052-b4c04f4e4d31""#;
        let specs = [
            spec(&format!(
                r#""serial": "a", "role": "boot", "rack": 1, "mac": ["2:0:0:0:0:1"], {uuid}"#
            )),
            spec(r#""serial": "a", "role": "worker", "rack": 1"#),
            spec(&format!(r#""serial": "b", "role": "boot", "rack": 1, {uuid}"#)),
            spec(r#""serial": "c", "role": "boot", "rack": 2, "mac": ["0200.0000.0001"]"#),
        ];
        let told: Vec<String> = faults(&specs).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "machine 'a': it is given twice",
                "machine 'b': UUID 4c4c4544-0042-3510-8052-b4c04f4e4d31 belongs to 'a'",
                "machine 'b': the boot machine of rack 1 is already registered: 'a'",
                "machine 'c': MAC address 02:00:00:00:00:01 belongs to 'a'",
            ]
        );
        assert_eq!(faults(&specs[..1]), []);
    }

    #[test]
    fn the_list_of_faults_is_bounded() {
        assert_eq!(told(&["one"]), "one");
        assert_eq!(told(&["a", "b"]), "2 faults, and nothing was changed: a; b");
        let many: Vec<u32> = (1..=23).collect();
        let text = told(&many);
        assert!(text.ends_with("; 20; and 3 more"), "{text}");
        assert!(told(&many[..20]).ends_with("; 20"));
    }

    #[test]
    fn words() {
        for good in ["boot", "worker", "a", "A-1_x.y"] {
            assert!(is_word(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a b", "ä", &"x".repeat(64)] {
            assert!(!is_word(bad), "{bad}");
        }
    }
}
