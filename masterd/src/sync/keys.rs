//! Answers machines that ask an agent of their rack for the keys of their disks (decision 16). The agent
//! has told which machine asks by its address; what it may have is decided here once more.

use std::sync::Arc;
use std::time::Duration;

use jobs::submitter::Sender;
use model::audit::{Asker, Interface};
use model::disk_key::DiskKeyId;
use model::error::ErrorCode;
use model::machine::Machine;
use model::node::Node;
use model::opcode::{MachineDiskKeyAdd, ReasonEntry};
use model::status::OpStatus;
use model::{Exception, JobId, OpCode, OpInput};
use rpc::calls::{CarriedKey, KEY_REQUESTS_MAX, KeyAnswer, KeyOutcome, KeyRequest};
use serde_json::Value;
use tokio::task::JoinSet;

use super::AgentSync;
use crate::config::Config;
use crate::config::vault;

/// How long a key waits to be kept: less than its agent waits for the answer.
const KEPT_WITHIN: Duration = Duration::from_secs(25);
/// The origin of these jobs, in their reasons.
const TRAIL: &str = "gantry:noded";

impl AgentSync {
    /// Answers what machines asked `node` for, while its exchanges go on.
    pub(super) fn answer_keys(
        self: &Arc<Self>,
        node: &Arc<Node>,
        answering: &mut JoinSet<()>,
        requests: Vec<KeyRequest>,
    ) {
        while answering.try_join_next().is_some() {}
        for request in requests {
            // An agent has no more under way; what it gave up may not have ended here.
            if answering.len() >= 2 * KEY_REQUESTS_MAX {
                tracing::warn!(node = %node.name, "requests for keys are left out: too many at once");
                return;
            }
            let (sync, node) = (Arc::clone(self), Arc::clone(node));
            answering.spawn(async move {
                let id = request.id;
                let outcome = sync.key_outcome(&node, request).await;
                let answered = sync.agents.call(&node, KeyAnswer { id, outcome }, None).await;
                if let Err(error) = answered {
                    tracing::warn!(node = %node.name, %error, "a machine gets no answer on a key");
                }
            });
        }
    }

    async fn key_outcome(&self, node: &Node, request: KeyRequest) -> KeyOutcome {
        let KeyRequest { serial, disk, from, key, .. } = request;
        let config = self.published.snapshot().config;
        let Some(machine) = machine_of(&config, node, serial.as_str()) else {
            tracing::warn!(node = %node.name, %serial, %from, "an agent asks for a machine of another rack");
            return KeyOutcome::Missing(format!(
                "machine {serial} is not one of this agent's rack"
            ));
        };
        let id = DiskKeyId { serial: machine.serial.clone(), disk };
        let Some(CarriedKey(key)) = key else {
            tracing::info!(node = %node.name, %from, key = %id, "machine fetches the key of its disk");
            return fetched(&config, &id);
        };
        let sealed = match vault::seal(&config, &id.purpose(), &key) {
            Ok(sealed) => sealed,
            Err(error) => return KeyOutcome::Wrong(error.to_string()),
        };
        drop((key, config));
        let DiskKeyId { serial, disk } = id;
        let user = format!("machine {serial}");
        let path = format!("{user}: PUT /api/v1/crypts/{serial}/{disk}");
        let op = MachineDiskKeyAdd { serial: serial.to_string(), disk, sealed };
        let mut op = OpInput::new(OpCode::MachineDiskKeyAdd(op));
        let nanos = self.now().micros().saturating_mul(1_000);
        op.common.reason.push(ReasonEntry(TRAIL.to_owned(), path, nanos));
        let asker = Asker {
            user: user.into(),
            interface: Interface::Rest,
            host: Some(node.name.clone()),
            address: Some(from.into()),
            tenant: None,
        };
        match tokio::time::timeout(KEPT_WITHIN, self.kept(op, asker)).await {
            Ok(Ok(())) => KeyOutcome::Kept,
            Ok(Err(why)) => refused(&why),
            Err(_late) => KeyOutcome::Failed("the job that keeps the key has not ended".to_owned()),
        }
    }

    /// Keeps a key by a job.
    async fn kept(&self, op: OpInput, asker: Asker) -> Result<(), Exception> {
        let uid = nix::unistd::geteuid().as_raw();
        let sender = Sender { uid, asker: Some(Arc::new(asker)), digest: None };
        let submitted = self.submitter.submit(vec![vec![op]], false, Some(sender)).await?;
        let none = || Exception::exec("the queue gave no job");
        let job = submitted.into_iter().next().ok_or_else(none)??;
        self.ended(job).await
    }

    async fn ended(&self, id: JobId) -> Result<(), Exception> {
        let watch = self.published.jobs.watch(id);
        loop {
            let changed = watch.changed();
            let gone = || Exception::exec(format!("job {id} was archived before its end was seen"));
            let job = self.published.jobs.get(id).ok_or_else(gone)?;
            let Some(op) = job.ops.first().filter(|op| op.status.is_final()) else {
                changed.await;
                continue;
            };
            let failed = || Exception::exec(format!("job {id} was not carried out"));
            return match op.status {
                OpStatus::Success => Ok(()),
                _ => Err(Exception::from_value(&op.result).unwrap_or_else(failed)),
            };
        }
    }
}

/// The machine, if it is of the rack that the node serves.
fn machine_of(config: &Config, node: &Node, serial: &str) -> Option<Arc<Machine>> {
    let machine = config.machine(serial).ok()?;
    // As the configuration has the node now: it may have been moved.
    let served = config.nodes.get(&node.name)?.rack;
    (served == Some(machine.rack)).then(|| Arc::clone(machine))
}

fn fetched(config: &Config, id: &DiskKeyId) -> KeyOutcome {
    match vault::disk_key(config, id) {
        Some(Ok(key)) => KeyOutcome::Key(CarriedKey(key)),
        Some(Err(error)) => KeyOutcome::Failed(error.to_string()),
        None => {
            let DiskKeyId { serial, disk } = id;
            KeyOutcome::Missing(format!("no key of disk {disk} of `{serial}` is kept"))
        }
    }
}

/// The outcome of a refused job, for its machine.
fn refused(why: &Exception) -> KeyOutcome {
    let (text, code) = (why.to_string(), why.args.get(1).and_then(Value::as_str));
    let is = |wanted: ErrorCode| code == Some(wanted.as_str());
    if is(ErrorCode::AlreadyExists) || is(ErrorCode::WrongState) {
        KeyOutcome::Conflict(text)
    } else if is(ErrorCode::UnknownEntity) {
        KeyOutcome::Missing(text)
    } else if is(ErrorCode::WrongInput) {
        KeyOutcome::Wrong(text)
    } else {
        KeyOutcome::Failed(text)
    }
}
