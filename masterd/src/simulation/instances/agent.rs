//! The agent of a simulated node with instances: the real server and fence, before the real instances by
//! the fake hypervisor and real files for disks. A [`Gate`] cuts one of its calls. Each node has a directory
//! for the disks that are its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::simulation::Node;
use model::NodeName;
use model::instance::disk::DiskPlace;
use model::instance::launch::{DiskLaunch, Sight, SightsKnown};
use parking_lot::Mutex;
use rpc::Failure;
use rpc::calls::{
    Control, Finish, InstanceAwaited, InstancePlug, InstancePlugged, InstanceSeen, Request,
    VOLUME_PIECE_BYTES, Volume, VolumePiece,
};
use rpc::fence::{EpochStore, Fence, HoldError, Obeyed};
use rpc::server::{Limits, Server};
use rpc::service::{Agent, AgentService, Answer, CallContext, answer};
use rpc::simulation::Network;
use rpc::tls::{AllowedCallers, server_config};
use stdx::Clock;
use virt::{Change, Exports, Instances, Order, Paths, Storage, VirtError};

use super::super::cluster::nodes;

/// Whether a call is cut before it is carried out, or when it is done and not yet answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Before,
    After,
}

/// Counts the calls that change something, and stops one of them.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// The names of the calls so far.
    pub(super) calls: Vec<&'static str>,
    /// The call that is to stop, counted from zero.
    pub(super) cut: Option<(usize, Moment)>,
    /// The node whose agent stands still at the gate.
    pub(super) stands: Option<u64>,
}

/// The state of a node that outlives the process of its agent.
#[derive(Debug)]
pub(super) struct Machine {
    id: u64,
    /// Its records; each node has its own.
    records: PathBuf,
    storage: Storage,
    boot: u32,
    obeyed: Arc<Mutex<Obeyed>>,
    gate: Arc<Mutex<Gate>>,
    /// The agent's instances, while it runs.
    living: Arc<Mutex<Option<Instances>>>,
    process: Option<Node>,
}

/// An agent's process.
struct Process {
    id: u64,
    instances: Instances,
    storage: Storage,
    exports: Exports,
    gate: Arc<Mutex<Gate>>,
}

/// The epoch that an agent obeys, where its process leaves it.
struct KeptEpoch(Arc<Mutex<Obeyed>>);

impl EpochStore for KeptEpoch {
    async fn hold(&self, obeyed: &Obeyed) -> Result<(), HoldError> {
        *self.0.lock() = obeyed.clone();
        Ok(())
    }
}

impl Machine {
    pub(super) fn new(id: u64, records: PathBuf, storage: Storage, gate: Arc<Mutex<Gate>>) -> Self {
        let (obeyed, living) = (Arc::default(), Arc::default());
        Self { id, records, storage, boot: 1, obeyed, gate, living, process: None }
    }

    /// Starts its agent, unless it runs.
    pub(super) fn start(&mut self, network: &Network, clock: &Clock) {
        if self.process.is_some() {
            return;
        }
        let allowed = AllowedCallers::new(nodes::allow_list());
        let tls = server_config(&nodes::identity(self.id, network), allowed.clone()).unwrap();
        let listener = network.host(nodes::address(self.id)).listen(nodes::AGENT_PORT);
        let (records, storage) = (self.records.clone(), self.storage.clone());
        let (boot, clock, living) =
            (self.boot.to_string(), clock.clone(), Arc::clone(&self.living));
        let (id, obeyed, gate) = (self.id, Arc::clone(&self.obeyed), Arc::clone(&self.gate));
        let process = Node::new();
        process.spawn(async move {
            let instances =
                Instances::open(Paths::of(records), boot, storage.clone(), clock).unwrap();
            *living.lock() = Some(instances.clone());
            let exports = Exports::new(PathBuf::from("/nonexistent"));
            let fence = Fence::new(KeptEpoch(Arc::clone(&obeyed)), obeyed.lock().clone());
            let process = Arc::new(Process { id, instances, storage, exports, gate });
            let service = AgentService::new(process, fence, allowed);
            let _server = Server::start(listener, tls, service, Limits::default()).unwrap();
            std::future::pending::<()>().await;
        });
        self.process = Some(process);
    }

    /// Ends the process of its agent where it is; what it had begun lives on.
    pub(super) fn end_agent(&mut self) {
        *self.living.lock() = None;
        self.process = None;
    }

    /// Takes its power away: nothing that lived there does so any more.
    pub(super) fn end(&mut self) {
        self.end_agent();
        self.boot += 1;
    }

    pub(super) fn process(&self) -> Option<&Node> {
        self.process.as_ref()
    }

    /// The instances of its agent, if it has come up.
    pub(super) fn instances(&self) -> Option<Instances> {
        self.living.lock().clone()
    }
}

impl Agent for Process {
    async fn call(&self, request: Request, mut context: CallContext) -> Answer {
        let stop = if changes(&request) { self.passes(request.name()) } else { None };
        if stop == Some(Moment::Before) {
            self.gate.lock().stands = Some(self.id);
            return Err(context.interrupt.wait().await.failure());
        }
        let answer = self.carried_out(request).await;
        if stop == Some(Moment::After) {
            self.gate.lock().stands = Some(self.id);
            return Err(context.interrupt.wait().await.failure());
        }
        answer
    }
}

/// Whether a call is one that a fault may befall: it changes something of an instance.
const fn changes(request: &Request) -> bool {
    matches!(
        request,
        Request::InstanceStart(_)
            | Request::InstanceStop(_)
            | Request::InstanceControl(_)
            | Request::InstancePlug(_)
            | Request::InstanceReceive(_)
            | Request::InstanceSend(_)
            | Request::InstanceFinish(_)
            | Request::DiskCreate(_)
            | Request::DiskRemove(_)
            | Request::DiskGrow(_)
            | Request::DiskRename(_)
            | Request::VolumeWrite(_)
    )
}

/// The paths of the files that a disk has in this world, one for each of the nodes that keep it.
pub(super) fn files(nodes: &[NodeName], path: &str) -> Vec<String> {
    match nodes {
        [] => vec![path.to_owned()],
        nodes => nodes.iter().map(|node| own(node, path)).collect(),
    }
}

/// The path of a node's own file: the nodes of this world share one file system.
fn own(node: &NodeName, path: &str) -> String {
    path.replace("/local/", &format!("/local/{node}/"))
}

/// Has a call mean the files of one node.
fn at_home(node: &NodeName, request: &mut Request) {
    let disk = |disk: &mut DiskLaunch| {
        if let DiskPlace::File { path } = &mut disk.place {
            *path = own(node, path);
        }
    };
    match request {
        Request::InstanceStart(call) => call.launch.disks.iter_mut().for_each(disk),
        Request::InstanceReceive(call) => call.launch.disks.iter_mut().for_each(disk),
        Request::DiskCreate(call) => call.disks.iter_mut().for_each(disk),
        Request::DiskRemove(call) => call.disks.iter_mut().for_each(disk),
        Request::DiskSizes(call) => call.disks.iter_mut().for_each(disk),
        Request::DiskGrow(call) => disk(&mut call.disk),
        Request::DiskRename(call) => {
            for (moved, to) in &mut call.disks {
                disk(moved);
                *to = own(node, to);
            }
        }
        Request::VolumeRead(call) => {
            if let Volume::Disk(read) = &mut call.volume {
                disk(read);
            }
        }
        Request::VolumeWrite(call) => {
            if let Volume::Disk(written) = &mut call.volume {
                disk(written);
            }
        }
        _ => {}
    }
}

/// The disk that a volume is: jobs of this world make no exports.
fn volume(asked: &Volume) -> virt::Volume<'_> {
    match asked {
        Volume::Disk(disk) => virt::Volume::Disk(disk),
        Volume::Export { name, file, whole } => virt::Volume::Export { name, file, whole: *whole },
    }
}

fn seen(told: Result<(SightsKnown, Sight), VirtError>) -> Result<InstanceSeen, Failure> {
    told.map(|(known, sight)| InstanceSeen { known, sight }).map_err(failed)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn failed(error: VirtError) -> Failure {
    Failure::failed(error.to_string())
}

impl Process {
    /// The moment at which the gate stops this call, if it does.
    fn passes(&self, name: &'static str) -> Option<Moment> {
        let mut gate = self.gate.lock();
        let number = gate.calls.len();
        gate.calls.push(name);
        gate.cut.filter(|(at, _)| *at == number).map(|(_, moment)| moment)
    }

    fn each(
        disks: &[DiskLaunch],
        work: impl Fn(&DiskLaunch) -> Result<(), VirtError>,
    ) -> Result<(), Failure> {
        disks.iter().try_for_each(work).map_err(failed)
    }

    async fn carried_out(&self, mut request: Request) -> Answer {
        let instances = &self.instances;
        at_home(&nodes::name(self.id), &mut request);
        match request {
            Request::InstanceStart(call) => {
                answer(call, async |call| seen(instances.start(call.launch).await)).await
            }
            Request::InstanceStop(call) => {
                let within = Duration::from_secs(u64::from(call.timeout_s));
                answer(call, async |call| {
                    seen(instances.stop(call.uuid, call.run, within, call.forget).await)
                })
                .await
            }
            Request::InstanceControl(call) => {
                answer(call, async |call| {
                    let order = match call.control {
                        Control::Pause => Order::Pause,
                        Control::Resume => Order::Resume,
                        Control::Reset => Order::Reset,
                        Control::Memory(memory) => Order::Memory(memory),
                        Control::Processors(count) => Order::Processors(count),
                    };
                    seen(instances.order(call.uuid, call.run, order).await)
                })
                .await
            }
            Request::InstancePlug(call) => {
                answer(call, async |call| {
                    let InstancePlug { uuid, run, disks, nics, without } = call;
                    let plugged = instances.plug(uuid, run, Change { disks, nics, without }).await;
                    let ((known, sight), failed) = plugged.map_err(self::failed)?;
                    Ok(InstancePlugged { seen: InstanceSeen { known, sight }, failed })
                })
                .await
            }
            Request::InstanceReceive(call) => {
                answer(call, async |call| {
                    let place = instances.receive(call.launch).await.map_err(failed)?;
                    Ok(InstanceAwaited { place })
                })
                .await
            }
            Request::InstanceSend(call) => {
                answer(call, async |call| seen(instances.send(call.uuid, call.run).await)).await
            }
            Request::InstanceFinish(call) => {
                answer(call, async |call| match call.finish {
                    Finish::Go => seen(instances.go(call.uuid, call.run).await),
                    Finish::Drop => {
                        seen(instances.stop(call.uuid, call.run, Duration::ZERO, true).await)
                    }
                })
                .await
            }
            Request::HypervisorCheck(call) => answer(call, async |_| Ok(())).await,
            request => self.on_disks(request).await,
        }
    }

    async fn on_disks(&self, request: Request) -> Answer {
        let storage = &self.storage;
        match request {
            Request::DiskCreate(call) => {
                answer(call, async |call| Self::each(&call.disks, |disk| storage.create(disk)))
                    .await
            }
            Request::DiskRemove(call) => {
                answer(call, async |call| Self::each(&call.disks, |disk| storage.remove(disk)))
                    .await
            }
            Request::DiskGrow(call) => {
                answer(call, async |call| {
                    storage.grow(&call.disk, call.size, call.dry_run).map_err(failed)
                })
                .await
            }
            Request::DiskRename(call) => {
                answer(call, async |call| {
                    let renamed = call.disks.iter().map(|(disk, to)| storage.rename(disk, to));
                    renamed.collect::<Result<(), _>>().map_err(failed)
                })
                .await
            }
            Request::DiskSizes(call) => {
                answer(call, async |call| {
                    let sizes = call.disks.iter().map(|disk| storage.size(disk));
                    sizes.collect::<Result<_, _>>().map_err(failed)
                })
                .await
            }
            Request::VolumeRead(call) => {
                answer(call, async |call| {
                    let read = (volume(&call.volume), call.offset, VOLUME_PIECE_BYTES);
                    let piece =
                        self.exports.read(storage, read.0, read.1, read.2).map_err(failed)?;
                    let data = STANDARD.encode(piece.data);
                    Ok(VolumePiece { offset: piece.offset, data, size: piece.size })
                })
                .await
            }
            Request::VolumeWrite(call) => {
                answer(call, async |call| {
                    let written = volume(&call.volume);
                    self.exports.write(storage, written, call.offset, &call.data).map_err(failed)
                })
                .await
            }
            _ => Err(Failure::failed("this agent has only instances")),
        }
    }
}
