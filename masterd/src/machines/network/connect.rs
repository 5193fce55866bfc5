//! Opcodes that say how the nodes of a group reach a network.

use jobs::locks::{Level, LockName, Mode};
use model::Exception;
use model::error::ErrorCode;
use model::network::Connection;
use model::opcode::{NetworkConnect, NetworkDisconnect};

use super::{change, lock};
use crate::config::Config;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for NetworkConnect {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        with_group(&self.network_name, &self.group_name, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let network = config.network(&self.network_name)?;
        let group = config.group(&self.group_name)?;
        if network.groups.contains_key(&group.uuid) {
            let text = format!(
                "network {} is connected to node group {} already",
                network.name, group.name
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let connection = Connection {
            mode: self.network_mode,
            link: self.network_link,
            vlan: self.network_vlan,
        };
        let group = self.group_name;
        change(context, self.network_name, move |config, network| {
            network.groups.insert(config.group(&group)?.uuid.clone(), connection);
            Ok(())
        })
        .await
    }
}

impl LogicalUnit for NetworkDisconnect {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        with_group(&self.network_name, &self.group_name, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let network = config.network(&self.network_name)?;
        let group = config.group(&self.group_name)?;
        if !network.groups.contains_key(&group.uuid) {
            let text =
                format!("network {} is not connected to node group {}", network.name, group.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let group = self.group_name;
        change(context, self.network_name, move |config, network| {
            network.groups.remove(&config.group(&group)?.uuid);
            Ok(())
        })
        .await
    }
}

/// The locks of a network and of a node group, which stays as it is.
fn with_group(
    network: &str,
    group: &str,
    level: Level,
    config: &Config,
) -> Result<Wanted, Exception> {
    let group = config.group(group)?;
    match level {
        Level::NodeGroup => Ok(vec![(LockName::member(level, group.uuid.as_str()), Mode::Shared)]),
        _ => Ok(lock(config.network(network)?, level)),
    }
}
