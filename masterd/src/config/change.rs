//! Core: applies a list of changes to the configuration, and collects what they write and touch.

use std::collections::BTreeSet;
use std::sync::Arc;

use jobs::Changed;
use model::boot_template::{BootTemplate, BootTemplateKey};
use model::document;
use model::image::Image;
use model::machine::Machine;
use model::network::{Claim, ClaimKey, Owner};

use super::objects::Objects;
use super::table::{Config, ConfigChange, written};

impl Config {
    /// Applies changes in order. Removing an object that does not exist writes nothing.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = ConfigChange>) -> Changed {
        let mut changed = Changed::default();
        let machines = self.machines.clone();
        for change in changes {
            let also = change.entails();
            for change in std::iter::once(change).chain(also) {
                changed.racks.extend(change.racks_of_image(self));
                changed.racks.extend(change.racks_of_documents(self));
                let (key, content) = change.document();
                if let Some(racks) = change.enter(self) {
                    changed.documents.insert(key, content);
                    changed.racks.extend(racks);
                }
            }
        }
        for &rack in &changed.racks {
            let taken = indices(&self.machines, rack);
            if taken != indices(&machines, rack) {
                let key = document::node_indices(rack);
                changed.documents.insert(key, Some(written(&taken)));
            }
        }
        changed
    }
}

impl ConfigChange {
    /// The racks of machines that boot the newest version of an image which changes.
    fn racks_of_image(&self, config: &Config) -> Vec<u32> {
        let (Self::Image(Image { id, .. }) | Self::ImageRemoved(id)) = self else {
            return Vec::new();
        };
        config.machines.by.image.of(id.name.clone()).map(|machine| machine.rack).collect()
    }

    /// The racks of machines whose documents for booting change: with their templates, with the addresses
    /// that their networks get, and with assets, which all racks have.
    fn racks_of_documents(&self, config: &Config) -> Vec<u32> {
        match self {
            Self::BootTemplate(BootTemplate { role, .. })
            | Self::BootTemplateRemoved(BootTemplateKey { role, .. }) => {
                let machines = config.machines.by.role.of(Arc::from(role.as_str()));
                machines.map(|machine| machine.rack).collect()
            }
            Self::Asset(_) | Self::AssetRemoved(_) => config.served().collect(),
            _ if config.boot_templates.is_empty() => Vec::new(),
            Self::Claim(Claim { owner, .. }) | Self::ClaimRemoved(ClaimKey { owner, .. }) => {
                let Owner::Machine(serial) = owner else { return Vec::new() };
                config.machines.get(serial).map(|machine| machine.rack).into_iter().collect()
            }
            Self::Network(_) | Self::NetworkTemplate(_) | Self::NetworkTemplateRemoved(_) => {
                config.served().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The change that a removal entails.
    fn entails(&self) -> Option<Self> {
        match self {
            Self::MachineRemoved(serial) => Some(Self::BootRemoved(serial.clone())),
            _ => None,
        }
    }
}

/// The machines of a rack by their numbers within it.
pub(super) fn in_rack(
    machines: &Objects<Machine>,
    rack: u32,
) -> impl Iterator<Item = (u32, &std::sync::Arc<Machine>)> {
    let all = machines.by.place.within((rack, 0)..=(rack, u32::MAX));
    all.map(|(place, machine)| (place.1, machine))
}

/// The numbers of the machines of a rack.
pub(super) fn indices(machines: &Objects<Machine>, rack: u32) -> BTreeSet<u32> {
    in_rack(machines, rack).map(|(index, _machine)| index).collect()
}
