//! Core: filter rules: which jobs a rule is for, and which rule decides on a job.
//!
//! Rules are looked at by priority, then watermark, then id. The first whose predicates all hold, and
//! whose action is not `CONTINUE`, decides. Its decision depends on the job's id, opcodes and reason
//! trails alone, so it is worked out once for each job and each change of the rules.

use std::cell::OnceCell;
use std::sync::Arc;

use imbl::OrdMap;
use luxi::query::Filter;
use luxi::query::filter::Operand;
use model::Job;
use model::filter::{FilterAction, FilterRule, Predicate, PredicateKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most rules: each is looked at for each job.
pub const RULES_MAX: usize = 1_000;
/// Most predicates of one rule.
pub const PREDICATES_MAX: usize = 32;
/// Most bytes of a rule as it is stored, so that all rules together stay small beside the jobs.
pub const RULE_BYTES_MAX: usize = 64 << 10;
/// Most conditions in the predicates of all rules, which bounds the work for each job.
pub const CONDITIONS_MAX: usize = 16_384;
/// Most regular expressions in them; each may take 256 KiB of memory.
pub const PATTERNS_MAX: usize = 256;

/// Stands for the rule's watermark in a condition on a job's id.
const WATERMARK: &str = "watermark";
/// The field of a condition on a job's id.
const ID: &str = "id";
/// The field with an opcode's verb.
const OP_ID: &str = "OP_ID";
/// The fields of a condition on an entry of a reason trail.
const REASON_FIELDS: [&str; 3] = ["source", "reason", "timestamp"];

/// A rule that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// A condition that is none.
    #[error("predicate {place} is no condition")]
    Condition {
        /// Which predicate, from 1.
        place: usize,
        /// The fault in the condition.
        #[source]
        error: serde_json::Error,
    },
    /// A condition on what there is not.
    #[error("predicate {place} names `{field}`; a condition on {about} has {known}")]
    Field {
        /// Which predicate, from 1.
        place: usize,
        /// What it names.
        field: String,
        /// The subject of the condition.
        about: &'static str,
        /// The fields that it may name.
        known: &'static str,
    },
    /// A condition on a job's id with other text than the one word.
    #[error("predicate {place} compares a job's id with `{text}`; write a number or `{WATERMARK}`")]
    NotAnId {
        /// Which predicate, from 1.
        place: usize,
        /// The beginning of the text.
        text: String,
    },
    /// A limit.
    #[error("{found} {what}; at most {limit} are taken")]
    TooMuch {
        /// Of what there is too much.
        what: &'static str,
        /// How much there is.
        found: usize,
        limit: usize,
    },
}

/// Longest piece of a client's own text that an error repeats.
const QUOTED_MAX: usize = 64;

/// A rule that is ready to be held against jobs. It is stored as its document.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "FilterRule")]
pub struct Rule {
    /// The rule as it is stored.
    #[serde(flatten)]
    pub document: FilterRule,
    #[serde(skip)]
    conditions: Vec<Condition>,
    #[serde(skip)]
    size: Size,
}

impl TryFrom<FilterRule> for Rule {
    type Error = String;

    fn try_from(document: FilterRule) -> Result<Self, String> {
        Self::new(document).map_err(|error| stdx::daemon::chain(&error))
    }
}

/// All rules by their ids. A clone shares them, which [`RuleMap::ptr_eq`] tells.
pub type RuleMap = OrdMap<String, Arc<Rule>>;

#[derive(Debug, Clone)]
struct Condition {
    kind: PredicateKind,
    filter: Filter,
    /// The fields that it looks at.
    fields: Vec<String>,
}

/// The share of a rule in the limits for all rules together.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    conditions: usize,
    patterns: usize,
}

impl Rule {
    /// Reads the predicates of a rule.
    ///
    /// # Errors
    /// A predicate that does not read or asks for what does not exist, or too much of anything.
    pub fn new(document: FilterRule) -> Result<Self, RuleError> {
        bounded("predicates in one rule", document.predicates.len(), PREDICATES_MAX)?;
        let bytes = super::submit::json_bytes(&document);
        bounded("bytes in one rule", bytes, RULE_BYTES_MAX)?;
        let mut conditions = Vec::with_capacity(document.predicates.len());
        let mut size = Size::default();
        for (index, predicate) in document.predicates.iter().enumerate() {
            let condition = Condition::new(predicate, document.watermark, index + 1)?;
            size.add(&condition.filter);
            conditions.push(condition);
        }
        Ok(Self { document, conditions, size })
    }

    /// The reason that was given when the rule was made, if any.
    pub fn why(&self) -> Option<&str> {
        let said = self.document.reason_trail.iter().map(|entry| entry.1.as_str());
        said.rev().find(|text| !text.is_empty())
    }

    /// The same rule as it is made or replaced when `watermark` is the last job id given out.
    ///
    /// # Errors
    /// As [`Rule::new`]; a rule that was made of the same predicates gives none.
    pub fn at(mut self, watermark: u64) -> Result<Self, RuleError> {
        self.document.watermark = watermark;
        let predicates = self.document.predicates.iter().enumerate();
        for (condition, (index, predicate)) in self.conditions.iter_mut().zip(predicates) {
            if condition.kind == PredicateKind::JobId {
                *condition = Condition::new(predicate, watermark, index + 1)?;
            }
        }
        Ok(self)
    }

    /// Whether this rule may join the others, of which it may replace one.
    ///
    /// # Errors
    /// There would be too much of something.
    pub fn fits(&self, others: &RuleMap) -> Result<(), RuleError> {
        let stay = others.iter().filter(|(uuid, _)| **uuid != self.document.uuid);
        let (mut rules, mut size) = (1, self.size);
        for (_, rule) in stay {
            rules += 1;
            size.conditions += rule.size.conditions;
            size.patterns += rule.size.patterns;
        }
        bounded("filter rules", rules, RULES_MAX)?;
        bounded("conditions in all filter rules together", size.conditions, CONDITIONS_MAX)?;
        bounded("regular expressions in all filter rules together", size.patterns, PATTERNS_MAX)
    }

    /// Its action on the jobs that it is for.
    pub fn action(&self) -> FilterAction {
        self.document.action
    }

    /// The key by which rules are ordered.
    fn turn(&self) -> (u32, u64, &str) {
        (self.document.priority, self.document.watermark, &self.document.uuid)
    }

    /// Whether all its predicates hold of a job.
    pub fn is_for(&self, job: &Subject<'_>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(job))
    }
}

impl Condition {
    fn new(predicate: &Predicate, watermark: u64, place: usize) -> Result<Self, RuleError> {
        let Predicate(kind, value) = predicate;
        let mut filter: Filter = serde_json::from_value(value.clone())
            .map_err(|error| RuleError::Condition { place, error })?;
        let (about, known, names): (_, _, &[&str]) = match kind {
            PredicateKind::JobId => ("a job's id", "`id` alone", &[ID]),
            PredicateKind::Reason => {
                ("a reason", "`source`, `reason` and `timestamp`", &REASON_FIELDS)
            }
            PredicateKind::OpCode => ("", "", &[]),
        };
        let fields: Vec<String> = filter.fields().into_iter().map(str::to_owned).collect();
        if *kind != PredicateKind::OpCode
            && let Some(field) = fields.iter().find(|field| !names.contains(&field.as_str()))
        {
            return Err(RuleError::Field { place, field: quoted(field), about, known });
        }
        if *kind == PredicateKind::JobId {
            put_watermark(&mut filter, watermark)
                .map_err(|text| RuleError::NotAnId { place, text: quoted(&text) })?;
        }
        Ok(Self { kind: *kind, filter, fields })
    }

    fn holds(&self, job: &Subject<'_>) -> bool {
        match self.kind {
            PredicateKind::JobId => self.filter.holds(|_id| Some(Value::from(job.job.id.0))),
            // The usual rule is found out without writing the opcodes as JSON.
            PredicateKind::OpCode if self.fields.iter().all(|field| field == OP_ID) => {
                let known = job.job.ops.iter().filter_map(|op| op.input.known());
                known.into_iter().any(|input| self.filter.holds(|_| Some(input.op.id().into())))
            }
            PredicateKind::OpCode => job.inputs().iter().any(|input| self.holds_of(input)),
            PredicateKind::Reason => {
                let trails = job.job.ops.iter().flat_map(|op| op.input.reason());
                trails.into_iter().any(|entry| {
                    self.filter.holds(|field| match field {
                        "source" => Some(Value::from(entry.0.as_str())),
                        "reason" => Some(Value::from(entry.1.as_str())),
                        "timestamp" => Some(Value::from(entry.2)),
                        _ => None,
                    })
                })
            }
        }
    }

    /// Whether it holds of an opcode. As in Ganeti, it does not when the opcode lacks any of the
    /// fields, not even behind a `!`: rules name the parameters of one kind of opcode.
    fn holds_of(&self, input: &Value) -> bool {
        self.fields.iter().all(|field| value_at(input, field).is_some())
            && self.filter.holds(|field| value_at(input, field).cloned())
    }
}

/// The value at a path with dots; none where there is nothing, or null.
fn value_at<'a>(input: &'a Value, path: &str) -> Option<&'a Value> {
    let step = |value: &'a Value, name| value.as_object()?.get(name);
    path.split('.').try_fold(input, step).filter(|value| !value.is_null())
}

/// Puts the number in the place of its word.
fn put_watermark(filter: &mut Filter, watermark: u64) -> Result<(), String> {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => {
            parts.iter_mut().try_for_each(|part| put_watermark(part, watermark))
        }
        Filter::Not(inner) => put_watermark(inner, watermark),
        Filter::Compare(_, _, operand) | Filter::Contains(_, operand) => match operand {
            Operand::Number(_) => Ok(()),
            Operand::Text(text) if text == WATERMARK => {
                *operand = Operand::from(watermark);
                Ok(())
            }
            Operand::Text(text) => Err(text.clone()),
        },
        Filter::True(_) | Filter::Matches(..) => Ok(()),
    }
}

impl Size {
    fn add(&mut self, filter: &Filter) {
        self.conditions += 1;
        match filter {
            Filter::And(parts) | Filter::Or(parts) => parts.iter().for_each(|part| self.add(part)),
            Filter::Not(inner) => self.add(inner),
            Filter::Matches(..) => self.patterns += 1,
            Filter::True(_) | Filter::Compare(..) | Filter::Contains(..) => {}
        }
    }
}

fn bounded(what: &'static str, found: usize, limit: usize) -> Result<(), RuleError> {
    if found > limit { Err(RuleError::TooMuch { what, found, limit }) } else { Ok(()) }
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_MAX).collect()
}

/// A job as rules see it.
#[derive(Debug)]
pub struct Subject<'a> {
    job: &'a Job,
    /// Its opcodes that this version knows as clients wrote them, made when the first rule asks.
    inputs: OnceCell<Vec<Value>>,
}

impl<'a> Subject<'a> {
    /// A job to hold rules against.
    pub fn new(job: &'a Job) -> Self {
        Self { job, inputs: OnceCell::new() }
    }

    fn inputs(&self) -> &[Value] {
        self.inputs.get_or_init(|| {
            let inputs = self.job.ops.iter().filter_map(|op| op.input.known());
            inputs.map(|input| serde_json::to_value(input).unwrap_or_default()).collect()
        })
    }
}

/// The rules that can decide on a job, in their order.
#[derive(Debug, Default)]
pub struct Rules {
    all: RuleMap,
    /// Without those that have no effect.
    ordered: Vec<Arc<Rule>>,
}

/// A change of the rules, for jobs on which the rules were worked out before.
#[derive(Debug)]
pub struct Change {
    /// The rules that are new or differ, in their order.
    fresh: Vec<Arc<Rule>>,
}

impl Rules {
    /// Takes other rules.
    pub fn set(&mut self, all: RuleMap) -> Change {
        let mut ordered: Vec<Arc<Rule>> = all.values().cloned().collect();
        ordered.retain(|rule| rule.action() != FilterAction::Continue);
        ordered.sort_by(|a, b| a.turn().cmp(&b.turn()));
        let fresh = ordered.iter().filter(|rule| !self.has(rule)).cloned().collect();
        (self.all, self.ordered) = (all, ordered);
        Change { fresh }
    }

    /// All of them, by their ids.
    pub fn all(&self) -> &RuleMap {
        &self.all
    }

    /// Whether this very rule is among them.
    fn has(&self, rule: &Arc<Rule>) -> bool {
        self.all.get(&rule.document.uuid).is_some_and(|found| Arc::ptr_eq(found, rule))
    }

    /// The rule that decides on a job, if one does.
    pub fn decide(&self, job: &Job) -> Option<Arc<Rule>> {
        if self.ordered.is_empty() {
            return None;
        }
        first(&self.ordered, &Subject::new(job))
    }

    /// The rule that decides on a job on which `before` decided before this change. Only what
    /// differs is looked at, unless that rule is gone.
    pub fn decide_again(
        &self,
        job: &Job,
        before: Option<&Arc<Rule>>,
        change: &Change,
    ) -> Option<Arc<Rule>> {
        let Some(before) = before else { return first(&change.fresh, &Subject::new(job)) };
        if !self.has(before) {
            return self.decide(job);
        }
        let ahead = change.fresh.partition_point(|rule| rule.turn() < before.turn());
        let fresh = change.fresh.get(..ahead).unwrap_or_default();
        first(fresh, &Subject::new(job)).or_else(|| Some(Arc::clone(before)))
    }
}

fn first(rules: &[Arc<Rule>], job: &Subject<'_>) -> Option<Arc<Rule>> {
    rules.iter().find(|rule| rule.is_for(job)).cloned()
}

#[cfg(test)]
mod tests;
