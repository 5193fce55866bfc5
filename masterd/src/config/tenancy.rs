//! Core: what a tenant may have run: opcodes about what is its own. What belongs to others is refused as
//! what is not there, in the same words.

use model::machine::life::Intent;
use model::opcode::common::Unchanged;
use model::opcode::{OpCode, PortSetParams};
use model::switch::PortPhase;
use model::tenant::{Tenant, refused};
use model::{Exception, OpInput, Word};

use crate::config::Config;

/// The refusal of what is not for the role tenant.
pub(crate) fn not_for_tenants(what: &str) -> Exception {
    refused(format!("{what} is not for the role tenant; ask an operator of the cluster"))
}

/// Words for what belongs to others, and for what is not there.
pub(crate) fn has_no(tenant: &Tenant, what: impl std::fmt::Display) -> Exception {
    refused(format!(
        "tenant {} has no {what}; an operator gives machines by `gnt tenant give`, and configurations of ports \
         are named {}.NAME",
        tenant.name, tenant.name
    ))
}

/// Whether a document is one of the tenant's own things.
pub(crate) fn owns_document(config: &Config, tenant: &Tenant, document: &str) -> bool {
    match document.split_once('/') {
        Some(("port-configurations", name)) => tenant.owns(name),
        Some(("switch-ports", key)) => key.parse().is_ok_and(|key| {
            config.tenant_of_port(&key).is_some_and(|owner| owner.name == tenant.name)
        }),
        _ => false,
    }
}

/// Decides whether a tenant may submit an opcode with what all opcodes have.
///
/// # Errors
/// It may not.
pub(crate) fn may_send(config: &Config, tenant: &Tenant, op: &OpInput) -> Result<(), Exception> {
    if op.common.priority < 0 {
        return Err(not_for_tenants("a high priority"));
    }
    if op.common.depends.as_ref().is_some_and(|depends| !depends.is_empty()) {
        return Err(not_for_tenants("a job that depends on others"));
    }
    let documents = &mut op.common.unchanged.iter().map(|Unchanged(document, _)| document);
    if let Some(other) = documents.find(|document| !owns_document(config, tenant, document)) {
        return Err(has_no(tenant, other));
    }
    may_submit(config, tenant, &op.op)
}

/// Decides whether a tenant may have an opcode run.
///
/// # Errors
/// It is about something that is not its own, or nothing for tenants.
pub(crate) fn may_submit(config: &Config, tenant: &Tenant, op: &OpCode) -> Result<(), Exception> {
    let own_machine = |serial: &str| {
        let own = tenant.machines.iter().find(|own| own.as_str() == serial);
        match own.filter(|own| config.node_on(own).is_none()) {
            Some(_) => Ok(()),
            None => Err(has_no(tenant, format_args!("machine {serial}"))),
        }
    };
    let own_configuration = |name: &str| match tenant.owns(name) {
        true => Ok(()),
        false => Err(has_no(tenant, format_args!("port configuration {name}"))),
    };
    match op {
        OpCode::PortConfigurationAdd(op) => own_configuration(op.configuration_name.as_str()),
        OpCode::PortConfigurationRemove(op) => own_configuration(&op.configuration_name),
        OpCode::PortSetParams(op) => {
            for key in &op.ports {
                if config.tenant_of_port(key).is_none_or(|owner| owner.name != tenant.name) {
                    return Err(has_no(tenant, format_args!("port {key}")));
                }
            }
            links_alone(op)?;
            let names = op.phases.values().flatten();
            names.map(Word::as_str).try_for_each(own_configuration)
        }
        OpCode::MachineAwait(op) => own_machine(&op.serial),
        OpCode::MachinePower(op) => own_machine(&op.serial),
        OpCode::MachineProvision(op) => {
            own_machine(&op.serial)?;
            let is_for = [Intent::Deploy, Intent::Clean, Intent::Rescue, Intent::Retire];
            if !is_for.contains(&op.target) {
                return Err(not_for_tenants(op.target.as_str()));
            }
            match op.role.is_some() || op.enrol || op.manual_power {
                true => Err(refused(format!(
                    "the role of machine {}, whether it is a node, and power by hand are the operators' to say",
                    op.serial
                ))),
                false => Ok(()),
            }
        }
        other => Err(not_for_tenants(other.id())),
    }
}

/// Refuses a change of ports that does more than link a configuration for the tenant's own phase.
fn links_alone(op: &PortSetParams) -> Result<(), Exception> {
    let is_link = op.serves.is_none()
        && op.configuration.is_none()
        && op.phases.keys().all(|phase| *phase == PortPhase::User);
    match is_link {
        true => Ok(()),
        false => Err(refused(
            "a tenant links a configuration for the phase `user` alone; which machine is behind a port, and its \
             other phases, are the operators' to say",
        )),
    }
}

#[cfg(test)]
mod tests {
    use model::OpInput;

    use super::*;
    use crate::testing::with_tenants;

    fn told(op: &str) -> Result<(), String> {
        let config = with_tenants();
        let op = OpInput::parse(op).unwrap();
        let tenant = config.tenant("acme").unwrap();
        may_submit(&config, tenant, &op.op).map_err(|refused| refused.to_string())
    }

    #[test]
    fn a_tenant_changes_its_own_things_and_no_others() {
        for (op, is_own) in [
            (
                r#"{"OP_ID": "OP_PORT_CONFIGURATION_REMOVE", "configuration_name": "acme.lab"}"#,
                true,
            ),
            (
                r#"{"OP_ID": "OP_PORT_CONFIGURATION_REMOVE", "configuration_name": "other.lab"}"#,
                false,
            ),
            (r#"{"OP_ID": "OP_PORT_CONFIGURATION_REMOVE", "configuration_name": "lab"}"#, false),
            (
                r#"{"OP_ID": "OP_PORT_SET_PARAMS", "ports": ["tor/p1"], "phases": {"user": "acme.lab"}}"#,
                true,
            ),
            (
                r#"{"OP_ID": "OP_PORT_SET_PARAMS", "ports": ["tor/p1"], "phases": {"user": null}}"#,
                true,
            ),
            (
                r#"{"OP_ID": "OP_PORT_SET_PARAMS", "ports": ["tor/p1", "tor/p2"], "phases": {"user": "acme.lab"}}"#,
                false,
            ),
            (
                r#"{"OP_ID": "OP_PORT_SET_PARAMS", "ports": ["tor/p3"], "phases": {"user": "acme.lab"}}"#,
                false,
            ),
            (
                r#"{"OP_ID": "OP_PORT_SET_PARAMS", "ports": ["tor/p1"], "phases": {"user": "other.lab"}}"#,
                false,
            ),
            (
                r#"{"OP_ID": "OP_PORT_SET_PARAMS", "ports": ["tor/p1"], "phases": {"idle": "acme.lab"}}"#,
                false,
            ),
            (
                r#"{"OP_ID": "OP_PORT_SET_PARAMS", "ports": ["tor/p1"], "configuration": "acme.lab"}"#,
                false,
            ),
            (r#"{"OP_ID": "OP_MACHINE_AWAIT", "serial": "SN1"}"#, true),
            (r#"{"OP_ID": "OP_MACHINE_POWER", "serial": "SN2"}"#, false),
            (r#"{"OP_ID": "OP_MACHINE_PROVISION", "serial": "SN1", "target": "deploy"}"#, true),
            (
                r#"{"OP_ID": "OP_MACHINE_PROVISION", "serial": "SN1", "target": "deploy", "role": "boot"}"#,
                false,
            ),
            (
                r#"{"OP_ID": "OP_MACHINE_PROVISION", "serial": "SN1", "target": "deploy", "enrol": true}"#,
                false,
            ),
            (r#"{"OP_ID": "OP_SWITCH_VERIFY", "switch_name": "tor"}"#, false),
        ] {
            assert_eq!(told(op).is_ok(), is_own, "{op}: {:?}", told(op));
        }
    }

    #[test]
    fn what_all_opcodes_have_is_looked_at_too() {
        let config = with_tenants();
        let tenant = config.tenant("acme").unwrap();
        let sent = |more: &str| {
            let op = format!(r#"{{"OP_ID": "OP_MACHINE_AWAIT", "serial": "SN1"{more}}}"#);
            may_send(&config, tenant, &OpInput::parse(&op).unwrap()).is_ok()
        };
        assert!(sent(""));
        assert!(sent(r#", "priority": 10, "depends": []"#));
        assert!(sent(r#", "unchanged": [["switch-ports/tor/p1", null]]"#));
        for more in [
            r#", "priority": -10"#,
            r#", "depends": [[7, ["error"]]]"#,
            r#", "unchanged": [["switch-ports/tor/p2", null]]"#,
            r#", "unchanged": [["config/nodes/n1.example", null]]"#,
        ] {
            assert!(!sent(more), "{more}");
        }
    }

    #[test]
    fn what_others_have_is_as_what_nobody_has() {
        let about = |serial: &str| {
            told(&format!(r#"{{"OP_ID": "OP_MACHINE_AWAIT", "serial": "{serial}"}}"#)).unwrap_err()
        };
        assert_eq!(about("SN2").replace("SN2", "X"), about("SN99").replace("SN99", "X"));
        let about = |port: &str| {
            let op = format!(r#"{{"OP_ID": "OP_PORT_SET_PARAMS", "ports": ["{port}"]}}"#);
            told(&op).unwrap_err()
        };
        assert_eq!(about("tor/p2").replace("p2", "X"), about("tor/p9").replace("p9", "X"));
    }
}
