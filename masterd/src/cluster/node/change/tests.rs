//! Every rule of a node's flags, as a request meets it.

use std::sync::Arc;

use super::*;
use crate::config::ConfigChange;
use crate::testing::{config, node};

fn asked(name: &str, fields: &str) -> NodeSetParams {
    serde_json::from_str(&format!(r#"{{"node_name": "{name}"{fields}}}"#)).unwrap()
}

/// As if every agent answered.
fn decided(asked: &NodeSetParams, config: &Config) -> Result<Change, Exception> {
    decide(asked, config, &config.nodes.keys().cloned().collect())
}

#[test]
fn roles_follow_the_flags() {
    use NodeRole::{Candidate, Drained, Offline, Regular};
    for (before, fields, after) in [
        (Regular, r#", "offline": true"#, Ok(Offline)),
        (Offline, r#", "offline": false"#, Ok(Candidate)),
        (Offline, r#", "offline": false, "master_candidate": false"#, Ok(Regular)),
        (Offline, r#", "offline": false, "master_capable": false"#, Ok(Regular)),
        (Offline, r#", "offline": false, "drained": true"#, Ok(Drained)),
        (Offline, r#", "drained": false"#, Ok(Offline)),
        (Offline, r#", "master_candidate": true"#, Ok(Candidate)),
        (Regular, r#", "offline": false"#, Ok(Regular)),
        (Regular, r#", "drained": true"#, Ok(Drained)),
        (Drained, r#", "drained": false"#, Ok(Candidate)),
        (Drained, r#", "offline": true"#, Ok(Offline)),
        (Regular, r#", "master_candidate": true"#, Ok(Candidate)),
        (
            Regular,
            r#", "master_candidate": true, "master_capable": false"#,
            Err("is not master capable, cannot make it a master candidate"),
        ),
        (Candidate, r#", "master_candidate": false, "force": true"#, Ok(Regular)),
        (Candidate, r#", "master_candidate": false"#, Err("would remain")),
        (Candidate, r#", "drained": true"#, Err("would remain")),
        (Candidate, r#", "offline": true"#, Err("would remain")),
        (Candidate, r#", "master_capable": false"#, Err("would remain")),
        (Candidate, r#", "master_capable": false, "auto_promote": true"#, Ok(Regular)),
        (Candidate, r#", "master_capable": false, "force": true, "offline": true"#, Ok(Offline)),
        (Regular, r#", "offline": true, "drained": true"#, Err("more than one state")),
        (Regular, r#", "offline": true, "master_candidate": true"#, Err("more than one state")),
        (Regular, r#", "ndparams": {"ovs": true}"#, Err("cannot set ndparams")),
        (Regular, r#", "hv_state": {}, "disk_state": {}, "ndparams": {}"#, Ok(Regular)),
        (Candidate, r#", "offline": true, "auto_promote": true"#, Ok(Offline)),
        (
            Offline,
            r#", "master_candidate": true, "expected_role": "regular""#,
            Err("has another role by now"),
        ),
        (Regular, r#", "master_candidate": true, "expected_role": "regular""#, Ok(Candidate)),
        (Regular, r#", "drained": true, "node_uuid": "uuid-2""#, Ok(Drained)),
        (
            Regular,
            r#", "drained": true, "node_uuid": "uuid-3""#,
            Err("another node has its name by now"),
        ),
        (Regular, r#", "rack": -2"#, Err("is no rack")),
        (Regular, r#", "secondary_ip": "xx""#, Err("(xx) needs to be a valid IP address")),
        (Regular, r#", "rack": 341"#, Err("beyond")),
        (Regular, r#", "force": true, "auto_promote": true"#, Err("at least one modification")),
    ] {
        let config = config(&[node("n2.example", before), node("n3.example", Regular)]);
        match (decided(&asked("n2", fields), &config), after) {
            (Ok(change), Ok(role)) => assert_eq!(change.node.role, role, "{before:?} {fields}"),
            (Err(error), Err(told)) => {
                assert!(error.to_string().contains(told), "{fields}: {error}");
            }
            (found, _) => panic!("{before:?} {fields}: {found:?}"),
        }
    }
}

#[test]
fn a_full_pool_takes_nobody_back() {
    let mut config = config(&[node("n2.example", NodeRole::Drained)]);
    Arc::make_mut(&mut config.cluster).candidate_pool_size = 1;
    let change = decided(&asked("n2", r#", "drained": false"#), &config).unwrap();
    assert_eq!(change.node.role, NodeRole::Regular);
    // A candidate that is asked for all the same is one too many.
    let change = decided(&asked("n2", r#", "master_candidate": true"#), &config).unwrap();
    assert_eq!(change.node.role, NodeRole::Candidate);
    assert!(change.notes[0].contains("2 master candidates where 1 are wanted"), "{change:?}");
}

#[test]
fn who_may_become_the_master_again_takes_a_free_place() {
    let mut second = node("n2.example", NodeRole::Regular);
    second.master_capable = false;
    let mut config = config(&[second]);
    let request = asked("n2", r#", "master_capable": true"#);
    let change = decided(&request, &config).unwrap();
    assert_eq!(change.node.role, NodeRole::Candidate);
    assert_eq!(change.notes, [" - INFO: Auto-promoting node to master candidate"]);
    Arc::make_mut(&mut config.cluster).candidate_pool_size = 1;
    assert_eq!(decided(&request, &config).unwrap().node.role, NodeRole::Regular);
}

#[test]
fn others_take_the_place_of_a_candidate() {
    let mut incapable = node("n3.example", NodeRole::Regular);
    incapable.master_capable = false;
    let mut same_rack = node("n4.example", NodeRole::Regular);
    let mut second = node("n2.example", NodeRole::Candidate);
    let mut config = config(&[
        second.clone(),
        incapable,
        same_rack.clone(),
        node("n5.example", NodeRole::Regular),
        node("n6.example", NodeRole::Drained),
    ]);
    let names = |config: &Config, fields: &str, silent: &str| {
        let mut reached: BTreeSet<NodeName> = config.nodes.keys().cloned().collect();
        reached.retain(|name| name.as_str() != silent);
        let change = decide(&asked("n2", fields), config, &reached).unwrap();
        change.followers.iter().map(|node| node.name.to_string()).collect::<Vec<_>>()
    };
    let drained = r#", "drained": true, "auto_promote": true"#;
    assert_eq!(names(&config, drained, ""), ["n4.example", "n5.example"]);
    assert_eq!(names(&config, drained, "n4.example"), ["n5.example"], "who answers");
    assert_eq!(names(&config, r#", "rack": 1, "auto_promote": true"#, ""), [""; 0]);
    assert_eq!(names(&config, r#", "drained": true, "force": true"#, ""), [""; 0]);
    Arc::make_mut(&mut config.cluster).candidate_pool_size = 2;
    assert_eq!(names(&config, drained, ""), ["n4.example"]);
    let demoted = r#", "master_candidate": false, "auto_promote": true"#;
    assert_eq!(names(&config, demoted, ""), ["n4.example"], "not the one that leaves");
    // Racks fail as a whole.
    let mut master = config.nodes["n1.example"].as_ref().clone();
    (master.rack, same_rack.rack, second.rack) = (Some(1), Some(1), Some(2));
    config.apply([master, same_rack, second].map(ConfigChange::Node));
    assert_eq!(names(&config, drained, ""), ["n5.example"]);
}

#[test]
fn a_gap_is_told_where_it_is_allowed() {
    let config =
        config(&[node("n2.example", NodeRole::Candidate), node("n3.example", NodeRole::Regular)]);
    let told = |fields: &str, reached: BTreeSet<NodeName>| {
        decide(&asked("n2", fields), &config, &reached).unwrap().notes.join("\n")
    };
    let everybody: BTreeSet<NodeName> = config.nodes.keys().cloned().collect();
    let forced = told(r#", "offline": true, "force": true"#, everybody.clone());
    assert!(forced.contains("(desired 2, new value will be 1)"), "{forced}");
    let replaced = r#", "offline": true, "auto_promote": true"#;
    assert_eq!(
        told(replaced, everybody),
        " - INFO: Promoted nodes to master candidate role: n3.example"
    );
    let nobody = decide(&asked("n2", replaced), &config, &BTreeSet::new()).unwrap_err().to_string();
    assert!(nobody.contains("(desired 2, new value will be 1): none"), "{nobody}");
    let anyway = format!(r#"{replaced}, "force": true"#);
    let anyway = told(&anyway, BTreeSet::new());
    assert!(anyway.contains("Not enough master candidates"), "{anyway}");
    let demoted = told(r#", "master_candidate": false, "force": true"#, BTreeSet::new());
    assert!(demoted.contains("makes this node a candidate again"), "{demoted}");
    let excluded = told(r#", "master_capable": false, "force": true"#, BTreeSet::new());
    assert!(!excluded.contains("again"), "{excluded}");
}

#[test]
fn what_changes_is_told() {
    let config = config(&[node("n2.example", NodeRole::Regular)]);
    let request = r#", "rack": 4, "drained": true, "vm_capable": true, "offline": false,
        "master_capable": false, "secondary_ip": "10.9.0.2""#;
    let change = decided(&asked("n2.example", request), &config).unwrap();
    assert_eq!(change.node.rack, Some(4));
    let told = change.changes.iter().map(|(name, value)| format!("{name} {value}"));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [r#"master_capable "False""#, r#"drained "True""#, r#"secondary_ip "10.9.0.2""#, "rack 4"]
    );
    assert_eq!(change.notes, [" - INFO: Ignoring request to unset flag offline, already unset"]);
    let back = decided(
        &asked("n2", r#", "offline": false"#),
        &super::tests::config(&[node("n2.example", NodeRole::Offline)]),
    );
    assert!(back.unwrap().notes.iter().any(|note| note.contains("without using readd")));
}

#[test]
fn the_master_keeps_its_role() {
    let told = |fields: &str| decided(&asked("n1", fields), &config(&[])).err();
    for fields in [
        r#", "offline": true"#,
        r#", "drained": true"#,
        r#", "master_candidate": false, "force": true"#,
        r#", "offline": false"#,
    ] {
        let refused = told(fields).unwrap().to_string();
        assert!(refused.contains("only via master-failover"), "{fields}: {refused}");
    }
    let refused = told(r#", "master_capable": false"#).unwrap().to_string();
    assert!(refused.contains("Master must remain master capable"), "{refused}");
    assert!(told(r#", "rack": 3"#).is_none());
    assert!(decided(&asked("n9", r#", "rack": 3"#), &config(&[])).is_err());
}

#[test]
fn the_port_of_members_is_changed() {
    let config = config(&[node("n2.example", NodeRole::Candidate)]);
    let request = asked("n2.example", r#", "peer_port": 2817"#);
    let change = decided(&request, &config).unwrap();
    assert_eq!(change.changes, [("peer_port".to_owned(), json!(2817))]);
    assert_eq!(change.node.peer_port, 2817);
    let same = asked("n2.example", r#", "peer_port": 1817"#);
    assert!(decided(&same, &config).unwrap().changes.is_empty());
}

#[test]
fn a_witness_is_no_candidate_and_never_becomes_one_by_the_way() {
    use NodeRole::{Candidate, Offline, Regular};
    for (before, is_witness, fields, after) in [
        (Regular, false, r#", "witness": true"#, Ok((Regular, true))),
        (Candidate, false, r#", "witness": true, "force": true"#, Ok((Regular, true))),
        (Candidate, false, r#", "witness": true"#, Err("would remain")),
        (
            Candidate,
            false,
            r#", "witness": true, "master_candidate": true"#,
            Err("is no master candidate: ask for one"),
        ),
        (Regular, true, r#", "master_candidate": true"#, Err("is a witness, cannot make it")),
        (Regular, true, r#", "master_candidate": true, "witness": false"#, Ok((Candidate, false))),
        (Regular, true, r#", "witness": false"#, Ok((Candidate, false))),
        (Regular, true, r#", "master_capable": true"#, Ok((Regular, true))),
        (Offline, true, r#", "offline": false"#, Ok((Regular, true))),
    ] {
        let mut witness = node("n2.example", before);
        witness.witness = is_witness;
        let config = config(&[witness, node("n3.example", Regular)]);
        match (decided(&asked("n2", fields), &config), after) {
            (Ok(change), Ok(after)) => {
                assert_eq!((change.node.role, change.node.witness), after, "{before:?} {fields}");
            }
            (Err(error), Err(told)) => {
                assert!(error.to_string().contains(told), "{fields}: {error}");
            }
            (found, _) => panic!("{before:?} {fields}: {found:?}"),
        }
    }
    let refused = decided(&asked("n1", r#", "witness": true"#), &config(&[])).unwrap_err();
    assert!(refused.to_string().contains("The master cannot be a witness"), "{refused}");
}
