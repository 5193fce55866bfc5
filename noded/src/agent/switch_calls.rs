//! Calls on the ports of switches: they go to the switch's session, whatever the master does meanwhile.

use std::time::Duration;

use model::switch::change::CHANGES_MAX;
use rpc::Failure;
use rpc::calls::{
    SWITCH_WATCH_MS_MAX, SwitchApplied, SwitchApply, SwitchPorts, SwitchSeen, SwitchWatch,
};
use switches::SwitchError;

use super::Agent;

impl Agent {
    pub(super) async fn switch_ports(&self, call: SwitchPorts) -> Result<SwitchSeen, Failure> {
        let ports = self.switches.ports(call.target).await;
        Ok(seen(ports.map(|ports| ports.as_ref().clone())))
    }

    pub(super) async fn switch_apply(&self, call: SwitchApply) -> Result<SwitchApplied, Failure> {
        if call.changes.len() > CHANGES_MAX {
            let text =
                format!("{} changes at once; at most {CHANGES_MAX} are taken", call.changes.len());
            return Err(Failure::failed(text));
        }
        let applied = self.switches.apply(call.target, call.changes).await;
        Ok(match applied {
            Ok(outcomes) => SwitchApplied::Outcomes(outcomes),
            Err(error) => {
                SwitchApplied::Failed { why: error.to_string(), passing: error.is_passing() }
            }
        })
    }

    pub(super) async fn switch_watch(&self, call: SwitchWatch) -> Result<SwitchSeen, Failure> {
        let wait = Duration::from_millis(u64::from(call.wait_ms.min(SWITCH_WATCH_MS_MAX)));
        let ports = self.switches.watch(call.target, call.known.as_deref(), wait).await;
        Ok(seen(ports.map(|ports| ports.as_ref().clone())))
    }
}

fn seen(ports: Result<model::switch::Actuals, SwitchError>) -> SwitchSeen {
    match ports {
        Ok(ports) => SwitchSeen::Ports(ports),
        Err(error) => SwitchSeen::Failed { why: error.to_string(), passing: error.is_passing() },
    }
}
