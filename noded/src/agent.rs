//! The agent's answers: one match over the table of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use blobs::Blobs;
use model::layout::Layout;
use model::rack_fault::RackFault;
use rpc::calls::{
    ALLOW_LIST_MAX, AddressChanged, AddressHere, AllowList, Exchange, Exchanged, LeaseRelease,
    LeaseReleased, MasterAddressDown, MasterAddressHere, MasterAddressUp, MasterViewed, Membership,
    NodeVersion, PowercycleScheduled, RackHeld, RackPush, RackWithdraw, SetAllowList, SsconfHeld,
    SsconfPush, TEST_DELAY_SECONDS_MAX, TestDelay,
};
use rpc::fence::{EpochStore, HoldError, Interrupt, Obeyed};
use rpc::identity::NodeIdentity;
use rpc::service::{Agent as Answers, CallContext};
use rpc::tls::AllowedCallers;
use rpc::wire::Versions;
use rpc::{Answer, Failure, FailureKind, Request, answer};
use stdx::daemon::chain;
use stdx::{Clock, Tasks};

use crate::host_network::HostNetworks;
use crate::machine_certificate::MachineCertificates;
use crate::master_address::MasterAddress;
use crate::metrics::Calls;
use crate::powercycle::Powercycle;
use crate::ssconf;
use netboot::dhcp::server::Learner;
use netboot::key_desk::KeyDesk;
use netboot::lease_sync;
use netboot::ledger::Ledger;
use netboot::rack::Racks;
use netboot::token_claim::Claims;
use switches::Switches;
use virt::{Exports, Instances, Storage, Systems};

mod backup_calls;
mod blob_calls;
mod exchange;
mod facts_calls;
mod instance_calls;
mod leaving;
mod os_calls;
mod renewal;
mod replica_calls;
mod switch_calls;

/// Shows `masterd` of this machine who may call; the agent's own word on it is in its ledger.
pub(crate) async fn show_allow_list(layout: Layout, membership: &Membership, list: AllowList) {
    let membership = Membership { allow: list, ..membership.clone() };
    let show = move || rpc::identity::store_membership(&layout, &membership);
    let shown = tokio::task::spawn_blocking(show).await;
    let shown = shown.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
    if let Err(error) = shown {
        let why = chain(&error);
        tracing::warn!(why, "masterd of this machine is not told who may call");
    }
}

/// The agent, as its callers see it.
#[derive(Debug)]
pub struct Agent {
    layout: Layout,
    membership: Membership,
    ledger: Arc<Ledger>,
    racks: Arc<Racks>,
    blobs: Arc<Blobs>,
    allowed: AllowedCallers,
    obeyed: watch::Sender<Obeyed>,
    identity: Arc<NodeIdentity>,
    renewal: renewal::Turn,
    clock: Clock,
    calls: Arc<Calls>,
    powercycle: Arc<dyn Powercycle>,
    versions: Versions,
    /// Counts exchanges: a newer one ends the older.
    exchanges: watch::Sender<u64>,
    next_exchange: AtomicU64,
    /// The faults that the last exchange told.
    told_faults: Mutex<Vec<RackFault>>,
    master_address: MasterAddress,
    ssconf: Arc<ssconf::Files>,
    network: Arc<HostNetworks>,
    keys: Arc<KeyDesk>,
    machines: Arc<MachineCertificates>,
    claims: Arc<Claims>,
    switches: Switches,
    instances: Instances,
    storage: Storage,
    exports: Exports,
    systems: Systems,
    dhcp: watch::Receiver<Option<Learner>>,
    left: Notify,
}

/// The parts of an [`Agent`].
#[derive(Debug)]
pub struct Parts {
    /// The directories of the agent.
    pub layout: Layout,
    /// The node's name and cluster.
    pub membership: Membership,
    /// Its durable memory.
    pub ledger: Arc<Ledger>,
    /// The rack documents that it serves from.
    pub racks: Arc<Racks>,
    /// The files that it serves.
    pub blobs: Arc<Blobs>,
    pub allowed: AllowedCallers,
    /// The epoch and the master that it obeys.
    pub obeyed: Obeyed,
    /// Its key and certificate.
    pub identity: Arc<NodeIdentity>,
    /// Gives the time.
    pub clock: Clock,
    /// Counts calls.
    pub calls: Arc<Calls>,
    /// Restarts the machine.
    pub powercycle: Arc<dyn Powercycle>,
    pub network: Arc<HostNetworks>,
    /// The requests of machines for the keys of their disks.
    pub keys: Arc<KeyDesk>,
    /// The certificates that machines are shown there.
    pub machines: Arc<MachineCertificates>,
    /// Has the agents of a rack agree on who tells a secret.
    pub claims: Arc<Claims>,
    pub instances: Instances,
    /// The DHCP server, while it runs.
    pub dhcp: watch::Receiver<Option<Learner>>,
    /// Versions of the protocol that it understands.
    pub versions: Versions,
}

/// Makes epochs durable for the fence.
#[derive(Debug)]
pub struct LedgerEpochs(pub Arc<Agent>);

impl EpochStore for LedgerEpochs {
    async fn hold(&self, obeyed: &Obeyed) -> Result<(), HoldError> {
        self.0.ledger.hold_epoch(obeyed).await?;
        self.0.obeyed.send_replace(obeyed.clone());
        Ok(())
    }
}

impl Agent {
    /// An agent.
    pub fn new(parts: Parts) -> Self {
        let Parts {
            layout,
            membership,
            ledger,
            racks,
            blobs,
            allowed,
            obeyed,
            identity,
            clock,
            calls,
            powercycle,
            network,
            keys,
            machines,
            claims,
            instances,
            dhcp,
            versions,
        } = parts;
        let ssconf = Arc::new(ssconf::Files::new(&layout));
        let switches = Switches::new(Tasks::new(), layout.switch_programs());
        let storage = instances.storage().clone();
        let exports = Exports::new(layout.exports());
        let systems = Systems::new(layout.os_directories(), layout.os_logs(), clock.clone());
        Self {
            layout,
            membership,
            ledger,
            racks,
            blobs,
            allowed,
            obeyed: watch::channel(obeyed).0,
            identity,
            renewal: renewal::Turn::default(),
            clock,
            calls,
            powercycle,
            versions,
            exchanges: watch::channel(0).0,
            next_exchange: AtomicU64::new(1),
            told_faults: Mutex::default(),
            master_address: MasterAddress::default(),
            ssconf,
            network,
            keys,
            machines,
            claims,
            switches,
            instances,
            storage,
            exports,
            systems,
            dhcp,
            left: Notify::new(),
        }
    }

    /// Waits until the node has left its cluster.
    pub async fn left(&self) {
        self.left.notified().await;
    }

    /// Gives the master's address up once no master looks after it; never ends.
    pub async fn look_after_address(&self) {
        self.master_address.give_up_unasked().await;
    }

    /// Ends what it does in the background.
    pub async fn end(&self) {
        self.master_address.end().await;
        self.network.end().await;
        self.instances.shutdown().await;
    }

    fn version(&self) -> NodeVersion {
        NodeVersion {
            node: self.membership.node.clone(),
            node_id: self.membership.node_id,
            cluster_uuid: self.membership.cluster_uuid,
            software: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: self.versions,
            incarnation: self.ledger.incarnation(),
            epoch: self.obeyed.borrow().epoch,
        }
    }

    fn master_view(&self) -> MasterViewed {
        let Obeyed { epoch, master } = self.obeyed.borrow().clone();
        MasterViewed { obeys: epoch, master, cluster_uuid: self.membership.cluster_uuid }
    }

    async fn rack_push(&self, call: RackPush) -> Result<RackHeld, Failure> {
        let RackPush { base: _, document } = call;
        if document.cluster_name != self.membership.cluster_name {
            return Err(Failure::failed(format!(
                "the rack document is of cluster {}, this node is of {}",
                document.cluster_name, self.membership.cluster_name
            )));
        }
        let installed = self.racks.install(&self.ledger, document).await;
        installed.map_err(|error| Failure::failed(chain(&error)))
    }

    async fn rack_withdraw(&self, call: RackWithdraw) -> Result<(), Failure> {
        let withdrawn = self.racks.withdraw(&self.ledger, call.rack).await;
        withdrawn.map_err(|error| Failure::failed(chain(&error)))
    }

    async fn allow_list(&self, call: SetAllowList) -> Result<(), Failure> {
        let list = call.list;
        if list.callers.is_empty() || list.callers.len() > ALLOW_LIST_MAX {
            let count = list.callers.len();
            let message =
                format!("an allow-list names 1 to {ALLOW_LIST_MAX} callers, this one {count}");
            return Err(Failure::failed(message));
        }
        let held = self.allowed.current().epoch;
        if list.epoch < held {
            let made = list.epoch;
            let message = format!("the list is of epoch {made}, the one in force of {held}");
            return Err(Failure::failed(message));
        }
        let kept = self.ledger.keep_allow_list(&list).await;
        kept.map_err(|error| Failure::failed(chain(&error)))?;
        tracing::info!(callers = list.callers.len(), epoch = %list.epoch, "allow-list replaced");
        show_allow_list(self.layout.clone(), &self.membership, list.clone()).await;
        self.allowed.replace(list);
        Ok(())
    }

    /// Ends a lease, durably, whoever has it.
    async fn release_lease(&self, call: LeaseRelease) -> Result<LeaseReleased, Failure> {
        let server = self.dhcp.borrow().clone();
        let Some(server) = server else {
            let text = "this agent serves no DHCP at the moment; see gnt rack status";
            return Err(Failure::failed(text));
        };
        let ended = server.end(call.address).await;
        let ended = ended.map_err(|error| Failure::failed(chain(&error)))?;
        let ended = ended.map_err(|error| Failure::failed(chain(&error)))?;
        Ok(LeaseReleased { client: ended.map(|record| record.client.to_string()) })
    }

    async fn master_address_up(&self, call: MasterAddressUp) -> Result<AddressChanged, Failure> {
        let taken = self.master_address.up(&call).await;
        taken.map_err(|error| {
            let remedy = error.remedy(self.membership.node.as_str());
            Failure { remedy, ..Failure::failed(chain(&error)) }
        })
    }

    fn master_address_here(&self, call: &MasterAddressHere) -> Result<AddressHere, Failure> {
        let found = stdx::aside(|| self.master_address.is_here(call));
        let here = found.map_err(|error| Failure::failed(chain(&error)))?;
        Ok(AddressHere { here })
    }

    fn master_address_down(&self, call: &MasterAddressDown) -> Result<AddressChanged, Failure> {
        let given_up = stdx::aside(|| self.master_address.down(call));
        given_up.map_err(|error| Failure::failed(chain(&error)))
    }

    async fn ssconf_push(&self, call: SsconfPush) -> Result<SsconfHeld, Failure> {
        let files = Arc::clone(&self.ssconf);
        let installed = tokio::task::spawn_blocking(move || files.install(&call.ssconf)).await;
        installed
            .unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()))
            .map_err(|error| Failure::failed(chain(&error)))
    }

    async fn test_delay(&self, call: TestDelay, mut interrupt: Interrupt) -> Result<(), Failure> {
        let most = f64::from(TEST_DELAY_SECONDS_MAX);
        if !(0.0..=most).contains(&call.seconds) {
            let message = format!("a test delay lasts 0 to {most} seconds");
            return Err(Failure::new(FailureKind::Malformed, message));
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs_f64(call.seconds)) => Ok(()),
            why = interrupt.wait() => Err(why.failure()),
        }
    }

    fn powercycle(&self) -> Result<PowercycleScheduled, Failure> {
        let scheduled = self.powercycle.schedule();
        let delay = scheduled.map_err(|error| Failure::failed(chain(&error)))?;
        Ok(PowercycleScheduled { seconds: delay.as_secs_f64() })
    }

    async fn exchange(&self, call: Exchange, interrupt: Interrupt) -> Answer {
        let turn = self.next_exchange.fetch_add(1, Ordering::Relaxed);
        self.exchanges.send_if_modified(|newest| {
            *newest = (*newest).max(turn);
            *newest == turn
        });
        let newest = self.exchanges.subscribe();
        let (ledger, racks, allowed) = (&self.ledger, &self.racks, &self.allowed);
        let exchange = exchange::Turn {
            ledger,
            racks,
            allowed,
            network: &self.network,
            keys: &self.keys,
            machines: &self.machines,
            told_faults: &self.told_faults,
            instances: &self.instances,
            clock: &self.clock,
            certificate_ends: self.identity.ends().ok(),
            turn,
            newest,
            interrupt,
        };
        answer(call, async |call| {
            let exchanged = exchange.run(call).await?;
            Ok(Exchanged { facts: self.facts().await.ok(), ..exchanged })
        })
        .await
    }
}

impl Answers for Agent {
    async fn call(&self, request: Request, context: CallContext) -> Answer {
        let (name, begun) = (request.name(), Instant::now());
        if let Some(job) = context.job {
            tracing::debug!(call = name, job = job.id.0, op = job.op, "called for a job");
        }
        let answer = self.answer(request, context).await;
        let failure = answer.as_ref().err().map(|failure| failure.kind);
        self.calls.answered(name, begun.elapsed(), failure);
        answer
    }
}

impl Agent {
    #[expect(clippy::too_many_lines, reason = "a line for each call of the table")]
    async fn answer(&self, request: Request, context: CallContext) -> Answer {
        let interrupt = context.interrupt;
        match request {
            Request::Version(call) => {
                answer(call, |_| std::future::ready(Ok(self.version()))).await
            }
            Request::MasterView(call) => {
                answer(call, |_| std::future::ready(Ok(self.master_view()))).await
            }
            Request::Facts(call) => answer(call, |_| self.facts()).await,
            Request::Verify(call) => answer(call, |_| self.held()).await,
            Request::RackPush(call) => answer(call, |call| self.rack_push(call)).await,
            Request::BlobHeld(call) => {
                answer(call, async |call| {
                    Ok(call.blobs.into_iter().map(|blob| self.blobs.held(blob)).collect())
                })
                .await
            }
            Request::BlobAppend(call) => answer(call, |call| self.blob_append(call)).await,
            Request::BlobKeep(call) => answer(call, |call| self.blob_keep(call)).await,
            Request::RackWithdraw(call) => answer(call, |call| self.rack_withdraw(call)).await,
            Request::Exchange(call) => self.exchange(call, interrupt).await,
            Request::MasterAddressUp(call) => {
                answer(call, |call| self.master_address_up(call)).await
            }
            Request::MasterAddressHere(call) => {
                answer(call, async |call| self.master_address_here(&call)).await
            }
            Request::MasterAddressDown(call) => {
                answer(call, async |call| self.master_address_down(&call)).await
            }
            Request::SsconfPush(call) => answer(call, |call| self.ssconf_push(call)).await,
            Request::KeyAnswer(call) => {
                answer(call, async |call| {
                    self.keys.answer(call.id, call.outcome);
                    Ok(())
                })
                .await
            }
            Request::LeaseSync(call) => {
                let tell = |call| lease_sync::tell(&self.ledger, &self.racks, call, interrupt);
                answer(call, tell).await
            }
            Request::RamdiskClaim(call) => answer(call, |call| self.claims.answer(call)).await,
            Request::LeaseRelease(call) => answer(call, |call| self.release_lease(call)).await,
            Request::NetworkApply(call) => {
                answer(call, async |call| self.network.apply(&call).await).await
            }
            Request::NetworkCommit(call) => {
                answer(call, async |call| self.network.commit(&call).await).await
            }
            Request::NetworkRollback(call) => {
                answer(call, async |_| self.network.roll_back().await).await
            }
            Request::SwitchPorts(call) => answer(call, |call| self.switch_ports(call)).await,
            Request::SwitchApply(call) => answer(call, |call| self.switch_apply(call)).await,
            Request::SwitchWatch(call) => answer(call, |call| self.switch_watch(call)).await,
            Request::InstanceStart(call) => answer(call, |call| self.instance_start(call)).await,
            Request::InstanceStop(call) => answer(call, |call| self.instance_stop(call)).await,
            Request::InstanceControl(call) => {
                answer(call, |call| self.instance_control(call)).await
            }
            Request::InstancePlug(call) => answer(call, |call| self.instance_plug(call)).await,
            Request::InstanceReceive(call) => {
                answer(call, |call| self.instance_receive(call)).await
            }
            Request::InstanceSend(call) => answer(call, |call| self.instance_send(call)).await,
            Request::InstanceFinish(call) => answer(call, |call| self.instance_finish(call)).await,
            Request::RunSet(call) => answer(call, |call| self.run_set(call)).await,
            Request::HypervisorCheck(call) => {
                answer(call, async |call| self.hypervisor_check(&call)).await
            }
            Request::ConsoleRead(call) => answer(call, |call| self.console_read(call)).await,
            Request::ConsoleWrite(call) => answer(call, |call| self.console_write(call)).await,
            Request::DiskCreate(call) => answer(call, |call| self.disk_create(call)).await,
            Request::DiskImage(call) => answer(call, |call| self.disk_image(call)).await,
            Request::OsRun(call) => answer(call, |call| self.os_run(call, interrupt)).await,
            Request::DiskRemove(call) => answer(call, |call| self.disk_remove(call)).await,
            Request::ReplicaServe(call) => answer(call, |call| self.replica_serve(call)).await,
            Request::ReplicaDrop(call) => answer(call, |call| self.replica_drop(call)).await,
            Request::ReplicaJoin(call) => answer(call, |call| self.replica_join(call)).await,
            Request::ReplicaDetach(call) => answer(call, |call| self.replica_detach(call)).await,
            Request::DiskGrow(call) => answer(call, |call| self.disk_grow(call)).await,
            Request::DiskRename(call) => answer(call, |call| self.disk_rename(call)).await,
            Request::DiskSizes(call) => answer(call, |call| self.disk_sizes(call)).await,
            Request::StorageList(call) => answer(call, |call| self.storage_list(call)).await,
            Request::VolumeRead(call) => answer(call, |call| self.volume_read(call)).await,
            Request::VolumeWrite(call) => answer(call, |call| self.volume_write(call)).await,
            Request::VolumeCopy(call) => answer(call, |call| self.volume_copy(call)).await,
            Request::ExportBegin(call) => answer(call, |call| self.export_begin(call)).await,
            Request::ExportFinish(call) => answer(call, |call| self.export_finish(call)).await,
            Request::ExportDescribe(call) => answer(call, |call| self.export_describe(call)).await,
            Request::ExportSnapshot(call) => answer(call, |call| self.export_snapshot(call)).await,
            Request::ExportAbandon(call) => answer(call, |call| self.export_abandon(call)).await,
            Request::ExportRemove(call) => answer(call, |call| self.export_remove(call)).await,
            Request::SetAllowList(call) => answer(call, |call| self.allow_list(call)).await,
            Request::TestDelay(call) => answer(call, |call| self.test_delay(call, interrupt)).await,
            Request::RenewBegin(call) => answer(call, |_| self.renew_begin()).await,
            Request::RenewFinish(call) => answer(call, |call| self.renew_finish(call)).await,
            Request::SetMachineCertificate(call) => {
                answer(call, |call| self.machine_certificate(call)).await
            }
            Request::Leave(call) => answer(call, |call| self.leave(call)).await,
            Request::Powercycle(call) => answer(call, async |_| self.powercycle()).await,
        }
    }
}
