//! Roles at the sockets, and the audit log. The users are members of each group, a stranger, and users
//! of the front door. Each may do some things and not others, and the log tells of it afterwards.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::layout::{ADMIN_GROUP, OPERATOR_GROUP, READ_GROUP};
use serde_json::Value;
use tests::cluster::{Cluster, Host, MASTER, PATIENCE};
use tests::run::{Ended, run, wait_for};

/// The groups of the package, with numbers that no system has.
const GROUPS: [(&str, u32); 3] =
    [(READ_GROUP, 70_001), (OPERATOR_GROUP, 70_002), (ADMIN_GROUP, 70_003)];
const NAME: &str = "only_those_with_a_role_are_answered_and_the_log_tells_of_all";

/// A master that knows the groups of the package, whatever this system knows, and a copy of `gnt` that
/// everybody may run.
struct Roles {
    cluster: Cluster,
    gnt: PathBuf,
}

impl Roles {
    fn begin() -> Self {
        let cluster = Cluster::init();
        cluster.start_master_by(with_groups(&groups(&cluster), &cluster.masterd()));
        Self::of(cluster, &[])
    }

    /// A standby beside the master, both of which know the groups.
    fn begin_with_standby() -> (Self, Host) {
        let (cluster, mut hosts) = Cluster::begin_with_candidates(2);
        let standby = hosts.pop().expect("a candidate");
        let groups = groups(&cluster);
        cluster.stop_masterd(&standby);
        cluster.stop_master();
        cluster.start_master_by(with_groups(&groups, &cluster.masterd()));
        let command = with_groups(&groups, &cluster.masterd_of(&standby));
        cluster.start(&standby.masterd(), command);
        cluster.wait_for_standby(&standby, MASTER);
        (Self::of(cluster, &[&standby]), standby)
    }

    /// Everything on the way is open, so that only the sockets themselves can refuse.
    fn of(cluster: Cluster, others: &[&Host]) -> Self {
        let roots = others.iter().map(|host| host.root.clone());
        for dir in [cluster.dir(), cluster.master.root.clone()].into_iter().chain(roots) {
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let gnt = cluster.dir().join("gnt");
        std::fs::copy(cluster.gnt_command("options").get_program(), &gnt).unwrap();
        Self { cluster, gnt }
    }

    /// `gnt` of a user that has a number alone, as a member of one group.
    fn gnt(&self, uid: u32, group: Option<u32>, line: &str) -> Ended {
        self.gnt_on(&self.cluster.master, (uid, group), line)
    }

    /// The same on a machine.
    fn gnt_on(&self, host: &Host, (uid, group): (u32, Option<u32>), line: &str) -> Ended {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &uid.to_string(), "--regid", "65534"]);
        match group {
            Some(group) => command.args(["--groups", &group.to_string()]),
            None => command.arg("--clear-groups"),
        };
        command.arg(&self.gnt).arg("--root").arg(&host.root);
        command.args(line.split_whitespace()).current_dir("/");
        run(command)
    }

    /// The entries of the log: user, way, action, result and number of the job.
    fn log(&self, options: &str) -> Vec<(String, String, String, String)> {
        let told = self.cluster.gnt(&format!("log --json {options}"));
        let entries: Vec<Value> = serde_json::from_str(told.ok()).unwrap();
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let row = |entry: &Value| {
            assert_eq!(entry["host"], "n1.example", "{entry}");
            let [user, way, action, result] =
                ["user", "interface", "action", "result"].map(|key| text(entry, key));
            (user, way, action, result)
        };
        entries.iter().filter(|entry| entry["user"] != "cluster").map(row).collect()
    }
}

/// A file of groups that has those of the package.
fn groups(cluster: &Cluster) -> PathBuf {
    let mut text = std::fs::read_to_string("/etc/group").unwrap();
    for (name, gid) in GROUPS {
        let is_other = |line: &&str| !line.starts_with(&format!("{name}:"));
        let kept: Vec<&str> = text.lines().filter(is_other).collect();
        text = format!("{}\n{name}:x:{gid}:\n", kept.join("\n"));
    }
    cluster.write("group", &text)
}

/// A command that sees another file of groups.
fn with_groups(groups: &Path, command: &Command) -> Command {
    let mut inside = Command::new("unshare");
    let script = "mount --bind \"$0\" /etc/group && exec \"$@\"";
    inside.args(["--mount", "sh", "-c", script]).arg(groups);
    inside.arg(command.get_program()).args(command.get_args()).env_remove("GANTRY_ROOT");
    inside
}

#[test]
fn only_those_with_a_role_are_answered_and_the_log_tells_of_all() {
    if let Some(why) = tests::sealed::missing() {
        return tests::skip(NAME, &why);
    }
    let roles = Roles::begin();
    let [read, operator, admin] = GROUPS.map(|(_, gid)| Some(gid));
    let modes = ["luxi.sock", "query.sock"].map(|name| {
        let path = roles.cluster.master.root.join("run/gantry").join(name);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    });
    assert_eq!(modes, [0o660, 0o660]);

    // A stranger finds no open socket, and hears of the groups.
    let told = roles.gnt(4_000, None, "job list");
    let text = told.failed(1);
    assert!(text.contains("no permission") && text.contains(READ_GROUP), "{told:?}");

    // A reader looks, by the socket for queries, and changes nothing.
    for line in ["job list", "node list", "cluster info", "log"] {
        let _told = roles.gnt(4_001, read, line).ok();
    }
    for line in ["debug delay --no-locks 0", "cluster modify --candidate-pool-size 3"] {
        let told = roles.gnt(4_001, read, line);
        let text = told.failed(1);
        assert!(text.contains("permission-denied"), "{told:?}");
        assert!(text.contains("socket for queries") && text.contains(OPERATOR_GROUP), "{told:?}");
    }

    // An operator operates, and does not administer.
    let _told = roles.gnt(4_002, operator, "debug delay --no-locks 0").ok();
    for line in ["node remove --yes n9", "cluster queue drain"] {
        let told = roles.gnt(4_002, operator, line);
        let text = told.failed(1);
        assert!(text.contains("permission-denied"), "{told:?}");
        assert!(text.contains(&format!("--groups {ADMIN_GROUP} 4002")), "{told:?}");
    }

    // An administrator does all of it, and so does root.
    let _told = roles.gnt(4_003, admin, "cluster modify --candidate-pool-size 3").ok();
    let _told = roles.gnt(4_003, admin, "cluster queue drain").ok();
    let _told = roles.cluster.gnt("cluster queue undrain").ok();

    let row = |user: &str, way: &str, action: &str, result: &str| {
        [user, way, action, result].map(str::to_owned).into()
    };
    let expected: Vec<(String, String, String, String)> = vec![
        row("4001", "query", "OP_TEST_DELAY", "refused"),
        row("4001", "query", "OP_CLUSTER_SET_PARAMS", "refused"),
        row("4002", "luxi", "OP_TEST_DELAY", "success"),
        row("4002", "luxi", "OP_NODE_REMOVE", "refused"),
        row("4002", "luxi", "SetDrainFlag", "refused"),
        row("4003", "luxi", "OP_CLUSTER_SET_PARAMS", "success"),
        row("4003", "luxi", "SetDrainFlag", "success"),
        row("root", "luxi", "SetDrainFlag", "success"),
    ];
    assert_eq!(roles.log(""), expected);
    let refused: Vec<_> = expected.iter().filter(|row| row.3 == "refused").cloned().collect();
    assert_eq!(roles.log("--refused"), refused);
    let of_operator: Vec<_> = expected.iter().filter(|row| row.0 == "4002").cloned().collect();
    assert_eq!(roles.log("--user 4002"), of_operator);
    assert_eq!(roles.log("-n 1"), expected[7..]);
    assert_eq!(roles.log("--since 2100-01-01"), []);

    // The log has archived jobs, too, and who archived them; a restart forgets nothing.
    let _told = roles.cluster.gnt("job autoarchive all").ok();
    let archived = [expected, vec![row("root", "luxi", "AutoArchiveJobs", "success")]].concat();
    assert_eq!(roles.log(""), archived);
    roles.cluster.stop_master();
    roles.cluster.start_master();
    assert_eq!(roles.log(""), archived);
}

/// A flood of refused requests is a few entries, and hides none of another user.
#[test]
fn a_flood_of_refusals_hides_nothing() {
    if let Some(why) = tests::sealed::missing() {
        return tests::skip("a_flood_of_refusals_hides_nothing", &why);
    }
    let roles = Roles::begin();
    let [read, ..] = GROUPS.map(|(_, gid)| Some(gid));
    let _told = roles.gnt(4_001, read, "cluster queue drain").failed(1);
    for _ in 0..20 {
        let _told = roles.gnt(4_005, read, "cluster queue undrain").failed(1);
    }
    let entries = || {
        let told = roles.cluster.gnt("log --json --refused");
        serde_json::from_str::<Vec<Value>>(told.ok()).unwrap()
    };
    let found = wait_for("all entries", PATIENCE, || Some(entries()).filter(|all| all.len() == 5));
    let times = |user: &str| -> u64 {
        let of = found.iter().filter(|entry| entry["user"] == user);
        of.map(|entry| entry["times"].as_u64().unwrap_or(1)).sum()
    };
    assert_eq!((times("4001"), times("4005")), (1, 20));
}

/// A client of a standby gets what the role allows, and else the words of the master.
#[test]
fn a_standby_refuses_as_the_master_does() {
    if let Some(why) = tests::sealed::missing() {
        return tests::skip("a_standby_refuses_as_the_master_does", &why);
    }
    let (roles, standby) = Roles::begin_with_standby();
    let master = &roles.cluster.master;
    let [read, operator, admin] = GROUPS.map(|(_, gid)| Some(gid));
    for (who, line) in [
        ((4_000, None), "job list"),
        ((4_001, read), "debug delay --no-locks 0"),
        ((4_001, read), "cluster queue drain"),
        ((4_002, operator), "token remove ci --yes"),
        ((4_002, operator), "cluster queue drain"),
    ] {
        let [theirs, ours] = [master, &standby].map(|host| {
            let told = roles.gnt_on(host, who, line);
            told.failed(1).replace(&host.root.display().to_string(), "ROOT")
        });
        assert_eq!(ours, theirs, "{who:?} {line}");
    }
    for (who, line) in [
        ((4_001, read), "job list"),
        ((4_002, operator), "debug delay --no-locks 0"),
        ((4_003, admin), "cluster modify --candidate-pool-size 3"),
    ] {
        let _told = roles.gnt_on(&standby, who, line).ok();
    }
    let told = || {
        let told = roles.cluster.gnt("log --json --refused");
        let entries: Vec<Value> = serde_json::from_str(told.ok()).unwrap();
        let at = |host: &str| entries.iter().filter(|entry| entry["host"] == host).count();
        (at(MASTER), at(&standby.name))
    };
    // The stranger found no open socket.
    wait_for("what both refused", PATIENCE, || (told() == (4, 4)).then_some(()));
}
