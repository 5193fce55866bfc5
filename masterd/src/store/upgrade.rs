//! Core: whether this moment is a good one to replace the programs, and what to do next.
//!
//! [`look`] finds out how things stand; here is what that means.

pub mod look;

use std::fmt;

use model::{JobId, JobStatus};

/// How things stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// There is no store: this machine never was a master.
    NoStore,
    /// A master runs and told.
    Running {
        queue: Queue,
        /// Each node with its agent, in the order of their names.
        agents: Vec<(String, Agent)>,
    },
    /// No master runs, and the one before ended in order: this is what its files say.
    Stopped {
        /// Format of the store.
        format: u32,
        queue: Queue,
    },
    /// No master listens, and the store was not closed: what its journal holds is known to who
    /// opens it.
    NotClosed {
        /// Format of the store.
        format: u32,
    },
}

/// The state of a queue, as far as it counts here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// Whether new jobs are refused.
    pub drained: bool,
    /// Jobs that have not ended, in the order of their ids.
    pub unfinished: Vec<(JobId, JobStatus)>,
}

/// An agent, as its master knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agent {
    /// It answers, in a version of the protocol that both understand.
    Reached,
    /// It is not called: the node is marked offline.
    Offline,
    /// It was not called yet.
    NotTried,
    /// It is not reached, for this reason.
    Away(String),
}

/// Why the programs should not be replaced yet, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// New jobs would begin meanwhile.
    #[error(
        "the queue takes jobs, and those that run would fail: `gnt cluster queue drain`, then wait \
         until none is left (`gnt job list --pending --running`)"
    )]
    NotDrained,
    /// Jobs would fail.
    #[error(
        "the queue is drained, but not empty: jobs that are not finished: {count}, the first of \
         them job {first} ({status}); wait for them (`gnt job watch {first}`) or cancel them"
    )]
    Unfinished {
        /// How many.
        count: usize,
        /// The one with the lowest id.
        first: JobId,
        /// How it stands.
        status: JobStatus,
    },
    /// Another version would run the jobs of this one.
    #[error(
        "no master runs, and the stopped one has jobs that are not finished: {count}, the first of \
         them job {first} ({status}); start it (`systemctl start gantry-masterd`), then `gnt cluster \
         queue drain`, and let them end or cancel them"
    )]
    Left {
        /// How many.
        count: usize,
        /// The one with the lowest id.
        first: JobId,
        /// How it stands.
        status: JobStatus,
    },
    /// It is not known what would fail.
    #[error(
        "no master answers, and the last one did not close its store, so that only a start tells \
         what its journal holds: `systemctl start gantry-masterd`, then look again"
    )]
    NotClosed,
}

/// The obstacle to an upgrade; none if nothing is in the way.
pub fn blocked(found: &Found) -> Option<Blocked> {
    match found {
        Found::NoStore => None,
        Found::NotClosed { .. } => Some(Blocked::NotClosed),
        Found::Running { queue: Queue { drained: false, .. }, .. } => Some(Blocked::NotDrained),
        Found::Running { queue, .. } => {
            let (first, status) = *queue.unfinished.first()?;
            Some(Blocked::Unfinished { count: queue.unfinished.len(), first, status })
        }
        Found::Stopped { queue, .. } => {
            let (first, status) = *queue.unfinished.first()?;
            Some(Blocked::Left { count: queue.unfinished.len(), first, status })
        }
    }
}

/// The findings and the next step, for the operator to read.
#[derive(Debug)]
pub struct Report<'f> {
    /// How things stand.
    pub found: &'f Found,
    /// Version of this program.
    pub software: &'f str,
    /// Formats of the store that it reads, the oldest and the newest.
    pub formats: (u32, u32),
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Gantry {}, asked before it is replaced:", self.software)?;
        writeln!(f, "  queue:  {}", self.queue())?;
        for (at, line) in self.agents().iter().enumerate() {
            let title = if at == 0 { "agents:" } else { "" };
            writeln!(f, "  {title:7} {line}")?;
        }
        writeln!(f, "  store:  {}", self.store())?;
        writeln!(f, "\nWhat to do next, in this order:")?;
        let steps = self.steps();
        let numbered = steps.iter().enumerate();
        let lines: Vec<String> =
            numbered.map(|(at, step)| format!("  {}. {step}", at + 1)).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl Report<'_> {
    fn queue(&self) -> String {
        let told = |queue: &Queue| {
            let left = match queue.unfinished.len() {
                0 => "no job is left".to_owned(),
                1 => "1 job is left".to_owned(),
                more => format!("{more} jobs are left"),
            };
            format!("{}, {left}", if queue.drained { "drained" } else { "not drained" })
        };
        match self.found {
            Found::NoStore => "there is none on this machine".to_owned(),
            Found::Running { queue, .. } => told(queue),
            Found::Stopped { queue, .. } => format!("of the stopped master: {}", told(queue)),
            Found::NotClosed { .. } => "not known, the store was not closed".to_owned(),
        }
    }

    fn agents(&self) -> Vec<String> {
        let Found::Running { agents, .. } = self.found else {
            return vec!["not known, no master runs here".to_owned()];
        };
        let reached = agents.iter().filter(|(_, agent)| *agent == Agent::Reached).count();
        let mut lines = vec![format!("{reached} of {} reached", agents.len())];
        lines.extend(agents.iter().filter_map(|(node, agent)| match agent {
            Agent::Reached => None,
            Agent::Offline => Some(format!("{node} is marked offline")),
            Agent::NotTried => Some(format!("{node} was not called yet")),
            Agent::Away(why) => Some(format!("{node} is {why}")),
        }));
        lines
    }

    fn store(&self) -> String {
        let (oldest, newest) = self.formats;
        let read = if oldest == newest {
            format!("this version reads format {newest}")
        } else {
            format!("this version reads formats {oldest} to {newest}")
        };
        match self.found {
            Found::NoStore => read,
            Found::Running { .. } => format!("format {newest}; {read}"),
            Found::Stopped { format, .. } | Found::NotClosed { format } => {
                format!("format {format}; {read}")
            }
        }
    }

    fn steps(&self) -> Vec<String> {
        let install = "install the packages: `dpkg -i gantry_VERSION_amd64.deb`";
        let copy = "copy store and keys, see Backup in /usr/share/doc/gantry/install.md";
        let start = "`systemctl start gantry-masterd`";
        let steps: Vec<String> = match self.found {
            Found::NoStore => vec![install.to_owned()],
            Found::NotClosed { .. } => {
                vec![start.to_owned(), "`gnt cluster check-upgrade` again".to_owned()]
            }
            Found::Stopped { queue, .. } if !queue.unfinished.is_empty() => {
                vec![start.to_owned(), "`gnt cluster check-upgrade` again".to_owned()]
            }
            Found::Stopped { queue, .. } => {
                let undrain = queue.drained.then_some("`gnt cluster queue undrain`");
                let steps = [copy, install, start].into_iter().chain(undrain);
                steps.map(str::to_owned).collect()
            }
            Found::Running { queue, agents } => {
                let drain = (!queue.drained).then_some("`gnt cluster queue drain`");
                let wait = "wait until `gnt job list --pending --running` shows no job";
                let wait = (!queue.unfinished.is_empty()).then_some(wait);
                let before = drain.into_iter().chain(wait).chain([copy]).map(str::to_owned);
                let after = ["`gnt cluster queue undrain`", "`gnt cluster verify`"];
                before
                    .chain([everywhere(install, agents)])
                    .chain(after.map(str::to_owned))
                    .collect()
            }
        };
        steps
    }
}

/// The installation on all nodes, with those that have to wait for it.
fn everywhere(install: &str, agents: &[(String, Agent)]) -> String {
    let away = agents.iter().filter(|(_, agent)| *agent != Agent::Reached);
    let away: Vec<&str> = away.map(|(node, _)| node.as_str()).collect();
    let later = if away.is_empty() {
        String::new()
    } else {
        format!("; when they are back on {}", away.join(", "))
    };
    format!("on each node, in any order, {install}{later}")
}

#[cfg(test)]
mod tests;
