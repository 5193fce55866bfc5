//! The files that keep a host's network over restarts: those of the agent, and those of the host.

use std::path::{Path, PathBuf};

use hostnet::{Format, RenderedFile};
use model::host::HostNetwork;
use stdx::daemon::chain;

/// The file that keeps what was committed last.
const COMMITTED: &str = "committed.json";
/// The directory of systemd-networkd's units, and the beginning of our units' names.
const NETWORKD: &str = "etc/systemd/network";
const NETWORKD_PREFIX: &str = "10-gantry-";
/// Mode of the files of the distribution: those of NetworkManager and netplan may hold secrets.
const MODE_MAX: u32 = 0o644;

/// The agent's own file, and those of the distribution.
#[derive(Debug, Clone)]
pub(super) struct Files {
    /// The directory of the agent's own file.
    pub(super) directory: PathBuf,
    /// The root of the distribution's files.
    pub(super) root: PathBuf,
}

impl Files {
    /// The network that was committed last; none without one, or where it cannot be read any more.
    pub(super) fn committed(&self) -> Option<HostNetwork> {
        let path = self.directory.join(COMMITTED);
        let bytes = std::fs::read(&path).ok()?;
        let read: Result<HostNetwork, _> = serde_json::from_slice(&bytes);
        let read =
            read.inspect_err(|error| tracing::warn!(path = %path.display(), %error, "passed over"));
        // It was carried out when this was written: a link of that name is somebody else's now.
        read.ok().map(|network| HostNetwork { absent: Vec::new(), ..network })
    }

    /// Whether the next start of the agent or the host would find another network than this one.
    pub(super) fn differ(&self, network: &HostNetwork) -> bool {
        let has = |path: &Path, file: &RenderedFile| {
            std::fs::read(path).is_ok_and(|content| content == file.content.as_bytes())
        };
        if self.committed().as_ref() != Some(network) {
            return true;
        }
        let Ok((format, files)) = self.rendered(network) else { return false };
        let paths: Vec<_> = files.iter().map(|file| self.root.join(&file.path)).collect();
        let is_there = paths.iter().zip(&files).all(|(path, file)| has(path, file));
        !is_there
            || format == Format::Networkd && self.others(&paths).is_ok_and(|all| !all.is_empty())
    }

    /// Why the host would not have this network after its next start.
    pub(super) fn unkept(&self, network: &HostNetwork) -> Option<String> {
        self.rendered(network).err()
    }

    /// Writes all of them.
    ///
    /// # Errors
    /// Why the host will not have this network after its next start.
    pub(super) fn write(&self, network: &HostNetwork) -> Result<Vec<String>, String> {
        self.keep(network)?;
        let (format, files) = self.rendered(network)?;
        let mut written = Vec::new();
        for file in &files {
            let path = self.root.join(&file.path);
            stdx::atomic::write(&path, file.content.as_bytes(), file.mode & MODE_MAX)
                .map_err(|error| format!("{}: {}", path.display(), chain(&error)))?;
            written.push(path);
        }
        if format == Format::Networkd {
            for path in self.others(&written)? {
                std::fs::remove_file(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        Ok(written.iter().map(|path| path.display().to_string()).collect())
    }

    /// Keeps what was committed, to compare the host with it after a restart of the agent.
    fn keep(&self, network: &HostNetwork) -> Result<(), String> {
        let path = self.directory.join(COMMITTED);
        let kept = serde_json::to_vec(network).map_err(std::io::Error::from);
        let kept = kept.and_then(|bytes| stdx::atomic::write(&path, &bytes, MODE_MAX));
        kept.map_err(|error| format!("{}: {}", path.display(), chain(&error)))
    }

    fn rendered(&self, network: &HostNetwork) -> Result<(Format, Vec<RenderedFile>), String> {
        let format = self.format()?;
        let files = hostnet::render(format, network, None).map_err(|why| why.to_string())?;
        Ok((format, files))
    }

    /// The form of what configures this host's network.
    fn format(&self) -> Result<Format, String> {
        let has = |directory: &str| self.root.join(directory).is_dir();
        if has("etc/netplan") {
            return Ok(Format::Netplan);
        }
        if has("run/systemd/netif") {
            return Ok(Format::Networkd);
        }
        let render = "write the files that `gnt network render` shows there as root";
        if has("run/NetworkManager") {
            return Err(format!("NetworkManager takes files of root alone: {render}"));
        }
        Err(format!("the host has neither netplan nor systemd-networkd: {render}"))
    }

    /// The units of links that the network no longer names.
    fn others(&self, written: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
        let directory = self.root.join(NETWORKD);
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        let mut others = Vec::new();
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(NETWORKD_PREFIX) && !written.contains(&path) {
                others.push(path);
            }
        }
        Ok(others)
    }
}
