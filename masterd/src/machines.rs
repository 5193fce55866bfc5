//! Machines and what they need to boot: inventory, life, power, images, templates, addresses, racks. Each
//! subject has its logical units, and the fields of its lists beside them.
//!
//! In reading order: [`machine`] is the inventory and the life of each machine; [`bmc`] switches them.
//! Then [`power_cycle`] is the record of one start; [`observe`] takes in what agents saw. Machines boot
//! [`image`], [`asset`] and [`kernel`]; they get the documents of `boot_template` and
//! `network_template`; [`disk_key`] has the keys of their disks. Addresses are in [`ipam`], [`network`],
//! [`dhcp`] and [`lease`]. A rack's agents serve the document of [`rack`]; a [`unregistered`] is in no
//! inventory.

pub mod asset;
pub mod bmc;
pub(crate) mod boot_template;
pub mod dhcp;
pub mod disk_key;
pub mod image;
pub mod ipam;
pub mod kernel;
pub mod lease;
pub mod machine;
pub mod network;
pub(crate) mod network_template;
pub mod observe;
pub mod power_cycle;
pub mod rack;
pub mod unregistered;
