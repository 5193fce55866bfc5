//! Copies of disks that this node serves to runs of other nodes: one process for each instance. `rules` say
//! to which run, `daemon` starts the process.
//!
//! A newer run is served by a new process, and only when the old one is gone: so whoever was cut off writes no
//! copy any more.

mod daemon;
mod rules;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use model::instance::launch::{DiskLaunch, ReplicaKey};
use model::{InstanceName, Uuid};
use parking_lot::Mutex;
use stdx::Tasks;
use stdx::process::Process;

use crate::keys::Keys;
use crate::records::io as failed;
use crate::runs::INSTANCES_MAX;
use crate::{Paths, Storage, VirtError, kvm};
use rules::{Served, Serving, Verdict, judge, may_begin};

/// Mode of a record.
const RECORD_MODE: u32 = 0o600;
/// Records that are kept: those of copies that are not served any more go first.
const RECORDS_MAX: usize = 2 * INSTANCES_MAX;
/// How long the log of a process may become: it has a line for each connection that fails.
const LOG_BYTES_MAX: u64 = 64 * 1024;

/// An order to serve the copies of an instance's disks to a run that lives elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Copies {
    pub uuid: Uuid,
    pub name: InstanceName,
    pub run: u64,
    pub disks: Vec<DiskLaunch>,
    pub key: ReplicaKey,
}

/// The copies that this node serves. A caller that works on an instance's has the instance's turn.
#[derive(Debug)]
pub(crate) struct Replicas {
    directory: PathBuf,
    records: Mutex<BTreeMap<Uuid, Served>>,
    keys: Keys,
    storage: Storage,
    program: PathBuf,
    agent: PathBuf,
    boot_id: String,
    tasks: Tasks,
}

fn key_name(uuid: Uuid) -> String {
    format!("serve-{uuid}")
}

impl Replicas {
    /// Those of the records at these paths; records of other boots go. A process that was left half begun is
    /// ended.
    ///
    /// # Errors
    /// A record does not read, or a process does not end.
    pub(crate) fn open(
        paths: &Paths,
        boot_id: String,
        storage: Storage,
        tasks: Tasks,
    ) -> Result<Self, VirtError> {
        let directory = paths.records.join("served");
        fs::create_dir_all(&directory).map_err(failed("make the directory", &directory))?;
        let replicas = Self {
            records: Mutex::default(),
            keys: Keys::new(paths.keys.clone()),
            storage,
            program: paths.storage_daemon.clone(),
            agent: paths.agent.clone(),
            boot_id,
            tasks,
            directory,
        };
        for entry in
            fs::read_dir(&replicas.directory).map_err(failed("list", &replicas.directory))?
        {
            let path = entry.map_err(failed("list", &replicas.directory))?.path();
            if path.extension().is_none_or(|end| end != "json") {
                continue;
            }
            let content = fs::read(&path).map_err(failed("read", &path))?;
            let mut served: Served = serde_json::from_slice(&content)
                .map_err(|error| VirtError::Record { path, error })?;
            if served.boot_id != replicas.boot_id {
                replicas.forget(&served)?;
                continue;
            }
            if served.serving == Serving::Begins {
                daemon::kill_unnoted(served.uuid).map_err(failed("end", &replicas.program))?;
                served.serving = Serving::Not;
            }
            if !served.is_live() {
                replicas.keys.remove(&key_name(served.uuid));
            }
            replicas.put(served)?;
        }
        Ok(replicas)
    }

    fn path(&self, uuid: Uuid, ending: &str) -> PathBuf {
        self.directory.join(format!("{uuid}.{ending}"))
    }

    /// Looks whether a run may begin on this node, and ends what serves copies to an older one elsewhere.
    ///
    /// # Errors
    /// Copies are served to a run that is not below, or their process does not end.
    pub(crate) async fn give_way(&self, uuid: Uuid, run: u64) -> Result<(), VirtError> {
        match self.get(uuid) {
            Some(known) if may_begin(Some(&known), run)? => self.end(known).await,
            _ => Ok(()),
        }
    }

    fn get(&self, uuid: Uuid) -> Option<Served> {
        self.records.lock().get(&uuid).cloned()
    }

    /// Makes a record durable, then visible.
    fn put(&self, served: Served) -> Result<(), VirtError> {
        let path = self.path(served.uuid, "json");
        let content = serde_json::to_vec(&served)
            .map_err(|error| VirtError::Record { path: path.clone(), error })?;
        stdx::aside(|| stdx::atomic::write(&path, &content, RECORD_MODE))
            .map_err(failed("write", &path))?;
        self.records.lock().insert(served.uuid, served);
        Ok(())
    }

    /// Removes all that is left of copies which are not served.
    fn forget(&self, served: &Served) -> Result<(), VirtError> {
        self.keys.remove(&key_name(served.uuid));
        for ending in ["log", "json"] {
            let path = self.path(served.uuid, ending);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", &path)(error));
                }
                _ => {}
            }
        }
        self.records.lock().remove(&served.uuid);
        Ok(())
    }

    /// Serves copies as ordered; gives the port.
    ///
    /// # Errors
    /// A newer run was served, a disk is not there or has another size, or no process serves them.
    pub(crate) async fn serve(&self, order: Copies) -> Result<u16, VirtError> {
        let known = self.get(order.uuid);
        let has_key = self.keys.has(&key_name(order.uuid), &order.key);
        let verdict = judge(known.as_ref(), order.run, &order.disks, has_key)?;
        // A process that nobody uses may hang, or still have writes of a connection that was given up: they are
        // not to come after those of the next one. So another process takes its place, and its port.
        let had = match verdict {
            Verdict::Is(port) if stdx::aside(|| daemon::is_used(port)) => return Ok(port),
            Verdict::Is(port) => Some(port),
            Verdict::Begin => None,
        };
        stdx::aside(|| order.disks.iter().try_for_each(|disk| self.fits(disk)))?;
        if let Some(known) = known {
            self.end(known).await?;
        }
        self.make_room()?;
        let Copies { uuid, name, run, disks, key } = order;
        let boot_id = self.boot_id.clone();
        let served = Served { uuid, name, run, boot_id, disks, serving: Serving::Begins };
        self.put(served.clone())?;
        match self.begin(&served, &key, had).await {
            Ok((process, port)) => {
                self.put(Served { serving: Serving::By { process, port }, ..served })?;
                Ok(port)
            }
            Err(error) => {
                self.end(served).await?;
                Err(error)
            }
        }
    }

    /// Refuses a disk that is not there as it is to be.
    fn fits(&self, disk: &DiskLaunch) -> Result<(), VirtError> {
        let path = || disk.place.path().to_owned();
        match self.storage.size(disk)? {
            Some(has) if has == disk.size => Ok(()),
            Some(has) => Err(VirtError::DiskSize { path: path(), has, wanted: disk.size }),
            None => Err(VirtError::NoDisk { path: path() }),
        }
    }

    /// Starts a process, at the port that was `had` if that is free.
    async fn begin(
        &self,
        served: &Served,
        key: &ReplicaKey,
        had: Option<u16>,
    ) -> Result<(Process, u16), VirtError> {
        let user = kvm::shared_user()?;
        let mut started = stdx::aside(|| {
            let key = self.keys.put(&key_name(served.uuid), key, user.0)?;
            daemon::start(&daemon::Wanted {
                program: &self.program,
                agent: &self.agent,
                storage: &self.storage,
                uuid: served.uuid,
                disks: &served.disks,
                key: &key,
                log: self.path(served.uuid, "log"),
                user,
                port: had,
            })
        })?;
        let process = Process::of(started.child.id());
        let ready = started.is_ready().await;
        let port = started.port;
        let mut child = started.child;
        self.tasks.spawn("end of a process that serves copies", async move {
            if let Some(process) = process
                && let Err(error) = process.ended().await
            {
                tracing::warn!(%error, "nobody tells whether a process that serves copies has ended");
            }
            match stdx::aside(|| child.wait()) {
                Ok(status) => tracing::info!(%status, "a process that served copies has ended"),
                Err(error) => tracing::warn!(%error, "nobody tells how a process ended"),
            }
        });
        let refused = |why| VirtError::Refused {
            what: "serve copies of disks of",
            name: served.name.clone(),
            why,
        };
        match (process, ready) {
            (Some(process), Ok(())) => Ok((process, port)),
            (_, Err(why)) => Err(refused(why)),
            (None, Ok(())) => Err(refused("its process has ended".to_owned())),
        }
    }

    /// Serves copies no more to runs up to `run`.
    ///
    /// # Errors
    /// The process that serves them does not end.
    pub(crate) async fn drop_up_to(&self, uuid: Uuid, run: u64) -> Result<(), VirtError> {
        match self.get(uuid) {
            Some(known) if known.run <= run => self.end(Served { run, ..known }).await,
            _ => Ok(()),
        }
    }

    /// Ends whatever serves copies, and takes back what it was given.
    async fn end(&self, known: Served) -> Result<(), VirtError> {
        let lives = || failed("end", &self.program);
        let processes = match known.serving {
            Serving::Not => Vec::new(),
            Serving::Begins => daemon::kill_unnoted(known.uuid).map_err(lives())?,
            Serving::By { process, .. } => vec![process],
        };
        for process in processes {
            kvm::kill(process).await.map_err(lives())?;
        }
        self.keys.remove(&key_name(known.uuid));
        stdx::aside(|| {
            for disk in &known.disks {
                // It may have been removed.
                if let Err(error) = daemon::lent(&self.storage, disk, None) {
                    tracing::debug!(%error, "a copy of a disk is as it was");
                }
            }
        });
        self.put(Served { serving: Serving::Not, ..known })
    }

    /// Forgets the oldest runs of copies that are not served, where there are too many.
    fn make_room(&self) -> Result<(), VirtError> {
        let all: Vec<Served> = {
            let records = self.records.lock();
            if records.len() < RECORDS_MAX {
                return Ok(());
            }
            records.values().cloned().collect()
        };
        match all.iter().filter(|one| !one.is_live()).min_by_key(|one| one.run) {
            Some(oldest) => self.forget(oldest),
            None => Err(VirtError::Full(RECORDS_MAX)),
        }
    }

    /// Cuts logs that are too long.
    pub(crate) fn cut_logs(&self) {
        let all: Vec<Uuid> = self.records.lock().keys().copied().collect();
        for uuid in all {
            let path = self.path(uuid, "log");
            let is_long = fs::metadata(&path).is_ok_and(|log| log.len() > LOG_BYTES_MAX);
            if is_long && let Err(error) = fs::File::create(&path) {
                tracing::warn!(path = %path.display(), %error, "a log is not cut");
            }
        }
    }
}
