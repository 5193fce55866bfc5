//! A master with fixed answers that remembers the opcodes it was sent, and `gnt` as a process.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use luxi::method::{JobChange, Query, QueryJobs, SubmitJob, WaitForJobChange, What};
use luxi::query::{Cell, CellStatus, Definitions, FieldDefinition, FieldKind, Table, select};
use luxi::{Caller, Limits, Request, Response, Service, answer, serve};
use model::error::{ErrorCode, ExceptionKind};
use model::job::{LogEntry, LogType};
use model::layout::Layout;
use model::{Exception, JobId, OpInput, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::standing;
use FieldKind::{Number, Other, Text, Unit};

static JOBS: [FieldDefinition; 6] = [
    FieldDefinition::new("id", "ID", Number, "Job ID"),
    FieldDefinition::new("status", "Status", Text, "Job status"),
    FieldDefinition::new("summary", "Summary", Other, "What its opcodes are"),
    FieldDefinition::new("received_ts", "Received", FieldKind::Timestamp, "When it came"),
    FieldDefinition::new("opstart", "OpCode_start", Other, "When each opcode began"),
    FieldDefinition::new("archived", "Archived", FieldKind::Bool, "Whether it is archived"),
];
static NODES: [FieldDefinition; 13] = [
    FieldDefinition::new("name", "Node", Text, "Node name"),
    FieldDefinition::new("dtotal", "DTotal", Unit, "Disk"),
    FieldDefinition::new("dfree", "DFree", Unit, "Free disk"),
    FieldDefinition::new("mtotal", "MTotal", Unit, "Memory"),
    FieldDefinition::new("mnode", "MNode", Unit, "Memory of the node"),
    FieldDefinition::new("mfree", "MFree", Unit, "Free memory"),
    FieldDefinition::new("pinst_cnt", "Pinst", Number, "Primary instances"),
    FieldDefinition::new("sinst_cnt", "Sinst", Number, "Secondary instances"),
    FieldDefinition::new("role", "Role", Text, "Role"),
    FieldDefinition::new("rack", "Rack", Number, "Rack"),
    FieldDefinition::new("pip", "PrimaryIP", Text, "Address"),
    FieldDefinition::new("agent", "Agent", Text, "Whether its agent is reached"),
    FieldDefinition::new("ctotal", "CTotal", Number, "Processors"),
];
static MACHINES: [FieldDefinition; 9] = [
    FieldDefinition::new("serial", "Serial", Text, "Serial number"),
    FieldDefinition::new("rack", "Rack", Number, "Rack"),
    FieldDefinition::new("index", "Index", Number, "Index"),
    FieldDefinition::new("role", "Role", Text, "Role"),
    FieldDefinition::new("product", "Product", Text, "Product"),
    FieldDefinition::new("ipv4", "IPv4", Other, "Addresses"),
    FieldDefinition::new("mac", "MAC", Other, "Ethernet addresses"),
    FieldDefinition::new("lease", "Lease", Text, "Leased address"),
    FieldDefinition::new("stage", "Stage", Text, "How far it booted"),
];
static LOCKS: [FieldDefinition; 4] = [
    FieldDefinition::new("name", "Name", Text, "Lock name"),
    FieldDefinition::new("mode", "Mode", Other, "Mode"),
    FieldDefinition::new("owner", "Owner", Other, "Owners"),
    FieldDefinition::new("pending", "Pending", Other, "Waiting"),
];

/// The master. It keeps the requests that it gets as text, and whether its queue is drained.
#[derive(Default)]
struct Toy {
    asked: Mutex<Vec<String>>,
    drained: Mutex<bool>,
}

fn objects(what: What) -> (&'static [FieldDefinition], Vec<Value>) {
    match what {
        What::Job => (
            &JOBS,
            vec![
                json!({"id": 7, "status": "success", "summary": ["TEST_DELAY(1)", "TEST_DELAY(2)"],
                "received_ts": [1_700_000_000, 5], "archived": false,
                "opstart": [[1_700_000_000, 500_000], null]}),
                json!({"id": 1042, "status": "queued", "summary": ["MACHINE_ADD(1234abcd)"],
                "received_ts": [1_700_000_001, 5], "archived": false, "opstart": [null]}),
            ],
        ),
        What::Node => (
            &NODES,
            vec![
                json!({"name": "n1.example.com", "dtotal": 100_045, "dfree": 512, "mtotal": 3_145_728,
                "mnode": 100, "mfree": 2_000, "pinst_cnt": 0, "sinst_cnt": 0, "role": "M", "rack": 0,
                "pip": "192.0.2.1", "agent": "not reached: it sleeps", "ctotal": 8}),
                json!({"name": "n2.example.com", "pinst_cnt": 12, "sinst_cnt": 3, "role": "O",
                "pip": "192.0.2.2"}),
            ],
        ),
        What::Machine => (
            &MACHINES,
            vec![
                json!({"serial": "1234abcd", "rack": 1, "index": 3, "role": "boot", "product": "R630",
                "ipv4": ["10.69.0.3", "10.69.0.67"], "mac": ["52:54:00:aa:bb:01"],
                "lease": "10.69.0.40", "stage": "script"}),
            ],
        ),
        What::Lock => (
            &LOCKS,
            vec![json!({"name": "node/n1", "mode": "exclusive", "owner": ["job7"],
                "pending": [["shared", ["job8", "job9"]]]})],
        ),
        What::Switch
        | What::Port
        | What::PortConfiguration
        | What::Tenant
        | What::Rack
        | What::Lease
        | What::Unregistered
        | What::Claim
        | What::NetworkTemplate
        | What::BootTemplate
        | What::Token
        | What::Image
        | What::Instance
        | What::Group
        | What::Network
        | What::Export
        | What::Asset
        | What::Filter => (&[], vec![]),
    }
}

impl Toy {
    fn submit(&self, ops: &[OpInput]) -> JobId {
        let mut sent = serde_json::to_value(ops).unwrap();
        for op in sent.as_array_mut().unwrap() {
            for reason in op["reason"].as_array_mut().unwrap() {
                reason[2] = json!("NOW");
            }
        }
        let mut asked = self.asked.lock();
        asked.push(format!("{sent:#}"));
        // The number tells the job's fate.
        let text = sent.to_string();
        JobId(match () {
            () if text.contains("\"duration\":13.0") => 13,
            () if text.contains("\"duration\":14.0") => 14,
            () if text.contains("OP_MACHINE_ADD") => 20,
            () if text.contains("\"vm_capable\":true") => 22,
            () if text.contains("OP_NODE_SET_PARAMS") => 21,
            () => 37,
        })
    }

    fn query(&self, call: &Query) -> Result<Table, Exception> {
        self.asked.lock().push(format!("{} filter {}", call.what, json!(call.filter)));
        let (known, objects) = objects(call.what);
        let cell = |object: &Value, name: &String| match object.get(name) {
            Some(value) => Cell::normal(value.clone()),
            None if known.iter().any(|field| field.name == *name) => {
                Cell::without(CellStatus::Offline)
            }
            None => Cell::without(CellStatus::Unknown),
        };
        let holds = |object: &&Value| {
            let value_of = |field: &str| object.get(field).cloned();
            call.filter.as_ref().is_none_or(|filter| filter.holds(value_of))
        };
        let row = |object: &Value| call.fields.iter().map(|name| cell(object, name)).collect();
        let data = objects.iter().filter(holds).map(row).collect();
        Ok(Table { fields: select(&call.fields, known), data })
    }

    fn wait(&self, call: WaitForJobChange) -> Result<JobChange, Exception> {
        let id = call.job_id;
        if id.0 > 100 {
            return Err(Exception::new(ExceptionKind::JobLost, format!("No job {id}")));
        }
        let entry = |serial, kind, message| {
            let at = Timestamp::from_micros(1_700_000_000_000_000);
            Arc::new(LogEntry(serial, at, kind, message))
        };
        if call.previous.is_none() && id.0 != 14 {
            let values = vec![json!("running"), json!(["running"]), json!([null])];
            let log = vec![entry(1, LogType::Message, json!("begins"))];
            return Ok(JobChange::Changed(values, log));
        }
        if let (14, Some(change)) = (id.0, slow(&call)) {
            return Ok(change);
        }
        let (status, result) = match id.0 {
            13 => ("error", Exception::exec("the node is on fire").to_value()),
            20 => (
                "success",
                json!([{"serial": "1234abcd", "rack": 1, "index-in-rack": 3,
                "network": {"node0": {"ipv4": ["10.69.0.3"]}}}]),
            ),
            21 => ("success", json!([["offline", "True"], ["rack", 4]])),
            22 => ("success", json!([])),
            _ => ("success", Value::Null),
        };
        let values = vec![json!(status), json!([status]), json!([result])];
        let log = vec![entry(2, LogType::MessageList, json!(["ends", "after all"]))];
        Ok(JobChange::Changed(values, log))
    }

    fn drain(&self, drained: bool) {
        self.asked.lock().push(format!("drained: {drained}"));
        *self.drained.lock() = drained;
    }

    fn status(&self) -> model::cluster_status::ClusterStatus {
        standing::status(*self.drained.lock())
    }

    fn config_value(&self, name: &str) -> Value {
        match name {
            "master_node" => json!("n1.example.com"),
            "drain_flag" => json!(*self.drained.lock()),
            _ => Value::Null,
        }
    }

    fn query_jobs(&self, call: &QueryJobs) -> Result<Vec<Option<Vec<Value>>>, Exception> {
        let row = |id: &JobId| {
            let value = |field: &String| match field.as_str() {
                "id" => json!(id),
                "status" => json!(if id.0 == 8 { "running" } else { "error" }),
                "archived" => json!(id.0 == 5),
                "received_ts" => json!([1_700_000_000, 5]),
                "start_ts" => json!([1_700_000_000, 700]),
                "end_ts" => json!([1_700_000_002, 0]),
                "ops" => json!([{"OP_ID": "OP_TEST_DELAY", "duration": 13.0, "on_nodes": ["n1"],
                    "depends": null, "comment": null, "dry_run": false, "debug_level": 0,
                    "priority": 0, "reason": [["gnt:client:gnt-debug", "delay", 5]]}]),
                "opstatus" => json!(["error"]),
                "opresult" => json!([Exception::exec("the node is on fire").to_value()]),
                "opstart" | "opexec" => json!([[1_700_000_000, 700]]),
                "opend" => json!([[1_700_000_002, 0]]),
                "oplog" => json!([[[1, [1_700_000_001, 0], "message", "begins"]]]),
                _ => Value::Null,
            };
            (id.0 <= 100).then(|| call.fields.iter().map(value).collect())
        };
        Ok(call.job_ids.iter().flatten().map(row).collect())
    }
}

/// A job that is long in each status: nothing is new of it as long as the client would rather not
/// wait for long. `None` at its end.
fn slow(call: &WaitForJobChange) -> Option<JobChange> {
    if call.previous.is_some() && call.timeout < luxi::limits::WAIT_SECONDS_MAX {
        return Some(JobChange::Unchanged);
    }
    let next = match call.previous.as_ref().map(|values| values[0].as_str().unwrap()) {
        None => "queued",
        Some("queued") => "waiting",
        Some("waiting") => "running",
        _ => return None,
    };
    Some(JobChange::Changed(vec![json!(next), json!([next]), json!([null])], vec![]))
}

impl Service for Toy {
    async fn call(
        &self,
        request: Request,
        _caller: Caller,
        _digest: Option<model::job::RequestDigest>,
    ) -> Response {
        match request {
            Request::SubmitJob(call) => {
                answer(call, async |call: SubmitJob| Ok(self.submit(&call.ops))).await
            }
            Request::SubmitManyJobs(call) => {
                answer(call, async |call: luxi::method::SubmitManyJobs| {
                    let submit =
                        |ops: &Vec<OpInput>| luxi::method::Submission::Accepted(self.submit(ops));
                    Ok(call.jobs.iter().map(submit).collect())
                })
                .await
            }
            Request::WaitForJobChange(call) => answer(call, async |call| self.wait(call)).await,
            Request::Query(call) => answer(call, async |call| self.query(&call)).await,
            Request::QueryFields(call) => {
                answer(call, async |call: luxi::method::QueryFields| {
                    let (known, _) = objects(call.what);
                    let fields =
                        call.fields.map_or(known.to_vec(), |wanted| select(&wanted, known));
                    Ok(Definitions { fields })
                })
                .await
            }
            Request::QueryJobs(call) => answer(call, async |call| self.query_jobs(&call)).await,
            Request::CancelJob(call) => {
                answer(call, async |call: luxi::method::CancelJob| {
                    let canceled = call.job_id.0 != 7;
                    let told = if canceled { "Dequeued job" } else { "Cannot cancel job" };
                    Ok((canceled, format!("{told} {}", call.job_id)))
                })
                .await
            }
            Request::ChangeJobPriority(call) => {
                answer(call, async |call: luxi::method::ChangeJobPriority| {
                    Ok((true, format!("job {} has priority {}", call.job_id, call.priority)))
                })
                .await
            }
            Request::ArchiveJob(call) => {
                answer(call, async |call: luxi::method::ArchiveJob| Ok(call.job_id.0 == 7)).await
            }
            Request::AutoArchiveJobs(call) => answer(call, async |_| Ok((5, 1))).await,
            Request::QueryConfigValues(call) => {
                answer(call, async |call: luxi::method::QueryConfigValues| {
                    Ok(call.names.iter().map(|name| self.config_value(name)).collect())
                })
                .await
            }
            Request::QueryClusterInfo(call) => answer(call, async |_| Ok(cluster_info())).await,
            Request::SetDrainFlag(call) => {
                self.drain(call.drained);
                answer(call, async |_| Ok(true)).await
            }
            Request::GantryStageSecret(call) => {
                let told = format!("secret of {}: {}", call.node_name, call.secret.0.expose());
                self.asked.lock().push(told);
                answer(call, async |_| Ok(())).await
            }
            Request::GantryMasterFailover(call) => {
                answer(call, async |_| Ok(model::role_check::RoleTaken::refused("a toy"))).await
            }
            Request::GantryClusterStatus(call) => answer(call, async |_| Ok(self.status())).await,
            Request::GantryIpam(call) => answer(call, async |_| Ok(None)).await,
            other => Response::failure(&Exception::prereq(
                format!("the toy has no {}", other.name()),
                ErrorCode::WrongInput,
            )),
        }
    }
}

fn cluster_info() -> Value {
    json!({"name": "toy.example.com", "uuid": "0d0b", "ctime": 1_700_000_000.5,
        "mtime": 1_700_000_001.5, "master": "n1.example.com", "architecture": ["64bit", "x86_64"],
        "tags": [], "candidate_pool_size": 10, "max_running_jobs": 20, "max_tracked_jobs": 25,
        "mac_prefix": "aa:00:00", "master_netdev": "", "master_netmask": 32,
        "software_version": "0.1.0", "protocol_version": 3_000_000, "config_version": 3_000_000,
        "os_api_version": 20, "export_version": 0, "vcs_version": "x"})
}

/// A running master below a root of its own.
pub(crate) struct Master {
    pub(crate) root: tempfile::TempDir,
    toy: Arc<Toy>,
    _stop: watch::Sender<bool>,
    _runtime: Runtime,
}

pub(crate) fn start() -> Master {
    let root = tempfile::tempdir().unwrap();
    let socket = Layout::new(root.path()).luxi_socket();
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let runtime = Runtime::new().unwrap();
    let toy = Arc::new(Toy::default());
    let (stop, stopped) = watch::channel(false);
    let listener = runtime.block_on(async { UnixListener::bind(&socket).unwrap() });
    runtime.spawn(serve(listener, Arc::clone(&toy), Limits::default(), stopped));
    Master { root, toy, _stop: stop, _runtime: runtime }
}

impl Master {
    /// The output of `gnt`, with its exit status and the requests that it made.
    pub(crate) fn run(&self, line: &str) -> String {
        self.run_with(line, "")
    }

    /// The same with something on standard input.
    pub(crate) fn run_with(&self, line: &str, input: &str) -> String {
        self.toy.asked.lock().clear();
        let mut shown = gnt("gnt", self.root.path().to_path_buf(), line, input);
        for asked in self.toy.asked.lock().iter() {
            shown.push_str(&format!("(asked) {asked}\n"));
        }
        shown
    }
}

/// Runs `gnt` under the name `program`.
pub(crate) fn gnt(program: &str, root: PathBuf, line: &str, input: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gnt"))
        .arg0(program)
        .args(words(line))
        .env("GANTRY_ROOT", &root)
        .env("NO_COLOR", "1")
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let mut shown = format!("$ {program} {line}\n");
    shown.push_str(&String::from_utf8(output.stdout).unwrap());
    for text in String::from_utf8(output.stderr).unwrap().lines() {
        shown.push_str(&format!("(stderr) {text}\n"));
    }
    match output.status.code().unwrap() {
        0 => {}
        code => shown.push_str(&format!("(exit {code})\n")),
    }
    shown.replace(root.to_str().unwrap(), "ROOT")
}

/// Words of a line; single quotes keep blanks.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in line.split('\'').enumerate() {
        for (n, word) in part.split(if at % 2 == 0 { ' ' } else { '\0' }).enumerate() {
            if n > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(word);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
