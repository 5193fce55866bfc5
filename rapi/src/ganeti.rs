//! Ganeti's remote API, version 2 (`lib/rapi/rlib2.py`), for everything that exists here.
//!
//! [`objects`] lists nodes, groups, networks and instances, [`jobs`] and [`filters`] the rest, [`change`]
//! is the table of changes that are one opcode each, [`query`] Ganeti's general lists, [`storage`] that of nodes.

use axum::extract::Path;
use axum::response::Response;
use luxi::method::QueryClusterInfo;
use serde_json::{Map, Value, json};

use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json};
use crate::routes::Routes;
use change::{change, role, set_role};
use objects::Kind;

pub mod change;
pub mod filters;
pub mod jobs;
pub mod objects;
pub mod query;
pub mod storage;
pub mod tags;

/// Version of the interface; Ganeti's clients compare it.
const VERSION: u32 = 2;
/// The optional features of Ganeti that this interface has: all are about requests for instances and nodes.
const FEATURES: [&str; 4] =
    ["instance-create-reqv1", "instance-reinstall-reqv1", "node-migrate-reqv1", "node-evac-res1"];

pub fn add(routes: Routes) -> Routes {
    let routes = routes
        .get("/2", "Answer null; for old clients", nothing)
        .get("/version", "Tell the version of Ganeti's remote API: 2", version)
        .get("/2/features", "List optional features", features)
        .get("/2/info", "Describe the cluster", info)
        .get("/2/os", "List operating systems of instances", operating_systems)
        .put("/2/modify", "Change the cluster", change(&change::CLUSTER_MODIFY))
        .put(
            "/2/redistribute-config",
            "Send agents what they should hold",
            change(&change::REDISTRIBUTE),
        );
    let routes = storage::add(add_groups(add_networks(add_nodes(routes))));
    let routes = add_instances(routes)
        .get("/2/jobs", "List jobs", jobs::list)
        .get("/2/jobs/{id}", "Describe a job", jobs::one)
        .delete("/2/jobs/{id}", "Cancel a job", jobs::cancel)
        .get("/2/jobs/{id}/wait", "Wait up to 10 s for a change of a job", jobs::wait)
        .get("/2/filters", "List filter rules", filters::list)
        .post("/2/filters", "Add a filter rule", filters::add)
        .get("/2/filters/{uuid}", "Describe a filter rule", filters::one)
        .put("/2/filters/{uuid}", "Replace a filter rule", filters::replace)
        .delete("/2/filters/{uuid}", "Delete a filter rule", filters::delete)
        .get("/2/query/{what}", "List any fields of any kind of object", query::by_get)
        .put("/2/query/{what}", "The same, with a filter", query::by_put)
        .get("/2/query/{what}/fields", "Describe the fields of a kind of object", query::fields);
    tags::add(routes, "/2/tags", "cluster")
}

fn add_groups(routes: Routes) -> Routes {
    let routes = routes
        .get("/2/groups", "List node groups", |asked: RouteRequest| {
            objects::list(Kind::Group, asked)
        })
        .post("/2/groups", "Add a node group", change(&change::GROUP_ADD))
        .get("/2/groups/{name}", "Describe a node group", of(Kind::Group))
        .delete("/2/groups/{name}", "Remove a node group", change(&change::GROUP_REMOVE))
        .put("/2/groups/{name}/modify", "Change a node group", change(&change::GROUP_MODIFY))
        .put(
            "/2/groups/{name}/rename",
            "Give a node group another name",
            change(&change::GROUP_RENAME),
        )
        .put(
            "/2/groups/{name}/assign-nodes",
            "Put nodes into a group",
            change(&change::GROUP_ASSIGN_NODES),
        );
    tags::add(routes, "/2/groups/{name}/tags", "nodegroup")
}

fn add_nodes(routes: Routes) -> Routes {
    let routes = routes
        .get("/2/nodes", "List nodes", |asked: RouteRequest| objects::list(Kind::Node, asked))
        .get("/2/nodes/{name}", "Describe a node", of(Kind::Node))
        .post("/2/nodes/{name}/modify", "Change a node", change(&change::NODE_MODIFY))
        .post(
            "/2/nodes/{name}/powercycle",
            "Restart a node's machine, hard",
            change(&change::NODE_POWERCYCLE),
        )
        .post(
            "/2/nodes/{name}/evacuate",
            "Take the instances of a node to others, each by a job",
            change(&change::NODE_EVACUATE),
        )
        .post(
            "/2/nodes/{name}/migrate",
            "Migrate the instances of a node, each by a job",
            change(&change::NODE_MIGRATE),
        )
        .get("/2/nodes/{name}/role", "Tell a node's role", role)
        .put("/2/nodes/{name}/role", "Change a node's role", set_role);
    tags::add(routes, "/2/nodes/{name}/tags", "node")
}

fn add_instances(routes: Routes) -> Routes {
    let routes = routes
        .get("/2/instances", "List instances", |asked: RouteRequest| {
            objects::list(Kind::Instance, asked)
        })
        .post("/2/instances", "Make an instance", change(&change::INSTANCE_ADD))
        .get("/2/instances/{name}", "Describe an instance", of(Kind::Instance))
        .delete("/2/instances/{name}", "Remove an instance", change(&change::INSTANCE_REMOVE))
        .get("/2/instances/{name}/info", "Describe an instance whole, by a job", instance_info)
        .put("/2/instances/{name}/startup", "Start an instance", change(&change::INSTANCE_STARTUP))
        .put(
            "/2/instances/{name}/shutdown",
            "Shut an instance down",
            change(&change::INSTANCE_SHUTDOWN),
        )
        .post("/2/instances/{name}/reboot", "Restart an instance", change(&change::INSTANCE_REBOOT))
        .put(
            "/2/instances/{name}/migrate",
            "Take a running instance to another node",
            change(&change::INSTANCE_MIGRATE),
        )
        .put(
            "/2/instances/{name}/failover",
            "Stop an instance, and start it on another node",
            change(&change::INSTANCE_FAILOVER),
        );
    let routes = routes
        .put("/2/instances/{name}/modify", "Change an instance", change(&change::INSTANCE_MODIFY))
        .put(
            "/2/instances/{name}/rename",
            "Give an instance another name",
            change(&change::INSTANCE_RENAME),
        )
        .post(
            "/2/instances/{name}/reinstall",
            "Stop an instance, write an operating system onto it, and start it",
            reinstall,
        )
        .put(
            "/2/instances/{name}/prepare-export",
            "Prepare the export of an instance",
            change(&change::BACKUP_PREPARE),
        )
        .put("/2/instances/{name}/export", "Export an instance", change(&change::BACKUP_EXPORT))
        .get("/2/instances/{name}/console", "Tell how a console is reached", console)
        .post(
            "/2/instances-multi-alloc",
            "Place several instances, and make each by a job",
            multi_alloc,
        );
    tags::add(add_disks(routes), "/2/instances/{name}/tags", "instance")
}

fn add_disks(routes: Routes) -> Routes {
    routes
        .put(
            "/2/instances/{name}/activate-disks",
            "Have the disks of an instance active",
            change(&change::INSTANCE_ACTIVATE),
        )
        .put(
            "/2/instances/{name}/deactivate-disks",
            "Have the disks of an instance inactive",
            change(&change::INSTANCE_DEACTIVATE),
        )
        .post(
            "/2/instances/{name}/recreate-disks",
            "Make disks of an instance anew",
            change(&change::INSTANCE_RECREATE),
        )
        .post(
            "/2/instances/{name}/replace-disks",
            "Replace copies of disks; no disk of this version has any",
            replace_disks,
        )
        .post("/2/instances/{name}/disk/{disk}/grow", "Make a disk larger", grow_disk)
}

/// One job of three opcodes; `start` says whether there is the last one.
async fn reinstall(Path(name): Path<String>, asked: RouteRequest) -> Answer {
    let mut body = match asked.json()? {
        Value::Object(body) => body,
        // Older clients send the query.
        Value::Null => {
            let os = asked.value("os").filter(|os| !os.is_empty());
            let mut told = Map::from_iter(os.map(|os| ("os".to_owned(), json!(os))));
            told.insert("start".to_owned(), json!(!asked.flag("nostartup")?));
            told
        }
        _ => return Err(Refusal::bad("Body contents: a dictionary is expected")),
    };
    let starts = match body.remove("start") {
        None => true,
        Some(Value::Bool(starts)) => starts,
        Some(_) => return Err(Refusal::bad("Body contents: `start` is true or false")),
    };
    if let Some(os) = body.remove("os") {
        body.insert("os_type".to_owned(), os);
    }
    Kind::Instance.condition(&asked, &name).await?;
    let named = || Map::from_iter([("instance_name".to_owned(), json!(name))]);
    body.extend(named());
    let mut ops = vec![
        asked.opcode("OP_INSTANCE_SHUTDOWN", named())?,
        asked.opcode("OP_INSTANCE_REINSTALL", body)?,
    ];
    if starts {
        ops.push(asked.opcode("OP_INSTANCE_STARTUP", named())?);
    }
    Ok(json(asked.submit_all(ops).await?))
}

/// Several creations in one opcode: clients leave out of each what names it as one.
async fn multi_alloc(asked: RouteRequest) -> Answer {
    let refused = |why: &str| Refusal::bad(format!("Body contents: {why}"));
    let Value::Object(mut body) = asked.json()? else {
        return Err(refused("a dictionary is expected"));
    };
    let Some(Value::Array(instances)) = body.remove("instances") else {
        return Err(refused("`instances` is a list"));
    };
    let one = |told: Value| {
        let Value::Object(mut told) = told else {
            return Err(refused("each of `instances` is a dictionary"));
        };
        // A creation of its own says which version its body is of; one of many does not.
        told.insert("__version__".to_owned(), json!(1));
        let mut filled = change::filled(&change::INSTANCE_ADD, told, Map::new())?;
        filled.insert("OP_ID".to_owned(), json!(change::INSTANCE_ADD.id));
        Ok(Value::Object(filled))
    };
    let instances: Vec<Value> = instances.into_iter().map(one).collect::<Result<_, _>>()?;
    body.insert("instances".to_owned(), instances.into());
    Ok(json(asked.submit("OP_INSTANCE_MULTI_ALLOC", body).await?))
}

/// Newer clients send a body, older ones the query.
async fn replace_disks(Path(name): Path<String>, asked: RouteRequest) -> Answer {
    let mut parameters = match asked.json()? {
        Value::Object(parameters) => parameters,
        _ => Map::new(),
    };
    if parameters.is_empty() {
        let words = ["mode", "remote_node", "iallocator"];
        let told = words.map(|word| Some((word.to_owned(), json!(asked.value(word)?))));
        parameters.extend(told.into_iter().flatten());
    }
    if let Some(disks) = asked.value("disks").or(parameters.get("disks").and_then(Value::as_str)) {
        let disks: Result<Vec<usize>, _> =
            disks.split(',').map(|disk| disk.trim().parse()).collect();
        let disks =
            disks.map_err(|error| Refusal::bad(format!("Invalid disk index passed: {error}")))?;
        parameters.insert("disks".to_owned(), json!(disks));
    }
    Kind::Instance.condition(&asked, &name).await?;
    parameters.insert("instance_name".to_owned(), json!(name));
    Ok(json(asked.submit("OP_INSTANCE_REPLACE_DISKS", parameters).await?))
}

async fn grow_disk(Path((name, disk)): Path<(String, usize)>, asked: RouteRequest) -> Answer {
    let Value::Object(mut parameters) = asked.json()? else {
        return Err(Refusal::bad("Body contents: a dictionary is expected"));
    };
    Kind::Instance.condition(&asked, &name).await?;
    for (parameter, value) in [("instance_name", json!(name)), ("disk", json!(disk))] {
        if parameters.insert(parameter.to_owned(), value).is_some() {
            return Err(Refusal::bad(format!(
                "Can't overwrite static parameters [\"{parameter}\"]"
            )));
        }
    }
    Ok(json(asked.submit("OP_INSTANCE_GROW_DISK", parameters).await?))
}

/// How the console of an instance is reached.
async fn console(Path(name): Path<String>, asked: RouteRequest) -> Answer {
    let console = Kind::Instance.field(&asked, &name, "console").await?;
    match console {
        Value::Null => Err(Refusal::not_found("Instance console unavailable")),
        console => Ok(json(console)),
    }
}

/// The number of a job that describes an instance; the client asks for its result.
async fn instance_info(Path(name): Path<String>, asked: RouteRequest) -> Answer {
    let parameters = Map::from_iter([
        ("instances".to_owned(), json!([name])),
        ("static".to_owned(), json!(asked.flag("static")?)),
    ]);
    Ok(json(asked.submit("OP_INSTANCE_QUERY_DATA", parameters).await?))
}

fn add_networks(routes: Routes) -> Routes {
    let routes = routes
        .get("/2/networks", "List networks", |asked: RouteRequest| {
            objects::list(Kind::Network, asked)
        })
        .post("/2/networks", "Add a network", change(&change::NETWORK_ADD))
        .get("/2/networks/{name}", "Describe a network", of(Kind::Network))
        .delete("/2/networks/{name}", "Remove a network", change(&change::NETWORK_REMOVE))
        .put("/2/networks/{name}/modify", "Change a network", change(&change::NETWORK_MODIFY))
        .put(
            "/2/networks/{name}/connect",
            "Tell how the nodes of a group reach a network",
            change(&change::NETWORK_CONNECT),
        )
        .put(
            "/2/networks/{name}/disconnect",
            "Take a network away from a group",
            change(&change::NETWORK_DISCONNECT),
        );
    tags::add(routes, "/2/networks/{name}/tags", "network")
}

/// The route of one object.
fn of(
    kind: Kind,
) -> impl Fn(Path<String>, RouteRequest) -> std::pin::Pin<Box<dyn Future<Output = Answer> + Send>>
+ Clone
+ Send
+ Sync
+ 'static {
    move |Path(name), asked| Box::pin(objects::one(kind, name, asked))
}

async fn nothing(_asked: RouteRequest) -> Response {
    json(Value::Null)
}

/// Ganeti answers with a number, sabakan with an object. Only clients of sabakan do not say that they want
/// Ganeti's, which every client of Ganeti asks for first.
async fn version(asked: RouteRequest) -> Response {
    let agent = asked.headers.get("user-agent").and_then(|agent| agent.to_str().ok());
    if agent.is_some_and(|agent| agent.to_ascii_lowercase().contains("sabactl")) {
        return json(json!({"version": env!("CARGO_PKG_VERSION")}));
    }
    json(VERSION)
}

async fn features(_asked: RouteRequest) -> Response {
    json(FEATURES)
}

async fn info(asked: RouteRequest) -> Answer {
    Ok(asked.object(&cluster(&asked).await?, &[]))
}

/// The cluster, as Ganeti describes it.
async fn cluster(asked: &RouteRequest) -> Result<Value, Refusal> {
    let mut info = asked.ask(QueryClusterInfo {}).await?;
    if let Value::Object(fields) = &mut info {
        for (name, alias) in
            [("volume_group_name", "vg_name"), ("drbd_usermode_helper", "drbd_helper")]
        {
            let value = fields.get(name).cloned();
            fields.extend(value.map(|value| (alias.to_owned(), value)));
        }
    }
    Ok(info)
}

/// Names of the operating systems of instances, each with its variants.
async fn operating_systems(asked: RouteRequest) -> Answer {
    let parameters = Map::from_iter([("output_fields".to_owned(), json!(["name", "variants"]))]);
    let found = asked.run("OP_OS_DIAGNOSE", parameters).await?;
    let mut names = Vec::new();
    for system in found.as_array().into_iter().flatten() {
        let name = system.get(0).and_then(Value::as_str).unwrap_or_default();
        match system.get(1).and_then(Value::as_array).filter(|variants| !variants.is_empty()) {
            Some(variants) => {
                let variants = variants.iter().filter_map(Value::as_str);
                names.extend(variants.map(|variant| format!("{name}+{variant}")));
            }
            None => names.push(name.to_owned()),
        }
    }
    Ok(json(names))
}
