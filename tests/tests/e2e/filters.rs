//! Filter rules as an operator of Ganeti has them: its own `gnt-filter`, and what becomes of jobs.

use std::path::PathBuf;

use luxi::method::{QueryConfigValues, SetWatcherPause};
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::run::{Ended, run};

/// A job that runs until it is canceled, and holds no locks.
const LONG: &str = "debug delay 1000 --no-locks";
const SHORT: &str = "debug delay 0 --no-locks";
/// For the jobs that are submitted after the rule.
const NEW: &str = r#"[["jobid", [">", "id", "watermark"]]]"#;

/// Ganeti's client, and a cluster with the socket where it looks.
struct Ganeti {
    cluster: Cluster,
    programs: tests::ganeti::Ganeti,
    root: PathBuf,
}

impl Ganeti {
    /// Without its client there is nothing to test.
    fn begin(test: &str) -> Option<Self> {
        let programs = tests::ganeti::Ganeti::find(test)?;
        let cluster = Cluster::begin();
        let root = cluster.dir().join("ganeti").join("n1.example");
        let sockets = root.join("var/run/ganeti/socket");
        for dir in [&sockets, &root.join("var/log/ganeti")] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let socket = cluster.master.layout().luxi_socket();
        std::os::unix::fs::symlink(socket, sockets.join("ganeti-query")).unwrap();
        Some(Self { cluster, programs, root })
    }

    fn filter(&self, args: &[&str]) -> Ended {
        let mut command = self.programs.command("gnt-filter");
        command.args(args).env("GANETI_ROOTDIR", &self.root).env("GANETI_HOSTNAME", "n1.example");
        run(command)
    }

    /// Adds a rule; gives its id.
    fn add(&self, predicates: &str, action: &str) -> String {
        let predicates = format!("--predicates={predicates}");
        let added = self.filter(&["add", &predicates, &format!("--action={action}")]);
        let uuid = added.ok().trim().to_owned();
        assert_eq!(uuid.len(), 36, "{added:?}");
        uuid
    }

    fn delete(&self, uuid: &str) {
        assert_eq!(self.filter(&["delete", uuid]).ok(), "");
    }

    fn waits(&self, id: u64) -> Value {
        self.cluster.job(id, "waits_for")["waits_for"].clone()
    }
}

#[test]
fn rules_are_added_listed_replaced_and_deleted() {
    let Some(ganeti) = Ganeti::begin("rules by Ganeti's client") else { return };
    let first = ganeti.cluster.submit(SHORT);
    let pause = ganeti.add(NEW, "PAUSE");
    let slow = ganeti.add(r#"[["opcode", ["=", "OP_ID", "OP_X"]]]"#, "RATE_LIMIT 10");

    let list =
        ganeti.filter(&["list", "--no-headers", "--separator=|", "-o", "uuid,watermark,action"]);
    let mut lines: Vec<&str> = list.ok().lines().collect();
    let mut expected =
        vec![format!("{pause}|{first}|PAUSE"), format!("{slow}|{first}|['RATE_LIMIT', 10]")];
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected, "{list:?}");
    let one = ganeti.filter(&["list", "--no-headers", "-o", "uuid", &slow]);
    assert_eq!(one.ok().trim(), slow);
    let fields = ganeti.filter(&["list-fields", "--no-headers", "--separator=|"]);
    for (name, title) in [("uuid", "UUID"), ("reason_trail", "ReasonTrail")] {
        let line = format!("{name}|");
        let line = fields.ok().lines().find(|l| l.starts_with(&line)).unwrap_or_default();
        assert!(line.contains(&format!("|{title}|")), "{fields:?}");
    }

    let told =
        ganeti.filter(&["replace", "--priority=7", "--action=CONTINUE", "--reason=tea", &pause]);
    assert_eq!(told.ok().trim(), pause);
    let info = ganeti.filter(&["info", &pause]);
    for line in ["  Priority: 7", "  Action: CONTINUE", "  Predicates: []"] {
        assert!(info.ok().lines().any(|found| found == line), "{line}: {info:?}");
    }
    assert!(info.ok().contains("'tea'"), "{info:?}");
    assert!(!info.ok().contains(&slow), "{info:?}");
    assert!(ganeti.filter(&["info"]).ok().contains(&slow));
    let made = "0b05b9a2-6c5c-4f6e-9d6b-5d5f6f3c0a11";
    assert_eq!(ganeti.filter(&["replace", "--action=ACCEPT", made]).ok().trim(), made);

    ganeti.delete(&pause);
    for (args, told) in [
        (vec!["delete", pause.as_str()], "does not exist"),
        (vec!["info", "nothing"], "Filter rule with UUID nothing does not exist"),
        (vec!["list", "nothing"], "Filter rule with UUID nothing does not exist"),
        (vec!["replace", "nothing"], "`nothing` is no id of a filter rule"),
        (vec!["add", "--action=STOP"], "ACCEPT, PAUSE, REJECT, CONTINUE"),
        (vec!["add", "--priority=-1"], "priority"),
        (vec!["add", "--action=RATE_LIMIT 0"], "with n from 1"),
        (vec!["add", r#"--predicates=[["jobid", ["=", "x", 1]]]"#], "predicate 1 names `x`"),
        (vec!["add", r#"--predicates=[["jobid", ["=~", "id", "("]]]"#], "regular expression"),
        (vec!["add", r#"--predicates=[["weather", []]]"#], "predicate 1 of a filter rule"),
        (vec!["add", r#"--predicates=[5]"#], "expected a list, found 5"),
    ] {
        let ended = ganeti.filter(&args);
        assert!(ended.failed(1).contains(told), "{told}: {ended:?}");
        assert!(!ended.stderr.contains("Traceback"), "{ended:?}");
    }
}

#[test]
fn jobs_are_paused_rejected_and_limited() {
    let Some(ganeti) = Ganeti::begin("jobs under filter rules") else { return };
    let cluster = &ganeti.cluster;
    let before = cluster.submit(LONG);
    cluster.wait_for_status(before, "running");
    let pause = ganeti.add(NEW, "PAUSE");
    let paused = cluster.submit(SHORT);
    let held = json!([{"reason": "filter", "uuid": pause, "action": "PAUSE", "running": 0}]);
    assert_eq!(ganeti.waits(paused), held);
    assert_eq!(cluster.status(paused), "queued");
    assert_eq!(cluster.status(before), "running");

    // A rule is as durable as everything else.
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(cluster.status(paused), "queued");
    assert_eq!(ganeti.waits(paused), held);
    ganeti.delete(&pause);
    cluster.wait_for_status(paused, "success");

    let delays = r#"[["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]]"#;
    let limit = ganeti.add(delays, "RATE_LIMIT 1");
    let (first, second) = (cluster.submit(LONG), cluster.submit(SHORT));
    cluster.wait_for_status(first, "running");
    let held = json!([{"reason": "filter", "uuid": limit, "action": "RATE_LIMIT 1", "running": 1}]);
    assert_eq!(ganeti.waits(second), held);
    let _told = cluster.gnt(&format!("job cancel {first}")).ok();
    cluster.wait_for_status(second, "success");
    ganeti.delete(&limit);

    let pause = ganeti.add(NEW, "PAUSE");
    let waiting = cluster.submit(SHORT);
    let reject = ganeti.filter(&["replace", "--action=REJECT", &pause]);
    assert_eq!(reject.ok().trim(), pause);
    cluster.wait_for_status(waiting, "canceled");
    let result = cluster.job(waiting, "opresult");
    assert_eq!(result["opresult"], json!([format!("Job rejected by filter rule {pause}")]));
    let refused = cluster.submit(SHORT);
    cluster.wait_for_status(refused, "canceled");
    ganeti.delete(&pause);
    let runs = cluster.submit(SHORT);
    cluster.wait_for_status(runs, "success");
}

#[test]
fn a_job_that_waits_says_for_what() {
    let cluster = Cluster::begin();
    let first = cluster.submit("debug delay 1000");
    cluster.wait_for_status(first, "running");
    let second = cluster.submit("debug delay 1000");
    cluster.wait_for_status(second, "waiting");
    let waits = |id| cluster.job(id, "waits_for")["waits_for"].clone();
    let lock = &waits(second)[0];
    assert_eq!((&lock["reason"], &lock["lock"]), (&json!("lock"), &json!("node/n1.example")));
    assert_eq!(lock["owners"], json!([[first, "exclusive"]]));
    assert_eq!(waits(first), json!([]));
}

#[test]
fn the_watcher_is_paused_until_a_time() {
    let cluster = Cluster::begin();
    let mut client = cluster.client();
    let mut paused = || {
        let values = client.call(&QueryConfigValues { names: ["watcher_pause"].into() });
        values.unwrap().remove(0)
    };
    assert_eq!(paused(), json!(null));
    let set = |until| cluster.client().call(&SetWatcherPause { until });
    assert_eq!(set(Some(4_000_000_000.5)).unwrap(), Some(4_000_000_000.5));
    assert_eq!(paused(), json!(4_000_000_000_u64));
    assert_eq!(set(Some(1.0)).unwrap(), Some(1.0));
    assert_eq!(paused(), json!(null), "that time has passed");
    assert!(set(Some(-1.0)).is_err());
    assert!(set(Some(4_000_000_000.0)).is_ok());
    cluster.kill_master();
    cluster.start_master();
    let mut client = cluster.client();
    let values = client.call(&QueryConfigValues { names: ["watcher_pause"].into() }).unwrap();
    assert_eq!(values, [json!(4_000_000_000_u64)]);
    assert_eq!(cluster.client().call(&SetWatcherPause { until: None }).unwrap(), None);
    let values = client.call(&QueryConfigValues { names: ["watcher_pause"].into() }).unwrap();
    assert_eq!(values, [json!(null)]);
}
