//! Node groups: made, filled, renamed and removed by `gnt`, and kept over restarts.

use serde_json::json;
use tests::cluster::{Cluster, MASTER};

#[test]
fn nodes_move_between_groups_and_the_first_group_may_go() {
    let cluster = Cluster::begin_with_agent();
    let gnt = |line: &str| cluster.gnt(line).ok().to_owned();
    let groups = || cluster.gnt("group list --json -o name,node_cnt,alloc_policy").json();
    gnt("group add blue --alloc-policy last_resort");
    for (line, why) in [
        ("group add blue", "exists already"),
        ("group add a/b", "a/b"),
        ("group add 0d7bb7f5-0a3e-4a3c-9d63-5a0b2cf7e6a1", "looks like the UUID"),
        ("group remove default", "has the following nodes: n1.example"),
        ("group remove red", "not found"),
        ("group rename blue default", "exists already"),
        ("group assign-nodes blue n9", "'n9' not known"),
    ] {
        let refused = cluster.gnt(line);
        assert!(!refused.status.success(), "{line}");
        assert!(format!("{refused:?}").contains(why), "{line}: {refused:?}");
    }
    gnt(&format!("group assign-nodes blue {MASTER}"));
    gnt("group rename blue green");
    gnt("group modify --alloc-policy unallocable green");
    gnt("group add-tags default old");
    let verified = gnt("cluster verify");
    for name in ["default", "green"] {
        assert!(verified.contains(&format!("* Verifying group '{name}'")), "{verified}");
    }
    let all = json!([
        {"name": "default", "node_cnt": 0, "alloc_policy": "preferred"},
        {"name": "green", "node_cnt": 1, "alloc_policy": "unallocable"},
    ]);
    assert_eq!(groups(), all);
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(groups(), all);
    assert_eq!(gnt("group list-tags default"), "old\n");

    gnt("group remove default");
    let last = cluster.gnt("group remove green");
    assert!(!last.status.success(), "{last:?}");
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(groups(), json!([{"name": "green", "node_cnt": 1, "alloc_policy": "unallocable"}]));
    assert_eq!(gnt("node list --no-headers -o group"), "green\n");
    assert!(gnt("group info green").contains("green"));
}
