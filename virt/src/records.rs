//! The records of runs on disk, a file for each instance.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::Uuid;

use crate::VirtError;
use crate::runs::{INSTANCES_MAX, Record};

/// Mode of a record: it has parameters that are nobody's business.
const RECORD_MODE: u32 = 0o600;
/// How much of a record is read: far more than the longest.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;

/// A directory of records.
#[derive(Debug, Clone)]
pub(crate) struct Records(PathBuf);

impl Records {
    /// Those in `directory`, which is made where it is not there.
    pub(crate) fn open(directory: PathBuf) -> Result<Self, VirtError> {
        fs::create_dir_all(&directory).map_err(io("make the directory", &directory))?;
        Ok(Self(directory))
    }

    fn path(&self, uuid: Uuid) -> PathBuf {
        self.0.join(format!("{uuid}.json"))
    }

    /// All of them. A file that does not read ends the search: what it is about may live.
    pub(crate) fn all(&self) -> Result<Vec<Record>, VirtError> {
        let mut records = Vec::new();
        let entries = fs::read_dir(&self.0).map_err(io("list", &self.0))?;
        for entry in entries {
            let path = entry.map_err(io("list", &self.0))?.path();
            let is_record = path.extension().is_some_and(|end| end == "json")
                && path.file_stem().and_then(|stem| stem.to_str()?.parse::<Uuid>().ok()).is_some();
            if !is_record {
                continue;
            }
            let size = fs::metadata(&path).map_err(io("look at", &path))?.len();
            if size > RECORD_BYTES_MAX || records.len() > 2 * INSTANCES_MAX {
                let error = io::Error::other("it is too long, or there are too many");
                return Err(VirtError::Io { what: "take the record", path, error });
            }
            let content = fs::read(&path).map_err(io("read", &path))?;
            let record = serde_json::from_slice(&content)
                .map_err(|error| VirtError::Record { path, error })?;
            records.push(record);
        }
        Ok(records)
    }

    /// Makes a record durable.
    pub(crate) fn write(&self, record: &Record) -> Result<(), VirtError> {
        let path = self.path(record.uuid);
        let content = serde_json::to_vec(record)
            .map_err(|error| VirtError::Record { path: path.clone(), error })?;
        stdx::atomic::write(&path, &content, RECORD_MODE).map_err(io("write", &path))
    }

    /// Removes a record, durably.
    pub(crate) fn remove(&self, uuid: Uuid) -> Result<(), VirtError> {
        let path = self.path(uuid);
        match fs::remove_file(&path) {
            Ok(()) => stdx::atomic::sync_parent(&path).map_err(io("remove", &path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io("remove", &path)(error)),
        }
    }
}

/// The error of doing something to a path.
pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> VirtError {
    let path = path.to_owned();
    move |error| VirtError::Io { what, path, error }
}
