//! The new node's side.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::watch;

use model::enrol::{EnrolSecret, Fingerprint};
use model::layout::Layout;
use model::power_cycle::MachineToken;
use model::{NodeName, Timestamp};
use stdx::daemon::chain;

use super::proof;
use crate::calls::{
    EnrolBegin, EnrolFinish, EnrolOffer, EnrolRequest, Traits, WasNode, WireSecret,
};
use crate::identity::{IdentityError, NodeIdentity, NodeKey};
use crate::server::{Limits, Server};
use crate::service::{Answer, Received, Service, answer, open};
use crate::tls;
use crate::wire::{Failure, FailureKind, Versions};

/// Wrong secrets after which the token is void: a person mistypes once or twice, and five guesses
/// at 128 bits are none.
const WRONG_SECRETS_MAX: u32 = 5;
/// Connections at the same time: one master, and a few for those who knock by mistake.
const CONNECTIONS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnrolmentEnd {
    /// The node has its identity, durably.
    Enrolled,
    /// Too many wrong secrets: another token is needed.
    Void,
}

/// Waits for the master that was given the token.
#[derive(Debug)]
pub struct Desk {
    layout: Layout,
    key: NodeKey,
    certificate: CertificateDer<'static>,
    request: String,
    hostname: String,
    /// Whether an operator chose that name.
    named: bool,
    software: String,
    /// The node that this machine is already, where it is to be taken back.
    was: Option<WasNode>,
    secret: EnrolSecret,
    /// The proof for the master that this is the machine whose token it knows.
    proof: Option<EnrolSecret>,
    state: Mutex<State>,
    /// One at a time: two masters must not mix their files.
    finishing: tokio::sync::Mutex<()>,
    outcome: watch::Sender<Option<EnrolmentEnd>>,
}

#[derive(Debug, Default)]
struct State {
    wrong: u32,
    finished: Option<EnrolFinish>,
}

impl Desk {
    /// A desk with a new key and a new secret; the identity will be kept below `layout`.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new(
        layout: Layout,
        hostname: String,
        software: String,
        now: Timestamp,
    ) -> Result<Self, IdentityError> {
        let key = NodeKey::generate()?;
        Ok(Self {
            certificate: key.enrolment_certificate(now)?,
            request: key.request()?,
            secret: super::new_secret()?,
            layout,
            key,
            hostname,
            named: false,
            software,
            was: None,
            proof: None,
            state: Mutex::default(),
            finishing: tokio::sync::Mutex::new(()),
            outcome: watch::channel(None).0,
        })
    }

    /// For a machine that is a node already: it is taken back as that node of that cluster, and as
    /// nothing else. The data on it is the cluster's.
    pub fn of_member(self, was: WasNode) -> Self {
        Self { was: Some(was), ..self }
    }

    /// For a machine whose operator gave it a name: it takes no other one.
    pub fn under(self, name: &NodeName) -> Self {
        Self { hostname: name.to_string(), named: true, ..self }
    }

    /// For a machine that has a token from its configuration: the master knows it by that.
    pub fn by_token(self, token: &MachineToken) -> Self {
        let fingerprint = self.fingerprint();
        Self {
            secret: proof::of_master(token, fingerprint),
            proof: Some(proof::of_machine(token, fingerprint, &self.request)),
            ..self
        }
    }

    /// For the token: the certificate that is served.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// For the token: the one-time secret.
    pub fn secret(&self) -> &EnrolSecret {
        &self.secret
    }

    /// Serves the enrolment calls, and nothing else.
    ///
    /// # Errors
    /// The listener has no address, or the key does not fit the certificate.
    pub fn serve(self: &Arc<Self>, listener: TcpListener) -> io::Result<Server<Arc<Self>>> {
        let tls = tls::enrolment_server_config(self.certificate.clone(), self.key.der())
            .map_err(io::Error::other)?;
        let limits = Limits { connections: CONNECTIONS, ..Limits::default() };
        Server::start(listener, tls, Arc::clone(self), limits)
    }

    /// Waits for the end.
    pub async fn outcome(&self) -> EnrolmentEnd {
        let mut watching = self.outcome.subscribe();
        match watching.wait_for(Option::is_some).await.map(|outcome| *outcome) {
            Ok(Some(outcome)) => outcome,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    fn check(&self, secret: &WireSecret) -> Result<(), Failure> {
        let mut state = self.state.lock();
        let void = "the enrolment token is void after too many wrong secrets; run `noded enroll` on the node again";
        if state.wrong >= WRONG_SECRETS_MAX {
            return Err(Failure::new(FailureKind::Secret, void));
        }
        if bool::from(secret.0.expose().ct_eq(self.secret.expose())) {
            return Ok(());
        }
        state.wrong += 1;
        let left = WRONG_SECRETS_MAX - state.wrong;
        tracing::warn!(left, "wrong enrolment secret");
        if left == 0 {
            self.outcome.send_replace(Some(EnrolmentEnd::Void));
            return Err(Failure::new(FailureKind::Secret, void));
        }
        let message = format!("the one-time secret is wrong; {left} tries are left");
        Err(Failure::new(FailureKind::Secret, message))
    }

    fn begin(&self, call: &EnrolBegin) -> Result<EnrolOffer, Failure> {
        self.check(&call.secret)?;
        Ok(EnrolOffer {
            hostname: self.hostname.clone(),
            named: self.named,
            software: self.software.clone(),
            protocol: Versions::OURS,
            request: self.request.clone(),
            was: self.was.clone(),
            proof: self.proof.clone().map(WireSecret),
        })
    }

    async fn finish(&self, call: EnrolFinish) -> Result<(), Failure> {
        self.check(&call.secret)?;
        let _turn = self.finishing.lock().await;
        let finished = self.state.lock().finished.clone();
        match finished {
            Some(before) if before == call => return Ok(()),
            Some(before) => {
                let cluster = before.membership.cluster_name;
                let message = format!("this node has just been enrolled in cluster {cluster}");
                return Err(Failure::failed(message));
            }
            None => {}
        }
        if call.membership.allow.callers.is_empty() {
            return Err(Failure::failed("nobody is on the allow-list that came with the identity"));
        }
        let meant = WasNode::of(&call.membership);
        self.was.as_ref().map_or(Ok(()), |was| was.may_be(&meant)).map_err(Failure::failed)?;
        self.keep(&call).await.map_err(|error| Failure::failed(chain(&error)))?;
        self.state.lock().finished = Some(call);
        self.outcome.send_if_modified(|outcome| {
            let first = outcome.is_none();
            outcome.get_or_insert(EnrolmentEnd::Enrolled);
            first
        });
        Ok(())
    }

    async fn keep(&self, call: &EnrolFinish) -> Result<(), IdentityError> {
        let membership = call.membership.clone();
        let name = membership.node.clone();
        let identity = NodeIdentity::assemble(name, &self.key, &call.certificate, &call.authority)?;
        let layout = self.layout.clone();
        let kept = tokio::task::spawn_blocking(move || identity.store(&layout, &membership));
        kept.await.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()))
    }
}

impl Service for Arc<Desk> {
    fn traits(&self, name: &str) -> Option<&'static Traits> {
        EnrolRequest::traits(name)
    }

    fn admits(&self, _peer: Option<Fingerprint>) -> bool {
        true
    }

    async fn respond(&self, received: Received) -> Answer {
        let (envelope, data) = open(&received.body, Versions::OURS)?;
        let request = EnrolRequest::decode(&received.name, envelope.call.get(), data)
            .map_err(|error| Failure::new(FailureKind::Malformed, chain(&error)))?;
        match request {
            EnrolRequest::EnrolBegin(call) => {
                answer(call, |call| std::future::ready(self.begin(&call))).await
            }
            EnrolRequest::EnrolFinish(call) => answer(call, |call| self.finish(call)).await,
        }
    }

    fn stop(&self) {}
}
