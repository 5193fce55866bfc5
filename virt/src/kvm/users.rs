//! The users of guests' processes: one that all share, one that the operator names, or one of a pool for each,
//! so that no guest can reach another one's process.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use model::instance::settings::UidRange;
use model::layout::GUEST_USER;
use parking_lot::Mutex;
use stdx::process::Process;

use super::plan::RunAs;
use crate::VirtError;
use crate::records::io as failed;

/// The user and group of nobody in particular (Debian's `nobody` and `nogroup`).
const NOBODY: (u32, u32) = (65_534, 65_534);
/// Guests whose processes' users are known at most, beside those that live: enough for a node's limit.
const KNOWN_MAX: usize = 4_096;

/// The users of the pool that are taken, each by a process, or by one that is being started.
#[derive(Debug, Clone, Default)]
pub(super) struct Users(Arc<Mutex<BTreeMap<u32, Option<Process>>>>);

/// A user of a process that is being started; it is free again where nobody keeps it.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    users: &'a Users,
    pub(super) user: u32,
    pub(super) group: u32,
    is_of_pool: bool,
}

impl Users {
    /// The user for a guest that is being started.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn take(&self, run_as: &RunAs) -> Result<Taken<'_>, VirtError> {
        let (user, group) = match run_as {
            RunAs::Shared => shared()?,
            RunAs::Named(name) => {
                named(name)?.ok_or_else(|| VirtError::User(format!("there is no user `{name}`")))?
            }
            RunAs::OfPool(pool) => (self.free(pool)?, shared()?.1),
        };
        Ok(Taken { users: self, user, group, is_of_pool: matches!(run_as, RunAs::OfPool(_)) })
    }

    fn free(&self, pool: &[UidRange]) -> Result<u32, VirtError> {
        let mut taken = self.0.lock();
        taken.retain(|_, process| process.is_none_or(Process::is_alive));
        let mut users = pool.iter().flat_map(|(first, last)| *first..=*last);
        let free = users.find(|user| *user != 0 && !taken.contains_key(user));
        let free = free.filter(|_| taken.len() < KNOWN_MAX).ok_or_else(|| {
            VirtError::User(format!(
                "{} users of the cluster's pool are taken, and it has no more; \
                 `gnt cluster modify --add-uids` gives it others",
                taken.len()
            ))
        })?;
        taken.insert(free, None);
        Ok(free)
    }

    /// Knows of a process that an earlier life of the agent started.
    pub(super) fn adopt(&self, process: Process) {
        if let Some(user) = user_of(process) {
            self.0.lock().insert(user, Some(process));
        }
    }
}

impl Taken<'_> {
    /// Keeps the user for this process until its end.
    pub(super) fn keep(mut self, process: Process) {
        if self.is_of_pool {
            self.users.0.lock().insert(self.user, Some(process));
        }
        self.is_of_pool = false;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.is_of_pool {
            self.users.0.lock().remove(&self.user);
        }
    }
}

/// The user and the group that all guests share.
///
/// # Errors
/// Nobody tells who that is.
pub(crate) fn shared() -> Result<(u32, u32), VirtError> {
    Ok(named(GUEST_USER)?.unwrap_or(NOBODY))
}

/// The user and the group of a name; none where nobody has it.
fn named(name: &str) -> Result<Option<(u32, u32)>, VirtError> {
    let found = nix::unistd::User::from_name(name)
        .map_err(|error| failed("look up the user", Path::new(name))(error.into()))?;
    match found.map(|found| (found.uid.as_raw(), found.gid.as_raw())) {
        Some((0, _)) => Err(VirtError::User(format!("`{name}` is root, which no guest is"))),
        found => Ok(found),
    }
}

/// The real user of a process (`proc(5)`).
pub(super) fn user_of(process: Process) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_user_of_its_own_until_its_end() {
        let users = Users::default();
        let pool = RunAs::OfPool(vec![(7_000, 7_001)]);
        let first = users.take(&pool).unwrap();
        assert_eq!(first.user, 7_000);
        let second = users.take(&pool).unwrap();
        assert_eq!(second.user, 7_001);
        let none = users.take(&pool).unwrap_err().to_string();
        assert!(none.contains("2 users of the cluster's pool are taken"), "{none}");
        drop(first);
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        let again = users.take(&pool).unwrap();
        assert_eq!(again.user, 7_000, "the start failed");
        again.keep(process);
        second.keep(process);
        assert!(users.take(&pool).is_err());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(users.take(&pool).unwrap().user, 7_000, "its process has ended");
    }

    #[test]
    fn the_user_of_an_adopted_process_is_taken() {
        let users = Users::default();
        let mine = Process::of(std::process::id()).unwrap();
        users.adopt(mine);
        let user = nix::unistd::getuid().as_raw();
        assert_eq!(user_of(mine), Some(user));
        assert_eq!(users.0.lock().get(&user), Some(&Some(mine)));
    }

    #[test]
    fn an_empty_pool_has_no_user() {
        let none = Users::default().take(&RunAs::OfPool(Vec::new())).unwrap_err().to_string();
        assert!(none.contains("0 users"), "{none}");
    }
}
