//! Our own objects below `/api/v1`: switches, ports, configurations of ports, tenants, and the intents that
//! machines carry out. A change is a job, and its answer that job's result; an intent takes so long that its
//! answer is the job's number.

use axum::extract::Path;
use luxi::method::{Fields, Query, What};
use luxi::query::Filter;
use luxi::query::filter::Comparison;
use model::access::Role;
use serde_json::{Map, Value, json};

use crate::etag;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json};
use crate::routes::Routes;

/// A kind of objects.
#[derive(Debug, Clone, Copy)]
struct ObjectKind {
    what: What,
    /// The parameter that has its name in opcodes on it.
    key: &'static str,
    /// The beginning of its documents' names at the master.
    below: &'static str,
    fields: &'static [&'static str],
    /// Fields that change by themselves, and do not count for the tag.
    observed: &'static [&'static str],
    /// Fields that the master shows no tenant.
    withheld: &'static [&'static str],
}

const SWITCHES: ObjectKind = ObjectKind {
    what: What::Switch,
    key: "switch_name",
    below: "switches",
    fields: &[
        "name",
        "url",
        "provider",
        "state",
        "ports",
        "port_states",
        "rack",
        "agents",
        "options",
        "mac",
        "vlans",
        "uuid",
        "serial_no",
        "ctime",
        "mtime",
    ],
    observed: &["state", "port_states"],
    withheld: &[],
};
const PORTS: ObjectKind = ObjectKind {
    what: What::Port,
    key: "ports",
    below: "switch-ports",
    fields: &[
        "name",
        "switch",
        "real_name",
        "state",
        "since",
        "machine",
        "mac",
        "tenant",
        "told",
        "heard",
        "contradiction",
        "configuration",
        "wanted",
        "applied",
        "actual",
        "set",
        "phases",
        "error",
    ],
    observed: &["actual", "heard"],
    withheld: &["heard", "contradiction"],
};
const CONFIGURATIONS: ObjectKind = ObjectKind {
    what: What::PortConfiguration,
    key: "configuration_name",
    below: "port-configurations",
    fields: &[
        "name",
        "tenant",
        "untagged",
        "tagged",
        "tagged_networks",
        "acl",
        "mtu",
        "disabled",
        "users",
        "ctime",
    ],
    observed: &["users"],
    withheld: &[],
};
const TENANTS: ObjectKind = ObjectKind {
    what: What::Tenant,
    key: "tenant_name",
    below: "tenants",
    fields: &[
        "name",
        "members",
        "machines",
        "machine_count",
        "machines_max",
        "port_count",
        "ports_max",
        "vlans",
        "jobs_max",
        "uuid",
        "serial_no",
        "ctime",
        "mtime",
    ],
    observed: &["port_count"],
    withheld: &[],
};

const SWITCH: &str = "/api/v1/switches/{name}";
const PORT: &str = "/api/v1/ports/{switch}/{port}";
const CONFIGURATION: &str = "/api/v1/port-configurations/{name}";
const TENANT: &str = "/api/v1/tenants/{name}";
const TENANTS_MACHINE: &str = "/api/v1/tenants/{name}/machines/{serial}";
const INTENT: &str = "/api/v1/provision/{serial}";

/// Adds the routes.
pub fn add(routes: Routes) -> Routes {
    routes
        .get("/api/v1/switches", "List switches", |asked| list(SWITCHES, asked))
        .post("/api/v1/switches", "Add a switch", |asked| add_one(SWITCHES, "OP_SWITCH_ADD", asked))
        .get(SWITCH, "Show a switch", |Path(name), asked| one(SWITCHES, name, asked))
        .put(SWITCH, "Change a switch", |Path(name), asked| {
            change(SWITCHES, "OP_SWITCH_SET_PARAMS", name, asked)
        })
        .delete(SWITCH, "Remove a switch", |Path(name), asked| {
            remove(SWITCHES, "OP_SWITCH_REMOVE", name, asked)
        })
        .get("/api/v1/ports", "List ports of switches", |asked| list(PORTS, asked))
        .get(PORT, "Show a port", |Path(port), asked| one(PORTS, path_of(port), asked))
        .put(PORT, "Set a port", |Path(port), asked| set_port(path_of(port), asked))
        .get("/api/v1/port-configurations", "List configurations of ports", |asked| {
            list(CONFIGURATIONS, asked)
        })
        .post("/api/v1/port-configurations", "Add a configuration of ports", add_configuration)
        .get(CONFIGURATION, "Show a configuration of ports", |Path(name), asked| {
            one(CONFIGURATIONS, name, asked)
        })
        .delete(CONFIGURATION, "Remove a configuration of ports", |Path(name), asked| {
            remove(CONFIGURATIONS, "OP_PORT_CONFIGURATION_REMOVE", name, asked)
        })
        .put(INTENT, "Have a machine deploy, clean, rescue or retire", provision)
        .get("/api/v1/tenants", "List tenants", |asked| list(TENANTS, asked))
        .post("/api/v1/tenants", "Add a tenant", |asked| add_one(TENANTS, "OP_TENANT_ADD", asked))
        .get(TENANT, "Show a tenant", |Path(name), asked| one(TENANTS, name, asked))
        .put(TENANT, "Change a tenant", |Path(name), asked| {
            change(TENANTS, "OP_TENANT_SET_PARAMS", name, asked)
        })
        .delete(TENANT, "Remove a tenant", |Path(name), asked| {
            remove(TENANTS, "OP_TENANT_REMOVE", name, asked)
        })
        .put(TENANTS_MACHINE, "Give a machine to a tenant", |Path(names), asked| {
            hand("OP_TENANT_GIVE", names, asked)
        })
        .delete(TENANTS_MACHINE, "Take a machine from a tenant", |Path(names), asked| {
            hand("OP_TENANT_TAKE", names, asked)
        })
}

fn path_of((switch, port): (String, String)) -> String {
    format!("{switch}/{port}")
}

impl ObjectKind {
    async fn objects(
        self,
        asked: &RouteRequest,
        name: Option<&str>,
    ) -> Result<Vec<Value>, Refusal> {
        let filter =
            name.map(|name| Filter::Compare(Comparison::Equal, "name".to_owned(), name.into()));
        let is_tenant = asked.principal.role() == Some(Role::Tenant);
        let shown = self.fields.iter().filter(|field| !is_tenant || !self.withheld.contains(field));
        let shown: Vec<&str> = shown.copied().collect();
        let fields: Fields = shown.iter().copied().collect();
        let table = asked.ask(Query { what: self.what, fields, filter }).await?;
        let object = |row: Vec<luxi::query::Cell>| {
            let values = row.iter().map(|cell| cell.value().cloned().unwrap_or_default());
            Value::Object(shown.iter().map(|&field| field.to_owned()).zip(values).collect())
        };
        // A host name is found without its domain; these names are whole.
        let is_it = |object: &Value| name.is_none_or(|name| object["name"] == name);
        Ok(table.data.into_iter().map(object).filter(is_it).collect())
    }

    async fn object(self, asked: &RouteRequest, name: &str) -> Result<Value, Refusal> {
        let found = self.objects(asked, Some(name)).await?.into_iter().next();
        found.ok_or_else(|| Refusal::not_found(format!("there is no `{name}`")))
    }

    /// Lets a change rest on one object, as far as the client asks for that.
    async fn condition(self, asked: &RouteRequest, name: &str) -> Result<(), Refusal> {
        let tag = async { Ok(etag::of(&self.object(asked, name).await?, self.observed)) };
        asked.condition(format!("{}/{name}", self.below), tag).await
    }
}

async fn list(kind: ObjectKind, asked: RouteRequest) -> Answer {
    Ok(json(kind.objects(&asked, None).await?))
}

async fn one(kind: ObjectKind, name: String, asked: RouteRequest) -> Answer {
    let object = kind.object(&asked, &name).await?;
    Ok(asked.object(&object, kind.observed))
}

/// The body as parameters of an opcode.
fn parameters(asked: &RouteRequest) -> Result<Map<String, Value>, Refusal> {
    match asked.json()? {
        Value::Object(body) => Ok(body),
        Value::Null => Ok(Map::new()),
        _ => Err(Refusal::bad("the body is an object with parameters")),
    }
}

/// Takes the name of a new object out of its body.
fn name_of(body: &mut Map<String, Value>) -> Result<Value, Refusal> {
    body.remove("name").ok_or_else(|| Refusal::bad("`name` is missing"))
}

/// What a removal says, with `force` where the client says that.
fn forced(
    asked: &RouteRequest,
    mut body: Map<String, Value>,
) -> Result<Map<String, Value>, Refusal> {
    if asked.flag("force")? {
        body.insert("force".to_owned(), true.into());
    }
    Ok(body)
}

/// `POST` of a list: the body has the name of the new object, and the parameters of its opcode.
async fn add_one(kind: ObjectKind, op: &'static str, asked: RouteRequest) -> Answer {
    let mut body = parameters(&asked)?;
    let name = name_of(&mut body)?;
    body.insert(kind.key.to_owned(), name);
    Ok(json(asked.run(op, body).await?))
}

/// The name and the other fields of a configuration in one object.
async fn add_configuration(asked: RouteRequest) -> Answer {
    let mut wanted = parameters(&asked)?;
    let name = name_of(&mut wanted)?;
    let body = [(CONFIGURATIONS.key.to_owned(), name), ("wanted".to_owned(), wanted.into())];
    Ok(json(asked.run("OP_PORT_CONFIGURATION_ADD", body.into_iter().collect()).await?))
}

async fn change(kind: ObjectKind, op: &'static str, name: String, asked: RouteRequest) -> Answer {
    kind.condition(&asked, &name).await?;
    let mut body = parameters(&asked)?;
    body.insert(kind.key.to_owned(), name.into());
    Ok(json(asked.run(op, body).await?))
}

async fn remove(kind: ObjectKind, op: &'static str, name: String, asked: RouteRequest) -> Answer {
    kind.condition(&asked, &name).await?;
    let body = forced(&asked, Map::from_iter([(kind.key.to_owned(), name.into())]))?;
    Ok(json(asked.run(op, body).await?))
}

async fn set_port(name: String, asked: RouteRequest) -> Answer {
    PORTS.condition(&asked, &name).await?;
    let mut body = parameters(&asked)?;
    body.insert(PORTS.key.to_owned(), json!([name]));
    Ok(json(asked.run("OP_PORT_SET_PARAMS", body).await?))
}

/// The job carries out the intent, and waits until that is done.
async fn provision(Path(serial): Path<String>, asked: RouteRequest) -> Answer {
    let serial = Map::from_iter([("serial".to_owned(), Value::from(serial))]);
    let mut intent = parameters(&asked)?;
    intent.extend(serial.clone());
    let begin = asked.opcode("OP_MACHINE_PROVISION", intent)?;
    let end = asked.opcode("OP_MACHINE_AWAIT", serial)?;
    Ok(json(asked.submit_all(vec![begin, end]).await?))
}

async fn hand(op: &'static str, (name, serial): (String, String), asked: RouteRequest) -> Answer {
    TENANTS.condition(&asked, &name).await?;
    let machines = ("machines".to_owned(), json!([serial]));
    let body = Map::from_iter([(TENANTS.key.to_owned(), name.into()), machines]);
    let body = forced(&asked, body)?;
    Ok(json(asked.run(op, body).await?))
}
