//! Core: the templates of hosts' networks and of what machines boot with, and which machines have them.

use std::sync::Arc;

use model::Word;
use model::boot_template::{BootTemplate, TemplateKind};
use model::network::{NetworkTemplate, TemplateKey};

use super::Config;

impl Config {
    /// The versions of a template, oldest first.
    pub fn template_versions(
        &self,
        name: &Word,
    ) -> impl Iterator<Item = &Arc<NetworkTemplate>> + use<'_> {
        let first = TemplateKey { name: name.clone(), version: 0 };
        let last = TemplateKey { name: name.clone(), version: u32::MAX };
        self.network_templates.range(first..=last).map(|(_key, template)| template)
    }

    /// The newest version of the template of a role.
    pub fn newest_template(&self, role: &str) -> Option<Arc<NetworkTemplate>> {
        self.template_versions(&role.parse().ok()?).last().cloned()
    }

    /// The versions of a template of what machines of a role boot with, oldest first.
    pub fn boot_templates_of(
        &self,
        kind: TemplateKind,
        role: &Word,
    ) -> impl DoubleEndedIterator<Item = &Arc<BootTemplate>> + use<'_> {
        let role = role.clone();
        let of_role =
            move |template: &&Arc<BootTemplate>| template.kind == kind && template.role == role;
        self.boot_templates.values().filter(of_role)
    }

    /// How many machines have a version.
    pub fn template_users(&self, key: &TemplateKey) -> usize {
        let machines = self.machines.by.role.of(Arc::from(key.name.as_str()));
        machines.filter(|machine| machine.network_template == Some(key.version)).count()
    }
}
