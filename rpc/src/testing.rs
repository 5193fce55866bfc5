//! A small cluster for the tests of this crate: an authority, identities, an agent of memory.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use uuid::Uuid;

use model::{NodeName, Timestamp};
use queue_format::Epoch;
use stdx::{Clock, Tasks};

use crate::calls::{
    AllowList, Caller, Exchanged, MasterViewed, Membership, NodeVersion, RackHeld, Request,
    SsconfHeld,
};
use crate::client::{Client, ClientTimes, Meta, NodeTarget};
use crate::fence::{EpochStore, Fence, HoldError, Obeyed};
use crate::identity::{Authority, NodeIdentity};
use crate::server::{Limits, Server};
use crate::service::{Agent, AgentService, Answer, CallContext, answer};
use crate::tls::{AllowedCallers, server_config};
use crate::wire::{Failure, Versions};

pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) fn now() -> Timestamp {
    Timestamp::from_micros(Clock::system().now_micros())
}

pub(crate) fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

pub(crate) fn epoch(term: u64) -> Epoch {
    Epoch { term, node: 1 }
}

pub(crate) fn meta(term: u64) -> Meta {
    Meta { epoch: epoch(term), job: None }
}

pub(crate) fn allow(identities: &[&NodeIdentity]) -> AllowList {
    let caller =
        |i: &&NodeIdentity| Caller { name: i.name().clone(), fingerprint: i.fingerprint() };
    AllowList { epoch: epoch(1), callers: identities.iter().map(caller).collect() }
}

pub(crate) fn membership(node: &str, allow: AllowList) -> Membership {
    Membership {
        cluster_uuid: Uuid::from_u128(7),
        cluster_name: name("cluster.example.com"),
        node: name(node),
        node_id: 4,
        allow,
        epoch: epoch(1),
        enrolled: Timestamp::default(),
    }
}

/// Epochs in memory.
#[derive(Debug, Default)]
pub(crate) struct NoDisk;

impl EpochStore for NoDisk {
    async fn hold(&self, _obeyed: &Obeyed) -> Result<(), HoldError> {
        Ok(())
    }
}

/// Answers from memory; `facts` is its bug.
#[derive(Debug, Default)]
pub(crate) struct MemoryAgent {
    pub(crate) racks: Mutex<Vec<u32>>,
    pub(crate) ended: Arc<Mutex<Vec<String>>>,
    pub(crate) ending: tokio::sync::Notify,
}

fn refuse<T>(why: &str) -> Result<T, Failure> {
    Err(Failure::failed(why))
}

fn version_of_n2() -> NodeVersion {
    NodeVersion {
        node: name("n2"),
        node_id: 4,
        cluster_uuid: Uuid::from_u128(7),
        software: "0".to_owned(),
        protocol: Versions::OURS,
        incarnation: Uuid::from_u128(1),
        epoch: epoch(1),
    }
}

/// The answer of an agent that has nothing to tell.
fn exchanged() -> Exchanged {
    Exchanged {
        incarnation: Uuid::from_u128(1),
        events: Vec::new(),
        racks: Vec::new(),
        dropped: 0,
        callers: None,
        certificate_ends: None,
        time: None,
        faults: Vec::new(),
        lease_ranges: Vec::new(),
        signs: Vec::new(),
        network_drift: Vec::new(),
        key_requests: Vec::new(),
        machine_certificate: None,
        sights: None,
        facts: None,
    }
}

impl Agent for MemoryAgent {
    #[expect(clippy::too_many_lines, reason = "a line for each call of the table")]
    async fn call(&self, request: Request, mut context: CallContext) -> Answer {
        match request {
            Request::Version(call) => {
                answer(call, |_| std::future::ready(Ok(version_of_n2()))).await
            }
            Request::MasterView(call) => {
                let (obeys, cluster_uuid) = (epoch(1), Uuid::from_u128(7));
                let view = MasterViewed { obeys, master: Some(name("n1")), cluster_uuid };
                answer(call, |_| std::future::ready(Ok(view))).await
            }
            Request::Facts(call) => answer(call, async |_| panic!("a bug in one call")).await,
            Request::RackPush(call) => {
                self.racks.lock().push(call.document.rack);
                let held = RackHeld::from(&call.document);
                answer(call, |_| std::future::ready(Ok(held))).await
            }
            Request::TestDelay(call) => {
                answer(call, async |call| {
                    tokio::select! {
                        () = tokio::time::sleep(Duration::from_secs_f64(call.seconds)) => Ok(()),
                        why = context.interrupt.wait() => {
                            self.ended.lock().push(why.failure().message);
                            self.ending.notify_one();
                            Err(why.failure())
                        }
                    }
                })
                .await
            }
            Request::Exchange(call) => answer(call, |_| std::future::ready(Ok(exchanged()))).await,
            Request::Verify(call) => answer(call, async |_| refuse("cannot tell")).await,
            Request::MasterAddressUp(call) => answer(call, async |_| refuse("no interface")).await,
            Request::MasterAddressHere(call) => {
                answer(call, async |_| refuse("no interface")).await
            }
            Request::MasterAddressDown(call) => {
                answer(call, async |_| refuse("no interface")).await
            }
            Request::SsconfPush(call) => {
                let (version, digest) = (call.ssconf.version, call.ssconf.digest());
                let held = SsconfHeld { version, digest };
                answer(call, |_| std::future::ready(Ok(held))).await
            }
            Request::BlobHeld(_) | Request::BlobAppend(_) | Request::BlobKeep(_) => {
                refuse("has no disk")
            }
            Request::RackWithdraw(call) => answer(call, |_| std::future::ready(Ok(()))).await,
            Request::KeyAnswer(_) => refuse("nobody asked"),
            Request::LeaseSync(_) | Request::RamdiskClaim(_) | Request::LeaseRelease(_) => {
                refuse("serves no rack")
            }
            Request::SwitchPorts(_) | Request::SwitchApply(_) | Request::SwitchWatch(_) => {
                refuse("reaches no switch")
            }
            Request::InstanceStart(_)
            | Request::InstanceStop(_)
            | Request::InstanceControl(_)
            | Request::InstancePlug(_)
            | Request::InstanceReceive(_)
            | Request::InstanceSend(_)
            | Request::InstanceFinish(_)
            | Request::RunSet(_)
            | Request::HypervisorCheck(_)
            | Request::DiskCreate(_)
            | Request::ConsoleRead(_)
            | Request::ConsoleWrite(_)
            | Request::DiskImage(_)
            | Request::OsRun(_)
            | Request::DiskRemove(_)
            | Request::DiskGrow(_)
            | Request::DiskRename(_)
            | Request::StorageList(_)
            | Request::VolumeRead(_)
            | Request::VolumeWrite(_)
            | Request::VolumeCopy(_)
            | Request::ExportBegin(_)
            | Request::ExportFinish(_)
            | Request::ExportDescribe(_)
            | Request::ExportSnapshot(_)
            | Request::ExportAbandon(_)
            | Request::ExportRemove(_)
            | Request::ReplicaServe(_)
            | Request::ReplicaDrop(_)
            | Request::ReplicaJoin(_)
            | Request::ReplicaDetach(_)
            | Request::DiskSizes(_) => refuse("runs no instances"),
            Request::SetAllowList(call) => answer(call, |_| std::future::ready(Ok(()))).await,
            Request::Powercycle(call) => answer(call, async |_| refuse("not allowed")).await,
            Request::RenewBegin(_)
            | Request::RenewFinish(_)
            | Request::SetMachineCertificate(_) => refuse("has no files"),
            Request::Leave(_) => refuse("cannot leave"),
            Request::NetworkApply(_) | Request::NetworkCommit(_) | Request::NetworkRollback(_) => {
                refuse("has no network")
            }
        }
    }
}

/// A master `n1` and an agent `n2` of one authority.
pub(crate) struct Pair {
    pub(crate) authority: Authority,
    pub(crate) master: Arc<NodeIdentity>,
    pub(crate) agent: Arc<MemoryAgent>,
    pub(crate) allowed: AllowedCallers,
    pub(crate) server: Server<AgentService<MemoryAgent, NoDisk>>,
    pub(crate) target: NodeTarget,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default(), Versions::OURS).await
    }

    pub(crate) async fn with(limits: Limits, versions: Versions) -> Self {
        let authority = Authority::create(&name("c1"), now()).unwrap();
        let master = Arc::new(authority.issue(&name("n1"), &[LOCALHOST], now()).unwrap());
        let node = authority.issue(&name("n2"), &[LOCALHOST], now()).unwrap();
        let allowed = AllowedCallers::new(allow(&[&master]));
        let agent = Arc::new(MemoryAgent::default());
        let fence = Fence::new(NoDisk, epoch(1).into());
        let service = AgentService::new(Arc::clone(&agent), fence, allowed.clone());
        let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
        let tls = server_config(&node, allowed.clone()).unwrap();
        let service = service.with_versions(versions);
        let server = Server::start(listener, tls, service, limits).unwrap();
        let target = target(server.address(), Some(node.fingerprint()));
        Self { authority, master, agent, allowed, server, target }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(Arc::clone(&self.master), Tasks::new())
    }

    pub(crate) fn client_of(identity: NodeIdentity) -> Client {
        Client::new(Arc::new(identity), Tasks::new())
    }

    pub(crate) fn client_speaking(&self, versions: Versions) -> Client {
        let times = ClientTimes::default();
        Client::with(Arc::clone(&self.master), Tasks::new(), times, versions)
    }
}

pub(crate) fn target(
    address: SocketAddr,
    fingerprint: Option<model::enrol::Fingerprint>,
) -> NodeTarget {
    NodeTarget { name: name("n2"), address, fingerprint, renewing: None, offline: false }
}
