//! Methods that list objects.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ::jobs::archive::LeftOut;
use luxi::Caller;
use luxi::method::{
    Query, QueryExports, QueryFields, QueryGroups, QueryInstances, QueryJobs, QueryNetworks,
    QueryNodes, Row, What,
};
use luxi::query::filter::Operand;
use luxi::query::{Definitions, Filter, Table};
use model::error::ExceptionKind;
use model::group::Group;
use model::network::{Claim, Network};
use model::node::Node;
use model::rack::Lease;
use model::{Exception, Job, JobId, NodeName};
use serde_json::json;
use tokio::time::Instant;

use super::{LuxiService, no_locking, tenants};
use crate::agents::unregistered::UnregisteredMachine;
use crate::cluster::group::fields::GroupRow;
use crate::cluster::node::fields::NodeRow;
use crate::cluster::{group, node, token};
use crate::config::Config;
use crate::door::lists::job::JobRow;
use crate::door::lists::{filter, job, lock};
use crate::door::users;
use crate::instances::backup::fields::{self as export, ExportRow};
use crate::instances::fields::{self as instance, InstanceRow};
use crate::machines::lease::fields::LeaseRow;
use crate::machines::machine::fields::MachineRow;
use crate::machines::network::fields::NetworkRow;
use crate::machines::rack::status::{self as rack_status, RackStatus};
use crate::machines::{
    asset, boot_template, image, lease, machine, network, network_template, rack, unregistered,
};
use crate::switching::fields as switching;
use crate::tenants::fields as tenant;
use crate::units::list::{Field, Listing, bare, definitions, natural};

/// How long a list may be in the making. With [`super::turns::LIST_TURN_TIME`] a little less than a query's deadline,
/// which cannot interrupt it.
const LIST_TIME: Duration = Duration::from_secs(18);
/// How long a list is made before other queries get the thread: what a short one is to wait at most.
const SLICE: Duration = Duration::from_millis(1);

/// Lets other queries run where a list takes long, and gives it up when its time is over.
struct Slices {
    until: Instant,
    next: Instant,
}

impl Slices {
    fn begin() -> Self {
        let now = Instant::now();
        Self { until: now + LIST_TIME, next: now + SLICE }
    }

    /// To be called between two rows.
    async fn next(&mut self) -> Result<(), Exception> {
        let now = Instant::now();
        if now >= self.until {
            return Err(Exception::new(
                ExceptionKind::GenericError,
                "The list takes too long; ask for fewer objects, or with a simpler filter",
            ));
        }
        if now >= self.next {
            tokio::task::yield_now().await;
            self.next = Instant::now() + SLICE;
        }
        Ok(())
    }
}

/// Generates the lists from one row for each kind: its fields, and the rows that a question may want.
macro_rules! lists {
    (|$service:ident, $call:ident| $($what:ident: $fields:expr => $rows:expr,)+) => {
        /// The fields of one kind of object.
        pub(super) fn fields(call: &QueryFields) -> Definitions {
            let wanted = call.fields.as_deref();
            match call.what {
                What::Job => definitions(job::FIELDS, wanted),
                $(What::$what => definitions($fields, wanted),)+
            }
        }

        impl LuxiService {
            pub(super) async fn query(&self, call: Query) -> Result<Table, Exception> {
                let ($service, $call) = (self, &call);
                match call.what {
                    What::Job => self.job_table(&call).await,
                    $(What::$what => table($fields, $rows, $call).await,)+
                }
            }
        }
    };
}

lists! { |service, call|
    Node: node::fields::FIELDS =>
        service.node_rows(call.filter.as_ref(), &named(call))?,
    Lock: lock::FIELDS => service.sources.locks.snapshot(),
    Group: group::fields::FIELDS => service.group_rows(&named(call))?,
    Export: export::FIELDS => service.export_rows(),
    Filter: filter::FIELDS => service.filter_rows(call.filter.as_ref())?,
    Instance: instance::all() => service.instance_rows(call.filter.as_ref(), &named(call))?,
    Network: network::fields::FIELDS => service.network_rows(&named(call))?,
    Machine: machine::fields::FIELDS => service.machine_rows(call.filter.as_ref()),
    Image: image::fields::FIELDS => service.image_rows(call.filter.as_ref()),
    Asset: asset::fields::FIELDS => service.asset_rows(call.filter.as_ref()),
    Rack: rack::fields::FIELDS => service.rack_rows(call.filter.as_ref()),
    Lease: lease::fields::FIELDS => service.lease_rows(),
    Unregistered: unregistered::FIELDS => service.unregistered(),
    Claim: network::claim::fields::FIELDS => service.claim_rows(call.filter.as_ref()),
    NetworkTemplate: network_template::fields::FIELDS =>
        network_template::fields::rows(&service.config()),
    BootTemplate: boot_template::fields::FIELDS => boot_template::fields::rows(&service.config()),
    Switch: switching::SWITCHES =>
        switching::switch_rows(&service.config(), &service.sources.switches),
    Port: switching::PORTS =>
        switching::port_rows(&service.config(), &service.sources.switches),
    PortConfiguration: switching::CONFIGURATIONS =>
        switching::configuration_rows(&service.config()),
    Tenant: tenant::FIELDS => tenant::rows(&service.config()),
    Token: token::fields::FIELDS => token::fields::rows(&service.config(), service.now()),
}

impl LuxiService {
    pub(super) fn config(&self) -> Arc<Config> {
        self.sources.published.snapshot().config
    }

    /// The jobs that are asked for by id, archived ones too, each with a row. Without ids: all live
    /// jobs, and archived ones where fields or filter name the field `archived`.
    async fn job_table(&self, call: &Query) -> Result<Table, Exception> {
        let filter = call.filter.as_ref();
        if let Some(mut ids) = filter.and_then(Filter::only_job_ids) {
            ids.sort_unstable();
            ids.dedup();
            let mut rows: Vec<JobRow> = self.found(&ids).await?.into_iter().flatten().collect();
            let there: Vec<JobId> = rows.iter().map(|row| row.job.id).collect();
            self.add_waits(&mut rows, call).await?;
            let table = table(job::FIELDS, rows, call).await?;
            return Ok(job::with_missing(table, &ids, &there));
        }
        let looked_at = filter.into_iter().flat_map(Filter::fields);
        let archived = call.fields.iter().map(String::as_str).chain(looked_at);
        let archived = archived.into_iter().any(|field| field == job::ARCHIVED);
        let (mut rows, left_out) = self.every_job(archived).await?;
        self.add_waits(&mut rows, call).await?;
        let mut table = table(job::FIELDS, rows, call).await?;
        if let Some(left_out) = left_out {
            job::tell_left_out(&mut table, left_out);
        }
        Ok(table)
    }

    /// All live jobs, with `archived` those in the archive too, and which of these are too many.
    async fn every_job(&self, archived: bool) -> Result<(Vec<JobRow>, Option<LeftOut>), Exception> {
        let mut left_out = None;
        let jobs = &self.sources.published.jobs;
        let live = |job: Arc<Job>| JobRow::new(job, false, users::name);
        let mut rows: Vec<JobRow> = jobs.all().into_iter().map(live).collect();
        if archived {
            let listed = self.sources.archive.all().await?;
            left_out = listed.left_out;
            rows.extend(listed.jobs.into_iter().map(|job| JobRow::new(job, true, users::name)));
            // A job that was archived in between is in both lists; the stable sort keeps it as it
            // was when it was still live.
            rows.sort_by_key(|row| row.job.id);
            rows.dedup_by_key(|row| row.job.id);
        }
        Ok((rows, left_out))
    }

    /// Each of these jobs, live or archived.
    async fn found(&self, ids: &[JobId]) -> Result<Vec<Option<JobRow>>, Exception> {
        let jobs = &self.sources.published.jobs;
        let mut rows: Vec<Option<JobRow>> = ids
            .iter()
            .map(|&id| jobs.get(id).map(|job| JobRow::new(job, false, users::name)))
            .collect();
        let missing = rows.iter().zip(ids).filter(|(row, _)| row.is_none()).map(|(_, &id)| id);
        let archived = self.sources.archive.jobs(missing.collect()).await?;
        for (row, id) in rows.iter_mut().zip(ids) {
            if row.is_none() {
                let job = archived.get(id).cloned();
                *row = job.map(|job| JobRow::new(job, true, users::name));
            }
        }
        Ok(rows)
    }

    pub(super) async fn query_jobs(
        &self,
        call: QueryJobs,
        caller: &Caller,
    ) -> Result<Vec<Option<Row>>, Exception> {
        let tenant = tenants::of(caller);
        bare(job::FIELDS, [], &call.fields)?;
        let mut found = match &call.job_ids {
            Some(ids) => self.found(ids).await?,
            None => {
                let archived = call.fields.iter().any(|field| field == job::ARCHIVED);
                let (jobs, _left_out) = self.every_job(archived).await?;
                jobs.into_iter().map(Some).collect()
            }
        };
        if tenant.is_some() {
            let is_own = |row: &JobRow| row.job.tenant() == tenant;
            found.iter_mut().for_each(|row| *row = row.take().filter(is_own));
            if call.job_ids.is_none() {
                found.retain(Option::is_some);
            }
        }
        let (mut rows, mut slices) = (Vec::new(), Slices::begin());
        for found in found {
            let row = found.map(|row| bare(job::FIELDS, [row], &call.fields)).transpose()?;
            rows.push(row.and_then(|row| row.into_iter().next()));
            slices.next().await?;
        }
        Ok(rows)
    }

    pub(super) fn query_nodes(&self, call: &QueryNodes) -> Result<Vec<Row>, Exception> {
        no_locking(call.use_locking)?;
        bare(node::fields::FIELDS, [], &call.fields)?;
        let rows = self.node_rows(None, &call.names)?;
        bare(node::fields::FIELDS, rows, &call.fields)
    }

    pub(super) fn query_groups(&self, call: &QueryGroups) -> Result<Vec<Row>, Exception> {
        no_locking(call.use_locking)?;
        bare(group::fields::FIELDS, self.group_rows(&call.names)?, &call.fields)
    }

    /// All groups by their names, or those that were named, in that order.
    fn group_rows(&self, names: &[String]) -> Result<Vec<GroupRow>, Exception> {
        let config = self.config();
        let row =
            |group: &Arc<Group>| GroupRow { group: Arc::clone(group), config: Arc::clone(&config) };
        if names.is_empty() {
            let mut groups: Vec<&Arc<Group>> = config.groups.values().collect();
            groups.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            return Ok(groups.into_iter().map(row).collect());
        }
        names.iter().map(|name| config.group(name).map(row)).collect()
    }

    pub(super) fn query_instances(&self, call: &QueryInstances) -> Result<Vec<Row>, Exception> {
        no_locking(call.use_locking)?;
        bare(instance::all(), self.instance_rows(None, &call.names)?, &call.fields)
    }

    /// All instances, or those that were named, in that order, or those to which the filter is limited.
    fn instance_rows(
        &self,
        filter: Option<&Filter>,
        names: &[String],
    ) -> Result<Vec<InstanceRow>, Exception> {
        let config = self.config();
        let mut rows = instance::Rows::new(&config, &self.sources.contacts, self.now());
        if !names.is_empty() {
            return names.iter().map(|name| Ok(rows.row(config.instance(name)?))).collect();
        }
        let limited = instance::limited(&config, filter);
        let all = limited.unwrap_or_else(|| config.instances.values().collect());
        Ok(all.into_iter().map(|instance| rows.row(instance)).collect())
    }

    pub(super) fn query_networks(&self, call: &QueryNetworks) -> Result<Vec<Row>, Exception> {
        no_locking(call.use_locking)?;
        bare(network::fields::FIELDS, self.network_rows(&call.names)?, &call.fields)
    }

    /// All networks, or those that were named, in that order.
    fn network_rows(&self, names: &[String]) -> Result<Vec<NetworkRow>, Exception> {
        let config = self.config();
        let row = |network: &Arc<Network>| NetworkRow {
            network: Arc::clone(network),
            config: Arc::clone(&config),
        };
        if names.is_empty() {
            return Ok(config.networks.values().map(row).collect());
        }
        names.iter().map(|name| config.network(name).map(row)).collect()
    }

    /// All claims, or those of the networks and owners to which the filter is limited.
    fn claim_rows(&self, filter: Option<&Filter>) -> Vec<Arc<Claim>> {
        let config = self.config();
        let by = &config.claims.by;
        let limits = |field| {
            filter
                .and_then(|filter| filter.limits(field))
                .map(|limits| limits.into_iter().filter_map(Operand::as_text).collect::<Vec<_>>())
        };
        if let Some(owners) = limits("owner") {
            let owners = owners.into_iter().filter_map(|owner| owner.parse().ok());
            return owners.flat_map(|owner| by.owner.of(owner).cloned()).collect();
        }
        if let Some(networks) = limits("network") {
            let networks = networks.into_iter().filter_map(|network| network.parse().ok());
            return networks.flat_map(|network| by.network.of(network).cloned()).collect();
        }
        config.claims.values().cloned().collect()
    }

    pub(super) fn query_exports(&self, call: &QueryExports) -> Result<Vec<Row>, Exception> {
        no_locking(call.use_locking)?;
        let config = self.config();
        let wanted = call.nodes.iter().map(|name| config.node(name).map(|node| node.name.clone()));
        let wanted = wanted.collect::<Result<BTreeSet<NodeName>, Exception>>()?;
        let rows = self.export_rows().into_iter();
        let rows = rows.filter(|row| wanted.is_empty() || wanted.contains(&row.node));
        Ok(rows.map(|row| vec![json!(row.node), json!(row.export)]).collect())
    }

    /// The exports that the nodes told of last.
    fn export_rows(&self) -> Vec<ExportRow> {
        let (config, facts) = (self.config(), self.sources.contacts.facts());
        let of_node = |node: &NodeName| {
            let exports = facts.get(node).map(|facts| facts.exports.clone()).unwrap_or_default();
            let node = node.clone();
            exports.into_iter().map(move |export| ExportRow { node: node.clone(), export })
        };
        config.nodes.keys().flat_map(of_node).collect()
    }

    fn machine_rows(&self, filter: Option<&Filter>) -> Vec<MachineRow> {
        let config = self.config();
        let now = self.now();
        let row = |machine: &Arc<_>| MachineRow {
            machine: Arc::clone(machine),
            config: Arc::clone(&config),
            now,
        };
        match machine::fields::limited(&config, filter) {
            Some(machines) => machines.into_iter().map(row).collect(),
            None => config.machines.values().map(row).collect(),
        }
    }

    fn unregistered(&self) -> Vec<UnregisteredMachine> {
        let config = self.config();
        self.sources.contacts.unregistered.all(&config, self.now())
    }

    /// All racks, or those to which the filter is limited.
    fn rack_rows(&self, filter: Option<&Filter>) -> Vec<RackStatus> {
        let config = self.config();
        let (contacts, unregistered) = (self.sources.contacts.all(), self.unregistered());
        let limits = filter.and_then(|filter| filter.limits("rack"));
        let limits: Option<Vec<u32>> =
            limits.and_then(|limits| limits.into_iter().map(Operand::as_u32).collect());
        let mut racks = rack_status::racks(&config);
        racks.retain(|rack| limits.as_ref().is_none_or(|limits| limits.contains(rack)));
        let missing = self.sources.address.held.missing().map(|(_since, missing)| missing);
        let known = rack_status::Known {
            contacts: &contacts,
            unregistered: &unregistered,
            address_missing: missing.as_ref(),
            switches: Some(&self.sources.switches),
            now: self.now(),
        };
        let status = |rack| rack_status::status(&config, rack, known);
        racks.into_iter().map(status).collect()
    }

    fn lease_rows(&self) -> Vec<LeaseRow> {
        let config = self.config();
        let unregistered = self.unregistered();
        let unregistered: HashMap<_, _> =
            unregistered.into_iter().filter_map(|one| Some(((one.rack, one.mac?), one))).collect();
        let row = |lease: &Arc<Lease>| LeaseRow {
            lease: Arc::clone(lease),
            config: Arc::clone(&config),
            stranger: unregistered.get(&(lease.rack, lease.mac)).cloned(),
            now: self.now(),
        };
        let mut rows: Vec<LeaseRow> = config.leases.values().map(row).collect();
        rows.sort_by_key(|row| (row.lease.rack, row.lease.address));
        rows
    }

    /// All nodes, or those that were named, in that order; their agents are asked only for what they know.
    fn node_rows(
        &self,
        filter: Option<&Filter>,
        names: &[String],
    ) -> Result<Vec<NodeRow>, Exception> {
        let config = self.config();
        let mut nodes: Vec<&Arc<Node>> = Vec::new();
        let mut seen = HashSet::new();
        for name in names {
            let node = config.node(name)?;
            if seen.insert(&node.name) {
                nodes.push(node);
            }
        }
        if names.is_empty() {
            match node::fields::limited(&config, filter) {
                Some(limited) => nodes = limited,
                None => nodes.extend(config.nodes.values()),
            }
            nodes.sort_by(|a, b| natural::compare(a.name.as_str(), b.name.as_str()));
        }
        let facts = self.sources.contacts.facts();
        let row = |node: &Arc<Node>| NodeRow {
            node: Arc::clone(node),
            facts: facts.get(&node.name).cloned(),
            contact: self.sources.contacts.get(&node.name),
            config: Arc::clone(&config),
        };
        Ok(nodes.into_iter().map(row).collect())
    }
}

/// Makes a list.
async fn table<T>(fields: &[Field<T>], rows: Vec<T>, call: &Query) -> Result<Table, Exception> {
    let mut listing = Listing::new(fields, &call.fields, call.filter.as_ref())?;
    let mut slices = Slices::begin();
    for row in rows {
        listing.add(&row);
        slices.next().await?;
    }
    Ok(listing.table())
}

/// Names by which a query asks for objects, if it does nothing else.
fn named(call: &Query) -> Vec<String> {
    let names = call.filter.as_ref().and_then(|filter| filter.only_values_of("name"));
    let names = names.unwrap_or_default().into_iter();
    names.filter_map(Operand::as_text).map(str::to_owned).collect()
}
