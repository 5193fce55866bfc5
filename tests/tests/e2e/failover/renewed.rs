//! Certificates that are renewed while everything goes on, and what the old ones open then: nothing.

use std::path::Path;
use std::sync::Arc;

use model::enrol::Fingerprint;
use model::layout::{Layout, PEER_PORT, RPC_PORT};
use rpc::calls::Version;
use rpc::identity::NodeIdentity;
use rpc::peer::control::AskPosition;
use rpc::peer::{PeerClient, PeerError, PeerTarget, StoreId};
use rpc::{Client, Meta, NodeTarget, RpcError};
use stdx::Tasks;
use tests::candidates::LONG;
use tests::cluster::{Cluster, Host, PATIENCE};
use tests::run::{pass, wait_for};
use tests::seed::Seed;

use super::{call_all, three};

/// Certificates as the configuration has them, in the order of names.
fn recorded(cluster: &Cluster) -> Vec<String> {
    let listed = cluster.gnt("node list --json -o name,fingerprint").json();
    let text = |node: &serde_json::Value| node["fingerprint"].as_str().unwrap().to_owned();
    listed.as_array().unwrap().iter().map(text).collect()
}

/// The certificate that a machine's files have.
fn held(host: &Host) -> Fingerprint {
    NodeIdentity::load(&host.layout()).unwrap().0.fingerprint()
}

/// A copy of all that a machine shows and knows.
pub(super) fn copied(cluster: &Cluster, host: &Host) -> Layout {
    let layout = Layout::new(cluster.dir().join(format!("copy-of-{}", host.name)));
    std::fs::create_dir_all(layout.pki()).unwrap();
    for entry in std::fs::read_dir(host.layout().pki()).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, layout.pki().join(from.file_name().unwrap())).unwrap();
    }
    layout
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Asks the agent of a machine as a holder of these files.
pub(super) fn agent_answers(files: &Layout, host: &Host) -> Result<(), RpcError> {
    let (identity, membership) = NodeIdentity::load(files).unwrap();
    let target = NodeTarget {
        name: host.name.parse().unwrap(),
        address: (host.address, RPC_PORT).into(),
        fingerprint: None,
        renewing: None,
        offline: false,
    };
    let meta = Meta { epoch: membership.epoch, job: None };
    block_on(async {
        let client = Client::new(Arc::new(identity), Tasks::new());
        client.call(&target, Version {}, meta).await.map(drop)
    })
}

/// Asks the `masterd` of a machine as a holder of these files.
pub(super) fn member_answers(files: &Layout, host: &Host) -> Result<(), PeerError> {
    let (identity, membership) = NodeIdentity::load(files).unwrap();
    let target = PeerTarget {
        name: host.name.parse().unwrap(),
        address: (host.address, PEER_PORT).into(),
        fingerprint: None,
        renewing: None,
    };
    let client = PeerClient::new(&identity, membership.cluster_uuid, target).unwrap();
    let mut link = client.control(StoreId::NONE, StoreId::NONE);
    block_on(link.call(&AskPosition {})).map(drop)
}

fn is_clean(pki: &Path) -> bool {
    let mut names = std::fs::read_dir(pki).unwrap().map(|entry| entry.unwrap().file_name());
    names.all(|name| !name.to_string_lossy().starts_with("renewed"))
}

#[test]
fn certificates_are_renewed_under_load_and_the_old_ones_open_nothing() {
    let (mut cluster, n2, n3) = three();
    let hosts = [cluster.master.clone(), n2, n3];
    let [n1, n2, n3] = &hosts;
    let old: Vec<Layout> = hosts.iter().map(|host| copied(&cluster, host)).collect();
    let before = recorded(&cluster);
    // A call that is under way at every agent, a watch on a standby, jobs with locks and without.
    let nodes = format!("-n {} -n {} -n {}", n1.name, n2.name, n3.name);
    let long = cluster.submit(&format!("debug delay 12 --no-locks --no-master {nodes}"));
    cluster.wait_for_status(long, "running");
    let watching = cluster.gnt_start_on(n3, &format!("job watch {long}"));
    watching.wait_until_following();
    let mut jobs: Vec<u64> = (0..5).map(|_| cluster.submit("debug delay 0.2")).collect();
    let renewing = cluster.gnt_start("cluster renew-crypto");
    for number in 0..20 {
        let locks = if number % 4 == 0 { "" } else { "--no-locks" };
        jobs.push(cluster.submit(&format!("debug delay 0.1 {locks} -n {}", n2.name)));
        pass(std::time::Duration::from_millis(100));
    }
    let renewed = renewing.end();
    let said = renewed.ok();
    for (at, host) in hosts.iter().enumerate() {
        assert!(said.contains(&format!("{} has a new certificate", host.name)), "{at}: {said}");
    }
    for job in jobs.iter().chain([&long]) {
        cluster.wait_for_status(*job, "success");
    }
    let watched = watching.end();
    assert_eq!(watched.code(), 0, "{watched:?}");

    let after = recorded(&cluster);
    for (at, host) in hosts.iter().enumerate() {
        assert_ne!(before[at], after[at]);
        assert_eq!(held(host).to_string(), after[at]);
        assert!(is_clean(&host.layout().pki()), "{}", host.name);
    }
    for host in &hosts {
        for (files, from) in old.iter().zip(&hosts) {
            let asked = agent_answers(files, host);
            assert!(matches!(asked, Err(RpcError::Refused { .. })), "{}: {asked:?}", from.name);
            // Its masterd looks every two seconds whom its agent lets in.
            wait_for("a refusal of masterd", PATIENCE, || {
                let asked = member_answers(files, host);
                matches!(asked, Err(PeerError::Certificate { .. })).then_some(())
            });
        }
        agent_answers(&n1.layout(), host).unwrap();
        member_answers(&n2.layout(), host).unwrap();
    }
    let _verified = cluster.gnt("cluster verify").ok();
    let _called = cluster.gnt(&call_all(&[n1, n2, n3])).ok();
    cluster.fail_over(n2);
    let _called = cluster.gnt(&call_all(&[n1, n2, n3])).ok();
    cluster.wait_for_same_files(&[n1, n2, n3]);
}

#[test]
fn a_new_certificate_is_shown_when_all_members_know_it() {
    let (cluster, n2, n3) = three();
    let n1 = &cluster.master;
    for round in 0..10 {
        // On a busy machine its master may hear no majority for a moment, says so, and does nothing.
        let done = wait_for("a majority", LONG, || {
            let done = cluster.gnt("cluster renew-crypto --node n1.example");
            (!done.stdout.contains("hears no majority")).then_some(done)
        });
        assert!(done.ok().contains("n1.example has a new certificate"), "{round}: {done:?}");
        let new = held(n1).to_string();
        for host in [&n2, &n3] {
            let log = host.masterd_log();
            let refused =
                |line: &&str| line.contains("is not on the allow-list") && line.contains(&new);
            let refused = log.lines().filter(refused).count();
            // One may come while the word is carried from the store to the door.
            assert!(refused <= 2, "{round}: {} refused it {refused} times", host.name);
        }
        // The last commit is old news, as in a cluster where nothing happens.
        pass(std::time::Duration::from_millis(300));
    }
}

#[test]
fn a_renewal_that_is_cut_short_is_ended_by_the_next_one() {
    let (cluster, n2, n3) = three();
    let mut seed = Seed::new();
    let one = format!("cluster renew-crypto --node {}", n2.name);
    for round in 0..6 {
        let before = held(&n2);
        let renewing = cluster.gnt_start(&one);
        pass(std::time::Duration::from_millis(30 + seed.below(250)));
        if round % 3 == 2 {
            cluster.kill_master();
            cluster.start_master();
            drop(renewing.end());
            cluster.wait_for_standby(&n2, &cluster.master.name);
        } else {
            cluster.kill_agent(&n2);
            cluster.start_agent(&n2);
            drop(renewing.end());
        }
        cluster.wait_for_facts(&n2.name);
        let again = cluster.gnt(&one);
        assert!(again.ok().contains("n2.example has a new certificate"), "{round}: {again:?}");
        assert_ne!(held(&n2), before, "{round}");
        assert_eq!(recorded(&cluster)[1], held(&n2).to_string(), "{round}");
        let _verified = cluster.gnt("cluster verify").ok();
    }
    // A node that could not be told would refuse the others for good.
    let before = recorded(&cluster);
    cluster.kill_agent(&n3);
    let left = cluster.gnt("cluster renew-crypto");
    let why = left.failed(1);
    let rest = "renew-crypto --node n2.example --node n3.example --node n1.example`";
    assert!(why.contains(rest), "{left:?}");
    assert!(left.stdout.contains("n3.example does not answer"), "{left:?}");
    assert_eq!(recorded(&cluster), before);
    let _offline = cluster.gnt("node modify --offline yes --auto-promote n3.example");
    let done = cluster.gnt("cluster renew-crypto");
    assert!(done.ok().contains("n3.example is offline and keeps its certificate"), "{done:?}");
    let after = recorded(&cluster);
    assert!(after[0] != before[0] && after[1] != before[1] && after[2] == before[2]);
    wait_for("a job on the others", LONG, || {
        (cluster.gnt(&call_all(&[&cluster.master, &n2])).code() == 0).then_some(())
    });
    // Taken back, it takes calls from the present certificates, though its master's epoch is the one
    // in which it learnt the earlier ones.
    let token = cluster.token(&n3, &["--again"]);
    let _added = cluster.gnt(&format!("node add --readd n3.example --secret {token}")).ok();
    cluster.wait_for_facts(&n3.name);
    let _called = cluster.gnt(&call_all(&[&cluster.master, &n2, &n3])).ok();
    cluster.wait_for_standby(&n3, &cluster.master.name);
}
