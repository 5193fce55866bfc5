//! The master's side.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use subtle::ConstantTimeEq as _;

use model::NodeName;
use model::enrol::{EnrolSecret, Fingerprint};
use model::power_cycle::MachineToken;
use stdx::Tasks;

use super::proof;
use crate::calls::{Call, EnrolBegin, EnrolFinish, EnrolOffer, Membership, Version, WireSecret};
use crate::client::connect::connect;
use crate::client::pool::{broken, http2_builder, read, request};
use crate::client::watched::{LastWord, Watched};
use crate::client::{Client, ClientTimes, Meta, NodeTarget, Refusal, RpcError, refused};
use crate::identity::{self, IdentityError};
use crate::secured::{Called, Dialer};
use crate::tls;
use crate::wire::{AnswerBody, OutEnvelope, PROTOCOL};

/// A node that waits to be enrolled, as its token describes it.
#[derive(Debug, Clone)]
pub struct Invitation {
    /// The name that the node will have.
    pub node: NodeName,
    /// The address where it waits.
    pub address: SocketAddr,
    /// The certificate that it serves meanwhile.
    pub fingerprint: Fingerprint,
    /// Its one-time secret.
    pub secret: EnrolSecret,
}

/// An enrolment that failed.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    /// A call to the new node failed.
    #[error(transparent)]
    Call(#[from] RpcError),
    /// The machine shows another key than the token names; it did not get the secret.
    #[error(
        "the token is of an earlier `noded enroll` or of another machine: use the one that it \
         shows now"
    )]
    OtherKey(#[source] RpcError),
    /// The machine that is meant does not know the token.
    #[error(
        "a machine waits there with another token: that of another machine or power cycle, or one of a \
         `noded enroll` without --token-file"
    )]
    OtherToken,
    /// The machine waits to become another node.
    #[error("{0}")]
    OtherNode(String),
    /// The text that came or went is no certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The identity did not arrive, as far as is known; to enrol again does no harm.
    #[error("node {node} was not seen to take its new identity ({confirmation})")]
    Unconfirmed {
        node: NodeName,
        /// The outcome of the question whether it has its identity.
        confirmation: String,
        /// Why the identity could not be handed over.
        #[source]
        error: Box<RpcError>,
    },
}

/// An enrolment under way: the node has shown its request and waits for its certificate.
#[derive(Debug)]
pub struct Enrolment {
    invitation: Invitation,
    caller: NodeName,
    tasks: Tasks,
    offer: EnrolOffer,
}

/// Connects to a node that waits at an address, and shows that certificate, if one is known.
async fn reach(
    (node, address): (&NodeName, SocketAddr),
    pin: Option<Fingerprint>,
) -> Result<(Watched<Called>, LastWord), RpcError> {
    let config = tls::enrolment_client_config(pin).map_err(|error| RpcError::Unreachable {
        node: node.clone(),
        address,
        error: std::io::Error::other(error),
    })?;
    let server = ServerName::from(address.ip());
    let limit = ClientTimes::default().connect;
    // Nobody is known here yet but by the token, which TLS alone holds against who answers.
    connect(Dialer::default(), (node, address), Arc::new(config), server, limit).await
}

impl Invitation {
    /// The invitation of a machine that waits at `address` and knows `token`. A stranger there gets
    /// nothing that is worth anything elsewhere; [`Enrolment::knows`] says whether it was that machine.
    ///
    /// # Errors
    /// Nobody answers there.
    pub async fn of_machine(
        token: &MachineToken,
        node: NodeName,
        address: SocketAddr,
    ) -> Result<Self, EnrolError> {
        let (stream, _word) = reach((&node, address), None).await?;
        let shown = stream.inner().peer().ok_or(EnrolError::OtherToken)?;
        let secret = proof::of_master(token, shown);
        Ok(Self { node, address, fingerprint: shown, secret })
    }

    /// Sends the secret and gets the node's request. Calls as `caller`; the connection runs in
    /// `tasks`. May be repeated.
    ///
    /// # Errors
    /// The node cannot be reached, shows another certificate, or does not accept the secret.
    pub async fn begin(self, caller: &NodeName, tasks: &Tasks) -> Result<Enrolment, EnrolError> {
        let call = EnrolBegin { secret: WireSecret(self.secret.clone()) };
        let offer = self.call(&call, caller, tasks).await.map_err(|error| match error {
            RpcError::Refused { refusal: Refusal::Certificate { .. }, .. } => {
                EnrolError::OtherKey(error)
            }
            _ => error.into(),
        })?;
        Ok(Enrolment { invitation: self, caller: caller.clone(), tasks: tasks.clone(), offer })
    }

    fn target(&self) -> NodeTarget {
        NodeTarget {
            name: self.node.clone(),
            address: self.address,
            fingerprint: Some(self.fingerprint),
            renewing: None,
            offline: false,
        }
    }

    async fn call<C: Call>(
        &self,
        call: &C,
        caller: &NodeName,
        tasks: &Tasks,
    ) -> Result<C::Reply, RpcError> {
        let limit = C::TRAITS.class.limit();
        let node = || self.node.clone();
        let malformed = |error| RpcError::Malformed { node: node(), call: C::TRAITS.name, error };
        let epoch = queue_format::Epoch::default();
        let envelope = OutEnvelope { protocol: PROTOCOL, caller, epoch, job: None, call };
        let body = serde_json::to_vec(&envelope).map(Bytes::from).map_err(malformed)?;
        let answer = tokio::time::timeout(limit, self.post::<C>(body, tasks)).await.map_err(
            |_elapsed| RpcError::TimedOut { node: node(), call: C::TRAITS.name, after: limit },
        )??;
        match serde_json::from_slice(&answer).map_err(malformed)? {
            AnswerBody::Reply(reply) => serde_json::from_str(reply.get()).map_err(malformed),
            AnswerBody::Error(failure) => Err(refused(&self.target(), C::TRAITS.name, failure)),
        }
    }

    async fn post<C: Call>(&self, body: Bytes, tasks: &Tasks) -> Result<Bytes, RpcError> {
        let target = self.target();
        let times = ClientTimes::default();
        let (stream, word) = reach((&self.node, self.address), Some(self.fingerprint)).await?;
        let (mut sender, connection) =
            http2_builder(times)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(|error| broken(&target, &C::TRAITS, &word, error))?;
        tasks.spawn("enrolment connection", async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "enrolment connection ended");
            }
        });
        let sent = sender.send_request(request(&target, &C::TRAITS, body)).await;
        let response = sent.map_err(|error| broken(&target, &C::TRAITS, &word, error))?;
        read(&target, &C::TRAITS, &word, response).await
    }
}

impl Enrolment {
    /// The node's offer, with the request to be signed.
    pub fn offer(&self) -> &EnrolOffer {
        &self.offer
    }

    /// Refuses a node that did not show that it knows `token`.
    ///
    /// # Errors
    /// It did not.
    pub fn knows(&self, token: &MachineToken) -> Result<(), EnrolError> {
        let expected = proof::of_machine(token, self.invitation.fingerprint, &self.offer.request);
        let shown = self.offer.proof.as_ref().ok_or(EnrolError::OtherToken)?;
        match bool::from(shown.0.expose().ct_eq(expected.expose())) {
            true => Ok(()),
            false => Err(EnrolError::OtherToken),
        }
    }

    /// Hands over the identity, with certificates in PEM form, and gives the fingerprint of the
    /// node's certificate. May be repeated.
    ///
    /// A lost answer is no failure yet: the node is asked through `client` whether it has its identity.
    ///
    /// # Errors
    /// The node refused, or it is not known whether it has its identity.
    pub async fn finish(
        &self,
        certificate: &str,
        authority: &str,
        membership: &Membership,
        client: &Client,
    ) -> Result<Fingerprint, EnrolError> {
        let der = identity::certificate_from_pem("the node's certificate", certificate)?;
        let fingerprint = Fingerprint::of(&der);
        let call = EnrolFinish {
            secret: WireSecret(self.invitation.secret.clone()),
            certificate: certificate.to_owned(),
            authority: authority.to_owned(),
            membership: membership.clone(),
        };
        match self.invitation.call(&call, &self.caller, &self.tasks).await {
            Ok(()) => Ok(fingerprint),
            Err(error @ RpcError::Failed { .. }) => Err(error.into()),
            Err(error) => self.confirm(fingerprint, membership, client, error).await,
        }
    }

    /// The node may serve under its new identity already.
    async fn confirm(
        &self,
        fingerprint: Fingerprint,
        membership: &Membership,
        client: &Client,
        error: RpcError,
    ) -> Result<Fingerprint, EnrolError> {
        let target = NodeTarget { fingerprint: Some(fingerprint), ..self.invitation.target() };
        let meta = Meta { epoch: membership.epoch, job: None };
        let confirmation = match client.call(&target, Version {}, meta).await {
            Ok(version) if version.node_id == membership.node_id => return Ok(fingerprint),
            Ok(version) => format!("it answers as node {} of an earlier life", version.node),
            Err(other) => other.to_string(),
        };
        let node = self.invitation.node.clone();
        Err(EnrolError::Unconfirmed { node, confirmation, error: Box::new(error) })
    }
}
