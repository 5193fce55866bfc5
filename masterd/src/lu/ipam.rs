//! Opcodes on the rules of addresses.

use jobs::locks::{Level, LockName, Mode};
use model::Exception;
use model::error::ErrorCode;
use model::opcode::IpamSet;

use super::{Context, Failure, LogicalUnit, Wanted, rack};
use crate::config::{Config, ConfigChange};

impl LogicalUnit for IpamSet {
    type Plan = ();

    /// All machines, present and future: none may be registered while their addresses change.
    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(match level {
            Level::Machine => vec![(LockName::set(Level::Machine), Mode::Exclusive)],
            _ => Vec::new(),
        })
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        self.config
            .validate()
            .map_err(|error| Exception::prereq(error.to_string(), ErrorCode::WrongInput))?;
        Ok(may_change(&context.config(), &self.config)?)
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let rules = self.config;
        context
            .transact(move |config| {
                may_change(config, &rules)?;
                Ok((vec![ConfigChange::Ipam(rules)], ()))
            })
            .await?;
        rack::push_all(context).await.map(drop)
    }
}

/// Rules may be set anew while no machine has an address by the old ones (document 1).
fn may_change(config: &Config, rules: &model::ipam::IpamConfig) -> Result<(), Exception> {
    let same = config.ipam.as_deref() == Some(rules);
    if same || config.machines.is_empty() {
        return Ok(());
    }
    Err(Exception::prereq(
        format!(
            "{} machines have addresses by the present rules; remove them first",
            config.machines.len()
        ),
        ErrorCode::WrongState,
    ))
}
