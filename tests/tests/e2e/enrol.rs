//! Machines become nodes by tokens, go away, and are called only while they can answer.

use std::sync::Arc;

use model::layout::Layout;
use rpc::calls::{NodeVersion, Version};
use rpc::identity::NodeIdentity;
use rpc::{Client, Meta, NodeTarget, RpcError};
use serde_json::json;
use stdx::Tasks;
use tests::cluster::{Cluster, Host, IPAM, MASTER, PATIENCE};
use tests::run::{Ended, wait_for};

/// `noded enroll` on a machine, as a daemon; gives the token that it shows.
fn enroll(cluster: &Cluster, host: &Host) -> String {
    cluster.token(host, &[])
}

fn add(cluster: &Cluster, host: &Host, token: &str) -> Ended {
    cluster.gnt(&format!("node add {} --secret {token}", host.name))
}

/// A cluster of three with their agents.
fn three() -> (Cluster, [Host; 2]) {
    let cluster = Cluster::begin_with_agent();
    let hosts = ["n2", "n3"].map(|short| cluster.host(short));
    for host in &hosts {
        let token = enroll(&cluster, host);
        let _added = add(&cluster, host, &token).ok();
        cluster.wait_for_facts(&host.name);
    }
    (cluster, hosts)
}

#[test]
fn three_nodes_work_together() {
    let (cluster, hosts) = three();
    let rows = cluster.gnt("node list --json -o name,role").json();
    let names: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names, ["n1.example", "n2.example", "n3.example"]);
    let _done = cluster.gnt("debug delay 0 --no-master -n n1.example -n n2.example -n n3").ok();
    for id in 1..=3 {
        let ops = cluster.job(id, "ops,oplog").to_string();
        assert!(!ops.to_lowercase().contains("secret"), "{ops}");
    }
    wait_for("the end of each certificate", PATIENCE, || {
        let status = cluster.gnt("cluster status --json").stdout;
        let status: serde_json::Value = serde_json::from_str(&status).ok()?;
        let told = status["certificates"].to_string();
        names.iter().all(|name| told.contains(name.as_str().unwrap())).then_some(())
    });
    // An agent that was started again is the same node.
    cluster.kill_agent(&hosts[0]);
    cluster.start_agent(&hosts[0]);
    wait_for("a call that succeeds", PATIENCE, || {
        (cluster.gnt("debug delay 0 --no-master -n n2.example").code() == 0).then_some(())
    });
}

#[test]
fn a_delay_takes_those_locks_that_are_free() {
    let (cluster, [second, third]) = three();
    let on_both = format!("debug delay 0 --no-master -n {} -n {}", second.name, third.name);
    let holds = cluster.submit(&format!("debug delay 1000 --no-master -n {}", second.name));
    cluster.wait_for_status(holds, "running");
    let all = cluster.submit(&on_both);
    cluster.wait_for_status(all, "waiting");
    let some = cluster.submit(&format!("{on_both} --opportunistic-locking"));
    cluster.wait_for_status(some, "success");
    let log = cluster.job(some, "oplog").to_string();
    assert!(log.contains(&format!("Locks that were free: {}\"", third.name)), "{log}");
    assert_eq!(cluster.status(all), "waiting");
}

#[test]
fn tokens_are_for_one_node_and_once() {
    let cluster = Cluster::begin_with_agent();
    let [first, second] = ["n2", "n3"].map(|short| cluster.host(short));
    let typo = add(&cluster, &first, "127.0.0.1:1811/NOT-A-TOKEN");
    assert!(!typo.failed(1).is_empty());
    let token = enroll(&cluster, &first);
    let other = enroll(&cluster, &second);
    // The address of one and the code of the other: right in form, wrong in content.
    let mixed =
        format!("{}/{}", token.split('/').next().unwrap(), other.split('/').nth(1).unwrap());
    let wrong = add(&cluster, &first, &mixed);
    assert!(!wrong.failed(1).is_empty(), "{wrong:?}");
    let rows = cluster.gnt("node list --json -o name").json();
    assert_eq!(rows, json!([{"name": "n1.example"}]));
    let _added = add(&cluster, &first, &token).ok();
    let used = add(&cluster, &cluster.host("n4"), &token);
    assert!(!used.failed(1).is_empty(), "a token works once: {used:?}");
    let _added = add(&cluster, &second, &other).ok();
    let again = add(&cluster, &second, &other);
    assert!(again.failed(1).contains("n3.example"), "{again:?}");
}

#[test]
fn a_machine_with_a_name_is_added_under_no_other_one() {
    let cluster = Cluster::begin_with_agent();
    let host = cluster.host("n3");
    let token = enroll(&cluster, &host);
    let wrong = cluster.gnt(&format!("node add n33.example --secret {token}"));
    assert!(wrong.failed(1).contains("waits as `n3.example`"), "{wrong:?}");
    let rows = cluster.gnt("node list --json -o name").json();
    assert_eq!(rows, json!([{"name": "n1.example"}]));
    let _added = add(&cluster, &host, &token).ok();
}

/// A normal enrolment is logged as no failure, neither here nor there.
#[test]
fn adding_a_node_tells_of_no_failure() {
    let cluster = Cluster::begin_with_agent();
    let host = cluster.host("n2");
    let token = enroll(&cluster, &host);
    let _added = add(&cluster, &host, &token).ok();
    cluster.wait_for_facts(&host.name);
    let own = std::fs::read_to_string(host.layout().node_log()).unwrap();
    // `noded enroll` still listens while its last answer travels: the master, which needs nothing
    // more to call the agent, may meet it there.
    let (_enrolling, agent) = own.split_once("starting").unwrap();
    let logs = [cluster.master.masterd_log(), agent.to_owned()];
    assert!(logs[0].contains("agent is reached"), "{}", logs[0]);
    for log in logs {
        for failure in ["is not reached", "do not accept each other", "handshake failed"] {
            assert!(!log.contains(failure), "{failure}: {log}");
        }
    }
}

#[test]
fn a_token_of_an_earlier_enrolment_is_named_as_such() {
    let cluster = Cluster::begin_with_agent();
    let host = cluster.host("n2");
    let earlier = enroll(&cluster, &host);
    cluster.kill_agent(&host);
    let token = enroll(&cluster, &host);
    let told = add(&cluster, &host, &earlier);
    assert!(told.failed(1).contains("of an earlier `noded enroll`"), "{told:?}");
    let _added = add(&cluster, &host, &token).ok();
}

#[test]
fn a_node_that_is_removed_forgets_the_cluster() {
    let (cluster, [gone, stays]) = three();
    let identity = gone.layout().node_key();
    assert!(identity.exists());
    let _removed = cluster.gnt(&format!("node remove --yes {}", gone.name)).ok();
    wait_for("the node to forget", PATIENCE, || (!identity.exists()).then_some(()));
    assert!(!gone.layout().node_certificate().exists());
    let rows = cluster.gnt("node list --json -o name").json();
    assert_eq!(rows, json!([{"name": "n1.example"}, {"name": stays.name}]));
    let unknown = cluster.gnt(&format!("debug delay 0 -n {}", gone.name));
    assert!(unknown.failed(1).contains("not known"), "{unknown:?}");
    let master = cluster.gnt("node remove --yes n1.example");
    assert!(!master.failed(1).is_empty(), "the master stays: {master:?}");
    // It may come back as a new node.
    cluster.kill_agent(&gone);
    let token = enroll(&cluster, &gone);
    let _added = add(&cluster, &gone, &token).ok();
    cluster.wait_for_facts(&gone.name);
}

#[test]
fn what_a_removed_node_held_is_gone_and_opens_nothing() {
    let (cluster, [gone, stays]) = three();
    let _rules =
        cluster.gnt(&format!("ipam set -f {}", cluster.write("ipam.json", IPAM).display()));
    let _served = cluster.gnt(&format!("node modify --rack 1 {}", gone.name)).ok();
    let data = gone.layout().node_data();
    wait_for("the rack's document", PATIENCE, || holds(&data, "racks").then_some(()));
    // A copy that somebody took while it was a candidate.
    let copy = cluster.dir().join("copy");
    let (from, to) = (gone.layout(), Layout::new(&copy));
    std::fs::create_dir_all(to.pki()).unwrap();
    for entry in std::fs::read_dir(from.pki()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.pki().join(entry.file_name())).unwrap();
    }
    let called = || version_of(&cluster, &to, &stays);
    assert!(called().is_ok(), "a candidate may call: {:?}", called());

    let _removed = cluster.gnt(&format!("node remove --yes {}", gone.name)).ok();
    let error = called().unwrap_err();
    assert!(matches!(error, RpcError::Refused { .. }), "{error:?}");
    wait_for("the node to forget", PATIENCE, || {
        let names = ["racks", "leases", "allow-list", "owner"];
        names.iter().all(|name| !holds(&data, name)).then_some(())
    });
    let mut left = std::fs::read_dir(from.pki()).unwrap();
    assert!(left.next().is_none(), "keys and certificates");
}

/// Whether there is a file of this kind below a directory.
fn holds(dir: &std::path::Path, kind: &str) -> bool {
    std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
        let is_kind = entry.file_name().to_string_lossy().starts_with(kind);
        match entry.file_type().unwrap().is_dir() {
            true if is_kind => std::fs::read_dir(entry.path()).unwrap().next().is_some(),
            true => holds(&entry.path(), kind),
            false => is_kind,
        }
    })
}

/// Asks the agent of `node` who it is, as a holder of the files of this layout.
fn version_of(cluster: &Cluster, caller: &Layout, node: &Host) -> Result<NodeVersion, RpcError> {
    let (identity, membership) = NodeIdentity::load(caller).unwrap();
    let target = NodeTarget {
        name: node.name.parse().unwrap(),
        address: (node.address, model::layout::RPC_PORT).into(),
        fingerprint: None,
        renewing: None,
        offline: false,
    };
    let meta = Meta { epoch: membership.epoch, job: None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _alive = cluster;
    runtime.block_on(async {
        let client = Client::new(Arc::new(identity), Tasks::new());
        client.call(&target, Version {}, meta).await
    })
}

#[test]
fn a_node_that_lost_its_disk_is_added_again() {
    let (cluster, [lost, _]) = three();
    let _rack = cluster.gnt(&format!("node modify --rack 5 {}", lost.name)).ok();
    let identity =
        || cluster.gnt(&format!("node list --json -o name,uuid,ctime,rack {}", lost.name));
    let before = identity().json();
    assert_eq!(before[0]["rack"], 5);
    cluster.kill_agent(&lost);
    std::fs::remove_dir_all(&lost.root).unwrap();
    std::fs::create_dir(&lost.root).unwrap();
    let _offline = cluster.gnt(&format!("node modify --offline yes {}", lost.name)).ok();
    let noted = cluster.gnt("cluster verify");
    assert!(noted.stdout.contains("1 offline node(s) found: n2.example"), "{noted:?}");

    let token = enroll(&cluster, &lost);
    let known = add(&cluster, &lost, &token);
    assert!(known.failed(1).contains("--readd n2.example"), "{known:?}");
    let readd = |name: &str| cluster.gnt(&format!("node add --readd {name} --secret {token}"));
    assert!(readd("n9.example").failed(1).contains("not in the configuration"));
    assert!(readd("n1.example").failed(1).contains("Cannot readd the master"));
    let added = readd(&lost.name);
    let told = added.ok();
    assert!(told.contains("the offline/drained flags were reset"), "{told}");
    assert!(told.contains("is a member again, as a regular node"), "{told}");
    cluster.wait_for_facts(&lost.name);
    assert_eq!(identity().json(), before);
    // As a master leaves it that ended before it could say that the node is back.
    let _offline = cluster.gnt(&format!("node modify --offline yes {}", lost.name)).ok();
    let resumed = readd(&lost.name);
    let told = resumed.ok();
    assert!(told.contains("has the certificate that an earlier job made for it"), "{told}");
    cluster.wait_for_facts(&lost.name);
    let _called = cluster.gnt(&format!("debug delay 0 --no-master -n {}", lost.name)).ok();
    // The pool has room, and the watcher sees to it.
    wait_for("the watcher's job", PATIENCE, || {
        let rows = cluster.gnt(&format!("node list --json -o role {}", lost.name)).json();
        (rows[0]["role"] == "C").then_some(())
    });
    let jobs = cluster.gnt("job list --json -o id,summary,ops").json();
    let by_watcher = |job: &&serde_json::Value| job["ops"].to_string().contains("gnt:watcher");
    let own: Vec<_> = jobs.as_array().unwrap().iter().filter(by_watcher).collect();
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!(own[0]["summary"], json!(["NODE_SET_PARAMS(n2.example)"]));
}

#[test]
fn a_machine_is_taken_back_as_the_node_that_it_was_and_as_nothing_else() {
    let (cluster, [n2, n3]) = three();
    let membership = n2.layout().membership();
    let identity = || std::fs::read(&membership).unwrap();
    let before = identity();
    cluster.kill_agent(&n2);
    // At another address, or that of a node would tell.
    let n2 = Host { address: cluster.host("n9").address, ..n2 };
    let token = cluster.token(&n2, &["--again"]);
    let readd = |name: &str| cluster.gnt(&format!("node add --readd {name} --secret {token}"));
    let refused = readd(&n3.name);
    let told = refused.failed(1);
    for wanted in ["waits to be taken back as node n2.example", "not to become node n3.example"] {
        assert!(told.contains(wanted), "{told}");
    }
    // Neither of them is touched, and the token still works.
    assert_eq!(identity(), before);
    let _called = cluster.gnt("debug delay 0 --no-master -n n3.example").ok();
    let _again = readd(&n2.name).ok();
    cluster.wait_for_facts(&n2.name);
    let _called = cluster.gnt("debug delay 0 --no-master -n n2.example").ok();
}

#[test]
fn a_machine_is_powercycled_only_where_that_was_allowed() {
    let cluster = Cluster::begin_with_agent();
    let master = cluster.gnt(&format!("node powercycle --yes {MASTER}"));
    assert!(master.failed(1).contains("force parameter was not set"), "{master:?}");
    let asked = cluster.gnt(&format!("node powercycle -f {MASTER}"));
    assert_eq!(asked.code(), 13, "{asked:?}");
    let refused = cluster.gnt(&format!("node powercycle -f --yes {MASTER}"));
    let told = refused.failed(1);
    assert!(told.contains("Failed to schedule the reboot"), "{told}");
    assert!(told.contains("--allow-powercycle"), "{told}");
}

#[test]
fn an_offline_node_is_not_called() {
    let (cluster, [host, _]) = three();
    cluster.kill_agent(&host);
    let _offline = cluster.gnt(&format!("node modify {} --offline yes", host.name)).ok();
    let failed = cluster.gnt(&format!("debug delay 0 --no-master -n {}", host.name));
    assert!(failed.failed(1).contains("offline"), "{failed:?}");
    let listed = cluster.gnt(&format!("node list --no-headers -o name,mtotal,role {}", host.name));
    let words: Vec<&str> = listed.ok().split_whitespace().collect();
    assert_eq!(words, [host.name.as_str(), "*", "O"]);

    cluster.start_agent(&host);
    let online = format!("node modify {} --offline no", host.name);
    wait_for("the agent's answer", PATIENCE, || (cluster.gnt(&online).code() == 0).then_some(()));
    cluster.wait_for_facts(&host.name);
    let _called = cluster.gnt(&format!("debug delay 0 --no-master -n {}", host.name)).ok();
}

#[test]
fn a_node_that_is_down_fails_its_calls_with_its_name() {
    let (cluster, [host, other]) = three();
    cluster.kill_agent(&host);
    let failed = cluster.gnt(&format!("debug delay 0 --no-master -n {}", host.name));
    assert!(failed.failed(1).contains(&host.name), "{failed:?}");
    assert!(failed.stderr.contains("Connection refused"), "its cause is told: {failed:?}");
    let _works = cluster.gnt(&format!("debug delay 0 --no-master -n {}", other.name)).ok();
    let rows = cluster.gnt("node list --json -o name,mtotal").json();
    assert!(rows[2]["mtotal"].is_u64(), "{rows}");
}

#[test]
fn a_call_under_way_ends_with_its_agent() {
    let (cluster, [host, _]) = three();
    let line = format!("debug delay 1000 --no-master -n {}", host.name);
    let calling = cluster.submit(&line);
    cluster.wait_for_status(calling, "running");
    cluster.kill_agent(&host);
    cluster.wait_for_status(calling, "error");
    let result = cluster.job(calling, "opresult")["opresult"].to_string();
    assert!(result.contains(&host.name), "{result}");
}

#[test]
fn who_waits_for_a_node_that_goes_away_is_told() {
    let (cluster, [host, _]) = three();
    let line = format!("debug delay 1000 --no-master -n {}", host.name);
    let holder = cluster.submit(&line);
    cluster.wait_for_status(holder, "running");
    let waiter = cluster.submit(&line);
    cluster.wait_for_status(waiter, "waiting");
    let removal = cluster.submit(&format!("node remove --yes {} --priority high", host.name));
    cluster.wait_for_status(removal, "waiting");
    let _freed = cluster.gnt(&format!("job cancel {holder}")).ok();
    cluster.wait_for_status(removal, "success");
    cluster.wait_for_status(waiter, "error");
    let result = cluster.job(waiter, "opresult")["opresult"].to_string();
    assert!(result.contains(&host.name), "{result}");
}
