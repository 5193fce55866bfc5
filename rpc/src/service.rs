//! The layer between a request and the agent's own code: who calls, in which version, under which epoch,
//! and for how long.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use model::NodeName;
use model::enrol::Fingerprint;
use queue_format::Epoch;
use stdx::daemon::chain;

use crate::calls::{Call, Effect, Request, Traits};
use crate::fence::{EpochStore, Fence, Interrupt, Interruption, Permit, Signal};
use crate::tls::AllowedCallers;
use crate::wire::{Failure, FailureKind, InEnvelope, InVersion, JobRef, Versions};

/// The reply of a call as JSON, or why there is none. Made by [`answer`].
pub type Answer = Result<Box<RawValue>, Failure>;

/// Runs `handler` on `call`. A handler for another call, or with another reply, does not compile.
///
/// # Errors
/// What `handler` fails with.
pub async fn answer<C, F>(call: C, handler: impl FnOnce(C) -> F + Send) -> Answer
where
    C: Call,
    F: Future<Output = Result<C::Reply, Failure>> + Send,
{
    let reply = handler(call).await?;
    serde_json::value::to_raw_value(&reply).map_err(|error| {
        Failure::failed(format!("the reply of `{}` has no JSON form: {error}", C::TRAITS.name))
    })
}

/// The facts that a call brings with it.
#[derive(Debug)]
pub struct CallContext {
    /// The node that calls.
    pub caller: NodeName,
    /// The epoch under which it calls.
    pub epoch: Epoch,
    /// On whose behalf; a call with the same one may be a repetition.
    pub job: Option<JobRef>,
    /// Tells when the call should end early.
    pub interrupt: Interrupt,
}

/// An agent: one exhaustive match over [`Request`].
pub trait Agent: Send + Sync + 'static {
    fn call(&self, request: Request, context: CallContext) -> impl Future<Output = Answer> + Send;
}

/// One request as the server received it, its body still unread text.
#[derive(Debug)]
pub struct Received {
    /// Name of the call.
    pub name: String,
    /// Certificate of the caller; none while enrolling.
    pub peer: Option<Fingerprint>,
    pub body: Bytes,
    /// Interrupts the call.
    pub signal: Signal,
    /// Tells of it.
    pub interrupt: Interrupt,
}

/// Whatever answers requests of a [`crate::server::Server`].
pub trait Service: Send + Sync + 'static {
    /// The line of a call, known before its body is read.
    fn traits(&self, name: &str) -> Option<&'static Traits>;

    /// Whether requests with this certificate are answered at all.
    fn admits(&self, peer: Option<Fingerprint>) -> bool;

    /// Answers one request.
    fn respond(&self, received: Received) -> impl Future<Output = Answer> + Send;

    /// Interrupts what runs: the server is ending.
    fn stop(&self);
}

/// Reads an envelope, its version first: the rest may look otherwise in another one.
/// Gives the bytes behind it, too.
pub(crate) fn open(body: &Bytes, versions: Versions) -> Result<(InEnvelope<'_>, Bytes), Failure> {
    let (version, _length) = first::<InVersion>(body)?;
    if !versions.contain(version.protocol) {
        return Err(Failure::version(version.protocol, versions));
    }
    let (envelope, length) = first(body)?;
    Ok((envelope, body.slice(length..)))
}

/// The JSON value at the beginning of `body`, and its length.
fn first<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<(T, usize), Failure> {
    let malformed = |why: String| {
        Failure::new(FailureKind::Malformed, format!("the body is no envelope: {why}"))
    };
    let mut values = serde_json::Deserializer::from_slice(body).into_iter();
    let value = values.next().ok_or_else(|| malformed("it is empty".to_owned()))?;
    Ok((value.map_err(|error| malformed(error.to_string()))?, values.byte_offset()))
}

/// Serves an agent: checks caller, version and epoch before a call gets to it.
#[derive(Debug)]
pub struct AgentService<A, S> {
    agent: Arc<A>,
    fence: Fence<S>,
    allowed: AllowedCallers,
    versions: Versions,
    /// True once the agent ends: calls that change nothing are dropped then, which the fence does not know.
    ends: watch::Sender<bool>,
}

impl<A: Agent, S: EpochStore> AgentService<A, S> {
    /// Serves `agent` to those that `allowed` names.
    pub fn new(agent: Arc<A>, fence: Fence<S>, allowed: AllowedCallers) -> Self {
        let (ends, _) = watch::channel(false);
        Self { agent, fence, allowed, versions: Versions::OURS, ends }
    }

    /// The same, as a program would serve whose protocol has these versions.
    pub fn with_versions(self, versions: Versions) -> Self {
        Self { versions, ..self }
    }

    fn read<'a>(&self, received: &'a Received) -> Result<(InEnvelope<'a>, Request), Failure> {
        let (envelope, data) = open(&received.body, self.versions)?;
        self.check_caller(received, &envelope.caller)?;
        let request = Request::decode(&received.name, envelope.call.get(), data)
            .map_err(|error| Failure::new(FailureKind::Malformed, chain(&error)))?;
        Ok((envelope, request))
    }

    fn check_caller(&self, received: &Received, caller: &NodeName) -> Result<(), Failure> {
        let shared = Request::traits(&received.name).is_some_and(|t| t.effect == Effect::Shares);
        let known = received.peer.and_then(|peer| match shared {
            true => self.allowed.find(&peer).or_else(|| self.allowed.find_agent(&peer)),
            false => self.allowed.find(&peer),
        });
        match known {
            Some(name) if name == *caller => Ok(()),
            Some(name) => Err(Failure::new(
                FailureKind::Stranger,
                format!("the certificate is that of node {name}, not of {caller}"),
            )),
            None => Err(Failure::new(
                FailureKind::Stranger,
                format!("node {caller} is not on the allow-list"),
            )),
        }
    }

    /// Changing calls that run.
    pub fn running(&self) -> usize {
        self.fence.running()
    }

    async fn admit(
        &self,
        traits: &Traits,
        envelope: &InEnvelope<'_>,
        signal: &Signal,
    ) -> Result<Option<Permit>, Failure> {
        match traits.effect {
            Effect::Reads | Effect::Shares => Ok(None),
            Effect::Changes => {
                self.fence.enter(envelope.epoch, &envelope.caller, signal).await.map(Some)
            }
        }
    }
}

impl<A: Agent, S: EpochStore> Service for AgentService<A, S> {
    fn traits(&self, name: &str) -> Option<&'static Traits> {
        Request::traits(name)
    }

    fn admits(&self, peer: Option<Fingerprint>) -> bool {
        peer.is_some_and(|peer| self.allowed.knows(&peer))
    }

    async fn respond(&self, received: Received) -> Answer {
        let interrupt = received.interrupt.clone();
        let mut waiting = received.interrupt.clone();
        let (envelope, request) = self.read(&received)?;
        let Some(traits) = Request::traits(&received.name) else {
            return Err(Failure::new(FailureKind::UnknownCall, "the call is not in the table"));
        };
        let context = CallContext {
            caller: envelope.caller.clone(),
            epoch: envelope.epoch,
            job: envelope.job,
            interrupt,
        };
        let limit = traits.class.limit();
        let entering = self.admit(traits, &envelope, &received.signal);
        let admitted = tokio::select! {
            biased;
            admitted = tokio::time::timeout(limit, entering) => admitted,
            why = waiting.wait() => return Err(why.failure()),
        };
        // Held to the end of the call, also where it ends by a panic.
        let permit = admitted.map_err(|_elapsed| overdue(traits))??;
        let mut ends = self.ends.subscribe();
        let dropped = async {
            match permit {
                None => drop(ends.wait_for(|ends| *ends).await),
                Some(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = tokio::time::timeout(limit, self.agent.call(request, context)) => {
                answer.unwrap_or_else(|_elapsed| Err(overdue(traits)))
            }
            () = dropped => Err(Interruption::Stopping.failure()),
        }
    }

    fn stop(&self) {
        self.fence.stop();
        self.ends.send_replace(true);
    }
}

fn overdue(traits: &Traits) -> Failure {
    Failure::new(
        FailureKind::Overdue,
        format!("`{}` took longer than {} s", traits.name, traits.class.limit().as_secs()),
    )
}
