//! Core: the templates of hosts' networks, and which machines have them.

use std::sync::Arc;

use model::Word;
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
    #[must_use]
    pub fn newest_template(&self, role: &str) -> Option<Arc<NetworkTemplate>> {
        self.template_versions(&role.parse().ok()?).last().cloned()
    }

    /// How many machines have a version.
    #[must_use]
    pub fn template_users(&self, key: &TemplateKey) -> usize {
        let machines = self.machines.by.role.of(Arc::from(key.name.as_str()));
        machines.filter(|machine| machine.network_template == Some(key.version)).count()
    }
}
