//! Core: instances by the names that clients give, and what belongs to each.

use std::ops::Bound;
use std::sync::Arc;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::instance::{Disk, Instance, InstanceSettings};
use model::node::Node;
use model::{Exception, Uuid};

use crate::config::Config;
use crate::units::Wanted;

impl Config {
    /// An instance by its name, by its first label where only one instance has it, or by its UUID.
    ///
    /// # Errors
    /// No such instance, or several.
    pub fn instance(&self, name: &str) -> Result<&Arc<Instance>, Exception> {
        let wanted = name.to_ascii_lowercase();
        if let Some(instance) = self.instances.get(wanted.as_str()) {
            return Ok(instance);
        }
        let dotted = format!("{wanted}.");
        let from =
            self.instances.range::<_, str>((Bound::Included(dotted.as_str()), Bound::Unbounded));
        let mut longer = from.take_while(|(name, _)| name.as_str().starts_with(&dotted));
        let several = |_| {
            let text = format!("Instance name '{name}' is ambiguous; write it in full");
            Exception::prereq(text, ErrorCode::WrongInput)
        };
        if let Some((_, instance)) = longer.next() {
            return longer.next().map_or(Ok(instance), |other| Err(several(other)));
        }
        let by_uuid = wanted.parse().ok().and_then(|uuid| self.instance_of(uuid));
        by_uuid.ok_or_else(|| {
            let text = format!("Instance '{name}' not known");
            Exception::prereq(text, ErrorCode::UnknownEntity)
        })
    }

    /// The instance of this UUID.
    pub fn instance_of(&self, uuid: Uuid) -> Option<&Arc<Instance>> {
        self.instances.by.uuid.of(uuid).next()
    }

    /// The instance of this name, with this UUID if one is told: who asked may have meant one that had the
    /// name before (Ganeti's `instance_uuid`).
    ///
    /// # Errors
    /// No such instance, several, or another one.
    pub fn instance_with(
        &self,
        name: &str,
        uuid: Option<&str>,
    ) -> Result<&Arc<Instance>, Exception> {
        let instance = self.instance(name)?;
        match uuid {
            Some(uuid) if uuid != instance.uuid.to_string() => Err(Exception::prereq(
                format!(
                    "The UUID of instance {} is {}, not {uuid}, which was asked for: maybe another \
                     instance has its name by now",
                    instance.name, instance.uuid
                ),
                ErrorCode::ResourceNotUnique,
            )),
            Some(_) | None => Ok(instance),
        }
    }

    /// The disks of an instance, in order.
    pub fn disks_of<'c>(&'c self, instance: &'c Instance) -> impl Iterator<Item = &'c Arc<Disk>> {
        instance.disks.iter().filter_map(|uuid| self.disks.get(uuid))
    }

    /// The settings for instances that count on a node.
    pub fn settings_on(&self, node: &Node) -> InstanceSettings {
        self.instance_settings().in_group(&self.group_of(node).settings)
    }

    /// The settings that count for an instance: those of its node.
    pub fn settings_of(&self, instance: &Instance) -> InstanceSettings {
        match self.nodes.get(&instance.primary_node) {
            Some(node) => self.settings_on(node),
            None => self.instance_settings().as_ref().clone(),
        }
    }
}

/// The instance of this UUID, which a job holds the lock of.
pub(super) fn present(config: &Config, uuid: Uuid) -> Result<&Instance, Exception> {
    config.instance_of(uuid).map(AsRef::as_ref).ok_or_else(|| {
        let text = format!("Instance {uuid} is gone");
        Exception::prereq(text, ErrorCode::UnknownEntity)
    })
}

/// The locks of an opcode on one instance: it exclusively, and its nodes, which are to stay what they are.
///
/// # Errors
/// No such instance.
pub(super) fn locks(
    level: Level,
    config: &Config,
    name: &str,
    uuid: Option<&str>,
    further: &[Option<&str>],
) -> Result<Wanted, Exception> {
    match level {
        Level::Instance => {
            let instance = config.instance_with(name, uuid)?;
            Ok(vec![(LockName::member(level, instance.name.as_str()), Mode::Exclusive)])
        }
        Level::Node => {
            let instance = config.instance_with(name, uuid)?;
            let mut nodes = vec![instance.primary_node.as_str()];
            for name in further.iter().flatten() {
                nodes.push(config.node(name)?.name.as_str());
            }
            nodes.sort_unstable();
            nodes.dedup();
            let lock = |name: &str| (LockName::member(level, name), Mode::Shared);
            Ok(nodes.into_iter().map(lock).collect())
        }
        _ => Ok(Vec::new()),
    }
}
