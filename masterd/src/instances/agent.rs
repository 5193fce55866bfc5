//! The way to the node of an instance.

use model::instance::Instance;
use model::instance::launch::{DiskLaunch, Sight};
use model::{Code, Exception, NodeName};
use rpc::calls::{DiskCreate, DiskRemove, HypervisorCheck, InstanceSeen};
use rpc::{Call, FailureKind, RpcError};
use stdx::daemon::chain;

use crate::units::{Context, Failure};

/// A call to the agent of a node that did not come about.
#[derive(Debug)]
pub(super) struct NotDone {
    /// Why.
    pub(super) why: String,
    /// Whether the agent said so: then nothing was done.
    pub(super) said: bool,
    /// Whether a copy of a disk on another node is the cause.
    pub(super) by_copy: bool,
}

impl NotDone {
    pub(super) fn exception(self, what: &str) -> Exception {
        let error = Exception::exec(format!("{what}: {}", self.why));
        // An agent that answers is no cause to look at agents.
        if self.said { error } else { error.coded(Code::Agent) }
    }
}

/// Calls the agent of a node.
///
/// # Errors
/// The outer one: the master is ending. The inner one: it was not done, or nobody knows whether it was.
pub(super) async fn call<C: Call>(
    context: &mut Context,
    node: &NodeName,
    call: C,
) -> Result<Result<C::Reply, NotDone>, Failure> {
    let (config, behalf) = (context.config(), context.behalf());
    let Some(node) = config.nodes.get(node) else {
        let why = format!("node {node} is gone");
        return Ok(Err(NotDone { why, said: true, by_copy: false }));
    };
    let reply = context.agents().await?.call(node, call, behalf).await;
    Ok(reply.map_err(|error| NotDone {
        said: matches!(error, RpcError::Failed { .. } | RpcError::Offline { .. }),
        by_copy: matches!(error, RpcError::Failed { kind: FailureKind::Copy, .. }),
        why: chain(&error),
    }))
}

/// The same where the answer tells how a run stands, which everybody is to know.
pub(super) async fn seen<C: Call<Reply = InstanceSeen>>(
    context: &mut Context,
    node: &NodeName,
    asked: C,
) -> Result<Result<Sight, NotDone>, Failure> {
    let told = call(context, node, asked).await?;
    Ok(told.map(|InstanceSeen { known, sight }| {
        context.contacts().instances.note(node, known, sight.clone());
        sight
    }))
}

/// Looks whether the node's hypervisor takes an instance's parameters.
///
/// # Errors
/// It does not, or does not answer.
pub(super) async fn check_hypervisor(
    context: &mut Context,
    node: &NodeName,
    instance: &Instance,
) -> Result<(), Failure> {
    let settings = context.config().settings_of(instance);
    let hypervisor = instance.hypervisor.clone();
    let hvparams = settings.hypervisor_of(instance);
    if settings.uid_pool.is_empty() && hvparams.get("security_model").is_some_and(|it| it == "pool")
    {
        let why = "parameter security_model: the cluster has no pool of users; \
                   `gnt cluster modify --uid-pool` gives it one";
        return Err(Exception::prereq(why, model::error::ErrorCode::WrongInput).into());
    }
    let checked = call(context, node, HypervisorCheck { hypervisor, hvparams }).await?;
    let what = format!("Hypervisor parameter validation failed on node {node}");
    checked.map_err(|not| {
        let text = format!("{what}: {}", not.why);
        let code = match not.said {
            true => model::error::ErrorCode::WrongInput,
            false => model::error::ErrorCode::EnvironmentError,
        };
        Exception::prereq(text, code).into()
    })
}

/// Makes disks on a node.
pub(super) async fn make_disks(
    context: &mut Context,
    node: &NodeName,
    disks: Vec<DiskLaunch>,
    wipe: bool,
) -> Result<Result<(), NotDone>, Failure> {
    match disks.is_empty() {
        true => Ok(Ok(())),
        false => call(context, node, DiskCreate { disks, wipe }).await,
    }
}

/// Removes disks on a node.
pub(super) async fn remove_disks(
    context: &mut Context,
    node: &NodeName,
    disks: Vec<DiskLaunch>,
) -> Result<Result<(), NotDone>, Failure> {
    match disks.is_empty() {
        true => Ok(Ok(())),
        false => call(context, node, DiskRemove { disks }).await,
    }
}
