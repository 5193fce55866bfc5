//! Opcodes on templates of what machines boot with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jobs::locks::Level;
use model::boot_template::{
    BootTemplate, BootTemplateKey, RACK_BYTES_MAX, ROLES_MAX, TEXT_BYTES_MAX, TemplateKind,
    VERSIONS_MAX,
};
use model::error::ErrorCode;
use model::machine::Machine;
use model::opcode::{BootTemplateAdd, BootTemplateRemove};
use model::{Exception, Timestamp, Word};

use crate::config::queue::Decision;
use crate::config::{Config, ConfigChange};
use crate::machines::boot_template::{Prepared, Rendered, written};
use crate::machines::rack;
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// Warnings of one upload that its log has: a template with more has the same fault in each of its files.
const WARNINGS_MAX: usize = 20;

impl LogicalUnit for BootTemplateAdd {
    type Plan = ();

    /// None: whether it fits all machines is decided in its transaction, which excludes others.
    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let (now, config) = (context.now(), context.config());
        stdx::aside(|| added(self, &config, now))?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<String, Failure> {
        let now = context.now();
        let added = context.transact(move |config| added(&self, config, now)).await?;
        let Added { template, machines, racks, newer, dropped, warnings } = added;
        let key = template.key();
        let left_out = warnings.len().saturating_sub(WARNINGS_MAX);
        for warning in warnings.into_iter().take(WARNINGS_MAX) {
            context.say(format!("warning: {warning}")).await;
        }
        if left_out > 0 {
            context.say(format!("{left_out} further warnings are left out")).await;
        }
        let told = match newer {
            None => format!("{machines} machines get {key} when they boot"),
            Some(newer) => format!("{key} is kept; machines get {newer}, which is newer"),
        };
        context.say(told).await;
        for key in dropped {
            context.say(format!("{key} is gone: {VERSIONS_MAX} versions are kept")).await;
        }
        rack::push(context, &racks).await?;
        // Its text is in the opcode.
        Ok(template.key().to_string())
    }
}

/// The result of an upload.
struct Added {
    template: BootTemplate,
    /// Machines of its role.
    machines: usize,
    racks: BTreeSet<u32>,
    /// The version that machines get instead, where it is not this one.
    newer: Option<BootTemplateKey>,
    /// Versions that were too many.
    dropped: Vec<BootTemplateKey>,
    /// The warnings that Ignition would give.
    warnings: Vec<String>,
}

/// The same upload again is the same success.
fn added(op: &BootTemplateAdd, config: &Config, now: Timestamp) -> Decision<Added> {
    let BootTemplateAdd { kind, role, id, text, other_spec } = op;
    let key = BootTemplateKey { kind: *kind, role: role.clone(), id: id.clone() };
    if text.len() > TEXT_BYTES_MAX {
        let bytes = text.len();
        return Err(wrong(format!(
            "template {key} has {bytes} bytes; at most {TEXT_BYTES_MAX} are taken: let it name large \
             files by their URLs"
        )));
    }
    let versions: Vec<_> = config.boot_templates_of(*kind, role).cloned().collect();
    if versions.is_empty() && config.boot_templates.len() >= ROLES_MAX * VERSIONS_MAX {
        return Err(wrong(format!("{ROLES_MAX} roles have templates, which is the limit")));
    }
    let known = config.boot_templates.get(&key);
    if known.is_some_and(|known| known.text != *text) {
        let why =
            format!("Template {key} exists with another text; a changed text is another version");
        return Err(Exception::prereq(why, ErrorCode::AlreadyExists));
    }
    let refuse = |whom: &str, why: &dyn std::fmt::Display| {
        wrong(format!("template {key}, for {whom}: {why}"))
    };
    let prepared =
        Prepared::new(*kind, text).map_err(|why| wrong(format!("template {key}: {why}")))?;
    let sample = prepared.sample(config, role.as_str());
    let sample = sample.map_err(|why| refuse("a sample machine", &why))?;
    let Rendered { spec, warnings, .. } = sample;
    let newest = versions.last();
    if let Some(other) = newest.filter(|newest| is_other_major(&newest.spec, spec) && !other_spec) {
        let why = format!(
            "it declares Ignition's specification {spec}, and {} declares {}: a system that does not read \
             this one stops in an emergency shell; --other-spec takes it all the same",
            other.key(),
            other.spec
        );
        return Err(wrong(format!("template {key}: {why}")));
    }
    let (machines, racks) =
        fits_all(config, role, |machine| fitting(&prepared, config, machine, refuse))?;
    let template = known.map_or_else(
        || {
            let (spec, id, text) = (spec.to_owned(), id.clone(), text.clone());
            BootTemplate { kind: *kind, role: role.clone(), id, text, spec, ctime: now }
        },
        |known| known.as_ref().clone(),
    );
    let too_many = (versions.len() + 1).saturating_sub(VERSIONS_MAX);
    let (mut changes, mut dropped) = (Vec::new(), Vec::new());
    if known.is_none() {
        dropped = versions.iter().map(|old| old.key()).take(too_many).collect();
        if too_many > 0 && versions.first().is_some_and(|oldest| *id < oldest.id) {
            let why = format!("{VERSIONS_MAX} newer versions are kept, and {key} would go at once");
            return Err(wrong(why));
        }
        changes.push(ConfigChange::BootTemplate(template.clone()));
        changes.extend(dropped.iter().cloned().map(ConfigChange::BootTemplateRemoved));
    }
    let newer = newest.filter(|newest| newest.id > *id).map(|newest| newest.key());
    Ok((changes, Added { template, machines, racks, newer, dropped, warnings }))
}

/// Whether two versions of a specification differ in their first number.
fn is_other_major(one: &str, other: &str) -> bool {
    one.split('.').next() != other.split('.').next()
}

/// Tries a template for each machine of its role: how many there are, and their racks.
fn fits_all(
    config: &Config,
    role: &Word,
    bytes_of: impl Fn(&Machine) -> Result<usize, Exception>,
) -> Result<(usize, BTreeSet<u32>), Exception> {
    let (mut count, mut by_rack) = (0, BTreeMap::<u32, usize>::new());
    for machine in config.machines.by.role.of(Arc::from(role.as_str())) {
        let bytes = by_rack.entry(machine.rack).or_default();
        *bytes += bytes_of(machine)?;
        count += 1;
        if *bytes > RACK_BYTES_MAX {
            let rack = machine.rack;
            return Err(wrong(format!(
                "what the machines of rack {rack} get takes more than {RACK_BYTES_MAX} bytes, which is the \
                 limit of a rack's document: let the template name large files by their URLs"
            )));
        }
    }
    Ok((count, by_rack.into_keys().collect()))
}

/// Refuses a machine for which a template of its role gives nothing.
///
/// # Errors
/// The template and the reason.
pub(crate) fn fits_templates(config: &Config, machine: &Machine) -> Result<(), Exception> {
    let Ok(role) = machine.role.parse() else { return Ok(()) };
    for kind in [TemplateKind::Ignition, TemplateKind::CloudInit] {
        let Some(template) = config.boot_templates_of(kind, &role).next_back() else { continue };
        let prepared = Prepared::new(kind, &template.text);
        let rendered = prepared.and_then(|prepared| prepared.render(config, machine));
        rendered.map_err(|why| {
            let (key, serial) = (template.key(), &machine.serial);
            wrong(format!("template {key}, for machine '{serial}': {why}"))
        })?;
    }
    Ok(())
}

impl LogicalUnit for BootTemplateRemove {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        removed(self, &context.config())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let machines = config.machines.by.role.of(Arc::from(self.role.as_str()));
        let racks: BTreeSet<u32> = machines.map(|machine| machine.rack).collect();
        context.transact(move |config| Ok((removed(&self, config)?, ()))).await?;
        rack::push(context, &racks).await
    }
}

/// Machines get a version that is left, as with sabakan: a version that would not fit them does not come
/// back so.
fn removed(op: &BootTemplateRemove, config: &Config) -> Result<Vec<ConfigChange>, Exception> {
    let BootTemplateRemove { kind, role, id } = op;
    let meant = config.boot_templates_of(*kind, role);
    let meant = meant.filter(|template| id.as_ref().is_none_or(|id| *id == template.id));
    let meant: Vec<BootTemplateKey> = meant.map(|template| template.key()).collect();
    if meant.is_empty() {
        let of = id.as_ref().map_or_else(String::new, |id| format!("/{id}"));
        let text = format!("Template '{}/{role}{of}' not known", kind.as_str());
        return Err(Exception::prereq(text, ErrorCode::UnknownEntity));
    }
    let mut left = config.boot_templates_of(*kind, role);
    let left = left.rfind(|template| !meant.contains(&template.key()));
    if let Some(left) = left.filter(|left| meant.iter().any(|key| key.id > left.id)) {
        let refuse = |whom: &str, why: &dyn std::fmt::Display| {
            let text = format!(
                "template {}, which machines would get, for {whom}: {why}; upload one that fits first",
                left.key()
            );
            Exception::prereq(text, ErrorCode::WrongState)
        };
        let prepared = Prepared::new(*kind, &left.text);
        let prepared = prepared.map_err(|why| refuse("a sample machine", &why))?;
        let _fits = fits_all(config, role, |machine| fitting(&prepared, config, machine, refuse))?;
    }
    Ok(meant.into_iter().map(ConfigChange::BootTemplateRemoved).collect())
}

/// Bytes of what a template becomes for a machine.
fn fitting(
    prepared: &Prepared,
    config: &Config,
    machine: &Machine,
    refuse: impl Fn(&str, &dyn std::fmt::Display) -> Exception,
) -> Result<usize, Exception> {
    let rendered = prepared.render(config, machine);
    let rendered =
        rendered.map_err(|why| refuse(&format!("machine '{}'", machine.serial), &why))?;
    Ok(written(&rendered.text))
}

#[cfg(test)]
mod tests;
