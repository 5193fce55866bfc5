//! The ports of switches at a machine follow its life, as steps of its jobs.

use model::error::ErrorCode;
use model::machine::life::Intent;
use model::switch::PortPhase;
use model::{Exception, Serial};

use crate::config::Config;
use crate::switching::settle::{How, settle};
use crate::units::{Context, Failure};

/// Refuses a deployment after which nobody knows where the machine's ports belong: they would stay in the
/// network in which it is installed.
pub(super) fn may_begin(config: &Config, serial: &Serial, target: Intent) -> Result<(), Exception> {
    if target != Intent::Deploy {
        return Ok(());
    }
    let policy = config.port_policy.clone().unwrap_or_default();
    let role = config.machines.get(serial).map(|machine| machine.role.as_str());
    for key in config.ports_of(serial) {
        let Some(port) = config.switch_ports.get(&key).filter(|port| port.set.is_none()) else {
            continue;
        };
        let of = |phase| policy.configuration(&port.phases, role, phase);
        if of(PortPhase::Provisioning).is_some() && of(PortPhase::User).is_none() {
            let text = format!(
                "Port {key} of machine {serial} has no configuration for machines in service, and would stay in the \
                 network in which they are installed: `gnt port policy --user NAME`, or `gnt port set {key} \
                 --user NAME`"
            );
            return Err(Exception::prereq(text, ErrorCode::WrongState));
        }
    }
    Ok(())
}

/// Has the ports of a machine be as its state wants them.
///
/// # Errors
/// A port did not come there.
pub(super) async fn follow(context: &mut Context, serial: &Serial) -> Result<(), Failure> {
    let keys = context.config().ports_of(serial);
    if keys.is_empty() {
        return Ok(());
    }
    let how = How { may_hold: true, ..How::default() };
    settle(context, &keys, how).await.map(drop)
}

/// The same where something else failed already, which is what the job tells.
pub(super) async fn follow_anyhow(context: &mut Context, serial: &Serial) {
    if let Err(Failure::Exception(why)) = follow(context, serial).await {
        context.say(why.message().to_owned()).await;
    }
}
