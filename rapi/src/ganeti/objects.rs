//! Lists of objects, and one of them, with the fields that Ganeti gives (`rlib2.py`, `N_FIELDS` and others).

use axum::response::Response;
use luxi::Method;
use luxi::method::{Fields, QueryGroups, QueryInstances, QueryNetworks, QueryNodes, Row};
use model::document;
use model::group::Group;
use serde_json::{Map, Value, json};

use crate::etag;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json};

/// The kinds of objects that are asked for alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Node,
    /// Node groups.
    Group,
    Network,
    Instance,
}

const NODE: &[&str] = &[
    "name",
    "offline",
    "master_candidate",
    "drained",
    "dtotal",
    "dfree",
    "sptotal",
    "spfree",
    "mtotal",
    "mnode",
    "mfree",
    "pinst_cnt",
    "sinst_cnt",
    "ctotal",
    "cnos",
    "cnodes",
    "csockets",
    "pip",
    "sip",
    "role",
    "pinst_list",
    "sinst_list",
    "master_capable",
    "vm_capable",
    "ndparams",
    "group.uuid",
    "ctime",
    "mtime",
    "uuid",
    "serial_no",
    "tags",
];

/// Fields that agents measure anew for each answer.
const MEASURED: &[&str] = &[
    "dtotal", "dfree", "sptotal", "spfree", "mtotal", "mnode", "mfree", "ctotal", "cnos", "cnodes",
    "csockets",
];

const GROUP: &[&str] = &[
    "alloc_policy",
    "name",
    "node_cnt",
    "node_list",
    "ipolicy",
    "custom_ipolicy",
    "diskparams",
    "custom_diskparams",
    "ndparams",
    "custom_ndparams",
    "ctime",
    "mtime",
    "uuid",
    "serial_no",
    "tags",
];

const NETWORK: &[&str] = &[
    "name",
    "network",
    "gateway",
    "network6",
    "gateway6",
    "mac_prefix",
    "free_count",
    "reserved_count",
    "map",
    "group_list",
    "inst_list",
    "external_reservations",
    "ctime",
    "mtime",
    "uuid",
    "serial_no",
    "tags",
];

const INSTANCE: &[&str] = &[
    "name",
    "admin_state",
    "os",
    "pnode",
    "snodes",
    "disk_template",
    "nic.ips",
    "nic.macs",
    "nic.modes",
    "nic.uuids",
    "nic.names",
    "nic.links",
    "nic.networks",
    "nic.networks.names",
    "nic.bridges",
    "network_port",
    "disk.sizes",
    "disk.spindles",
    "disk_usage",
    "disk.uuids",
    "disk.names",
    "beparams",
    "hvparams",
    "oper_state",
    "oper_ram",
    "oper_vcpus",
    "status",
    "custom_hvparams",
    "custom_beparams",
    "custom_nicparams",
    "ctime",
    "mtime",
    "uuid",
    "serial_no",
    "tags",
];

/// Fields that tell what agents see of an instance.
const SEEN: &[&str] = &["oper_state", "oper_ram", "oper_vcpus", "status"];

/// Adds the old name of the most memory to backend parameters.
fn with_memory(backend: Option<&mut Value>) {
    if let Some(Value::Object(backend)) = backend {
        let memory = backend.get("maxmem").cloned().unwrap_or_default();
        backend.insert("memory".to_owned(), memory);
    }
}

impl Kind {
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Node => NODE,
            Self::Group => GROUP,
            Self::Network => NETWORK,
            Self::Instance => INSTANCE,
        }
    }

    /// The fields that do not count for the tag of an object.
    pub const fn measured(self) -> &'static [&'static str] {
        match self {
            Self::Node => MEASURED,
            Self::Instance => SEEN,
            Self::Group | Self::Network => &[],
        }
    }

    /// The path of the list, and the key of a name in it.
    const fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Node => ("/2/nodes", "id"),
            Self::Group => ("/2/groups", "name"),
            Self::Network => ("/2/networks", "name"),
            Self::Instance => ("/2/instances", "id"),
        }
    }

    async fn rows(
        self,
        asked: &RouteRequest,
        names: Vec<String>,
        fields: &[&str],
    ) -> Result<Vec<Row>, Refusal> {
        let use_locking = asked.flag("lock")?;
        let fields = fields.iter().copied().collect::<Fields>();
        async fn ask<M: Method<Reply = Vec<Row>>>(
            asked: &RouteRequest,
            call: M,
        ) -> Result<Vec<Row>, Refusal> {
            asked.ask(call).await
        }
        match self {
            Self::Node => ask(asked, QueryNodes { names, fields, use_locking }).await,
            Self::Group => ask(asked, QueryGroups { names, fields, use_locking }).await,
            Self::Network => ask(asked, QueryNetworks { names, fields, use_locking }).await,
            Self::Instance => ask(asked, QueryInstances { names, fields, use_locking }).await,
        }
    }

    /// One object.
    ///
    /// # Errors
    /// There is none, or the master does not answer.
    pub async fn object(self, asked: &RouteRequest, name: &str) -> Result<Value, Refusal> {
        let fields = self.fields();
        let mut rows = self.rows(asked, vec![name.to_owned()], fields).await?.into_iter();
        let row = rows.next().ok_or_else(|| Refusal::not_found(format!("there is no `{name}`")))?;
        let mut object = dictionary(fields, row);
        if self == Self::Node {
            let address = object.get("sip").cloned().unwrap_or_default();
            object.insert("secondary_ip".to_owned(), address);
        }
        if self == Self::Instance {
            with_memory(object.get_mut("beparams"));
        }
        Ok(Value::Object(object))
    }

    /// Lets a change rest on one object, as far as the client asks for that.
    ///
    /// # Errors
    /// It is not what the client thinks it is.
    pub async fn condition(self, asked: &RouteRequest, name: &str) -> Result<(), Refusal> {
        if !etag::is_conditional(&asked.headers) {
            return Ok(());
        }
        let document = self.document(asked, name).await?;
        let tag = async { Ok(etag::of(&self.object(asked, name).await?, self.measured())) };
        asked.condition(document, tag).await
    }

    /// The document in which the master keeps an object; the first part of the object's name is enough.
    ///
    /// # Errors
    /// There is none, or the master does not answer.
    pub async fn document(self, asked: &RouteRequest, name: &str) -> Result<String, Refusal> {
        let below = match self {
            Self::Node => document::NODES,
            Self::Network => document::NETWORKS,
            Self::Group => {
                let uuid = self.field(asked, name, "uuid").await?;
                let key = Group::key_of(uuid.as_str().unwrap_or_default());
                return Ok(format!("{}/{key}", document::GROUPS));
            }
            Self::Instance => "instances",
        };
        let name = self.field(asked, name, "name").await?;
        Ok(format!("{below}/{}", name.as_str().unwrap_or_default()))
    }

    /// One field of one object.
    ///
    /// # Errors
    /// There is none, or the master does not answer.
    pub async fn field(
        self,
        asked: &RouteRequest,
        name: &str,
        field: &str,
    ) -> Result<Value, Refusal> {
        let rows = self.rows(asked, vec![name.to_owned()], &[field]).await?;
        let value = rows.into_iter().flatten().next();
        value.ok_or_else(|| Refusal::not_found(format!("there is no `{name}`")))
    }
}

/// Names and values, put together.
pub fn dictionary(fields: &[&str], row: Row) -> Map<String, Value> {
    fields.iter().map(|&field| field.to_owned()).zip(row).collect()
}

/// Answers with all rows as dictionaries. Thousands keep a thread busy for a while.
pub fn dictionaries(fields: &[&str], rows: Vec<Row>) -> Response {
    let answer = || json(rows.into_iter().map(|row| dictionary(fields, row)).collect::<Vec<_>>());
    stdx::aside(answer)
}

/// Names with the paths where there is more, sorted.
pub fn places<T: Ord + std::fmt::Display + serde::Serialize>(
    mut names: Vec<T>,
    path: &str,
    key: &str,
) -> Response {
    names.sort_unstable();
    let place = |name: &T| json!({key: name, "uri": format!("{path}/{name}")});
    json(names.iter().map(place).collect::<Vec<_>>())
}

/// `GET` of a list.
pub(super) async fn list(kind: Kind, asked: RouteRequest) -> Answer {
    if asked.flag("bulk")? {
        let mut rows = kind.rows(&asked, Vec::new(), kind.fields()).await?;
        if kind == Kind::Instance {
            let place = kind.fields().iter().position(|field| *field == "beparams");
            rows.iter_mut().for_each(|row| with_memory(place.and_then(|place| row.get_mut(place))));
        }
        return Ok(dictionaries(kind.fields(), rows));
    }
    let rows = kind.rows(&asked, Vec::new(), &["name"]).await?;
    let names = rows.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned));
    let (path, key) = kind.place();
    Ok(places(names.collect(), path, key))
}

/// `GET` of one object.
pub(super) async fn one(kind: Kind, name: String, asked: RouteRequest) -> Answer {
    let object = kind.object(&asked, &name).await?;
    Ok(asked.object(&object, kind.measured()))
}
