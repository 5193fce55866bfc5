//! Opcodes that look whether the cluster is as it should be: the whole is a job for each part.

use std::sync::Arc;

use jobs::locks::{Level, LockName, Mode};
use model::node::{Node, NodeRole};
use model::opcode::common::{Dependency, DependsOn};
use model::opcode::verify::Telling;
use model::opcode::{
    ClusterVerify, ClusterVerifyConfig, ClusterVerifyDisks, ClusterVerifyGroup, DisksFound,
    GroupVerifyDisks, OpCode, OpInput, SubmittedJobs,
};
use model::{Exception, Timestamp};
use rpc::calls::Verify;
use serde_json::json;

use crate::agents::master_address::Look;
use crate::cluster::verify;
use crate::config::Config;
use crate::config::finding::{self, Code, Finding, Severity};
use crate::instances::storage;
use crate::machines::rack::document as rack_document;
use crate::role::standing;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for ClusterVerify {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        if let Some(name) = &self.group_name {
            context.config().group(name)?;
        }
        Ok(finding::accept(&self.telling())?)
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<SubmittedJobs, Failure> {
        let mut jobs = Vec::new();
        if self.group_name.is_none() {
            jobs.push(vec![OpInput::new(OpCode::ClusterVerifyConfig(ClusterVerifyConfig {
                debug_simulate_errors: self.debug_simulate_errors,
                error_codes: self.error_codes,
                ignore_errors: self.ignore_errors.clone(),
                verbose: self.verbose,
            }))]);
        }
        // The check of the configuration comes first, as its faults explain the rest.
        let has_first = !jobs.is_empty();
        for (group_name, back) in groups_or(self.group_name, &context.config()).into_iter().zip(1..)
        {
            let mut op = OpInput::new(OpCode::ClusterVerifyGroup(ClusterVerifyGroup {
                group_name,
                debug_simulate_errors: self.debug_simulate_errors,
                error_codes: self.error_codes,
                ignore_errors: self.ignore_errors.clone(),
                verbose: self.verbose,
                skip_checks: self.skip_checks.clone(),
                verify_clutter: self.verify_clutter,
            }));
            op.common.depends =
                has_first.then(|| vec![Dependency(DependsOn::Back(back), Vec::new())]);
            jobs.push(vec![op]);
        }
        context.submit(jobs).await
    }
}

/// The group that is meant, or all.
fn groups_or(name: Option<String>, config: &Config) -> Vec<String> {
    name.map_or_else(
        || config.groups.values().map(|group| group.name.clone()).collect(),
        |name| vec![name],
    )
}

/// Tells what was found, and whether the check passes.
async fn tell(context: &Context, findings: &[Finding], telling: &Telling) -> bool {
    for finding in findings {
        context.say(finding.line(telling)).await;
    }
    finding::passes(findings, telling)
}

impl LogicalUnit for ClusterVerifyConfig {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        let reads = matches!(level, Level::NodeGroup | Level::Node | Level::Machine);
        Ok(reads.then(|| (LockName::set(level), Mode::Shared)).into_iter().collect())
    }

    async fn check(&self, _context: &mut Context) -> Result<(), Failure> {
        Ok(finding::accept(&self.telling())?)
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<bool, Failure> {
        let telling = self.telling();
        let (config, now) = (context.config(), context.now());
        context.say("* Verifying cluster config").await;
        let findings = verify::configuration::check(&config, self.debug_simulate_errors);
        let mut passed = tell(context, &findings, &telling).await;
        context.say("* Verifying cluster certificate files").await;
        let ends = context.authority_ends();
        let ends = ends.map_err(|error| Exception::exec(stdx::daemon::chain(&error)))?;
        let code = Code::ClusterCertificate;
        let found = verify::configuration::certificate(code, "", ends, now);
        passed &= tell(context, found.as_slice(), &telling).await;
        context.say("* Verifying all nodes belong to an existing group").await;
        context.say("* Comparing what master candidates hold").await;
        let compared = context.compare_replicas().await;
        if let Some(note) = crate::role::replicas::note(&compared) {
            context.say(note).await;
        }
        let engine = context.engine();
        let known = (config.as_ref(), engine.as_deref(), context.contacts());
        let refusing: Vec<&str> =
            compared.iter().filter(|one| one.is_refused).map(|one| one.node.as_str()).collect();
        let candidates = standing::all_candidates(known, context.peers(), now);
        let missing = verify::members::check(&candidates, &refusing);
        // A copy that could not be compared says nothing more of a node.
        let is_said = |found: &Finding| missing.iter().any(|known| known.item == found.item);
        let mut found = crate::role::replicas::check(&config.role.master, &compared);
        found.retain(|found| found.severity == Severity::Error || !is_said(found));
        passed &= tell(context, &missing, &telling).await;
        passed &= tell(context, &found, &telling).await;
        Ok(passed)
    }
}

impl LogicalUnit for ClusterVerifyGroup {
    type Plan = Vec<Arc<Node>>;

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        let reads = matches!(level, Level::NodeGroup | Level::Node);
        Ok(reads.then(|| (LockName::set(level), Mode::Shared)).into_iter().collect())
    }

    async fn check(&self, context: &mut Context) -> Result<Vec<Arc<Node>>, Failure> {
        finding::accept(&self.telling())?;
        let config = context.config();
        let group = config.group(&self.group_name)?;
        Ok(config.nodes_of(group).cloned().collect())
    }

    async fn exec(self, nodes: Vec<Arc<Node>>, context: &mut Context) -> Result<bool, Failure> {
        let telling = self.telling();
        context.say(format!("* Verifying group '{}'", self.group_name)).await;
        context.say(format!("* Gathering data ({} nodes)", nodes.len())).await;
        context.say(format!("* Gathering information about nodes ({} nodes)", nodes.len())).await;
        let looked = gather(context, &nodes).await?;
        if self.verbose {
            for node in nodes.iter().filter(|node| node.role == NodeRole::Offline) {
                context.say(format!("* Skipping offline node {}", node.name)).await;
            }
        }
        context.say("* Verifying node status").await;
        let mut passed = true;
        for looked in looked {
            if self.verbose {
                let (name, role) = (&looked.expected.name, looked.role);
                context.say(format!("* Verifying node {name} ({role})")).await;
            }
            let answer = looked.answer.as_ref().map_err(String::as_str);
            let simulate = self.debug_simulate_errors;
            let found = verify::node::check(&looked.expected, answer, looked.asked, simulate);
            passed &= tell(context, &found, &telling).await;
        }
        context.say("* Verifying instance status").await;
        let config = context.config();
        let mut found =
            verify::instances::check(&config, &nodes, context.contacts(), context.now());
        // Nodes that do not tell of their disks have been told of already.
        let (_silent, lost) = storage::missing(context, &self.group_name).await?;
        found.extend(verify::instances::disks(lost));
        passed &= tell(context, &found, &telling).await;
        if nodes.iter().any(|node| context.config().is_master(node)) {
            let found = address(context).await?;
            passed &= tell(context, found.as_slice(), &telling).await;
        }
        other_notes(context, &nodes).await;
        Ok(passed)
    }
}

/// Whether the master's node lacks the master's address. The check of the nodes has told of a silent
/// agent already.
async fn address(context: &mut Context) -> Result<Option<Finding>, Failure> {
    context.agents().await?;
    let looked = context.address().look().await;
    let (address, is_released) = match looked {
        Look::Missing(address) => (address, false),
        Look::Released(address) => (address, true),
        Look::None | Look::Here | Look::Unknown(_) => return Ok(None),
    };
    let config = context.committed().config;
    let master = config.role.master.as_str();
    let missing = context.address().held.missing().map(|(_since, missing)| missing);
    let address = address.to_string();
    Ok(Some(verify::node::address(master, &address, missing.as_ref(), is_released)))
}

/// One node, and what it said.
struct Looked {
    role: &'static str,
    expected: verify::node::Expected,
    answer: Result<rpc::calls::NodeHeld, String>,
    asked: verify::node::Asked,
}

/// Most nodes that are asked at once: each holds a connection's share, and its answer.
const ASKED_AT_ONCE: usize = 64;

/// Asks every node that is not offline.
async fn gather(context: &mut Context, nodes: &[Arc<Node>]) -> Result<Vec<Looked>, Failure> {
    use futures_util::StreamExt as _;
    let snapshot = context.committed();
    let behalf = context.behalf();
    let clock = context.clock().clone();
    let agents = context.agents().await?.clone();
    let callers = snapshot.config.callers();
    let mut looked = Vec::with_capacity(nodes.len());
    let mut asked = Vec::with_capacity(nodes.len());
    for node in nodes.iter().filter(|node| node.role != NodeRole::Offline) {
        let document = match node.rack {
            Some(rack) => {
                rack_document::compile(&snapshot, rack)?.map(|document| (rack, document.digest()))
            }
            None => None,
        };
        let expected = verify::node::Expected {
            name: node.name.to_string(),
            fingerprint: node.fingerprint,
            renewing: node.renewing,
            rack: document,
            callers: callers.clone(),
            epoch: agents.epoch(),
            software: env!("CARGO_PKG_VERSION").to_owned(),
            master: snapshot.config.role.master.to_string(),
        };
        let role = match node.role {
            _ if snapshot.config.is_master(node) => "master",
            NodeRole::Candidate => "master candidate",
            NodeRole::Drained => "drained",
            NodeRole::Regular | NodeRole::Offline => "regular",
        };
        let (agents, clock) = (agents.clone(), clock.clone());
        asked.push(async move {
            let now = || Timestamp::from_micros(clock.now_micros());
            let from = now();
            let answer = agents.call(node, Verify {}, behalf).await;
            let answer = answer.map_err(|error| stdx::daemon::chain(&error));
            Looked { role, expected, answer, asked: verify::node::Asked { from, to: now() } }
        });
    }
    let mut answers = futures_util::stream::iter(asked).buffered(ASKED_AT_ONCE);
    while let Some(one) = answers.next().await {
        looked.push(one);
    }
    Ok(looked)
}

/// Facts that are no faults, but worth knowing.
async fn other_notes(context: &Context, nodes: &[Arc<Node>]) {
    let notes: Vec<String> = [(NodeRole::Offline, "offline"), (NodeRole::Drained, "drained")]
        .into_iter()
        .filter_map(|(role, word)| other_note(nodes, role, word))
        .collect();
    if !notes.is_empty() {
        context.say("* Other Notes").await;
    }
    for note in notes {
        context.say(note).await;
    }
}

/// Nodes that one note names; the list of nodes names all.
const NOTED_MAX: usize = 20;

/// The note on nodes of one role, if there are any.
fn other_note(nodes: &[Arc<Node>], role: NodeRole, word: &str) -> Option<String> {
    let found: Vec<&str> =
        nodes.iter().filter(|node| node.role == role).map(|node| node.name.as_str()).collect();
    let (number, more) = (found.len(), found.len().saturating_sub(NOTED_MAX));
    let mut names = found.into_iter().take(NOTED_MAX).collect::<Vec<_>>().join(", ");
    if more > 0 {
        names.push_str(&format!(" and {more} more"));
    }
    (number > 0).then(|| format!("  - NOTICE: {number} {word} node(s) found: {names}"))
}

impl LogicalUnit for ClusterVerifyDisks {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        if let Some(name) = &self.group_name {
            context.config().group(name)?;
        }
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<SubmittedJobs, Failure> {
        let names = groups_or(self.group_name, &context.config());
        let op = |group_name| {
            vec![OpInput::new(OpCode::GroupVerifyDisks(GroupVerifyDisks { group_name }))]
        };
        context.submit(names.into_iter().map(op).collect()).await
    }
}

impl LogicalUnit for GroupVerifyDisks {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        context.config().group(&self.group_name)?;
        Ok(())
    }

    /// Disks in files need no activation.
    async fn exec(self, (): (), context: &mut Context) -> Result<DisksFound, Failure> {
        let (silent, missing) = storage::missing(context, &self.group_name).await?;
        Ok((json!(silent), Vec::new(), json!(missing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::node;

    #[test]
    fn offline_nodes_are_listed_by_name() {
        let mut nodes: Vec<Arc<Node>> =
            (0..22_u32).map(|n| Arc::new(node(&format!("n{n}"), NodeRole::Offline))).collect();
        nodes.push(Arc::new(node("n30", NodeRole::Regular)));
        assert_eq!(other_note(&nodes, NodeRole::Drained, "drained"), None);
        let few = other_note(&nodes[20..], NodeRole::Offline, "offline").unwrap();
        assert_eq!(few, "  - NOTICE: 2 offline node(s) found: n20, n21");
        let many = other_note(&nodes, NodeRole::Offline, "offline").unwrap();
        assert!(many.contains("22 offline") && many.ends_with("n19 and 2 more"), "{many}");
    }
}
