//! Core: how a cluster stands, as lines for a reader: one screen, what is wrong at its end.

use model::Timestamp;
use model::cluster_status::{
    AgentUnreached, AlarmSeverity, AlarmStatus, CandidateState, CandidateStatus, CertificateOwner,
    CertificateStatus, ClusterStatus, ProcessState, QuorumStatus, StandbyStatus, StoreHealth,
    StoreStatus,
};
use model::role_check::RoleCheck;
use stdx::text::line;
use unicode_width::UnicodeWidthStr as _;

use crate::known::Known;
use crate::moment::span;
use crate::table::{self, Column};
use crate::wrap::wrapped;

/// Candidates that are shown: the usual size of the pool.
const CANDIDATES_MAX: usize = 10;
/// Agents, certificates and alarms that are shown of each: the rest is in `--json`.
const LIST_MAX: usize = 5;
/// The column at which the values begin.
const INDENT: usize = 13;

/// Voters from which on the end of one leaves a majority.
const VOTERS_MIN: usize = 3;

const GREEN: u8 = 32;
const RED: u8 = 31;
const YELLOW: u8 = 33;

const MICROS_PER_MS: i64 = 1_000;

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// Whether colours are used.
    pub(super) colored: bool,
    /// Characters of a line, for what can be broken.
    pub(super) columns: usize,
    /// A moment for a reader.
    pub(super) date: fn(Timestamp) -> String,
}

/// A line, and its colour.
struct Line(String, Option<u8>);

impl View {
    /// The screen. `elsewhere` is the master as far as this machine knows without its `masterd`;
    /// `unknown` is why the alarms of the master are not among those that are seen.
    pub(super) fn lines(
        self,
        seen: &ClusterStatus,
        elsewhere: Option<&Known>,
        unknown: Option<&str>,
    ) -> Vec<String> {
        let mut lines = vec![self.headline(seen, unknown.is_some())];
        lines.extend(unknown.iter().flat_map(|why| {
            labelled("Not known", self.wrapped(why, INDENT, INDENT), Some(YELLOW))
        }));
        lines.extend(told_by(seen));
        lines.push(self.master(seen, elsewhere));
        let known = elsewhere.filter(|_| seen.master.is_none());
        let others = known.and_then(|known| known.others.as_ref());
        lines.extend(others.iter().flat_map(|others| {
            let text = format!("{others}, by the agent's files");
            labelled("Candidates", self.wrapped(&text, INDENT, INDENT), None)
        }));
        lines.extend(seen.quorum.iter().flat_map(|quorum| self.quorum(quorum)));
        if seen.auto_failover == Some(true) {
            lines.push(failover(seen.quorum.as_ref()));
        }
        if let Some(standby) = &seen.standby {
            lines.extend(self.standby(standby));
        }
        lines.extend(candidates(&seen.candidates));
        lines.extend(self.queue(seen));
        lines.extend(seen.store.iter().flat_map(|store| self.store(store)));
        lines.extend(self.agents(seen));
        lines.extend(self.certificates(seen));
        let paused = seen.watcher_paused_until.map(|until| (self.date)(until));
        lines.extend(paused.map(|until| plain("Watcher", format!("paused until {until}"))));
        lines.extend(self.alarms(seen));
        let attempt = seen.standby.iter().filter_map(|standby| standby.attempt.as_ref());
        for attempt in attempt {
            lines.push(Line(String::new(), None));
            lines.push(Line(format!("Last attempt to be the master: {}", attempt.message), None));
            let said = attempt.check.iter().flat_map(RoleCheck::lines);
            lines.extend(said.map(|line| Line(line, None)));
        }
        lines.into_iter().map(|line| self.painted(line)).collect()
    }

    /// The line as it is printed: what others said must not move the cursor.
    fn painted(self, Line(text, color): Line) -> String {
        let text = line(&text);
        match color.filter(|_| self.colored) {
            Some(color) => format!("\x1b[{color}m{text}\x1b[0m"),
            None => text.into_owned(),
        }
    }

    fn headline(self, seen: &ClusterStatus, unknown: bool) -> Line {
        let name = seen.cluster.as_ref().map_or("This cluster", |name| name.as_str());
        let is_critical = |alarm: &&AlarmStatus| alarm.severity == AlarmSeverity::Critical;
        let critical = seen.alarms.iter().filter(is_critical).count();
        let (verdict, color) = match (seen.alarms.len(), critical) {
            (0, _) if unknown => ("not known whether all is well".to_owned(), Some(YELLOW)),
            (0, _) => ("all is well".to_owned(), Some(GREEN)),
            (1, 0) => ("1 warning".to_owned(), Some(YELLOW)),
            (count, 0) => (format!("{count} warnings"), Some(YELLOW)),
            (1, _) => ("1 critical alarm".to_owned(), Some(RED)),
            (count, critical) => (format!("{count} alarms, {critical} critical"), Some(RED)),
        };
        Line(format!("{name}: {verdict} (at {})", (self.date)(seen.now)), color)
    }

    fn master(self, seen: &ClusterStatus, elsewhere: Option<&Known>) -> Line {
        let text = match (&seen.master, elsewhere) {
            (Some(master), _) => {
                let age = span(seen.now.micros() - master.since.micros());
                let since = (self.date)(master.since);
                format!("{}, in epoch {}, since {since} ({age})", master.node, master.epoch)
            }
            (None, Some(elsewhere)) => format!("{elsewhere}, by the agent's files"),
            (None, None) => "not known here".to_owned(),
        };
        plain("Master", text)
    }

    fn quorum(self, quorum: &QuorumStatus) -> Vec<Line> {
        let (voters, needed) = (quorum.voters.len(), quorum.needed);
        let text = match (quorum.heard, voters) {
            (_, 1) => "1 voter".to_owned(),
            (Some(heard), _) => format!("{heard} of {voters} voters heard, {needed} needed"),
            (None, _) => format!("{voters} voters, {needed} needed"),
        };
        let takes = match (&quorum.refusing, quorum.heard) {
            (Some(why), _) => format!("; changes are refused: {why}"),
            (None, Some(_)) => "; changes are taken".to_owned(),
            (None, None) => String::new(),
        };
        let color = quorum.refusing.is_some().then_some(RED);
        labelled("Quorum", self.wrapped(&format!("{text}{takes}"), INDENT, INDENT), color)
    }

    fn standby(self, standby: &StandbyStatus) -> Vec<Line> {
        let heard = standby.heard_ms.map(|ms| format!("heard {} ago", milliseconds(ms)));
        let heard = heard.unwrap_or_else(|| "never heard".to_owned());
        let follows = match &standby.leader {
            Some(leader) => format!("{leader}, {heard}"),
            None => format!("nobody; a leader was {heard}"),
        };
        let log = format!("ends at {}, committed up to {}", standby.last, standby.applied);
        let mut lines = vec![plain("Follows", follows), plain("Log", log)];
        let why = self.wrapped(&standby.why, INDENT, INDENT);
        lines.extend(labelled("Standby", why, None));
        lines
    }

    fn queue(self, seen: &ClusterStatus) -> Vec<Line> {
        let Some(queue) = &seen.queue else { return Vec::new() };
        let (running, waiting, queued) = (queue.running, queue.waiting, queue.queued);
        let mut parts = vec![format!("{running} running, {waiting} waiting, {queued} queued")];
        parts.extend(queue.drained.then(|| "drained".to_owned()));
        if let Some(oldest) = &queue.oldest {
            let age = oldest.since.map(|since| span(seen.now.micros() - since.micros()));
            let age = age.map(|age| format!(" ({age} old)")).unwrap_or_default();
            parts.push(format!("the oldest is job {}{age}", oldest.job));
        }
        labelled("Queue", self.filled(&parts), queue.drained.then_some(YELLOW))
    }

    fn agents(self, seen: &ClusterStatus) -> Vec<Line> {
        let Some(agents) = &seen.agents else { return Vec::new() };
        let missing = agents.unreached.len();
        let not = if missing > 0 { format!(", {missing} not") } else { String::new() };
        let offline = agents.offline;
        let off = if offline > 0 { format!(", {offline} offline") } else { String::new() };
        let text = format!("{} reached{not}{off}", agents.reached);
        let one = |agent: &AgentUnreached| {
            let age = span(seen.now.micros() - agent.since.micros());
            let text = format!("{} for {age}: {}", agent.node, agent.why);
            labelled("", self.wrapped(&text, INDENT, INDENT), Some(RED))
        };
        let shown = agents.unreached.iter().take(LIST_MAX).flat_map(one);
        let rest = more(missing, LIST_MAX).map(|more| plain("", more));
        std::iter::once(plain("Agents", text)).chain(shown).chain(rest).collect()
    }

    fn store(self, store: &StoreStatus) -> Vec<Line> {
        let (health, color) = match &store.health {
            StoreHealth::Good => ("good".to_owned(), None),
            StoreHealth::DiskFull { .. } => ("disk full".to_owned(), Some(RED)),
            StoreHealth::Failed { .. } => ("failed".to_owned(), Some(RED)),
        };
        let mut parts = vec![format!("{health}, at {}", store.position)];
        let disk = store.disk_free_mib.zip(store.disk_mib);
        parts.extend(disk.map(|(free, all)| format!("disk {} of {} free", room(free), room(all))));
        let used = store.journal_used_bytes.saturating_mul(100).checked_div(store.journal_bytes);
        let all = room(store.journal_bytes >> 20);
        parts.extend(used.map(|percent| format!("journal {percent} % of {all}")));
        let (waiting, size) = (store.files_lag_keys, room(store.files_lag_bytes >> 20));
        parts.extend((waiting > 0).then(|| format!("files to write: {waiting} ({size})")));
        labelled("Store", self.filled(&parts), color)
    }

    fn certificates(self, seen: &ClusterStatus) -> Vec<Line> {
        // The certificate that ends next comes first.
        let mut held: Vec<_> = seen.certificates.iter().collect();
        held.sort_by_key(|held| held.ends);
        let one = |held: &&CertificateStatus| {
            let owner = match &held.owner {
                CertificateOwner::Authority => "authority",
                CertificateOwner::Node(node) => node.as_str(),
            };
            let day = (self.date)(held.ends);
            format!("{owner} until {}", day.split(' ').next().unwrap_or_default())
        };
        let mut parts: Vec<String> = held.iter().take(LIST_MAX).map(one).collect();
        parts.extend(more(held.len(), LIST_MAX));
        if parts.is_empty() {
            return Vec::new();
        }
        labelled("Certificates", self.wrapped(&parts.join(", "), INDENT, INDENT), None)
    }

    fn alarms(self, seen: &ClusterStatus) -> Vec<Line> {
        let one = |alarm: &AlarmStatus| {
            let since = alarm.since.map(|since| span(seen.now.micros() - since.micros()));
            let since = since.map(|age| format!(" (for {age})")).unwrap_or_default();
            let AlarmStatus { kind, what, text, .. } = alarm;
            let mark = if alarm.severity == AlarmSeverity::Critical { "!!" } else { "!" };
            let text = format!("{mark} {what} [{kind}]{since}: {text}");
            let color = match alarm.severity {
                AlarmSeverity::Critical => RED,
                AlarmSeverity::Warning => YELLOW,
            };
            let told = self.wrapped(&text, 0, 2).into_iter().map(|line| (line, Some(color)));
            let todo = self.wrapped(&alarm.todo, 4, 4).into_iter();
            let todo = todo.map(|line| (format!("    {line}"), Some(YELLOW)));
            let told = told.enumerate().map(|(at, (line, color))| match at {
                0 => (line, color),
                _ => (format!("  {line}"), color),
            });
            told.chain(todo).map(|(line, color)| Line(line, color)).collect::<Vec<_>>()
        };
        let mut lines: Vec<Line> = seen.alarms.iter().take(LIST_MAX).flat_map(one).collect();
        lines.extend(more(seen.alarms.len(), LIST_MAX).map(|more| Line(more, Some(RED))));
        lines
    }

    /// Fills lines with the parts; a part that fits a line stays whole.
    fn filled(self, parts: &[String]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for part in parts {
            match lines.last_mut() {
                // Another semicolon may come behind it.
                Some(line) if INDENT + line.width() + part.width() + 3 <= self.columns => {
                    line.push_str("; ");
                    line.push_str(part);
                }
                Some(line) => {
                    line.push(';');
                    lines.push(part.clone());
                }
                None => lines.push(part.clone()),
            }
        }
        lines
    }

    fn wrapped(self, text: &str, first: usize, next: usize) -> Vec<String> {
        wrapped(text, self.columns, first, next)
    }
}

/// A line on the node that tells this, unless it is the master.
fn told_by(seen: &ClusterStatus) -> Option<Line> {
    let state = match seen.store_missing {
        Some(_) => "without its store",
        None => state(seen.state),
    };
    let text = || format!("{}, {state}", seen.node);
    (seen.state != ProcessState::Master).then(|| plain("Told by", text()))
}

/// Whether the role can move by itself, where that is wanted.
fn failover(quorum: Option<&QuorumStatus>) -> Line {
    let voters = quorum.map_or(VOTERS_MIN, |quorum| quorum.voters.len());
    if voters >= VOTERS_MIN {
        return plain("Failover", "by itself, when the master falls silent");
    }
    let text = format!(
        "wanted by itself, and not possible: {VOTERS_MIN} voters are needed, {voters} vote"
    );
    Line(plain("Failover", text).0, Some(YELLOW))
}

fn plain(label: &str, text: impl std::fmt::Display) -> Line {
    Line(format!("{label:<INDENT$}{text}"), None)
}

fn labelled(label: &str, lines: Vec<String>, color: Option<u8>) -> Vec<Line> {
    let label = |at: usize| if at == 0 { label } else { "" };
    let line = |(at, line): (usize, String)| Line(format!("{:<INDENT$}{line}", label(at)), color);
    lines.into_iter().enumerate().map(line).collect()
}

fn more(count: usize, shown: usize) -> Option<String> {
    let hidden = count.saturating_sub(shown);
    (hidden > 0).then(|| format!("and {hidden} more (--json has all)"))
}

fn state(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Outside => "no candidate",
        ProcessState::Standby => "a standby",
        ProcessState::Master => "the master",
        ProcessState::Starting => "about to start",
        ProcessState::Other => "in a state of a newer version",
    }
}

fn candidates(all: &[CandidateStatus]) -> Vec<Line> {
    if all.is_empty() {
        return Vec::new();
    }
    let is_well = |one: &CandidateStatus| {
        let follows = !one.unreachable && one.state != CandidateState::NotYet;
        follows && !one.disk_full && one.forgot.is_none()
    };
    let mut shown: Vec<&CandidateStatus> = all.iter().collect();
    if shown.len() > CANDIDATES_MAX {
        // Candidates that want a look come before healthy ones.
        shown.sort_by_key(|one| (!one.master, is_well(one)));
        shown.truncate(CANDIDATES_MAX);
    }
    let column = |title: &str, right| Column { title: title.to_owned(), right };
    let columns = [
        // As wide as what stands before all values.
        column("Candidates  ", false),
        column("Node", false),
        column("State  ", false),
        column("Behind", true),
        column("Heard", true),
    ];
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let row = |one: &&CandidateStatus| {
        let state = match one.master {
            true => "master",
            false => one.state.word(),
        };
        let heard = match (one.heard_ms, one.unreachable) {
            (Some(ms), _) => Some(format!("{} ago", milliseconds(ms))),
            (None, true) => Some("never".to_owned()),
            (None, false) => None,
        };
        let behind = or_dash(one.behind.map(|behind| behind.to_string()));
        vec![String::new(), one.node.clone(), state.to_owned(), behind, or_dash(heard)]
    };
    let rows: Vec<_> = shown.iter().map(row).collect();
    let lines = table::lines(&columns, &rows, true, None);
    let colors = std::iter::once(None).chain(shown.iter().map(|one| match is_well(one) {
        true => None,
        false => Some(RED),
    }));
    let lines = lines.into_iter().zip(colors).map(|(line, color)| Line(line, color));
    let rest = more(all.len(), CANDIDATES_MAX).map(|more| plain("", more));
    lines.chain(rest).collect()
}

fn milliseconds(ms: u64) -> String {
    span(i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(MICROS_PER_MS))
}

/// MiB in the unit in which a reader thinks of them.
fn room(mib: u64) -> String {
    match mib {
        0..10_240 => format!("{mib} MiB"),
        10_240..10_485_760 => format!("{} GiB", mib >> 10),
        _ => format!("{} TiB", mib >> 20),
    }
}

#[cfg(test)]
mod tests;
