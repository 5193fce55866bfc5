//! Files of who is master, for this machine's tools: `node/ssconf` is a link to a directory with all
//! files of one version, and is replaced by one rename. A reader that opens the directory once sees
//! one version, whatever happens meanwhile; after a crash there is one version or the other.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use model::layout::{Layout, PUBLIC_MODE};
use model::rack::DocumentVersion;
use model::ssconf::{self, Ssconf};
use parking_lot::Mutex;
use rpc::calls::SsconfHeld;

/// Mode of the directories: everybody may read.
const MODE: u32 = 0o755;
/// How the names of the directories begin; no key of the agent's store begins with a dot.
const PREFIX: &str = ".ssconf-";

/// Files that were not installed.
#[derive(Debug, thiserror::Error)]
pub enum SsconfError {
    /// They are not what a node takes.
    #[error(transparent)]
    Refused(#[from] ssconf::SsconfError),
    /// The disk.
    #[error("cannot write the files of who is master below `{path}`")]
    Write {
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

/// The files on this machine.
#[derive(Debug)]
pub struct Files {
    link: PathBuf,
    /// One change at a time.
    turn: Mutex<()>,
}

impl Files {
    /// Those of the machine with this layout.
    pub fn new(layout: &Layout) -> Self {
        Self { link: layout.ssconf(), turn: Mutex::new(()) }
    }

    /// Installs files unless those that are there are newer; what is there then. Blocks.
    ///
    /// # Errors
    /// Their names are wrong, or they cannot be written.
    pub fn install(&self, wanted: &Ssconf) -> Result<SsconfHeld, SsconfError> {
        wanted.check()?;
        let _turn = self.turn.lock();
        let cluster = |one: &Ssconf| one.files.get(ssconf::CLUSTER_UUID).cloned();
        // Files of another cluster count for nothing.
        let held = read(&self.link).filter(|held| cluster(held) == cluster(wanted));
        if let Some(held) = held
            && (held.version > wanted.version || held == *wanted)
        {
            return Ok(SsconfHeld { version: held.version, digest: held.digest() });
        }
        let written = self.switch_to(wanted);
        written.map_err(|error| SsconfError::Write { path: self.link.clone(), error })?;
        Ok(SsconfHeld { version: wanted.version, digest: wanted.digest() })
    }

    /// Removes all of them, as when the node leaves its cluster. Blocks.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn wipe(&self) -> Result<(), SsconfError> {
        let _turn = self.turn.lock();
        let wiped = match std::fs::remove_file(&self.link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => self.sweep(&[]),
        };
        wiped.map_err(|error| SsconfError::Write { path: self.link.clone(), error })
    }

    fn switch_to(&self, wanted: &Ssconf) -> io::Result<()> {
        let before = std::fs::read_link(&self.link).ok();
        let before = before.as_deref().and_then(Path::to_str).map(str::to_owned);
        let mut name = format!("{PREFIX}{}", wanted.version);
        if before.as_ref() == Some(&name) {
            // Somebody wrote into the directory: it is made anew beside it.
            name.push_str("-again");
        }
        let directory = self.link.with_file_name(&name);
        remove(&directory)?;
        std::fs::DirBuilder::new().mode(MODE).create(&directory)?;
        // `mode` above is cut by the umask.
        std::fs::set_permissions(&directory, Permissions::from_mode(MODE))?;
        let version = (ssconf::VERSION.to_owned(), wanted.version.to_string());
        for (file, content) in wanted.files.iter().chain([(&version.0, &version.1)]) {
            let content = format!("{content}\n");
            stdx::atomic::write(&directory.join(file), content.as_bytes(), PUBLIC_MODE)?;
        }
        let new = self.link.with_file_name(format!("{PREFIX}new"));
        remove(&new)?;
        symlink(&name, &new)?;
        stdx::atomic::rename(&new, &self.link)?;
        // The one before stays for who has just followed the link.
        self.sweep(&[Some(name), before])
    }

    /// Removes directories of all versions but these.
    fn sweep(&self, kept: &[Option<String>]) -> io::Result<()> {
        let Some(parent) = self.link.parent() else { return Ok(()) };
        for entry in std::fs::read_dir(parent)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            if name.starts_with(PREFIX) && !kept.iter().flatten().any(|kept| *kept == name) {
                remove(&parent.join(name))?;
            }
        }
        Ok(())
    }
}

/// The files that are there, if they are whole.
fn read(link: &Path) -> Option<Ssconf> {
    let directory = std::fs::canonicalize(link).ok()?;
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(&directory).ok()? {
        let entry = entry.ok()?;
        let content = std::fs::read_to_string(entry.path()).ok()?;
        let content = content.strip_suffix('\n').unwrap_or(&content).to_owned();
        files.insert(entry.file_name().into_string().ok()?, content);
    }
    let version = files.remove(ssconf::VERSION)?;
    let (term, position) = version.split_once('.')?;
    let version = DocumentVersion { term: term.parse().ok()?, position: position.parse().ok()? };
    Some(Ssconf { version, files })
}

/// Removes a directory with its files, or a link.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_file) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssconf(position: u64, master: &str) -> Ssconf {
        let file = |name: &str, content: &str| (name.to_owned(), content.to_owned());
        Ssconf {
            version: DocumentVersion { term: 3, position },
            files: [file(ssconf::MASTER_NODE, master), file(ssconf::EPOCH, "3.1")].into(),
        }
    }

    fn files() -> (tempfile::TempDir, Files) {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        std::fs::create_dir_all(layout.node_data()).unwrap();
        (root, Files::new(&layout))
    }

    fn master(files: &Files) -> String {
        std::fs::read_to_string(files.link.join(ssconf::MASTER_NODE)).unwrap()
    }

    #[test]
    fn the_newest_files_win_and_all_may_read_them() {
        let (root, files) = files();
        let one = ssconf(5, "n1");
        let held = files.install(&one).unwrap();
        assert_eq!((held.version, held.digest), (one.version, one.digest()));
        assert_eq!(master(&files), "n1\n");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&files.link), 0o755);
        assert_eq!(mode(&files.link.join(ssconf::EPOCH)), 0o644);
        let newer = ssconf(6, "n2");
        files.install(&newer).unwrap();
        // Older ones are ignored, and what is held is told; also by an agent that was restarted.
        let files = Files::new(&Layout::new(root.path()));
        assert_eq!(files.install(&one).unwrap().digest, newer.digest());
        assert_eq!(master(&files), "n2\n");
        assert_eq!(files.install(&newer).unwrap().version, newer.version);
    }

    #[test]
    fn one_version_is_kept_for_who_reads_it_and_no_more() {
        let (_root, files) = files();
        for position in 1..6 {
            files.install(&ssconf(position, "n1")).unwrap();
        }
        let here = files.link.parent().unwrap();
        let mut names: Vec<_> = std::fs::read_dir(here)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [".ssconf-3.4", ".ssconf-3.5", "ssconf"]);
        files.wipe().unwrap();
        files.wipe().unwrap();
        assert_eq!(std::fs::read_dir(here).unwrap().count(), 0);
    }

    #[test]
    fn what_was_written_by_hand_or_broken_off_is_made_anew() {
        let (_root, files) = files();
        let wanted = ssconf(5, "n1");
        for _round in 0..3 {
            files.install(&wanted).unwrap();
            stdx::atomic::write(&files.link.join(ssconf::MASTER_NODE), b"n9\n", 0o644).unwrap();
            files.install(&wanted).unwrap();
            assert_eq!(master(&files), "n1\n");
            std::fs::remove_file(files.link.join(ssconf::VERSION)).unwrap();
        }
        // A crash before the rename leaves a directory and a link to it.
        let half = files.link.with_file_name(".ssconf-3.6");
        std::fs::create_dir(&half).unwrap();
        symlink(&half, files.link.with_file_name(".ssconf-new")).unwrap();
        files.install(&ssconf(6, "n2")).unwrap();
        assert_eq!(master(&files), "n2\n");
    }

    #[test]
    fn another_clusters_files_are_never_newer() {
        let (_root, files) = files();
        let mut other = ssconf(9, "n9");
        other.files.insert(ssconf::CLUSTER_UUID.to_owned(), "other".to_owned());
        files.install(&other).unwrap();
        files.install(&ssconf(5, "n1")).unwrap();
        assert_eq!(master(&files), "n1\n");
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        let (_root, files) = files();
        let mut wanted = ssconf(5, "n1");
        wanted.files.insert("../owner".to_owned(), String::new());
        assert!(matches!(files.install(&wanted), Err(SsconfError::Refused(_))));
        assert!(!files.link.exists());
    }
}
