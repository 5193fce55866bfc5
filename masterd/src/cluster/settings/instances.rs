//! Core: changes of the cluster's settings for instances.

use std::sync::Arc;

use model::Exception;
use model::error::ErrorCode;
use model::instance::settings::{SettingsError, change_list};
use model::instance::{InstanceSettings, Parameters};
use model::node::Node;
use model::opcode::ClusterSetParams;

use crate::config::Config;

impl Config {
    /// The settings for instances.
    pub fn instance_settings(&self) -> Arc<InstanceSettings> {
        self.instance_settings.clone().unwrap_or_default()
    }

    /// Parameters of a node: those of its group, and of the cluster.
    pub fn node_parameters(&self, node: &Node) -> Parameters {
        self.instance_settings().in_group(&self.group_of(node).settings).node()
    }
}

/// The settings after an opcode; none if it changes nothing of them.
///
/// # Errors
/// They cannot be.
pub(super) fn changed(
    op: &ClusterSetParams,
    config: &Config,
) -> Result<Option<InstanceSettings>, Exception> {
    let old = config.instance_settings();
    let new = told(op, old.as_ref().clone())
        .map_err(|error| Exception::prereq(error.to_string(), ErrorCode::WrongInput))?;
    let kept = &new.enabled_disk_templates;
    let used = config.instances.values().find(|one| !kept.contains(&one.disk_template));
    if let Some(instance) = used.filter(|_| *kept != old.enabled_disk_templates) {
        let text = format!(
            "Cannot disable disk template '{}', because there is at least one instance using it: {}",
            instance.disk_template, instance.name
        );
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    Ok((new != *old).then_some(new))
}

fn told(
    op: &ClusterSetParams,
    mut settings: InstanceSettings,
) -> Result<InstanceSettings, SettingsError> {
    if let Some(told) = op.enabled_hypervisors.as_deref().filter(|told| !told.is_empty()) {
        settings.enabled_hypervisors.clone_from(told);
    }
    if let Some(told) = op.enabled_disk_templates.as_deref().filter(|told| !told.is_empty()) {
        settings.enabled_disk_templates.clone_from(told);
    }
    if let Some(told) = op.hvparams.as_deref() {
        settings.set_hypervisors(told)?;
    }
    if let Some(told) = op.os_hvp.as_deref() {
        settings.set_of_systems(told)?;
    }
    if let Some(told) = op.beparams.as_deref() {
        settings.set_backend(told)?;
    }
    if let Some(told) = op.nicparams.as_deref() {
        settings.set_nic(told)?;
    }
    if let Some(told) = op.ndparams.as_deref() {
        settings.set_node(told)?;
    }
    if let Some(told) = op.diskparams.as_deref() {
        settings.set_templates(told)?;
    }
    if let Some(told) = op.osparams.as_deref() {
        settings.set_systems(told)?;
    }
    if let Some(told) = op.ipolicy.as_deref() {
        settings.set_policy(told)?;
    }
    places(op, &mut settings);
    users(op, &mut settings)?;
    if let Some(changes) = op.hidden_os.as_deref() {
        change_list("hidden_os", &mut settings.hidden_os, changes)?;
    }
    if let Some(changes) = op.blacklisted_os.as_deref() {
        change_list("blacklisted_os", &mut settings.blacklisted_os, changes)?;
    }
    settings.check()?;
    Ok(settings)
}

/// The places of disks, the allocator, and switches.
fn places(op: &ClusterSetParams, settings: &mut InstanceSettings) {
    let or_none = |told: &String| Some(told.clone()).filter(|told| !told.is_empty());
    if let Some(told) = op.vg_name.as_deref() {
        settings.volume_group_name = or_none(told);
    }
    if let Some(told) = op.drbd_helper.as_deref() {
        settings.drbd_usermode_helper = or_none(told);
    }
    let InstanceSettings {
        file_storage_dir,
        shared_file_storage_dir,
        gluster_storage_dir,
        default_iallocator,
        ..
    } = settings;
    for (told, stored) in [
        (op.file_storage_dir.as_deref(), file_storage_dir),
        (op.shared_file_storage_dir.as_deref(), shared_file_storage_dir),
        (op.gluster_storage_dir.as_deref(), gluster_storage_dir),
        (op.default_iallocator.as_deref(), default_iallocator),
    ] {
        if let Some(told) = told {
            stored.clone_from(told);
        }
    }
    if let Some(told) = op.default_iallocator_params.as_deref() {
        settings.default_iallocator_params.clone_from(told);
    }
    if let Some(told) = op.reserved_lvs.as_deref() {
        settings.reserved_lvs.clone_from(told);
    }
    let keep = |told: Option<bool>, stored| told.unwrap_or(stored);
    settings.prealloc_wipe_disks = keep(op.prealloc_wipe_disks, settings.prealloc_wipe_disks);
    settings.enabled_user_shutdown = keep(op.enabled_user_shutdown, settings.enabled_user_shutdown);
    settings.maintain_node_health = keep(op.maintain_node_health, settings.maintain_node_health);
}

/// Ranges of users for processes of instances.
fn users(op: &ClusterSetParams, settings: &mut InstanceSettings) -> Result<(), SettingsError> {
    if let Some(told) = op.uid_pool.as_deref() {
        settings.uid_pool.clone_from(told);
    }
    let wrong = |(first, last): &(u32, u32), why| SettingsError::Entry {
        what: "uid_pool",
        entry: format!("{first}-{last}"),
        why,
    };
    for range in op.add_uids.as_deref().into_iter().flatten() {
        let overlaps = |(first, last): &(u32, u32)| range.0 <= *last && *first <= range.1;
        if settings.uid_pool.iter().any(overlaps) {
            return Err(wrong(range, "overlaps a range that is in it"));
        }
        settings.uid_pool.push(*range);
    }
    for range in op.remove_uids.as_deref().into_iter().flatten() {
        let place = settings.uid_pool.iter().position(|known| known == range);
        settings.uid_pool.remove(place.ok_or_else(|| wrong(range, "is not in it"))?);
    }
    settings.uid_pool.sort_unstable();
    Ok(())
}
