//! A host's network configuration.
#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]

mod model;
mod os_net_config;
mod plan;
mod render;
mod yaml;

pub use crate::model::HostNetwork;
pub use crate::model::address::{Address, Dns, Route, Rule};
pub use crate::model::link::{
    Bond, BondMode, HashPolicy, Kind, LacpRate, Link, LinkName, MacvlanMode, Vxlan,
};
pub use crate::os_net_config::{OsNetConfig, from_mapping, from_os_net_config};
pub use crate::plan::step::Step;
pub use crate::plan::{Plan, plan};
pub use crate::render::{Format, RenderedFile, render};
pub use ::model::json::Malformed;

impl HostNetwork {
    /// Reads a file of this crate's own form, in YAML or JSON. [`HostNetwork::check`] does the rest.
    ///
    /// # Errors
    /// What of it is wrong, with its place.
    pub fn from_yaml(text: &str) -> Result<Self, Malformed> {
        yaml::read::<crate::model::written::Network>(text)?.try_into()
    }
}
