//! Opcodes on tenants.

use std::collections::BTreeSet;

use jobs::locks::Level;
use model::error::ErrorCode;
use model::opcode::tenant::LimitsTold;
use model::opcode::{TenantAdd, TenantGive, TenantRemove, TenantSetParams, TenantTake};
use model::switch::SwitchPort;
use model::tenant::{Limits, TENANTS_MAX, Tenant};
use model::{Exception, Serial, Timestamp, Uuid};

use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// Things that an error names one by one.
const TOLD_MAX: usize = 5;

impl Config {
    /// The tenant with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn tenant(&self, name: &str) -> Result<&std::sync::Arc<Tenant>, Exception> {
        self.tenants.get(name).ok_or_else(|| {
            let text = format!("Tenant '{name}' not known");
            Exception::prereq(text, ErrorCode::UnknownEntity)
        })
    }
}

/// Commits what `decide` makes of the configuration, and gives the tenant.
async fn commit(
    context: &mut Context,
    decide: impl Fn(&Config) -> Result<(Vec<ConfigChange>, Tenant), Exception> + Send + 'static,
) -> Result<Tenant, Failure> {
    context
        .transact(move |config| {
            let (mut changes, tenant) = decide(config)?;
            changes.push(ConfigChange::Tenant(tenant.clone()));
            Ok((changes, tenant))
        })
        .await
}

/// A tenant that can be, whose users belong to no other one.
fn checked(config: &Config, tenant: Tenant) -> Result<Tenant, Exception> {
    let name = &tenant.name;
    tenant.check().map_err(|error| wrong(format!("tenant {name}: {error}")))?;
    for member in &tenant.members {
        let mut others = config.tenants.by.member.of(member.clone());
        if let Some(other) = others.find(|other| other.name != *name) {
            return Err(wrong(format!(
                "user `{member}` is a member of tenant {} already",
                other.name
            )));
        }
    }
    Ok(tenant)
}

fn told(limits: Limits, told: &LimitsTold) -> Limits {
    let LimitsTold { vlans, machines, ports, jobs } = told.clone();
    Limits {
        vlans: vlans.unwrap_or(limits.vlans),
        machines: machines.unwrap_or(limits.machines),
        ports: ports.unwrap_or(limits.ports),
        jobs: jobs.unwrap_or(limits.jobs),
    }
}

impl LogicalUnit for TenantAdd {
    type Plan = Uuid;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<Uuid, Failure> {
        let uuid = Uuid::new_v4();
        added(self, uuid, &context.config(), context.now())?;
        Ok(uuid)
    }

    async fn exec(self, uuid: Uuid, context: &mut Context) -> Result<Tenant, Failure> {
        let now = context.now();
        commit(context, move |config| Ok((Vec::new(), added(&self, uuid, config, now)?))).await
    }
}

fn added(op: &TenantAdd, uuid: Uuid, config: &Config, now: Timestamp) -> Result<Tenant, Exception> {
    let name = &op.tenant_name;
    if config.tenants.contains_key(name) {
        let text = format!("Tenant '{name}' exists");
        return Err(Exception::prereq(text, ErrorCode::AlreadyExists));
    }
    if config.tenants.len() >= TENANTS_MAX {
        return Err(wrong(format!("there are {TENANTS_MAX} tenants, which is the limit")));
    }
    let tenant = Tenant {
        name: name.clone(),
        uuid,
        serial_no: 1,
        ctime: now,
        mtime: now,
        members: op.members.clone(),
        machines: BTreeSet::new(),
        limits: told(Limits::default(), &op.limits),
    };
    if let Some(other) = config.port_configurations.keys().find(|one| tenant.owns(one.as_str())) {
        return Err(wrong(format!(
            "port configuration {other} would belong to it by its name; remove that first, or choose another \
             name"
        )));
    }
    checked(config, tenant)
}

impl LogicalUnit for TenantSetParams {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        changed(self, &context.config(), context.now())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Tenant, Failure> {
        let now = context.now();
        commit(context, move |config| Ok((Vec::new(), changed(&self, config, now)?))).await
    }
}

pub(super) fn changed(
    op: &TenantSetParams,
    config: &Config,
    now: Timestamp,
) -> Result<Tenant, Exception> {
    let mut tenant = config.tenant(&op.tenant_name)?.as_ref().clone();
    (tenant.serial_no, tenant.mtime) = (tenant.serial_no + 1, now);
    tenant.members.extend(op.add_members.iter().cloned());
    for member in &op.remove_members {
        if !tenant.members.remove(member) {
            return Err(wrong(format!("user `{member}` is no member of tenant {}", tenant.name)));
        }
    }
    tenant.limits = told(tenant.limits, &op.limits);
    has_room(config, &tenant)?;
    checked(config, tenant)
}

/// Refuses a tenant that has more than its limits let it.
fn has_room(config: &Config, tenant: &Tenant) -> Result<(), Exception> {
    let Limits { machines, ports, .. } = tenant.limits;
    let name = &tenant.name;
    let has = [
        ("machines", tenant.machines.len(), machines),
        ("ports", config.ports_of_tenant(tenant), ports),
    ];
    match has.into_iter().find(|(_, has, most)| *has > *most as usize) {
        None => Ok(()),
        Some((what, has, most)) => Err(wrong(format!(
            "tenant {name} would have {has} {what}, and may have {most}; an administrator changes that: `gnt \
             tenant modify {name} --{what}`"
        ))),
    }
}

impl LogicalUnit for TenantRemove {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        removable(&self.tenant_name, &context.config())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        context
            .transact(move |config| {
                let tenant = removable(&self.tenant_name, config)?;
                Ok((vec![ConfigChange::TenantRemoved(tenant.name)], ()))
            })
            .await
    }
}

fn removable(name: &str, config: &Config) -> Result<Tenant, Exception> {
    let tenant = config.tenant(name)?.as_ref().clone();
    let machines = tenant.machines.iter().map(|serial| format!("machine {serial}"));
    let configurations = config.port_configurations.keys().filter(|one| tenant.owns(one.as_str()));
    let configurations = configurations.map(|one| format!("port configuration {one}"));
    let has: Vec<String> = machines.chain(configurations).take(TOLD_MAX).collect();
    if has.is_empty() {
        return Ok(tenant);
    }
    let text = format!(
        "tenant {name} has {}; take its machines by `gnt tenant take`, and remove its configurations",
        has.join(", ")
    );
    Err(Exception::prereq(text, ErrorCode::WrongState))
}

impl LogicalUnit for TenantGive {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        given(self, &context.config(), context.now())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Tenant, Failure> {
        let now = context.now();
        commit(context, move |config| given(&self, config, now)).await
    }
}

pub(super) fn given(
    op: &TenantGive,
    config: &Config,
    now: Timestamp,
) -> Result<(Vec<ConfigChange>, Tenant), Exception> {
    let mut changes = Vec::new();
    let mut tenant = config.tenant(&op.tenant_name)?.as_ref().clone();
    if op.machines.is_empty() {
        return Err(wrong("name the machines"));
    }
    for serial in &op.machines {
        let machine = config.machine(serial.as_str())?;
        match config.tenant_of_machine(&machine.serial) {
            Some(other) if other.name != tenant.name => {
                return Err(wrong(format!(
                    "machine {serial} is one of tenant {} already",
                    other.name
                )));
            }
            Some(_) | None => {}
        }
        if let Some(node) = config.node_on(&machine.serial) {
            return Err(wrong(format!(
                "machine {serial} is the cluster's own: node {}",
                node.name
            )));
        }
        changes.extend(pinned(config, &machine.serial));
        tenant.machines.insert(machine.serial.clone());
    }
    (tenant.serial_no, tenant.mtime) = (tenant.serial_no + 1, now);
    has_room(config, &tenant)?;
    Ok((changes, tenant))
}

impl LogicalUnit for TenantTake {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        taken(self, &context.config(), context.now())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Tenant, Failure> {
        let now = context.now();
        commit(context, move |config| taken(&self, config, now)).await
    }
}

pub(super) fn taken(
    op: &TenantTake,
    config: &Config,
    now: Timestamp,
) -> Result<(Vec<ConfigChange>, Tenant), Exception> {
    let mut tenant = config.tenant(&op.tenant_name)?.as_ref().clone();
    if op.machines.is_empty() {
        return Err(wrong("name the machines"));
    }
    let mut changes = Vec::new();
    for serial in &op.machines {
        if !tenant.machines.remove(serial) {
            return Err(wrong(format!("machine {serial} is none of tenant {}", tenant.name)));
        }
        let state = config.machines.get(serial).map(|machine| machine.life.state);
        if let Some(state) = state.filter(|state| state.status().is_in_service() && !op.force) {
            let text = format!("machine {serial} is {state}; retire it first, or give --force");
            return Err(Exception::prereq(text, ErrorCode::WrongState));
        }
        changes.extend(unlinked(config, serial, &tenant));
    }
    (tenant.serial_no, tenant.mtime) = (tenant.serial_no + 1, now);
    Ok((changes, tenant))
}

/// The ports behind which LLDP alone says that a machine is: from now on that is the operator's word, as a
/// tenant's system may tell what it likes.
fn pinned<'c>(config: &'c Config, serial: &Serial) -> impl Iterator<Item = ConfigChange> + 'c {
    config.ports_of(serial).into_iter().filter_map(|key| {
        let port = config.switch_ports.get(&key).filter(|port| port.serves.is_none())?;
        let serves = config.behind(&key).served().cloned();
        Some(ConfigChange::SwitchPort(SwitchPort { serves, ..port.as_ref().clone() }))
    })
}

/// The ports of a machine without the configurations of a tenant.
fn unlinked<'c>(
    config: &'c Config,
    serial: &Serial,
    tenant: &'c Tenant,
) -> impl Iterator<Item = ConfigChange> + 'c {
    config.ports_of(serial).into_iter().filter_map(|key| {
        let port = config.switch_ports.get(&key)?;
        let mut next: SwitchPort = port.as_ref().clone();
        next.phases.retain(|_, name| !tenant.owns(name.as_str()));
        next.set = next.set.filter(|name| !tenant.owns(name.as_str()));
        (next != **port).then_some(ConfigChange::SwitchPort(next))
    })
}
