//! The older methods that list objects, which give bare values, and lists that opcodes make.

use luxi::Client;
use luxi::client::ClientError;
use luxi::method::{
    Method, QueryClusterInfo, QueryConfigValues, QueryExports, QueryFilters, QueryGroups,
    QueryInstances, QueryJobs, QueryNetworks, QueryNodes, QueryTags,
};
use model::JobId;
use serde_json::{Value, json};
use tests::cluster::Cluster;

/// The answer to a call, or the exception.
fn ask<M: Method>(client: &mut Client, call: &M) -> Result<Value, String> {
    match client.call(call) {
        Ok(reply) => Ok(serde_json::to_value(reply).unwrap()),
        Err(ClientError::Failure(failure)) => Err(format!("{failure:?}")),
        Err(other) => panic!("{other}"),
    }
}

fn nodes(names: &[&str], fields: &[&str], use_locking: bool) -> QueryNodes {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    QueryNodes { names, fields: fields.iter().copied().collect(), use_locking }
}

#[test]
fn bare_values_are_those_of_the_named_objects() {
    let cluster = Cluster::begin();
    let mut client = cluster.client();
    let client = &mut client;
    assert_eq!(
        ask(client, &nodes(&[], &["name", "role"], false)),
        Ok(json!([["n1.example", "M"]]))
    );
    let twice = nodes(&["n1", "N1.example"], &["ndp/ssh_port"], false);
    assert_eq!(ask(client, &twice), Ok(json!([[22]])));
    let refused = |answer: Result<Value, String>, code: &str, words: &str| {
        let told = answer.unwrap_err();
        assert!(told.contains(code) && told.contains(words), "{told}");
    };
    let name = || ["name"].into();
    let nobody = || vec!["nobody".to_owned()];
    refused(ask(client, &nodes(&["nobody"], &["name"], false)), "unknown_entity", "nobody");
    refused(ask(client, &nodes(&[], &["name", "moon"], false)), "wrong_input", "Unknown output");
    refused(ask(client, &nodes(&[], &["name"], true)), "wrong_input", "Sync queries");
    let groups = |names| QueryGroups { names, fields: name(), use_locking: false };
    assert_eq!(ask(client, &groups(Vec::new())), Ok(json!([["default"]])));
    assert_eq!(ask(client, &groups(vec!["default".to_owned()])), Ok(json!([["default"]])));
    refused(ask(client, &groups(nobody())), "unknown_entity", "nobody");
    let instances = |names| QueryInstances { names, fields: name(), use_locking: false };
    assert_eq!(ask(client, &instances(Vec::new())), Ok(json!([])));
    refused(ask(client, &instances(nobody())), "unknown_entity", "nobody");
    let networks = |names| QueryNetworks { names, fields: name(), use_locking: false };
    assert_eq!(ask(client, &networks(Vec::new())), Ok(json!([])));
    refused(ask(client, &networks(nobody())), "unknown_entity", "nobody");
    let exports = |nodes| QueryExports { nodes, use_locking: false };
    assert_eq!(ask(client, &exports(vec!["n1".to_owned()])), Ok(json!([])));
    refused(ask(client, &exports(nobody())), "unknown_entity", "nobody");
    let filters = |field: &str| QueryFilters { uuids: None, fields: [field].into() };
    assert_eq!(ask(client, &filters("uuid")), Ok(json!([])));
    refused(ask(client, &filters("moon")), "wrong_input", "moon");
    let jobs = QueryJobs { job_ids: Some(vec![JobId(7)]), fields: ["id"].into() };
    assert_eq!(ask(client, &jobs), Ok(json!([null])));
    let tags =
        |kind: &str, name: &str| QueryTags { kind: kind.to_owned(), name: Some(name.to_owned()) };
    assert_eq!(ask(client, &tags("cluster", "")), Ok(json!([])));
    assert_eq!(ask(client, &tags("nodegroup", "default")), Ok(json!([])));
    refused(ask(client, &tags("instance", "nobody")), "unknown_entity", "nobody");
    refused(ask(client, &tags("moon", "")), "wrong_input", "moon");
}

#[test]
fn values_of_the_cluster_are_told_by_name() {
    let cluster = Cluster::begin();
    let mut client = cluster.client();
    let names = [
        "cluster_name",
        "watcher_pause",
        "master_node",
        "drain_flag",
        "modify_ssh_setup",
        "ssh_key_type",
        "ssh_key_bits",
        "moon",
    ];
    let told = ask(&mut client, &QueryConfigValues { names: names.into() }).unwrap();
    let info = ask(&mut client, &QueryClusterInfo {}).unwrap();
    let expected = json!([
        "demo.example",
        null,
        "n1.example",
        false,
        info["modify_ssh_setup"],
        info["ssh_key_type"],
        info["ssh_key_bits"],
        null,
    ]);
    assert_eq!(told, expected);
}

#[test]
fn opcodes_list_the_cluster_and_what_there_is_not() {
    let cluster = Cluster::begin();
    let result = |op: Value| {
        let file = cluster.write("job.json", &json!([op]).to_string());
        let told = cluster.gnt(&format!("debug submit-job {}", file.display()));
        let jobs = cluster.gnt("job list --json -o id,opstatus,opresult").json();
        let job = jobs.as_array().unwrap().last().unwrap().clone();
        let (status, result) = (job["opstatus"][0].clone(), job["opresult"][0].clone());
        assert_eq!(told.code() == 0, status == "success", "{told:?}");
        result
    };
    let fields = ["name", "master_node", "drain_flag", "moon"];
    let listed = result(json!({"OP_ID": "OP_QUERY", "what": "cluster", "fields": fields}));
    assert_eq!(
        listed["data"],
        json!([[[0, "demo.example"], [0, "n1.example"], [0, false], [1, null]]])
    );
    assert_eq!(listed["fields"][0]["title"], "Name");
    let filter = json!(["=", "name", "other"]);
    let none =
        json!({"OP_ID": "OP_QUERY", "what": "cluster", "fields": ["name"], "qfilter": filter});
    assert_eq!(result(none)["data"], json!([]));
    let described = result(json!({"OP_ID": "OP_QUERY_FIELDS", "what": "os"}));
    assert_eq!(described["fields"].as_array().unwrap().len(), 11);
    let values =
        json!({"OP_ID": "OP_CLUSTER_CONFIG_QUERY", "output_fields": ["cluster_name", "tags"]});
    assert_eq!(result(values), json!(["demo.example", []]));
    for (op, kind, words) in [
        (
            json!({"OP_ID": "OP_QUERY", "what": "node", "fields": ["name"]}),
            "OpPrereqError",
            "'node'",
        ),
        (
            json!({"OP_ID": "OP_QUERY", "what": "os", "fields": ["name"], "qfilter": ["~"]}),
            "ParameterError",
            "operator `~`",
        ),
        (
            json!({"OP_ID": "OP_CLUSTER_CONFIG_QUERY", "output_fields": ["moon"]}),
            "OpPrereqError",
            "moon",
        ),
        (json!({"OP_ID": "OP_OS_DIAGNOSE", "output_fields": ["moon"]}), "OpPrereqError", "moon"),
    ] {
        let refused = result(op).to_string();
        assert!(refused.contains(kind) && refused.contains(words), "{refused}");
    }
}
