//! The list of tenants.

use std::sync::Arc;

use model::tenant::Tenant;

use crate::config::Config;
use crate::units::list::{Cell, Field, fields, json};

/// A tenant, and what there is beside it.
#[derive(Debug, Clone)]
pub struct TenantRow {
    pub tenant: Arc<Tenant>,
    pub config: Arc<Config>,
}

/// A row of each tenant.
pub fn rows(config: &Arc<Config>) -> Vec<TenantRow> {
    let row =
        |tenant: &Arc<Tenant>| TenantRow { tenant: Arc::clone(tenant), config: Arc::clone(config) };
    config.tenants.values().map(row).collect()
}

/// The table.
pub const FIELDS: &[Field<TenantRow>] = fields! {
    "name", "Name", Text, "Its name", |r| Cell::normal(r.tenant.name.as_str());
    "tenant", "Tenant", Text, "Its name, as lists of other things have it",
        |r| Cell::normal(r.tenant.name.as_str());
    "members", "Members", Other, "Users who act for it", |r| json(&r.tenant.members);
    "machines", "Machines", Other, "Machines that were given to it", |r| json(&r.tenant.machines);
    "machine_count", "MachineCount", Number, "How many", |r| json(&r.tenant.machines.len());
    "machines_max", "MachinesMax", Number, "Most machines",
        |r| json(&r.tenant.limits.machines);
    "port_count", "PortCount", Number, "Ports of switches at its machines",
        |r| json(&r.config.ports_of_tenant(&r.tenant));
    "ports_max", "PortsMax", Number, "Most ports", |r| json(&r.tenant.limits.ports);
    "vlans", "VLANs", Text, "VLANs that its configurations of ports may name",
        |r| Cell::normal(r.tenant.limits.vlans.to_string());
    "jobs_max", "JobsMax", Number, "Most jobs of its in the queue",
        |r| json(&r.tenant.limits.jobs);
    "uuid", "UUID", Text, "Its UUID", |r| Cell::normal(r.tenant.uuid.to_string());
    "serial_no", "SerialNo", Number, "How often it changed", |r| json(&r.tenant.serial_no);
    "ctime", "CTime", Timestamp, "When it was made", |r| json(&r.tenant.ctime);
    "mtime", "MTime", Timestamp, "When it changed last", |r| json(&r.tenant.mtime);
};
