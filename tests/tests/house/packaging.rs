//! The packaging files agree with the layout, and the system's own tools accept them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use model::layout::{
    ADMIN_GROUP, DAEMON_GROUP, GUEST_USER, Layout, MASTER_USER, NODE_USER, OPERATOR_GROUP,
    RAPI_USER, READ_GROUP,
};

use crate::source;

/// Each unit with its program and user.
const UNITS: &[(&str, &str, &str)] = &[
    ("packaging/gantry-masterd.service", "masterd", MASTER_USER),
    ("packaging/gantry-noded.service", "noded", NODE_USER),
    ("packaging/gantry-rapi.service", "rapi", RAPI_USER),
];

/// Directories with the group that may enter them besides the owner.
const GROUPS: &[(&str, &str)] = &[
    ("/etc/gantry", "root"),
    ("/etc/gantry/pki", DAEMON_GROUP),
    ("/etc/gantry/switch-programs", "root"),
    ("/etc/gantry/iallocators", "root"),
    ("/var/lib/gantry", DAEMON_GROUP),
    ("/var/lib/gantry/node", DAEMON_GROUP),
    ("/run/gantry", ADMIN_GROUP),
    ("/run/gantry/replicas", DAEMON_GROUP),
    ("/var/log/gantry", DAEMON_GROUP),
    ("/var/log/gantry/os", DAEMON_GROUP),
    ("/var/spool/gantry", ADMIN_GROUP),
    ("/srv/gantry", DAEMON_GROUP),
    ("/srv/gantry/export", DAEMON_GROUP),
];

#[test]
fn directories_are_those_of_the_layout() {
    let packaged = directories();
    let mut seen = 0;
    for (path, owner, mode, _) in Layout::TABLE {
        let path = format!("/{path}");
        if let Some(directory) = packaged.get(&path) {
            assert_eq!(directory.user, *owner, "{path}");
            assert_eq!(directory.mode, *mode, "{path}");
            seen += 1;
        } else {
            let parent = Path::new(&path).parent().expect("a path below the root");
            let parent = parent.to_string_lossy().into_owned();
            assert!(packaged.contains_key(&parent), "no packaged directory holds {path}");
        }
    }
    assert_eq!(seen, packaged.len(), "a packaged directory is missing in the layout");
    for (path, group) in GROUPS {
        assert_eq!(packaged[*path].group, *group, "{path}");
    }
    assert_eq!(packaged.len(), GROUPS.len());
}

#[test]
fn users_are_those_of_the_layout() {
    let text = source::read("packaging/gantry.sysusers");
    let named = |kind: &str| -> Vec<String> {
        let lines = rows(&text).filter(|row| row[0] == kind);
        lines.map(|row| row[1].clone()).collect()
    };
    assert_eq!(named("u"), [MASTER_USER, NODE_USER, RAPI_USER, GUEST_USER]);
    assert_eq!(named("g"), [DAEMON_GROUP, ADMIN_GROUP, OPERATOR_GROUP, READ_GROUP]);
    let members: Vec<(String, String)> = rows(&text)
        .filter(|row| row[0] == "m")
        .map(|row| (row[2].clone(), row[1].clone()))
        .collect();
    let member = |group: &str, user: &str| (group.to_owned(), user.to_owned());
    for user in [MASTER_USER, NODE_USER, RAPI_USER] {
        assert!(members.contains(&member(DAEMON_GROUP, user)), "{user} reads the node's key");
    }
    let admins: Vec<&str> = members
        .iter()
        .filter(|(group, _)| group == ADMIN_GROUP)
        .map(|(_, user)| user.as_str())
        .collect();
    assert_eq!(admins, [MASTER_USER, RAPI_USER], "the agent does not operate the cluster");
}

#[test]
fn units_run_as_the_layout_says() {
    let layout = Layout::default();
    for (path, program, user) in UNITS {
        let unit = settings(path);
        let one = |key: &str| unit.get(key).map(|values| values.join(" ")).unwrap_or_default();
        assert_eq!(one("Type"), "notify", "{path}");
        assert_eq!(one("Restart"), "on-failure", "{path}");
        let program = format!("/usr/sbin/{program}");
        let started = one("ExecStart");
        let mut words = started.split(' ');
        assert_eq!(words.next(), Some(program.as_str()), "{path}");
        assert!(words.all(|word| word.starts_with('$')), "{path}: options are the operator's");
        assert_eq!(one("User"), *user, "{path}");
        assert_eq!(one("Group"), DAEMON_GROUP, "{path}");
        for strict in ["NoNewPrivileges", "ProtectHome", "PrivateTmp"] {
            assert_eq!(one(strict), "yes", "{path}: {strict}");
        }
        assert_eq!(one("ProtectSystem"), "strict", "{path}");
        assert_eq!(one("AmbientCapabilities"), one("CapabilityBoundingSet"), "{path}");
        let writable = one("ReadWritePaths");
        let tmpfiles = source::read("packaging/gantry.tmpfiles");
        let writable: Vec<&str> = writable.split(' ').collect();
        let log = layout.log().display().to_string();
        assert!(writable.contains(&log.as_str()), "{path}: its log is in {log}");
        for writable in writable {
            // A directory of another program, in which the package gives the daemon room.
            if let Some(other) = writable.strip_prefix('-') {
                let given = format!("user:{user}:rwx");
                let mut rows = rows(&tmpfiles);
                assert!(rows.any(|row| row[0] == "a+" && row[1] == other && row[6] == given));
                continue;
            }
            let known = Layout::TABLE.iter().any(|(below, ..)| writable == format!("/{below}"));
            assert!(known, "{path}: {writable} is not in the layout");
        }
    }
}

#[test]
fn the_systems_tools_make_these_users_and_directories() {
    if !is_root() || !present("systemd-sysusers") || !present("systemd-tmpfiles") {
        println!("skipped: making users and directories needs root and systemd's tools");
        return;
    }
    let root = tempfile::tempdir().expect("a temporary directory");
    for dir in ["etc", "run", "var/lib", "var/log", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"] {
        fs::create_dir_all(root.path().join(dir)).expect("a directory in a new root");
    }
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("our directory");
    for (kind, tool) in [("sysusers", "systemd-sysusers"), ("tmpfiles", "systemd-tmpfiles")] {
        let target = root.path().join(format!("usr/lib/{kind}.d/gantry.conf"));
        let from = source::root().join(format!("packaging/gantry.{kind}"));
        fs::copy(from, target).expect("a copy into the new root");
        let mut command = Command::new(tool);
        command.arg(format!("--root={}", root.path().display()));
        command.args((kind == "tmpfiles").then_some("--create")).arg("gantry.conf");
        // Once more must change nothing and complain of nothing.
        for _time in 0..2 {
            let output = command.output().expect("the tool was found before");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{tool}: {said}");
        }
    }
    let users = ids(&root.path().join("etc/passwd"));
    let groups = ids(&root.path().join("etc/group"));
    for (path, wanted) in directories() {
        let made = fs::metadata(root.path().join(&path[1..])).expect("the directory was made");
        assert_eq!(format!("{:04o}", made.mode() & 0o7777), wanted.mode, "{path}");
        assert_eq!(made.uid(), *users.get(&wanted.user).unwrap_or(&0), "{path}");
        assert_eq!(made.gid(), *groups.get(&wanted.group).unwrap_or(&0), "{path}");
    }
}

#[test]
fn logs_are_rotated_where_they_are_written() {
    let text = source::read("packaging/gantry.logrotate");
    let layout = Layout::default();
    for log in [layout.master_log(), layout.node_log(), layout.rapi_log(), layout.rapi_access_log()]
    {
        assert_eq!(log.parent(), Some(layout.log().as_path()));
        assert_eq!(log.extension().and_then(|end| end.to_str()), Some("log"));
    }
    let pattern = format!("{}/*.log {{", layout.log().display());
    assert!(text.lines().any(|line| line == pattern), "{pattern}");
    assert!(text.contains(&format!("su root {DAEMON_GROUP}")));
    for (unit, ..) in UNITS {
        let name = unit.trim_start_matches("packaging/").trim_end_matches(".service");
        assert!(text.contains(name), "{name} is told to open its log anew");
    }
}

struct Directory {
    mode: String,
    user: String,
    group: String,
}

/// The directories that the package makes.
fn directories() -> BTreeMap<String, Directory> {
    let text = source::read("packaging/gantry.tmpfiles");
    rows(&text)
        .filter(|row| row[0] != "a+")
        .map(|row| {
            assert_eq!(row[0], "d", "tmpfiles follows no path through a daemon's directory");
            let [mode, user, group] = [2, 3, 4].map(|column| row[column].clone());
            (row[1].clone(), Directory { mode, user, group })
        })
        .collect()
}

/// Words of the lines that are no comments.
fn rows(text: &str) -> impl Iterator<Item = Vec<String>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect())
}

/// All values of each key of a unit.
fn settings(path: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in source::read(path).lines().filter(|line| !line.starts_with(['#', '['])) {
        if let Some((key, value)) = line.split_once('=') {
            found.entry(key.to_owned()).or_default().push(value.to_owned());
        }
    }
    found
}

fn ids(path: &Path) -> BTreeMap<String, u32> {
    let text = fs::read_to_string(path).expect("a file that sysusers made");
    let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    fields.filter_map(|row| Some((row[0].to_owned(), row[2].parse().ok()?))).collect()
}

fn present(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|itself| itself.uid() == 0)
}
