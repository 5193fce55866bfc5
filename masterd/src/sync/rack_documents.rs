//! Sees to it that an agent serves the document of its rack: compares what it holds with what the
//! configuration says, and submits a job where that differs.

use std::time::Duration;

use model::node::Node;
use model::opcode::{OpCode, OpInput, RackPush, ReasonEntry};
use model::{Job, JobId, JobStatus, Timestamp};
use rpc::calls::RackHeld;
use tokio::time::Instant;

use super::AgentSync;
use crate::machines::rack::document::compile;
use crate::machines::rack::shares as rack_shares;

/// Pause after a push that failed, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
/// Longest pause between two pushes of the same document.
const LONGEST_PAUSE: Duration = Duration::from_secs(900);

/// The master's knowledge of one agent's document.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The document that the agent should hold: rack, position that it was compiled at, digest.
    wanted: Option<(u32, u64, String)>,
    /// The job that was submitted last.
    job: Option<JobId>,
    /// Jobs that were submitted for the document that is wanted.
    tries: u32,
    next: Option<Instant>,
}

impl AgentSync {
    /// Submits a push where an agent does not hold the document that it should. A job that sees to it,
    /// or did so in vain a short time ago, makes that needless. Tells whether the agent lacks it.
    pub(super) async fn push_if_stale(
        &self,
        node: &Node,
        state: &mut State,
        held: &[RackHeld],
    ) -> bool {
        let snapshot = self.published.snapshot();
        let rack = snapshot.config.nodes.get(&node.name).and_then(|node| node.rack);
        let Some(rack) = rack.filter(|_| snapshot.config.ipam.is_some()) else { return false };
        let position = snapshot.rack_position(rack);
        if state.wanted.as_ref().is_none_or(|(r, p, _)| (*r, *p) != (rack, position)) {
            // A rack beyond the pool was told of when its node was given it.
            let compiled = stdx::aside(|| compile(&snapshot, rack));
            let Ok(Some(document)) = compiled else { return false };
            *state =
                State { wanted: Some((rack, position, document.digest())), ..State::default() };
        }
        let Some((_, _, digest)) = &state.wanted else { return false };
        let now = Timestamp::from_micros(self.clock.now_micros());
        let is_due = rack_shares::is_due(&snapshot.config, rack, &node.name, now);
        if !is_due && held.iter().any(|held| held.rack == rack && held.digest == *digest) {
            (state.tries, state.next) = (0, None);
            return false;
        }
        let under_way =
            |id| self.published.jobs.get(id).is_some_and(|job| !job.status().is_final());
        if state.job.is_some_and(under_way)
            || state.next.is_some_and(|next| Instant::now() < next)
            || self.published.jobs.any(|job| will_push(job, rack))
        {
            return true;
        }
        let mut op = OpInput::new(OpCode::RackPush(RackPush { racks: vec![rack] }));
        op.common.reason.push(ReasonEntry(
            "gantry:exchange".to_owned(),
            format!("{} does not hold the document of rack {rack} that it should", node.name),
            Timestamp::from_micros(self.clock.now_micros()).micros().saturating_mul(1_000),
        ));
        state.next = Some(Instant::now() + pause(state.tries));
        state.tries = state.tries.saturating_add(1);
        let submitted = self.submitter.submit(vec![vec![op]], true, None).await;
        match submitted.map(|answers| answers.into_iter().next()) {
            Ok(Some(Ok(job))) => state.job = Some(job),
            Ok(Some(Err(why))) | Err(why) => {
                tracing::warn!(node = %node.name, %why, "no push could be submitted");
            }
            Ok(None) => {}
        }
        true
    }
}

fn pause(tries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(tries)).min(LONGEST_PAUSE)
}

/// Whether a running job changes the rack: it pushes the document itself when it is done.
fn will_push(job: &Job, rack: u32) -> bool {
    if job.status() != JobStatus::Running {
        return false;
    }
    let current = job.current().and_then(|place| job.ops.get(place));
    match current.and_then(|op| op.input.known()).map(|input| &input.op) {
        Some(OpCode::RackPush(op)) => op.racks.is_empty() || op.racks.contains(&rack),
        Some(OpCode::MachineAdd(op)) => op.machines.iter().any(|spec| spec.rack == rack),
        Some(
            OpCode::IpamSet(_)
            | OpCode::DhcpSet(_)
            | OpCode::KernelSet(_)
            | OpCode::MachineRemove(_)
            | OpCode::AssetSet(_)
            | OpCode::AssetRemove(_)
            | OpCode::BootTemplateAdd(_)
            | OpCode::BootTemplateRemove(_)
            | OpCode::NodeAdd(_)
            | OpCode::NodeSetParams(_),
        ) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::OpStatus;
    use model::opcode::Input;

    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let seconds: Vec<u64> = (0..8).map(|tries| pause(tries).as_secs()).collect();
        assert_eq!(seconds, [15, 30, 60, 120, 240, 480, 900, 900]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }

    #[test]
    fn only_a_job_that_runs_keeps_others_from_pushing() {
        let text = r#"{"OP_ID":"OP_MACHINE_ADD","machines":[{"serial":"s1","rack":2,"role":"w"}]}"#;
        let input = Arc::new(Input::Known(Box::new(OpInput::parse(text).unwrap())));
        let mut job = Job::new(JobId(1), [input], Timestamp::from_micros(0));
        assert!(!will_push(&job, 2));
        job.ops[0].status = OpStatus::Running;
        assert!(will_push(&job, 2) && !will_push(&job, 3));
        job.ops[0].status = OpStatus::Error;
        assert!(!will_push(&job, 2));
    }
}
