//! Describes instances whole, as Ganeti's `gnt-instance info` asks for it.

use std::sync::Arc;

use jobs::locks::Level;
use model::Exception;
use model::group::Group;
use model::instance::state::{AdminState, Status};
use model::instance::{Disk, Instance, Nic};
use model::opcode::InstanceQueryData;
use serde_json::{Map, Value, json};

use super::copies;
use super::fields::{InstanceRow, Rows};
use crate::config::Config;
use crate::units::list::seconds;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for InstanceQueryData {
    type Plan = Vec<Arc<Instance>>;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<Vec<Arc<Instance>>, Failure> {
        let config = context.config();
        if self.instances.is_empty() {
            return Ok(config.instances.values().cloned().collect());
        }
        let named = self.instances.iter().map(|name| config.instance(name).cloned());
        Ok(named.collect::<Result<_, _>>()?)
    }

    async fn exec(
        self,
        instances: Vec<Arc<Instance>>,
        context: &mut Context,
    ) -> Result<Value, Failure> {
        let config = context.config();
        let mut rows = Rows::new(&config, context.contacts(), context.now());
        let mut told = Map::new();
        for instance in &instances {
            let row = rows.row(instance);
            told.insert(instance.name.to_string(), described(&row, self.only_static));
        }
        Ok(told.into())
    }
}

/// All that is known of an instance.
fn described(row: &InstanceRow, only_static: bool) -> Value {
    let InstanceRow { instance, config, settings, stands } = row;
    let node = config.nodes.get(&instance.primary_node);
    let group = node.map(|node| config.group_of(node));
    let is_of_user = stands.status() == Some(Status::UserDown);
    let run_state = stands.is_alive().filter(|_| !only_static).map(|alive| match alive {
        true => "up",
        false if is_of_user => "user down",
        false if instance.admin_state == AdminState::Up => "down",
        false => instance.admin_state.as_str(),
    });
    let disks: Vec<Value> =
        (0..).zip(config.disks_of(instance)).map(|(place, one)| disk(row, place, one)).collect();
    let groups = |of: fn(&Group) -> &String| copies::groups(config, instance, of);
    let nics: Vec<Value> = instance.nics.iter().map(|one| nic(row, one)).collect();
    json!({
        "name": instance.name,
        "config_state": instance.admin_state,
        "run_state": run_state,
        "pnode": instance.primary_node,
        "pnode_group_uuid": group.map(|group| &group.uuid),
        "pnode_group_name": group.map(|group: &Group| &group.name),
        "snodes": copies::others(config, instance),
        "snodes_group_uuids": groups(|group| &group.uuid),
        "snodes_group_names": groups(|group| &group.name),
        "os": instance.os,
        "nics": nics,
        "disk_template": instance.disk_template,
        "disks": disks,
        "hypervisor": instance.hypervisor,
        "network_port": instance.network_port,
        "hv_instance": instance.hvparams,
        "hv_actual": settings.hypervisor_of(instance),
        "be_instance": instance.beparams,
        "be_actual": settings.backend_of(instance),
        "os_instance": instance.osparams,
        "os_actual": settings.system_of(instance),
        "serial_no": instance.serial_no,
        "mtime": seconds(instance.mtime),
        "ctime": seconds(instance.ctime),
        "uuid": instance.uuid,
    })
}

fn disk(row: &InstanceRow, place: usize, disk: &Disk) -> Value {
    let told = row.stands.sight.iter().flat_map(|sight| &sight.copies);
    let state = told.filter(|copy| copy.disk == disk.uuid).map(|copy| &copy.state).next();
    let others = disk.nodes.iter().filter(|node| **node != row.instance.primary_node);
    let copies: Vec<Value> = others
        .map(|node| {
            let since = disk.stale.get(node).map(|since| seconds(*since));
            json!({"node": node, "stale_since": since, "run": state})
        })
        .collect();
    json!({
        "copies": copies,
        "iv_name": format!("disk/{place}"),
        "dev_type": disk.place.template(),
        "logical_id": disk.place.logical_id(),
        "drbd_info": null,
        "pstatus": null,
        "sstatus": null,
        "children": [],
        "mode": disk.mode,
        "size": disk.size,
        "spindles": disk.spindles,
        "name": disk.name,
        "uuid": disk.uuid,
    })
}

/// A NIC as a list: name, UUID, address, Ethernet address, mode, link, VLAN, network, and what that is.
fn nic(row: &InstanceRow, nic: &Nic) -> Value {
    let parameters = row.settings.nic_of(nic);
    let of = |name: &str| parameters.get(name).cloned().unwrap_or_default();
    let network = nic.network.as_ref().and_then(|name| row.config.networks.get(name));
    let told = network.map(|network| {
        json!({"name": network.name, "uuid": network.uuid, "network": network.subnet(true).map(|s| s.prefix),
               "gateway": network.subnet(true).and_then(|s| s.gateway), "network6": network.subnet(false).map(|s| s.prefix),
               "gateway6": network.subnet(false).and_then(|s| s.gateway), "mac_prefix": network.mac_prefix,
               "tags": network.tags})
    });
    json!([
        nic.name,
        nic.uuid,
        nic.ip,
        nic.mac,
        of("mode"),
        of("link"),
        of("vlan"),
        network.map(|network| network.uuid),
        told
    ])
}
