//! Machines and what they need to boot: inventory, life, power, images, templates, addresses, racks. Each
//! subject has its logical units, and the fields of its lists beside them.
//!
//! In reading order: [`machine`] is the inventory and the life of each; [`bmc`] switches them, [`power_cycle`] is
//! what is known of one start; [`observe`] takes in what agents saw. [`image`], [`asset`] and [`kernel`] are what
//! they boot, `boot_template` and `network_template` the documents that they get, [`disk_key`] the keys of
//! their disks. [`ipam`], [`network`], [`dhcp`] and [`lease`] are addresses. [`rack`] is the document that its
//! agents serve, [`stranger`] who is in no inventory.

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
pub mod stranger;
