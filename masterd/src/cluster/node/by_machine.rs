//! A node that a machine of the inventory becomes: its deployment told it a token, by which both sides
//! know each other. No secret is handed over beside the job.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use model::error::ErrorCode;
use model::machine::BootStage;
use model::node::Node;
use model::opcode::NodeAdd;
use model::power_cycle::{MachineToken, Unusable};
use model::{Code, Exception, NodeName, Serial, Timestamp};
use rpc::RpcError;
use rpc::enrol::EnrolError;

use crate::agents::Signed;
use crate::config::{Config, ConfigChange};
use crate::machines::power_cycle;
use crate::units::{Context, Failure};

/// How long the master waits for `noded enroll` once the system of the machine said that it runs: an
/// image may install its packages first.
const WAITS: Duration = Duration::from_secs(600);
/// How often it looks whether somebody waits there by now.
const AGAIN: Duration = Duration::from_secs(2);

/// A machine that is to become a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recruit {
    pub(super) serial: Serial,
    /// The power cycle whose token it has.
    cycle: u64,
    /// The address at which its system said that it runs.
    pub(super) address: IpAddr,
}

/// The node that the machine of an opcode is already.
pub(super) fn node_of<'a>(op: &NodeAdd, config: &'a Config) -> Option<&'a Arc<Node>> {
    config.node_on(&config.machine(op.machine.as_deref()?).ok()?.serial)
}

/// Whether a node that there is already is added again: one that was asked for so, or whose machine was
/// deployed anew.
pub(super) fn readds(op: &NodeAdd, config: &Config) -> bool {
    op.readd || node_of(op, config).is_some()
}

/// The machine that an opcode means, if it means one.
///
/// # Errors
/// It cannot become the node now.
pub(super) fn recruit(
    op: &NodeAdd,
    config: &Config,
    now: Timestamp,
) -> Result<Option<Recruit>, Exception> {
    let Some(serial) = &op.machine else { return Ok(None) };
    let wrong = |text: String, code| Exception::prereq(text, code);
    let machine = config.machine(serial)?;
    let serial = machine.serial.clone();
    if op.fingerprint.is_some() {
        let text = format!("the certificate of machine {serial} is not told: its token proves it");
        return Err(wrong(text, ErrorCode::WrongInput));
    }
    let named = config.nodes.get(op.node_name.as_str()).and_then(|node| node.machine.as_ref());
    if let Some(other) = named.filter(|other| **other != serial) {
        let text = format!("Node {} is machine {other}, and not {serial}", op.node_name);
        return Err(wrong(text, ErrorCode::AlreadyExists));
    }
    let number = config.power_cycles.get(&serial).map_or(0, |cycle| cycle.number);
    let boot = config.boots.get(&serial).map(|last| &last.boot);
    let ran = |stage: &model::machine::StageSeen| {
        (stage.stage, stage.cycle) == (BootStage::System, number)
    };
    token(config, &serial, number, now)?;
    let Some(boot) = boot.filter(|boot| boot.stages.iter().any(ran)) else {
        let text = format!(
            "The system of machine {serial} has not said that it runs since its power came on"
        );
        return Err(wrong(text, ErrorCode::WrongState));
    };
    let address = op.primary_ip.unwrap_or(boot.address.into());
    Ok(Some(Recruit { serial, cycle: number, address }))
}

/// The token of a power cycle, if that is the present one.
fn token(
    config: &Config,
    serial: &Serial,
    number: u64,
    now: Timestamp,
) -> Result<MachineToken, Exception> {
    let cycle = config.power_cycles.get(serial).filter(|cycle| cycle.number == number);
    let usable = cycle.ok_or(Unusable::Unexpected).and_then(|cycle| {
        cycle.may_enrol(now)?;
        Ok(cycle)
    });
    let cycle = usable.map_err(|why| {
        let text = format!(
            "Machine {serial} cannot become a node: {why}; `gnt machine deploy --node {serial}` deploys it anew, \
             with another token"
        );
        Exception::prereq(text, ErrorCode::WrongState).coded(Code::EnrolmentFailed)
    })?;
    let secret = power_cycle::secret(config, cycle).map_err(|error| {
        let text = format!("The token of machine {serial} cannot be opened: {error}");
        Exception::prereq(text, ErrorCode::WrongState)
    })?;
    Ok(MachineToken::of(&secret).0)
}

/// Asks the machine for its key, once it waits there, and signs it.
pub(super) async fn sign(
    name: &NodeName,
    address: SocketAddr,
    recruit: &Recruit,
    context: &mut Context,
) -> Result<Signed, Failure> {
    let agents = context.agents().await?.clone();
    let until = tokio::time::Instant::now() + WAITS;
    let mut is_told = false;
    loop {
        let token = token(&context.config(), &recruit.serial, recruit.cycle, context.now())?;
        let error = match agents.enrol_machine(name, address, &token).await {
            Ok(signed) => return Ok(signed),
            Err(error) => error,
        };
        let is_absent = matches!(
            error,
            EnrolError::Call(RpcError::Unreachable { .. } | RpcError::TimedOut { .. })
        );
        if !is_absent || tokio::time::Instant::now() > until {
            let text = format!("{address} did not enrol: {}", stdx::daemon::chain(&error));
            return Err(Exception::exec(text).coded(Code::EnrolmentFailed).into());
        }
        if !is_told {
            let text = format!("waiting until `noded enroll --token-file` runs at {address}");
            context.say(text).await;
            is_told = true;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The token is void: the machine is the node.
pub(super) async fn used(recruit: Recruit, context: &mut Context) -> Result<(), Failure> {
    let now = context.now();
    context
        .transact(move |config| {
            let cycle = config.power_cycles.get(&recruit.serial);
            let cycle = cycle.filter(|cycle| cycle.number == recruit.cycle);
            let changes = cycle.map(|cycle| {
                let mut cycle = cycle.as_ref().clone();
                cycle.enrolment.get_or_insert_default().used = Some(now);
                ConfigChange::PowerCycle(cycle)
            });
            Ok((changes.into_iter().collect(), ()))
        })
        .await
}
