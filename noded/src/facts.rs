//! Facts on the parts of this machine, as the kernel tells them.

use std::io;
use std::path::{Path, PathBuf};

use model::InstanceName;
use model::instance::os::OsDefinition;
use rpc::calls::NodeFacts;

const KIB_PER_MIB: u64 = 1_024;

/// A fact that could not be found out.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// A file of the kernel cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A file of the kernel holds something else.
    #[error("`{path}` has no {wanted}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The value that was looked for.
        wanted: &'static str,
    },
    /// The file system cannot be asked.
    #[error("cannot ask for the size of the file system of `{path}`")]
    FileSystem {
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

/// Finds out all facts; `data` lies on the file system that is told, and these exports and
/// definitions of systems are here. Blocks for a moment.
///
/// # Errors
/// The kernel does not tell one of them.
pub fn gather(
    data: &Path,
    exports: Vec<InstanceName>,
    systems: Vec<OsDefinition>,
) -> Result<NodeFacts, FactsError> {
    let memory = read("/proc/meminfo")?;
    let memory_of = |field: &'static str| {
        memory_kib(&memory, field)
            .map(|kib| kib / KIB_PER_MIB)
            .ok_or(FactsError::Content { path: "/proc/meminfo".into(), wanted: field })
    };
    let online = "/sys/devices/system/cpu/online";
    let (disk_total_mib, disk_free_mib) = disk(data)?;
    Ok(NodeFacts {
        hostname: line("/proc/sys/kernel/hostname")?,
        kernel: line("/proc/sys/kernel/osrelease")?,
        architecture: std::env::consts::ARCH.to_owned(),
        boot_id: boot_id()?,
        uptime_seconds: seconds(&line("/proc/uptime")?)
            .ok_or(FactsError::Content { path: "/proc/uptime".into(), wanted: "seconds" })?,
        cpus: count(&line(online)?)
            .ok_or(FactsError::Content { path: online.into(), wanted: "processors" })?,
        memory_total_mib: memory_of("MemTotal")?,
        memory_free_mib: memory_of("MemAvailable")?,
        disk_total_mib,
        disk_free_mib,
        exports,
        systems,
    })
}

/// The identity of this boot of the machine.
///
/// # Errors
/// The kernel does not tell it.
pub fn boot_id() -> Result<String, FactsError> {
    line("/proc/sys/kernel/random/boot_id")
}

/// The machine's own host name.
///
/// # Errors
/// The kernel does not tell it.
pub fn hostname() -> Result<String, FactsError> {
    line("/proc/sys/kernel/hostname")
}

/// The text of a file; a host name, say, may be any bytes.
fn read(path: &str) -> Result<String, FactsError> {
    let bytes = std::fs::read(path);
    let bytes = bytes.map_err(|error| FactsError::Read { path: path.into(), error })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn line(path: &str) -> Result<String, FactsError> {
    read(path).map(|text| text.trim_end().to_owned())
}

/// The value of `field` in the text of `/proc/meminfo`.
fn memory_kib(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Whole seconds of `12345.67 2345.00`.
fn seconds(text: &str) -> Option<u64> {
    text.split(['.', ' ']).next()?.parse().ok()
}

/// How many numbers a list such as `0-3,8` has.
fn count(list: &str) -> Option<u32> {
    list.split(',').try_fold(0_u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

fn disk(path: &Path) -> Result<(u64, u64), FactsError> {
    let space = stdx::file_system::space(path)
        .map_err(|error| FactsError::FileSystem { path: path.to_owned(), error })?;
    Ok((space.total_mib, space.free_mib))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        let text = "MemTotal:        8008524 kB\nMemFree: 1 kB\nMemAvailable:    6000000 kB\n";
        assert_eq!(memory_kib(text, "MemTotal"), Some(8_008_524));
        assert_eq!(memory_kib(text, "MemAvailable"), Some(6_000_000));
        assert_eq!(memory_kib(text, "Mem"), None);
        assert_eq!(seconds("93848.08 370000.17"), Some(93_848));
        for (list, cpus) in [("0", 1), ("0-1", 2), ("0-3,8,10-11", 7)] {
            assert_eq!(count(list), Some(cpus), "{list}");
        }
        for bad in ["", "a", "3-1", "1-"] {
            assert_eq!(count(bad), None, "{bad}");
        }
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = gather(Path::new("/"), Vec::new(), Vec::new()).unwrap();
        assert!(facts.cpus > 0 && facts.memory_total_mib >= facts.memory_free_mib);
        assert!(facts.disk_total_mib >= facts.disk_free_mib && facts.boot_id.len() == 36);
    }
}
