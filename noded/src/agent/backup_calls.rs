//! Calls on exports of instances, and on the content of disks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rpc::calls::{
    ExportAbandon, ExportBegin, ExportDescribe, ExportFinish, ExportRemove, ExportSnapshot,
    VOLUME_PIECE_BYTES, Volume, VolumeCopy, VolumePiece, VolumeRead, VolumeWrite,
};
use rpc::{Failure, FailureKind};
use stdx::daemon::chain;
use virt::{Exports, Storage, VirtError};

use super::Agent;

fn volume(asked: &Volume) -> virt::Volume<'_> {
    match asked {
        Volume::Disk(disk) => virt::Volume::Disk(disk),
        Volume::Export { name, file, whole } => virt::Volume::Export { name, file, whole: *whole },
    }
}

impl Agent {
    /// Does something with exports and disks, on a thread that may wait.
    async fn with_exports<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Exports, &Storage) -> Result<T, VirtError> + Send + 'static,
    ) -> Result<T, Failure> {
        let (exports, storage) = (self.exports.clone(), self.storage.clone());
        let done = tokio::task::spawn_blocking(move || work(&exports, &storage)).await;
        let done = done.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
        done.map_err(|error| Failure::failed(chain(&error)))
    }

    pub(super) async fn volume_read(&self, call: VolumeRead) -> Result<VolumePiece, Failure> {
        self.with_exports(move |exports, storage| {
            let asked = volume(&call.volume);
            let piece = exports.read(storage, asked, call.offset, VOLUME_PIECE_BYTES)?;
            let data = STANDARD.encode(piece.data);
            Ok(VolumePiece { offset: piece.offset, data, size: piece.size })
        })
        .await
    }

    pub(super) async fn volume_write(&self, call: VolumeWrite) -> Result<(), Failure> {
        if call.data.len() > VOLUME_PIECE_BYTES {
            let text =
                format!("{} bytes; a piece has at most {VOLUME_PIECE_BYTES}", call.data.len());
            return Err(Failure::new(FailureKind::Malformed, text));
        }
        self.with_exports(move |exports, storage| {
            exports.write(storage, volume(&call.volume), call.offset, &call.data)
        })
        .await
    }

    pub(super) async fn volume_copy(&self, call: VolumeCopy) -> Result<(), Failure> {
        self.with_exports(move |exports, storage| {
            exports.copy(storage, volume(&call.from), volume(&call.to))
        })
        .await
    }

    pub(super) async fn export_begin(&self, call: ExportBegin) -> Result<(), Failure> {
        self.with_exports(move |exports, _| exports.begin(&call.name)).await
    }

    pub(super) async fn export_finish(&self, call: ExportFinish) -> Result<(), Failure> {
        self.with_exports(move |exports, _| exports.finish(&call.name, &call.description)).await
    }

    pub(super) async fn export_describe(&self, call: ExportDescribe) -> Result<String, Failure> {
        self.with_exports(move |exports, _| exports.description(&call.name)).await
    }

    pub(super) async fn export_snapshot(&self, call: ExportSnapshot) -> Result<(), Failure> {
        let ExportSnapshot { name, uuid, run, disks } = call;
        let open = move |exports: &Exports, storage: &Storage| {
            disks
                .iter()
                .map(|(disk, file)| Ok((*disk, exports.file(storage, &name, file)?)))
                .collect::<Result<Vec<_>, VirtError>>()
        };
        let files = self.with_exports(open).await?;
        let copied = self.instances.snapshot(uuid, run, files).await;
        copied.map(drop).map_err(|error| Failure::failed(chain(&error)))
    }

    pub(super) async fn export_abandon(&self, call: ExportAbandon) -> Result<(), Failure> {
        self.with_exports(move |exports, _| exports.abandon(&call.name)).await
    }

    pub(super) async fn export_remove(&self, call: ExportRemove) -> Result<bool, Failure> {
        self.with_exports(move |exports, _| exports.remove(&call.name)).await
    }
}
