//! The hypervisors `xen-pvm` and `xen-hvm`: domains of Xen, by its program `xl`.
//!
//! [`config`] makes the configuration of a launch, with the `cards` in it, and [`list`] reads which domains
//! there are. The shell `xl` runs the program. An instance is known again by its UUID, which its domain has
//! from its first moment on; numbers of domains are used for single orders.
//!
//! The program's words may be odd, late, or lies. So only a list that reads through counts, and a domain is
//! gone only when several lists in a row lack it and `xl domid` does not know it either.

mod cards;
pub(crate) mod config;
pub(crate) mod list;
mod xl;

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::instance::disk::DiskMode;
use model::instance::launch::Launch;
use model::instance::parameters::Parameters;
use model::{InstanceName, Uuid};
use stdx::process::Process;
use tokio::time::{Instant, sleep, timeout};

use crate::kvm::Filled;
use crate::kvm::nics::Nics;
use crate::kvm::plan::PlanError;
use crate::records::io as failed;
use crate::{Order, Storage, VirtError};
use list::{Domains, Life};
pub(crate) use xl::{Xl, XlError};

/// Mode of a configuration and of a seed: they may hold what nobody else is to know.
const CONFIG_MODE: u32 = 0o600;
/// Lists in a row that lack a domain before it counts as gone: a single odd one ends nothing.
const GONE_LOOKS: u32 = 3;
/// The pause between two looks at the list: a look takes some 10 ms of the host's processor.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// How long Xen may take a destroyed domain apart: it waits for what its disks still have.
const DESTROYED: Duration = Duration::from_secs(30);
/// How long a guest may take to begin its restart after it was asked. Then it is restarted all the same.
const REBOOT: Duration = Duration::from_secs(30);

/// Whether a hypervisor is one of Xen.
pub(crate) fn is_xen(hypervisor: &str) -> bool {
    matches!(hypervisor, "xen-pvm" | "xen-hvm")
}

/// The hypervisor; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Xen {
    xl: Xl,
    /// The directory of the records.
    directory: PathBuf,
    storage: Storage,
    nics: Nics,
}

impl Xen {
    /// One by the program `xl`, with its files in `directory`.
    pub(crate) fn new(xl: Xl, directory: PathBuf, storage: Storage, nics: Nics) -> Self {
        Self { xl, directory, storage, nics }
    }

    fn path(&self, uuid: Uuid, ending: &str) -> PathBuf {
        self.directory.join(format!("{uuid}.{ending}"))
    }

    /// The program.
    pub(crate) fn xl(&self) -> &Xl {
        &self.xl
    }

    /// The domains of this node.
    pub(crate) async fn list(&self) -> Result<Domains, XlError> {
        self.xl.list().await
    }

    /// Starts a guest: it runs, or stands still where the launch says so.
    ///
    /// # Errors
    /// It does not start; [`Self::destroy`] removes what is left of it.
    pub(crate) async fn start(&self, launch: &Launch) -> Result<(), VirtError> {
        let uuid = launch.uuid;
        let refused = |why: &dyn Display| VirtError::Refused {
            what: "start",
            name: launch.name.clone(),
            why: why.to_string(),
        };
        let seed = stdx::aside(|| self.write_seed(launch))?;
        let text = config::config(launch, seed.as_deref()).map_err(|error| refused(&error))?;
        let path = self.path(uuid, "xl");
        stdx::aside(|| {
            for disk in &launch.disks {
                self.storage.open(disk, disk.mode == DiskMode::ReadWrite)?;
            }
            stdx::atomic::write(&path, text.as_bytes(), CONFIG_MODE).map_err(failed("write", &path))
        })?;
        // The record says that nothing of it lives: a domain that is there all the same is nobody's.
        if !self.list().await.map_err(|error| refused(&error))?.of(uuid).is_empty() {
            tracing::warn!(instance = %launch.name, "a domain of no run is destroyed");
            self.destroy(uuid, &launch.name).await.map_err(|error| refused(&error))?;
        }
        self.xl.create(&path).await.map_err(|error| refused(&error))?;
        // It stands still until its cards have their filters.
        self.guard(launch).await.map_err(|error| refused(&error))?;
        if !launch.paused {
            self.tell(uuid, &["unpause"], None).await.map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    /// Writes the disk that tells a guest who it is, where it gets one.
    fn write_seed(&self, launch: &Launch) -> Result<Option<PathBuf>, VirtError> {
        let Some(seed) = &launch.seed else { return Ok(None) };
        let path = self.path(launch.uuid, "seed");
        let seed = crate::seed::disk(seed).map_err(failed("make", &path))?;
        stdx::atomic::write(&path, &seed, CONFIG_MODE).map_err(failed("write", &path))?;
        Ok(Some(path))
    }

    /// Gives the cards of a guest their filters.
    pub(crate) async fn guard(&self, launch: &Launch) -> Result<(), String> {
        for nic in &launch.nics {
            self.nics.guard(nic, &interfaces(launch, nic)).await?;
        }
        Ok(())
    }

    /// Removes what is left of the cards of a guest that has ended.
    pub(crate) async fn unguard(&self, launch: &Launch) {
        let all = launch.nics.iter().flat_map(|nic| interfaces(launch, nic));
        self.nics.unguard(&launch.name, all.collect()).await;
    }

    /// Gives a domain an order: a word of `xl`, the domain's number, and what comes behind it.
    async fn tell(&self, uuid: Uuid, words: &[&str], last: Option<String>) -> Result<(), XlError> {
        let found = self.list().await?.of(uuid);
        let lives = |life| matches!(life, Life::Running | Life::Paused);
        let domain = found.first().filter(|domain| lives(domain.life)).ok_or(XlError::NoDomain)?;
        self.xl.tell(words, domain.id, last.as_deref()).await
    }

    /// Gives a guest an order. A reset asks it to restart: its domain is kept when it has ended.
    ///
    /// # Errors
    /// Nothing of it lives, or `xl` fails.
    pub(crate) async fn order(&self, uuid: Uuid, order: Order) -> Result<(), XlError> {
        match order {
            Order::Pause => self.tell(uuid, &["pause"], None).await,
            Order::Resume => self.tell(uuid, &["unpause"], None).await,
            Order::Memory(mib) => self.tell(uuid, &["mem-set"], Some(format!("{mib}m"))).await,
            Order::Processors(count) => {
                self.tell(uuid, &["vcpu-set"], Some(count.to_string())).await
            }
            Order::Reset => {
                self.ask_to_end(uuid, "reboot", REBOOT).await;
                Ok(())
            }
        }
    }

    /// Asks a guest to switch itself off, and waits until it has, or its time is over.
    pub(crate) async fn shut_down(&self, uuid: Uuid, within: Duration) {
        if !within.is_zero() {
            self.ask_to_end(uuid, "shutdown", within).await;
        }
    }

    /// Asks a guest to end, by its driver or by its power button. Its caller ends one that takes no notice.
    async fn ask_to_end(&self, uuid: Uuid, how: &str, within: Duration) {
        let ask = async {
            // A guest that stands still hears nothing.
            self.tell(uuid, &["unpause"], None).await?;
            self.tell(uuid, &[how, "-F"], None).await?;
            loop {
                let ended = |life| matches!(life, Life::Ended(_) | Life::Dying);
                match self.list().await {
                    Ok(list) if list.of(uuid).iter().all(|domain| ended(domain.life)) => {
                        return Ok(());
                    }
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%uuid, %error, "xl does not tell of a guest"),
                }
                sleep(BETWEEN_LOOKS).await;
            }
        };
        let asked: Result<Result<(), XlError>, _> = timeout(within, ask).await;
        if let Ok(Err(error)) = asked {
            tracing::info!(%uuid, %error, "the guest cannot be asked to end");
        }
    }

    /// Whether nothing of an instance is left, by all that `xl` says.
    ///
    /// # Errors
    /// It says nothing that one can build on.
    pub(crate) async fn is_gone(&self, uuid: Uuid, name: &InstanceName) -> Result<bool, XlError> {
        let mut list = Domains::default();
        for look in 0..GONE_LOOKS {
            if look > 0 {
                sleep(BETWEEN_LOOKS).await;
            }
            list = self.list().await?;
            if !list.of(uuid).is_empty() {
                return Ok(false);
            }
        }
        // A domain of that name may be somebody else's: then the list has it, with another UUID.
        let id = self.xl.domid(name).await?;
        Ok(id.is_none_or(|id| list.has(id)))
    }

    /// Ends all domains of an instance, and waits until they are gone.
    ///
    /// # Errors
    /// Something of it may still live.
    pub(crate) async fn destroy(&self, uuid: Uuid, name: &InstanceName) -> Result<(), XlError> {
        let deadline = Instant::now() + DESTROYED;
        let mut last: Option<XlError> = None;
        loop {
            let round = async {
                let found = self.list().await?.of(uuid);
                for domain in found.iter().filter(|domain| domain.life != Life::Dying) {
                    self.xl.tell(&["destroy"], domain.id, None).await?;
                }
                Ok(found.is_empty() && self.is_gone(uuid, name).await?)
            };
            match round.await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => last = Some(error),
            }
            if Instant::now() >= deadline {
                return Err(XlError::Stays(last.map(|error| error.to_string())));
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Ends every `xl` that still creates a domain of an instance: it was started by an agent that ended.
    ///
    /// # Errors
    /// One of them cannot be killed.
    pub(crate) fn end_creators(&self, uuid: Uuid) -> io::Result<()> {
        let path = self.path(uuid, "xl").display().to_string();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(process) = pid.and_then(Process::of) else { continue };
            // A process that has ended meanwhile has no words.
            let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let has = |word: &str| words.split(|byte| *byte == 0).any(|one| one == word.as_bytes());
            if has("create") && has(&path) {
                tracing::warn!(%uuid, pid, "an xl that an earlier agent started is ended");
                process.kill()?;
            }
        }
        Ok(())
    }

    /// Removes the files of an instance that the node forgets.
    pub(crate) fn forget(&self, uuid: Uuid) {
        let path = self.path(uuid, "xl");
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%uuid, %error, "the configuration of a domain stays");
            }
            _ => {}
        }
    }
}

/// The interfaces of a card of an instance.
fn interfaces(launch: &Launch, nic: &model::instance::launch::NicLaunch) -> Vec<String> {
    cards::interfaces(nic, Filled(&launch.hvparams), launch.hypervisor == "xen-hvm")
}

/// Looks whether guests with these parameters start here.
///
/// # Errors
/// A parameter has a value with which none does.
pub(crate) fn check(name: &str, parameters: &Parameters) -> Result<(), PlanError> {
    let parameters = Filled(parameters);
    let is_hvm = name == "xen-hvm";
    config::known(parameters, is_hvm)?;
    let names: &[&'static str] = match (is_hvm, parameters.flag("use_bootloader")) {
        (true, _) => &["cdrom_image_path"],
        (false, true) => &["bootloader_path"],
        (false, false) => &["kernel_path", "initrd_path"],
    };
    for name in names {
        let path = parameters.text(name);
        if !path.is_empty() && !Path::new(path).is_file() {
            return Err(PlanError::new(name, format!("there is no file {path} on this node")));
        }
    }
    Ok(())
}
