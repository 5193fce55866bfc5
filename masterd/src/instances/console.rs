//! Tells how the console of an instance is reached.

use jobs::locks::{Level, LockName, Mode};
use model::Exception;
use model::error::ErrorCode;
use model::opcode::InstanceConsole;
use serde_json::Value;

use super::fields::console;
use super::{power, standing::Stands};
use crate::config::Config;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for InstanceConsole {
    type Plan = Value;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Instance {
            return Ok(Vec::new());
        }
        let uuid = self.instance_uuid.as_deref();
        let instance = config.instance_with(&self.instance_name, uuid)?;
        Ok(vec![(LockName::member(level, instance.name.as_str()), Mode::Shared)])
    }

    async fn check(&self, context: &mut Context) -> Result<Value, Failure> {
        let config = context.config();
        let uuid = self.instance_uuid.as_deref();
        let instance = config.instance_with(&self.instance_name, uuid)?;
        power::is_whole(instance)?;
        let stands = Stands::of(&config, instance, context.contacts(), context.now());
        if stands.is_alive() != Some(true) {
            let status = stands.status().map_or("not known", |status| status.as_str());
            let text = format!("Instance {} is not running (state {status})", instance.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        Ok(console(instance))
    }

    async fn exec(self, console: Value, _context: &mut Context) -> Result<Value, Failure> {
        Ok(console)
    }
}
