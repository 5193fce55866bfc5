//! Core: whether a node may take the master role, as operators and programs are told: each node's
//! answer, what follows, and what to do about it. `masterd` makes it; its log and `gnt` print it.

use serde::{Deserialize, Serialize};

use crate::code::{self, Code};
use crate::name::NodeName;

/// The result of asking everyone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleCheck {
    /// The node that wants the role.
    pub taker: NodeName,
    pub attempt: RoleAttempt,
    /// What follows.
    pub decision: RoleDecision,
    /// The node from which something is to be fetched first, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NodeName>,
    /// Nodes whose answer counts, such as `2 of 3`. Offline ones are not counted.
    pub nodes: String,
    /// Voters whose answer counts, such as `2 of 2`.
    pub voters: String,
    /// A row for each node.
    pub rows: Vec<RoleCheckRow>,
    /// All that stands, or with an override stood, against it.
    pub reasons: Vec<String>,
    /// The code of the first of `reasons` that has one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "code::known")]
    pub code: Option<Code>,
    /// The data that an override loses, or may lose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_lose: Vec<String>,
    /// The remedies for `reasons`, each once; empty where nothing stands against it.
    pub what_to_do: Vec<String>,
}

crate::words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    RoleAttempt {
        /// The previous master starts again.
        Start = "start as master",
        /// The role moves, by an operator's will.
        Failover = "failover",
        /// The role moves by itself, since the master is silent.
        Automatic = "automatic failover",
    }
}

/// The decision after all answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoleDecision {
    /// The node goes on.
    Go,
    /// The node goes on, and fetches what another one holds first.
    GoAfterFetching,
    /// The node goes on whatever the others hold.
    Override,
    /// The node stays what it is.
    Refuse,
}

/// One node's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleCheckRow {
    pub node: NodeName,
    /// Its role, such as `candidate` or `offline`.
    pub role: String,
    /// Which of its daemons answered: `yes`, `no`, `agent only`, `masterd only`.
    pub answer: String,
    /// The end of its copy of the log, such as `2.1/9`; null where there is none that is believed.
    pub position: Option<String>,
    /// The master that its agent knows.
    pub master: Option<NodeName>,
    /// As what its answer counts: `node`, `voter`, `node and voter`, or `no`.
    pub counts: String,
    /// The remark about it, if any.
    pub reason: Option<String>,
    /// The remedy for that, if any.
    pub remedy: Option<String>,
}

/// An operator's request to a node that is to take the role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleRequest {
    /// `--candidates-only`: the majority of nodes is waived, never that of voters.
    #[serde(default)]
    pub candidates_only: bool,
    /// `--no-voting`: everything is waived; needs `yes_do_it`.
    #[serde(default)]
    pub no_voting: bool,
    /// `--yes-do-it`.
    #[serde(default)]
    pub yes_do_it: bool,
    /// `--ignore-node`: nodes that are not counted.
    #[serde(default)]
    pub ignored: Vec<NodeName>,
    /// Ask everyone, tell what follows, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// How long the previous master may let opcodes end that run, in seconds.
    #[serde(default = "drain_seconds")]
    pub drain_seconds: u32,
}

impl Default for RoleRequest {
    fn default() -> Self {
        Self {
            candidates_only: false,
            no_voting: false,
            yes_do_it: false,
            ignored: Vec::new(),
            dry_run: false,
            drain_seconds: DRAIN_SECONDS,
        }
    }
}

/// How long opcodes may go on before a master hands over, unless the operator says otherwise.
pub const DRAIN_SECONDS: u32 = 30;

/// The longest that may be asked for: the client waits for the answer.
pub const DRAIN_SECONDS_MAX: u32 = 60;

fn drain_seconds() -> u32 {
    DRAIN_SECONDS
}

/// The outcome of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleTaken {
    /// Whether the node is master now.
    pub done: bool,
    /// The outcome, in a sentence.
    pub message: String,
    /// The answers of all; null where nobody was asked.
    pub check: Option<RoleCheck>,
    /// Why nobody was asked, where that has a code.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::code::known"
    )]
    pub refusal: Option<Code>,
}

impl RoleTaken {
    /// Nobody was asked, and nothing was done.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { done: false, message: message.into(), check: None, refusal: None }
    }

    /// Nobody was asked, since the node cannot be the master.
    pub fn not_eligible(message: impl Into<String>) -> Self {
        Self { refusal: Some(Code::NotEligible), ..Self::refused(message) }
    }

    /// Why it was not done, as a code.
    pub fn code(&self) -> Option<Code> {
        let refused = self.check.as_ref().filter(|check| !check.goes_on());
        let code = refused.and_then(|check| check.code).or(self.refusal);
        let code = code.unwrap_or(Code::RoleNotMoved);
        (!self.done).then_some(code)
    }
}

/// Titles of the columns.
const TITLES: [&str; 6] = ["Node", "Role", "Answer", "Log ends at", "Master", "Counts as"];

impl RoleCheckRow {
    fn cells(&self) -> [String; 6] {
        let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
        [
            self.node.to_string(),
            self.role.clone(),
            self.answer.clone(),
            or_dash(self.position.as_deref()),
            or_dash(self.master.as_ref().map(NodeName::as_str)),
            self.counts.clone(),
        ]
    }
}

impl RoleCheck {
    /// Whether the node may go on.
    pub fn goes_on(&self) -> bool {
        self.decision != RoleDecision::Refuse
    }

    /// The same for a reader: the table as aligned lines, notes on nodes, the reasons against it and the
    /// remedies. Answers of nodes stand in it unchanged.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.headline()];
        lines.extend(self.table());
        let Self { nodes, voters, .. } = self;
        lines.push(format!("answers that count: {nodes} nodes, {voters} voters"));
        for row in &self.rows {
            // The reasons against it come below.
            let said = row.reason.as_ref().filter(|reason| !self.reasons.contains(reason));
            lines.extend(said.map(|reason| format!("note: {reason}")));
            lines.extend(said.and(row.remedy.as_ref()).map(|remedy| format!("      {remedy}")));
        }
        let against = match self.decision {
            RoleDecision::Override => "overridden",
            RoleDecision::Go | RoleDecision::GoAfterFetching | RoleDecision::Refuse => "against it",
        };
        lines.extend(self.reasons.iter().map(|reason| format!("{against}: {reason}")));
        lines.extend(self.may_lose.iter().map(|lost| format!("may be lost: {lost}")));
        lines.extend(self.what_to_do.iter().map(|what| format!("what to do: {what}")));
        let more = |code: &Code| format!("code: {code}; {}", code.more());
        lines.extend(self.code.iter().filter(|_| !self.goes_on()).map(more));
        lines
    }

    fn headline(&self) -> String {
        let Self { taker, attempt, .. } = self;
        let follows = match (self.decision, &self.from) {
            (RoleDecision::Go, _) => "it goes on".to_owned(),
            (RoleDecision::GoAfterFetching, Some(from)) => {
                format!("it goes on: {from} hands the lead over, with all that it holds")
            }
            (RoleDecision::GoAfterFetching, None) => {
                "it goes on: another one hands the lead over".to_owned()
            }
            (RoleDecision::Override, _) => "it goes on whatever the others hold".to_owned(),
            (RoleDecision::Refuse, _) => "refused".to_owned(),
        };
        format!("{attempt} of {taker}: {follows}")
    }

    fn table(&self) -> Vec<String> {
        let titles = TITLES.map(str::to_owned);
        let rows: Vec<_> =
            std::iter::once(titles).chain(self.rows.iter().map(RoleCheckRow::cells)).collect();
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        let line = |row: &[String; 6]| {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> RoleCheck {
        let row = RoleCheckRow {
            node: "n1".parse().unwrap(),
            role: "candidate".to_owned(),
            answer: "no".to_owned(),
            position: None,
            master: None,
            counts: "no".to_owned(),
            reason: Some("n1 cannot be reached".to_owned()),
            remedy: None,
        };
        RoleCheck {
            taker: "n1".parse().unwrap(),
            attempt: RoleAttempt::Start,
            decision: RoleDecision::Go,
            from: None,
            nodes: "1 of 1".to_owned(),
            voters: "1 of 1".to_owned(),
            rows: vec![row],
            reasons: Vec::new(),
            code: None,
            may_lose: Vec::new(),
            what_to_do: Vec::new(),
        }
    }

    #[test]
    fn what_nodes_say_has_a_line() {
        let lines = check().lines();
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[0], "start as master of n1: it goes on");
        assert_eq!(lines[4], "note: n1 cannot be reached");
    }

    #[test]
    fn it_reads_what_it_writes() {
        let text = serde_json::to_string(&check()).unwrap();
        assert!(text.contains(r#""decision":"go","nodes":"1 of 1""#), "{text}");
        assert_eq!(serde_json::from_str::<RoleCheck>(&text).unwrap(), check());
    }
}
