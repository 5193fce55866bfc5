//! Confines the program of a guest: an unprivileged user, no capabilities, and namespaces of its own in which
//! it sees its own files and libraries, and reaches no network.
//!
//! The agent starts itself anew for this, as a process with several threads cannot enter a namespace of
//! users. An agent that may mount does so before it gives its rights up; another one has to get that right in
//! a namespace of users. It becomes the program, which so has the number of the agent's child.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, pivot_root, setgroups, setresgid, setresuid};
use rustix::fs::{Mode, OFlags, openat};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, clear_ambient_capability_set, set_no_new_privs};
use serde::{Deserialize, Serialize};

/// The first word of a command line by which an agent confines a program.
pub const WORD: &str = "confine";
/// The agent itself, also where a newer version has taken its path.
pub const AGENT: &str = "/proc/self/exe";
/// The search path of what is confined, and nothing of the agent's own environment.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// A directory that each system has. The program's own root lies over it.
const ROOT: &str = "/tmp";
/// The host's root, until all that is wanted of it has its place.
const HOST: &str = "/host";
/// The place of the one directory that a program may write.
pub(crate) const DIRECTORY: &str = "/state";
/// The system's programs and libraries.
const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// The devices of every program, and the one by which a processor runs guests.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/kvm"];
/// The directory of the one file that has the places of libraries.
const ETC: &str = "/etc";
const LIBRARIES: &str = "ld.so.cache";
/// The namespaces of a program: it sees no other mounts, interfaces, sockets and messages than its own.
const APART: CloneFlags = CloneFlags::CLONE_NEWNS
    .union(CloneFlags::CLONE_NEWNET)
    .union(CloneFlags::CLONE_NEWIPC)
    .union(CloneFlags::CLONE_NEWUTS)
    .union(CloneFlags::CLONE_NEWCGROUP);

/// The rights of a confined program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Further groups.
    pub(crate) groups: Vec<u32>,
    /// The descriptor of a directory that it has as [`DIRECTORY`].
    pub(crate) directory: Option<i32>,
}

/// Why a program was not confined, and so not started.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The command line is none of ours.
    #[error("its command line does not read: {0}")]
    Words(String),
    /// The system says no.
    #[error("cannot {what}: {error}{}", remedy(what))]
    Step { what: String, error: io::Error },
}

/// Tells what to do where the system has no namespaces for users other than root.
fn remedy(what: &str) -> &'static str {
    match what == NAMESPACES {
        true => {
            "; a node with guests lets users have namespaces: see `sysctl user.max_user_namespaces` \
             and `kernel.unprivileged_userns_clone`"
        }
        false => "",
    }
}

const NAMESPACES: &str = "enter namespaces of its own";

fn step<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> ConfineError {
    move |error| ConfineError::Step { what: what.into(), error: error.into() }
}

impl Confinement {
    /// The command by which `agent` confines itself and becomes a program. The program's words are still to
    /// be added.
    pub(crate) fn command(&self, agent: &Path, program: &Path) -> Command {
        let mut command = Command::new(agent);
        let told = serde_json::json!(self).to_string();
        command.arg(WORD).arg(told).arg(program).env_clear().env("PATH", PATH).current_dir("/");
        command
    }

    /// Gives up all that this process has and the program is not to have.
    fn apply(&self, program: &Path) -> Result<(), ConfineError> {
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        if user.is_root() || group.as_raw() == 0 {
            return Err(ConfineError::Words("no guest is root".to_owned()));
        }
        if let Some(directory) = self.directory {
            // The kernel takes the place where a process is along into its new namespace, and no descriptor.
            let place = format!("/proc/self/fd/{directory}");
            std::env::set_current_dir(place).map_err(step("enter its directory"))?;
        }
        // Memory of a guest is not to lie in a file of the host's.
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        setrlimit(Resource::Core, none).map_err(step("limit core files"))?;
        clear_ambient_capability_set().map_err(step("drop capabilities"))?;
        let open = |path: &str| fs::File::open(path).map_err(step(format!("open {path}")));
        let may_mount =
            capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
        if may_mount {
            unshare(APART).map_err(step(NAMESPACES))?;
            let own = open("/proc")?;
            settle(program, self.directory.is_some())?;
            self.become_user(user, group)?;
            // It keeps guests of one user apart, too, and the kernel lets nobody have it below a `chroot`.
            return match unshare(CloneFlags::CLONE_NEWUSER) {
                Ok(()) => self.map(&own),
                Err(_refused) => Ok(()),
            };
        }
        self.become_user(user, group)?;
        unshare(APART | CloneFlags::CLONE_NEWUSER).map_err(step(NAMESPACES))?;
        self.map(&open("/proc")?)?;
        settle(program, self.directory.is_some())
    }

    /// Becomes somebody without rights, for ever.
    fn become_user(&self, user: Uid, group: Gid) -> Result<(), ConfineError> {
        let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
        setgroups(&groups).map_err(step("set groups"))?;
        setresgid(group, group, group).map_err(step("become the group"))?;
        setresuid(user, user, user).map_err(step("become the user"))?;
        set_no_new_privs(true).map_err(step("give up new rights"))
    }

    /// Has the same numbers of user and group in its namespace of users as outside; `processes` is `/proc`.
    fn map(&self, processes: &fs::File) -> Result<(), ConfineError> {
        let (user, group) = (self.user, self.group);
        // The kernel hides files below `/proc/self` from a process that changed its user.
        set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(step("see itself"))?;
        for (file, text) in [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("{user} {user} 1")),
            ("gid_map", format!("{group} {group} 1")),
        ] {
            let path = format!("self/{file}");
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let opened = openat(processes, &path, flags, Mode::empty()).map_err(io::Error::from);
            opened
                .and_then(|file| io::Write::write_all(&mut fs::File::from(file), text.as_bytes()))
                .map_err(step(format!("write /proc/{path}")))?;
        }
        Ok(())
    }
}

/// Makes a root that has the system's programs, the program, and nothing else of the host.
fn settle(program: &Path, has_directory: bool) -> Result<(), ConfineError> {
    let none = None::<&str>;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, private, none).map_err(step("detach mounts from the host's"))?;
    let programs = foreign(program);
    let bare = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let empty = |place: &str| {
        let mounted = mount(Some("none"), place, Some("tmpfs"), bare, Some("mode=0755"));
        mounted.map_err(step(format!("make an empty {place}")))
    };
    empty(ROOT)?;
    if has_directory {
        bind(Path::new("."), &Path::new(ROOT).join(DIRECTORY.trim_start_matches('/')))?;
    }
    let host = Path::new(ROOT).join(HOST.trim_start_matches('/'));
    fs::create_dir(&host).map_err(step("make the host's place"))?;
    pivot_root(ROOT, &host).map_err(step("enter its root"))?;
    std::env::set_current_dir("/").map_err(step("enter its root"))?;
    for name in SYSTEM {
        let place = Path::new("/").join(name);
        match fs::read_link(Path::new(HOST).join(name)) {
            Ok(target) => std::os::unix::fs::symlink(target, &place)
                .map_err(step(format!("link {}", place.display())))?,
            Err(_not_a_link) => show(&place)?,
        }
    }
    // Nothing is mounted below it, so that a wrapper of a program can lay something over it.
    fs::create_dir(ETC).map_err(step("make /etc"))?;
    empty(ETC)?;
    let of_host = Path::new(HOST).join("etc").join(LIBRARIES);
    match fs::copy(of_host, Path::new(ETC).join(LIBRARIES)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(step("copy the places of libraries")(error));
        }
        _ => {}
    }
    // A program opens some of its descriptors by path, and sees no other process there.
    show(Path::new("/proc/self"))?;
    for path in DEVICES.iter().map(PathBuf::from).chain(programs) {
        show(&path)?;
    }
    umount2(HOST, MntFlags::MNT_DETACH).map_err(step("let go of the host's root"))?;
    fs::remove_dir(HOST).map_err(step("remove the host's place"))?;
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | bare;
    for place in ["/", ETC] {
        mount(none, place, none, read_only, none).map_err(step(format!("close {place}")))?;
    }
    Ok(())
}

/// The directories of a program that is none of the system's: the one above its own, and that above what it
/// is a link to.
fn foreign(program: &Path) -> Vec<PathBuf> {
    let real = fs::canonicalize(program).unwrap_or_else(|_unknown| program.to_owned());
    let is_systems = |path: &Path| {
        SYSTEM.iter().any(|name| path.strip_prefix("/").is_ok_and(|path| path.starts_with(name)))
    };
    let above = |path: &Path| match path.parent().and_then(Path::parent) {
        Some(above) if above != Path::new("/") => above.to_owned(),
        _ => path.to_owned(),
    };
    let mut places: Vec<PathBuf> =
        [program, &real].into_iter().filter(|path| !is_systems(path)).map(above).collect();
    places.dedup();
    places
}

/// Has a file or a directory of the host, if it is there, at its own path.
fn show(path: &Path) -> Result<(), ConfineError> {
    bind(&Path::new(HOST).join(path.strip_prefix("/").unwrap_or(path)), path)
}

/// Has a file or a directory of the host, if it is there, at another path.
fn bind(from: &Path, path: &Path) -> Result<(), ConfineError> {
    let failed = |what: &str| step::<io::Error>(format!("{what} {}", path.display()));
    let kind = match fs::metadata(from) {
        Ok(kind) => kind,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("look at")(error)),
    };
    let directory = if kind.is_dir() { Some(path) } else { path.parent() };
    fs::create_dir_all(directory.unwrap_or(path)).map_err(failed("make a place for"))?;
    if !kind.is_dir() {
        fs::File::create(path).map(drop).map_err(failed("make a place for"))?;
    }
    let all = MsFlags::MS_BIND | MsFlags::MS_REC;
    let shown = mount(Some(from), path, None::<&str>, all, None::<&str>);
    shown.map_err(|error| failed("show")(error.into()))
}

/// Confines this process, and has it become the program that its words name.
///
/// # Errors
/// It is still this process.
pub fn become_program(
    mut words: impl Iterator<Item = OsString>,
) -> Result<Infallible, ConfineError> {
    let missing = || ConfineError::Words("a word is missing".to_owned());
    let told = words.next().ok_or_else(missing)?;
    let confinement: Confinement = serde_json::from_str(&told.to_string_lossy())
        .map_err(|error| ConfineError::Words(error.to_string()))?;
    let program = PathBuf::from(words.next().ok_or_else(missing)?);
    confinement.apply(&program)?;
    let error = Command::new(&program).args(words).exec();
    Err(step(format!("start {}", program.display()))(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_system_brings_nothing_and_another_one_its_directories() {
        assert_eq!(foreign(Path::new("/usr/bin/true")), Vec::<PathBuf>::new());
        let root = tempfile::tempdir().unwrap();
        let [bin, real] = ["opt/bin", "real/libexec"].map(|name| root.path().join(name));
        for place in [&bin, &real] {
            fs::create_dir_all(place).unwrap();
        }
        fs::File::create(real.join("qemu")).unwrap();
        std::os::unix::fs::symlink(real.join("qemu"), bin.join("qemu")).unwrap();
        let [opt, real] = ["opt", "real"].map(|name| root.path().join(name));
        assert_eq!(foreign(&bin.join("qemu")), [opt, real]);
    }

    #[test]
    fn root_is_no_guest() {
        let root = Confinement { user: 0, group: 5, groups: Vec::new(), directory: None };
        let told = root.apply(Path::new("/usr/bin/true")).unwrap_err();
        assert!(told.to_string().contains("no guest is root"), "{told}");
    }
}
