//! Looks at what the agent needs on its disk: room for leases, the boot loader, and the files that its
//! rack documents name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use blobs::Blobs;
use model::blob::Blob;
use model::rack::{BootChoice, RackDocument};
use model::rack_fault::{RackCause, RackFault};
use queue_format::Health;
use stdx::file_system::{Space, space};
use tokio::sync::watch;

use super::Racks;
use crate::ledger::Ledger;

/// Between two looks: what is missing is told within seconds, and a look reads no file.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The directory of the package with the boot loader.
const PACKAGED: &str = "/usr/lib/ipxe";
/// The loader that every machine can be given.
const USUAL_LOADER: &str = "snponly.efi";

/// The things that are looked at.
#[derive(Debug)]
pub struct Looked {
    /// The documents, and where faults go.
    pub racks: Arc<Racks>,
    /// The files.
    pub blobs: Arc<Blobs>,
    /// Leases.
    pub ledger: Arc<Ledger>,
    /// The directory of the ledger.
    pub data: PathBuf,
    /// The boot loader.
    pub loader: PathBuf,
}

/// Looks again and again, until `stopped`.
pub async fn look_at_disk(looked: Looked, mut stopped: watch::Receiver<bool>) {
    looked.racks.set_disk(mount_of(&looked.data));
    let looked = Arc::new(looked);
    let mut changed = looked.racks.watch();
    loop {
        changed.mark_unchanged();
        let now = Arc::clone(&looked);
        match stdx::apart(move || now.faults()).await {
            Ok(faults) => looked.racks.set_looked(faults),
            Err(error) => tracing::error!(%error, "the disk was not looked at"),
        }
        tokio::select! {
            _ = changed.changed() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
    }
}

impl Looked {
    fn faults(&self) -> Vec<RackFault> {
        let documents = self.racks.all();
        if documents.is_empty() {
            return Vec::new();
        }
        let disk = disk_fault(&self.data, &self.ledger.health(), space(&self.data).ok());
        let files = files_fault(&documents, &self.blobs);
        disk.into_iter().chain(loader_fault(&self.loader)).chain(files).collect()
    }
}

/// Why the disk takes no leases, if it takes none.
fn disk_fault(data: &Path, health: &Health, space: Option<Space>) -> Option<RackFault> {
    let text = match (health, space) {
        (Health::DiskFull { path, reason, .. }, _) => {
            format!("the disk takes no files: `{}`: {reason}", path.display())
        }
        (_, Some(Space { total_mib, free_mib: 0 })) => {
            format!("the disk of {} is full: 0 of {total_mib} MiB are free", data.display())
        }
        _ => return None,
    };
    let mount = mount_of(data);
    Some(RackCause::DiskFull.fault(text, &[("MOUNT", &mount.to_string_lossy())]))
}

/// The place at which the file system of `path` is mounted.
fn mount_of(path: &Path) -> &Path {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let own = device(path);
    let same = path.ancestors().take_while(|above| device(above) == own);
    same.last().unwrap_or(path)
}

/// Why the loader at `path` cannot be served, if it cannot.
pub(super) fn loader_fault(path: &Path) -> Option<RackFault> {
    let length = File::open(path).and_then(|file| file.metadata());
    let why = match length {
        Ok(found) if found.is_file() && found.len() > 0 => return None,
        Ok(_) => "is no file with a program".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "is missing".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
    };
    let text = format!("the boot loader {} {why}", path.display());
    if path.starts_with(PACKAGED) {
        return Some(RackCause::LoaderMissing.fault(text, &[]));
    }
    let name = path.file_name().map_or(USUAL_LOADER.as_ref(), Path::new);
    let packaged = Path::new(PACKAGED).join(name);
    let packaged =
        if packaged.exists() { packaged } else { Path::new(PACKAGED).join(USUAL_LOADER) };
    let (loader, file) = (packaged.to_string_lossy(), path.to_string_lossy());
    Some(RackCause::LoaderMisplaced.fault(text, &[("LOADER", &loader), ("FILE", &file)]))
}

/// Which files of images and assets are not here, if any are not.
fn files_fault(documents: &[Arc<RackDocument>], blobs: &Blobs) -> Option<RackFault> {
    let is_here = |blob: Blob| blobs.held(blob) == blob.size;
    let machines = documents.iter().flat_map(|document| &document.machines);
    let images: BTreeMap<_, _> = machines
        .filter_map(|machine| match &machine.boot {
            BootChoice::Image { id, files, .. } => Some((id, files)),
            BootChoice::Local => None,
        })
        .collect();
    let images = images.iter().filter(|(_, files)| !files.blobs().all(is_here));
    let images = images.map(|(id, _)| ("image", id.to_string()));
    let assets = documents.iter().flat_map(|document| &document.assets);
    let assets = assets.filter(|asset| !is_here(asset.blob));
    let assets = assets.map(|asset| ("asset", asset.name.to_string()));
    let lacking: BTreeSet<(&str, String)> = images.chain(assets).collect();
    let (kind, name) = lacking.first()?;
    let more = match lacking.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!("files of {kind} {name}{more} are not here; the master sends them");
    Some(RackCause::FileMissing.fault(text, &[("KIND", kind), ("NAME", name)]))
}

#[cfg(test)]
mod tests {
    use model::image::ImageFiles;

    use super::*;
    use crate::testing::rack;

    #[test]
    fn a_disk_without_room_is_named_with_its_mount() {
        let here = std::env::temp_dir();
        let room = |free_mib| Some(Space { total_mib: 64, free_mib });
        assert_eq!(disk_fault(&here, &Health::Good, room(1)), None);
        assert_eq!(disk_fault(&here, &Health::Good, None), None);
        let full = disk_fault(&here, &Health::Good, room(0)).unwrap();
        assert_eq!(full.cause, RackCause::DiskFull);
        assert!(
            full.text.contains("0 of 64 MiB") && full.remedy.contains("du -xhd3 /"),
            "{full:?}"
        );
        let (path, reason) = (here.join("x"), "No space left".to_owned());
        let since = std::time::Instant::now();
        let met = Health::DiskFull { path, since, reason };
        assert!(disk_fault(&here, &met, room(9)).unwrap().text.contains("No space left"));
    }

    #[test]
    fn a_loader_that_cannot_be_served_has_its_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snponly.efi");
        let missing = loader_fault(&path).unwrap();
        assert_eq!(missing.cause, RackCause::LoaderMisplaced);
        let copied = format!("install -D /usr/lib/ipxe/snponly.efi {}`", path.display());
        assert!(missing.remedy.contains(&copied), "{missing:?}");
        std::fs::create_dir(&path).unwrap();
        assert!(loader_fault(&path).is_some(), "a directory");
        std::fs::remove_dir(&path).unwrap();
        stdx::atomic::write(&path, b"", 0o600).unwrap();
        assert!(loader_fault(&path).is_some(), "an empty file");
        stdx::atomic::write(&path, b"MZ", 0o600).unwrap();
        assert_eq!(loader_fault(&path), None);
        let packaged = loader_fault(Path::new("/usr/lib/ipxe/never.efi")).unwrap();
        assert_eq!(packaged.cause, RackCause::LoaderMissing);
    }

    #[test]
    fn files_that_a_document_names_and_that_are_gone_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(dir.path(), 1 << 20).unwrap();
        let blob = |content: &[u8]| {
            let mut hasher = blobs::Hasher::default();
            hasher.update(content);
            let blob: Blob = hasher.finish();
            blobs.append(blob, 0, content).unwrap();
            blob
        };
        let (kernel, initrd) = (blob(b"kernel"), blob(b"initrd"));
        let mut document = rack(0, 1);
        assert_eq!(files_fault(&[Arc::new(document.clone())], &blobs), None);
        document.machines[0].boot = BootChoice::Image {
            id: "debian/12".parse().unwrap(),
            files: ImageFiles::Linux { kernel, initrds: vec![initrd] },
            parameters: Vec::new(),
        };
        let documents = [Arc::new(document)];
        assert_eq!(files_fault(&documents, &blobs), None);
        std::fs::remove_file(blobs.path_of(initrd.sha256).unwrap()).unwrap();
        let fault = files_fault(&documents, &blobs).unwrap();
        assert_eq!(fault.cause, RackCause::FileMissing);
        assert!(fault.remedy.contains("`gnt image upload debian/12`"), "{fault:?}");
        blobs.append(initrd, 0, b"initrd").unwrap();
        assert_eq!(files_fault(&documents, &blobs), None);
    }
}
