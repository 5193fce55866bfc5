//! Changes that are one opcode each: the body is its parameters, and the path names the object.

use std::pin::Pin;

use axum::extract::Path;
use axum::http::StatusCode;
use model::document;
use serde_json::{Map, Value, json};

use super::cluster;
use super::objects::Kind;
use crate::etag;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json};

#[derive(Debug)]
pub struct Change {
    /// The opcode.
    pub id: &'static str,
    /// The parameter that is in the path.
    name: Option<&'static str>,
    /// Clients' names of parameters, with the opcode's names.
    renamed: &'static [(&'static str, &'static str)],
    /// The parameters that are switches of the query.
    switches: &'static [(&'static str, &'static str)],
    /// The parameters that are words of the query, each with the one that counts where none is given.
    words: &'static [(&'static str, &'static str, &'static str)],
    /// Whether a body must say that it is of version 1.
    is_versioned: bool,
    /// Parameters that are not set from outside.
    forbidden: &'static [&'static str],
    /// The changed object, for clients that check whether it changed meanwhile.
    object: Object,
}

/// What is changed.
#[derive(Debug, Clone, Copy)]
enum Object {
    /// Nothing that has a tag.
    None,
    /// The cluster as a whole.
    Cluster,
    /// The object that the path names.
    Of(Kind),
}

const PLAIN: Change = Change {
    id: "",
    name: None,
    renamed: &[],
    switches: &[],
    words: &[],
    is_versioned: false,
    forbidden: &[],
    object: Object::None,
};
const DRY_RUN: (&str, &str) = ("dry-run", "dry_run");
const FORCE: (&str, &str) = ("force", "force");

/// Parameters of the cluster.
pub static CLUSTER_MODIFY: Change = Change {
    id: "OP_CLUSTER_SET_PARAMS",
    forbidden: &["compression_tools"],
    object: Object::Cluster,
    ..PLAIN
};
/// The configuration that agents should hold.
pub static REDISTRIBUTE: Change = Change { id: "OP_CLUSTER_REDIST_CONF", ..PLAIN };
/// Parameters of a node.
pub static NODE_MODIFY: Change = Change {
    id: "OP_NODE_SET_PARAMS",
    name: Some("node_name"),
    object: Object::Of(Kind::Node),
    ..PLAIN
};
/// Restart a node, hard.
pub static NODE_POWERCYCLE: Change = Change {
    id: "OP_NODE_POWERCYCLE",
    name: Some("node_name"),
    switches: &[FORCE],
    object: Object::Of(Kind::Node),
    ..PLAIN
};
/// A new node group.
pub static GROUP_ADD: Change = Change {
    id: "OP_GROUP_ADD",
    renamed: &[("name", "group_name")],
    switches: &[DRY_RUN],
    ..PLAIN
};
const GROUP: Change = Change { name: Some("group_name"), object: Object::Of(Kind::Group), ..PLAIN };
/// The end of a node group.
pub static GROUP_REMOVE: Change = Change { id: "OP_GROUP_REMOVE", switches: &[DRY_RUN], ..GROUP };
/// Parameters of a node group.
pub static GROUP_MODIFY: Change = Change { id: "OP_GROUP_SET_PARAMS", ..GROUP };
/// Another name of a node group.
pub static GROUP_RENAME: Change = Change { id: "OP_GROUP_RENAME", switches: &[DRY_RUN], ..GROUP };
/// Nodes for a group.
pub static GROUP_ASSIGN_NODES: Change =
    Change { id: "OP_GROUP_ASSIGN_NODES", switches: &[DRY_RUN, FORCE], ..GROUP };
/// A new network.
pub static NETWORK_ADD: Change = Change {
    id: "OP_NETWORK_ADD",
    renamed: &[("name", "network_name")],
    switches: &[DRY_RUN],
    ..PLAIN
};
const NETWORK: Change = Change {
    name: Some("network_name"),
    switches: &[DRY_RUN],
    object: Object::Of(Kind::Network),
    ..PLAIN
};
/// The end of a network.
pub static NETWORK_REMOVE: Change = Change { id: "OP_NETWORK_REMOVE", ..NETWORK };
/// Parameters of a network.
pub static NETWORK_MODIFY: Change =
    Change { id: "OP_NETWORK_SET_PARAMS", switches: &[], ..NETWORK };
/// How the nodes of a group reach a network.
pub static NETWORK_CONNECT: Change = Change { id: "OP_NETWORK_CONNECT", ..NETWORK };
/// The end of a group's connection to a network.
pub static NETWORK_DISCONNECT: Change = Change { id: "OP_NETWORK_DISCONNECT", ..NETWORK };

/// A new instance.
pub static INSTANCE_ADD: Change = Change {
    id: "OP_INSTANCE_CREATE",
    renamed: &[("name", "instance_name"), ("os", "os_type")],
    switches: &[DRY_RUN],
    is_versioned: true,
    ..PLAIN
};
const INSTANCE: Change = Change {
    name: Some("instance_name"),
    switches: &[DRY_RUN],
    object: Object::Of(Kind::Instance),
    ..PLAIN
};
/// The end of an instance.
pub static INSTANCE_REMOVE: Change = Change { id: "OP_INSTANCE_REMOVE", ..INSTANCE };
/// The start of an instance.
pub static INSTANCE_STARTUP: Change = Change {
    id: "OP_INSTANCE_STARTUP",
    switches: &[DRY_RUN, FORCE, ("no_remember", "no_remember")],
    ..INSTANCE
};
/// The shutdown of an instance.
pub static INSTANCE_SHUTDOWN: Change = Change {
    id: "OP_INSTANCE_SHUTDOWN",
    switches: &[DRY_RUN, ("no_remember", "no_remember")],
    ..INSTANCE
};
/// The restart of an instance.
pub static INSTANCE_REBOOT: Change = Change {
    id: "OP_INSTANCE_REBOOT",
    switches: &[DRY_RUN, ("ignore_secondaries", "ignore_secondaries")],
    words: &[("type", "reboot_type", "hard")],
    ..INSTANCE
};
/// Parameters, NICs and disks of an instance.
pub static INSTANCE_MODIFY: Change =
    Change { id: "OP_INSTANCE_SET_PARAMS", switches: &[], ..INSTANCE };
/// Another name of an instance.
pub static INSTANCE_RENAME: Change = Change { id: "OP_INSTANCE_RENAME", switches: &[], ..INSTANCE };
/// Active disks of an instance.
pub static INSTANCE_ACTIVATE: Change = Change {
    id: "OP_INSTANCE_ACTIVATE_DISKS",
    switches: &[("ignore_size", "ignore_size")],
    ..INSTANCE
};
/// Inactive disks of an instance.
pub static INSTANCE_DEACTIVATE: Change =
    Change { id: "OP_INSTANCE_DEACTIVATE_DISKS", switches: &[FORCE], ..INSTANCE };
/// Disks of an instance made anew.
pub static INSTANCE_RECREATE: Change =
    Change { id: "OP_INSTANCE_RECREATE_DISKS", switches: &[], ..INSTANCE };
/// The export of an instance, prepared.
pub static BACKUP_PREPARE: Change = Change {
    id: "OP_BACKUP_PREPARE",
    switches: &[],
    words: &[("mode", "mode", "local")],
    ..INSTANCE
};
/// The export of an instance.
pub static BACKUP_EXPORT: Change = Change {
    id: "OP_BACKUP_EXPORT",
    switches: &[DRY_RUN],
    renamed: &[("destination", "target_node")],
    ..INSTANCE
};
/// The instances of a node, which go to others.
pub static NODE_EVACUATE: Change = Change {
    id: "OP_NODE_EVACUATE",
    name: Some("node_name"),
    switches: &[DRY_RUN],
    object: Object::Of(Kind::Node),
    ..PLAIN
};
/// The running instances of a node, which go to others.
pub static NODE_MIGRATE: Change = Change { id: "OP_NODE_MIGRATE", switches: &[], ..NODE_EVACUATE };
/// Another node for a running instance.
pub static INSTANCE_MIGRATE: Change =
    Change { id: "OP_INSTANCE_MIGRATE", switches: &[], ..INSTANCE };
/// Another node for an instance that is stopped.
pub static INSTANCE_FAILOVER: Change =
    Change { id: "OP_INSTANCE_FAILOVER", switches: &[], ..INSTANCE };

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The route of a change.
pub(super) fn change(
    change: &'static Change,
) -> impl Fn(Option<Path<String>>, RouteRequest) -> Answering + Clone + Send + Sync + 'static {
    move |name, asked| Box::pin(submit(change, name.map(|Path(name)| name), asked))
}

async fn submit(change: &Change, name: Option<String>, asked: RouteRequest) -> Answer {
    let body = match asked.json()? {
        Value::Null => Map::new(),
        Value::Object(body) => body,
        _ => return Err(Refusal::bad("Body contents: a dictionary is expected")),
    };
    let mut fixed = Map::new();
    if let (Some(parameter), Some(name)) = (change.name, &name) {
        fixed.insert(parameter.to_owned(), json!(name));
    }
    for (switch, parameter) in change.switches {
        fixed.insert((*parameter).to_owned(), json!(asked.flag(switch)?));
    }
    for (word, parameter, usual) in change.words {
        let told = asked.value(word).unwrap_or(usual);
        fixed.insert((*parameter).to_owned(), json!(told));
    }
    match (&change.object, &name) {
        (Object::Of(kind), Some(name)) => kind.condition(&asked, name).await?,
        (Object::Cluster, _) => {
            let tag = async { Ok(etag::of(&cluster(&asked).await?, &[])) };
            asked.condition(document::CLUSTER.to_owned(), tag).await?;
        }
        (Object::Of(_) | Object::None, _) => {}
    }
    let parameters = filled(change, body, fixed)?;
    Ok(json(asked.submit(change.id, parameters).await?))
}

/// The parameters of a body under their own names, with those that are not in it (`baserlib.FillOpcode`).
pub(super) fn filled(
    change: &Change,
    mut body: Map<String, Value>,
    fixed: Map<String, Value>,
) -> Result<Map<String, Value>, Refusal> {
    if change.is_versioned && body.remove("__version__") != Some(json!(1)) {
        let text = "Unsupported request data version: the body needs `\"__version__\": 1`";
        return Err(Refusal::bad(text));
    }
    for (old, new) in change.renamed {
        let Some(value) = body.remove(*old) else { continue };
        if body.insert((*new).to_owned(), value).is_some() {
            let text = format!("Parameter '{old}' was renamed to '{new}', but both are specified");
            return Err(Refusal::bad(text));
        }
    }
    if let Some(name) = change.forbidden.iter().find(|name| body.contains_key(**name)) {
        let text = format!("The parameter {name} cannot be set via RAPI");
        return Err(Refusal::new(StatusCode::FORBIDDEN, text));
    }
    // The trail says who asks, and nobody else may.
    let own = ["OP_ID", "reason"].into_iter().chain(fixed.keys().map(String::as_str));
    let overwritten: Vec<&str> = own.filter(|name| body.contains_key(*name)).collect();
    if !overwritten.is_empty() {
        return Err(Refusal::bad(format!("Can't overwrite static parameters {overwritten:?}")));
    }
    // Ganeti's client sends null for what was not given.
    body.retain(|_name, value| !value.is_null());
    body.extend(fixed);
    Ok(body)
}

/// Ganeti's letters of roles with the words of its remote API.
const ROLES: [(&str, &str); 5] = [
    ("M", "master"),
    ("C", "master-candidate"),
    ("D", "drained"),
    ("O", "offline"),
    ("R", "regular"),
];

pub(super) async fn role(Path(name): Path<String>, asked: RouteRequest) -> Answer {
    let letter = Kind::Node.field(&asked, &name, "role").await?;
    let letter = letter.as_str().unwrap_or_default();
    // A role of ours that Ganeti does not know is told as it is.
    let word = ROLES.iter().find(|(known, _)| *known == letter).map_or(letter, |(_, word)| word);
    Ok(json(word))
}

pub(super) async fn set_role(Path(name): Path<String>, asked: RouteRequest) -> Answer {
    let body = asked.json()?;
    let role = body.as_str().ok_or_else(|| Refusal::bad("Body contents: a string is expected"))?;
    let (candidate, offline, drained) = match role {
        "regular" => (Some(false), Some(false), Some(false)),
        "master-candidate" => (Some(true), None, None),
        "drained" => (None, None, Some(true)),
        "offline" => (None, Some(true), None),
        other => {
            let other: String = other.chars().take(80).collect();
            return Err(Refusal::bad(format!("Can't set '{other}' role")));
        }
    };
    Kind::Node.condition(&asked, &name).await?;
    let parameters = json!({
        "node_name": name,
        "master_candidate": candidate,
        "offline": offline,
        "drained": drained,
        "force": asked.flag("force")?,
        "auto_promote": asked.flag("auto-promote")?,
    });
    let parameters = parameters.as_object().cloned().unwrap_or_default();
    Ok(json(asked.submit("OP_NODE_SET_PARAMS", parameters).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn bodies_are_filled_as_ganeti_does() {
        let body = map(json!({"name": "net1", "network": "10.0.0.0/24", "tags": null}));
        let parameters = filled(&NETWORK_ADD, body, map(json!({"dry_run": false}))).unwrap();
        let wanted = json!({"network_name": "net1", "network": "10.0.0.0/24", "dry_run": false});
        assert_eq!(Value::Object(parameters), wanted);
        for (change, body, code) in [
            (&NETWORK_ADD, json!({"name": "a", "network_name": "b"}), 400),
            (&NETWORK_ADD, json!({"name": "a", "dry_run": true}), 400),
            (&NETWORK_ADD, json!({"name": "a", "reason": []}), 400),
            (&NETWORK_ADD, json!({"name": "a", "OP_ID": "OP_NODE_REMOVE"}), 400),
            (&CLUSTER_MODIFY, json!({"compression_tools": []}), 403),
        ] {
            let told = filled(change, map(body), map(json!({"dry_run": false}))).unwrap_err();
            assert_eq!(told.code, code);
        }
    }
}
