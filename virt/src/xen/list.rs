//! Core: the domains that `xl list -v` shows. A list that does not read through says nothing at all.
//!
//! `xl list -l` is not asked: it has no word on how a domain stands, and leaves out each one whose
//! configuration it cannot find.

use model::Uuid;

/// A column that every list with UUIDs has, and no other.
const REASON: &str = "Reason-Code";
/// The number of the domain that administers the others: each whole list has it.
const ADMINISTERS: u32 = 0;
/// Columns behind the name, which itself may have blanks.
const COLUMNS: usize = 8;

/// How a domain stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    Running,
    Paused,
    /// Its guest ended, and its domain is kept.
    Ended(Reason),
    /// Xen takes it apart.
    Dying,
}

/// Why a guest ended (`xen/public/sched.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    PowerOff,
    Reboot,
    /// It is being saved or moved by somebody.
    Suspend,
    Crash,
    Watchdog,
    Other(u32),
}

/// A domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Domain {
    pub(crate) id: u32,
    pub(crate) uuid: Uuid,
    pub(crate) life: Life,
}

/// A list that says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ListError {
    #[error("the list of domains is no list: it has no column {REASON}")]
    NoHead,
    #[error("the list of domains is cut off")]
    Cut,
    #[error("the list of domains has no domain {ADMINISTERS}, which is always there")]
    NotWhole,
    #[error("the list of domains has a line that does not read: {0:?}")]
    Line(String),
}

/// The domains of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Domains(Vec<Domain>);

impl Domains {
    /// Whether there is one of this number.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.0.iter().any(|domain| domain.id == id)
    }

    /// Those of an instance, the one that lives before all others.
    pub(crate) fn of(&self, uuid: Uuid) -> Vec<Domain> {
        let mut found: Vec<Domain> =
            self.0.iter().filter(|domain| domain.uuid == uuid).copied().collect();
        found.sort_by_key(|domain| domain.life);
        found
    }
}

/// Reads a list.
///
/// # Errors
/// It is not whole.
pub(crate) fn read(text: &str) -> Result<Domains, ListError> {
    let mut lines = text.split_inclusive('\n');
    let head = lines.next().unwrap_or_default();
    if !head.contains(REASON) {
        return Err(ListError::NoHead);
    }
    if !text.ends_with('\n') {
        return Err(ListError::Cut);
    }
    let wrong = |line: &str| ListError::Line(line.trim_end().chars().take(200).collect());
    let domains = lines.map(|line| domain(line).ok_or_else(|| wrong(line)));
    let domains = domains.collect::<Result<Vec<Domain>, ListError>>()?;
    match domains.iter().any(|domain| domain.id == ADMINISTERS) {
        true => Ok(Domains(domains)),
        false => Err(ListError::NotWhole),
    }
}

/// A line: name, number, memory, processors, state, time, UUID, reason, and label.
fn domain(line: &str) -> Option<Domain> {
    let words: Vec<&str> = line.split_whitespace().rev().take(COLUMNS).collect();
    let [_label, reason, uuid, _time, state, _vcpus, _memory, id] = words.try_into().ok()?;
    let state = <[u8; 6]>::try_from(state.as_bytes()).ok()?;
    // Places of the state: running, blocked, paused, shut down, the letter of a reason, dying.
    let is_state =
        state.iter().all(|flag| *flag == b'-' || flag.is_ascii_alphabetic() || *flag == b'?');
    let [_, _, paused, ended, _, dying] = state.map(|flag| flag != b'-');
    let life = match (dying, ended, paused) {
        (true, ..) => Life::Dying,
        (false, true, _) => Life::Ended(self::reason(u32::from_str_radix(reason, 16).ok()?)),
        (false, false, true) => Life::Paused,
        (false, false, false) => Life::Running,
    };
    let (id, uuid) = (id.parse().ok()?, uuid.parse().ok()?);
    is_state.then_some(Domain { id, uuid, life })
}

const fn reason(number: u32) -> Reason {
    match number {
        0 => Reason::PowerOff,
        1 => Reason::Reboot,
        2 => Reason::Suspend,
        3 => Reason::Crash,
        4 => Reason::Watchdog,
        other => Reason::Other(other),
    }
}

#[cfg(test)]
mod tests;
