//! The master's side of LUXI: every method of the table answered by one match.

mod console;
mod files;
mod filters;
mod jobs;
mod queries;
mod ramdisk;
mod tenants;
mod turns;
mod waits;

use std::sync::Arc;

use ::jobs::locks::Locks;
use ::jobs::submitter::Sender;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use luxi::method::{Class, GantryDiskKey, GantrySeal, GantryToken, Method, StagedSecret};
use luxi::{Caller, Request, Response, Service, answer};
use model::boot_template::BootDocument;
use model::disk_key::DiskKeyId;
use model::error::{ErrorCode, ExceptionKind};
use model::job::RequestDigest;
use model::layout::RAPI_USER;
use model::name::NameError;
use model::network::template::NetworkFile;
use model::tag::TagKind;
use model::token::TokenGrant;
use model::vault::Sealed;
use model::{Code, Exception, Secret, Timestamp};
use stdx::admission::turns::{TurnLimits, Turns};
use stdx::{Clock, Executor};
use tokio::sync::Mutex;

use crate::agents::Agents;
use crate::agents::contacts::Contacts;
use crate::agents::master_address::MoveAddress;
use crate::config::queue::{Archive, Commits, Published, Submitter, Writer};
use crate::config::secrets::StagedSecrets;
use crate::config::vault;
use crate::machines::boot_template::document;
use crate::machines::network_template::files::files;
use crate::store::export::downloads::Exports;
use crate::switching::watch::SwitchLooks;

const MICROS_PER_SECOND: f64 = 1e6;
/// How long a master without a majority still tells what tokens give: with the time for which `rapi`
/// remembers it, less than 10 s.
const TOKEN_SILENCE_MS_MAX: u64 = 4_000;

/// The sources of answers to requests.
#[derive(Debug)]
pub struct Sources {
    /// What is committed.
    pub(crate) published: Arc<Published>,
    /// Archived jobs.
    pub(crate) archive: Archive,
    /// Changes queue and configuration.
    pub(crate) writer: Writer,
    /// Takes jobs.
    pub(crate) submitter: Submitter,
    /// Tells whether the majority is heard, and freezes the store.
    pub(crate) commits: Arc<Commits>,
    /// Who holds what.
    pub(crate) locks: Locks,
    /// Which agents are reached.
    pub(crate) contacts: Arc<Contacts>,
    /// The way to the agents, for live values.
    pub(crate) agents: Agents,
    /// Whether the master's address is here.
    pub(crate) address: Arc<MoveAddress>,
    /// One-time secrets of nodes that are about to be added.
    pub(crate) secrets: Arc<StagedSecrets>,
    /// Exports that clients fetch.
    pub(crate) exports: Exports,
    /// The last looks at switches.
    pub(crate) switches: Arc<SwitchLooks>,
    /// Gives the time.
    pub(crate) clock: Clock,
}

/// Answers LUXI requests.
#[derive(Debug, Clone)]
pub struct LuxiService {
    sources: Arc<Sources>,
    /// Turns of long lists.
    lists: Turns<turns::ListUser>,
    /// Where queries run.
    queries: Executor,
    /// Held while jobs of a tenant are counted and submitted.
    tenants_turn: Arc<Mutex<()>>,
}

impl LuxiService {
    /// A service on `backend`, whose queries run on `queries`.
    pub fn new(sources: Arc<Sources>, queries: Executor) -> Self {
        let lists = Turns::new(TurnLimits::undivided(turns::LISTS_MAX));
        Self { sources, lists, queries, tenants_turn: Arc::default() }
    }
}

impl Service for LuxiService {
    async fn call(
        &self,
        mut request: Request,
        mut caller: Caller,
        digest: Option<RequestDigest>,
    ) -> Response {
        record(&request, &caller);
        if let Err(refusal) = self.limit(&mut request, &mut caller).await {
            return Response::failure(&refusal);
        }
        if request.class() != Class::Query {
            return self.answer(request, caller, digest).await;
        }
        let service = self.clone();
        let work = async move {
            match service.turn(&request, &caller).await {
                Ok(_turn) => service.answer(request, caller, digest).await,
                Err(busy) => Response::failure(&busy),
            }
        };
        self.queries.run(work).await
    }
}

impl LuxiService {
    async fn answer(
        &self,
        request: Request,
        caller: Caller,
        digest: Option<RequestDigest>,
    ) -> Response {
        let sender = Sender { uid: caller.uid, asker: caller.asker.clone(), digest };
        match request {
            Request::SubmitJob(call) => {
                answer(call, |c| self.submit_job(c.ops, false, sender)).await
            }
            Request::SubmitJobToDrainedQueue(call) => {
                answer(call, |c| self.submit_job(c.ops, true, sender)).await
            }
            Request::SubmitManyJobs(call) => {
                answer(call, |c| self.submit_many(c.jobs, sender)).await
            }
            Request::WaitForJobChange(call) => answer(call, |c| self.wait_for_change(c)).await,
            Request::CancelJob(call) => answer(call, |c| self.cancel(c.job_id, c.kill)).await,
            Request::ChangeJobPriority(call) => {
                answer(call, |c| self.change_priority(c.job_id, c.priority)).await
            }
            Request::ArchiveJob(call) => answer(call, |c| self.archive(c.job_id)).await,
            Request::AutoArchiveJobs(call) => {
                answer(call, |c| self.auto_archive(c.age, c.timeout)).await
            }
            Request::PickupJob(call) => internal(call).await,
            Request::Query(call) => answer(call, |c| self.query(c)).await,
            Request::QueryFields(call) => answer(call, async |c| Ok(queries::fields(&c))).await,
            Request::QueryJobs(call) => answer(call, |c| self.query_jobs(c, &caller)).await,
            Request::QueryNodes(call) => answer(call, async |c| self.query_nodes(&c)).await,
            Request::QueryGroups(call) => answer(call, async |c| self.query_groups(&c)).await,
            Request::QueryInstances(call) => answer(call, async |c| self.query_instances(&c)).await,
            Request::QueryNetworks(call) => answer(call, async |c| self.query_networks(&c)).await,
            Request::QueryExports(call) => answer(call, async |c| self.query_exports(&c)).await,
            Request::QueryFilters(call) => answer(call, async |c| self.query_filters(&c)).await,
            Request::ReplaceFilter(call) => answer(call, |c| self.replace_filter(c)).await,
            Request::DeleteFilter(call) => answer(call, |c| self.delete_filter(c)).await,
            Request::QueryConfigValues(call) => {
                answer(call, async |c| Ok(self.config_values(&c.names))).await
            }
            Request::QueryClusterInfo(call) => {
                answer(call, async |_| Ok(self.cluster_info())).await
            }
            Request::QueryTags(call) => answer(call, async |c| self.tags(&c)).await,
            Request::SetDrainFlag(call) => answer(call, |c| self.set_drained(c.drained)).await,
            Request::SetWatcherPause(call) => {
                answer(call, |c| self.set_watcher_pause(c.until)).await
            }
            Request::GantryStageSecret(call) => answer(call, async |c| self.stage_secret(c)).await,
            Request::GantryMasterFailover(call) => internal(call).await,
            Request::GantryClusterStatus(call) => internal(call).await,
            Request::GantryMasterStatus(call) => internal(call).await,
            Request::GantryExport(call) => answer(call, |c| self.export(c, &caller)).await,
            Request::GantryExportPiece(call) => answer(call, |c| self.export_piece(c)).await,
            Request::GantryLog(call) => internal(call).await,
            Request::GantryNoteRefusals(call) => internal(call).await,
            Request::GantryIpam(call) => answer(call, async |_| Ok(self.ipam())).await,
            Request::GantryDigest(call) => answer(call, async |c| Ok(self.digest(&c))).await,
            Request::GantryDhcp(call) => answer(call, async |_| Ok(self.dhcp())).await,
            Request::GantrySeal(call) => answer(call, async |c| self.seal(c)).await,
            Request::GantryDiskKey(call) => {
                answer(call, async |c| self.disk_key(&c, &caller)).await
            }
            Request::GantryNetworkFiles(call) => {
                answer(call, async |c| self.network_files(&c)).await
            }
            Request::GantryBootDocument(call) => answer(call, async |c| self.document(&c)).await,
            Request::GantryToken(call) => answer(call, async |c| self.token(c)).await,
            Request::GantryConsole(call) => answer(call, |c| self.console(c)).await,
            Request::GantryRamdisk(call) => answer(call, |c| self.ramdisk(c, &caller)).await,
        }
    }
}

impl LuxiService {
    fn stage_secret(&self, call: luxi::method::GantryStageSecret) -> Result<(), Exception> {
        let refuse = |text: String| Exception::new(ExceptionKind::ParameterError, text);
        let secret = model::enrol::parse_secret(call.secret.0.expose());
        let secret = secret.map_err(|error| refuse(error.to_string()))?;
        self.sources
            .secrets
            .stage(call.node_name, secret)
            .map_err(|error| refuse(error.to_string()))
    }

    async fn export(
        &self,
        call: luxi::method::GantryExport,
        caller: &Caller,
    ) -> Result<String, Exception> {
        // A holder of the authority's key can be any node; operators need not.
        let own = nix::unistd::geteuid().as_raw();
        if call.passphrase.is_some() && caller.uid != 0 && caller.uid != own {
            return Err(Exception::prereq(
                "The secrets of the cluster are exported for root alone; leave them out, or ask as \
                 root",
                ErrorCode::WrongInput,
            )
            .coded(Code::PermissionDenied));
        }
        let passphrase = call.passphrase.map(|passphrase| passphrase.0);
        let Sources { commits, published, agents, exports, .. } = self.sources.as_ref();
        let (authority, now) = (agents.authority_certificate().to_owned(), self.now());
        let begun = exports.begin((commits, published), authority, now, passphrase).await?;
        Ok(begun.to_string())
    }

    async fn export_piece(
        &self,
        call: luxi::method::GantryExportPiece,
    ) -> Result<luxi::method::ExportPiece, Exception> {
        self.sources.exports.read(&call.id, call.offset).await
    }

    fn digest(&self, call: &luxi::method::GantryDigest) -> Option<String> {
        self.sources.published.snapshot().config.digest(&call.document)
    }

    /// The time of day.
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.sources.clock.now_micros())
    }

    fn dhcp(&self) -> model::dhcp::DhcpConfig {
        self.sources.published.snapshot().config.dhcp.as_deref().cloned().unwrap_or_default()
    }

    fn seal(&self, call: GantrySeal) -> Result<Sealed, Exception> {
        let wrong = |text: String| Exception::prereq(text, ErrorCode::WrongInput);
        let secret = STANDARD.decode(call.secret.0.expose());
        let secret = secret.map_err(|_error| wrong("the secret is not Base64".to_owned()))?;
        let config = self.sources.published.snapshot().config;
        vault::seal(&config, &call.purpose, &Secret::new(secret))
            .map_err(|error| wrong(error.to_string()))
    }

    fn disk_key(
        &self,
        call: &GantryDiskKey,
        caller: &Caller,
    ) -> Result<Option<StagedSecret>, Exception> {
        for_door(caller, "Keys of disks are for root alone; machines ask for theirs over HTTPS")?;
        let config = self.sources.published.snapshot().config;
        let serial = config.machine(&call.serial)?.serial.clone();
        let wrong = |error: NameError| Exception::prereq(error.to_string(), ErrorCode::WrongInput);
        let id = DiskKeyId { serial, disk: call.disk.parse().map_err(wrong)? };
        let Some(opened) = vault::disk_key(&config, &id) else { return Ok(None) };
        let key = opened.map_err(|error| Exception::exec(error.to_string()))?;
        Ok(Some(StagedSecret(Secret::new(STANDARD.encode(key.expose())))))
    }

    fn network_files(
        &self,
        call: &luxi::method::GantryNetworkFiles,
    ) -> Result<Vec<NetworkFile>, Exception> {
        let format = hostnet::Format::from_word(&call.format).ok_or_else(|| {
            let words: Vec<&str> =
                hostnet::Format::ALL.iter().map(|format| format.word()).collect();
            let text = format!("format `{}` is none of {}", call.format, words.join(", "));
            Exception::prereq(text, ErrorCode::WrongInput)
        })?;
        let config = self.sources.published.snapshot().config;
        let files = stdx::aside(|| files(&config, &call.serial, call.version, format))?;
        let told = |file: hostnet::RenderedFile| NetworkFile {
            path: file.path,
            mode: file.mode,
            content: file.content,
        };
        Ok(files.into_iter().map(told).collect())
    }

    fn document(&self, call: &luxi::method::GantryBootDocument) -> Result<BootDocument, Exception> {
        let config = self.sources.published.snapshot().config;
        let document = || document(&config, &call.serial, call.kind, call.version.as_ref());
        stdx::aside(document)
    }

    /// A master that hears no majority may not know yet that a token was ended.
    fn token(&self, call: GantryToken) -> Result<Option<TokenGrant>, Exception> {
        let silence_ms = self.sources.commits.majority().silence_ms();
        if silence_ms > TOKEN_SILENCE_MS_MAX {
            let text =
                "This master hears no majority and does not know which tokens are still good";
            return Err(Exception::prereq(text, ErrorCode::TempInsufficientResources));
        }
        let config = self.sources.published.snapshot().config;
        Ok(config.tokens.by.sha256.of(call.sha256).next().map(|token| token.grant()))
    }

    fn ipam(&self) -> Option<model::ipam::IpamConfig> {
        self.sources.published.snapshot().config.ipam.as_deref().cloned()
    }

    fn config_values(&self, names: &[String]) -> Vec<serde_json::Value> {
        use serde_json::{Value, json};
        let config = self.sources.published.snapshot().config;
        let value = |name: &String| match name.as_str() {
            "cluster_name" => json!(config.cluster.cluster_name),
            "master_node" => json!(config.role.master),
            "watcher_pause" => self.watcher_pause(),
            "master_time" => json!(self.sources.clock.now_micros() as f64 / MICROS_PER_SECOND),
            "drain_flag" => json!(self.sources.published.is_drained()),
            "modify_ssh_setup" => json!(false),
            "ssh_key_type" => json!("ecdsa"),
            "ssh_key_bits" => json!(256),
            _ => Value::Null,
        };
        names.iter().map(value).collect()
    }

    fn cluster_info(&self) -> serde_json::Value {
        crate::cluster::settings::info::describe(&self.sources.published.snapshot().config)
    }

    fn tags(&self, call: &luxi::method::QueryTags) -> Result<Vec<String>, Exception> {
        let config = self.sources.published.snapshot().config;
        let kind = TagKind::ALL.into_iter().find(|kind| kind.as_str() == call.kind);
        let kind = kind.ok_or_else(|| {
            let text = format!("objects of kind `{}` have no tags", call.kind);
            Exception::prereq(text, model::error::ErrorCode::WrongInput)
        })?;
        let target = crate::cluster::tags::Target::find(kind, call.name.as_deref(), &config)?;
        Ok(target.tags(&config)?.to_vec())
    }
}

/// Refuses, for this reason, whoever is neither root nor the front door: what is answered is a secret.
fn for_door(caller: &Caller, why: &str) -> Result<(), Exception> {
    let own = nix::unistd::geteuid().as_raw();
    let is_rapi = || crate::door::users::name(caller.uid).as_ref() == RAPI_USER;
    if caller.uid == 0 || caller.uid == own || is_rapi() {
        return Ok(());
    }
    Err(Exception::prereq(why, ErrorCode::WrongInput).coded(Code::PermissionDenied))
}

/// The log's word on a request: who changes something is seen without asking for more.
fn record(request: &Request, caller: &Caller) {
    let (method, uid) = (request.name(), caller.uid);
    match changed_by(request) {
        Some(of) => tracing::info!(method, of, uid, "change asked for"),
        None => tracing::debug!(method, uid, "request"),
    }
}

/// The change that a request would make, for the log. Submissions are logged with their jobs, once those
/// have ids.
pub(crate) fn changed_by(request: &Request) -> Option<String> {
    let of = match request {
        Request::CancelJob(call) if call.kill => format!("job {}, kill", call.job_id),
        Request::CancelJob(call) => format!("job {}", call.job_id),
        Request::ChangeJobPriority(call) => format!("job {} to {}", call.job_id, call.priority),
        Request::ArchiveJob(call) => format!("job {}", call.job_id),
        Request::AutoArchiveJobs(call) => format!("jobs older than {} s", call.age),
        Request::PickupJob(call) => format!("job {}", call.job_id),
        Request::ReplaceFilter(call) => format!("rule {}", call.uuid.as_deref().unwrap_or("new")),
        Request::DeleteFilter(call) => format!("rule {}", call.uuid),
        Request::SetDrainFlag(call) if call.drained => "queue, to drain".to_owned(),
        Request::SetDrainFlag(_) => "queue, to undrain".to_owned(),
        Request::SetWatcherPause(call) => call.until.map_or_else(
            || "watcher, to continue".to_owned(),
            |until| format!("watcher, to pause until {until}"),
        ),
        Request::GantryStageSecret(call) => format!("node {}", call.node_name),
        Request::GantryMasterFailover(call) => match &call.to {
            Some(to) => format!("node {to}"),
            None => "this node".to_owned(),
        },
        Request::GantryNoteRefusals(call) => format!("{} refused requests", call.entries.len()),
        Request::GantryExport(call) if call.passphrase.is_some() => "export with sealed secrets".to_owned(),
        Request::GantryExport(_) => "export without secrets".to_owned(),
        Request::SubmitJob(_)
        | Request::SubmitJobToDrainedQueue(_)
        | Request::SubmitManyJobs(_)
        | Request::WaitForJobChange(_)
        | Request::Query(_)
        | Request::QueryFields(_)
        | Request::QueryJobs(_)
        | Request::QueryNodes(_)
        | Request::QueryInstances(_)
        | Request::QueryGroups(_)
        | Request::QueryNetworks(_)
        | Request::QueryExports(_)
        | Request::QueryFilters(_)
        | Request::QueryConfigValues(_)
        | Request::QueryClusterInfo(_)
        | Request::QueryTags(_)
        | Request::GantryClusterStatus(_)
        | Request::GantryMasterStatus(_)
        | Request::GantryExportPiece(_)
        | Request::GantryLog(_)
        | Request::GantryIpam(_)
        | Request::GantryDigest(_)
        | Request::GantryDhcp(_)
        | Request::GantrySeal(_)
        | Request::GantryNetworkFiles(_)
        | Request::GantryBootDocument(_)
        | Request::GantryToken(_)
        // Every key that is typed would be a line.
        | Request::GantryConsole(_)
        // Heartbeats come some hundred times a second; the ones with news are logged.
        | Request::GantryRamdisk(_) => return None,
        Request::GantryDiskKey(call) => {
            format!("nothing; key of disk {} of {}", call.disk, call.serial)
        }
    };
    Some(of)
}

/// Ganeti's refusal of a method that only its own daemons use.
async fn internal<M: Method>(call: M) -> Response {
    let text = format!("Luxi call '{}' is for internal use only", M::NAME);
    answer(call, async |_| Err(Exception::new(ExceptionKind::GenericError, text))).await
}

/// Ganeti's refusal of queries that take locks.
fn no_locking(use_locking: bool) -> Result<(), Exception> {
    if use_locking {
        return Err(Exception::prereq(
            "Sync queries are not allowed",
            model::error::ErrorCode::WrongInput,
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_of_each_change_what_it_is_about() {
        for (method, args, of) in [
            ("CancelJob", "[7, true]", "job 7, kill"),
            ("CancelJob", "[7]", "job 7"),
            ("ChangeJobPriority", "[7, -10]", "job 7 to -10"),
            ("AutoArchiveJobs", "[3600, 30]", "jobs older than 3600 s"),
            ("ReplaceFilter", r#"[null, 1, [], "PAUSE", []]"#, "rule new"),
            ("SetDrainFlag", "[false]", "queue, to undrain"),
            ("SetWatcherPause", "[null]", "watcher, to continue"),
            ("GantryStageSecret", r#"["n2", "hunter2"]"#, "node n2"),
        ] {
            let message = format!(r#"{{"method": "{method}", "args": {args}}}"#);
            let request = Request::parse(message.as_bytes()).unwrap();
            assert_eq!(changed_by(&request).as_deref(), Some(of), "{method}");
        }
    }
}
