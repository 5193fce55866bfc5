//! Methods on filter rules, and the watcher's pause. They are no jobs: a rule that holds back every
//! job could never be taken away by one.

use std::sync::Arc;

use ::jobs::filter::{Rule, RuleError, RuleMap};
use luxi::method::{DeleteFilter, QueryFilters, ReplaceFilter, Row};
use luxi::query::Filter;
use model::error::{ErrorCode, Exception};
use model::filter::{FilterAction, FilterRule, Predicate};
use model::opcode::ReasonEntry;
use model::opcode::common::Unchanged;
use model::{Timestamp, document, json};
use serde::Deserialize as _;
use serde_json::Value;
use uuid::Uuid;

use super::LuxiService;
use crate::config::ConfigChange;
use crate::door::lists::filter::{FIELDS, FilterRow};
use crate::units::list::bare;

/// The source of the last entry of a rule's reason trail.
const REASON_SOURCE: &str = "masterd";
/// The last second of the year 9999: a time beyond is a mistake.
const LATEST: f64 = 253_402_300_799.0;
const MICROS_PER_SECOND: f64 = 1_000_000.0;

impl LuxiService {
    /// Makes a rule, or replaces the one of this id; one that does not exist is made, as by Ganeti.
    pub(super) async fn replace_filter(&self, call: ReplaceFilter) -> Result<String, Exception> {
        let uuid = match call.uuid {
            None => Uuid::new_v4().to_string(),
            Some(text) => checked_uuid(text)?,
        };
        let action = json::traced(call.action, |reader| FilterAction::deserialize(reader))
            .map_err(|error| wrong(error.to_string()))?;
        let predicates: Vec<Predicate> = call
            .predicates
            .into_iter()
            .enumerate()
            .map(|(index, value)| predicate(value, index + 1))
            .collect::<Result<_, _>>()?;
        let mut reason_trail = call.reason;
        let nanos = self.sources.clock.now_micros().saturating_mul(1_000);
        reason_trail.push(ReasonEntry(REASON_SOURCE.to_owned(), String::new(), nanos));
        let document = FilterRule {
            uuid: uuid.clone(),
            watermark: 0,
            priority: call.priority,
            predicates,
            action,
            reason_trail,
        };
        let rule = Rule::new(document).map_err(|error| refused(&error))?;
        let (rule_uuid, unchanged) = (uuid.clone(), call.unchanged);
        let decide = move |config: &crate::config::Config, serial| {
            check(config, &rule_uuid, unchanged)?;
            let rule = rule.at(serial).map_err(|error| refused(&error))?;
            rule.fits(&config.filters).map_err(|error| refused(&error))?;
            Ok((vec![ConfigChange::Filter(rule)], ()))
        };
        self.sources
            .submitter
            .unless_stalled(self.sources.writer.transact_at(None, decide))
            .await?;
        Ok(uuid)
    }

    pub(super) async fn delete_filter(&self, call: DeleteFilter) -> Result<(), Exception> {
        let DeleteFilter { uuid, unchanged } = call;
        let decide = move |config: &crate::config::Config| {
            check(config, &uuid, unchanged)?;
            match config.filters.get(&uuid) {
                Some(_) => Ok((vec![ConfigChange::FilterRemoved(uuid)], ())),
                None => Err(unknown(&uuid)),
            }
        };
        self.sources.submitter.unless_stalled(self.sources.writer.transact(None, decide)).await
    }

    pub(super) fn query_filters(&self, call: &QueryFilters) -> Result<Vec<Row>, Exception> {
        let wanted = call.uuids.as_deref().filter(|uuids| !uuids.is_empty());
        let uuids = wanted.map(|uuids| uuids.iter().map(String::as_str).collect());
        bare(FIELDS, rows(&self.rules(), uuids)?, &call.fields)
    }

    /// The rules for a list: those that the filter names, in its order, or all.
    pub(super) fn filter_rows(&self, filter: Option<&Filter>) -> Result<Vec<FilterRow>, Exception> {
        let named = filter.and_then(|filter| filter.only_values_of("uuid"));
        let uuids = named.map(|values| values.iter().filter_map(|value| value.as_text()).collect());
        rows(&self.rules(), uuids)
    }

    fn rules(&self) -> RuleMap {
        RuleMap::clone(&self.sources.published.snapshot().config.filters)
    }

    pub(super) async fn set_watcher_pause(
        &self,
        until: Option<f64>,
    ) -> Result<Option<f64>, Exception> {
        let pause = until.map(moment).transpose()?;
        let now = self.now();
        let decide = move |config: &crate::config::Config| {
            let mut cluster = config.cluster.as_ref().clone();
            cluster.watcher_pause = pause;
            cluster.serial_no += 1;
            cluster.mtime = now;
            Ok((vec![ConfigChange::Cluster(cluster)], ()))
        };
        self.sources.submitter.unless_stalled(self.sources.writer.transact(None, decide)).await?;
        Ok(until)
    }

    /// Until when the watcher is paused, in whole seconds since the epoch; null when it is not.
    pub(super) fn watcher_pause(&self) -> Value {
        let now = self.now();
        let pause = self.sources.published.snapshot().config.cluster.watcher_pause;
        pause.filter(|&until| until > now).map_or(Value::Null, |until| until.seconds().into())
    }
}

/// Refuses a change of a rule that is another one than the client saw.
fn check(
    config: &crate::config::Config,
    uuid: &str,
    unchanged: Option<String>,
) -> Result<(), Exception> {
    let seen = |digest| [Unchanged(format!("{}/{uuid}", document::FILTERS), Some(digest))];
    unchanged.map_or(Ok(()), |digest| config.check_unchanged(&seen(digest)))
}

/// These rules, or all in the order of their ids.
fn rows(rules: &RuleMap, uuids: Option<Vec<&str>>) -> Result<Vec<FilterRow>, Exception> {
    let row = |rule: &Arc<Rule>| FilterRow(Arc::clone(rule));
    match uuids {
        None => Ok(rules.values().map(row).collect()),
        Some(uuids) => {
            let find = |uuid: &str| rules.get(uuid).map(row).ok_or_else(|| unknown(uuid));
            uuids.into_iter().map(find).collect()
        }
    }
}

fn checked_uuid(text: String) -> Result<String, Exception> {
    let canonical = Uuid::try_parse(&text).is_ok_and(|uuid| uuid.to_string() == text);
    if canonical {
        return Ok(text);
    }
    let text: String = text.chars().take(QUOTED_MAX).collect();
    Err(wrong(format!(
        "`{text}` is no id of a filter rule: write a UUID in lower case, or leave it out to make a \
         new rule"
    )))
}

/// Longest piece of a client's own text that an error repeats.
const QUOTED_MAX: usize = 64;

fn predicate(value: Value, place: usize) -> Result<Predicate, Exception> {
    json::traced(value, |reader| Predicate::deserialize(reader)).map_err(|error| {
        wrong(format!(
            "predicate {place} of a filter rule is [\"jobid\", condition], [\"opcode\", condition] \
             or [\"reason\", condition]: {error}"
        ))
    })
}

fn refused(error: &RuleError) -> Exception {
    let mut text = format!("The filter rule is refused: {error}");
    if let Some(source) = std::error::Error::source(error)
        && !text.ends_with(&source.to_string())
    {
        text = format!("{text}: {source}");
    }
    wrong(text)
}

fn unknown(uuid: &str) -> Exception {
    let uuid: String = uuid.chars().take(QUOTED_MAX).collect();
    Exception::prereq(
        format!("Filter rule with UUID {uuid} does not exist"),
        ErrorCode::UnknownEntity,
    )
}

fn wrong(text: String) -> Exception {
    Exception::prereq(text, ErrorCode::WrongInput)
}

fn moment(seconds: f64) -> Result<Timestamp, Exception> {
    if !(0.0..=LATEST).contains(&seconds) {
        return Err(wrong(format!(
            "{seconds} is no time to pause the watcher until: write seconds since the epoch, or null"
        )));
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was compared with the bounds")]
    let micros = (seconds * MICROS_PER_SECOND) as i64;
    Ok(Timestamp::from_micros(micros))
}
