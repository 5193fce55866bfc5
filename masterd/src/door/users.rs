//! Names of the users of this machine.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use nix::unistd::{Uid, User};
use parking_lot::Mutex;

/// Users whose names are remembered. Asking may mean a directory service elsewhere, and lists ask
/// for each job; more users than this are asked for anew.
const NAMES_REMEMBERED_MAX: usize = 1_024;

static NAMES: LazyLock<Mutex<HashMap<u32, Arc<str>>>> = LazyLock::new(Mutex::default);

/// The name of a user, or the number where there is no name. It is asked of the system once in the
/// life of the process.
pub fn name(uid: u32) -> Arc<str> {
    if let Some(name) = NAMES.lock().get(&uid) {
        return Arc::clone(name);
    }
    let known = User::from_uid(Uid::from_raw(uid)).inspect_err(|error| {
        tracing::warn!(uid, %error, "the name of a user cannot be found");
    });
    let name: Arc<str> = match known {
        Ok(Some(user)) => user.name.into(),
        Ok(None) | Err(_) => uid.to_string().into(),
    };
    let mut names = NAMES.lock();
    if names.len() >= NAMES_REMEMBERED_MAX {
        names.clear();
    }
    names.insert(uid, Arc::clone(&name));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(name(0).as_ref(), "root");
        assert_eq!(name(3_999_999_999).as_ref(), "3999999999");
        assert_eq!(name(0).as_ref(), "root", "remembered");
    }
}
