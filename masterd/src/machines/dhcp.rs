//! Opcodes on DHCP.

use jobs::locks::Level;
use model::Exception;
use model::error::ErrorCode;
use model::opcode::DhcpSet;

use super::rack;
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for DhcpSet {
    type Plan = ();

    /// None: it is one document, and no other object depends on it.
    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, _context: &mut Context) -> Result<(), Failure> {
        let checked = self.config.check();
        Ok(checked.map_err(|why| Exception::prereq(why.to_string(), ErrorCode::WrongInput))?)
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let settings = self.config;
        context.transact(move |_config| Ok((vec![ConfigChange::Dhcp(settings)], ()))).await?;
        rack::push_all(context).await.map(drop)
    }
}
