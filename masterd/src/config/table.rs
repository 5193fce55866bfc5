//! Core: the table of objects. One row describes one kind: its changes, its documents, its key, the
//! racks whose documents show it, and its secondary indices.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use jobs::filter::Rule;
use model::asset::{Asset, AssetSerial};
use model::bmc::{BmcAccess, Inspection};
use model::boot_template::{BootTemplate, BootTemplateKey};
use model::cluster::{Cluster, Role};
use model::dhcp::DhcpConfig;
use model::disk_key::{DiskKey, DiskKeyId};
use model::group::Group;
use model::image::{Image, ImageId, RemovedImage};
use model::instance::{Disk, Instance, InstanceSettings};
use model::ipam::IpamConfig;
use model::kernel::KernelParameters;
use model::machine::{LastBoot, Machine, node_uuid};
use model::network::{Claim, ClaimKey, Network, NetworkTemplate, TemplateKey};
use model::node::Node;
use model::power_cycle::PowerCycle;
use model::rack::{Lease, LeaseKey};
use model::shares::RackShares;
use model::switch::{PortConfiguration, PortKey, PortPolicy, Switch, SwitchAccess, SwitchPort};
use model::tenant::Tenant;
use model::token::{Token, TokenDigest};
use model::vault::VaultKeys;
use model::{InstanceName, MacAddress, NodeName, Serial, Timestamp, Uuid, Word, document};

use super::claims::ClaimsBy;
use super::load::{LoadError, below, name, parse};
use super::objects::{Index, Indices, Named as _, Object, Objects};

/// The key and the new content of a document; `None` deletes it.
pub type Document = (String, Option<Bytes>);

/// Generates the configuration, its changes and their documents from the rows.
macro_rules! configuration {
    (
        one {$(
            $(#[$one_doc:meta])+
            $one:ident: $slot:ty {
                change: $One:ident($one_type:ty), at: $at:expr,
                $(racks: |$config:ident| $one_racks:expr,)?
            }
        )+}
        many {$(
            $(#[$doc:meta])+
            $many:ident: $type:ty {
                change: $Put:ident / $Removed:ident, below: $below:expr,
                key: $key_type:ty = |$object:ident| $key:expr,
                $(read: $read:expr,)?
                $(racks: |$shown:ident| $racks:expr,)?
                $(by: $By:ident $({
                    $($(#[$index_doc:meta])+ $index:ident: $value:ty = |$held:ident| $values:expr,)+
                })?,)?
            }
        )+}
    ) => {
        /// All objects. A clone shares its maps with the original, and so costs little.
        #[derive(Debug, Clone)]
        pub struct Config {
            $($(#[$one_doc])+ pub $one: $slot,)+
            $($(#[$doc])+ pub $many: Objects<$type>,)+
        }

        /// Sets or removes one object.
        #[derive(Debug, Clone)]
        pub enum ConfigChange {
            $($(#[$one_doc])+ $One($one_type),)+
            $($(#[$doc])+ $Put($type), $(#[$doc])+ $Removed($key_type),)+
        }

        impl Config {
            pub(super) fn without_objects(($($one),+): ($($slot),+)) -> Self {
                Self { $($one,)+ $($many: Objects::default(),)+ }
            }
        }

        impl Config {
            /// The content of the document of this key, where there is such an object.
            pub(super) fn content(&self, key: &str) -> Option<Bytes> {
                $(if key == $at {
                    return Option::<Arc<$one_type>>::from(self.$one.clone()).map(|o| written(&*o));
                })+
                $(if let Some(name) = name(<$type as Object>::BELOW, key) {
                    let key = <$type as Object>::Key::of_name(name)?;
                    return self.$many.get(&key).map(|object| written(object.as_ref()));
                })+
                None
            }
        }

        impl ConfigChange {
            /// The directories of documents.
            pub(super) const DIRECTORIES: &[&str] = &[$(<$type as Object>::BELOW),+];

            /// The document that the change writes.
            pub fn document(&self) -> Document {
                match self {
                    $(Self::$One(object) => ($at.to_owned(), Some(written(object))),)+
                    $(
                        Self::$Put(object) => {
                            (key_of::<$type>(&object.key()), Some(written(object)))
                        }
                        Self::$Removed(key) => (key_of::<$type>(key), None),
                    )+
                }
            }

            /// The change that wrote this document, or `None` for a key of no object.
            pub(super) fn read(key: &str, content: &[u8]) -> Result<Option<Self>, LoadError> {
                $(if key == $at {
                    return parse(key, content).map(|object| Some(Self::$One(object)));
                })+
                $(if let Some(object) = below::<$type>(key, content)? {
                    return Ok(Some(Self::$Put(object)));
                })+
                Ok(None)
            }

            /// Applies the change and returns the racks whose documents it touches, or `None` if
            /// there was nothing to remove.
            pub(crate) fn enter(self, config: &mut Config) -> Option<Vec<u32>> {
                match self {
                    $(Self::$One(object) => {
                        config.$one = Arc::new(object).into();
                        Some(configuration!(@racks config $(|$config| $one_racks)?))
                    })+
                    $(
                        Self::$Put(object) => {
                            set(&mut config.$many, &object.key(), Some(Arc::new(object)))
                        }
                        Self::$Removed(key) => set(&mut config.$many, &key, None),
                    )+
                }
            }
        }

        $(
            impl Object for $type {
                type Key = $key_type;
                type By = configuration!(@by $($By)?);
                const BELOW: &'static str = $below;

                fn key(&self) -> $key_type {
                    let $object = self;
                    $key
                }

                $(fn racks(&self) -> Vec<u32> {
                    let $shown = self;
                    $racks.into_iter().collect()
                })?

                fn read(_key: &$key_type, content: &[u8]) -> serde_json::Result<Self> {
                    configuration!(@read _key content $($read)?)
                }
            }

            $(configuration!(@indices $type, $By $({
                $($(#[$index_doc])+ $index: $value = |$held| $values,)+
            })?);)?
        )+
    };
    // The indices are written by hand.
    (@indices $type:ty, $By:ident) => {};
    (@indices $type:ty, $By:ident {
        $($(#[$index_doc:meta])+ $index:ident: $value:ty = |$held:ident| $values:expr,)+
    }) => {
        #[doc = concat!("Secondary indices of [`", stringify!($type), "`].")]
        #[derive(Debug, Clone, Default)]
        pub struct $By { $($(#[$index_doc])+ pub $index: Index<$value, $type>,)+ }

        impl Indices<$type> for $By {
            fn set(&mut self, before: Option<&Arc<$type>>, after: Option<&Arc<$type>>) {
                $(self.$index.set(before, after, |$held| Vec::from_iter($values));)+
            }
        }
    };
    (@by) => { () };
    (@by $By:ident) => { $By };
    (@racks $all:ident) => { Vec::new() };
    (@racks $all:ident |$config:ident| $racks:expr) => {{ let $config = &*$all; $racks }};
    (@read $key:ident $content:ident) => { serde_json::from_slice($content) };
    (@read $key:ident $content:ident $read:expr) => { $read($key, $content) };
}

configuration! {
    one {
        /// The cluster as a whole.
        cluster: Arc<Cluster> { change: Cluster(Cluster), at: document::CLUSTER, }
        /// Who is master.
        role: Arc<Role> { change: Role(Role), at: document::ROLE, }
        /// Rules of addresses; none before they are set.
        ipam: Option<Arc<IpamConfig>> {
            change: Ipam(IpamConfig), at: document::IPAM,
            racks: |config| config.served().collect(),
        }
        /// Settings of DHCP; the defaults before they are set.
        dhcp: Option<Arc<DhcpConfig>> {
            change: Dhcp(DhcpConfig), at: document::DHCP,
            racks: |config| config.served().collect(),
        }
        /// Keys of the vault; none before the first master of this version.
        vault: Option<Arc<VaultKeys>> { change: Vault(VaultKeys), at: document::VAULT, }
        /// The number of the last upload of an asset; none before the first one.
        asset_serial: Option<Arc<AssetSerial>> {
            change: AssetSerial(AssetSerial), at: "config/assets",
        }
        /// Kernel parameters of all machines and of roles; none before some are set.
        kernel: Option<Arc<KernelParameters>> {
            change: Kernel(KernelParameters), at: document::KERNEL,
            racks: |config| config.served().collect(),
        }
        /// Which configuration ports have when; none before some is said.
        port_policy: Option<Arc<PortPolicy>> {
            change: PortPolicy(PortPolicy), at: "config/ports",
        }
        /// Settings for instances; the defaults before some are set.
        instance_settings: Option<Arc<InstanceSettings>> {
            change: InstanceSettings(InstanceSettings), at: "config/instances",
        }
    }
    many {
        /// Nodes by name.
        nodes: Node {
            change: Node / NodeRemoved, below: document::NODES,
            key: NodeName = |node| node.name.clone(),
            racks: |node| node.rack,
            by: NodesBy {
                /// The number that no other node ever has.
                id: u64 = |node| [node.id],
                /// The number of the member of the engine that it holds.
                member: u64 = |node| node.member.map(|member| member.id),
                /// The address of its agent.
                address: SocketAddr = |node| [node.rpc_address()],
                /// The rack that its agent serves.
                rack: u32 = |node| node.rack,
                /// The machine that it runs on.
                machine: Serial = |node| node.machine.clone(),
            },
        }
        /// Node groups by the names of their documents.
        groups: Group {
            change: Group / GroupRemoved, below: document::GROUPS,
            key: String = |group| group.key(),
        }
        /// Filter rules of the queue by their ids.
        filters: Rule {
            change: Filter / FilterRemoved, below: document::FILTERS,
            key: String = |rule| rule.document.uuid.clone(),
        }
        /// Images by name and version.
        images: Image {
            change: Image / ImageRemoved, below: document::IMAGES,
            key: ImageId = |image| image.id.clone(),
        }
        /// Versions of images that were removed, and that no other image may have.
        removed_images: RemovedImage {
            change: RemovedImage / RemovedImageForgotten, below: "removed-images",
            key: ImageId = |removed| removed.id.clone(),
        }
        /// Files that machines fetch by name.
        assets: Asset {
            change: Asset / AssetRemoved, below: document::ASSETS,
            key: Word = |asset| asset.name.clone(),
        }
        /// Shares of agents in the lease range of each rack.
        shares: RackShares {
            change: Shares / SharesRemoved, below: "shares",
            key: u32 = |shares| shares.rack,
            racks: |shares| [shares.rack],
        }
        /// Machines by serial.
        machines: Machine {
            change: Machine / MachineRemoved, below: document::MACHINES,
            key: Serial = |machine| machine.serial.clone(),
            racks: |machine| [machine.rack],
            by: MachinesBy {
                /// Ethernet addresses.
                mac: MacAddress = |machine| machine.mac.iter().copied(),
                /// System UUIDs.
                uuid: Uuid = |machine| machine.uuid,
                /// The identities by which ramdisks know them.
                node: Uuid = |machine| [node_uuid(machine.uuid, &machine.serial)],
                /// Addresses of management controllers.
                bmc: Ipv4Addr = |machine| machine.bmc.ipv4.iter().copied(),
                /// Rack, and number within it.
                place: (u32, u32) = |machine| [(machine.rack, machine.index_in_rack)],
                /// Names of the images that it is to boot, now or later.
                image: Word = |machine| machine.images(),
                /// Role.
                role: Arc<str> = |machine| [Arc::from(machine.role.as_str())],
            },
        }
        /// Sealed keys of disks, by machine and disk.
        disk_keys: DiskKey {
            change: DiskKey / DiskKeyRemoved, below: document::CRYPTS,
            key: DiskKeyId = |disk| disk.key(),
            by: DiskKeysBy {
                /// Serial number of the machine.
                serial: Serial = |disk| [disk.serial.clone()],
            },
        }
        /// How management controllers are reached, by machine.
        bmcs: BmcAccess {
            change: Bmc / BmcRemoved, below: document::BMCS,
            key: Serial = |access| access.serial.clone(),
            by: BmcsBy {
                /// Their addresses, where the URL has no name.
                address: IpAddr = |access| access.url.address(),
            },
        }
        /// The hardware that inspections found, by machine.
        inspections: Inspection {
            change: Inspection / InspectionRemoved, below: "inspections",
            key: Serial = |inspection| inspection.serial.clone(),
            by: InspectionsBy {
                /// Ends of its cables: the switch and its port, as LLDP told them.
                neighbour: (String, String) = |inspection| inspection.neighbours(),
            },
        }
        /// The power cycles of machines, by machine.
        power_cycles: PowerCycle {
            change: PowerCycle / PowerCycleRemoved, below: document::POWER_CYCLES,
            key: Serial = |cycle| cycle.serial.clone(),
            racks: |cycle| vec![cycle.rack],
        }
        /// Networks by name.
        networks: Network {
            change: Network / NetworkRemoved, below: document::NETWORKS,
            key: Word = |network| network.name.clone(),
            by: NetworksBy {
                /// The identity that stays.
                uuid: Uuid = |network| [network.uuid],
            },
        }
        /// Claims on addresses, by network and owner.
        claims: Claim {
            change: Claim / ClaimRemoved, below: document::CLAIMS,
            key: ClaimKey = |claim| claim.key(),
            by: ClaimsBy,
        }
        /// Templates of hosts' networks, by name and version.
        network_templates: NetworkTemplate {
            change: NetworkTemplate / NetworkTemplateRemoved, below: "network-templates",
            key: TemplateKey = |template| template.key(),
        }
        /// Templates of what machines boot with, by kind, role and version.
        boot_templates: BootTemplate {
            change: BootTemplate / BootTemplateRemoved, below: document::BOOT_TEMPLATES,
            key: BootTemplateKey = |template| template.key(),
        }
        /// Switches by name.
        switches: Switch {
            change: Switch / SwitchRemoved, below: "switches",
            key: Word = |switch| switch.name.clone(),
            by: SwitchesBy {
                /// The address by which LLDP names it.
                mac: MacAddress = |switch| switch.mac,
            },
        }
        /// How Gantry logs in at switches, by name.
        switch_access: SwitchAccess {
            change: SwitchAccess / SwitchAccessRemoved, below: document::SWITCH_ACCESS,
            key: Word = |access| access.switch.clone(),
        }
        /// Ports by switch and name.
        switch_ports: SwitchPort {
            change: SwitchPort / SwitchPortRemoved, below: "switch-ports",
            key: PortKey = |port| port.key(),
            by: SwitchPortsBy {
                /// Its switch.
                switch: Word = |port| [port.switch.clone()],
                /// The machine that it serves by the operator's word.
                machine: Serial = |port| port.serves.as_ref().map(|served| served.serial.clone()),
                /// The configurations that it names.
                configuration: Word = |port| port.names().cloned().collect::<BTreeSet<_>>(),
            },
        }
        /// Configurations of ports, by name.
        port_configurations: PortConfiguration {
            change: PortConfiguration / PortConfigurationRemoved, below: "port-configurations",
            key: Word = |configuration| configuration.name.clone(),
        }
        /// Tenants by name.
        tenants: Tenant {
            change: Tenant / TenantRemoved, below: "tenants",
            key: Word = |tenant| tenant.name.clone(),
            by: TenantsBy {
                /// The users who act for it.
                member: String = |tenant| tenant.members.clone(),
                /// The machines that were given to it.
                machine: Serial = |tenant| tenant.machines.clone(),
            },
        }
        /// Instances by name.
        instances: Instance {
            change: Instance / InstanceRemoved, below: "instances",
            key: InstanceName = |instance| instance.name.clone(),
            by: InstancesBy {
                /// The identity that stays.
                uuid: Uuid = |instance| [instance.uuid],
                /// The node that runs it.
                primary: NodeName = |instance| [instance.primary_node.clone()],
                /// The nodes between which it moves.
                moving: NodeName = |instance| instance.phase.nodes(),
                /// The name that it is being given.
                renaming: InstanceName = |instance| instance.renaming.clone(),
                /// Ethernet addresses of its NICs.
                mac: MacAddress = |instance| instance.nics.iter().map(|nic| nic.mac),
                /// Addresses of its NICs.
                address: IpAddr = |instance| instance.nics.iter().filter_map(|nic| nic.ip),
                /// The port of its console.
                port: u16 = |instance| instance.network_port,
            },
        }
        /// Disks of instances, by UUID.
        disks: Disk {
            change: Disk / DiskRemoved, below: "disks",
            key: Uuid = |disk| disk.uuid,
            by: DisksBy {
                /// The nodes that keep it.
                node: NodeName = |disk| disk.nodes.clone(),
                /// Those of them that have it beside the node of its instance.
                copy: NodeName = |disk| disk.nodes.iter().skip(1).cloned(),
                /// Its name.
                name: String = |disk| disk.name.clone(),
            },
        }
        /// Tokens of the front door, by name.
        tokens: Token {
            change: Token / TokenRemoved, below: "config/tokens",
            key: Word = |token| token.name.clone(),
            by: TokensBy {
                /// The digest that it is known by.
                sha256: TokenDigest = |token| [token.sha256],
            },
        }
        /// Last boots of machines, by serial.
        boots: LastBoot {
            change: Boot / BootRemoved, below: document::BOOTS,
            key: Serial = |last| last.serial.clone(),
            read: |serial: &Serial, content| {
                let boot = serde_json::from_slice(content)?;
                Ok(LastBoot { serial: serial.clone(), boot })
            },
        }
        /// Leases by rack and Ethernet address.
        leases: Lease {
            change: Lease / LeaseRemoved, below: document::LEASES,
            key: LeaseKey = |lease| lease.key(),
            by: LeasesBy {
                /// Rack and address.
                address: (u32, Ipv4Addr) = |lease| [(lease.rack, lease.address)],
                /// Rack and end.
                end: (u32, Timestamp) = |lease| [(lease.rack, lease.until)],
            },
        }
    }
}

/// The key of the document of an object.
pub(super) fn key_of<T: Object>(key: &T::Key) -> String {
    format!("{}/{}", T::BELOW, key.name())
}

/// The content of the document of an object.
pub(super) fn written(object: &impl serde::Serialize) -> Bytes {
    let mut content =
        serde_json::to_vec(object).expect("objects of the configuration have plain keys");
    content.push(b'\n');
    content.into()
}

fn set<T: Object>(
    objects: &mut Objects<T>,
    key: &T::Key,
    after: Option<Arc<T>>,
) -> Option<Vec<u32>> {
    let before = objects.set(key, after.as_ref());
    let changed = before.is_some() || after.is_some();
    changed.then(|| before.iter().chain(&after).flat_map(|object| object.racks()).collect())
}
