//! Core: what all kinds of links are asked.

use super::{Bond, Kind, LinkName};

impl Kind {
    /// Its word in files.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ethernet { .. } => "ethernet",
            Self::Bond(_) => "bond",
            Self::Vlan { .. } => "vlan",
            Self::Bridge { .. } => "bridge",
            Self::Macvlan { .. } => "macvlan",
            Self::Vxlan(_) => "vxlan",
            Self::Dummy => "dummy",
            Self::OvsBridge { .. } => "ovs_bridge",
            Self::OvsBond { .. } => "ovs_bond",
        }
    }

    /// The links that belong to it.
    pub fn members(&self) -> &[LinkName] {
        match self {
            Self::Bond(Bond { members, .. })
            | Self::Bridge { members, .. }
            | Self::OvsBridge { members, .. }
            | Self::OvsBond { members, .. } => members,
            Self::Ethernet { .. }
            | Self::Vlan { .. }
            | Self::Macvlan { .. }
            | Self::Vxlan(_)
            | Self::Dummy => &[],
        }
    }

    /// The links that belong to it, to give them other names.
    pub fn members_mut(&mut self) -> Option<&mut Vec<LinkName>> {
        match self {
            Self::Bond(Bond { members, .. })
            | Self::Bridge { members, .. }
            | Self::OvsBridge { members, .. }
            | Self::OvsBond { members, .. } => Some(members),
            Self::Ethernet { .. }
            | Self::Vlan { .. }
            | Self::Macvlan { .. }
            | Self::Vxlan(_)
            | Self::Dummy => None,
        }
    }

    /// The link below it, to give it another name.
    pub fn parent_mut(&mut self) -> Option<&mut LinkName> {
        match self {
            Self::Vlan { parent, .. } | Self::Macvlan { parent, .. } => Some(parent),
            Self::Vxlan(vxlan) => vxlan.parent.as_mut(),
            Self::Ethernet { .. }
            | Self::Bond(_)
            | Self::Bridge { .. }
            | Self::Dummy
            | Self::OvsBridge { .. }
            | Self::OvsBond { .. } => None,
        }
    }

    /// The link below it.
    pub fn parent(&self) -> Option<&LinkName> {
        match self {
            Self::Vlan { parent, .. } | Self::Macvlan { parent, .. } => Some(parent),
            Self::Vxlan(vxlan) => vxlan.parent.as_ref(),
            Self::Ethernet { .. }
            | Self::Bond(_)
            | Self::Bridge { .. }
            | Self::Dummy
            | Self::OvsBridge { .. }
            | Self::OvsBond { .. } => None,
        }
    }

    /// The member that is used first.
    pub fn primary(&self) -> Option<&LinkName> {
        match self {
            Self::Bond(Bond { primary, .. })
            | Self::OvsBridge { primary, .. }
            | Self::OvsBond { primary, .. } => primary.as_ref(),
            Self::Ethernet { .. }
            | Self::Vlan { .. }
            | Self::Bridge { .. }
            | Self::Macvlan { .. }
            | Self::Vxlan(_)
            | Self::Dummy => None,
        }
    }
}
