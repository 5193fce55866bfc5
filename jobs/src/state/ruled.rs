//! Core: what filter rules make of jobs.
//!
//! A job that has begun is not stopped half-way: pauses and rejections are for those of which no
//! opcode has begun. Rate limits count whatever runs.

use std::sync::Arc;

use model::JobId;
use model::filter::FilterAction;
use model::status::{OpEvent, OpStatus};
use serde_json::Value;

use super::{Live, Phase, Queue};
use crate::effects::Effects;
use crate::event::Replies;
use crate::filter::{Change, RuleMap};
use crate::limits::{REJECTED_AT_ONCE_MAX, REJECTED_BYTES_MAX};
use crate::schedule::rate_limit::Gate;

impl<R: Replies> Queue<R> {
    /// Works out which rule decides on a job that is new here.
    pub(super) fn judge(&mut self, id: JobId) {
        if let Some(live) = self.jobs.get_mut(&id).filter(|live| live.phase != Phase::Final) {
            live.rule = self.rules.decide(&live.job);
        }
    }

    /// Takes other rules and applies them to every job that has not ended.
    pub(super) fn set_rules(&mut self, rules: RuleMap, effects: &mut Effects<R>) {
        let change = self.rules.set(rules);
        let unfinished = self.jobs.iter().filter(|(_, live)| live.phase != Phase::Final);
        let ids: Vec<JobId> = unfinished.map(|(&id, _)| id).collect();
        for id in ids {
            self.judge_again(id, &change);
        }
        self.reject_some(effects);
    }

    /// Whether there are jobs left to be canceled by [`crate::Event::RejectMore`]. They do
    /// not start meanwhile.
    pub fn rejects_more(&self) -> bool {
        !self.rejected.is_empty()
    }

    /// Cancels jobs that a rule rejects, as many as may be at once.
    pub(super) fn reject_some(&mut self, effects: &mut Effects<R>) {
        for _ in 0..REJECTED_AT_ONCE_MAX {
            if effects.changed_bytes >= REJECTED_BYTES_MAX {
                return;
            }
            let Some(id) = self.rejected.pop_front() else { return };
            let Some(live) = self.jobs.get(&id) else { continue };
            if !matches!(live.phase, Phase::Ready | Phase::Depends) {
                continue;
            }
            if let Some(why) = live.rejection() {
                self.schedule.withdraw(id, live.job.priority(), live.reach, &live.gate);
                self.finish(id, OpEvent::Cancel, why, effects);
            }
        }
    }

    fn judge_again(&mut self, id: JobId, change: &Change) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        let rule = self.rules.decide_again(&live.job, live.rule.as_ref(), change);
        let same = match (&rule, &live.rule) {
            (Some(rule), Some(before)) => Arc::ptr_eq(rule, before),
            (rule, before) => rule.is_none() && before.is_none(),
        };
        if same {
            return;
        }
        live.rule = rule;
        if live.rejection().is_some() {
            self.rejected.push_back(id);
        }
        match live.phase {
            Phase::Final | Phase::Depends => {}
            Phase::Started => {
                let gate = live.next_gate();
                self.schedule.counts_for(&live.gate, &gate);
                live.gate = gate;
            }
            Phase::Ready => {
                let (priority, reach) = (live.job.priority(), live.reach);
                self.schedule.withdraw(id, priority, reach, &live.gate);
                live.gate = live.next_gate();
                self.schedule.ready(id, priority, reach, &live.gate);
            }
        }
    }
}

impl<R: Replies> Live<R> {
    fn has_begun(&self) -> bool {
        self.job.ops.first().is_some_and(|op| op.status != OpStatus::Queued)
    }

    /// Why the job is canceled by a rule, if it is.
    pub(super) fn rejection(&self) -> Option<Value> {
        let rule = self.rule.as_ref().filter(|rule| rule.action() == FilterAction::Reject)?;
        let told = || {
            let why = rule.why().map(|why| format!(" ({why})")).unwrap_or_default();
            Value::from(format!("Job rejected by filter rule {}{why}", rule.document.uuid))
        };
        (!self.has_begun()).then(told)
    }

    /// The gate that the job must pass under the present rules.
    pub(super) fn next_gate(&self) -> Gate {
        Gate::of(self.rule.as_deref(), &self.asked, self.has_begun())
    }
}
