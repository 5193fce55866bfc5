//! The users of the front door: a file in the form of Ganeti's `rapi/users`, or of Apache's `htpasswd`, read
//! anew whenever it changes.
//!
//! A line of Ganeti's is `NAME PASSWORD [OPTIONS]`, one of Apache's `NAME:HASH`, behind which options may
//! stand, too. Options are `read`, `write` and `admin`, with commas.

pub mod password;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::access::Role;
use parking_lot::Mutex;

use crate::stamp::Stamp;
use password::Password;

/// Longest file of users: some ten thousand of them, all of which are held in memory.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub struct User {
    pub name: Arc<str>,
    pub role: Role,
    /// The stored form of its password.
    pub password: Password,
}

/// All users at one moment.
#[derive(Debug, Default)]
pub struct Table(HashMap<Arc<str>, Arc<User>>);

impl Table {
    pub fn get(&self, name: &str) -> Option<Arc<User>> {
        self.0.get(name).cloned()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kind of secrets that others could read there.
    fn secrets(&self) -> &'static str {
        let is_plain = self.0.values().any(|user| user.password.is_plain());
        if is_plain { "passwords" } else { "hashes of passwords" }
    }

    /// Reads the text of a file. Lines that do not read are told, by their number, and give nobody access.
    pub fn parse(text: &str) -> (Self, Vec<String>) {
        let mut users: HashMap<Arc<str>, Arc<User>> = HashMap::new();
        let mut problems = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match parse(line) {
                Ok(user) => match users.entry(Arc::clone(&user.name)) {
                    Entry::Vacant(place) => drop(place.insert(Arc::new(user))),
                    Entry::Occupied(_) => {
                        problems.push(format!("line {number} has a name that is there already"));
                    }
                },
                Err(why) => problems.push(format!("line {number}: {why}")),
            }
        }
        (Self(users), problems)
    }
}

/// Never repeats a part of the line, which may be a password.
fn parse(line: &str) -> Result<User, &'static str> {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let (name, password) = match first.split_once(':') {
        Some(pair) => pair,
        None => (first, words.next().ok_or("it has no password behind the name")?),
    };
    if name.is_empty() {
        return Err("it has no name");
    }
    let options = words.next().unwrap_or_default();
    let options = options.split(',').filter(|option| !option.is_empty());
    // A user without options may look, as in Ganeti.
    let mut role = Role::Read;
    for option in options {
        role = role
            .max(option.parse().map_err(|_no| "an option is none of `read`, `write`, `admin`")?);
    }
    if words.next().is_some() {
        return Err("it has more than name, password and options; write options with commas");
    }
    Ok(User { name: name.into(), role, password: password.parse()? })
}

/// The file, and what it held when it was last read.
#[derive(Debug)]
pub struct UsersFile {
    path: PathBuf,
    read: Mutex<(Option<Stamp>, Arc<Table>)>,
}

impl UsersFile {
    /// The users of this file, which need not be there.
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: Mutex::new((None, Arc::default())) }
    }

    /// The users as the file has them now. A file that cannot be read has no users: somebody whose
    /// access was taken away must not keep it by that.
    pub fn current(&self) -> Arc<Table> {
        let mut read = self.read.lock();
        let stamp = Stamp::at(&self.path);
        if stamp != read.0 {
            let (stamp, table) = match load(&self.path) {
                Ok((stamp, text)) => {
                    let (table, problems) = Table::parse(&text);
                    let path = self.path.display();
                    tracing::info!(%path, users = table.len(), "users are read");
                    stamp.warn_if_open(&self.path, table.secrets());
                    for problem in problems {
                        tracing::error!(%path, problem, "a user has no access");
                    }
                    (Some(stamp), table)
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // A file that was never there is no change, and does not come here.
                    tracing::error!(path = %self.path.display(), "the file is gone: nobody has access");
                    (None, Table::default())
                }
                Err(error) => {
                    tracing::error!(path = %self.path.display(), %error, "nobody has access");
                    (stamp, Table::default())
                }
            };
            *read = (stamp, Arc::new(table));
        }
        Arc::clone(&read.1)
    }
}

fn load(path: &Path) -> io::Result<(Stamp, String)> {
    let file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    if stamp.bytes() > FILE_BYTES_MAX {
        let text = format!("it has more than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok((stamp, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_read() {
        let text = "# people\n\nalice secret write\nbob {HA1}0123456789abcdef0123456789abcdef\n\
                    carol:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g= admin,read\ndora:$apr1$abc$0123456789012345678901\n";
        let (table, problems) = Table::parse(text);
        assert_eq!(problems, Vec::<String>::new());
        let role = |name: &str| table.get(name).map(|user| user.role);
        assert_eq!(role("alice"), Some(Role::Operator));
        assert_eq!(role("bob"), Some(Role::Read));
        assert_eq!(role("carol"), Some(Role::Administrator));
        assert_eq!(role("dora"), Some(Role::Read));
        assert_eq!((role("people"), table.len()), (None, 4));
    }

    #[test]
    fn a_line_that_does_not_read_gives_no_access_and_shows_no_password() {
        let text = "alice\nbob hunter2 wrote\ncarol hunter2 read write\n:hunter2\neve {HA1}hunter2\n\
                    frank {NOPE}hunter2\ngina hunter2 write\ngina hunter3\n";
        let (table, problems) = Table::parse(text);
        assert_eq!((table.len(), problems.len()), (1, 7), "{problems:?}");
        assert_eq!(
            table.get("gina").map(|user| user.role),
            Some(Role::Operator),
            "the first counts"
        );
        assert!(problems.iter().all(|problem| !problem.contains("hunter2")));
        assert_eq!(problems[1], "line 2: an option is none of `read`, `write`, `admin`");
    }

    #[test]
    fn a_file_is_read_when_it_changes_and_gone_users_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        let users = UsersFile::new(path.clone());
        assert!(users.current().is_empty());
        stdx::atomic::write(&path, b"alice secret\n", 0o600).unwrap();
        assert!(users.current().get("alice").is_some());
        stdx::atomic::write(&path, b"aline secret\n", 0o600).unwrap();
        assert!(users.current().get("alice").is_none() && users.current().get("aline").is_some());
        std::fs::remove_file(&path).unwrap();
        assert!(users.current().is_empty());
    }
}
