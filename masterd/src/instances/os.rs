//! Operating systems of instances: `image+NAME`, which is built in ([`image`]), and definitions of nodes,
//! whose `scripts` their agents run.

mod environment;
pub(crate) mod image;
mod scripts;

use std::collections::BTreeMap;

use model::Exception;
use model::error::ErrorCode;
use model::instance::os::{OsDefinition, OsScript, os_parts};
use model::instance::{Disk, Instance};
use serde_json::{Map, Value, json};

use super::capacity::AllFacts;
use super::launch;
use crate::config::Config;
use crate::units::{Context, Failure, wrong};

/// Versions of the interface that the built-in system counts as.
const OF_IMAGES: [u32; 1] = [20];

/// A look at whether an instance may have its system.
#[derive(Debug, Clone, Copy)]
pub(super) struct SystemAsked<'a> {
    pub(super) instance: &'a Instance,
    /// MiB of its first disk.
    pub(super) size: u64,
    /// Whether a variant is taken that its definition does not list.
    pub(super) force_variant: bool,
}

/// Refuses a system that no node has, or that is no image.
///
/// # Errors
/// It is not known.
pub(super) fn known(config: &Config, facts: &AllFacts, os: &str) -> Result<(), Exception> {
    if image::variant(os).is_some() {
        return image::disk_file(config, os).map(drop);
    }
    let (name, _) = os_parts(os);
    let mut definitions = facts.values().flat_map(|facts| &facts.systems);
    if definitions.any(|one| one.name == name) {
        return Ok(());
    }
    let text = format!(
        "OS '{os}' is not known: no node has a definition of it, and it is no image; `gnt os list` shows what \
         there is, and --no-install writes none"
    );
    Err(Exception::prereq(text, ErrorCode::UnknownEntity))
}

/// Looks whether an instance may have its system, on its node.
///
/// # Errors
/// It may not, or its node does not tell.
pub(super) async fn suits(context: &mut Context, asked: SystemAsked<'_>) -> Result<(), Failure> {
    let (config, instance) = (context.config(), asked.instance);
    if image::variant(&instance.os).is_none() {
        return scripts::suits(context, instance, asked.force_variant).await;
    }
    let file = image::disk_file(&config, &instance.os)?;
    image::takes(&config.settings_of(instance).system_of(instance))?;
    Ok(image::fits(&context.source(), file, asked.size)?)
}

/// Writes its system onto the disks of an instance, which are there.
///
/// # Errors
/// The inner one: it was not written.
pub(super) async fn install(
    context: &mut Context,
    instance: &Instance,
    is_again: bool,
) -> Result<Result<(), Exception>, Failure> {
    if image::variant(&instance.os).is_none() {
        let more = is_again.then(|| ("INSTANCE_REINSTALL", "1".to_owned()));
        context.say("* running the instance OS create scripts...").await;
        let done = scripts::run(context, instance, OsScript::Create, more).await?;
        let (name, node) = (&instance.name, &instance.primary_node);
        let what = format!("Could not add os for instance {name} on node {node}");
        return Ok(done.map_err(|not| not.exception(&what)));
    }
    let first = {
        let config = context.config();
        let disk = system_disk(config.disks_of(instance).map(AsRef::as_ref))?;
        launch::disk(disk, &config.settings_of(instance))
    };
    image::install(context, &instance.primary_node, &instance.os, first).await
}

/// Tells the system of an instance its new name, where it has a script for that.
///
/// # Errors
/// The inner one: it did not take it, in words for a warning.
pub(super) async fn renamed(
    context: &mut Context,
    instance: &Instance,
    old: &str,
) -> Result<Result<(), String>, Failure> {
    let facts = context.contacts().facts();
    let (name, _) = os_parts(&instance.os);
    let has_script = facts.get(&instance.primary_node).is_some_and(|facts| {
        let mut named = facts.systems.iter().filter(|one| one.name == name);
        named.any(|one| one.fault.is_none() && one.scripts.contains(&OsScript::Rename))
    });
    if !has_script || instance.disks.is_empty() {
        return Ok(Ok(()));
    }
    let more = Some(("OLD_INSTANCE_NAME", old.to_owned()));
    let done = scripts::run(context, instance, OsScript::Rename, more).await?;
    Ok(done.map_err(|not| {
        format!(
            "Could not run OS rename script for instance {} on node {} (but the instance has been renamed): {}",
            instance.name, instance.primary_node, not.why
        )
    }))
}

/// The disk on which an instance has its system.
///
/// # Errors
/// It has no disk.
pub(super) fn system_disk<'d>(
    disks: impl IntoIterator<Item = &'d Disk>,
) -> Result<&'d Disk, Exception> {
    let none = || wrong("an instance without disks has no place for an operating system");
    disks.into_iter().next().ok_or_else(none)
}

/// All systems as `OP_OS_DIAGNOSE` tells of them, by field. Nodes that may have no instances, or are
/// offline, do not count.
pub(crate) fn diagnosed(config: &Config, facts: &AllFacts) -> Vec<BTreeMap<&'static str, Value>> {
    let nodes = config.nodes.values().filter(|node| super::capacity::may_host(node, "").is_ok());
    let nodes: Vec<&str> = nodes.map(|node| node.name.as_str()).collect();
    let mut systems: BTreeMap<String, BTreeMap<&str, OsDefinition>> = BTreeMap::new();
    for node in &nodes {
        for one in facts.get(*node).into_iter().flat_map(|facts| &facts.systems) {
            systems.entry(one.name.clone()).or_default().insert(node, one.clone());
        }
    }
    let images = image::variants(config);
    if !images.is_empty() {
        let built_in = OsDefinition {
            name: image::NAME.to_owned(),
            path: image::NAME.to_owned(),
            fault: None,
            api_versions: OF_IMAGES.to_vec(),
            variants: images,
            parameters: image::PARAMETERS
                .map(|(name, about)| (name.to_owned(), about.to_owned()))
                .to_vec(),
            hypervisors: Vec::new(),
            scripts: Vec::new(),
        };
        let everywhere = nodes.iter().map(|node| (*node, built_in.clone())).collect();
        systems.insert(image::NAME.to_owned(), everywhere);
    }
    systems.iter().map(|(name, on)| row(config, name, on, &nodes)).collect()
}

/// A system is valid where all nodes have it, and has what all of them have of it.
fn row(
    config: &Config,
    name: &str,
    on: &BTreeMap<&str, OsDefinition>,
    nodes: &[&str],
) -> BTreeMap<&'static str, Value> {
    let settings = config.instance_settings();
    let common = |of: fn(&OsDefinition) -> Vec<Value>| -> Vec<Value> {
        let mut lists = on.values().map(of);
        let first = lists.next().unwrap_or_default();
        lists.fold(first, |mut common, list| {
            common.retain(|one| list.contains(one));
            common
        })
    };
    let valid = on.len() == nodes.len() && on.values().all(|one| one.fault.is_none());
    let status = |one: &OsDefinition| {
        let fault = one.fault.as_deref().unwrap_or_default();
        // All scripts are trusted: none runs in a guest of its own.
        json!([[
            one.path,
            one.fault.is_none(),
            fault,
            one.variants,
            one.parameters,
            one.api_versions,
            true
        ]])
    };
    let on_node = |node: &&str| ((*node).to_owned(), on.get(node).map_or(json!([]), status));
    let status: Map<String, Value> = nodes.iter().map(on_node).collect();
    let is_in = |list: &[String]| json!(list.iter().any(|listed| listed == name));
    BTreeMap::from([
        (
            "api_versions",
            common(|one| one.api_versions.iter().map(|one| json!(one)).collect()).into(),
        ),
        ("blacklisted", is_in(&settings.blacklisted_os)),
        ("hidden", is_in(&settings.hidden_os)),
        ("name", name.into()),
        ("node_status", status.into()),
        ("os_hvp", json!(settings.os_hvp.get(name).cloned().unwrap_or_default())),
        ("osparams", json!(settings.osparams.get(name).cloned().unwrap_or_default())),
        ("parameters", common(|one| one.parameters.iter().map(|one| json!(one)).collect()).into()),
        ("trusted", true.into()),
        ("valid", valid.into()),
        ("variants", common(|one| one.variants.iter().map(|one| json!(one)).collect()).into()),
    ])
}
