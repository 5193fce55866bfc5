//! Calls on instances and their disks.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::instance::launch::{DiskLaunch, Sight, SightsKnown};
use rpc::calls::{
    CONSOLE_INPUT_MAX, CONSOLE_WAIT_MS_MAX, ConsoleRead, ConsoleSaid, ConsoleWrite, Control,
    DiskCreate, DiskGrow, DiskImage, DiskRemove, DiskRename, DiskSizes, Finish, HypervisorCheck,
    INSTANCES_PER_NODE_MAX, InstanceAwaited, InstanceControl, InstanceFinish, InstancePlug,
    InstancePlugged, InstanceReceive, InstanceSeen, InstanceSend, InstanceStart, InstanceStop,
    RunSet, RunsEnded, StorageList, StorageSpace,
};
use rpc::{Failure, FailureKind};
use stdx::daemon::chain;
use virt::{Change, Order, Space, Storage, VirtError};

use super::Agent;

/// Directories that one call asks for: there are two kinds that have one.
const DIRECTORIES_MAX: usize = 16;

pub(super) fn failed(error: &VirtError) -> Failure {
    match error {
        VirtError::Copy { .. } => Failure::new(FailureKind::Copy, chain(error)),
        _ => Failure::failed(chain(error)),
    }
}

pub(super) fn seen(told: Result<(SightsKnown, Sight), VirtError>) -> Result<InstanceSeen, Failure> {
    told.map(|(known, sight)| InstanceSeen { known, sight }).map_err(|error| failed(&error))
}

impl Agent {
    pub(super) async fn instance_start(
        &self,
        call: InstanceStart,
    ) -> Result<InstanceSeen, Failure> {
        seen(self.instances.start_with(call.launch, call.key).await)
    }

    pub(super) async fn instance_stop(&self, call: InstanceStop) -> Result<InstanceSeen, Failure> {
        let InstanceStop { uuid, run, timeout_s, forget } = call;
        let within = Duration::from_secs(u64::from(timeout_s));
        seen(self.instances.stop(uuid, run, within, forget).await)
    }

    pub(super) async fn instance_control(
        &self,
        call: InstanceControl,
    ) -> Result<InstanceSeen, Failure> {
        let InstanceControl { uuid, run, control } = call;
        let order = match control {
            Control::Pause => Order::Pause,
            Control::Resume => Order::Resume,
            Control::Reset => Order::Reset,
            Control::Memory(memory) => Order::Memory(memory),
            Control::Processors(count) => Order::Processors(count),
        };
        seen(self.instances.order(uuid, run, order).await)
    }

    pub(super) async fn instance_plug(
        &self,
        call: InstancePlug,
    ) -> Result<InstancePlugged, Failure> {
        let InstancePlug { uuid, run, disks, nics, without } = call;
        let plugged = self.instances.plug(uuid, run, Change { disks, nics, without }).await;
        let ((known, sight), failed) = plugged.map_err(|error| self::failed(&error))?;
        Ok(InstancePlugged { seen: InstanceSeen { known, sight }, failed })
    }

    pub(super) async fn instance_receive(
        &self,
        call: InstanceReceive,
    ) -> Result<InstanceAwaited, Failure> {
        let place = self.instances.receive(call.launch).await;
        place.map(|place| InstanceAwaited { place }).map_err(|error| failed(&error))
    }

    pub(super) async fn instance_send(&self, call: InstanceSend) -> Result<InstanceSeen, Failure> {
        seen(self.instances.send(call.uuid, call.run).await)
    }

    pub(super) async fn instance_finish(
        &self,
        call: InstanceFinish,
    ) -> Result<InstanceSeen, Failure> {
        let InstanceFinish { uuid, run, finish } = call;
        match finish {
            Finish::Go => seen(self.instances.go(uuid, run).await),
            Finish::Drop => seen(self.instances.stop(uuid, run, Duration::ZERO, true).await),
        }
    }

    pub(super) async fn run_set(&self, call: RunSet) -> Result<RunsEnded, Failure> {
        if call.owned.len() > INSTANCES_PER_NODE_MAX {
            let text =
                format!("{} runs; a node has at most {INSTANCES_PER_NODE_MAX}", call.owned.len());
            return Err(Failure::failed(text));
        }
        let ended = self.instances.set(&call.owned).await;
        ended.map(|ended| RunsEnded { ended }).map_err(|error| failed(&error))
    }

    /// Looks whether a hypervisor takes parameters here.
    pub(super) fn hypervisor_check(&self, call: &HypervisorCheck) -> Result<(), Failure> {
        let checked = self.instances.check(&call.hypervisor, &call.hvparams);
        checked.map_err(|error| Failure::failed(chain(&error)))
    }

    pub(super) async fn console_read(&self, call: ConsoleRead) -> Result<ConsoleSaid, Failure> {
        let ConsoleRead { uuid, from, wait_ms } = call;
        let within = Duration::from_millis(wait_ms.min(CONSOLE_WAIT_MS_MAX).into());
        let said = self.instances.console_output(uuid, from, within).await;
        let said = said.map_err(|error| failed(&error))?;
        Ok(ConsoleSaid { offset: said.offset, data: STANDARD.encode(said.data) })
    }

    pub(super) async fn console_write(&self, call: ConsoleWrite) -> Result<(), Failure> {
        if call.input.len() > CONSOLE_INPUT_MAX {
            let text =
                format!("{} characters; at most {CONSOLE_INPUT_MAX} are typed", call.input.len());
            return Err(Failure::new(FailureKind::Malformed, text));
        }
        let input = STANDARD.decode(&call.input);
        let input =
            input.map_err(|error| Failure::new(FailureKind::Malformed, error.to_string()))?;
        let typed = self.instances.console_input(call.uuid, input).await;
        typed.map_err(|error| failed(&error))
    }

    pub(super) async fn disk_create(&self, call: DiskCreate) -> Result<(), Failure> {
        // A new file holds nothing but zeros: there is nothing to wipe.
        self.with_disks(call.disks, Storage::create).await.map(drop)
    }

    pub(super) async fn disk_image(&self, call: DiskImage) -> Result<(), Failure> {
        let DiskImage { disk, image } = call;
        let Some(image) = self.blobs.path_of(image) else {
            return Err(Failure::failed(format!("this node has no blob {image}")));
        };
        let write = move |storage: &Storage, disk: &_| storage.write_image(disk, &image);
        self.with_disks(vec![disk], write).await.map(drop)
    }

    pub(super) async fn disk_remove(&self, call: DiskRemove) -> Result<(), Failure> {
        self.with_disks(call.disks, Storage::remove).await.map(drop)
    }

    pub(super) async fn disk_grow(&self, call: DiskGrow) -> Result<(), Failure> {
        let DiskGrow { disk, size, dry_run } = call;
        let grow = move |storage: &Storage, disk: &_| storage.grow(disk, size, dry_run);
        self.with_disks(vec![disk], grow).await.map(drop)
    }

    pub(super) async fn disk_rename(&self, call: DiskRename) -> Result<(), Failure> {
        let (disks, paths): (Vec<_>, Vec<_>) = call.disks.into_iter().unzip();
        let mut paths = paths.into_iter();
        let rename = move |storage: &Storage, disk: &DiskLaunch| {
            paths.next().map_or(Ok(()), |path| storage.rename(disk, &path))
        };
        self.with_disks(disks, rename).await.map(drop)
    }

    pub(super) async fn disk_sizes(&self, call: DiskSizes) -> Result<Vec<Option<u64>>, Failure> {
        self.with_disks(call.disks, Storage::size).await
    }

    pub(super) async fn storage_list(
        &self,
        call: StorageList,
    ) -> Result<Vec<Option<StorageSpace>>, Failure> {
        if call.directories.len() > DIRECTORIES_MAX {
            let text = format!("{} directories; at most {DIRECTORIES_MAX}", call.directories.len());
            return Err(Failure::new(FailureKind::Malformed, text));
        }
        let storage = self.storage.clone();
        let look = move || -> Result<Vec<Option<StorageSpace>>, VirtError> {
            let told = call.directories.iter().map(|directory| {
                let space = storage.space(directory)?;
                Ok(space.map(|Space { total_mib, free_mib, used_mib }| StorageSpace {
                    total_mib,
                    free_mib,
                    used_mib,
                }))
            });
            told.collect()
        };
        let told = tokio::task::spawn_blocking(look).await;
        let told = told.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
        told.map_err(|error| failed(&error))
    }

    /// Does something with each disk, one after the other, up to the first that fails.
    pub(super) async fn with_disks<T: Send + 'static>(
        &self,
        disks: Vec<DiskLaunch>,
        mut work: impl FnMut(&Storage, &DiskLaunch) -> Result<T, VirtError> + Send + 'static,
    ) -> Result<Vec<T>, Failure> {
        let storage = self.storage.clone();
        let work = move || disks.iter().map(|disk| work(&storage, disk)).collect();
        let done = tokio::task::spawn_blocking(work).await;
        let done: Result<Vec<T>, VirtError> =
            done.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
        done.map_err(|error| failed(&error))
    }
}
